"""Rényi divergences at any real order, and the best order of all, against integrals and grids."""

import math

import mpmath as mp
import numpy as np
import pytest

import privacy as dp


def run(sigma, q, count=1):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), count)


def density(x, mean=0):
    return mp.exp(-((x - mean) ** 2) / 2) / mp.sqrt(2 * mp.pi)


def divergence(p, q, order, mu):
    """D_order(P || Q) of two densities that live around -mu .. order * mu."""
    ends = mp.linspace(-(order + 1) * mu - 12, (order + 1) * mu + 12, 40)
    moment = mp.quad(lambda x: q(x) * (p(x) / q(x)) ** order, ends)
    return mp.log(moment) / (order - 1)


@pytest.mark.parametrize(
    ("sigma", "q", "order"),
    [(0.07, 0.5, 1.01), (0.05, 0.1, 1.002), (2.0, 0.01, 7.3), (0.5, 0.2, 3.0), (1.0, 0.001, 33.25)],
)
@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
def test_divergences_at_real_orders(sigma, q, order, relation):
    """Near order 1 with little noise, the replaced record once lost too little."""
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
    best = curve.order(epsilon)
    a = np.concatenate([1 + np.geomspace(0.01, 400, 300), best * np.linspace(0.98, 1.02, 41)])
    log_delta = (a - 1) * (less.divergences(a) - epsilon + np.log1p(-1 / a)) - np.log(a)
    assert log_delta.min() > math.log(delta)
