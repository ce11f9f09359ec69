"""Validation: one error for one bad input, in the shape that `privacy` uses.

``Expected batch=0 to be a whole number >= 1. Pass the number of rounds in a batch.``
"""

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def expected(name: str, value: object, rule: str, remedy: str) -> str:
    """Return the one message shape that every validation error has."""
    return f"Expected {name}={value!r} to be {rule}. {remedy}"


def real(
    name: str,
    value: Any,
    remedy: str,
    *,
    above: float = -math.inf,
    at_least: float = -math.inf,
    below: float = math.inf,
    at_most: float = math.inf,
) -> float:
    """Return `value` as a finite float inside its domain, or raise."""
    limits = ((">", above), (">=", at_least), ("<", below), ("<=", at_most))
    bounds = [f"{sign} {limit:g}" for sign, limit in limits if math.isfinite(limit)]
    rule = " and ".join(bounds) or "finite"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(expected(name, value, f"a number {rule}", remedy))
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the floats
        number = math.inf
    inside = above < number < below and at_least <= number <= at_most
    if not (math.isfinite(number) and inside):
        raise ValueError(expected(name, value, rule, remedy))
    return number


def count(name: str, value: Any, remedy: str, *, at_most: int = 2**53) -> int:
    """Return `value` as a whole number in [1, at_most], or raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(expected(name, value, "a whole number >= 1", remedy))
    if not 1 <= int(value) <= at_most:
        raise ValueError(expected(name, value, f"a whole number in [1, {at_most}]", remedy))
    return int(value)


def finite(name: str, value: Any, shape: tuple[int, ...], remedy: str) -> Array:
    """Return `value` as a finite float array of one shape, or raise."""
    array = np.array(value, dtype=float)
    if array.shape != shape:
        raise ValueError(expected(f"shape of {name}", array.shape, f"{shape}", remedy))
    if not np.isfinite(array).all():
        raise ValueError(expected(name, value, "finite", remedy))
    return array
