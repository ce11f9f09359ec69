"""`dpcalib explain`: print a privacy statement."""

import click

from privacy.answers import statements as answers
from privacy.answers.records import Record
from privacy.cli.output import filled, width
from privacy.cli.questions import command

_HELP = """Print a privacy statement.

The statement defines the neighboring data sets, gives epsilon for the sampler
and for batches drawn in other ways, and lists what is not covered. With
--epsilon, it describes the smallest noise that meets that target.
"""


def _show(answer: Record) -> None:
    click.echo(filled(answer["statement"], min(width() or 80, 88)))


explain = command(answers.explain, answers.EXPLAIN, _HELP, show=_show)
