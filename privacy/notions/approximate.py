"""Approximate DP: exact profiles of one release, and optimal composition of claims.

docs/budgets.md ("Composition of (epsilon, delta) claims") has the theorems. A bounded loss composes
as a pure claim; an unbounded one does not compose.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal, cast, get_args

from privacy import checks
from privacy.curves import NO_HINT, Answer, Curve, Hint, merged
from privacy.losses.claims import NO_LOSS, ClaimPair
from privacy.losses.pair import Loss, LossPair
from privacy.losses.profiles import Profile
from privacy.mechanisms import BestOf, UnsupportedMechanism
from privacy.notions import claim_sums
from privacy.notions.claim_sums import LatticeSum, mean_and_norm
from privacy.numerics.rounding import U, least, round_up, sum_up
from privacy.numerics.solve import invert
from privacy.relations import REPLACE_ONE, NeighboringRelation

Composition = Literal["optimal", "advanced", "basic"]

_LARGEST_SUM = 1_000_000
"""Most releases for the optimal sum of claims of one epsilon."""


@dataclass(frozen=True, eq=False, repr=False)
class ApproximateCurve(Curve):
    """The privacy profile of one release, or of composed (epsilon, delta) claims.

    `parts` has the number of releases of each pair on the same records; `known` says whether the
    profile of each part is exact, not only an upper bound.
    """

    notion: ClassVar[str] = "approximate"
    theorem: ClassVar[str] = (
        "Kairouz, Oh and Viswanath 2015, Theorem 3.3; Balle, Barthe and Gaboardi 2018"
    )
    parts: Mapping[LossPair, int]
    known: bool = True

    @property
    def exact(self) -> bool:
        """Whether it is one exact profile, or claims of one epsilon."""
        return self.known and (self._total() == 1 or self._equal)

    def _total(self) -> int:
        return sum(self.parts.values())

    @cached_property
    def _equal(self) -> bool:
        """Whether all parts are binary claims of one epsilon, few enough to sum."""
        binary = all(isinstance(pair, ClaimPair) and pair.categories == 2 for pair in self.parts)
        one = len({pair.claim[0] for pair in self.parts}) == 1
        return binary and one and self._total() <= _LARGEST_SUM

    @cached_property
    def _mass(self) -> float:
        """Return 1 - prod (1 - delta_i), rounded up: at most the exact sum of decimal deltas."""
        claims = [(p.claim[1], n) for p, n in self.parts.items()]
        total = sum((n * Fraction(repr(mass)) for mass, n in claims if mass), start=Fraction(0))
        log_none = math.fsum(n * math.log1p(-mass) for mass, n in claims)
        mass = round_up(-math.expm1(log_none), 8 * U) if log_none else 0.0
        written = min(float(total), mass)
        while written < mass and Fraction(repr(written)) < total:
            written = math.nextafter(written, mass)
        return written

    @property
    def _supremum(self) -> float:
        return math.inf if self._mass else self._basic

    @cached_property
    def _basic(self) -> float:
        """Return the sum of the largest finite losses, rounded up."""
        suprema = [(p.claim[0], n) for p, n in self.parts.items()]
        total = sum(n * supremum for supremum, n in suprema)
        if math.isinf(total):
            return total
        exact = sum((n * Fraction(supremum) for supremum, n in suprema), start=Fraction(0))
        return least(total, lambda value: value >= exact)

    @property
    def _pair(self) -> LossPair:
        return next(iter(self.parts)) if self._total() == 1 else _SumPair(self)

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        return self._answer(self._log_delta(epsilon))

    def _log_delta(self, epsilon: float) -> float:
        if self._total() == 1:
            return next(iter(self.parts)).profile.log_delta(epsilon)
        mass = self._mass
        if epsilon >= self._basic:
            return math.log(mass) if mass else -math.inf
        log_rest = self._log_finite(epsilon)
        if mass == 0:
            return log_rest
        return min(0.0, math.log(mass + (1 - mass) * math.exp(log_rest)) + 16 * U)

    def _log_finite(self, epsilon: float) -> float:
        """Return log delta of the claims without their masses at infinity."""
        losses, total = self._losses, self._largest_sum
        if not losses:
            return -math.inf
        if math.isinf(total):
            return 0.0
        if self._equal:
            return claim_sums.optimal_sum(losses[0][0], self._total(), epsilon)
        basic = ClaimPair(round_up(total, 4 * U)).profile.log_delta(epsilon)
        lattice = 0.0 if self._lattice is None else self._lattice(epsilon)
        return min(basic, lattice, claim_sums.advanced_sum(self._moments, epsilon))

    @cached_property
    def _largest_sum(self) -> float:
        """The sum of the claims' epsilons; infinite if it is not a float."""
        return sum_up(n * loss for loss, n in self._losses)

    @cached_property
    def _moments(self) -> tuple[float, float]:
        return mean_and_norm(self._losses)

    @cached_property
    def _losses(self) -> tuple[tuple[float, int], ...]:
        claims = ((p.claim[0], n) for p, n in self.parts.items())
        return tuple(merged(claim for claim in claims if claim[0] > 0).items())

    @cached_property
    def _lattice(self) -> LatticeSum | None:
        few = self._total() <= claim_sums.LARGEST_LATTICE and 1e-290 < self._largest_sum < math.inf
        return LatticeSum(self._losses) if few else None

    def epsilon(  # type: ignore[override]
        self, delta: float, *, composition: Composition = "optimal"
    ) -> float:
        """Return the smallest epsilon proven for `delta`, a probability in [0, 1).

        `composition` is the theorem. ``"optimal"``: Kairouz, Oh and Viswanath 2015, Theorem 3.3.
        ``"advanced"``: sum epsilon tanh(epsilon / 2) + sqrt(2 log(1 / delta') sum epsilon^2) (their
        Theorem 3.5), or basic composition if smaller. ``"basic"``: the sum. Both are looser.
        """
        remedy = "Use 'optimal' unless you must match a published closed form."
        checks.one_of("composition", composition, get_args(Composition), remedy)
        if composition == "optimal":
            return super().epsilon(delta)
        delta = checks.query_delta(delta)
        mass = self._mass
        claims = ApproximateCurve(self.relation, self._claims())
        if mass > delta:
            return math.inf
        if composition == "basic" or mass == delta:
            return claims._basic
        rest = (delta - mass) / (1 - mass) * (1 - 16 * U)  # 1 - (1 - delta) / prod(1 - delta_i)
        if rest <= 0:
            return claims._basic
        return min(claims._basic, claim_sums.advanced_epsilon(claims._moments, rest))

    def _least_delta(self) -> float:
        return math.ulp(0.0) if math.isinf(self._supremum) else 0.0

    def _at_delta(self, delta: float) -> Answer:
        if delta == 0:
            return self._answer(self._supremum)
        if self._mass > delta:  # compared here, since their logs may be equal
            return self._answer(math.inf)
        found = invert(self._log_delta, math.log(delta))
        return self._answer(min(self._basic, found))

    def _claims(self) -> dict[LossPair, int]:
        """Return the parts as claims; a bounded loss becomes a pure claim."""
        claims: dict[LossPair, int] = {}
        for pair, count in self.parts.items():
            epsilon, mass = pair.claim
            if math.isinf(epsilon):
                raise UnsupportedMechanism(
                    f"Accounting method {self.notion!r} composes only (epsilon, delta) claims; a "
                    "part has an unbounded loss.",
                    mechanism=self.mechanism,
                    notion=self.notion,
                )
            claim = pair if isinstance(pair, ClaimPair) else ClaimPair(epsilon, mass)
            claims[claim] = claims.get(claim, 0) + count
        return claims

    def _sum(self, parts: Mapping[LossPair, int], *, known: bool) -> "ApproximateCurve":
        claims = all(isinstance(part, ClaimPair) for part in self.parts)
        return ApproximateCurve(self.relation, parts, known and claims)

    def _plus(self, others: Sequence["ApproximateCurve"]) -> "ApproximateCurve":
        curves = [curve for curve in (self, *others) if NO_LOSS not in curve.parts]
        if len(curves) < 2:
            return curves[0] if curves else self
        claims = merged(pair for curve in curves for pair in curve._claims().items())
        return self._sum(claims, known=all(curve.exact for curve in curves))

    def _times(self, count: int) -> "ApproximateCurve":
        parts = {claim: count * n for claim, n in self._claims().items()}
        return self._sum(parts, known=self.exact)

    def best_of(self, runs: BestOf) -> "ApproximateCurve":
        """Return the pure claim (2 + shape) epsilon (Papernot and Steinke 2022, Corollary 3)."""
        epsilon = self._supremum
        if runs.shape is None or math.isinf(epsilon):
            return cast("ApproximateCurve", super().best_of(runs))
        claim = ClaimPair(round_up((2 + runs.shape) * epsilon, 4 * U))
        return ApproximateCurve(self.relation, {claim: 1}, known=False)

    def _worst_of(self, other: "ApproximateCurve") -> "ApproximateCurve":
        if self.parts == other.parts:
            return self
        both = _WorstPair.of(self._pair, other._pair)
        return ApproximateCurve(self.relation, {both: 1}, self.exact and other.exact)

    def _moved(self, other: "ApproximateCurve") -> "ApproximateCurve":
        return ApproximateCurve(REPLACE_ONE, (self + other).parts, known=False)


