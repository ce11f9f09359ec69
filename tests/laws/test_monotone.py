"""More noise, a larger delta, fewer steps and rarer sampling never cost more privacy."""

import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privacy as dp
from privacy.accounting import NOTION_MODULES
from privacy.notions.splits import SplitCurve
from tests.laws.strategies import (
    claims,
    deltas,
    epsilons,
    gaussians,
    laplaces,
    noise_multipliers,
    parts,
    plans,
    relations,
    responses,
    sampled_gaussians,
    sampling_probabilities,
    steps,
    trees,
)

ROUNDING = 1 + 1e-12
larger = st.floats(1.0001, 100)


def run(sigma, q, count):
    return dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), count)


@settings(max_examples=25)
@given(noise_multipliers, sampling_probabilities, steps, deltas, larger)
def test_more_noise_costs_no_more(sigma, q, count, delta, factor):
    less, more = (dp.account(run(s, q, count)) for s in (sigma, sigma * factor))
    assert more.epsilon(delta) <= less.epsilon(delta) * ROUNDING


@settings(max_examples=25)
@given(noise_multipliers, sampling_probabilities, steps, deltas, larger)
def test_more_steps_cost_no_less(sigma, q, count, delta, factor):
    fewer, more = (dp.account(run(sigma, q, n)) for n in (count, math.ceil(count * factor)))
    assert fewer.epsilon(delta) <= more.epsilon(delta) * ROUNDING


@settings(max_examples=25)
@given(
    noise_multipliers,
    sampling_probabilities,
    steps,
    deltas,
    larger,
    st.sampled_from(["rdp", "tightest"]),
)
def test_rarer_sampling_costs_no_more(sigma, q, count, delta, factor, notion):
    often, rarely = (dp.account(run(sigma, p, count), notion=notion) for p in (q, q / factor))
    assert rarely.epsilon(delta) <= often.epsilon(delta) * ROUNDING


@settings(max_examples=25)
@given(noise_multipliers, sampling_probabilities, relations, deltas, larger)
def test_rarer_sampling_of_one_release_costs_no_more(sigma, q, relation, delta, factor):
    mechanisms = (run(sigma, p, 1) for p in (q, q / factor))
    often, rarely = (dp.account(m, relation=relation).epsilon(delta) for m in mechanisms)
    assert rarely <= often * ROUNDING


@settings(max_examples=30)
@given(plan=plans(), delta=deltas, factor=larger)
def test_a_larger_delta_has_no_larger_epsilon(plan, delta, factor):
    curve = dp.account(plan)
    assert curve.epsilon(min(delta * factor, 0.999)) <= curve.epsilon(delta) * ROUNDING


@settings(max_examples=30)
@given(plan=plans(), epsilon=epsilons, factor=larger)
def test_a_larger_epsilon_has_no_larger_delta(plan, epsilon, factor):
    curve = dp.account(plan)
    assert curve.delta(epsilon * factor) <= curve.delta(epsilon) * ROUNDING


@settings(max_examples=25)
@given(mechanism=st.one_of(gaussians, sampled_gaussians, laplaces), delta=deltas)
def test_replacing_costs_no_less_than_removing(mechanism, delta):
    try:
        replaced = dp.account(mechanism, relation="REPLACE_ONE").epsilon(delta)
    except dp.UnsupportedMechanism:
        return
    assert dp.account(mechanism).epsilon(delta) <= replaced * ROUNDING
    assert dp.account(mechanism, relation="REPLACE_SPECIAL").epsilon(delta) <= replaced * ROUNDING


# -- a curve -------------------------------------------------------------------------------


