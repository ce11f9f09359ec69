"""Numbers for people: few digits, rounded to the private side."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context


def rounded(value: float, *, up: bool = True, digits: int = 6) -> str:
    """Return a number >= 0 in `digits` digits, never below its value (or never above)."""
    if not math.isfinite(value):
        return f"{value:g}"
    context = Context(prec=digits, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return f"{float(context.create_decimal(repr(float(value)))):.{digits}g}"
