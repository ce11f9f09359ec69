"""Posterior of theta given the released prefixes and the distribution of their noise.

Let G_j be the sum of x x' over batch j, which is public, and s_j the true sum of (r - center) x.
Given theta, s_j has mean G_j theta and covariance tau^2 G_j, with tau^2 the variance of a reward.
The releases add Gaussian noise of known covariance. As post-processing of releases and public
features, the posterior has no privacy cost.

Two estimators compute an information matrix L and a vector h, where theta has the likelihood
exp(h'theta - theta'L theta / 2):

- `"prefix"`: the last release only, b ~ N(G theta, tau^2 G + s^2 I) with G the sum of all G_j.
- `"all"`: every release, by generalized least squares. With C the whitening of the noise,
  y_i = sum_j C_ij (increment j) has Cov(y_i, y_l) = tau^2 sum_j C_ij C_lj G_j + [i = l] I. Its
  factor grows by one block per release.

The prior is N(prior mean, p I). By default p maximizes the marginal likelihood on a grid, weighted
by a wide log-normal prior (empirical Bayes).
"""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from bandits.checks import Array
from bandits.learning.linear_model import Stored, inverse_root, times, transposed

Estimator = Literal["prefix", "all"]

_GRID = np.logspace(-4.5, 0.0, 37)
"""Grid of p, for rewards in a range of length 1."""
_LOG_WEIGHT = -0.5 * (np.log10(_GRID) + 2.0) ** 2


class NoiseAware(Stored):
    """Posterior of theta given the releases, updated when a batch ends.

    Parameters
    ----------
    dimension, lead, prior_mean
        As in `Ridge`.
    noise_covariance
        Covariance of the noise of the prefixes in one coordinate, shape (K, K), K >= 1.
    reward_variance
        tau^2 > 0; an upper bound, such as (high - low)^2 / 4, is safe.
    prior_variance, bias_variance
        p > 0, or None to estimate it (unit^2 / 12, that of uniform means, where `repeats` is set);
        and that of the last coefficient, if it is a constant.
    estimator
        Releases to use.
    unit
        high - low of the rewards; the grid of p is in units of its square.
    half_life
        Rounds in which the weight of a batch halves. All increments then have independent noise,
        with the variance of the first release.
    """

    def __init__(
        self,
        dimension: int,
        lead: tuple[int, ...] = (),
        *,
        noise_covariance: Array,
        reward_variance: float = 0.25,
        prior_variance: float | None = None,
        prior_mean: Array | float = 0.0,
        estimator: Estimator = "prefix",
        bias_variance: float | None = None,
        unit: float = 1.0,
        half_life: float | None = None,
    ) -> None:
        square = (*lead, dimension, dimension)
        self.reward_variance = reward_variance
        self.prior_variance = prior_variance
        self.bias_variance = bias_variance
        self.unit = unit
        self.prior_mean = np.zeros(dimension) + prior_mean
        self.mean = np.zeros((*lead, dimension)) + prior_mean
        # before the first release: the prior, at its most likely scale if p is estimated
        start = np.full(dimension, 0.01 * unit**2 if prior_variance is None else prior_variance)
        if bias_variance is not None:
            start[-1] = bias_variance
        self.root = np.zeros(square) + np.diag(np.sqrt(start))
        kinds: dict[Estimator, type[_Evidence]] = {"prefix": _LastPrefix, "all": _AllReleases}
        kind = _Recent if half_life else kinds[estimator]
        self.evidence = kind(dimension, lead, noise_covariance, reward_variance)
        self.half_life = half_life or math.inf
        self.repeats: npt.NDArray[np.bool_] | bool = False  # whether rounds repeat candidates

    def close(self, features: Array, prefix: Array) -> None:
        kept = 0.5 ** (features.shape[-2] / self.half_life)
        self.evidence.add(transposed(features) @ features, prefix, kept)
        if self.bias_variance is None:
            spectrum = self.evidence.spectrum.shifted(self.prior_mean)
            values = self._precision(spectrum) + spectrum.values
            self.root = spectrum.vectors / np.sqrt(values)[..., None, :]
            seen = spectrum.turned / np.sqrt(values)
        else:
            matrix, vector = self.evidence.matrix, self.evidence.vector
            vector = vector - times(matrix, self.prior_mean)
            prior = self._precisions(matrix, vector, 1 / self.bias_variance)
            total = matrix + prior[..., None] * np.eye(vector.shape[-1])
            self.root = inverse_root(total, float(prior.min()))
            seen = times(transposed(self.root), vector)
        self.mean = self.prior_mean + times(self.root, seen)

    def _precision(self, spectrum: "Spectrum") -> Array:
        if self.prior_variance is not None:
            return np.array([1 / self.prior_variance])
        likely = most_likely_scale(spectrum, self.unit)
        return 1 / np.where(self.repeats, self.unit**2 / 12, likely)[..., None]

    def _precisions(self, information: Array, vector: Array, last: float) -> Array:
        """Return the prior precisions (..., d) of the coefficients, given the last one."""
        inner, cross = information[..., :-1, :-1], information[..., :-1, -1]
        # the likelihood of p marginalizes over the last coefficient
        own = information[..., -1, -1] + last
        rest = inner - cross[..., :, None] * cross[..., None, :] / own[..., None, None]
        seen = vector[..., :-1] - cross * (vector[..., -1] / own)[..., None]
        precisions = np.full_like(vector, last)
        precisions[..., :-1] = self._precision(Spectrum.of(rest, seen))
        return precisions

    def state(self) -> dict[str, Array]:
        return {"mean": self.mean, "root": self.root} | self.evidence.state()

    def load(self, state: Mapping[str, Array]) -> None:
        self.mean, self.root = state["mean"].copy(), state["root"].copy()
        self.evidence.load(state)


