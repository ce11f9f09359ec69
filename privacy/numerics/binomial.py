"""Binomial tails, enclosed by interval arithmetic."""

import math
from functools import lru_cache
from typing import Any

_PRECISIONS = (128, 256, 512, 1024, 2048)  # bits
_LEAST = 1e-60  # total probability of the numbers that are omitted


@lru_cache(maxsize=256)
def log_binomial_tails(trials: int, probability: float, least: int) -> tuple[float, float]:
    """Return log P(X < least) and log P(X >= least) for X ~ Bin(trials, probability).

    Accurate to an ulp; -inf for a probability below 1e-300. P(X >= least) is the regularized
    incomplete beta function I_p(least, trials - least + 1).
    """
    from flint import arb, ctx, fmpq

    if least <= 0:
        return -math.inf, 0.0
    if least > trials:
        return 0.0, -math.inf
    for bits in _PRECISIONS:
        with ctx.workprec(bits):
            p = arb(fmpq(*probability.as_integer_ratio()))
            above = p.beta_lower(least, trials - least + 1, regularized=True)
            both = _log(1 - above), _log(above)
        if not any(map(math.isnan, both)):
            return both
    raise OverflowError(f"the binomial tail of {trials} trials could not be enclosed")


def binomial_weights(draws: int, records: int) -> tuple[list[float], float]:
    """Return P(Bin(draws, 1 / records) = j) for j = 1, 2, ..., and a bound on the omitted rest.

    Each is accurate to an ulp, or 1e-300 where it is smaller; `records` is at least 2.
    """
    from flint import arb, ctx

    weights: list[float] = []
    with ctx.workprec(_PRECISIONS[0]):  # sums of rounded logs lose digits if there are many draws
        weight = (1 - 1 / arb(records)) ** draws
        for j in range(1, draws + 1):
            weight *= arb(draws - j + 1) / (j * (records - 1))
            weights.append(max(float(weight.mid()), 1e-300))  # 0 has no logarithm
            # each further weight is at most `shrink` times the one before it
            shrink = (draws - j) / ((j + 1) * (records - 1))
            if j < draws and shrink < 0.5 and weights[-1] * shrink < _LEAST / 2:
                return weights, _LEAST
    return weights, 0.0


def _log(ball: Any) -> float:
    """Return the log: NaN if the ball is too wide, -inf below 1e-300."""
    if ball < 1e-300:
        return -math.inf
    log = ball.log()
    return float(log.mid()) if log.rel_accuracy_bits() > 56 or abs(log) < 1e-300 else math.nan
