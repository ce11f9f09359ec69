"""Sequential audits, which you may evaluate after every run and stop at any time."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincc, betaln

from privacy import checks
from privacy.audit.bounds import RATIOS, correct, curve_of, guesses_wrong, scores_of
from privacy.audit.claims import brief, scored, two
from privacy.audit.results import AuditResult, checked_significance
from privacy.audit.scores import Release, fit_rows, of_rows, outputs
from privacy.curves import Curve
from privacy.mechanisms import Mechanism
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation


class SequentialAudit:
    """A sequential test of whether guesses are correct more often than the claim allows.

    While the claim is true, the wealth of the bets is a nonnegative supermartingale that starts at
    1, so it ever reaches 1 / significance with probability at most `significance`, in (0, 1/4]
    (Ville 1939). `claim` and `relation` are as in `falsify`. `runs` counts the pairs of runs.

    A pair of runs, one on each data set, gives two guesses. Let p = (1 + delta(0)) / 2, the largest
    average accuracy under the claim. A bet q > p multiplies wealth by q / p for a correct guess and
    by (1 - q) / (1 - p) for a wrong one. The expected factor of a guess that is correct with
    probability r is 1 + s (r - p) for one s > 0; over both guesses of a pair it is at most (1 + s
    (average r - p))^2 <= 1. Bets are mixed uniformly over q in (p, 1), in closed form.

    Examples
    --------
    >>> import privacy as dp
    >>> from privacy.audit import SequentialAudit
    >>> watch = SequentialAudit(dp.Gaussian(2.0), significance=0.01)
    >>> watch.update([-1.0] * 60, [1.0] * 60)  # every guess is right
    >>> watch.falsified
    True
    """

    def __init__(
        self,
        claim: Mechanism | Curve,
        *,
        significance: float = 1e-6,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    ) -> None:
        curve = curve_of(claim, relation)
        self._told = brief(curve)
        self._level = checked_significance(significance)
        self._most = (1 + curve.delta(0.0)) / 2
        self._right = 0
        self._best = 0.0
        self.runs = 0

    def update(self, scores_0: ArrayLike, scores_1: ArrayLike) -> None:
        """Add the scores of one or more runs on each data set, shape (runs,) each.

        The score function may depend on all earlier outputs, but not on these.
        """
        first, second = scores_of(scores_0, scores_1)
        self.runs += first.size
        self._right += correct(first, second)
        self._best = max(self._best, self.log_wealth)

    @property
    def log_wealth(self) -> float:
        """The log of the current wealth; negative if the bets have lost."""
        if self._most >= 1:
            return 0.0
        p, right = self._most, self._right
        wrong = 2 * self.runs - right
        # the integral over q of q^right (1 - q)^wrong, over that of 1, both from p to 1
        above = float(betaincc(right + 1, wrong + 1, p))
        if above == 0:
            return -math.inf
        won = float(betaln(right + 1, wrong + 1)) + math.log(above) - math.log1p(-p)
        return won - right * math.log(p) - wrong * math.log1p(-p)

    @property
    def p_value(self) -> float:
        """The inverse of the largest wealth so far, valid at any time."""
        return math.exp(-self._best) if self._best < 700 else 1e-300

    @property
    def falsified(self) -> bool:
        """Whether the claim is falsified. Once true, it stays true."""
        return self.p_value <= self._level

    def result(self) -> AuditResult:
        """Return the current result."""
        evidence = (
            f"The attack identified the data set in {self._right} of {2 * self.runs} guesses; the "
            f"claim allows a probability of at most {self._most:.4f}. The largest wealth of the "
            f"bets against the claim was {math.exp(min(self._best, 700)):.3g}."
        )
        wrong = guesses_wrong(self._right, 2 * self.runs)
        warning = f"The scores guess the wrong data set. {RATIOS}" if wrong else ""
        return AuditResult(self._told, self.p_value, self._level, evidence, self.runs, warning)


def audit_until_falsified(
    release: Release,
    pair: Any,
    claim: Mechanism | Curve,
    *,
    max_runs: int = 100_000,
    significance: float = 1e-6,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    score: Callable[[Any], ArrayLike] | None = None,
    seed: int | np.random.SeedSequence = 0,
) -> AuditResult:
    """Run a release on both data sets until its claim is falsified, at most `max_runs` times.

    The result has the number of runs per data set. The other parameters are as in
    `privacy.audit.audit`; by default, at most 1,000 more outputs per data set fit the score.
    """
    most = checks.count("max_runs", max_runs, "Pass the largest number of runs per data set.")
    watch = SequentialAudit(claim, significance=significance, relation=relation)
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    training, testing = root.spawn(2)
    if score is None:
        rngs = map(np.random.default_rng, training.spawn(2))
        few = min(most, 1000)
        measure = fit_rows(
            *(outputs(release, data, rng, few) for data, rng in zip(two(pair), rngs, strict=True))
        )
    else:
        measure = of_rows(score)
    step = 16
    while watch.runs < most and not watch.falsified:
        step = min(2 * step, 1024, most - watch.runs)
        fresh = testing.spawn(1)[0]
        both = scored(release, pair, runs=step, score=measure, seed=fresh, progress=lambda _: None)
        watch.update(*both)
    return watch.result()
