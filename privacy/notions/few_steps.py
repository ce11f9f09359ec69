"""Sums on a lattice: docs/theory/contour.md ("Rare samples") defines a, b, d (here t), levels."""

import math
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.fft import irfft, rfft
from scipy.special import log_ndtr

from privacy.losses.mixtures import AgainstNormal
from privacy.losses.quadrature import Array, Complex, Direction
from privacy.notions.loss_sums import LossSum
from privacy.numerics.rounding import ULP
from privacy.numerics.solve import safe_root

_T = TypeVar("_T")

_GOAL = 3e-8  # relative error of epsilon; that of delta is near releases (step tilt)^2 / 12
_DIGITS = 23.0  # log of the ratio to delta below which a mass is negligible
_MOST_CELLS = 2**18
_MOST_CENTERS, _MOST_RELEASES = 64, 2**12
_SMALLEST = 1e-270  # products of smaller masses underflow
_ROUNDING = 1e-9  # relative error of the masses and of their sum
_LARGEST = 40.0  # noise beyond which masses underflow
# multiples of epsilon, or of its reciprocal
_SHARES, _ORDERS = 2.0 ** np.arange(0.0, -12.0, -0.5), 2.0 ** np.arange(0.0, 10.0, 0.5)
_TILTS = 2.0 ** np.arange(-7.0, 12.0, 0.25)
_LEVELS = 2.0 ** np.arange(1.0, 24.0, 2.0)
_ROUNDS = 4


def supports(total: LossSum) -> bool:
    """Return whether the sum has losses of normal noise with few centers, and not very many."""
    few = sum(count for _, count in total.parts) <= _MOST_RELEASES and not total.mu_squared
    return few and all(
        isinstance(model, AgainstNormal) and model.centers()[0].size <= _MOST_CENTERS
        for model, _ in total.parts
    )


def log_delta(total: LossSum, epsilon: float, near: float) -> float:
    """Return an upper bound on log delta(epsilon), 0 if none is found; `near` is an estimate.

    A lattice omits what is negligible for its estimate; a much smaller bound is the next estimate.
    """
    least = 0.0
    for _ in range(2 * _ROUNDS):
        found = 1.5 * near
        with suppress(ArithmeticError):
            found = Lattice(total, epsilon, near).log_delta(epsilon)
            least = min(least, found)
        if found > near - 0.5 * _DIGITS or found == 0:
            break
        near = found
    wide = 8 * epsilon
    if least == 0.0 and 0.0 < wide < math.exp(near):  # epsilon is too small for a lattice
        # delta falls by at most the increase of e^epsilon
        fall = math.log(math.expm1(wide))
        least = min(0.0, float(np.logaddexp(log_delta(total, wide, near), fall)))
    return least


def least_epsilon(near: Callable[[float], Any], log_delta: float, most: float) -> float:
    """Return an epsilon <= `most` that is proven to have this delta, or `most`.

    `near` returns bounds on log delta above their `bottom`, which are tight near an epsilon, or
    raises ArithmeticError.
    """
    at, low, high = most, 0.0, most
    for _ in range(3 * _ROUNDS):
        try:
            bounds = near(at)
        except ArithmeticError:  # often because no loss exceeds epsilon here
            at, high = math.sqrt(low * at) if low else 0.6 * at, at
            continue

        def excess(epsilon: float, on: Any = bounds) -> float:
            return float(on.log_delta(epsilon)) - log_delta

        bottom = max(bounds.bottom, 0.51 * at)
        at_top, at_bottom = excess(at), excess(bottom)
        if at_top > 0:
            if high < 1.05 * at:
                break
            at, low = math.sqrt(at * high), at
            continue
        most, last = bottom, at
        if at_bottom > 0:
            most = safe_root(excess, last, bottom, at_safe=at_top, at_unsafe=at_bottom, rtol=1e-10)
            if most > 0.99 * last:
                break
        at = high = most
    return most


class _Part(NamedTuple):
    """Masses under P at the losses of one of several equal releases.

    `rare`: those of cells above a threshold; `beyond`: of larger ones; `off`: error of losses.
    """

    mass: Array
    rare: Array
    loss: Array
    times: int
    beyond: float = 0.0
    off: float = 0.0


def _log_moment(
    mass: Array, loss: Array, t: float, low: float = -math.inf, high: float = math.inf
) -> float:
    """Return the log of the moment of the losses in (low, high]."""
    kept = (loss > low) & (loss <= high) & (mass > 0)
    if not kept.any():
        return -math.inf
    size = t * loss[kept] + np.log(mass[kept])
    return float(size.max() + math.log(np.exp(size - size.max()).sum()))


