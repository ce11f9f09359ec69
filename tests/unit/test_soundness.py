"""Cases where a privacy number could be too small, each with the correct value."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

import privacy as dp
from privacy.accounting import NOTION_MODULES
from privacy.losses.claims import ClaimPair
from tests.benchmarks.speed import counted

ADD = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dp.NeighboringRelation.REPLACE_SPECIAL
DELTA = 1e-5


def sampled(mechanism, q):
    return dp.PoissonSampled(mechanism, sampling_probability=q)


def shown(value):
    return round(value, 4)


class TestNoiseMultiplierDefinition:
    """Sigma over the norm bound of one record, in every relation; the shift is what changes."""

    @pytest.mark.parametrize(
        ("relation", "epsilon"),
        [(ADD, 1.9931), (REPLACE_SPECIAL, 1.9931), (REPLACE_ONE, 4.3772)],
    )
    @pytest.mark.parametrize("notion", ["tightest", "gaussian", "approximate"])
    def test_gaussian(self, notion, relation, epsilon):
        curve = dp.account(dp.Gaussian(2), notion=notion, relation=relation)
        assert shown(curve.epsilon(DELTA)) == epsilon

    @pytest.mark.parametrize("notion", ["zcdp", "rdp"])
    def test_moments_depend_on_the_relation(self, notion):
        near, far = (
            dp.account(dp.Gaussian(2), notion=notion, relation=relation).epsilon(DELTA)
            for relation in (ADD, REPLACE_ONE)
        )
        assert 1.9931 < near < 2.53
        assert 4.3772 < far < 5.3
        halved = dp.account(dp.Gaussian(1), notion=notion).epsilon(DELTA)
        assert far == pytest.approx(halved, rel=1e-9)

    @pytest.mark.parametrize("notion", ["tightest", "gaussian", "approximate", "zcdp", "rdp"])
    def test_replace_distance_applies_only_under_replace_one(self, notion):
        near = dp.Gaussian(2, replace_distance=1)
        for relation in (ADD, REPLACE_SPECIAL):
            assert dp.account(near, notion=notion, relation=relation).epsilon(DELTA) == dp.account(
                dp.Gaussian(2), notion=notion, relation=relation
            ).epsilon(DELTA)
        replaced = dp.account(near, notion=notion, relation=REPLACE_ONE).epsilon(DELTA)
        removed = dp.account(near, notion=notion).epsilon(DELTA)
        assert replaced == pytest.approx(removed, rel=1e-12)

    def test_laplace(self):
        assert dp.account(dp.Laplace(2)).epsilon(0) == 0.5
        assert dp.account(dp.Laplace(2), relation=REPLACE_SPECIAL).epsilon(0) == 0.5
        assert dp.account(dp.Laplace(2), relation=REPLACE_ONE).epsilon(0) == 1.0
        near = dp.Laplace(2, replace_distance=1)
        assert dp.account(near, relation=REPLACE_ONE).epsilon(0) == 0.5

    @pytest.mark.parametrize("relation", dp.NeighboringRelation)
    @pytest.mark.parametrize("notion", ["tightest", *NOTION_MODULES])
    def test_sampling_all_records_equals_no_sampling(self, notion, relation):
        whole = sampled(dp.Gaussian(1, replace_distance=0.7), 1)
        assert whole == dp.Gaussian(1, replace_distance=0.7)
        one, other = (
            dp.account(m, notion=notion, relation=relation).epsilon(DELTA)
            for m in (whole, dp.Gaussian(1, replace_distance=0.7))
        )
        assert one == other

    @pytest.mark.parametrize("notion", ["tightest", "approximate", "rdp"])
    @pytest.mark.parametrize(
        "inner",
        [
            dp.Gaussian(1, replace_distance=1),
            dp.compose(dp.Gaussian(1), dp.Gaussian(2, replace_distance=1.5)),
            dp.Laplace(1),
            dp.Laplace(1, replace_distance=1),
            dp.PureDP(1, relation=REPLACE_ONE),
        ],
        ids=repr,
    )
    def test_sampling_of_a_replaced_record_is_proven_at_distance_two_alone(self, notion, inner):
        with pytest.raises(dp.UnsupportedMechanism):
            dp.account(sampled(inner, 0.1), notion=notion, relation=REPLACE_ONE)

    @pytest.mark.parametrize("notion", ["tightest", *NOTION_MODULES])
    @pytest.mark.parametrize(
        "claim",
        [
            dp.PureDP(1, relation=REPLACE_ONE),
            dp.ApproximateDP(1, 1e-6, relation=REPLACE_ONE),
            dp.ZeroConcentratedDP(0.1, relation=REPLACE_ONE),
        ],
        ids=repr,
    )
    def test_a_claim_is_accounted_under_its_own_relation_only(self, notion, claim):
        for relation in (ADD, REPLACE_SPECIAL):
            with pytest.raises(dp.UnsupportedMechanism):
                dp.account(claim, notion=notion, relation=relation)
        assert dp.account(claim, relation=REPLACE_ONE).epsilon(DELTA) > 0

    def test_the_refusal_names_the_relation_and_a_way_out(self):
        with pytest.raises(dp.UnsupportedMechanism, match=r"proven for REPLACE_ONE\. Pass that"):
            dp.account(dp.PureDP(1, relation=REPLACE_ONE), notion="approximate")

    @pytest.mark.parametrize("notion", ["tightest", *NOTION_MODULES])
    @pytest.mark.parametrize(
        "claim",
        [
            dp.PureDP(1, relation=REPLACE_SPECIAL),
            dp.ApproximateDP(1, 1e-6, relation=REPLACE_SPECIAL),
            dp.ZeroConcentratedDP(0.1, relation=REPLACE_SPECIAL),
        ],
        ids=repr,
    )
    def test_a_zero_out_claim_does_not_cover_a_record_that_leaves_its_cell(self, notion, claim):
        """The null record is in another cell or in none: the cell's output is that without it."""
        for run in (dp.parallel(claim, claim), dp.parallel(dp.compose(claim, claim), claim)):
            for plan in (run, dp.user_level(run, max_contributions=1), dp.repeat(run, 2)):
                with pytest.raises(dp.UnsupportedMechanism):
                    dp.account(plan, notion=notion, relation=REPLACE_SPECIAL)
        with pytest.raises(dp.UnsupportedMechanism) as refused:
            dp.account(dp.parallel(claim, claim), relation=REPLACE_SPECIAL)
        assert 'cells="by_public_index"' in str(refused.value)
        assert refused.value.mechanism == claim

    def test_a_replace_claim_does_not_cover_a_record_that_leaves_its_cell(self):
        claim = dp.PureDP(1, relation=REPLACE_ONE)
        with pytest.raises(
            dp.UnsupportedMechanism, match=r"(?s)may leave its cell.*by_public_index"
        ):
            dp.account(dp.parallel(claim, claim), relation=REPLACE_ONE)
        public = dp.parallel(claim, claim, cells="by_public_index")
        assert dp.account(public, relation=REPLACE_ONE).epsilon(0) == 1.0

    def test_a_zero_out_claim_holds_in_a_public_cell(self):
        claim = dp.PureDP(1, relation=REPLACE_SPECIAL)
        public = dp.parallel(claim, claim, cells="by_public_index")
        assert dp.account(public, relation=REPLACE_SPECIAL).epsilon(0) == 1.0
        budget = dp.Budget(epsilon=1, delta=0, notion="approximate", relation=REPLACE_SPECIAL)
        assert budget.fits(public)

    def test_a_zero_out_claim_of_users_in_cells_is_refused_too(self):
        claim = dp.PureDP(1, relation=REPLACE_SPECIAL)
        user = dp.user_level(dp.parallel(claim, claim), max_contributions=2)
        with pytest.raises(dp.UnsupportedMechanism, match="by_public_index"):
            dp.account(user, relation=REPLACE_SPECIAL)

    @pytest.mark.parametrize("notion", ["zcdp", "rdp", "approximate"])
    def test_a_budget_refuses_a_zero_out_claim_in_a_cell_by_record(self, notion):
        claim = dp.PureDP(0.01, relation=REPLACE_SPECIAL)
        order = {"order": 30} if notion == "rdp" else {}
        budget = dp.Budget(epsilon=1, delta=1e-6, notion=notion, relation=REPLACE_SPECIAL, **order)
        with pytest.raises(dp.UnsupportedMechanism, match="by_public_index"):
            budget.spend(dp.parallel(claim, claim))

    @pytest.mark.parametrize(
        "inside",
        [
            dp.Gaussian(3),
            dp.Laplace(3),
            dp.DiscreteLaplace(3.0),
            dp.RandomizedResponse(0.5),
            sampled(dp.Gaussian(3), 0.1),
            dp.compose(dp.Gaussian(3), dp.Laplace(3)),
        ],
        ids=repr,
    )
    def test_noise_and_reports_in_cells_are_answered_under_zero_out(self, inside):
        cells = dp.parallel(inside, inside)
        one = dp.account(inside, relation=REPLACE_SPECIAL).epsilon(DELTA)
        assert dp.account(cells, relation=REPLACE_SPECIAL).epsilon(DELTA) == one
        assert inside.null_is_absent == (not isinstance(inside, dp.RandomizedResponse))

    def test_a_cell_costs_the_larger_epsilon_of_both_relations(self):
        cells = dp.parallel(LessWhenZeroed(1.0), LessWhenZeroed(1.0))
        for relation in (ADD, REPLACE_SPECIAL):
            assert dp.account(cells, relation=relation).epsilon(0) == 1.0
        alone = dp.account(LessWhenZeroed(1.0), relation=REPLACE_SPECIAL)
        assert alone.epsilon(0) == 0.5
        budget = dp.Budget(epsilon=1, delta=0, notion="approximate", relation=REPLACE_SPECIAL)
        assert budget.cost(cells) == (1.0, 0.0)

    def test_curves_of_two_relations_do_not_mix(self):
        one, other = (dp.account(dp.Gaussian(1), relation=r) for r in (ADD, REPLACE_ONE))
        with pytest.raises(ValueError, match="Expected other="):
            one + other


