"""Every registered mechanism is complete."""

import copy
import json
import math
import pickle
from dataclasses import fields
from pathlib import Path

import pytest

import privacy as dp
from privacy import mechanisms
from privacy.accounting import NOTION_MODULES
from tests.audit import worst_cases

EXAMPLES = {
    known.kind: known.example for known in mechanisms.REGISTRY.values() if known.example is not None
} | {
    dp.PureDP: dp.PureDP(0.25, relation="REPLACE_ONE"),
    dp.ApproximateDP: dp.ApproximateDP(0.25, 1e-7, relation="REPLACE_SPECIAL"),
    dp.ZeroConcentratedDP: dp.ZeroConcentratedDP(0.125, relation="REPLACE_ONE"),
}
KINDS = tuple(EXAMPLES)
COMBINED = [
    dp.repeat(dp.Gaussian(1.0), 10**20),
    dp.compose(dp.Gaussian(1.0), dp.repeat(dp.Laplace(2.0), 3)),
    dp.parallel(dp.Gaussian(1.0), dp.Gaussian(2.0)),
    dp.parallel(dp.Gaussian(1.0), dp.PureDP(1.0), cells="by_public_index"),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
each_form = pytest.mark.parametrize(
    "mechanism", [*EXAMPLES.values(), *COMBINED], ids=lambda m: type(m).__name__
)


def test_the_registry_walk_covers_every_public_mechanism():
    public = {getattr(dp, name) for name in dp.__all__}
    described = {
        thing
        for thing in public
        if isinstance(thing, type)
        and issubclass(thing, mechanisms.Mechanism)
        and thing is not mechanisms.Mechanism
    }
    assert described | {mechanisms.GroupSampled, mechanisms.NoOp} == set(KINDS) == set(EXAMPLES)


def relation_of(example):
    return getattr(example, "relation", dp.NeighboringRelation.ADD_OR_REMOVE_ONE)


@each_kind
def test_the_matrix_names_the_methods_that_support_each_mechanism(kind):
    answering = []
    example = mechanisms.REGISTRY[kind.__name__].example
    for notion in NOTION_MODULES:
        try:
            dp.account(example, notion=notion, relation=relation_of(example))
        except dp.UnsupportedMechanism:
            continue
        answering.append(notion)
    assert answering
    assert dp.support_matrix()[kind.__name__] == tuple(answering)


@each_kind
def test_registered_mechanisms_are_supported(kind):
    example = EXAMPLES[kind]
    found = dp.account(example, relation=relation_of(example)).guarantee(delta=1e-5)
    assert found.notion in NOTION_MODULES
    assert (found.epsilon == 0) == (kind is mechanisms.NoOp)
    assert 0 <= found.epsilon < 100


def test_the_matrix_has_no_other_rows():
    assert set(dp.support_matrix()) == {kind.__name__ for kind in KINDS}


def test_the_documentation_shows_the_matrix():
    page = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    (head,) = (row for row in rows if row[0] == "mechanism" and "zcdp" in row)
    assert tuple(head[1:]) == tuple(NOTION_MODULES)
    shown = {row[0].strip("`"): row[1:] for row in rows if "yes" in row}
    assert shown == {
        kind: ["yes" if notion in notions else "" for notion in NOTION_MODULES]
        for kind, notions in dp.support_matrix().items()
    }


def test_every_mechanism_has_a_theorem_and_audits():
    """With those of `test_plan`, `test_truths` and the matrix, all that a mechanism brings."""
    page = Path(__file__).parents[2] / "docs" / "mechanisms.md"
    section = page.read_text(encoding="utf-8").split("## Theorems and releases")[1]
    rows = [line.split("|") for line in section.split("##")[0].splitlines() if "| `" in line]
    assert all(len(row) == 5 and row[2].strip() for row in rows)
    stated = {name.strip(" `") for row in rows for name in row[1].split(",")}
    assert stated == mechanisms.REGISTRY.keys()
    assert mechanisms.REGISTRY.keys() == worst_cases.SIMULATED.keys()


@each_form
def test_json(mechanism):
    form = mechanism.to_json()
    assert form["type"] == type(mechanism).__name__
    assert set(form) == {"type", *(field.name for field in fields(mechanism))}
    again = dp.mechanism_from_json(json.loads(json.dumps(form, allow_nan=False)))
    assert again == mechanism
    assert type(again) is type(mechanism)


@each_form
def test_pickle_copy_and_hash(mechanism):
    for again in (pickle.loads(pickle.dumps(mechanism)), copy.deepcopy(mechanism)):
        assert again == mechanism
        assert hash(again) == hash(mechanism)
        assert {mechanism: 1}[again] == 1


@each_form
def test_frozen(mechanism):
    for field in fields(mechanism):
        with pytest.raises(AttributeError):
            setattr(mechanism, field.name, None)


@each_form
def test_two_kinds_are_never_equal(mechanism):
    others = [m for m in (*EXAMPLES.values(), *COMBINED) if type(m) is not type(mechanism)]
    assert mechanism not in others


def test_numbers_are_normalized():
    assert dp.Gaussian(1) == dp.Gaussian(1.0)
    assert hash(dp.Gaussian(1)) == hash(dp.Gaussian(1.0))
    assert dp.repeat(dp.Gaussian(1), 3.0) == dp.repeat(dp.Gaussian(1), 3)
    assert dp.PureDP(1, relation="REPLACE_ONE").to_json()["relation"] == "REPLACE_ONE"


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"type": "Gausian", "noise_multiplier": 1},
        {"type": None},
        {"type": "Gaussian"},
        {"type": "Gaussian", "sigma": 1},
        {"type": "Gaussian", "noise_multiplier": -1},
        {"type": "Gaussian", "noise_multiplier": math.nan},
        {"type": "Composed", "parts": []},
        {"type": "Parallel", "parts": []},
        {"type": "Repeated", "count": 2},
        {"type": "Repeated", "mechanism": {"type": "Gaussian", "noise_multiplier": 1}, "count": 0},
        {"type": "PureDP", "epsilon": 1, "relation": "SOME"},
    ],
)
def test_json_of_no_known_type_is_rejected(form):
    with pytest.raises(ValueError, match="Expected"):
        dp.mechanism_from_json(form)


