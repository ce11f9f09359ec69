"""The `dpcalib` command: parse options, call `privacy.answers`, print text or JSON."""

from privacy.cli.app import main

__all__ = ["main"]
