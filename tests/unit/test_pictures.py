"""Plots show the numbers that they are drawn from."""

from pathlib import Path

import numpy as np
import pytest

import privacy as dp
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
        assert f"<!-- {name} -->" in drawn
    drawn = (ROOT / "docs" / "pictures" / "privacy-profiles.svg").read_text(encoding="utf-8")
    for name in ("contour", "rdp", "contour, half the steps"):
        assert f"<!-- {name} -->" in drawn


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


def test_profiles_outside_their_domain():
    with pytest.raises(ValueError, match="Expected epsilon=-1"):
        plot_privacy_profiles({"a": dp.account(dp.Gaussian(2))}, epsilons=[-1])
