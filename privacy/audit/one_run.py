"""Audits with ONE run and many canaries (Steinke, Nasr and Jagielski 2023)."""

import math

import numpy as np
from scipy.special import betainc, gammaln

from privacy import checks
from privacy.audit.bounds import curve_of, guesses_wrong
from privacy.audit.claims import brief
from privacy.audit.results import AuditResult, checked_significance, error_of
from privacy.curves import Curve
from privacy.mechanisms import Laplace, Mechanism, PureDP, RandomizedResponse
from privacy.numerics.solve import safe_root
from privacy.relations import NeighboringRelation

_POINTS = 8
_PURE = (PureDP, RandomizedResponse, Laplace)
_WRONG = "Fewer guesses are right than by chance."
_TURN = "Pass the number of correct guesses, not of wrong ones."
_MOST_GUESSES = 10**7
"""Each correct guess is a term of a sum held in memory: some hundreds of megabytes."""


def falsify_one_run(
    claim: Mechanism | Curve,
    *,
    canaries: int,
    guesses: int,
    correct: int,
    significance: float = 0.05,
) -> AuditResult:
    """Test a claim on the guesses about the canaries of one run.

    A single pure claim (`PureDP`, `RandomizedResponse`, `Laplace`) is tested at delta = 0, with the
    whole `significance` level. Any other claim is tested at 8 values of delta, from 1e-2 to 1e-9
    divided by the number of canaries, with equal shares of the level.
    `claim` is a mechanism, or its curve, under ADD_OR_REMOVE_ONE. Each of m = `canaries` <= 2^53
    canaries was included with probability 1/2, independently. The auditor guessed about r =
    `guesses` of them, r <= m and <= 10^7, chosen in any way; `correct` were correct. The result
    has a warning if fewer are right than by chance (at level 1e-6).
    """
    level = checked_significance(significance)
    _check(canaries, guesses, correct)
    curve = curve_of(claim, NeighboringRelation.ADD_OR_REMOVE_ONE)
    deltas = [10.0**-power / canaries for power in range(2, 2 + _POINTS)]
    if isinstance(curve.mechanism, _PURE) and math.isfinite(curve.epsilon(0)):
        deltas = [0.0]
    tried = []
    for delta in deltas:
        epsilon = curve.epsilon(delta)
        tried.append((p_value(canaries, guesses, correct, epsilon, delta), epsilon, delta))
    found, epsilon, delta = min(tried)
    evidence = (
        f"{correct} of {guesses} guesses about {canaries} canaries were correct; the claim of "
        f"({epsilon:.4g}, {delta:.3g})-DP allows a probability of at most "
        f"{1 / (1 + math.exp(-epsilon)):.4f} per guess."
    )
    warning = f"{_WRONG} {_TURN}" if guesses_wrong(int(correct), int(guesses)) else ""
    return AuditResult(brief(curve), min(1.0, len(deltas) * found), level, evidence, 1, warning)


def one_run_epsilon_lower_bound(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95
) -> float:
    """Return the largest epsilon that one run with canaries falsifies at `delta`; 0 if none.

    It is rounded down, and holds with probability at least `confidence`, in [3/4, 1). `delta` is in
    [0, 1). The others are as in `falsify_one_run`; a ValueError replaces its warning.
    """
    _check(canaries, guesses, correct)
    if guesses_wrong(int(correct), int(guesses)):
        rule = f"at least about half of guesses={guesses}"
        raise ValueError(checks.expected("correct", correct, rule, f"{_WRONG} {_TURN}"))
    delta = checks.query_delta(delta)
    error = error_of(confidence)

    def excess(epsilon: float) -> float:
        return p_value(canaries, guesses, correct, epsilon, delta) - error

    if excess(0.0) > 0:
        return 0.0
    high = 1.0
    while excess(high) <= 0:
        high *= 2
    return safe_root(excess, 0.0, high, rtol=1e-9, atol=1e-12)


def _check(canaries: int, guesses: int, correct: int) -> None:
    limits = (
        ("canaries", canaries, 2**53, "Pass the number of canaries."),
        ("guesses", guesses, _MOST_GUESSES, "Guess only about the canaries of largest score."),
    )
    for name, value, most, remedy in limits:
        if checks.count(name, value, remedy) > most:
            raise ValueError(checks.expected(name, value, f"<= {most}", remedy))
    remedy = "Pass the number of correct guesses."
    checks.real("correct", correct, remedy, at_least=0, at_most=float(guesses))
    if guesses > canaries or correct != int(correct):
        rule = f"whole and 0 <= correct <= guesses <= canaries={canaries}"
        raise ValueError(checks.expected("guesses, correct", (guesses, correct), rule, remedy))


def p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Return an upper bound on the p-value of v correct guesses under (epsilon, delta)-DP.

    P[v or more are correct] <= P[B >= v] + 2 m delta max over i of P[v > B >= v - i] / i, B
    binomial with r trials of probability e^epsilon / (1 + e^epsilon): the guesses of m randomized
    responses, and a term for their failures (Steinke, Nasr and Jagielski 2023, arXiv 2305.08846).
    """
    m, r, v = int(canaries), int(guesses), int(correct)
    if v == 0 or math.isinf(epsilon):
        return 1.0
    found = float(betainc(v, r - v + 1, 1 / (1 + math.exp(-epsilon))))
    if delta > 0:
        k = np.arange(v - 1, -1, -1)
        # log q and log (1 - q) without cancellation
        log_q, log_rest = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
        log_mass = gammaln(r + 1) - gammaln(k + 1) - gammaln(r - k + 1)
        masses = np.exp(log_mass + k * log_q + (r - k) * log_rest)
        found += 2 * m * delta * float(np.max(np.cumsum(masses) / np.arange(1, v + 1)))
    # the logarithms cancel, so their rounding error is relative to the largest
    return min(1.0, found * (1 + 1e-9 + 2.0**-49 * float(gammaln(r + 1))))
