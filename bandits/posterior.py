"""What the released prefixes say about theta when the law of their noise is known.

Let G_j be the sum of x x' over batch j, which is public, and s_j the true sum of (r - centre) x.
Given theta, s_j has mean G_j theta and covariance tau^2 G_j, tau^2 the variance of a reward; the
releases add Gaussian noise of known covariance. All that follows is a function of releases and
of public features, and costs no privacy.

Two estimators turn releases into an information matrix L and a vector h (theta has the
likelihood exp(h'theta - theta'L theta / 2)):

- `"prefix"`: the last release alone, b ~ N(G theta, tau^2 G + s^2 I) with G the sum of all G_j.
- `"all"`: every release, generalised least squares. With C the whitening of the noise,
  y_i = sum_j C_ij (increment j) has Cov(y_i, y_l) = tau^2 sum_j C_ij C_lj G_j + [i = l] I. Its
  Cholesky factor grows by one block a release.

A prior N(prior mean, p I) gives the posterior. Where p is not given it is the most likely one
on a grid, under a wide log-normal prior (empirical Bayes).
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from bandits._checks import Array
from bandits.linear_model import times, transposed

Estimator = Literal["prefix", "all"]

_GRID = np.logspace(-4.5, 0.0, 37)
_LOG_WEIGHT = -0.5 * (np.log10(_GRID) + 2.0) ** 2


class NoiseAware:
    """The posterior of theta given the releases; it moves when a batch ends and not between.

    Parameters
    ----------
    dimension, lead
        As in `Ridge`.
    noise_covariance
        Covariance of the noise of the prefixes, one coordinate, shape (K, K), K >= 1.
    reward_variance
        tau^2 > 0; an upper bound, such as (high - low)^2 / 4, is safe.
    prior_variance
        p > 0; None picks it from the releases.
    prior_mean
        What theta is expected to be, shape (d,) or a number; public.
    estimator
        Which releases are used.
    bias_variance
        Prior variance of the last coefficient, where the last feature is a constant.
    """

    moves = False

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
    ) -> None:
        square = (*lead, dimension, dimension)
        self.reward_variance = reward_variance
        self.prior_variance = prior_variance
        self.bias_variance = bias_variance
        self.prior_mean = np.zeros(dimension) + prior_mean
        self.mean = np.zeros((*lead, dimension)) + prior_mean
        # before the first release: the prior, at its most likely scale
        start = np.full(dimension, prior_variance if prior_variance is not None else 0.01)
        if bias_variance is not None:
            start[-1] = bias_variance
        self.root = np.zeros(square) + np.diag(np.sqrt(start))
        self.unused = np.zeros(lead)
        evidence = {"prefix": _LastPrefix, "all": _AllReleases}[estimator]
        self.evidence = evidence(dimension, lead, noise_covariance, reward_variance)

    def observe(self, x: Array) -> Array:
        """Do nothing: a round counts when its batch is released."""
        return self.unused

    def close(self, features: Array, prefix: Array) -> None:
        """Take in a batch's features (..., B, d) and the release after it (..., d)."""
        gram = transposed(features) @ features
        information, vector = self.evidence.add(gram, prefix)
        vector = vector - times(information, np.broadcast_to(self.prior_mean, vector.shape))
        precision = self._prior_precision(information, vector)
        values, vectors = np.linalg.eigh(
            information + precision[..., None] * np.eye(information.shape[-1])
        )
        # the prior's precision bounds the eigenvalues from below, whatever the rounding
        values = np.maximum(values, precision.min(-1, keepdims=True))
        self.root = vectors / np.sqrt(values)[..., None, :]
        self.mean = self.prior_mean + times(self.root, times(transposed(self.root), vector))

    def _prior_precision(self, information: Array, vector: Array) -> Array:
        """Return the diagonal of the prior's precision, shape (..., d)."""
        lead, dimension = vector.shape[:-1], vector.shape[-1]
        precision = np.empty((*lead, dimension))
        if self.bias_variance is not None:
            precision[..., -1] = 1 / self.bias_variance
            inner, cross = information[..., :-1, :-1], information[..., :-1, -1]
            last = information[..., -1, -1] + 1 / self.bias_variance
            # integrate the constant's coefficient out: its scale is known
            information = inner - cross[..., :, None] * cross[..., None, :] / last[..., None, None]
            vector = vector[..., :-1] - cross * (vector[..., -1] / last)[..., None]
            dimension -= 1
        if self.prior_variance is not None:
            precision[..., :dimension] = 1 / self.prior_variance
        else:
            precision[..., :dimension] = 1 / most_likely_scale(information, vector)[..., None]
        return precision

    def state(self) -> dict[str, Array]:
        """Return the arrays that change."""
        return {"mean": self.mean, "root": self.root} | self.evidence.state()

    def load(self, state: Mapping[str, Array]) -> None:
        """Put the arrays back."""
        self.mean, self.root = state["mean"].copy(), state["root"].copy()
        self.evidence.load(state)


def most_likely_scale(information: Array, vector: Array) -> Array:
    """Return the p on a grid that maximises the marginal likelihood of theta ~ N(0, p I).

    log likelihood = -1/2 sum_i (log(1 + p l_i) - p c_i^2 / (1 + p l_i)), l the eigenvalues of the
    information and c the vector in its eigenvectors, plus the log of log10 p ~ N(-2, 1).

    Parameters
    ----------
    information, vector
        Shapes (..., d, d) and (..., d).
    """
    values, vectors = np.linalg.eigh(information)
    values = np.maximum(values, 0.0)
    squares = np.square(times(transposed(vectors), vector))
    shrink = 1 + _GRID * values[..., None]  # (..., d, grid)
    fits = (_GRID * squares[..., None] / shrink - np.log(shrink)).sum(-2)
    scale: Array = _GRID[np.argmax(0.5 * fits + _LOG_WEIGHT, axis=-1)]
    return scale


