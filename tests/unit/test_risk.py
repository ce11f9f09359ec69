"""What an attacker can achieve: trade-offs, rates, advantage, Bayes risk, and targets for them."""

import json
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import privacy as dp
from privacy.tradeoffs import dominating_gaussian

REFERENCE = json.loads(
    (Path(__file__).parents[1] / "reference" / "risk_reference.json").read_text(encoding="utf-8")
)
RATES = np.array([0, 1e-12, 1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.999, 1])


def sampled(sigma, q, steps):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), steps)


RUN = dp.account(sampled(1.0, 0.01, 1000))


@pytest.mark.parametrize("notion", ["tightest", "contour"])
@pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 4.0])
def test_gaussian_rates_have_a_closed_form(mu, notion):
    curve = dp.account(dp.Gaussian(1 / mu), notion=notion)
    exact = ndtr(ndtri(RATES) + mu)
    found = curve.true_positive_rate(RATES)
    assert (found >= exact * (1 - 1e-13)).all()
    assert found == pytest.approx(exact, rel=1e-9, abs=1e-14)
    low, high = curve.tradeoff_interval(RATES)
    assert (low <= 1 - exact + 1e-15).all()
    assert (1 - exact <= high + 1e-15).all()
    assert (low <= high).all()


@pytest.mark.parametrize("rate", [1e-300, 1e-30, 1e-9, 0.02, 0.5, 0.97])
@pytest.mark.parametrize("mu", [1e-8, 0.3, 2.0, 20.0])
def test_gaussian_rates_are_bounds_at_40_digits(rate, mu):
    with mpmath.workdps(60):
        quantile = mpmath.mpf(float(ndtri(rate)))
        for _ in range(6):
            quantile -= (mpmath.ncdf(quantile) - rate) / mpmath.npdf(quantile)
        exact = mpmath.ncdf(quantile + 1 / mpmath.mpf(1 / mu))
        curve = dp.account(dp.Gaussian(1 / mu), notion="gaussian")
        found = curve.true_positive_rate(rate)
        assert exact <= found <= exact * (1 + mpmath.mpf(4e-12))
        assert curve.tradeoff(rate) <= 1 - exact <= curve.tradeoff_interval(rate)[1]


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 5.0])
def test_pure_rates_have_a_closed_form(epsilon):
    exact = np.minimum(math.exp(epsilon) * RATES, 1 - math.exp(-epsilon) * (1 - RATES))
    for mechanism in (dp.PureDP(epsilon), dp.RandomizedResponse(epsilon)):
        found = dp.account(mechanism).true_positive_rate(RATES)
        assert (found >= exact * (1 - 1e-15)).all()
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-14)


def test_the_rates_of_one_sampled_gaussian_are_those_of_its_mixture():
    # remove: H0 = N(0, 1), H1 = .9 N(0, 1) + .1 N(1, 1); a threshold is the best test
    cut = np.linspace(-1, 5, 13)
    absent, present = ndtr(-cut), 0.9 * ndtr(-cut) + 0.1 * ndtr(1 - cut)
    found = dp.account(sampled(1.0, 0.1, 1)).true_positive_rate(absent)
    assert (found >= present * (1 - 1e-14)).all()
    near = absent < 0.3  # beyond, the symmetric function is larger than this direction's
    assert found[near] == pytest.approx(present[near], rel=1e-9)


def test_both_directions_count():
    """Adding a record is the easier attack at some rates, removing one at others."""
    curve = dp.account(sampled(1.0, 0.1, 1))
    miss = curve.tradeoff(RATES)
    again = curve.tradeoff(miss)
    assert again == pytest.approx(RATES, abs=1e-8)


@pytest.mark.parametrize("case", REFERENCE["cases"], ids=lambda c: f"{c['sigma']}-{c['steps']}")
def test_the_tradeoff_function_is_at_most_that_of_riskcal(case):
    curve = dp.account(sampled(case["sigma"], case["q"], case["steps"]))
    found = curve.tradeoff(REFERENCE["rates"])
    assert (found <= np.array(case["high"])).all()
    # theirs may be above the exact function: they discretize each direction separately
    assert found == pytest.approx(np.array(case["low"]), abs=2e-3)


