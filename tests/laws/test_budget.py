"""A filter is never exceeded, whatever is asked next; parts of a budget recompose to it."""

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import (
    deltas,
    epsilons,
    gaussians,
    laplaces,
    log_uniform,
    noise_multipliers,
)

NOTIONS = ["zcdp", "gaussian", "rdp", "approximate"]


def a_budget(notion, epsilon=1.0, delta=1e-6):
    # an order that is large enough to leave a divergence for this epsilon and delta
    order = 2 - 2 * math.log(delta) / epsilon if notion == "rdp" else None
    return dp.Budget(epsilon=epsilon, delta=delta, notion=notion, order=order)


def account_of(spent, notion, budget):
    """The plan that was run, accounted as if it had been fixed in advance."""
    plan = dp.compose(*spent)
    if notion == "approximate":
        losses = [dp.account(part, notion="approximate").epsilon(0) for part in spent]
        return math.fsum(losses)
    return dp.account(plan, notion=notion, orders=_orders(budget)).epsilon(budget.delta)


def _orders(budget):
    return [budget.guarantee().order] if budget.notion == "rdp" else None


@pytest.mark.parametrize("notion", NOTIONS)
def test_a_filter_is_never_exceeded(notion):
    """2,500 strategies a notion, which look at what is left and try to overshoot."""
    choose = random.Random(notion)
    start = a_budget(notion)
    refused = 0
    for strategy in range(2500):
        budget, spent = start, []
        for _ in range(choose.randint(1, 6)):
            scale = 10 ** choose.uniform(-0.5, 2)
            one = dp.Laplace(scale) if notion == "approximate" else dp.Gaussian(3 * scale)
            asked = dp.repeat(one, choose.choice([1, 1, 3, 50]))
            try:
                budget = budget.spend(asked)
            except dp.BudgetExceeded as exceeded:
                refused += 1
                assert not budget.fits(asked)
                assert exceeded.asked[0] > exceeded.remaining[0]
                assert exceeded.remaining == budget.remaining
            else:
                spent.append(asked)
        assert budget.spent[0] <= budget.limit[0] * (1 + 2e-12)
        if spent and strategy % 10 == 0:
            assert account_of(spent, notion, budget) <= start.epsilon * (1 + 1e-12)
    assert refused > 250


@settings(max_examples=40)
@given(epsilons, deltas, st.sampled_from(NOTIONS))
def test_the_guarantee_is_that_of_the_limit(epsilon, delta, notion):
    budget = a_budget(notion, epsilon, delta)
    guarantee = budget.guarantee()
    assert (guarantee.epsilon, guarantee.delta) == (epsilon, delta)
    assert guarantee.theorem
    (whole,) = budget.split(1)
    assert whole.epsilon == pytest.approx(epsilon, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("notion", ["zcdp", "gaussian"])
@given(epsilon=epsilons, delta=deltas, tenths=st.integers(2, 40))
@settings(max_examples=20)
def test_equal_parts_fit_exactly(notion, epsilon, delta, tenths):
    budget = a_budget(notion, epsilon, delta)
    part = budget.limit[0] / tenths
    if notion == "zcdp":
        sigma = dp.noise_multiplier_from_rho(part)
    else:
        sigma = dp.noise_multiplier_from_mu(math.sqrt(part))
    for _ in range(tenths):
        budget = budget.spend(dp.Gaussian(sigma))
    assert not budget.fits(dp.Gaussian(sigma))
    assert budget.remaining[0] <= 1e-9 * budget.limit[0]


@given(count=st.integers(1, 60), epsilon=st.sampled_from([1.0, 0.7, 3.0]))
def test_decimal_claims_fit_exactly(count, epsilon):
    budget = dp.Budget(epsilon=epsilon, delta=1e-5, notion="approximate")
    share = float(Fraction(repr(epsilon)) / 10)
    claim = dp.ApproximateDP(share, delta=1e-6)
    if count <= 10:
        assert budget.spend(dp.repeat(claim, count)).fits(dp.repeat(claim, 11 - count)) is (
            count == 11
        )
        if count < 10:
            assert budget.spend(dp.repeat(claim, count)).fits(dp.repeat(claim, 10 - count))
    else:
        with pytest.raises(dp.BudgetExceeded):
            budget.spend(dp.repeat(claim, count))


@settings(max_examples=30)
@given(
    notion=st.sampled_from(NOTIONS),
    weights=st.lists(log_uniform(1e-3, 1e3), min_size=1, max_size=8),
    sigma=noise_multipliers,
)
def test_parts_recompose_to_no_more_than_what_was_left(notion, weights, sigma):
    budget = a_budget(notion)
    first = dp.Laplace(sigma + 2) if notion == "approximate" else dp.Gaussian(sigma + 8)
    if budget.fits(first):
        budget = budget.spend(first)
    parts = budget.split(weights)
    for k, left in enumerate(budget._limit):
        assert sum((part._limit[k] for part in parts), Fraction(0)) == left - budget._spent[k]
    assert all(part.epsilon <= budget.epsilon * (1 + 1e-9) for part in parts)
    assert all(part.spent == (0.0,) * len(part.spent) for part in parts)


@given(st.one_of(gaussians, laplaces))
def test_spending_is_a_value(mechanism):
    before = dp.Budget(epsilon=50, delta=1e-3)
    copy = dp.Budget(epsilon=50, delta=1e-3)
    if before.fits(mechanism):
        after = before.spend(mechanism)
        assert after.spent > before.spent
    assert before == copy


def test_a_repeat_costs_what_its_steps_cost_one_by_one():
    one, budget = dp.Gaussian(40.0), a_budget("zcdp")
    stepwise = budget
    for _ in range(7):
        stepwise = stepwise.spend(one)
    assert stepwise == budget.spend(dp.repeat(one, 7))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"notion": "contour"}, "Expected notion='contour' to be one of"),
        ({"notion": "rdp"}, "Expected order=None to be a Rényi order"),
        ({"order": 3}, "Expected order=3 to be None"),
        ({"notion": "rdp", "order": 2}, "Expected order=2.0 to be large enough"),
        ({"delta": 0}, "Expected delta=0 to be > 0"),
        ({"epsilon": -1}, "Expected epsilon=-1 to be > 0"),
        ({"relation": "SOME"}, "Expected relation='SOME'"),
    ],
)
def test_bad_budgets(arguments, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        dp.Budget(**{"epsilon": 1, "delta": 1e-6} | arguments)


@pytest.mark.parametrize("shares", [0, [], [1, -1], [float("nan")]])
def test_bad_shares(shares):
    with pytest.raises(ValueError, match="Expected shares="):
        a_budget("zcdp").split(shares)


def test_what_has_no_rule_is_refused_and_nothing_is_spent():
    sampled = dp.PoissonSampled(dp.Gaussian(2.0), sampling_probability=0.01)
    for notion in ("zcdp", "gaussian", "approximate"):
        with pytest.raises(dp.UnsupportedMechanism):
            a_budget(notion).spend(sampled)
    assert a_budget("rdp").fits(sampled)
    with pytest.raises(dp.UnsupportedMechanism):
        dp.Budget(epsilon=1, delta=1e-6, relation="REPLACE_ONE").spend(dp.PureDP(0.1))


def test_what_was_spent_is_not_read_as_the_guarantee():
    left = dp.Budget(epsilon=1, delta=1e-6).spend(dp.Gaussian(20.0))
    assert " spent; the whole budget is (1, 1e-06)-DP, ADD_OR_REMOVE_ONE, by zcdp" in str(left)
