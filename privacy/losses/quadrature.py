"""Log moments of one step's privacy loss, by quadrature.

K(t) = log E_P exp(t L) = t D_{t+1}(P || Q) for a dominating pair (P, Q), L = log dP/dQ and t > 0 is
computed without cancellation (docs/theory/contour.md). A model gives `LossNodes` of P.
"""

import math
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from privacy.numerics.rounding import ULP

Array = NDArray[np.floating[Any]]
Complex = NDArray[np.complex128]
Index = NDArray[np.intp]
Direction = Literal["remove", "add"]

_SMALL = 0.125  # below this, psi is computed by its series
_SERIES = [1 / math.factorial(k) for k in range(10, 1, -1)]
_REACH = 32.0  # the nodes for this t serve the whole search for most saddle points
_ROWS = 64  # most models that are evaluated together
_LARGE = 600.0  # above this, sums of exp(y) are computed in logs


def psi(y: Array) -> Array:
    """Return e^y - 1 - y with a relative accuracy of 4e-15 (y <= 700)."""
    series = y * _SERIES[0]
    for coefficient in _SERIES[1:]:
        series += coefficient
        series *= y
    series *= y
    return np.where(np.abs(y) < _SMALL, series, np.expm1(y) - y)


def dot(one: Array, other: Array) -> Array:
    """Return the sums of the products over the last axis."""
    return one @ other if other.ndim == 1 else np.einsum("...i,...i->...", one, other)


def _weighted_psi(log_weight: Array, weight: Array, y: Array) -> Array:
    """Return exp(log_weight) psi(y), also if exp(y) alone would overflow."""
    if y.max() <= _LARGE:
        return np.asarray(weight * psi(y))
    far = np.exp(log_weight + np.maximum(y, 1.0)) - weight * (1 + y)
    return np.where(y > 1, far, weight * psi(np.minimum(y, 1.0)))