@dataclass(frozen=True)
class LessWhenZeroed(dp.Mechanism):
    """The privacy loss is epsilon if a record is removed, and half of it if one is zeroed."""

    epsilon: float

    def loss(self, relation):
        return ClaimPair(self.epsilon * (0.5 if relation is REPLACE_SPECIAL else 1.0))


def laplace_ratios(q, scale, points=300):
    """Return weights of Lap(0, scale) and the sampled density over it: two atoms and between."""
    x, weight = np.polynomial.legendre.leggauss(points)
    x, weight = (x + 1) / 2, weight / 2 * np.exp(-(x + 1) / 2 / scale) / (2 * scale)
    x = np.concatenate([[0.0], x, [1.0]])
    weight = np.concatenate([[0.5], weight, [math.exp(-1 / scale) / 2]])
    return weight, 1 - q + q * np.exp((2 * x - 1) / scale)


class TestDirections:
    """One record removed and one added: moments add within each, the worse is taken last."""

    def truth(self, q, scale, epsilon):
        """Two releases by brute force: (removed, added)."""
        weight, ratio = laplace_ratios(q, scale)
        pairs, both = np.outer(weight, weight), np.outer(ratio, ratio)
        growth = math.exp(epsilon)
        removed = float((pairs * np.maximum(both - growth, 0)).sum())
        added = float((pairs * np.maximum(1 - growth * both, 0)).sum())
        return removed, added

    def test_the_two_directions_cross_for_composed_sampled_laplace(self):
        removed, added = self.truth(0.5, 1.0, 0.2314)
        assert (round(removed, 4), round(added, 4)) == (0.1547, 0.1737)
        run = dp.repeat(sampled(dp.Laplace(1), 0.5), 2)
        for relation in (ADD, REPLACE_SPECIAL):
            ours = dp.account(run, relation=relation).delta(0.2314)
            # the truth of "add" by mpmath, atoms and density apart
            assert 0.17374641413391 <= ours <= 0.17374641413391 * (1 + 1e-6)

    @pytest.mark.parametrize("order", [1.5, 2, 7, 30.25])
    @pytest.mark.parametrize(("q", "scale"), [(0.5, 1.0), (0.01, 0.3), (0.9, 4.0)])
    def test_renyi_divergences_keep_both(self, q, scale, order):
        weight, ratio = laplace_ratios(q, scale)
        removed = math.log(float(weight @ ratio**order)) / (order - 1)
        added = math.log(float(weight @ ratio ** (1 - order))) / (order - 1)
        curve = dp.account(sampled(dp.Laplace(scale), q), notion="rdp")
        ours = curve.divergences([order])[:, 0]
        assert ours == pytest.approx([removed, added], rel=1e-9)
        both = curve + dp.account(sampled(dp.Gaussian(1), 0.1), notion="rdp")
        gaussian = dp.account(sampled(dp.Gaussian(1), 0.1), notion="rdp").divergence(order)
        assert both.divergence(order) == pytest.approx(max(ours) + gaussian, rel=1e-12)

    def test_the_worse_direction_is_taken_after_the_sum(self):
        """A cell that adds worse and one that removes worse: not the sum of both maxima."""
        one = dp.account(sampled(dp.Laplace(1), 0.5), notion="rdp")
        twice = one + one
        orders = [1.01, 1.5, 3, 20]
        assert twice.divergences(orders) == pytest.approx(2 * one.divergences(orders), rel=1e-14)


