"""Random plans of every kind: "pld" against the contour, and both against dp-accounting."""

import math
import random

import pytest

import privacy as dp
from tests.benchmarks.anything import compare, random_plan, stated_plans

SEEDS = sorted(set(range(53)) - {6, 32, 38})  # without the slowest plans


@pytest.mark.parametrize("seed", SEEDS)
def test_the_contour_is_in_the_bracket(seed):
    rng = random.Random(seed)
    found = compare(random_plan(rng), 10 ** rng.uniform(-8, -3), peers=False)
    assert found.outside <= 0
    assert 0 <= found.width < 0.2


# the fastest plans of the other library
@pytest.mark.parametrize("seed", [1])
def test_the_other_library_brackets_the_result(seed):
    rng = random.Random(seed)
    found = compare(random_plan(rng), 1e-5, peers=True)
    assert found.under <= 1e-9
    assert found.over <= 1e-4


STATED = {name: rest for name, *rest in stated_plans()}


@pytest.mark.parametrize("name", STATED)
def test_a_stated_plan(name):
    plan, delta, limit = STATED[name]
    assert dp.account(plan).epsilon(delta) <= limit
    assert dp.account(plan, notion="pld").epsilon(delta) <= limit


def test_both_methods_give_more_than_the_stated_epsilon_at_a_smaller_delta():
    plan = STATED["20 responses and 20 Gaussians"][0]
    by_contour, by_grid = (dp.account(plan, notion=n).epsilon(1e-6) for n in ("contour", "pld"))
    assert by_contour == pytest.approx(25.485267, abs=1e-5)
    assert by_grid == pytest.approx(by_contour, rel=1e-6)


def exact_delta(losses, epsilon):
    """Return delta of binary claims by enumeration of all outcomes."""
    sums = {0.0: 1.0}
    for loss in losses:
        up = 1 / (1 + math.exp(-loss))
        after = {}
        for total, mass in sums.items():
            for way, share in ((loss, up), (-loss, 1 - up)):
                after[total + way] = after.get(total + way, 0.0) + share * mass
        sums = after
    return math.fsum(m * -math.expm1(epsilon - x) for x, m in sums.items() if x > epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.31, 1.0, 2.2])
def test_unequal_claims_against_enumeration(epsilon):
    losses = [0.31, 0.127, 0.2718, 0.0531, 0.5, 0.41, 0.0917, 0.3333, 0.22, 0.1234]
    curve = dp.account(dp.compose(*map(dp.PureDP, losses)), notion="pld")
    exact = exact_delta(losses, epsilon)
    lower, upper = map(math.exp, curve.bracket(epsilon))
    assert lower * (1 - 1e-12) <= exact <= upper * (1 + 1e-12)
    assert upper <= exact * (1 + 1e-4)
    assert dp.account(dp.compose(*map(dp.PureDP, losses))).delta(epsilon) <= upper * (1 + 1e-9)
