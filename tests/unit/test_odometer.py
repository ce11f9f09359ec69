"""Odometers and individual budgets: readings, errors, private values."""

import json
import math
import random
from fractions import Fraction

import numpy as np
import pytest

import privacy as dp
from privacy.budget import _measures as measures

DELTA = 1e-6


class TestOdometer:
    """The privacy loss so far, at all times at once."""

    def test_the_formula(self):
        odometer = dp.Odometer(delta=DELTA, orders=[3, 9])
        for _ in range(4):
            odometer = odometer.spend(dp.Gaussian(10.0))
        tail = math.log(2 / DELTA)
        right = min(3 * 0.02 + tail / 2, 9 * 0.02 + tail / 8)
        assert odometer.epsilon == pytest.approx(right, rel=1e-13)
        assert odometer.epsilon >= right
        assert odometer.guarantee().order == 9

    def test_an_unspent_odometer_has_zero_epsilon(self):
        for notion in ("rdp", "approximate"):
            assert dp.Odometer(delta=DELTA, notion=notion).epsilon == 0

    def test_basic_composition(self):
        odometer = dp.Odometer(delta=1e-6, notion="approximate")
        for _ in range(10):
            odometer = odometer.spend(dp.ApproximateDP(0.1, 1e-7))
        assert odometer.epsilon == 1.0
        assert odometer.spend(dp.ApproximateDP(0.1, 1e-300)).epsilon == math.inf

    @pytest.mark.parametrize("sigma", [3.0, 20.0, 300.0])
    @pytest.mark.parametrize("steps", [1, 30, 1000])
    def test_it_costs_more_than_a_fixed_plan_and_not_much(self, sigma, steps):
        odometer = dp.Odometer(delta=DELTA).spend(dp.repeat(dp.Gaussian(sigma), steps))
        fixed = dp.account(dp.repeat(dp.Gaussian(sigma), steps), notion="zcdp").epsilon(DELTA)
        assert fixed < odometer.epsilon < 2 * fixed + 0.1

    def test_the_loss_stays_below_every_reading(self):
        """20,000 runs that spend more when their loss is large: at most delta of them exceed."""
        delta, runs, steps = 0.05, 20_000, 30
        rng = np.random.default_rng(5)
        odometer = dp.Odometer(delta=delta, orders=[2, 3, 5, 9])
        mus = (0.1, 0.4)
        orders = np.array(odometer.orders)
        loss, spent, ever = np.zeros(runs), np.zeros((runs, 1)), np.zeros(runs, bool)
        for _ in range(steps):
            mu = np.where(loss > 0.3, mus[1], mus[0])
            loss += mu * rng.standard_normal(runs) + mu * mu / 2
            spent += (mu * mu / 2)[:, None]
            reading = (orders * spent + math.log(4 / delta) / (orders - 1)).min(axis=1)
            ever |= loss > reading
        assert 0 < ever.mean() <= delta

    @pytest.mark.parametrize(
        ("values", "told"),
        [
            ({"delta": 0}, "delta"),
            ({"delta": 1}, "delta"),
            ({"delta": DELTA, "notion": "contour"}, "notion"),
            ({"delta": DELTA, "orders": []}, "orders"),
            ({"delta": DELTA, "orders": [1.0]}, "orders"),
            ({"delta": DELTA, "notion": "approximate", "orders": [2.0]}, "orders"),
            ({"delta": DELTA, "notion": "approximate", "orders": np.array([2.0, 3.0])}, "orders"),
            ({"delta": DELTA, "unit": ""}, "unit"),
        ],
    )
    def test_invalid_arguments_are_refused(self, values, told):
        with pytest.raises(ValueError, match=f"Expected {told}="):
            dp.Odometer(**values)

    def test_immutable(self):
        odometer = dp.Odometer(delta=DELTA)
        odometer.spend(dp.Gaussian(1.0))
        assert odometer.epsilon == 0
        with pytest.raises(AttributeError):
            odometer.delta = 0.1

    @pytest.mark.parametrize(
        "odometer",
        [
            dp.Odometer(delta=DELTA),
            dp.Odometer(delta=DELTA, orders=[1.5, 3]).spend(dp.PureDP(0.3)),
            dp.Odometer(delta=0.0, notion="approximate", unit="one user").spend(dp.PureDP(0.1)),
            dp.Odometer(delta=DELTA, relation="REPLACE_ONE").spend(dp.Gaussian(1.1)),
        ],
    )
    def test_the_amount_spent_survives_json(self, odometer):
        form = json.loads(json.dumps(odometer.to_json(), allow_nan=False))
        again = dp.Odometer.from_json(form)
        assert again == odometer
        assert again.guarantee() == odometer.guarantee()

    @pytest.mark.parametrize(
        ("changed", "told"),
        [
            ({"schema": "dpcalib.budget/1"}, "form"),
            ({"spent": ["0/1"]}, "spent"),
            ({"spent": ["-1/1", "0/1"]}, "spent"),
            ({"orders": [2]}, "spent"),
            ({"orders": [1, 2]}, "orders"),
            ({"delta": 0}, "delta"),
        ],
    )
    def test_invalid_json_is_refused(self, changed, told):
        form = dp.Odometer(delta=DELTA, orders=[2, 3]).to_json()
        with pytest.raises((ValueError, TypeError), match=f"Expected {told}="):
            dp.Odometer.from_json(form | changed)

    @pytest.mark.parametrize(
        "mechanism",
        [
            dp.Gaussian(3.3),
            dp.ZeroConcentratedDP(0.7),
            dp.PureDP(0.3),
            dp.PoissonSampled(dp.Laplace(1.0), sampling_probability=0.1),
            dp.parallel(dp.Gaussian(3.3), dp.PureDP(0.3)),
        ],
    )
    def test_all_orders_at_once_are_what_each_is(self, mechanism):
        orders = (1.5, 2.0, 17.0, 300.0)
        spent = dp.Odometer(delta=DELTA, orders=orders).spend(mechanism)._spent
        for order, found in zip(orders, spent, strict=True):
            known = dp.account(mechanism, notion="rdp").divergence(order)
            assert float(found) == pytest.approx(known, rel=1e-13)

    def test_a_release_that_is_spent_again_is_not_accounted_again(self, monkeypatch):
        asked = []
        account = measures.account
        monkeypatch.setattr(
            measures, "account", lambda *a, **k: asked.append(a) or account(*a, **k)
        )
        sampled = dp.PoissonSampled(dp.Gaussian(7.2), sampling_probability=0.015625)
        odometer = dp.Odometer(delta=DELTA, orders=[2, 9])
        for _ in range(30):
            odometer = odometer.spend(sampled)
        assert len(asked) == 1
        assert odometer == dp.Odometer(delta=DELTA, orders=[2, 9]).spend(dp.repeat(sampled, 30))

    def test_an_unsupported_mechanism_spends_nothing(self):
        odometer = dp.Odometer(delta=DELTA)
        with pytest.raises(dp.UnsupportedMechanism):
            odometer.spend(dp.ApproximateDP(1.0, 1e-9))


