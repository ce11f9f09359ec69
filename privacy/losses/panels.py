"""Nodes of Laplace noise: Gauss-Legendre panels and two atoms (docs/theory/contour.md)."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from privacy.losses import quadrature
from privacy.losses.densities import complex_log_mixture, log_mixture, refuse_beyond, slope
from privacy.losses.quadrature import Array, Direction, LineNodes, LossModel, LossNodes
from privacy.losses.trapezoid import MOST_NODES, columns

_DIGITS = 42.0  # decrease of the exponent beyond which a panel is negligible
_LARGEST = 600.0  # largest exponent of a weight
_EVEN = 64  # largest number of panels of equal width


@dataclass(frozen=True)
class SampledLaplace(LossModel):
    """Poisson-sampled Laplace: (1-q) Lap(0, b) + q Lap(1, b) against Lap(0, b).

    The density ratio is constant for noise x < 0 and x > 1: two atoms, with a density between.
    """

    sampling_probability: float
    scale: float

    def supremum(self, direction: Direction) -> float:
        side = 1 if direction == "remove" else -1
        at = log_mixture(np.array([side / self.scale]), self.sampling_probability)
        return side * float(at[0])

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        return self._nodes_at(direction, t, self.sampling_probability, np.array([self.scale]))

    def _nodes_at(self, direction: Direction, t: float, q: Any, scale: Array) -> LossNodes:
        """Return the nodes of this model, or of several whose parameters are columns."""
        rate = 1 / scale
        x, weight = self._graded(direction, t)
        left = np.full(rate.shape, -math.log(2))
        between = np.log(weight * (rate / 2)) - rate * x
        log_base = np.concatenate([left, between, left - rate], axis=-1)
        ends = np.concatenate([[-1.0], 2 * x - 1, [1.0]])
        ratio = log_mixture(rate * ends, q)
        if direction == "remove":
            return LossNodes(log_base + ratio, ratio)
        return LossNodes(log_base, -ratio)

    def stack_key(self, t: float) -> Hashable:
        count = self._panel_count(t, 0.0)
        return (count, self.sampling_probability == 1) if count <= _EVEN else self

    def stacked_nodes(self, models: Sequence[Self], direction: Direction, t: float) -> LossNodes:
        q, scale = columns((one.sampling_probability, one.scale) for one in models)
        return self._nodes_at(direction, t, q, np.atleast_1d(scale))

    def _graded(self, direction: Direction, t: float) -> tuple[Array, Array]:
        """Return panels of [0, 1] for all of (0, t], wider at losses far below the largest one.

        Let the losses of a panel be at least D below the largest one, and S their steepest slope.
        With a width of 8 D / (S digits) the exponent s L increases by at most 8 while
        s D < digits; for larger s, e^(s L) is negligible. At distance u from the largest loss,
        D >= S e^(-2 h / b) (1 - e^(-2 u / b)) b / 2, since the slope of log S is at most 2 / b.
        """
        count, rate = self._panel_count(t, 0.0), 2 / self.scale
        refuse_beyond(MOST_NODES, count * 16)
        if count <= _EVEN:
            away, weight = _panels(np.linspace(0.0, 1.0, count + 1))
        else:
            share, ends = 6 / (_DIGITS + 8 + rate), [0.0]
            while ends[-1] < 1:
                ends.append(ends[-1] + max(1 / count, share * -math.expm1(-rate * ends[-1]) / rate))
            away, weight = _panels(np.array([*ends[:-1], 1.0]))
        return (away, weight) if direction == "add" else (1 - away, weight)

    def _panel_count(self, t: float, more: float) -> int:
        count = 2 / self.scale + (t + 1) * self._steepest() / 8 + more
        return math.ceil(min(count, MOST_NODES))  # MOST_NODES panels are refused

    def _steepest(self) -> float:
        """Return a bound on |dL/dx| on [0, 1] and, up to a factor near 1, on the path."""
        return 2 / self.scale * slope(1 / self.scale, self.sampling_probability)

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: float) -> LineNodes:
        """Return the atoms, and panels along 0, i d, 1 + i d, 1.

        On that path exp(i w L) decays, so that the top panels need not be finer for larger w. The
        panels of the legs double in length, starting at 1 / w.
        """
        rate, q = 1 / self.scale, self.sampling_probability
        depth = min(0.25 * math.pi * self.scale, 1.0)
        # panels of length 1 / w near the real line, doubling up to the length for exp(t L)
        even = depth * np.linspace(0.0, 1.0, math.ceil(depth * self._steepest() * (t + 1) / 8) + 1)
        finest = math.ceil(math.log2(max(even[1] * self._steepest() * (t + 1 + w) / 8, 1)))
        halves = even[1] * 2.0 ** np.arange(-finest, 0)
        y, leg = _panels(np.concatenate([[0.0], halves, even[1:]]))
        # panels that raise the exponent by <= 8: 16 points are good to 1e-25
        count = self._panel_count(t, 5 * max(2 * rate, 1 / depth))
        refuse_beyond(MOST_NODES, count * 16)
        x, top = _panels(np.linspace(0.0, 1.0, count + 1))
        place = np.concatenate([1j * y, x + 1j * depth, 1 + 1j * y, [0.0, 1.0]])
        measure = 0.5 * rate * np.concatenate([1j * leg, top, -1j * leg])
        if direction == "add":
            place, measure = place.conj(), measure.conj()
        ratio = complex_log_mixture(rate * (2 * place.real - 1), 2 * rate * place.imag, q)
        log_p = ratio * (t + 1) if direction == "remove" else -t * ratio
        exponent = log_p - rate * place - log_moment
        if exponent.real.max() > _LARGEST:  # the order is too large for this path
            raise OverflowError("the integration path is too far from the real line")
        weight = np.exp(exponent)
        weight[:-2] *= measure
        weight[-2:] *= 0.5
        rounding = 16 + np.abs(log_p) + rate + abs(log_moment)
        return LineNodes(weight, ratio if direction == "remove" else -ratio, rounding, 1e-20)

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        """Return log upper bounds on |M(t + i w)| / M(t) for every w >= frequency.

        The panels decay, the atoms do not. If |M(t + i w)| / M(t) <= b < 1 for all w >= a, it is
        at most 1 - (1 - b^2) w^2 / (8 a^2) for w < a (Petrov 1975, lemma I.1).
        """
        spread = 2 / self.scale
        size = min(spread, self.sampling_probability * math.expm1(spread))
        a = 2.0 ** np.arange(-2.0, 12.0) / max(size, 1e-140)
        line = self.line_nodes(direction, t, float(a[-1]), log_moment)
        fall = np.exp(-np.multiply.outer(a, np.maximum(line.loss.imag, 0.0)))
        b = np.minimum(fall @ np.abs(line.weight) * (1 + 1e-12), 1.0)
        rate = float(((1 - b * b) / (8 * a * a)).max())
        k = int(((1 - b * b) / (8 * a * a)).argmax())
        near = np.log1p(-rate * np.minimum(frequency, a[k]) ** 2)
        passed = np.searchsorted(a, frequency, side="right")
        return np.asarray(np.minimum(near, np.log(np.r_[1.0, b])[passed]))


@dataclass(frozen=True)
class SampledLogistic(SampledLaplace):
    """Two logistic distributions at distance 1 / scale, Poisson-sampled.

    Their loss has the density of the Laplace loss between its atoms, and no atoms: with p the level
    of the best test, it is 1 / scale - 2 log(1 + (e^(1 / scale) - 1) p), p uniform under Q.
    """

    def _nodes_at(self, direction: Direction, t: float, q: Any, scale: Array) -> LossNodes:
        inner = super()._nodes_at(direction, t, q, scale)
        gain = math.log(2) - np.log(-np.expm1(-1 / scale))
        between = (..., slice(1, -1))
        ulps = 32 + 4 * float(gain.max())
        return LossNodes(inner.log_weight[between] + gain, inner.loss[between], ulps)

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: float) -> LineNodes:
        gain = math.log(2) - math.log(-math.expm1(-1 / self.scale))
        inner = super().line_nodes(direction, t, w, log_moment - gain)
        rounding = inner.rounding[:-2] + 16 + 4 * gain
        return LineNodes(inner.weight[:-2], inner.loss[:-2], rounding, inner.quadrature)


def _panels(ends: Array) -> tuple[Array, Array]:
    x, weight = quadrature.legendre(16)
    half = 0.5 * np.diff(ends)[:, None]
    return (ends[:-1, None] + half * (1 + x)).ravel(), (half * weight).ravel()
