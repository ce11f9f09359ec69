"""Root finding that always returns a point at which the target is met.

`scipy.optimize` takes half a second to import, and its results may be on either side of the root.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from privacy.tradeoffs import Array


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
    """Return an evaluated point with excess <= 0, the end of a bracket of width `rtol` or `atol`.

    Inverse quadratic interpolation, or bisection (Chandrupatla 1997, Advances in Engineering
    Software 28). Points are moved 0.4 tolerances past the root, so that both ends converge.
    `excess` is a monotone function, possibly infinite, with ``excess(safe) <= 0 < excess(unsafe)``;
    `at_safe` and `at_unsafe` are its values there, if known. `rtol` is relative to the larger end.
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
        # distance of the root from the safe end, by linear interpolation, / width
        share = -f_safe / (f_unsafe - f_safe) if f_unsafe > f_safe > -math.inf else 1.0
        near = 0 < share < 0.01 and width < 1e-3 and share * width <= atol
        if width <= tolerance or near:
            break
        point = newest + fraction * (other - newest)
        # move past the estimated root, toward the end that is farther away
        toward = safe - unsafe if abs(point - safe) > abs(point - unsafe) else unsafe - safe
        point += math.copysign(min(0.4 * tolerance, 0.25 * width), toward)
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
    """Return the next point as a fraction of [a, b] (Chandrupatla's test)."""
    if not all(map(math.isfinite, (fa, fb, fc))) or b == a or fb == fa or fc in (fa, fb) or c == b:
        return 0.5
    xi, phi = (a - b) / (c - b), (fa - fb) / (fc - fb)
    if not (1 - math.sqrt(max(0.0, 1 - xi)) < phi < math.sqrt(max(0.0, xi))):
        return 0.5
    fraction = fa / (fb - fa) * fc / (fb - fc)
    fraction += (c - a) / (b - a) * fa / (fc - fa) * fb / (fc - fb)
    return min(max(fraction, 1e-6), 1 - 1e-6)


def invert(log_delta: Callable[[float], float], target: float, *, rtol: float = 1e-14) -> float:
    """Return the smallest epsilon >= 0, evaluated or infinite, with log_delta(epsilon) <= target.

    `log_delta` is a decreasing upper bound; NaN, a failure, meets no target.
    """

    def excess(epsilon: float) -> float:
        found = log_delta(epsilon)
        return math.inf if math.isnan(found) else found - target

    at_low = excess(0.0)
    if at_low <= 0:
        return 0.0
    low, high = 0.0, 1.0
    at_high = excess(high)
    if at_high <= 0:  # bracket small epsilons on a log scale, for relative accuracy
        while high > 1e-300:
            smaller = high / 16
            at_smaller = excess(smaller)
            if at_smaller > 0:
                low, at_low = smaller, at_smaller
                break
            high, at_high = smaller, at_smaller
    else:
        while at_high > 0:
            low, at_low = high, at_high
            high *= 2
            if high > 1e300:
                return math.inf
            at_high = excess(high)
    return safe_root(excess, high, low, at_safe=at_high, at_unsafe=at_low, rtol=rtol)


def invert_all(
    log_deltas: "Callable[[Array], tuple[Array, Array]]", targets: "Array", top: float
) -> "tuple[Array, Array]":
    """Return an evaluated epsilon in [0, top] with log delta <= target for each; NaN if none.

    Secants from a grid, then small steps up. `targets` decrease; `log_deltas` takes increasing
    epsilons and gives upper bounds and their errors, which are returned too.
    """
    import numpy as np

    if not 0 < top < math.inf:
        return np.full_like(targets, 0.0 if top == 0 else math.nan), np.zeros_like(targets)

    def at(epsilons: "Array") -> "Array":
        order = epsilons.argsort(kind="stable")
        found = np.empty((2, epsilons.size))
        found[:, order] = log_deltas(epsilons[order])
        return np.maximum(found, -1e3)

    grid = top * np.linspace(0.0, 1.0, 257)
    known, errors = at(grid)
    known = np.minimum.accumulate(known)
    found = np.interp(-targets, -known, grid)
    slope = np.interp(found, grid, np.gradient(known, grid))
    value, error = at(found)
    for _ in range(5):
        point = np.clip(found - (value - targets) / np.minimum(slope, -1e-300), 0.0, top)
        new, error = at(point)
        with np.errstate(divide="ignore", invalid="ignore"):
            secant = (new - value) / (point - found)
        far = np.abs(point - found) > 1e-9 * point
        slope = np.where(far & (secant < 0), secant, slope)
        found, value = point, new
        if not far.any():
            break
    result = np.where(value <= targets, found, math.nan)
    for nudge in 1e-15 * 8.0 ** np.arange(9):
        open_ = np.flatnonzero(np.isnan(result))
        if not open_.size:
            break
        safe = found[open_] * (1 + nudge)
        value, error[open_] = at(safe)
        result[open_] = np.where(value <= targets[open_], safe, math.nan)
    met = targets >= known[0]
    return np.where(met, 0.0, result), np.where(met, errors[0], error)


def newton_step(t: float, slope: float, bend: float) -> tuple[float, float]:
    """Return the step for `descend` of a convex function with this slope and second derivative."""
    return slope / math.sqrt(bend), -slope / (t * bend + max(slope, 0.0))


def descend(step: Callable[[float], tuple[float, float]], t: float) -> float:
    """Return a t > 0 at which the remaining distance is below 0.1, or near it.

    `step` gives the remaining distance, in standard deviations, and the step of log t, for Newton's
    method. Raises OverflowError if it does so at every t.
    """
    low, high, found, refused = 0.0, math.inf, 0.0, math.inf
    for _ in range(100):
        try:
            miss, change = step(t)
        except OverflowError:  # too many nodes; a smaller t is also valid, but looser
            miss, change, refused = math.inf, -1.0, t
        else:
            found = t
        if abs(miss) < 0.1:
            break
        low, high = (low, t) if change < 0 else (t, high)
        t *= math.exp(min(max(change, -1.4), 1.4))
        if not low < t < high:
            t = math.sqrt(low * high) if low > 0 and high < math.inf else (low + high) / 2
        near = 0.2 if high == refused else 1e-9
        if not 1e-15 < t < 1e15 or high - low < near * high:
            break
    if not found:
        raise OverflowError("the loss spreads too widely to find its saddle point")
    return found


def golden(function: Callable[[float], float], low: float, high: float, steps: int) -> float:
    """Return a minimizer of a unimodal function, within 1.618^-`steps` of the interval."""
    share = (math.sqrt(5) - 1) / 2
    left, right = high - share * (high - low), low + share * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(steps):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - share * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + share * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right
