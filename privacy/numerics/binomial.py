"""Binomial tails, enclosed by interval arithmetic."""

import math
from functools import lru_cache
from typing import Any

_PRECISIONS = (128, 256, 512, 1024, 2048)  # bits


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


def _log(ball: Any) -> float:
    """Return the log: NaN if the ball is too wide, -inf below 1e-300."""
    if ball < 1e-300:
        return -math.inf
    log = ball.log()
    return float(log.mid()) if log.rel_accuracy_bits() > 56 or abs(log) < 1e-300 else math.nan
