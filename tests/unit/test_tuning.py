"""The best of a random number of runs: exact small cases, the number of runs, and its release."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaincc, gammaln, ndtr

import privacy as dp
from privacy.mechanisms.selection import gamma_of, mean_of
from privacy.release.tuning import _law, draw_runs
from tests.mutants import Patch, caught

DISTRIBUTIONS = ["geometric", "logarithmic", "poisson", 0.5, -0.5, 3.0]
NOTIONS = ("tightest", "approximate", "contour", "rdp")


def generating(runs, x):
    """Return E x^K."""
    if runs.shape is None:
        return np.exp(runs.mean_runs * (x - 1))
    gamma, shape = runs.gamma, runs.shape
    inner = 1 - (1 - gamma) * x
    if shape == 0:
        return np.log(inner) / math.log(gamma)
    return (inner**-shape - 1) / (gamma**-shape - 1)


def count_law(runs, most):
    """Return P(K = k) for k = 0 .. most."""
    k = np.arange(most + 1.0)
    if runs.shape is None:
        return np.exp(k * math.log(runs.mean_runs) - runs.mean_runs - gammaln(k + 1))
    gamma, shape = runs.gamma, runs.shape
    with np.errstate(divide="ignore"):
        if shape == 0:
            law = (1 - gamma) ** k / (k * math.log(1 / gamma))
        else:
            terms = np.cumprod(np.r_[1.0, (np.arange(most) + shape) / np.arange(1, most + 1)])
            law = (1 - gamma) ** k * terms / (gamma**-shape - 1)
    law[0] = 0
    return law


def hockey_stick(p, q, epsilon):
    return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((p, q), (q, p)))


def best_law(runs, law):
    """Return the law of the best output, the outputs being sorted from the worst to the best."""
    return np.diff(generating(runs, np.concatenate([[0.0], np.cumsum(law)])))


# -- the bounds against exact small cases --------------------------------------------------


@settings(max_examples=40)
@given(
    st.floats(0.05, 3.0),
    st.floats(1.05, 200.0),
    st.sampled_from(DISTRIBUTIONS),
    st.permutations(range(4)),
)
def test_the_best_of_randomized_responses(epsilon, mean, distribution, order):
    """Every order of four outputs; both the profile and the pure claim hold."""
    base = dp.RandomizedResponse(epsilon, 4)
    mechanism = dp.best_of(base, mean_runs=mean, distribution=distribution)
    p, q = (np.full(4, 1 / (math.exp(epsilon) + 3)) for _ in range(2))
    p[order.index(0)] *= math.exp(epsilon)
    q[order.index(3)] *= math.exp(epsilon)
    here, there = best_law(mechanism, p), best_law(mechanism, q)
    for notion in NOTIONS:
        try:
            curve = dp.account(mechanism, notion=notion)
        except dp.UnsupportedMechanism:
            assert (notion, distribution) == ("approximate", "poisson")
            continue
        for level in (0.0, 0.5 * epsilon, 1.5 * epsilon):
            assert hockey_stick(here, there, level) <= curve.delta(level) * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("mean", [1.2, 10.0, 100.0])
def test_the_best_of_gaussians(mean, distribution):
    """The largest (and the smallest) of outputs N(mu, 1)."""
    mechanism = dp.best_of(dp.Gaussian(2.0), mean_runs=mean, distribution=distribution)
    x = np.linspace(-9, 9, 6001)
    for sign in (1, -1):
        laws = [np.diff(generating(mechanism, ndtr(x - shift))) for shift in (0.0, 0.5 * sign)]
        for epsilon in (0.3, 1.0, 2.0):
            truth = hockey_stick(*laws, epsilon)
            for notion in ("contour", "rdp"):
                assert truth <= dp.account(mechanism, notion=notion).delta(epsilon)


def test_pure_runs():
    """(2 + shape) epsilon (Papernot and Steinke 2022, Corollary 3)."""
    for distribution, factor in (("geometric", 3), ("logarithmic", 2), (-0.5, 1.5)):
        mechanism = dp.best_of(dp.PureDP(0.2), mean_runs=500, distribution=distribution)
        assert dp.account(mechanism).epsilon(0) == pytest.approx(0.2 * factor, rel=1e-9)
        assert dp.account(dp.repeat(mechanism, 2)).epsilon(0) >= 0.4 * factor
    with pytest.raises(dp.UnsupportedMechanism):
        dp.account(dp.best_of(dp.PureDP(0.2), mean_runs=5, distribution="poisson"), notion="zcdp")


def test_compositions_are_answered_by_rdp():
    best = dp.best_of(dp.Gaussian(4.0), mean_runs=10)
    alone = dp.account(best)
    assert alone.guarantee(delta=1e-6).notion == "contour"
    assert dp.account(dp.Gaussian(4.0)).best_of(best).epsilon(1e-6) == alone.epsilon(1e-6)
    for plan in (dp.repeat(best, 2), dp.compose(best, dp.Gaussian(5.0), dp.Laplace(9.0))):
        found = dp.account(plan).guarantee(delta=1e-6)
        assert found.notion == "rdp"
        assert found.epsilon > alone.epsilon(1e-6)
        with pytest.raises(dp.UnsupportedMechanism, match="does not compose"):
            dp.account(plan, notion="contour")
    with pytest.raises(dp.UnsupportedMechanism, match="ONE sample"):
        dp.account(dp.PoissonSampled(best, sampling_probability=0.1))
    user = dp.user_level(best, max_contributions=2)
    assert user == dp.best_of(dp.Gaussian(2.0), mean_runs=10)


def test_a_divergence_does_not_decrease_with_its_order():
    curve = dp.account(dp.best_of(dp.Gaussian(4.0), mean_runs=10), notion="rdp")
    found = [curve.divergence(order) for order in (1.01, 1.5, 3, 8, 20, 60, 200)]
    assert found == sorted(found)


# -- the number of runs --------------------------------------------------------------------


@given(st.floats(1.001, 1e6), st.floats(-0.9, 50.0))
def test_gamma_gives_at_least_the_mean(mean, shape):
    gamma = gamma_of(mean, shape)
    assert mean_of(gamma, shape) >= mean
    assert mean_of(gamma, shape) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_mean_is_that_of_the_distribution(distribution):
    runs = dp.best_of(dp.PureDP(1.0), mean_runs=6.0, distribution=distribution)
    law = count_law(runs, 4000)
    assert law.sum() == pytest.approx(1)
    mean = law @ np.arange(law.size)
    assert mean == pytest.approx(6.0, rel=1e-6)
    assert math.log(mean) <= runs.log_mean * (1 + 1e-9)


def check_counts(load):
    """The drawn numbers of runs fit their law."""
    module, size = load("tuning"), 3000
    for distribution in DISTRIBUTIONS:
        runs = dp.best_of(dp.PureDP(1.0), mean_runs=3.0, distribution=distribution)
        generator = np.random.default_rng(4)
        drawn = [module.draw_runs(runs, generator.bytes) for _ in range(size)]
        expected = size * count_law(runs, 400)
        often = expected > 10
        seen = np.bincount(np.minimum(drawn, 400), minlength=401)
        rest = seen[~often].sum(), expected[~often].sum()
        statistic = ((seen - expected)[often] ** 2 / expected[often]).sum()
        statistic += (rest[0] - rest[1]) ** 2 / max(rest[1], 1.0)
        assert gammaincc(often.sum() / 2, statistic / 2) > 1e-6


def check_tune(load):
    """`run` is called as often as was drawn, and the best call is returned."""
    module = load("tuning")
    search, calls = dp.best_of(dp.PureDP(1.0), mean_runs=3.0), []

    def run():
        calls.append(len(calls))
        return [2.0, math.nan, 5.0, 5.0, 1.0][calls[-1] % 5], calls[-1]

    for count, best in ((1, 0), (2, 0), (3, 2), (5, 2)):
        calls.clear()
        module.draw_runs = lambda mechanism, source, count=count: count
        found = module.tune(run, search)
        assert (len(calls), found.output) == (count, best)
    module.draw_runs = lambda mechanism, source: 0
    assert (module.tune(run, search).output, module.tune(run, search).score) == (None, -math.inf)


MUTANTS = [
    ("one run more", check_counts, "            return count\n", "            return count + 1\n"),
    (
        "one run less",
        check_counts,
        "        probability *= (1 - gamma) * (count + shape)",
        "        probability *= (1 - gamma) * (count + 1 + shape)",
    ),
    (
        "one call more",
        check_tune,
        "for turn in range(draw_runs(",
        "for turn in range(1 + draw_runs(",
    ),
    ("the last is kept", check_tune, "value > score", "value >= score"),
    ("NaN is the best", check_tune, "-math.inf if math.isnan", "math.inf if math.isnan"),
]


@pytest.mark.parametrize(
    ("check", "patch"),
    [pytest.param(check, Patch("tuning", *where), id=name) for name, check, *where in MUTANTS],
)
def test_a_mutant_is_caught(check, patch):
    assert caught("privacy.release", patch, check)


def test_undecided_bits_are_refined():
    from flint import ctx

    runs = dp.best_of(dp.PureDP(1.0), mean_runs=2.0, distribution="logarithmic")
    with ctx.workprec(256):
        _, probability = next(_law(runs))
        first = int((probability * 2**64).floor().unique_fmpz())
    for word, count in ((0, 1), (2**64 - 1, 2)):
        words = iter([first, word])
        assert draw_runs(runs, lambda size, w=words: next(w).to_bytes(size, "little")) == count
        assert next(words, None) is None  # both words were needed


def test_a_seed_requires_simulation():
    search = dp.best_of(dp.PureDP(1.0), mean_runs=3.0)
    with pytest.raises(ValueError, match="Expected rng"):
        dp.tune(lambda: (0.0, None), search, rng=1)
    one, two = (dp.tune(lambda: (0.0, None), search, rng=1, simulation=True) for _ in range(2))
    assert one == two
    assert one.is_simulation


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"mean_runs": 1}, ValueError, "Expected mean_runs"),
        ({"mean_runs": 1e7}, ValueError, "Expected mean_runs"),
        ({"distribution": "binomial"}, ValueError, "Expected distribution"),
        ({"distribution": -1}, ValueError, "Expected distribution"),
        ({"distribution": math.inf}, ValueError, "Expected distribution"),
    ],
)
def test_bad_arguments(options, error, match):
    with pytest.raises(error, match=match):
        dp.best_of(dp.PureDP(1.0), **({"mean_runs": 5} | options))
    with pytest.raises(TypeError, match="Expected mechanism"):
        dp.best_of(1.0, mean_runs=5)
    with pytest.raises(TypeError, match="Expected mechanism"):
        dp.tune(lambda: (0.0, None), dp.PureDP(1.0))
    with pytest.raises(TypeError, match="Expected run"):
        dp.tune(0, dp.best_of(dp.PureDP(1.0), mean_runs=5))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_json(distribution):
    mechanism = dp.best_of(dp.Gaussian(2.0), mean_runs=4, distribution=distribution)
    assert dp.mechanism_from_json(mechanism.to_json()) == mechanism
