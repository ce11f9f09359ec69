"""Random plans against the theorems at 120 digits: never below, and close above.

Each draw is seeded. The parameters are far beyond practical ones, where a difference of two floats
loses its digits.
"""

import math
from random import Random

import mpmath as mp
import pytest

import privacy as dp
from tests.reference import oracles

ADD = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
DRAWS = range(40)


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(oracles.DIGITS):
        yield


def log_uniform(rng, low, high):
    return 10 ** rng.uniform(low, high)


def probability(rng):
    """A sampling probability, near 0 and near 1 too."""
    near = log_uniform(rng, -12, 0)
    return min(rng.choice([log_uniform(rng, -3, 0), near, 1 - near]), math.nextafter(1, 0))


def small_or_large_delta(rng):
    tiny = log_uniform(rng, -30, -1)
    near_one = 1 - log_uniform(rng, -15, -1)
    return rng.choice([tiny, log_uniform(rng, -6, -4), log_uniform(rng, -290, -30), near_one])


# -- profiles: a plan, its relation, its true profile, and a scale for epsilon ---------------


def gaussian(rng):
    sigma = rng.choice([log_uniform(rng, -1, 1), log_uniform(rng, -4, 6)])
    steps = rng.choice([1, rng.randint(2, 10**6)])
    mu = mp.sqrt(steps) / mp.mpf(sigma)
    scale = float(rng.choice([mu, mu * mu / 2]))
    return dp.repeat(dp.Gaussian(sigma), steps), ADD, oracles.gaussian(mu), scale


def replaced_gaussian(rng):
    sigma, distance = log_uniform(rng, -1, 2), rng.uniform(0.1, 2)
    mu = mp.mpf(distance) / mp.mpf(sigma)
    mechanism = dp.Gaussian(sigma, replace_distance=distance)
    return mechanism, REPLACE_ONE, oracles.gaussian(mu), float(mu)


def laplace(rng):
    scale = log_uniform(rng, -2, 9)
    loss = 1 / mp.mpf(scale)
    return dp.Laplace(scale), ADD, oracles.laplace(loss), float(loss)


def response(rng):
    loss, categories = log_uniform(rng, -9, 2), rng.choice([2, 3, 10**6])
    mechanism = dp.RandomizedResponse(loss, categories)
    return mechanism, ADD, oracles.response(loss, categories), loss


def sampled_gaussian(rng):
    sigma, q = log_uniform(rng, -1, 2), probability(rng)
    mechanism = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    # around log(1 / (1-q)), where the other direction ends
    scale = rng.choice([1.0, q / sigma, -math.log1p(-q)])
    return mechanism, ADD, oracles.sampled(oracles.gaussian(1 / mp.mpf(sigma)), q), scale


def sampled_laplace(rng):
    scale, q = log_uniform(rng, -1, 2), probability(rng)
    loss = 1 / mp.mpf(scale)
    mechanism = dp.PoissonSampled(dp.Laplace(scale), sampling_probability=q)
    largest = float(mp.log1p(q * mp.expm1(loss)))
    scale = rng.choice([largest, -math.log1p(-q)])
    return mechanism, ADD, oracles.sampled(oracles.laplace(loss), q), scale


def replaced_sampled_gaussian(rng):
    sigma, q = log_uniform(rng, -1, 2), probability(rng)
    mechanism = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    return mechanism, REPLACE_ONE, oracles.antipodal(1 / mp.mpf(sigma), q), q / sigma


def claims(rng):
    loss, count = log_uniform(rng, -6, 1), rng.choice([1, 2, 7, rng.randint(10, 300)])
    mass = rng.choice([0, log_uniform(rng, -12, -4)])
    claim = dp.ApproximateDP(loss, mass) if mass else dp.PureDP(loss)
    return dp.repeat(claim, count), ADD, oracles.claims(loss, count, mass), count * loss


def concentrated(rng):
    rho = rng.choice([log_uniform(rng, -4, 2), log_uniform(rng, -9, 2.5)])
    scale = rng.choice([rho, math.sqrt(rho)])
    return dp.ZeroConcentratedDP(rho), ADD, oracles.zcdp(rho), scale


PROFILES = [
    gaussian,
    replaced_gaussian,
    laplace,
    response,
    sampled_gaussian,
    sampled_laplace,
    replaced_sampled_gaussian,
    claims,
    concentrated,
]
named = pytest.mark.parametrize("draw", PROFILES, ids=lambda draw: draw.__name__)


@named
@pytest.mark.parametrize("seed", DRAWS)
def test_delta(draw, seed):
    rng = Random(seed)
    mechanism, relation, profile, scale = draw(rng)
    epsilon = scale * rng.choice([log_uniform(rng, -3, 1.3), rng.uniform(0, 1)])
    ours, truth = dp.account(mechanism, relation=relation).delta(epsilon), profile(mp.mpf(epsilon))
    assert ours >= truth
    if truth > 1e-300:
        assert ours <= (1 + 1e-8) * profile(mp.mpf(epsilon) * (1 - mp.mpf(10) ** -10))


