"""Privacy loss distributions on an even grid, in one direction, and their composition.

A `GridLoss` is a measure on losses start + k step. If it is `upper`, its delta is at least that of
the pair that it was made from, also after composition; else it is at most that. Neither need be
normalized: more mass, or at a larger loss, only increases delta. See docs/theory/pld.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from privacy.losses.densities import log_sum, refuse_beyond
from privacy.losses.quadrature import Array, Complex, Index
from privacy.numerics.rounding import U
from privacy.numerics.solve import descend, newton_step

MOST_CELLS = 2**19
"""Most cells of a grid."""
_ON_GRID = 1e-9  # distance from a loss of the grid, in steps, that counts as a rounding error
_NEGLIGIBLE = 18.0  # log(delta / mass beyond the window) at which that mass is negligible
_LEAST = -36.0  # smallest permitted log of the relative mass beyond the window
_STEEPEST = 1e4  # largest tilt
_BESIDE = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])  # distances of other tilts, in 1 / std
_ASIDE = np.array([-16.0, -8.0, -4.0, -2.0, 2.0, 4.0, 8.0, 16.0])
_BEFORE = np.array([0.0, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0])  # tilts, relative to the saddle point
_UNDERFLOW = 746.0  # exponent of a factor that is 0 in floats
_VANISHED = -80.0  # log modulus of a transform that is omitted
_PRUNED = 8  # number of parts after which vanished frequencies are dropped
_FEW = 64  # most atoms for which moments are computed for several t at once
_DIGITS = 45.0  # exponent beyond which a mass is bounded, not added


@dataclass(frozen=True, eq=False)
class GridLoss:
    """A measure of privacy losses on an even grid: an upper or a lower bound of a pair."""

    step: float  # distance of two losses
    start: float  # the loss of the first mass
    mass: Array  # probabilities under P
    infinite: float  # probability of an infinite loss
    upper: bool  # whether its delta is at least that of the pair, else at most
    relative: float = 0.0  # relative error bound on each mass
    absolute: float = 0.0  # error bound on each loss
    dual: Array | None = None  # of a lower bound: probabilities under Q times e^loss

    @property
    def loss(self) -> Array:
        return self.start + self.step * np.arange(self.mass.size)

    @cached_property
    def _atoms(self) -> tuple[Array, Array]:
        """The places and masses of the cells that are not empty; atoms leave most cells empty."""
        place = np.flatnonzero(self.mass)
        return place.astype(float), self.mass[place]

    def _weights(self, t: float) -> tuple[Array, Array, float]:
        """Return mass e^(t loss), normalized, where it is not 0: place, weight, log of its sum."""
        place, mass = self._atoms
        last = self.mass.size - 1
        if t * self.step > 0:  # smaller weights underflow
            first = int(place.searchsorted(last - _UNDERFLOW / (t * self.step)))
            place, mass = place[first:], mass[first:]
        weight = place - last if t > 0 else place.copy()
        weight *= t * self.step
        np.exp(weight, out=weight)
        weight *= mass
        total = float(weight.sum())
        if not total > 0:
            return place, np.zeros_like(mass), -math.inf
        top = t * (self.start + (self.step * last if t > 0 else 0.0))
        weight /= total
        return place, weight, top + math.log(total)

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Return log sum mass e^(t loss), and the mean and variance of the tilted loss."""
        place, weight, log_moment = self._weights(t)
        mean = float(weight @ place)
        variance = float(weight @ (place - mean) ** 2)
        return log_moment, self.start + mean * self.step, variance * self.step**2

    def transform(self, tilt: float, size: int, live: Index) -> Complex:
        """Return the transform of the tilted, normalized mass at the frequencies `live`."""
        place, weight, _ = self._weights(tilt)
        index = place.astype(np.intp)
        if index.size * live.size > size:
            return np.asarray(np.fft.rfft(np.bincount(index % size, weight, size))[live])
        return np.asarray(_turned(np.multiply.outer(live, index), size) @ weight)

    def spectrum(
        self, tilt: float, size: int, count: int, live: Index
    ) -> tuple[Complex, Array | float]:
        """Return the transform for `count` sums of the mass, and its error."""
        one, levels = self.transform(tilt, size, live), _levels(size)
        if count == 1:
            return one, levels
        modulus, powered = np.abs(one), _power(one, count)
        # |a^n - b^n| <= n |a - b| (|a| + |a - b|)^(n - 1); the last factor is at most
        # 1.02 |a|^(n - 1) if |a| >= 100 n |a - b|, else at most 101 n |a - b|
        share = np.abs(powered) / np.maximum(modulus, levels)
        return powered, count * (levels + 8 * U) * (1.02 * share + 101 * count * levels)

    def log_moment(self, t: float) -> float:
        """Return log sum mass e^(t loss)."""
        return self._weights(t)[2]

    def log_moments(self, t: Array) -> Array:
        """Return log sum mass e^(t loss) for each t."""
        place, mass = self._atoms
        if mass.size <= _FEW:
            exponent = np.multiply.outer(t, self.start + self.step * place)
            return log_sum(exponent + np.log(mass))
        return np.array([self.log_moment(float(each)) for each in t])

    def trimmed(self) -> Self:
        """Return the measure without empty cells at the ends."""
        kept = np.flatnonzero(self.mass)
        first, last = (int(kept[0]), int(kept[-1]) + 1) if kept.size else (0, 1)
        dual = None if self.dual is None else self.dual[first:last]
        start = self.start + first * self.step
        return replace(self, start=start, mass=self.mass[first:last], dual=dual)

    def centered(self, tilt: float) -> Self:
        """Return the same lower bound on a grid on which mass and dual have equal tilted sums."""
        if self.dual is None or (log_moment := self.log_moment(tilt)) == -math.inf:
            return self
        shift = log_moment - self.reversed().log_moment(tilt)
        return replace(self, start=self.start + shift, dual=self.dual * math.exp(shift))

    def reversed(self) -> Self:
        """Return the masses under Q times e^loss of a lower bound."""
        return self if self.dual is None else replace(self, mass=self.dual, dual=None)


