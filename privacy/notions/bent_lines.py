"""Sums of rare sampled Gaussian losses: the contour integral on a line that bends to the right.

If most losses are near 0, below epsilon, the integrand decays slowly on Re t = c. On a hyperbola,
it decays with Re t: docs/theory/contour.md, "Rare losses", which defines the paths of the noise.
"""

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from privacy.losses.characteristic import log1p
from privacy.losses.densities import log_sum
from privacy.losses.quadrature import Array, Complex
from privacy.notions.loss_sums import Unresolved
from privacy.numerics.rounding import ULP

_DIGITS = 23.0  # log of the accuracy, relative to delta
_ANGLE = math.pi / 12  # of the hyperbola at infinity, and of its strip
_LEFT = 0.15  # place of the strip's left side, relative to the right one
_SIDE = 1.2, 0.7  # turn and rise of the paths for the right side, at most,
_LINE = 1.6, 0.45  # and of the path for the line
_DEPTH = 1.2  # of the strip of that path, times the noise
_END = 9.5  # the normal mass beyond it is 2e-21
_NOTHING = -55.0  # log of a negligible term of a moment
_LARGEST = 300.0  # log of the largest modulus of exp(K(t) - t epsilon)
_SEGMENT = 0.8  # length of a segment of a side
_MOST_POINTS, _MOST_NODES = 400, 2000
_TERMS = 17
_SERIES = np.array([1 / math.factorial(m) for m in range(_TERMS + 1)])
_ROOT = math.sqrt(2 * math.pi)

Unknown = Literal["noise", "q", "steps"]


class Run(NamedTuple):
    """Poisson-sampled Gaussian releases."""

    noise: float
    q: float
    steps: float

    @property
    def bends(self) -> bool:
        """Whether a bent line may suit: much noise gives smooth losses, little very large ones."""
        return 0.1 < self.noise < 1.3 and self.q <= 0.5


