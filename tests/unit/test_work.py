"""Work of the contour method, which does not depend on the machine; it must not grow."""

import cProfile

import numpy as np
import pytest

import privacy as dp
from privacy import answers
from privacy.losses import quadrature, trapezoid
from privacy.notions.renyi import RenyiCurve
from tests.benchmarks.speed import (
    OTHERS,
    Counts,
    calibrated,
    counted,
    sampled,
    tight_delta,
    tight_epsilon,
)

CURVE = dp.account(sampled(1.0, 0.01, 1000))

# accounted mechanisms, integration lines, moments for saddle points, frequencies, and frequencies
# times nodes
LIMITS = {
    "epsilon": (tight_epsilon, Counts(0, 1, 7, 38, 6390)),
    "delta": (tight_delta, Counts(0, 1, 3, 37, 6110)),
    "sigma, q=0.01, T=1000": (calibrated(0.01, 1000, 1), Counts(1, 1, 0, 25, 4280)),
    "sigma, q=0.001, T=1000": (calibrated(1e-3, 1000, 1), Counts(1, 1, 3, 612, 104_100)),
    "sigma, q=0.0001, T=1000": (calibrated(1e-4, 1000, 1), Counts(1, 1, 2, 90, 31_800)),
    "sigma, q=0.0001, T=1000, epsilon=0.1": (
        calibrated(1e-4, 1000, 0.1),
        Counts(1, 1, 2, 130, 39_000),
    ),
    "sigma, q=0.0001, T=100000": (calibrated(1e-4, 100_000, 1), Counts(1, 1, 2, 84, 28_000)),
    "sigma, q=0.1, T=1000": (calibrated(0.1, 1000, 8), Counts(1, 1, 0, 16, 900)),
    "sigma, q=0.5, T=100000": (calibrated(0.5, 100_000, 0.1), Counts(1, 2, 0, 30, 930)),
    "sigma, few steps": (
        lambda x: dp.noise_multiplier(
            epsilon=0.273 * x, delta=5.9e-5, sampling_probability=0.0167 * x, steps=113
        ),
        Counts(1, 1, 3, 37, 3080),
    ),
    "a line of --batch": (
        lambda x: answers.sigma(
            {"epsilon": 4 * x, "delta": 1e-6, "sampling_probability": 0.05, "steps": 5000}
            | {"certify": False}
        ),
        Counts(1, 2, 0, 34, 1570),
    ),
    "max_steps": (OTHERS["max_steps"], Counts(2, 2, 2, 69, 11_200)),
    "max_sampling_probability": (
        OTHERS["max_sampling_probability"],
        Counts(1, 1, 0, 37, 5920),
    ),
    "1,000 deltas": (
        lambda x: CURVE.delta(x * np.linspace(0, 10, 1000)),
        Counts(0, 4, 22, 134, 22_300),
    ),
    "1,000 epsilons": (
        lambda x: CURVE.epsilon(x * np.geomspace(1e-12, 1e-2, 1000)),
        Counts(0, 3, 20, 171, 30_800),
    ),
    "a trade-off": (lambda x: CURVE.tradeoff(0.01 * x), Counts(0, 1, 3, 33, 4460)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_no_more_work_than_before(name):
    call, most = LIMITS[name]
    with counted() as work:
        call(1.0007)
    assert work.lines > 0
    for kind, limit in vars(most).items():
        assert getattr(work, kind) <= limit, kind


def test_a_calibration_computes_one_grid_of_nodes_for_each_direction():
    trapezoid.whole_grid.cache_clear()
    quadrature._nodes_up_to.cache_clear()
    dp.noise_multiplier(epsilon=1, delta=1e-6, sampling_probability=1e-3, steps=1000)
    assert trapezoid.whole_grid.cache_info().misses == 2


CALLS = {
    "epsilon": (tight_epsilon, 1000),
    "delta": (tight_delta, 850),
    "a line of --batch": (LIMITS["a line of --batch"][0], 1640),
}


@pytest.mark.parametrize("name", CALLS)
def test_no_more_calls_than_before(name):
    """Short arrays cost little but the calls: all Python and built-in functions are counted."""
    call, most = CALLS[name]
    call(1.001)  # imports and shared tables
    quadrature._nodes_up_to.cache_clear()
    profile = cProfile.Profile()
    profile.runcall(call, 1.0007)
    assert sum(entry.callcount for entry in profile.getstats()) <= most


@pytest.mark.parametrize("q", [1e-3, 0.01, 0.1])
def test_an_rdp_calibration_evaluates_the_divergences_once(q, monkeypatch):
    asked, divergences = [], RenyiCurve.divergences
    monkeypatch.setattr(
        RenyiCurve,
        "divergences",
        lambda curve, orders: asked.append(orders.size) or divergences(curve, orders),
    )
    dp.noise_multiplier(epsilon=1, delta=1e-6, sampling_probability=q, steps=1000, notion="rdp")
    assert asked == [5]


def test_one_release_of_much_noise_keeps_its_digits():
    """Far above the real line, where bounds on its decay are tried, the weights are large."""
    plan = dp.compose(sampled(8.0, 0.3, 1), sampled(20.0, 0.1, 1))
    assert dp.account(plan, notion="contour").answer(epsilon=0.1).error < 1e-9