class TestBoundedLosses:
    """delta is 0 beyond the largest loss, and the mass at infinity is separate."""

    def test_mass_at_infinity(self):
        run = dp.account(dp.repeat(dp.ApproximateDP(0.1, 1e-3), 50))
        lost = -math.expm1(50 * math.log1p(-1e-3))
        assert run.delta(5.001) == pytest.approx(lost, rel=1e-12)
        assert run.delta(5.001) >= lost
        assert run.epsilon(lost * 0.999) == math.inf
        assert run.epsilon(0) == math.inf

    def test_claims_of_epsilon_zero_have_their_mass_as_delta(self):
        run = dp.account(dp.repeat(dp.ApproximateDP(0, 1e-6), 10))
        assert run.epsilon(1e-4) == 0
        assert run.delta(0) == pytest.approx(1e-5, rel=1e-5)

    def test_delta_of_pure_parts_is_zero_from_the_sum_of_their_epsilons(self):
        run = dp.account(dp.compose(dp.PureDP(0.1), dp.PureDP(0.2), dp.Laplace(4)))
        assert 0.55 <= run.epsilon(0) <= 0.55 * (1 + 1e-12) or run.epsilon(0) == math.inf
        assert dp.account(dp.repeat(dp.PureDP(0.1), 7)).delta(0.71) == 0

    def test_one_sampled_laplace(self):
        curve = dp.account(sampled(dp.Laplace(1), 0.5))
        largest = math.log1p(0.5 * math.expm1(1))
        assert curve.delta(largest * (1 + 1e-9)) == 0
        assert curve.delta(largest * (1 - 1e-9)) > 0


