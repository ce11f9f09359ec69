"""User-level privacy: rewriting of mechanisms, errors, correct values."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as losses

import privacy as dp
from privacy.losses.groups import (
    GroupSampledGaussian,
    GroupSampledProfile,
    _binomial,
    _numerators,
)
from privacy.notions import contour_integral, loss_sums

DELTA = 1e-6
SAMPLED = dp.PoissonSampled(dp.Gaussian(2.0), sampling_probability=0.01)


def _exact_log_deltas(mu, q, size, epsilon):
    """Log delta of one release of a group, by removing and by adding it."""
    with mp.workdps(50):
        q, mu, ratio = mp.mpf(q), mp.mpf(mu), mp.exp(epsilon)
        terms = [(mp.binomial(size, k) * q**k * (1 - q) ** (size - k), k * mu) for k in range(80)]

        def place(level):
            def excess(x):
                return mp.log(sum(w * mp.exp(a * (x - a / 2)) for w, a in terms)) - level

            return mp.findroot(excess, (level / mu, level / mu + 1))

        x, y = place(epsilon), place(-epsilon)
        removed = sum(w * mp.ncdf(a - x) for w, a in terms) - ratio * mp.ncdf(-x)
        added = mp.ncdf(y) - ratio * sum(w * mp.ncdf(y - a) for w, a in terms)
        return {"remove": float(mp.log(removed)), "add": float(mp.log(added))}


class TestRewriting:
    """Closed forms, rounded conservatively."""

    def test_leaves(self):
        assert dp.user_level(dp.Gaussian(30.0), max_contributions=3) == dp.Gaussian(10.0)
        assert dp.user_level(dp.Laplace(8.0), max_contributions=4) == dp.Laplace(2.0)
        assert dp.user_level(dp.PureDP(0.25), max_contributions=4) == dp.PureDP(1.0)
        claim = dp.user_level(dp.ZeroConcentratedDP(0.125), max_contributions=4)
        assert claim == dp.ZeroConcentratedDP(2.0)
        response = dp.RandomizedResponse(0.5, 7)
        assert dp.user_level(response, max_contributions=3) == dp.repeat(response, 3)

    def test_an_approximate_claim(self):
        claim = dp.user_level(dp.ApproximateDP(0.5, 1e-9), max_contributions=3)
        right = 1e-9 * (1 + math.exp(0.5) + math.e)
        assert claim.epsilon == 1.5
        assert right <= claim.delta <= right * (1 + 1e-12)
        mass = dp.user_level(dp.ApproximateDP(0.0, 1e-9), max_contributions=3)
        assert 3e-9 <= mass.delta <= 3e-9 * (1 + 1e-12)

    @pytest.mark.parametrize("size", [3, 7, 10, 1000])
    def test_noise_is_rounded_down_and_cost_up(self, size):
        for value in (0.1, 1 / 3, 1e-300, 1e300):
            noise = dp.user_level(dp.Gaussian(value), max_contributions=size).noise_multiplier
            assert noise * size <= value * (1 + 2e-16)
            assert noise > 0
            if value < 1e100:
                cost = dp.user_level(dp.PureDP(value), max_contributions=size).epsilon
                assert cost >= value * size

    @pytest.mark.parametrize("hundredths", range(1, 200, 7))
    @pytest.mark.parametrize("size", [3, 6, 7])
    def test_a_budget_charges_the_full_parameters_of_a_claim(self, hundredths, size):
        claim = dp.PureDP(hundredths / 100)
        user = dp.user_level(claim, max_contributions=size)
        assert Fraction(repr(user.epsilon)) >= size * Fraction(hundredths, 100)

    def test_trees(self):
        gaussian, laplace = dp.Gaussian(6.0), dp.Laplace(4.0)
        plan = dp.compose(dp.repeat(gaussian, 5), laplace, SAMPLED)
        ours = dp.user_level(plan, max_contributions=2)
        parts = (dp.repeat(dp.Gaussian(3.0), 5), dp.Laplace(2.0))
        assert ours == dp.compose(*parts, dp.user_level(SAMPLED, max_contributions=2))
        cells = dp.parallel(gaussian, dp.Gaussian(9.0), cells="by_public_index")
        assert dp.user_level(cells, max_contributions=3) == dp.parallel(
            dp.Gaussian(2.0), dp.Gaussian(3.0), cells="by_public_index"
        )

    @pytest.mark.parametrize(
        "mechanism", [dp.Gaussian(2.0), SAMPLED, dp.parallel(SAMPLED, SAMPLED)]
    )
    def test_one_record_changes_nothing(self, mechanism):
        assert dp.user_level(mechanism, max_contributions=1) is mechanism

    def test_sampling_users_differs_from_sampling_records(self):
        together = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
        apart = dp.user_level(SAMPLED, max_contributions=2)
        assert dp.account(together).epsilon(DELTA) != dp.account(apart).epsilon(DELTA)


class TestSpread:
    """Records of one user that fall into several releases with independent noise."""

    @pytest.mark.parametrize("k", [1, 2, 7, 40])
    def test_one_record_per_release_costs_k_rho(self, k):
        once = dp.Gaussian(5.0)
        spread = dp.user_level(once, spread=(1,) * k)
        together = dp.user_level(once, max_contributions=k)
        rho = dp.account(once, notion="zcdp").rho
        assert dp.account(spread, notion="zcdp").rho == pytest.approx(k * rho, rel=1e-14)
        assert dp.account(together, notion="zcdp").rho == pytest.approx(k * k * rho, rel=1e-14)

    def test_squares_add_up(self):
        spread = dp.user_level(dp.Gaussian(5.0), spread=(3, 1, 2))
        rho = dp.account(spread, notion="zcdp").rho
        assert rho == pytest.approx(14 / 50, rel=1e-14)
        assert rho >= 14 / 50 * (1 - 1e-16)

    @pytest.mark.parametrize("spread", [(), 3, (0,), (1, 1.5), (1, -1), (math.nan,)])
    def test_invalid_arguments_are_refused(self, spread):
        with pytest.raises((ValueError, TypeError), match="Expected spread="):
            dp.user_level(dp.Gaussian(5.0), spread=spread)


class TestRefusals:
    """What has no theorem."""

    @pytest.mark.parametrize(
        "mechanism",
        [
            dp.PoissonSampled(dp.Laplace(1.0), sampling_probability=0.1),
            dp.parallel(dp.Laplace(1.0), dp.Laplace(2.0)),
            dp.parallel(dp.Gaussian(1.0), dp.PureDP(1.0)),
            dp.parallel(SAMPLED, dp.Gaussian(1.0)),
            dp.compose(dp.Gaussian(1.0), dp.parallel(SAMPLED, SAMPLED)),
        ],
    )
    def test_no_theorem(self, mechanism):
        with pytest.raises(dp.UnsupportedMechanism, match="No proven bound"):
            dp.user_level(mechanism, max_contributions=2)

    def test_replaced_records_under_sampling(self):
        user = dp.user_level(SAMPLED, max_contributions=2)
        with pytest.raises(dp.UnsupportedMechanism, match="REPLACE_ONE"):
            dp.account(user, relation="REPLACE_ONE")

    def test_a_cost_that_overflows_is_infinite(self):
        with pytest.raises(ValueError, match="Expected rho=inf"):
            dp.user_level(dp.ZeroConcentratedDP(1e-3), max_contributions=2**600)

    @pytest.mark.parametrize("size", [2, 3, 7, 10**6])
    @pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-4, 0.5, 3.0])
    @pytest.mark.parametrize("delta", [5e-324, 1.5e-323, 1e-310, 1e-20, 1e-9])
    def test_a_delta_is_rounded_up_among_the_smallest_floats_too(self, epsilon, delta, size):
        """As a float, and as the decimal that a budget reads."""
        gain = mp.mpf(size)
        if epsilon:
            gain = mp.expm1(size * mp.mpf(epsilon)) / mp.expm1(mp.mpf(epsilon))
        if gain * mp.mpf(delta) > 0.5:
            return
        found = dp.user_level(dp.ApproximateDP(epsilon, delta), max_contributions=size).delta
        for read in (mp.mpf, lambda value: mp.mpf(repr(value))):
            assert read(found) >= gain * read(delta)
        if delta > 1e-300:
            assert found <= gain * mp.mpf(delta) * (1 + 1e-12)

    def test_a_delta_of_one(self):
        with pytest.raises(dp.UnsupportedMechanism, match="has delta >= 1"):
            dp.user_level(dp.ApproximateDP(5.0, 1e-6), max_contributions=10)

    @pytest.mark.parametrize("given", [{}, {"max_contributions": 2, "spread": (1,)}])
    def test_exactly_one_bound(self, given):
        with pytest.raises(ValueError, match="Expected max_contributions, spread="):
            dp.user_level(dp.Gaussian(1.0), **given)


class TestRelations:
    """Zero-out costs k, replacing 2k, whatever the records do."""

    @pytest.mark.parametrize(
        ("relation", "factor"),
        [("ADD_OR_REMOVE_ONE", 1), ("REPLACE_SPECIAL", 1), ("REPLACE_ONE", 2)],
    )
    def test_a_gaussian(self, relation, factor):
        user = dp.user_level(dp.Gaussian(8.0), max_contributions=2)
        ours = dp.account(user, relation=relation).epsilon(DELTA)
        assert ours == pytest.approx(dp.account(dp.Gaussian(4 / factor)).epsilon(DELTA), rel=1e-12)

    def test_the_unit_is_printed(self):
        user = dp.user_level(dp.Gaussian(8.0), max_contributions=2)
        guarantee = dp.account(user, unit="one user").guarantee(delta=DELTA)
        assert guarantee.unit == guarantee.to_json()["unit"] == "one user"
        assert "for one user" in str(guarantee)
        one = dp.account(user, unit="one user")
        assert (2 * one).guarantee(delta=DELTA).unit == (one + one).unit == "one user"
        assert one.group(3).guarantee(delta=DELTA).unit == "3 times one user"
        with pytest.raises(ValueError, match="for one user"):
            one + dp.account(user)
        for notion in ("gaussian", "zcdp", "rdp", "contour", "approximate", "tightest"):
            group = dp.account(dp.Gaussian(4.0), notion=notion).group(3)
            assert group.guarantee(delta=DELTA).unit == "3 records"

    @pytest.mark.parametrize("unit", ["", "two\nlines", "\x1b[31m"])
    def test_a_unit_is_printable(self, unit):
        with pytest.raises(ValueError, match="Expected unit="):
            dp.account(dp.Gaussian(1.0), unit=unit)


def mixture_profile(size, q, sigma, epsilon):
    """Both directions of sum_j Bin(j; k, q) N(j, s^2) against N(0, s^2), by a fine grid."""
    x = np.arange(-14 * sigma, size + 14 * sigma, sigma / 8000)
    log_p = np.logaddexp.reduce(
        [
            math.log(math.comb(size, j)) + j * math.log(q) + (size - j) * math.log1p(-q)
            - 0.5 * ((x - j) / sigma) ** 2
            for j in range(size + 1)
        ]
    )  # fmt: skip
    log_q = -0.5 * (x / sigma) ** 2
    ways = (np.exp(log_p) - np.exp(epsilon + log_q), np.exp(log_q) - np.exp(epsilon + log_p))
    return max(mass[mass > 0].sum() / 8000 / math.sqrt(2 * math.pi) for mass in ways)


@mp.workdps(50)
def exact_profile(size, q, mu, epsilon):
    """Both directions of one release, to 50 digits."""
    q, mu, epsilon = mp.mpf(q), mp.mpf(mu), mp.mpf(epsilon)
    weight = [mp.binomial(size, j) * q**j * (1 - q) ** (size - j) for j in range(size + 1)]

    def mass(x, side):
        return sum(w * mp.ncdf(side * (j * mu - x)) for j, w in enumerate(weight))

    def place(loss):
        low, high = mp.mpf(-1000), mp.mpf(1000) / min(mu, 1)
        for _ in range(220):
            x = (low + high) / 2
            ratio = sum(w * mp.exp(j * mu * (x - j * mu / 2)) for j, w in enumerate(weight))
            low, high = (x, high) if mp.log(ratio) < loss else (low, x)
        return x

    x, y = place(epsilon), place(-epsilon)
    return (
        mass(x, 1) - mp.exp(epsilon) * mp.ncdf(-x),
        mp.ncdf(y) - mp.exp(epsilon) * mass(y, -1),
    )


class TestSampledGroups:
    """k records of one user, each sampled alone."""

    @pytest.mark.parametrize(
        ("size", "q", "mu", "epsilon"),
        [
            (5, 1.1e-9, 0.0876362428336973, 5.240196180781426e-09),
            (5, 1.1e-9, 9.429551510213646e-06, 0.0),
            (10, 1.1e-9, 7.180589143037897, 0.0),
            (30, 1.1e-9, 1e-3, 1e-9),
            (5, 2.186565335504016e-08, 0.05344743171811568, 1.060771246445841e-07),
            (10, 0.9973290213409451, 8.835893943672785, 56.45355460509337),
            (3, 0.3, 1.5, 1.07),  # just above the supremum of adding, 1.0700248
            (3, 0.3, 1.5, 1.06),
        ],
    )
    def test_rare_and_sure_samples_keep_their_digits(self, size, q, mu, epsilon):
        profile = GroupSampledProfile(mu, q, size)
        ours = profile._removing(epsilon), profile._adding(epsilon)
        for one, truth in zip(ours, exact_profile(size, q, mu, epsilon), strict=True):
            assert 0 <= one - mp.log(truth) < 1e-5

    def test_nothing_beyond_the_supremum(self):
        profile = GroupSampledProfile(1.5, 0.3, 3)
        assert profile._adding(-3 * math.log1p(-0.3) * (1 + 1e-14)) == -math.inf

    @pytest.mark.parametrize(("size", "q"), [(36, 1e-9), (120, 2e-3), (1000, 0.5)])
    def test_the_log_of_a_weight_that_is_no_normal_float(self, size, q):
        log_weights = _binomial(size, q)[2]
        with mp.workdps(60):
            for j in range(0, size + 1, max(size // 40, 1)):
                exact = mp.binomial(size, j) * mp.mpf(q) ** j * (1 - mp.mpf(q)) ** (size - j)
                assert log_weights[j] == pytest.approx(float(mp.log(exact)), rel=1e-14, abs=1e-14)

    def test_large_tables_are_made_in_blocks(self):
        model = GroupSampledGaussian(0.3, 50.0, 1000)
        z = np.linspace(-9.0, 40.0, 4000)
        alone = np.concatenate([model.log_ratio(one) for one in np.split(z, 80)])
        assert np.array_equal(model.log_ratio(z), alone)
        with pytest.raises(OverflowError, match="quadrature of the privacy loss needs"):
            model.log_ratio(np.zeros(10**5))

    @pytest.mark.parametrize(
        ("size", "q", "mu"), [(60, 0.02, 0.5), (100, 0.001, 0.1), (90, 0.3, 0.05), (2, 0.5, 0.1)]
    )
    def test_omitted_group_sizes_are_negligible(self, size, q, mu):
        whole = GroupSampledGaussian(q, 1 / mu, size)
        model = whole.likely()
        numerators, bits = _numerators(size, q)
        assert sum(numerators) == 2**bits
        beyond = Fraction(sum(numerators[model.most + 1 :]), 2**bits)
        assert beyond <= Fraction(model.lost("remove"))
        assert model.most == size or Fraction(sum(numerators[model.most :]), 2**bits) > 1e-60
        for way in ("remove", "add"):
            quick, slow = (loss_sums.LossSum(((one, 9),), 0.0, way) for one in (model, whole))
            assert quick.lost == pytest.approx(9 * model.lost(way), rel=1e-14)
            found, truth = (contour_integral.log_delta(one, 0.1) for one in (quick, slow))
            assert found.error < 1e-6
            assert found.value == pytest.approx(truth.value, abs=2 * truth.error + 1e-12)

    def test_bounds_are_above_the_exact_delta(self):
        """Both are: the integral by less than 1e-10, the closed form by less than 1e-9."""
        model = GroupSampledGaussian(0.001, 20.0, 1000).likely()
        assert model.most < 60
        profile = GroupSampledProfile(0.05, 0.001, 1000)
        exact = _exact_log_deltas(0.05, 0.001, 1000, 0.1)
        for way, bound in (("remove", profile._removing), ("add", profile._adding)):
            found = contour_integral.log_delta(loss_sums.LossSum(((model, 1),), 0.0, way), 0.1)
            assert exact[way] < found.value < exact[way] + 1e-10
            assert exact[way] < bound(0.1) < exact[way] + 1e-9

    def test_deltas_as_small_as_what_is_left_out(self):
        """The whole mixture is used if delta is as small as the omitted mass."""
        step = dp.PoissonSampled(dp.Gaussian(40.0), sampling_probability=0.05)
        user = dp.user_level(step, max_contributions=60)
        curve = dp.account(dp.repeat(user, 50), notion="contour")
        assert curve._sums[0][1][0].lost == pytest.approx(5e-59)
        epsilon, error, *_ = curve.answer(delta=1e-70)
        assert error < 1e-9
        delta, error, *_ = curve.answer(epsilon=epsilon)
        assert delta == pytest.approx(1e-70, rel=1e-9)
        assert error < 1e-9

    CASES = ((2, 0.1, 4.0), (3, 0.02, 1.0), (8, 0.3, 6.0), (25, 0.01, 2.0), (2, 0.5, 0.4))

    @pytest.mark.parametrize(("size", "q", "sigma"), CASES)
    def test_one_release_by_a_grid(self, size, q, sigma):
        step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
        curve = dp.account(dp.user_level(step, max_contributions=size))
        for epsilon in (0.0, 0.05, 0.3, 1.0):
            truth = mixture_profile(size, q, sigma, epsilon)
            assert curve.delta(epsilon) == pytest.approx(truth, rel=1e-6)

    @pytest.mark.parametrize(("size", "q", "sigma"), [(3, 0.02, 1.0), (2, 0.5, 0.4)])
    def test_many_releases_between_two_estimates(self, size, q, sigma):
        j = range(size + 1)
        weight = [math.comb(size, i) * q**i * (1 - q) ** (size - i) for i in j]
        step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
        user = dp.user_level(step, max_contributions=size)
        low, high = (
            losses.from_mixture_gaussian_mechanism(
                sigma, list(j), weight, pessimistic_estimate=way, use_connect_dots=way,
                value_discretization_interval=0.01,
            )
            for way in (False, True)
        )  # fmt: skip
        for steps in (2, 50):
            ours = dp.account(dp.repeat(user, steps)).epsilon(1e-5)
            least, most = (
                one.self_compose(steps).get_epsilon_for_delta(1e-5) for one in (low, high)
            )
            assert least * (1 - 1e-9) <= ours <= most * (1 + 1e-9)
            assert most < 1.25 * least

    @pytest.mark.parametrize("size", [2, 5])
    def test_divergences_by_a_grid(self, size):
        q, sigma = 0.05, 1.5
        user = dp.user_level(
            dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), max_contributions=size
        )
        x = np.arange(-30 * sigma, 60, sigma / 2000)
        weight = [math.comb(size, i) * q**i * (1 - q) ** (size - i) for i in range(size + 1)]
        ratio = np.log(sum(w * np.exp((2 * x * j - j * j) / 2 / sigma**2)
                           for j, w in enumerate(weight)))  # fmt: skip
        base = -0.5 * (x / sigma) ** 2 - 0.5 * math.log(2 * math.pi) - math.log(2000)
        for order in (1.5, 2.0, 4.0, 7.5):
            ways = (order, 1 - order)  # E_Q r^a and E_P r^(-(a-1)): removing, adding
            truth = max(
                math.log(np.exp(base + power * ratio).sum()) / (order - 1) for power in ways
            )
            ours = dp.account(user, notion="rdp").divergence(order)
            assert ours == pytest.approx(truth, rel=1e-7)

    @pytest.mark.parametrize("steps", [1, 100])
    def test_tighter_than_the_chain_of_neighbors(self, steps):
        user = dp.repeat(dp.user_level(SAMPLED, max_contributions=4), steps)
        chain = dp.account(dp.repeat(SAMPLED, steps)).group(4)
        assert dp.account(user).epsilon(DELTA) <= chain.epsilon(DELTA) * (1 + 1e-9)

    def test_without_sampling_it_is_the_group_of_a_gaussian(self):
        nearly = dp.PoissonSampled(dp.Gaussian(8.0), sampling_probability=1 - 1e-15)
        user = dp.user_level(nearly, max_contributions=3)
        whole = dp.account(dp.user_level(dp.Gaussian(8.0), max_contributions=3))
        assert dp.account(user).epsilon(DELTA) == pytest.approx(whole.epsilon(DELTA), rel=1e-6)

    def test_json(self):
        user = dp.repeat(dp.user_level(SAMPLED, max_contributions=3), 10)
        assert dp.mechanism_from_json(user.to_json()) == user

    @pytest.mark.parametrize(
        "change", [{"size": 1}, {"size": 2.5}, {"sampling_probability": 1.0}, {"size": 0}]
    )
    def test_json_is_checked(self, change):
        form = dp.user_level(SAMPLED, max_contributions=3).to_json() | change
        with pytest.raises(ValueError, match=f"Expected {next(iter(change))}="):
            dp.mechanism_from_json(form)

    def test_too_many_records(self):
        user = dp.user_level(SAMPLED, max_contributions=1001)
        with pytest.raises(dp.UnsupportedMechanism, match="1000"):
            dp.account(user)
