"""Rényi divergences at any real order, and the best order of all, against integrals and grids."""

import math

import mpmath as mp
import numpy as np
import pytest

import privacy as dp
from privacy.losses.divergences import SampledGaussianNoise
from privacy.losses.gaussian import AntipodalPair


def run(sigma, q, count=1):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), count)


def density(x, mean=0):
    return mp.exp(-((x - mean) ** 2) / 2) / mp.sqrt(2 * mp.pi)


def divergence(p, q, order, mu):
    """D_order(P || Q) of two densities that live around -mu .. order * mu.

    The trapezoid rule: the densities have no complex zeros nearer than pi / mu to the real line.
    """
    step = min(mp.mpf(1) / 4, mp.pi / mu / 8)
    points = mp.arange(-mu - 12, order * mu + 12, step)
    moment = step * mp.fsum(q(x) * (p(x) / q(x)) ** order for x in points)
    return mp.log(moment) / (order - 1)


@pytest.mark.parametrize(
    ("sigma", "q", "order"),
    [(0.07, 0.5, 1.01), (0.05, 0.1, 1.002), (2.0, 0.01, 7.3), (0.5, 0.2, 3.0), (1.0, 0.001, 33.25)],
)
@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
def test_divergences_at_real_orders(sigma, q, order, relation):
    """Near order 1 with little noise, the divergence of a replaced record was once too small."""
    with mp.workdps(30):
        mu = 1 / mp.mpf(sigma)
        q, a = mp.mpf(q), mp.mpf(order)

        def there(x):
            return (1 - q) * density(x) + q * density(x, mu)

        def back(x):
            return (1 - q) * density(x) + q * density(x, -mu)

        other = back if relation == "REPLACE_ONE" else density
        truth = divergence(there, other, a, mu)
    ours = dp.account(run(sigma, float(q)), notion="rdp", relation=relation).divergence(order)
    assert truth <= ours <= truth * (1 + 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "steps"),
    [
        (0.1, 1e-6, 0.01, 1),  # the best order, 85.4, is at a kink: 85 and 86 lose 2e-3
        (0.097, 1e-6, 0.103, 1),
        (0.1, 1e-6, 0.001, 1000),
        (1.0, 1e-6, 0.01, 1000),
        (8.0, 1e-6, 0.1, 100_000),
        (0.4543, 6.9e-4, 9.2e-4, 10),
        (0.1148, 4.77e-7, 9.34e-4, 2851),
    ],
)
def test_noise_by_the_best_of_all_orders(epsilon, delta, q, steps):
    sigma = dp.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_probability=q, steps=steps, notion="rdp"
    )
    curve = dp.account(run(sigma, q, steps), notion="rdp")
    assert curve.delta(epsilon) <= delta
    assert curve.epsilon(delta) <= epsilon
    # no order of a dense grid allows noticeably less noise
    less = dp.account(run(sigma * (1 - 1e-6), q, steps), notion="rdp")
    best = curve.answer(epsilon=epsilon).order
    assert curve.answer(delta=1e-6).order == curve.guarantee(delta=1e-6).order
    a = np.concatenate([1 + np.geomspace(0.01, 400, 300), best * np.linspace(0.98, 1.02, 41)])
    log_delta = (a - 1) * (less.divergences(a) - epsilon + np.log1p(-1 / a)) - np.log(a)
    assert log_delta.min() > math.log(delta)


@pytest.mark.parametrize(("mu", "q", "order"), [(1e-5, 0.01, 140_000.0), (3e-6, 0.4, 300_000.0)])
def test_orders_beyond_the_longest_sum(mu, q, order):
    """Quadrature against the finite sum, which is too long for use at these orders."""
    noise = SampledGaussianNoise(mu, q)
    several = np.array([order])
    assert noise.at(several) == pytest.approx(noise._by_sum(several), rel=1e-9)


@pytest.mark.parametrize(
    ("mu", "q", "order"),
    [(1e-7, 0.1, 2), (1e-11, 1e-6, 3.5), (1e-9, 0.3, 1.01), (1e-7, 0.5, 1e6), (1e-10, 0.01, 1e12)],
)
def test_divergences_of_replaced_records_under_much_noise(mu, q, order):
    """Against the integral in 60 digits."""
    with mp.workdps(60):
        m, kept, a = map(mp.mpf, (mu, q, order))

        def integrand(z):
            up = 1 - kept + kept * mp.exp(m * z - m * m / 2)
            down = 1 - kept + kept * mp.exp(-m * z - m * m / 2)
            return mp.npdf(z) * up**a * down ** (1 - a)

        last = int(4 * a * kept * m) + 16
        moment = mp.quad(integrand, [-14, 0, *range(2, last, 4), last + 4])
        truth = mp.log(moment) / (a - 1)
    for found in AntipodalPair(mu, q).divergence.at(np.array([float(order)]))[:, 0]:
        assert truth <= found <= truth * (1 + 1e-10)


@pytest.mark.parametrize(
    ("scale", "q", "order"),
    [(1.0, 0.01, 3e4), (0.05, 0.3, 40.5), (0.2, 1e-4, 900.0)],
)
def test_sampled_laplace_at_large_orders(scale, q, order):
    """Where panels grow away from the largest loss: both atoms and the integral, in 25 digits."""
    curve = dp.account(
        dp.PoissonSampled(dp.Laplace(scale), sampling_probability=q), notion="rdp"
    ).divergences([order])
    with mp.workdps(25):
        rate, kept, a = 1 / mp.mpf(scale), mp.mpf(q), mp.mpf(order)

        def moment(power):
            """E_Q (dP/dQ)^power, the distance u from the larger atom in panels that double."""

            def ratio(x):
                return (1 - kept + kept * mp.exp(rate * (2 * x - 1))) ** power

            away = [0, *(mp.mpf(2) ** -k for k in range(20, 0, -1)), 1]
            at = (lambda u: 1 - u) if power > 0 else (lambda u: u)
            between = mp.quad(lambda u: rate / 2 * mp.exp(-rate * at(u)) * ratio(at(u)), away)
            return (ratio(0) + mp.exp(-rate) * ratio(1)) / 2 + between

        truths = [mp.log(moment(power)) / (a - 1) for power in (a, 1 - a)]
        for found, truth in zip(curve[:, 0], truths, strict=True):
            assert truth <= found <= truth * (1 + mp.mpf("1e-10"))
