"""A description survives writing, reading, pickling and copying, and stays equal and hashable."""

import copy
import json
import pickle

from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import deltas, epsilons, relations, trees


@settings(max_examples=200)
@given(trees)
def test_json_round_trip(tree):
    written = json.dumps(tree.to_json(), allow_nan=False)
    again = dp.mechanism_from_json(json.loads(written))
    assert again == tree
    assert hash(again) == hash(tree)
    assert json.dumps(again.to_json()) == written


@settings(max_examples=100)
@given(trees)
def test_pickle_and_copy(tree):
    for again in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree), copy.copy(tree)):
        assert again == tree
        assert hash(again) == hash(tree)
        assert type(again) is type(tree)


@settings(max_examples=100)
@given(trees)
def test_a_printed_description_names_its_parts(tree):
    shown = repr(tree)
    assert shown.startswith(type(tree).__name__)
    assert tree in {tree}


notions = st.sampled_from(["tightest", "zcdp", "rdp"])
names = st.text(min_size=1).filter(lambda text: text.isprintable() and text.strip())


@settings(max_examples=50)
@given(
    st.dictionaries(names, trees, min_size=1, max_size=2),
    names,
    st.one_of(st.none(), epsilons),
    st.one_of(st.just(0.0), deltas),
    relations,
    notions,
)
def test_plan_round_trip(parts, name, epsilon, delta, relation, notion):
    plan = dp.Plan(
        name, tuple(parts.items()), epsilon=epsilon, delta=delta, relation=relation, notion=notion
    )
    assert plan.mechanism == dp.compose(*parts.values())
    written = json.dumps(plan.to_json(), allow_nan=False)
    again = dp.plan_from_json(json.loads(written))
    assert again == plan
    assert hash(again) == hash(plan)
    assert json.dumps(again.to_json()) == written
    assert pickle.loads(pickle.dumps(plan)) == plan
