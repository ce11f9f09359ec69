"""Sums of dominating pairs, which both methods that compose all losses share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

from privacy.curves import Curve, merged
from privacy.losses.claims import NO_LOSS
from privacy.losses.discrete import DiscretePair
from privacy.losses.gaussian import GaussianPair
from privacy.losses.laplace import LaplacePair
from privacy.losses.pair import Loss, LossPair
from privacy.losses.profiles import Profile
from privacy.losses.quadrature import Direction
from privacy.losses.similar import dominates
from privacy.numerics.rounding import U, round_up, sum_up
from privacy.relations import REPLACE_ONE, NeighboringRelation

_LARGE = 50.0  # loss of an atom above which the contour integral is used as well
_FEW = 3  # most releases with Gaussian noise whose sum with atoms is kinked


@dataclass(frozen=True, eq=False, repr=False)
class PairCurve(Curve):
    """The profile of composed dominating pairs; losses add within each direction.

    `parts` has the counts of each pair, `mu_squared` the sum of mu^2 of unsampled Gaussians.
    """

    closed_form: ClassVar[bool] = False
    parts: Mapping[LossPair, int]
    mu_squared: float = 0.0

    @classmethod
    def of(
        cls, loss: Loss, relation: NeighboringRelation, supports: Callable[[LossPair], bool]
    ) -> Self | None:
        """Return the curve of one release, None for moment bounds and pairs not supported."""
        if loss == NO_LOSS:
            return cls(relation, {})
        if isinstance(loss, GaussianPair):
            return cls(relation, {}, round_up(loss.mu_squared, 4 * U))
        return cls(relation, {loss: 1}) if isinstance(loss, LossPair) and supports(loss) else None

    @cached_property
    def _directions(self) -> tuple[Direction, ...]:
        return ("remove",) if all(pair.symmetric for pair in self.parts) else ("remove", "add")

    @cached_property
    def _closed_form(self) -> Profile | None:
        if not self.parts:
            return (GaussianPair(self.mu_squared) if self.mu_squared else NO_LOSS).profile
        (pair, count), *others = self.parts.items()
        alone = count == 1 and not others and not self.mu_squared
        return pair.profile if alone and pair.exact_profile else None

    @property
    def kinked(self) -> bool:
        """Whether the losses have atoms and nearly no noise, so that contours converge slowly."""
        kinds = (DiscretePair, LaplacePair)
        smooth = [n for pair, n in self.parts.items() if not isinstance(pair, kinds)]
        if self.mu_squared or len(smooth) == len(self.parts) or sum(smooth) > _FEW:
            return False
        return all(pair.claim[0] < _LARGE for pair in self.parts if isinstance(pair, kinds))

    def _plus(self, others: Sequence[Self]) -> Self:
        curves = (self, *others)
        parts = merged(pair for curve in curves for pair in curve.parts.items())
        return type(self)(self.relation, parts, sum_up(curve.mu_squared for curve in curves))

    def _times(self, count: int) -> Self:
        parts = {pair: count * n for pair, n in self.parts.items()}
        return type(self)(self.relation, parts, sum_up([count * self.mu_squared]))

    def _worst_of(self, other: Self) -> Self:
        """Return the curve of parallel releases if one dominates the other, else raise."""
        for worse, better in ((self, other), (other, self)):
            if worse._dominates(better):
                return worse
        return super()._worst_of(other)

    def _moved(self, other: Self) -> Self:
        """Return the sum, if the losses of both directions have one distribution."""
        if len(self._directions) + len(other._directions) > 2:
            return super()._moved(other)
        return replace(self + other, relation=REPLACE_ONE)

    def _dominates(self, other: Self) -> bool:
        """Return whether different parts of this curve dominate the parts of `other`."""
        left = dict(self.parts)
        for pair, count in other.parts.items():
            worse = [one for one, n in left.items() if n >= count and dominates(one, pair)]
            if not worse:
                return False
            left[worse[0]] -= count
        return self.mu_squared >= other.mu_squared
