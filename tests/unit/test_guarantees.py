"""How guarantees print, and errors of curves."""

import dataclasses
import json
import math

import pytest

import privacy as dp

ADD = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
GAUSSIAN = dp.Gaussian(2)
RUN = dp.repeat(dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=0.02), 500)


class TestGuarantee:
    def test_str_is_one_complete_sentence(self):
        found = dp.account(GAUSSIAN).guarantee(delta=1e-5)
        assert str(found) == ("(1.9931, 1e-05)-DP, ADD_OR_REMOVE_ONE, by gaussian (an upper bound)")
        replaced = dp.account(GAUSSIAN, relation="REPLACE_ONE").guarantee(delta=1e-5)
        assert str(replaced).startswith("(4.3772, 1e-05)-DP, REPLACE_ONE")

    def test_carries_what_is_needed_to_read_it(self):
        found = dp.account(RUN, notion="rdp").guarantee(delta=1e-5)
        assert found.mechanism == RUN
        assert found.relation is ADD
        assert found.notion == "rdp"
        assert found.order > 1
        assert "Proposition 12" in found.theorem
        assert not found.certified
        at_order = dp.account(RUN, notion="rdp", orders=[found.order]).epsilon(1e-5)
        assert at_order == pytest.approx(found.epsilon, rel=1e-6)

    def test_either_question(self):
        curve = dp.account(GAUSSIAN)
        by_delta, by_epsilon = curve.guarantee(delta=1e-5), curve.guarantee(epsilon=1.0)
        assert (by_delta.epsilon, by_delta.delta) == (curve.epsilon(1e-5), 1e-5)
        assert (by_epsilon.epsilon, by_epsilon.delta) == (1.0, curve.delta(1.0))

    @pytest.mark.parametrize("mechanism", [GAUSSIAN, RUN, dp.PureDP(1)], ids=repr)
    def test_json(self, mechanism):
        found = dp.account(mechanism).guarantee(delta=1e-5)
        form = json.loads(json.dumps(found.to_json(), allow_nan=False))
        assert set(form) == {field.name for field in dataclasses.fields(found)}
        assert form["epsilon"] == found.epsilon
        assert form["relation"] == "ADD_OR_REMOVE_ONE"
        assert dp.mechanism_from_json(form["mechanism"]) == mechanism
        assert dp.account(dp.mechanism_from_json(form["mechanism"])).guarantee(delta=1e-5) == found

    def test_no_finite_epsilon(self):
        found = dp.account(GAUSSIAN).guarantee(delta=0)
        assert found.epsilon == math.inf
        form = json.loads(json.dumps(found.to_json(), allow_nan=False))
        assert form["epsilon"] == "inf"
        assert str(found).startswith("(inf, 0)-DP")

    def test_no_privacy_at_all(self):
        assert str(dp.Guarantee(math.inf, 1e-5, ADD, "none", theorem="seeded noise")) == (
            "no privacy: seeded noise"
        )

    def test_of_a_sum_names_the_composed_mechanism(self):
        both = dp.account(GAUSSIAN) + dp.account(dp.Laplace(1))
        assert both.guarantee(delta=1e-5).mechanism == dp.compose(GAUSSIAN, dp.Laplace(1))

    def test_of_a_sum_of_curves_has_no_mechanism(self):
        both = dp.account(GAUSSIAN, notion="zcdp") + dp.account(GAUSSIAN, notion="zcdp")
        found = both.guarantee(delta=1e-5)
        assert found.mechanism is None
        assert found.to_json()["mechanism"] is None

    @pytest.mark.parametrize(
        "epsilon",
        [
            1.00000000000001,
            1.00001,
            0.99999999,
            1.99305,
            123456.7,
            1e-9,
            9.99999e-9,
            5e-324,
            3e-320,
            1e-300,
            1.7e308,
            1e22,
        ],
    )
    def test_displayed_numbers_are_rounded_up(self, epsilon):
        found = dp.Guarantee(epsilon, epsilon if epsilon < 1 else 1e-5, ADD, "rdp")
        shown = str(found).partition(", ")[0].lstrip("(")
        assert float(shown) >= epsilon
        assert len(shown.partition("e")[0].replace(".", "").strip("0")) <= 5
        if epsilon > 1e-300:
            assert float(shown) <= epsilon * (1 + 2e-4)

    def test_a_tiny_delta_can_be_printed(self):
        found = dp.account(dp.Gaussian(1e300)).guarantee(epsilon=1.0)
        assert "e-324" in str(found)

    @pytest.mark.parametrize("notion", ["gaussian", "approximate", "zcdp", "rdp"])
    def test_an_infinite_answer_is_a_guarantee_too(self, notion):
        curve = dp.account(dp.Gaussian(1e-300), notion=notion)
        assert curve.guarantee(delta=1e-5).epsilon == math.inf
        assert curve.guarantee(epsilon=1.0).delta == 1


