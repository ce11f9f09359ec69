"""Sums of equal sampled Gaussian losses: the contour integral in both directions at once.

The integrands and the errors are those of `contour_integral`. A few large arrays replace its many
small ones, and bounds in closed form replace its scans: docs/theory/contour.md, "Equal releases".
"""

import math

import numpy as np

from privacy.losses.characteristic import centered_characteristic, log1p
from privacy.losses.densities import complex_log_mixture, log_mixture
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import Array, psi
from privacy.notions.loss_sums import Unresolved
from privacy.numerics.rounding import ULP

_TARGET = 1e-11  # relative size of the alias terms and of the truncated tail
_QUADRATURE = 2e-19  # relative error of a moment: trapezoid rule, and mass beyond the nodes
_DIGITS = 45.0  # log of the accuracy of the trapezoid rule
_END = 9.5  # the normal mass beyond it is 2e-21
_FEW_NODES, _MOST_NODES, _MOST_PRODUCTS = 100, 500, 2**15
_THRIFT = 0.25  # accepted increase of log(period) for a factor e of accuracy
# multiples of the saddle point at which K is computed; c is one of those from 0.55 to 1
_BESIDE = np.array([0.1, 0.25, 0.4, 0.55, 0.63, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.45, 1.7])
_SADDLE, _PLACES = 8, slice(4, 10)  # places of 1, and of c after t = 0
_STRIP = np.array([0.12, 0.25, 0.45, 0.7, 1.0])  # fractions of the strip of analyticity
_DEPTHS = np.array([0.5, 1.0, 2.0])
_STRETCH = 1.3 ** np.arange(8)


