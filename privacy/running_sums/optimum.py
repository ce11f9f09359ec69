"""The optimal factorization of the running sum (docs/theory/running-sums.md, "The optimum")."""

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from scipy.linalg import cholesky, eigh
from threadpoolctl import threadpool_limits

from privacy import checks
from privacy.numerics import storage
from privacy.running_sums import series
from privacy.running_sums.memory import Array

Objective = Literal["mean-square", "max"]
_GAP = 1e-6
_ITERATIONS = 1000
_MEMORY = 8  # earlier points that the mixing combines
_COARSE = 60  # side at which the search starts
_STEPS = 500
_DECREASE = 1e-12  # least decrease of the log variance by a quasi-Newton step
_SMALL = 512  # up to this side, BLAS threads cost more time than they save


def encoder(
    releases: int,
    objective: str,
    weights: Sequence[float] | None,
    cache: str | PathLike[str] | None,
) -> Array:
    """Return the optimal lower-triangular C, scaled to columns of norm <= 1."""
    remedy = "Pass 'mean-square' for the mean variance, 'max' for the largest."
    checks.one_of("objective", objective, get_args(Objective), remedy)
    counts = _weights(releases, objective, weights)
    if cache is None:
        return _best(counts, objective)
    key = hashlib.sha256(counts.tobytes() + objective.encode()).hexdigest()[:32]
    path = Path(cache) / f"running-sum-{releases}-{key}.npz"
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        matrix = np.asarray(storage.read(path)[1]["matrix"], dtype=np.float64)
        # noise and sensitivity are computed from the matrix read: a wrong one cannot weaken privacy
        if matrix.shape == (releases, releases) and _usable(matrix):
            return matrix
    matrix = _best(counts, objective)
    path.parent.mkdir(parents=True, exist_ok=True)
    storage.write(path, {"kind": "factorization"}, {"matrix": matrix})
    return matrix


def _weights(releases: int, objective: str, weights: Sequence[float] | None) -> Array:
    if weights is None:
        return np.ones(releases) / releases
    remedy = f"Pass one number > 0 per release, the smallest at least {_GAP:g} times the largest."
    rule = "None with objective='max'"
    checks.refuse_if(objective == "max", "weights", weights, rule, "Leave the weights out.")
    checks.instance("weights", weights, Iterable, f"{releases} numbers", remedy)
    counts: Array = np.array([checks.real("weights", w, remedy, above=0) for w in weights])
    checks.refuse_if(len(counts) != releases, "weights", len(counts), f"{releases} numbers", remedy)
    counts /= counts.max()  # before the sum, which could overflow
    if counts.min() < _GAP:  # smaller weights are below the accuracy of the optimum
        rule = f"within a factor of {1 / _GAP:g}"
        raise ValueError(checks.expected("weights", weights, rule, remedy))
    counts /= counts.sum()
    return counts


def _usable(matrix: Array) -> bool:
    lower = bool(np.all(np.triu(matrix, 1) == 0) and np.all(np.isfinite(matrix)))
    return lower and bool(np.all(matrix.diagonal() > 0))


