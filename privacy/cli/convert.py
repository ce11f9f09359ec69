"""`dpcalib convert`: convert between epsilon, rho, mu and sigma of one Gaussian release."""

from privacy.answers import conversions as answers
from privacy.cli.questions import command

_HELP = """Convert between epsilon, rho, mu and sigma.

epsilon is that of (epsilon, delta)-DP at --delta, rho of zCDP, mu of Gaussian
DP, and sigma the noise standard deviation of one Gaussian release.

With --conversion optimal or classic, epsilon holds for every rho-zCDP
mechanism. With --conversion gaussian, epsilon is exact and holds only for
Gaussian noise. mu and sigma hold only for Gaussian noise.
"""

convert = command(answers.convert, answers.CONVERT, _HELP)
