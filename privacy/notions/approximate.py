"""(epsilon, delta): exact profiles of one release, and sums of claims.

One release in closed form is exact. Several pure or approximate claims compose by the
optimal sum of Kairouz, Oh and Viswanath 2015 (Theorem 3.3): exactly when their epsilons are equal,
else with the epsilons rounded up to a lattice (the exact sum is #P-hard; `ApproximateCurve.gap`
states what that costs at most). A bounded loss composes as the pure claim that it meets; an
unbounded one does not compose in this notion.
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

from privacy import _checks
from privacy._solve import least, ratio_up, round_up
from privacy.accounting import rule
from privacy.guarantees import Curve, invert, merged
from privacy.mechanisms import (
    ApproximateDP,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    UnsupportedMechanism,
)
from privacy.notions._claims import (
    LARGEST_LATTICE,
    LatticeSum,
    advanced_epsilon,
    advanced_sum,
    optimal_sum,
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

Composition = Literal["optimal", "advanced", "basic"]

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

    @cached_property
    def _mass(self) -> float:
        """Return 1 - prod (1 - delta_i), the mass at infinity, rounded up.

        It is at most the sum of the deltas, which is taken as they are written: the sum of
        decimals is the float that is written so, not one above.
        """
        claims = [(p.mass, n) for p, n in self.parts.items() if isinstance(p, ClaimProfile)]
        total = sum((n * Fraction(repr(mass)) for mass, n in claims if mass), start=Fraction(0))
        log_none = math.fsum(n * math.log1p(-mass) for mass, n in claims)
        mass = round_up(-math.expm1(log_none), 8 * _U) if log_none else 0.0
        written = min(float(total), mass)
        while written < mass and Fraction(repr(written)) < total:
            written = math.nextafter(written, mass)
        return written

    @property
    def _supremum(self) -> float:
        return math.inf if self._mass else self._basic

    @cached_property
    def _basic(self) -> float:
        """Return the sum of the largest losses, but for the masses at infinity, rounded up."""
        suprema = [
            (p.loss if isinstance(p, ClaimProfile) else p.supremum, n)
            for p, n in self.parts.items()
        ]
        total = sum(n * supremum for supremum, n in suprema)
        if math.isinf(total):
            return total
        exact = sum((n * Fraction(supremum) for supremum, n in suprema), start=Fraction(0))
        return least(total, lambda value: value >= exact)

    def _log_delta(self, epsilon: float) -> float:
        if self._total() == 1:
            return next(iter(self.parts)).log_delta(epsilon)
        mass = self._mass
        if epsilon >= self._basic:
            return math.log(mass) if mass else -math.inf
        log_rest = self._log_finite(epsilon)
        if mass == 0:
            return log_rest
        return min(0.0, math.log(mass + (1 - mass) * math.exp(log_rest)) + 16 * _U)

    def _log_finite(self, epsilon: float) -> float:
        """Return log delta of the claims without their masses at infinity."""
        losses = self._losses()
        if not losses:
            return -math.inf
        if self._equal():
            return optimal_sum(losses[0][0], self._total(), epsilon)
        total = sum(n * loss for loss, n in losses)
        if math.isinf(total):
            return ClaimProfile(total).log_delta(epsilon)
        total = math.fsum(n * loss for loss, n in losses)
        basic = ClaimProfile(round_up(total, 4 * _U)).log_delta(epsilon)
        lattice = 0.0 if self._lattice is None else self._lattice(epsilon)
        return min(basic, lattice, advanced_sum(losses, epsilon))

    def _losses(self) -> tuple[tuple[float, int], ...]:
        claims = ((p.loss, n) for p, n in self.parts.items() if isinstance(p, ClaimProfile))
        return tuple(merged(claim for claim in claims if claim[0] > 0).items())

    @cached_property
    def _lattice(self) -> LatticeSum | None:
        total = sum(n * loss for loss, n in self._losses())
        few = self._total() <= LARGEST_LATTICE and 1e-290 < total < math.inf
        return LatticeSum(self._losses()) if few else None

    def epsilon(self, delta: float, *, composition: Composition = "optimal") -> float:
        """Return the smallest epsilon proven for `delta`.

        Parameters
        ----------
        delta
            Probability in [0, 1).
        composition
            How claims add up. ``"optimal"``: the module's rule. ``"advanced"``: the closed form
            sum epsilon tanh(epsilon / 2) + sqrt(2 log(1 / delta') sum epsilon^2) (Kairouz, Oh and
            Viswanath 2015, Theorem 3.5) or the basic one, if smaller. ``"basic"``: the sum. Both
            are valid, and looser.
        """
        delta = _checks.query_delta(delta)
        if composition not in get_args(Composition):
            remedy = "Use 'optimal' unless you must match a printed closed form."
            rule = f"one of {get_args(Composition)}"
            raise ValueError(_checks.expected("composition", composition, rule, remedy))
        if composition == "optimal":
            return self._epsilon(delta)
        mass = self._mass
        basic = ApproximateCurve(self._claims(), self.relation)._basic
        if mass > delta:
            return math.inf
        if composition == "basic" or mass == delta:
            return basic
        rest = (delta - mass) / (1 - mass) * (1 - 16 * _U)  # 1 - (1 - delta) / prod(1 - delta_i)
        return min(basic, advanced_epsilon(self._claimed(), rest) if rest > 0 else basic)

    def _claimed(self) -> tuple[tuple[float, int], ...]:
        return ApproximateCurve(self._claims(), self.relation)._losses()

    def gap(self, delta: float) -> float:
        """Return by how much `epsilon` may exceed the optimal sum's answer at most.

        0 for one release and for claims of one epsilon. Else the difference to the answer with
        every epsilon rounded down to the lattice, and all of it where there are too many claims
        for a lattice.
        """
        found = self.epsilon(delta)
        if self._total() == 1 or self._equal() or found == 0:
            return 0.0
        if self._lattice is None:
            return found
        below = LatticeSum(self._losses(), rounded_up=False)
        mass = self._mass
        rest = (delta - mass) / (1 - mass)
        return found if rest <= 0 else found - min(found, invert(below, math.log(rest)))

    def _least_delta(self) -> float:
        return math.ulp(0.0) if math.isinf(self._supremum) else 0.0

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return self._supremum
        if self._mass > delta:  # their logs may be equal
            return math.inf
        return min(self._basic, invert(self._log_delta, math.log(delta)))

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

    def _plus(self, others: Sequence["ApproximateCurve"]) -> "ApproximateCurve":
        """Return the curve of all claims."""
        curves = (self, *others)
        claims = merged(pair for curve in curves for pair in curve._claims().items())
        return self._sum(claims, exact=all(curve.exact for curve in curves))

    def _times(self, count: int) -> "ApproximateCurve":
        """Return the curve of `count` releases."""
        parts = {claim: count * n for claim, n in self._claims().items()}
        return self._sum(parts, exact=self.exact)

    def _worst_of(self, other: "ApproximateCurve") -> "ApproximateCurve":
        """Return the pointwise maximum of two single releases."""
        if self.parts == other.parts:
            return self
        if self._total() > 1 or other._total() > 1:
            raise UnsupportedMechanism(
                f"Composed parts of a parallel plan cannot be answered by notion {self.notion!r}."
            )
        both = worst(*self.parts, *other.parts)
        return ApproximateCurve({both: 1}, self.relation, exact=self.exact and other.exact)

    def _moved(self, other: "ApproximateCurve") -> "ApproximateCurve":
        """Return the REPLACE_ONE curve of a record that changes its cell."""
        both = self + other
        return ApproximateCurve(both.parts, NeighboringRelation.REPLACE_ONE)


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
