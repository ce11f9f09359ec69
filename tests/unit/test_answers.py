"""The functions behind the commands: the same answers and errors, as plain data."""

import inspect
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import privacy as dp
from privacy import answers, certification
from privacy.answers import runs
from privacy.cli import main
from privacy.cli.pages import FORMS
from privacy.cli.questions import told
from tests.proofs import proves

PLAN = Path(__file__).resolve().parents[2] / "examples" / "plan.toml"
TARGET = {"epsilon": 1.0, "delta": 1e-5}
RUN = {"sampling_probability": 0.01, "steps": 100}
QUESTIONS = [
    ("sigma", TARGET),
    ("sigma", TARGET | RUN | {"notion": "rdp"}),
    ("sigma", TARGET | {"relation": "replace-one", "clip_norm": 3, "certify": False}),
    ("epsilon", {"noise_multiplier": 2, "delta": 1e-5}),
    ("epsilon", {"sigma": 3.0, "clip_norm": 2, "delta": 1e-6, "notion": "zcdp"}),
    ("delta", {"noise_multiplier": 2, "epsilon": 0.5}),
    ("delta", {"noise_multiplier": 2, "epsilon": 0.5} | RUN),
    ("steps", {"noise_multiplier": 20} | TARGET),
    ("steps", {"noise_multiplier": 1, "sampling_probability": 0.01, "notion": "rdp"} | TARGET),
    ("sampling_probability", {"noise_multiplier": 3} | TARGET),
    ("sampling_probability", {"noise_multiplier": 1, "steps": 20, "notion": "rdp"} | TARGET),
    ("convert", TARGET),
    ("convert", {"rho": 0.1, "delta": 1e-6, "conversion": "gaussian"}),
    ("convert", {"noise_multiplier": 1e-200, "delta": 1e-5}),
    ("explain", TARGET),
    ("explain", {"sigma": 1.5, "delta": 1e-5, "epochs": 2} | RUN),
    ("explain", {"noise_multiplier": 1e-3, "delta": 1e-5, "sampling_probability": 1e-300}),
]


def call(*args, text=None):
    return CliRunner().invoke(main, [str(arg) for arg in args], input=text)


def typed(options):
    """Return options as they are typed."""
    out = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if name == "certify":
            out.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            out += [f"--{flag}", value]
    return out


def assert_plain(value):
    """Fail for what JSON would write as something else: an enum, a tuple, a NumPy number."""
    assert type(value) in {dict, list, str, int, float, bool, type(None)}
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            assert_plain(each)


@pytest.mark.parametrize(("question", "options"), QUESTIONS)
def test_an_answer_is_what_the_command_prints(question, options):
    found = getattr(answers, question)(options)
    done = call(question.replace("_", "-"), *typed(options), "--json")
    assert done.exit_code == 0, done.output
    assert found == json.loads(done.stdout)
    assert_plain(found)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    name = question.replace("_", "-")
    assert found["schema"] == f"dpcalib.{name}/1"


@pytest.mark.parametrize("question", answers.__all__)
def test_every_question_documents_its_parameters(question):
    function = getattr(answers, question)
    for name in inspect.signature(function).parameters:
        assert f"`{name}`" in function.__doc__
    for fact in ("returns the JSON-able dict", "raises ValueError or TypeError"):
        assert fact in " ".join(answers.__doc__.split())


def test_hyphens_count_as_underscores_and_none_as_not_given():
    one = answers.epsilon({"noise-multiplier": 2, "delta": 1e-5, "sigma": None})
    assert one == answers.epsilon({"noise_multiplier": 2, "delta": 1e-5})


def test_options_are_left_as_they_were():
    options = {"noise_multiplier": 2, "delta": 1e-5}
    answers.epsilon(options)
    assert options == {"noise_multiplier": 2, "delta": 1e-5}


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("sigma", {}),
        ("sigma", {"epsilon": 1}),
        ("sigma", TARGET | {"step": 1}),
        ("sigma", TARGET | {"steps": 0}),
        ("sigma", TARGET | {"steps": True}),
        ("sigma", TARGET | {"sampling_probability": 64}),
        ("sigma", TARGET | {"relation": "add"}),
        ("sigma", TARGET | {"notion": "pldd"}),
        ("sigma", TARGET | {"certify": "yes"}),
        ("sigma", {"epsilon": 1e-5, "delta": 0.5}),
        ("sigma", {"epsilon": "1", "delta": 1e-5}),
        ("epsilon", {"delta": 1e-5}),
        ("epsilon", {"delta": 1e-5, "sigma": 1, "noise_multiplier": 1}),
        ("epsilon", {"delta": 1e-5, "noise_multiplier": -1}),
        ("steps", TARGET),
        ("convert", {}),
        ("convert", {"epsilon": 1}),
        ("convert", TARGET | {"conversion": "exact"}),
        ("explain", TARGET | {"epochs": 2}),
        ("explain", TARGET | {"epochs": 3, "steps": 2}),
    ],
)
def test_bad_options_are_refused_in_the_words_of_the_command(question, options):
    with pytest.raises((ValueError, TypeError)) as refused:
        getattr(answers, question)(options)
    command = question.replace("_", "-")
    done = call(command, "--batch", text=json.dumps(options))
    assert json.loads(done.stdout)["error"] == told(refused.value, FORMS[command].asked.names)