class TestSamplingIsNotPassedThrough:
    """Several releases on one sample are not releases on several samples."""

    def test_one_sample_a_hundred_times(self):
        once = sampled(dp.repeat(dp.Gaussian(10), 100), 0.01)
        fresh = dp.repeat(sampled(dp.Gaussian(10), 0.01), 100)
        assert round(dp.account(once).epsilon(1e-6), 3) == 0.364
        assert round(dp.account(fresh).epsilon(1e-6), 4) == 0.0344
        for notion in ("approximate", "rdp"):
            assert dp.account(once, notion=notion).epsilon(1e-6) >= 0.3639

    def test_statistics_of_one_sample_are_one_joint_gaussian(self):
        joint = sampled(dp.compose(dp.Gaussian(3), dp.repeat(dp.Gaussian(4), 2)), 0.05)
        single = sampled(dp.Gaussian((1 / 9 + 2 / 16) ** -0.5), 0.05)
        for relation in dp.NeighboringRelation:
            one, other = (dp.account(m, relation=relation) for m in (joint, single))
            assert one.epsilon(DELTA) == pytest.approx(other.epsilon(DELTA), rel=1e-12)

    @pytest.mark.parametrize(
        "inner",
        [
            dp.compose(dp.Gaussian(1), dp.Laplace(1)),
            dp.repeat(dp.Laplace(1), 2),
            dp.repeat(dp.PureDP(1), 2),
            dp.parallel(dp.Gaussian(1), dp.Gaussian(2)),
            dp.repeat(sampled(dp.Gaussian(1), 0.1), 2),
            dp.compose(dp.Gaussian(1), sampled(dp.Gaussian(1), 0.1)),
            dp.ZeroConcentratedDP(0.1),
        ],
        ids=repr,
    )
    @pytest.mark.parametrize("notion", ["tightest", *NOTION_MODULES])
    def test_other_trees_under_one_sample_are_refused(self, inner, notion):
        with pytest.raises(dp.UnsupportedMechanism):
            dp.account(sampled(inner, 0.1), notion=notion)

    def test_nested_samplings_multiply(self):
        twice = sampled(sampled(dp.Gaussian(1), 0.25), 0.5)
        assert 0.125 <= twice.sampling_probability <= math.nextafter(0.125, 1)
        assert twice.mechanism == dp.Gaussian(1)

    def test_a_sampled_claim(self):
        claim = sampled(dp.ApproximateDP(1, 1e-6), 0.1)
        curve = dp.account(claim)
        epsilon, delta = math.log1p(0.1 * math.expm1(1)), 1e-7
        assert epsilon <= curve.epsilon(delta * (1 + 1e-12)) <= epsilon * (1 + 1e-9)
        assert curve.epsilon(delta * 0.999) == math.inf
        assert curve.delta(epsilon * (1 + 1e-12)) >= delta
        for relation in (REPLACE_ONE, REPLACE_SPECIAL):
            other = sampled(dp.ApproximateDP(1, 1e-6, relation=relation), 0.1)
            with pytest.raises(dp.UnsupportedMechanism):
                dp.account(other, relation=relation)


