"""A filter never exceeds its budget under adaptive spends; the parts of a budget add up to it."""

import copy
import json
import math
import pickle
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import privacy as dp
from privacy.certification.certificates import certificate, verify
from tests.laws.strategies import (
    deltas,
    epsilons,
    gaussians,
    laplaces,
    log_uniform,
    noise_multipliers,
)
from tests.proofs import proves_guarantee

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
    """1,000 strategies per accounting method that adapt to the remaining budget."""
    choose = random.Random(notion)
    start = a_budget(notion)
    refused = 0
    for strategy in range(1000):
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
        if spent and strategy % 4 == 0:
            assert account_of(spent, notion, budget) <= start.epsilon * (1 + 1e-12)
    assert refused > 100


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
def test_spend_returns_a_new_budget(mechanism):
    before = dp.Budget(epsilon=50, delta=1e-3)
    same = dp.Budget(epsilon=50, delta=1e-3)
    if before.fits(mechanism):
        after = before.spend(mechanism)
        assert after.spent > before.spent
    assert before == same


def test_a_repeat_costs_the_same_as_its_separate_steps():
    one, budget = dp.Gaussian(40.0), a_budget("zcdp")
    stepwise = budget
    for _ in range(7):
        stepwise = stepwise.spend(one)
    assert stepwise == budget.spend(dp.repeat(one, 7))


@settings(max_examples=150)
@given(rho=log_uniform(1e-8, 100), delta=deltas)
def test_a_rho_fits_the_budget_of_its_epsilon(rho, delta):
    epsilon = dp.epsilon_from_rho(rho, delta)
    assume(epsilon > 0)
    budget = dp.Budget(epsilon=epsilon, delta=delta)
    after = budget.spend(dp.ZeroConcentratedDP(rho))
    assert budget.fits(dp.repeat(dp.ZeroConcentratedDP(rho / 8), 8))
    assert not after.fits(dp.ZeroConcentratedDP(rho * 1e-9))


@settings(max_examples=60)
@given(st.lists(gaussians, min_size=1, max_size=4), st.integers(1, 50), deltas)
def test_gaussians_fit_the_budget_of_their_epsilon(noises, count, delta):
    plan = dp.compose(*noises, dp.repeat(noises[0], count))
    epsilon = dp.account(plan, notion="gaussian").epsilon(delta)
    assume(0 < epsilon < 1e6)
    assert dp.Budget(epsilon=epsilon, delta=delta, notion="gaussian").fits(plan)


@settings(max_examples=60)
@given(
    rho=log_uniform(1e-6, 10), delta=deltas, order=log_uniform(1.1, 500), count=st.integers(1, 9)
)
def test_a_divergence_fits_the_budget_of_its_epsilon(rho, delta, order, count):
    for one in (dp.ZeroConcentratedDP(rho), dp.PureDP(rho), dp.Laplace(1 / rho)):
        plan = dp.repeat(one, count)
        epsilon = dp.account(plan, notion="rdp", orders=[order]).epsilon(delta)
        assume(epsilon > 0)
        budget = dp.Budget(epsilon=epsilon, delta=delta, notion="rdp", order=order)
        assert budget.fits(plan)
        assert not budget.fits(dp.compose(plan, dp.ZeroConcentratedDP(epsilon * 1e-9)))


def exact_epsilon(rho, delta):
    """min over a of a rho + log(1 - 1/a) - (log a + log delta) / (a - 1), with 40 digits."""
    with mpmath.workdps(40):
        rho, log_delta = mpmath.mpf(rho.numerator) / rho.denominator, mpmath.log(mpmath.mpf(delta))

        def at(x):
            return (1 + x) * rho - mpmath.log1p(1 / x) - (mpmath.log1p(x) + log_delta) / x

        best = mpmath.findroot(
            lambda x: rho * x * x + mpmath.log1p(x) + log_delta, mpmath.sqrt(-log_delta / rho)
        )
        return at(best)


@settings(max_examples=60)
@given(rho=log_uniform(1e-3, 10), delta=st.sampled_from([1e-3, 1e-6, 1e-12]))
def test_accepted_sums_have_at_most_the_exact_epsilon(rho, delta):
    """No accepted sum exceeds the exact epsilon, however near it is to the limit."""
    epsilon = dp.epsilon_from_rho(rho, delta)
    budget = dp.Budget(epsilon=epsilon, delta=delta)
    for ulps in (0, 1, 2, 3, 5, 9, 30, 100, 1000):
        more = dp.ZeroConcentratedDP(rho + ulps * math.ulp(rho))
        if budget.fits(more):
            assert exact_epsilon(Fraction(more.rho), delta) <= epsilon
    # two thirds, and then whatever is left to the last digit
    left = budget.spend(dp.ZeroConcentratedDP(rho * 2 / 3))
    rest = Fraction(rho * 2 / 3) + Fraction(left.remaining[0])
    assert exact_epsilon(rest, delta) <= epsilon


