"""Trade-off functions: the error rates of every attack that a privacy profile allows.

For a test between two neighboring data sets with false positive rate a and false negative rate b,
an (epsilon, delta) guarantee in both directions implies (Dong, Roth and Su 2022, Prop. 2.5)

    b >= 1 - delta - e^epsilon a   and   b >= e^-epsilon (1 - delta - a).

With the privacy profile delta(s) for s >= 0 and x = e^s, both are one family of lines,

    g(s) = 1 - delta(s) - e^s a  (s >= 0),   g(-s) = e^-s (1 - delta(s) - a),

and the trade-off function is f(a) = max over all s of g(s). It is the largest convex symmetric
lower bound. Each s gives a valid lower bound on b, so a search that stops early is conservative.
g is concave in e^s, so three of its values also bound the maximum from above.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.numerics.rounding import ULP

Array = NDArray[np.floating[Any]]
LogDeltas = Callable[[Array], tuple[Array, Array]]
"""From increasing epsilons to upper bounds on log delta and their relative error bounds."""
Interval = tuple[Array, Array] | tuple[float, float]

_GRID = 40  # epsilons of the first scan
_ROUNDS = 10  # each one at least halves the interval of s
_CLOSE = 1e-10  # gap of f at which the search ends
_FAR = 700.0  # e^-s is 0 beyond
_FINE = 400  # epsilons of the only scan if the profile is slow and there are many rates
_FEW = 100  # rates that are searched one by one if the profile is slow


def tradeoff(log_deltas: LogDeltas, rates: Array, *, fast: bool) -> tuple[Array, Array]:
    """Return lower and upper bounds on f at each false positive rate.

    Parameters
    ----------
    log_deltas
        The privacy profile.
    rates
        Shape (n,), false positive rates in [0, 1].
    fast
        Whether many epsilons cost little more than one.
    """
    grid = _GRID if fast or rates.size <= _FEW else _FINE
    profile = _Profile(log_deltas)
    end = 1.0
    while True:
        signed = np.linspace(-end, end, 2 * grid + 1)
        values, _ = profile.lines(signed[None, :], rates[:, None])
        best = values.argmax(axis=1)
        at_end = (best == 0) | (best == signed.size - 1)
        # beyond the end f gains less than delta there
        if not at_end.any() or end >= _FAR or profile.delta(end) < 1e-14:
            break
        end *= 2
    best = best.clip(1, signed.size - 2)
    rows = np.arange(rates.size)
    triple = np.stack([signed[best - 1], signed[best], signed[best + 1]])
    value = np.stack([values[rows, best - 1], values[rows, best], values[rows, best + 1]])
    if grid == _GRID:
        _refine(profile, rates, triple, value)
    lower = np.maximum(values.max(axis=1), value.max(axis=0))
    _, error = profile.lines(triple, rates)
    upper = _above(triple, value, error.max(axis=0), at_end, lower)
    chance = 1 - rates  # a test without data
    return np.clip(lower, 0.0, chance), np.clip(np.maximum(upper, lower), 0.0, chance)


def shaped(lower: Array, upper: Array, like: Array) -> Interval:
    """Return both bounds in the shape of `like`, as floats if it is a scalar."""
    if like.ndim == 0:
        return float(lower.item()), float(upper.item())
    return lower.reshape(like.shape), upper.reshape(like.shape)


def gaussian_tradeoff(mu: float, rates: Array) -> Interval:
    """Return bounds on Phi(-Phi^-1(a) - mu) within the accuracy of ndtr (1,700 ulp)."""
    from scipy.special import ndtr, ndtri

    exact = ndtr(-ndtri(rates) - mu)
    lower, upper = exact * (1 - 1e-12), np.minimum(exact * (1 + 1e-12), 1 - rates)
    return shaped(np.asarray(lower), np.asarray(upper), rates)


def _refine(profile: "_Profile", rates: Array, triple: Array, value: Array) -> None:
    """Narrow the interval around each maximum: a parabola through three points, and a bisection."""
    for _ in range(_ROUNDS):
        left, right = value[1] - value[0], value[1] - value[2]
        open_ = np.flatnonzero(np.maximum(left, right) > _CLOSE)
        if not open_.size:
            return
        now = triple[:, open_]
        candidates = np.stack([_vertex(now, left[open_], right[open_]), _halfway(now)])
        found, _ = profile.lines(candidates, rates[open_])
        for candidate, new in zip(candidates, found, strict=True):
            low, middle, high = triple[:, open_]
            right_of, better = candidate > middle, new > value[1, open_]
            valid = (low < candidate) & (candidate < high) & (candidate != middle)
            # the better point becomes the middle, the other one an end of the interval
            moved = np.where(right_of == better, 0, 2)
            for array, fresh in ((triple, candidate), (value, new)):
                old = array[1, open_]
                end = np.where(better, old, fresh)
                array[moved[valid], open_[valid]] = end[valid]
                array[1, open_[valid]] = np.where(better, fresh, old)[valid]


def _vertex(triple: Array, left: Array, right: Array) -> Array:
    """Return the vertex of the parabola through three points, kept inside the interval."""
    low, middle, high = triple
    before, after = middle - low, high - middle
    with np.errstate(all="ignore"):
        move = 0.5 * (left * after**2 - right * before**2) / (left * after + right * before)
    move = np.where(np.isfinite(move), move, 0.0)
    move = np.where(np.abs(move) > 1e-3 * np.minimum(before, after), move, 0.05 * after)
    return np.asarray(np.clip(middle + move, low + 0.02 * before, high - 0.02 * after))


def _halfway(triple: Array) -> Array:
    """Return the center of the larger part of the interval."""
    low, middle, high = triple
    far = np.where(high - middle > middle - low, high, low)
    return np.asarray((middle + far) / 2)


def _above(triple: Array, value: Array, error: Array, at_end: Array, lower: Array) -> Array:
    """Return an upper bound on the maximum of g from the secants of its three known points.

    g is concave in x = e^s, so right of the middle it is below the line through the two left
    points, and conversely. `error` bounds how far the true g may be above each value.
    """
    x = np.exp(triple)
    with np.errstate(all="ignore"):
        rise = (value[1] + error - value[0]) / (x[1] - x[0])
        fall = (value[1] + error - value[2]) / (x[2] - x[1])
        beyond = np.maximum(rise * (x[2] - x[1]), fall * (x[1] - x[0]))
    upper = np.where(np.isfinite(beyond), value[1] + error + np.maximum(beyond, 0.0), 1.0)
    return np.where(at_end, np.maximum(upper, lower + 1e-14), upper)


class _Profile:
    """The lines g of a profile."""

    def __init__(self, log_deltas: LogDeltas) -> None:
        self._log_deltas = log_deltas

    def delta(self, epsilon: float) -> float:
        """Return delta at one epsilon."""
        return float(self._deltas(np.array([epsilon]))[0][0])

    def _deltas(self, epsilons: Array) -> tuple[Array, Array]:
        asked, where = np.unique(epsilons, return_inverse=True)
        log_delta, error = self._log_deltas(asked)
        delta = np.minimum(np.exp(np.minimum(log_delta, 0.0)) * (1 + 16 * ULP), 1.0)
        off = np.minimum(delta * np.minimum(error, 1.0), delta) + 16 * ULP
        where = where.reshape(epsilons.shape)
        return delta[where], off[where]

    def lines(self, signed: Array, rates: Array) -> tuple[Array, Array]:
        """Return g(s) at each rate, rounded down, and by how much it may be too small."""
        delta, off = self._deltas(np.abs(signed))
        growth = np.exp(np.minimum(np.abs(signed), _FAR))
        positive = 1 - delta - growth * rates
        negative = (1 - delta - rates) / growth
        found = np.where(signed >= 0, positive, negative)
        room = 8 * ULP * (1 + np.where(signed >= 0, growth * rates, 0.0))
        return found - room, off + 2 * room


def dominating_gaussian(log_deltas: LogDeltas, end: float, remainder: float) -> tuple[float, float]:
    """Return the smallest mu with G_mu - remainder <= f, and its regret.

    f is bounded below by a polygon. G_mu is convex, so it is enough to compare both at the
    vertices of the polygon.

    Parameters
    ----------
    log_deltas
        The privacy profile.
    end
        An epsilon with delta(epsilon) <= remainder.
    remainder
        As in `Risk.gaussian_bound`.
    """
    from scipy.special import ndtr, ndtri

    epsilons = np.linspace(0.0, max(end, 1e-9), 1000)
    delta = np.exp(np.minimum(log_deltas(epsilons)[0], 0.0)) * (1 + 16 * ULP)
    x = np.exp(np.minimum(epsilons, _FAR))
    delta = np.minimum(np.minimum.accumulate(delta), 1.0)
    # a convex profile stays convex after rounding only up to some ulp: keep its lower hull
    keep = _lower_hull(x, delta)
    x, delta = x[keep], delta[keep]
    miss_alone = 1 - delta[0]
    rates = np.concatenate([[miss_alone / 2], -np.diff(delta) / np.diff(x)])
    misses = np.concatenate([[miss_alone / 2], 1 - delta[:-1] - x[:-1] * rates[1:]])
    inside = (rates > 0) & (misses > 0) & (misses + remainder < 1)
    rates, misses = rates[inside], misses[inside]
    gap = ndtri(1 - rates) - ndtri(misses + remainder)
    mu = max(float(gap.max(initial=0.0)), 0.0) * (1 + 1e-12) + 1e-12
    a = np.concatenate([np.geomspace(1e-12, 1e-2, 200), np.linspace(1e-2, 1, 400)])
    gaussian = ndtr(ndtri(1 - a) - mu)
    order = np.argsort(rates)
    corner = np.concatenate([[0.0], rates[order], misses[order][::-1], [1.0]])
    height = np.concatenate([[1.0], misses[order], rates[order][::-1], [0.0]])
    low, high = np.zeros_like(a), np.ones_like(a)
    for _ in range(50):
        middle = (low + high) / 2
        over = np.interp(np.minimum(a + middle, 1.0), corner, height) - middle > gaussian
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
