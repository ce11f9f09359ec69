"""The smallest bound over all methods: loose corners, parallel cells, plans in two groups."""

import math

import numpy as np
import pytest

import privacy as dp
from privacy.accounting import TightestCurve
from privacy.losses import quadrature
from privacy.losses.claims import ClaimPair
from privacy.losses.gaussian import GaussianPair
from privacy.losses.laplace import LaplacePair
from privacy.losses.similar import blended, dominates, fewer_parts
from privacy.notions import few_steps
from privacy.notions.loss_sums import LossSum
from privacy.numerics.solve import golden


def sampled(sigma, q, steps, records=1):
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    return dp.repeat(dp.user_level(step, max_contributions=records), steps)


def public(*cells):
    return dp.parallel(*cells, cells="by_public_index")


class TestLowNoise:
    """The limits are pessimistic answers of dp-accounting's PLD, rounded up.

    Its optimistic answers, the lower limits, use intervals of 1e-3 to 1e-1.
    """

    @pytest.mark.parametrize(
        ("sigma", "q", "steps", "low", "high"),
        [
            (0.15, 0.01, 100, 145.736, 146.7),
            (0.10, 0.01, 100, 353.200, 354.21),
            (0.05, 0.01, 100, 1460.09, 1464),
            (0.02, 0.01, 100, 8960.3, 8969.0),
            (0.17, 0.001, 10, 29.231, 29.2405),
        ],
    )
    def test_epsilon(self, sigma, q, steps, low, high):
        assert low < dp.account(sampled(sigma, q, steps)).epsilon(1e-5) <= high

    def test_less_noise_costs_more(self):
        noise = (0.19, 0.18, 0.17, 0.16)
        found = [dp.account(sampled(sigma, 0.001, 10)).epsilon(1e-5) for sigma in noise]
        assert found == sorted(found)


