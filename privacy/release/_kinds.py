"""The kinds of factorisations: C written out, C by its diagonals, and C by a few exponentials."""

from dataclasses import dataclass

import numpy as np

from privacy import checks
from privacy.numerics.rounding import round_up
from privacy.release import _series
from privacy.release._memory import Array, Buffers, Memory
from privacy.release.factorisations import ULP, Factorisation, part


@dataclass(frozen=True, eq=False)
class _Dense(Factorisation):
    """C written out. `beside`: rows that are handed out too, in the same unit of noise."""

    matrix: Array
    beside: Array | None = None

    def __post_init__(self) -> None:
        shape = (self.releases, self.releases)
        lower = self.matrix.shape == shape and not np.triu(self.matrix, 1).any()
        _valid(
            "matrix",
            self.matrix,
            self.beside,
            good=lower and bool(np.all(self.matrix.diagonal() > 0)),
        )

    def row(self, k: int) -> Array:
        return self.matrix[k, : k + 1]

    def column_norms(self) -> Array:
        norms: Array = np.sqrt(np.square(self._handed_out()).sum(axis=0))
        return norms

    def _handed_out(self) -> Array:
        return self.matrix if self.beside is None else np.vstack((self.matrix, self.beside))

    def encoder(self, releases: int | None = None) -> Array:
        releases = part(releases, self.releases)
        return self.matrix[:releases, :releases].copy()


@dataclass(frozen=True, eq=False)
class _Toeplitz(Factorisation):
    """C_kj = coefficients_(k - j) / scale_j."""

    coefficients: Array
    scale: Array | None = None

    def __post_init__(self) -> None:
        fits = self.coefficients.ndim == 1 and 1 <= self.coefficients.size <= self.releases
        good = fits and bool(self.coefficients[0] > 0)
        if self.scale is not None:
            fits = self.scale.shape == (self.releases,)
            good = good and fits and bool(np.all(self.scale > 0))
        _valid("coefficients", self.coefficients, self.scale, good=good)

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
        """Return the size of each column, from that of the first entries of an unscaled one."""
        # a late column ends before the band does
        last = np.minimum(self.releases - 1 - np.arange(self.releases), self.band - 1)
        columns: Array = sizes[last]
        return columns if self.scale is None else columns / self.scale

    def row_sum(self) -> float:
        total = float(np.abs(self.coefficients).sum())
        least = 1.0 if self.scale is None else float(self.scale.min())
        return round_up(total / least, self.releases * ULP)

    def noise_std(self) -> Array:
        sums = np.cumsum(_series.inverse(self.coefficients, self.releases))
        squares = np.cumsum(np.square(sums))
        if self.scale is not None:
            # B_kj = scale_k sums_(k-j) + E_kj with E_kj = sum_{j<=i<k} falls_i sums_(i-j); nothing
            # cancels in the squares of row k where the scale falls and the sums are > 0
            falls = -np.diff(self.scale, append=0.0)
            crossed = 2 * _series.running_products(falls, sums)
            rows = np.cumsum(falls * (crossed + falls * squares))
            squares = self.scale * (crossed + self.scale * squares)
            squares[1:] += rows[:-1]
        std: Array = np.sqrt(squares)
        return std

    def shifted_sum(self, count: int, separation: int) -> float | None:
        """Return |C_:0 + C_:s + C_:2s + ...|, the maximum if coefficients >= 0 do not grow.

        Then <C_:i, C_:j> falls in |i - j| and in max(i, j), and the p-th and q-th release of a
        record are at least at p s, and |p - q| s apart (Kalinin and Lampert 2024).
        """
        steps = np.diff(self.coefficients, append=0.0)
        if self.scale is not None or steps.max() > 0:
            return None
        total = np.zeros(self.releases)
        for start in range(0, count * separation, separation):
            stop = min(start + self.band, self.releases)
            total[start:stop] += self.coefficients[: stop - start]
        return round_up(float(np.linalg.norm(total)), 2 * self.releases * ULP)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Buffered(_Toeplitz):
    """Toeplitz with coefficients sum_i weights_i decays_i^(n - 1), n >= 1, and 1 at n = 0."""

    weights: Array
    decays: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        good = bool(np.all(abs(self.decays) < 1))
        if good:
            sums = _series.decaying(self.weights, self.decays, self.releases)
            good = np.allclose(self.coefficients, sums, rtol=1e-9, atol=0)
        _valid("weights, decays", self.weights, self.decays, good=good)

    def memory(self, size: int) -> Memory:
        return Buffers(self.weights, self.decays, size)


def _valid(name: str, *arrays: Array | None, good: bool) -> None:
    for array in arrays:
        if array is not None:
            good = good and bool(np.all(np.isfinite(array)))
            array.flags.writeable = False
    if not good:
        remedy = "C is lower triangular, with a positive diagonal and finite entries."
        raise ValueError(checks.expected(name, "...", "the parts of such a C", remedy))


KINDS: dict[str, type[Factorisation]] = {
    kind.__name__: kind for kind in (_Dense, _Toeplitz, _Buffered)
}
"""By the names that files know them by."""