class TestIndividualBudget:
    """Each user is charged by that user's own contribution."""

    def test_users_with_an_exhausted_budget_are_dropped(self):
        budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=4)
        sigma = dp.noise_multiplier_from_rho(budget.limit / 10)
        shares = [1.0, 0.5, 0.0, 1.0]
        admitted = []
        for release in range(44):
            budget, who = budget.spend(dp.Gaussian(sigma), shares)
            admitted.append(who)
            shares[3] = float(release < 4)
        count = np.sum(admitted, axis=0)
        assert count.tolist() == [10, 40, 44, 44]
        # a user who was dropped, and one with little data, may still enter a cheap release
        assert budget.spend(dp.Gaussian(50.0), [1.0] * 4)[1].tolist() == [False, False, True, True]

    def test_never_exceeded(self):
        choose = random.Random(3)
        limit = dp.rho_from_epsilon(1, DELTA)
        for _ in range(100):
            budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=20)
            spent = np.zeros(20)
            for _ in range(30):
                sigma = 10 ** choose.uniform(0, 2)
                shares = np.array([choose.random() for _ in range(20)])
                budget, admitted = budget.spend(dp.repeat(dp.Gaussian(sigma), 2), shares)
                spent += np.where(admitted, (shares / sigma) ** 2, 0)
            assert (spent <= limit * (1 + 1e-14)).all()
            assert (budget.sensitive_spent >= spent * (1 - 1e-14)).all()

    @pytest.mark.parametrize("count", [1, 20_000])
    def test_every_sum_of_costs_rounds_up(self, count):
        """Costs that are each half an ulp of the sum are not lost one by one."""
        sigmas = [1, *range(100_000_010, 100_000_010 + count)]
        plan = dp.compose(*map(dp.Gaussian, sigmas))
        truth = Fraction(sum(2**299 // sigma**2 for sigma in sigmas), 2**300)
        budget = dp.IndividualBudget(epsilon=10, delta=DELTA, users=2)
        after, _ = budget.spend(plan, [1.0, 0.3])
        spent = after.sensitive_spent
        assert Fraction(spent[0]) >= truth
        assert Fraction(spent[1]) >= Fraction(0.3) ** 2 * truth
        assert spent[0] <= float(truth) * (1 + 1e-14)

    def test_a_tiny_share_with_tiny_noise_is_charged_exactly(self):
        budget = dp.IndividualBudget(epsilon=10, delta=DELTA, users=1)
        after, _ = budget.spend(dp.Gaussian(1e-150), [1e-170])
        assert after.sensitive_spent[0] == pytest.approx(5e-41, rel=1e-14)

    def test_the_amount_spent_survives_json(self):
        budget, _ = dp.IndividualBudget(epsilon=1, delta=DELTA, users=3).spend(
            dp.Gaussian(9.0), [0.125, 0.3, 1.0]
        )
        again = dp.IndividualBudget.from_json(json.loads(json.dumps(budget.to_json())))
        assert again == budget
        assert (again.sensitive_spent == budget.sensitive_spent).all()

    @pytest.mark.parametrize("spent", [None, [], [0.0], [0.0, -0.731], [0.0, math.nan], ["0", 1.0]])
    def test_invalid_json_is_refused_without_showing_it(self, spent):
        form = dp.IndividualBudget(epsilon=1, delta=DELTA, users=2).to_json()
        with pytest.raises(ValueError, match="Expected sensitive_spent=") as refused:
            dp.IndividualBudget.from_json(form | {"sensitive_spent": spent})
        assert "0.731" not in str(refused.value)

    def test_repr_omits_private_values(self):
        budget, _ = dp.IndividualBudget(epsilon=1, delta=DELTA, users=3).spend(
            dp.Gaussian(9.0), [0.125, 0.5, 1.0]
        )
        assert "spent" not in repr(budget)
        assert budget.guarantee().unit == "one user"
        copied = budget.sensitive_spent
        copied[:] = 0
        assert budget.sensitive_spent.all()

    @pytest.mark.parametrize(
        ("shares", "told"),
        [
            ([1.0], "shares.shape"),
            ([1.0, 1.5], "shares"),
            ([math.nan, 1.0], "shares"),
            ([-0.1, 1.0], "shares"),
            (["a", 1.0], "shares"),
            ([[1.0], [1.0, 0.5]], "shares"),
        ],
    )
    def test_invalid_arguments_are_refused(self, shares, told):
        budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=2)
        with pytest.raises((ValueError, TypeError), match=f"Expected {told}="):
            budget.spend(dp.Gaussian(1.0), shares)

    @pytest.mark.parametrize("shares", [[0.731, 1.5], ["0.731", "x"], [[0.731], [1.0, 0.5]]])
    def test_no_error_shows_a_share(self, shares):
        budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=2)
        with pytest.raises((ValueError, TypeError)) as refused:
            budget.spend(dp.Gaussian(1.0), shares)
        assert "0.731" not in str(refused.value)

    def test_replacing_is_not_supported(self):
        with pytest.raises(ValueError, match="Expected relation="):
            dp.IndividualBudget(epsilon=1, delta=DELTA, users=2, relation="REPLACE_ONE")

    @pytest.mark.parametrize(
        "mechanism",
        [dp.Laplace(1.0), dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.1)],
    )
    def test_only_gaussians(self, mechanism):
        budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=2)
        with pytest.raises(dp.UnsupportedMechanism, match="individual"):
            budget.spend(mechanism, [1.0, 1.0])