def test_riskcal_returns_a_tradeoff_function_that_is_too_large():
    """A bound by dp-accounting's pessimistic profile, and ours, are below riskcal's value."""
    case = next(
        c for c in REFERENCE["cases"] if (c["sigma"], c["q"], c["steps"]) == (0.6, 0.1, 100)
    )
    _, high = dp.account(sampled(0.6, 0.1, 100)).tradeoff_interval(1e-4)
    assert 0.8329544 < high < 0.8329584
    assert case["low"][0] > 0.8341


@pytest.mark.parametrize("mechanism", [dp.Gaussian(1.0), sampled(1.0, 0.1, 5)])
def test_no_simulated_attack_is_better(mechanism):
    generator = np.random.default_rng(3)
    draws, q, steps = 100_000, 0.1, 5
    if isinstance(mechanism, dp.Gaussian):
        q, steps = 1.0, 1
    absent = generator.standard_normal((draws, steps))
    present = generator.standard_normal((draws, steps)) + (generator.random((draws, steps)) < q)
    score = [np.log1p(q * np.expm1(x - 0.5)).sum(axis=1) for x in (absent, present)]
    curve = dp.account(mechanism)
    for cut in np.quantile(score[0], [0.5, 0.9, 0.99, 0.999]):
        rate, hit = ((s > cut).mean() for s in score)
        error = 4 * math.sqrt(0.25 / draws)
        assert hit <= curve.true_positive_rate(min(rate + error, 1.0)) + error
        assert hit >= curve.true_positive_rate(rate) - 3 * error  # the attack is the best one


def test_shapes_are_kept():
    grid = np.array([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]])
    for method in (RUN.tradeoff, RUN.true_positive_rate):
        found = method(grid)
        assert found.shape == (2, 3)
        assert isinstance(method(0.1), float)
        assert found[0, 0] == pytest.approx(method(0.1), rel=1e-7)
        assert method([]).shape == (0,)
    assert RUN.positive_predictive_value(0.5, grid).shape == (2, 3)


def test_rates_zero_and_one():
    for mechanism in (
        dp.Gaussian(1.0),
        dp.PureDP(1.0),
        dp.ApproximateDP(1, 0.25),
        sampled(1, 0.1, 3),
    ):
        curve = dp.account(mechanism)
        least, most = curve.true_positive_rate([0.0, 1.0])
        assert most == 1
        assert 0 <= least <= curve.delta(30.0) + 1e-14
    assert dp.account(dp.ApproximateDP(1, 0.25)).true_positive_rate(0) == pytest.approx(0.25)


def test_no_result_depends_on_earlier_queries():
    rates = np.linspace(0, 1, 20)
    curve = dp.account(sampled(1.0, 0.01, 1000))
    first = curve.tradeoff(rates)
    curve.tradeoff(0.3)
    curve.delta(2.0)
    assert (curve.tradeoff(rates) == first).all()


def test_an_upper_bound_needs_an_exact_profile():
    rates = np.array([0.01, 0.3])
    low, high = dp.account(sampled(1.0, 0.01, 1000), notion="rdp").tradeoff_interval(rates)
    assert (high == np.nextafter(1 - rates, 2)).all() or (high >= 1 - rates).all()
    assert (low <= RUN.tradeoff(rates)).all()
    low, high = RUN.tradeoff_interval(rates)
    assert (high - low < 1e-8).all()


def test_tiny_rates_and_huge_losses():
    for mechanism in (dp.PureDP(1000.0), dp.Gaussian(0.02), dp.Laplace(0.001)):
        found = dp.account(mechanism).true_positive_rate([5e-324, 1e-310, 1e-200])
        assert (found >= 0).all()
        assert (found <= 1).all()
    # e^1000 a > 1, although e^700 a < 1
    assert dp.account(dp.PureDP(1000.0)).true_positive_rate(1e-310) == 1


def test_advantage_and_bayes_risk():
    curve = dp.account(dp.Gaussian(2.0))
    assert curve.advantage() == curve.delta(0.0)
    assert curve.advantage() == pytest.approx(2 * ndtr(0.25) - 1, rel=1e-14)
    for prior in (0.5, 0.1, 0.9, 1e-3):
        best = min(
            (1 - prior) * a + prior * f
            for a, f in zip(RATES_FINE, curve.tradeoff(RATES_FINE), strict=True)
        )
        assert curve.bayes_risk(prior) == pytest.approx(best, rel=1e-4)
        assert curve.bayes_risk(prior) <= best
    assert curve.bayes_risk(0) == curve.bayes_risk(1) == 0


