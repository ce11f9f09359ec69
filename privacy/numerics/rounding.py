"""Directed rounding of floats: every result bounds the exact value from the named side."""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

U = 2.0**-53
"""Unit roundoff: the relative error of one correctly rounded operation."""
ULP = 2.0**-52
"""Distance from 1.0 to the next float."""


def round_up(value: float, relative: float = 0.0) -> float:
    """Return `value` (>= 0) increased by a relative error bound and one ulp."""
    return math.nextafter(value * (1 + relative), math.inf)


def sum_up(values: Iterable[float]) -> float:
    """Return an upper bound on a sum of floats >= 0, one ulp above; 0 for an empty sum."""
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    return round_up(total) if total else 0.0


def round_down(value: float, relative: float = 0.0) -> float:
    """Return `value` (>= 0) decreased by a relative error bound and one ulp, at least 0."""
    return max(0.0, math.nextafter(value * (1 - relative), 0.0))


def least(guess: float, holds: Callable[[float], bool]) -> float:
    """Return the smallest float that satisfies a monotone exact inequality, starting at `guess`."""
    if not math.isfinite(guess):
        return guess
    while guess > 0 and holds(lower := math.nextafter(guess, 0.0)):
        guess = lower
    while math.isfinite(guess) and not holds(guess):
        guess = math.nextafter(guess, math.inf)
    return guess


@lru_cache(maxsize=2**15)
def ratio_up(numerator: float, denominator: float) -> float:
    """Return the smallest float >= numerator / denominator (both > 0, possibly infinite)."""
    ratio = numerator / denominator if denominator > 1e-308 else math.inf
    if math.isinf(ratio):
        return ratio
    (n, n_scale), (d, d_scale) = numerator.as_integer_ratio(), denominator.as_integer_ratio()
    above, below = n * d_scale, d * n_scale  # the exact ratio; a Fraction is five times slower

    def holds(value: float) -> bool:
        p, q = value.as_integer_ratio()
        return p * below >= above * q

    return least(ratio, holds)


def ratio_down(numerator: float, denominator: float) -> float:
    """Return the largest float <= numerator / denominator (both > 0); infinite if it overflows."""
    ratio = numerator / denominator
    if math.isinf(ratio) or Fraction(ratio) * Fraction(denominator) <= Fraction(numerator):
        return ratio
    return math.nextafter(ratio, 0.0)


def product_up(one: float, other: float) -> float:
    """Return the smallest float >= one * other (both > 0, possibly infinite)."""
    product = one * other
    if math.isinf(product):
        return product
    exact = Fraction(one) * Fraction(other)
    return least(product, lambda value: Fraction(value) >= exact)


def exp_up(log_value: float, error: float = 0.0) -> float:
    """Return an upper bound on exp(log_value), at most 1, for a log with an error of `error`."""
    # exp and the rounding of its argument add a few units in the last place
    bound = log_value + error + 4 * ULP * (1 + abs(log_value))
    return 1.0 if bound >= 0 else max(math.exp(bound), math.ulp(0.0))
