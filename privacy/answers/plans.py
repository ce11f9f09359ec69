"""Account for a plan, and compare it with its budget."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import privacy as dp
from privacy import checks
from privacy.accounting import NOTION_MODULES
from privacy.answers.records import Record, record
from privacy.guarantees import Guarantee
from privacy.mechanisms import Mechanism
from privacy.notions.zcdp import ZeroConcentratedCurve


def account_plan(plan: Mapping[str, Any] | dp.Plan, *, delta: float | None = None) -> Record:
    """Account for a plan by every accounting method, and for each part alone by the tightest.

    `plan` is a plan, or a mapping that `privacy.plan_from_json` reads; `delta` replaces its own.
    Raises `UnsupportedMechanism` if no accounting method supports the plan or one of its parts.
    """
    plan = _checked(plan)
    if delta is not None:
        plan = replace(plan, delta=delta)
    tightest = dp.account(plan.mechanism, relation=plan.relation).guarantee(delta=plan.delta)
    whole = [_by(notion, plan, tightest) for notion in NOTION_MODULES]

    @cache  # plans often have many equal parts
    def alone(part: Mechanism) -> Record:
        found = dp.account(part, relation=plan.relation).guarantee(delta=plan.delta)
        return {**_row(found), "rho": _rho(part, plan)}

    found = {"name": plan.name, "epsilon": tightest.epsilon, "delta": plan.delta, **_whose(plan)}
    found |= {"notion": tightest.notion, "order": tightest.order, "rho": _rho(plan.mechanism, plan)}
    found["notions"] = [_row(each) for each in whole if each is not None]
    found["parts"] = [{"name": name, **alone(part)} for name, part in plan.parts]
    return record("account", found)


def check_plan(
    plan: Mapping[str, Any] | dp.Plan, *, ledger: dp.Ledger | None = None, budget: str | None = None
) -> Record:
    """Check whether a plan fits its budget (``fits`` in the returned dict).

    `plan` is as in `account_plan`, with an epsilon. With a `ledger`, the plan is checked against
    its budget named `budget` and the parents instead.
    """
    plan = _checked(plan)
    if ledger is not None:
        checked = ledger.check(plan, budget=budget)
        verdict: Record = {"name": plan.name, "fits": all(row["fits"] for row in checked)}
        return record("check", {**verdict, **_whose(plan), "budgets": checked})
    if plan.epsilon is None:
        remedy = "Add the epsilon of the budget under [budget], such as epsilon = 1.0."
        raise ValueError(checks.expected("budget.epsilon", None, "given", remedy))
    curve = dp.account(plan.mechanism, notion=plan.notion, relation=plan.relation)
    found = curve.guarantee(delta=plan.delta)
    # Noise calibrated to the budget can exceed it by the root finder's last digits.
    if found.epsilon > plan.epsilon and curve.delta(plan.epsilon) <= plan.delta:
        found = replace(found, epsilon=plan.epsilon)
    verdict = {"name": plan.name, "fits": found.epsilon <= plan.epsilon, "epsilon": found.epsilon}
    verdict |= {"target_epsilon": plan.epsilon, "delta": plan.delta, **_whose(plan)}
    return record("check", verdict | {"notion": found.notion, "order": found.order})


def _whose(plan: dp.Plan) -> Record:
    return {"relation": str(plan.relation), "unit": plan.unit}


def _checked(plan: Mapping[str, Any] | dp.Plan) -> dp.Plan:
    return plan if isinstance(plan, dp.Plan) else dp.plan_from_json(plan)


def _by(notion: Any, plan: dp.Plan, tightest: Guarantee) -> Guarantee | None:
    """Return the plan's guarantee by one accounting method; None if it has no rule for the plan."""
    if notion == tightest.notion:
        return tightest
    try:
        curve = dp.account(plan.mechanism, notion=notion, relation=plan.relation)
        return curve.guarantee(delta=plan.delta)
    except dp.UnsupportedMechanism:
        return None


def _row(found: Guarantee) -> Record:
    return {"epsilon": found.epsilon, "notion": found.notion, "order": found.order}


def _rho(mechanism: Mechanism, plan: dp.Plan) -> float | None:
    """Return rho of zCDP, which adds up under composition; None if no rule gives one."""
    try:
        curve = dp.account(mechanism, notion="zcdp", relation=plan.relation)
    except dp.UnsupportedMechanism:
        return None
    assert isinstance(curve, ZeroConcentratedCurve)
    return curve.rho
