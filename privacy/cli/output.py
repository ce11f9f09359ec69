"""Print a record as one JSON object or as a table, whose numbers are rounded conservatively."""

import json
import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any

import click

from privacy import checks
from privacy.numerics.display import rounded

_ORDER = """noise_multiplier sigma clip_norm epsilon unit target_epsilon delta target_delta
advantage target_advantage true_positive_rate target_true_positive_rate false_positive_rate
bayes_risk target_bayes_risk prior rho mu sampling_probability steps sampler batch_size
max_batch_size records epochs relation notion conversion order certified"""
LABELS = {name: name.replace("_", " ") for name in _ORDER.split()}
LABELS |= {"bayes_risk": "Bayes risk", "target_bayes_risk": "target Bayes risk"}
LABELS |= {"rho": "rho (zCDP)", "mu": "mu (Gaussian DP)", "max_batch_size": "largest batch size"}
"""Table label of each record key; the table omits other keys."""


def to_json(answer: Mapping[str, Any]) -> str:
    """Return one line of strict JSON; raise ValueError for NaN and infinity."""
    return json.dumps(answer, allow_nan=False)


def reply(answer: dict[str, Any], show: Callable[[dict[str, Any]], None], *, as_json: bool) -> None:
    """Print a record as JSON or with `show`."""
    if as_json:
        click.echo(to_json(answer))
    else:
        show(answer)


def width(*, err: bool = False) -> int | None:
    """Return COLUMNS or the terminal width in columns; None for a pipe or a file."""
    stream = sys.stderr if err else sys.stdout
    with suppress(KeyError, ValueError):
        return int(os.environ["COLUMNS"]) or None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (AttributeError, OSError, ValueError):
        return None


def filled(text: str, columns: int | None, *, start: str = "") -> str:
    """Return `start` and the text, wrapped to `columns`; None does not wrap."""
    first, *rest = text.split("\n")
    lines = [start + first, *rest]
    if columns is not None:
        lines = [_wrapped(line, max(columns, 20)) for line in lines]
    return "\n".join(lines)


def _wrapped(line: str, columns: int) -> str:
    hang = "  " if line.startswith(("- ", " ")) else ""
    return textwrap.fill(line, columns, subsequent_indent=hang, break_on_hyphens=False)


def error(text: str) -> None:
    """Print an error on stderr."""
    click.echo(filled(text, width(err=True), start="Error: "), err=True)


def rows(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the labeled values of a record that are not None, the requested quantity first.

    The guarantee also holds for the rounded noise, clip norm, sampling probability and rates.
    """
    asked = str(answer["schema"]).partition(".")[2].partition("/")[0].replace("-", "_")
    down = {"bayes_risk", "target_bayes_risk", "clip_norm", "false_positive_rate"}
    down |= {"sampling_probability"} | {"prior" if (answer.get("prior") or 0) > 0.5 else ""}
    # From an epsilon or rho, mu and rho are budgets: rounding them up would overspend.
    if answer.get("given") in {"epsilon", "rho"}:
        down |= {"rho", "mu"}
    return [
        (LABELS[key], shown(key, answer[key], up=key not in down))
        for key in sorted(LABELS, key=lambda key: key != asked)
        if answer.get(key) is not None and answer[key] != "poisson"
    ]


def table(answer: Mapping[str, Any]) -> None:
    """Print the labeled values of a record."""
    if _for_people():
        _framed(str(answer["schema"]).partition("/")[0].replace(".", " "), rows(answer))
    else:
        _aligned(rows(answer))


def columns(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    """Print rows of text under a header row."""
    if _for_people():
        _framed(title, rows, head)
    else:
        _aligned([head, *rows])


def _for_people() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _aligned(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = width()
    if columns is not None:  # wrap the widest column
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


def _framed(title: str, rows: Sequence[tuple[str, ...]], head: tuple[str, ...] = ("", "")) -> None:
    # Importing rich takes half as long as importing click, so only a terminal imports it.
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
    """Return one value of a record as table text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key == "order":  # every order gives a valid bound
        return f"{value:.3g}"
    return rounded(value, up=up) if isinstance(value, float) else str(value)


def check_picture(path: Path | None) -> None:
    """Refuse a file of a plot whose format is unknown."""
    if path is not None and path.suffix not in (".png", ".svg", ".pdf"):
        raise ValueError(f"Expected {path} to end with .png, .svg or .pdf. Rename it.")


def draw(path: Path, plot: str, *given: Any) -> None:
    """Write a plot of `privacy.plotting` to a file."""
    from privacy import plotting

    try:
        getattr(plotting, plot)(*given).savefig(path)
    except ModuleNotFoundError as error:
        raise ValueError(str(error)) from None
    except OSError as error:
        rule = f"a writable file ({error.strerror or error})"
        remedy = "Pass a path that you can write to."
        raise ValueError(checks.expected("plot", str(path), rule, remedy)) from error
