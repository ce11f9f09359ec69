"""Private choice: bounded range, its releases, and their exact probabilities."""

import functools
import math
from collections import Counter
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaincc

import privacy as dp
from privacy.losses.divergences import BoundedRange
from privacy.losses.panels import SampledLogistic
from privacy.losses.quadrature import log_moment
from privacy.losses.ranges import RangePair
from tests.mutants import Patch, caught

REPLACE = dp.NeighboringRelation.REPLACE_ONE
NOTIONS = ("tightest", "approximate", "contour", "zcdp", "rdp")
SEEDED = {"simulation": True}
widths = st.floats(0.01, 20.0)


def worst(width, shares=4001, start=0.0):
    """Return (t, probability of the loss t under P) of pairs of the losses t, t - width."""
    t = np.linspace(start, width, shares)
    return t, np.expm1(t - width) / math.expm1(-width)


# -- the dominating pair -------------------------------------------------------------------


@given(widths, st.floats(0, 1))
def test_the_profile_is_that_of_the_worst_two_losses(width, share):
    epsilon = share * width
    t, p = worst(width, start=epsilon)
    truth = np.maximum(p * -np.expm1(epsilon - t), 0).max()
    found = dp.account(dp.ExponentialMechanism(width)).delta(epsilon)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-5) + 1e-14


@given(widths, st.sampled_from([1.001, 1.5, 2.0, 7.0, 40.0, 1000.0]))
def test_the_divergence_is_that_of_the_worst_two_losses(width, order):
    t, p = (column[:-1] for column in worst(width))
    s = order - 1
    truth = (np.log(p + (1 - p) * math.exp(-s * width)) + s * t).max() / s
    (found,) = BoundedRange(width).at(np.array([order]))
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 2e-4)  # `worst` is a grid
    assert found <= min(width, order * width * width / 8) * (1 + 1e-12)


@given(st.floats(0.05, 10.0), st.sampled_from([0.01, 0.5, 1.0, 6.0]))
def test_the_moments_of_two_logistic_distributions(width, t):
    """E_Q (P/Q)^a = sinh((a - 1/2) width) / ((2 a - 1) sinh(width / 2))."""
    u = t + 0.5
    closed = math.log(math.sinh(u * width) / (2 * u * math.sinh(width / 2)))
    for direction in ("remove", "add"):
        value, _ = log_moment(SampledLogistic(1.0, 1 / width), np.array([t]), direction)
        assert value[0] == pytest.approx(closed, rel=1e-10)


@given(widths)
def test_rho_is_at_most_an_eighth_of_the_square(width):
    rho = RangePair(width).rho
    kl = BoundedRange(width).at(np.array([1 + 1e-9]))[0]
    assert kl * (1 - 1e-6) <= rho <= width * width / 8 * (1 + 1e-12)


@pytest.mark.parametrize("width", [0.3, 2.0])
def test_adaptive_composition_of_different_ranges(width):
    """The best adversary that picks the worse losses after seeing the first one."""
    shares = 41
    plan = dp.compose(dp.ExponentialMechanism(width), dp.ExponentialMechanism(width / 2))
    for epsilon in (0.0, 0.7 * width):

        def last(left):
            t, p = worst(width / 2, shares)
            q_high, q_low = p * np.exp(-t), (1 - p) * np.exp(width / 2 - t)
            grown = np.exp(left)
            return max(np.maximum(p - grown * q_high, 0) + np.maximum(1 - p - grown * q_low, 0))

        first = zip(*worst(width, shares), strict=True)
        truth = max(p * last(epsilon - t) + (1 - p) * last(epsilon - t + width) for t, p in first)
        for notion in NOTIONS:
            assert dp.account(plan, notion=notion).delta(epsilon) >= truth * (1 - 1e-12)


@functools.cache
def profile_of_an_exponential_mechanism(epsilon):
    curve = dp.account(dp.ExponentialMechanism(epsilon))
    return {level: curve.delta(level) for level in (0.0, 0.3, 1.0)}