def _optimum(counts: Array, *, move: bool) -> Array:
    """Return G; with `move`, the weights rise where the variance is above its mean.

    For equal weights, the problem is solved at half the side first, from `_COARSE` on.
    """
    sides = [len(counts)]
    while np.ptp(counts) == 0 and sides[-1] > _COARSE:
        sides.append((sides[-1] + 1) // 2)
    points: list[Array] = []
    for side in reversed(sides):
        start = np.log([np.ones(side), counts[:side]]) if len(points) < 2 else _finer(points, side)
        point, gram = _search(start, move=move)
        points.append(point)
    return gram


def _finer(points: Sequence[Array], side: int) -> Array:
    """Extrapolate the logs of v and of the weights from two sides to about twice the second.

    Near the ends, the change from one side to the next depends on the distance to the end alone.
    """

    def stretched(point: Array, size: int) -> Array:
        old, new = ((np.arange(k) + 0.5) / k for k in (point.shape[1], size))
        return np.array([np.interp(new, old, row) for row in point])

    coarse, fine = points[-2:]
    change = fine - stretched(coarse, fine.shape[1])
    half = change.shape[1] // 2
    found = stretched(fine, side)
    found[:, :half] += change[:, :half]
    found[:, -half:] += change[:, -half:]
    return found


def _search(point: Array, *, move: bool) -> tuple[Array, Array]:
    """Return the logs of v and of the weights at the optimum, and G.

    Anderson mixing (1965) of the fixed-point iteration v = diag(S). For all weights, the minimum
    over G of the weighted mean is at most that of the maximum, so the dual bound holds for both.
    """
    largest = np.maximum.outer(*2 * [np.arange(point.shape[1])])
    history: list[tuple[Array, Array]] = []
    last = math.inf  # duality gap
    for _ in range(_ITERATIONS):
        v, counts = np.exp(point)
        counts /= counts.sum()
        roots = np.sqrt(v)
        target = np.cumsum(counts[::-1])[::-1][largest]  # A'WA
        values, vectors = eigh(roots[:, None] * target * roots)
        values = np.sqrt(np.maximum(values, np.finfo(float).tiny))
        bound = float(values.sum()) ** 2 / float(v.sum())
        diagonal = vectors**2 @ values
        scale = roots * np.sqrt(diagonal / v)  # makes every entry of diag(G) 1
        variances = np.square(np.cumsum(scale[:, None] * vectors / np.sqrt(values), axis=0)).sum(1)
        reached = float(variances.max() if move else counts @ variances)
        if reached <= bound * (1 + _GAP):
            point -= np.log(np.mean(np.exp(point), axis=1, keepdims=True))
            return point, (vectors * values) @ vectors.T / np.sqrt(np.outer(diagonal, diagonal))
        if reached - bound > last:
            history = []  # the mixing failed: start it again
        last = reached - bound
        # twice the step of the fixed point and of the weights, which halves the iterations
        step = np.log([diagonal / v, variances**move])
        step = 2 * (step - step.mean(axis=1, keepdims=True))
        history = [*history[-_MEMORY:], (point, step)]
        if len(history) > 1:
            moved, turned = (np.diff([pair[k].ravel() for pair in history], axis=0) for k in (0, 1))
            mix = np.linalg.lstsq(turned.T, step.ravel(), rcond=1e-10)[0]
            step = (step.ravel() - mix @ (2 * moved + turned)).reshape(step.shape) / 2
        point = point + step
    raise _not_found(point.shape[1])


def _not_found(releases: int) -> ArithmeticError:
    what = f"The optimal factorization of {releases} releases"
    return ArithmeticError(f"{what} has a relative gap > {_GAP:g}.")


def _best(counts: Array, objective: str) -> Array:
    """Return the lower-triangular C with C'C = G, by a Cholesky factorization from the last row."""
    threads = 1 if len(counts) <= _SMALL else None
    try:
        with threadpool_limits(threads, user_api="blas"):
            gram = _optimum(counts, move=objective == "max")
            factor: Array = cholesky(gram[::-1, ::-1], lower=True)[::-1, ::-1].T
    except np.linalg.LinAlgError as error:  # G is singular to rounding
        raise _not_found(len(counts)) from error
    return np.ascontiguousarray(factor)


def banded(releases: int, band: int) -> Array:
    """Return `band` Toeplitz coefficients of small mean variance at sensitivity 1, by BFGS."""
    # noise and sensitivity are computed from them, so they need not be optimal
    weights = 1 - np.arange(releases) / releases

    def objective(rest: Array) -> tuple[float, Array]:
        """Return the log of |c|^2 times the mean variance, and its gradient without c_0 = 1."""
        c = np.append(1.0, rest)
        inverse = series.inverse(c, releases)
        sums = np.cumsum(inverse)
        mean, size = float(weights @ sums**2), float(c @ c)
        # d sums = -(sums * inverse), shifted by j, times d c_j
        moved = series.product(inverse, sums, releases)
        slope = series.product((weights * sums)[::-1], moved, releases)[::-1][:band]
        return math.log(mean * size), (2 * c / size - 2 * slope / mean)[1:]

    with np.errstate(over="ignore", invalid="ignore"):
        return np.append(1.0, _descend(objective, series.square_root(band)[1:]))


def _descend(objective: Callable[[Array], tuple[float, Array]], x: Array) -> Array:
    """Return a point near a minimum, by BFGS with backtracking (Nocedal and Wright 2006, 6.1)."""
    value, slope = objective(x)
    inverse = np.eye(x.size)
    for _ in range(_STEPS):
        step = -inverse @ slope
        expected = float(slope @ step)
        if not -expected > _DECREASE:
            break
        length = 1.0
        while True:
            new = x + length * step
            new_value, new_slope = objective(new)
            if new_value <= value + 1e-4 * length * expected:  # not met by NaN
                break
            length *= 0.5
            if length < 1e-12:
                return x
        moved, turned = new - x, new_slope - slope
        x, value, slope = new, new_value, new_slope
        bend = float(moved @ turned)
        if bend > 0:
            left = np.eye(x.size) - np.outer(moved, turned) / bend
            inverse = left @ inverse @ left.T + np.outer(moved, moved) / bend
    return x
