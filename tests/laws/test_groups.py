"""Groups: one record is itself, more records cost more, a bound of a group is no sum."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import (
    claims,
    deltas,
    epsilons,
    gaussians,
    laplaces,
    orders,
    plans,
    responses,
    sampled_gaussians,
)

mechanisms = st.one_of(gaussians, laplaces, responses, claims(), sampled_gaussians, plans(size=2))
sizes = st.integers(2, 12)


@settings(max_examples=15)
@given(mechanism=mechanisms, delta=deltas)
def test_a_group_of_one_is_a_record(mechanism, delta):
    curve = dp.account(mechanism)
    assert curve.group(1) is curve
    assert dp.user_level(mechanism, max_contributions=1) == mechanism
    assert dp.user_level(mechanism, spread=(1,)) == mechanism


@settings(max_examples=15)
@given(mechanism=mechanisms, size=sizes, epsilon=epsilons)
def test_more_records_cost_more(mechanism, size, epsilon):
    curve = dp.account(mechanism)
    fewer, more = (curve.group(k).delta(epsilon) for k in (size - 1, size))
    assert fewer <= more * (1 + 1e-6)


@settings(max_examples=15)
@given(mechanism=st.one_of(gaussians, laplaces, claims(), sampled_gaussians), size=sizes,
       epsilon=epsilons)  # fmt: skip
def test_a_user_costs_at_most_a_chain(mechanism, size, epsilon):
    user = dp.account(dp.user_level(mechanism, max_contributions=size)).delta(epsilon)
    assert user <= dp.account(mechanism).group(size).delta(epsilon) * (1 + 1e-6)


@settings(max_examples=15)
@given(gaussian=gaussians, spread=st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_a_spread_costs_the_sum_of_squares(gaussian, spread):
    rho = dp.account(gaussian, notion="zcdp").rho
    ours = dp.account(dp.user_level(gaussian, spread=spread), notion="zcdp").rho
    assert ours == pytest.approx(rho * sum(c * c for c in spread), rel=1e-13)
    assert ours <= dp.account(gaussian, notion="zcdp").group(sum(spread)).rho * (1 + 1e-13)


@settings(max_examples=15)
@given(gaussian=gaussians, size=sizes, order=orders)
def test_a_gaussian_s_divergences_grow_by_the_square(gaussian, size, order):
    curve = dp.account(gaussian, notion="rdp")
    ours, one = curve.group(size).divergence(order), curve.divergence(order)
    assert ours == pytest.approx(size * size * one, rel=1e-13)


@settings(max_examples=10)
@given(part=sampled_gaussians, size=sizes, order=st.floats(1.1, 20))
def test_the_chain_is_above_the_truth(part, size, order):
    """All of the group's records removed is one of the chains that the bound covers."""
    chain = dp.account(part, notion="rdp").group(size).divergence(order)
    truth = dp.account(dp.user_level(part, max_contributions=size), notion="rdp").divergence(order)
    assert chain >= truth * (1 - 1e-9)


@pytest.mark.parametrize("size", [2, 3, 7])
@pytest.mark.parametrize("above", [2**-52, 1e-12, 1e-9])
def test_orders_next_to_one(size, above):
    """The divergence only grows with the order, and near 1 the bound is close to that of 1.001."""
    curve = dp.account(dp.Laplace(2.0), notion="rdp").group(size)
    near, far = curve.divergence(1 + above), curve.divergence(1.001)
    truth = dp.account(dp.Laplace(2.0 / size), notion="rdp").divergence(1 + 1e-6)
    assert truth <= near <= far * 1.01


@pytest.mark.parametrize("size", [2**13 + 1, 10**6, 2**1000])
def test_a_group_too_large_for_the_chain_has_an_infinite_epsilon(size):
    assert dp.account(dp.Laplace(2.0), notion="rdp").group(size).epsilon(1e-5) == math.inf
