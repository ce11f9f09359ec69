"""Numbers against dp-accounting: equality where both are exact, else a bracket.

A privacy-loss distribution built with `pessimistic_estimate=False` gives an epsilon below the
truth, one built with True an epsilon above it. Ours is an upper bound, so it is never below the
first, and never above the second by more than the excess of the method (stated at each test).
"""

import functools
import itertools
import json
import math
from fractions import Fraction
from pathlib import Path

import dp_accounting as peer
import pytest
from dp_accounting import pld, rdp
from dp_accounting.pld import privacy_loss_distribution as losses

import privacy as dp
from tests.reference.dp_accounting_reference import COMPOSED_DELTAS, DELTAS, PLANS, case, composed
from tests.reference.dp_accounting_reference import REPEATED as STEPS

# written by tests/reference/dp_accounting_reference.py
STORED = json.loads(
    (Path(__file__).parents[1] / "reference" / "dp_accounting_reference.json").read_text("utf-8")
)
WAYS = (False, True)  # optimistic, pessimistic
ROUNDING = 1e-12  # relative rounding error of either epsilon
# largest relative excess over the exact epsilon in the cases here
LOOSE = {"tightest": 1e-8, "contour": 1e-8, "rdp": 0.35}


def sampled(sigma, q, steps):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), steps)


def sampled_event(sigma, q, steps):
    return peer.SelfComposedDpEvent(
        peer.PoissonSampledDpEvent(q, peer.GaussianDpEvent(sigma)), steps
    )


# Exact on both sides


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-40])
def test_gaussian_epsilon_is_the_analytic_one(sigma, delta):
    theirs = peer.get_epsilon_gaussian(sigma, delta)
    # their result is accurate to 1e-12 and may be too small
    assert dp.account(dp.Gaussian(sigma)).epsilon(delta) == pytest.approx(theirs, rel=1e-11)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 100.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12, 1e-40])
def test_gaussian_sigma_is_the_analytic_one(epsilon, delta):
    theirs = peer.get_sigma_gaussian(epsilon, delta)
    assert dp.noise_multiplier(epsilon=epsilon, delta=delta) == pytest.approx(theirs, rel=1e-11)


@pytest.mark.parametrize(("sigma", "q", "steps"), [*STEPS, (2.0, 0.01, 1), (0.5, 1e-4, 100_000)])
@pytest.mark.parametrize("order", [2, 3, 8, 64, 256])
def test_sampled_gaussian_rdp_at_whole_orders(sigma, q, steps, order):
    theirs = rdp.RdpAccountant(orders=[order]).compose(sampled_event(sigma, q, steps))
    ours = dp.account(sampled(sigma, q, steps), notion="rdp", orders=[order])
    for delta in DELTAS:
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=ROUNDING)


@pytest.mark.parametrize("order", [2, 3, 8, 64])
def test_laplace_and_composed_rdp_at_whole_orders(order):
    event = peer.ComposedDpEvent(
        [
            peer.SelfComposedDpEvent(peer.LaplaceDpEvent(3.0), 4),
            peer.GaussianDpEvent(2.0),
            sampled_event(1.5, 0.02, 50),
            peer.ZCDpEvent(0.03),
        ]
    )
    mechanism = dp.compose(
        dp.repeat(dp.Laplace(3.0), 4),
        dp.Gaussian(2.0),
        sampled(1.5, 0.02, 50),
        dp.ZeroConcentratedDP(0.03),
    )
    theirs = rdp.RdpAccountant(orders=[order]).compose(event)
    ours = dp.account(mechanism, notion="rdp", orders=[order])
    for delta in DELTAS:
        assert ours.epsilon(delta) == pytest.approx(theirs.get_epsilon(delta), rel=ROUNDING)


@pytest.mark.parametrize(("sigma", "q", "steps"), STEPS)
@pytest.mark.parametrize("delta", DELTAS)
def test_searching_all_orders_is_never_worse_than_their_grid(sigma, q, steps, delta):
    theirs = rdp.RdpAccountant(orders=range(2, 257)).compose(sampled_event(sigma, q, steps))
    ours = dp.account(sampled(sigma, q, steps), notion="rdp")
    assert ours.epsilon(delta) <= theirs.get_epsilon(delta) * (1 + ROUNDING)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("rho", [0.001, 0.1, 5.0])
