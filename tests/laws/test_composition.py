"""Composition: repeating is adding, order and grouping do not matter, more costs more."""

import math
from functools import reduce
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import (
    ADD_OR_REMOVE_ONE,
    claims,
    deltas,
    gaussians,
    laplaces,
    orders,
    parts,
    plans,
    relations,
    responses,
    rhos,
    sampled,
    sampled_gaussians,
    sampling_probabilities,
)

ROUNDING = 1e-11
notions = {
    "gaussian": gaussians,
    "zcdp": st.one_of(gaussians, laplaces, responses, claims()),
    "rdp": parts,
    "approximate": st.one_of(responses, claims().filter(lambda c: isinstance(c, dp.PureDP))),
    "tightest": parts,
}
each_notion = pytest.mark.parametrize("notion", notions)


def same(one, *others, delta):
    expected = pytest.approx(one.epsilon(delta), rel=ROUNDING, abs=1e-13)
    for other in others:
        assert other.epsilon(delta) == expected


@each_notion
@settings(max_examples=12)
@given(data=st.data(), count=st.integers(1, 12), delta=deltas)
def test_repeating_is_adding(notion, data, count, delta):
    part = data.draw(notions[notion])
    repeated = dp.account(dp.repeat(part, count), notion=notion)
    one = dp.account(part, notion=notion)
    composed = dp.account(dp.compose(*[part] * count), notion=notion)
    same(repeated, count * one, reduce(add, [one] * count), composed, delta=delta)


@each_notion
@settings(max_examples=12)
@given(data=st.data(), delta=deltas)
def test_order_and_grouping_do_not_matter(notion, data, delta):
    a, b, c = (data.draw(notions[notion]) for _ in range(3))
    ours = dp.account(dp.compose(a, b, c), notion=notion)
    orders = dp.compose(c, a, b), dp.compose(dp.compose(c, b), a)
    x, y, z = (dp.account(part, notion=notion) for part in (a, b, c))
    curves = (dp.account(plan, notion=notion) for plan in orders)
    same(ours, *curves, x + (y + z), (z + x) + y, delta=delta)


@settings(max_examples=12)
@given(part=parts, one=st.integers(1, 1000), other=st.integers(1, 1000))
def test_repetitions_merge(part, one, other):
    assert dp.repeat(dp.repeat(part, one), other) == dp.repeat(part, one * other)
    both = dp.compose(dp.repeat(part, one), dp.repeat(part, other))
    assert both == dp.repeat(part, one + other)


@settings(max_examples=25)
@given(plan=plans(), more=plans(), delta=deltas)
def test_more_releases_cost_more(plan, more, delta):
    both = dp.account(dp.compose(plan, more)).epsilon(delta)
    alone = dp.account(plan).epsilon(delta)
    assert both >= alone * (1 - ROUNDING)


@settings(max_examples=25)
@given(rho=rhos, other=rhos, delta=deltas, count=st.integers(1, 10**6))
def test_concentrated_claims_add_up(rho, other, delta, count):
    claim = dp.compose(dp.repeat(dp.ZeroConcentratedDP(rho), count), dp.ZeroConcentratedDP(other))
    ours = dp.account(claim).epsilon(delta)
    assert ours == pytest.approx(dp.epsilon_from_rho(count * rho + other, delta), rel=ROUNDING)


@settings(max_examples=25)
@given(part=st.one_of(gaussians, sampled_gaussians), order=orders, count=st.integers(1, 10**6))
def test_divergences_add_up(part, order, count):
    one = dp.account(part, notion="rdp").divergence(order)
    many = dp.account(dp.repeat(part, count), notion="rdp").divergence(order)
    assert many == pytest.approx(count * one, rel=1e-13)


NEARLY_ALL = math.nextafter(1.0, 0.0)


@settings(max_examples=25)
@given(mechanism=gaussians, relation=relations, delta=deltas, order=orders)
def test_a_sampling_probability_of_one_is_no_sampling(mechanism, relation, delta, order):
    assert dp.PoissonSampled(mechanism, sampling_probability=1) == mechanism
    nearly = dp.PoissonSampled(mechanism, sampling_probability=NEARLY_ALL)
    one, other = (dp.account(m, relation=relation) for m in (mechanism, nearly))
    assert other.epsilon(delta) == pytest.approx(one.epsilon(delta), rel=1e-9)
    one, other = (dp.account(m, notion="rdp", relation=relation) for m in (mechanism, nearly))
    order = min(order, 4.0)  # even 1 - q = 1e-16 counts in the far tail that a large order sees
    assert other.divergence(order) == pytest.approx(one.divergence(order), rel=1e-9)