def _bulk(parts: list[_Part], t: float, threshold: float) -> float:
    """Return the log of a bound on delta(epsilon) e^(t epsilon) of losses up to a threshold.

    Canonne, Kamath and Steinke 2020, Proposition 12.
    """
    each = (p.times * _log_moment(p.mass, p.loss, t, high=threshold) for p in parts)
    return math.fsum(each) + t * math.log(t) - (1 + t) * math.log1p(t)


class Lattice:
    """The sum of the losses, for epsilons near the given one with a log delta near the given one.

    The levels are added. `bottom` is the smallest epsilon with a bound.
    """

    def __init__(self, total: LossSum, epsilon: float, log_delta: float) -> None:
        if not 0 < epsilon < total.supremum:
            raise ArithmeticError("no loss, or every loss, is above epsilon")
        goal = log_delta - _DIGITS
        rare = goal - math.log(sum(count for _, count in total.parts))
        coarse = [_coarse(model, total.direction, n, rare) for model, n in total.parts]  # type: ignore[arg-type]
        if not all(part.mass.any() for part in coarse):
            raise ArithmeticError("no loss of a release has a probability above 0")
        top = [float(part.loss[part.mass > 0].max()) for part in coarse]
        first, self._order = _threshold(coarse, epsilon, goal)
        if first >= max(top):
            raise ArithmeticError("no loss is above the threshold")
        higher = [float(e) for e in epsilon * _LEVELS if -math.inf < first and 1.3 * e < max(top)]
        self._levels = [
            _Level(total, coarse, epsilon, goal, low, high)
            for low, high in pairwise([first, *higher, math.inf])
        ]
        self.bottom = 0.5 * epsilon
        self._lost = sum(level.lost for level in self._levels)
        self._lost += sum(n * model.lost(total.direction) for model, n in total.parts)
        parts = [part._replace(mass=part.mass - part.rare) for part in self._levels[0].parts]
        self._bulk = _bulk(parts, self._order, math.inf)

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound on log delta(epsilon)."""
        if not epsilon > self.bottom:
            return 0.0
        delta = sum(level.delta(epsilon) for level in self._levels) + self._lost
        delta += math.exp(min(self._bulk - self._order * epsilon, 0.0))
        return min(0.0, math.log(delta) + 2 * _ROUNDING) if delta > _SMALLEST else 0.0


def _threshold(parts: list[_Part], epsilon: float, goal: float) -> tuple[float, float]:
    """Return the largest threshold below which the product of the masses is negligible."""
    for threshold in epsilon * _SHARES:
        for t in _ORDERS / epsilon:
            if _bulk(parts, t, threshold) - t * epsilon < goal - 1:
                return float(threshold), float(t)
    return -math.inf, 1.0


class _Level:
    """The product of all masses up to `high` without that of all masses up to `low`.

    `lost` bounds the probability of sums above the lattice, and of the losses beyond the end of
    each part that ends below `high`, which the next level does not count.
    """

    def __init__(
        self,
        total: LossSum,
        coarse: list[_Part],
        epsilon: float,
        goal: float,
        low: float,
        high: float,
    ) -> None:
        ends = [min(high, float(part.loss[part.mass > 0].max())) for part in coarse]

        def size(t: float) -> float:
            found, share = -t * epsilon, 0.0
            for part, end in zip(coarse, ends, strict=True):
                one = _log_moment(part.mass, part.loss, t, high=end)
                tail = _log_moment(part.mass, part.loss, t, low, end)
                found, share = found + part.times * one, share + part.times * math.exp(tail - one)
            return found + (math.log(share) if share else -math.inf)

        last = max(ends)
        sizes: dict[float, float] = {t: size(t) for t in (_TILTS / epsilon).tolist()}

        def width_of(s: float) -> float:
            """Return a width at which the aliases, with factors exp(-s width), are negligible."""
            above = min(((sizes[t] - goal) / (t - s) for t in sizes if t > s), default=math.inf)
            below = min([-goal / s, *((sizes[t] - goal) / (s - t) for t in sizes if t < s)])
            return float(max(above, below, last + _DIGITS / s))

        widths = {s: width_of(s) for s in sizes}
        s = self._tilt = min(sizes, key=lambda t: sizes[t] + math.log(widths[t]) - math.log1p(t))
        width, depth = widths[s], _DIGITS / s
        releases = sum(count for _, count in total.parts)
        step = min(0.03, math.sqrt(12 * _GOAL * s * epsilon / releases)) / s
        centers = max(model.centers()[0].size for model, _ in total.parts)  # type: ignore[attr-defined]
        cells = 2 ** math.ceil(math.log2(width / step))
        cells = min(cells, 2 * _MOST_CELLS // 2 ** math.ceil(math.log2(centers)))
        step = width / cells
        if low > -math.inf:  # both thresholds are ends of cells
            step = (last - low) / max(1, math.floor((last - low) / step))
        self._step, self._first = step, 0.5 * epsilon
        self.parts = [
            _part(model, total.direction, n, step, low, depth, end)  # type: ignore[arg-type]
            for (model, n), end in zip(total.parts, ends, strict=True)
        ]
        self._shift: float = sum(part.times * part.off for part in self.parts)
        self._rounding = _ROUNDING + 64 * ULP * releases * (1 + s * last)
        self._add(releases, cells)
        end = self._first + step * cells
        t = min(sizes, key=lambda t: sizes[t] - t * (end - epsilon))
        each = (part.times * _log_moment(part.mass, part.loss, t) for part in self.parts)
        self.lost = math.exp(min(math.fsum(each) - t * end, 0.0)) + sum(
            part.times * part.beyond
            for part, cut in zip(self.parts, ends, strict=True)
            if cut < high
        )

    def _add(self, releases: int, cells: int) -> None:
        s, base, self._log_scale, lost = self._tilt, 0.0, 0.0, 0.0
        unit = 3 * ULP * math.log2(cells)  # of a transform: (sqrt(5) + 2) u per stage
        most, rare = np.zeros((2, cells // 2 + 1))
        whole: _Factors | None = None
        for part in self.parts:
            if part.mass.size > cells:
                raise ArithmeticError("one loss needs too many cells")
            log_size = _log_moment(part.mass, part.loss, s)
            tilt = np.exp(np.minimum(s * part.loss - log_size, 700.0))
            tail, rest = part.rare * tilt, (part.mass - part.rare) * tilt
            lost += unit * part.times * float(np.linalg.norm(tail))
            self._log_scale += part.times * log_size
            base += part.times * float(part.loss[0])
            t, b = rfft(tail, cells), rfft(rest, cells)
            one = power((t, t + b, b), part.times, _joined)
            whole = one if whole is None else _joined(whole, one)
            rare = np.maximum(rare, np.abs(t) + unit)
            most = np.maximum(most, np.maximum(np.abs(t + b), np.abs(b)) + unit)
        assert whole is not None
        # The difference D of n factors a = b + t has the derivatives prod a by t, and at most
        # n^2 |t| most^(n - 2) by all b. By induction, the rounding of its products is at most
        # 6 u n^2 |t| most^(n - 1).
        factor = rare * most ** max(releases - 2, 0) * float(releases) ** 2
        lost += (unit + 3 * ULP) * math.sqrt(2 * float(factor @ factor) / cells)
        found = irfft(whole[0], cells)
        self._error = 1.1 * (lost + unit * float(np.linalg.norm(found)))
        at = math.floor((self._first - base) / self._step) + 1 + np.arange(cells)
        self._mass, self._loss = found[at % cells], base + self._step * at

    def delta(self, epsilon: float) -> float:
        """Return an upper bound on the level's share of delta(epsilon)."""
        gap = epsilon * (1 - 1e-13) - self._shift - self._loss
        far = gap < 0
        weight = np.exp(self._tilt * (epsilon - self._loss[far])) * -np.expm1(gap[far])
        found = float(self._mass[far] @ weight) + self._error * float(np.linalg.norm(weight))
        scale = self._log_scale - self._tilt * epsilon
        found = found * math.exp(scale) if scale < 700 else 1.0
        return float(max(found, 0.0) * (1 + 2 * self._rounding))


