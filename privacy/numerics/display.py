"""Conservative rounding of numbers for display."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def rounded(value: float, *, up: bool = True, digits: int = 6) -> str:
    """Return a number >= 0 with `digits` digits, rounded up (or down)."""
    if not math.isfinite(value):
        return f"{value:g}"
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"
