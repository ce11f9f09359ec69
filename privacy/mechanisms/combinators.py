"""Composition: repeated, on the same or on disjoint records. Results are normalized."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal, TypeVar

from privacy import checks
from privacy.losses.claims import NO_LOSS, ClaimPair
from privacy.mechanisms import base
from privacy.mechanisms.base import Mechanism, UnsupportedMechanism, brief, checked, unproven
from privacy.names import suggests_names
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, REPLACE_SPECIAL, NeighboringRelation

Cells = Literal["by_record", "by_public_index"]
_T = TypeVar("_T")


@dataclass(frozen=True)
class NoOp(Mechanism):
    """The output does not depend on the records. Built by `no_op`."""

    null_is_absent: ClassVar[bool] = True

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        """Return two equal distributions."""
        return NO_LOSS

    def for_group(self, size: int) -> "NoOp":
        return self


@dataclass(frozen=True)
class Repeated(base.OfParts):
    """`mechanism` run `count` times with fresh randomness. Built by `repeat`."""

    mechanism: Mechanism
    count: int


@dataclass(frozen=True)
class Composed(base.OfParts):
    """All of `parts` run on the same records. Built by `compose`."""

    parts: tuple[Mechanism, ...]


@dataclass(frozen=True)
class Parallel(base.OfParts):
    """Each of `parts` run on its own cell of the records. Built by `parallel`."""

    parts: tuple[Mechanism, ...]
    cells: Cells = "by_record"

    CELLS: ClassVar[tuple[Cells, ...]] = ("by_record", "by_public_index")

    def leaves_cell(self, part: Mechanism, relation: NeighboringRelation) -> bool:
        """Return whether the changed record can leave the cell of `part`, as if removed.

        A null record is in no cell, which equals a zero contribution only if `part.null_is_absent`.
        """
        if self.cells != "by_record":
            return False
        return relation is REPLACE_ONE or (relation is REPLACE_SPECIAL and not part.null_is_absent)

    def in_cells(
        self, relation: NeighboringRelation, ask: Callable[[Mechanism, NeighboringRelation], _T]
    ) -> tuple[list[_T], dict[Mechanism, _T]]:
        """Return the results of `ask` for each distinct part, and for each that a record can leave.

        The latter are under ADD_OR_REMOVE_ONE: a claim for `relation` covers no record that leaves.
        """
        parts = dict.fromkeys(self.parts)
        if self.cells == "by_record":
            moves = relation is REPLACE_ONE
            for part in base.nested(self):
                if part.fixed_count or (moves and part.largest_count):
                    reason = (
                        "It needs a fixed number of records, but a record can change its cell. "
                        'If cells are fixed by public data, pass cells="by_public_index".'
                    )
                    raise unproven(part, relation, reason)
        answers = [ask(part, relation) for part in parts]
        left = {}
        for part in parts:
            if not self.leaves_cell(part, relation):
                continue
            try:
                left[part] = ask(part, ADD_OR_REMOVE_ONE)
            except UnsupportedMechanism as refusal:
                raise UnsupportedMechanism(
                    f"Under {relation} a record may leave its cell, and {brief(part)} has no "
                    f"proven bound under {ADD_OR_REMOVE_ONE}.\n"
                    'If cells are fixed by public data, pass cells="by_public_index".',
                    mechanism=part,
                    notion=refusal.notion,
                ) from refusal
        return answers, left


@suggests_names
def repeat(mechanism: Mechanism, count: int) -> Mechanism:
    """Return `count` runs of `mechanism`, each with independent randomness.

    Parameters
    ----------
    mechanism
        What each run runs. One run is `mechanism` itself, and nested repetitions multiply.
    count
        The number of runs (the steps T), a whole number >= 0; 0 gives `no_op`.
    """
    mechanism = checked(mechanism, "mechanism")
    if type(count) is int and count == 1:
        return mechanism
    none = isinstance(count, Real) and not isinstance(count, bool) and count == 0
    if none or isinstance(mechanism, NoOp):
        return NoOp()
    count = checks.count("count", count, "Pass the number of runs (steps), at least 1.")
    if isinstance(mechanism, Repeated):
        count = checks.count("count", count * mechanism.count, "Pass fewer runs (steps).")
        mechanism = mechanism.mechanism
    return mechanism if count == 1 else Repeated(mechanism, count)


def _repeated(mechanism: Mechanism, count: int) -> Mechanism:
    """Read a form; `to_json` never writes a count of 0."""
    return repeat(mechanism, checks.count("count", count, "Pass the number of runs, at least 1."))


def no_op() -> Mechanism:
    """Return the mechanism that reads no record, the identity of `compose`, with epsilon 0."""
    return NoOp()


def compose(*mechanisms: Mechanism) -> Mechanism:
    """Return the composition of `mechanisms` on the same records.

    Later queries may depend on earlier outputs if this list was fixed in advance. Nested
    compositions are flattened, equal parts merged, and parts sorted. A single one is returned
    itself. For a list that may be empty, pass ``no_op()`` first; it is omitted beside others.
    """
    counts: dict[Mechanism, int] = {}
    for part in _flat(mechanisms):
        once = part.mechanism if isinstance(part, Repeated) else part
        counts[once] = counts.get(once, 0) + (part.count if isinstance(part, Repeated) else 1)
    remedy = "Pass no_op() if nothing ran."
    checks.refuse_if(not mechanisms, "mechanisms", (), "at least one mechanism", remedy)
    parts = tuple(sorted((repeat(once, n) for once, n in counts.items()), key=repr))
    if not parts:
        return NoOp()
    return parts[0] if len(parts) == 1 else Composed(parts)


def _flat(mechanisms: tuple[Mechanism, ...]) -> list[Mechanism]:
    flat: list[Mechanism] = []
    for part in mechanisms:
        part = checked(part, "mechanisms")
        if not isinstance(part, NoOp):
            flat.extend(part.parts if isinstance(part, Composed) else (part,))
    return flat


def parallel(*mechanisms: Mechanism, cells: Cells = "by_record") -> Mechanism:
    """Return the parallel composition of `mechanisms` on disjoint cells of the records.

    A record's cell must depend only on that record or on public data (no quantile cells). There is
    one mechanism per cell; a single one, whose cell is the whole data set, is returned itself. With
    `cells` ``"by_record"`` a replaced record can move to another cell; with ``"by_public_index"``
    the cell is fixed by public data (a round number).
    """
    remedy = "Pass 'by_record' if a replaced record can change its cell."
    checks.one_of("cells", cells, Parallel.CELLS, remedy)
    checks.refuse_if(not mechanisms, "mechanisms", (), "at least one mechanism", "Pass what ran.")
    parts = tuple(checked(part, "mechanisms") for part in mechanisms)
    return parts[0] if len(parts) == 1 else Parallel(parts, cells)


base.register_mechanism(NoOp())
base.add_to_registry(Repeated, _repeated)
base.add_to_registry(Composed, compose)
base.add_to_registry(Parallel, parallel)
