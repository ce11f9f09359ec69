"""The integral of both directions at once, against the general one."""

import math

import numpy as np
import pytest

from privacy.losses.mixtures import SampledGaussian
from privacy.notions import contour_integral
from privacy.notions.both_lines import BothLines
from privacy.notions.loss_sums import LossSum

CELLS = [
    (0.05, 4.3, 5000, 4.0),
    (0.01, 1.0, 1000, 1.0),  # "add" is bounded at real t
    (0.01, 0.617, 1000, 8.0),  # rare large losses
    (0.1, 2.0, 1000, 1.0),
    (0.1, 2.0, 40, 0.05),
    (0.5, 60.0, 1000, 1.0),
    (0.5, 1000.0, 100_000, 0.5),
    (0.9, 5.0, 30, 20.0),
    (0.95, 0.9, 4, 3.0),
    (0.001, 11.5, 100_000, 0.1),
]


def _general(model, count, epsilon):
    """Return a lower and an upper bound on log delta, and the saddle point."""
    ways = ("remove", "add")
    found = [
        contour_integral.log_delta(LossSum(((model, count),), 0.0, way), epsilon) for way in ways
    ]
    least = max(bound.value - math.log1p(bound.error) for bound in found)
    return least, max(bound.value for bound in found), found[0].saddle


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("away", [0.9, 1.0, 1.15])
def test_both_integrals_agree_within_their_error_bounds(cell, away):
    q, noise, count, epsilon = cell
    model = SampledGaussian(q, noise)
    least, most, saddle = _general(model, count, epsilon)
    lines = BothLines(model, count)
    lines.integrate(saddle * away, epsilon)
    found, slope = lines.log_delta(epsilon)
    assert lines.error < 1e-9
    assert least - 1e-14 * abs(least) <= found <= most + lines.error
    step = 1e-5 * max(epsilon, 0.1)
    beyond, _ = lines.log_delta(epsilon + step)
    assert beyond - found == pytest.approx(slope * step, rel=0.01, abs=1e-9)
    least, most, _ = _general(model, count, epsilon + step)
    assert least - 1e-14 * abs(least) <= beyond <= most + lines.error


@pytest.mark.parametrize(
    "cell",
    [
        (1e-4, 0.4, 1000, 8.0, 3.0),
        (0.5, 0.01, 2, 1.0, 3.0),
        (0.01, 0.4, 1000, 30.0, 3.0),
        (0.0627, 22.0, 103, 1.28, 1189.0),  # exp(1.7 saddle * loss) would overflow
    ],
)
def test_other_cells_are_left_to_the_general_integral(cell):
    q, noise, count, epsilon, saddle = cell
    lines = BothLines(SampledGaussian(q, noise), count)
    with np.errstate(all="raise"), pytest.raises(ArithmeticError, match=r"frequencies|inf nodes"):
        lines.integrate(saddle, epsilon)


def test_an_epsilon_far_from_the_given_one_has_no_error_bound():
    lines = BothLines(SampledGaussian(0.05, 4.3), 5000)
    lines.integrate(5.6, 4.0)
    lines.log_delta(9.5)
    assert lines.error == math.inf
