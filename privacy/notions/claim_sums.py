"""Composition of (epsilon, delta) claims: sums of losses +-epsilon.

Randomized response, which dominates (see `ClaimPair`), has loss +epsilon with probability
e^epsilon / (1 + e^epsilon), else -epsilon. The caller adds the masses delta at infinity.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from privacy.curves import merged
from privacy.numerics.rounding import U, round_up

if TYPE_CHECKING:  # the closed forms run without numpy
    from privacy.losses.quadrature import Array

LARGEST_LATTICE = 10_000
"""Most claims for `LatticeSum`."""
_CELLS, _WORK = 2**16, 2**28  # most cells of a lattice, and most cells times claims
_Losses = Sequence[tuple[float, int]]


def optimal_sum(loss: float, count: int, epsilon: float) -> float:
    """Return an upper bound on log delta of `count` releases of loss +-`loss` each.

    sum_i C(n, i) p^(n-i) (1-p)^i (1 - e^(epsilon - (n - 2i) loss))+, p = e^loss / (1 + e^loss).
    """
    import numpy as np

    # lower epsilon (larger delta) covers the rounding of epsilon - (n - 2i) loss
    epsilon -= 4 * U * (count * loss + epsilon)
    if epsilon >= count * loss:
        return -math.inf
    last = math.floor((count - epsilon / loss) / 2)
    gap = epsilon - (count - 2 * np.arange(last + 1.0)) * loss
    terms = _log_weights(count, loss, last)[gap < 0] + np.log(-np.expm1(gap[gap < 0]))
    top = float(terms.max())
    total = top + math.log(float(np.exp(terms - top).sum()))
    return min(0.0, total + _rounding(count, loss) + U * (4 * abs(total) + 64))


def _log_weights(count: int, loss: float, last: int) -> "Array":
    """Return the log probabilities that exactly i of `count` losses are negative, i = 0 .. last."""
    import numpy as np
    from scipy.special import gammaln

    i = np.arange(last + 1.0)
    log_choose = float(gammaln(count + 1.0)) - gammaln(i + 1) - gammaln(count - i + 1)
    return np.asarray(log_choose - count * math.log1p(math.exp(-loss)) - i * loss)


def _rounding(count: int, loss: float) -> float:
    return U * (16 * math.lgamma(count + 2.0) + 8 * count * (1 + loss))


def advanced_epsilon(moments: tuple[float, float], delta: float) -> float:
    """Return sum e tanh(e / 2) + sqrt(2 log(1 / delta) sum e^2), rounded up.

    Kairouz, Oh and Viswanath 2015, Theorem 3.5. `moments` is from `mean_and_norm`.
    """
    mean, norm = moments
    return round_up(mean + math.sqrt(-2 * math.log(delta)) * norm, 16 * U)


def advanced_sum(moments: tuple[float, float], epsilon: float) -> float:
    """Return the log delta at which `advanced_epsilon` is epsilon, rounded up."""
    mean, norm = moments
    gap = epsilon - mean * (1 + 16 * U)
    distance = max(gap, 0.0) / norm
    return -0.5 * distance * distance * (1 - 16 * U)


def mean_and_norm(losses: _Losses) -> tuple[float, float]:
    """Return sum e tanh(e / 2) and sqrt(sum e^2), scaled so that no square underflows."""
    top = max(loss for loss, _ in losses)
    mean = math.fsum(n * (loss / top) * math.tanh(0.5 * loss) for loss, n in losses)
    return top * mean, top * math.sqrt(math.fsum(n * (loss / top) ** 2 for loss, n in losses))


class LatticeSum:
    """The exact sum of claims whose epsilons are rounded up to a lattice.

    `losses` has each epsilon and its number of claims. The sum is an upper bound: randomized
    response with a smaller epsilon is a postprocessing of that with a larger one.
    """

    def __init__(self, losses: _Losses) -> None:
        cells = min(_CELLS, _WORK // sum(n for _, n in losses))
        self.step = math.fsum(n * loss for loss, n in losses) / cells
        places = ((math.ceil(loss / self.step * (1 + 4 * U)), n) for loss, n in losses)
        self.places = merged(places)

    @cached_property
    def _masses(self) -> tuple["Array", "Array", float]:
        """Return the values of the sum, their probabilities, and a relative error bound."""
        import numpy as np

        mass, error = np.ones(1), 0.0
        for place, n in self.places.items():
            log_weight = _log_weights(n, place * self.step, n)
            wider = np.zeros(mass.size + place * n)
            for negative, weight in enumerate(np.exp(log_weight).tolist()):
                start = place * (n - negative)
                wider[start : start + mass.size] += weight * mass
            mass = wider
            error += _rounding(n, place * self.step) + 8 * U * n
        value = (2.0 * np.arange(mass.size) - (mass.size - 1)) * self.step
        return value, mass, error

    def __call__(self, epsilon: float) -> float:
        """Return an upper bound on log delta at `epsilon`, for the rounded claims."""
        import numpy as np

        value, mass, error = self._masses
        epsilon -= 4 * U * (float(value[-1]) + epsilon)
        first = value.searchsorted(epsilon, side="right")
        delta = float(mass[first:] @ -np.expm1(epsilon - value[first:]))
        if delta == 0.0:
            return -math.inf if epsilon >= value[-1] else math.log(1e-290)
        delta += 1e-290  # bounds the weights that underflow
        return min(0.0, math.log(delta) + error + (64 + mass.size) * U)