@dataclass(frozen=True)
class LossNodes:
    """A quadrature of P: ``sum(exp(log_weight) * f(loss))`` is E_P f(L).

    Several P may be stacked, with the nodes on the last axis.
    """

    log_weight: Array
    loss: Array
    ulps: float = 16.0
    """Rounding error of a weight and a loss, in addition to that of their logs."""

    def log_moment(self, t: Array) -> tuple[Array, Array]:
        """Return K(t) and a bound on its rounding error, for each real t > 0, shape (..., n)."""
        large = t * self._largest > _LARGE
        if not large.any():
            return self._moderate(t)
        value, error = np.empty((2, *self.loss.shape[:-1], t.size))
        for some, moments in ((~large, self._moderate), (large, self._large)):
            if some.any():
                value[..., some], error[..., some] = moments(t[some])
        return value, error

    def rough_log_moment(self, t: Array) -> tuple[Array, Array]:
        """Return K(t) with an absolute accuracy of only 1e-11, several times faster."""
        exponent = self.log_weight[..., None, :] + self._products(t)
        shift = exponent.max(axis=-1)
        exponent -= shift[..., None]
        value = shift + np.log(np.exp(exponent, out=exponent).sum(axis=-1))
        return np.maximum(value, 0.0), np.full_like(value, 1e-11)

    def _moderate(self, t: Array) -> tuple[Array, Array]:
        y = self._products(t)
        terms = psi(y)
        terms *= self._weight[..., None, :]
        excess = terms.sum(axis=-1) + t * self._back
        # the condition number of a term in y is y psi'(y) / psi(y) <= 2 + |y|
        scale = self.ulps * excess + np.einsum("...ij,...j->...i", terms, np.abs(self.log_weight))
        scale += np.einsum("...ij,...ij->...i", terms, np.abs(y, out=y))
        return np.log1p(excess), 4 * ULP * scale / (1 + excess)

    def _large(self, t: Array) -> tuple[Array, Array]:
        y = self._products(t)
        exponent = self.log_weight[..., None, :] + y
        shift = exponent.max(axis=-1)
        terms = np.exp(exponent - shift[..., None])
        total = terms.sum(axis=-1)
        value = shift + np.log(total)
        scale = np.einsum("...ij,...ij->...i", terms, np.abs(exponent) + np.abs(y)) / total
        scale += self.ulps
        # the log of a sum near 1 has no relative accuracy
        for *one, i in np.argwhere(value < 1):
            which = tuple(one)
            logs, weight = self.log_weight[which], self._weight[which]
            excess = _weighted_psi(logs, weight, y[(*which, i)]).sum()
            excess += t[i] * self._back[(*which, 0)]
            value[(*which, i)] = np.log1p(excess)
            scale[(*which, i)] = excess * (scale[(*which, i)] + 50)
        return value, 4 * ULP * (scale + np.abs(value))

    def _products(self, t: Array) -> Array:
        return t[:, None] * self.loss[..., None, :]

    def cumulants(self, t: float) -> tuple[Array, Array, Array]:
        """Return nearly K(t), K'(t) and K''(t): log moment, mean, variance of the tilted loss."""
        y = t * self.loss
        if t * self._largest <= _LARGE:
            growth = np.expm1(y)
            growth *= self._weight
            back = self._back[..., 0]
            excess = growth.sum(axis=-1) - t * dot(self._weight, self.loss) + t * back
            mean = (dot(growth, self.loss) + back) / (1 + excess)
            growth += self._weight
            value, total = np.log1p(excess), 1 + excess
        else:
            exponent = self.log_weight + y
            top = exponent.max(axis=-1)
            growth = np.exp(exponent - top[..., None])
            total = growth.sum(axis=-1)
            value, mean = top + np.log(total), dot(growth, self.loss) / total
        return value, mean, dot(growth, np.square(self.loss - mean[..., None])) / total

    def mean(self, t: float) -> tuple[Array, Array]:
        """Return K'(t) and a bound on its rounding error, from terms >= 0.

        exp(K) K' = E_P (e^(t L) - 1) L + E_P psi(-L).
        """
        y = t * self.loss
        size, top = np.abs(y), (self.log_weight + y).max(axis=-1, keepdims=True)
        log_weight = self.log_weight - top
        terms = np.exp(log_weight + np.maximum(y, 0.0)) * -np.expm1(-size) * np.abs(self.loss)
        terms += _weighted_psi(log_weight, np.exp(log_weight), -self.loss)
        total = np.exp(log_weight + y).sum(axis=-1)
        scale = self.ulps + np.abs(self.log_weight) + np.abs(top) + size
        return terms.sum(axis=-1) / total, 4 * ULP * dot(terms, scale) / total

    @cached_property
    def _largest(self) -> float:
        return max(float(self.loss.max()), 0.0)

    @cached_property
    def _weight(self) -> Array:
        return np.exp(self.log_weight)

    @cached_property
    def _back(self) -> Array:
        terms = _weighted_psi(self.log_weight, self._weight, -self.loss)
        return np.asarray(terms.sum(axis=-1, keepdims=True))


@dataclass(frozen=True)
class LineNodes:
    """A quadrature of E_P exp(s L) for all s with Re s = t, 0 <= Im s <= frequency.

    The sum of weight * exp(i w loss) is M(t + i w) / M(t). Complex nodes have Im loss >= 0.
    """

    weight: Array | Complex
    loss: Array | Complex
    rounding: Array
    """Bound on the relative error of each weight, in units in the last place."""
    quadrature: Array | float
    """The error of the sum is at most ``quadrature * |s (s + 1)|``."""


