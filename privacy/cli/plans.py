"""`dpcalib account` and `dpcalib check`: account for a plan and compare it with its budget."""

import json
from pathlib import Path

import click

import privacy as dp
from privacy.answers.options import Asked
from privacy.answers.plans import account_plan, check_plan
from privacy.answers.records import Record
from privacy.budget._measures import shown
from privacy.cli import options, output
from privacy.cli.help import READ, Command
from privacy.cli.ledger import ledger_refusals, safe
from privacy.cli.questions import INFEASIBLE, JSON, Question, refusals

_FILE = click.Argument(["file"], metavar="PLAN", type=READ)
_FILES = click.Argument(["files"], metavar="PLAN...", type=READ, nargs=-1, required=True)


def _account(*, file: Path, delta: float | None, as_json: bool) -> None:
    """Show the guarantee of a plan and its parts.

    Print the epsilon of the plan by each accounting method, and that of each part by the tightest
    one. PLAN is a TOML file. Without --delta, delta is that of the plan's budget.
    """
    with refusals():
        answer = account_plan(dp.load_plan(file), delta=delta)
    output.reply(answer, _show, as_json=as_json)


def _show(answer: Record) -> None:
    output.table(answer)
    for table in tables(answer):
        click.echo()
        output.columns(*table)


def tables(answer: Record) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Return the title, the header and the rows of the tables of accounting methods and parts."""
    notions: list[tuple[str, ...]] = []
    for row in answer["notions"]:
        mark = "tightest" * (row["notion"] == answer["notion"])
        notions.append((row["notion"], output.shown("epsilon", row["epsilon"]), mark))
    head = ("name", "epsilon", "notion", *(["rho"] if answer["rho"] is not None else []))
    parts = [tuple(output.shown(key, row[key]) for key in head) for row in answer["parts"]]
    return [
        ("composed plan", ("notion", "epsilon", ""), notions),
        ("each part alone", ("part", *head[1:]), parts),
    ]


def _check(
    *, files: tuple[Path, ...], as_json: bool, ledger: str | None, budget: str | None
) -> None:
    """Check whether each plan fits its budget.

    With --ledger, check whether one plan fits the remaining budget. The exit code is 0 if all fit
    and 3 if not. PLAN is a TOML file; without --ledger, its budget needs an epsilon.
    """
    if ledger is not None and len(files) > 1:
        raise click.UsageError("Pass one plan with --ledger: several may not fit together.")
    fits = True
    for file in files:
        with ledger_refusals():
            opened = None if ledger is None else dp.Ledger(ledger)
            answer = check_plan(dp.load_plan(file), ledger=opened, budget=budget)
        words = (_summary if ledger is None else _ledger_summary)(answer)
        if len(files) > 1:
            words = f"{file}: {words}"
        click.echo(output.to_json(answer) if as_json else output.filled(words, output.width()))
        fits &= answer["fits"]
    if not fits:
        click.get_current_context().exit(INFEASIBLE)


def _summary(answer: Record) -> str:
    verdict = "Within" if answer["fits"] else "Over"
    spent = output.shown("epsilon", answer["epsilon"])
    return (
        f"{verdict} budget: spent epsilon={spent}, "
        f"allowed epsilon={answer['target_epsilon']:.15g}, at delta={answer['delta']:.15g} "
        f"for {answer['unit']} under {answer['relation']}. "
        f"Accounting method: {answer['notion']}."
    )


def _ledger_summary(answer: Record) -> str:
    lines = [f"{'Within' if answer['fits'] else 'Over'} budget:"]
    for row in answer["budgets"]:
        costs = f"{row['measure']} {shown(row['asked'])}"
        left = "an odometer" if row["left"] is None else f"{shown(row['left'], up=False)} is left"
        lines.append(f"- {safe(row['budget'])}: costs {costs}, {left}")
    return "\n".join(lines)


_OWN = [_FILE, options.OPTIONS["delta"], JSON]
account = Question("account", params=_OWN, callback=_account, help=_account.__doc__)
account.asked = Asked(needs=("plan",), takes=("delta",))
_LEDGER = click.Option(["--ledger"], metavar="LEDGER", help="File or URL of a ledger.")
_BUDGET = click.Option(["--budget"], help="Name of the budget in the ledger.")
_OWN = [_FILES, _LEDGER, _BUDGET, JSON]
check = Command("check", params=_OWN, callback=_check, help=_check.__doc__)


@click.command(cls=Command)
def schema() -> None:
    """Print the JSON Schema of plan files."""
    click.echo(json.dumps(dp.plan_schema(), indent=1))
