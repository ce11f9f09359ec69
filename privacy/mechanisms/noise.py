"""Noise added to a query: Gaussian and Laplace."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from privacy import checks
from privacy.losses.gaussian import GaussianPair
from privacy.losses.laplace import LaplacePair
from privacy.mechanisms.base import Mechanism, freeze, register_mechanism
from privacy.numerics.rounding import ratio_down, ratio_up
from privacy.relations import REPLACE_ONE, NeighboringRelation


class Noise(Mechanism):
    """Noise on a sum. A subclass has the fields of its scale, the first, and `replace_distance`."""

    __slots__ = ()

    null_is_absent: ClassVar[bool] = True

    def shift(self: Any, relation: NeighboringRelation) -> float:
        """Return the sensitivity to one record, in clip norms."""
        return float(self.replace_distance if relation is REPLACE_ONE else 1.0)

    def for_group(self: Any, size: int) -> Any:
        """Divide the noise by `size` (Dong, Roth and Su 2022, Theorem 2.14)."""
        scale = fields(self)[0].name
        return replace(self, **{scale: ratio_down(getattr(self, scale), size)})


@dataclass(frozen=True)
class Gaussian(Noise):
    """Gaussian noise on a sum (or another query) of clipped records.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise / L2 norm bound (clip norm) of ONE record's contribution,
        for every relation; > 0, no unit.
    replace_distance
        Sensitivity to replacing one record, in (0, 2] clip norms, for REPLACE_ONE. 2 (v against -v)
        is always valid; pass less if the query changes less (1 for rewards in [0, 1]).
    """

    noise_multiplier: float
    replace_distance: float = 2.0

    def __post_init__(self) -> None:
        remedy = "Pass the standard deviation of the noise (sigma) divided by the clip norm."
        noise = checks.real("noise_multiplier", self.noise_multiplier, remedy, above=0)
        distance = check_replace_distance(self.replace_distance)
        freeze(self, noise_multiplier=noise, replace_distance=distance)

    def loss(self, relation: NeighboringRelation) -> GaussianPair:
        # noise above 1e150 is treated as 1e150, so that the square does not underflow
        ratio = self.shift(relation) / min(self.noise_multiplier, 1e150)
        return GaussianPair(ratio * ratio if ratio < 1e154 else math.inf)


@dataclass(frozen=True)
class Laplace(Noise):
    """Laplace noise on a query of records clipped in L1 norm.

    Parameters
    ----------
    scale
        b (density ``exp(-|x| / b) / 2b``) / L1 norm bound of one record's contribution, > 0.
    replace_distance
        As in `Gaussian`, in L1 clip norms.
    """

    scale: float
    replace_distance: float = 2.0

    def __post_init__(self) -> None:
        remedy = "Pass the scale of the Laplace noise divided by the L1 clip norm."
        scale = checks.real("scale", self.scale, remedy, above=0)
        freeze(self, scale=scale, replace_distance=check_replace_distance(self.replace_distance))

    def loss(self, relation: NeighboringRelation) -> LaplacePair:
        return LaplacePair(ratio_up(self.shift(relation), self.scale))


def check_replace_distance(value: float) -> float:
    """Return a validated sensitivity to replacing one record, in clip norms."""
    remedy = "Pass the sensitivity to replacing one record, in clip norms; 2 is always valid."
    return checks.real("replace_distance", value, remedy, above=0, at_most=2)


register_mechanism(Gaussian(1.5, replace_distance=1.25))
register_mechanism(Laplace(2.5, replace_distance=0.5))