@named
@pytest.mark.parametrize("seed", DRAWS)
def test_epsilon(draw, seed):
    rng = Random(1000 + seed)
    mechanism, relation, profile, _ = draw(rng)
    delta = small_or_large_delta(rng)
    ours = dp.account(mechanism, relation=relation).epsilon(delta)
    if ours == math.inf:
        assert profile(mp.mpf(10) ** 6) > delta
        return
    assert profile(mp.mpf(ours)) <= delta
    if delta < 0.5 and ours > 1e-15:  # delta near 1 hardly determines epsilon
        assert profile(mp.mpf(ours) * (1 - mp.mpf(10) ** -8)) > delta


@named
@pytest.mark.parametrize("seed", range(10))
def test_total_variation(draw, seed):
    mechanism, relation, profile, _ = draw(Random(2000 + seed))
    ours, truth = dp.account(mechanism, relation=relation).delta(0), profile(mp.mpf(0))
    assert truth <= ours <= truth * (1 + 1e-8)


# -- subnormal deltas, and what is left when a bounded loss ends -----------------------------


@pytest.mark.parametrize("seed", range(10))
def test_delta_below_the_normal_floats(seed):
    rng = Random(3000 + seed)
    mu = log_uniform(rng, -1, 1)
    profile = oracles.gaussian(1 / mp.mpf(1 / mu))
    epsilon = mu * (rng.uniform(37.8, 38.6) + mu / 2)
    ours = dp.account(dp.Gaussian(1 / mu)).delta(epsilon)
    assert ours >= profile(mp.mpf(epsilon))


@pytest.mark.parametrize("kind", [dp.Laplace, dp.PureDP])
def test_largest_loss_of_a_sampled_pure_mechanism(kind):
    for seed in range(200):
        rng = Random(4000 + seed)
        parameter, q = log_uniform(rng, -1.5, 1.5), probability(rng)
        loss = 1 / mp.mpf(parameter) if kind is dp.Laplace else mp.mpf(parameter)
        sampled = dp.PoissonSampled(kind(parameter), sampling_probability=q)
        truth = mp.log1p(q * mp.expm1(loss))
        assert truth <= dp.account(sampled).epsilon(0) <= truth * (1 + 1e-10), (parameter, q)


@pytest.mark.parametrize(("loss", "count"), [(0.01, 2000), (1e-6, 1100), (0.5, 3000)])
def test_delta_is_positive_up_to_the_largest_loss(loss, count):
    curve = dp.account(dp.repeat(dp.PureDP(loss), count))
    assert curve.delta(loss * count * 0.9999) > 0
    assert curve.delta(loss * count * 1.0001) == 0


@pytest.mark.parametrize("count", [3, 400])
def test_unequal_pure_claims_cost_no_less_than_their_sum(count):
    rng = Random(count)
    losses = [log_uniform(rng, -1, 1) for _ in range(count)]
    ours = dp.account(dp.compose(*map(dp.PureDP, losses))).epsilon(0)
    truth = sum(map(mp.mpf, losses))
    assert truth <= ours <= truth * (1 + 1e-12)


# -- Rényi divergences ----------------------------------------------------------------------


def response_orders(rng):
    loss, categories = log_uniform(rng, -6, 1.5), rng.choice([2, 3, 50])
    # (a - 1) loss near 0 is where the two exponentials cancel
    order = 1 + rng.choice([log_uniform(rng, -2, 3), log_uniform(rng, -3, 0) / loss])
    mechanism = dp.RandomizedResponse(loss, categories)
    return mechanism, oracles.response_divergence(loss, categories), order


def laplace_orders(rng):
    scale, order = log_uniform(rng, -2, 4), 1 + log_uniform(rng, -3, 3)
    return dp.Laplace(scale), oracles.laplace_divergence(1 / mp.mpf(scale)), order


def gaussian_orders(rng):
    sigma, steps = log_uniform(rng, -3, 3), rng.choice([1, rng.randint(2, 10**9)])
    truth = oracles.gaussian_divergence(steps / mp.mpf(sigma) ** 2)
    return dp.repeat(dp.Gaussian(sigma), steps), truth, 1 + log_uniform(rng, -6, 6)


def sampled_gaussian_orders(rng):
    sigma, q = log_uniform(rng, -1.5, 2), probability(rng)
    order = rng.choice([2, 3, rng.randint(2, 64), rng.randint(65, 300)])
    mechanism = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    return mechanism, oracles.sampled_gaussian_divergence(1 / mp.mpf(sigma), q), order


@pytest.mark.parametrize(
    "draw",
    [response_orders, laplace_orders, gaussian_orders, sampled_gaussian_orders],
    ids=lambda draw: draw.__name__,
)
@pytest.mark.parametrize("seed", DRAWS)
def test_renyi_divergence(draw, seed):
    mechanism, divergence, order = draw(Random(5000 + seed))
    ours = dp.account(mechanism, notion="rdp").divergence(order)
    truth = divergence(mp.mpf(order))
    assert truth <= ours <= truth * (1 + 1e-7)
