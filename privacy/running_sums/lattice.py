"""Exact rows of C x on the integer lattice, with noise from the operating system.

Entries of C are rounded to 2^-20, and integer inputs are split into a high and a low part of 21
bits, so that every product and partial sum is a multiple of 2^-20 below 2^33, which doubles
represent exactly. Row k of C x is rounded and gets integer noise; all later is post-processing.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from privacy import checks
from privacy.numerics.rounding import round_up
from privacy.release import noise as safe_noise
from privacy.running_sums.factorizations import DENSE_LIMIT, Factorization
from privacy.running_sums.memory import Array, History
from privacy.running_sums.participation import Participation

_GRAIN = 2.0**20
_PART = 2**21
LARGEST = 2.0**42  # inputs are clamped to this many steps, which increases no distance


@dataclass(frozen=True, eq=False)
class Rounded(Factorization):
    """`exact` with the entries of C rounded to 2^-20, which changes the noise of late releases."""

    exact: Factorization

    def row(self, k: int) -> Array:
        return np.asarray(np.rint(self.exact.row(k) * _GRAIN) / _GRAIN)

    @property
    def band(self) -> int:
        return self.exact.band

    def variance(self, k: int) -> float:
        if self.releases <= DENSE_LIMIT:
            return super().variance(k)
        # row k of B solves b C = (1, ..., 1), from its last entry on
        weights = np.ones(k + 1)
        for j in range(k, -1, -1):
            row = self.row(j)
            weights[j] /= row[-1]
            weights[j + 1 - len(row) : j] -= weights[j] * row[:-1]
        return float(np.square(weights).sum())


class Lattice:
    """The integer arithmetic of one block of a running sum of vectors of length `size`."""

    def __init__(
        self,
        factorization: Factorization,
        sigma: float,
        step: float,
        noise: Literal["rounded", "discrete"],
        size: int,
    ) -> None:
        self._row = Rounded(factorization.name, factorization.releases, factorization).row
        self._step = step
        remedy = "Choose a step between 2^-40 and 1 times sigma."
        self._sigma = checks.real(  # the step is a power of two: exact
            "sigma / step", sigma / step, remedy, at_least=1, at_most=safe_noise.LARGEST_SCALE
        )
        draws = {"rounded": safe_noise.rounded_gaussian, "discrete": safe_noise.discrete_gaussian}
        self._draw = draws[noise]
        shape = factorization.band, size, factorization.releases
        self._high, self._low, self.memory = (History(self._row, *shape) for _ in range(3))

    @staticmethod
    def widening(factorization: Factorization, participation: Participation) -> float:
        """Return a bound on the sensitivity added by rounding C: 2^-21 sqrt(band) per column."""
        largest, band = factorization.row_sum(), factorization.band
        if largest + band / _GRAIN >= 2**12 or float(factorization.diagonal().min()) < 2.0**-10:
            remedy = "Scale C, or use fewer releases."
            rule = "a C with row sums below 4096 and a diagonal of at least 2^-10"
            raise ValueError(checks.expected("factorization", factorization.name, rule, remedy))
        return round_up(2.0**-21 * band**0.5 * participation.total(factorization.releases), 1e-9)

    def holds(self, values: Array) -> bool:
        units = self._units(values)
        return bool(np.all(units == np.rint(units)))

    def _units(self, values: Array) -> Array:
        most = LARGEST * self._step
        return np.asarray(np.clip(values, -most, most) / self._step)

    def step(self, k: int, values: Array) -> Any:
        """Return the next increment: row k of C^-1 applied to round(C x) + z, times the step."""
        exact = self.rounded_row(k, values)
        noisy = exact + self._draw(self._sigma, exact.shape)
        # post-processing from here on: uses only `noisy` of this and earlier releases
        increment = (noisy - self.memory.past(k)) / self._row(k)[-1]
        self.memory.push(increment)
        return increment * self._step

    def rounded_row(self, k: int, values: Array) -> NDArray[np.int64]:
        """Store the input of release k and return row k of C x, rounded to the lattice."""
        units = self._units(values)
        high = np.floor(units / _PART)
        low = units - high * _PART
        diagonal = self._row(k)[-1]
        coarse = self._high.past(k) + diagonal * high
        fine = self._low.past(k) + diagonal * low
        self._high.push(high)
        self._low.push(low)
        rounded: NDArray[np.int64] = (coarse * _PART).astype(np.int64)
        rounded += np.floor(fine + 0.5).astype(np.int64)
        return rounded

    def state(self) -> dict[str, NDArray[Any]]:
        return {"high": self._high.state(), "low": self._low.state()}

    def restore(self, arrays: dict[str, NDArray[Any]], count: int) -> None:
        self._high.restore(arrays["high"], count)
        self._low.restore(arrays["low"], count)
