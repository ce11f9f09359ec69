"""Mechanisms: frozen, hashable, validated descriptions of what ran.

Leaves say what one release did; the combinators `PoissonSampled`, `Repeated`,
`Composed` and `Parallel` say how releases were put together. A description
holds no arithmetic: `privacy.accounting` folds it into a curve.

The builders `repeat`, `compose` and `parallel` normalise what they build, so
that equal plans compare equal; the node classes are for matching and for JSON.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from privacy import _checks
from privacy.relations import NeighboringRelation

Cells = Literal["by_record", "by_public_index"]

_GROUP = "Let user_level(PoissonSampled(...), max_contributions=...) build it."
_ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE


class UnsupportedMechanism(NotImplementedError):
    """No proven rule answers this mechanism in this notion and relation."""


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


def _freeze(node: Mechanism, **values: object) -> None:
    for name, value in values.items():
        object.__setattr__(node, name, value)


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
        _freeze(
            self,
            noise_multiplier=_checks.real(
                "noise_multiplier", self.noise_multiplier, remedy, above=0
            ),
            replace_distance=_replace_distance(self.replace_distance),
        )


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
        _freeze(
            self,
            scale=_checks.real("scale", self.scale, remedy, above=0),
            replace_distance=_replace_distance(self.replace_distance),
        )


def _replace_distance(value: float) -> float:
    remedy = "Pass how far replacing one record moves the query, in clip norms; 2 is always safe."
    return _checks.real("replace_distance", value, remedy, above=0, at_most=2)


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
        _freeze(self, epsilon=_checks.epsilon(self.epsilon), categories=categories)


@dataclass(frozen=True)
class PureDP(Mechanism):
    """Any mechanism proven epsilon-DP under `relation`."""

    epsilon: float
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        _freeze(
            self, epsilon=_checks.epsilon(self.epsilon), relation=_checks.relation(self.relation)
        )


@dataclass(frozen=True)
class ApproximateDP(Mechanism):
    """Any mechanism proven (epsilon, delta)-DP under `relation`; epsilon >= 0."""

    epsilon: float
    delta: float
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the epsilon that was proven."
        _freeze(
            self,
            epsilon=_checks.real("epsilon", self.epsilon, remedy, at_least=0),
            delta=_checks.delta(self.delta),
            relation=_checks.relation(self.relation),
        )


@dataclass(frozen=True)
class ZeroConcentratedDP(Mechanism):
    """Any mechanism proven rho-zCDP under `relation` (Bun and Steinke 2016)."""

    rho: float
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the rho that was proven, such as rho=0.1."
        _freeze(
            self,
            rho=_checks.real("rho", self.rho, remedy, above=0),
            relation=_checks.relation(self.relation),
        )


class _Unsampled(type):
    """Lets ``PoissonSampled(m, sampling_probability=1)`` be `m` itself."""

    def __call__(cls, mechanism: Mechanism, *, sampling_probability: float) -> Any:
        mechanism = checked(mechanism, "PoissonSampled(mechanism, ...)")
        q = _checks.probability(sampling_probability)
        if q == 1:
            return mechanism
        if isinstance(mechanism, PoissonSampled):  # each record passes both coins
            q = math.nextafter(q * mechanism.sampling_probability, 1.0)
            mechanism = mechanism.mechanism
        return super().__call__(mechanism, q)


@dataclass(frozen=True)
class PoissonSampled(Mechanism, metaclass=_Unsampled):
    """`mechanism` run once on a Poisson sample of the records.

    Every record is kept independently with `sampling_probability`, ONCE, for
    all of `mechanism`: a sampled repetition uses one sample again and again.
    A training run of T fresh samples is ``repeat(PoissonSampled(m, ...), T)``.
    Which records were kept stays secret.

    Parameters
    ----------
    mechanism
        What runs on the sample.
    sampling_probability
        Probability q in (0, 1] that a record is kept; 1 gives `mechanism`
        itself, and nested samplings multiply.
    """

    mechanism: Mechanism
    sampling_probability: float


@dataclass(frozen=True)
class GroupSampled(Mechanism):
    """`mechanism` on a Poisson sample, as seen by a group of records. Built by `user_level`.

    Each of the group's `size` records is kept independently with `sampling_probability`; all of
    them are there, or none is.
    """

    mechanism: Mechanism
    sampling_probability: float
    size: int

    def __post_init__(self) -> None:
        q = _checks.probability(self.sampling_probability)
        size = _checks.count("size", self.size, _GROUP)
        for name, value, within, rule in (
            ("sampling_probability", q, q < 1, "< 1"),
            ("size", size, size > 1, ">= 2"),
        ):
            if not within:
                raise ValueError(_checks.expected(name, value, rule, _GROUP))
        _freeze(self, mechanism=checked(self.mechanism, "mechanism"), size=size)
        _freeze(self, sampling_probability=q)


@dataclass(frozen=True)
class Repeated(Mechanism):
    """`mechanism` run `count` times with fresh randomness. Built by `repeat`."""

    mechanism: Mechanism
    count: int


@dataclass(frozen=True)
class Composed(Mechanism):
    """All of `parts` run on the same records. Built by `compose`."""

    parts: tuple[Mechanism, ...]


@dataclass(frozen=True)
class Parallel(Mechanism):
    """Each of `parts` run on its own cell of the records. Built by `parallel`."""

    parts: tuple[Mechanism, ...]
    cells: Cells = "by_record"

    CELLS: ClassVar[tuple[Cells, ...]] = ("by_record", "by_public_index")


def checked(value: object, where: str) -> Mechanism:
    """Return the value if it is a mechanism; `where` names it in the error."""
    if not isinstance(value, Mechanism):
        remedy = "Pass a mechanism, such as Gaussian(1.0)."
        if isinstance(value, list | tuple) and where == "mechanisms":
            remedy = "Pass them one by one: compose(*mechanisms)."
        raise TypeError(_checks.expected(where, value, "a mechanism", remedy))
    return value


def repeat(mechanism: Mechanism, count: int) -> Mechanism:
    """Describe `count` runs of `mechanism` with fresh randomness each time.

    Parameters
    ----------
    mechanism
        What one run is.
    count
        Number of runs (the steps T), a whole number >= 1.

    Returns
    -------
    Mechanism
        Repeating once gives `mechanism` itself; repetitions multiply.
    """
    mechanism = checked(mechanism, "mechanism")
    count = _checks.count("count", count, "Pass the number of runs (steps), at least 1.")
    if isinstance(mechanism, Repeated):
        count = _checks.count("count", count * mechanism.count, "Pass fewer runs (steps).")
        mechanism = mechanism.mechanism
    return mechanism if count == 1 else Repeated(mechanism, count)


def compose(*mechanisms: Mechanism) -> Mechanism:
    """Describe all of `mechanisms` run on the same records.

    Later mechanisms may be chosen by looking at earlier outputs as long as the
    plan itself (this list) was fixed in advance.

    Returns
    -------
    Mechanism
        Nested compositions are flattened, equal parts merged into one repetition,
        and the parts sorted; composing one mechanism gives that mechanism.
    """
    counts: dict[Mechanism, int] = {}
    for part in _flat(mechanisms):
        once = part.mechanism if isinstance(part, Repeated) else part
        counts[once] = counts.get(once, 0) + (part.count if isinstance(part, Repeated) else 1)
    if not counts:
        raise ValueError(
            _checks.expected("mechanisms", (), "at least one mechanism", "Pass what ran.")
        )
    parts = tuple(sorted((repeat(once, n) for once, n in counts.items()), key=repr))
    return parts[0] if len(parts) == 1 else Composed(parts)


def _flat(mechanisms: tuple[Mechanism, ...]) -> list[Mechanism]:
    flat: list[Mechanism] = []
    for part in mechanisms:
        part = checked(part, "mechanisms")
        flat.extend(part.parts if isinstance(part, Composed) else (part,))
    return flat


def parallel(*mechanisms: Mechanism, cells: Cells = "by_record") -> Mechanism:
    """Describe `mechanisms` run on disjoint cells of the records.

    A record's cell depends on that record or on public data alone, never on
    other records (no quantile cells).

    Parameters
    ----------
    mechanisms
        One mechanism a cell.
    cells
        ``"by_record"``: the cell is read off the record, so that a replaced
        record can leave one cell and enter another. ``"by_public_index"``: the
        cell is fixed by public data (a round number) and does not change.

    Returns
    -------
    Mechanism
        One mechanism gives itself, where its cell is the whole data set.
    """
    if cells not in Parallel.CELLS:
        remedy = "Say whether a replaced record can change its cell ('by_record') or not."
        raise ValueError(_checks.expected("cells", cells, f"one of {Parallel.CELLS}", remedy))
    if not mechanisms:
        raise ValueError(
            _checks.expected("mechanisms", (), "at least one mechanism", "Pass what ran.")
        )
    parts = tuple(checked(part, "mechanisms") for part in mechanisms)
    return parts[0] if len(parts) == 1 else Parallel(parts, cells)


LEAVES: tuple[type[Mechanism], ...] = (
    Gaussian,
    Laplace,
    RandomizedResponse,
    PureDP,
    ApproximateDP,
    ZeroConcentratedDP,
)


def mechanism_from_json(form: Mapping[str, Any]) -> Mechanism:
    """Build the mechanism that `Mechanism.to_json` wrote, with every check.

    Parameters
    ----------
    form
        A mapping with the key ``"type"`` (a class name) and that class's
        fields, such as ``{"type": "Gaussian", "noise_multiplier": 1.0}``.

    Raises
    ------
    ValueError, TypeError
        The type or a field is not known, missing, or outside its domain.
    """
    if not isinstance(form, Mapping):
        raise TypeError(_checks.expected("mechanism", form, "an object", _FORM))
    values = dict(form)
    kind = values.pop("type", None)
    build = _BUILDERS.get(str(kind))
    if build is None:
        like = [name for name in _BUILDERS if name.lower() == str(kind).lower()]
        remedy = f"Did you mean {like[0]!r}?" if like else _FORM
        known = ", ".join(sorted(_BUILDERS))
        raise ValueError(_checks.expected("type", kind, f"one of {known}", remedy))
    if "mechanism" in values:
        values["mechanism"] = mechanism_from_json(values["mechanism"])
    parts = values.pop("parts", ())
    if not isinstance(parts, list | tuple):
        raise TypeError(_checks.expected("parts", parts, "a list", _FORM))
    parts = [mechanism_from_json(part) for part in parts]
    try:
        return build(*parts, **values)
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise ValueError(_checks.expected("mechanism", dict(form), f"a {kind}", _FORM)) from error


_FORM = 'Pass {"type": ..., fields ...}, as to_json() writes it.'
_BUILDERS: dict[str, Callable[..., Mechanism]] = {leaf.__name__: leaf for leaf in LEAVES} | {
    "PoissonSampled": PoissonSampled,
    "GroupSampled": GroupSampled,
    "Repeated": repeat,
    "Composed": compose,
    "Parallel": parallel,
}
