"""Sums of equal sampled Gaussian losses: the contour integral in both directions at once.

A few large arrays replace the many small ones of `contour_integral`, and bounds in closed form its
scans: docs/theory/contour.md, "Equal releases", with L = log B.
"""

import math

import numpy as np

from privacy.losses.characteristic import log1p
from privacy.losses.densities import log_mixture, refuse_beyond
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import Array, Complex
from privacy.notions.loss_sums import Saddles, Unresolved
from privacy.numerics.rounding import ULP

_TARGET = 1e-11  # relative size of the alias terms and of the truncated tail
_QUADRATURE = 2e-19  # relative error of a moment: trapezoid rule, and mass beyond the nodes
_DIGITS = 45.0  # log of the accuracy of the trapezoid rule
_END = 9.5  # the normal mass beyond it is 2e-21
_FEW_NODES, _MOST_NODES, _MOST_PRODUCTS = 150, 500, 2**15
_FEWEST = 2.5  # mean^2 / variance of the tilted loss, about the number of its large parts
_THRIFT = 0.25  # accepted increase of log(period) for a factor e of accuracy
_LAST = 13.0  # the last frequency, mostly, in inverse standard deviations
# multiples of the saddle point at which K is computed; c is one of those from 0.55 to 1
_BESIDE = np.array([1e-300, 0.1, 0.25, 0.4, 0.55, 0.63, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.45, 1.7])
_SADDLE, _PLACES = 9, slice(4, 10)
_APART = np.array([-1.0, 1.0])[:, None, None, None] * (_BESIDE - _BESIDE[_PLACES, None])
_NEARNESS = np.divide(1, _APART, out=np.full(_APART.shape, np.inf), where=_APART > 0)
_STRIP = (0.12, 0.25, 0.45, 0.7, 1.0)  # fractions of the strip of analyticity
_DEPTHS = np.array([0.5, 1.0, 2.0])
_STRETCH = 1.3 ** np.arange(8)


