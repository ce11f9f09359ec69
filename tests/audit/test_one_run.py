"""Audits with one run and many canaries."""

import math

import numpy as np
import pytest

import privacy as dp
from privacy.audit import falsify_one_run, one_run_epsilon_lower_bound
from privacy.audit.one_run import p_value


def by_definition(m, r, v, epsilon, delta):
    """Return the bound of Steinke, Nasr and Jagielski 2023, summed term by term."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    law = [math.comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    most = max((sum(law[max(0, v - i) : v]) / i for i in range(1, m + 1)), default=0.0)
    return min(1.0, sum(law[v:]) + 2 * m * delta * most)


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("counts", [(10, 10, 8), (50, 20, 20), (100, 60, 45), (30, 30, 0)])
def test_by_definition(counts, epsilon, delta):
    assert p_value(*counts, epsilon, delta) == pytest.approx(
        by_definition(*counts, epsilon, delta), rel=1e-7
    )


def guessed(epsilon, delta, m, rng):
    """Return the right guesses about m reports of (epsilon, delta)-randomized response."""
    told = rng.random(m) < delta
    right = rng.random(m) < 1 / (1 + math.exp(-epsilon))
    return int(np.sum(told | right))


def test_false_alarms_are_rare():
    """Randomized response is the worst case: of 200 runs about 10 alarms at 5 %; 22 is 4 s.e."""
    alarms, wrong = 0, 0
    for seed in np.random.SeedSequence(2026).spawn(200):
        right = guessed(1.0, 1e-4, 200, np.random.default_rng(seed))
        counts = {"canaries": 200, "guesses": 200, "correct": right}
        alarms += falsify_one_run(dp.ApproximateDP(1.0, 1e-4), **counts).falsified
        # the bound exceeds 1 where epsilon = 1 itself is falsified
        wrong += p_value(200, 200, right, 1.0, 1e-4) <= 0.05
    assert alarms <= 22
    assert wrong <= 22


def test_a_false_claim_is_falsified():
    right = guessed(2.0, 0.0, 1000, np.random.default_rng(1))
    counts = {"canaries": 1000, "guesses": 1000, "correct": right}
    finding = falsify_one_run(dp.PureDP(1.0), **counts, significance=1e-6)
    assert finding.falsified
    assert f"{right} of 1000 guesses" in finding.evidence
    assert not falsify_one_run(dp.PureDP(2.0), **counts, significance=1e-6).falsified
    assert 1.5 < one_run_epsilon_lower_bound(**counts, delta=0.0) < 2.0


@pytest.mark.parametrize(
    ("claim", "epsilon"),
    [
        (dp.PureDP(1.3), 1.3),
        (dp.RandomizedResponse(1.3, 4), 1.3),
        (dp.Laplace(2.0), 0.5),
        (dp.account(dp.PureDP(0.65)).group(2), 1.3),
    ],
)
def test_a_pure_claim_is_tested_at_delta_0_alone(claim, epsilon):
    counts = (200, 170) if epsilon > 1 else (200, 139)
    found = falsify_one_run(claim, canaries=1000, guesses=counts[0], correct=counts[1])
    exact = by_definition(1000, *counts, epsilon, 0.0)
    assert exact <= found.p_value <= exact * (1 + 1e-6)
    assert found.p_value == pytest.approx(0.0141 if epsilon > 1 else found.p_value, abs=1e-4)


def test_composed_pure_claims_share_the_significance_over_deltas():
    counts = {"canaries": 1000, "guesses": 200, "correct": 170}
    claim = dp.repeat(dp.PureDP(0.13), 10)
    curve = dp.account(claim)
    deltas = [10.0**-k / 1000 for k in range(2, 10)]
    best = min(p_value(1000, 200, 170, curve.epsilon(delta), delta) for delta in deltas)
    assert falsify_one_run(claim, **counts).p_value == min(1.0, 8 * best)


def test_false_alarms_of_a_pure_claim_are_rare():
    """Of 400 runs about 20 alarms at 5 %; 38 is 4 s.e."""
    alarms = 0
    for seed in np.random.SeedSequence(7).spawn(400):
        right = guessed(1.0, 0.0, 300, np.random.default_rng(seed))
        counts = {"canaries": 300, "guesses": 300, "correct": right}
        alarms += falsify_one_run(dp.PureDP(1.0), **counts).falsified
    assert 2 <= alarms <= 38


def test_inverted_guesses_are_reported():
    wrong = {"canaries": 1000, "guesses": 200, "correct": 30}
    found = falsify_one_run(dp.PureDP(1.3), **wrong)
    assert not found.falsified
    assert "Fewer guesses are right than by chance" in found.warning
    assert found.warning in str(found)
    with pytest.raises(ValueError, match=r"Expected correct=30 .* not of wrong ones"):
        one_run_epsilon_lower_bound(**wrong, delta=0.0)
    for right in (80, 100, 170):  # chance, or better
        assert not falsify_one_run(dp.PureDP(1.3), **(wrong | {"correct": right})).warning


def test_a_larger_delta_gives_a_smaller_epsilon_bound():
    counts = {"canaries": 1000, "guesses": 100, "correct": 100}
    bounds = [one_run_epsilon_lower_bound(**counts, delta=d) for d in (0.0, 1e-6, 1e-4, 1e-2)]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[0] > bounds[-1]


@pytest.mark.parametrize(
    "counts", [(100, 60, 45), (1000, 1000, 700), (5000, 300, 290), (50, 20, 20)]
)
@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-4, 1e-2])
def test_a_larger_claimed_epsilon_is_falsified_no_earlier(counts, delta):
    """The p-value increases with epsilon while it is small."""
    found = np.array([p_value(*counts, e, delta) for e in np.linspace(0, 8, 161)])
    small = int(np.argmax(found > 0.25))
    assert (np.diff(found[: small + 1]) >= 0).all()
    assert (found[small:] > 0.25).all()


def test_one_canary_does_not_falsify():
    counts = {"canaries": 1, "guesses": 1, "correct": 1}
    assert one_run_epsilon_lower_bound(**counts, delta=0.0) == 0
    assert falsify_one_run(dp.Gaussian(1.0), **counts).p_value > 0.5


@pytest.mark.parametrize(
    ("counts", "name"),
    [
        ((10**13, 10**13, 10**13), "guesses"),
        ((10**8, 10**7 + 1, 3), "guesses"),
        ((10**400, 10, 3), "canaries"),
        ((2**53 + 2, 10, 3), "canaries"),
    ],
)
def test_too_many_canaries_or_guesses_are_refused(counts, name):
    names = dict(zip(("canaries", "guesses", "correct"), counts, strict=True))
    for call in (
        lambda: one_run_epsilon_lower_bound(**names, delta=1e-5),
        lambda: falsify_one_run(dp.Gaussian(1.0), **names),
    ):
        with pytest.raises(ValueError, match=f"^Expected {name}="):
            call()


def test_a_few_guesses_about_very_many_canaries():
    seen = {"canaries": 10**13, "guesses": 200, "correct": 170}
    assert 1 < one_run_epsilon_lower_bound(**seen, delta=0.0) < 2
    assert not falsify_one_run(dp.Gaussian(1.5), **seen).falsified


def test_rounding_of_large_logarithms_is_included():
    """Against mpmath: the sum of a million terms is not below the exact value."""
    mpmath = pytest.importorskip("mpmath")
    r, v, epsilon, delta = 10**6, 732_000, 1.0, 1e-9
    with mpmath.workdps(40):
        q = 1 / (1 + mpmath.exp(-epsilon))
        term = mpmath.binomial(r, v - 1) * q ** (v - 1) * (1 - q) ** (r - v + 1)
        total, most = mpmath.mpf(0), mpmath.mpf(0)
        for i in range(1, 20_000):
            total += term
            most = max(most, total / i)
            k = v - i
            term *= mpmath.mpf(k) / (r - k + 1) * (1 - q) / q
    extra = p_value(r, r, v, epsilon, delta) - p_value(r, r, v, epsilon, 0.0)
    assert float(2 * r * delta * most) <= extra <= float(2 * r * delta * most) * (1 + 1e-6)


@pytest.mark.parametrize(
    "counts", [(0, 0, 0), (10, 11, 3), (10, 5, 6), (10, 5, -1), (10, 5, 2.5), (10, math.nan, 1)]
)
def test_bad_counts(counts):
    names = dict(zip(("canaries", "guesses", "correct"), counts, strict=True))
    with pytest.raises(ValueError, match="Expected"):
        one_run_epsilon_lower_bound(**names, delta=1e-5)
