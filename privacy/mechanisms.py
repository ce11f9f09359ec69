"""Mechanisms: frozen, hashable, validated descriptions of what ran.

Leaves (`privacy._leaves`) say what one release did; the combinators `PoissonSampled`, `Repeated`,
`Composed` and `Parallel` say how releases were put together. A description
holds no arithmetic: `privacy.accounting` folds it into a curve.

The builders `repeat`, `compose` and `parallel` normalise what they build, so
that equal plans compare equal; the node classes are for matching and for JSON.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from privacy import _checks
from privacy._leaves import (
    LEAVES,
    ApproximateDP,
    Gaussian,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    ZeroConcentratedDP,
    freeze,
)
from privacy._names import told_by_ours
from privacy.relations import NeighboringRelation

__all__ = [
    "LEAVES",
    "ApproximateDP",
    "Cells",
    "Composed",
    "Gaussian",
    "GroupSampled",
    "Laplace",
    "Mechanism",
    "Parallel",
    "PoissonSampled",
    "PureDP",
    "RandomizedResponse",
    "Repeated",
    "UnsupportedMechanism",
    "ZeroConcentratedDP",
    "checked",
    "compose",
    "mechanism_from_json",
    "parallel",
    "repeat",
]

Cells = Literal["by_record", "by_public_index"]

_GROUP = "Let user_level(PoissonSampled(...), max_contributions=...) build it."
_ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE


class UnsupportedMechanism(NotImplementedError):
    """No proven rule answers this mechanism in this notion and relation."""


class _Unsampled(type):
    """Lets ``PoissonSampled(m, sampling_probability=1)`` be `m` itself."""

    @told_by_ours
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
        freeze(self, mechanism=checked(self.mechanism, "mechanism"), size=size)
        freeze(self, sampling_probability=q)


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


@told_by_ours
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
        if "argument" not in str(error) and "keyword" not in str(error):
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
