"""Discrete Laplace noise: integer noise on an integer query."""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from privacy import checks
from privacy.losses.claims import ClaimPair
from privacy.losses.discrete import Atoms, DiscretePair
from privacy.mechanisms.base import Mechanism, freeze, register_mechanism
from privacy.numerics.rounding import ratio_up
from privacy.relations import REPLACE_ONE, NeighboringRelation

_SENSITIVITIES = ("sensitivity", "replace_sensitivity")
_LARGEST = 10_000  # a pair has one atom more than its distance


class IntegerNoise(Mechanism):
    """Noise on an integer query. A subclass has the fields of both sensitivities."""

    __slots__ = ()

    null_is_absent: ClassVar[bool] = True

    def distance(self: Any, relation: NeighboringRelation) -> int:
        """Return the sensitivity to one record."""
        return int(self.replace_sensitivity if relation is REPLACE_ONE else self.sensitivity)

    def for_group(self: Any, size: int) -> Any:
        """Return size times the sensitivity: the records' contributions add up."""
        return replace(self, **{name: size * getattr(self, name) for name in _SENSITIVITIES})


@dataclass(frozen=True)
class DiscreteLaplace(IntegerNoise):
    """Integer noise with probability proportional to ``exp(-|x| / scale)`` on an integer query.

    The geometric mechanism of Ghosh, Roughgarden and Sundararajan 2012, Definition 2.1. `scale` is
    in the unit of the query, >= 1e-9; both sensitivities are as in `DiscreteGaussian`.
    """

    scale: float
    sensitivity: int = 1
    replace_sensitivity: int | None = None

    def __post_init__(self) -> None:
        remedy = "Pass the scale of the noise, in the query's unit."
        scale = checks.real("scale", self.scale, remedy, at_least=1e-9)
        sensitivity, replaced = integer_sensitivities(self, "Laplace")
        freeze(self, scale=scale, sensitivity=sensitivity, replace_sensitivity=replaced)

    def loss(self, relation: NeighboringRelation) -> DiscretePair:
        if (distance := self.distance(relation)) == 1:  # two losses, as of randomized response
            return ClaimPair(ratio_up(1, self.scale))
        return DiscreteLaplacePair(self.scale, distance)


def integer_sensitivities(noise: Any, continuous: str) -> tuple[int, int]:
    """Return the validated `sensitivity` and `replace_sensitivity` of noise on an integer query."""
    remedy = f"Pass an integer; {continuous} takes any sensitivity."
    sensitivity = checks.count("sensitivity", noise.sensitivity, remedy)
    checks.real("sensitivity", sensitivity, remedy, at_most=_LARGEST)
    if noise.replace_sensitivity is None:
        return sensitivity, 2 * sensitivity
    remedy = "Pass the sensitivity to replacing a record; 2 * sensitivity is always valid."
    replaced = checks.count("replace_sensitivity", noise.replace_sensitivity, remedy)
    checks.real("replace_sensitivity", replaced, remedy, at_most=2 * sensitivity)
    return sensitivity, replaced


@dataclass(frozen=True)
class DiscreteLaplacePair(DiscretePair):
    """Discrete Laplace noise centered at `distance` against the same noise centered at 0."""

    scale: float
    distance: int

    symmetric = True

    def atoms(self) -> Atoms:
        """Return the losses (2 x - distance) / scale of the outputs x = 0 .. distance.

        All outputs below 0 have the loss of 0, all above `distance` that of `distance`. With a =
        e^(-1 / scale), P(x) = (1 - a) / (1 + a) a^|x - distance|.
        """
        scale, distance = self.scale, self.distance
        log_end = -math.log1p(math.exp(-1 / scale))
        log_top = math.log(math.tanh(0.5 / scale))
        log_p = [log_end - distance / scale]
        log_p += [log_top - (distance - x) / scale for x in range(1, distance)]
        largest = ratio_up(distance, scale)
        inner = [(2 * x - distance) / scale for x in range(1, distance)]
        return Atoms((*log_p, log_end), (-largest, *inner, largest))


register_mechanism(DiscreteLaplace(2.5, sensitivity=3, replace_sensitivity=4))
