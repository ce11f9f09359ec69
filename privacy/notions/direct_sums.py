"""The profile of sampled releases with normal noise, by direct sums on a grid.

All terms are positive: also accurate where the integral and Fourier transforms lose all digits.
"""

import math
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np

from privacy.losses.densities import refuse_beyond
from privacy.losses.grids import on_grid
from privacy.losses.pair import LossPair
from privacy.losses.quadrature import Array
from privacy.notions import few_steps
from privacy.notions.loss_sums import LossSum
from privacy.numerics.rounding import U

_MOST_RELEASES = 256
_FINE = 0.02  # grid spacing times the slope; the relative error of a release is its square / 8
_DIGITS = 35.0  # log of the ratio to delta below which a mass is negligible
_LOWEST = 20.0  # log of the ratio of deltas at a loss of 0 and at the smallest loss of the grid
_MOST_CELLS = 2**13
_SMALLEST = 1e-270  # products of smaller masses underflow


def supports(total: LossSum) -> bool:
    """Return whether the sum has up to 256 losses, all of normal noise with few centers."""
    return sum(count for _, count in total.parts) <= _MOST_RELEASES and few_steps.supports(total)


def log_delta(pairs: Sequence[tuple[LossPair, int]], total: LossSum, epsilon: float) -> float:
    """Bound log delta(epsilon) of `total`, the sum of `pairs`; 0 if the grid would be too large."""
    if epsilon >= total.supremum:
        return -math.inf
    try:
        return DirectSum(pairs, total, epsilon).log_delta(epsilon)
    except ArithmeticError:
        return 0.0


class _Sum(NamedTuple):
    """Masses on a grid from the loss `start`, and the probability of an infinite loss."""

    mass: Array
    start: float
    lost: float


class DirectSum:
    """The sum of `pairs` in the direction of `total`, with bounds that are tight near `epsilon`."""

    bottom = 0.0

    def __init__(
        self, pairs: Sequence[tuple[LossPair, int]], total: LossSum, epsilon: float
    ) -> None:
        if not 0 < epsilon < total.supremum:
            raise ArithmeticError("no loss, or every loss, is above epsilon")
        # one large loss may make up all of epsilon, where delta falls faster than at the saddle
        here, beside = (
            np.array([pair.profile.log_delta(e) for pair, _ in pairs])
            for e in (epsilon, 1.001 * epsilon)
        )
        falls = here[beside > -np.inf] - beside[beside > -np.inf]
        fall = float(falls.max(initial=0.0))
        tilt = max(total.saddle(epsilon, 1.0), fall / (0.001 * epsilon))
        releases = sum(count for _, count in pairs)
        fine = _FINE * min(1.0, 8 / math.sqrt(releases))
        step = max(fine / (1 + tilt), (epsilon + (_DIGITS + _LOWEST) / tilt) / _MOST_CELLS)
        log_tail, floor = float(here.max()) - 2 * _DIGITS, -_LOWEST / tilt
        self._step, self._relative, self._blur = step, 0.0, 0.0
        each: list[tuple[_Sum, int]] = []
        for pair, count in pairs:
            one = on_grid(pair, total.direction, step, log_tail, floor, upper=True)
            tail = np.cumsum(one.mass[::-1])[::-1]
            at = min(max(math.ceil((epsilon - one.start) / step), 0), tail.size - 1)
            cells = int((tail > tail[at] * math.exp(-_DIGITS)).sum())
            refuse_beyond(2 * _MOST_CELLS, cells)
            beyond = float(tail[cells]) if cells < tail.size else 0.0
            each.append((_Sum(one.mass[:cells], one.start, beyond + one.infinite), count))
            self._relative += count * (one.relative + 8 * _MOST_CELLS * U)
            self._blur += count * (one.absolute + 4 * U * (abs(one.start) + 2 * _MOST_CELLS * step))
        reach = max(one.start + step * one.mass.size for one, _ in each)

        def joined(one: _Sum, other: _Sum) -> _Sum:
            """Raise sums below the floor to it, and count those beyond the reach as infinite."""
            mass, start = np.convolve(one.mass, other.mass), one.start + other.start
            low = max(math.ceil((floor - start) / step), 0)
            high = min(max(math.ceil((reach - start) / step), low + 1), mass.size)
            mass[low] += mass[:low].sum()
            lost = one.lost + other.lost + float(mass[high:].sum())
            return _Sum(mass[low:high], start + low * step, lost)

        sums = [few_steps.power(one, count, joined) for one, count in each]
        self._sum = reduce(joined, sums)

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound on log delta(epsilon)."""
        mass, start, lost = self._sum
        loss = start + self._step * np.arange(mass.size)
        # a smaller epsilon covers the rounding of the losses
        gap = epsilon - 2 * self._blur - 1e-14 * (epsilon + float(np.abs(loss).max())) - loss
        far = gap < 0
        delta = float(mass[far] @ -np.expm1(gap[far])) + lost
        if not delta > _SMALLEST:
            return 0.0
        return min(0.0, math.log(delta) + self._relative + 1e-11)