class TestParameters:
    """Budgets of a rho or a mu."""

    def test_rho(self):
        budget = dp.Budget(rho=0.5, delta=1e-6)
        assert (budget.limit, budget.notion) == ((0.5,), "zcdp")
        assert budget.epsilon == dp.epsilon_from_rho(0.5, 1e-6)
        full = budget.spend(dp.Gaussian(1.0))
        assert full.remaining == (0.0,)
        assert not full.fits(dp.Gaussian(1e100))

    def test_mu(self):
        budget = dp.Budget(mu=0.5, delta=1e-6)
        assert (budget.limit, budget.notion) == ((0.25,), "gaussian")
        full = budget.spend(dp.repeat(dp.Gaussian(4.0), 4))
        assert not full.fits(dp.Gaussian(1e100))
        known = dp.account(dp.Gaussian(2.0)).epsilon(1e-6)
        assert budget.guarantee().epsilon == pytest.approx(known, rel=1e-13)

    @given(log_uniform(1e-4, 1e4))
    def test_noise_and_claims_equal_to_the_limit_fit(self, value):
        of_rho, of_mu = dp.Budget(rho=value, delta=1e-6), dp.Budget(mu=value, delta=1e-6)
        assert of_rho.fits(dp.ZeroConcentratedDP(value))
        assert of_rho.fits(dp.Gaussian(dp.noise_multiplier_from_rho(value)))
        assert of_mu.fits(dp.Gaussian(dp.noise_multiplier_from_mu(value)))
        above = value * (1 + 1e-14)
        assert not of_rho.fits(dp.ZeroConcentratedDP(above))
        assert not of_rho.fits(dp.Gaussian(dp.noise_multiplier_from_rho(above)))
        assert not of_mu.fits(dp.Gaussian(dp.noise_multiplier_from_mu(above)))

    def test_ten_tenths_of_the_budget_fit_exactly(self):
        budget = dp.Budget(rho=1, delta=1e-6).spend(dp.repeat(dp.ZeroConcentratedDP(0.1), 10))
        assert not budget.fits(dp.ZeroConcentratedDP(1e-300))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({}, r"Expected epsilon, rho, mu=\(None, None, None\) to be one value"),
            ({"epsilon": 1, "rho": 1}, r"Expected epsilon, rho, mu=\(1, 1, None\) to be one value"),
            ({"rho": 0}, "Expected rho=0 to be > 0"),
            ({"mu": -1}, "Expected mu=-1 to be > 0"),
            ({"rho": 1, "notion": "gaussian"}, "Expected notion='gaussian' to be 'zcdp'"),
            ({"mu": 1, "notion": "approximate"}, "Expected notion='approximate' to be 'gaussian'"),
        ],
    )
    def test_invalid_values_are_refused(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            dp.Budget(delta=1e-6, **arguments)


class TestParallel:
    """A record is in one cell: the largest cost counts, and two where it moves."""

    def test_ten_tenths_of_the_budget_fit_exactly(self):
        budget = dp.Budget(epsilon=1, delta=0, notion="approximate")
        cells = dp.parallel(dp.PureDP(0.1), dp.PureDP(0.1))
        budget = budget.spend(dp.repeat(cells, 10))
        assert budget.remaining == (0.0, 0.0)
        assert not budget.fits(dp.PureDP(1e-300))

    @pytest.mark.parametrize("notion", NOTIONS)
    @pytest.mark.parametrize("cells", ["by_record", "by_public_index"])
    @pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
    def test_as_accounted(self, notion, cells, relation):
        noise = dp.Laplace if notion == "approximate" else dp.Gaussian
        order = 30 if notion == "rdp" else None
        budget = dp.Budget(epsilon=9, delta=1e-6, notion=notion, order=order, relation=relation)
        parts = [noise(10.0), noise(7.0), noise(7.0), noise(20.0)]
        cost = budget.cost(dp.parallel(*parts, cells=cells))[0]
        if (notion, cells, relation) == ("approximate", "by_record", "REPLACE_ONE"):
            assert cost == up_of(Fraction(2, 7))  # `account` has no rule
            return
        curve = dp.account(dp.parallel(*parts, cells=cells), notion=notion, relation=relation)
        known = {
            "zcdp": lambda: curve.rho,
            "gaussian": lambda: curve.mu_squared,
            "rdp": lambda: curve.divergence(30),
            "approximate": lambda: curve.epsilon(0),
        }[notion]()
        assert cost == pytest.approx(known, rel=1e-13)
        assert cost <= known

    def test_each_part_of_the_largest_claim_counts(self):
        budget = dp.Budget(epsilon=1, delta=1e-3, notion="approximate")
        cells = dp.parallel(dp.ApproximateDP(0.5, 1e-6), dp.ApproximateDP(0.25, 1e-4))
        assert budget.cost(cells) == (0.5, up_of(Fraction("1e-4")))


def up_of(value):
    """The smallest float that is not below."""
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def test_a_record_that_changes_cells_is_charged_in_both():
    """Two cells at distance 1: replacing in place costs 1/49, moving to the other cell 2/49."""
    budget = dp.Budget(rho=1, delta=1e-6, relation="REPLACE_ONE")
    near = dp.Gaussian(7.0, replace_distance=1)
    assert budget.cost(dp.parallel(near, near)) == (up_of(Fraction(1, 49)),)
    assert budget.cost(dp.parallel(near, near, cells="by_public_index"))[0] == up_of(
        Fraction(1, 98)
    )
    mixed = dp.parallel(near, dp.Gaussian(5.0, replace_distance=1))
    assert budget.cost(mixed)[0] == pytest.approx(1 / 98 + 1 / 50, rel=1e-15)


@pytest.mark.parametrize("excess", [1e-6, 1e-9, 1e-12, 1e-15])
def test_a_refusal_prints_a_cost_above_the_remainder(excess):
    claim = dp.ZeroConcentratedDP(1 + excess)
    with pytest.raises(dp.BudgetExceeded) as refused:
        dp.Budget(rho=1, delta=1e-6).spend(claim)
    remaining, asked = re.search(
        r"remaining rho ([\d.]+): it costs ([\d.]+),", str(refused.value)
    ).groups()
    assert float(asked) > float(remaining)


def test_a_refusal_rounds_the_remainder_down_and_the_rest_up():
    budget = dp.Budget(rho=1, delta=1e-6).spend(dp.ZeroConcentratedDP(1 / 3))
    with pytest.raises(dp.BudgetExceeded) as refused:
        budget.spend(dp.ZeroConcentratedDP(2 / 3 + 1e-9))
    told = "remaining rho 0.666666: it costs 0.666667, and 0.333334 of 1 is spent."
    assert told in str(refused.value)


class TestSaved:
    """A saved budget keeps what was spent."""

    @pytest.mark.parametrize("notion", NOTIONS)
    def test_every_notion(self, notion):
        budget = a_budget(notion).spend(
            dp.repeat(dp.Laplace(30.0), 7) if notion == "approximate" else dp.Gaussian(13.0)
        )
        for one in (budget, *budget.split([1, 2.3])):
            form = json.loads(json.dumps(one.to_json(), allow_nan=False))
            assert dp.Budget.from_json(form) == one
        assert dp.Budget.from_json(form).epsilon == one.epsilon

    @given(rho=log_uniform(1e-12, 1e4), delta=deltas)
    def test_any_limit(self, rho, delta):
        for one in (dp.Budget(rho=rho, delta=delta), *dp.Budget(mu=rho, delta=delta).split(3)):
            assert dp.Budget.from_json(one.to_json()) == one

    @pytest.mark.parametrize("notion", NOTIONS)
    def test_an_exhausted_budget(self, notion):
        budget = a_budget(notion)
        full = dp.Budget.from_json(budget.to_json() | {"spent": budget.to_json()["most"]})
        for one in (full, *full.split(2)):
            assert dp.Budget.from_json(one.to_json()) == one

    def test_a_full_budget_stays_full(self):
        full = dp.Budget(rho=1, delta=1e-6).spend(dp.ZeroConcentratedDP(1.0))
        again = dp.Budget.from_json(json.loads(json.dumps(full.to_json())))
        assert again.remaining == (0.0,)
        with pytest.raises(dp.BudgetExceeded):
            again.spend(dp.Gaussian(1e9))

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"schema": "dpcalib.budget/2"}, "Expected form="),
            ({"more": 1}, "Expected form="),
            ({"notion": "contour"}, "Expected notion='contour'"),
            ({"order": 3}, "Expected order=3 to be None"),
            ({"epsilon": -1}, "Expected epsilon=-1"),
            ({"delta": 1}, "Expected delta=1"),
            ({"of_epsilon": 1}, "Expected of_epsilon=1"),
            ({"relation": "SOME"}, "Expected relation="),
            ({"spent": []}, "Expected spent="),
            ({"spent": 1}, "Expected spent="),
            ({"spent": [1]}, "Expected spent="),
            ({"spent": ["x/1"]}, "Expected spent="),
            ({"spent": ["1/0"]}, "Expected spent="),
            ({"spent": ["-1/2"]}, "Expected spent="),
            ({"spent": ["1/2", "1/2"]}, "Expected spent="),
            ({"most": ["1/1"]}, "to be within epsilon=1.0 and delta=1e-06"),
            ({"epsilon": 0.5}, "to be within epsilon=0.5"),
            ({"limit": ["1/1"]}, "to be within epsilon=1.0"),
        ],
    )
    def test_invalid_values_are_refused(self, changed, message):
        form = dp.Budget(epsilon=1.0, delta=1e-6).to_json()
        with pytest.raises((ValueError, TypeError), match=re.escape(message)):
            dp.Budget.from_json(form | changed)
        with pytest.raises(ValueError, match="Expected form="):
            dp.Budget.from_json({key: form[key] for key in list(form)[1:]})
        with pytest.raises(ValueError, match="Expected form="):
            dp.Budget.from_json([form])

    def test_a_delta_of_zero(self):
        form = a_budget("rdp").to_json()
        with pytest.raises(ValueError, match="Expected delta=0 to be > 0"):
            dp.Budget.from_json(form | {"delta": 0})

    def test_a_limit_beyond_its_delta(self):
        form = dp.Budget(epsilon=1.0, delta=1e-6, notion="approximate").to_json()
        with pytest.raises(ValueError, match="to be within"):
            dp.Budget.from_json(form | {"delta": 1e-9})