_Factors = tuple[Complex, Complex, Complex]  # prod a - prod b, prod a, prod b


def _joined(one: _Factors, other: _Factors) -> _Factors:
    return one[0] * other[1] + one[2] * other[0], one[1] * other[1], one[2] * other[2]


def power(one: _T, count: int, join: Callable[[_T, _T], _T]) -> _T:
    """Return `count` times `one`, joined."""
    found = one
    for digit in bin(count)[3:]:
        found = join(found, found)
        found = join(found, one) if digit == "1" else found
    return found


def _coarse(model: AgainstNormal, direction: Direction, count: int, log_rare: float) -> _Part:
    """Return approximate masses, without the largest losses with the given log probability."""
    z, width = np.linspace(_LARGEST, -_LARGEST, 2**12 + 1, retstep=True)
    loss = model.log_ratio(z)
    mass = np.exp(-0.5 * z * z + (loss if direction == "remove" else 0.0))
    mass *= -width / math.sqrt(2 * math.pi)
    if direction == "add":
        loss, mass = -loss[::-1], mass[::-1]
    mass[np.cumsum(mass) < math.exp(log_rare)] = 0.0
    return _Part(mass, mass, loss, count)


def _part(
    model: AgainstNormal,
    direction: Direction,
    count: int,
    step: float,
    low: float,
    depth: float,
    top: float,
) -> _Part:
    """Return the masses at losses from `depth` below the center to `top`."""
    sign = 1 if direction == "remove" else -1
    first, center, last = np.sort(sign * model.log_ratio(np.array([-_LARGEST, 0.0, _LARGEST])))
    start = center if low == -math.inf else low
    below = max(0, math.ceil((start - max(first, center - depth)) / step))
    above = math.ceil((min(top, last) - start) / step - 1e-6)
    if not 0 <= below + above < _MOST_CELLS:
        raise ArithmeticError("one loss needs too many cells")
    loss = start + step * np.arange(-below, above + 1.0)
    ends, off_by = _where(model, sign * loss)
    if direction == "remove":
        (p, q), (_, off) = _masses(model, np.concatenate([[-np.inf], ends, [np.inf]]))
    else:
        both, errors = _masses(model, np.concatenate([[-np.inf], ends[::-1], [np.inf]]))
        (q, p), (off, _) = both[:, ::-1], errors[:, ::-1]
    between = p[1:-1]
    # the mass u at the upper end, rounded up: u e^-h + (p - u) = q e^l
    growth = np.exp(np.minimum(loss[:-1], 700.0)) * (1 - 8 * ULP)
    least_q = np.maximum(q - off, 0.0)[1:-1] * growth
    scale = -math.expm1(-step)
    upper = (between - least_q) / scale
    # without cancellation, for small cells: |(log dP/dz)'| <= |z| + m and |l'' / l' - l'| <= 2 m,
    # m the last center, so that the mean of (1 - e^(l - L)) / (1 - e^-h) is at most
    width, steepest = np.abs(np.diff(ends)), float(model.centers()[0].max())
    farthest = np.maximum(np.abs(ends[1:]), np.abs(ends[:-1]))
    middle = between * (0.5 + width * (farthest + 4 * steepest) / 12)
    # losses of a cell may be outside of it by the error of its ends
    upper = np.clip(np.minimum(upper, middle) + between * (2 * off_by / scale), 0.0, between)
    mass, rare = np.zeros((2, loss.size))
    mass[0] = p[0]
    mass[:-1] += between - upper
    mass[1:] += upper
    rare[below:-1] += (between - upper)[below:]
    rare[below + 1 :] += upper[below:]
    if low == -math.inf:
        rare = mass
    return _Part(mass, rare, loss, count, float(p[-1]), off_by)


