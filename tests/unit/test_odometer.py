"""Odometers and individual budgets: right readings, what is refused, what stays hidden."""

import math
import random

import numpy as np
import pytest

import privacy as dp

DELTA = 1e-6


class TestOdometer:
    """What was spent, at every time at once."""

    def test_the_formula(self):
        odometer = dp.Odometer(delta=DELTA, orders=[3, 9])
        for _ in range(4):
            odometer = odometer.spend(dp.Gaussian(10.0))
        tail = math.log(2 / DELTA)
        right = min(3 * 0.02 + tail / 2, 9 * 0.02 + tail / 8)
        assert odometer.epsilon == pytest.approx(right, rel=1e-13)
        assert odometer.epsilon >= right
        assert odometer.guarantee().order == 9

    def test_nothing_spent_is_nothing_lost(self):
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
    def test_nonsense_is_refused(self, values, told):
        with pytest.raises(ValueError, match=f"Expected {told}="):
            dp.Odometer(**values)

    def test_immutable(self):
        odometer = dp.Odometer(delta=DELTA)
        odometer.spend(dp.Gaussian(1.0))
        assert odometer.epsilon == 0
        with pytest.raises(AttributeError):
            odometer.delta = 0.1

    def test_what_has_no_rule_spends_nothing(self):
        odometer = dp.Odometer(delta=DELTA)
        with pytest.raises(dp.UnsupportedMechanism):
            odometer.spend(dp.ApproximateDP(1.0, 1e-9))


class TestIndividualBudget:
    """Each user is charged by that user's own contribution."""

    def test_whoever_is_exhausted_is_dropped(self):
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

    def test_what_is_private_is_not_shown(self):
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
    def test_nonsense_is_refused(self, shares, told):
        budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=2)
        with pytest.raises((ValueError, TypeError), match=f"Expected {told}="):
            budget.spend(dp.Gaussian(1.0), shares)

    @pytest.mark.parametrize("shares", [[0.731, 1.5], ["0.731", "x"], [[0.731], [1.0, 0.5]]])
    def test_no_error_shows_a_share(self, shares):
        budget = dp.IndividualBudget(epsilon=1, delta=DELTA, users=2)
        with pytest.raises((ValueError, TypeError)) as refused:
            budget.spend(dp.Gaussian(1.0), shares)
        assert "0.731" not in str(refused.value)

    def test_replacing_has_no_theorem(self):
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