@given(st.lists(st.integers(0, 6), min_size=2, max_size=4), st.data())
def test_exponential_weights_have_the_range(scores, data):
    """Every neighbor of a small vector of scores, with and without monotonic changes."""
    epsilon = 1.3
    claimed = profile_of_an_exponential_mechanism(epsilon)
    for monotonic in (False, True):
        changes = st.integers(0 if monotonic else -1, 1)
        moved = [score + data.draw(changes) for score in scores]
        rate = epsilon / (1 if monotonic else 2)
        p, q = (np.exp(rate * np.array(side)) for side in (scores, moved))
        p, q = p / p.sum(), q / q.sum()
        losses = np.log(p / q)
        assert np.ptp(losses) <= epsilon * (1 + 1e-12)
        for level, delta in claimed.items():
            for a, b in ((p, q), (q, p)):
                assert np.maximum(a - math.exp(level) * b, 0).sum() <= delta + 1e-14


def flip_law(scores, rate):
    """Return the probabilities of permute-and-flip, over all orders."""
    found = [0.0] * len(scores)
    for order in permutations(range(len(scores))):
        left = 1.0
        for i in order:
            taken = math.exp(rate * (scores[i] - max(scores)))
            found[i] += left * taken
            left *= 1 - taken
    total = math.factorial(len(scores))
    return np.array(found) / total


@pytest.mark.parametrize("monotonic", [False, True])
def test_permute_and_flip_keeps_its_epsilon(monotonic):
    rate = 1.0 if monotonic else 0.5
    for scores in product(range(3), repeat=3):
        for change in product((0, 1) if monotonic else (-1, 0, 1), repeat=3):
            here, there = (
                flip_law(side, rate) for side in (scores, np.add(scores, change).tolist())
            )
            assert np.abs(np.log(here / there)).max() <= 1 + 1e-12


def noisy_max_law(scores, scale, reach=90):
    """Return the probability of each first largest score with discrete Laplace noise."""
    x = np.arange(-reach, reach + 1)
    mass = np.exp(-np.abs(x) / scale)
    mass /= mass.sum()
    grid = np.arange(-2 * reach, 2 * reach + 1)
    each = [np.interp(grid - score, x, mass, left=0, right=0) for score in scores]
    at_most = [np.cumsum(one) for one in each]
    return np.array(
        [
            sum(
                each[i]
                * np.prod(
                    [at_most[j] - (each[j] if j < i else 0) for j in range(len(scores)) if j != i],
                    0,
                )
            )
            for i in range(len(scores))
        ]
    )


@pytest.mark.parametrize("monotonic", [False, True])
def test_report_noisy_max_keeps_its_epsilon(monotonic):
    scale = 2.0 if monotonic else 4.0  # 2 steps are one sensitivity: epsilon = 1
    tight = 0.0
    for scores in product((0, 3, 6), repeat=3):
        for change in product((0, 1, 2) if monotonic else (-2, 0, 1, 2), repeat=3):
            here, there = (
                noisy_max_law(side, scale) for side in (scores, np.add(scores, change).tolist())
            )
            assert here.sum() == pytest.approx(1, abs=1e-9)
            tight = max(tight, np.abs(np.log(here / there)).max())
    assert 0.5 < tight <= 1 + 1e-9


# -- the release ---------------------------------------------------------------------------


def fits(draw, law, runs=1000, seed=5):
    """Check that draws of 0 .. n - 1 fit a law by a chi-square test at level 1e-6.

    The same law, turned by one place, must fail.
    """
    generator = np.random.default_rng(seed)
    seen = np.bincount([draw(generator) for _ in range(runs)], minlength=len(law))

    def p_value(law):
        statistic = ((seen - runs * law) ** 2 / (runs * law)).sum()
        return gammaincc((len(law) - 1) / 2, statistic / 2)

    return p_value(law) > 1e-6 > p_value(np.roll(law, 1))


