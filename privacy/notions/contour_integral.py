"""The privacy profile of a sum of losses, by one integral on a vertical line.

The integrand is F(t) = exp(K(t) - t epsilon) / (t (t + 1)) on Re t = c > 0, K = sum n_i K_i for
independent losses with log moments K_i (docs/theory/contour.md).
"""

import math
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from privacy.losses.characteristic import centered_characteristic, log1p
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import Array, Complex, dot
from privacy.notions.bent_lines import BentLine
from privacy.notions.loss_sums import NOTHING, LossSum, Unresolved
from privacy.numerics.rounding import ULP

if TYPE_CHECKING:
    from privacy.notions.both_lines import BothLines

_TARGET = 1e-11  # relative size of the alias terms and of the truncated tail
# relative errors above which a second, a third and a fourth line is tried
_FINE, _LOOSE, _ROUGH = 1e-9, 1e-8, 1e-5
_QUADRATURE = 4e-18  # error of the tilted mass
_MOST_NODES = 2**16
_LIMITED_WORK, _FEWEST_NODES = 2**24, 2**11  # used for a line that exceeds _MOST_WORK
_MOST_LINES = 12  # for one epsilon; the first one nearly always suffices
_MOST_FAILURES = 4  # of single epsilons, before the rest gets a simple bound
_MOST_WORK = 3 * 2**24  # frequencies times nodes: about a tenth of a second
# multiples of the saddle point at which K is computed
_BESIDE = np.concatenate(
    [[0.0, 0.1, 0.25], 1 - 2.0 ** -np.arange(1, 11), [1.0], 1 + 2.0 ** -np.arange(10.5, 0, -1)]
)
_DEPTHS = 2.0 ** np.arange(-4.0, 2.0)
_STRETCH = 1.25 ** np.arange(16)
# multiples of the other direction's saddle point
_OTHER, _FARTHEST = 1.2 ** np.array([0, 0.5, 1, 2, 4, 7]), 20.0
# noise multipliers, q times the saddle point and q times steps of a bent line, and its error
_BENDS, _RARE, _FEW, _BENT = (0.1, 1.3), 2e-3, 30, 4e-9
_MARGIN, _SMALL = 13.0, -29.0  # from the log of a bound at real t to about log delta; its least
_COARSE, _COARSE_PERIOD = 1e-6, 6.0  # `_TARGET` and alias period (in sigmas) of a coarse line


