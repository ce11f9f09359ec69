"""Zero-concentrated differential privacy (zCDP) and its conversions to (epsilon, delta).

rho-zCDP bounds the Rényi divergence of every order a > 1 by a rho (Bun and Steinke 2016).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, get_args

from privacy import checks
from privacy.curves import NO_HINT, Answer, Curve, Hint
from privacy.losses.claims import NO_LOSS
from privacy.losses.pair import Loss, MomentBound
from privacy.notions.gaussian import GaussianCurve
from privacy.numerics import rounding
from privacy.numerics.rounding import U, exp_up, least, round_up, sum_up
from privacy.numerics.solve import safe_root
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

Conversion = Literal["optimal", "classic", "gaussian"]

_RHO = "Pass the rho of rho-zCDP, such as rho=0.1."


def _check_conversion(conversion: str) -> None:
    remedy = "Use 'optimal' for any zCDP mechanism, 'gaussian' only for Gaussian noise."
    checks.one_of("conversion", conversion, get_args(Conversion), remedy)


def _gaussian_curve(rho: float) -> GaussianCurve:
    # the conversion is the same under every relation
    return GaussianCurve(ADD_OR_REMOVE_ONE, 2 * rho)


def _best_order_for_delta(rho: float, log_inverse_delta: float) -> float:
    """Return a - 1 for the best order a: the root of rho x^2 + log(1 + x) = log(1/delta)."""
    # both starts are above the root, where Newton's method decreases monotonically; few steps
    # suffice, since every order is valid and the bound is flat near the best one
    x = min(math.sqrt(log_inverse_delta / rho), math.expm1(min(log_inverse_delta, 700.0)))
    for _ in range(60):
        excess = rho * x * x + math.log1p(x) - log_inverse_delta
        step = excess / (2 * rho * x + 1 / (1 + x))
        x = max(x - step, x / 16)
        if abs(step) <= 1e-9 * x:
            break
    return x


def _epsilon_at(rho: float, delta: float, x: float) -> float:
    loss, gain = (1 + x) * rho, -math.log1p(1 / x)
    # log(1 - 1/a) = -log(1 + 1/x)
    mass = -(math.log1p(x) + math.log(delta)) / x
    rounding = U * (8 * (loss - gain + abs(mass)) + 4 * abs(math.log(delta)) / x)
    return loss + gain + mass + rounding


def _best_order_for_epsilon(rho: float, epsilon: float) -> float:
    """Return a - 1 for the best order: the root of (2a - 1) rho + log(1 - 1/a) = epsilon."""

    def excess(log_x: float) -> float:
        x = math.exp(log_x)
        return (1 + 2 * x) * rho - math.log1p(1 / x) - epsilon

    low, high = -1.0, 1.0
    while excess(low) > 0 and low > -700:
        low = max(2 * low, -700.0)
    while excess(high) < 0 and high < 700:
        high = min(2 * high, 700.0)
    best = math.exp(safe_root(excess, low, high, rtol=1e-10))
    # larger orders are valid too, but the rounding of x epsilon would be significant
    return min(best, 1e12 / max(epsilon, 1e-290))


def _log_delta_at(rho: float, epsilon: float, x: float) -> float:
    order = 1 + x
    loss, gain = x * (order * rho - epsilon), -x * math.log1p(1 / x)
    rounding = 8 * U * (x * (order * rho + epsilon) - gain + math.log1p(x) + 1)
    return loss + gain - math.log1p(x) + rounding


def epsilon_from_rho(rho: float, delta: float, *, conversion: Conversion = "optimal") -> float:
    """Return the epsilon that rho-zCDP, rho > 0, guarantees at `delta` in [0, 1), rounded up.

    A delta of 0 gives infinity. `conversion` is ``"optimal"``: min over a > 1 of
    a rho + log(1 - 1/a) - log(a delta)/(a - 1) (Canonne, Kamath and Steinke 2020, Proposition 12),
    at least 0; ``"classic"``: rho + 2 sqrt(rho log(1/delta)) (Bun and Steinke 2016, Proposition
    1.3), valid but loose; or ``"gaussian"``: exact, only for Gaussian noise (mu = sqrt(2 rho)).
    """
    _check_conversion(conversion)
    rho = checks.real("rho", rho, _RHO, above=0)
    delta = checks.query_delta(delta)
    if delta == 0:
        return math.inf
    if conversion == "gaussian":
        return _gaussian_curve(rho).epsilon(delta)
    if conversion == "classic":
        return round_up(rho + 2 * math.sqrt(rho * -math.log(delta)), 8 * U)
    x = _best_order_for_delta(rho, -math.log(delta))
    return max(0.0, math.nextafter(_epsilon_at(rho, delta, x), math.inf))


def delta_from_rho(rho: float, epsilon: float, *, conversion: Conversion = "optimal") -> float:
    """Return the delta that rho-zCDP, rho > 0, guarantees at `epsilon` >= 0, rounded up.

    `conversion` is ``"optimal"``: min over a > 1 of
    exp((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1/a)^a (Canonne, Kamath and Steinke 2020, Corollary
    13); ``"classic"``: exp(-(epsilon - rho)^2 / (4 rho)) for epsilon > rho, else 1; or
    ``"gaussian"``: exact, only for Gaussian noise (mu = sqrt(2 rho)).
    """
    _check_conversion(conversion)
    rho = checks.real("rho", rho, _RHO, above=0)
    epsilon = checks.query_epsilon(epsilon)
    if conversion == "gaussian":
        return _gaussian_curve(rho).delta(epsilon)
    if conversion == "classic":
        if epsilon <= rho:
            return 1.0
        gap = (epsilon - rho) / math.sqrt(rho)
        return exp_up(-0.25 * gap * gap, 8 * U * (1 + gap * (epsilon + rho) / math.sqrt(rho)))
    return exp_up(_log_delta_at(rho, epsilon, _best_order_for_epsilon(rho, epsilon)))


def rho_from_epsilon(epsilon: float, delta: float, *, conversion: Conversion = "optimal") -> float:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP, rounded down.

    epsilon > 0, delta in (0, 1). `conversion` is ``"optimal"``: inverse of `epsilon_from_rho`;
    ``"classic"``: (sqrt(epsilon + L) - sqrt(L))^2, L = log(1/delta); or ``"gaussian"``: the exact
    inverse, only for Gaussian noise.

    Examples
    --------
    >>> round(rho_from_epsilon(1, 1e-5, conversion="classic"), 6)
    0.02082
    """
    _check_conversion(conversion)
    epsilon, delta = checks.epsilon(epsilon), checks.delta(delta)
    inverse = -math.log(delta)
    root = epsilon / (math.sqrt(epsilon + inverse) + math.sqrt(inverse))
    classic = rounding.round_down(root * root, 16 * U)
    if conversion == "classic" or classic == 0:
        return classic

    def excess(rho: float) -> float:
        if conversion == "gaussian":
            return _gaussian_curve(rho).epsilon(delta) - epsilon
        return _epsilon_at(rho, delta, _best_order_for_delta(rho, inverse)) - epsilon

    safe, unsafe = classic, 2 * classic
    while excess(unsafe) <= 0:
        safe, unsafe = unsafe, 2 * unsafe
    return safe_root(excess, safe, unsafe)


def rho_from_noise_multiplier(noise_multiplier: float) -> float:
    """Return rho = 1 / (2 noise_multiplier^2) of one Gaussian, rounded up.

    For a sensitivity of one clip norm (Bun and Steinke 2016, Proposition 1.6).
    """
    remedy = "Pass the standard deviation of the noise divided by the clip norm."
    noise_multiplier = checks.real("noise_multiplier", noise_multiplier, remedy, above=0)
    ratio = rounding.ratio_up(1.0, noise_multiplier)
    if not 1e-150 < ratio < 1e154:
        return math.inf if ratio > 1 else math.ulp(0.0)
    square = Fraction(noise_multiplier) ** 2
    return least(0.5 * ratio * ratio, lambda rho: 2 * Fraction(rho) * square >= 1)


def noise_multiplier_from_rho(rho: float) -> float:
    """Return noise_multiplier = 1 / sqrt(2 rho), rounded up (conservative)."""
    rho = checks.real("rho", rho, _RHO, above=0)
    guess = math.sqrt(0.5) / math.sqrt(rho)
    return least(guess, lambda multiplier: 2 * Fraction(rho) * Fraction(multiplier) ** 2 >= 1)


def rho_from_mu(mu: float) -> float:
    """Return rho = mu^2 / 2, rounded up: mu-GDP implies rho-zCDP."""
    mu = checks.real("mu", mu, "Pass the mu of mu-GDP.", above=0)
    if not 1e-150 < mu < 1e154:
        return math.inf if mu > 1 else math.ulp(0.0)
    return least(0.5 * mu * mu, lambda rho: 2 * Fraction(rho) >= Fraction(mu) ** 2)


@dataclass(frozen=True, eq=False, repr=False)
class ZeroConcentratedCurve(Curve):
    """rho-zCDP: a Rényi divergence of at most order * rho at every order > 1.

    rho >= 0 adds up. `known`: only rho is known of the mechanism; no other method is tighter.
    """

    notion: ClassVar[str] = "zcdp"
    theorem: ClassVar[str] = "Canonne, Kamath and Steinke 2020, Proposition 12"
    rho: float
    known: bool = False

    @property
    def exact(self) -> bool:
        return self.known

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        if not self.rho or self.rho > 1e300:
            return self._answer(0.0 if self.rho else -math.inf)
        best = _best_order_for_epsilon(self.rho, epsilon)
        return self._answer(min(0.0, _log_delta_at(self.rho, epsilon, best)), order=1 + best)

    def _least_delta(self) -> float:
        return super()._least_delta() if self.rho else 0.0

    def _at_delta(self, delta: float) -> Answer:
        if not self.rho:
            return self._answer(0.0)
        found = epsilon_from_rho(self.rho, delta) if self.rho < 1e300 else math.inf
        if not math.isfinite(found):
            return self._answer(found)
        return self._answer(found, order=1 + _best_order_for_epsilon(self.rho, found))

    def divergence(self, order: float) -> float:
        order = checks.real("order", order, "Pass a Rényi order, such as 2.", above=1)
        return round_up(order * self.rho)

    def _plus(self, others: Sequence["ZeroConcentratedCurve"]) -> "ZeroConcentratedCurve":
        """Return the composed curve: rho adds (Bun and Steinke 2016, Lemma 1.7)."""
        curves = (self, *others)
        rho = sum_up(curve.rho for curve in curves)
        return ZeroConcentratedCurve(self.relation, rho, all(curve.known for curve in curves))

    def _times(self, count: int) -> "ZeroConcentratedCurve":
        return ZeroConcentratedCurve(self.relation, sum_up([count * self.rho]), self.known)

    def _worst_of(self, other: "ZeroConcentratedCurve") -> "ZeroConcentratedCurve":
        known = self.known and other.known
        return ZeroConcentratedCurve(self.relation, max(self.rho, other.rho), known)

    def _moved(self, other: "ZeroConcentratedCurve") -> "ZeroConcentratedCurve":
        both = self + other
        return ZeroConcentratedCurve(REPLACE_ONE, both.rho, both.known)

    def _group(self, size: int) -> "ZeroConcentratedCurve":
        """Return size^2 rho (Bun and Steinke 2016, Proposition 1.9)."""
        if not self.rho:
            return self
        return ZeroConcentratedCurve(self.relation, round_up(size * (size * self.rho), 4 * U))


def curve(loss: Loss, relation: NeighboringRelation) -> ZeroConcentratedCurve | None:
    """Return the curve of one release, with rho = supremum of divergence / order."""
    rho = 0.0 if loss == NO_LOSS else loss.rho
    if rho is None:
        return None
    return ZeroConcentratedCurve(relation, rho, isinstance(loss, MomentBound))