def test_a_target_that_is_not_met():
    with pytest.raises(dp.Infeasible):
        answers.steps({"noise_multiplier": 0.1} | TARGET)
    with pytest.raises(dp.Infeasible, match="No finite epsilon"):
        answers.epsilon({"noise_multiplier": 1e-200, "delta": 1e-5})


# -- plans ----------------------------------------------------------------------------------


def test_a_plan_is_answered_as_the_command_does():
    plan = dp.load_plan(PLAN)
    for question, command in ((answers.account_plan, "account"), (answers.check_plan, "check")):
        found = question(plan.to_json())
        assert found == question(plan) == json.loads(call(command, PLAN, "--json").stdout)
        assert_plain(found)
        assert json.loads(json.dumps(found, allow_nan=False)) == found
    other = answers.account_plan(plan.to_json(), delta=1e-9)
    assert other == json.loads(call("account", PLAN, "--delta", "1e-9", "--json").stdout)
    assert other["delta"] == 1e-9


def test_an_infinite_epsilon_of_a_plan_is_reported(tmp_path):
    part = {"name": "sum", "type": "Gaussian", "noise_multiplier": 1.0}
    head = {"schema": "dpcalib.plan/1", "name": "no delta"}
    form = head | {"budget": {"epsilon": 1.0, "delta": 0.0}, "part": [part]}
    assert answers.account_plan(form)["parts"][0]["epsilon"] == "inf"
    assert answers.check_plan(form)["fits"] is False
    file = tmp_path / "plan.toml"
    file.write_text(
        'schema = "dpcalib.plan/1"\nname = "no delta"\nbudget = {epsilon = 1.0, delta = 0.0}\n'
        '[[part]]\nname = "sum"\ntype = "Gaussian"\nnoise_multiplier = 1.0\n'
    )
    for command in ("account", "check"):
        assert "inf" in call(command, file).output


@pytest.mark.parametrize("form", [{}, [], {"schema": "dpcalib.plan/1"}])
def test_an_invalid_plan_is_refused(form):
    for question in (answers.account_plan, answers.check_plan):
        with pytest.raises((ValueError, TypeError), match="Expected"):
            question(form)


def test_equal_parts_are_accounted_once(monkeypatch):
    accounted = []
    account = dp.account

    def noted(mechanism, **options):
        accounted.append(mechanism)
        return account(mechanism, **options)

    monkeypatch.setattr(dp, "account", noted)
    parts = tuple((f"part {n}", dp.Gaussian(100.0 + n % 3)) for n in range(300))
    found = answers.account_plan(dp.Plan("many", parts, delta=1e-6))
    assert len(found["parts"]) == 300
    assert [accounted.count(dp.Gaussian(100.0 + n)) for n in range(3)] == [2, 2, 2]
    assert len(accounted) < 20
    assert found["parts"][3] == found["parts"][0] | {"name": "part 3"}


# -- proofs ---------------------------------------------------------------------------------


