"""The plot of the observed and the claimed trade-off."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import privacy as dp
from privacy.plotting import plot_running_sums, plot_tradeoff
from tests.audit.worst_cases import losses


@pytest.mark.parametrize("scores", [([], []), ([1.0], []), ([np.nan], [1.0]), ([[1.0]], [[1.0]])])
def test_an_empty_plot_is_refused(scores):
    with pytest.raises(ValueError, match=r"^Expected scores_[01]="):
        plot_tradeoff(dp.account(dp.Gaussian(1.0)), *scores)
    with pytest.raises(ValueError, match=r"^Expected factorizations="):
        plot_running_sums([])


def test_the_picture():
    scores = losses(dp.Gaussian(1.0), "ADD_OR_REMOVE_ONE", np.random.default_rng(1), 2000)
    figure = plot_tradeoff(dp.account(dp.Gaussian(1.0)), *scores)
    (axes,) = figure.axes
    _, claimed, seen = axes.lines
    assert claimed.get_label().startswith("claimed")
    x, y = seen.get_data()
    assert np.abs(y - ndtr(ndtri(np.clip(1 - x, 1e-9, 1 - 1e-9)) - 1.0)).max() < 0.08
    assert axes.get_xlabel() == "false positive rate"
