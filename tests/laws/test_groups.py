"""Groups: one record is itself, more records cost more, a bound of a group is no sum."""

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
