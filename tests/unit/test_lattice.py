"""Privacy loss distributions on a grid bound the exact profile from both sides."""

import math

import numpy as np
import pytest

import privacy as dp
from privacy.losses.grids import on_grid
from privacy.losses.lattice import (
    GridSum,
    choose_tilt,
    from_atoms,
    from_distribution,
    from_profile,
)
from privacy.numerics.normal import log_tail
from privacy.relations import ADD_OR_REMOVE_ONE

ONE_STEP = [
    (dp.Gaussian(3.0), 1.1, 1e-3),
    (dp.Laplace(2.0), 0.3, 1e-3),
    (dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.1), 0.5, 1e-3),
    (dp.PoissonSampled(dp.Laplace(0.5), sampling_probability=0.2), 0.3, 1e-3),
    (dp.RandomizedResponse(1.0, 7), 0.5, 1e-3),
    (dp.ApproximateDP(0.7, 1e-6), 0.2, 1e-3),
    (dp.DiscreteLaplace(2.5, sensitivity=3), 0.4, 1e-3),
]


def _bounds(pair, count, epsilon, step, direction):
    found = []
    for upper in (True, False):
        one = [(on_grid(pair, direction, step, -60.0, 5.0, -math.inf, upper=upper), count)]
        if upper:
            tilt = choose_tilt(one, epsilon)
        found.append(GridSum(one, tilt).log_delta(epsilon))
    return found


@pytest.mark.parametrize(("mechanism", "epsilon", "step"), ONE_STEP, ids=str)
def test_one_release_is_bounded_on_both_sides(mechanism, epsilon, step):
    pair = mechanism.loss(ADD_OR_REMOVE_ONE)
    exact = pair.profile.log_delta(epsilon)
    each = [_bounds(pair, 1, epsilon, step, way) for way in ("remove", "add")]
    upper, lower = (max(one[k] for one in each) for k in (0, 1))
    assert lower <= exact + 1e-12
    assert upper >= exact - 1e-12
    assert upper - lower < 0.01


@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-100, 1e-250])
def test_a_tiny_delta_keeps_its_digits(delta):
    pair, count = dp.Gaussian(3.0).loss(ADD_OR_REMOVE_ONE), 10
    exact = dp.account(dp.repeat(dp.Gaussian(3.0), count), notion="gaussian")
    epsilon, log_tail_mass = exact.epsilon(delta), math.log(delta) - 40
    step = 2e-3 if delta > 1e-20 else 5e-4
    above = [(on_grid(pair, "remove", step, log_tail_mass, 0.0, -math.inf, upper=True), count)]
    tilt = choose_tilt(above, epsilon)
    below = [
        (on_grid(pair, "remove", step, log_tail_mass, tilt.tilt, -math.inf, upper=False), count)
    ]
    upper, lower = (GridSum(parts, tilt).log_delta(epsilon) for parts in (above, below))
    assert lower <= math.log(delta) <= upper
    assert upper - lower < 0.02


def test_a_halved_step_reduces_both_errors():
    mechanism = dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=0.01)
    pair, count = mechanism.loss(ADD_OR_REMOVE_ONE), 300
    exact = math.log(dp.account(dp.repeat(mechanism, count), notion="contour").delta(0.5))
    coarse = _bounds(pair, count, 0.5, 4e-4, "remove")
    fine = _bounds(pair, count, 0.5, 2e-4, "remove")
    assert coarse[1] < fine[1] < exact < fine[0] < coarse[0]
    assert fine[0] - exact < 0.4 * (coarse[0] - exact)


def test_a_profile_gives_a_dominating_grid():
    mu, step = 1.0, 1e-3
    normal = np.vectorize(lambda x: math.exp(log_tail(-x)))

    def delta(epsilon):
        return normal(mu / 2 - epsilon / mu) - np.exp(epsilon) * normal(-mu / 2 - epsilon / mu)

    grid = from_profile(delta, step, -8000, 9000)
    exact = dp.account(dp.Gaussian(1.0))
    for epsilon in (0.1, 1.0, 3.0005):
        found = math.exp(GridSum([(grid, 1)], choose_tilt([(grid, 1)], epsilon)).log_delta(epsilon))
        assert exact.delta(epsilon) <= found <= exact.delta(epsilon) * 1.001


def test_a_distribution_is_rounded_up_or_down():
    mu, step = 1.0, 1e-3
    normal = np.vectorize(lambda x: math.exp(log_tail(-x)))

    def below(x):
        return normal(x / mu - mu / 2)

    def above(x):
        return normal(mu / 2 - x / mu)

    exact = math.log(dp.account(dp.Gaussian(1.0)).delta(1.0))
    upper, lower = (
        from_distribution(below, above, step, -9000, 11000, upper=up) for up in (True, False)
    )
    tilt = choose_tilt([(upper, 1)], 1.0)
    low, high = (GridSum([(grid, 1)], tilt).log_delta(1.0) for grid in (lower, upper))
    assert low < exact < high
    assert high - low < 0.01


def test_atoms_keep_their_probabilities_under_both():
    mass, loss = np.array([0.3, 0.5, 0.2]), np.array([-0.7305, 0.1, 0.5])
    grid = from_atoms(mass, loss, 0.25, 0.5, upper=True)
    assert np.sum(grid.mass) == pytest.approx(1.0)
    assert grid.mass @ np.exp(-grid.loss) == pytest.approx(mass @ np.exp(-loss))
    below = from_atoms(mass, loss, 0.25, 0.5, upper=False)
    assert below.mass @ below.loss < mass @ loss < grid.mass @ grid.loss


def test_different_steps_are_refused():
    mass, loss = np.array([0.5, 0.5]), np.array([-1.0, 1.0])
    grids = [from_atoms(mass, loss, step, 1.0, upper=True) for step in (0.1, 0.2)]
    with pytest.raises(ValueError, match="different steps"):
        GridSum([(grid, 1) for grid in grids], choose_tilt([(grids[0], 1)], 0.5))
