"""Gauss-Legendre quadrature on panels, with an enclosed error.

The error bound is Theorem 19.3 of Trefethen 2013 (docs/theory/contour.md, "Moments"), with an
ellipse of sum of semi-axes a * r around a panel of half-width a. Balls that cover the ellipse's
upper half bound the integrand; the caller's bound must hold for the lower half as well.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from flint import acb, arb, ctx

Array = npt.NDArray[np.float64]
Complex = npt.NDArray[np.complex128]
RoughLog = Callable[[Array | Complex], Array]  # log |f|, approximately
BallLog = Callable[[acb], arb]  # a bound on log |f|

_RATIOS = np.array([1.4, 1.9, 2.6, 3.6, 5.5, 9.0])[:, None, None]
_ARCS, _ROUGH_ARCS = (12, 48), 8  # 48 where a ball of 12 contains a singularity
_MULTIPLE = 8  # numbers of nodes are multiples of it, so that few rules are computed
_MOST = 128  # nodes in a panel
_ROUNDS = 6


class Panel(NamedTuple):
    """An interval, the ratio r of its ellipse, and the approximate number of nodes."""

    low: float
    high: float
    ratio: float
    nodes: int

    @property
    def center(self) -> arb:
        return (arb(self.low) + arb(self.high)) / 2

    @property
    def half(self) -> arb:
        return (arb(self.high) - arb(self.low)) / 2

    def height(self) -> arb:
        """Return the semi-axis of the ellipse along the imaginary axis."""
        return self.half * (arb(self.ratio) - 1 / arb(self.ratio)) / 2


def plan(log_size: RoughLog, edges: Array, log_error: float, highest: float) -> list[Panel]:
    """Return panels between `edges`, split for few nodes each, with ellipses below `highest`."""
    log_error -= math.log(edges.size)
    done: list[Panel] = []
    low, high = edges[:-1], edges[1:]
    for turn in range(_ROUNDS):
        ratio, count = _cheapest(log_size, low, high, log_error, highest)
        good = (count <= _MOST) | (turn == _ROUNDS - 1)
        kept = (x[good].tolist() for x in (low, high, ratio, count))
        done += map(Panel._make, zip(*kept, strict=True))
        if good.all():
            break
        low, high = low[~good], high[~good]
        middle = 0.5 * (low + high)
        low, high = np.append(low, middle), np.append(middle, high)
    return sorted(done)


def _cheapest(
    log_size: RoughLog, low: Array, high: Array, log_error: float, highest: float
) -> tuple[Array, Array]:
    """Return the ratio that needs the fewest nodes, and their number, for each panel."""
    angle = np.linspace(0.0, np.pi, _ROUGH_ARCS + 1)[:, None]
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    real, imaginary = 0.5 * (_RATIOS + 1 / _RATIOS), 0.5 * (_RATIOS - 1 / _RATIOS)
    z = middle + half * (real * np.cos(angle) + 1j * imaginary * np.sin(angle))
    size = log_size(z)
    # a ball that covers an arc contains about half the difference between its ends
    most = size.max(axis=1) + 0.3 * np.abs(np.diff(size, axis=1)).max(axis=1)
    need = (most + np.log(4.3 * half) - log_error) / (2 * np.log(_RATIOS[:, 0]))
    need[~np.isfinite(need)] = 1e9
    need[imaginary[:, 0] * half >= 0.98 * highest] = 1e9
    best = need.argmin(axis=0)
    count = np.maximum(need[best, np.arange(low.size)], 2.0)
    return _RATIOS[best, 0, 0], (_MULTIPLE * np.ceil(count / _MULTIPLE)).astype(int)


@lru_cache(maxsize=16)
def _arcs(ratio: float, count: int) -> list[acb]:
    """Return balls that cover the upper half of the ellipse of [-1, 1]."""
    real, imaginary = ((arb(ratio) + sign / arb(ratio)) / 2 for sign in (1, -1))
    step = arb.pi() / count
    angles = [step * (k + arb(0.5, 0.5)) for k in range(count)]
    return [acb(real * angle.cos(), imaginary * angle.sin()) for angle in angles]


@lru_cache(maxsize=64)
def _rule(count: int, _bits: int) -> list[tuple[arb, arb]]:
    return [arb.legendre_p_root(count, k, weight=True) for k in range(count)]


def rule(
    panels: list[Panel], log_size: BallLog, log_error: float
) -> tuple[list[tuple[arb, arb]], arb]:
    """Return nodes and their weights, and a bound on the error of the integral over all panels.

    It is infinite unless the panels are adjacent. `log_size` gets balls inside the ellipses only.
    """
    if any(one.high != two.low for one, two in pairwise(panels)):
        return [], arb("inf")
    points, error = [], arb(0)
    log_error -= math.log(len(panels) + 1)
    for panel in panels:
        center, half = panel.center, panel.half
        for arcs in _ARCS:
            bounds = [log_size(center + half * arc) for arc in _arcs(panel.ratio, arcs)]
            if all(bound.is_finite() for bound in bounds):
                break
        log_most = arb(max(float(each.upper()) for each in bounds)) + arb(2) ** -20
        if not all(each < log_most for each in bounds):
            return [], arb("inf")
        log_rate = 2 * arb(panel.ratio).log()
        log_scale = (half * 64 / 15 / (1 - (-log_rate).exp())).log() + log_most
        need = (float(log_scale) - log_error) / float(log_rate)
        count = _MULTIPLE * max(1, math.ceil(need / _MULTIPLE))
        if not count <= 4 * _MOST:
            return [], arb("inf")
        error += (log_scale - count * log_rate).exp()
        points += [(center + half * x, half * w) for x, w in _rule(count, ctx.prec)]
    return points, error


def nodes_in(panels: list[Panel]) -> int:
    """Return the approximate number of nodes."""
    return sum(panel.nodes for panel in panels)


def spread(density: Array, places: Array) -> Array:
    """Return edges of panels, `density` of them per unit at increasing `places`."""
    passed = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(places)))
    count = max(1, math.ceil(passed[-1]))
    return np.interp(np.linspace(0.0, passed[-1], count + 1), passed, places)
