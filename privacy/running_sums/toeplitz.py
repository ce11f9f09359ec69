"""Toeplitz matrices C, stored by diagonals."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy.numerics.rounding import ULP, round_up
from privacy.running_sums import series
from privacy.running_sums.factorizations import Factorization, check_parts, register_factorization
from privacy.running_sums.memory import Array


@register_factorization
@dataclass(frozen=True, eq=False)
class Toeplitz(Factorization):
    """C_kj = coefficients_(k - j) / scale_j."""

    kind: ClassVar[str] = "toeplitz/1"

    coefficients: Array
    scale: Array | None = None

    def __post_init__(self) -> None:
        fits = self.coefficients.ndim == 1 and 1 <= self.coefficients.size <= self.releases
        good = fits and bool(self.coefficients[0] > 0)
        if self.scale is not None:
            fits = self.scale.shape == (self.releases,)
            good = good and fits and bool(np.all(self.scale > 0))
        check_parts("coefficients", self.coefficients, self.scale, good=good)

    @property
    def band(self) -> int:
        return len(self.coefficients)

    def row(self, k: int) -> Array:
        row = self.coefficients[: k + 1][::-1]
        return row if self.scale is None else row / self.scale[k + 1 - len(row) : k + 1]

    def column_norms(self) -> Array:
        return self._of_columns(np.sqrt(np.cumsum(np.square(self.coefficients))))

    def column_sums(self) -> Array:
        return self._of_columns(np.cumsum(np.abs(self.coefficients)))

    def diagonal(self) -> Array:
        return self._of_columns(np.full(self.band, self.coefficients[0]))

    def _of_columns(self, sizes: Array) -> Array:
        # late columns have fewer entries than the band
        last = np.minimum(self.releases - 1 - np.arange(self.releases), self.band - 1)
        columns: Array = sizes[last]
        return columns if self.scale is None else columns / self.scale

    def row_sum(self) -> float:
        total = float(np.abs(self.coefficients).sum())
        least = 1.0 if self.scale is None else float(self.scale.min())
        return round_up(total / least, self.releases * ULP)

    def noise_std(self) -> Array:
        """Return the noise of each release from the series of C^-1, in order K log(K)^2 at most."""
        sums = np.cumsum(series.inverse(self.coefficients, self.releases))
        squares = np.cumsum(np.square(sums))
        if self.scale is not None:
            # B_kj = scale_k sums_(k-j) + E_kj with E_kj = sum_{j<=i<k} falls_i sums_(i-j); nothing
            # cancels in the squares of row k where the scale falls and the sums are > 0
            falls = -np.diff(self.scale, append=0.0)
            crossed = 2 * series.running_products(falls, sums)
            rows = np.cumsum(falls * (crossed + falls * squares))
            squares = self.scale * (crossed + self.scale * squares)
            squares[1:] += rows[:-1]
        return np.asarray(np.sqrt(squares))

    def shifted_sum(self, count: int, separation: int) -> float | None:
        """Return |C_:0 + C_:s + C_:2s + ...|, the maximum if coefficients >= 0 are nonincreasing.

        Then <C_:i, C_:j> decreases in |i - j| and in max(i, j); a record's p-th release is at p s
        or later, its p-th and q-th at least |p - q| s apart (Kalinin and Lampert 2024).
        """
        if self.scale is not None or np.diff(self.coefficients, append=0.0).max() > 0:
            return None
        total = np.zeros(self.releases)
        for start in range(0, count * separation, separation):
            stop = min(start + self.band, self.releases)
            total[start:stop] += self.coefficients[: stop - start]
        return round_up(float(np.linalg.norm(total)), 2 * self.releases * ULP)
