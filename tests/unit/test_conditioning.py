"""Differences of nearly equal numbers keep their digits; inverses are as accurate as possible."""

import mpmath as mp
import pytest

import privacy as dp


def profile(mu, epsilon):
    """Balle and Wang 2018, Theorem 8, at as many digits as the difference needs."""
    with mp.workdps(80):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("sigma", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3])
def test_small_epsilon(sigma, epsilon):
    truth = profile(1 / mp.mpf(sigma), epsilon)
    ours = dp.account(dp.Gaussian(sigma)).delta(epsilon)
    if truth > 1e-300:
        assert truth <= ours <= truth * (1 + 1e-12)


@pytest.mark.parametrize("sigma", [0.5, 2.0, 1e3])
@pytest.mark.parametrize("share", [0.5, 1e-3, 1e-6, 1e-9])
def test_epsilon_near_its_end(sigma, share):
    """delta a little below delta(0): 16 units in the last place times the condition."""
    mu = 1 / mp.mpf(sigma)
    delta = float(profile(mu, 0) * (1 - mp.mpf(share)))
    ours = mp.mpf(dp.account(dp.Gaussian(sigma)).epsilon(delta))
    with mp.workdps(80):
        slope = mp.exp(ours) * mp.ncdf(-mu / 2 - ours / mu)  # -d delta / d epsilon
        condition = mp.mpf(delta) / (ours * slope)
        gap = max(mp.mpf(10) ** -12, 16 * mp.mpf(2) ** -52 * condition)
        assert profile(mu, ours) <= delta
        assert profile(mu, ours * (1 - gap)) > delta


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-2, 1, 50, 800])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-30, 1e-300])
def test_noise(epsilon, delta):
    sigma = mp.mpf(dp.noise_multiplier(epsilon=epsilon, delta=delta))
    with mp.workdps(400):
        mu = 1 / sigma
        true = lambda m: (  # noqa: E731
            mp.ncdf(m / 2 - epsilon / m) - mp.exp(epsilon) * mp.ncdf(-m / 2 - epsilon / m)
        )
        assert true(mu) <= delta
        assert true(mu * (1 + mp.mpf(10) ** -12)) > delta
