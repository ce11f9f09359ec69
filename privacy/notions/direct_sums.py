"""The profile of two to four sampled releases with normal noise, by direct sums on a grid.

All terms are positive, so that deltas are accurate for which neither the contour integral nor a
Fourier transform has digits left.
"""

import math
from collections.abc import Sequence

import numpy as np

from privacy.losses.grids import on_grid
from privacy.losses.pair import LossPair
from privacy.notions import few_steps
from privacy.notions.loss_sums import LossSum
from privacy.numerics.rounding import U

_MOST_RELEASES = 4
_FINE = 0.03  # grid spacing times the saddle point; the relative error is near its square / 8
_DIGITS = 35.0  # log of the ratio to delta below which a mass is negligible
_MOST_CELLS = 2**13
_SMALLEST = 1e-270  # products of smaller masses underflow
_LOG_TAIL = -800.0  # of the mass that is moved to infinity


def supports(total: LossSum) -> bool:
    """Return whether the sum has two to four losses, all of normal noise with few centers."""
    return sum(count for _, count in total.parts) <= _MOST_RELEASES and few_steps.supports(total)


def log_delta(pairs: Sequence[tuple[LossPair, int]], total: LossSum, epsilon: float) -> float:
    """Return an upper bound on log delta(epsilon) in the direction of `total`, the sum of `pairs`.

    It is 0 if the grid would be too large.
    """
    if epsilon >= total.supremum:
        return -math.inf
    mass, lost, start, relative, blur = np.ones(1), 0.0, 0.0, 0.0, 0.0
    try:
        saddle = total.saddle(epsilon, 1.0)
        step = 2.0 ** math.floor(math.log2(_FINE / (1 + saddle)))
        for pair, count in pairs:
            one = on_grid(pair, total.direction, step, _LOG_TAIL, saddle, -20 / saddle, upper=True)
            tail = np.cumsum(one.mass[::-1])[::-1]
            at = min(max(math.ceil((epsilon - one.start) / step), 0), tail.size - 1)
            cells = int((tail > tail[at] * math.exp(-_DIGITS)).sum())
            if cells > _MOST_CELLS:
                return 0.0
            beyond = float(tail[cells]) if cells < tail.size else 0.0
            for _ in range(count):
                mass = np.convolve(mass, one.mass[:cells])
                lost += (beyond + one.infinite) * (1 + one.relative)
                start += one.start
                relative += one.relative + 4 * _MOST_CELLS * U
                blur += one.absolute
    except ArithmeticError:
        return 0.0
    loss = start + step * np.arange(mass.size)
    # a smaller epsilon covers the rounding of the losses
    gap = epsilon - 2 * blur - 1e-14 * (epsilon + float(np.abs(loss).max())) - loss
    far = gap < 0
    delta = float(mass[far] @ -np.expm1(gap[far])) + lost
    if not delta > _SMALLEST:
        return 0.0
    return min(0.0, math.log(delta) + relative + 1e-11)
