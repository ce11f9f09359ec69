"""Hypothesis strategies (extra ``audit``) for neighboring data sets and floats at the edges."""

import math
from typing import Any, NamedTuple

from privacy import checks
from privacy.relations import NeighboringRelation

with checks.installed("audit"):
    from hypothesis import strategies as st

_RELATION = NeighboringRelation


class Pair(NamedTuple):
    """Two neighboring data sets: lists of records, or of (user, record)."""

    first: list[Any]
    second: list[Any]


def neighboring_pairs(
    records: st.SearchStrategy[Any],
    relation: NeighboringRelation = _RELATION.ADD_OR_REMOVE_ONE,
    *,
    null: Any = None,
    unit: str = "record",
    max_size: int = 10,
    max_per_user: int = 4,
) -> st.SearchStrategy[Pair]:
    """Return a Hypothesis strategy for neighboring data sets, with records from `records`.

    `null` is the record that contributes nothing; REPLACE_SPECIAL requires it. `unit` is
    ``"record"``, or ``"user"``: data are then lists of (user, record), in any order, that differ in
    all records of one user, at most `max_per_user`. At most `max_size` records are in common.
    """
    relation = checks.relation(relation)
    remedy = "Pass the unit of privacy."
    checks.refuse_if(unit not in ("record", "user"), "unit", unit, "'record' or 'user'", remedy)
    if relation is _RELATION.REPLACE_SPECIAL and null is None:
        remedy = "Pass the record that contributes nothing, such as null=0.0."
        raise ValueError(checks.expected("null", null, "given", remedy))
    by_user = unit == "user"

    @st.composite
    def pairs(draw: st.DrawFn) -> Pair:
        row = st.tuples(st.integers(1, 3), records) if by_user else records
        common = draw(st.lists(row, max_size=max_size))
        size = draw(st.integers(1, max_per_user)) if by_user else 1
        changed = [draw(records) for _ in range(size)]
        if relation is _RELATION.REPLACE_ONE:
            others = [draw(records) for _ in range(size)]
        else:
            others = [null] * size
        first, second = list(common), list(common)
        for one, other in zip(changed, others, strict=True):
            at = draw(st.integers(0, len(first)))
            first.insert(at, (0, one) if by_user else one)
            if relation is not _RELATION.ADD_OR_REMOVE_ONE:
                second.insert(at, (0, other) if by_user else other)
        return Pair(first, second) if draw(st.booleans()) else Pair(second, first)

    return pairs()


def edge_floats(bound: float = 1.0) -> st.SearchStrategy[float]:
    """Return a Hypothesis strategy: floats up to 2 `bound`, near `bound`, huge, tiny, NaN, inf."""
    bound = checks.real("bound", bound, "Pass the norm bound that is tested.", above=0)
    edges = [0.0, bound, math.nextafter(bound, math.inf), math.nextafter(bound, 0), bound / 3]
    edges += [1e308, 5e-324, 2.0**-1022, 2.0**53 + 2]
    return st.one_of(
        st.floats(-2 * bound, 2 * bound),
        st.sampled_from([value for edge in edges for value in (edge, -edge)]),
        st.sampled_from([math.nan, math.inf, -math.inf]),
    )
