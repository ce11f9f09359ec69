"""Trade-off functions of a privacy profile; docs/risk.md ("Derivation") has the bounds h(s)."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.numerics.rounding import ULP

Array = NDArray[np.floating[Any]]
LogDeltas = Callable[[Array], tuple[Array, Array]]
"""From increasing epsilons to upper bounds on log delta and their relative error bounds."""
Interval = tuple[Array, Array] | tuple[float, float]

_FEW = 8  # rates up to which the scan is coarse
_GRID, _FINE = 40, 160  # epsilons of the scan
_FINEST = 400  # epsilons of the scan if the profile is slow and there are many rates
_MANY = 32  # rates from which a slow profile is only scanned
# distance of new points, relative to the interval of s, in each round; 0 divides the interval,
# since a parabola does not help at a kink
_SPREADS = (0.1, 0.03, 0.01, 0.01, 0.01, *(0.0,) * 36)
_BESIDE = np.array([[-1], [0], [1]])
_CLOSE, _CLOSE_RELATIVE = 1e-10, 1e-9  # differences of h at which the search ends
_LEAST = 1e-12  # smallest end of a scan
_FAR = 700.0  # largest s; e^s is finite
_NEGLIGIBLE = 1e-16


def true_positive_rates(
    log_deltas: LogDeltas, rates: Array, *, fast: bool, supremum: float
) -> tuple[Array, Array]:
    """Return lower and upper bounds on 1 - f at each false positive rate.

    The lower bounds hold if `log_deltas` is the exact profile within its error bounds. `rates` are
    in [0, 1], shape (n,). `fast` tells whether many epsilons cost little more than one. `supremum`
    is an epsilon with delta = 0, or infinity.
    """
    if not rates.size:
        return rates, rates
    profile = _Profile(log_deltas)
    only_scan = not fast and rates.size > _MANY
    signed, values, errors = _scan(profile, np.unique([rates.min(), rates.max()]), supremum)
    if rates.size > 1:
        count = _FINEST if only_scan else _GRID if rates.size <= _FEW else _FINE
        signed = _both_sides(float(signed[-1]), count)
        values, errors = profile.bounds(signed[None, :], rates[:, None])
    best = values.argmin(axis=1).clip(1, signed.size - 2)
    rows, beside = np.arange(rates.size)[:, None], best[:, None] + np.array([-1, 0, 1])
    scan = np.stack([signed[beside].T, values[rows, beside].T, errors[rows, beside].T])
    point, value, error = inner = scan.copy()
    if not only_scan:
        _refine(profile, rates, inner)
    upper = np.minimum(np.minimum(value.min(axis=0), values.min(axis=1)), 1.0)
    lower = _below(point, value, error)
    lower = np.minimum(lower, _outside(rates, scan, inner))
    return np.clip(lower, rates, 1.0), np.maximum(upper, rates)


def shaped(lower: Array, upper: Array, like: Array) -> Interval:
    """Return both bounds in the shape of `like`, as floats if it is a scalar."""
    if like.ndim == 0:
        return float(lower.item()), float(upper.item())
    return lower.reshape(like.shape), upper.reshape(like.shape)


def gaussian_rates(mu: float, rates: Array) -> tuple[Array, Array]:
    """Return bounds on Phi(Phi^-1(a) + mu), with the accuracy of ndtr and ndtri."""
    from scipy.special import ndtr, ndtri

    quantile = ndtri(rates)
    exact = ndtr(quantile + mu)
    # an error d of the argument x of Phi in the lower tail is a relative error |x| d
    depth = np.minimum(np.nan_to_num(quantile, posinf=0.0, neginf=-40.0), 0.0)
    off = exact * ULP * (64 + 4 * depth**2)
    return np.maximum(exact - off, rates), np.clip(exact + off, rates, 1.0)


def _scan(profile: "_Profile", rates: Array, supremum: float) -> tuple[Array, Array, Array]:
    """Return s, h(s) and its errors, up to an s beyond which h decreases negligibly."""
    far = min(_FAR, max(supremum, 1e-15))
    end, least = min(1.0, far), _LEAST
    while True:
        signed = _both_sides(end, _GRID)
        values, errors = profile.bounds(signed[None, :], rates[:, None])
        rest = values[:, 1:-1].min(axis=1)
        gains = np.minimum(values[:, 0], values[:, -1]) <= rest * (1 + 64 * ULP)
        # beyond the end, h decreases by less than delta(end)
        few = max(_NEGLIGIBLE, _CLOSE_RELATIVE * rest[gains].min(initial=1.0))
        if gains.any() and end < far and profile.delta(end) > few:
            end, least = min(2 * end, far), end
        elif end > least and profile.delta(float(signed[_GRID + 2])) < _NEGLIGIBLE:
            end /= 16
        else:
            return signed, values, errors


def _both_sides(end: float, count: int) -> Array:
    """Return an even grid from -end to end, exactly symmetric: each |s| is asked once."""
    positive = np.linspace(0.0, end, count + 1)
    return np.concatenate([-positive[:0:-1], positive])


def _refine(profile: "_Profile", rates: Array, inner: Array) -> None:
    """Narrow each interval by `_candidates`; `inner` has points, values and errors, (3, 3, n)."""
    value = inner[1]
    # at the rate 0, h is delta, which has no smallest value > 0
    least = np.where(rates > 0, 0.0, _NEGLIGIBLE)
    for spread in _SPREADS:
        rise = np.maximum(value[0], value[2]) - value[1]
        close = np.maximum(np.minimum(_CLOSE, _CLOSE_RELATIVE * value[1]), least)
        open_ = np.flatnonzero(rise > close)
        if not open_.size:
            return
        known, columns = inner[:, :, open_], np.arange(open_.size)
        candidates = _candidates(known[0], known[1], spread)
        new = np.stack([candidates, *profile.bounds(candidates, rates[open_])])
        known = np.concatenate([known, new], axis=1)
        order = known[0].argsort(axis=0, kind="stable")
        best = known[1][order, columns].argmin(axis=0).clip(1, 4)
        inner[:, :, open_] = known[:, order[best + _BESIDE, columns], columns]


def _candidates(point: Array, value: Array, spread: float) -> Array:
    """Return three new points: the vertex of a parabola, and one on each side of it.

    The points stay apart: secants through points that are too close are dominated by errors. A
    vertex near the middle one is replaced by the center of the larger gap.
    """
    low, middle, high = point
    if not spread:
        larger = np.where(middle - low > high - middle, low, high)
        return np.stack([(low + middle) / 2, (2 * middle + larger) / 3, (middle + high) / 2])
    vertex, away = _vertex(point, value), spread * (high - low)
    near = np.abs(vertex - middle) < 0.5 * away
    center = np.where(near, middle, vertex)
    left = np.maximum(center - away, (low + center) / 2)
    right = np.minimum(center + away, (center + high) / 2)
    third = np.where(left - low > high - right, (low + left) / 2, (right + high) / 2)
    return np.stack([left, np.where(near, third, vertex), right])


def _vertex(point: Array, value: Array) -> Array:
    """Return the vertex of the parabola through three points, inside their interval."""
    low, middle, high = point
    before, after = middle - low, high - middle
    left, right = value[0] - value[1], value[2] - value[1]
    with np.errstate(all="ignore"):
        move = 0.5 * (left * after**2 - right * before**2) / (left * after + right * before)
    move = np.where(np.isfinite(move), move, 0.0)
    return np.asarray(np.clip(middle + move, low + 0.02 * before, high - 0.02 * after))


def _below(point: Array, value: Array, error: Array) -> Array:
    """Return a lower bound on h between the outer ones of three points.

    h is convex in x = e^s: right of the middle it is above the line through the two left points,
    and conversely. `error` bounds how far the exact h may be below each value.
    """
    x = np.exp(point)
    with np.errstate(all="ignore"):
        fall = (value[0] - value[1] + error[1]) / (x[1] - x[0]) * (x[2] - x[1])
        rise = (value[2] - value[1] + error[1]) / (x[2] - x[1]) * (x[1] - x[0])
        lower = value[1] - error[1] - np.maximum(np.maximum(fall, rise), 0.0)
    return np.where(np.isfinite(lower), lower, 0.0)


def _outside(rates: Array, scan: Array, inner: Array) -> Array:
    """Return a lower bound on h outside the inner three points.

    Outside the three points of the scan, h is above its outer value if it increases there, and
    always above e^s a (on the right) and 1 - e^s (1 - a) (on the left).
    """
    lower = np.ones_like(rates)
    (point, value, error), (near, at, off) = scan, inner
    x, inner_x = np.exp(point), np.exp(near)
    trivial = np.minimum(x[2] * rates, 1.0), np.maximum(1 - x[0] * (1 - rates), 0.0)
    for k, bound in zip((2, 0), trivial, strict=True):
        rises = value[k] - error[k] >= value[1]
        lower = np.minimum(lower, np.where(rises, value[k] - error[k], bound * (1 - 8 * ULP)))
        # from the inner to the outer point, h is above the line through the inner two
        with np.errstate(all="ignore"):
            slope = (at[1] - at[k] + off[k]) / np.abs(inner_x[k] - inner_x[1])
            drop = np.maximum(slope, 0.0) * np.abs(x[k] - inner_x[k])
        drop = np.where(inner_x[k] == x[k], 0.0, np.where(np.isfinite(drop), drop, 1.0))
        lower = np.minimum(lower, at[k] - off[k] - drop)
    return lower


class _Profile:
    """The bounds h of a profile."""

    def __init__(self, log_deltas: LogDeltas) -> None:
        self._log_deltas = log_deltas

    def delta(self, epsilon: float) -> float:
        """Return delta at an epsilon of the last call."""
        return float(self._last[0][np.searchsorted(self._last[1], epsilon)])

    def _deltas(self, epsilons: Array) -> tuple[Array, Array]:
        if epsilons.size <= _FEW:  # np.unique is slower
            order = epsilons.ravel().argsort()
            asked, where = epsilons.ravel()[order], order.argsort()
        else:
            asked, where = np.unique(epsilons, return_inverse=True)
        log_delta, error = self._log_deltas(asked)
        log_delta = np.minimum(log_delta, 0.0)
        rounding = ULP * (16 + np.abs(np.maximum(log_delta, -750.0)))
        delta = np.minimum(np.exp(log_delta) * (1 + rounding), 1.0)
        off = delta * np.minimum(error + 2 * rounding + 1e-13, 1.0)
        where, self._last = where.reshape(epsilons.shape), (delta, asked)
        return delta[where], off[where]

    def bounds(self, signed: Array, rates: Array) -> tuple[Array, Array]:
        """Return h(s) at each rate, rounded up, and by how much it may be too large."""
        size = np.abs(signed)
        delta, off = self._deltas(size)
        growth = np.exp(size)
        positive = delta + growth * rates
        found = np.where(signed >= 0, positive, (np.expm1(size) + delta + rates) / growth)
        room = 8 * ULP * found
        return found + room, off + 2 * room


def dominating_gaussian(log_deltas: LogDeltas, end: float, remainder: float) -> tuple[float, float]:
    """Return the smallest mu with G_mu - remainder <= f, and its regret.

    f is bounded below by a symmetric polygon with lines 1 - delta - e^epsilon a. G_mu is convex and
    symmetric: the vertices on one side of the diagonal suffice. `log_deltas` is the privacy
    profile, `end` an epsilon with delta <= `remainder`, of `Risk.gaussian_bound`.
    """
    from scipy.special import ndtr, ndtri

    epsilons = np.linspace(0.0, min(max(end, 1e-9), _FAR), 1000)
    # at `end` this profile may exceed the remainder by its error bound
    epsilons = np.append(epsilons, epsilons[-1] * (1 + np.geomspace(1e-12, 1e-3, 10)))
    delta = np.exp(np.minimum(log_deltas(epsilons)[0], 0.0)) * (1 + 32 * ULP)
    delta = np.minimum(np.minimum.accumulate(delta), 1.0)
    if not delta[-1] <= remainder:
        return np.inf, np.inf
    last = 999 + int((delta[999:] <= remainder).argmax())
    epsilons, delta = np.append(epsilons[:999], epsilons[last]), np.append(delta[:999], delta[last])
    x = np.exp(epsilons) * (1 + 4 * ULP)  # the line of a slightly larger epsilon holds too
    keep = _lower_hull(x, delta)
    x, delta = x[keep], delta[keep]
    corner = -np.diff(delta) / np.diff(x)
    hit = delta[:-1] + x[:-1] * corner  # 1 - f there
    above = (corner > 0) & (1 - hit > corner)
    diagonal = ((1 - delta) / (1 + x)).max()
    corner = np.concatenate([[diagonal], corner[above]])
    hit = np.concatenate([[1 - diagonal], hit[above]]) * (1 + 8 * ULP)
    needed = hit > remainder
    gap = ndtri(np.maximum(hit - remainder, 1e-300)) - ndtri(corner)
    mu = max(float(gap[needed].max(initial=0.0)), 0.0) * (1 + 1e-12) + 1e-12
    a = np.concatenate([np.geomspace(1e-12, 1e-2, 200), np.linspace(1e-2, 1, 400)])
    gaussian = ndtr(-ndtri(a) - mu)
    order = np.argsort(corner)
    along = np.concatenate([[0.0], corner[order], 1 - hit[order][::-1], [1.0]])
    height = np.concatenate([[1.0], 1 - hit[order], corner[order][::-1], [0.0]])
    low, high = np.zeros_like(a), np.ones_like(a)
    for _ in range(50):
        middle = (low + high) / 2
        over = np.interp(np.minimum(a + middle, 1.0), along, height) - middle > gaussian
        low, high = np.where(over, middle, low), np.where(over, high, middle)
    return mu, float(high.max())


def _lower_hull(x: Array, y: Array) -> list[int]:
    kept: list[int] = []
    for k in range(x.size):
        while len(kept) > 1:
            i, j = kept[-2:]
            if (y[j] - y[i]) * (x[k] - x[j]) < (y[k] - y[j]) * (x[j] - x[i]):
                break
            kept.pop()
        kept.append(k)
    return kept