@dataclass(frozen=True, eq=False, kw_only=True)
class MixedGrid(GridLoss):
    """Several losses, each a public choice between two successive ones of `nodes`.

    Moments are means over the losses, and `mass` is the sum over the nodes.
    """

    nodes: tuple[GridLoss, ...]  # measures on the same grid
    cell: Index  # for each loss, the index of the first of its nodes
    share: Array  # the probability of the second one
    times: Array  # the number of such losses

    @classmethod
    def of(cls, nodes: Sequence[GridLoss], cell: Index, share: Array, times: Array) -> Self:
        """Return the losses, from nodes on the same grid."""
        whole = vars(together(nodes)) | {"infinite": max(node.infinite for node in nodes)}
        return cls(**whole, nodes=tuple(nodes), cell=cell, share=share, times=times)

    def _choices(self, log_moment: Array) -> tuple[Array, Array]:
        """Return log sum mass e^(t loss) of each loss, and the tilted share of the second node."""
        first, second = self._log_shares
        second = second + log_moment[self.cell + 1]
        value = np.logaddexp(first + log_moment[self.cell], second)
        return value, np.exp(second - value)

    @cached_property
    def _log_shares(self) -> tuple[Array, Array]:
        with np.errstate(divide="ignore"):
            return np.log1p(-self.share), np.log(self.share)

    def _mean(self, values: Array) -> float:
        return float(values @ self.times / self.times.sum())

    def cumulants(self, t: float) -> tuple[float, float, float]:
        log_moment, mean, variance = np.array([node.cumulants(t) for node in self.nodes]).T
        value, share = self._choices(log_moment)
        rise = np.diff(mean)[self.cell]
        means = mean[self.cell] + share * rise
        wider = np.diff(variance)[self.cell] + (1 - share) * rise**2
        spread = variance[self.cell] + share * wider
        return self._mean(value), self._mean(means), self._mean(spread)

    def log_moment(self, t: float) -> float:
        return float(self.log_moments(np.array([t]))[0])

    def log_moments(self, t: Array) -> Array:
        each = np.array([node.log_moments(t) for node in self.nodes])
        return np.array([self._mean(self._choices(column)[0]) for column in each.T])

    def spectrum(
        self, tilt: float, size: int, count: int, live: Index
    ) -> tuple[Complex, Array | float]:
        _, share = self._choices(np.array([node.log_moment(tilt) for node in self.nodes]))
        off = _levels(size) + 32 * U
        total = np.ones(live.size, dtype=complex)
        log_bound, least = np.zeros(live.size), np.ones(live.size)
        kept = np.arange(live.size)
        first = self._node_transform(0, tilt, size, live)
        for k in range(len(self.nodes) - 1):
            second = self._node_transform(k + 1, tilt, size, live[kept])
            inside = self.cell == k
            if inside.any():
                # each factor is a mean of both, and off by at most `off`
                bound = np.maximum(np.abs(first), np.abs(second)) + off
                log_bound[kept] += float(self.times[inside].sum()) * np.log(bound)
                least[kept] = np.minimum(least[kept], bound)
                left = log_bound[kept] > _VANISHED
                total[kept[~left]] = 0.0
                kept, first, second = kept[left], first[left], second[left]
                rise = second - first
                for one, times in zip(share[inside], self.times[inside], strict=True):
                    factor = first + one * rise
                    total[kept] *= factor if times == 1 else _power(factor, int(times))
            first = second
        bound = np.exp(np.minimum(log_bound, 1.0))
        lost = count * off * np.minimum(bound / least, 2.0)
        return total, lost + np.where(log_bound <= _VANISHED, 2 * bound, 0.0)

    def _node_transform(self, k: int, tilt: float, size: int, live: Index) -> Complex:
        offset = round((self.nodes[k].start - self.start) / self.step)
        return self.nodes[k].transform(tilt, size, live) * _turned(live * offset, size)