class TestFewSteps:
    """delta by mpmath: E_P delta_1(epsilon - L), with all places of rapid change as end points."""

    @pytest.mark.parametrize(
        ("sigma", "q", "records", "epsilon", "delta"),
        [
            (1.0, 1e-5, 1, 1.0, 5.524278278301372e-37),
            (2.0, 1e-3, 3, 1.0, 4.813990894429676e-36),
            (2.0, 1e-3, 3, 0.3, 1.3253163934966755e-23),
        ],
    )
    def test_two_steps(self, sigma, q, records, epsilon, delta):
        curve = dp.account(sampled(sigma, q, 2, records))
        found = curve.delta(epsilon)
        assert delta <= found <= delta * 1.001
        assert curve.epsilon(found) == pytest.approx(epsilon, rel=1e-3)

    @pytest.mark.parametrize(
        ("sigma", "q", "steps", "epsilon", "delta"),
        [
            (2.0, 1e-7, 5, 1e-3, 5.73776e-82),
            (1.0, 1e-5, 12, 1.0, 3.314618e-36),
            (1.0, 1e-7, 80, 0.1, 2.636738e-47),
        ],
    )
    def test_several_steps(self, sigma, q, steps, epsilon, delta):
        """By sums of positive masses on a fine grid, accurate to 1e-4."""
        curve = dp.account(sampled(sigma, q, steps))
        assert 0.9999 * delta <= curve.delta(epsilon) <= 1.001 * delta
        assert curve.epsilon(delta) == pytest.approx(epsilon, rel=1e-4)

    def test_epsilon_of_an_extreme_delta(self):
        """A first bound on epsilon may be so large that no loss counts there."""
        assert dp.account(sampled(2.0, 8.53e-4, 1262)).epsilon(5.86e-27) < 0.185
        assert dp.account(sampled(1.0, 1e-5, 6)).epsilon(1e-24) < 0.12023

    @pytest.mark.parametrize(("records", "direct"), [(63, True), (80, False)])
    def test_a_large_group_is_not_summed_directly(self, records, direct):
        pair = sampled(40.0, 1e-4, 1, records).loss(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
        assert few_steps.supports(LossSum(((pair.model, 2),), 0.0, "remove")) == direct

    def test_a_level_too_large_for_floats_is_no_bound(self):
        curve = dp.account(sampled(0.17987987513153889, 4.732080923774401e-06, 158))
        assert 0 <= curve.epsilon(math.exp(-7.214135929912853)) < 0.0024

    def test_more_steps_cost_more(self):
        found = [dp.account(sampled(1.0, 1e-5, steps)).delta(1.0) for steps in range(1, 6)]
        assert found == sorted(found)


class TestCells:
    @pytest.mark.parametrize(
        ("cells", "limit"),
        [
            ((sampled(1.0, 0.1, 50), sampled(1.0, 0.05, 50)), 5.1483),
            ((dp.repeat(dp.Laplace(5), 30), dp.repeat(dp.Laplace(6), 30)), 4.393),
            ((sampled(1.0, 0.02, 300), sampled(0.8, 0.005, 500)), math.inf),
            ((dp.repeat(dp.PureDP(0.1), 20), dp.repeat(dp.Gaussian(4.0), 3)), math.inf),
        ],
    )
    def test_cost_the_larger_of_both(self, cells, limit):
        worst = max(dp.account(cell).epsilon(1e-5) for cell in cells)
        # each method has its own error bound: the contour 1e-9, the grid of losses 1e-5 of delta
        assert dp.account(public(*cells)).epsilon(1e-5) == pytest.approx(worst, rel=1e-7)
        assert dp.account(dp.parallel(*cells)).epsilon(1e-5) == pytest.approx(worst, rel=1e-7)
        assert worst <= limit

    def test_a_dominated_cell_changes_nothing_inside_a_composition(self):
        first, second = (
            dp.PoissonSampled(dp.Gaussian(s), sampling_probability=0.1) for s in (1, 2)
        )
        both = dp.compose(dp.repeat(public(first, second), 9), dp.PureDP(0.1))
        one = dp.compose(dp.repeat(first, 9), dp.PureDP(0.1))
        assert dp.account(both).epsilon(1e-5) == dp.account(one).epsilon(1e-5)

    @pytest.mark.parametrize("cells", ["by_record", "by_public_index"])
    @pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
    def test_bounded_losses_have_a_finite_epsilon_at_delta_0(self, relation, cells):
        replaced = relation is dp.NeighboringRelation.REPLACE_ONE
        for parts, loss in (
            ((dp.Laplace(2.0), dp.Laplace(4.0)), 1.0 if replaced else 0.5),
            ((dp.repeat(dp.Laplace(4.0), 3), dp.DiscreteLaplace(2.0)), 1.5 if replaced else 0.75),
        ):
            cells_alone = dp.parallel(*parts, cells=cells)
            beside = dp.compose(cells_alone, dp.PureDP(0.0625, relation=relation))
            for more, plan in ((0.0, cells_alone), (0.0625, beside)):
                found = dp.account(plan, relation=relation)
                assert found.epsilon(0) == pytest.approx(loss + more, rel=1e-14)
                assert found.epsilon(1e-6) <= loss + more

    def test_a_replaced_record_that_moves_changes_both_cells(self):
        relation = dp.NeighboringRelation.REPLACE_ONE
        cells = [dp.repeat(dp.Laplace(10.0, replace_distance=1.0), 20)] * 2
        moved = dp.account(dp.repeat(dp.Laplace(10.0), 40)).epsilon(1e-6)
        found = dp.account(dp.parallel(*cells), relation=relation)
        assert found.epsilon(1e-6) == pytest.approx(moved, rel=1e-6)

    def test_domination(self):
        assert dominates(LaplacePair(2.0), LaplacePair(1.0))
        assert not dominates(LaplacePair(1.0), LaplacePair(2.0))
        rare, often = LaplacePair(2.0).sampled(0.1), LaplacePair(1.0).sampled(0.2)
        assert not dominates(rare, often)
        assert not dominates(often, rare)


class TestSplits:
    @pytest.mark.parametrize(
        "moments", [dp.ZeroConcentratedDP(0.01), dp.repeat(dp.ZeroConcentratedDP(1e-4), 30)]
    )
    @pytest.mark.parametrize(
        "pairs",
        [
            dp.ApproximateDP(0.5, 1e-6),
            dp.ApproximateDP(0.5, 9.9e-6),
            dp.compose(dp.PureDP(0.1), dp.ApproximateDP(0.2, 1e-7), sampled(1.1, 0.01, 500)),
            dp.Gaussian(1.0),
        ],
    )
    def test_splits_are_never_worse_than_basic_composition_on_a_grid(self, moments, pairs):
        plan, delta = dp.account(dp.compose(moments, pairs)), 1e-5
        one, other = dp.account(moments), dp.account(pairs)
        shares = [1e-4, 1e-3, 5e-3, *(0.05 * k for k in range(1, 20)), 0.999]
        best = min(
            one.epsilon(share * delta) + other.epsilon((1 - share) * delta) for share in shares
        )
        found = plan.guarantee(delta=delta)
        assert found.epsilon <= best * (1 + 1e-6)
        assert plan.delta(found.epsilon) <= delta * 1.01
        # valid: at least the cost of the group with a known pair
        assert found.epsilon >= other.epsilon(delta)

    def test_a_split_needs_few_queries(self, monkeypatch):
        asked = []
        for name in ("_at_delta", "_at_epsilon"):
            query = getattr(TightestCurve, name)

            def counted(curve, level, *args, query=query):
                if curve.whole:
                    asked.append(level)
                return query(curve, level, *args)

            monkeypatch.setattr(TightestCurve, name, counted)
        noise = sampled(1.1, 0.01, 500)
        plan = dp.account(
            dp.compose(dp.ZeroConcentratedDP(0.01), dp.ApproximateDP(0.2, 1e-7), noise)
        )
        epsilon = plan.epsilon(1e-5)
        assert 0 < len(asked) <= 80
        asked.clear()
        plan.delta(epsilon)
        assert 0 < len(asked) <= 160

    def test_splits_name_their_methods_and_deltas(self):
        plan = dp.compose(dp.ZeroConcentratedDP(0.01), dp.ApproximateDP(0.5, 1e-6))
        found = dp.account(plan).guarantee(delta=1e-5)
        assert found.notion == "split"
        assert "by approximate and zcdp, at delta = 1e-06 and 9e-06" in found.theorem
        assert "by split" in str(found)

    def test_splits_are_not_used_if_one_method_is_exact(self):
        curve = dp.account(dp.compose(dp.PureDP(0.1), sampled(1.0, 0.01, 100)))
        curve.epsilon(1e-5)
        assert "others" not in vars(curve)

    def test_two_equal_zcdp_parts_are_not_split(self):
        curve = dp.account(dp.compose(dp.ZeroConcentratedDP(0.1), dp.ZeroConcentratedDP(0.2)))
        assert curve.guarantee(delta=1e-5).notion == "zcdp"


def test_never_above_the_answer_without_sampling():
    for q in (0.5, 1 - 1e-9, math.nextafter(1, 0)):
        for dense in (dp.Gaussian(0.3), dp.Laplace(0.5), dp.PureDP(1.0), dp.ApproximateDP(1, 1e-9)):
            rare = dp.PoissonSampled(dense, sampling_probability=q)
            one, other = dp.account(dp.repeat(rare, 5)), dp.account(dp.repeat(dense, 5))
            assert one.epsilon(1e-6) <= other.epsilon(1e-6) * (1 + 1e-9)
            assert one.delta(1.0) <= other.delta(1.0) * (1 + 1e-9)


def test_golden_section():
    assert golden(lambda x: (x - 2) ** 2, -1.0, 7.0, 35) == pytest.approx(2, abs=1e-6)


def test_an_approximate_filter_takes_sampled_claims():
    rare = dp.PoissonSampled(dp.ApproximateDP(0.5, 1e-6), sampling_probability=0.1)
    budget = dp.Budget(epsilon=1, delta=1e-6, notion="approximate")
    epsilon, delta = budget.cost(rare)
    assert math.log1p(0.1 * math.expm1(0.5)) <= epsilon <= 0.0628547234737306
    assert 1e-7 <= delta <= math.nextafter(1e-7, 1)
    for _ in range(10):
        budget = budget.spend(rare)
    assert not budget.fits(rare)  # ten tenths of the delta are spent exactly
    zeroed = {"relation": "REPLACE_SPECIAL"}
    other = dp.PoissonSampled(dp.ApproximateDP(0.5, 1e-6, **zeroed), sampling_probability=0.1)
    budget = dp.Budget(epsilon=1, delta=1e-6, notion="approximate", **zeroed)
    with pytest.raises(dp.UnsupportedMechanism, match="supported under ADD_OR_REMOVE_ONE"):
        budget.cost(other)


def test_thousands_of_similar_parts_need_no_moment_bound():
    plan = dp.compose(*(sampled(1 + k / 1300, 0.01, 1) for k in range(1300)))
    curve = dp.account(plan)
    assert [member.notion for member in curve.members] == ["contour"]
    assert curve.epsilon(1e-5) < dp.account(plan, notion="rdp").epsilon(1e-5)
    # parts whose sampling probabilities differ much are replaced by much worse ones
    wide = dp.compose(*(sampled(1.0 + k / 1300, 10 ** (-3 * k / 1300), 1) for k in range(1, 1300)))
    assert "rdp" in [member.notion for member in dp.account(wide).members]


def test_methods_are_skipped_where_their_lower_bounds_exceed_the_answer(monkeypatch):
    monkeypatch.setattr("privacy.notions.contour._LOWER", 1200)  # as if there were more parts
    parts = [sampled(0.8 + k / 2600, 0.01 * (1 + k / 2600), 1) for k in range(1300)]
    plan = dp.compose(dp.Gaussian(30.0), *parts)
    curve = dp.account(plan)
    moments, dense = curve.first[0].below
    whole = dp.account(plan, notion="rdp")
    unsampled = dp.account(dp.compose(dp.Gaussian(30.0), *(part.mechanism for part in parts)))
    assert 0.97 * whole.epsilon(1e-5) < moments.epsilon(1e-5) <= whole.epsilon(1e-5)
    assert moments.delta(2.0) <= whole.delta(2.0)
    assert dense.epsilon(1e-5) <= unsampled.epsilon(1e-5)
    with monkeypatch.context() as patch:
        patch.setattr("privacy.accounting.TightestCurve._moments", None)
        patch.setattr("privacy.accounting.TightestCurve.others", None)
        found = curve.answer(delta=1e-5), curve.answer(epsilon=2.0)
    asked = dp.account(plan, notion="contour")
    assert found[0].value == min(asked.epsilon(1e-5), whole.epsilon(1e-5))
    assert found[1].value == min(asked.delta(2.0), whole.delta(2.0))


@pytest.mark.parametrize("part", [dp.PureDP, lambda level: dp.Laplace(1 / level)])
def test_many_different_parts_beside_noise(part):
    parts = [part(0.01 * (1 + k / 60)) for k in range(60)]
    plan = dp.compose(dp.Gaussian(20.0), *parts)
    found = dp.account(plan, notion="contour").epsilon(1e-6)
    peer = dp.account(plan, notion="pld").epsilon(1e-6)
    assert found <= peer <= found * (1 + 1e-4)


@pytest.mark.parametrize(
    "pairs",
    [
        [LaplacePair(0.5 + 0.01 * k) for k in range(100)],
        [LaplacePair(0.5 + 0.01 * k).sampled(0.2) for k in range(100)],
        [LaplacePair(1.5).sampled(0.1 + 0.008 * k) for k in range(100)],
        [GaussianPair(0.25 + 0.02 * k).sampled(0.3) for k in range(100)],
        [GaussianPair(2.0).sampled(0.1 + 0.008 * k) for k in range(100)],
        [ClaimPair(0.2 + 0.02 * k, categories=3) for k in range(100)],
    ],
)
def test_mixtures_of_two_pairs_dominate_those_between(pairs):
    left, (blend,) = blended(tuple((pair, 1) for pair in pairs), 5)
    assert not left
    assert len(blend.nodes) < 15
    for pair, k, share in zip(pairs, blend.cell, blend.share, strict=True):
        for epsilon in np.linspace(0.0, 3.0, 31):
            exact, low, high = (
                math.exp(one.profile.log_delta(epsilon))
                for one in (pair, blend.nodes[k], blend.nodes[k + 1])
            )
            assert exact <= (low + share * (high - low)) * (1 + 1e-12)


def test_mixtures_of_pairs_whose_distance_underflows_are_of_the_worse_one():
    pairs = [LaplacePair(1e-200 * (1 + 0.1 * k)).sampled(1e-200) for k in range(100)]
    _, (blend,) = blended(tuple((pair, 1) for pair in pairs), 5)
    assert (blend.share == 1).all()


@pytest.mark.parametrize("make", [lambda x: dp.Laplace(5 * x), lambda x: dp.PureDP(0.2 * x)])
def test_merged_parts_are_tight(make):
    """The contour integral of noise without atoms beside them has no merged parts."""
    noise = dp.Gaussian(1.0)
    plan = dp.compose(noise, *(make(1 + k / 250) for k in range(250)))
    exact = dp.account(plan, notion="contour").epsilon(1e-6)
    merged = dp.account(plan, notion="pld").epsilon(1e-6)
    assert exact * (1 - 1e-9) <= merged <= exact * (1 + 1e-4)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE"])
@pytest.mark.parametrize(("noise", "rate"), [(1e-3, 0.0), (0.0, 2e-6), (1e-3, 2e-6)])
def test_similar_parts_evaluated_together_are_those_evaluated_alone(
    noise, rate, relation, monkeypatch
):
    steps = (sampled(1.1 + noise * k, 0.01 + rate * k, 1 + 50 * k) for k in range(8))
    plan = dp.compose(dp.Gaussian(5.0), *steps)
    answers = []
    for most, largest in ((quadrature._ROWS, 8), (1, 1)):
        monkeypatch.setattr(quadrature, "_ROWS", most)
        curve = dp.account(plan, notion="contour", relation=dp.NeighboringRelation[relation])
        answers.append(curve.answer(delta=1e-7))
        assert max(stack.size for stack in curve._whole[0].stacks(16.0)) == largest
    together, alone = answers
    assert together.value == pytest.approx(alone.value, rel=1e-12)
    assert together.error < 2 * alone.error < 1e-9


def test_different_pairs_with_the_same_model():
    """Noises that differ by an ulp: 1 / sigma differs, 1 / (1 / sigma) does not."""
    steps = [sampled(noise, 0.01, 1) for noise in (1.147, math.nextafter(1.147, 2))]
    one, other = (step.loss(dp.NeighboringRelation.ADD_OR_REMOVE_ONE) for step in steps)
    assert one != other
    assert one.model == other.model
    found = dp.account(dp.compose(*(dp.repeat(step, 10) for step in steps)), notion="contour")
    expected = dp.account(dp.repeat(steps[0], 20), notion="contour").epsilon(1e-6)
    assert found.epsilon(1e-6) == pytest.approx(expected, rel=1e-12)


def test_fewer_parts_lose_at_least_as_much():
    parts = tuple((LaplacePair(0.01 * 1.1**k), 1 + k % 3) for k in range(100))
    upper, lower = (fewer_parts(parts, 20, upper=way)[0] for way in (True, False))
    assert sum(n for _, n in upper) == sum(n for _, n in lower) == sum(n for _, n in parts)
    assert 10 <= len(upper) <= 40
    each, above, below = (
        sorted(pair.distance for pair, n in some for _ in range(n))
        for some in (parts, upper, lower)
    )
    assert all(a <= b <= c for a, b, c in zip(below, each, above, strict=True))


@pytest.mark.parametrize("extreme", [ClaimPair(0.0), LaplacePair(math.inf)])
def test_fewer_parts_keep_all_releases(extreme):
    """Also if their number exceeds 2^64, or if a parameter is 0 or infinite."""
    parts = [(type(extreme)(0.01 * 1.1**k), 2**63) for k in range(100)]
    for upper in (True, False):
        found, _ = fewer_parts(((extreme, 2**63), *parts), 20, upper=upper)
        assert sum(n for _, n in found) == 101 * 2**63
        assert 10 <= len(found) <= 40
