"""Calibration at its limits: unreachable targets, non-monotone families, ends of the domain."""

import math
import re

import mpmath as mp
import pytest

import privacy as dp
from privacy import answers
from privacy.accounting import NOTION_MODULES

TARGET = {"epsilon": 1.0, "delta": 1e-5}


def sampled(sigma, q):
    return dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)


def assert_private(mechanism, epsilon, delta, **how):
    """As a user would check it: by either question."""
    curve = dp.account(mechanism, **how)
    assert curve.epsilon(delta) <= epsilon
    assert curve.delta(epsilon) <= delta


class TestInfeasible:
    @pytest.mark.parametrize(
        ("call", "best"),
        [
            (lambda: dp.max_steps(**TARGET, noise_multiplier=0.5), dp.Gaussian(0.5)),
            (
                lambda: dp.max_steps(**TARGET, noise_multiplier=0.3, sampling_probability=0.5),
                sampled(0.3, 0.5),
            ),
            (
                lambda: dp.calibrate(dp.Gaussian, **TARGET, domain=(0, 2)),
                dp.Gaussian(2),
            ),
            (
                lambda: dp.calibrate(
                    lambda q: sampled(0.5, q), **TARGET, seek="largest", domain=(0.1, 1)
                ),
                sampled(0.5, 0.1),
            ),
            (
                lambda: dp.calibrate(
                    lambda n: dp.Gaussian(n / 100), **TARGET, integer=True, domain=(1, 200)
                ),
                dp.Gaussian(2),
            ),
            (
                lambda: dp.recalibrate(dp.Gaussian(2), dp.Gaussian, **TARGET, domain=(0, 100)),
                dp.compose(dp.Gaussian(2), dp.Gaussian(100)),
            ),
        ],
    )
    def test_carries_the_best_epsilon(self, call, best):
        with pytest.raises(dp.Infeasible, match="Expected epsilon=1 at delta=1e-05") as caught:
            call()
        expected = dp.account(best).epsilon(1e-5)
        assert caught.value.best_epsilon == pytest.approx(expected, rel=1e-9)
        assert caught.value.best_epsilon > 1
        assert isinstance(caught.value, ValueError)

    def test_the_printed_epsilon_can_be_reached(self):
        limits = {"delta": 1e-5, "domain": (0.5, 3.3)}
        with pytest.raises(dp.Infeasible) as caught:
            dp.calibrate(dp.Gaussian, epsilon=0.1, **limits)
        printed = re.search(r"smallest epsilon is (\S+),", str(caught.value))[1]
        assert float(printed) == pytest.approx(caught.value.best_epsilon, rel=1e-5)
        assert dp.calibrate(dp.Gaussian, epsilon=float(printed), **limits) <= 3.3

    def test_no_noise_makes_a_gaussian_pure(self):
        with pytest.raises(dp.Infeasible) as caught:
            dp.calibrate(dp.Gaussian, epsilon=1, delta=0)
        assert caught.value.best_epsilon == math.inf

    def test_a_plan_over_budget_so_far_cannot_be_recalibrated(self):
        with pytest.raises(dp.Infeasible) as caught:
            dp.recalibrate(dp.PureDP(2), dp.Laplace, epsilon=1, delta=0)
        assert caught.value.best_epsilon >= 2

    def test_unsupported_mechanisms_are_refused_and_not_infeasible(self):
        with pytest.raises(dp.UnsupportedMechanism):
            dp.calibrate(dp.ZeroConcentratedDP, **TARGET, notion="gaussian", seek="largest")


