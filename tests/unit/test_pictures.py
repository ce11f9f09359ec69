"""Plots show the numbers that they are drawn from."""

from pathlib import Path

import numpy as np
import pytest

import privacy as dp
from privacy import answers, plotting
from privacy.plotting import plot_privacy_profiles, plot_running_sums

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("matplotlib")


def test_the_plot_shows_the_noise_of_running_sums():
    window = dp.Participation.consecutive(3)
    kinds = [dp.Factorization.independent(20), dp.Factorization.column_normalized(20)]
    (axes,) = plot_running_sums(kinds, participation=window).axes
    for line, kind in zip(axes.lines, kinds, strict=True):
        assert line.get_label() == kind.name
        assert np.array_equal(line.get_xdata(), np.arange(1, 21))
        assert np.array_equal(line.get_ydata(), kind.sensitivity(window) * kind.noise_std())


def test_the_committed_pictures_show_every_line():
    drawn = (ROOT / "docs" / "pictures" / "running-sums.svg").read_text(encoding="utf-8")
    for name in ("independent", "binary tree", "Honaker tree", "square root", "column-normalized"):
        assert f">{name}</text>" in drawn
    drawn = (ROOT / "docs" / "pictures" / "privacy-profiles.svg").read_text(encoding="utf-8")
    for name in ("contour", "rdp", "contour, half the steps"):
        assert f">{name}</text>" in drawn


SAMPLED = dp.repeat(dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01), 100)


def test_the_plot_shows_the_privacy_profiles():
    curves = {"one": dp.account(dp.Gaussian(2)), "many": dp.account(SAMPLED)}
    (axes,) = plot_privacy_profiles(curves, epsilons=[0.0, 0.5, 2]).axes
    for line, (name, curve) in zip(axes.lines, curves.items(), strict=True):
        assert line.get_label() == name
        assert list(line.get_xdata()) == [0.0, 0.5, 2]
        assert list(line.get_ydata()) == [curve.delta(0.0), curve.delta(0.5), curve.delta(2)]
    assert axes.get_ylabel() == "delta (ADD_OR_REMOVE_ONE, one record)"


def test_profiles_of_several_relations_are_labeled():
    one = dp.account(dp.Gaussian(2))
    other = dp.account(dp.Gaussian(2), relation="REPLACE_ONE", unit="one user")
    (axes,) = plot_privacy_profiles({"a": one, "b": other}, epsilons=[1]).axes
    assert axes.get_ylabel() == "delta"
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["a (ADD_OR_REMOVE_ONE, one record)", "b (REPLACE_ONE, one user)"]


def test_profiles_are_drawn_to_where_they_end():
    curves = {"a": dp.account(dp.Gaussian(2)), "claim": dp.account(dp.ApproximateDP(1, 1e-5))}
    (axes,) = plot_privacy_profiles(curves).axes  # the claim never reaches a delta of 1e-10
    assert axes.lines[0].get_xdata()[-1] == curves["a"].epsilon(1e-10)
    assert axes.lines[0].get_ydata()[-1] <= 1e-10


@pytest.mark.parametrize("curves", [{}, None, [dp.account(dp.Gaussian(2))]])
def test_plotting_without_curves_is_refused(curves):
    with pytest.raises(ValueError, match=r"to be a mapping of curves\. Pass curves by label"):
        plot_privacy_profiles(curves)


def test_every_plot_has_its_parameters_in_the_title():
    one, other = dp.account(SAMPLED), dp.account(SAMPLED, notion="rdp")
    (axes,) = plot_privacy_profiles({"contour": one, "rdp": other}, epsilons=[1]).axes
    assert "count=100" in axes.get_title()
    (axes,) = plot_running_sums([dp.Factorization.independent(20)]).axes
    assert axes.get_title() == "20 releases, participation in one release"
    (axes,) = plotting.plot_tradeoff(one).axes
    assert axes.get_title().startswith("ADD_OR_REMOVE_ONE, one record")
    (axes,) = plotting.plot_tradeoff(one, title="mine").axes
    assert axes.get_title() == "mine"


def test_the_plots_of_the_command_are_functions_as_well():
    step = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
    (axes,) = plotting.plot_epsilon_against_steps({"q = 0.01": step}, [1, 100], delta=1e-5).axes
    expected = [dp.account(dp.repeat(step, n)).epsilon(1e-5) for n in (1, 100)]
    assert list(axes.lines[0].get_ydata()) == expected
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("steps (releases)", "epsilon")
    asked = {"kind": "sigma_against_epsilon", "epsilon": 2, "delta": 1e-5, "points": 3}
    (axes,) = plotting.plot_curve(answers.curve(asked | {"notions": ["rdp"]})).axes
    at = axes.lines[0].get_xdata()
    noise = [dp.noise_multiplier(epsilon=e, delta=1e-5, notion="rdp") for e in at]
    assert list(axes.lines[0].get_ydata()) == noise
    assert axes.get_ylabel() == "sigma (in the unit of the clip norm)"
    asked |= {"kind": "sigma_against_sampling_probability", "epsilon": 1}
    (axes,) = plotting.plot_curve(answers.curve(asked)).axes
    assert axes.lines[0].get_ydata()[-1] == dp.noise_multiplier(epsilon=1, delta=1e-5)


def test_several_plans_are_drawn_together():
    long = dp.Plan("a", (("x", dp.Gaussian(9.0)), ("y", dp.Gaussian(8.0))), delta=1e-5, epsilon=2.0)
    short = dp.Plan("b", (("x", dp.Gaussian(5.0)),), delta=1e-6)
    (axes,) = plotting.plot_curve(answers.budget_over_time(long, short)).axes
    first, budget, last = (line.get_ydata() for line in axes.lines)
    assert list(first) == [dp.account(m).epsilon(1e-5) for m in (dp.Gaussian(9.0), long.mechanism)]
    assert list(budget) == [2.0, 2.0]
    assert last[0] == dp.account(dp.Gaussian(5.0)).epsilon(1e-6)
    assert np.isnan(last[1:]).all()  # nothing is drawn after the last part
    labels = [line.get_label() for line in axes.lines]
    assert labels == ["1: a (delta = 1e-05)", "1: budget", "2: b (delta = 1e-06)"]


def test_profiles_outside_their_domain():
    with pytest.raises(ValueError, match="Expected epsilon=-1"):
        plot_privacy_profiles({"a": dp.account(dp.Gaussian(2))}, epsilons=[-1])
