"""Composition of (epsilon, delta) claims: brute force, named theorems, and the bound on the gap."""

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import privacy as dp


def optimal(epsilons, epsilon):
    """Delta of independent randomized responses, over all 2^n sign patterns."""
    chance = [1 / (1 + math.exp(-e)) for e in epsilons]
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        loss = math.fsum(s * e for s, e in zip(signs, epsilons, strict=True))
        p = math.prod(c if s > 0 else 1 - c for s, c in zip(signs, chance, strict=True))
        total += p * max(0.0, -math.expm1(epsilon - loss))
    return total


def approximate(*claims):
    return dp.account(dp.compose(*claims), notion="approximate")


UNEQUAL = [0.1, 0.25, 0.3, 0.3, 0.7, 0.05, 0.11, 0.2, 0.9, 0.33]


class TestUnequalClaims:
    """The exact sum is #P-hard; the result is an upper bound on a lattice of epsilons."""

    @pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.0, 2.0, 3.0])
    def test_against_all_sign_patterns(self, epsilon):
        ours = approximate(*map(dp.PureDP, UNEQUAL)).delta(epsilon)
        truth = optimal(UNEQUAL, epsilon)
        assert truth <= ours <= truth * 1.003

    @pytest.mark.parametrize("delta", [1e-2, 1e-4, 1e-6])
    def test_the_excess_is_small(self, delta):
        epsilon = approximate(*map(dp.PureDP, UNEQUAL)).epsilon(delta)
        assert optimal(UNEQUAL, epsilon) <= delta
        assert optimal(UNEQUAL, epsilon - 5e-4) >= delta

    def test_masses_are_kept_apart(self):
        claims = [dp.ApproximateDP(e, 1e-7) for e in UNEQUAL]
        mass = -math.expm1(len(UNEQUAL) * math.log1p(-1e-7))
        ours = approximate(*claims).delta(2.0)
        truth = mass + (1 - mass) * optimal(UNEQUAL, 2.0)
        assert truth <= ours <= truth * 1.001
        assert approximate(*claims).epsilon(mass / 2) == math.inf

    def test_claims_of_epsilon_zero_compose_to_their_deltas(self):
        curve = approximate(dp.ApproximateDP(0.0, 1e-7), dp.ApproximateDP(0.0, 2e-7))
        assert 3e-7 * (1 - 1e-7) <= curve.delta(0.0) <= 3e-7 * (1 + 1e-12)

    def test_nearly_equal_is_nearly_the_equal_sum(self):
        equal = approximate(dp.repeat(dp.PureDP(0.1), 100)).epsilon(1e-6)
        mixed = approximate(dp.repeat(dp.PureDP(0.1), 50), dp.repeat(dp.PureDP(0.1 + 1e-12), 50))
        assert equal < mixed.epsilon(1e-6) <= equal + 6e-3

    @pytest.mark.parametrize("count", [9_000, 20_000])
    def test_many(self, count):
        claims = (dp.repeat(dp.PureDP(0.01), count), dp.PureDP(0.02))
        curve = approximate(*claims)
        alone = dp.account(claims[0], notion="approximate").epsilon(1e-6)
        basic = curve.epsilon(1e-6, composition="basic")
        assert alone < curve.epsilon(1e-6) < 0.2 * basic


class TestExtremes:
    """Losses so small, or so many, that rounding could hide some."""

    def test_squares_that_underflow(self):
        curve = approximate(dp.repeat(dp.PureDP(1e-170), 20_000), dp.PureDP(2e-170))
        right = 1e-170 * math.sqrt(2 * 200 * math.log(10) * 20_004)
        assert curve.epsilon(1e-200, composition="advanced") == pytest.approx(right, rel=1e-12)
        assert curve.epsilon(1e-200) == pytest.approx(right, rel=1e-12)
        two = approximate(dp.repeat(dp.PureDP(1e-170), 2))
        assert two.epsilon(1e-200, composition="advanced") == 2e-170

    def test_losses_below_the_normal_floats(self):
        curve = approximate(dp.PureDP(1e-320), dp.PureDP(2e-320))
        assert (
            1e-320 <= curve.delta(0) <= 2e-320
        )  # 3 / 4 of the larger would be exact to first order
        assert curve.epsilon(0) == 3e-320

    def test_a_mass_and_a_far_epsilon(self):
        curve = approximate(dp.ApproximateDP(1.0, 1e-6), dp.ApproximateDP(2.0, 1e-7))
        assert curve.delta(1e200) == pytest.approx(1.1e-6, rel=1e-6)
        assert curve.epsilon(1e-9) == math.inf

    def test_the_sum_of_many_is_not_rounded_down(self):
        claims = [1e-4 * random.Random(k).random() for k in range(3000)]
        curve = approximate(*map(dp.PureDP, claims))
        below = math.nextafter(curve.epsilon(0), 0.0)
        assert math.fsum(claims) > below
        assert curve._log_finite(below) > -math.inf

    @pytest.mark.parametrize("delta", [1e-5, 1e-20])
    def test_a_coarse_lattice_is_never_looser_than_the_formula(self, delta):
        curve = approximate(dp.repeat(dp.PureDP(0.01), 8999), dp.PureDP(0.010001))
        formula = curve.epsilon(delta, composition="advanced")
        assert curve.epsilon(delta) <= formula * (1 + 1e-12)