@settings(max_examples=25)
@given(mechanism=laplaces, delta=deltas, order=orders)
def test_nearly_no_sampling_of_laplace_noise(mechanism, delta, order):
    nearly = dp.PoissonSampled(mechanism, sampling_probability=NEARLY_ALL)
    one, other = (dp.account(m) for m in (mechanism, nearly))
    assert other.epsilon(delta) == pytest.approx(one.epsilon(delta), rel=1e-9)
    one, other = (dp.account(m, notion="rdp") for m in (mechanism, nearly))
    assert other.divergence(order) == pytest.approx(one.divergence(order), rel=1e-9)


@settings(max_examples=12)
@given(mechanism=parts, p=sampling_probabilities, q=sampling_probabilities)
def test_nested_samplings_multiply(mechanism, p, q):
    once = dp.PoissonSampled(mechanism, sampling_probability=p)
    twice = dp.PoissonSampled(once, sampling_probability=q)
    inner = getattr(mechanism, "sampling_probability", 1.0)
    assert p * q * inner <= getattr(twice, "sampling_probability", 1.0)
    assert getattr(twice, "sampling_probability", 1.0) == pytest.approx(p * q * inner, rel=1e-15)


# -- parallel parts -------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    cells=st.lists(st.one_of(gaussians, sampled_gaussians), min_size=1, max_size=4), delta=deltas
)
def test_parallel_costs_the_worst_of_its_cells(cells, delta):
    together = dp.account(dp.parallel(*cells)).epsilon(delta)
    worst = max(dp.account(cell).epsilon(delta) for cell in cells)
    assert together >= worst * (1 - ROUNDING)
    assert together == pytest.approx(worst, rel=ROUNDING, abs=1e-13)


@settings(max_examples=25)
@given(cells=st.lists(plans(), min_size=2, max_size=3), delta=deltas)
def test_parallel_plans_cost_no_less_than_each(cells, delta):
    together = dp.account(dp.parallel(*cells), notion="rdp").epsilon(delta)
    for cell in cells:
        assert together >= dp.account(cell, notion="rdp").epsilon(delta) * (1 - ROUNDING)


@settings(max_examples=25)
@given(
    cells=st.lists(st.one_of(gaussians, laplaces, responses), min_size=2, max_size=4),
    relation=relations,
    delta=deltas,
)
def test_a_fixed_cell_never_costs_more_than_a_free_one(cells, relation, delta):
    free, fixed = (
        dp.account(dp.parallel(*cells, cells=how), relation=relation).epsilon(delta)
        for how in ("by_record", "by_public_index")
    )
    assert free >= fixed * (1 - ROUNDING)
    if relation is ADD_OR_REMOVE_ONE:
        assert free == fixed


@settings(max_examples=25)
@given(part=st.one_of(gaussians, laplaces, sampled(laplaces)), delta=deltas)
def test_equal_cells_cost_as_much_as_one(part, delta):
    same(dp.account(dp.parallel(part, part, part)), dp.account(part), delta=delta)


@pytest.mark.parametrize(
    ("q", "sigma", "size", "count", "delta"),
    [
        (1e-7, 4.12, 1, 29, 1e-9),
        (4.7e-7, 2.74, 1, 21, 4e-7),
        (2e-7, 0.86, 1, 8, 6e-9),
        (1.8e-5, 3.43, 1, 22, 2e-9),
        (5.217708625809851e-4, 4.881, 44, 2, 1.7227e-6),
    ],
)
def test_few_rare_releases_cost_no_more_than_basic_composition(q, sigma, size, count, delta):
    """Where the integrand falls off too slowly for the quadrature."""
    one = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    one = dp.user_level(one, max_contributions=size)
    each, all_ = dp.account(one), dp.account(dp.repeat(one, count), notion="contour")
    basic = count * each.epsilon(delta / count)
    found = all_.epsilon(delta)
    assert each.epsilon(delta) < found <= basic * (1 + ROUNDING)
    # direct sums are on a grid that depends on epsilon; two grids differ by up to 2.2e-6 here
    assert all_.delta(found) <= delta * (1 + 3e-6)
    assert all_.delta(basic) <= count * each.delta(basic / count) * (1 + ROUNDING)