@pytest.mark.parametrize(
    "form",
    [
        None,
        "Gaussian",
        [],
        1,
        {"type": "Gaussian", "noise_multiplier": "1"},
        {"type": "Repeated", "mechanism": None, "count": 2},
        {"type": "Composed", "parts": 5},
        {"type": "Composed", "parts": ["Gaussian"]},
    ],
)
def test_a_form_of_the_wrong_type(form):
    with pytest.raises(TypeError, match="Expected"):
        dp.mechanism_from_json(form)


class TestNormalForms:
    """Equal plans compare equal."""

    gaussian, laplace = dp.Gaussian(1.0), dp.Laplace(1.0)

    def test_repeat(self):
        assert dp.repeat(self.gaussian, 1) is self.gaussian
        assert dp.repeat(dp.repeat(self.gaussian, 3), 4) == dp.repeat(self.gaussian, 12)

    def test_compose(self):
        assert dp.compose(self.gaussian) is self.gaussian
        assert dp.compose(self.gaussian, self.gaussian) == dp.repeat(self.gaussian, 2)
        nested = dp.compose(dp.compose(self.gaussian, self.laplace), self.gaussian)
        assert nested == dp.compose(dp.repeat(self.gaussian, 2), self.laplace)

    def test_parallel(self):
        assert dp.parallel(self.gaussian) is self.gaussian
        fixed = dp.parallel(self.gaussian, self.laplace, cells="by_public_index")
        assert fixed != dp.parallel(self.gaussian, self.laplace)

    def test_sampling(self):
        assert dp.PoissonSampled(self.gaussian, sampling_probability=1) is self.gaussian
        assert dp.PoissonSampled(self.gaussian, sampling_probability=True / 1) is self.gaussian
        with pytest.raises(TypeError):
            dp.PoissonSampled(self.gaussian, 0.5)

    def test_a_sampled_repetition_is_not_a_repeated_sample(self):
        once = dp.PoissonSampled(dp.repeat(self.gaussian, 2), sampling_probability=0.5)
        fresh = dp.repeat(dp.PoissonSampled(self.gaussian, sampling_probability=0.5), 2)
        assert once != fresh
        assert dp.mechanism_from_json(once.to_json()) == once
