"""(epsilon, delta): exact profiles of one release, and sums of claims.

One release in closed form is exact. Several pure or approximate claims compose by the
optimal sum of Kairouz, Oh and Viswanath 2015 (Theorem 3.3) when their epsilons are equal, by
basic composition when they are not. A bounded loss composes as the pure claim that it meets; an
unbounded one does not compose in this notion.
"""

import math
from collections.abc import Mapping
from fractions import Fraction

from privacy import _checks
from privacy._solve import least, ratio_up, round_up
from privacy.accounting import rule
from privacy.guarantees import Curve, invert
from privacy.mechanisms import (
    ApproximateDP,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    UnsupportedMechanism,
)
from privacy.notions._profiles import (
    AntipodalProfile,
    ClaimProfile,
    GaussianProfile,
    LaplaceProfile,
    Profile,
    SampledProfile,
    amplified,
    worst,
)
from privacy.notions._trees import check_claim, mu_squared, refused, sampled_mu, shift
from privacy.relations import NeighboringRelation

_U = 2.0**-53
_LARGEST_SUM = 1_000_000
"""Releases up to which the optimal sum is taken; beyond, basic composition."""


class ApproximateCurve(Curve):
    """The profile of one release, or of several (epsilon, delta) claims together.

    Parameters
    ----------
    parts
        How often each profile is released on the same records.
    relation
        The neighbouring relation.
    exact
        Whether the profile of a single part is the truth, not only a bound.
    """

    notion = "approximate"
    theorem = "Kairouz, Oh and Viswanath 2015, Theorem 3.3; Balle, Barthe and Gaboardi 2018"

    def __init__(
        self, parts: Mapping[Profile, int], relation: NeighboringRelation, *, exact: bool = False
    ) -> None:
        self.parts = dict(parts)
        self.relation = relation
        self.exact = exact and (self._total() == 1 or self._equal())

    def _total(self) -> int:
        return sum(self.parts.values())

    def _equal(self) -> bool:
        """Whether all parts are binary claims of one epsilon, few enough to sum."""
        shapes = {(p.loss, p.categories) for p in self.parts if isinstance(p, ClaimProfile)}
        binary = len(shapes) == 1 and next(iter(shapes))[1] == 2
        return binary and self._total() <= _LARGEST_SUM

    def _mass(self) -> float:
        """Return 1 - prod (1 - delta_i), the mass at infinity, rounded up."""
        claims = ((p.mass, n) for p, n in self.parts.items() if isinstance(p, ClaimProfile))
        log_none = sum(n * math.log1p(-mass) for mass, n in claims)
        return round_up(-math.expm1(log_none), 8 * _U) if log_none else 0.0

    @property
    def _supremum(self) -> float:
        suprema = [(profile.supremum, n) for profile, n in self.parts.items()]
        total = sum(n * supremum for supremum, n in suprema)
        if math.isinf(total):
            return total
        exact = sum((n * Fraction(supremum) for supremum, n in suprema), start=Fraction(0))
        return least(total, lambda value: value >= exact)

    def _log_delta(self, epsilon: float) -> float:
        if self._total() == 1:
            return next(iter(self.parts)).log_delta(epsilon)
        if epsilon >= self._supremum:
            return -math.inf
        losses = [(p.loss, n) for p, n in self.parts.items() if isinstance(p, ClaimProfile)]
        if self._equal():
            log_rest = _optimal_sum(losses[0][0], self._total(), epsilon)
        else:
            total = sum(n * loss for loss, n in losses)
            log_rest = ClaimProfile(round_up(total, 4 * _U)).log_delta(epsilon)
        mass = self._mass()
        if mass == 0:
            return log_rest
        return min(0.0, math.log(mass + (1 - mass) * math.exp(log_rest)) + 16 * _U)

    def _least_delta(self) -> float:
        return math.ulp(0.0) if math.isinf(self._supremum) else 0.0

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return self._supremum
        return min(self._supremum, invert(self._log_delta, math.log(delta)))

    def _claims(self) -> dict[Profile, int]:
        """Return the parts as claims that compose: a bounded loss is a pure claim."""
        claims: dict[Profile, int] = {}
        for profile, count in self.parts.items():
            claim = profile
            if not isinstance(profile, ClaimProfile):
                if math.isinf(profile.supremum):
                    raise UnsupportedMechanism(
                        f"Only (epsilon, delta) claims compose in notion {self.notion!r}, not "
                        f"{profile!r}. Use notion 'tightest'."
                    )
                claim = ClaimProfile(profile.supremum)
            claims[claim] = claims.get(claim, 0) + count
        return claims

    def _sum(self, parts: Mapping[Profile, int], *, exact: bool) -> "ApproximateCurve":
        known = all(isinstance(part, ClaimProfile) for part in self.parts)
        return ApproximateCurve(parts, self.relation, exact=exact and known)

    def __add__(self, other: "ApproximateCurve") -> "ApproximateCurve":
        """Return the curve of both sets of claims."""
        self._check_same(other)
        parts = self._claims()
        for claim, count in other._claims().items():
            parts[claim] = parts.get(claim, 0) + count
        return self._sum(parts, exact=self.exact and other.exact)

    def __mul__(self, count: int) -> "ApproximateCurve":
        """Return the curve of `count` releases."""
        count = _checks.count("count", count, "Pass the number of releases.")
        if count == 1:
            return self
        parts = {claim: count * n for claim, n in self._claims().items()}
        return self._sum(parts, exact=self.exact)

    def worst_of(self, other: "ApproximateCurve") -> "ApproximateCurve":
        """Return the pointwise maximum of two single releases."""
        self._check_same(other)
        if self.parts == other.parts:
            return self
        if self._total() > 1 or other._total() > 1:
            raise UnsupportedMechanism(
                f"Composed parts of a parallel plan cannot be answered by notion {self.notion!r}."
            )
        both = worst(*self.parts, *other.parts)
        return ApproximateCurve({both: 1}, self.relation, exact=self.exact and other.exact)

    def moved(self, other: "ApproximateCurve") -> "ApproximateCurve":
        """Return the REPLACE_ONE curve of a record that changes its cell."""
        both = self + other
        return ApproximateCurve(both.parts, NeighboringRelation.REPLACE_ONE)