class TestNotMonotone:
    @pytest.mark.parametrize("noise", [1e-200, 1e200])
    def test_a_noise_too_extreme_for_an_estimate(self, noise):
        run = {**TARGET, "noise_multiplier": noise}
        if noise < 1:
            with pytest.raises(dp.Infeasible):
                dp.max_steps(**run, sampling_probability=0.01)
            assert 0 < dp.max_sampling_probability(**run, steps=1) <= TARGET["delta"]
        else:
            assert dp.max_steps(**run, sampling_probability=0.01) >= 2**52
            assert dp.max_sampling_probability(**run, steps=10) == 1

    def test_a_family_that_is_not_monotone(self):
        with pytest.raises(ValueError, match="to be monotone") as caught:
            dp.calibrate(lambda x: dp.Gaussian(10 + 9 * math.sin(8 * x)), **TARGET, domain=(1, 100))
        assert not isinstance(caught.value, dp.Infeasible)

    @pytest.mark.parametrize("seek", ["smallest", "largest"])
    def test_a_wrong_seek_is_refused(self, seek):
        make = {"smallest": lambda q: sampled(1, q), "largest": dp.Gaussian}[seek]
        with pytest.raises(ValueError, match=r"monotone|reachable"):
            dp.calibrate(make, **TARGET, seek=seek, domain=(0.01, 0.9))

    def test_the_other_seek_is_named(self):
        with pytest.raises(ValueError, match="privacy decreases with the parameter, pass seek='la"):
            dp.calibrate(dp.PureDP, epsilon=1, delta=0)
        with pytest.raises(ValueError, match="privacy increases with the parameter, pass seek='sm"):
            dp.calibrate(dp.Laplace, epsilon=1, delta=0, seek="largest")

    def test_a_mechanism_in_place_of_a_family(self):
        with pytest.raises(TypeError, match="to be a function from the parameter to a mechanism"):
            dp.calibrate(dp.Gaussian(2), **TARGET)


class TestDomain:
    def test_a_domain_end_that_meets_the_target_is_returned(self):
        assert dp.calibrate(dp.Gaussian, **TARGET, domain=(10, 20)) == 10
        most = dp.calibrate(lambda q: sampled(5, q), **TARGET, seek="largest", domain=(0, 0.5))
        assert most == 0.5
        assert dp.max_sampling_probability(**TARGET, noise_multiplier=4) == 1

    def test_the_result_lies_in_the_domain(self):
        inside = dp.calibrate(dp.Gaussian, **TARGET, domain=(3, 4))
        assert inside == pytest.approx(dp.calibrate(dp.Gaussian, **TARGET), rel=1e-12)
        assert 3 < inside < 4

    def test_every_value_is_private(self):
        assert 0 < dp.calibrate(dp.Gaussian, epsilon=1e300, delta=0.5) <= 1e-9

    @pytest.mark.parametrize("domain", [(0, 0.5), (0.2, 0.9)])
    def test_no_whole_number_inside(self, domain):
        with pytest.raises(ValueError, match="Expected domain="):
            dp.calibrate(
                lambda n: dp.repeat(dp.Gaussian(9), n),
                **TARGET,
                seek="largest",
                integer=True,
                domain=domain,
            )

    def test_tiny_probabilities_are_found(self):
        """A probability below 1e-9 is a probability."""
        q = dp.max_sampling_probability(epsilon=1, delta=1e-15, noise_multiplier=0.01)
        assert 5e-16 < q < 2e-15
        assert_private(sampled(0.01, q), 1, 1e-15)


class TestWholeNumbers:
    @pytest.mark.parametrize("q", [1, 0.1, 1e-3])
    @pytest.mark.parametrize("sigma", [4.0, 20.0])
    def test_steps(self, q, sigma):
        most = dp.max_steps(**TARGET, noise_multiplier=sigma, sampling_probability=q)
        assert isinstance(most, int)
        assert_private(dp.repeat(sampled(sigma, q), most), 1, 1e-5)
        assert dp.account(dp.repeat(sampled(sigma, q), most + 1)).delta(1) > 1e-5

    def test_ends(self):
        def run(n):
            return dp.repeat(dp.Gaussian(40), n)

        free = dp.calibrate(run, **TARGET, seek="largest", integer=True)
        capped = dp.calibrate(run, **TARGET, seek="largest", integer=True, domain=(1, 50))
        assert capped == 50 < free

    def test_smallest(self):
        found = dp.calibrate(lambda n: dp.Gaussian(n / 10), **TARGET, integer=True)
        assert found == 38
        assert isinstance(found, int)

    def test_first_value_is_enough(self):
        assert dp.calibrate(lambda n: dp.Gaussian(9 * n), **TARGET, integer=True) == 1

    def test_basic_composition_has_a_closed_form(self):
        most = dp.calibrate(
            lambda n: dp.repeat(dp.PureDP(0.125), n),
            epsilon=1,
            delta=0,
            seek="largest",
            integer=True,
        )
        assert most == 8


