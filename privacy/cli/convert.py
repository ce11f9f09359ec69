"""`dpcalib convert`: convert between epsilon, rho, mu and sigma of one Gaussian release."""

from privacy.answers import conversions as answers
from privacy.answers.records import Record
from privacy.cli.output import table
from privacy.cli.questions import command

_HELP = """Convert between epsilon, rho, mu and sigma.

epsilon is that of (epsilon, delta)-DP at --delta, rho of zCDP, mu of Gaussian
DP, and sigma the noise standard deviation of one Gaussian release.

With --conversion optimal or classic, epsilon holds for every rho-zCDP
mechanism. With --conversion gaussian, epsilon is exact and holds only for
Gaussian noise. mu and sigma hold only for Gaussian noise.
"""


def _show(answer: Record) -> None:
    # From an epsilon or rho, mu and rho are budgets: rounding them up would overspend.
    table(answer, down=("rho", "mu") if answer["given"] in {"epsilon", "rho"} else ())


convert = command(answers.convert, answers.CONVERT, _HELP, show=_show)