def _optimal_sum(loss: float, count: int, epsilon: float) -> float:
    """Return an upper bound of the log delta of `count` releases of loss +-`loss` each.

    sum over i of C(n, i) p^(n-i) (1-p)^i (1 - e^(epsilon - (n - 2i) loss))+
    with p = e^loss / (1 + e^loss).
    """
    import numpy as np
    from scipy.special import gammaln

    # a smaller epsilon has a larger delta: pays for the rounding of epsilon - (n - 2i) loss
    epsilon -= 4 * _U * (count * loss + epsilon)
    if epsilon >= count * loss:
        return -math.inf
    i = np.arange(math.floor((count - epsilon / loss) / 2) + 1, dtype=float)
    gap = epsilon - (count - 2 * i) * loss
    i, gap = i[gap < 0], gap[gap < 0]
    whole = float(gammaln(count + 1.0))
    log_choose = whole - gammaln(i + 1) - gammaln(count - i + 1)
    log_weight = log_choose - count * math.log1p(math.exp(-loss)) - i * loss
    terms = log_weight + np.log(-np.expm1(gap))
    top = float(terms.max())
    total = top + math.log(float(np.exp(terms - top).sum()))
    return min(0.0, total + _U * (16 * whole + 8 * count * (1 + loss) + 4 * abs(total) + 64))


@rule("approximate", PureDP, ApproximateDP)
def _claim(mechanism: PureDP | ApproximateDP, relation: NeighboringRelation) -> ApproximateCurve:
    check_claim(mechanism, relation)
    mass = mechanism.delta if isinstance(mechanism, ApproximateDP) else 0.0
    return ApproximateCurve({ClaimProfile(mechanism.epsilon, mass): 1}, relation, exact=True)


@rule("approximate", RandomizedResponse)
def _response(mechanism: RandomizedResponse, relation: NeighboringRelation) -> ApproximateCurve:
    profile = ClaimProfile(mechanism.epsilon, categories=mechanism.categories)
    return ApproximateCurve({profile: 1}, relation, exact=True)


@rule("approximate", Gaussian, Laplace)
def _noise(mechanism: Gaussian | Laplace, relation: NeighboringRelation) -> ApproximateCurve:
    profile = _noise_profile(mechanism, relation)
    return ApproximateCurve({profile: 1}, relation, exact=True)


def _noise_profile(mechanism: Gaussian | Laplace, relation: NeighboringRelation) -> Profile:
    if isinstance(mechanism, Laplace):
        return LaplaceProfile(ratio_up(shift(mechanism, relation), mechanism.scale))
    squared = mu_squared(mechanism, relation)
    assert squared is not None
    return GaussianProfile(round_up(math.sqrt(squared), 4 * _U))


@rule("approximate", PoissonSampled)
def _sampled(mechanism: PoissonSampled, relation: NeighboringRelation) -> ApproximateCurve:
    inner, q = mechanism.mechanism, mechanism.sampling_probability
    profile: Profile
    mu = sampled_mu(mechanism, relation)
    if mu is not None:
        mu = round_up(mu, 8 * _U)
        if relation is NeighboringRelation.REPLACE_ONE:
            profile = AntipodalProfile(mu, q)
        else:
            profile = SampledProfile(GaussianProfile(mu), q)
        return ApproximateCurve({profile: 1}, relation, exact=True)
    if relation is NeighboringRelation.REPLACE_ONE:
        raise refused(repr(mechanism), relation, "Sampling is proven for Gaussians alone there.")
    if isinstance(inner, Laplace):
        profile = SampledProfile(_noise_profile(inner, relation), q)
        return ApproximateCurve({profile: 1}, relation, exact=True)
    if isinstance(inner, PureDP | ApproximateDP):
        if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
            raise refused(repr(mechanism), relation, "Sampling a claim is proven for add/remove.")
        check_claim(inner, relation)
        mass = inner.delta if isinstance(inner, ApproximateDP) else 0.0
        claim = amplified(ClaimProfile(inner.epsilon, mass), q)
        return ApproximateCurve({claim: 1}, relation)
    raise UnsupportedMechanism(
        f"No rule for {inner!r} under one Poisson sample. "
        "Gaussians, a Laplace, and (epsilon, delta) claims have one."
    )