class TestByName:
    """The optimal sum is never above the advanced one, nor that above the basic one."""

    @pytest.mark.parametrize("epsilons", [[0.1] * 40, UNEQUAL, [0.5], [3.0, 4.0]])
    @pytest.mark.parametrize("delta", [1e-3, 1e-6])
    def test_order(self, epsilons, delta):
        curve = approximate(*map(dp.PureDP, epsilons))
        best, advanced, basic = (
            curve.epsilon(delta, composition=name) for name in ("optimal", "advanced", "basic")
        )
        assert best <= advanced * (1 + 1e-12)
        assert advanced <= basic
        assert basic == pytest.approx(math.fsum(epsilons), rel=1e-14)
        assert basic >= math.fsum(epsilons)

    def test_the_advanced_formula(self):
        curve = approximate(dp.repeat(dp.ApproximateDP(0.05, 1e-9), 200))
        mass = -math.expm1(200 * math.log1p(-1e-9))
        rest = 1 - (1 - 1e-6) / (1 - mass)
        right = 200 * 0.05 * math.tanh(0.025) + math.sqrt(2 * math.log(1 / rest) * 200 * 0.05**2)
        ours = curve.epsilon(1e-6, composition="advanced")
        assert ours == pytest.approx(right, rel=1e-9)

    @pytest.mark.parametrize("name", ["basic", "advanced"])
    def test_a_mass_that_is_too_large(self, name):
        curve = approximate(dp.repeat(dp.ApproximateDP(0.05, 1e-6), 2))
        assert curve.epsilon(1e-6, composition=name) == math.inf

    def test_an_unknown_name(self):
        with pytest.raises(ValueError, match="Expected composition='best'"):
            approximate(dp.PureDP(0.1)).epsilon(1e-6, composition="best")


def test_thousands_of_different_mechanisms():
    """The fold's work grows with the number of parts, not with its square."""
    plan = dp.compose(*(dp.Gaussian(100 + i / 100) for i in range(5000)))
    squared = math.fsum((100 + i / 100) ** -2 for i in range(5000))
    for notion in ("rdp", "zcdp", "gaussian", "contour", "tightest"):
        curve = dp.account(plan, notion=notion)
        one = dp.account(dp.Gaussian(1 / math.sqrt(squared)), notion=notion)
        assert curve.epsilon(1e-6) == pytest.approx(one.epsilon(1e-6), rel=1e-11)


class TestMassesAsWritten:
    """The deltas of claims add up as the decimals that were written."""

    @pytest.mark.parametrize(
        ("claims", "delta", "epsilon"),
        [
            ([(1.0, 1e-6), (2.0, 0.0)], 1e-6, 3.0),
            ([(1.0, 1e-20), (0.5, 2e-20)], 3e-20, 1.5),
            ([(1.0, 1e-20)] * 3, 3e-20, 3.0),
            ([(0.5, 0.1), (0.5, 0.0)], 0.1, 1.0),
            ([(1.0, 1e-300), (1.0, 2e-300)], 3e-300, 2.0),
        ],
    )
    def test_delta_equal_to_the_mass_at_infinity(self, claims, delta, epsilon):
        parts = [dp.ApproximateDP(e, d) if d else dp.PureDP(e) for e, d in claims]
        for notion in ("tightest", "approximate"):
            curve = dp.account(dp.compose(*parts), notion=notion)
            assert curve.epsilon(delta) == epsilon
            assert curve.epsilon(math.nextafter(delta, 0.0)) == math.inf
            assert delta <= curve.delta(epsilon) <= delta * (1 + 1e-12)

    @given(st.lists(st.floats(1e-18, 0.4), min_size=1, max_size=5))
    def test_the_mass_is_never_below_the_truth(self, masses):
        parts = [dp.ApproximateDP(1.0, mass) for mass in masses]
        mass = dp.account(dp.compose(*parts, dp.PureDP(1.0)), notion="approximate")._mass
        product = math.prod((1 - Fraction(repr(one)) for one in masses), start=Fraction(1))
        assert 1 - product <= Fraction(repr(mass)) <= (1 - product) * (1 + Fraction(1, 10**14))