class TestAgainstClosedForms:
    @pytest.mark.parametrize("epsilon", [1e-9, 0.5, 1.0, 3.0, 700.0])
    def test_laplace(self, epsilon):
        assert dp.calibrate(dp.Laplace, epsilon=epsilon, delta=0) == pytest.approx(
            1 / epsilon, rel=1e-12
        )

    @pytest.mark.parametrize("epsilon", [1e-9, 0.5, 1.0, 3.0, 700.0])
    def test_claims(self, epsilon):
        largest = dp.calibrate(dp.PureDP, epsilon=epsilon, delta=0, seek="largest")
        assert largest <= epsilon
        assert largest == pytest.approx(epsilon, rel=1e-12)

    @pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0])
    def test_zcdp(self, epsilon):
        rho = dp.calibrate(dp.ZeroConcentratedDP, epsilon=epsilon, delta=1e-5, seek="largest")
        assert rho == pytest.approx(dp.rho_from_epsilon(epsilon, 1e-5), rel=1e-9)
        sigma = dp.noise_multiplier(epsilon=epsilon, delta=1e-5, notion="zcdp")
        assert sigma == pytest.approx(dp.noise_multiplier_from_rho(rho), rel=1e-9)

    @pytest.mark.parametrize("relation", dp.NeighboringRelation)
    def test_replacing_doubles_the_noise(self, relation):
        factor = 2 if relation is dp.NeighboringRelation.REPLACE_ONE else 1
        sigma = dp.noise_multiplier(**TARGET, relation=relation)
        assert sigma == pytest.approx(factor * dp.noise_multiplier(**TARGET), rel=1e-12)

    @pytest.mark.parametrize("steps", [1, 100, 10**12])
    def test_gaussians_scale_with_the_root_of_their_number(self, steps):
        sigma = dp.noise_multiplier(**TARGET, steps=steps)
        assert sigma == pytest.approx(math.sqrt(steps) * dp.noise_multiplier(**TARGET), rel=1e-12)


class TestRecalibration:
    def test_gaussians_share_mu_squared(self):
        whole = dp.noise_multiplier(**TARGET)
        done = dp.Gaussian(2 * whole)
        sigma = dp.recalibrate(done, dp.Gaussian, **TARGET)
        assert sigma == pytest.approx(whole / math.sqrt(1 - 1 / 4), rel=1e-9)
        assert_private(dp.compose(done, dp.Gaussian(sigma)), **TARGET)

    def test_recalibration_of_a_half_trained_model(self):
        target = {"epsilon": 2.0, "delta": 1e-6}
        done = dp.repeat(sampled(1.2, 0.01), 500)
        sigma = dp.recalibrate(done, lambda s: dp.repeat(sampled(s, 0.01), 2000), **target)
        assert_private(dp.compose(done, dp.repeat(sampled(sigma, 0.01), 2000)), **target)

    def test_recalibration_after_negligible_spending(self):
        done = dp.ZeroConcentratedDP(1e-12)
        sigma = dp.recalibrate(done, dp.Gaussian, **TARGET)
        exact = dp.noise_multiplier(**TARGET)
        assert exact <= sigma <= exact * 1.001