class Line:
    """The integrand on a line Re t = c, at nodes for epsilons near the given one.

    All sizes are relative to exp(K(c) - c epsilon). `saddle` is near the minimum of
    K(t) - t epsilon - log t - log(1 + t). `thrift` is the accepted increase of log(number of nodes)
    for a factor e of accuracy. A `coarse` line is at the given saddle point, and its bounds are
    larger by about 1e-6, relative to delta. `near` is about log delta, if known.
    """

    def __init__(
        self,
        total: LossSum,
        saddle: float,
        epsilon: float,
        thrift: float = 0.25,
        *,
        coarse: bool = False,
        near: float = -math.inf,
    ) -> None:
        value, _, variance = (total.fewer or total).cumulants(saddle)  # only to choose c
        width = math.sqrt(variance + saddle**-2 + (1 + saddle) ** -2)
        log_delta = value - saddle * epsilon - math.log(width * math.sqrt(2 * math.pi))
        log_delta -= math.log(saddle * (1 + saddle))
        if coarse:
            self._beside, self._log_bound = saddle * _BESIDE, np.full_like(_BESIDE, np.inf)
            self.c, period, self._target, most = saddle, _COARSE_PERIOD * width, _COARSE, 64
        else:
            self._bound_aliases(total, saddle)
            log_delta = min(log_delta, float((self._log_bound - self._beside * epsilon).min()))
            if -math.inf < near < log_delta - 1:  # the saddle point includes losses near 0
                log_delta = near
            self.c, period = self._place(epsilon, log_delta, saddle, thrift)
            self._target, most = _TARGET, _MOST_NODES
        self.step = 2 * math.pi / period
        self._alias_bound = self._log_bound - np.abs(self.c - self._beside) * period
        self._right = int(self._beside.searchsorted(self.c))
        self._each = total.each(self.c)
        value, _, variance = total.summed(self.c, self._each)
        self.log_size = log_delta - (value - self.c * epsilon)
        fewer, self.limited = most, False
        while fewer:
            reach, self._dummy = self._reach(total, variance, fewer)
            self.limited = fewer < most
            fewer = self._evaluate(total, math.ceil(reach / self.step) + 2)
        self._lost_up_to: dict[float, float] = {}
        self._kinked = self._dummy > 0 and not total.mu_squared

    def _bound_aliases(self, total: LossSum, saddle: float) -> None:
        """Bound delta(epsilon) by exp(K(t) - t epsilon) t^t / (1 + t)^(1 + t), and 1 at t = 0."""
        self._beside, self._log_bound = saddle * _BESIDE, np.zeros_like(_BESIDE)
        t = self._beside[1:]
        self._log_bound[1:], _ = _rough_excess(total.fewer or total, t, rough=True)

    def _place(
        self, epsilon: float, log_delta: float, saddle: float, thrift: float
    ) -> tuple[float, float]:
        """Return c and an alias period; c left of the saddle point costs digits but saves nodes."""
        t = self._beside
        excess = self._log_bound - t * epsilon - (log_delta + math.log(_TARGET))
        near = slice(*t.searchsorted([0.4 * saddle, saddle], "right"))
        place, digits = t[near], excess[near]
        apart = t - place[:, None]
        with np.errstate(divide="ignore"):
            needed = excess / np.abs(apart)
        left = np.where(apart < 0, needed, np.inf).min(axis=1)
        right = np.where(apart > 0, needed, np.inf).min(axis=1)
        period = np.maximum(left, right)
        k = int((np.log(period) + thrift * (digits - digits.min())).argmin())
        return float(place[k]), float(period[k])

    def _alias(self, epsilon: Array | float) -> Array:
        gap, level = self.c - self._beside, self._alias_bound - self.value
        size = np.multiply.outer(epsilon, gap) + level
        near = np.minimum.reduceat(size, [0, self._right], axis=-1)
        return np.asarray(np.exp(np.minimum(near, 50.0)).sum(axis=-1))

    def _reach(self, total: LossSum, variance: float, most: int) -> tuple[float, float]:
        """Return a frequency beyond which the integrand is negligible, and mu^2 of a dummy.

        The dummy Gaussian is composed if that needs more than `most` nodes.
        """
        log_target = math.log(self._target * math.pi) + self.log_size
        digits = max(-log_target - math.log(self.c), 10.0)
        first = math.sqrt(2 * digits / variance)
        last, stretch = most * self.step, _STRETCH[:4]
        while True:
            frequency = np.minimum(first * stretch, last)
            log_decay = total.decay(self.c, self._each, frequency, digits)
            missing = log_decay - log_target - np.log(frequency)
            if missing.min() <= 0 or frequency[-1] == last:
                break
            first, stretch = float(frequency[-1]), _STRETCH
        k = int((missing <= 0).argmax()) if missing.min() <= 0 else -1
        dummy = 2 * max(float(missing[k]), 0.0) / frequency[k] ** 2
        last = float(frequency[k])
        self.rest = math.exp(log_decay[k] - 0.5 * dummy * last**2) / (math.pi * last)
        return last, dummy

    def _evaluate(self, total: LossSum, count: int) -> int:
        """Compute the integrand at `count` frequencies, or return a smaller number to try."""
        c, self.frequency = self.c, self.step * np.arange(count)
        p, w = total.mu_squared + self._dummy, self.frequency
        exponent = -0.5 * p * w * w + 0j
        error = 4 * ULP * -exponent.real
        value, mean = 0.5 * p * c * (c + 1), 0.5 * p * (2 * c + 1)
        off, mean_off = 0.0, 4 * ULP * mean
        for stack, _ in self._each:
            known = total.nodes(stack, c)
            (one, one_off), (each_mean, each_off) = known.log_moment(np.array([c])), known.mean(c)
            at: Any = one if stack.nodes else float(one[0])
            nodes = stack.model.line_nodes(total.direction, c, float(w[-1]), at)
            size = int(nodes.loss.shape[-1])
            if count > max(_MOST_WORK // size, _FEWEST_NODES):
                # the count, rounded up, may be larger than this number by 3
                return max(_LIMITED_WORK // size, _FEWEST_NODES) - 3
            one_mean, missed = each_mean[..., None], np.asarray(nodes.quadrature)[..., None]
            loss = nodes.loss - one_mean
            log_one = log1p(centered_characteristic(nodes.weight, loss, self.step, count))
            exponent += stack.sum(log_one)
            # |psi(i w x)| is at most (w x)^2 / 2 and 2 w |x|
            rough, far = np.abs(nodes.weight) * nodes.rounding, np.abs(loss)
            first, second = (dot(rough, x)[..., None] for x in (far, far**2))
            psi_error = np.minimum(0.5 * second * w, 2 * first) * w
            lost = missed * (c + 1 + w) ** 2 + _QUADRATURE * (one_mean * w) ** 2
            lost += ULP * (psi_error + 8 * one_mean * w) + each_off[..., None] * w
            rounding = (1 + stack.size) * ULP
            with np.errstate(over="ignore"):
                growth = np.log1p(lost * np.exp(-log_one.real))
            error += stack.sum(growth + rounding * np.abs(log_one))
            error += ULP * np.abs(exponent)
            value += float(stack.sum(one)[0])
            mean += float(stack.sum(each_mean))
            mean_off += rounding * mean
            off += float(stack.sum(one_off + missed * (c + 1) ** 2)[0]) + rounding * value
        self.value, self.mean, self.value_error = value, mean, off + 4 * ULP * value
        t = c + 1j * w
        self._t = t
        # a modulus above 1 is a rounding error, which the error bound includes
        above = np.maximum(exponent.real, 0.0)
        exponent -= above
        weight = self.step / math.pi / (t * (t + 1))
        weight[0] *= 0.5
        self._terms, self._largest = np.exp(exponent) * weight, np.abs(weight)
        self._error = error + above + (mean_off + 4 * ULP * mean) * w
        return 0

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return an upper bound on log delta(epsilon), and its slope."""
        drift = self.mean - epsilon
        turned = self._terms * np.exp(1j * (drift * self.frequency))
        total = float(turned.real.sum())
        slope = -float((turned * self._t).real.sum()) / total
        phase = 4 * ULP * abs(epsilon) * self.frequency
        size = np.abs(turned)
        # factors with relative errors e: at most prod(1 + e) - 1; |exp(K(c + i w) - K(c))| <= 1
        off_by = size * np.expm1(np.minimum(self._error + phase + 32 * ULP, 700.0))
        lost = float(np.minimum(off_by, size + self._largest).sum()) + self.rest
        exponent = self.value - self.c * epsilon
        off = self.value_error + 4 * ULP * (self.value + self.c * epsilon + 1)
        alias = float(self._alias(epsilon))
        self.error, self.kink = math.inf, 0.0
        if total > lost:
            # a dummy of variance v adds v delta'' / 2 to delta; delta' / delta is the slope
            spread = self._dummy * max(self.c + 1, abs(slope)) ** 2
            smoothing = math.expm1(min(spread, 50.0))
            # at a kink (of atoms) it adds less than its standard deviation times the slope
            self.kink = math.sqrt(spread) if self._kinked else 0.0
            self.error = (2 * lost + alias) / total + smoothing + 2 * off
        return min(0.0, exponent + off + math.log(max(total, 0.0) + lost)), slope

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """Return upper bounds on log delta at several epsilons, and their relative error bounds.

        The integral is delta for every real epsilon; below 0 the bounds are only less accurate.
        """
        total, *slopes = self._sums(self.mean - epsilons)
        largest = max(float(np.abs(epsilons).max()), 1.0)
        lost, tilt = self._lost(2.0 ** math.ceil(math.log2(largest))), self.c * epsilons
        off = self.value_error + 4 * ULP * (self.value + np.abs(tilt) + 1)
        positive = np.maximum(total, 1e-300)
        error = (2 * lost + self._alias(epsilons)) / positive + 2 * off
        for slope in slopes:
            spread = self._dummy * np.clip(np.abs(slope / positive), self.c + 1, 1e100) ** 2
            error += np.expm1(np.minimum(spread, 50.0))
            error += np.sqrt(spread) if self._kinked else 0.0
        bound = self.value - tilt + off + np.log(np.maximum(total, 0.0) + lost)
        return np.minimum(bound, 0.0), np.where(total > lost, error, math.inf)

    def _lost(self, largest: float) -> float:
        """Return the error of `_sums` for epsilons up to `largest`."""
        if largest not in self._lost_up_to:
            size = np.abs(self._terms)
            phase = 4 * ULP * largest * self.frequency
            rounding = (64 + 2 * math.isqrt(size.size)) * ULP  # of the powers and of the sums
            off_by = size * np.expm1(np.minimum(self._error + phase + rounding, 700.0))
            lost = float(np.minimum(off_by, size + self._largest).sum()) + self.rest
            self._lost_up_to[largest] = lost
        return self._lost_up_to[largest]

    @cached_property
    def _table(self) -> tuple[Complex, Complex]:
        """The exponents of both tables of powers, one after the other; the terms as matrices."""
        count = self.frequency.size
        block = math.isqrt(count - 1) + 1
        rows = -(-count // block)
        each = [self._terms, self._terms * self._t] if self._dummy else [self._terms]
        terms = np.zeros((len(each), rows * block), dtype=complex)
        terms[:, :count] = each
        exponents = np.concatenate([np.arange(block), block * np.arange(rows)])
        return 1j * self.step * exponents, terms.reshape(-1, rows, block)

    def _sums(self, drift: Array) -> Array:
        """Return the real sums over k of T_k z^k, with z = exp(i drift step).

        With a dummy, also of t_k T_k z^k, for the slope. The nodes form a matrix, k = block * row +
        column, so that two tables of powers and a matrix product replace exponentials.
        """
        exponents, terms = self._table
        powers = np.exp(np.multiply.outer(drift, exponents))
        block = terms.shape[2]
        found: Array = (powers[:, block:] @ terms * powers[:, :block]).sum(axis=2).real
        return found


class Bound(NamedTuple):
    """An upper bound in one direction, its relative error bound, and its saddle point."""

    value: float
    error: float
    saddle: float


_NO_LOSS = Bound(0.0, 0.0, 1.0)


def log_delta(
    total: LossSum,
    epsilon: float,
    near: float = 1.0,
    least: float = -math.inf,
    about: float = -math.inf,
) -> Bound:
    """Return an upper bound on log delta(epsilon) in one direction; -inf if delta is 0.

    The search for the saddle point starts at `near`. A bound below `least`, that of the other
    direction, need not be tight. `about` is about the result, if that is known.
    """
    lost = total.lost
    if not lost:
        return _log_delta(total, epsilon, near, least, about)
    if lost >= 1:
        return Bound(0.0, 0.0, near)
    # part of the other direction's delta that is due to finite losses
    rest = (math.exp(least) - lost) / (1 - lost)
    found = _log_delta(total, epsilon, near, math.log(rest) if rest > 0 else -math.inf)
    # delta = lost + (1 - lost) * delta of the finite losses
    value = float(np.logaddexp(found.value + math.log1p(-lost), math.log(lost))) + 8 * ULP
    return Bound(min(0.0, value), found.error, found.saddle)


def _log_delta(
    total: LossSum, epsilon: float, near: float, least: float, about: float = -math.inf
) -> Bound:
    """Return the bound for the finite losses of the models."""
    if epsilon >= total.supremum:
        return Bound(-math.inf, 0.0, near)
    c, least = math.nan, max(least, NOTHING)
    if least > NOTHING and (value := _bound_near(total, near, epsilon, least)) <= least:
        return Bound(value, 0.0, near)
    try:
        c = total.saddle(epsilon, near)
        if least > NOTHING or total.cumulants(c)[0] - c * epsilon < least:
            value = _bound(total, c, epsilon)
            if value <= least:
                return Bound(value, 0.0, c)
        line, value, _ = _bent(total, c, epsilon, about) or _line(total, c, epsilon, about)
        if line.error < 1:
            return Bound(value, line.error + line.kink, c)
    except ArithmeticError:
        if math.isnan(c):
            return Bound(0.0, math.inf, near)
        value = 0.0
    return Bound(min(value, _rough_log_delta(total, epsilon, c)), math.inf, c)


class Lines:
    """The lines of one direction that several calls of `log_deltas` share."""

    def __init__(self) -> None:
        self.found: list[Line] = []
        self.failures = 0


def log_deltas(
    total: LossSum,
    epsilons: Array,
    lines: Lines,
    enough: Array | float = -math.inf,
    reverse: Lines | None = None,
) -> tuple[Array, Array]:
    """Return upper bounds on log delta at several epsilons in one direction, and their errors.

    `lines` has those of earlier calls; new ones are added. Bounds that are not above `enough`,
    those of the other direction, need not be tight. `reverse` has the lines of that direction, if
    no loss is infinite.
    """
    if not (lost := total.lost):
        least = _reversed(epsilons, enough, reverse) if reverse else np.zeros_like(epsilons)
        return _log_deltas(total, epsilons, lines, enough, least)
    # of the other direction, the part that is due to finite losses
    rest = (np.exp(enough) - lost) / max(1 - lost, ULP)
    least = np.log(rest, out=np.full(epsilons.shape, -math.inf), where=rest > 0)
    value, error = _log_deltas(total, epsilons, lines, least, np.zeros_like(epsilons))
    kept = math.log1p(-lost) if lost < 1 else -math.inf
    value = np.logaddexp(value + kept, math.log(lost)) + 8 * ULP
    return np.minimum(value, 0.0), error


def _reversed(epsilons: Array, other: Array | float, lines: Lines) -> Array:
    """Return upper bounds on log delta from a line of the other direction, with delta'.

    docs/theory/contour.md ("Two directions") has the formula. At epsilon = 0, both are the total
    variation distance, of which `other` has a bound.
    """
    if not lines.found:
        return np.zeros_like(epsilons)
    near = np.minimum(epsilons, 50.0)  # delta(50) also bounds delta above 50
    value = min(lines.found, key=lambda line: line.c).log_deltas(-near)[0]
    growth = np.exp(near)
    delta = growth * np.exp(value) - np.expm1(near) + 8 * ULP * growth * (1 - value)
    return np.where(epsilons > 0, np.log(np.minimum(delta, 1.0)), other)


def _log_deltas(
    total: LossSum, epsilons: Array, lines: Lines, enough: Array | float, value: Array
) -> tuple[Array, Array]:
    """Return the bounds for the finite losses of the models; `value` has rough ones."""
    error = np.full_like(epsilons, math.inf)
    beyond = epsilons >= total.supremum
    value[beyond], error[beyond] = -math.inf, 0.0

    found = lines.found
    known = len(found)
    for turn in range(known + _MOST_LINES):
        loose = np.flatnonzero((error > _LOOSE) & (value > enough))
        if not loose.size:
            return np.minimum(value, 0.0), np.where(value <= enough, 0.0, error)
        middle = loose[loose.size // 2]
        if turn >= known:
            asked = float(epsilons[middle])
            try:
                saddle = total.saddle(asked, found[-1].c if found else 1.0)
                found.append(_line(total, saddle, asked)[0])
            except ArithmeticError:
                break
        new, off = found[turn].log_deltas(epsilons[loose])
        before, least = error[loose], value[loose]
        better = (off < before) & (off < 1)
        value[loose] = np.where(better, new, np.minimum(least, new))
        error[loose] = np.where(better, off, before)
        if turn >= known and not error[middle] <= _LOOSE:  # for sums of atoms no line is better
            break
    for k in np.flatnonzero((error == math.inf) & (value > enough)):
        if lines.failures >= _MOST_FAILURES:
            with suppress(ArithmeticError):
                saddle = total.saddle(float(epsilons[k]), 1.0)
                rough = _rough_log_delta(total, float(epsilons[k]), saddle)
                value[k] = min(float(value[k]), rough)
            continue
        bound = _log_delta(total, float(epsilons[k]), 1.0, -math.inf)
        value[k], error[k] = min(float(value[k]), bound.value), bound.error
        lines.failures += bound.error == math.inf
    error[value <= enough] = 0.0
    return np.minimum(value, 0.0), error


def _line(
    total: LossSum, c: float, epsilon: float, near: float = -math.inf
) -> tuple[Line, float, float]:
    """Return a line for `epsilon`, with more nodes if needed, its bound on log delta and slope."""
    line = Line(total, c, epsilon, near=near)
    found = line, *line.log_delta(epsilon)
    for thrift, enough in ((0.25, _FINE), (2.0, _LOOSE), (4.0, _ROUGH)):
        if found[0].error < enough or line.limited:
            break
        # with a dummy, the nodes do not suffice for smaller aliases
        last, near = near, -math.inf if line._dummy or found[0].error >= 1 else found[1]
        if thrift < 1 and (last == near or abs(last - near) < 1):
            continue
        other = Line(total, c, epsilon, thrift=thrift, near=near)
        found = min(found, (other, *other.log_delta(epsilon)), key=lambda one: one[0].error)
    return found


def _bent(
    total: LossSum, c: float, epsilon: float, about: float
) -> tuple[BentLine, float, float] | None:
    """Return a bent line for rare equal sampled Gaussians if it is precise, its bound and slope."""
    model, count = total.parts[0] if len(total.parts) == 1 else (None, 0)
    if type(model) is not SampledGaussian or total.direction == "add" or total.mu_squared:
        return None  # a subclass has other losses
    near = about if about > -math.inf else total.cumulants(c)[0] - c * epsilon - _MARGIN
    q, noise = model.sampling_probability, model.noise_multiplier
    rare = q * c < _RARE and q * count < _FEW
    if rare and near > _SMALL and _BENDS[0] < noise < _BENDS[1]:
        with suppress(ArithmeticError), np.errstate(over="raise", invalid="raise"):
            line = BentLine(model, count, c, epsilon, near)
            found = line, *line.log_delta(epsilon)
            return found if line.error < _BENT else None
    return None


def _rough_log_delta(total: LossSum, epsilon: float, t: float) -> float:
    """Return a loose upper bound on log delta(epsilon) from a few real t > 0."""
    found = 0.0
    for near in t * _DEPTHS:
        with suppress(ArithmeticError):
            found = min(found, _bound(total, float(near), epsilon))
    return found


def _bound_near(total: LossSum, saddle: float, epsilon: float, enough: float) -> float:
    """Bound log delta from the other direction's saddle point or, if not `enough`, a rough line."""
    t = saddle * _OTHER
    try:
        while True:
            excess, error = _rough_excess(total.fewer or total, t, rough=True)
            bounds = excess - t * epsilon + error + 8 * ULP * t * epsilon
            if bounds.min() <= enough or not epsilon:  # at 0 both directions are equal
                return float(bounds.min())
            if bounds.argmin() < t.size - 1 or t[-1] > _FARTHEST * saddle:
                break
            t = t[-1] * _OTHER
        return Line(total, float(t[bounds.argmin()]), epsilon, coarse=True).log_delta(epsilon)[0]
    except ArithmeticError:
        return 0.0


def _bound(total: LossSum, t: float, epsilon: float) -> float:
    """Return an upper bound on log delta(epsilon) from one t > 0."""
    (excess,), (error,) = _rough_excess(total, np.array([t]))
    return float(excess - t * epsilon + error + 4 * ULP * t * epsilon)


def _rough_excess(total: LossSum, t: Array, *, rough: bool = False) -> tuple[Array, Array]:
    """Return the log of an upper bound on delta(epsilon) e^(t epsilon), and its error.

    The real-t bound: t^t / (1 + t)^(1 + t) is the maximum of (1 - exp(-x)) exp(-t x) (Canonne,
    Kamath and Steinke 2020, Proposition 12).
    """
    value, error = total.log_moment(t, rough=rough)
    peak = t * np.log(t)
    error += 8 * ULP * (value + np.abs(peak) + 1)
    return value + (peak - (1 + t) * np.log1p(t)), error


def epsilon(total: LossSum, log_delta: float, other: Bound = _NO_LOSS) -> Bound:
    """Return the least epsilon proven in one direction, or a larger proven one of `other`."""
    if not (lost := total.lost):
        return _epsilon(total, log_delta, other)
    if lost < 1:
        rest = math.nextafter(math.exp(log_delta - 4 * ULP * (1 - log_delta)) - lost, 0.0)
        if rest > 0:
            log_rest = math.log(rest) - math.log1p(-lost)
            log_rest -= 8 * ULP * (1 + abs(log_rest))
            return _epsilon(total, log_rest, other) if log_rest < 0 else _NO_LOSS
    return Bound(math.inf, math.inf, 1.0)


def _epsilon(total: LossSum, log_delta: float, other: Bound) -> Bound:
    """Return the bound for the finite losses of the models."""
    c, low, high, least = math.nan, 0.0, total.supremum, other.value
    proven = high
    if high <= least:
        return Bound(high, 0.0, 1.0)
    if 0 < least < math.inf and _bound_near(total, other.saddle, least, log_delta) <= log_delta:
        return Bound(least, 0.0, other.saddle)
    try:
        c, guess = total.saddle_of_delta(log_delta)
        vague = 0
        for turn in range(_MOST_LINES):
            if (bent := _bent(total, c, guess, log_delta)) or turn:
                line, value, slope = bent or _line(total, c, guess, log_delta)
            else:
                line = Line(total, c, guess, near=log_delta)
                value, slope = line.log_delta(guess)
            vague += line.error >= (1 if line.limited else math.inf)
            try:
                found = on_line(line, guess, log_delta)
                proven = min(proven, found)
                near = abs(found - guess) * c < 0.1 and abs(value - log_delta) < 1
                if line.error < _LOOSE or (turn and near):
                    return Bound(min(found, total.supremum), line.error + line.kink, c)
            except Unresolved:  # damped Newton step, since log delta need not be concave
                fall = -slope if slope < 0 and line.error < math.inf else c
                found = guess + min((value - log_delta) / fall, max(guess, 3 / c))
            low, high = (low, min(high, guess)) if value <= log_delta else (guess, high)
            if vague > 3:
                break
            guess = found if low < found < high else low + 0.25 * (min(high, 4 * guess) - low)
            c = total.saddle(guess, c)
    except ArithmeticError:
        pass
    rough = total.supremum if math.isnan(c) else _rough_epsilon(total, log_delta, c)
    return Bound(min(rough, high, proven), math.inf, c)


def _rough_epsilon(total: LossSum, log_delta: float, t: float) -> float:
    """Return the epsilon at which the bound of `_rough_log_delta` equals `log_delta`."""
    found = math.inf
    for near in t * _DEPTHS:
        with suppress(ArithmeticError):
            (excess,), (error,) = _rough_excess(total, np.array([near]))
            found = min(found, (excess + error - log_delta) / near * (1 + 4 * ULP))
    return max(float(found), 0.0)


def on_line(line: "Line | BothLines | BentLine", guess: float, log_delta: float) -> float:
    """Return an epsilon where the line's bound meets the target (Newton), or raise `Unresolved`."""
    low, high = -math.inf, math.inf
    for _ in range(30):
        value, slope = line.log_delta(guess)
        if line.error == math.inf or slope >= 0:
            raise Unresolved("the line gives no useful bound here")
        low, high = (guess, high) if value > log_delta else (low, guess)
        change = (log_delta - value) / slope
        guess = max(guess + change, 0.0)
        if abs(change) < 1e-7 * guess or high == 0:  # the next relative step is about 1e-14
            break
        if not low < guess < high:
            guess = (low + high) / 2
    else:
        raise Unresolved("no epsilon found on this line")
    nudge = 0.0
    while nudge < 1e-3:
        safe = guess * (1 + nudge)
        value, slope = line.log_delta(safe)
        if line.error == math.inf:
            break
        if value <= log_delta:
            return safe
        guess, nudge = max(safe + (log_delta - value) / slope, 0.0), max(4 * nudge, 4 * ULP)
    raise Unresolved("no epsilon meets the delta on this line")
