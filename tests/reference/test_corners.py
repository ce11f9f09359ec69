"""Extreme queries: correct, finite and consistent with one another."""

import math

import mpmath as mp
import pytest

import privacy as dp
from tests.reference import oracles

RELATIONS = list(dp.NeighboringRelation)
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dp.NeighboringRelation.REPLACE_SPECIAL


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(oracles.DIGITS):
        yield


def sampled(sigma, q, steps=1):
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    return dp.repeat(step, steps)


def test_many_small_costs_beside_a_large_one_are_counted():
    multipliers = [1.0, *(1.0000001e8 + i for i in range(4000))]
    inner = dp.compose(*map(dp.Gaussian, multipliers))
    release = dp.PoissonSampled(inner, sampling_probability=0.5)
    mu = mp.sqrt(sum(1 / mp.mpf(multiplier) ** 2 for multiplier in multipliers))
    truth = oracles.sampled(oracles.gaussian(mu), 0.5)
    curve = dp.account(release)
    assert truth(curve.epsilon(1e-6)) <= 1e-6
    assert truth(1.0) <= curve.delta(1.0) <= truth(1.0) * (1 + 1e-13)


def test_a_sum_beyond_the_floats_is_infinite():
    plan = dp.compose(dp.Gaussian(1e-154), dp.Gaussian(1.1e-154), dp.Gaussian(1.2e-154))
    assert dp.account(plan, notion="gaussian").epsilon(1e-5) == math.inf


@pytest.mark.parametrize("notion", ["tightest", "gaussian", "zcdp", "rdp", "approximate"])
def test_the_worst_of_two_names_both_and_is_neither(notion):
    one, other = (dp.account(dp.Gaussian(sigma), notion=notion) for sigma in (1.0, 2.0))
    for worst in (one.worst_of(other), other.worst_of(one), one.worst_of(one)):
        assert worst is not one
        assert worst is not other
        assert worst.epsilon(1e-5) == pytest.approx(one.epsilon(1e-5), rel=1e-9)
    both = other.worst_of(one).guarantee(delta=1e-5).mechanism
    assert set(both.parts) == {dp.Gaussian(1.0), dp.Gaussian(2.0)}
    assert one.guarantee(delta=1e-5).mechanism == dp.Gaussian(1.0)
    assert other.guarantee(delta=1e-5).mechanism == dp.Gaussian(2.0)


@pytest.mark.parametrize(
    ("loss", "categories", "order"),
    [
        (2.4864670848054907e-07, 1000, 1.0000000366919344),
        (1e-150, 2, 1.5),
        (3e-8, 10**6, 1 + 1e-12),
        (1e-3, 10**9, 17.25),
        (40.0, 10**12, 3.5),
    ],
)
def test_divergence_of_randomized_response(loss, categories, order):
    curve = dp.account(dp.RandomizedResponse(loss, categories), notion="rdp")
    with mp.workdps(700):
        truth = oracles.response_divergence(loss, categories)(mp.mpf(order))
    assert truth <= curve.divergence(order) <= truth * (1 + 2e-12)


@pytest.mark.parametrize(
    ("rho", "epsilon"), [(1e-27, 1e-12), (1e-40, 1e-19), (1e-300, 1e-149), (1e-20, 0.0)]
)
def test_delta_of_a_tiny_rho(rho, epsilon):
    with mp.workdps(700):
        truth = mp.log(oracles.zcdp(rho)(mp.mpf(epsilon)))
    found = math.log(dp.delta_from_rho(rho, epsilon))
    assert truth <= found <= truth + 1e-9 * (1 + abs(truth))


def test_noise_for_a_tiny_epsilon_under_zcdp():
    sigma = dp.noise_multiplier(epsilon=1e-12, delta=1e-20, notion="zcdp")
    curve = dp.account(dp.Gaussian(sigma), notion="zcdp")
    assert 0.999e-12 < curve.epsilon(1e-20) <= 1e-12


@pytest.mark.parametrize(
    ("q", "sigma", "order"),
    [(1.2894448834473705e-129, 2.1334885155516954, 25780.94), (1e-179, 3.6, 7319.8)],
)
def test_divergences_of_the_rarest_samples(q, sigma, order):
    curve = dp.account(sampled(sigma, q), notion="rdp")
    below, above = curve.divergence(math.floor(order)), curve.divergence(math.ceil(order))
    assert below <= curve.divergence(order) <= above * (1 + 1e-12)


def test_a_sampling_probability_for_the_smallest_delta():
    target = {"epsilon": 0.01, "delta": 1e-250}
    q = dp.max_sampling_probability(noise_multiplier=3.6, steps=1000, **target)
    curve = dp.account(sampled(3.6, q, 1000))
    assert curve.epsilon(1e-250) <= 0.01
    assert curve.delta(0.01) <= 1e-250


def test_a_search_does_not_miss_the_best_order():
    target = {"epsilon": 1.7447808420937283, "delta": 1.5877231107451213e-10}
    sigma = dp.calibrate(lambda s: dp.repeat(dp.Gaussian(s), 1405), notion="rdp", **target)
    zcdp = dp.noise_multiplier(steps=1405, notion="zcdp", **target)
    assert sigma == pytest.approx(zcdp, rel=1e-7)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3])
@pytest.mark.parametrize("delta", [1e-30, 1e-200])
def test_divergences_are_converted_at_the_best_order_from_any_start(epsilon, delta):
    target = {"epsilon": epsilon, "delta": delta}
    for domain in ((0, math.inf), (2, 1e9), (2, 1e60), (1e-9, 1e6)):
        sigma = dp.calibrate(dp.Gaussian, domain=domain, notion="rdp", **target)
        zcdp = dp.calibrate(dp.Gaussian, notion="zcdp", **target)
        assert sigma == pytest.approx(zcdp, rel=1e-7)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
