"""Bounds on delta by mean-preserving spreads: docs/theory/contour.md, "Spreads on a grid"."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from flint import arb, ctx, fmpz_poly

from privacy.certification._coverage import Unproven
from privacy.certification._laplace import SampledLaplace
from privacy.certification._normal import upper_tail as tail
from privacy.certification._panels import Array

_LOW, _HIGH = -10.5, 12.0  # ends of the noise under Q, and beyond mu
_OMITTED, _LEAST = 1e-32, 1e-300  # probability of a cut end; more than underflow loses
_CELLS, _PER_PAIR = 4096, 8  # of an allocation, and pairs of masses per work
_MOST, _PER_TERM = 2**19, 40  # terms of a composition, and work of each
_MOST_CELLS, _SHARED = 2**15, 2**17  # of Laplace noise, and of all its releases
_MANY = "the distribution of the losses needs too many points"


class Lattice(NamedTuple):
    """Upper bounds on the probabilities under Q of the ratios exp(start + k step), k = 0, 1, ...

    `empty` is that of a ratio of 0, and `lost` that of an infinite ratio under P.
    """

    start: arb
    step: arb
    mass: Array
    empty: arb = arb(0)
    lost: arb = arb(0)

    def finer(self, step: arb) -> "Lattice":
        """Return the same distribution with a step that is smaller by a power of 2."""
        if not self.step > 1.5 * step:
            return self
        mass = np.zeros(2 * self.mass.size - 1)
        mass[::2] = self.mass
        return self._replace(step=self.step / 2, mass=mass).finer(step)


def delta(parts: Sequence[tuple[Lattice, int]], epsilon: arb, work: int) -> arb:
    """Return a bound on delta of a composition, in the worse direction."""
    step = min((one.step for one, _ in parts), key=float)
    parts = [(one.finer(step), n) for one, n in parts]
    if sum(n * one.mass.size for one, n in parts) > min(_MOST, work / _PER_TERM):
        raise Unproven(_MANY)
    if not all(one.step is step or one.step == step for one, _ in parts):
        raise Unproven("the losses have different grids")
    top = sum(n * max(0.0, float(one.start + one.mass.size * step)) for one, n in parts)
    unit, loss, empty, lost = ctx.prec + 2 * math.ceil(top), arb(0), arb(0), arb(0)
    total, growth, level = fmpz_poly([1 << unit]), step.exp(), epsilon.exp()
    for one, n in parts:
        loss, empty, lost = loss + n * one.start, empty + n * one.empty, lost + n * one.lost
        pairs = map(float.as_integer_ratio, one.mass.tolist())
        masses = fmpz_poly([-((-p << unit) // q) for p, q in pairs])
        power = masses
        for bit in bin(n)[3:]:
            square = _times(power, power, unit)
            power = _times(square, masses, unit) if bit == "1" else square
        total = _times(total, power, unit)
    value, scale = loss.exp(), arb(2) ** unit
    for p in total.coeffs():
        lost += p * (value - level).max(arb(0)) / scale
        empty += p * (1 - level * value).max(arb(0)) / scale
        value *= growth
    return lost.max(empty)


def _times(a: fmpz_poly, b: fmpz_poly, unit: int) -> fmpz_poly:
    """Return a b / 2^unit, rounded up."""
    return fmpz_poly([-(-int(p) >> unit) for p in (a * b).coeffs()])


def _upper(x: arb | float) -> float:
    return max(math.nextafter(float(arb(x).upper()), math.inf), 0.0)


def _spread(without: Sequence[arb], present: Sequence[arb], start: arb, step: arb) -> Array:
    """Return the masses of cells with given probabilities under Q and P."""
    value, growth, mass = start.exp(), step.exp(), [arb(0)] * (len(without) + 1)
    for k, (p, gain) in enumerate(zip(without, present, strict=True)):
        up = (gain / value - p) / (growth - 1)
        mass[k] += p - up
        mass[k + 1] += up
        value *= growth
    return np.array([_upper(p) for p in mass])


def laplace(noise: SampledLaplace, count: int, work: int) -> Lattice:
    """Return one of `count` releases; its smallest and largest losses are points of the grid."""
    cells = int(min(_MOST_CELLS, min(work / _PER_TERM, _SHARED) // count - 1))
    s, q = noise.distance, noise.q
    start, end = ((q * loss.expm1()).log1p() for loss in (-s, s))
    step = (end - start) * (1 + arb(2) ** -64) / max(cells, 1)
    if cells < 1 or not start + cells * step > end:
        raise Unproven(_MANY)
    # probabilities of unsampled losses of at most each end of a cell
    ends = [(((start + k * step).exp() - 1) / q).log1p() for k in range(1, cells)]
    low = [arb(0.5), *(1 - (-(s + x) / 2).exp() / 2 for x in ends), arb(1)]
    high = [(-s).exp() / 2, *(((x - s) / 2).exp() / 2 for x in ends), arb(1)]
    without, record = ([b - a for a, b in pairwise(x)] for x in (low, high))
    present = [(1 - q) * a + q * b for a, b in zip(without, record, strict=True)]
    mass = _spread(without, present, start, step)
    mass[0] = _upper(arb(mass[0]) + 0.5)
    return Lattice(start, step, mass)


def allocated(mu_squared: arb, steps: int, work: int) -> Lattice:
    """Return a Gaussian whose record is in one of several steps, at a mu that is not smaller."""
    if steps.bit_length() * _CELLS**2 > _PER_PAIR * work:
        raise Unproven(_MANY)
    return _allocated(_upper(mu_squared.sqrt()), steps)


@lru_cache(maxsize=256)
def _allocated(mu: float, steps: int) -> Lattice:
    if steps == 1:
        return _factor(mu)
    half = steps // 2
    one, other = _allocated(mu, half), _allocated(mu, steps - half)
    return _cut(_mean(one, other, arb(steps - half) / steps))


def _factor(mu: float) -> Lattice:
    """Return the distribution of exp(mu z - mu^2 / 2)."""
    step = arb(float(np.float32(mu * (_HIGH + mu - _LOW) / _CELLS)))
    start = math.floor((_LOW * mu - mu * mu / 2) / float(step)) * step
    z = [(start + k * step) / mu + arb(mu) / 2 for k in range(_CELLS + 1)]
    there = [x - mu for x in z]
    without, present = ([_between(a, b) for a, b in pairwise(x)] for x in (z, there))
    mass = _spread(without, present, start, step)
    mass[0] = _upper(arb(mass[0]) + tail(-there[0]) / start.exp())
    mass[-1] = _upper(arb(mass[-1]) + tail(z[-1]))
    return Lattice(start, step, mass, tail(-z[0]), tail(there[-1]))


def _between(low: arb, high: arb) -> arb:
    """Return the probability of an interval under N(0, 1), from the smaller tails."""
    return tail(low) - tail(high) if low > 0 else tail(-high) - tail(-low)


def _mean(one: Lattice, other: Lattice, share: arb) -> Lattice:
    """Return the distribution of (1 - share) X + share Y, X and Y independent."""
    # starts are multiples of steps, which are powers of 2 times the same float
    one, other = one.finer(other.step), other.finer(one.step)
    step, start = one.step, min(one.start, other.start, key=float)
    first, second = (round(float((each.start - start) / step)) for each in (one, other))
    found = np.zeros(max(first + one.mass.size, second + other.mass.size) + 1)

    def spread(x: Array, low: int, y: Array, high: int, weight: arb, least: int) -> None:
        """Add the pairs of an index a of x and an index a + d >= a + least of y."""
        for d in range(max(least, high - low - x.size + 1), high + y.size - low):
            begin, end = max(low, high - d), min(low + x.size, high + y.size - d)
            value = 1 - weight + weight * (step * d).exp()
            below = (value.log() / step).floor().unique_fmpz() if d else 0
            if below is None:
                raise Unproven("the grid index of a mean is not accurate enough")
            up = (value / (step * below).exp() - 1) / step.expm1() if d else arb(0)
            pairs = x[begin - low : end - low] * y[begin + d - high : end + d - high]
            at = begin + int(below)
            found[at : at + pairs.size] += _upper(1 - up) * pairs
            found[at + 1 : at + 1 + pairs.size] += _upper(up) * pairs

    x, y = one.mass, other.mass
    spread(x, first, y, second, share, 0)
    spread(y, second, x, first, 1 - share, 1)
    # the mean of 0 and a value is spread to both
    found[first : first + x.size] += _upper((1 - share) * other.empty) * x
    found[second : second + y.size] += _upper(share * one.empty) * y
    # each entry is a sum of at most 4 terms for each distance
    found = found * (1 + 2.0**-52 * (4 * found.size + 16)) + _LEAST
    empty = (1 - share) * one.empty + share * other.empty + one.empty * other.empty
    return Lattice(start, step, found, empty, (1 - share) * one.lost + share * other.lost)


def _cut(law: Lattice) -> Lattice:
    """Return the distribution without negligible ends, on a finer grid if it is short."""
    losses = float(law.start) + float(law.step) * np.arange(law.mass.size)
    present = law.mass * np.exp(np.minimum(losses, 700.0))
    low = int((np.cumsum(law.mass) <= _OMITTED).sum())
    high = law.mass.size - int((np.cumsum(present[::-1]) <= _OMITTED).sum())
    mass = law.mass[low:high].copy()
    small, large = (sum(map(arb, x.tolist()), arb(0)) for x in (law.mass[:low], law.mass[high:]))
    above = enumerate(law.mass[high:].tolist(), high)
    lost = sum((p * (law.start + k * law.step).exp() for k, p in above if p), law.lost)
    mass[0], mass[-1] = _upper(small + mass[0]), _upper(large + mass[-1])
    cut = Lattice(law.start + low * law.step, law.step, mass, law.empty + small, lost)
    return cut.finer(law.step / 2 ** max(0, int(math.log2(_CELLS / mass.size))))