def run_of(found):
    step = dp.PoissonSampled(
        dp.Gaussian(found["noise_multiplier"]), sampling_probability=found["sampling_probability"]
    )
    return dp.repeat(step, found["steps"])


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("steps", {"noise_multiplier": 20.0}),
        ("steps", {"noise_multiplier": 20.0, "notion": "zcdp"}),
        ("steps", {"noise_multiplier": 1.0, "sampling_probability": 0.01, "notion": "rdp"}),
        ("sampling_probability", {"noise_multiplier": 1.0}),
        ("sampling_probability", {"noise_multiplier": 1.0, "steps": 30, "notion": "rdp"}),
    ],
)
def test_the_largest_value_has_its_own_proof(question, options):
    done = call(question.replace("_", "-"), *typed(options | TARGET), "--certify", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found == getattr(answers, question)(options | TARGET | {"certify": True})
    assert found["certified"] is True
    largest = getattr(dp, f"max_{question}")
    assert found[question] == largest(**options, **TARGET, certify=True)
    claim = {key: found[key] for key in ("delta", "relation", "notion", "order")}
    assert proves(run_of(found), epsilon=found["target_epsilon"], **claim)
    factor = 1 if question == "steps" else found[question] * 1e-6
    more = run_of(found | {question: found[question] + factor})
    assert dp.account(more, notion=found["notion"]).epsilon(1e-5) > 1.0
    assert found[question] <= largest(**options, **TARGET) <= found[question] + factor


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("steps", {"noise_multiplier": 1.0, "sampling_probability": 0.01}),
        ("sampling_probability", {"noise_multiplier": 1.0, "steps": 30}),
    ],
)
def test_certify_raises_without_a_proof(question, options, monkeypatch):
    found = getattr(answers, question)(options | TARGET | {"certify": True})
    assert found["certified"] is True
    assert found[question] <= getattr(answers, question)(options | TARGET)[question]
    small = certification.THOROUGH._replace(work=10)
    monkeypatch.setattr(certification, "THOROUGH", small)
    monkeypatch.setattr(runs, "QUICK", small)
    with pytest.raises(dp.NotCertified):
        getattr(dp, f"max_{question}")(**options, **TARGET, certify=True)
    with pytest.raises(dp.NotCertified):
        getattr(answers, question)(options | TARGET | {"certify": True})
    done = call(question.replace("_", "-"), *typed(options | TARGET), "--certify")
    assert (done.exit_code, done.stdout) == (4, "")
    assert answers.__getattr__(question)(options | TARGET)["certified"] is False


@pytest.mark.parametrize("notion", ["contour", "pld"])
def test_an_integral_that_takes_too_long_is_not_tried_again_by_default(notion, monkeypatch):
    monkeypatch.setattr(runs, "QUICK", certification.QUICK._replace(work=10))
    options = RUN | {"noise_multiplier": 1.0, "delta": 1e-5, "notion": notion}
    assert answers.epsilon(options)["certified"] is False
    assert answers.epsilon(options | {"certify": True})["certified"] is True


# -- refusals -------------------------------------------------------------------------------


def test_an_unsupported_method_error_names_supported_ones():
    options = {"noise_multiplier": 1, "delta": 1e-5, "notion": "zcdp"} | RUN
    with pytest.raises(dp.UnsupportedMechanism) as refused:
        answers.epsilon(options)
    assert refused.value.alternatives == ("contour", "pld", "rdp")
    done = call("epsilon", "--batch", text=json.dumps(options))
    printed = json.loads(done.stdout)
    assert printed["alternatives"] == ["contour", "pld", "rdp"]
    supported = "notion 'contour' or 'pld' or 'rdp'."
    assert str(refused.value).endswith(f"Use {supported}")
    assert printed["error"].endswith(f"Use --{supported}")
    assert (printed["line"], printed["exit_code"], done.exit_code) == (1, 2, 2)
    text = call("epsilon", *typed(options)).stderr
    assert text.startswith("Error: ")
    assert f"Use --{supported}" in " ".join(text.split())
    others = json.loads(call("epsilon", "--batch", text="{}").stdout)
    assert "alternatives" not in others


def test_a_question_imports_what_it_needs_alone():
    code = (
        "import sys\nfrom privacy import answers\n"
        "answers.sigma({'epsilon': 1, 'delta': 1e-5, 'certify': False})\n"
        "print(sorted({'numpy', 'scipy', 'click', 'rich', 'privacy.answers.plans'} & "
        "set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_an_unknown_question_name():
    with pytest.raises(AttributeError, match="has no attribute 'rho'"):
        answers.rho  # noqa: B018
    assert math.isfinite(answers.sigma(TARGET)["sigma"])


@pytest.mark.parametrize(
    "options",
    [
        {"sampling_probability": 0.1, "epochs": 1},
        {
            "sampler": "truncated-poisson",
            "sampling_probability": 0.1,
            "max_batch_size": 20,
            "records": 100,
            "epochs": 1,
        },
    ],
)
def test_an_epoch_without_steps_is_not_one_step(options):
    with pytest.raises(ValueError, match="Pass --steps"):
        answers.epsilon({"noise_multiplier": 1.0, "delta": 1e-5, **options})


@pytest.mark.parametrize("sampler", ["poisson", "fixed-size"])
def test_fewer_steps_than_the_epochs_have_are_refused(sampler):
    options = {"batch_size": 10, "records": 100, "epochs": 30, "sampler": sampler}
    run = {"noise_multiplier": 5.0, "delta": 1e-5, "relation": "replace-one", **options}
    with pytest.raises(ValueError, match="steps=299 to be >= 300 for epochs=30"):
        answers.epsilon({**run, "steps": 299})
    assert answers.epsilon({**run, "steps": 300}) == answers.epsilon(run)