def together(parts: Sequence[GridLoss]) -> GridLoss:
    """Return the sum of measures whose starts differ by whole steps."""
    step = parts[0].step
    start = min(part.start for part in parts)
    offsets = [round((part.start - start) / step) for part in parts]
    size = max(offset + part.mass.size for offset, part in zip(offsets, parts, strict=True))
    refuse_beyond(MOST_CELLS, size)
    mass, dual = np.zeros((2, size))
    for offset, part in zip(offsets, parts, strict=True):
        mass[offset : offset + part.mass.size] += part.mass
        dual[offset : offset + part.mass.size] += part.reversed().mass
    blur = max(part.absolute for part in parts) + 8 * U * (abs(start) + size * step)
    relative = max(part.relative for part in parts) + 2 * U
    upper = parts[0].upper
    return GridLoss(step, start, mass, 0.0, upper, relative, blur, None if upper else dual)


def from_atoms(
    mass: Array, loss: Array, step: float, start: float, *, upper: bool, infinite: float = 0.0
) -> GridLoss:
    """Put atoms on a grid that has a loss at `start`.

    For an upper bound, an atom is divided between its two neighbors on the grid so that its mass
    under P and under Q is kept. For a lower bound, all atoms of a cell are one output. The
    probability under P and the loss of each atom have relative errors of a few ulps.
    """
    place = np.floor((loss - start) / step + _ON_GRID)
    first, last = float(place.min()), float(place.max())
    refuse_beyond(MOST_CELLS, last - first)
    index = (place - first).astype(np.intp)
    start += first * step
    rest = loss - (start + index * step)
    size = int(last - first) + 2
    blur = 16 * U * (float(np.abs(loss).max()) + abs(start))
    if upper:
        down, up = divided(mass, np.clip(rest, 0.0, step), step)
        total = np.bincount(index, down, size) + np.bincount(index + 1, up, size).astype(float)
        return GridLoss(step, start, total, infinite, upper, 16 * U, blur).trimmed()
    total, dual = (np.bincount(index, x, size).astype(float) for x in (mass, mass * np.exp(-rest)))
    return GridLoss(step, start, total, infinite, upper, 16 * U, blur, dual).trimmed()


def divided(mass: Array, rest: Array, step: float) -> tuple[Array, Array]:
    """Return the masses at both ends of a cell that keep the mass at `rest` under P and Q."""
    whole = -math.expm1(-step)
    up = mass * (-np.expm1(-rest) / whole)
    return mass * (np.exp(-rest) * -np.expm1(rest - step) / whole), up