RATES_FINE = np.concatenate([np.geomspace(1e-9, 0.01, 300), np.linspace(0.01, 1, 1000)])


def test_positive_predictive_value():
    curve = dp.account(dp.Gaussian(1.0))
    hit = curve.true_positive_rate(0.01)
    assert curve.positive_predictive_value(0.1, 0.01) == pytest.approx(
        0.1 * hit / (0.1 * hit + 0.9 * 0.01), rel=1e-14
    )
    assert curve.positive_predictive_value(0.5, 0.0) == 1  # the loss is unbounded
    bounded = dp.account(dp.PureDP(1.0)).positive_predictive_value(0.5, [0.0, 1e-9, 1.0])
    assert bounded == pytest.approx([math.e / (1 + math.e)] * 2 + [0.5])
    assert curve.positive_predictive_value(0, [0.1]) == 0


@pytest.mark.parametrize("remainder", [1e-10, 1e-4])
@pytest.mark.parametrize(
    "mechanism", [sampled(1.0, 0.01, 1000), dp.PureDP(1.0), sampled(0.7, 0.1, 100)]
)
def test_the_gaussian_bound_is_below_the_trade_off(mechanism, remainder):
    curve = dp.account(mechanism)
    mu, regret, rest = curve.gaussian_bound(remainder)
    rates = np.concatenate([np.geomspace(1e-40, 0.01, 200), np.linspace(0.01, 1, 100)])
    gaussian = ndtr(-ndtri(rates) - mu)
    assert (gaussian - rest <= curve.tradeoff(rates) + 1e-9).all()
    assert 0 <= regret < 1
    # a smaller mu is not a bound
    smaller = ndtr(-ndtri(rates) - 0.98 * mu)
    assert (smaller - rest > curve.tradeoff_interval(rates)[0]).any()


def test_the_gaussian_bound_of_a_gaussian_is_itself():
    curve = dp.account(dp.Gaussian(0.5))
    assert curve.gaussian_bound() == (pytest.approx(2.0), 0, 0)
    found = dp.account(dp.Gaussian(0.5), notion="contour").gaussian_bound()
    assert 2 <= found.mu <= 2.001
    with pytest.raises(ValueError, match="Expected remainder="):
        dp.account(dp.ApproximateDP(1, 1e-5)).gaussian_bound(1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.7, 3.0, 40.0])
def test_one_rate_of_a_gaussian_agrees_with_the_exact_one(mu):
    curve = dp.account(dp.Gaussian(1 / mu))
    for rate in (0.0, 1e-30, 1e-12, 0.01, 0.5, 0.9, 1 - 1e-15, 1.0):
        found = curve.true_positive_rate(rate)
        assert isinstance(found, float)
        with mpmath.workdps(60):
            x = mpmath.mpf(min(rate, 1 - rate)) * 2
            place = mpmath.erfinv(1 - x) * mpmath.sqrt(2) * (1 if rate > 0.5 else -1) if x else 0
            exact = mpmath.ncdf(place + 1 / mpmath.mpf(1 / mu)) if x else rate
            assert exact <= found <= min(exact * (1 + 1e-10), 1)


def test_a_gaussian_bound_leaves_out_at_most_the_remainder():
    rest = 1e-6

    def barely_more(epsilons):  # delta(epsilon) tends to a little more than the remainder
        delta = np.maximum(np.exp(-epsilons) / 2, rest * (1 + 5e-10))
        return np.log(delta), np.zeros_like(epsilons)

    assert dominating_gaussian(barely_more, 14.0, rest) == (np.inf, np.inf)
    # this profile exceeds the remainder at the epsilon of the remainder, by its error
    noise = dp.account(dp.repeat(dp.Laplace(1.0), 30))
    found = noise.gaussian_bound(rest)
    assert found.mu < 4.8
    assert 1 - ndtr(-ndtri(1e-9) - found.mu) + rest >= noise.true_positive_rate(1e-9)


TARGETS = [
    {"advantage": 0.1},
    {"true_positive_rate": 0.05, "false_positive_rate": 0.01},
    {"bayes_risk": 0.4, "prior": 0.5},
    {"bayes_risk": 0.09, "prior": 0.9},
]