class TestShared:
    """Threads that spend from one budget."""

    def test_a_hundred_equal_parts_fit_their_budget(self):
        shared = dp.SharedBudget(dp.Budget(epsilon=10, delta=0, notion="approximate"))
        accepted = in_threads(lambda: spend_until_refused(shared, dp.PureDP(0.1)))
        assert sum(accepted) == 100
        assert shared.budget.remaining == (0.0, 0.0)

    def test_no_reading_of_an_odometer_is_lost(self):
        shared = dp.SharedBudget(dp.Odometer(delta=1e-6))
        in_threads(lambda: [shared.spend(dp.Gaussian(20.0)) for _ in range(50)])
        assert shared.budget == dp.Odometer(delta=1e-6).spend(dp.repeat(dp.Gaussian(20.0), 400))

    def test_threads_charge_a_user_once(self):
        shared = dp.SharedBudget(dp.IndividualBudget(epsilon=1, delta=1e-6, users=2))
        sigma = dp.noise_multiplier_from_rho(shared.budget.limit / 100)
        shares = [1.0, 0.5]
        admitted = in_threads(
            lambda: [shared.spend(dp.Gaussian(sigma), shares)[1] for _ in range(50)]
        )
        assert np.sum(admitted, axis=(0, 1)).tolist() == [100, 400]

    def test_the_lock_is_held_from_the_old_value_to_the_new_one(self):
        seen = []

        class Watched(dp.Budget):
            def spend(self, mechanism):
                seen.append((self is shared.budget, shared._lock.locked()))
                return super().spend(mechanism)

        shared = dp.SharedBudget(Watched(rho=1, delta=1e-6))
        for _ in range(2):
            shared.spend(dp.ZeroConcentratedDP(0.25))
        assert seen == [(True, True)] * 2
        assert not shared._lock.locked()
        assert shared.budget.spent == (0.5,)

    def test_a_refused_spend_changes_nothing(self):
        shared = dp.SharedBudget(dp.Budget(rho=1, delta=1e-6))
        with pytest.raises(dp.BudgetExceeded):
            shared.spend(dp.ZeroConcentratedDP(2.0))
        assert shared.spend(dp.ZeroConcentratedDP(1.0)) is shared.budget

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_no_copies(self, copied):
        with pytest.raises(
            TypeError, match=r"to be neither copied nor pickled\. Spend in one process"
        ):
            copied(dp.SharedBudget(dp.Budget(rho=1, delta=1e-6)))

    def test_no_forks(self, monkeypatch):
        shared = dp.SharedBudget(dp.Budget(rho=1, delta=1e-6))
        monkeypatch.setattr("os.getpid", lambda: -1)
        with pytest.raises(RuntimeError, match=r"process=-1 to be \d+, the process that created"):
            shared.spend(dp.Gaussian(20.0))

    def test_only_budgets_can_be_shared(self):
        with pytest.raises(TypeError, match="Expected budget=1 to be a Budget"):
            dp.SharedBudget(1)