class BothLines:
    """The integrands on Re t = c of `count` equal releases, in both directions (the rows).

    With e^L = 1 - q + q exp(z / s - 1 / (2 s^2)) and the standard normal z, E_P exp(t loss) is the
    mean of e^(a L), a = t + 1 if a record is removed and a = -t if one is added. The second row is
    omitted if a bound at real t suffices. Raises `Unresolved` if the general method is needed, as
    for rare samples; the rounding errors grow with `count`.
    """

    def __init__(self, model: SampledGaussian, count: int, saddle: float, epsilon: float) -> None:
        self._model, self._count, self.epsilon = model, count, epsilon
        bend = (epsilon + 1 / saddle + 1 / (1 + saddle)) / (saddle + 0.5)
        last = min(20 / math.sqrt(bend), 8 / model.shift)
        self._set_grid(1.7 * saddle, last, 2)
        self._place(saddle * _BESIDE)
        needed = self._reach()
        if needed > last or self._loss.size > _FEW_NODES:
            self._set_grid(self.c, needed, len(self._orders))
        self._evaluate()

    def _set_grid(self, most: float, last: float, rows: int) -> None:
        """Compute the losses on nodes that serve t <= `most` and frequencies up to `last`."""
        shift, q = self._model.shift, self._model.sampling_probability
        low = -_END - (most * self._model.pull(0.0) if rows == 2 else 0.0)
        high = self._model.extent("remove", most)[1] + 0.5
        depth = min(0.95 * math.pi / shift, _END) * _STRIP
        room = _DIGITS + 0.5 * depth * depth + last * shift * depth
        if rows == 2:
            room -= most * np.log(np.cos(0.5 * shift * depth))
        h = float((2 * math.pi * depth / room).max())
        size = math.ceil((high - low) / h) + 1
        above = math.log(q) + shift * (high - 0.5 * shift)
        # the loss is at most log(1 + e^above)
        above = max(above, 0.0) + math.log1p(math.exp(-abs(above)))
        largest = max(above, -math.log1p(-q))
        narrow, large = most * shift * shift > 80, (most + 1) * largest > 600
        if size > _MOST_NODES or narrow or large:
            raise Unresolved("too many nodes")
        z = low + h * np.arange(size)
        self._y, self._squared = shift * (z - 0.5 * shift), z * z
        self._loss = log_mixture(self._y, q)
        self._normal = np.exp(-0.5 * self._squared) * (h / math.sqrt(2 * math.pi))

    def _place(self, beside: Array) -> None:
        """Choose c and the alias period, as `contour_integral.Line`, and the directions."""
        orders = np.array([1 + beside, -beside])
        value = self._count * np.log(np.exp(orders[..., None] * self._loss) @ self._normal)
        near, saddle = value[0, _SADDLE - 1 : _SADDLE + 2], float(beside[_SADDLE])
        bend = max(float(np.diff(near, 2)[0]), 0.0) / (beside[_SADDLE + 1] - saddle) ** 2
        bend += saddle**-2 + (1 + saddle) ** -2
        about = near[1] - saddle * self.epsilon - 0.5 * math.log(2 * math.pi * bend)
        about -= math.log(saddle * (1 + saddle))
        value += beside * np.log(beside) - (1 + beside) * np.log1p(beside)
        # t = 0, where delta <= 1, is the first
        bound = np.concatenate([np.zeros((2, 1)), value - beside * self.epsilon], axis=1)
        beside = np.concatenate([[0.0], beside])
        best = int(bound[1].argmin())
        other = float(bound[1, best])
        self._about = min(float(about), float(bound[0].min()))
        rows = 1 if other < self._about - 0.01 else 2
        # a bound at real t is rounded by 1e-13 for each release
        self._other = float(beside[best]), other + 1e-13 * (self._count + 1000)
        excess = bound[:rows] - (self._about + math.log(_TARGET))
        apart = beside - beside[_PLACES, None]
        with np.errstate(divide="ignore"):
            needed = excess[:, None] / np.abs(apart)
        left = np.where(apart < 0, needed, np.inf).min(axis=-1)
        period = np.maximum(left, np.where(apart > 0, needed, np.inf).min(axis=-1))
        k = int((np.log(period) + _THRIFT * excess[:, _PLACES]).max(axis=0).argmin())
        self.c, self._step = float(beside[_PLACES][k]), 2 * math.pi / period[:, k, None]
        self._orders, self._most = np.array([[1 + self.c], [-self.c]])[:rows], float(beside[-1])

    def _reach(self) -> float:
        """Return the last frequency, and set a bound on the integral beyond it."""
        c, count, normal, orders = self.c, self._count, self._normal, self._orders
        weight = normal * np.exp(orders * self._loss)
        total = weight.sum(axis=1)
        mean = weight @ self._loss / total
        variance = np.maximum(weight @ (self._loss * self._loss) / total - mean * mean, 1e-300)
        log_moment = np.log(total)
        self._alias = self._about - (count * log_moment - c * self.epsilon)
        target = math.log(_TARGET * math.pi) + self._alias
        digits = np.maximum(-target - math.log(c), 10.0)
        frequency = np.multiply.outer(np.sqrt(2 * digits / (count * variance)), _STRETCH)
        depth = math.sqrt(2 * float(digits.max()) / count) * _DEPTHS
        depth = np.minimum(depth, 0.6 * math.pi / self._model.shift)[:, None]
        turn = self._model.shift * depth
        line = complex_log_mixture(self._y, turn, self._model.sampling_probability)
        turned = np.multiply.outer(frequency, -line.imag)
        turned += (orders[..., None] * line.real + 0.5 * depth * depth)[:, None]
        decay = np.log(np.maximum((np.exp(turned, out=turned) @ normal).min(axis=-1), 1e-300))
        decay = count * np.minimum(decay - (log_moment - 1e-12)[:, None], 0.0)
        enough = decay <= target[:, None] + np.log(frequency)
        k = np.arange(len(orders)), enough.argmax(axis=1)
        self._rest = np.exp(decay[k]) / (math.pi * frequency[k])
        self._frequencies = math.ceil(float((frequency[k] / self._step[:, 0]).max())) + 2
        if not enough[k].all() or self._frequencies * normal.size > _MOST_PRODUCTS:
            raise Unresolved("too many frequencies")
        return float(self._frequencies * self._step.max())

    def _evaluate(self) -> None:
        """Compute the integrands; the error bounds hold for epsilons up to twice the given one."""
        c, count, loss, normal, orders = self.c, self._count, self._loss, self._normal, self._orders
        power = orders * loss
        # E e^(a L) - 1 = E psi(a L) - a psi(L), since E e^L = 1
        *parts, one = normal * psi(np.concatenate([power, loss[None]]))
        excess = (parts - orders * one).sum(axis=1)
        rounding = ULP * (32 + 8 * np.abs(power) + 2 * self._squared)
        off = ((parts + np.abs(orders) * one) * rounding).sum(axis=1) / (1 + excess)
        self.value = count * np.log1p(excess)
        self.value_error = count * (off + _QUADRATURE * (2 + c)) + 8 * ULP * self.value
        weight = normal * np.exp(power)
        weight /= weight.sum(axis=1, keepdims=True)
        losses = np.sign(orders) * loss
        mean = (weight * losses).sum(axis=1, keepdims=True)
        x = losses - mean
        far = weight * np.abs(x)
        variance = (far * np.abs(x)).sum(axis=1, keepdims=True)
        rounding += (weight * rounding).sum(axis=1, keepdims=True) + 32 * ULP
        first = (far * rounding).sum(axis=1, keepdims=True) + 32 * ULP * np.abs(mean)
        self._w = w = self._step * np.arange(self._frequencies)
        log_one = log1p(centered_characteristic(weight, x * self._step, 1.0, w.shape[1]))
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
        self._lost = off.sum(axis=1) + self._rest

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return an upper bound on log delta(epsilon), and its slope; set `error`, as `Line`."""
        turned = self._terms * np.exp(1j * (self._drift - epsilon) * self._w)
        total = turned.real.sum(axis=1)
        level = self.value - self.c * epsilon
        off = self.value_error + 4 * ULP * (self.value + self.c * epsilon + 1)
        found = level + off + np.log(np.maximum(total, 0.0) + self._lost)
        row = int(found.argmax())
        slope = -float((turned[row] * self._t[row]).real.sum()) / float(total[row])
        value, moved = float(found[row]), epsilon - self.epsilon
        if len(found) == 1:
            value = max(value, self._other[1] - self._other[0] * moved)
        # at another epsilon, two alias terms change by at most exp(|t - c| moved)
        alias = 2 * _TARGET * np.exp(self._alias + min(self._most * abs(moved), 50.0))
        below = level - off + np.log(np.maximum(total - self._lost - alias, 1e-300))
        known = moved <= self.epsilon + 1 and total[row] > self._lost[row]
        self.error = math.expm1(min(value - float(below.max()), 50.0)) if known else math.inf
        return min(value, 0.0), slope
