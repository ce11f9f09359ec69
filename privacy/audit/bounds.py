"""Exact confidence bounds from scores: lower bounds, not estimates.

Scores are log-likelihood ratios log P1 / P0 of outputs, known or fitted on other outputs.
Thresholds are fixed in advance, so counts are binomial and bounds are exact for any scores.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtri

from privacy import checks
from privacy.accounting import TightestCurve, account
from privacy.audit.results import error_of
from privacy.curves import Curve
from privacy.mechanisms import Mechanism
from privacy.notions.gaussian import GaussianCurve
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

Floats = NDArray[np.float64]
_THRESHOLDS = np.array([0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
_ROUNDING = 1e-10
"""Relative margin for the rounding of the inverse incomplete beta function."""
_SURE = 1e-6
_PICKS = 64
RATIOS = (
    "Pass log P1 / P0 of the outputs (gaussian_score, laplace_score, fit_score), data set 0 first."
)


def scores_of(scores_0: ArrayLike, scores_1: ArrayLike) -> tuple[Floats, Floats]:
    """Return both arrays of scores, checked: shape (n,) each, the same n, no NaN."""
    arrays = []
    for name, scores in (("scores_0", scores_0), ("scores_1", scores_1)):
        array = np.asarray(scores, dtype=np.float64)
        if array.ndim != 1 or not array.size:
            remedy = "Pass one score for each run."
            raise ValueError(checks.expected(name, array.shape, "of shape (runs,)", remedy))
        remedy = "Set the score to 0 for an output that cannot be scored."
        checks.refuse_if(np.isnan(array).any(), name, "NaN", "numbers or infinities", remedy)
        arrays.append(array)
    first, second = arrays
    remedy = "Pass the same number of runs for both data sets."
    wrong, rule = first.size != second.size, f"of shape {first.shape}"
    checks.refuse_if(wrong, "scores_1", second.shape, rule, remedy)
    return first, second


def lower(successes: Any, trials: int, error: Any) -> Floats:
    """Return the lower Clopper-Pearson bound on a probability, with failure probability `error`."""
    k = np.asarray(successes, dtype=np.float64)
    found = betaincinv(np.maximum(k, 1), trials - np.maximum(k, 1) + 1, error)
    return np.where(k > 0, found * (1 - _ROUNDING), 0.0)


def upper(successes: Any, trials: int, error: Any) -> Floats:
    """Return the upper Clopper-Pearson bound on a probability, with failure probability `error`."""
    return 1 - lower(trials - np.asarray(successes, dtype=np.float64), trials, error)


def correct(scores_0: Floats, scores_1: Floats) -> int:
    """Return the number of correct guesses of the data set by the sign of the score."""
    return scores_0.size - int(np.count_nonzero(scores_0 > 0)) + int(np.count_nonzero(scores_1 > 0))


def accuracy_p_value(right: int, guesses: int, most: float) -> float:
    """Return the p-value of `right` of `guesses` if the average accuracy is at most `most`.

    The guesses are independent, but their accuracy may differ between the data sets. Their sum is
    no more likely than a binomial one to exceed its mean by one or more (Hoeffding 1956, On the
    distribution of the number of successes in independent trials, Theorem 4).
    """
    if most >= 1 or right < guesses * most + 1:
        return 1.0
    return float(betainc(right, guesses - right + 1, most))


def guesses_wrong(right: int, guesses: int) -> bool:
    """Return whether guesses are correct less often than by chance, at significance level 1e-6."""
    return accuracy_p_value(guesses - right, guesses, 0.5) <= _SURE


def misread(scores_0: Floats, scores_1: Floats) -> str:
    """Return evidence that scores are no log-likelihood ratios log P1 / P0, or an empty string.

    Ratios <= t are at least as frequent on data set 0 as on 1, with the largest difference at 0.
    Half of the runs selects the worst t, the other half tests it at 1e-6.
    """
    (tried_0, tested_0), (tried_1, tested_1) = ((s[::2], s[1::2]) for s in (scores_0, scores_1))
    size = tested_0.size
    if not size:
        return ""
    pooled = np.sort(np.concatenate([tried_0, tried_1]))
    places = np.concatenate([[0.0], pooled[np.linspace(0, pooled.size - 1, _PICKS).astype(int)]])
    tried, tested = _gaps(tried_0, tried_1, places), _gaps(tested_0, tested_1, places)
    at = int(np.argmax(np.maximum(-tried, tried - tried[0])))
    threshold = f"{places[at]:.4g}"
    if -tried[at] >= tried[at] - tried[0]:
        excess = -tested[at]
        found = f"More scores of data set 0 than of data set 1 are > {threshold}."
    else:
        excess = tested[at] - tested[0]
        found = f"The threshold {threshold} distinguishes the data sets better than 0 does."
    return found if accuracy_p_value(size + int(excess), 2 * size, 0.5) <= _SURE else ""


def _gaps(scores_0: Floats, scores_1: Floats, places: Floats) -> NDArray[np.int64]:
    """Return how many more scores of data set 0 than of data set 1 are <= each place."""
    low, high = np.sort(scores_0), np.sort(scores_1)
    return np.searchsorted(low, places, "right") - np.searchsorted(high, places, "right")


def _ratios_of(scores_0: ArrayLike, scores_1: ArrayLike) -> tuple[Floats, Floats]:
    first, second = scores_of(scores_0, scores_1)
    found = misread(first, second)
    rule = "log-likelihood ratios log P1 / P0"
    checks.refuse_if(found, "scores_0, scores_1", first.shape, rule, f"{found} {RATIOS}")
    return first, second


def mu_lower_bound(scores_0: ArrayLike, scores_1: ArrayLike, confidence: float = 0.95) -> float:
    """Return a lower bound on mu, >= 0, if the mechanism is mu-GDP.

    A test between mu-GDP outputs is correct with probability at most Phi(mu / 2), averaged over
    both data sets (Dong, Roth and Su 2022), so a lower bound on the accuracy of the score's sign
    gives one on mu. For another mechanism it bounds only the mu of the Gaussian with the same
    delta(0). The scores are as in `falsify`, but invalid ones raise ValueError: the bound would be
    0. It holds with probability at least `confidence`, in [3/4, 1).
    """
    first, second = _ratios_of(scores_0, scores_1)
    guesses = 2 * first.size
    right = correct(first, second)
    share = float(lower(right, guesses, error_of(confidence)))
    share = min(share, (right - 1) / guesses)  # see accuracy_p_value
    return max(0.0, 2 * float(ndtri(share))) if share > 0.5 else 0.0


def epsilon_lower_bound(
    scores_0: ArrayLike,
    scores_1: ArrayLike,
    delta: float,
    confidence: float = 0.95,
    *,
    claim: Mechanism | Curve | None = None,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> float:
    """Return a finite lower bound on the epsilon of the mechanism at `delta`, in [0, 1).

    The scores and `confidence` are as in `mu_lower_bound`. If `claim`, the claimed mechanism, is a
    composition of Gaussians, the bound is that of its mu (`mu_lower_bound`) and nearly tight.
    Otherwise it is log((tpr - delta) / fpr), the largest over 7 thresholds in both directions, with
    all 28 rates bounded at once (Clopper-Pearson, Bonferroni). `relation` is that of the pair.

    Examples
    --------
    >>> import numpy as np
    >>> import privacy as dp
    >>> from privacy.audit import epsilon_lower_bound
    >>> rng = np.random.default_rng(2)
    >>> mu = 1 / 3.73064  # epsilon = 1 at delta = 1e-5
    >>> x0, x1 = rng.normal(0, 1, 100_000), rng.normal(mu, 1, 100_000)
    >>> ratios = [mu * x - mu * mu / 2 for x in (x0, x1)]
    >>> round(epsilon_lower_bound(*ratios, 1e-5, claim=dp.Gaussian(3.73064)), 2)
    0.97
    """
    delta = checks.query_delta(delta)
    if claim is not None and mu_of(curve_of(claim, relation)) is not None:
        mu = mu_lower_bound(scores_0, scores_1, confidence)
        if mu == 0 or delta == 0:
            return 0.0  # at delta = 0 no epsilon is finite: any finite number is a lower bound
        # the curve rounds up by some units in the last place; this is a lower bound
        return GaussianCurve(relation, mu * mu).epsilon(delta) * (1 - 1e-9)
    first, second = _ratios_of(scores_0, scores_1)
    error = error_of(confidence) / (4 * _THRESHOLDS.size)
    seen = tail_counts(first, second, _THRESHOLDS)
    sure = lower(seen[1], first.size, error) - delta
    best = float(np.max(sure / upper(seen[0], first.size, error)))
    return math.log(best) * (1 - 1e-12) if best > 1 else 0.0


def tail_counts(scores_0: Floats, scores_1: Floats, thresholds: Floats) -> NDArray[np.int64]:
    """Return how often score > t, then score < -t, for each t; row 1 is the likely data set."""
    above = [[np.count_nonzero(s > t) for t in thresholds] for s in (scores_0, scores_1)]
    below = [[np.count_nonzero(s < -t) for t in thresholds] for s in (scores_1, scores_0)]
    return np.array([left + right for left, right in zip(above, below, strict=True)])


def curve_of(claim: Mechanism | Curve, relation: NeighboringRelation) -> Curve:
    """Return the claimed curve; a curve must have the given relation."""
    if not isinstance(claim, Curve):
        return account(claim, relation=relation)
    if claim.relation is not checks.relation(relation):
        remedy = "Pass the claim's relation as relation=."
        raise ValueError(checks.expected("claim.relation", claim.relation, f"{relation}", remedy))
    return claim


def mu_of(curve: Curve) -> float | None:
    """Return the mu of a curve that claims a Gaussian mechanism, None for any other claim."""
    members = curve.members if isinstance(curve, TightestCurve) else (curve,)
    return next((one.mu for one in members if isinstance(one, GaussianCurve)), None)