SCORES = [0, 1, Fraction(5, 2), 2]


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("sensitivity", [1, Fraction(1, 2)])
def test_distributions_of_choices(monotonic, sensitivity):
    rate = 0.75 / (1 if monotonic else 2) / float(sensitivity)
    weights = np.exp(rate * np.array(SCORES, dtype=float))
    options = {"sensitivity": sensitivity, "monotonic": monotonic, **SEEDED}
    for mechanism, law in (
        (dp.ExponentialMechanism(0.75), weights / weights.sum()),
        (dp.PermuteAndFlip(0.75), flip_law([float(s) for s in SCORES], rate)),
    ):

        def draw(rng, mechanism=mechanism):
            return dp.choose(SCORES, mechanism, rng=rng, **options).index

        assert fits(draw, law)


@pytest.mark.parametrize("mechanism", [dp.Laplace(1.5), dp.Gaussian(1.5)])
def test_distributions_of_noisy_scores(mechanism):
    x = np.linspace(-40, 45, 200_001)
    step = x[1] - x[0]
    cdf, density = [], []
    for score in SCORES:
        y = (x - float(score)) / (1.5 * 2)
        if isinstance(mechanism, dp.Laplace):
            density.append(np.exp(-np.abs(y)) / 6)
        else:
            density.append(np.exp(-y * y / 2) / math.sqrt(2 * math.pi) / 3)
        cdf.append(np.cumsum(density[-1]) * step)
    law = np.array(
        [
            (density[i] * np.prod([cdf[j] for j in range(4) if j != i], axis=0)).sum() * step
            for i in range(4)
        ]
    )
    assert law.sum() == pytest.approx(1, abs=1e-3)

    def draw(rng):
        return dp.choose(SCORES, mechanism, sensitivity=2, rng=rng, **SEEDED).index

    assert fits(draw, law / law.sum())


def test_several_candidates_are_chosen_in_sequence():
    """The law of ordered pairs of the exponential mechanism without replacement."""
    weights = np.exp(0.5 * np.array([0.0, 1.0, 2.0]))
    pairs = list(permutations(range(3), 2))
    law = np.array(
        [weights[i] / weights.sum() * weights[j] / (weights.sum() - weights[i]) for i, j in pairs]
    )

    def draw(rng):
        found = dp.choose([0, 1, 2], dp.ExponentialMechanism(1.0), count=2, rng=rng, **SEEDED)
        return pairs.index(found.indices)

    assert fits(draw, law)
    for mechanism in (dp.PermuteAndFlip(1.0), dp.Laplace(3.0), dp.Gaussian(3.0)):
        found = dp.choose([0, 1, 2], mechanism, count=3)
        assert Counter(found.indices) == Counter(range(3))


def test_the_mechanism_of_a_choice():
    scores = [1.0, 2.0, 3.0]

    def cost(mechanism, **options):
        return dp.choose(scores, mechanism, **options).mechanism

    replaced = dp.ExponentialMechanism(0.5, relation=REPLACE)
    assert cost(replaced) == replaced
    assert cost(dp.PermuteAndFlip(0.5), count=2) == dp.repeat(dp.PermuteAndFlip(0.5), 2)
    assert cost(dp.Laplace(4.0)) == dp.PureDP(0.5)
    assert cost(dp.Laplace(4.0), monotonic=True, count=3) == dp.repeat(dp.PureDP(0.25), 3)
    assert cost(dp.Gaussian(4.0), count=3) == dp.Gaussian(4.0)
    assert Fraction(2, 3) <= cost(dp.Laplace(3.0)).epsilon <= math.nextafter(2 / 3, 1)


def test_the_noise_of_gaussian_scores_covers_their_rounding():
    from privacy.release.choice import _lattice

    for scale, count in ((0.01, 10**6), (1.0, 3), (1e6, 7)):
        lattice = _lattice(scale, count)
        one = 2**lattice.bits  # steps of one sensitivity
        assert lattice.law.scale / (one + Fraction(math.ceil(math.sqrt(count)))) >= Fraction(scale)


