"""The JSON Schema of plan files accepts what `load_plan` reads, and refuses misspelled plans."""

import copy
import json
import tomllib
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

import privacy as dp
from privacy.cli.plans import schema
from privacy.mechanisms import REGISTRY

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
VALIDATOR = jsonschema.Draft7Validator(dp.plan_schema())
PARTS = [known.example for known in REGISTRY.values() if known.example is not None]
PARTS += [
    dp.best_of(dp.Gaussian(4.0), mean_runs=10, distribution="poisson"),
    dp.compose(dp.Gaussian(4.0), dp.repeat(dp.Laplace(3.0), 5)),
    dp.parallel(dp.Gaussian(4.0), dp.Laplace(3.0)),
]


def written(part):
    return json.loads(json.dumps(dp.Plan("plan", (("part", part),), delta=1e-6).to_json()))


def test_the_schema_is_one_and_the_command_prints_it():
    jsonschema.Draft7Validator.check_schema(dp.plan_schema())
    assert json.loads(CliRunner().invoke(schema, []).output) == dp.plan_schema()
    assert dp.plan_schema()["definitions"].keys() == {"mechanism", *REGISTRY}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: type(part).__name__)
def test_every_mechanism_can_be_a_part(part):
    form = written(part)
    VALIDATOR.validate(form)
    assert dp.plan_from_json(form).mechanism == part


def test_keys_of_a_run_are_accepted_where_the_mechanism_has_none_of_that_name():
    form = written(dp.Gaussian(4.0))
    form["part"][0] |= {"steps": 10, "sampling_probability": 0.1, "max_contributions": 2}
    VALIDATOR.validate(form)
    step = dp.PoissonSampled(dp.Gaussian(4.0), sampling_probability=0.1)
    step = dp.user_level(step, max_contributions=2)
    assert dp.plan_from_json(form).mechanism == dp.repeat(step, 10)


@pytest.mark.parametrize("name", ["plan.toml", "over_budget.toml", "mechanisms.toml"])
def test_the_examples_are_valid(name):
    VALIDATOR.validate(tomllib.loads((EXAMPLES / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "change",
    [
        lambda form: form.pop("schema"),
        lambda form: form.update(schema="dpcalib.plan/0"),
        lambda form: form.update(relation="add"),
        lambda form: form.update(part=[]),
        lambda form: form.update(budget={"epsilon": 1.0}),
        lambda form: form["budget"].update(delta=1.0),
        lambda form: form["part"][0].update(type="Gausian"),
        lambda form: form["part"][0].update(sigma=1.0),
        lambda form: form["part"][0].update(noise_multiplier="4"),
        lambda form: form["part"][0].update(steps=0),
        lambda form: form["part"][0].pop("noise_multiplier"),
        lambda form: form["part"][0].pop("name"),
    ],
)
def test_both_refuse(change):
    form = written(dp.Gaussian(4.0))
    VALIDATOR.validate(form)
    changed = copy.deepcopy(form)
    change(changed)
    assert not VALIDATOR.is_valid(changed)
    with pytest.raises((ValueError, TypeError)):
        dp.plan_from_json(changed)
