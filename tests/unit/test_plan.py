"""Plan files: their meaning, their errors, and the commands that read them."""

import copy
import json
import math
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import privacy as dp
from privacy.cli.plans import account, check
from privacy.mechanisms import REGISTRY

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PLAN = EXAMPLES / "plan.toml"
OVER = EXAMPLES / "over_budget.toml"

HEAD = 'schema = "dpcalib.plan/1"\nname = "one query"\n'
BUDGET = "[budget]\nepsilon = 1\ndelta = 1e-6\n"
PART = '[[part]]\nname = "sum"\ntype = "Gaussian"\nnoise_multiplier = 20\n'


@pytest.fixture
def plan_file(tmp_path):
    def write(text):
        path = tmp_path / "plan.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def call(command, *args):
    return CliRunner().invoke(command, [str(arg) for arg in args], prog_name="dpcalib")


def answer(command, *args, code=0):
    done = call(command, *args, "--json")
    assert done.exit_code == code, done.output
    assert done.stderr == ""
    (line,) = done.stdout.splitlines()
    return json.loads(line, parse_constant=pytest.fail)


class TestLoad:
    def test_every_field(self):
        plan = dp.load_plan(PLAN)
        training = dp.repeat(dp.PoissonSampled(dp.Gaussian(2.5), sampling_probability=0.01), 1000)
        assert plan.parts == (
            ("training", training),
            ("histogram", dp.Laplace(20.0)),
            ("mean age", dp.Gaussian(20.0)),
        )
        assert plan.mechanism == dp.compose(training, dp.Laplace(20.0), dp.Gaussian(20.0))
        assert plan.name == "two queries and a training run"
        assert (plan.epsilon, plan.delta, plan.notion) == (1.0, 1e-6, "tightest")
        assert plan.relation is dp.NeighboringRelation.ADD_OR_REMOVE_ONE

    def test_optional_fields_have_defaults(self, plan_file):
        plan = dp.load_plan(str(plan_file(HEAD + "[budget]\ndelta = 0\n" + PART)))
        assert (plan.epsilon, plan.delta, plan.notion) == (None, 0.0, "tightest")
        assert plan.relation is dp.NeighboringRelation.ADD_OR_REMOVE_ONE
        assert plan.mechanism == dp.Gaussian(20.0)

    def test_relation_and_notion(self, plan_file):
        text = HEAD + 'relation = "REPLACE_ONE"\nnotion = "zcdp"\n' + BUDGET + PART
        plan = dp.load_plan(plan_file(text))
        assert plan.relation is dp.NeighboringRelation.REPLACE_ONE
        assert plan.notion == "zcdp"

    def test_equal_parts_under_two_names_both_count(self, plan_file):
        again = PART.replace('"sum"', '"the same sum"')
        plan = dp.load_plan(plan_file(HEAD + BUDGET + PART + again))
        assert plan.mechanism == dp.repeat(dp.Gaussian(20.0), 2)

    def test_any_tree_can_be_written(self, plan_file):
        part = """
            [[part]]
            name = "cells"
            type = "Parallel"
            cells = "by_public_index"
            steps = 3
            [[part.parts]]
            type = "Laplace"
            scale = 2
            [[part.parts]]
            type = "PoissonSampled"
            sampling_probability = 0.5
            mechanism = { type = "Gaussian", noise_multiplier = 1 }

            [[part]]
            name = "sampled"
            type = "PoissonSampled"
            sampling_probability = 0.25
            steps = 2
            mechanism = { type = "PureDP", epsilon = 0.5, relation = "REPLACE_ONE" }
            """
        plan = dp.load_plan(plan_file(HEAD + BUDGET + part))
        half = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.5)
        cells = dp.parallel(dp.Laplace(2.0), half, cells="by_public_index")
        claim = dp.PureDP(0.5, relation="REPLACE_ONE")
        quarter = dp.PoissonSampled(claim, sampling_probability=0.25)
        assert dict(plan.parts) == {"cells": dp.repeat(cells, 3), "sampled": dp.repeat(quarter, 2)}
        assert dp.plan_from_json(plan.to_json()) == plan

    def test_the_example_equals_its_json_form(self):
        plan = dp.load_plan(PLAN)
        form = plan.to_json()
        assert list(form) == ["schema", "name", "relation", "notion", "unit", "budget", "part"]
        assert form["schema"] == "dpcalib.plan/1"
        assert dp.plan_from_json(json.loads(json.dumps(form, allow_nan=False))) == plan
        assert copy.copy(plan) == plan
        assert plan in {plan}

    def test_frozen(self):
        with pytest.raises(AttributeError):
            dp.load_plan(PLAN).delta = 0.5