def check_rates(load):
    """The rate and the noise are those of the sensitivity and of `monotonic`."""
    module, rates, scales = load("choice"), [], []
    module.exponential = module.permute_and_flip = lambda left, rate, source: (
        rates.append(rate) or 0
    )
    module.draw = lambda law, size, source: scales.append(law.scale) or np.zeros(size, dtype=int)
    for monotonic, factor in ((False, 2), (True, 1)):
        for mechanism in (dp.ExponentialMechanism(0.5), dp.PermuteAndFlip(0.5)):
            rates.clear()
            module.choose([1, 2], mechanism, sensitivity=3, monotonic=monotonic)
            assert rates == [Fraction(1, 2) / (factor * 3)]
        found = module.choose([1, 2], dp.Laplace(4.0), sensitivity=3, monotonic=monotonic)
        assert found.mechanism == dp.PureDP(factor / 4)
        assert scales.pop() == 4 * 2**28
    found = module.choose([1, 2, 3], dp.Gaussian(4.0), sensitivity=3, count=2)
    assert scales.pop() >= 4 * (2**28 + math.sqrt(3))
    # one sensitivity is a whole number of steps, 2^28
    law = module.Law(Fraction(2**30), is_gaussian=False)
    noisy = [
        module._noisy([Fraction(x)], Fraction(3), module._Lattice(law, 28), None)
        for x in (0.7, 3.7)
    ]
    assert 0 <= noisy[1][0] - noisy[0][0] <= 2**28 + 1


MUTANTS = [
    ("wrong sensitivity", "(factor * size)", "factor"),
    ("half the noise", "factor = 1 if monotonic else 2", "factor = 1"),
    (
        "Laplace not paid for",
        "ratio_up(float(factor), mechanism.scale)",
        "ratio_up(1.0, mechanism.scale)",
    ),
    ("rounding not covered", "Fraction(scale) * (2**bits + root)", "Fraction(scale) * 2**bits"),
    ("scores not scaled", "/ sensitivity) for score", ") for score"),
]


@pytest.mark.parametrize(
    "patch", [pytest.param(Patch("choice", *where), id=name) for name, *where in MUTANTS]
)
def test_a_mutant_is_caught(patch):
    assert caught("privacy.release", patch, check_rates)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"scores": []}, ValueError, "Expected scores='<scores>'"),
        ({"scores": [1.0, math.nan]}, ValueError, "Expected scores='<scores>'"),
        ({"scores": 3.0}, ValueError, "Expected scores"),
        ({"mechanism": dp.PureDP(1.0)}, TypeError, "Expected mechanism"),
        ({"mechanism": dp.Laplace(1e13)}, ValueError, "Expected mechanism"),
        ({"sensitivity": 0}, ValueError, "Expected sensitivity"),
        ({"monotonic": 1}, TypeError, "Expected monotonic"),
        ({"monotonic": True, "mechanism": dp.Gaussian(1.0)}, ValueError, "Expected monotonic"),
        ({"count": 3}, ValueError, "Expected count=3"),
        ({"rng": 1}, ValueError, "Expected rng"),
    ],
)
def test_bad_arguments(options, error, match):
    given = {"scores": [1.0, 2.0], "mechanism": dp.ExponentialMechanism(1.0)} | options
    with pytest.raises(error, match=match) as caught:
        dp.choose(given.pop("scores"), given.pop("mechanism"), **given)
    assert "nan" not in str(caught.value)


def test_a_claim_holds_for_its_own_relation():
    told = "Its guarantee was proven for ADD_OR_REMOVE_ONE"
    with pytest.raises(dp.UnsupportedMechanism, match=told):
        dp.account(dp.ExponentialMechanism(1.0), relation=REPLACE)
    assert dp.user_level(dp.ExponentialMechanism(0.25), max_contributions=4).epsilon >= 1


def test_a_budget_of_pure_epsilon_spends_the_range():
    left = dp.Budget(epsilon=1, delta=0, notion="approximate").spend(dp.ExponentialMechanism(0.25))
    assert left.fits(dp.PermuteAndFlip(0.75))
    assert not left.fits(dp.PermuteAndFlip(0.7501))