class LossModel(Protocol):
    """The dominating pair of one step, in both directions; hashable, for caching.

    Every method may raise OverflowError if the loss needs more than a hundred thousand nodes.
    """

    def __hash__(self) -> int:
        return object.__hash__(self)

    def supremum(self, direction: Direction) -> float:
        """Return the largest possible loss."""
        return math.inf

    def lost(self, direction: Direction) -> float:
        """Return the omitted mass of P, which counts as an infinite loss."""
        return 0.0

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        """Return nodes for K(t)."""
        ...

    def shared_nodes(self, direction: Direction, t: float) -> LossNodes | None:
        """Return nodes for K on all of (0, t], None if there would be too many."""
        return self.nodes(direction, t)

    def stack_key(self, t: float) -> Hashable:
        """Return a key that models share if their nodes for (0, t] are the same noise values."""
        return self

    def several(self, models: Sequence[Any]) -> Any:
        """Return one model with a row for each of several with this class and key, or None."""
        return None

    def stacked_nodes(
        self, models: Sequence[Any], direction: Direction, t: float
    ) -> LossNodes | None:
        """Return shared nodes of models with this class and key, one row per model."""
        several = self.several(models)
        return None if several is None else several.shared_nodes(direction, t)

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: float) -> LineNodes:
        """Return nodes on Re s = t whose weights are divided by exp(log_moment), that is M(t)."""
        ...

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        """Return log upper bounds on |M(t + i w)| / M(t) for every w >= frequency.

        `depth` lists the distances from the real line (of the noise) to try.
        """
        ...


def log_moment(
    model: LossModel, t: Array, direction: Direction, *, rough: bool = False
) -> tuple[Array, Array]:
    """Return K(t) and an error bound, for each real t > 0.

    K(t) / t is the Rényi divergence of order t + 1: of P || Q for "remove", of Q || P for "add".
    The error bound is about 1e-14 relative; a rough K is accurate to 1e-11. Raises OverflowError if
    the loss spreads too widely for a hundred thousand nodes.
    """
    t = np.atleast_1d(np.asarray(t, dtype=float))
    nodes = nodes_up_to(model, float(t.max()), direction)
    if nodes is None and t.size == 1:
        nodes = model.nodes(direction, float(t[0]))
    if nodes is not None:
        return nodes.rough_log_moment(t) if rough else nodes.log_moment(t)
    parts = [log_moment(model, s, direction, rough=rough) for s in t]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def nodes_up_to(model: LossModel, t: float, direction: Direction) -> LossNodes | None:
    """Return nodes for (0, t], None if there would be too many."""
    nodes = _nodes_up_to(model, reach(t), direction)
    if nodes is None and t < _REACH:
        nodes = _nodes_up_to(model, 2.0 ** max(math.ceil(math.log2(t)), -30), direction)
    return nodes


def reach(t: float) -> float:
    """Return t rounded up, so that a search over t reuses cached nodes for (0, reach(t)]."""
    return 2.0 ** math.ceil(math.log2(max(t, _REACH)))


@lru_cache(maxsize=4)
def legendre(count: int) -> tuple[Array, Array]:
    """Return the Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(count)


@lru_cache(maxsize=2048)  # for the parts of a large sum
def _nodes_up_to(model: LossModel, t: float, direction: Direction) -> LossNodes | None:
    return model.shared_nodes(direction, t)


def stacked_nodes(
    models: Sequence[LossModel], t: float, direction: Direction
) -> Iterator[tuple[list[int], LossNodes | None]]:
    """Yield rows of models, and their shared nodes for (0, t], None if they have none."""
    if len(models) == 1:
        yield [0], None
        return
    t = reach(t)  # as in `decay`
    alike: dict[Hashable, list[int]] = {}
    for row, model in enumerate(models):
        alike.setdefault((type(model), model.stack_key(t)), []).append(row)
    for rows in (one[k : k + _ROWS] for one in alike.values() for k in range(0, len(one), _ROWS)):
        nodes = None
        if len(rows) > 1:
            with suppress(OverflowError):
                some = [models[row] for row in rows]
                nodes = some[0].stacked_nodes(some, direction, t)
        yield rows, nodes
