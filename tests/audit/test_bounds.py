"""Confidence bounds: coverage by enumeration, and lower bounds."""

import math

import numpy as np
import pytest
from scipy.special import bdtr, ndtr

import privacy as dp
from privacy.audit import SequentialAudit, epsilon_lower_bound, falsify, mu_lower_bound
from privacy.audit.bounds import accuracy_p_value, lower, misread, upper
from tests.audit.worst_cases import cases, losses

ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE


def mass(n, p):
    k = np.arange(n + 1)
    choose = np.array([math.comb(n, int(i)) for i in k], dtype=float)
    return choose * p**k * (1 - p) ** (n - k)


@pytest.mark.parametrize("n", [1, 7, 40])
@pytest.mark.parametrize("error", [0.25, 0.05, 1e-6])
def test_clopper_pearson_covers(n, error):
    """Each bound is on its side with probability at least 1 - error, by enumeration."""
    k = np.arange(n + 1)
    low, high = lower(k, n, error), upper(k, n, error)
    assert low[0] == 0
    assert high[-1] == 1
    for p in np.linspace(0, 1, 101):
        assert mass(n, p)[low > p].sum() <= error * (1 + 1e-9)
        assert mass(n, p)[high < p].sum() <= error * (1 + 1e-9)


def test_clopper_pearson_is_the_exact_tail():
    assert bdtr(30, 1000, float(upper(30, 1000, 0.01))) == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
def test_the_accuracy_test_holds_for_unequal_guesses(n):
    """Two data sets, n runs each: P(p-value <= x) <= x for every split of one average."""
    for most in (0.5, 0.6, 0.9, 0.99):
        p_values = np.array([accuracy_p_value(k, 2 * n, most) for k in range(2 * n + 1)])
        for gap in np.linspace(0, min(most, 1 - most), 9):
            right = np.convolve(mass(n, most - gap), mass(n, most + gap))
            for level in p_values[p_values < 1]:
                assert right[p_values <= level].sum() <= level * (1 + 1e-9)


def test_the_lower_bound_is_near_the_true_epsilon():
    sigma, n = 3.73064, 100_000
    scores = losses(dp.Gaussian(sigma), ONE, np.random.default_rng(2026), n)
    found = epsilon_lower_bound(*scores, 1e-5, claim=dp.Gaussian(sigma))
    assert 0.9 < found <= 1
    assert 0.2 < mu_lower_bound(*scores) <= 1 / sigma
    # without a Gaussian claim no shape is assumed
    assert 0 < epsilon_lower_bound(*scores, 1e-5) < found


@pytest.mark.parametrize("claim", [None, dp.Laplace(1.0), dp.PureDP(1.0)])
def test_a_bound_from_mu_is_for_gaussians_alone(claim):
    scores = losses(dp.Gaussian(1.0), ONE, np.random.default_rng(1), 1000)
    plain = epsilon_lower_bound(*scores, 1e-5)
    assert epsilon_lower_bound(*scores, 1e-5, claim=claim) == plain


def test_the_bound_of_a_bounded_loss_is_below_its_epsilon():
    for epsilon in (0.5, 2.0):
        scores = losses(dp.PureDP(epsilon), ONE, np.random.default_rng(3), 50_000)
        assert 0.9 * epsilon < epsilon_lower_bound(*scores, 0.0) <= epsilon


def test_false_alarms_are_rare():
    """At 5 %, of 300 bounds about 15 may be wrong; 30 would be 4 standard errors more."""
    sigma, wrong = 1.0, [0, 0]
    truth = dp.account(dp.Gaussian(sigma)).epsilon(1e-3)
    for seed in np.random.SeedSequence(2026).spawn(300):
        scores = losses(dp.Gaussian(sigma), ONE, np.random.default_rng(seed), 500)
        wrong[0] += mu_lower_bound(*scores) > 1 / sigma
        wrong[1] += epsilon_lower_bound(*scores, 1e-3) > truth
    assert wrong[0] <= 30
    assert wrong[1] <= 30


def test_scores_of_pure_noise_give_no_bound():
    rng = np.random.default_rng(5)
    scores = rng.normal(size=1000), rng.normal(size=1000)
    assert epsilon_lower_bound(*scores, 1e-5) == 0
    assert mu_lower_bound([1.0], [-1.0]) == 0
    assert epsilon_lower_bound([1.0], [-1.0], 1e-5, claim=dp.Gaussian(1)) == 0


