"""`dpcalib curve`: values, formats, pictures and errors."""

import csv
import io
import json

import pytest
from click.testing import CliRunner

import privacy as dp
from privacy.answers import budget_over_time
from privacy.answers import curve as answer
from privacy.cli.curves import curve, text_plot

RUN = ("-q", "0.01", "--sigma", "1")


def called(*arguments):
    return CliRunner().invoke(curve, list(arguments))


def sampled(sigma, q, steps):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), steps)


def test_epsilon_against_steps():
    done = called(
        "--epsilon-against", "steps", *RUN, "--delta", "1e-5", "--steps", "100", "--points", "3",
        "--notion", "tightest", "--notion", "rdp", "--json",
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert found["values"] == [1, 50, 100]
    for notion, values in found["series"].items():
        assert values == [
            dp.account(sampled(1.0, 0.01, n), notion=notion).epsilon(1e-5) for n in (1, 50, 100)
        ]


def test_csv_is_the_same_numbers():
    asked = ("--delta-against", "epsilon", "--epsilon", "2", *RUN, "--points", "3")
    rows = list(csv.reader(io.StringIO(called(*asked, "--csv").stdout)))
    assert rows[0] == ["epsilon", "tightest"]
    profile = dp.account(sampled(1.0, 0.01, 1))
    assert [[float(cell) for cell in row] for row in rows[1:]] == [
        [epsilon, profile.delta(epsilon)] for epsilon in (0.0, 1.0, 2.0)
    ]


def test_sigma_against_epsilon_and_sampling_probability():
    found = answer({"kind": "sigma_against_epsilon", "delta": 1e-5, "epsilon": 1, "points": 2})
    assert found["values"] == [0.01, 1]
    assert found["series"]["tightest"][1] == dp.noise_multiplier(epsilon=1, delta=1e-5)
    found = answer(
        {
            "kind": "sigma_against_sampling_probability",
            "delta": 1e-5,
            "epsilon": 1,
            "points": 2,
            "clip_norm": 0.5,
        }
    )
    assert found["values"][-1] == 1
    assert found["series"]["tightest"][1] == dp.noise_multiplier(epsilon=1, delta=1e-5) / 2


def test_the_trade_off():
    found = answer({"kind": "tradeoff", "sigma": 2, "points": 3})
    expected = dp.account(dp.Gaussian(2.0)).tradeoff([0.0, 0.5, 1.0])
    assert found["series"]["tightest"] == pytest.approx(expected)


def test_the_budget_of_a_plan_over_time():
    plan = dp.Plan(
        "two",
        (("first", dp.Gaussian(10.0)), ("second", dp.Gaussian(20.0))),
        delta=1e-5,
        epsilon=1.0,
    )
    found = budget_over_time(plan)
    both = dp.compose(dp.Gaussian(10.0), dp.Gaussian(20.0))
    assert found["series"] == {
        "tightest": [dp.account(m).epsilon(1e-5) for m in (dp.Gaussian(10.0), both)],
        "budget": [1.0, 1.0],
    }
    assert found["parts"] == ["first", "second"]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture_is_written_without_output(suffix, tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / f"out.{suffix}"
    done = called("--tradeoff", *RUN, "--points", "3", "--plot", str(path))
    assert (done.exit_code, done.output) == (0, "")
    assert path.stat().st_size > 1000


def test_the_picture_has_labels_parameters_and_every_line():
    pytest.importorskip("matplotlib")
    from privacy.plotting import plot_curve

    asked = {"kind": "epsilon_against_steps", "sigma": 1, "delta": 1e-5, "points": 3, "steps": 9}
    (axes,) = plot_curve(answer(asked | {"notions": ["tightest", "zcdp"]})).axes
    assert axes.get_xlabel() == "steps (releases)"
    assert axes.get_ylabel() == "epsilon"
    assert "delta = 1e-05" in axes.get_title()
    assert "ADD_OR_REMOVE_ONE" in axes.get_title()
    assert [line.get_label() for line in axes.lines] == ["tightest", "zcdp"]
    assert len({(line.get_color(), line.get_linestyle()) for line in axes.lines}) == 2
    assert axes.figure.get_facecolor()[3] == axes.get_facecolor()[3] == 0  # transparent


def test_the_text_plot_has_every_curve():
    found = answer(
        {
            "kind": "sigma_against_epsilon",
            "delta": 1e-5,
            "points": 4,
            "notions": ["tightest", "zcdp"],
        }
    )
    drawn = text_plot(found)
    assert drawn.count("\n") == 16
    assert "* tightest, o zcdp" in drawn


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "Expected exactly one curve"),
        (("--tradeoff", "--delta-against", "epsilon", *RUN), "Expected exactly one curve"),
        (("--tradeoff", *RUN, "--epsilon", "1"), "Remove --epsilon"),
        (("--tradeoff", *RUN, "--points", "1"), "Expected points=1 to be >= 2"),
        (("--tradeoff", *RUN, "--plot", "a.bmp"), "end with .png, .svg or .pdf"),
        (("--tradeoff",), "Pass one of --noise-multiplier, --sigma"),
        (("--epsilon-against", "steps", *RUN), "Pass --delta"),
        (("--tradeoff", *RUN, "--notion", "moon"), "Expected notion='moon'"),
    ],
)
def test_errors(arguments, told):
    done = called(*arguments)
    assert done.exit_code == 2
    assert told in done.stderr


def test_nothing_but_the_table_in_a_pipe():
    done = called("--tradeoff", *RUN, "--points", "3")
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 4