class _LastPrefix:
    """Information from b ~ N(G theta, tau^2 G + s^2 I)."""

    def __init__(
        self, dimension: int, lead: tuple[int, ...], noise_covariance: Array, variance: float
    ) -> None:
        self.noise = noise_covariance.diagonal()
        self.variance = variance
        self.gram = np.zeros((*lead, dimension, dimension))
        self.releases = 0

    def add(self, gram: Array, prefix: Array) -> tuple[Array, Array]:
        """Return the information after one more release."""
        self.gram = self.gram + gram
        values, vectors = np.linalg.eigh(self.gram)
        values = np.maximum(values, 0.0)
        weights = values / (self.variance * values + self.noise[self.releases])
        self.releases += 1
        turned = times(transposed(vectors), prefix)
        weighted = vectors * (weights * values)[..., None, :]
        return weighted @ transposed(vectors), times(vectors, weights * turned)

    def state(self) -> dict[str, Array]:
        return {"gram": self.gram, "releases": np.array(float(self.releases))}

    def load(self, state: Mapping[str, Array]) -> None:
        self.gram, self.releases = state["gram"].copy(), int(state["releases"])


class _AllReleases:
    """Information from every release, by a block Cholesky factor that grows with them.

    With F the factor of the covariance of (y_1, ..., y_k) and H the stacked sums C_ij G_j, the
    information is (F^-1 H)'(F^-1 H) and the vector (F^-1 H)'(F^-1 y).
    """

    def __init__(
        self, dimension: int, lead: tuple[int, ...], noise_covariance: Array, variance: float
    ) -> None:
        # increments of the prefixes have noise D N D'; its Cholesky factor L whitens: C = L^-1
        size = len(noise_covariance)
        difference = np.eye(size) - np.eye(size, k=-1)
        factor = np.linalg.cholesky(difference @ noise_covariance @ difference.T)
        self.whiten = np.tril(np.linalg.inv(factor))
        self.variance = variance
        self.dimension = dimension
        self.lead = lead
        self.grams = np.zeros((*lead, 0, dimension, dimension))
        self.increments = np.zeros((*lead, 0, dimension))
        self.last = np.zeros((*lead, dimension))
        self.factor = np.zeros((*lead, 0, 0))
        self.design = np.zeros((*lead, 0, dimension))  # F^-1 H
        self.values = np.zeros((*lead, 0))  # F^-1 y

    def add(self, gram: Array, prefix: Array) -> tuple[Array, Array]:
        """Return the information after one more release."""
        k, d = self.grams.shape[-3], self.dimension
        self.grams = np.concatenate((self.grams, gram[..., None, :, :]), axis=-3)
        increment = (prefix - self.last)[..., None, :]
        self.increments = np.concatenate((self.increments, increment), axis=-2)
        self.last = prefix.copy()
        rows = self.whiten[: k + 1, : k + 1]
        y = np.einsum("j,...jd->...d", rows[k], self.increments)
        h = np.einsum("j,...jde->...de", rows[k], self.grams)
        # Cov(y_k, y_i) for all i <= k: (..., k + 1, d, d), symmetric blocks
        flat = self.grams.reshape(*self.lead, k + 1, d * d)
        covariances = self.variance * ((rows * rows[k]) @ flat).reshape(*self.lead, k + 1, d, d)
        own = covariances[..., k, :, :] + np.eye(d)
        cross = covariances[..., :k, :, :].reshape(*self.lead, k * d, d)
        below = self._solve(cross)  # F^-1 Cov(y_past, y_k), (..., kd, d)
        rest = np.linalg.cholesky(own - transposed(below) @ below)
        inverse = np.linalg.inv(rest)
        design = inverse @ (h - transposed(below) @ self.design)
        value = times(inverse, y - times(transposed(below), self.values))
        self._grow(below, rest)
        self.design = np.concatenate((self.design, design), axis=-2)
        self.values = np.concatenate((self.values, value), axis=-1)
        return transposed(self.design) @ self.design, times(transposed(self.design), self.values)

    def _solve(self, right: Array) -> Array:
        from scipy.linalg import solve_triangular

        if self.factor.ndim == 2:
            out: Array = solve_triangular(self.factor, right, lower=True) if len(right) else right
            return out
        each = zip(self.factor, right, strict=True)
        return np.stack(
            [solve_triangular(f, r, lower=True, check_finite=False) if len(r) else r for f, r in each]
        )

    def _grow(self, below: Array, rest: Array) -> None:
        size, d = self.factor.shape[-1], self.dimension
        factor = np.zeros((*self.lead, size + d, size + d))
        factor[..., :size, :size] = self.factor
        factor[..., size:, :size] = transposed(below)
        factor[..., size:, size:] = rest
        self.factor = factor

    def state(self) -> dict[str, Array]:
        names = ("grams", "increments", "last", "factor", "design", "values")
        return {name: getattr(self, name) for name in names}

    def load(self, state: Mapping[str, Array]) -> None:
        for name in self.state():
            setattr(self, name, state[name].copy())
