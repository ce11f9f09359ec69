"""Laws of trade-off functions: shape, symmetry, and monotonicity in every parameter."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp

RATES = np.linspace(0, 1, 11)
sigmas = st.floats(0.4, 5)
probabilities = st.floats(0.005, 0.5)
steps = st.integers(2, 300)
ERROR = 1e-7
"""More than the width of each interval."""


def run(sigma, q, count):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), count)


mechanisms = st.one_of(
    st.builds(dp.Gaussian, sigmas),
    st.builds(dp.PureDP, st.floats(1e-3, 20)),
    st.builds(dp.ApproximateDP, st.floats(1e-3, 20), st.floats(1e-9, 0.5)),
    st.builds(run, sigmas, probabilities, steps),
)


@settings(max_examples=4)
@given(mechanisms)
def test_a_trade_off_function_is_convex_nonincreasing_and_symmetric(mechanism):
    curve = dp.account(mechanism)
    low, high = curve.tradeoff_interval(RATES)
    assert (low <= high).all()
    assert (low >= 0).all()
    assert (low <= 1 - RATES + 1e-15).all()
    assert (np.diff(low) <= ERROR).all()
    assert (np.diff(low, 2) >= -ERROR).all()
    # f(f(a)) = a where f > 0, for a symmetric f
    back = curve.tradeoff(low)
    inside = (low > 1e-3) & (RATES > 1e-3) & (low < 1 - RATES - 1e-3)
    assert (np.abs(back - RATES)[inside] < 1e-4).all()


@settings(max_examples=4)
@given(st.floats(0.7, 3), st.floats(0.02, 0.3), st.integers(20, 300))
def test_more_noise_fewer_samples_and_fewer_steps_help(sigma, q, count):
    miss = dp.account(run(sigma, q, count)).tradeoff([1e-3, 0.1, 0.6])
    for better in (
        run(1.1 * sigma, q, count),
        run(sigma, q / 1.1, count),
        run(sigma, q, count - 1),
    ):
        assert (dp.account(better).tradeoff([1e-3, 0.1, 0.6]) >= miss - ERROR).all()


@settings(max_examples=4)
@given(mechanisms, st.floats(1e-6, 0.999))
def test_every_risk_follows_from_the_profile(mechanism, rate):
    """TPR <= delta + e^epsilon FPR, for each epsilon."""
    curve = dp.account(mechanism)
    hit = curve.true_positive_rate(rate)
    for epsilon in (0.0, 0.5, 3.0):
        assert hit <= (curve.delta(epsilon) + np.exp(epsilon) * rate) * (1 + 1e-7)
    assert hit - rate <= curve.advantage() * (1 + 1e-7)
    assert hit >= rate
    wrong = curve.bayes_risk(0.5)
    assert wrong <= 0.5 * (rate + 1 - hit) * (1 + 1e-7) + 1e-12


@settings(max_examples=4)
@given(mechanisms)
def test_the_tightest_method_has_the_largest_tradeoff_function(mechanism):
    tightest = dp.account(mechanism)
    for member in tightest.members:
        weaker = member.tradeoff([1e-3, 0.1, 0.6])
        assert (tightest.tradeoff([1e-3, 0.1, 0.6]) >= weaker - ERROR).all()
