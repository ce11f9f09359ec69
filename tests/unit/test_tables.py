"""Pairs from tables of guarantees and from distribution functions, against exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtr

import privacy as dp

DELTAS = (1e-3, 1e-6, 1e-9)


def exact_delta(p, q, epsilon):
    """Return delta of two mass functions in the direction of p, from exact fractions."""
    x = Fraction(math.exp(epsilon))
    p, q = ([Fraction(a) for a in law] for law in (p, q))
    x *= sum(p) / sum(q)
    above = [(a, b) for a, b in zip(p, q, strict=True) if a > x * b]
    return (sum(a for a, _ in above) - x * sum(b for _, b in above)) / sum(p)


def random_pair(rng, size):
    p, q = rng.dirichlet(np.full(size, 0.5), 2)
    return p / p.sum(), q / q.sum()


# -- tables of guarantees ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_a_table_dominates_every_mechanism_that_has_its_guarantees(seed):
    rng = np.random.default_rng(seed)
    p, q = random_pair(rng, 6)
    places = np.sort(rng.exponential(2.0, int(rng.integers(1, 6))))
    truth = {e: max(exact_delta(p, q, e), exact_delta(q, p, e)) for e in places}
    # rounded up to a float
    table = [(e, math.nextafter(float(delta), 2.0)) for e, delta in truth.items()]
    found = dp.from_profile([row for row in table if row[1] <= 1])
    for e in (*places, *np.linspace(0, 8, 60)):
        least = max(exact_delta(p, q, e), exact_delta(q, p, e))
        for a, b in ((found.p, found.q), (found.q, found.p)):
            assert exact_delta(a, b, e) >= least * (1 - Fraction(1, 10**12))
    for e, delta in table:
        assert exact_delta(found.p, found.q, e) >= Fraction(delta) * (1 - Fraction(1, 10**15))
        assert exact_delta(found.p, found.q, e) <= Fraction(delta) + Fraction(1, 10**13)


@pytest.mark.parametrize("seed", range(20))
def test_a_table_gives_the_least_profile(seed):
    """The largest convex function below all points, by enumeration of the chords."""
    rng = np.random.default_rng(100 + seed)
    table = [
        (float(e), float(d))
        for e, d in zip(rng.exponential(1.5, 4), rng.random(4) ** 6, strict=True)
    ]
    found = dp.from_profile(table)
    points = [(Fraction(0), Fraction(1))]
    for e, delta in table:
        x, d = Fraction(math.exp(e)), Fraction(delta)
        points += [(x, d), (1 / x, 1 - (1 - d) / x)]
    least = min(d for _, d in points)
    for e in np.linspace(0, 6, 40):
        x = Fraction(math.exp(e))
        chords = [least] if x >= min(a for a, d in points if d == least) else []
        chords += [
            d + (x - a) * (f - d) / (b - a) for a, d in points for b, f in points if a < x <= b
        ]
        # a ray of slope 0 to any point on the left also bounds
        chords += [d for a, d in points if a <= x]
        assert float(exact_delta(found.p, found.q, e)) == pytest.approx(
            float(min(chords)), rel=1e-9, abs=1e-14
        )


@pytest.mark.parametrize(("epsilon", "delta"), [(0.7, 1e-5), (3.0, 0.0), (0.0, 0.2), (1e-9, 1e-9)])
@pytest.mark.parametrize("count", [1, 7])
def test_one_point_is_the_claim(epsilon, delta, count):
    table = dp.from_profile([(epsilon, delta)])
    claim = dp.ApproximateDP(epsilon, delta) if delta else dp.PureDP(epsilon)
    for asked in (0.0, 0.3, 2.0):
        ours, theirs = (
            dp.account(dp.repeat(one, count), notion="pld").delta(asked) for one in (table, claim)
        )
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-12)


def test_points_that_follow_from_others_change_nothing():
    table = [(0.5, 1e-3), (1.0, 1e-6), (2.0, 1e-9)]
    more = [*table, (1.5, 1e-6), (0.75, 1e-3), (3.0, 1e-9), (0.5, 0.5)]
    assert dp.from_profile(more) == dp.from_profile(reversed(table))


def test_a_table_of_a_gaussian_composes_to_a_little_more_than_the_gaussian():
    curve = dp.account(dp.Gaussian(2.0))
    table = dp.from_profile([(e, curve.delta(e)) for e in np.linspace(0, 4, 400)])
    exact = dp.account(dp.repeat(dp.Gaussian(2.0), 4)).epsilon(1e-5)
    found = dp.account(dp.repeat(table, 4)).epsilon(1e-5)
    assert exact <= found <= 1.005 * exact


@pytest.mark.parametrize(
    ("points", "error"),
    [
        ([], ValueError),
        (5, ValueError),
        ("ab", ValueError),
        ([(1.0, 0.1, 3)], ValueError),
        ([(-1.0, 0.1)], ValueError),
        ([(1.0, 1.1)], ValueError),
        ([(1.0, "x")], TypeError),
        ([(math.inf, 0.1)], ValueError),
        ([(1.0, math.nan)], ValueError),
    ],
)
def test_bad_tables_are_refused(points, error):
    with pytest.raises(error, match=r"Expected (points|epsilon|delta)"):
        dp.from_profile(points)


# -- distribution functions ----------------------------------------------------------------


def gaussian(mu, size, bound="upper", **tails):
    """Return the pair of a Gaussian, whose loss is N(+-mu^2 / 2, mu^2), on a grid."""
    half = mu * mu / 2
    return dp.from_cdfs(
        lambda x: ndtr((x - half) / mu),
        lambda x: ndtr((x + half) / mu),
        np.linspace(-9 * mu - half, 9 * mu + half, size),
        p_above=lambda x: ndtr((half - x) / mu),
        q_above=lambda x: ndtr((-half - x) / mu),
        bound=bound,
        **tails,
    )


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("count", [1, 4])
def test_the_exact_gaussian_is_between_both_bounds(mu, count):
    exact = dp.account(dp.repeat(dp.Gaussian(1 / mu), count))
    gaps = []
    for size in (150, 450):
        low, high = (
            dp.account(dp.repeat(gaussian(mu, size, bound), count), notion="pld")
            for bound in ("lower", "upper")
        )
        bounds = [each.epsilon(1e-6) for each in (low, high)]
        assert bounds[0] * (1 - 1e-9) <= exact.epsilon(1e-6) <= bounds[1]
        gaps.append(bounds[1] - bounds[0])
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[1] < 0.01 * exact.epsilon(1e-6)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.7, 1.9])
def test_atoms_and_losses_between_the_grid(epsilon):
    """Laplace noise has atoms at both ends of the grid, and a density between them."""

    def above_p(x):  # P(L > x) of scale 1 and distance 2
        return np.where(
            x >= 2, 0, np.where(x < -2, 1, 1 - 0.5 * np.exp((np.minimum(x, 2) - 2) / 2))
        )

    def above_q(x):
        return np.where(x >= 2, 0, np.where(x < -2, 1, 0.5 * np.exp(-(np.maximum(x, -2) + 2) / 2)))

    exact = dp.account(dp.Laplace(0.5)).delta(epsilon)
    laws = [
        dp.from_cdfs(
            lambda x: 1 - above_p(x),
            lambda x: 1 - above_q(x),
            np.linspace(-2, 2, 101),
            p_above=above_p,
            q_above=above_q,
            bound=bound,
        )
        for bound in ("lower", "upper")
    ]
    low, high = (exact_delta(law.p, law.q, epsilon) for law in laws)
    assert low <= Fraction(exact)
    assert Fraction(exact) * (1 - Fraction(1, 10**11)) <= high
    assert float(high - low) < 2e-3 * exact


def test_losses_beyond_the_grid_count_as_infinite_where_needed():
    short = dp.from_cdfs(
        lambda x: ndtr(x - 0.5), lambda x: ndtr(x + 0.5), np.linspace(-2.0, 2.0, 401)
    )
    exact = dp.account(dp.Gaussian(1.0))
    found = dp.account(short)
    assert found.delta(1.0) == pytest.approx(exact.delta(1.0), rel=1e-3)
    assert found.delta(1.0) >= exact.delta(1.0)
    assert found.delta(50.0) == pytest.approx(exact.delta(2.0), rel=1e-6)


@pytest.mark.parametrize(
    ("last", "epsilon", "tails"),
    [
        (20.0, 20.0, {}),
        (
            45.0,
            45.0,
            {"p_above": lambda x: ndtr(0.5 - x), "q_above": lambda x: ndtr(-0.5 - x)},
        ),
    ],
)
def test_a_tail_that_a_float_shows_as_zero_is_not_zero(last, epsilon, tails):
    losses = [-45.0, -3.0, -1.0, 0.0, 1.0, 3.0, last]
    law = dp.from_cdfs(lambda x: ndtr(x - 0.5), lambda x: ndtr(x + 0.5), losses, **tails)
    found = dp.account(law)
    assert found.delta(epsilon) > 0  # of Gaussian noise, P(L > 20) is about 1e-85
    assert found.epsilon(0.0) == math.inf
    assert found.epsilon(1e-12) <= 45


def test_distribution_functions_of_another_loss_are_refused():
    grid = np.linspace(-8, 8, 100)
    with pytest.raises(ValueError, match="Expected p and q to match"):
        dp.from_cdfs(lambda x: ndtr(x - 0.5), lambda x: ndtr(x + 0.6), grid)
    with pytest.raises(ValueError, match="Expected p and q to match"):
        dp.from_cdfs(lambda x: ndtr(x + 0.5), lambda x: ndtr(x - 0.5), grid)
    with pytest.raises(ValueError, match="to be increasing"):
        dp.from_cdfs(lambda x: ndtr(-x), lambda x: ndtr(x + 0.5), grid)
    with pytest.raises(ValueError, match="to be 1 - p"):
        dp.from_cdfs(lambda x: ndtr(x - 0.5), lambda x: ndtr(x + 0.5), grid, p_above=ndtr)
    with pytest.raises(ValueError, match="to be probabilities"):
        dp.from_cdfs(lambda x: x, lambda x: ndtr(x + 0.5), grid)
    with pytest.raises(ValueError, match="Expected losses"):
        dp.from_cdfs(ndtr, ndtr, [1.0, 0.0])
    with pytest.raises(ValueError, match="Expected bound"):
        dp.from_cdfs(ndtr, ndtr, grid, bound="middle")


@pytest.mark.parametrize("delta", [1 - 2**-53, 1 - 2**-51])
def test_a_profile_near_1_is_a_mechanism(delta):
    curve = dp.account(dp.from_profile([(1.0, delta)]))
    assert curve.delta(1.0) >= delta