def test_zcdp_lies_between_a_gaussian_and_their_orders(rho, delta):
    # a Gaussian is one mechanism with that rho; a grid of orders is no better than all of them
    ours = dp.epsilon_from_rho(rho, delta)
    theirs = rdp.RdpAccountant().compose(peer.ZCDpEvent(rho))
    one_gaussian = peer.get_epsilon_gaussian(1 / math.sqrt(2 * rho), delta)
    assert one_gaussian * (1 - 1e-11) <= ours <= theirs.get_epsilon(delta) * (1 + ROUNDING)


# Between an optimistic and a pessimistic privacy-loss distribution


def test_the_stored_bounds_are_those_of_dp_accounting():
    """Only the first case is computed again: it takes 0.2 s, all of them take 25 s."""
    plans = [[[list(part) for part in parts], rel, list(deltas)] for parts, rel, deltas in PLANS]
    assert [[each[k] for k in ("parts", "relation", "deltas")] for each in STORED["cases"]] == plans
    again = case(*PLANS[0])
    for name in ("low", "high"):
        assert again[name] == pytest.approx(STORED["cases"][0][name], rel=1e-9)


def ids(stored):
    return "-".join(map(str, [*itertools.chain(*stored["parts"]), stored["relation"]]))


@pytest.mark.parametrize("stored", STORED["cases"], ids=ids)
def test_epsilon_is_between_their_stored_bounds(stored):
    """Bounds on their grid of steps of 1e-4."""
    noise = {"gaussian": dp.Gaussian, "laplace": dp.Laplace}
    plan = dp.compose(
        *(
            dp.repeat(dp.PoissonSampled(noise[kind](scale), sampling_probability=q), count)
            for kind, scale, q, count in stored["parts"]
        )
    )
    # connect-the-dots discretization of one release adds at most one step of the grid
    one = [part[-1] for part in stored["parts"]] == [1]
    for notion, loose in {"tightest": ROUNDING}.items() if one else LOOSE.items():
        ours = dp.account(plan, relation=stored["relation"], notion=notion)
        for delta, low, high in zip(stored["deltas"], stored["low"], stored["high"], strict=True):
            assert low <= ours.epsilon(delta) <= high * (1 + loose)


def test_composed_gaussians_are_one_gaussian():
    parts = ("gaussian", 6.0, 1.0, 2), ("gaussian", 9.0, 1.0, 5)
    low, high = (composed(*parts, pessimistic=way) for way in WAYS)
    ours = dp.account(dp.compose(dp.repeat(dp.Gaussian(6.0), 2), dp.repeat(dp.Gaussian(9.0), 5)))
    for delta in DELTAS:
        assert low.get_epsilon_for_delta(delta) <= ours.epsilon(delta)
        # connect-the-dots discretization adds far less than a step of 1e-4 per release
        assert ours.epsilon(delta) <= high.get_epsilon_for_delta(delta) * (1 + 1e-6)


@pytest.mark.parametrize(("scale", "q"), [(2.0, 1.0), (1.0, 0.5), (0.3, 0.05)])
def test_one_laplace_is_exact(scale, q):
    low, high = (composed(("laplace", scale, q, 1), pessimistic=way) for way in WAYS)
    ours = dp.account(dp.PoissonSampled(dp.Laplace(scale), sampling_probability=q))
    for epsilon in (0.01, 0.05, 0.1, 0.3):
        assert low.get_delta_for_epsilon(epsilon) <= ours.delta(epsilon)
        at_most = high.get_delta_for_epsilon(epsilon)
        assert ours.delta(epsilon) <= at_most * (1 + ROUNDING) + 1e-15


def test_repeated_sampled_laplaces_whose_directions_cross():
    low, high = (composed(("laplace", 1.0, 0.5, 2), pessimistic=way) for way in WAYS)
    ours = dp.account(dp.repeat(dp.PoissonSampled(dp.Laplace(1.0), sampling_probability=0.5), 2))
    # at 0.231 adding a record loses more, 0.1737 against 0.1547; at 1 removing does
    for epsilon in (0.231, 1.0):
        assert low.get_delta_for_epsilon(epsilon) <= ours.delta(epsilon)
        # with atoms of the loss, the contour's integrand decays slowly
        assert ours.delta(epsilon) <= high.get_delta_for_epsilon(epsilon) * (1 + 1e-6)


