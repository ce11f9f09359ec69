"""Gaussian differential privacy: the exact profile of any number of Gaussians.

A tree of Gaussian mechanisms has exactly the privacy of ONE with
mu^2 = sum of (shift / noise_multiplier)^2 (Dong, Roth and Su 2022, Corollary 3.3), and
mu-GDP has the profile of Balle and Wang 2018, Theorem 8.
"""

import math
from collections.abc import Sequence
from fractions import Fraction

from privacy import _checks
from privacy._solve import least, ratio_up, round_up, sum_up
from privacy.accounting import rule
from privacy.guarantees import Curve
from privacy.mechanisms import Gaussian
from privacy.notions._profiles import GaussianProfile
from privacy.notions._trees import mu_squared
from privacy.relations import NeighboringRelation

_ROUNDING = 4 * 2.0**-53


class GaussianCurve(Curve):
    """mu-GDP: the trade-off between N(0, 1) and N(mu, 1).

    Parameters
    ----------
    mu_squared
        mu^2 >= 0, which adds up under composition.
    relation
        The neighbouring relation.
    """

    notion = "gaussian"
    theorem = "Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 3.3"
    exact = True

    def __init__(self, mu_squared: float, relation: NeighboringRelation) -> None:
        self.mu_squared = mu_squared
        self.relation = relation

    @property
    def mu(self) -> float:
        """An upper bound of mu, one unit in the last place above."""
        return round_up(math.sqrt(self.mu_squared), _ROUNDING)

    def _log_delta(self, epsilon: float) -> float:
        return GaussianProfile(self.mu).log_delta(epsilon)

    def _plus(self, others: Sequence["GaussianCurve"]) -> "GaussianCurve":
        """Return the curve of all: mu^2 adds."""
        squared = sum_up(curve.mu_squared for curve in (self, *others))
        return GaussianCurve(squared, self.relation)

    def _times(self, count: int) -> "GaussianCurve":
        """Return the curve of `count` releases."""
        return GaussianCurve(round_up(count * self.mu_squared), self.relation)

    def _worst_of(self, other: "GaussianCurve") -> "GaussianCurve":
        """Return the larger of the two: Gaussian trade-off curves never cross."""
        return self if self.mu_squared >= other.mu_squared else other

    def _moved(self, other: "GaussianCurve") -> "GaussianCurve":
        """Return the REPLACE_ONE curve of a record that changes its cell."""
        both = self + other
        return GaussianCurve(both.mu_squared, NeighboringRelation.REPLACE_ONE)

    def _group(self, size: int) -> "GaussianCurve":
        """Return size * mu (Dong, Roth and Su 2022, Theorem 2.14)."""
        return GaussianCurve(round_up(size * (size * self.mu_squared), _ROUNDING), self.relation)


@rule("gaussian", Gaussian)
def _gaussian(mechanism: Gaussian, relation: NeighboringRelation) -> GaussianCurve:
    mu = mu_squared(mechanism, relation)
    assert mu is not None
    return GaussianCurve(round_up(mu, _ROUNDING), relation)


_MULTIPLIER = "Pass the standard deviation of the noise divided by the clip norm."


def mu_from_noise_multiplier(noise_multiplier: float) -> float:
    """Return mu = 1 / noise_multiplier of one Gaussian, rounded up.

    The record's contribution moves the query by at most one clip norm
    (ADD_OR_REMOVE_ONE or REPLACE_SPECIAL).
    """
    noise_multiplier = _checks.real("noise_multiplier", noise_multiplier, _MULTIPLIER, above=0)
    return ratio_up(1.0, noise_multiplier)


def noise_multiplier_from_mu(mu: float) -> float:
    """Return noise_multiplier = 1 / mu, rounded up (the private side)."""
    return ratio_up(1.0, _checks.real("mu", mu, "Pass the mu of mu-GDP.", above=0))


def mu_from_rho(rho: float) -> float:
    """Return the mu = sqrt(2 rho) of the Gaussian mechanism with that rho.

    Only for a Gaussian mechanism: rho-zCDP alone does not imply mu-GDP. Rounded down, so
    that spending mu spends no more than rho.
    """
    rho = _checks.real("rho", rho, "Pass the rho of a Gaussian mechanism.", above=0)
    guess = math.sqrt(2) * math.sqrt(rho)
    above = least(guess, lambda mu: mu * mu > 2 * Fraction(rho))
    return math.nextafter(above, 0.0)
