"""Incremental ridge regression: A = ridge I + sum x x', b = sum r x.

The inverse is stored as a square root, A^-1 = S S', which Potter's update maintains in O(d^2) per
round. S S' is positive semidefinite regardless of rounding, unlike a Cholesky factorization of the
inverse, which can fail.

Every array may have a leading replicate axis. A live learner has none, and calls BLAS directly,
with arguments by place: names take more time than a small product.
"""

import math
from collections.abc import Mapping
from math import sqrt
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.linalg.blas import daxpy, ddot, dgemv, dger
from scipy.linalg.lapack import dpotrf, dtrtri

from bandits.checks import Array


def times(matrix: Array, vector: Array) -> Array:
    """Return matrix (..., n, d) times vector (..., d), broadcasting the leading axes.

    One vector (R, 1, d) for the B matrices of a block, or one matrix (R, 1, n, d) for its B
    vectors, is computed as one matrix product per replicate.
    """
    if vector.ndim == 1:
        product: Array = matrix.dot(vector)  # 3 times as fast as @ for a small matrix
        return product
    if matrix.ndim == 4 and vector.shape[1] == 1:
        return (_rows(matrix) @ vector[:, 0, :, None]).reshape(matrix.shape[:-1])
    if matrix.ndim == 4 and matrix.shape[1] == 1:
        return np.asarray(vector @ transposed(matrix[:, 0]))
    out: Array = (matrix @ vector[..., None])[..., 0]
    return out


def rows_times(rows: Array, matrix: Array) -> Array:
    """Return rows (..., n, d) times matrix (..., d, d), broadcast as in `times`."""
    if rows.ndim == 4 and matrix.shape[1] == 1:
        return (_rows(rows) @ matrix[:, 0]).reshape(rows.shape)
    out: Array = rows @ matrix
    return out


def _rows(matrices: Array) -> Array:
    """Return the matrices (R, B, n, d) stacked for each replicate, shape (R, B n, d)."""
    return matrices.reshape(len(matrices), -1, matrices.shape[-1])


def sum_with(total: Array, matrix: Array, vector: Array, scale: float = 1.0) -> Array:
    """Return total (..., n) + scale times matrix (..., n, d) times vector (..., d), as `times`."""
    if vector.ndim == 1:
        found: Array = dgemv(scale, matrix.T, vector, 1.0, total, 0, 1, 0, 1, 1)
        return found
    out = times(matrix, vector)
    out *= scale
    out += total
    return out


def transposed(matrix: Array) -> Array:
    """Return the matrices (..., d, d) transposed."""
    return matrix.swapaxes(-1, -2)


def add_round(root: Array, x: Array) -> tuple[Array, Array | float]:
    """Update S (..., d, d), with A^-1 = S S', to that of A + x x', in place (Potter's update).

    With u = S'x and s = |u|^2 it is S - c (S u) u', c = (1 - 1/sqrt(1 + s)) / s, computed without
    cancellation as 1 / (1 + s + sqrt(1 + s)). S is C-ordered. Returns A^-1 x before the update,
    shape (..., d), and x'A^-1 x, shape (...).
    """
    if root.ndim == 2:
        inverse_x = np.zeros(len(x))
        return inverse_x, _add_one(root.T, x, np.zeros(len(x)), inverse_x)
    u = times(transposed(root), x)
    inverse_x = times(root, u)
    square = np.einsum("...i,...i->...", u, u)
    shrink = 1 / (1 + square + np.sqrt(1 + square))
    root -= (shrink[..., None] * inverse_x)[..., :, None] * u[..., None, :]
    return inverse_x, square


def _add_one(columns: Array, x: Array, u: Array, inverse_x: Array) -> float:
    """Update S' = `columns`, Fortran-ordered, write u and A^-1 x, and return x'A^-1 x."""
    dgemv(1.0, columns, x, 0.0, u, 0, 1, 0, 1, 0, 1)  # the last arguments: trans, overwrite_y
    dgemv(1.0, columns, u, 0.0, inverse_x, 0, 1, 0, 1, 1, 1)
    square: float = ddot(u, u)
    dger(-1 / (1 + square + sqrt(1 + square)), u, inverse_x, 1, 1, columns, 1, 1, 1)
    return square


def inverse_root(matrix: Array, floor: float) -> Array:
    """Return S with matrix^-1 = S S', by Cholesky, for positive definite matrices (..., d, d).

    `floor` bounds the eigenvalues, and so the pivots, from below in exact arithmetic. If rounding
    violates it, the factor is computed from the eigenvalues instead.
    """
    flat = matrix.reshape(-1, *matrix.shape[-2:])
    root = np.full_like(flat, np.nan)
    for i, each in enumerate(flat):  # LAPACK, because NumPy inverts a triangle as a full matrix
        upper, failed = dpotrf(each)
        if not failed:
            root[i], _ = dtrtri(upper, overwrite_c=1)
    pivots = np.diagonal(root, axis1=-2, axis2=-1)
    lost = ~(pivots.max(-1) <= math.sqrt(2 / floor))
    if lost.any():
        root[lost] = floored_inverse_root(flat[lost], floor)
    return root.reshape(matrix.shape)