@pytest.mark.parametrize("count", [1, 10, 100])
def test_randomized_response_on_a_lattice_of_losses(count):
    # true with probability 1/2, else uniform: odds 3 : 1, whose log is a multiple of the grid step
    one = functools.partial(
        losses.from_randomized_response,
        0.5,
        2,
        value_discretization_interval=math.log(3) / 1000,
    )
    low, high = (one(pessimistic_estimate=way).self_compose(count) for way in WAYS)
    ours = dp.account(dp.repeat(dp.RandomizedResponse(math.log(3)), count), relation="REPLACE_ONE")
    # a loss that lands on the grid may round to the next step: one step a release at most
    step = count * math.log(3) / 1000
    for epsilon in (0.5, 1.0, 0.3 * count * math.log(3)):
        assert low.get_delta_for_epsilon(epsilon + step) <= ours.delta(epsilon) * (1 + 1e-9)
        assert ours.delta(epsilon) <= high.get_delta_for_epsilon(epsilon) * (1 + 1e-9)


# The best of several runs


SELECTED = [
    (dp.Gaussian(4.0), peer.GaussianDpEvent(4.0)),
    (dp.Laplace(10.0), peer.LaplaceDpEvent(10.0)),
    (sampled(1.0, 0.01, 1000), sampled_event(1.0, 0.01, 1000)),
]
SHAPES = [("geometric", 1), ("logarithmic", 0), ("poisson", math.inf), (2.5, 2.5)]


@pytest.mark.parametrize(("ours", "theirs"), SELECTED, ids=["gaussian", "laplace", "sampled"])
@pytest.mark.parametrize(("distribution", "shape"), SHAPES)
@pytest.mark.parametrize("mean", [1.5, 10, 300])
def test_private_selection_is_never_above_theirs(ours, theirs, distribution, shape, mean):
    event = peer.dp_event.RepeatAndSelectDpEvent(theirs, mean, shape)
    mechanism = dp.best_of(ours, mean_runs=mean, distribution=distribution)
    bound = rdp.RdpAccountant().compose(event).get_epsilon(1e-6)
    by_rdp = dp.account(mechanism, notion="rdp").epsilon(1e-6)
    # the theorem is the same; our orders are any, and those of theirs are a grid
    assert 0.8 * bound <= by_rdp <= bound * (1 + 1e-9)
    assert dp.account(mechanism).epsilon(1e-6) <= by_rdp


# Calibration


@pytest.mark.parametrize(("q", "steps"), [(0.01, 1000), (0.2, 50), (1.0, 30)])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_calibrated_noise_is_between_their_bounds(epsilon, q, steps):
    sigma = dp.noise_multiplier(epsilon=epsilon, delta=1e-6, sampling_probability=q, steps=steps)
    low, high = (composed(("gaussian", sigma, q, steps), pessimistic=way) for way in WAYS)
    assert low.get_epsilon_for_delta(1e-6) <= epsilon
    assert epsilon <= high.get_epsilon_for_delta(1e-6) * (1 + LOOSE["tightest"])


@pytest.mark.parametrize("target", STORED["targets"])
def test_rdp_calibration_needs_no_more_noise_than_theirs(target):
    epsilon, q, steps, theirs = target.values()
    ours = dp.noise_multiplier(
        epsilon=epsilon, delta=1e-6, sampling_probability=q, steps=steps, notion="rdp"
    )
    # theirs is the best integer order, ours the best real one
    assert 0.98 * theirs <= ours <= theirs * (1 + 1e-8)


# Known faults of the peer, shown by a closed form


def exact_delta_of_binary_responses(odds, count, epsilon):
    """Return sum over i of C(n, i) (p^(n-i) r^i - e^epsilon p^i r^(n-i))+, in rational numbers."""
    p, r = Fraction(odds, odds + 1), Fraction(1, odds + 1)
    grown = Fraction(math.exp(epsilon))
    gaps = (
        math.comb(count, i) * (p ** (count - i) * r**i - grown * p**i * r ** (count - i))
        for i in range(count + 1)
    )
    return sum(gap for gap in gaps if gap > 0)


def test_the_count_of_randomized_responses_is_kept():
    delta, count = 1e-6, 100
    replaced = peer.NeighboringRelation.REPLACE_ONE
    theirs = pld.PLDAccountant(neighboring_relation=replaced)
    theirs.compose(peer.RandomizedResponseDpEvent(0.5, 2), count)
    ours = dp.account(
        dp.repeat(dp.RandomizedResponse(math.log(3)), count), relation="REPLACE_ONE"
    ).epsilon(delta)

    # dp-accounting ignores the count: it reports the epsilon of one response for 100
    assert theirs.get_epsilon(delta) < 1.1
    assert exact_delta_of_binary_responses(3, count, 1.1) > 0.99
    assert ours == pytest.approx(94.2899, abs=1e-4)
    assert exact_delta_of_binary_responses(3, count, ours) <= delta
    assert exact_delta_of_binary_responses(3, count, ours * (1 - 1e-9)) > delta


