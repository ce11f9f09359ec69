"""`dpcalib explain`: a privacy statement in prose."""

import click

from privacy.answers import statements as answers
from privacy.answers.records import Record
from privacy.cli.output import filled, width
from privacy.cli.questions import command

_HELP = """State a guarantee in prose.

The statement names the neighboring data sets, gives epsilon for Poisson
sampling and for shuffled or fixed-size batches, and lists what is not covered.
Given an --epsilon, it is about the smallest noise that meets it.
"""


def _show(answer: Record) -> None:
    click.echo(filled(answer["statement"], min(width() or 80, 88)))


explain = command(answers.explain, answers.EXPLAIN, _HELP, show=_show)