class TestMomentBoundsStayMomentBounds:
    """rho-zCDP does not imply the profile of the Gaussian with that rho."""

    def test_zcdp_needs_more_noise_than_the_gaussian_profile(self):
        target = {"epsilon": 0.1, "delta": DELTA}
        assert round(dp.noise_multiplier(**target), 2) == 30.75
        assert round(dp.noise_multiplier(**target, notion="zcdp"), 2) == 33.98
        rho = dp.rho_from_epsilon(**target)
        assert round(dp.noise_multiplier_from_rho(rho), 2) == 33.98
        claim = dp.ZeroConcentratedDP(dp.rho_from_noise_multiplier(30.75))
        assert dp.account(claim).epsilon(DELTA) > 0.11

    @pytest.mark.parametrize(
        "plan",
        [
            dp.ZeroConcentratedDP(0.1),
            dp.compose(dp.ZeroConcentratedDP(0.1), dp.Gaussian(1)),
            dp.compose(dp.repeat(dp.ZeroConcentratedDP(0.1), 3), sampled(dp.Gaussian(1), 0.1)),
        ],
        ids=repr,
    )
    def test_zcdp_claims_are_answered_by_moments_alone(self, plan):
        assert dp.account(plan).guarantee(delta=DELTA).notion in ("zcdp", "rdp")
        for notion in NOTION_MODULES.keys() - {"zcdp", "rdp"}:
            with pytest.raises(dp.UnsupportedMechanism):
                dp.account(plan, notion=notion)

    def test_cells_with_and_without_a_zcdp_claim_are_answered_one_by_one(self):
        claim, noise = dp.ZeroConcentratedDP(0.1), dp.Gaussian(1)
        both = dp.account(dp.parallel(claim, noise)).guarantee(delta=DELTA)
        assert both.notion == "gaussian"
        assert both.epsilon == dp.account(noise).epsilon(DELTA) > dp.account(claim).epsilon(DELTA)
        for notion in NOTION_MODULES.keys() - {"zcdp", "rdp"}:
            with pytest.raises(dp.UnsupportedMechanism):
                dp.account(dp.parallel(claim, noise), notion=notion)

    def test_a_gaussian_beside_a_claim_counts_by_its_rho(self):
        plan = dp.compose(dp.ZeroConcentratedDP(0.1), dp.Gaussian(1))
        assert dp.account(plan).epsilon(DELTA) == pytest.approx(
            dp.epsilon_from_rho(0.6, DELTA), rel=1e-12
        )

    def test_the_minimum_is_taken_at_the_query(self):
        """Sums of tightest curves account for the whole plan by each method."""
        gaussian, claim = dp.Gaussian(5), dp.ZeroConcentratedDP(0.02)
        total = dp.account(gaussian) + dp.account(claim)
        whole = dp.account(dp.compose(gaussian, claim))
        for delta in (1e-12, DELTA, 0.1):
            assert total.epsilon(delta) == whole.epsilon(delta)
        back = 3 * (dp.account(gaussian) + dp.account(gaussian))
        assert back.epsilon(DELTA) == dp.account(dp.repeat(gaussian, 6)).epsilon(DELTA)