def test_a_replaced_record_moves_a_gaussian_by_two():
    replaced = peer.NeighboringRelation.REPLACE_ONE
    theirs = rdp.RdpAccountant(neighboring_relation=replaced).compose(peer.GaussianDpEvent(2.0))
    ours = dp.account(dp.Gaussian(2.0), relation="REPLACE_ONE").epsilon(1e-5)
    # twice the shift is equivalent to half the noise; their RDP ignores the relation
    assert ours == pytest.approx(peer.get_epsilon_gaussian(1.0, 1e-5), rel=1e-11)
    assert theirs.get_epsilon(1e-5) < ours / 2


# Discrete noise


@pytest.mark.parametrize(("sigma", "sensitivity"), [(0.7, 1), (3.73, 1), (3.73, 5), (30.0, 10)])
def test_discrete_gaussian_profile(sigma, sensitivity):
    mechanism = dp.DiscreteGaussian(sigma, sensitivity=sensitivity)
    theirs = [
        losses.from_discrete_gaussian_mechanism(
            sigma, sensitivity, pessimistic_estimate=up, value_discretization_interval=1e-4
        )
        for up in WAYS
    ]
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        low, high = (each.get_delta_for_epsilon(epsilon) for each in theirs)
        assert low * (1 - 1e-9) <= dp.account(mechanism).delta(epsilon) <= high * (1 + 1e-9)


@pytest.mark.parametrize(("sigma", "sensitivity"), [(0.7, 1), (3.73, 2), (30.0, 10)])
def test_composed_discrete_gaussians(sigma, sensitivity):
    ours = dp.account(dp.repeat(dp.DiscreteGaussian(sigma, sensitivity=sensitivity), 4))
    low, high = (
        losses.from_discrete_gaussian_mechanism(
            sigma, sensitivity, pessimistic_estimate=up, value_discretization_interval=1e-3
        ).self_compose(4)
        for up in WAYS
    )
    for delta in COMPOSED_DELTAS:
        bounds = [each.get_epsilon_for_delta(delta) for each in (low, high)]
        assert bounds[0] * (1 - 1e-6) <= ours.epsilon(delta) <= bounds[1] * (1 + 1e-6)


@pytest.mark.parametrize(("parameter", "sensitivity"), [(0.3, 1), (0.1, 7), (1.5, 2)])
def test_discrete_laplace_profile(parameter, sensitivity):
    ours = dp.account(dp.DiscreteLaplace(1 / parameter, sensitivity=sensitivity))
    low, high = (
        losses.from_discrete_laplace_mechanism(
            parameter, sensitivity, pessimistic_estimate=up, value_discretization_interval=1e-4
        )
        for up in WAYS
    )
    for epsilon in (0.0, 0.123, 0.5, 2.0):
        bounds = [each.get_delta_for_epsilon(epsilon) for each in (low, high)]
        found = ours.delta(epsilon)
        assert bounds[0] * (1 - 1e-9) - 1e-14 <= found <= bounds[1] * (1 + 1e-9) + 1e-14


# Trees


@pytest.mark.parametrize("steps", [1, 7, 8, 1000, [16, 3, 40]])
@pytest.mark.parametrize("noise", [0.8, 5.0])
def test_a_tree_of_one_epoch(noise, steps):
    event = peer.SingleEpochTreeAggregationDpEvent(noise, steps)
    ours = dp.TreeAggregation(noise, steps)
    for order in (1.5, 4, 32):
        theirs = rdp.RdpAccountant(
            [order], neighboring_relation=peer.NeighboringRelation.REPLACE_SPECIAL
        ).compose(event)
        found = dp.account(ours, notion="rdp", relation="REPLACE_SPECIAL", orders=[order])
        assert found.epsilon(1e-6) == pytest.approx(theirs.get_epsilon(1e-6), rel=ROUNDING)
    tight = dp.account(ours, relation="REPLACE_SPECIAL").epsilon(1e-6)
    depth = max(steps) if isinstance(steps, list) else steps
    assert tight == pytest.approx(
        peer.get_epsilon_gaussian(noise / math.sqrt(depth.bit_length()), 1e-6), rel=1e-11
    )