def test_perfect_guesses_give_a_finite_bound():
    found = mu_lower_bound([-math.inf] * 100, [math.inf] * 100)
    assert math.isclose(found, 2 * 2.1612, rel_tol=0.05) or 0 < found < 10
    assert ndtr(found / 2) < 1
    assert 0 < epsilon_lower_bound([-9.0] * 100, [9.0] * 100, 0.0) < 5


@pytest.mark.parametrize(
    ("first", "second"),
    [([], []), ([1.0], [1.0, 2.0]), ([math.nan], [1.0]), ([[1.0]], [[1.0]]), (1.0, 2.0)],
)
def test_bad_scores(first, second):
    with pytest.raises(ValueError, match="Expected scores"):
        mu_lower_bound(first, second)


@pytest.mark.parametrize("confidence", [0, 0.5, 1, math.nan, 2])
def test_bad_confidence(confidence):
    with pytest.raises(ValueError, match="Expected confidence"):
        mu_lower_bound([0.0], [0.0], confidence)


@pytest.mark.parametrize("delta", [-1, 1, math.nan])
def test_bad_delta(delta):
    with pytest.raises(ValueError, match="Expected delta"):
        epsilon_lower_bound([0.0], [0.0], delta)


def normal_ratios(mu, runs, seed=5):
    rng = np.random.default_rng(seed)
    return [mu * rng.normal(mean, 1, runs) - mu * mu / 2 for mean in (0, mu)]


# scores of membership attacks that are no log-likelihood ratios: their sign has no meaning
MISREAD = {
    "exchanged": lambda zero, one: (one, zero),
    "losses": lambda zero, one: (20 - zero, 20 - one),
    "confidences": lambda zero, one: (np.exp(zero), np.exp(one)),
    "offset": lambda zero, one: (zero + 1.0, one + 1.0),
    "negative": lambda zero, one: (zero - 20, one - 20),
}


@pytest.mark.parametrize("kind", MISREAD)
@pytest.mark.parametrize("mu", [0.27, 1.0, 4.0])
def test_scores_that_are_not_log_likelihood_ratios_are_refused(kind, mu):
    right = normal_ratios(mu, 10_000)
    assert mu_lower_bound(*right) > 0.8 * mu
    wrong = MISREAD[kind](*right)
    if kind == "offset" and mu == 4.0:  # an offset of 1 changes few signs of ratios near 8
        assert mu_lower_bound(*wrong) > 0.8 * mu
        return
    for bound in (
        lambda: mu_lower_bound(*wrong),
        lambda: epsilon_lower_bound(*wrong, 1e-5),
        lambda: epsilon_lower_bound(*wrong, 1e-5, claim=dp.Gaussian(1 / mu)),
    ):
        with pytest.raises(ValueError, match=r"^Expected scores_0, scores_1=.*log P1 / P0"):
            bound()
    found = falsify(dp.Gaussian(20.0), *wrong)
    assert "log P1 / P0" in found.warning
    assert found.to_json()["warning"] == found.warning
    assert not falsify(dp.Gaussian(20.0), *right).warning


def test_a_sequential_audit_detects_exchanged_scores():
    zero, one = normal_ratios(1.0, 500)
    watch = SequentialAudit(dp.Gaussian(5.0))
    watch.update(one, zero)
    assert "wrong data set" in watch.result().warning
    watch = SequentialAudit(dp.Gaussian(5.0))
    watch.update(zero, one)
    assert not watch.result().warning


@pytest.mark.parametrize("mechanism", [case[0] for case in cases()[::3]], ids=repr)
def test_log_likelihood_ratios_raise_no_warning(mechanism):
    """Exact ratios of every kind of mechanism, many draws: the false positive rate is 1e-6."""
    relation = dict(cases())[mechanism]
    for seed in range(20):
        ratios = losses(mechanism, relation, np.random.default_rng(seed), 2000)
        assert misread(*ratios) == ""


def test_few_or_constant_scores_are_not_refused():
    for zero, one in (([0.3], [0.2]), ([0.0] * 99, [0.0] * 99), ([5.0] * 50, [5.0] * 50)):
        assert mu_lower_bound(zero, one) == 0
    infinite = [-math.inf] * 50, [math.inf] * 50
    assert mu_lower_bound(*infinite) > 0
    with pytest.raises(ValueError, match="data set 0 first"):
        mu_lower_bound(*infinite[::-1])