class BothLines(Saddles):
    """The integrands on Re t = c of `count` equal releases, in both directions (the rows).

    The second row is omitted if a bound at real t suffices. Raises ArithmeticError if the general
    method is needed, as for rare samples; the rounding errors grow with `count`.
    """

    def __init__(self, model: SampledGaussian, count: int) -> None:
        self._model, self._count, self._most = model, count, 0.0

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Return nearly K, K' and K'' at t > 0 if a record is removed."""
        if not t < self._most:
            self._set_grid(1.7 * t, 0.0, 1)
        growth = np.exp((1 + t) * self._loss)
        growth *= self._normal
        total, mean, square = (self._powers @ growth).tolist()
        mean, n = mean / total, self._count
        return n * math.log(total), n * mean, n * (square / total - mean * mean)

    def integrate(self, saddle: float, epsilon: float) -> None:
        """Compute the integrands for epsilons near the given one."""
        self.epsilon = epsilon
        last = _LAST * math.sqrt((saddle + 0.5) / (epsilon + 1 / saddle + 1 / (1 + saddle)))
        self._set_grid(1.7 * saddle, last, 2)
        self._place(saddle)
        needed = self._reach()
        if needed > last or (self._loss.size > _FEW_NODES and len(self._orders) == 1):
            self._set_grid(self.c, needed, len(self._orders))
        self._evaluate()

    def _set_grid(self, most: float, last: float, rows: int) -> None:
        """Compute the losses on nodes that serve t <= `most` and frequencies up to `last`."""
        shift, q = self._model.shift, self._model.sampling_probability
        added = most if rows == 2 else 0.0
        low = -_END - added * self._model.pull(0.0)
        high = self._model.extent("remove", most)[1] + 0.5
        h, strip = 0.0, min(0.95 * math.pi / shift, _END)
        for depth in (strip * part for part in _STRIP):
            room = _DIGITS + 0.5 * depth * depth + last * shift * depth
            room -= added * math.log(math.cos(0.5 * shift * depth))
            h = max(h, 2 * math.pi * depth / room)
        above = math.log(q) + shift * (high - 0.5 * shift)
        # the loss is at most log(1 + e^above)
        above = max(above, 0.0) + math.log1p(math.exp(-abs(above)))
        large = (most + 1) * max(above, -math.log1p(-q)) > 600 or most * shift * shift > 80
        size = math.ceil((high - low) / h) + 1
        refuse_beyond(_MOST_NODES, math.inf if large else size)
        z = low + h * np.arange(size)
        self._y, self._squared = shift * (z - 0.5 * shift), z * z
        self._loss = loss = np.log1p(q * np.expm1(self._y)) if q <= 0.5 else log_mixture(self._y, q)
        self._powers = np.array([np.ones(size), loss, loss * loss])
        self._normal = np.exp(-0.5 * self._squared) * (h / math.sqrt(2 * math.pi))
        self._most = most

    def _place(self, saddle: float) -> None:
        """Choose c and the alias period, as `contour_integral.Line`, and the directions."""
        t = saddle * _BESIDE
        orders = np.array([1 + t, -t])
        value = self._count * np.log(np.exp(np.multiply.outer(orders, self._loss)) @ self._normal)
        left, here, right = value[0, _SADDLE - 1 : _SADDLE + 2].tolist()
        bend = max(left - 2 * here + right, 0.0) / (0.1 * saddle) ** 2
        bend += saddle**-2 + (1 + saddle) ** -2
        about = here - saddle * self.epsilon - 0.5 * math.log(2 * math.pi * bend)
        about -= math.log(saddle * (1 + saddle))
        mean = (right - left) / (0.2 * saddle)
        if mean**2 < min(_FEWEST, -0.3 * about) * bend:  # the integrand decays slowly
            raise Unresolved("too many frequencies")
        bound = value + (t * np.log(t) - (1 + t) * np.log1p(t) - t * self.epsilon)
        bound[:, 0] = 0.0  # delta <= 1
        best = int(bound[1].argmin())
        other = float(bound[1, best])
        self._about = min(about, float(bound[0].min()))
        rows = 1 if other < self._about - 0.01 else 2
        # a bound at real t is rounded by 1e-13 for each release
        self._other = float(t[best]), other + 1e-13 * (self._count + 1000)
        excess = bound[:rows] - (self._about + math.log(_TARGET))
        # the larger of the periods that aliases to the left and to the right need, times the saddle
        period = (excess[:, None] * _NEARNESS).min(axis=-1).max(axis=0)
        k = int((np.log(period) + _THRIFT * excess[:, _PLACES]).max(axis=0).argmin())
        self.c, self._step = float(t[_PLACES][k]), 2 * math.pi * saddle / period[:, k, None]
        self._orders, self._farthest = np.array([[1 + self.c], [-self.c]])[:rows], float(t[-1])

    def _reach(self) -> float:
        """Return the last frequency, and set a bound on the integral beyond it."""
        c, count, orders, shift = self.c, self._count, self._orders, self._model.shift
        total, mean, square = self._powers @ (self._normal * np.exp(orders * self._loss)).T
        mean /= total
        variance = np.maximum(square / total - mean * mean, 1e-300)
        log_moment = np.log(total)
        self._alias = self._about - (count * log_moment - c * self.epsilon)
        target = math.log(_TARGET * math.pi) + self._alias
        digits = np.maximum(-target - math.log(c), 10.0)
        frequency = np.multiply.outer(np.sqrt(2 * digits / (count * variance)), _STRETCH)
        depth = math.sqrt(2 * float(digits.max()) / count) * _DEPTHS
        depth = np.minimum(depth, 0.6 * math.pi / shift)[:, None]
        q, turn = self._model.sampling_probability, shift * depth
        ratio = 1 - q + np.exp(1j * turn) * (q * np.exp(self._y))
        exponent = np.multiply.outer(-frequency, np.angle(ratio))
        exponent += (orders[..., None] * np.log(np.abs(ratio)) + 0.5 * depth * depth)[:, None]
        decay = np.exp(exponent, out=exponent) @ self._normal
        decay = np.log(np.maximum(decay.min(axis=-1), 1e-300))
        decay = count * np.minimum(decay - (log_moment - 1e-12)[:, None], 0.0)
        enough = decay <= target[:, None] + np.log(frequency)
        k = np.arange(len(orders)), enough.argmax(axis=1)
        self._rest = np.exp(decay[k]) / (math.pi * frequency[k])
        self._frequencies = math.ceil((frequency[k] / self._step[:, 0]).max()) + 2
        if not enough[k].all() or self._frequencies * self._loss.size > _MOST_PRODUCTS:
            raise Unresolved("too many frequencies")
        return float(self._frequencies * self._step.max())

    def _evaluate(self) -> None:
        """Compute the integrands; the error bounds hold for epsilons up to twice the given one."""
        c, count, loss, normal, orders = self.c, self._count, self._loss, self._normal, self._orders
        power = orders * loss
        size, some = np.abs(power), np.abs(orders)
        # E e^(a L) - 1 = E psi(a L) - a psi(L), since E e^L = 1; psi(y) = e^y - 1 - y
        one = np.expm1(loss) - loss
        many = np.expm1(power) - power
        excess = (many - orders * one) @ normal
        rounding = ULP * (32 + 8 * size + 2 * self._squared)
        off = ((many + some * one) * rounding + 8 * ULP * size) @ normal / (1 + excess)
        value = count * np.log1p(excess)
        error = count * (off + _QUADRATURE * (2 + c)) + 8 * ULP * value
        self._levels = list(zip(value.tolist(), error.tolist(), self._alias.tolist(), strict=True))
        weight = normal * np.exp(power)
        weight /= weight.sum(axis=1, keepdims=True)
        losses = np.sign(orders) * loss
        mean = (weight * losses).sum(axis=1, keepdims=True)
        x = losses - mean
        far = np.abs(x)
        each = weight * far
        variance = (each * far).sum(axis=1, keepdims=True)
        # those of the weights, of their sum, and of the characteristic function
        rounding += (weight * rounding).sum(axis=1, keepdims=True) + 40 * ULP
        first = (each * rounding).sum(axis=1, keepdims=True) + 32 * ULP * np.abs(mean)
        self._w = w = self._step * np.arange(self._frequencies)
        log_one = log1p(_characteristic(weight, x * self._step, self._frequencies))
        above = np.maximum(log_one.real, 0.0)
        log_one.real -= above
        self._t = t = c + 1j * w
        factor = self._step / math.pi / (t * (t + 1))
        factor[:, 0] *= 0.5
        self._terms, self._drift = np.exp(count * log_one) * factor, count * mean
        lost = (first + 8 * ULP * variance * w) * w + 2 * _QUADRATURE
        error = count * (lost * np.exp(-log_one.real) + above + 4 * ULP * np.abs(log_one))
        error += 4 * ULP * (np.abs(self._drift) + 2 * self.epsilon + 1) * w + 32 * ULP
        size = np.abs(self._terms)
        off = np.minimum(size * np.expm1(np.minimum(error, 700.0)), size + np.abs(factor))
        self._lost = (off.sum(axis=1) + self._rest).tolist()

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return an upper bound on log delta(epsilon), and its slope; set `error`, as `Line`."""
        turned = self._terms * np.exp(1j * (self._drift - epsilon) * self._w)
        totals, moved = turned.sum(axis=1).real.tolist(), epsilon - self.epsilon
        # at another epsilon, two alias terms change by at most exp(|t - c| moved)
        tilt, change = self.c * epsilon, min(self._farthest * abs(moved), 50.0)
        bounds, below = [], -math.inf
        for total, lost, (value, off, alias) in zip(totals, self._lost, self._levels, strict=True):
            off += 4 * ULP * (value + tilt + 1)
            bounds.append(value - tilt + off + math.log(max(total, 0.0) + lost))
            least = total - lost - 2 * _TARGET * math.exp(alias + change)
            below = max(below, value - tilt - off + math.log(max(least, 1e-300)))
        value = max(bounds)
        row = bounds.index(value)
        slope = -float((turned[row] @ self._t[row]).real) / totals[row]
        if len(bounds) == 1:
            value = max(value, self._other[1] - self._other[0] * moved)
        known = moved <= self.epsilon + 1 and totals[row] > self._lost[row]
        self.error = math.expm1(min(value - below, 50.0)) if known else math.inf
        return min(value, 0.0), slope


def _characteristic(weight: Array, x: Array, count: int) -> Complex:
    """Return E exp(i k x) - 1 for k < count and E x = 0, with an error of 8 ulp of k E |x|.

    As `centered_characteristic`, but the difference of sines and angles needs no more digits.
    """
    size = math.isqrt(count - 1) + 1
    angle = np.multiply.outer([1, size], np.arange(size))[:, None, :, None] * x[:, None]
    half, sine = np.sin(0.5 * angle), np.sin(angle)
    growth, psi = np.empty(angle.shape, dtype=complex), np.empty(angle.shape[:-1], dtype=complex)
    growth.real, growth.imag = -2 * half * half, sine
    psi.real = np.einsum("krjn,rn->krj", growth.real, weight)
    psi.imag = np.einsum("krjn,rn->krj", sine - angle, weight)
    total: Complex = (growth[1] * weight[:, None]) @ growth[0].swapaxes(1, 2)
    total += psi[1, :, :, None] + psi[0, :, None]
    return total.reshape(len(x), -1)[:, :count]