def spend_until_refused(shared, mechanism):
    accepted = 0
    while True:
        try:
            shared.spend(mechanism)
        except dp.BudgetExceeded:
            return accepted
        accepted += 1


def in_threads(run):
    """Return what eight threads return that start together."""
    start = threading.Barrier(8)

    def one(_):
        start.wait(10)
        return run()

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(one, range(8)))


@pytest.mark.parametrize(
    "budget",
    [
        a_budget("zcdp").spend(dp.Gaussian(20.0)),
        dp.Odometer(delta=1e-6).spend(dp.Gaussian(20.0)),
        dp.IndividualBudget(epsilon=1, delta=1e-6, users=1).spend(dp.Gaussian(20.0), [1.0])[0],
    ],
)
def test_a_replaced_field_does_not_forget_what_was_spent(budget):
    with pytest.raises(TypeError, match="unexpected keyword"):
        replace(budget, delta=1e-5)


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


def test_an_unsupported_mechanism_is_refused_and_spends_nothing():
    sampled = dp.PoissonSampled(dp.Gaussian(2.0), sampling_probability=0.01)
    for notion in ("zcdp", "gaussian", "approximate"):
        with pytest.raises(dp.UnsupportedMechanism):
            a_budget(notion).spend(sampled)
    assert a_budget("rdp").fits(sampled)
    with pytest.raises(dp.UnsupportedMechanism):
        dp.Budget(epsilon=1, delta=1e-6, relation="REPLACE_ONE").spend(dp.PureDP(0.1))


