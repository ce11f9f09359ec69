"""Monotone inversion that always ends on the safe side.

`scipy.optimize` costs half a second to import, more than a whole calibration,
and its root finders may stop on either side of the root.
"""

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

_ULP = 2.0**-52


def safe_root(
    excess: Callable[[float], float],
    safe: float,
    unsafe: float,
    *,
    at_safe: float | None = None,
    at_unsafe: float | None = None,
    rtol: float = 1e-14,
    atol: float = 0.0,
) -> float:
    """Return the safe end of a bracket that is `rtol` (or `atol`) wide.

    Parameters
    ----------
    excess
        A monotone function, <= 0 where the target is met. Infinite values
        are fine; they are bisected away.
    safe, unsafe
        Points on the two sides, ``excess(safe) <= 0 < excess(unsafe)``.
    at_safe, at_unsafe
        Their values where they are known already.
    rtol
        Width of the final bracket, relative to the larger end.
    atol
        Width of the final bracket that is enough, absolute.

    Returns
    -------
    float
        A point that was evaluated and found <= 0.

    Notes
    -----
    Inverse quadratic interpolation guarded by bisection (Chandrupatla 1997,
    Advances in Engineering Software 28). Each interpolated point is pushed 0.4 times the
    tolerance to the far side of the root, so that both ends close in.
    """
    f_safe = excess(safe) if at_safe is None else at_safe
    f_unsafe = excess(unsafe) if at_unsafe is None else at_unsafe
    older, f_older = safe, f_safe
    newest, other, f_newest, f_other = unsafe, safe, f_unsafe, f_safe
    # the first point by linear interpolation, later ones by Chandrupatla's rule
    known = math.isfinite(f_safe) and math.isfinite(f_unsafe) and f_safe < f_unsafe
    fraction = min(max(f_unsafe / (f_unsafe - f_safe), 1e-3), 1 - 1e-3) if known else 0.5
    for _ in range(200):
        width = abs(unsafe - safe)
        tolerance = max(atol, rtol * max(abs(safe), abs(unsafe)))
        # by a straight line, the root is this share of the bracket away from the safe end
        share = -f_safe / (f_unsafe - f_safe) if f_unsafe > f_safe > -math.inf else 1.0
        near = 0 < share < 0.01 and width < 1e-3 and share * width <= atol
        if width <= tolerance or near:
            break
        point = newest + fraction * (other - newest)
        # land a little past the estimate of the root, on the side that is still far away
        if abs(point - safe) > abs(point - unsafe):
            point += math.copysign(min(0.4 * tolerance, 0.25 * width), safe - unsafe)
        else:
            point -= math.copysign(min(0.4 * tolerance, 0.25 * width), safe - unsafe)
        if point in (safe, unsafe):
            point = 0.5 * (safe + unsafe)
            if point in (safe, unsafe):
                break
        value = excess(point)
        if (value <= 0) == (f_newest <= 0):
            older, f_older = newest, f_newest
        else:
            older, f_older = other, f_other
            other, f_other = newest, f_newest
        newest, f_newest = point, value
        if value <= 0:
            safe, f_safe = point, value
        else:
            unsafe, f_unsafe = point, value
        fraction = _interpolate(newest, f_newest, other, f_other, older, f_older)
    return safe


def _interpolate(a: float, fa: float, b: float, fb: float, c: float, fc: float) -> float:
    """Return where in [a, b], as a fraction, the next point goes (Chandrupatla's test)."""
    if not all(map(math.isfinite, (fa, fb, fc))) or b == a or fb == fa or fc in (fa, fb) or c == b:
        return 0.5
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (1 - math.sqrt(max(0.0, 1 - xi)) < phi < math.sqrt(max(0.0, xi))):
        return 0.5
    fraction = fa / (fb - fa) * fc / (fb - fc)
    fraction += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return min(max(fraction, 1e-6), 1 - 1e-6)


def round_up(value: float, relative: float = 0.0) -> float:
    """Return `value` (>= 0) moved up by a relative error bound and one float more."""
    return math.nextafter(value * (1 + relative), math.inf)


def sum_up(values: Iterable[float]) -> float:
    """Return an upper bound of a sum of floats >= 0, an ulp above; an empty sum is 0."""
    try:
        total = math.fsum(values)
    except OverflowError:
        return math.inf
    return round_up(total) if total else 0.0


def round_down(value: float, relative: float = 0.0) -> float:
    """Return `value` (>= 0) moved down by a relative error bound and one float more."""
    return max(0.0, math.nextafter(value * (1 - relative), 0.0))


def least(guess: float, holds: Callable[[Fraction], bool]) -> float:
    """Return the smallest float near `guess` for which an exact, monotone inequality holds."""
    if not math.isfinite(guess):
        return guess
    while guess > 0 and holds(Fraction(math.nextafter(guess, 0.0))):
        guess = math.nextafter(guess, 0.0)
    while math.isfinite(guess) and not holds(Fraction(guess)):
        guess = math.nextafter(guess, math.inf)
    return guess


def ratio_up(numerator: float, denominator: float) -> float:
    """Return the smallest float >= numerator / denominator (both > 0, possibly infinite)."""
    ratio = numerator / denominator if denominator > 1e-308 else math.inf
    return least(ratio, lambda r: r * Fraction(denominator) >= Fraction(numerator))


def exp_up(log_value: float, error: float = 0.0) -> float:
    """Return an upper bound of exp(log_value) for a log known to `error`, at most 1."""
    # exp itself and the argument's own rounding cost a few units in the last place
    bound = log_value + error + 4 * _ULP * (1 + abs(log_value))
    return 1.0 if bound >= 0 else max(math.exp(bound), math.ulp(0.0))
