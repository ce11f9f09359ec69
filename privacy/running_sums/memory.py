"""Past vectors for the rows of C: sum_{j<k} C_kj v_j, storing no more than they use."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_PRODUCTS = 2**18


class Memory(ABC):
    """The vectors v_0 .. v_{k-1}, or the part of them that the rows of C need."""

    @abstractmethod
    def past(self, k: int) -> Any:
        """Return sum_{j<k} C_kj v_j, a vector."""

    @abstractmethod
    def push(self, vector: Array) -> None:
        """Append v_k."""

    @abstractmethod
    def state(self) -> Array:
        """Return the array for a checkpoint."""

    @abstractmethod
    def restore(self, state: Array, count: int) -> None:
        """Restore what `state` returned after `count` vectors, or raise."""


class History(Memory):
    """The last `band` - 1 vectors of length `size`; `row` and `band` are those of C."""

    def __init__(self, row: Callable[[int], Array], band: int, size: int, releases: int) -> None:
        self._row = row
        self._keep = band - 1
        # room for twice as many vectors, so that they are rarely moved; a full history never is
        self._vectors = np.zeros((min(releases, 2 * band), size))
        self._length = 0

    def past(self, k: int) -> Any:
        row = self._row(k)[:-1]
        vectors = self._vectors[self._length - len(row) : self._length]
        # in pieces: for larger products BLAS starts threads, which cost more than they save here
        piece = max(1, _PRODUCTS // vectors.shape[1])
        starts = range(0, max(1, len(row)), piece)
        return sum(row[i : i + piece] @ vectors[i : i + piece] for i in starts)

    def push(self, vector: Array) -> None:
        if self._length == len(self._vectors):
            self._vectors[: self._keep] = self._vectors[self._length - self._keep :]
            self._length = self._keep
        self._vectors[self._length] = vector
        self._length += 1

    def state(self) -> Array:
        return self._vectors[: self._length]

    def restore(self, state: Array, count: int) -> None:
        capacity = len(self._vectors)
        # `push` discards all but `_keep` vectors whenever the array is full
        beyond = max(0, count - capacity - 1) % (capacity - self._keep)
        length = count if count <= capacity else self._keep + 1 + beyond
        _check_shape(state, (length, self._vectors.shape[1]))
        self._length = length
        self._vectors[:length] = state


class Buffers(Memory):
    """One vector for each term of C_kj = sum_i weights_i decays_i^(k - j - 1), j < k."""

    def __init__(self, weights: Array, decays: Array, size: int) -> None:
        self._weights = weights
        self._decays = decays[:, None]
        self._buffers = np.zeros((len(weights), size))

    def past(self, k: int) -> Any:
        return self._weights @ self._buffers

    def push(self, vector: Array) -> None:
        self._buffers *= self._decays
        self._buffers += vector

    def state(self) -> Array:
        return self._buffers

    def restore(self, state: Array, count: int) -> None:
        _check_shape(state, self._buffers.shape)
        self._buffers[:] = state


def _check_shape(state: Array, shape: tuple[int, ...]) -> None:
    if state.shape != shape:
        raise ValueError(f"The saved noise has shape {state.shape}, not {shape}.")
