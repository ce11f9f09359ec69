"""Input validation, with error messages in the format of `privacy`.

``Expected batch=0 to be a whole number >= 1. Pass the number of rounds in a batch.``
"""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def expected(name: str, value: object, rule: str, remedy: str) -> str:
    """Return the message of a validation error."""
    try:
        shown = repr(value)
    except ValueError:  # Python refuses to print an int of more than 4300 digits
        shown = "<an int too long to print>"
    return f"Expected {name}={shown} to be {rule}. {remedy}"


def refuse_if(wrong: object, name: str, value: object, rule: str, remedy: str) -> None:
    """Raise ValueError if `wrong` is true."""
    if wrong:
        raise ValueError(expected(name, value, rule, remedy))


def one_of(name: str, value: object, known: Iterable[object], remedy: str = "Choose one.") -> None:
    """Raise ValueError if `value` is not one of the known ones."""
    known = tuple(known)
    refuse_if(value not in known, name, value, f"one of {', '.join(map(str, known))}", remedy)


@contextmanager
def installed(name: str) -> Iterator[None]:
    """Add the extra to install to the error of a missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = f"In the clone of dpcalib, run: pip install '.[{name}]'"
        raise ModuleNotFoundError(f"{error}. {remedy}", name=error.name) from error


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
    """Return `value` as a finite float in its domain, or raise."""
    limits = ((">", above), (">=", at_least), ("<", below), ("<=", at_most))
    bounds = [f"{sign} {limit:g}" for sign, limit in limits if math.isfinite(limit)]
    rule = " and ".join(bounds) or "finite"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(expected(name, value, f"a number {rule}", remedy))
    try:
        number = float(value)
    except OverflowError:  # an int above the largest float
        number = math.inf
    inside = above < number < below and at_least <= number <= at_most
    if not (math.isfinite(number) and inside):
        raise ValueError(expected(name, value, rule, remedy))
    return number


def moderate(name: str, value: Any, remedy: str) -> float:
    """Check a number in [1e-50, 1e50], so that products of a few do not overflow."""
    return real(name, value, remedy, at_least=1e-50, at_most=1e50)


def width(value: Any) -> float:
    """Check the width of confidence bounds in standard deviations, in [0, 1e50]."""
    return real("width", value, "Pass a number of standard deviations.", at_least=0, at_most=1e50)


def count(name: str, value: Any, remedy: str, *, at_least: int = 1, at_most: int = 2**53) -> int:
    """Return `value` as a whole number in [at_least, at_most], or raise."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(expected(name, value, f"a whole number >= {at_least}", remedy))
    if not at_least <= int(value) <= at_most:
        rule = f"a whole number in [{at_least}, {at_most}]"
        raise ValueError(expected(name, value, rule, remedy))
    return int(value)


def finite(name: str, value: Any, shape: tuple[int, ...], remedy: str) -> Array:
    """Return `value` as a finite float array of one shape, or raise without showing its numbers."""
    try:
        array = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(expected(name, "...", f"numbers of shape {shape}", remedy)) from None
    if array.shape != shape:
        raise ValueError(expected(f"shape of {name}", array.shape, f"{shape}", remedy))
    if not np.isfinite(array).all():
        raise ValueError(expected(name, "...", "finite", remedy))
    return array
