"""Tree aggregation and matrix mechanisms, against enumeration of all participations."""

import math

import numpy as np
import pytest

import privacy as dp
from tests.reference.enumeration import tree_change


@pytest.mark.parametrize("trees", [(1,), (2,), (5,), (8,), (11,), (4, 3), (3, 1, 6)])
@pytest.mark.parametrize("participations", [1, 2, 3, 4])
def test_the_sensitivity_by_enumeration(trees, participations):
    for per_tree in range(1, participations + 1):
        mechanism = dp.TreeAggregation(
            1.0, trees, participations=participations, participations_per_tree=per_tree
        )
        truth = tree_change(trees, participations, per_tree, 1)
        assert mechanism.sensitivity_squared == truth


@pytest.mark.parametrize("separation", [2, 3, 4, 7])
def test_separated_participations_are_bounded(separation):
    """The bound is exact where the separation is a power of two that divides the steps."""
    for steps in (5, 8, 11, 16):
        mechanism = dp.TreeAggregation(1.0, steps, participations=3, separation=separation)
        truth = tree_change((steps,), 3, 3, separation)
        assert truth <= mechanism.sensitivity_squared <= 1.5 * truth
        if separation in (2, 4) and steps in (8, 16):
            assert mechanism.sensitivity_squared == truth


def test_a_tree_is_a_gaussian():
    tree = dp.TreeAggregation(6.0, 1000)
    assert tree.sensitivity_squared == 10
    whole = dp.compose(tree, dp.Gaussian(3.0))
    expected = dp.Gaussian(1 / math.sqrt(10 / 36 + 1 / 9))
    found = dp.account(whole).epsilon(1e-6)
    assert found == pytest.approx(dp.account(expected).epsilon(1e-6), rel=1e-12)
    replaced = dp.account(tree, relation="REPLACE_ONE").epsilon(1e-6)
    assert replaced == pytest.approx(dp.account(dp.Gaussian(3 / math.sqrt(10))).epsilon(1e-6))
    group = dp.account(dp.user_level(tree, max_contributions=3)).epsilon(1e-6)
    assert group == pytest.approx(dp.account(dp.Gaussian(2 / math.sqrt(10))).epsilon(1e-6))


def test_long_runs_are_fast_and_monotone():
    many = dp.TreeAggregation(50.0, 2**30 - 1, participations=200, separation=10**6)
    assert many.sensitivity_squared <= 200**2 * 30
    fewer = dp.TreeAggregation(50.0, 2**30 - 1, participations=199, separation=10**6)
    assert fewer.sensitivity_squared < many.sensitivity_squared


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"noise_multiplier": 0.0, "steps": 4}, "noise_multiplier"),
        ({"noise_multiplier": 1.0, "steps": ()}, "steps"),
        ({"noise_multiplier": 1.0, "steps": (4, 0)}, "steps"),
        ({"noise_multiplier": 1.0, "steps": 4, "participations": 501}, "participations"),
        (
            {"noise_multiplier": 1.0, "steps": 4, "participations_per_tree": 2},
            "participations_per_tree",
        ),
        ({"noise_multiplier": 1.0, "steps": 4, "separation": 0}, "separation"),
        ({"noise_multiplier": 1.0, "steps": 4, "replace_distance": 3.0}, "replace_distance"),
    ],
)
def test_bad_trees_are_refused(arguments, named):
    with pytest.raises(ValueError, match=f"Expected {named}"):
        dp.TreeAggregation(**arguments)


@pytest.mark.parametrize(
    "participation", [None, dp.Participation.consecutive(3), dp.Participation.lifetime_cap()]
)
def test_a_plan_costs_what_its_running_sum_costs(participation):
    """A running sum's noise multiplier is in units of the sensitivity of C x."""
    factorization = dp.Factorization.column_normalized(12)
    sums = dp.RunningSum(
        factorization,
        noise_multiplier=2.0,
        shape=3,
        participation=participation,
        simulation=True,
        rng=1,
    )
    plan = factorization.mechanism(sums.sigma, participation=participation)
    found, expected = (
        dp.account(dp.compose(one, dp.Gaussian(4.0))).epsilon(1e-6)
        for one in (plan, sums.mechanism)
    )
    assert found == pytest.approx(expected, rel=1e-12)
    assert found >= expected * (1 - 1e-15)


def test_a_binary_tree_costs_as_much_by_its_matrix_as_by_its_nodes():
    matrix = dp.Factorization.binary_tree(12).mechanism(3.0)
    nodes = dp.TreeAggregation(3.0, 12)
    found = [dp.account(one).epsilon(1e-6) for one in (matrix, nodes)]
    assert found[0] == pytest.approx(found[1], rel=1e-12)
    assert np.sqrt(nodes.sensitivity_squared) == pytest.approx(
        dp.Factorization.binary_tree(12).sensitivity()
    )