class Spectrum(NamedTuple):
    """Eigendecomposition of an information matrix, with a vector h."""

    values: Array
    """Eigenvalues, >= 0, shape (..., d)."""
    vectors: Array
    """V, shape (..., d, d)."""
    turned: Array
    """V'h, shape (..., d)."""

    @classmethod
    def of(cls, information: Array, vector: Array) -> "Spectrum":
        """Return the spectrum of a matrix, with negative eigenvalues from rounding set to 0."""
        values, vectors = np.linalg.eigh(information)
        return cls(np.maximum(values, 0.0), vectors, times(transposed(vectors), vector))

    @property
    def matrix(self) -> Array:
        matrix: Array = (self.vectors * self.values[..., None, :]) @ transposed(self.vectors)
        return matrix

    @property
    def vector(self) -> Array:
        return times(self.vectors, self.turned)

    def shifted(self, origin: Array) -> "Spectrum":
        if not origin.any():
            return self
        at = times(transposed(self.vectors), np.broadcast_to(origin, self.turned.shape))
        return self._replace(turned=self.turned - self.values * at)


def most_likely_scale(spectrum: Spectrum, unit: float = 1.0) -> Array:
    """Return the p on a grid that maximizes the weighted marginal likelihood of theta ~ N(0, p I).

    log likelihood = -1/2 sum_i (log(1 + p l_i) - p c_i^2 / (1 + p l_i)), with l the eigenvalues of
    the information and c the vector in its eigenbasis. The weight is log10(p / unit^2) ~ N(-2, 1).
    """
    values, turned = unit**2 * spectrum.values, unit * spectrum.turned
    shrink = 1 + _GRID * values[..., None]  # (..., d, grid)
    fits = (_GRID * np.square(turned)[..., None] / shrink - np.log(shrink)).sum(-2)
    scale: Array = unit**2 * _GRID[np.argmax(0.5 * fits + _LOG_WEIGHT, axis=-1)]
    return scale


class _Evidence(Stored):
    """Computes L and h, `matrix` and `vector`, from releases.

    `add` adds a release, and keeps a fraction `kept` of the earlier information.
    """

    _STATE: ClassVar[tuple[str, ...]] = ("last", "matrix", "vector")

    def __init__(
        self, dimension: int, lead: tuple[int, ...], noise_covariance: Array, variance: float
    ) -> None:
        self.noise, self.variance = noise_covariance.diagonal(), variance
        self.last = np.zeros((*lead, dimension))
        self.matrix = np.zeros((*lead, dimension, dimension))
        self.vector = np.zeros((*lead, dimension))

    def add(self, gram: Array, prefix: Array, kept: float) -> None:
        raise NotImplementedError

    def weighted(self, gram: Array, vector: Array, noise: float) -> "Spectrum":
        """Return L and h of one vector ~ N(gram theta, variance gram + noise I)."""
        values, vectors, turned = Spectrum.of(gram, vector)
        weights = values / (self.variance * values + noise)
        return Spectrum(weights * values, vectors, weights * turned)

    @property
    def spectrum(self) -> Spectrum:
        return Spectrum.of(self.matrix, self.vector)


