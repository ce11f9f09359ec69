"""`dpcalib`: parse options, call the public function, print text or JSON."""

from privacy.cli.app import main

__all__ = ["main"]