@pytest.mark.parametrize("delta", [1e-9, 1e-40])
def test_rarer_samples_never_cost_more(relation, delta):
    found = [
        dp.account(sampled(1.0, q, 10**6), relation=relation).epsilon(delta)
        for q in (0.999e-9, 1e-9, 1.001e-9)
    ]
    assert found == sorted(found)
    assert found[0] > 0.99 * found[2]


def test_a_sampling_probability_where_records_are_replaced():
    q = dp.max_sampling_probability(
        epsilon=0.30194,
        delta=6.9e-239,
        noise_multiplier=2.436092,
        steps=19207,
        relation=REPLACE_ONE,
    )
    assert (
        dp.account(sampled(2.436092, q, 19207), relation=REPLACE_ONE).epsilon(6.9e-239) <= 0.30194
    )


def test_the_loss_of_much_noise_keeps_its_digits():
    """So many releases of so much noise are one Gaussian, but for a share of 1e-9."""
    q, sigma, steps = 0.86259, 1.4019855972257e10, 32906786597
    mu = 2 * q * math.sqrt(steps) / sigma
    curve = dp.account(sampled(sigma, q, steps), relation=REPLACE_ONE)
    truth = dp.account(dp.Gaussian(1 / mu))
    for epsilon in (0.0, 2e-12, 1e-5, 5e-5):
        assert curve.delta(epsilon) == pytest.approx(truth.delta(epsilon), rel=1e-8)


@pytest.mark.parametrize(
    ("epsilon", "delta", "q", "steps", "relation"),
    [
        (2.0733e-12, 8.9052e-6, 0.86259, 32906786597, REPLACE_ONE),
        (3e-9, 1e-7, 0.2, 10**9, REPLACE_SPECIAL),
        (1e-4, 1e-12, 0.5, 10**7, REPLACE_ONE),
        (1.0, 1e-6, 0.01, 1000, REPLACE_SPECIAL),
    ],
)
def test_calibrated_parameters_meet_the_target_again(epsilon, delta, q, steps, relation):
    sigma = dp.noise_multiplier(
        epsilon=epsilon, delta=delta, sampling_probability=q, steps=steps, relation=relation
    )
    curve = dp.account(sampled(sigma, q, steps), relation=relation)
    assert curve.epsilon(delta) <= epsilon
    assert delta * (1 - 1e-6) <= curve.delta(epsilon) <= delta


def test_the_largest_sampling_probability_for_a_tiny_epsilon():
    target = {"epsilon": 1.0583e-8, "delta": 4.9348e-10}
    q = dp.max_sampling_probability(noise_multiplier=92.375, steps=5, **target)
    assert dp.account(sampled(92.375, q, 5)).epsilon(target["delta"]) <= target["epsilon"]
    assert dp.account(sampled(92.375, 1.1 * q, 5)).epsilon(target["delta"]) > target["epsilon"]


@pytest.mark.parametrize("epsilon", [500.0, 2000.0, 8000.0])
def test_the_largest_number_of_steps_for_a_huge_epsilon(epsilon):
    steps = dp.max_steps(
        epsilon=epsilon, delta=1e-5, noise_multiplier=1.0, sampling_probability=0.01
    )
    assert dp.account(sampled(1.0, 0.01, steps)).epsilon(1e-5) <= epsilon
    more = steps + max(1, steps // 10**6)
    assert dp.account(sampled(1.0, 0.01, more)).epsilon(1e-5) > epsilon


@pytest.mark.parametrize(
    "rest",
    [lambda s: sampled(s, 0.01, 200), dp.Gaussian, dp.Laplace],
)
def test_a_plan_without_remaining_budget_is_infeasible(rest):
    done, target = sampled(1.1, 0.01, 300), {"epsilon": 0.8, "delta": 1e-5}
    spent = dp.account(done).epsilon(1e-5)
    with pytest.raises(dp.Infeasible, match=r"reachable: the smallest epsilon") as caught:
        dp.recalibrate(done, rest, **target)
    assert caught.value.best_epsilon == pytest.approx(spent, rel=1e-6)
    with pytest.raises(dp.Infeasible):
        dp.calibrate(lambda s: dp.compose(done, rest(s)), **target)


@pytest.mark.parametrize("relation", RELATIONS)
def test_losses_too_rare_to_observe(relation):
    mechanism = sampled(12647.305440639111, 1.0000001e-09, 4)
    assert 0 < dp.account(mechanism, relation=relation).delta(1.0949506900149093) < 1e-300


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_smallest_delta_of_the_rarest_samples(relation):
    """Between the epsilon of one release and the sum over all releases."""
    sigma, q, steps, delta = 25606.43, 1.0000001e-09, 84356099, 1.5661483426056753e-228
    one = dp.account(sampled(sigma, q), relation=relation).epsilon(delta)
    found = dp.account(sampled(sigma, q, steps), relation=relation).epsilon(delta)
    assert one <= found < 1e-6


def test_a_delta_that_needs_no_epsilon():
    assert dp.account(sampled(0.65, 4.58e-6, 19)).epsilon(0.1997) == 0


@pytest.mark.parametrize(("sigma", "q"), [(1e13, 0.1), (1.0, 1e-10), (1e200, 1e-3), (1.0, 1e-90)])
def test_the_contour_supports_much_noise_and_rare_samples(sigma, q):
    curve = dp.account(sampled(sigma, q, 2), notion="contour")
    one = dp.account(sampled(sigma, q))
    for epsilon in (0.0, 1e-14, 1.0):
        assert one.delta(epsilon) <= curve.delta(epsilon) <= 2.1 * one.delta(0.5 * epsilon)