def from_cells(
    panels: Sequence[tuple[Array, Array, Index]],
    step: float,
    start: float,
    relative: float,
    absolute: float,
) -> tuple[GridLoss, GridLoss]:
    """Put quadrature nodes of a density on a grid, as a lower and an upper bound.

    `panels` has P-weights and losses of nodes, one row per panel, and the cell of each panel, which
    is from start + cell step to start + (cell + 1) step, or -1 for all losses below `start`.
    `relative` and `absolute` are error bounds on integrals over the cells and on losses.
    """
    size = max(int(cell.max()) for *_, cell in panels) + 3
    blur = 32 * U * (max(float(np.abs(loss).max()) for _, loss, _ in panels) + abs(start))
    mass, other = np.zeros((2, size))
    for weight, loss, cell in panels:
        rest = loss - (start + cell[:, None] * step)
        rest[cell < 0] = 0.0
        if (np.abs(rest - 0.5 * step) > step * (0.5 + 1e-9) + blur).any():
            raise OverflowError("a loss is outside its cell of the grid")
        share = np.exp(-rest) if step > 1 else -np.expm1(-rest)
        mass += np.bincount(cell + 1, weight.sum(axis=1), size)
        other += np.bincount(cell + 1, (weight * share).sum(axis=1), size)
    below, mass, other = mass[0], mass[1:], other[1:]
    # Q times e^(first loss of the cell), and the excess of P over it
    dual, excess = (other, mass - other) if step > 1 else (mass - other, other)
    up = np.maximum(excess / -math.expm1(-step), 0.0)
    total = np.maximum(dual - math.exp(-step) * up, 0.0)
    total[1:] += up[:-1]
    total[0] += below
    absolute += blur
    upper = GridLoss(step, start, total, 0.0, upper=True, relative=relative, absolute=absolute)
    return replace(upper, mass=mass, upper=False, dual=dual), upper


class Tilt(NamedTuple):
    """How a sum is tilted, and which mass beyond its window is negligible."""

    tilt: float  # the factor of the loss, > 0
    log_delta: float  # an estimate of log delta
    bound: float  # an upper bound on log delta of the grids that it was chosen for
    low: float  # the window of losses beyond which the tilted mass is negligible
    high: float
    left: float  # other factors, whose moments bound that mass
    right: float


_Parts = Sequence[tuple[GridLoss, int]]


def _cumulants(parts: _Parts, t: float) -> tuple[float, float, float]:
    each = [(part.cumulants(t), n) for part, n in parts]
    value, mean, variance = (math.fsum(n * one[k] for one, n in each) for k in range(3))
    return value, mean, variance


def _growth(parts: _Parts, t: float) -> float:
    """Return an upper bound on K(t), up to the errors of the masses and losses."""
    each = [(part, part.log_moment(t), n) for part, n in parts]
    off = math.fsum(n * _rounding(part, t, log_moment) for part, log_moment, n in each)
    return math.fsum(n * log_moment for _, log_moment, n in each) + off


def _rounding(part: GridLoss, t: float, log_moment: float) -> float:
    """Return the rounding error of log sum mass e^(t loss), and of one tilted mass."""
    largest = max(abs(part.start), abs(part.start + part.step * (part.mass.size - 1)))
    return 4 * U * (abs(log_moment) + abs(t) * largest + 4)


def saddle(parts: _Parts, epsilon: float, near: float = 1.0) -> float:
    """Return t > 0 near the minimum of K(t) - t epsilon - log t - log(1 + t), which is convex."""

    def step(t: float) -> tuple[float, float]:
        _, mean, variance = _cumulants(parts, t)
        bend = variance + t**-2 + (1 + t) ** -2
        return newton_step(t, mean - epsilon - 1 / t - 1 / (1 + t), bend)

    return min(max(descend(step, near), 1e-12), _STEEPEST)


