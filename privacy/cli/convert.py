"""`dpcalib convert`: epsilon, rho, mu and sigma of one Gaussian release."""

from privacy.answers import conversions as answers
from privacy.answers.records import Record
from privacy.cli.output import table
from privacy.cli.questions import command

_HELP = """Convert between epsilon, rho, mu and sigma.

Epsilon is that of differential privacy at --delta, rho that of zCDP, mu that
of Gaussian DP, and sigma the noise of one Gaussian release.

An epsilon by --conversion optimal or classic holds for every rho-zCDP
mechanism; by --conversion gaussian it is exact and holds for Gaussian
noise alone. mu and sigma hold for Gaussian noise alone.
"""


def _show(answer: Record) -> None:
    # what follows from a budget is a budget: rounding it up would overspend
    table(answer, down=("rho", "mu") if answer["given"] in {"epsilon", "rho"} else ())


convert = command(answers.convert, answers.CONVERT, _HELP, show=_show)