class _LastPrefix(_Evidence):
    """Information from b ~ N(G theta, tau^2 G + s^2 I)."""

    def __init__(
        self, dimension: int, lead: tuple[int, ...], noise_covariance: Array, variance: float
    ) -> None:
        super().__init__(dimension, lead, noise_covariance, variance)
        self.gram = np.zeros_like(self.matrix)
        self.releases = 0

    def add(self, gram: Array, prefix: Array, kept: float) -> None:
        self.gram = self.gram + gram
        self._spectrum = self.weighted(self.gram, prefix, self.noise[self.releases])
        self.matrix, self.vector = self._spectrum.matrix, self._spectrum.vector
        self.releases += 1

    @property
    def spectrum(self) -> Spectrum:
        return self._spectrum

    def state(self) -> dict[str, Array]:
        return {"gram": self.gram, "releases": np.array(float(self.releases))}

    def load(self, state: Mapping[str, Array]) -> None:
        self.gram, self.releases = state["gram"].copy(), int(state["releases"])


class _Recent(_Evidence):
    """Discounted information from increments with independent noise."""

    def add(self, gram: Array, prefix: Array, kept: float) -> None:
        own = self.weighted(gram, prefix - self.last, self.noise[0])
        self.matrix = kept * self.matrix + own.matrix
        self.vector = kept * self.vector + own.vector
        self.last = prefix.copy()


class _AllReleases(_Evidence):
    """Information from every release, by a growing block Cholesky factor.

    With F the factor of the covariance of (y_1, ..., y_k) and H the stacked sums C_ij G_j, the
    information is (F^-1 H)'(F^-1 H) and the vector (F^-1 H)'(F^-1 y). Block row k of F is stored as
    its part left of the diagonal and the inverse of its diagonal block.
    """

    def __init__(
        self, dimension: int, lead: tuple[int, ...], noise_covariance: Array, variance: float
    ) -> None:
        super().__init__(dimension, lead, noise_covariance, variance)
        # increments of the prefixes have noise D N D'; its Cholesky factor L whitens: C = L^-1
        size = len(noise_covariance)
        difference = np.eye(size) - np.eye(size, k=-1)
        factor = np.linalg.cholesky(difference @ noise_covariance @ difference.T)
        self.whiten = np.tril(np.linalg.inv(factor))
        self.grams = np.zeros((size, *self.matrix.shape))
        self.increments = np.zeros((size, *self.last.shape))
        self.left: list[Array] = []
        self.inverses: list[Array] = []
        self.designs = np.zeros((*lead, size * dimension, dimension))  # F^-1 H, at full size
        self.values = np.zeros((*lead, size * dimension))  # F^-1 y, likewise

    def add(self, gram: Array, prefix: Array, kept: float) -> None:
        k, d = len(self.left), gram.shape[-1]
        self.grams[k], self.increments[k] = gram, prefix - self.last
        self.last = prefix.copy()
        rows, grams = self.whiten[: k + 1, : k + 1], self.grams[: k + 1]
        y = np.tensordot(rows[k], self.increments[: k + 1], 1)
        h = np.tensordot(rows[k], grams, 1)
        # Cov(y_k, y_i) for all i <= k
        cross = np.tensordot(self.variance * rows * rows[k], grams, 1)
        left = self._eliminated(cross[:k])
        # the Schur complement is at least the whitened noise covariance, the identity
        own = cross[k] + np.eye(d) - left @ transposed(left)
        inverse = transposed(inverse_root(own, 1.0))
        before, new = np.s_[..., : k * d, :], np.s_[..., k * d : (k + 1) * d, :]
        design = inverse @ (h - left @ self.designs[before])
        value = times(inverse, y - times(left, self.values[before[:-1]]))
        self.left.append(left)
        self.inverses.append(inverse)
        self.designs[new], self.values[new[:-1]] = design, value
        self.matrix = self.matrix + transposed(design) @ design
        self.vector = self.vector + times(transposed(design), value)

    def _eliminated(self, cross: Array) -> Array:
        """Return block row k of F left of its diagonal, (..., d, k d), by forward substitution."""
        d = cross.shape[-1]
        out = np.empty((*cross.shape[1:-1], len(cross) * d))
        for i, block in enumerate(cross):
            known = out[..., : i * d] @ transposed(self.left[i]) if i else 0.0
            out[..., i * d : (i + 1) * d] = (block - known) @ transposed(self.inverses[i])
        return out

    def state(self) -> dict[str, Array]:
        count = len(self.left)
        each = {f"{n}_{i}": getattr(self, n)[i] for n in self._LISTS for i in range(count)}
        return super().state() | each | {"releases": np.array(float(count))}

    def load(self, state: Mapping[str, Array]) -> None:
        super().load(state)
        for name in self._LISTS:
            for i in range(int(state["releases"])):
                getattr(self, name)[i : i + 1] = [state[f"{name}_{i}"].copy()]

    _STATE = ("last", "matrix", "vector", "designs", "values")
    _LISTS = ("grams", "increments", "left", "inverses")