def choose_tilt(parts: _Parts, epsilon: float, near: float = 1.0) -> Tilt:
    """Return the tilt for sums near `epsilon` that needs the smallest window (as `Line._place`)."""
    if any(part.infinite >= 1 for part, _ in parts):
        raise OverflowError("all losses are infinite")
    at = saddle(parts, epsilon, near)
    value, _, variance = _cumulants(parts, at)
    bend = variance + at**-2 + (1 + at) ** -2
    log_delta = value - at * epsilon - math.log(at * (1 + at))
    log_delta -= 0.5 * math.log(2 * math.pi * bend)
    away = _BESIDE / math.sqrt(variance + parts[0][0].step ** 2)
    t = np.unique(np.concatenate([at * _BEFORE, at + away, at - away[-2:]]))
    growth = sum((n * part.log_moments(t) for part, n in parts), start=np.zeros(t.size))
    excess = growth - t * epsilon - log_delta
    # delta <= exp(K(t) - t epsilon) t^t / (1 + t)^(1 + t)
    off = math.fsum(n * (part.relative + at * part.absolute) for part, n in parts)
    bound = _growth(parts, at) - at * epsilon + at * math.log(at) - (1 + at) * math.log1p(at)
    bound += off + 8 * U * (1 + abs(bound) + at * abs(epsilon))
    infinite = math.fsum(n * part.infinite * (1 + part.relative) for part, n in parts)
    bound = math.log(math.exp(min(bound, 0.0)) + infinite) + 1e-6 if infinite else bound
    best: Tilt | None = None
    for k in np.flatnonzero((t > 0.25 * at) & (t <= at))[::-1]:
        # log of the permitted mass beyond the window, relative to the tilted mass
        allowed = min(-float(excess[k]) - _NEGLIGIBLE, -1.0)
        if allowed < _LEAST and best is not None:
            continue
        apart = t - t[k]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = (growth - growth[k] - allowed) / apart
        lowest = int(np.where(apart < 0, reach, -np.inf).argmax())
        highest = int(np.where(apart > 0, reach, np.inf).argmin())
        ends, beside = (reach[lowest], reach[highest]), (t[lowest], t[highest])
        found = Tilt(float(t[k]), log_delta, bound, *map(float, ends), *map(float, beside))
        if best is None or found.high - found.low < 0.8 * (best.high - best.low):
            best = found
    assert best is not None  # the saddle point is one of the t
    return best


def no_tilt(parts: _Parts) -> Tilt:
    """Return the tilt 0, with a window that holds all but e^-36 of the mass."""
    value, _, variance = _cumulants(parts, 0.0)
    away = _BESIDE / math.sqrt(variance + parts[0][0].step ** 2)
    ends, beside = [], []
    for t in (-away, away):
        growth = sum((n * part.log_moments(t) for part, n in parts), start=np.zeros(t.size))
        reach = (growth - value - _LEAST) / t
        k = int(reach.argmax() if t[0] < 0 else reach.argmin())
        ends.append(float(reach[k]))
        beside.append(float(t[k]))
    return Tilt(0.0, 0.0, 0.0, *ends, *beside)


