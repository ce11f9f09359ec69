"""`dpcalib ledger`: budgets in a database that people and processes share."""

import csv
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

import privacy as dp
from privacy.answers.records import record
from privacy.cli import options, output
from privacy.cli.help import FILE, READ, Command
from privacy.cli.questions import JSON, refusals
from privacy.numerics.display import rounded

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_LEDGER = click.Argument(["url"], metavar="LEDGER")
_KEY = click.Argument(["key"])
_BUDGET = click.Option(["--budget"], help="Name of the budget.  [default: the only one]")
_SPENDER = click.Option(["--spender"], help="Name of the spender.  [default: the login name]")
_SPENT = [
    click.Option(["--label"], help="Purpose of the spend.  [default: the name of the plan]"),
    click.Option(["--plan"], type=READ, help="Spend all parts of a plan (TOML)."),
    click.Option(
        ["--mechanism"], help='Mechanism in JSON, such as {"type": "PureDP", "epsilon": 0.1}.'
    ),
    *(options.OPTIONS[name] for name in ("noise_multiplier", "sampling_probability", "steps")),
    _BUDGET,
    _SPENDER,
    click.Option(["--key"], help="Idempotency key: a retry with the same key spends once."),
    JSON,
]


@contextmanager
def ledger_refusals() -> Iterator[None]:
    """Print errors of a ledger as bad input."""
    with refusals():
        try:
            yield
        except (dp.LedgerError, ImportError) as error:
            raise ValueError(str(error)) from error


def _init(
    *,
    url: str,
    name: str,
    dataset: str,
    parent: str | None,
    odometer: bool,
    spender: str | None,
    **given: Any,
) -> None:
    """Create a ledger if there is none, and open a budget in it.

    LEDGER is a file, or a URL such as postgresql://user@host/database.
    """
    values = {key: value for key, value in given.items() if value is not None}
    with ledger_refusals():
        budget = dp.Odometer(**values) if odometer else dp.Budget(**values)
        try:
            ledger = dp.Ledger.create(url)
        except dp.LedgerError:
            ledger = dp.Ledger(url)
        ledger.using(spender=spender).open(name, budget, dataset=dataset, parent=parent)
    click.echo(f"Opened {name!r}: {budget.guarantee()}.")


def _mechanism(
    *, plan: Path | None, mechanism: str | None, noise_multiplier: float | None, **run: Any
) -> dp.Mechanism | dp.Plan:
    q, steps = run["sampling_probability"], run["steps"]
    ways = "--plan, --mechanism, --noise-multiplier"
    if sum(value is not None for value in (plan, mechanism, noise_multiplier)) != 1:
        raise ValueError(f"Expected one mechanism to spend. Pass one of {ways}.")
    if noise_multiplier is not None:
        gaussian = dp.Gaussian(noise_multiplier)
        once = gaussian if q is None else dp.PoissonSampled(gaussian, sampling_probability=q)
        return dp.repeat(once, 1 if steps is None else steps)
    if q is not None or steps is not None:
        raise ValueError("Remove -q and --steps: they belong to --noise-multiplier.")
    return dp.load_plan(plan) if plan else dp.mechanism_from_json(json.loads(mechanism or ""))


def _charge(kind: str, *, url: str, spender: str | None, as_json: bool, **given: Any) -> None:
    about = {name: given.pop(name) for name in ("label", "budget", "key")}
    with ledger_refusals():
        entry = getattr(dp.Ledger(url, spender=spender), kind)(_mechanism(**given), **about)
    names = ("sequence", "key", "budget", "label", "spender", "time", "is_new")
    if as_json:
        answer = record(f"ledger.{kind}", {name: getattr(entry, name) for name in names})
        click.echo(output.to_json(answer))
        return
    done = {"spend": "Spent", "reserve": "Reserved"}[kind]
    again = "" if entry.is_new else " earlier with this key (nothing is spent now)"
    click.echo(f"{done}{again}: entry {entry.sequence} of {safe(entry.budget)}, key {entry.key}")


def _spend(**given: Any) -> None:
    """Spend a mechanism before it reads the data.

    The exit code is 0 if it was spent, and 3 if it does not fit.
    """
    _charge("spend", **given)


def _reserve(**given: Any) -> None:
    """Reserve a mechanism; the reservation counts as spent.

    Commit or cancel it by its key. The exit code is 0 if it was reserved, and 3 if it does not fit.
    """
    _charge("reserve", **given)


def _commit(*, url: str, key: str, spender: str | None) -> None:
    """Commit a reservation, which makes the spend final."""
    with ledger_refusals():
        dp.Ledger(url, spender=spender).commit(key)
    click.echo(f"Committed {key}")


def _cancel(*, url: str, key: str, data_never_read: str, spender: str | None) -> None:
    """Give back a reservation whose mechanism never read the data.

    After an error or a crash the mechanism may have read the data: commit the reservation.
    """
    with ledger_refusals():
        dp.Ledger(url, spender=spender).cancel(key, data_never_read=data_never_read)
    click.echo(f"Canceled {key}")


