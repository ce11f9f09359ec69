"""Privacy loss distributions on a grid bound the exact profile from both sides."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import privacy as dp
from privacy.losses.grids import on_grid
from privacy.losses.lattice import (
    GridLoss,
    GridSum,
    MixedGrid,
    choose_tilt,
    from_atoms,
    no_tilt,
)
from privacy.numerics.normal import log_tail
from privacy.numerics.solve import invert
from privacy.relations import ADD_OR_REMOVE_ONE

ONE_STEP = [
    (dp.Gaussian(3.0), 1.1, 1e-3),
    (dp.Laplace(2.0), 0.3, 1e-3),
    (dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.1), 0.5, 1e-3),
    (dp.PoissonSampled(dp.Laplace(0.5), sampling_probability=0.2), 0.3, 1e-3),
    (dp.RandomizedResponse(1.0, 7), 0.5, 1e-3),
    (dp.ApproximateDP(0.7, 1e-6), 0.2, 1e-3),
    (dp.DiscreteLaplace(2.5, sensitivity=3), 0.4, 1e-3),
]


def _bounds(pair, count, epsilon, step, direction):
    found = []
    for upper in (True, False):
        one = [(on_grid(pair, direction, step, -60.0, -math.inf, upper=upper), count)]
        if upper:
            tilt = choose_tilt(one, epsilon)
        found.append(GridSum(one, tilt).log_delta(epsilon))
    return found


@pytest.mark.parametrize(("mechanism", "epsilon", "step"), ONE_STEP, ids=str)
def test_one_release_is_bounded_on_both_sides(mechanism, epsilon, step):
    pair = mechanism.loss(ADD_OR_REMOVE_ONE)
    exact = pair.profile.log_delta(epsilon)
    each = [_bounds(pair, 1, epsilon, step, way) for way in ("remove", "add")]
    upper, lower = (max(one[k] for one in each) for k in (0, 1))
    assert lower <= exact + 1e-12
    assert upper >= exact - 1e-12
    assert upper - lower < 0.01


@pytest.mark.parametrize("delta", [1e-3, 1e-12, 1e-100, 1e-250])
def test_a_tiny_delta_keeps_its_digits(delta):
    pair, count = dp.Gaussian(3.0).loss(ADD_OR_REMOVE_ONE), 10
    exact = dp.account(dp.repeat(dp.Gaussian(3.0), count), notion="gaussian")
    epsilon, log_tail_mass = exact.epsilon(delta), math.log(delta) - 40
    step = 2e-3 if delta > 1e-20 else 5e-4
    above = [(on_grid(pair, "remove", step, log_tail_mass, -math.inf, upper=True), count)]
    tilt = choose_tilt(above, epsilon)
    below = [(on_grid(pair, "remove", step, log_tail_mass, -math.inf, upper=False), count)]
    upper, lower = (GridSum(parts, tilt).log_delta(epsilon) for parts in (above, below))
    assert lower <= math.log(delta) <= upper
    assert upper - lower < 0.02


def test_a_halved_step_reduces_both_errors():
    mechanism = dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=0.01)
    pair, count = mechanism.loss(ADD_OR_REMOVE_ONE), 300
    exact = math.log(dp.account(dp.repeat(mechanism, count), notion="contour").delta(0.5))
    coarse = _bounds(pair, count, 0.5, 4e-4, "remove")
    fine = _bounds(pair, count, 0.5, 2e-4, "remove")
    assert coarse[1] < fine[1] < exact < fine[0] < coarse[0]
    assert fine[0] - exact < 0.4 * (coarse[0] - exact)


@pytest.mark.parametrize("least", [5.0, 20.0, 35.0])
def test_the_mass_far_from_the_center_is_within_its_error_bound(least):
    pair = dp.Gaussian(1.0).loss(ADD_OR_REMOVE_ONE)
    grid = on_grid(pair, "remove", 1.0, -800.0, least, upper=False)
    first = least - 1  # the grid begins one step below the smallest loss that is kept
    exact = math.exp(log_tail(first - 0.5))  # P(L > first), L normal with mean 1/2
    assert abs(grid.mass.sum() / exact - 1) <= grid.relative + 1e-12
    assert grid.relative < 1e-11


def test_a_lower_bound_omits_an_atom_below_the_floor():
    pair = dp.Laplace(1.0).loss(ADD_OR_REMOVE_ONE)
    grid = on_grid(pair, "remove", 0.1, -60.0, 0.0, upper=False)
    assert -0.3 < grid.start < 0
    # P(L >= x) for -1 < x < 1, without the atom at -1
    assert grid.mass.sum() == pytest.approx(1 - math.exp(-(1 - grid.start) / 2) / 2, abs=1e-10)


@pytest.mark.parametrize(("size", "q", "sigma"), [(30, 0.3, 1.0), (20, 0.1, 0.5)])
def test_the_masses_of_a_group_are_within_their_error_bound(size, q, sigma):
    group = dp.user_level(
        dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), max_contributions=size
    )
    pair = group.loss(ADD_OR_REMOVE_ONE)
    grid = on_grid(pair, "remove", 20.0, -100.0, -math.inf, upper=True)
    assert grid.relative < 1e-11
    # all of P, and all of Q: both ends of a cell keep its mass under both
    assert grid.mass.sum() == pytest.approx(1, abs=1e-11)
    assert (grid.mass * np.exp(-grid.loss)).sum() == pytest.approx(1, abs=1e-10)


def test_panels_that_are_too_wide_are_refused():
    pair = dp.PoissonSampled(dp.Gaussian(1e-4), sampling_probability=0.1).loss(ADD_OR_REMOVE_ONE)
    with pytest.raises(OverflowError):
        on_grid(pair, "remove", 1e5, -40.0, -math.inf, upper=True)


def test_the_bound_of_a_tilt_includes_the_errors_of_masses_and_losses():
    pair = dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=0.01).loss(ADD_OR_REMOVE_ONE)
    grid = on_grid(pair, "remove", 1e-3, -60.0, -math.inf, upper=True)
    exact = choose_tilt([(grid, 300)], 0.5)
    rough = choose_tilt([(replace(grid, relative=1e-3, absolute=1e-5), 300)], 0.5)
    assert rough.bound >= exact.bound + 300 * (1e-3 + exact.tilt * 1e-5) * 0.99


def test_atoms_keep_their_probabilities_under_both():
    mass, loss = np.array([0.3, 0.5, 0.2]), np.array([-0.7305, 0.1, 0.5])
    grid = from_atoms(mass, loss, 0.25, 0.5, upper=True)
    assert np.sum(grid.mass) == pytest.approx(1.0)
    assert grid.mass @ np.exp(-grid.loss) == pytest.approx(mass @ np.exp(-loss))
    below = from_atoms(mass, loss, 0.25, 0.5, upper=False)
    for tilt in (0.0, 3.0):
        moved = below.centered(tilt)
        assert moved.mass.sum() == pytest.approx(1.0)
        assert moved.dual @ np.exp(-moved.loss) == pytest.approx(mass @ np.exp(-loss))


def test_different_steps_are_refused():
    mass, loss = np.array([0.5, 0.5]), np.array([-1.0, 1.0])
    grids = [from_atoms(mass, loss, step, 1.0, upper=True) for step in (0.1, 0.2)]
    with pytest.raises(ValueError, match="differ in step"):
        GridSum([(grid, 1) for grid in grids], choose_tilt([(grids[0], 1)], 0.5))


def test_overflowing_rounding_errors_are_refused():
    grid = GridLoss(0.1, 0.0, np.ones(1), 0.0, upper=True)
    assert GridSum([(grid, 2**60)], no_tilt([(grid, 1)])).log_delta(0.0) <= 0
    with pytest.raises(OverflowError, match="rounding errors"):
        GridSum([(grid, 2**600)], no_tilt([(grid, 1)]))


def test_a_nan_bound_meets_no_target():
    assert invert(lambda epsilon: 0.0 if epsilon < 0.5 else math.nan, -1.0) == math.inf


class TestTheMethod:
    """Properties of `notion="pld"`."""

    PLAN = dp.compose(
        dp.repeat(dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=0.05), 20),
        dp.Laplace(4.0),
        dp.ApproximateDP(0.2, 1e-9),
    )

    def test_the_bracket_holds_the_contour(self):
        curve = dp.account(self.PLAN, notion="pld")
        for epsilon in (0.0, 0.5, 1.7, 4.0):
            exact = dp.account(self.PLAN, notion="contour").answer(epsilon=epsilon)
            lower, upper = map(math.exp, curve.bracket(epsilon))
            assert lower <= exact.value * (1 + 1e-12)
            assert upper >= exact.value / (1 + exact.error)

    def test_epsilon_and_delta_decrease(self):
        curve = dp.account(self.PLAN, notion="pld")
        deltas = [curve.delta(epsilon) for epsilon in (0.0, 0.1, 0.5, 1.0, 3.0)]
        assert deltas == sorted(deltas, reverse=True)
        epsilons = [curve.epsilon(delta) for delta in (1e-8, 1e-6, 1e-4, 1e-2)]
        assert epsilons == sorted(epsilons, reverse=True)

    def test_composition_commutes(self):
        first, *others = self.PLAN.parts
        one = dp.account(dp.compose(*others, first), notion="pld").epsilon(1e-6)
        assert one == pytest.approx(dp.account(self.PLAN, notion="pld").epsilon(1e-6), rel=1e-9)
        curves = [dp.account(part, notion="pld") for part in self.PLAN.parts]
        assert (curves[0] + curves[1] + curves[2]).epsilon(1e-6) == pytest.approx(one, rel=1e-9)

    @pytest.mark.parametrize("q", [1.0, 0.2])
    def test_thousands_of_losses_with_atoms_have_a_narrow_bracket(self, q):
        step = dp.PoissonSampled(dp.RandomizedResponse(0.3, categories=5), sampling_probability=q)
        plan = dp.compose(dp.repeat(step, 2000), dp.Laplace(5.0))
        curve = dp.account(plan, notion="pld")
        found = curve.answer(delta=1e-6)
        assert found.error < 2e-4
        exact = dp.account(plan, notion="contour").answer(epsilon=found.value)
        lower, upper = map(math.exp, curve.bracket(found.value))
        assert lower <= exact.value
        assert exact.value / (1 + exact.error) <= upper

    def test_a_moment_bound_is_refused_by_name(self):
        plan = dp.compose(self.PLAN, dp.ZeroConcentratedDP(0.1))
        with pytest.raises(dp.UnsupportedMechanism, match="ZeroConcentratedDP"):
            dp.account(plan, notion="pld")

    def test_the_distribution_gives_the_profile(self):
        found = dp.account(self.PLAN, notion="pld").distribution()
        assert set(found) == {"remove", "add"}
        deltas = []
        for loss, mass, infinite in found.values():
            assert math.fsum(mass) + infinite == pytest.approx(1, abs=1e-6)
            beyond = loss > 1.0
            deltas.append(infinite + mass[beyond] @ -np.expm1(1.0 - loss[beyond]))
        assert max(deltas) == pytest.approx(dp.account(self.PLAN).delta(1.0), rel=0.01)

    def test_delta_beyond_the_sum_of_epsilons_is_the_mass_at_infinity(self):
        curve = dp.account(dp.repeat(dp.ApproximateDP(0.1, 1e-9), 3), notion="pld")
        assert curve.delta(0.31) == pytest.approx(3e-9, rel=1e-6)
        assert curve.epsilon(1e-9) == math.inf
        assert dp.account(dp.repeat(dp.PureDP(0.1), 3), notion="pld").delta(0.31) == 0

    @pytest.mark.parametrize("steps", [1000, 10_000])
    def test_a_delta_below_all_floats(self, steps):
        step = dp.PoissonSampled(dp.Gaussian(12.75), sampling_probability=2.06e-4)
        assert 0 < dp.account(dp.repeat(step, steps), notion="pld").delta(10.54) < 1e-300

    def test_very_many_parts_are_merged_upward(self):
        plan = dp.compose(*(dp.PureDP(0.01 + 1e-5 * k) for k in range(300)))
        exact = dp.account(dp.repeat(dp.PureDP(0.01 + 1e-5 * 149.5), 300), notion="pld")
        curve = dp.account(plan, notion="pld")
        assert exact.epsilon(1e-6) <= curve.epsilon(1e-6) <= 1.01 * exact.epsilon(1e-6)


class TestPmfs:
    """Mechanisms from two probability mass functions."""

    P, Q = (0.6, 0.35, 0.05, 0.0), (0.5, 0.3, 0.0, 0.2)

    @staticmethod
    def exact(p, q, count, epsilon):
        """Return delta by enumeration, the larger of both directions."""
        best = 0.0
        for one, other in ((p, q), (q, p)):
            outputs = itertools.product(range(len(p)), repeat=count)
            best = max(
                best,
                math.fsum(
                    max(
                        0.0,
                        math.prod(one[k] for k in output)
                        - math.exp(epsilon) * math.prod(other[k] for k in output),
                    )
                    for output in outputs
                ),
            )
        return best

    @pytest.mark.parametrize("count", [1, 2, 4])
    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
    @pytest.mark.parametrize("q", [1.0, 0.3])
    def test_against_enumeration(self, count, epsilon, q):
        one = dp.from_pmfs(self.P, self.Q)
        mixed = [(1 - q) * b + q * a for a, b in zip(self.P, self.Q, strict=True)]
        exact = self.exact(mixed, self.Q, count, epsilon)
        plan = dp.repeat(dp.PoissonSampled(one, sampling_probability=q), count)
        assert exact * (1 - 1e-12) <= dp.account(plan).delta(epsilon) <= exact * (1 + 1e-4)
        for notion in ("approximate", "pld"):
            assert dp.account(plan, notion=notion).delta(epsilon) >= exact * (1 - 1e-12)

    def test_unequal_masses_at_infinity_are_not_supported_by_the_contour(self):
        with pytest.raises(dp.UnsupportedMechanism, match="contour"):
            dp.account(dp.repeat(dp.from_pmfs(self.P, self.Q), 2), notion="contour")

    def test_randomized_response_from_its_pmfs(self):
        law = [math.exp(0.7), 1, 1]
        p = [x / math.fsum(law) for x in law]
        found = dp.account(dp.repeat(dp.from_pmfs(p, [p[1], p[0], p[2]]), 9), notion="contour")
        exact = dp.account(dp.repeat(dp.RandomizedResponse(0.7, 3), 9), notion="contour")
        assert found.epsilon(1e-5) == pytest.approx(exact.epsilon(1e-5), rel=1e-6)

    @pytest.mark.parametrize(
        ("p", "q", "told"),
        [
            ([0.5, 0.4], [0.5, 0.5], r"sum\(p\)"),
            ([0.5, 0.5], [1.0], "2 values"),
            ([1.5, -0.5], [0.5, 0.5], "Expected p="),
            ([], [], "0 values"),
            ([1.0, 0.0], [0.0, 1.0], "that both data sets can produce"),
        ],
    )
    def test_bad_probabilities_are_refused(self, p, q, told):
        with pytest.raises(ValueError, match=told):
            dp.from_pmfs(p, q)

    def test_arrays_are_accepted(self):
        found = dp.from_pmfs(np.array([0.5, 0.5]), np.array([0.25, 0.75]))
        assert found.p == (0.5, 0.5)
        assert found == dp.mechanism_from_json(found.to_json())

    def test_another_relation_is_refused(self):
        with pytest.raises(dp.UnsupportedMechanism, match="proven for"):
            dp.account(dp.from_pmfs([0.5, 0.5], [0.25, 0.75]), relation="REPLACE_ONE")


@pytest.mark.parametrize(
    "plan",
    [
        dp.compose(dp.Laplace(1e-3), dp.Laplace(2e-3)),
        dp.compose(dp.Laplace(1e6), dp.PureDP(1.0)),
        dp.repeat(dp.Laplace(1e9), 100),
        dp.repeat(dp.PureDP(0.1), 10**9),
        dp.repeat(dp.from_pmfs([1.0], [1.0]), 2),
    ],
    ids=str,
)
def test_extreme_plans_are_bounded(plan):
    bounds = [dp.account(plan, notion=notion).epsilon(1e-5) for notion in ("pld", "tightest")]
    assert bounds[1] <= bounds[0] * (1 + 1e-9)
    assert all(0 <= bound <= math.inf for bound in bounds)


@pytest.mark.parametrize("count", [1, 3])
def test_a_mixture_has_the_masses_of_its_parts(count):
    """`count` releases of each of three mixtures of two grids, held against plain convolution."""
    mass, loss = np.array([0.4, 0.6]), np.array([-0.5, 0.75])
    nodes = [from_atoms(mass, loss * x, 0.25, 0.0, upper=True) for x in (1.0, 1.5, 3.0)]
    cell, share = np.array([0, 1, 1]), np.array([0.25, 0.0, 0.75])
    mixed = MixedGrid.of(nodes, cell, share, np.full(3, float(count)))
    tilt = choose_tilt([(mixed, 3 * count)], 1.0)
    whole = {0.0: 1.0}
    for k, p in zip(cell.tolist() * count, share.tolist() * count, strict=True):
        one = Counter()
        for node, weight in ((nodes[k], 1 - p), (nodes[k + 1], p)):
            for place, size in zip(node.loss.tolist(), node.mass.tolist(), strict=True):
                one[place] += weight * size
        both = Counter()
        for a, m in whole.items():
            for b, n in one.items():
                both[a + b] += m * n
        whole = both
    exact = sum(m * -math.expm1(1.0 - x) for x, m in whole.items() if x > 1)
    found = GridSum([(mixed, 3 * count)], tilt).log_delta(1.0)
    assert exact <= math.exp(found) <= exact * (1 + 1e-7)
    assert mixed.cumulants(0.5)[0] == pytest.approx(float(mixed.log_moments(np.array([0.5]))[0]))
