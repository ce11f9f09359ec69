"""How an answer is shown: one JSON object, or a small table for people.

Numbers of the table have six digits and are rounded to the private side.
"""

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import privacy

Record = dict[str, Any]

LABELS = {
    "noise_multiplier": "noise multiplier",
    "sigma": "sigma",
    "clip_norm": "clip norm",
    "epsilon": "epsilon",
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


def record(name: str, values: Mapping[str, Any]) -> Record:
    """Return the object that a command answers with, its schema and version first."""
    return {"schema": f"dpcalib.{name}/1", "version": privacy.__version__, **values}


def to_json(answer: Mapping[str, Any]) -> str:
    """Return one line of strict JSON; infinity is the string ``"inf"``, NaN is refused."""
    return json.dumps({key: _finite(value) for key, value in answer.items()}, allow_nan=False)


def _finite(value: Any) -> Any:
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def table(answer: Mapping[str, Any], *, down: tuple[str, ...] = ()) -> None:
    """Print the labelled values of an answer.

    Parameters
    ----------
    answer
        What `record` returned. Values that are None are left out.
    down
        Keys whose private side is the smaller one (a budget, a probability
        that is an upper limit). All others are rounded up.
    """
    # rich costs as much CPU as click and is of no use to --json
    from rich.console import Console
    from rich.table import Table

    rows = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows.add_column(style="dim", no_wrap=True)
    rows.add_column(overflow="fold")
    for key, label in LABELS.items():
        if answer.get(key) is not None:
            rows.add_row(label, _shown(answer[key], up=key not in down))
    # NO_COLOR means no escape codes at all: rich on its own would still write bold and dim
    plain = bool(os.environ.get("NO_COLOR"))
    Console(color_system=None if plain else "auto", highlight=False, markup=False).print(rows)


def _shown(value: Any, *, up: bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return rounded(value, up=up) if isinstance(value, float) else str(value)


def rounded(value: float, *, up: bool = True, digits: int = 6) -> str:
    """Return a number >= 0 in `digits` digits, never below its value (or never above)."""
    text = f"{value:.{digits}g}"
    off = float(text) < value if up else float(text) > value
    if not off:
        return text
    unit = 10.0 ** (math.floor(math.log10(value)) - digits + 1)
    text = f"{value + unit if up else value - unit:.{digits}g}"
    still_off = float(text) < value if up else float(text) > value
    return repr(value) if still_off else text
