"""Gaussian differential privacy (GDP): the exact profile of composed Gaussians.

Composed Gaussians have exactly the privacy of ONE with mu^2 = sum of (shift / noise_multiplier)^2
(Dong, Roth and Su 2022, Corollary 3.3). Profile: Balle and Wang 2018, Theorem 8.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from privacy import checks
from privacy.curves import NO_HINT, Answer, Curve, Hint
from privacy.losses.claims import NO_LOSS
from privacy.losses.gaussian import GaussianPair
from privacy.losses.pair import Loss
from privacy.numerics.normal import log_tail, quantile
from privacy.numerics.rounding import U, exp_up, least, ratio_up, round_up, sum_up
from privacy.relations import REPLACE_ONE, NeighboringRelation
from privacy.risk import GaussianBound, remainder_of

if TYPE_CHECKING:
    from privacy.tradeoffs import Array

_ROUNDING = 4 * U


@dataclass(frozen=True, eq=False, repr=False)
class GaussianCurve(Curve):
    """mu-GDP: the trade-off between N(0, 1) and N(mu, 1); mu^2 >= 0 adds under composition."""

    notion: ClassVar[str] = "gaussian"
    theorem: ClassVar[str] = "Balle and Wang 2018, Theorem 8; Dong, Roth and Su 2022, Corollary 3.3"
    exact = True
    mu_squared: float

    @property
    def mu(self) -> float:
        """An upper bound on mu, within a few units in the last place."""
        return round_up(math.sqrt(self.mu_squared), _ROUNDING)

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        if not self.mu_squared:
            return self._answer(-math.inf)
        return self._answer(GaussianPair(self.mu_squared).profile.log_delta(epsilon))

    def _at_delta(self, delta: float) -> Answer:
        return super()._at_delta(delta) if self.mu_squared else self._answer(0.0)

    def _least_delta(self) -> float:
        return super()._least_delta() if self.mu_squared else 0.0

    def _true_positive_rates(self, rates: "Array") -> "tuple[Array, Array]":
        from privacy.tradeoffs import gaussian_rates

        return gaussian_rates(self.mu, rates)

    def _rate_alone(self, rate: float) -> float:
        """Return Phi(Phi^-1(a) + mu), rounded up."""
        if not 0 < rate < 1 or not self.mu_squared:
            return float(rate)
        quantile_up = quantile(rate)
        quantile_up += 8 * U * (1 + abs(quantile_up))
        x = math.nextafter(self.mu + quantile_up, math.inf)
        log_rate = log_tail(-x)
        return max(rate, min(exp_up(log_rate, 4 * U * (1 + x * x)), 1.0))

    def gaussian_bound(self, remainder: float = 1e-10) -> GaussianBound:
        """Return mu itself, with no regret and no remainder."""
        remainder_of(remainder)
        return GaussianBound(self.mu, 0.0, 0.0)

    def _plus(self, others: Sequence["GaussianCurve"]) -> "GaussianCurve":
        return GaussianCurve(self.relation, sum_up(curve.mu_squared for curve in (self, *others)))

    def _times(self, count: int) -> "GaussianCurve":
        return GaussianCurve(self.relation, sum_up([count * self.mu_squared]))

    def _worst_of(self, other: "GaussianCurve") -> "GaussianCurve":
        """Return the curve with the larger mu: Gaussian trade-off functions never cross."""
        return GaussianCurve(self.relation, max(self.mu_squared, other.mu_squared))

    def _moved(self, other: "GaussianCurve") -> "GaussianCurve":
        return GaussianCurve(REPLACE_ONE, (self + other).mu_squared)

    def _group(self, size: int) -> "GaussianCurve":
        """Return size * mu (Dong, Roth and Su 2022, Theorem 2.14)."""
        if not self.mu_squared:
            return self
        return GaussianCurve(self.relation, round_up(size * (size * self.mu_squared), _ROUNDING))


def curve(loss: Loss, relation: NeighboringRelation) -> GaussianCurve | None:
    """Return the curve of one Gaussian."""
    if loss == NO_LOSS:
        return GaussianCurve(relation, 0.0)
    if not isinstance(loss, GaussianPair):
        return None
    return GaussianCurve(relation, round_up(loss.mu_squared, _ROUNDING))


_MULTIPLIER = "Pass the standard deviation of the noise divided by the clip norm."


def mu_from_noise_multiplier(noise_multiplier: float) -> float:
    """Return mu = 1 / noise_multiplier of one Gaussian, rounded up.

    For a sensitivity of one clip norm (ADD_OR_REMOVE_ONE or REPLACE_SPECIAL).
    """
    noise_multiplier = checks.real("noise_multiplier", noise_multiplier, _MULTIPLIER, above=0)
    return ratio_up(1.0, noise_multiplier)


def noise_multiplier_from_mu(mu: float) -> float:
    """Return noise_multiplier = 1 / mu, rounded up (conservative)."""
    return ratio_up(1.0, checks.real("mu", mu, "Pass the mu of mu-GDP.", above=0))


def mu_from_rho(rho: float) -> float:
    """Return mu = sqrt(2 rho) of the Gaussian mechanism with that rho, rounded down.

    That Gaussian mechanism costs at most rho. In general, rho-zCDP does not imply mu-GDP.
    """
    rho = checks.real("rho", rho, "Pass the rho of a Gaussian mechanism.", above=0)
    guess = math.sqrt(2) * math.sqrt(rho)
    above = least(guess, lambda mu: Fraction(mu) ** 2 > 2 * Fraction(rho))
    return math.nextafter(above, 0.0)
