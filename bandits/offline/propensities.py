"""Action probabilities of Thompson sampling."""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bandits import checks
from bandits.checks import Array

_TIE = 1e-12


class Propensities(NamedTuple):
    """Probabilities of the candidates, and their standard errors (0 if exact)."""

    value: Array
    """Shape (..., n)."""
    standard_error: Array
    """Shape (..., n)."""


def thompson_propensities(
    candidates: Array,
    mean: Array,
    root: Array,
    *,
    scale: float = 1.0,
    draws: int = 2000,
    seed: int = 0,
) -> Propensities:
    """Return the probability that Thompson sampling picks each candidate.

    Theta is sampled from N(mean, scale^2 root root'), and the largest x'theta is picked. For two
    candidates the probability is exact. For more it is an unbiased conditional Monte Carlo
    estimate: the candidate's own score is integrated out exactly, and the rest is sampled. An
    estimate is 0 only by underflow.

    Parameters
    ----------
    candidates
        Features, shape (..., n, d), n >= 2.
    mean, root
        Mean and square root of the covariance, shapes (d,) and (d, k).
    scale
        v > 0.
    draws, seed
        Number of Monte Carlo samples, and their random seed.

    Examples
    --------
    >>> import numpy as np
    >>> from bandits import thompson_propensities
    >>> found = thompson_propensities(np.eye(2), np.array([1.0, 0.0]), np.eye(2))
    >>> found.value.round(4)  # Phi(1 / sqrt(2))
    array([0.7602, 0.2398])
    """
    from scipy.special import ndtr

    remedy = "Pass features, mean and root of one dimension d."
    candidates = checks.finite("candidates", candidates, np.shape(candidates), remedy)
    mean = checks.finite("mean", mean, candidates.shape[-1:], remedy)
    root = checks.finite("root", root, (len(mean), *np.shape(root)[1:2]), remedy)
    if candidates.ndim < 2 or root.ndim < 2:
        rule = "of at least two dimensions"
        raise ValueError(checks.expected("shape of candidates", candidates.shape, rule, remedy))
    remedy = "Pass the factor v of the standard deviation."
    checks.real("scale", scale, remedy, at_least=1e-100, at_most=1e100)
    draws = checks.count("draws", draws, "Pass the number of samples to average.")
    n = candidates.shape[-2]
    remedy = "Pass two candidates or more; a single one has probability 1."
    checks.refuse_if(n < 2, "candidates", candidates.shape, "at least two", remedy)
    means = candidates @ mean
    factors = scale * (candidates @ root)  # scores = means + factors @ normals
    if n == 2:
        apart = means[..., 0] - means[..., 1]
        spread = np.linalg.norm(factors[..., 0, :] - factors[..., 1, :], axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            first = np.where(spread > 0, ndtr(apart / spread), apart >= 0)
        value = np.stack([first, 1 - first], axis=-1)
        return Propensities(value, np.zeros_like(value))
    normals = np.random.default_rng(seed).standard_normal((draws, factors.shape[-1]))
    shape = means.shape
    value, error = np.empty((means.size // n, n)), np.empty((means.size // n, n))
    flat = zip(means.reshape(-1, n), factors.reshape(-1, n, factors.shape[-1]), strict=True)
    for row, (center, factor) in enumerate(flat):
        found = _wins(center, factor, normals)  # (draws, n)
        value[row] = found.mean(0)
        error[row] = found.std(0) / math.sqrt(draws)
    return Propensities(value.reshape(shape), error.reshape(shape))


def _wins(means: Array, factors: Array, normals: Array) -> Array:
    from scipy.special import ndtr

    n = len(means)
    scores = means + normals @ factors.T
    covariance = factors @ factors.T
    found = np.empty(scores.shape)
    for arm in range(n):
        variance = covariance[arm, arm]
        others = np.arange(n) != arm
        later = np.flatnonzero(others) > arm  # ties go to the first candidate
        if variance <= 0:
            found[:, arm] = _behind(scores[:, others] - scores[:, [arm]], later)
            continue
        # score_b = share_b (score_arm - mean_arm) + rest_b, rest independent of score_arm
        deviation = math.sqrt(variance)
        share = covariance[others, arm] / variance
        rest = scores[:, others] - share * (scores[:, [arm]] - means[arm])
        # picked if u (1 - share_b) > rest_b - mean_arm for all b, u = score_arm - mean_arm
        gap, slope = rest - means[arm], 1 - share
        flat = np.abs(slope) < 1e-12
        with np.errstate(divide="ignore", invalid="ignore"):
            edge = gap / slope / deviation
        lower = np.where(slope > 0, edge, -np.inf)[:, ~flat].max(1, initial=-np.inf)
        upper = np.where(slope < 0, edge, np.inf)[:, ~flat].min(1, initial=np.inf)
        inside = _behind(gap[:, flat], later[flat])
        # use the tail in which the normal CDF is precise
        swap = lower > 0
        a, b = np.where(swap, -upper, lower), np.where(swap, -lower, upper)
        found[:, arm] = np.where(inside, np.maximum(ndtr(b) - ndtr(a), 0.0), 0.0)
    return found


def _behind(gaps: Array, later: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    tie = np.abs(gaps) <= _TIE
    behind: npt.NDArray[np.bool_] = np.all(np.where(tie, later, gaps < 0), axis=1)
    return behind
