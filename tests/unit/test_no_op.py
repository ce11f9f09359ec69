"""The identity of composition: a mechanism that reads no record."""

import json

import pytest

import privacy as dp
from privacy.accounting import NOTION_MODULES
from privacy.mechanisms import NoOp
from tests.laws.strategies import ADD_OR_REMOVE_ONE, REPLACE_ONE

NOTIONS = ("tightest", *NOTION_MODULES)
MECHANISMS = [
    dp.Gaussian(2.0),
    dp.compose(dp.Gaussian(3.0), dp.PureDP(0.1)),
    dp.repeat(dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.1), 7),
    dp.ZeroConcentratedDP(0.2),
    dp.parallel(dp.Gaussian(1.0), dp.Laplace(2.0)),
]
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)


@pytest.mark.parametrize("relation", dp.NeighboringRelation)
@pytest.mark.parametrize("notion", NOTIONS)
def test_no_op_has_zero_epsilon_and_delta(notion, relation):
    curve = dp.account(dp.no_op(), notion=notion, relation=relation)
    for several in (curve, 5 * curve, curve + curve, curve.worst_of(curve), curve.group(3)):
        assert several.epsilon(0) == several.epsilon(1e-9) == 0
        assert several.delta(0) == several.delta(1.0) == 0
    assert curve.guarantee(delta=0).epsilon == 0


@each
def test_no_op_is_the_identity_of_composition(mechanism):
    assert dp.compose(mechanism, dp.no_op()) == dp.compose(dp.no_op(), mechanism) == mechanism
    assert dp.compose(dp.no_op()) == dp.compose(dp.no_op(), dp.no_op()) == dp.no_op()
    assert dp.repeat(mechanism, 0) == dp.repeat(mechanism, 0.0) == dp.no_op()
    assert dp.repeat(dp.no_op(), 9) == dp.no_op()
    assert dp.PoissonSampled(dp.no_op(), sampling_probability=0.1) == dp.no_op()
    assert dp.user_level(dp.no_op(), max_contributions=4) == dp.no_op()


@pytest.mark.parametrize("notion", NOTIONS)
@each
def test_no_op_adds_zero_to_a_curve(mechanism, notion):
    try:
        curve = dp.account(mechanism, notion=notion)
    except dp.UnsupportedMechanism:
        return
    try:
        both = curve + dp.account(dp.no_op(), notion=notion)
    except dp.UnsupportedMechanism:
        assert isinstance(mechanism, type(MECHANISMS[-1]))  # different cells do not compose
        return
    assert both.epsilon(1e-5) == pytest.approx(curve.epsilon(1e-5), rel=1e-9)
    assert both.delta(0.5) == pytest.approx(curve.delta(0.5), rel=1e-9)


@pytest.mark.parametrize("cells", ["by_record", "by_public_index"])
@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_ONE])
def test_no_op_in_a_cell(cells, relation):
    both = dp.parallel(dp.Gaussian(2.0), dp.no_op(), cells=cells)
    one = dp.account(dp.Gaussian(2.0), relation=relation)
    assert dp.account(both, relation=relation).epsilon(1e-5) == one.epsilon(1e-5)


def test_json_and_registry():
    form = dp.no_op().to_json()
    assert form == {"type": "NoOp"}
    assert dp.mechanism_from_json(json.loads(json.dumps(form))) == dp.no_op() == NoOp()
    assert dp.mechanism_from_json({"type": "Nothing"}) == dp.no_op()  # the old name
    assert "NoOp" in dp.support_matrix()


@pytest.mark.parametrize("notion", ["zcdp", "gaussian", "rdp", "approximate"])
def test_a_budget_before_the_first_step(notion):
    order = {"order": 8} if notion == "rdp" else {}
    budget = dp.Budget(epsilon=2, delta=1e-5, notion=notion, **order)
    assert set(budget.spent) == {0.0}
    assert budget.spend(dp.no_op()) == budget
    assert set(budget.cost(dp.no_op())) == {0.0}


@pytest.mark.parametrize("notion", ["rdp", "approximate"])
def test_an_odometer_before_the_first_step(notion):
    odometer = dp.Odometer(delta=1e-6, notion=notion)
    assert odometer.epsilon == odometer.spend(dp.no_op()).epsilon == 0
    assert odometer.guarantee().epsilon == 0


def test_a_plan_names_what_ran():
    """An empty plan is refused as a mistake; one part may be nothing."""
    with pytest.raises(ValueError, match="at least one part"):
        dp.Plan("idle", (), delta=1e-6)
    with pytest.raises(ValueError, match=r"no_op\(\)"):
        dp.compose()
    plan = dp.Plan("idle", (("before the first step", dp.no_op()),), delta=1e-6)
    assert dp.account(plan.mechanism).epsilon(plan.delta) == 0
    assert dp.plan_from_json(plan.to_json()) == plan
