"""Strategies of neighboring data sets."""

import math
from collections import Counter

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

import privacy as dp
from privacy.audit import assert_contribution, edge_floats, neighboring_pairs

ONE, REPLACE, SPECIAL = dp.NeighboringRelation
records = st.integers(1, 5)


def differ(pair):
    """Return the rows that only the first, and only the second data set has."""
    first, second = map(Counter, pair)
    return sorted((first - second).elements()), sorted((second - first).elements())


@given(neighboring_pairs(records))
def test_one_record_more(pair):
    assert {len(rows) for rows in differ(pair)} == {0, 1}


@given(neighboring_pairs(records, REPLACE))
def test_one_record_replaced(pair):
    assert len(pair.first) == len(pair.second)
    assert sum(a != b for a, b in zip(*pair, strict=True)) <= 1


@given(neighboring_pairs(records, "REPLACE_SPECIAL", null=0))
def test_one_record_zeroed(pair):
    ((a, b),) = [(a, b) for a, b in zip(*pair, strict=True) if a != b]
    assert 0 in (a, b)


@given(
    st.sampled_from([ONE, REPLACE, SPECIAL]).flatmap(
        lambda relation: st.tuples(
            st.just(relation), neighboring_pairs(records, relation, null=0, unit="user")
        )
    )
)
def test_all_records_of_one_user(drawn):
    relation, pair = drawn
    rows = [row for side in differ(pair) for row in side]
    assert {user for user, _ in rows} <= {0}
    assert len(rows) <= 8
    if relation is ONE:
        assert 0 in map(len, differ(pair))
    else:
        assert [user for user, _ in pair.first] == [user for user, _ in pair.second]


@pytest.mark.parametrize("relation", [ONE, REPLACE])
def test_both_orders_and_many_records_occur(relation):
    pairs = neighboring_pairs(records, relation, unit="user")
    find(pairs, lambda pair: sum(differ(pair)[0] and [1]) and len(pair.first) > 3)
    find(pairs, lambda pair: sum(user == 0 for user, _ in (*pair.first, *pair.second)) >= 3)


def test_a_counterexample_is_simple():
    pair = find(neighboring_pairs(records), lambda pair: fails(len, pair, 0.5))
    assert sorted(map(len, pair)) == [0, 1]


def fails(query, pair, bound):
    try:
        assert_contribution(query, pair, bound)
    except AssertionError:
        return True
    return False


def test_edges():
    floats = edge_floats(0.3)
    for edge in (0.3, math.nextafter(0.3, 1), math.inf, -math.inf, 5e-324, -1e308):
        find(floats, lambda x, edge=edge: x == edge)
    find(floats, math.isnan)
    find(floats, lambda x: x == 0 and math.copysign(1, x) < 0)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Expected null"):
        neighboring_pairs(records, SPECIAL)
    with pytest.raises(ValueError, match="Expected unit"):
        neighboring_pairs(records, unit="household")
    with pytest.raises(ValueError, match="Expected relation"):
        neighboring_pairs(records, "SOME")
    with pytest.raises(ValueError, match="Expected bound"):
        edge_floats(0)
