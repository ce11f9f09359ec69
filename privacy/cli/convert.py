"""`dpcalib convert`: convert between epsilon, rho, mu and sigma of one Gaussian release."""

from privacy.answers import conversions as answers
from privacy.cli.questions import command

_HELP = """Convert between epsilon, rho, mu and sigma.

epsilon belongs to (epsilon, delta)-DP at --delta, rho to zCDP, and mu to
Gaussian DP. sigma is the noise standard deviation of one Gaussian release.
mu and sigma hold only for Gaussian noise.
"""

convert = command(answers.convert, answers.CONVERT, _HELP)
