"""`dpcalib curve`: one quantity against another, as a table, JSON, CSV or a picture."""

import csv
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

import privacy as dp
from privacy.answers import curves as answers
from privacy.answers.batches import flags
from privacy.answers.records import Record
from privacy.cli import options, output
from privacy.cli.help import FILE, READ, Command
from privacy.cli.questions import JSON, refusals

_AGAINST = {
    "epsilon_against": ("steps",),
    "delta_against": ("epsilon",),
    "sigma_against": ("epsilon", "sampling-probability"),
}
_LARGE, _WIDE = 15, 64
_PLAN = "Epsilon after each part of a plan (TOML); may be repeated."
_PLOT = "Write a picture (.png, .svg or .pdf) instead of the table."


def _track(values: Sequence[float]) -> Iterable[float]:
    if not sys.stderr.isatty():
        return values
    from rich.console import Console
    from rich.progress import track

    return track(values, description="points", console=Console(stderr=True), transient=True)


def _curve(
    *,
    files: tuple[Path, ...],
    tradeoff: bool,
    notion: tuple[str, ...],
    points: int | None,
    as_json: bool,
    as_csv: bool,
    plot: Path | None,
    **typed: Any,
) -> None:
    """Tabulate epsilon, delta, sigma or error rates.

    Pass one of --epsilon-against, --delta-against, --sigma-against, --tradeoff
    and --plan. The option of the horizontal axis, such as --steps, is the
    largest value on the axis. Repeat --notion or --plan to compare several.

    \b
    dpcalib curve --epsilon-against steps -q 0.01 --sigma 1 --delta 1e-5
    """
    against = {name: typed.pop(name) for name in _AGAINST}
    kinds = [f"{name}_{value}".replace("-", "_") for name, value in against.items() if value]
    kinds += ["tradeoff"] * tradeoff + ["plan"] * bool(files)
    with refusals():
        if len(kinds) != 1:
            ways = "--epsilon-against, --delta-against, --sigma-against, --tradeoff, --plan"
            raise ValueError(f"Expected exactly one curve. Pass one of {ways}.")
        output.check_picture(plot)
        if files:
            if given := [name for name, value in typed.items() if value is not None]:
                raise ValueError(f"Remove {flags(given)}: the plan has all parameters.")
            found = answers.budget_over_time(*map(dp.load_plan, files), track=_track)
        else:
            asked = {"kind": kinds[0], "notions": list(notion), "points": points, **typed}
            found = answers.curve(asked, track=_track)
        if plot is not None:
            output.draw(plot, "plot_curve", found)
    if as_json:
        click.echo(output.to_json(found))
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow([found["across"], *found["series"]])
        writer.writerows(zip(found["values"], *found["series"].values(), strict=True))
    elif plot is None:
        _show(found)


def _show(found: Record) -> None:
    across = found["across"]
    shown = partial(output.shown, found["up"], up=found["up"] != "false_negative_rate")
    places = [output.shown(across, value, up=across == "epsilon") for value in found["values"]]
    rows = [
        (place, *("" if y is None else shown(y) for y in row))
        for place, *row in zip(places, *found["series"].values(), strict=True)
    ]
    if sys.stdout.isatty():
        click.echo(text_plot(found))
    label = found["up"].replace("_", " ")
    head = (across.replace("_", " "), *(f"{label} ({one})" for one in found["series"]))
    output.columns(label, head, rows)


def text_plot(found: Record) -> str:
    """Return the curves as text, each with its own mark."""
    finite = [
        (float(x), float(y), mark)
        for mark, each in zip("*o+x#%@&", found["series"].values(), strict=False)
        for x, y in zip(found["values"], each, strict=True)
        if y not in ("inf", None)
    ]
    if not finite:
        return ""
    left, right = min(x for x, *_ in finite), max(x for x, *_ in finite)
    low, high = min(y for _, y, _ in finite), max(y for _, y, _ in finite)
    canvas = [[" "] * _WIDE for _ in range(_LARGE)]
    for x, y, mark in finite:
        column = round((x - left) / ((right - left) or 1) * (_WIDE - 1))
        row = round((high - y) / ((high - low) or 1) * (_LARGE - 1))
        canvas[row][column] = mark
    lines = [" |" + "".join(row).rstrip() for row in canvas]
    lines[0] += f"  {high:.4g}"
    lines[-1] += f"  {low:.4g}"
    marks = ", ".join(f"{m} {n}" for m, n in zip("*o+x#%@&", found["series"], strict=False))
    foot = f"{found['across'].replace('_', ' ')} from {left:.4g} to {right:.4g}"
    return "\n".join([*lines, " +" + "-" * _WIDE, f"  {foot}; {marks}"])


def _choice(name: str, values: tuple[str, ...]) -> click.Option:
    flag = "--" + name.replace("_", "-")
    what = f"{name.removesuffix('_against')} against one of: {', '.join(values)}."
    return click.Option([flag], type=click.Choice(values), help=what.capitalize())


curve = Command(
    "curve",
    params=[
        *(_choice(name, values) for name, values in _AGAINST.items()),
        click.Option(
            ["--tradeoff"], is_flag=True, help="False negative rate against false positive rate."
        ),
        click.Option(["--plan", "files"], multiple=True, type=READ, help=_PLAN),
        *(options.OPTIONS[name] for name in answers.NAMES),
        click.Option(["--notion"], multiple=True, help="Accounting method; may be repeated."),
        click.Option(["--points"], type=int, help="Number of points.  [default: 30]"),
        click.Option(["--plot"], type=FILE, help=_PLOT),
        click.Option(["--csv", "as_csv"], is_flag=True, help="Print comma-separated values."),
        JSON,
    ],
    callback=_curve,
    help=_curve.__doc__,
)
