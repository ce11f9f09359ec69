"""Arrays of queries: the values of single queries, from shared integration lines."""

import math

import numpy as np
import pytest

import privacy as dp
from privacy.notions import contour_integral

RUN = dp.account(dp.repeat(dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01), 1000))
PLAIN = dp.account(dp.Laplace(2.0), notion="rdp")


@pytest.mark.parametrize("curve", [RUN, PLAIN], ids=["contour", "rdp"])
def test_an_array_has_the_values_of_single_queries_rounded_up(curve):
    epsilons, deltas = np.linspace(0, 4, 40).reshape(4, 10), np.geomspace(1e-12, 0.3, 40)
    each = [curve.delta(epsilon) for epsilon in epsilons.ravel().tolist()]
    found = curve.delta(epsilons)
    assert found.shape == (4, 10)
    assert found.ravel() == pytest.approx(each, rel=1e-8)
    each = [curve.epsilon(delta) for delta in deltas.tolist()]
    found = curve.epsilon(deltas)
    assert found == pytest.approx(each, rel=1e-8)
    for epsilon, delta in zip(found.tolist(), deltas.tolist(), strict=True):
        assert curve.delta(epsilon) <= delta * (1 + 1e-9)


def test_an_array_is_as_tight_as_single_queries_where_the_shared_line_has_no_digits():
    rare = dp.account(dp.repeat(dp.PoissonSampled(dp.Gaussian(2.0), sampling_probability=2e-3), 3))
    epsilons = np.linspace(0.1, 0.8, 16)
    each = [rare.delta(epsilon) for epsilon in epsilons[::7].tolist()]
    assert rare.delta(epsilons)[::7] == pytest.approx(each, rel=2e-3)


def test_epsilons_at_the_ends_of_the_domain():
    found = RUN.epsilon([0.0, *np.geomspace(1e-300, 1e-3, 20), 0.9])
    assert (found[0], found[-1]) == (np.inf, 0)
    assert (np.diff(found) < 0).all()
    assert RUN.delta([]).shape == (0,)


@pytest.mark.parametrize("bad", [[0.1] * 20 + [1.0], [np.nan, 0.1], [-0.1, *np.arange(20) / 40]])
def test_bad_deltas_are_refused(bad):
    with pytest.raises(ValueError, match="Expected delta="):
        RUN.epsilon(bad)


@pytest.mark.parametrize("bad", [["1"], [True], [None]])
def test_other_types_are_refused(bad):
    with pytest.raises(TypeError, match="Expected epsilon="):
        RUN.delta(bad)


def test_calibrations_of_arrays_are_those_of_their_cells():
    epsilons, steps = [0.5, 2.0, 0.5], np.array([[1], [300]])
    given = {"delta": 1e-6, "sampling_probability": 0.02}
    found = dp.noise_multiplier(epsilon=epsilons, steps=steps, **given)
    each = {
        (epsilon, count): dp.noise_multiplier(epsilon=epsilon, steps=count, **given)
        for epsilon in (0.5, 2.0)
        for count in (1, 300)
    }
    assert found.tolist() == [[each[epsilon, count] for epsilon in epsilons] for count in (1, 300)]
    noise = np.array([1.5, 2.5])
    most = dp.max_steps(epsilon=2.0, noise_multiplier=noise, **given)
    assert most.dtype.kind == "i"
    assert most.tolist() == [
        dp.max_steps(epsilon=2.0, noise_multiplier=one, **given) for one in noise
    ]
    q = dp.max_sampling_probability(epsilon=[1, 2], delta=1e-6, noise_multiplier=noise, steps=10)
    assert q[1] == dp.max_sampling_probability(
        epsilon=2, delta=1e-6, noise_multiplier=2.5, steps=10
    )
    assert dp.noise_multiplier(epsilon=[], delta=1e-6).shape == (0,)


def test_equal_cells_are_calibrated_once(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "privacy.calibration.search.account",
        lambda mechanism, **how: asked.append(mechanism) or dp.account(mechanism, **how),
    )
    dp.noise_multiplier(epsilon=1.0, delta=1e-5, steps=3)
    once = len(asked)
    dp.noise_multiplier(epsilon=np.full(50, 1.0), delta=1e-5, steps=np.full((2, 1), 3))
    assert len(asked) == 2 * once


def test_bad_cells_are_refused():
    with pytest.raises(
        ValueError, match=r"Expected shapes of epsilon, steps=\[\(2,\), \(3,\)\] to be"
    ):
        dp.noise_multiplier(epsilon=[1, 2], delta=1e-5, steps=[1, 2, 3])
    with pytest.raises(ValueError, match="Expected epsilon=-1"):
        dp.noise_multiplier(epsilon=[1, -1], delta=1e-5)
    with pytest.raises(TypeError, match="Expected epsilon='a'"):
        dp.noise_multiplier(epsilon=["a"], delta=1e-5)
    with pytest.raises(ValueError, match="Expected notion"):
        dp.noise_multiplier(epsilon=[1, 2], delta=1e-5, notion=["rdp"])


def test_lines_without_a_useful_error_bound_are_few(monkeypatch):
    """With little noise every line can be loose: single queries do not each try new ones."""
    monkeypatch.setattr(contour_integral, "_MOST_WORK", 2**16)  # as for losses beyond 1000
    monkeypatch.setattr(contour_integral, "_LIMITED_WORK", 2**14)
    monkeypatch.setattr(contour_integral, "_FEWEST_NODES", 2**5)
    lines, line = [], contour_integral.Line
    monkeypatch.setattr(contour_integral, "Line", lambda *a, **k: lines.append(a) or line(*a, **k))
    plan = dp.repeat(dp.PoissonSampled(dp.Gaussian(0.08), sampling_probability=0.001), 300)
    epsilons = np.linspace(1, 300, 40)
    deltas = dp.account(plan, notion="contour").delta(epsilons)
    assert 0 < len(lines) < 30
    exact = dp.account(plan, notion="pld")
    for epsilon, delta in zip(epsilons[::9], deltas[::9], strict=True):
        assert math.exp(exact.bracket(epsilon).lower) <= delta * (1 + 1e-9)
