"""Numbers and tables for display; numbers are rounded conservatively."""

import math
from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def rounded(value: float, *, up: bool = True, digits: int = 6) -> str:
    """Return a number >= 0 with `digits` digits, rounded up (or down)."""
    if not math.isfinite(value):
        return f"{value:g}"
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"


def html_table(rows: Iterable[tuple[object, ...]]) -> str:
    """Return a table for a notebook; the first cell of each row is its heading."""
    from html import escape

    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td style='text-align:left'>{escape(str(cell))}</td>" for cell in rest)
        lines.append(f"<tr><th style='text-align:left'>{escape(str(first))}</th>{cells}</tr>")
    return f"<table>{''.join(lines)}</table>"