REFUSED = [
    ("", "Expected the plan to have the key 'schema'. Write schema = \"dpcalib.plan/1\"."),
    ('schema = "dpcalib.plan/2"\n', "Expected schema='dpcalib.plan/2' to be 'dpcalib.plan/1'."),
    (
        'schema = "dpcalib.plan/1"\n' + BUDGET + PART,
        "Expected the plan to have the key 'name'. Name the plan above its tables, such as",
    ),
    (HEAD.replace('"one query"', "5") + BUDGET + PART, "Expected name=5 to be text."),
    (HEAD.replace("one query", " ") + BUDGET + PART, "Expected name=' ' to be printable text."),
    (HEAD.replace("one query", r"\u001b[1m") + BUDGET + PART, "to be printable text."),
    (
        HEAD + PART,
        "Expected the plan to have the key 'budget'. Write a [budget] table with a delta.",
    ),
    (HEAD + "budget = 1\n" + PART, "Expected budget=1 to be a table."),
    (
        HEAD + "[budget]\nepsilon = 1\n" + PART,
        "Expected the [budget] table to have the key 'delta'.",
    ),
    (HEAD + "[budget]\ndelta = 2\n" + PART, "Expected delta=2 to be >= 0 and < 1."),
    (HEAD + "[budget]\ndelta = nan\n" + PART, "Expected delta=nan to be >= 0 and < 1."),
    (HEAD + "[budget]\ndelta = 0.1\nepsilon = 0\n" + PART, "Expected epsilon=0 to be > 0."),
    (
        HEAD + BUDGET + "rho = 1\n" + PART,
        "Expected key='budget.rho' to be one of epsilon, delta. Correct the key.",
    ),
    (
        HEAD + "parts = 1\n" + BUDGET + PART,
        "Expected key='parts' to be one of schema, name, relation, notion, unit, budget, part.",
    ),
    (HEAD + 'relation = "SOME"\n' + BUDGET + PART, "Expected relation='SOME' to be one of ADD_"),
    (HEAD + 'notion = "best"\n' + BUDGET + PART, "Expected notion='best' to be one of tightest, "),
    (HEAD + BUDGET, "Expected the plan to have the key 'part'. Write a [[part]] table"),
    (HEAD + "part = []\n" + BUDGET, "Expected parts=() to be at least one part."),
    (HEAD + "part = [1]\n" + BUDGET, "part 1: Expected part=1 to be a table."),
    (HEAD + BUDGET + PART.replace("[[part]]", "[part]"), "to be a list of tables."),
    (HEAD + BUDGET + PART + PART, "Expected name='sum' to be the name of one part."),
    (
        HEAD + BUDGET + PART.replace('name = "sum"', ""),
        "part 1: Expected the part to have the key 'name'.",
    ),
    (HEAD + BUDGET + PART.replace("Gaussian", "Gausian"), "part 'sum': Expected type='Gausian' to"),
    (HEAD + BUDGET + PART.replace("Gaussian", "gaussian"), "Did you mean 'Gaussian'?"),
    (HEAD + BUDGET + PART.replace("Gaussian", "Mechanism"), "part 'sum': Expected type='Mechanis"),
    (HEAD + BUDGET + PART.replace('type = "Gaussian"', ""), "part 'sum': Expected type=None to be"),
    (
        HEAD + BUDGET + PART + "sigma = 1\n",
        "sampling_probability. Write the noise_multiplier: sigma / clip norm.",
    ),
    (
        HEAD + BUDGET + PART.replace("noise_multiplier = 20", ""),
        "part 'sum': Expected the part to have the key 'noise_multiplier'. Gaussian needs it.",
    ),
    (HEAD + BUDGET + PART.replace("20", "-1"), "part 'sum': Expected noise_multiplier=-1 to be > "),
    (HEAD + BUDGET + PART.replace("20", "'1'"), "part 'sum': Expected noise_multiplier='1' to be "),
    (HEAD + BUDGET + PART + "steps = 0\n", "part 'sum': Expected steps=0 to be a whole number"),
    (
        HEAD + BUDGET + PART + "sampling_probability = 5\n",
        "part 'sum': Expected sampling_probability=5 to be > 0 and <= 1.",
    ),
    (
        HEAD + BUDGET + '[[part]]\nname = "all"\ntype = "Composed"\nparts = [{type = "No"}]\n',
        "part 'all': Expected type='No' to be one of",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_refused(plan_file, text, message):
    path = plan_file(text)
    with pytest.raises((ValueError, TypeError)) as caught:
        dp.load_plan(path)
    told = str(caught.value)
    assert told.startswith(f"In {path}: ")
    assert message in told
    assert told.count("Expected ") == 1
    for command in (account, check):
        done = call(command, path)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"Error: {told}\n"


def test_not_toml(plan_file):
    path = plan_file(HEAD + "[budget\n")
    with pytest.raises(ValueError, match=rf"^Expected path='{re.escape(str(path))}' to be TOML \("):
        dp.load_plan(path)
    assert call(check, path).exit_code == 2
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="to be TOML"):
        dp.load_plan(path)


@pytest.mark.parametrize(
    "part",
    [
        PART + "mechanism." * 30_000 + "type = 1\n",
        PART + "\"mechanism\" . 'mechanism' . " * 15_000 + "type = 1\n",
        "[part." + "a." * 30_000 + "b]\n",
        "part = [{" + "a." * 30_000 + "b = 1}]\n",
        "part = " + "[" * 30_000 + "\n",
    ],
    ids=["dotted key", "quoted keys", "table", "inline table", "array"],
)
def test_a_file_that_is_too_deep(plan_file, part):
    path = plan_file(HEAD + BUDGET + part)
    told = f"Expected path='{path}' to be nested at most 100 deep. Write the plan flat: [[part]] "
    with pytest.raises(ValueError, match=f"^{re.escape(told)}"):
        dp.load_plan(path)
    done = call(check, path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_dots_outside_of_keys_are_accepted(plan_file):
    many = ", ".join(["{type = 'Gaussian', noise_multiplier = 20.5}"] * 300)
    dots = ". ".join(["e.g. a word"] * 300)
    part = f'[[part]]  # {dots}\nname = "cells ...."\ntype = "Composed"\nparts = [{many}]\n'
    plan = dp.load_plan(plan_file(HEAD + BUDGET + part))
    assert plan.mechanism == dp.repeat(dp.Gaussian(20.5), 300)


FORM = {"schema": "dpcalib.plan/1", "name": "deep", "budget": {"delta": 1e-6}}


class TestSize:
    def nested(self, depth):
        form = {"type": "Gaussian", "noise_multiplier": 1}
        for _ in range(depth):
            form = {"type": "Repeated", "count": 1, "mechanism": form}
        return FORM | {"part": [{"name": "sum", **form}]}

    @pytest.mark.parametrize("depth", [100, 5000])
    def test_too_deep(self, depth):
        told = r"^part 'sum': Expected type='Repeated' to be nested at most 100 deep"
        with pytest.raises(ValueError, match=told):
            dp.plan_from_json(self.nested(depth))

    def test_the_deepest_allowed_nesting(self):
        assert dp.plan_from_json(self.nested(99)).mechanism == dp.Gaussian(1.0)

    def test_json_that_contains_itself_is_rejected(self):
        form = {"name": "sum", "type": "Composed"}
        form["parts"] = [form, form]
        with pytest.raises(ValueError, match="to hold at most 100000 values"):
            dp.plan_from_json(FORM | {"part": [form]})

    def test_too_many_parts(self):
        part = {"name": "sum", "type": "Gaussian", "noise_multiplier": 1}
        with pytest.raises(ValueError, match="Expected number of parts=100001 to be at most 1"):
            dp.plan_from_json(FORM | {"part": [part] * 100_001})

    def test_a_file_that_is_too_long(self, plan_file):
        path = plan_file(HEAD + BUDGET + PART + "#" * 8_000_000)
        with pytest.raises(ValueError, match="to be at most 8000000 bytes long"):
            dp.load_plan(path)

    def test_names_are_compared_once_each(self):
        """Comparing every name with every other one takes quadratic time."""

        class Name(str):
            __slots__ = ()
            compared = 0

            def __eq__(self, other):
                Name.compared += 1
                return str.__eq__(self, other)

            __hash__ = str.__hash__

        parts = tuple((Name(f"part {i}"), dp.Gaussian(1.0)) for i in range(2000))
        assert len(dp.Plan("many", parts, delta=1e-6).parts) == 2000
        assert Name.compared < 20_000


def test_no_such_file(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"^Expected path='.*' to be a file that can be read"
    ):
        dp.load_plan(tmp_path / "none.toml")
    with pytest.raises(OSError, match="to be a file that can be read"):
        dp.load_plan(tmp_path)
    for path in (tmp_path / "none.toml", tmp_path):
        done = call(account, path)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", [None, 1, "plan", []])
def test_a_form_of_the_wrong_type(form):
    with pytest.raises(TypeError, match="Expected plan="):
        dp.plan_from_json(form)


def test_a_non_mechanism_part_is_refused():
    with pytest.raises(TypeError, match="to be a mechanism"):
        dp.Plan("one", (("sum", 1.0),), delta=1e-6)


class TestAccount:
    def test_json(self):
        found = answer(account, PLAN)
        plan = dp.load_plan(PLAN)
        assert list(found) == [
            "schema",
            "version",
            "name",
            "epsilon",
            "delta",
            "relation",
            "unit",
            "notion",
            "order",
            "rho",
            "notions",
            "parts",
        ]
        assert found["schema"] == "dpcalib.account/1"
        assert found["rho"] is None  # sampled noise has none
        assert found["epsilon"] == dp.account(plan.mechanism).epsilon(1e-6)
        by = {row["notion"]: row["epsilon"] for row in found["notions"]}
        assert set(by) == {"contour", "pld", "rdp"}
        assert by[found["notion"]] == found["epsilon"] == min(by.values())
        assert by["rdp"] == dp.account(plan.mechanism, notion="rdp").epsilon(1e-6)
        assert [row["name"] for row in found["parts"]] == [name for name, _ in plan.parts]
        for row, (_, part) in zip(found["parts"], plan.parts, strict=True):
            assert row["epsilon"] == dp.account(part).epsilon(1e-6)

    def test_table(self):
        done = call(account, PLAN)
        assert done.exit_code == 0
        assert "\x1b" not in done.output
        (marked,) = (line for line in done.stdout.splitlines() if line.endswith("tightest"))
        assert marked.split()[0] == "contour"
        assert re.search(r"^mean age +0\.18\d+ +gaussian$", done.stdout, re.MULTILINE)

    def test_a_zcdp_plan_shows_the_shares_that_add_up(self, plan_file):
        claim = '[[part]]\nname = "claim"\ntype = "ZeroConcentratedDP"\nrho = 0.01\n'
        noise = '[[part]]\nname = "noise"\ntype = "Gaussian"\nnoise_multiplier = 30\nsteps = 9\n'
        path = plan_file(HEAD + BUDGET + claim + noise)
        found = answer(account, path)
        rhos = [part["rho"] for part in found["parts"]]
        assert rhos == pytest.approx([0.01, 0.005], rel=1e-15)
        assert found["rho"] >= math.fsum(rhos) - 1e-18
        assert found["rho"] == pytest.approx(0.015, rel=1e-15)
        text = call(account, path).stdout
        assert re.search(r"^rho \(zCDP\) +0\.015(0001)?$", text, re.MULTILINE)
        assert re.search(r"^part +epsilon +notion +rho$", text, re.MULTILINE)
        assert re.search(r"^noise +0\.\d+ +gaussian +0\.005(00001)?$", text, re.MULTILINE)

    def test_another_delta(self):
        found = answer(account, PLAN, "--delta", "1e-9")
        assert found["delta"] == 1e-9
        assert found["epsilon"] > answer(account, PLAN)["epsilon"]
        for wrong in ("2", "five"):
            done = call(account, PLAN, "--delta", wrong)
            assert (done.exit_code, done.stdout) == (2, "")

    def test_an_unbounded_epsilon(self, plan_file):
        path = plan_file(HEAD + "[budget]\ndelta = 0\nepsilon = 1\n" + PART)
        found = answer(account, path)
        assert found["epsilon"] == found["parts"][0]["epsilon"] == "inf"
        assert "inf" in call(account, path).stdout
        assert answer(check, path, code=3)["epsilon"] == "inf"

    def test_a_plan_that_no_method_supports(self, plan_file):
        claim = '[[part]]\nname = "claim"\ntype = "PureDP"\nepsilon = 1\n'
        path = plan_file(HEAD + 'relation = "REPLACE_ONE"\n' + BUDGET + claim)
        done = call(account, path)
        assert (done.exit_code, done.stdout) == (2, "")
        assert "Traceback" not in done.stderr


class TestCheck:
    def test_within(self):
        done = call(check, PLAN)
        assert (done.exit_code, done.stderr) == (0, "")
        (line,) = done.stdout.splitlines()
        assert re.fullmatch(
            r"Within budget: spent epsilon=0\.614\d+, allowed epsilon=1, at delta=1e-06 "
            r"for one record under ADD_OR_REMOVE_ONE\. Accounting method: contour\.",
            line,
        )

    def test_over(self):
        done = call(check, OVER)
        assert (done.exit_code, done.stderr) == (3, "")
        (line,) = done.stdout.splitlines()
        assert line.startswith("Over budget: spent epsilon=1.5")

    def test_json(self):
        found = answer(check, PLAN)
        assert list(found) == [
            "schema",
            "version",
            "name",
            "fits",
            "epsilon",
            "target_epsilon",
            "delta",
            "relation",
            "unit",
            "notion",
            "order",
        ]
        assert found["schema"] == "dpcalib.check/1"
        assert found["fits"] is True
        assert answer(check, OVER, code=3)["fits"] is False

    def test_a_budget_without_epsilon(self, plan_file):
        done = call(check, plan_file(HEAD + "[budget]\ndelta = 1e-6\n" + PART))
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith("Error: Expected budget.epsilon=None to be given. ")

    def test_noise_calibrated_to_the_budget_fits(self, plan_file):
        noise = dp.noise_multiplier(epsilon=1, delta=1e-6)
        path = plan_file(HEAD + BUDGET + PART.replace("20", repr(noise)))
        assert answer(check, path)["epsilon"] <= 1
        less = math.nextafter(noise, 0) * (1 - 1e-12)
        path = plan_file(HEAD + BUDGET + PART.replace("20", repr(less)))
        assert answer(check, path, code=3)["epsilon"] > 1

    def test_the_notion_of_the_plan_decides(self, plan_file):
        noise = dp.noise_multiplier(epsilon=1, delta=1e-6)
        text = HEAD + 'notion = "zcdp"\n' + BUDGET + PART.replace("20", repr(noise))
        found = answer(check, plan_file(text), code=3)
        assert found["notion"] == "zcdp"


def test_the_unit_of_privacy(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text(
        """
        schema = "dpcalib.plan/1"
        name = "per user"
        unit = "one user"
        [budget]
        delta = 1e-6
        [[part]]
        name = "training"
        type = "Gaussian"
        noise_multiplier = 2.0
        sampling_probability = 0.01
        steps = 1000
        max_contributions = 3
        """,
        encoding="utf-8",
    )
    plan = dp.load_plan(path)
    step = dp.PoissonSampled(dp.Gaussian(2.0), sampling_probability=0.01)
    assert plan.mechanism == dp.repeat(dp.user_level(step, max_contributions=3), 1000)
    assert plan.unit == plan.to_json()["unit"] == "one user"
    assert dp.plan_from_json(plan.to_json()) == plan


def types(form):
    """Return the type of every mechanism in a JSON form."""
    values = form.values() if isinstance(form, dict) else form if isinstance(form, list) else ()
    inner = set().union(*map(types, values))
    return inner | {form["type"]} if isinstance(form, dict) and "type" in form else inner


def test_every_mechanism_can_be_a_part():
    """A field of a mechanism named as a key of every part, such as `steps`, is the mechanism's."""
    plan = dp.load_plan(EXAMPLES / "mechanisms.toml")
    assert types(plan.to_json()) == REGISTRY.keys()
    assert dp.plan_from_json(plan.to_json()) == plan
    found = dict(plan.parts)
    noise = dp.Gaussian(4.0)
    assert found["batches of a fixed size"] == dp.repeat(
        dp.FixedSizeSampled(noise, batch_size=50, records=50_000), 1000
    )
    assert found["batches cut to a maximum size"] == dp.repeat(
        dp.TruncatedPoisson(noise, sampling_probability=0.001, max_batch_size=100, records=50_000),
        1000,
    )
    assert found["shuffled epochs"] == dp.Epochs(dp.Gaussian(100.0), passes=4)
    allocation = dp.RandomAllocation(dp.Gaussian(100.0), steps=100, epochs=2)
    assert found["every record in one random step per epoch"] == allocation
    assert found["correlated noise with four bands"] == dp.CyclicPoisson(noise, 0.01, 400, 4)
    step = dp.PoissonSampled(dp.Gaussian(5.0), sampling_probability=0.001)
    user = dp.repeat(dp.user_level(step, max_contributions=3), 1000)
    assert found["training, three records per user"] == user
