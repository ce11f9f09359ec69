"""Black-box audits: tests of the whole claimed trade-off curve on outputs."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from privacy import checks
from privacy.audit import bounds
from privacy.audit.bounds import Floats
from privacy.audit.results import AuditResult, checked_runs, checked_significance
from privacy.audit.scores import Release, RowScore, fit_rows, of_rows, outputs
from privacy.curves import Curve
from privacy.mechanisms import Mechanism
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

_EPSILONS = 6
# Share of the significance level for the test of guesses. A Gaussian that violates a Gaussian claim
# at any epsilon violates it at 0; the tail test is for rare, large losses.
_GAUSSIAN_SHARE, _SHARE = 0.98, 0.5


def falsify(
    claim: Mechanism | Curve,
    scores_0: ArrayLike,
    scores_1: ArrayLike,
    *,
    significance: float = 0.05,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> AuditResult:
    """Test a claimed curve on scores of outputs for two neighboring data sets.

    Two tests share the significance level. (1) The sign of the score guesses the data set correctly
    with probability at most (1 + delta(0)) / 2, averaged over both data sets, Phi(mu / 2) for a
    mu-GDP claim; an exact binomial test. (2) For the tails, tpr <= e^epsilon fpr + delta(epsilon)
    at every claimed epsilon, both rates of 14 events bounded at once (Clopper-Pearson, Bonferroni).

    Parameters
    ----------
    claim
        A mechanism, or its curve; `UnsupportedMechanism` is raised if it has none.
    scores_0, scores_1
        Log-likelihood ratios log P1 / P0 of the outputs on either data set, shape (runs,), known
        (`gaussian_score`) or fitted on other outputs (`fit_score`). Wrong scores reduce only the
        power. The result warns (at level 1e-6) if they are not such ratios, such as raw losses.
    significance
        The largest probability of falsifying a true claim, in (0, 1/4].
    relation
        That of the two data sets.
    """
    level = checked_significance(significance)
    curve = bounds.curve_of(claim, relation)
    first, second = bounds.scores_of(scores_0, scores_1)
    share = _SHARE if bounds.mu_of(curve) is None else _GAUSSIAN_SHARE
    p_value, evidence = _accuracy(curve, first, second)
    p_value = min(1.0, p_value / share)
    tail = _tails(curve, first, second, p_value, 1 - share)
    if tail is not None:
        p_value, evidence = tail
    found = bounds.misread(first, second)
    warning = f"{found} {bounds.RATIOS}" if found else ""
    return AuditResult(brief(curve), p_value, level, evidence, first.size, warning)


def brief(curve: Curve) -> str:
    """Return a description of the claim."""
    what = curve.notion if curve.mechanism is None else repr(curve.mechanism)
    return f"{what} under {curve.relation}"


def _accuracy(curve: Curve, first: Floats, second: Floats) -> tuple[float, str]:
    most = (1 + curve.delta(0.0)) / 2
    right, guesses = bounds.correct(first, second), 2 * first.size
    evidence = (
        f"The attack identified the data set in {right} of {guesses} guesses "
        f"({right / guesses:.4f}); the claim allows a probability of at most {most:.4f}."
    )
    return bounds.accuracy_p_value(right, guesses, most), evidence


def _tails(
    curve: Curve, first: Floats, second: Floats, other: float, share: float
) -> tuple[float, str] | None:
    """Return the p-value and evidence of the tail test; None unless stronger than `other`."""
    size = first.size
    # up to where the claim allows about 3 events in this many runs; fixed before any score is seen
    largest = min(curve.epsilon(min(0.25, 3 / size)), 700.0)
    epsilons = largest * np.arange(1, _EPSILONS + 1) / _EPSILONS
    # slightly lower, to include the largest value of a bounded loss; the last exceeds all of them
    thresholds = np.append(epsilons * (1 - 1e-9), 1.1 * largest + 0.1)
    seen = bounds.tail_counts(first, second, thresholds)
    if not seen[1].any():
        return None
    deltas = np.array([curve.delta(float(epsilon)) for epsilon in epsilons])
    growth = np.exp(epsilons)

    def violations(error: float) -> Floats:
        """Return a lower bound on the violation by each event (row) at each epsilon."""
        each = error / (2 * seen.shape[1])
        sure, rest = bounds.lower(seen[1], size, each), bounds.upper(seen[0], size, each)
        return np.asarray(sure[:, None] - (growth * rest[:, None] + deltas) * (1 + 1e-12))

    # the smallest error at which some event still violates the claim, by bisection of its log
    if not (violations(min(1.0, other) * share) > 0).any():
        return None
    unsafe, safe = math.log(min(1.0, other) * share), math.log(1e-300)
    while unsafe - safe > 0.01:
        middle = (unsafe + safe) / 2
        if (violations(math.exp(middle)) > 0).any():
            unsafe = middle
        else:
            safe = middle
    error = math.exp(unsafe)
    event, at = np.unravel_index(np.argmax(violations(error)), (seen.shape[1], _EPSILONS))
    sign, limit = ("> ", "< -")[event // thresholds.size], thresholds[event % thresholds.size]
    evidence = (
        f"A score {sign}{limit:.4g} occurred {seen[1, event]} times in {size} runs on one data set "
        f"and {seen[0, event]} times on the other; the claim allows at most e^{epsilons[at]:.4g} "
        f"times the probability on the other plus {deltas[at]:.3g}."
    )
    return error / share, evidence


def audit(
    release: Release,
    pair: Any,
    claim: Mechanism | Curve,
    *,
    runs: int = 20_000,
    significance: float = 1e-6,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    score: Callable[[Any], ArrayLike] | None = None,
    seed: int | np.random.SeedSequence = 0,
    progress: Callable[[int], Any] | None = None,
) -> AuditResult:
    """Run a release many times on two neighboring data sets, and test its privacy claim.

    Raises RuntimeError for any exception of the release, SystemExit and ``pytest.skip`` included.

    Parameters
    ----------
    release
        ``release(data)`` or ``release(data, rng)`` with a seeded `numpy.random.Generator`, which
        returns a number or an array of numbers. With a third parameter named ``size``, it is called
        once and returns that many outputs, stacked.
    pair
        Both data sets.
    claim, significance, relation
        As in `falsify`.
    runs
        The number of tested outputs per data set.
    score
        Maps stacked outputs to log-likelihood ratios; by default `fit_score`, fitted on `runs` more
        outputs, at most 20,000 per data set.
    seed, progress
        The seed of the generators; `progress` gets the number of new outputs.
    """
    measure = None if score is None else of_rows(score)
    told = progress or (lambda _: None)
    both = scored(release, pair, runs=runs, score=measure, seed=seed, progress=told)
    return falsify(claim, *both, significance=significance, relation=relation)


def scored(
    release: Release,
    pair: Any,
    *,
    runs: int,
    score: RowScore | None,
    seed: int | np.random.SeedSequence,
    progress: Callable[[int], Any],
) -> tuple[Floats, Floats]:
    """Return the scores of `runs` outputs of each data set of a pair."""
    size = checked_runs(runs)
    sides = two(pair)
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    both = list(zip(sides, [np.random.default_rng(child) for child in root.spawn(2)], strict=True))
    if score is None:
        few = min(size, 20_000)
        score = fit_rows(*(outputs(release, data, rng, few, progress) for data, rng in both))
    tested = [score(outputs(release, data, rng, size, progress)) for data, rng in both]
    return bounds.scores_of(*tested)


def two(pair: Any) -> tuple[Any, Any]:
    """Return both data sets of a pair."""
    try:
        first, second = pair
    except (TypeError, ValueError) as error:
        remedy = "Pass a tuple of two neighboring data sets."
        raise ValueError(checks.expected("pair", pair, "two data sets", remedy)) from error
    return first, second
