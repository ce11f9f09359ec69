"""Private selection of keys: optimal probabilities, thresholds, and contribution bounds."""

import math
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np
import pytest

import privacy as dp
from privacy.release._laws import exp_bounds
from privacy.release.partitions import _Threshold, keep_probabilities
from tests.mutants import Patch, caught

SEEDED = {"simulation": True}
CLAIMS = [(1.0, 1e-6), (0.1, 1e-3), (3.0, 1e-9), (0.01, 0.02), (0.0, 0.1)]


def published(epsilon, delta, n):
    """Return p_n by the closed form (Desfontaines, Voss, Gipson and Mandayam 2022)."""
    with mpmath.workdps(60):
        e, d = mpmath.exp(epsilon), mpmath.mpf(delta)
        turn = 1 + int(mpmath.floor(mpmath.log((e + 2 * d - 1) / ((e + 1) * d)) / epsilon))
        early = [(e ** min(n, turn) - 1) / (e - 1) * d]
        if n > turn:
            left = e ** -(n - turn)
            early.append((1 - left) * (1 + d / (e - 1)) + left * early[0])
        return min(early[-1], mpmath.mpf(1))


def check_optimal(load):
    """(epsilon, delta)-DP between n and n + 1 users, exactly, and no larger probability."""
    for epsilon, delta in CLAIMS:
        found = load("partitions").keep_probabilities(dp.ApproximateDP(epsilon, delta), 3000)
        one, d = 2**192, Fraction(delta)
        low, high = (Fraction(x, 2**400) for x in exp_bounds(Fraction(epsilon), 400))
        assert found[0] == 0
        for last, here in pairwise(found):
            p, q = Fraction(last, one), Fraction(here, one)
            assert p <= q <= 1
            assert q <= p / high + d
            assert 1 - p <= (1 - q) / high + d
            more = q + Fraction(3 * len(found), one)
            assert more > 1 or more > p / low + d or 1 - p > (1 - more) / low + d


def test_the_probabilities_are_optimal():
    check_optimal(lambda name: __import__(f"privacy.release.{name}", fromlist=[name]))


@pytest.mark.parametrize(("epsilon", "delta"), CLAIMS[:-1])
def test_the_probabilities_are_the_published_ones(epsilon, delta):
    found = keep_probabilities(dp.ApproximateDP(epsilon, delta), 400)
    for n, p in enumerate(found):
        assert float(Fraction(p, 2**192)) == pytest.approx(
            float(published(epsilon, delta, n)), rel=1e-12
        )


def test_keys_are_kept_with_their_probability():
    claim = dp.ApproximateDP(1.0, 0.01)
    chance = [p / 2**192 for p in keep_probabilities(claim, 9)]
    users = list(range(600 * 4))
    keys = [f"{count}-{i // count}" for count in (1, 2, 3, 4) for i in range(600)]
    generator, seen, size = np.random.default_rng(2), np.zeros(5), np.zeros(5)
    for _ in range(4):
        found = dp.select_keys(users, keys, claim, rng=generator, **SEEDED)
        for count in (1, 2, 3, 4):
            seen[count] += sum(key.startswith(f"{count}-") for key in found.keys)
            size[count] += 600 // count
    for count in (1, 2, 3, 4):
        p = chance[count]
        assert abs(seen[count] - size[count] * p) < 5 * math.sqrt(size[count] * p * (1 - p))


def check_threshold(load):
    """All `most` keys of one user alone: some key is selected with probability delta at most."""
    for mechanism in (dp.Gaussian(2.0), dp.Laplace(1.5), dp.Gaussian(0.01)):
        for most, delta in ((1, 1e-6), (7, 1e-6), (50, 1e-3), (2, 0.7)):
            lattice = load("partitions")._Threshold.of(mechanism, most, delta)
            with mpmath.workdps(60):
                beyond = mpmath.mpf(lattice.least) / 2**lattice.bits - 1
                beyond -= mpmath.mpf(1) / 2 ** (lattice.bits + 1)  # noise is rounded
                if isinstance(mechanism, dp.Gaussian):
                    each = mpmath.ncdf(-beyond / (mechanism.noise_multiplier * mpmath.sqrt(most)))
                else:
                    each = mpmath.exp(-beyond / (mechanism.scale * most)) / 2
                any_key = float(1 - (1 - each) ** most)
            assert any_key <= delta
            if delta < 0.5:
                assert any_key >= delta * (1 - 1e-3)
            # the noise is that of the mechanism, for `most` numbers that change by one
            root = math.sqrt(most) if isinstance(mechanism, dp.Gaussian) else most
            scale = float(lattice.law.scale) / 2**lattice.bits / root
            if isinstance(mechanism, dp.Gaussian):
                one = mechanism.noise_multiplier
            else:
                one = mechanism.scale
            assert scale == pytest.approx(one, rel=1e-12)