class TestParallel:
    """Each record sees one cell, unless it is replaced and may change its cell."""

    def cost(self, plan, relation, **how):
        return dp.account(plan, relation=relation, **how).epsilon(DELTA)

    def gaussian(self, mu_squared):
        return dp.account(dp.Gaussian(mu_squared**-0.5)).epsilon(DELTA)

    def test_public_cells_cost_the_worst_of_them(self):
        plan = dp.parallel(dp.Gaussian(1), dp.Gaussian(2), cells="by_public_index")
        assert self.cost(plan, ADD) == self.cost(dp.Gaussian(1), ADD)
        assert self.cost(plan, REPLACE_ONE) == self.cost(dp.Gaussian(1), REPLACE_ONE)

    @pytest.mark.parametrize("notion", ["tightest", "gaussian", "zcdp", "rdp"])
    def test_a_replaced_record_may_leave_one_cell_and_enter_another(self, notion):
        cells = (dp.Gaussian(1, replace_distance=0.5), dp.Gaussian(2, replace_distance=0.5))
        free, fixed = (
            self.cost(dp.parallel(*cells, cells=how), REPLACE_ONE, notion=notion)
            for how in ("by_record", "by_public_index")
        )
        moved = dp.account(dp.Gaussian((1 + 1 / 4) ** -0.5), notion=notion).epsilon(DELTA)
        stays = dp.account(dp.Gaussian(2), notion=notion).epsilon(DELTA)
        assert free == pytest.approx(moved, rel=1e-12)
        assert fixed == pytest.approx(stays, rel=1e-12)

    def test_equal_cells_can_be_changed_too(self):
        same = [dp.Gaussian(1, replace_distance=0.1)] * 2
        assert self.cost(dp.parallel(*same), REPLACE_ONE) == pytest.approx(self.gaussian(2))
        same = [dp.Gaussian(1)] * 2  # staying costs distance 2, more than moving
        assert self.cost(dp.parallel(*same), REPLACE_ONE) == pytest.approx(self.gaussian(4))

    def test_a_replaced_response_that_moves_costs_both(self):
        cells = dp.RandomizedResponse(1), dp.RandomizedResponse(0.5)
        plan = dp.parallel(*cells)
        assert dp.account(plan).epsilon(0) == 1
        replaced = dp.account(plan, notion="rdp", relation=REPLACE_ONE).divergence(3)
        both = dp.account(dp.compose(*cells), notion="rdp").divergence(3)
        assert replaced == pytest.approx(both, rel=1e-12)

    def test_claims_for_a_replaced_record_do_not_cover_a_change_of_cell(self):
        claims = [dp.PureDP(1, relation=REPLACE_ONE), dp.PureDP(2, relation=REPLACE_ONE)]
        with pytest.raises(dp.UnsupportedMechanism):
            dp.account(dp.parallel(*claims), relation=REPLACE_ONE)
        fixed = dp.parallel(*claims, cells="by_public_index")
        assert dp.account(fixed, relation=REPLACE_ONE).epsilon(0) == 2

    def test_divergences_that_cross_are_maximized_at_each_order(self):
        parts = sampled(dp.Gaussian(0.6), 0.01), dp.Gaussian(2)
        both = dp.account(dp.parallel(*parts), notion="rdp")
        one, other = (dp.account(part, notion="rdp") for part in parts)
        assert one.divergence(2) < other.divergence(2)
        assert one.divergence(60) > other.divergence(60)
        for order in (2, 60):
            worse = max(one.divergence(order), other.divergence(order))
            assert worse <= both.divergence(order) <= worse * (1 + 1e-14)

    @pytest.mark.parametrize("notion", ["tightest", "rdp", "gaussian"])
    def test_many_cells(self, notion):
        cells = [dp.Gaussian(1 + i / 1000) for i in range(1100)]  # more than Python's stack holds
        if notion != "gaussian":
            cells = [sampled(cell, 0.1) for cell in cells]
        worst = dp.account(cells[0], notion=notion).epsilon(DELTA)
        together = dp.account(dp.parallel(*cells), notion=notion).epsilon(DELTA)
        assert together == pytest.approx(worst, rel=1e-9)