class TestExtremes:
    @pytest.mark.parametrize("notion", ["tightest", "gaussian", "approximate", "zcdp", "rdp"])
    @pytest.mark.parametrize("epsilon", [1e-9, 1.0, 800.0])
    @pytest.mark.parametrize("delta", [0.5, 1e-5, 1e-300])
    def test_one_gaussian(self, notion, epsilon, delta):
        how = {"notion": notion}
        sigma = dp.noise_multiplier(epsilon=epsilon, delta=delta, **how)
        assert_private(dp.Gaussian(sigma), epsilon, delta, **how)

    @pytest.mark.parametrize("epsilon", [1e-9, 1.0, 800.0])
    @pytest.mark.parametrize("delta", [0.5, 1e-5, 1e-300])
    @pytest.mark.parametrize(("steps", "q"), [(1, 1e-8), (10**12, 1e-8), (1000, 0.1), (10**12, 1)])
    def test_sampled_gaussians(self, epsilon, delta, steps, q):
        given = {"sampling_probability": q, "steps": steps}
        if steps * q <= delta:
            with pytest.raises(ValueError, match="any noise meets this target"):
                dp.noise_multiplier(epsilon=epsilon, delta=delta, **given)
            return
        sigma = dp.noise_multiplier(epsilon=epsilon, delta=delta, **given)
        assert_private(dp.repeat(sampled(sigma, q), steps), epsilon, delta)

    @pytest.mark.parametrize("relation", dp.NeighboringRelation)
    def test_a_thousand_steps_in_every_relation(self, relation):
        how = {"sampling_probability": 0.01, "steps": 1000, "relation": relation}
        sigma = dp.noise_multiplier(**TARGET, **how)
        assert_private(dp.repeat(sampled(sigma, 0.01), 1000), **TARGET, relation=relation)

    def test_a_target_below_the_smallest_epsilons(self):
        """Total variation decides there: sigma = 1 / (2 z), z the normal quantile."""
        sigma = dp.noise_multiplier(epsilon=1e-300, delta=1e-5)
        with mp.workdps(40):
            limit = 1 / (2 * mp.sqrt(2) * mp.erfinv(mp.mpf(1e-5)))
        assert limit <= sigma <= float(limit) * (1 + 1e-9)

    def test_certificates_are_kept(self):
        pytest.importorskip("flint")
        plain = dp.noise_multiplier(**TARGET)
        proven = dp.noise_multiplier(**TARGET, certify=True)
        assert plain <= proven <= plain * (1 + 1e-9)
        assert dp.account(dp.Gaussian(proven)).guarantee(delta=1e-5, certify=True).certified


# the contour answers sampled and composed noise
@pytest.mark.parametrize("notion", sorted(set(NOTION_MODULES) - {"contour"}))
def test_each_notion_calibrates(notion):
    sigma = dp.noise_multiplier(**TARGET, notion=notion)
    assert sigma >= dp.noise_multiplier(**TARGET) * (1 - 1e-12)
    assert_private(dp.Gaussian(sigma), **TARGET, notion=notion)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
@pytest.mark.parametrize(
    ("noise", "q", "steps"), [(0.06, 0.3, 7), (1e-3, 0.01, 10), (1e-9, 0.5, 3)]
)
def test_without_noise_delta_is_the_probability_of_any_sample(noise, q, steps, relation):
    step = dp.PoissonSampled(dp.Gaussian(noise), sampling_probability=q)
    curve = dp.account(dp.repeat(step, steps), relation=relation)
    sampled = -math.expm1(steps * math.log1p(-q))
    assert curve.delta(1) == pytest.approx(sampled, rel=1e-9)
    assert curve.delta(0) >= sampled * (1 - 1e-15)
    assert curve.epsilon(sampled * (1 + 1e-9)) == 0


def test_targets_near_the_probability_of_any_sample():
    given = {"epsilon": 1, "sampling_probability": 0.01, "steps": 10}
    sampled = -math.expm1(10 * math.log1p(-0.01))
    noise = dp.noise_multiplier(**given, delta=sampled * (1 - 1e-6))
    assert 0.08 < noise < 0.1
    with pytest.raises(ValueError, match="any noise meets this target"):
        dp.noise_multiplier(**given, delta=sampled)


@pytest.mark.parametrize("target", [{"epsilon": 1, "delta": 0.1}, {"advantage": 0.1}])
def test_the_command_refuses_a_target_that_any_noise_meets(target):
    with pytest.raises(ValueError, match="any noise meets this target"):
        answers.sigma({**target, "sampling_probability": 0.01, "steps": 10})