def _masses(model: AgainstNormal, ends: Array) -> tuple[Array, Array]:
    """Return masses between increasing `ends`, rounded up, and errors: mixture, then normal."""
    place, weight = model.centers()
    both = _between(np.subtract.outer(ends, np.append(place, 0.0)))
    mass, error = (np.stack([one[:, :-1] @ weight, one[:, -1]]) for one in both)
    error += 1e-13 * mass
    return mass + error, 2 * error


def _between(ends: Array) -> tuple[Array, Array]:
    """Return the normal masses between `ends`, from the nearer tail, and error bounds."""
    below, above = log_ndtr(ends), log_ndtr(-ends)
    near = np.where(ends[:-1] > 0, above[:-1], below[1:])
    far = np.where(ends[:-1] > 0, above[1:], below[:-1])
    mass, size = np.exp(near) - np.exp(far), np.exp(near)
    with np.errstate(invalid="ignore"):
        error = np.where(size > 0, 32 * ULP * (1 - near) * size, 0.0)
    return np.maximum(mass, 0.0), error


def _where(model: AgainstNormal, ratio: Array) -> tuple[Array, float]:
    """Return where the log ratio of mixture and normal is `ratio`, and its error."""
    z = np.linspace(-_LARGEST, _LARGEST, 2**13 + 1)
    found = np.interp(ratio, model.log_ratio(z), z)
    inside = np.abs(found) < _LARGEST
    for _ in range(2):
        slope = (model.log_ratio(found + 1e-4) - model.log_ratio(found - 1e-4)) / 2e-4
        miss = model.log_ratio(found) - ratio
        change = np.divide(miss, slope, out=np.zeros(miss.size), where=inside & (slope > 0))
        found = found - np.clip(change, -0.01, 0.01)
    miss = np.where(inside, model.log_ratio(found) - ratio, 0.0)
    return found, float(np.abs(miss).max() + 256 * ULP * np.abs(ratio).max())