class BentLine:
    """The integrand of a sum of losses on t(u) = A + R sin(angle + i u), if a record is removed.

    `right` is where the right side of the strip of u meets the real axis, near the saddle point;
    `about` is about log delta. With an `unknown` of the only part, error bounds are omitted, and
    `estimate` gives a derivative. Raises `Unresolved` if the line has no useful bound.
    """

    kink, limited = 0.0, False

    def __init__(
        self,
        parts: Sequence[Run],
        right: float,
        epsilon: float,
        about: float,
        *,
        digits: float = _DIGITS,
        unknown: Unknown | None = None,
    ) -> None:
        if not epsilon > 0:
            raise Unresolved("the line would be too long")
        self._left = left = _LEFT * right
        self._scale = (right - left) / math.sin(2 * _ANGLE)
        goal = digits - about
        self._step = 2 * math.pi * _ANGLE / (goal + max(-math.log(2 * left), 0.0))
        far = max((2 * math.cos(_ANGLE) * goal + 2) / epsilon, 2 * right)
        points = math.ceil(math.acosh((far - left) / (right - left)) / self._step)
        if not 0 < points < _MOST_POINTS:
            raise Unresolved("no suitable number of points")
        self._end = (points + 0.5) * self._step
        u = self._u = self._step * np.arange(points + 1)
        t = self._t = self._at(_ANGLE, u)
        self._factor = self._step / math.pi * 1j * self._scale * np.cos(_ANGLE + 1j * u)
        self._factor /= t * (t + 1)
        self._factor[0] *= 0.5
        if not unknown:
            self._bound(parts, right)
            self._missed(epsilon)
        self._exponent, self._off = np.zeros_like(t), np.zeros(u.size)
        for part in parts:
            needed = goal + math.log(part.steps) - float(t[0].real) * epsilon
            self._add(part, max(needed, _DIGITS), unknown)

    def _at(self, angle: float, u: Array | float) -> Complex:
        return np.asarray(self._left + self._scale * np.sin(angle + 1j * u))

    def _hull(self, first: Any, last: Any) -> Complex:
        """Return points (rows) whose convex hulls include parts of the line."""
        u = np.stack([self._u[first], self._u[last]])
        corner = self._at(_ANGLE, u.mean(axis=0)) - self._left
        corner = self._left + corner / np.cosh(0.5 * (u[1] - u[0]))
        return np.stack([self._t[first], corner, self._t[last]], axis=1)

    def _bound(self, parts: Sequence[Run], right: float) -> None:
        """Bound the moments on the right side of the strip, and on the line through its end.

        The bound on a path decreases in Im t, and its log is convex in t: a segment of the side is
        in the triangle of its ends and the intersection of its tangents there.
        """
        edges = np.linspace(0.0, self._end, math.ceil(self._end / _SEGMENT) + 1)
        t, width = self._at(2 * _ANGLE, edges), float(edges[1])
        middle = self._at(2 * _ANGLE, edges[:-1] + 0.5 * width)
        corner = self._left + (middle - self._left) / math.cosh(0.5 * width)
        end = np.array([self._left + 1j * t[-1].imag, t[-1], t[-1]])
        points = np.vstack([np.transpose([t[:-1], t[1:], corner]), end])
        near = np.append(middle, t[-1])[:, None]
        tilt = np.minimum(near.imag / (1.5 * near.real), 1.0)
        self._places, self._sizes = points.real, np.zeros(points.shape)
        turn, rise = _SIDE
        for part in parts:
            cell, last = _cell(part), _END + 1.6 * (1 + right) / part.noise
            if last > cell * _MOST_NODES:
                raise Unresolved("too many nodes")
            x = np.arange(-_END, last, cell)
            _, log_weight, loss, _ = _path(part, x, 3 / np.abs(near), turn * tilt, rise * tilt)
            size = _moduli(log_weight, loss, points)
            if (size[..., -1] > size.max(axis=-1) + _NOTHING).any():
                raise Unresolved("the noise has too wide a range")
            self._sizes += part.steps * (log_sum(size) + math.log(cell / _ROOT))
        self._lengths = self._scale * width * np.cosh(edges[1:]) / np.abs(t[:-1]) ** 2
        arc = 2 * _ANGLE * self._scale * math.cosh(self._end)
        self._beyond = (arc / t[-1].imag + 1) / t[-1].imag

    def _missed(self, epsilon: float) -> float:
        """Return a bound on the error of the trapezoid rule for the integral."""
        level = self._sizes - self._places * epsilon
        if not level.max() < _LARGEST:
            raise Unresolved("the line is far from the saddle point")
        kernel = 2 * math.pi * _ANGLE / self._step
        strip = math.exp(_LEFT * level[0, 0]) * math.pi / (2 * self._left)
        strip += float(np.exp(level[:-1].max(axis=1)) @ self._lengths)
        start, end, _ = level[-1]
        share = 1.0 if end > start else 0.5 / math.cos(_ANGLE)
        end = max(start + (end - start) * share, start - kernel)
        return float(strip / math.expm1(kernel) + math.exp(end) * self._beyond) / math.pi

    def _add(self, part: Run, digits: float, unknown: Unknown | None) -> None:
        """Add the log moments of a part on the line, from nodes on a path."""
        a, t = 1 + self._t, self._t
        path = (0.5 / abs(t[-1]), *_LINE)
        h = 2 * math.pi * _DEPTH * part.noise / digits
        last = _END + 2 * (1 + float(t[0].real)) / part.noise
        if last > min(h, _cell(part)) * _MOST_NODES:
            raise Unresolved("too many nodes")
        z, log_weight, loss, share = _path(part, np.arange(-_END, last, h), *path)
        weight, distance = np.exp(log_weight) * (h / _ROOT), np.abs(loss)
        ends = np.linspace(0, a.size, 3 if a.size > 40 else 2, dtype=int)
        hulls = self._hull(ends[:-1], ends[1:] - 1)
        live = _moduli(log_weight, loss, hulls).max(axis=1) > _NOTHING
        if live[:, -1].any():
            raise Unresolved("the noise has too wide a range")
        # E B^a - 1 = E psi(a l) - a psi(l), since E B = 1; a series where |a l| < 1
        counts = (np.multiply.outer(np.abs(a[ends[1:] - 1]), distance) >= 1).argmax(axis=1)
        powers = np.multiply.accumulate(np.tile(loss[: counts[0]], (_TERMS, 1)))
        one = np.expm1(loss) - loss
        one[: counts[0]] = _SERIES[2:] @ powers[1:]
        moment, scored = -a * (weight @ one), np.zeros_like(a)
        ratio = np.vander(a, _TERMS + 1, increasing=True) * _SERIES
        if unknown:
            score = share * (1 / part.noise - z) / part.noise
            scores = weight * (share - part.q * np.exp(-loss) if unknown == "q" else score)
        else:
            rough = ULP * np.abs(weight) * (32 + 4 * np.abs(z) ** 2)
            by_loss, squared = rough * distance, rough * (distance + part.q) ** 2
            off = np.abs(a) * (rough @ np.abs(one) + 1e-20) + self._quadrature(part, path, last, h)
        for start, end, count, row in zip(ends[:-1], ends[1:], counts, live, strict=True):
            block, kept = slice(start, end), row.nonzero()[0]
            here, kept, rest = a[block], kept[kept >= count], weight[count:]
            moment[block] += ratio[block, 2:] @ (powers[1:, :count] @ weight[:count])
            moment[block] -= rest.sum() + here * (rest @ loss[count:])
            grown = np.exp(np.multiply.outer(here, loss[kept]))
            moment[block] += grown @ weight[kept]
            if unknown:
                scored[block] = ratio[block, 1:] @ (powers[:, :count] @ scores[:count])
                scored[block] += scores[:count].sum() + grown @ scores[kept]
                continue
            grown, size = np.abs(grown), np.abs(here)
            off[block] += size**2 * squared[:count].sum() + size * by_loss[count:].sum()
            off[block] += 0.25 * size * (grown @ by_loss[kept])
            off[block] += grown @ rough[kept] + rough[count:].sum()
        log_one = log1p(moment)
        self._exponent += part.steps * log_one
        if unknown:
            change = log_one if unknown == "steps" else a * scored / (1 + moment)
            self._change = part.steps * change
        else:
            off = np.log1p(off * np.exp(-log_one.real)) + 4 * ULP * np.abs(log_one)
            self._off += part.steps * off + ULP * np.abs(self._exponent)

    def _quadrature(
        self, part: Run, path: tuple[float, float, float], last: float, h: float
    ) -> float:
        """Return a bound on the error of the trapezoid rule for the moments."""
        # the moduli on both sides of the strip of the path: of B^a, 1 and a (B - 1)
        depth, cell = _DEPTH * part.noise, _cell(part)
        sides = np.arange(-_END, last, cell) + depth * np.array([[1j], [-1j]])
        _, log_weight, loss, _ = _path(part, sides, *path)
        size = log_sum(_moduli(log_weight, loss, self._hull(np.array([0]), np.array([-1]))))
        most = float(np.exp(np.minimum(size, 700.0)).sum(axis=0).max())
        other = 1 + abs(1 + self._t[-1]) * np.abs(np.expm1(loss))
        most += float((np.exp(log_weight.real) * other).sum())
        return most * cell / _ROOT / math.expm1(2 * math.pi * depth / h) + 2e-20

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return an upper bound on log delta(epsilon), and its slope; set `error`, as `Line`."""
        missed = self._missed(epsilon)
        terms = np.exp(self._exponent - self._t * epsilon) * self._factor
        total = float(terms.imag.sum())
        off = self._off + 4 * ULP * (np.abs(self._t) * epsilon + np.abs(self._exponent)) + 32 * ULP
        lost = float(np.abs(terms) @ np.expm1(np.minimum(off, 300.0))) + missed
        slope = -float((terms * self._t).imag.sum()) / total
        self.error = 2 * lost / (total - lost) if total > lost else math.inf
        return min(math.log(max(total, 0.0) + lost), 0.0), slope

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """Return about log delta(epsilon), and its derivative in the log of the unknown."""
        terms = np.exp(self._exponent - self._t * epsilon) * self._factor
        total = float(terms.imag.sum())
        return math.log(total), float((terms * self._change).imag.sum()) / total


def _cell(part: Run) -> float:
    """Return a spacing of nodes for bounds."""
    return min(0.25, 0.5 * part.noise)


def _path(
    part: Run, x: Array | Complex, bend: Array | float, turn: Array | float, rise: Array | float
) -> tuple[Complex, Complex, Complex, Complex]:
    """Return the noise on a path, its log density times dz / dx, the loss l, q e^y / e^l."""
    shift, odds = 1 / part.noise, part.q / (1 - part.q)
    y = shift * x - 0.5 * shift * shift + 0j
    power = np.exp(np.minimum(y.real, 600.0) + 1j * y.imag) * odds
    share, above = power / (power + bend), power / (power + math.exp(1.5))
    angle = turn * share + rise * np.log(1 + power * math.exp(-1.5))
    z = x + 1j * angle / shift
    moved = np.log(1 + 1j * (turn * share * (1 - share) + rise * above))
    power = power * np.exp(1j * angle)
    high = np.abs(power) > 1
    inner = np.where(high, 1 / np.where(high, power, 1), power)
    loss = log1p(inner) + math.log1p(-part.q)
    loss += np.where(high, y + 1j * angle + math.log(odds), 0)
    return z, moved - 0.5 * z * z, loss, np.where(high, 1, inner) / (1 + inner)


def _moduli(log_weight: Complex, loss: Complex, t: Complex) -> Array:
    """Return the logs of |weight B^(1 + t)| at nodes, for some t; both may have rows."""
    real, imaginary = t.real[..., None], t.imag[..., None]
    loss, log_weight = loss[..., None, :], log_weight[..., None, :]
    return np.asarray((1 + real) * loss.real - imaginary * loss.imag + log_weight.real)
