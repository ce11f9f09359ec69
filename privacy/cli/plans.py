"""`dpcalib account` and `dpcalib check`: what a plan spends, and whether it fits its budget."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

import privacy as dp
from privacy import checks
from privacy.accounting import NOTION_MODULES
from privacy.cli import options, output
from privacy.cli.help import Command
from privacy.cli.output import Record
from privacy.cli.questions import INFEASIBLE, JSON, refusals
from privacy.guarantees import Guarantee
from privacy.mechanisms import Mechanism
from privacy.notions.zcdp import ZeroConcentratedCurve
from privacy.numerics.display import rounded

_FILE = click.Argument(
    ["file"], metavar="PLAN", type=click.Path(exists=True, dir_okay=False, path_type=Path)
)


def _account(*, file: Path, delta: float | None, as_json: bool) -> None:
    """Show what a plan guarantees, and its parts.

    The whole is accounted by every notion, each part alone by the tightest. PLAN is a TOML
    file. The delta is that of its budget unless --delta is given.
    """
    with refusals():
        plan = dp.load_plan(file)
        if delta is not None:
            plan = replace(plan, delta=delta)
        answer = _accounted(plan)
    if as_json:
        click.echo(output.to_json(answer))
    else:
        _show(answer)


def _accounted(plan: dp.Plan) -> Record:
    curve = dp.account(plan.mechanism, relation=plan.relation)
    tightest = curve.guarantee(delta=plan.delta)
    whole = [_by(notion, plan, tightest) for notion in NOTION_MODULES]
    alone = {
        name: dp.account(part, relation=plan.relation).guarantee(delta=plan.delta)
        for name, part in plan.parts
    }
    return output.record(
        "account",
        {
            "name": plan.name,
            "epsilon": tightest.epsilon,
            "delta": plan.delta,
            "relation": str(plan.relation),
            "unit": plan.unit,
            "notion": tightest.notion,
            "order": tightest.order,
            "rho": _rho(plan.mechanism, plan),
            "notions": [_row(found) for found in whole if found is not None],
            "parts": [
                {"name": name, **_row(alone[name]), "rho": _rho(part, plan)}
                for name, part in plan.parts
            ],
        },
    )


def _by(notion: Any, plan: dp.Plan, tightest: Guarantee) -> Guarantee | None:
    """Return the guarantee of the whole by one notion; None where that has no rule."""
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
    """Return the rho of zCDP, which adds up; None where no rule gives one."""
    try:
        curve = dp.account(mechanism, notion="zcdp", relation=plan.relation)
    except dp.UnsupportedMechanism:
        return None
    assert isinstance(curve, ZeroConcentratedCurve)
    return curve.rho


def _show(answer: Record) -> None:
    output.table(answer)
    click.echo()
    notions = [
        (row["notion"], rounded(row["epsilon"]), "tightest" * (row["notion"] == answer["notion"]))
        for row in answer["notions"]
    ]
    output.columns("all parts together", ("notion", "epsilon", ""), notions)
    click.echo()
    adds_up = ["rho"] if answer["rho"] is not None else []
    parts = [
        (
            row["name"],
            rounded(row["epsilon"]),
            row["notion"],
            *(rounded(row[key]) for key in adds_up),
        )
        for row in answer["parts"]
    ]
    output.columns("each part alone", ("part", "epsilon", "notion", *adds_up), parts)


def _check(*, file: Path, as_json: bool) -> None:
    """Say whether a plan fits its budget.

    The exit code is 0 if it does and 3 if not. PLAN is a TOML file whose budget has an epsilon.
    """
    with refusals():
        answer = _checked(dp.load_plan(file))
    told = output.to_json(answer) if as_json else output.filled(_told(answer), output.width())
    click.echo(told)
    if not answer["fits"]:
        click.get_current_context().exit(INFEASIBLE)


def _checked(plan: dp.Plan) -> Record:
    if plan.epsilon is None:
        remedy = "Write the epsilon that may be spent under [budget], such as epsilon = 1.0."
        raise ValueError(checks.expected("budget.epsilon", None, "given", remedy))
    curve = dp.account(plan.mechanism, notion=plan.notion, relation=plan.relation)
    found = curve.guarantee(delta=plan.delta)
    # noise that was calibrated to the budget may miss it by the last digits of a root
    if found.epsilon > plan.epsilon and curve.delta(plan.epsilon) <= plan.delta:
        found = replace(found, epsilon=plan.epsilon)
    return output.record(
        "check",
        {
            "name": plan.name,
            "fits": found.epsilon <= plan.epsilon,
            "epsilon": found.epsilon,
            "target_epsilon": plan.epsilon,
            "delta": plan.delta,
            "relation": str(plan.relation),
            "unit": plan.unit,
            "notion": found.notion,
            "order": found.order,
        },
    )


def _told(answer: Record) -> str:
    verdict = "Within" if answer["fits"] else "Over"
    return (
        f"{verdict} budget: spent epsilon={rounded(answer['epsilon'])}, "
        f"allowed epsilon={answer['target_epsilon']:.15g}, at delta={answer['delta']:.15g} "
        f"for {answer['unit']} under {answer['relation']}, by notion {answer['notion']}."
    )


account = Command(
    "account",
    params=[_FILE, options.OPTIONS["delta"], JSON],
    callback=_account,
    help=_account.__doc__,
)
check = Command("check", params=[_FILE, JSON], callback=_check, help=_check.__doc__)
