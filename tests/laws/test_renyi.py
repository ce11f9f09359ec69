"""Properties of every Rényi divergence."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import (
    deltas,
    laplaces,
    log_uniform,
    orders,
    parts,
    plans,
    responses,
    sampled,
    sampled_gaussians,
    steps,
)

ROUNDING = 1e-11


def divergences(mechanism, several):
    curve = dp.account(mechanism, notion="rdp")
    return np.array([curve.divergence(order) for order in several])


@settings(max_examples=60)
@given(part=parts, several=st.lists(orders, min_size=2, max_size=6, unique=True))
def test_nondecreasing_in_the_order(part, several):
    values = divergences(part, sorted(several))
    assert np.all(np.diff(values) >= -ROUNDING * values[1:])


@settings(max_examples=60)
@given(part=parts, low=orders, high=orders, weight=st.floats(0.05, 0.95))
def test_moments_are_convex_in_the_order(part, low, high, weight):
    """(a - 1) D(a) is the logarithm of a moment."""
    middle = weight * low + (1 - weight) * high
    ends = np.array([low - 1, high - 1]) * divergences(part, [low, high])
    chord = weight * ends[0] + (1 - weight) * ends[1]
    value = (middle - 1) * divergences(part, [middle])[0]
    assert value <= chord * (1 + ROUNDING) + 1e-300


@settings(max_examples=60)
@given(part=sampled_gaussians, order=st.integers(2, 100))
def test_whole_orders_are_the_limit_of_fractional_ones(part, order):
    """A finite sum on one side, quadrature on the other."""
    step = 1e-7
    below, whole, above = divergences(part, [order - step, order, order + step])
    # the divergence is smooth: its change over 2e-7 is small, its second difference is smaller
    assert below * (1 - ROUNDING) <= whole <= above * (1 + ROUNDING)
    assert whole == pytest.approx((below + above) / 2, rel=1e-10)


@settings(max_examples=40)
@given(part=parts, count=st.integers(1, 5000), delta=deltas)
def test_a_grid_of_orders_never_beats_the_search(part, count, delta):
    plan = dp.repeat(part, count)
    grid = dp.account(plan, notion="rdp", orders=range(2, 65))
    search = dp.account(plan, notion="rdp")
    assert grid.epsilon(delta) >= search.epsilon(delta) * (1 - ROUNDING)
    epsilon = search.epsilon(delta)
    assert grid.delta(epsilon) >= search.delta(epsilon) * (1 - 1e-9)


@settings(max_examples=25)
@given(part=sampled_gaussians, count=steps, delta=deltas)
def test_no_order_beats_the_search_by_much(part, count, delta):
    """Every order is a valid bound; the search finds nearly the best one."""
    curve = dp.account(dp.repeat(part, count), notion="rdp")
    fine = 1 + np.exp(np.linspace(math.log(1e-3), math.log(500), 150))
    best = dp.account(dp.repeat(part, count), notion="rdp", orders=fine).epsilon(delta)
    # beyond order 16 only integer orders are searched, which increases epsilon by up to 1 %
    assert curve.epsilon(delta) <= best * 1.01 + 1e-12


@settings(max_examples=25)
@given(plan=plans(), delta=deltas)
def test_the_classic_conversion_is_looser(plan, delta):
    curve = dp.account(plan, notion="rdp")
    assert curve.epsilon(delta) <= curve.epsilon(delta, conversion="classic")


@settings(max_examples=40)
@given(part=parts, order=st.one_of(orders, log_uniform(1e-12, 1e-3).map(lambda t: 1 + t)))
def test_orders_near_one_stay_positive(part, order):
    assert 0 < divergences(part, [order])[0] < math.inf


@settings(max_examples=40)
@given(part=parts, delta=deltas, near_one=log_uniform(1e-12, 1e-6))
def test_adding_an_order_near_one_raises_no_epsilon(part, delta, near_one):
    plain = dp.account(part, notion="rdp", orders=range(2, 65)).epsilon(delta)
    more = dp.account(part, notion="rdp", orders=[1 + near_one, *range(2, 65)]).epsilon(delta)
    assert more <= plain


def named(sigma, q):
    return dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)


kinds = [laplaces, responses, sampled_gaussians, sampled(laplaces)]


@settings(max_examples=60)
@given(
    several=st.sampled_from(kinds).flatmap(lambda kind: st.lists(kind, min_size=2, max_size=9)),
    alike=st.booleans(),
    at=st.lists(orders, min_size=1, max_size=6, unique=True),
)
def test_parts_computed_together_equal_parts_computed_alone(several, alike, at):
    """Parts of one class are computed together, on common nodes if they have a common key."""
    if alike:  # many on one grid
        several = [nearby(part, 1 + k / 1000) for part in several for k in range(5)]
    whole = divergences(dp.compose(*several), at)
    each = sum(divergences(part, at) for part in several)
    assert whole == pytest.approx(each, rel=1e-13)


def nearby(part, factor):
    """The same mechanism with a little more noise, or a little less privacy."""
    match part:
        case dp.Laplace():
            return dp.Laplace(part.scale * factor)
        case dp.Gaussian():
            return dp.Gaussian(part.noise_multiplier * factor)
        case dp.RandomizedResponse():
            return dp.RandomizedResponse(part.epsilon * factor, part.categories)
    q = part.sampling_probability / factor
    return dp.PoissonSampled(nearby(part.mechanism, factor), sampling_probability=q)


@settings(max_examples=60)
@given(scale=log_uniform(1e-2, 1e9), order=orders)
def test_laplace_divergences_are_the_closed_form(scale, order):
    """In 80 digits, where the closed form may cancel (Mironov 2017, Proposition 6)."""
    with mpmath.workdps(80):
        a, loss = mpmath.mpf(order), 1 / mpmath.mpf(scale)
        moment = a * mpmath.exp((a - 1) * loss) + (a - 1) * mpmath.exp(-a * loss)
        exact = mpmath.log(moment / (2 * a - 1)) / (a - 1)
        found = dp.account(dp.Laplace(scale), notion="rdp").divergence(order)
        assert exact <= found <= exact * (1 + mpmath.mpf("1e-12"))


@settings(max_examples=60)
@given(
    part=st.one_of(sampled_gaussians, sampled(laplaces)), order=orders, far=log_uniform(17, 2000)
)
@example(part=named(8.952441042345507, 0.17548602003172206), order=28.23, far=256.5)
@example(part=named(7.350400925824913, 0.2804908852795142), order=2.8335, far=128.7)
def test_a_divergence_does_not_depend_on_the_other_orders(part, order, far):
    """Nodes for large orders serve the small ones as well."""
    curve = dp.account(part, notion="rdp")
    together = curve.divergences([order + 1e-3, far + 1e-3])[..., 0]
    assert together == pytest.approx(curve.divergences([order + 1e-3])[..., 0], rel=1e-11)