@settings(max_examples=30)
@given(plan=plans(), epsilon=epsilons, delta=deltas)
def test_delta_and_epsilon_invert_each_other(plan, epsilon, delta):
    curve = dp.account(plan)
    # two queries of the contour draw two lines, each of which may be loose by 1e-7
    slack = 1e-9 if all(member.closed_form for member in curve.members) else 2e-7
    found, error, _, notion, *_ = curve.answer(delta=delta)
    if notion == "split":  # two searches for the shares
        slack = SplitCurve.resolution
    if error < slack:  # elsewhere two bounds, each of them valid
        assert curve.delta(found) <= delta * (1 + slack)
        if found > 1e-6:
            assert curve.delta(found * (1 - 1e-3)) >= delta * (1 - slack)
    found, error, *_ = curve.answer(epsilon=epsilon)
    back = curve.answer(delta=found) if 1e-300 < found < 1 and error < slack else None
    if back and back.value > epsilon and back.error < slack:
        # errors are relative to delta: near delta = 1, epsilon is ill-conditioned
        assert curve.delta(back.value) >= found * (1 - slack)


@settings(max_examples=25)
@given(tree=trees, relation=relations, epsilon=epsilons, delta=deltas)
def test_answers_are_in_their_domain(tree, relation, epsilon, delta):
    """Any mechanism: an error, or numbers in their domain, infinity included."""
    for notion in ("tightest", *NOTION_MODULES):
        try:
            curve = dp.account(tree, notion=notion, relation=relation)
            found = curve.epsilon(delta), curve.delta(epsilon)
        except dp.UnsupportedMechanism:
            continue
        assert found[0] >= 0
        assert 0 <= found[1] <= 1
        assert str(curve.guarantee(delta=delta))


@settings(max_examples=30)
@given(
    plan=plans(st.one_of(parts, claims(), responses)),
    epsilon=epsilons,
    delta=deltas,
)
@example(dp.repeat(dp.Laplace(1), 2), 1.0, 2.26e-6)  # rdp is 3e-11 below, within the error of pld
def test_tightest_is_no_worse_than_any_notion(plan, epsilon, delta):
    tightest = dp.account(plan)
    least, least_delta = tightest.guarantee(delta=delta), tightest.delta(epsilon)
    answered = ["split"]
    used = {member.notion for member in tightest.members}
    for notion in NOTION_MODULES:
        if notion in ("contour", "pld") and notion not in used:
            continue  # the slower one of both is not asked
        try:
            curve = dp.account(plan, notion=notion)
        except dp.UnsupportedMechanism:
            continue
        answered.append(notion)
        assert least.epsilon <= curve.epsilon(delta) * (1 + 1e-9)
        assert least_delta <= curve.delta(epsilon) * (1 + 1e-9)
    assert least.notion in answered


@settings(max_examples=8)
@given(
    parts=st.lists(st.one_of(sampled_gaussians, claims(), responses), min_size=2, max_size=4),
    size=st.integers(1, 3),
    share=st.floats(0.01, 0.99),
    delta=deltas,
)
def test_tightest_is_no_worse_than_basic_composition_of_two_groups(parts, size, share, delta):
    size = min(size, len(parts) - 1)
    whole = dp.account(dp.compose(*parts)).epsilon(delta)
    first, second = (dp.account(dp.compose(*group)) for group in (parts[:size], parts[size:]))
    groups = first.epsilon(share * delta) + second.epsilon(delta - share * delta)
    assert whole <= groups * (1 + 1e-5)


@settings(max_examples=20)
@given(part=st.one_of(gaussians, laplaces), q=sampling_probabilities, count=steps, delta=deltas)
def test_sampling_never_costs_more_than_all_records(part, q, count, delta):
    rare = dp.repeat(dp.PoissonSampled(part, sampling_probability=q), count)
    dense = dp.account(dp.repeat(part, count))
    assert dp.account(rare).epsilon(delta) <= dense.epsilon(delta) * (1 + 1e-9)


@settings(max_examples=30)
@given(plan=plans(), delta=deltas)
def test_the_guarantee_states_the_answer_of_its_method(plan, delta):
    curve = dp.account(plan)
    found = curve.guarantee(delta=delta)
    assert (found.epsilon, found.delta) == (curve.epsilon(delta), delta)
    assert found.mechanism == plan
    if found.notion == "split":
        return  # not a method on its own
    again = dp.account(plan, notion=found.notion).epsilon(delta)
    assert again == pytest.approx(found.epsilon, rel=1e-6)
