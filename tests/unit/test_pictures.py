"""Pictures show the numbers that they are drawn from."""

from pathlib import Path

import numpy as np
import pytest

import privacy as dp
from privacy.plotting import plot_running_sums

ROOT = Path(__file__).resolve().parents[2]
pytest.importorskip("matplotlib")


def test_running_sums_are_drawn_as_they_are():
    window = dp.Participation.consecutive(3)
    kinds = [dp.Factorisation.independent(20), dp.Factorisation.column_normalised(20)]
    (axes,) = plot_running_sums(kinds, participation=window).axes
    for line, kind in zip(axes.lines, kinds, strict=True):
        assert line.get_label() == kind.name
        assert np.array_equal(line.get_xdata(), np.arange(1, 21))
        assert np.array_equal(line.get_ydata(), kind.sensitivity(window) * kind.noise_std())


def test_the_committed_picture_shows_every_factorisation():
    drawn = (ROOT / "docs" / "pictures" / "running-sums.svg").read_text(encoding="utf-8")
    for name in ("independent", "binary tree", "Honaker tree", "square root", "column-normalised"):
        assert f"<!-- {name} -->" in drawn
