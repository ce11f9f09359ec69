"""The optimal factorization of the running sum: a convex problem in G = C'C, with a dual bound.

minimize tr(M G^-1), M = A'WA, subject to diag(G) <= 1. For every v > 0 the minimum of the
Lagrangian, 2 tr S - sum v with S = (V^1/2 M V^1/2)^1/2, is a lower bound; the best multiple of v
makes it (tr S)^2 / sum v. At the optimum v = diag(S) and G = V^-1/2 S V^-1/2.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, eigh
from threadpoolctl import threadpool_limits

from privacy import checks
from privacy.numerics import storage
from privacy.running_sums.memory import Array

Objective = Literal["mean-square", "max"]
_GAP = 1e-6
_ITERATIONS = 10_000
_SMALL = 512
"""Up to this side, BLAS threads cost more time than they save, mainly on shared processors."""


def encoder(
    releases: int,
    objective: str,
    weights: Sequence[float] | None,
    cache: str | PathLike[str] | None,
) -> Array:
    """Return the optimal lower-triangular C, scaled to columns of norm <= 1."""
    if objective not in get_args(Objective):
        remedy = "Pass 'mean-square' for the mean variance, 'max' for the largest."
        rule = f"one of {get_args(Objective)}"
        raise ValueError(checks.expected("objective", objective, rule, remedy))
    counts = _weights(releases, objective, weights)
    if cache is None:
        return _best(counts, objective)
    key = hashlib.sha256(counts.tobytes() + objective.encode()).hexdigest()[:32]
    path = Path(cache) / f"running-sum-{releases}-{key}.npz"
    with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
        matrix = np.asarray(storage.read(path)[1]["matrix"], dtype=np.float64)
        # noise and sensitivity are computed from the matrix read: a bad one costs no privacy
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
    if objective == "max":
        rule = "None with objective='max'"
        raise ValueError(checks.expected("weights", weights, rule, "Leave the weights out."))
    if not isinstance(weights, Iterable):
        raise TypeError(checks.expected("weights", weights, f"{releases} numbers", remedy))
    counts: Array = np.array([checks.real("weights", w, remedy, above=0) for w in weights])
    if len(counts) != releases:
        raise ValueError(checks.expected("weights", len(counts), f"{releases} numbers", remedy))
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

    For all weights, the minimum over G of the weighted mean is at most the minimum of the maximum,
    so the dual bound holds for both objectives.
    """
    releases = len(counts)
    sums = np.tri(releases)
    v = np.ones(releases)
    for _ in range(_ITERATIONS):
        target = sums.T @ (counts[:, None] * sums)
        roots = np.sqrt(v)
        values, vectors = eigh(roots[:, None] * target * roots)
        values = np.sqrt(np.maximum(values, 0))
        root = (vectors * values) @ vectors.T
        bound = float(values.sum()) ** 2 / float(v.sum())
        gram = root / np.multiply.outer(roots, roots)
        gram /= gram.diagonal().max()
        variances = np.einsum("ij,ji->i", sums, cho_solve(cho_factor(gram), sums.T))
        reached = float(variances.max() if move else counts @ variances)
        if reached <= bound * (1 + _GAP):
            scale = np.sqrt(gram.diagonal())
            best: Array = gram / np.multiply.outer(scale, scale)
            return best
        # twice the step of the fixed point and of the weights, which halves the iterations
        v = np.square(root.diagonal()) / v
        if move:
            counts = counts * np.square(variances)
            counts /= counts.sum()
    raise _not_found(releases)


def _not_found(releases: int) -> ArithmeticError:
    return ArithmeticError(
        f"The optimal factorization of {releases} releases was not found to {_GAP:g}."
    )


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
