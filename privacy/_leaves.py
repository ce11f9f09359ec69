"""The base of every mechanism, and the leaves: what one release did."""

from dataclasses import dataclass, fields
from typing import Any

from privacy import _checks
from privacy._names import fields_told_by_ours
from privacy.relations import NeighboringRelation

_ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE


class Mechanism:
    """Base of every description. Build one of the named mechanisms instead."""

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able form that `mechanism_from_json` reads back."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            out[field.name] = _to_json(getattr(self, field.name))
        return out


def _to_json(value: Any) -> Any:
    if isinstance(value, Mechanism):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json(part) for part in value]
    return str(value) if isinstance(value, NeighboringRelation) else value


def freeze(node: Mechanism, **values: object) -> None:
    """Set the fields of a frozen node while it is made."""
    for name, value in values.items():
        object.__setattr__(node, name, value)


@fields_told_by_ours
@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Gaussian noise on a sum (or any query) whose records are clipped.

    Parameters
    ----------
    noise_multiplier
        Standard deviation of the noise over the L2 norm bound of ONE record's
        contribution, whatever the relation. No unit, > 0.
    replace_distance
        How far a replaced record can move the query, in clip norms, in
        (0, 2]. Used under REPLACE_ONE alone; 2 (v against -v) unless the query
        is known to move less (a reward in [0, 1] of a public round: 1).

    Raises
    ------
    ValueError, TypeError
        A value is outside its domain.
    """

    noise_multiplier: float
    replace_distance: float = 2.0

    def __post_init__(self) -> None:
        remedy = "Pass the standard deviation of the noise (sigma) divided by the clip norm."
        freeze(
            self,
            noise_multiplier=_checks.real(
                "noise_multiplier", self.noise_multiplier, remedy, above=0
            ),
            replace_distance=_replace_distance(self.replace_distance),
        )


@fields_told_by_ours
@dataclass(frozen=True)
class Laplace(Mechanism):
    """Laplace noise on a query whose records are clipped in L1 norm.

    Parameters
    ----------
    scale
        Scale b of the noise (density ``exp(-|x| / b) / 2b``) over the L1 norm bound
        of one record's contribution. No unit, > 0.
    replace_distance
        As in `Gaussian`, in L1 clip norms.
    """

    scale: float
    replace_distance: float = 2.0

    def __post_init__(self) -> None:
        remedy = "Pass the scale of the Laplace noise divided by the L1 clip norm."
        freeze(
            self,
            scale=_checks.real("scale", self.scale, remedy, above=0),
            replace_distance=_replace_distance(self.replace_distance),
        )


def _replace_distance(value: float) -> float:
    remedy = "Pass how far replacing one record moves the query, in clip norms; 2 is always safe."
    return _checks.real("replace_distance", value, remedy, above=0, at_most=2)


@fields_told_by_ours
@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """One report that keeps the true answer with odds e^epsilon : 1 each other.

    The true one of `categories` answers is reported with probability
    e^epsilon / (e^epsilon + categories - 1), each other one with
    1 / (e^epsilon + categories - 1). The guarantee holds in every relation,
    where an absent or null record reports through the same randomizer.

    Parameters
    ----------
    epsilon
        Log of the odds, > 0.
    categories
        Number of possible answers, >= 2.
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        categories = _checks.count("categories", self.categories, "Pass the number of answers.")
        if categories < 2:
            raise ValueError(
                _checks.expected("categories", categories, ">= 2", "Pass the number of answers.")
            )
        freeze(self, epsilon=_checks.epsilon(self.epsilon), categories=categories)


@fields_told_by_ours
@dataclass(frozen=True)
class PureDP(Mechanism):
    """Any mechanism proven epsilon-DP under `relation`."""

    epsilon: float
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        freeze(
            self, epsilon=_checks.epsilon(self.epsilon), relation=_checks.relation(self.relation)
        )


@fields_told_by_ours
@dataclass(frozen=True)
class ApproximateDP(Mechanism):
    """Any mechanism proven (epsilon, delta)-DP under `relation`; epsilon >= 0."""

    epsilon: float
    delta: float
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the epsilon that was proven."
        freeze(
            self,
            epsilon=_checks.real("epsilon", self.epsilon, remedy, at_least=0),
            delta=_checks.delta(self.delta),
            relation=_checks.relation(self.relation),
        )


@fields_told_by_ours
@dataclass(frozen=True)
class ZeroConcentratedDP(Mechanism):
    """Any mechanism proven rho-zCDP under `relation` (Bun and Steinke 2016)."""

    rho: float
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the rho that was proven, such as rho=0.1."
        freeze(
            self,
            rho=_checks.real("rho", self.rho, remedy, above=0),
            relation=_checks.relation(self.relation),
        )


LEAVES: tuple[type[Mechanism], ...] = (
    Gaussian,
    Laplace,
    RandomizedResponse,
    PureDP,
    ApproximateDP,
    ZeroConcentratedDP,
)