def reached(curve, target):
    """Return how far a curve is inside its target; negative outside."""
    if "advantage" in target:
        return target["advantage"] - curve.advantage()
    if "prior" in target:
        return curve.bayes_risk(target["prior"]) - target["bayes_risk"]
    return target["true_positive_rate"] - curve.true_positive_rate(target["false_positive_rate"])


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("q", "steps"), [(1.0, 1), (0.01, 200)])
def test_calibration_inverts(target, q, steps):
    sigma = dp.noise_multiplier(**target, sampling_probability=q, steps=steps)
    assert -1e-15 <= reached(dp.account(sampled(sigma, q, steps)), target) < 1e-7
    assert reached(dp.account(sampled(sigma * (1 - 1e-6), q, steps)), target) < 0


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_other_parameters_are_calibrated_too(target):
    scale = dp.calibrate(dp.Laplace, **target)
    assert -1e-15 <= reached(dp.account(dp.Laplace(scale)), target) < 1e-7
    most = dp.calibrate(
        lambda n: dp.repeat(dp.Gaussian(20), n), **target, integer=True, seek="largest"
    )
    assert reached(dp.account(dp.repeat(dp.Gaussian(20), most)), target) >= 0
    assert reached(dp.account(dp.repeat(dp.Gaussian(20), most + 1)), target) < 0


def test_the_scale_of_laplace_for_an_advantage():
    assert dp.calibrate(dp.Laplace, advantage=0.1) == pytest.approx(-0.5 / math.log(0.9), rel=1e-12)
    assert dp.noise_multiplier(advantage=0.1) == pytest.approx(0.5 / ndtri(0.55), rel=1e-12)


def test_unreachable_targets():
    with pytest.raises(dp.Infeasible, match=r"Expected advantage=0\.1 to be reachable"):
        dp.calibrate(dp.Laplace, advantage=0.1, domain=(1, 2))
    with pytest.raises(dp.Infeasible, match=r"Expected true_positive_rate=0\.1 at"):
        dp.calibrate(
            dp.Laplace, true_positive_rate=0.1, false_positive_rate=0.01, domain=(1e-3, 0.1)
        )
    with pytest.raises(dp.NotCertified, match="cannot be certified"):
        dp.noise_multiplier(true_positive_rate=0.1, false_positive_rate=0.01, certify=True)


def test_composed_laplace_takes_bounded_work():
    """Without a Gaussian its characteristic function decays slowly; the grid has 65,536 nodes."""
    curve = dp.account(dp.repeat(dp.Laplace(2.0), 30))
    rates = np.linspace(0.0, 1.0, 5)
    low, high = curve.tradeoff_interval(rates)
    assert (low <= high).all()
    assert (low[1:4] > 5e-4).all()


def test_a_guarantee_in_words():
    guarantee = dp.account(dp.PureDP(1.0)).guarantee(delta=0.0)
    assert guarantee.attack() == (
        "An attacker who knows all other records and has a false positive rate of 1 % has a true "
        "positive rate of at most 2.719 %."
    )
    assert "at most 81.61 %" in guarantee.attack(0.5)
    users = dp.account(dp.Gaussian(0.01), unit="one user").guarantee(delta=1e-5).attack()
    assert users == (
        "An attacker who knows all data except that of one user and has a false positive rate of "
        "1 % has a true positive rate of at most 100 %."
    )
    with pytest.raises(ValueError, match="Expected false_positive_rate=2"):
        guarantee.attack(2)


@pytest.mark.parametrize("delta", [1e-9, 0.24])
def test_a_claim_has_a_polygon(delta):
    found = dp.account(dp.ApproximateDP(1.0, delta)).tradeoff(RATES)
    below = np.maximum(1 - delta - math.e * RATES, math.exp(-1) * (1 - delta - RATES))
    exact = np.maximum(below, 0)
    assert (found <= exact + 1e-15).all()
    assert found == pytest.approx(exact, abs=1e-9)


def test_a_bayes_risk_next_to_the_prior_is_refused():
    with pytest.raises(ValueError, match="bayes_risk"):
        dp.calibrate(dp.Gaussian, bayes_risk=0.4999999999999999, prior=0.5)