def check_contributions(load):
    """A user counts once per key and for at most `max_keys` keys, whatever others do."""
    counts = load("partitions")._counts
    names, numbers = counts([1, 1, 1, 2, 2, 3], ["b", "b", "a", "b", "c", "a"], 2, None)
    assert (names, numbers) == (["a", "b", "c"], [2, 2, 1])
    greedy = [(9, f"k{i}") for i in range(50)] * 2
    others = [(user, f"k{user % 5}") for user in (*range(9), *range(20, 31))]
    for seed in (None, 3):
        for rows in (others, [*others, *greedy], [*greedy, *others]):
            users, keys = zip(*rows, strict=True)
            names, numbers = counts(list(users), list(keys), 3, seed)
            assert sum(numbers) == 20 + 3 * (len(rows) > 20)
    only = dict(zip(*counts([9] * 50, [f"k{i}" for i in range(50)], 3, 3), strict=True))
    users, keys = zip(*others, *greedy, strict=True)
    both = dict(zip(*counts(list(users), list(keys), 3, 3), strict=True))
    alone = dict(zip(*counts([u for u, _ in others], [k for _, k in others], 3, 3), strict=True))
    assert {
        key: both[key] - alone.get(key, 0) for key in both if both[key] > alone.get(key, 0)
    } == only


MUTANTS = [
    ("rounded up", check_optimal, "(last << _BITS) // high", "(last << _BITS) // low"),
    ("delta twice", check_optimal, "// high + delta", "// high + 2 * delta"),
    ("one side only", check_optimal, "one - -(-left * high >> _BITS)", "one"),
    ("threshold from 0", check_threshold, "(1 + scale * Fraction(x))", "(scale * Fraction(x))"),
    ("delta for each key", check_threshold, "math.log1p(-delta) / most", "math.log1p(-delta)"),
    (
        "noise of one key",
        check_threshold,
        "Fraction(mechanism.scale) * most",
        "Fraction(mechanism.scale)",
    ),
    (
        "rows counted",
        check_contributions,
        "np.unique(pairs, return_index=True)[1]",
        "np.arange(pairs.size)",
    ),
    ("no bound", check_contributions, "        first = first[limit", "        first[limit"),
    (
        "a choice that depends on others",
        check_contributions,
        "ids[code] for code in codes[first]",
        "int(code) for code in codes[first]",
    ),
]


@pytest.mark.parametrize(
    ("check", "patch"),
    [pytest.param(check, Patch("partitions", *where), id=name) for name, check, *where in MUTANTS],
)
def test_a_mutant_is_caught(check, patch):
    assert caught("privacy.release", patch, check)


@pytest.mark.parametrize("noise", [dp.Gaussian(2.0), dp.Laplace(2.0)])
def test_counts_with_noise(noise):
    users = np.arange(3010)
    keys = np.array([1] * 2000 + [2] * 1000 + list(range(100, 110)))
    found = dp.select_keys(users, keys, noise, delta=1e-9)
    assert found.keys == (1, 2)
    assert np.abs(np.array(found.counts) - (2000, 1000)).max() < 60
    assert found.mechanism == dp.compose(noise, dp.ApproximateDP(0.0, 1e-9))
    curve = dp.account(found.mechanism)
    assert curve.delta(1.0) >= dp.account(noise).delta(1.0)
    assert curve.delta(50.0) == pytest.approx(1e-9)


def test_the_mechanism_of_a_selection():
    claim = dp.ApproximateDP(0.5, 1e-7)
    found = dp.select_keys(["ann", "bob"], [1, 2], claim, max_keys=3)
    assert found.mechanism == dp.repeat(claim, 3)
    assert (found.keys, found.counts, found.is_simulation) == ((), None, False)
    empty = dp.select_keys(np.array([], dtype=int), [], claim)
    assert empty.keys == ()
    assert _Threshold.of(dp.Gaussian(1.0), 4, 1e-6).law.scale == 2**29 * 2


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"keys": [1.5, 2]}, TypeError, "Expected keys='<keys>'"),
        ({"keys": [1, "a"]}, TypeError, "Expected keys='<keys>'"),
        ({"keys": [1]}, ValueError, "as long as users"),
        ({"mechanism": dp.PureDP(1.0)}, TypeError, "Expected mechanism"),
        (
            {"mechanism": dp.ApproximateDP(1.0, 1e-6, "REPLACE_ONE")},
            ValueError,
            "under ADD_OR_REMOVE",
        ),
        ({"delta": 1e-6}, ValueError, "Expected delta"),
        ({"mechanism": dp.Gaussian(1.0)}, ValueError, "Expected delta=None"),
        ({"mechanism": dp.Gaussian(1e13), "delta": 0.1}, ValueError, "less noisy"),
        ({"max_keys": 0}, ValueError, "Expected max_keys"),
        ({"rng": 1}, ValueError, "Expected rng"),
    ],
)
def test_bad_arguments(options, error, match):
    given = {
        "users": ["ann", "bob"],
        "keys": [1, 2],
        "mechanism": dp.ApproximateDP(1.0, 1e-6),
    } | options
    with pytest.raises(error, match=match):
        dp.select_keys(**given)
