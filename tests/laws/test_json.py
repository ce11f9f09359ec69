"""A description survives writing, reading, pickling and copying, and stays equal and hashable."""

import copy
import json
import pickle

from hypothesis import given, settings

import privacy as dp
from tests.laws.strategies import trees


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
