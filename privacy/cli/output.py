"""How an answer is shown: one JSON object, or a small table for people.

Numbers of the table have six digits and are rounded to the private side.
"""

import json
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import click

from privacy.numerics.display import rounded

LABELS = {
    "noise_multiplier": "noise multiplier",
    "sigma": "sigma",
    "clip_norm": "clip norm",
    "epsilon": "epsilon",
    "unit": "unit",
    "target_epsilon": "target epsilon",
    "delta": "delta",
    "target_delta": "target delta",
    "rho": "rho (zCDP)",
    "mu": "mu (Gaussian DP)",
    "sampling_probability": "sampling probability",
    "steps": "steps",
    "relation": "relation",
    "notion": "notion",
    "conversion": "conversion",
    "order": "order",
    "certified": "certified",
}
"""What the table says for each key of a record; other keys are for programs alone."""


def to_json(answer: Mapping[str, Any]) -> str:
    """Return one line of strict JSON; NaN is refused."""
    return json.dumps(answer, allow_nan=False)


def width(*, err: bool = False) -> int | None:
    """Return the columns of the terminal, or of COLUMNS; None for a pipe or a file."""
    stream = sys.stderr if err else sys.stdout
    try:
        return int(os.environ["COLUMNS"]) or None
    except (KeyError, ValueError):
        pass
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return None


def filled(text: str, columns: int | None, *, start: str = "") -> str:
    """Return sentences after `start`, no line wider than `columns`; None leaves lines whole."""
    first, *rest = text.split("\n")
    lines = [start + first, *rest]
    if columns is not None:
        lines = [_wrapped(line, max(columns, 20)) for line in lines]
    return "\n".join(lines)


def _wrapped(line: str, columns: int) -> str:
    hang = "  " if line.startswith(("- ", " ")) else ""
    return textwrap.fill(line, columns, subsequent_indent=hang, break_on_hyphens=False)


def error(text: str) -> None:
    """Print an error for people."""
    click.echo(filled(text, width(err=True), start="Error: "), err=True)


def table(answer: Mapping[str, Any], *, down: tuple[str, ...] = ()) -> None:
    """Print the labelled values of an answer, what was asked for first.

    Parameters
    ----------
    answer
        What a question returned. Values that are None are left out.
    down
        Keys whose private side is the smaller one (a budget, a probability
        that is an upper limit). All others are rounded up.
    """
    name = _name(answer)
    asked = name.replace("-", "_")
    rows = [
        (LABELS[key], shown(key, answer[key], up=key not in down))
        for key in sorted(LABELS, key=lambda key: key != asked)
        if answer.get(key) is not None
    ]
    if _for_people():
        _framed(f"dpcalib {name}", rows)
    else:
        _aligned(rows)


def columns(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of text under a head."""
    if _for_people():
        _framed(title, rows, head)
    else:
        _aligned([head, *rows])


def _for_people() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _aligned(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = width()
    if columns is not None:  # the widest column is folded
        widest = widths.index(max(widths))
        others = sum(widths) - widths[widest] + 2 * (len(widths) - 1)
        widths[widest] = min(widths[widest], max(columns - others, 8))
    for row in rows:
        folded = [
            textwrap.wrap(cell, most, break_on_hyphens=False) or [""]
            for cell, most in zip(row, widths, strict=True)
        ]
        for line in zip_longest(*folded, fillvalue=""):
            cells = (f"{cell:{most}}" for cell, most in zip(line, widths, strict=True))
            click.echo("  ".join(cells).rstrip())


def _name(answer: Mapping[str, Any]) -> str:
    return str(answer["schema"]).removeprefix("dpcalib.").partition("/")[0]


def _framed(title: str, rows: Sequence[tuple[str, ...]], head: tuple[str, ...] = ("", "")) -> None:
    # half as slow to import as click: worth it for people alone
    from rich import box
    from rich.console import Console
    from rich.table import Table

    frame = Table(title=title, box=box.ROUNDED, show_header=any(head))
    frame.add_column(head[0], style="dim", overflow="fold")
    for label in head[1:]:
        frame.add_column(label, style="bold", overflow="fold")
    for row in rows:
        frame.add_row(*row)
    Console(highlight=False, markup=False, emoji=False).print(frame)


def shown(key: str, value: Any, *, up: bool = True) -> str:
    """Return one value of a record for people."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "order":  # every order gives a valid bound
        return f"{value:.3g}"
    return rounded(value, up=up) if isinstance(value, float) else str(value)