class _WithProfile(LossPair, Profile):
    """A pair that is its own profile."""

    __slots__ = ()

    @property
    def profile(self) -> Profile:
        return self


@dataclass(frozen=True)
class _WorstPair(_WithProfile):
    """A pair whose profile is the pointwise maximum of several profiles."""

    pairs: tuple[LossPair, ...]

    @classmethod
    def of(cls, *pairs: LossPair) -> LossPair:
        """Return the worst of all pairs, flattened; a single pair is returned itself."""
        flat: dict[LossPair, None] = {}
        for pair in pairs:
            flat.update(dict.fromkeys(pair.pairs if isinstance(pair, cls) else (pair,)))
        return next(iter(flat)) if len(flat) == 1 else cls(tuple(flat))

    @property
    def claim(self) -> tuple[float, float]:
        epsilons, masses = zip(*(pair.claim for pair in self.pairs), strict=True)
        return max(epsilons), max(masses)

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return max(pair.profile.supremum for pair in self.pairs)

    def log_delta(self, epsilon: float) -> float:
        return max(pair.profile.log_delta(epsilon) for pair in self.pairs)


@dataclass(frozen=True)
class _SumPair(_WithProfile):
    """A pair with the profile of several claims."""

    curve: ApproximateCurve

    @property
    def claim(self) -> tuple[float, float]:
        return self.curve._basic, self.curve._mass

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return self.curve._supremum

    def log_delta(self, epsilon: float) -> float:
        return self.curve._log_delta(epsilon)


def curve(loss: Loss, relation: NeighboringRelation) -> ApproximateCurve | None:
    """Return the curve of one release of a pair, None without an exact profile."""
    if not isinstance(loss, LossPair) or not loss.exact_profile:
        return None
    return ApproximateCurve(relation, {loss: 1})
