"""Numbers against prv-accountant, whose lower and upper epsilon are both proven.

Gopi, Lee and Wutschitz 2021, Theorem 5.5: the truth lies within `eps_error` of the estimate,
up to `delta_error`.
"""

import pytest
from prv_accountant import PRVAccountant
from prv_accountant import privacy_random_variables as variables

import privacy as dp

DELTAS = (1e-3, 1e-6)


def bounds(*counted):
    """Return the (lower, upper) epsilon of independent releases at each delta."""
    releases, counts = map(list, zip(*counted, strict=True))
    accountant = PRVAccountant(
        prvs=releases, max_self_compositions=counts, eps_error=0.01, delta_error=1e-12
    )
    found = (accountant.compute_epsilon(delta, counts) for delta in DELTAS)
    return [(lower, upper) for lower, _, upper in found]


def epsilons(mechanism):
    curve = dp.account(mechanism)
    return [curve.epsilon(delta) for delta in DELTAS]


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1.0, 0.01, 1000), (0.7, 0.1, 10)])
def test_repeated_sampled_gaussians(sigma, q, steps):
    theirs = bounds((variables.PoissonSubsampledGaussianMechanism(q, sigma), steps))
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    for (lower, upper), ours in zip(theirs, epsilons(dp.repeat(step, steps)), strict=True):
        assert lower <= ours <= upper


def test_composed_gaussians_are_exact():
    theirs = bounds((variables.GaussianMechanism(6.0), 2), (variables.GaussianMechanism(9.0), 5))
    plan = dp.compose(dp.repeat(dp.Gaussian(6.0), 2), dp.repeat(dp.Gaussian(9.0), 5))
    for (lower, upper), ours in zip(theirs, epsilons(plan), strict=True):
        assert lower <= ours <= upper


def test_one_laplace_is_exact():
    theirs = bounds((variables.LaplaceMechanism(mu=1 / 2), 1))
    for (lower, upper), ours in zip(theirs, epsilons(dp.Laplace(2.0)), strict=True):
        assert lower <= ours <= upper


def test_laplaces_beside_gaussians():
    theirs = bounds(
        (variables.LaplaceMechanism(mu=1 / 2), 5), (variables.GaussianMechanism(8.0), 20)
    )
    plan = dp.compose(dp.repeat(dp.Laplace(2.0), 5), dp.repeat(dp.Gaussian(8.0), 20))
    for (lower, upper), ours in zip(theirs, epsilons(plan), strict=True):
        assert lower <= ours <= upper


def test_calibrated_noise_is_between_their_bounds():
    target = {"epsilon": 1.5, "delta": DELTAS[1]}
    sigma = dp.noise_multiplier(**target, sampling_probability=0.05, steps=200)
    _, (lower, upper) = bounds((variables.PoissonSubsampledGaussianMechanism(0.05, sigma), 200))
    assert lower <= target["epsilon"] <= upper
