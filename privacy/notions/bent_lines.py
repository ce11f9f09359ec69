"""Contour integrals of rare sampled Gaussian losses on a hyperbola: docs/theory/contour.md."""

import math

import numpy as np

from privacy.losses.characteristic import log1p
from privacy.losses.densities import log_sum
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import Array, Complex
from privacy.notions.loss_sums import Unresolved
from privacy.numerics.rounding import ULP

# logs of the accuracy relative to delta, of a negligible term, of the largest exp(K - t epsilon)
_DIGITS, _NOTHING, _LARGEST = 24.0, -55.0, 300.0
_ANGLE = math.pi / 12  # of the hyperbola at infinity, and of its strip
_LEFT = 0.15  # place of the strip's left side, relative to the right one
_LINE, _DEPTH = (1.6, 0.45), 1.2  # turn and rise of the path; depth of its strip times the noise
_END = 9.5  # the normal mass beyond it is 2e-21
_MOST_POINTS, _MOST_NODES = 200, 1500
_SERIES = np.array([1 / math.factorial(m) for m in range(2, 18)])
_ROOT = math.sqrt(2 * math.pi)


class BentLine:
    """The integrand of `count` losses on t(u) = A + R sin(angle + i u), if a record is removed.

    `right` is where the right side of the strip of u meets the real axis, near the saddle point;
    `about` is about log delta. Raises `Unresolved` if the line has no useful bound.
    """

    kink, limited = 0.0, False

    def __init__(
        self, model: SampledGaussian, count: int, right: float, epsilon: float, about: float
    ) -> None:
        self._model, self._count, goal = model, count, _DIGITS - about
        self._cell = min(0.25, 0.5 * model.noise_multiplier)  # spacing of nodes for bounds
        self._left = left = _LEFT * right
        self._scale = (right - left) / math.sin(2 * _ANGLE)
        self._step = 2 * math.pi * _ANGLE / (goal + max(-math.log(2 * left), 0.0))
        far = max((2 * math.cos(_ANGLE) * goal + 2) / max(epsilon, 1e-300), 2 * right)
        points = math.ceil(math.acosh((far - left) / (right - left)) / self._step)
        if points > _MOST_POINTS:
            raise Unresolved("too many points")
        u = self._step * np.arange(points + 1)
        self._t = t = self._at(_ANGLE, u)
        self._factor = self._step / math.pi * 1j * self._scale * np.cos(_ANGLE + 1j * u)
        self._factor /= t * (t + 1)
        self._factor[0] *= 0.5
        self._bound(right, (points + 0.5) * self._step)
        self._missed(epsilon)  # refuses a bad line before most of the work
        middle = (self._at(_ANGLE, 0.5 * u[-1]) - left) / math.cosh(0.5 * u[-1])
        hull = np.array([t[0], left + middle, t[-1]])  # a triangle that includes the line
        self._evaluate(hull, goal + math.log(count) - float(t[0].real) * epsilon)

    def _at(self, angle: float, u: Array | float) -> Complex:
        return np.asarray(self._left + self._scale * np.sin(angle + 1j * u))

    def _bound(self, right: float, last: float) -> None:
        """Bound the moments on the right side of the strip, and on the line through its end."""
        edges = np.linspace(0.0, last, math.ceil(last / 0.8) + 1)
        t, width = self._at(2 * _ANGLE, edges), float(edges[1])
        middle = self._at(2 * _ANGLE, edges[:-1] + 0.5 * width)
        corner = self._left + (middle - self._left) / math.cosh(0.5 * width)
        end = self._left + 1j * t[-1].imag
        points = np.vstack([np.transpose([t[:-1], t[1:], corner]), [end, t[-1], t[-1]]])
        near = np.append(middle, t[-1])[:, None]
        tilt = np.minimum(near.imag / (1.5 * near.real), 1.0)
        x = self._nodes(self._cell, 1.6 * (1 + right))
        log_weight, loss = self._path(x, 3 / np.abs(near), 1.2 * tilt, 0.7 * tilt)
        size = _moduli(log_weight, loss, points)
        if (size[..., -1] > size.max(axis=-1) + _NOTHING).any():
            raise Unresolved("the noise has too wide a range")
        self._sizes = self._count * (log_sum(size) + math.log(self._cell / _ROOT))
        self._places, arc = points.real, 2 * _ANGLE * self._scale * math.cosh(last)
        self._lengths = self._scale * width * np.cosh(edges[1:]) / np.abs(t[:-1]) ** 2
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
        missed = float(strip / math.expm1(kernel) + math.exp(end) * self._beyond)
        return missed / 3.1  # instead of pi: the sums of moduli have errors

    def _evaluate(self, hull: Complex, digits: float) -> None:
        """Compute the exponents on the line, from nodes on a path, and their error bounds."""
        a, q, depth = 1 + self._t, self._model.sampling_probability, _DEPTH / self._model.shift
        path, far, size = (0.5 / abs(self._t[-1]), *_LINE), 2 * a.real[0], np.abs(a)
        h = 2 * math.pi * depth / max(digits, _DIGITS)
        log_weight, loss = self._path(self._nodes(h, far), *path)
        live = _moduli(log_weight, loss, hull).max(axis=0) > _NOTHING
        if live[-1]:
            raise Unresolved("the noise has too wide a range")
        weight, distance = np.exp(log_weight) * (h / _ROOT), np.abs(loss)
        rough = ULP * np.abs(weight) * (32 + 0.5 * weight.size + 8 * np.abs(log_weight))
        by_loss, squared = rough * distance, rough * (distance + q) ** 2
        # E B^a - 1 = E psi(a l) - a psi(l), since E B = 1; a series where |a l| < 1
        half, one = a.size // 2, np.expm1(loss) - loss
        small = size[[half, -1], None] * distance < 1
        splits = np.logical_and.accumulate(small, axis=1).sum(axis=1)
        powers = np.multiply.accumulate(np.tile(loss[: splits[0]], (len(_SERIES) + 1, 1)))[1:]
        one[: splits[0]] = _SERIES @ powers
        moment, off = -a * (weight @ one), size * (rough @ np.abs(one) + 1e-20)
        for part, split in zip((slice(half), slice(half, None)), splits, strict=True):
            kept = live & (np.arange(live.size) >= split)
            here, some = a[part], size[part]
            ratio = np.vander(here, len(_SERIES) + 2, increasing=True)[:, 2:] * _SERIES
            grown = np.exp(np.multiply.outer(here, loss[kept]))
            moment[part] += ratio @ (powers[:, :split] @ weight[:split]) + grown @ weight[kept]
            moment[part] -= weight[split:].sum() + here * (weight[split:] @ loss[split:])
            grown = np.abs(grown)
            off[part] += some**2 * squared[:split].sum() + some * by_loss[split:].sum()
            off[part] += 0.5 * some * (grown @ by_loss[kept])
            off[part] += grown @ rough[kept] + rough[split:].sum()
        # the trapezoid rule: moduli of B^a, 1 and a (B - 1) on both sides of the strip of the path
        sides = self._nodes(self._cell, far) + depth * np.array([[1j], [-1j]])
        log_weight, loss = self._path(sides, *path)
        most = np.exp(np.minimum(log_sum(_moduli(log_weight, loss, hull)), 600.0)).sum(axis=0).max()
        most += (np.exp(log_weight.real) * (1 + size[-1] * np.abs(np.expm1(loss)))).sum()
        off += most * (self._cell / _ROOT) / math.expm1(2 * math.pi * depth / h) + 2e-20
        log_one = log1p(moment)
        self._exponent = self._count * log_one
        off = np.log1p(off * np.exp(-log_one.real)) + 4 * ULP * np.abs(log_one)
        self._off = self._count * off + ULP * np.abs(self._exponent)

    def _nodes(self, h: float, tilt: float) -> Array:
        last = _END + tilt * self._model.shift
        if last > h * _MOST_NODES:
            raise Unresolved("too many nodes")
        return np.arange(-_END, last, h)

    def _path(
        self, x: Array | Complex, bend: Array | float, turn: Array | float, rise: Array | float
    ) -> tuple[Complex, Complex]:
        """Return the log density of the noise on a path, times dz / dx, and the loss."""
        shift, q = self._model.shift, self._model.sampling_probability
        y = shift * x + (math.log(q / (1 - q)) - 0.5 * shift * shift + 0j)
        power = np.exp(y)
        share, above = power / (power + bend), power / (power + math.exp(1.5))
        angle = turn * share + rise * np.log(1 + power * math.exp(-1.5))
        z, y = x + 1j * angle / shift, y + 1j * angle
        moved = np.log(1 + 1j * (turn * share * (1 - share) + rise * above))
        high = y.real > 0
        loss = log1p(np.exp(np.where(high, -y, y))) + np.where(high, y, 0) + math.log1p(-q)
        return np.asarray(moved - 0.5 * z * z), loss

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return an upper bound on log delta(epsilon), and its slope; set `error`, as `Line`."""
        missed = self._missed(epsilon)  # refuses an epsilon for which the terms may overflow
        terms = np.exp(self._exponent - self._t * epsilon) * self._factor
        off = self._off + 4 * ULP * (np.abs(self._t) * epsilon + np.abs(self._exponent)) + 32 * ULP
        missed += float(np.abs(terms) @ np.expm1(np.minimum(off, 700.0)))
        if not (total := float(terms.imag.sum())) > missed:
            raise Unresolved("the line gives no useful bound here")
        self.error = 2 * missed / (total - missed)
        slope = -float((terms * self._t).imag.sum()) / total
        return min(math.log(total + missed), 0.0), slope


def _moduli(log_weight: Complex, loss: Complex, t: Complex) -> Array:
    """Return the logs of |weight B^(1 + t)| at nodes, for some t; both may have rows."""
    real, imaginary = t.real[..., None], t.imag[..., None]
    loss, log_weight = loss[..., None, :], log_weight[..., None, :]
    return np.asarray((1 + real) * loss.real - imaginary * loss.imag + log_weight.real)
