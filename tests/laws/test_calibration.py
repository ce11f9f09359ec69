"""Calibration inverts accounting conservatively, with little excess noise."""

import math

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import (
    deltas,
    epsilons,
    gaussians,
    log_uniform,
    noise_multipliers,
    relations,
    sampling_probabilities,
    steps,
)

SLACK = 1e-6
"""How far below the target the answer may end, relative: RDP curves are searched, not smooth."""


def assert_just_meets(mechanism, epsilon, delta, *, slack=SLACK, **how):
    curve = dp.account(mechanism, **how)
    assert curve.delta(epsilon) <= delta
    assert curve.epsilon(delta) <= epsilon
    # where the contour's error bound is larger, the search ends at the last bound that was met
    assert curve.delta(epsilon) >= delta * (1 - 100 * slack) or (
        curve.answer(epsilon=epsilon).error > slack
    )


@settings(max_examples=30)
@given(epsilons, deltas, relations, st.sampled_from(["tightest", "zcdp"]), steps)
def test_gaussian_noise(epsilon, delta, relation, notion, count):
    how = {"relation": relation, "notion": notion}
    sigma = dp.noise_multiplier(epsilon=epsilon, delta=delta, steps=count, **how)
    assert_just_meets(dp.repeat(dp.Gaussian(sigma), count), epsilon, delta, slack=1e-9, **how)


@settings(max_examples=40)
@given(log_uniform(0.05, 30), deltas, sampling_probabilities, relations)
def test_noise_of_one_sampled_release(epsilon, delta, q, relation):
    assume(delta < q / 10)  # otherwise any noise will do
    sigma = dp.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_probability=q, relation=relation
    )
    release = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    assert_just_meets(release, epsilon, delta, relation=relation)


@settings(max_examples=25)
@given(log_uniform(0.05, 30), deltas, sampling_probabilities, st.integers(2, 1000))
def test_noise_of_a_sampled_run(epsilon, delta, q, count):
    assume(delta < q / 10)
    sigma = dp.noise_multiplier(epsilon=epsilon, delta=delta, sampling_probability=q, steps=count)
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    assert_just_meets(dp.repeat(step, count), epsilon, delta)


@settings(max_examples=40)
@given(epsilons, st.one_of(st.just(0.0), deltas))
def test_laplace_scale(epsilon, delta):
    scale = dp.calibrate(dp.Laplace, epsilon=epsilon, delta=delta)
    curve = dp.account(dp.Laplace(scale))
    assert curve.epsilon(delta) <= epsilon
    assert curve.epsilon(delta) == pytest.approx(epsilon, rel=1e-9)


@settings(max_examples=25)
@given(epsilons, deltas, noise_multipliers, st.one_of(st.just(1.0), sampling_probabilities))
def test_the_largest_number_of_steps(epsilon, delta, sigma, q):
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    target = {"epsilon": epsilon, "delta": delta}
    try:
        most = dp.max_steps(**target, noise_multiplier=sigma, sampling_probability=q)
    except dp.Infeasible as infeasible:
        assert infeasible.best_epsilon == dp.account(step).epsilon(delta) > epsilon
        return
    assert dp.account(dp.repeat(step, most)).delta(epsilon) <= delta
    if most < 2**53:
        beyond = most + 1 + most // 10**6
        assert dp.account(dp.repeat(step, beyond)).delta(epsilon) > delta


@settings(max_examples=30)
@given(epsilons, deltas, noise_multipliers, st.integers(1, 100))
def test_the_largest_sampling_probability(epsilon, delta, sigma, count):
    try:
        q = dp.max_sampling_probability(
            epsilon=epsilon, delta=delta, noise_multiplier=sigma, steps=count
        )
    except dp.Infeasible as infeasible:
        assert infeasible.best_epsilon > epsilon
        return
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    plan = dp.repeat(step, count)
    assert dp.account(plan).delta(epsilon) <= delta
    if q < 1:
        assert_just_meets(plan, epsilon, delta)


@settings(max_examples=40)
@given(epsilons, deltas, gaussians, st.integers(1, 50))
def test_the_smallest_group_of_equal_parts(epsilon, delta, mechanism, most):
    """A whole number of cells: seek="smallest" with integer=True."""
    sigma = mechanism.noise_multiplier
    found = dp.calibrate(
        lambda n: dp.Gaussian(sigma * math.sqrt(n) / 50),
        epsilon=epsilon,
        delta=delta,
        integer=True,
    )
    assert isinstance(found, int)
    met = [
        dp.account(dp.Gaussian(sigma * math.sqrt(n) / 50)).delta(epsilon) <= delta
        for n in (found, max(found - 1, 1))
    ]
    assert met[0]
    assert found == 1 or not met[1]


@settings(max_examples=25)
@given(log_uniform(0.3, 10), deltas, st.floats(0.05, 0.9), st.integers(1, 100))
def test_recalibration_spends_what_is_left(epsilon, delta, share, count):
    before = dp.noise_multiplier(epsilon=epsilon * share, delta=delta)
    done = dp.Gaussian(before)
    sigma = dp.recalibrate(
        done, lambda s: dp.repeat(dp.Gaussian(s), count), epsilon=epsilon, delta=delta
    )
    plan = dp.compose(done, dp.repeat(dp.Gaussian(sigma), count))
    assert_just_meets(plan, epsilon, delta, slack=1e-9)