def _show(*, url: str, as_json: bool) -> None:
    """Show what was spent and what is left of every budget."""
    with ledger_refusals():
        rows = dp.Ledger(url).summary()
    if as_json:
        click.echo(output.to_json(record("ledger.show", {"budgets": rows})))
        return
    head = ("budget", "data set", "unit", "epsilon", "delta", "spent", "left", "used", "spends")
    output.columns("budgets", head, [_row(row, depth) for row, depth in _nested(rows)])
    words = "spent and left, converted to epsilon, need not add up to that epsilon."
    click.echo(f"\nThe guarantee is (epsilon, delta) of the whole budget. {words}")


def _nested(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every budget after its parent, with its depth."""
    inner: dict[str | None, list[dict[str, Any]]] = {}
    for row in rows:
        inner.setdefault(row["parent"], []).append(row)
    waiting = [(row, 0) for row in reversed(inner.get(None, []))]
    while waiting:
        row, depth = waiting.pop()
        yield row, depth
        waiting += [(each, depth + 1) for each in reversed(inner.get(row["budget"], []))]


def _row(row: dict[str, Any], depth: int) -> tuple[str, ...]:
    def shown(name: str, *, up: bool = True) -> str:
        value = row.get(name)
        return "" if value is None else rounded(value, up=up, digits=4)

    used = row.get("spent_share")
    share = "" if used is None else f"{rounded(100 * used, digits=3)} %"
    whose = ("- " * depth + safe(row["budget"]), safe(row["dataset"]), safe(row["unit"]))
    whole = (shown("epsilon"), shown("delta"))
    amounts = (shown("spent_epsilon"), shown("left_epsilon", up=False))
    return (*whose, *whole, *amounts, share, str(row["entries"]))


def safe(text: str) -> str:
    """Return text without control characters, which a changed database may contain."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _export(*, url: str, form: str) -> None:
    """Print all entries as CSV, or as one JSON object per line."""
    with ledger_refusals():
        writer: Any = None
        for row in dp.Ledger(url).entries():
            if form == "json":
                click.echo(json.dumps(row))
                continue
            if writer is None:
                writer = csv.writer(sys.stdout, lineterminator="\n")
                writer.writerow(row)
            writer.writerow(map(_cell, row.values()))


def _cell(value: Any) -> Any:
    """Return a CSV cell that no spreadsheet reads as a formula."""
    if isinstance(value, dict):
        value = json.dumps(value)
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _verify(*, url: str, head: str | None, as_json: bool) -> None:
    """Recompute every sum and every hash.

    The exit code is 2 if the ledger was changed. Keep the printed hash elsewhere, and pass it
    later as --head to detect replaced entries.
    """
    with ledger_refusals():
        found = dp.Ledger(url).verify(head=head)
    words = f"Verified {found['entries']} entries. Last hash: {found['head']}"
    click.echo(output.to_json(record("ledger.verify", found)) if as_json else words)


def _plot(*, url: str, file: Path) -> None:
    """Plot the spent share of every budget over time. FILE is a .png, .svg or .pdf file."""
    with ledger_refusals():
        output.check_picture(file)
        output.draw(file, "plot_ledger", dp.Ledger(url))


_OPENING = [
    click.Option(["--dataset"], required=True, help="The data that the budget protects."),
    click.Option(["--parent"], help="Budget to which every spend is also charged."),
    click.Option(["--odometer"], is_flag=True, help="Open an odometer, which has no limit."),
    *(options.OPTIONS[name] for name in ("epsilon", "rho", "mu", "delta", "relation")),
    click.Option(["--notion"], help="zcdp (default), gaussian, rdp or approximate."),
    click.Option(["--order"], type=float, help="The Rényi order of --notion rdp."),
    click.Option(["--unit"], help="Unit of privacy, in words.  [default: one record]"),
    _SPENDER,
]
_NAME = click.Argument(["name"], metavar="BUDGET")
_NEVER = click.Option(
    ["--data-never-read"], required=True, help="Reason why the data were never read (recorded)."
)
_FORM = click.Option(
    ["--format", "form"],
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="Output format.",
)
_HEAD = click.Option(["--head"], help="The last hash of an earlier verification.")
_PICTURE = click.Argument(["file"], type=FILE)

ledger = click.Group(
    "ledger",
    help="Keep budgets in a file or a database.",
    commands=[
        Command(name, params=[_LEDGER, *params], callback=run, help=run.__doc__)
        for name, run, params in (
            ("init", _init, [_NAME, *_OPENING]),
            ("spend", _spend, _SPENT),
            ("reserve", _reserve, _SPENT),
            ("commit", _commit, [_KEY, _SPENDER]),
            ("cancel", _cancel, [_KEY, _NEVER, _SPENDER]),
            ("show", _show, [JSON]),
            ("export", _export, [_FORM]),
            ("verify", _verify, [_HEAD, JSON]),
            ("plot", _plot, [_PICTURE]),
        )
    ],
)