CURVES = {
    notion: dp.account(GAUSSIAN, notion=notion)
    for notion in ("tightest", "gaussian", "zcdp", "rdp")
} | {"approximate": dp.account(dp.PureDP(1), notion="approximate")}
each_curve = pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES.keys())


class TestCurves:
    @each_curve
    def test_notions_do_not_mix(self, curve):
        for other in CURVES.values():
            if other is not curve:
                for combine in (curve.__add__, curve.worst_of):
                    with pytest.raises(ValueError, match="Expected other="):
                        combine(other)

    @pytest.mark.parametrize("notion", ["tightest", "gaussian", "zcdp", "rdp"])
    def test_relations_do_not_mix(self, notion):
        one, other = (
            dp.account(GAUSSIAN, notion=notion, relation=relation)
            for relation in ("ADD_OR_REMOVE_ONE", "REPLACE_ONE")
        )
        for combine in (one.__add__, one.worst_of):
            with pytest.raises(ValueError, match=r"Expected other=.*ADD_OR_REMOVE_ONE"):
                combine(other)

    @each_curve
    def test_only_curves_add(self, curve):
        for other in (1, None, GAUSSIAN):
            with pytest.raises((TypeError, ValueError)):
                curve + other

    @each_curve
    def test_times_a_whole_number(self, curve):
        assert (3 * curve).epsilon(1e-5) == (curve * 3).epsilon(1e-5)
        assert (1 * curve).epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-12)
        for count in (0, -1, 1.5):
            with pytest.raises(ValueError, match="Expected count="):
                count * curve

    @each_curve
    def test_worst_of(self, curve):
        same = curve.worst_of(curve)
        assert same.epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-12)

    @each_curve
    def test_ends(self, curve):
        assert 0 < curve.delta(0) < 1
        assert curve.epsilon(0.999) == 0
        assert curve.relation is ADD

    def test_zero_epsilon_at_a_large_delta(self):
        assert dp.account(dp.Gaussian(1000)).epsilon(0.001) == 0
        step = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.00105)
        assert dp.account(step).epsilon(0.001) == 0

    def test_the_order_of_other_notions_is_none(self):
        assert dp.account(GAUSSIAN).guarantee(delta=1e-5).order is None
        assert dp.account(GAUSSIAN, notion="zcdp").guarantee(delta=1e-5).order > 1

    @pytest.mark.parametrize(
        ("delta", "epsilon"), [(1e-5, 1.9931), (0.1, 0.2865), (0.19741266, 0.0)]
    )
    def test_figures(self, delta, epsilon):
        assert round(dp.account(GAUSSIAN).epsilon(delta), 4) == epsilon

    @pytest.mark.parametrize("epsilon", [0.0, 0.3, 5.0])
    @pytest.mark.parametrize("delta", [0.3, 1e-6, 1e-300])
    def test_a_claim_uses_its_own_pair(self, epsilon, delta):
        curve = dp.account(dp.ApproximateDP(epsilon, delta))
        assert epsilon <= curve.epsilon(delta) <= epsilon * (1 + 1e-14)
        assert delta <= curve.delta(epsilon) <= delta * (1 + 1e-12)

    def test_group(self):
        assert dp.account(GAUSSIAN, notion="zcdp").group(3).rho == pytest.approx(9 / 8, rel=1e-14)
        assert dp.account(GAUSSIAN, notion="gaussian").group(3).mu == pytest.approx(1.5, rel=1e-14)
        assert dp.account(RUN, notion="rdp").group(3).epsilon(1e-6) > 3


def test_repr_of_a_curve_names_its_methods():
    curve = dp.account(GAUSSIAN, unit="one user")
    assert repr(curve) == (
        f"<curve of {GAUSSIAN!r} for one user, ADD_OR_REMOVE_ONE, by tightest: "
        "call .epsilon(delta), .delta(epsilon) or .guarantee(delta=)>"
    )
    zcdp = dp.account(GAUSSIAN, notion="zcdp")
    assert repr(zcdp + zcdp).startswith("<curve of several curves for one record, ADD_OR_REM")


def test_a_refusal_to_certify_names_the_notion_that_has_a_proof():
    pytest.importorskip("flint")
    mixed = dp.compose(RUN, dp.parallel(dp.Laplace(9.0), dp.Laplace(10.0)))
    with pytest.raises(dp.NotCertified, match="with notion='rdp'"):
        dp.account(mixed).guarantee(delta=1e-5, certify=True)
    assert dp.account(mixed, notion="rdp").guarantee(delta=1e-5, certify=True).certified