@pytest.mark.parametrize("scale", [1e-320, 1e-200, 1e-100])
@pytest.mark.parametrize("notion", NOTIONS)
def test_tiny_noise_exceeds_the_budget(notion, scale):
    noise = dp.Laplace(scale) if notion == "approximate" else dp.Gaussian(scale)
    with pytest.raises(dp.BudgetExceeded):
        a_budget(notion).spend(noise)
    assert dp.Odometer(delta=1e-6).spend(dp.Gaussian(scale)).epsilon > 1e100
    individual = dp.IndividualBudget(epsilon=1, delta=1e-6, users=2)
    after, admitted = individual.spend(dp.Gaussian(scale), [0.0, 1.0])
    assert admitted.tolist() == [True, False]
    assert after.sensitive_spent.tolist() == [0.0, 0.0]


def test_the_guarantee_is_not_the_amount_spent():
    left = dp.Budget(epsilon=1, delta=1e-6).spend(dp.Gaussian(20.0))
    assert " spent; the whole budget is (1, 1e-06)-DP, ADD_OR_REMOVE_ONE, by zcdp" in str(left)


CERTIFIED = [
    dp.Budget(epsilon=1.0, delta=1e-6),
    dp.Budget(rho=0.1, delta=1e-5, relation="REPLACE_ONE"),
    dp.Budget(epsilon=3.0, delta=1e-9, notion="gaussian", relation="REPLACE_ONE"),
    dp.Budget(mu=0.7, delta=1e-5).split(3)[0],
    dp.IndividualBudget(epsilon=2.0, delta=1e-7, users=3),
    dp.Budget(epsilon=1.0, delta=1e-6, notion="rdp", order=40.0),
    dp.Budget(epsilon=0.7, delta=1e-5, notion="rdp", order=33.3, relation="REPLACE_ONE"),
    dp.Budget(epsilon=1.1, delta=1e-6, notion="approximate"),
    dp.Budget(epsilon=0.3, delta=0, notion="approximate", relation="REPLACE_SPECIAL"),
]


@pytest.mark.parametrize("budget", CERTIFIED, ids=str)
def test_a_certified_budget_has_no_smaller_epsilon(budget):
    found = budget.guarantee(certify=True)
    assert found.certified
    assert budget.epsilon <= found.epsilon <= budget.epsilon * (1 + 1e-9)
    assert found.relation == budget.relation
    form = certificate(found)
    assert verify(form).certified
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-8)))
    assert not proves_guarantee(replace(found, mechanism=dp.repeat(found.mechanism, 2)))
    if isinstance(budget, dp.Budget):
        assert not budget.fits(found.mechanism)


@pytest.mark.parametrize("notion", ["rdp", "approximate"])
def test_a_budget_whose_limit_was_raised_is_not_certified(notion):
    order = 40.0 if notion == "rdp" else None
    budget = dp.Budget(epsilon=1.0, delta=1e-6, notion=notion, order=order)
    raised = tuple(amount * (1 + Fraction(1, 10**7)) for amount in budget._most)
    with pytest.raises(dp.NotCertified):
        budget._with(_most=raised).guarantee(certify=True)
