"""Numbers against autodp: its closed forms, and a calibration of its that is not private."""

import math

import mpmath
import pytest
from autodp import dp_bank, privacy_calibrator, rdp_acct, rdp_bank

import privacy as dp

ROUNDING = 1e-12
DELTA = 1e-6


def divergence(mechanism, order):
    return dp.account(mechanism, notion="rdp").divergence(order)


@pytest.mark.parametrize("order", [1.5, 2, 3.7, 20, 300])
@pytest.mark.parametrize("scale", [0.4, 2.0, 15.0])
def test_divergence_of_laplace(scale, order):
    theirs = rdp_bank.RDP_laplace({"b": scale}, float(order))
    assert divergence(dp.Laplace(scale), order) == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize("order", [1.5, 2, 3.7, 20, 300])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1.9])
def test_divergence_of_randomized_response(epsilon, order):
    keep = 1 / (1 + math.exp(-epsilon))
    theirs = rdp_bank.RDP_randresponse({"p": keep}, order)
    assert divergence(dp.RandomizedResponse(epsilon), order) == pytest.approx(theirs, rel=1e-9)
    # the same pair is the worst of all pure mechanisms; theirs is a bound of that worst
    bound = rdp_bank.RDP_pureDP({"eps": epsilon}, order)
    assert divergence(dp.PureDP(epsilon), order) <= bound * (1 + ROUNDING)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 10.0])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_delta_of_one_gaussian(sigma, epsilon):
    theirs = math.exp(dp_bank.get_logdelta_ana_gaussian(sigma, epsilon))
    assert dp.account(dp.Gaussian(sigma)).delta(epsilon) == pytest.approx(theirs, rel=1e-7)


def test_rdp_of_composed_sampled_gaussians_is_never_worse():
    theirs = rdp_acct.anaRDPacct()
    gaussian = {"sigma": 2.0}
    theirs.compose_poisson_subsampled_mechanisms(
        lambda order: rdp_bank.RDP_gaussian(gaussian, order), 0.01, coeff=1000
    )
    step = dp.PoissonSampled(dp.Gaussian(2.0), sampling_probability=0.01)
    ours = dp.account(dp.repeat(step, 1000), notion="rdp").epsilon(DELTA)
    # their conversion is Mironov's, the loose one: some ten percent
    assert 0.8 * theirs.get_eps(DELTA) <= ours <= theirs.get_eps(DELTA) * (1 + ROUNDING)


def exact_gaussian_delta(sigma, epsilon):
    """Return Phi(1/(2 s) - epsilon s) - e^epsilon Phi(-1/(2 s) - epsilon s), to 40 digits."""
    with mpmath.workdps(60):
        half, middle = 1 / (2 * mpmath.mpf(sigma)), mpmath.mpf(epsilon) * mpmath.mpf(sigma)
        return mpmath.ncdf(half - middle) - mpmath.exp(epsilon) * mpmath.ncdf(-half - middle)


def test_calibration_at_a_tiny_delta_is_private():
    """A known fault of the peer, shown by the closed form of Balle and Wang 2018, Theorem 8."""
    epsilon, delta = 5.0, 1e-20
    theirs = privacy_calibrator.ana_gaussian_mech(epsilon, delta)["sigma"]
    ours = dp.noise_multiplier(epsilon=epsilon, delta=delta)
    assert exact_gaussian_delta(theirs, epsilon) > 10_000 * delta
    assert exact_gaussian_delta(ours, epsilon) <= delta
    assert exact_gaussian_delta(ours * (1 - 1e-12), epsilon) > delta


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of their search for an order
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 3.0])
@pytest.mark.parametrize("count", [1, 20, 400])
def test_the_exponential_mechanism_is_never_worse(epsilon, count):
    from autodp.mechanism_zoo import ExponentialMechanism
    from autodp.transformer_zoo import Composition

    theirs = ExponentialMechanism(epsilon)
    if count > 1:
        theirs = Composition()([theirs], [count])
    ours = dp.account(dp.repeat(dp.ExponentialMechanism(epsilon), count)).epsilon(DELTA)
    assert ours <= theirs.get_approxDP(DELTA) * (1 + 1e-9)
    bound = rdp_bank.RDP_pureDP({"eps": epsilon}, 8)
    assert divergence(dp.ExponentialMechanism(epsilon), 8) <= min(bound, epsilon**2)