class TestGroups:
    """k records that change together."""

    @pytest.mark.parametrize("size", [1, 2, 10])
    def test_closed_forms(self, size):
        claim = dp.account(dp.ZeroConcentratedDP(0.02), notion="zcdp").group(size)
        assert claim.rho == pytest.approx(size**2 * 0.02, rel=1e-14)
        assert claim.rho >= size**2 * 0.02
        gaussian = dp.account(dp.Gaussian(4), notion="gaussian").group(size)
        assert gaussian.mu == pytest.approx(size / 4, rel=1e-14)
        assert gaussian.mu >= size / 4

    def test_a_group_of_two_is_a_gaussian_of_twice_the_shift(self):
        group = dp.account(dp.Gaussian(4), notion="gaussian").group(2)
        assert group.epsilon(DELTA) == pytest.approx(dp.account(dp.Gaussian(2)).epsilon(DELTA))

    def test_a_group_is_not_a_composition(self):
        group = dp.account(dp.Gaussian(4), notion="gaussian").group(9)
        assert group.epsilon(DELTA) > 2 * dp.account(dp.repeat(dp.Gaussian(4), 9)).epsilon(DELTA)

    @pytest.mark.parametrize("notion", ["tightest", "approximate", "contour", "rdp"])
    @pytest.mark.parametrize(("size", "q", "sigma"), [(2, 0.1, 4.0), (3, 0.02, 1.0), (8, 0.3, 6.0)])
    def test_a_sampled_group_is_a_binomial_mixture(self, notion, size, q, sigma):
        """All k removed: sum_j Bin(j; k, q) N(j, s^2) against N(0, s^2), by a fine grid."""
        x = np.arange(-12 * sigma, size + 12 * sigma, sigma / 4000)
        log_p = np.logaddexp.reduce(
            [
                math.log(math.comb(size, j))
                + j * math.log(q)
                + (size - j) * math.log1p(-q)
                - 0.5 * ((x - j) / sigma) ** 2
                for j in range(size + 1)
            ]
        )
        log_q = -0.5 * (x / sigma) ** 2
        group = dp.account(sampled(dp.Gaussian(sigma), q), notion=notion).group(size)
        for epsilon in (0.0, 0.05, 0.3, 1.0):
            mass = np.exp(log_p) - np.exp(epsilon + log_q)
            truth = mass[mass > 0].sum() / 4000 / math.sqrt(2 * math.pi)
            assert group.delta(epsilon) >= truth * (1 - 1e-4)

    @pytest.mark.parametrize("size", [2, 3, 7])
    def test_pure_claims_cost_their_multiple(self, size):
        group = dp.account(dp.PureDP(0.5)).group(size)
        assert group.epsilon(0) == pytest.approx(0.5 * size, rel=1e-14)
        assert group.epsilon(0) >= 0.5 * size
        assert group.delta(0.5 * size) == 0
        approximate = dp.account(dp.ApproximateDP(0.5, delta=1e-9), notion="approximate")
        bound = 1e-9 * math.expm1(0.5 * size) / math.expm1(0.5)
        assert approximate.group(size).delta(0.5 * size) == pytest.approx(bound, rel=1e-9)

    @pytest.mark.parametrize("size", [2, 5])
    def test_the_profile_bound_is_above_the_closed_form(self, size):
        exact = dp.account(dp.Gaussian(4.0), notion="gaussian").group(size)
        bound = dp.account(dp.Gaussian(4.0), notion="contour").group(size)
        for epsilon in (0.0, 0.5, 2.0):
            assert exact.delta(epsilon) <= bound.delta(epsilon)
        assert dp.account(dp.Gaussian(4.0)).group(size).epsilon(1e-6) == exact.epsilon(1e-6)

    @pytest.mark.parametrize(("q", "sigma", "size"), [(0.01, 1.0, 10), (1e-3, 0.5, 10)])
    def test_a_group_without_a_bound_is_answered_soon(self, q, sigma, size):
        """Log delta of one record is bounded by a line that no e^((k - 1) x) term meets."""
        plan = dp.repeat(sampled(dp.Gaussian(sigma), q), 1000)
        with counted() as work:
            found = dp.account(plan, notion="contour").group(size).epsilon(1e-6)
        assert found == math.inf
        assert work.lines < 100

    def test_group_curves_do_not_compose(self):
        group = dp.account(sampled(dp.Gaussian(4), 0.1)).group(2)
        for compose in (lambda: group + group, lambda: 3 * group):
            with pytest.raises(dp.UnsupportedMechanism, match="Account for the whole plan"):
                compose()
        assert dp.account(dp.PureDP(1.0)).group(1).epsilon(0) == 1