def floored_inverse_root(matrix: Array, floor: float) -> Array:
    """Return S with matrix^-1 = S S', after raising eigenvalues below `floor` to `floor`."""
    values, vectors = np.linalg.eigh(matrix)
    root: Array = vectors / np.sqrt(np.maximum(values, floor))[..., None, :]
    return root


class Model(Protocol):
    """Estimate of theta: a mean and a square root of the covariance."""

    mean: Array
    root: Array
    moves: bool
    """Whether `observe` changes the model; if not, a batch can be played at once."""

    def observe(self, x: Array) -> Array | float:
        """Add the public features (..., d) of a round; return x'A^-1 x, or 0 if unused."""

    def close(self, features: Array, prefix: Array) -> None:
        """End a batch with features (..., B, d) and the released prefix (..., d) of b."""

    def state(self) -> dict[str, Array]:
        """Return the mutable arrays."""

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the arrays of `state`."""


class Stored:
    """State in named arrays, which change only when a batch ends."""

    _STATE: ClassVar[tuple[str, ...]]
    moves = False

    def observe(self, x: Array) -> Array | float:
        """Do nothing."""
        return 0.0

    def state(self) -> dict[str, Array]:
        return {name: getattr(self, name) for name in self._STATE}

    def load(self, state: Mapping[str, Array]) -> None:
        for name in self._STATE:
            setattr(self, name, state[name].copy())


class Ridge(Stored):
    """Ridge regression: mean A^-1 b, covariance A^-1, ignoring the noise in b.

    The initial A is `ridge` > 0 times the identity; `lead`, () or (R,), is the shape of the
    replicate axis. `frozen` updates A once per batch. `prior_mean` of theta, shape (d,) or a
    number, is public.
    """

    def __init__(
        self,
        dimension: int,
        lead: tuple[int, ...] = (),
        *,
        ridge: float = 1.0,
        frozen: bool = False,
        prior_mean: Array | float = 0.0,
    ) -> None:
        square = (*lead, dimension, dimension)
        self.moves, self.ridge = not frozen, ridge
        self.root = np.zeros(square) + np.eye(dimension) / np.sqrt(ridge)
        self.precision = np.zeros(square) + ridge * np.eye(dimension) if frozen else np.zeros(0)
        self.prior = ridge * (np.zeros(dimension) + prior_mean)
        self.mean = np.zeros((*lead, dimension)) + prior_mean
        self._shared: Any = None, None, None, None  # arrays of a live learner's rounds

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_shared": (None,) * 4}  # its second array is a view of `root`

    def observe(self, x: Array) -> Array | float:
        if not self.moves:
            return 0.0
        if x.ndim == 1:
            known, columns, u, inverse_x = self._shared
            if known is not self.root:
                known, columns, u, inverse_x = self.root, self.root.T, *np.zeros((2, len(x)))
                self._shared = known, columns, u, inverse_x
            grown = _add_one(columns, x, u, inverse_x)
            daxpy(inverse_x, self.mean, len(x), -ddot(x, self.mean) / (1 + grown))
            return grown
        inverse_x, square = add_round(self.root, x)
        fit = np.einsum("...i,...i->...", x, self.mean) / (1 + square)
        self.mean -= fit[..., None] * inverse_x
        return square

    def close(self, features: Array, prefix: Array) -> None:
        if not self.moves:
            self.precision += transposed(features) @ features
            self.root = inverse_root(self.precision, self.ridge)
        self.mean = times(self.root, times(transposed(self.root), prefix + self.prior))

    _STATE = ("root", "precision", "mean")


class NoisyRidge(Stored):
    """Ridge regression on released vectors that contain noisy sums of x x' and of b.

    A = ridge I + max(shift I + released x x', 0), because negative eigenvalues can only be noise.
    The release has `reward_weight` times (r - center) x; the rest is as in `Ridge`.
    """

    def __init__(
        self,
        dimension: int,
        lead: tuple[int, ...] = (),
        *,
        ridge: float = 1.0,
        shift: float = 0.0,
        reward_weight: float = 1.0,
        prior_mean: Array | float = 0.0,
    ) -> None:
        self.ridge, self.shift, self.reward_weight = ridge, shift, reward_weight
        self.upper = np.triu_indices(dimension)
        start = np.eye(dimension) / np.sqrt(ridge + shift)
        self.root = np.zeros((*lead, dimension, dimension)) + start
        self.prior = (ridge + shift) * (np.zeros(dimension) + prior_mean)
        self.mean = np.zeros((*lead, dimension)) + prior_mean

    def close(self, features: Array, prefix: Array) -> None:
        """Compute A and b from a release; `features` are private and unused."""
        first, second = self.upper
        count = len(first)
        gram = np.zeros_like(self.root)
        gram[..., first, second] = prefix[..., :count]
        gram[..., first, second] /= np.where(first == second, 1.0, np.sqrt(2))
        gram[..., second, first] = gram[..., first, second]
        start = (self.ridge + self.shift) * np.eye(gram.shape[-1])
        self.root = floored_inverse_root(gram + start, self.ridge)
        vector = prefix[..., count:] / self.reward_weight + self.prior
        self.mean = times(self.root, times(transposed(self.root), vector))

    _STATE = ("root", "mean")