class GridSum:
    """The sum of independent losses on grids of one step, by a Fourier transform.

    Masses are tilted before the transform, so that those near the epsilon of the tilt keep their
    digits. `parts` has each grid loss and its number of runs; all are upper bounds or all are lower
    bounds. `tilt` is from `choose_tilt` or `no_tilt`, perhaps of other bounds of the pairs.
    """

    def __init__(self, parts: _Parts, tilt: Tilt) -> None:
        first = parts[0][0]
        if not first.upper:
            parts = [(part.centered(tilt.tilt), n) for part, n in parts]
        self._parts = parts
        self.step, self.upper, self.tilt = first.step, first.upper, tilt.tilt
        if any(part.step != self.step or part.upper != self.upper for part, _ in parts):
            raise ValueError("the grids differ in step or in bound (upper, lower)")
        kept = math.fsum(n * math.log1p(-min(p.infinite, 1 - U)) for p, n in parts)
        self.infinite = min(-math.expm1(kept) * (1 + (16 if self.upper else -16) * U), 1.0)
        self.relative = math.fsum(n * (part.relative + 8 * U) for part, n in parts)
        self.log_size = 0.0
        self._start = math.fsum(n * part.start for part, n in parts)
        self._blur = math.fsum(n * (part.absolute + 2 * U * abs(part.start)) for part, n in parts)
        cells = math.fsum(n * (part.mass.size - 1) for part, n in parts)
        self._top = self._start + cells * self.step
        low, high = max(self._start, tilt.low), min(self._top, tilt.high)
        refuse_beyond(MOST_CELLS, (high - low) / self.step)
        needed = math.ceil((high - low) / self.step) + 3
        self._cells = _fast_length(needed)
        self._first = max(math.floor((low - self._start) / self.step), 0)
        self._last = self._first + self._cells - 1
        self._transform(parts)
        self._dual: GridSum | None = None
        if any(part.dual is not None for part, _ in parts):
            self._dual = GridSum([(part.reversed(), n) for part, n in parts], tilt)
        left = [(tilt.left, self._first)] if self._first > 0 else []
        right = [(tilt.right, self._last)] if self._last < cells else []
        ends = [(t, self._start + end * self.step) for t, end in left + right]
        self._beyond = math.fsum(self._bound_beyond(parts, *end) for end in ends)

    def _bound_beyond(self, parts: _Parts, t: float, end: float) -> float:
        """Return an upper bound on the normalized tilted mass beyond one end of the window."""
        growth = _growth(parts, t) - self.log_size
        return math.exp(min(growth - (t - self.tilt) * end + self.relative, 0.0))

    @np.errstate(over="ignore", invalid="ignore")  # refused below
    def _transform(self, parts: _Parts) -> None:
        size, levels = self._cells, _levels(self._cells)
        live = np.arange(size // 2 + 1)
        total, error, dropped = np.ones(live.size, dtype=complex), np.zeros(live.size), 0.0
        for k, (part, count) in enumerate(parts):
            log_moment = part.log_moment(self.tilt)
            self.relative += count * _rounding(part, self.tilt, log_moment)
            self.log_size += count * log_moment
            powered, lost = part.spectrum(self.tilt, size, count, live)
            size_one = np.minimum(np.abs(powered), 1.0)
            more = lost + 4 * U * size_one
            error = error * (size_one + lost) + np.minimum(np.abs(total), 1.0) * more
            total *= powered
            # the error of a factor of modulus <= 1 is at most this
            dropped *= 1 + count * (levels + 32 * U) * (2 + 101 * count * levels)
            if k % _PRUNED == _PRUNED - 1:
                left = np.abs(total) + error > math.exp(_VANISHED)
                dropped += float((np.abs(total) + error)[~left].sum())
                live, total, error = live[left], total[left], error[left]
        whole = np.zeros(size // 2 + 1, dtype=complex)
        whole[live] = total
        mass = np.roll(np.fft.irfft(whole, size), -(self._first % size))
        spread = error + levels * np.minimum(np.abs(total), 1.0)
        self._error = 2 * (float(spread.sum()) + dropped) / size
        self._mass = np.maximum(mass, 0.0)
        if not math.isfinite(self._error + float(self._mass.sum())):
            raise OverflowError("the rounding errors of the transform overflow")

    def log_delta(self, epsilon: float) -> float:
        """Return the bound on log delta(epsilon); -inf if delta is 0 or not resolved."""
        side = 1 if self.upper else -1
        moved = epsilon - side * self._slack(epsilon)
        finite = -math.inf
        if not self.upper:
            finite = self._log_between(moved, self._dual or self)
        elif moved < self._top:
            finite = self._log_finite(moved)
        delta = self.infinite + math.exp(min(finite, 0.0))
        if not self.infinite:
            return min(finite, 0.0)
        return min(0.0, math.log(delta) + side * 8 * U * (1 - math.log(delta))) if delta else finite

    def _slack(self, epsilon: float) -> float:
        return self._blur + 8 * U * (abs(epsilon) + abs(self._start) + self._last * self.step)

    @cached_property
    def _factors(self) -> Array:
        """The factors e^(-tilt x) and e^(-tilt x) (1 - e^-x) for x = 0, step, ..."""
        gap = self.step * np.arange(self._cells)
        return np.asarray(np.exp(-self.tilt * gap) * [np.ones(gap.size), -np.expm1(-gap)])

    def _log_finite(self, epsilon: float) -> float:
        base = self._start + self._first * self.step
        begin = max(math.ceil((epsilon - base) / self.step), 0)
        gap = max(base - epsilon + self.step * begin, 0.0)
        size = max(self._cells - begin, 0)
        if self.tilt > 0:
            size = min(size, math.ceil(_DIGITS / (self.tilt * self.step)) + 1)
        factors, mass = self._factors[:, :size], self._mass[begin : begin + size]
        # 1 - e^-(g + x) = (1 - e^-g) + e^-g (1 - e^-x), without cancellation
        scale = math.exp(-self.tilt * gap) * np.array([-math.expm1(-gap), math.exp(-gap)])
        total = float(scale @ (factors @ mass))
        lost = self._error * float(scale @ factors.sum(axis=1)) + self._beyond + math.exp(-_DIGITS)
        return self._log_sized(total * (1 + 64 * U) + lost, epsilon) + self._off(epsilon)

    def _off(self, epsilon: float) -> float:
        return self.relative + 8 * U * (abs(self.log_size) + self.tilt * abs(epsilon) + 4)

    def _log_sized(self, found: float, epsilon: float) -> float:
        exponent = self.log_size - self.tilt * epsilon
        return exponent + math.log(found) if found > 0 else -math.inf

    def _log_between(self, epsilon: float, dual: "GridSum") -> float:
        """Return a lower bound on log sum (P - e^epsilon Q)+ over the cells near epsilon."""
        base = self._start + self._first * self.step
        middle = max(math.floor((epsilon - base) / self.step), 0)
        reach = math.ceil(min(_DIGITS / max(self.tilt * self.step, U), self._cells))
        wide = math.ceil(min(8 * math.sqrt(sum(n for _, n in self._parts)), reach))
        begin, end = max(middle - wide, 0), min(middle + wide + reach + 1, self._cells)
        gap = (base - epsilon) + self.step * np.arange(begin, max(end, begin))
        ours = np.exp(-self.tilt * gap)
        off = dual.log_size - self.log_size + self._off(epsilon) + dual._off(epsilon)
        theirs = np.exp(np.minimum(off - (1 + self.tilt) * gap, 700.0))
        mass, other = (one._mass[begin : begin + gap.size] for one in (self, dual))
        excess = (mass * (1 - 64 * U) - self._error) * ours - (other + dual._error) * theirs
        some = excess > 0  # any cells give a lower bound
        lost = self._beyond * float(ours[some].max(initial=0.0))
        total = float(excess[some].sum()) - lost
        return self._log_sized(total, epsilon) - self._off(epsilon)

    def law(self) -> GridLoss:
        """Return the sum as a grid loss, if the window holds all of it; tight near the tilt."""
        mass = np.maximum(self._mass + (self._error if self.upper else -self._error), 0.0)
        loss = self._start + self.step * (self._first + np.arange(self._cells))
        with np.errstate(divide="ignore"):
            log_mass = np.log(mass) + self.log_size - self.tilt * loss
        if self.upper:  # far from the tilt, moments bound a mass better than the error does
            _, _, variance = _cumulants(self._parts, self.tilt)
            away = _ASIDE / math.sqrt(variance + self.step**2)
            for t in self.tilt + away:
                growth = _growth(self._parts, float(t))
                off = 8 * U * (abs(growth) + np.abs(t * loss))
                log_mass = np.minimum(log_mass, growth - t * loss + off)
        mass = np.exp(np.minimum(log_mass, 0.0))
        mass = mass[: round((self._top - self._start) / self.step) + 1]
        largest = self.tilt * float(np.abs(loss).max())
        relative = self.relative + 8 * U * (abs(self.log_size) + largest)
        slack = self._slack(0.0)
        return GridLoss(self.step, self._start, mass, self.infinite, self.upper, relative, slack)

    @property
    def losses(self) -> tuple[Array, Array]:
        """The losses in the window and their masses under P, without the error bounds."""
        loss = self._start + self.step * (self._first + np.arange(self._cells))
        return loss, self._mass * np.exp(np.minimum(self.log_size - self.tilt * loss, 700.0))


def _levels(size: int) -> float:
    """Return the error of a transform: sums along log2(size) levels (Higham 2002, section 24.1)."""
    return 8 * U * (math.log2(size) + 2)


def _turned(turns: Index, size: int) -> Complex:
    return np.asarray(np.exp((-2j * math.pi / size) * (turns % size)))


def _power(base: Complex, count: int) -> Complex:
    out: Complex | None = None
    while True:
        if count & 1:
            out = base if out is None else out * base
        count >>= 1
        if not count:
            break
        base = base * base
    assert out is not None
    return out


def _fast_length(size: int) -> int:
    """Return an even number 2^a or 3 * 2^a >= size."""
    power = 1 << max(size - 1, 1).bit_length()
    return 3 * power // 4 if power >= 8 and 3 * power // 4 >= size else power
