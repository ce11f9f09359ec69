"""The dominating pair of shuffled reports: one report among a random number of uniform ones.

Given that m reports are 0 or 1, and with z = s (2 a - m) / m, the number a of ones has probability
Bin(m, 1/2)(a) (1 + z) under P and (1 - z) under Q: with probability s the report of interest is
among them, and it is 1 under P and 0 under Q. Its loss is 2 artanh(z). One more uniform report is
post-processing, and so is a smaller s: the pair increases with s and decreases with m. Rounding m
down and s up therefore gives a dominating pair.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from privacy.losses.discrete import Atoms, DiscretePair
from privacy.losses.lattice import divided
from privacy.numerics.rounding import U

if TYPE_CHECKING:
    from privacy.losses.quadrature import Array, Index

_MOST_CELLS = 2**18
_CELLS = 600  # cells of losses on either side of 0
_FEW = 2000  # atoms that are not merged
_BLOCK = 5e-4  # relative width of a block of numbers, rounded together; for two categories
_BLOCKS = 4e-3  # the same for more categories
_LEAST = 1e-40  # probabilities that are resolved
_WIDE = 15.0  # standard deviations of a binomial distribution that are kept


@dataclass(frozen=True)
class Binomial:
    """The probabilities of a binomial distribution from `first` on."""

    first: int
    mass: "Array"  # probabilities, normalized on the range; upper bounds up to `rough`
    beyond: float  # an upper bound on the probability outside the range
    rough: float  # relative error bound on each probability


@lru_cache(maxsize=256)
def binomial(count: int, p: float) -> Binomial:
    """Return the binomial distribution within 15 standard deviations, by ratios from its mode."""
    mode = min(int((count + 1) * p), count)
    width = math.ceil(_WIDE * math.sqrt(count * p * (1 - p))) + 110
    low, high = max(mode - width, 0), min(mode + width, count)
    up = np.arange(mode, high, dtype=float)
    down = np.arange(mode, low, -1, dtype=float)
    odds = p / (1 - p)
    rising = np.cumprod((count - up) / (up + 1) * odds)
    falling = np.cumprod(down / (count - down + 1) / odds)
    mass = np.concatenate([falling[::-1], [1.0], rising])
    mass /= mass.sum()
    beyond = 0.0
    # the ratios of neighbors decrease away from the mode
    if low > 0:
        ratio = low / (count - low + 1) / odds
        beyond += float(mass[0]) * ratio / (1 - ratio)
    if high < count:
        ratio = (count - high) / (high + 1) * odds
        beyond += float(mass[-1]) * ratio / (1 - ratio)
    kept = np.flatnonzero(mass > _LEAST)
    first, last = int(kept[0]), int(kept[-1]) + 1
    beyond += float(mass[:first].sum() + mass[last:].sum())
    return Binomial(low + first, mass[first:last], beyond * (1 + 1e-6), 8 * U * (width + 8))


@dataclass(frozen=True)
class ShuffledPair(DiscretePair):
    """The reports of n users after a shuffle, for two values of one user's record."""

    epsilon: float  # the local epsilon of a report
    reports: int  # n
    categories: int | None = None  # of randomized response; None for any other randomizer

    symmetric = True  # exchanging 0 and 1 exchanges the two

    def atoms(self) -> Atoms:
        """Return an upper bound of the pair; with more than 2,000 losses, they are on a grid.

        Weights below 1e-40 count as if they were not shuffled: their loss is the local epsilon.
        """
        return _atoms(self)


@lru_cache(maxsize=64)
def _atoms(pair: ShuffledPair) -> Atoms:
    largest = pair.epsilon * (1 + 16 * U)
    parts, lost, rough = _parts(largest, pair.reports, pair.categories)
    everything = [(m, *part, binomial(m, 0.5)) for m, part in sorted(parts.items())]
    count = sum(base.mass.size * s.size for _, s, _, _, base in everything)
    steepest = max(float(s.max()) * min(1.0, _WIDE / math.sqrt(m)) for m, s, *_ in everything if m)
    step = min(2 * math.atanh(min(steepest, 1 - 1e-12)), largest) / _CELLS
    step = max(step, largest / _MOST_CELLS)  # a coarser grid is a looser bound
    cells = math.ceil(largest / step) + 1
    grid = np.zeros(2 * cells + 1)
    kept: list[tuple[Array, Array]] = []
    rough_base = 0.0
    for m, s, rest, weight, base in everything:
        lost += float(weight.sum()) * base.beyond
        rough_base = max(rough_base, base.rough)
        a = base.first + np.arange(base.mass.size)
        share = (a / max(m, 1))[:, None]
        other = ((m - a) / max(m, 1))[:, None]
        above, below = rest + 2 * s * share, rest + 2 * s * other
        z = s * ((2 * a - m) / max(m, 1))[:, None]
        with np.errstate(divide="ignore"):
            far = np.log(above) - np.log(below)
        loss = np.where(np.abs(z) < 0.5, 2 * np.arctanh(np.clip(z, -0.5, 0.5)), far)
        loss = np.clip(loss + 8 * U * np.abs(loss), -largest, largest).ravel()
        mass = (weight * base.mass[:, None] * (above if m else 1.0)).ravel()
        if count <= _FEW:
            kept.append((mass, loss))
            continue
        place = np.clip(np.floor(loss / step), -cells, cells - 1)
        index = place.astype(np.intp) + cells
        down, up = divided(mass, np.clip(loss - place * step, 0.0, step), step)
        grid += np.bincount(index, down, grid.size) + np.bincount(index + 1, up, grid.size)
    if count > _FEW:
        kept.append((grid, step * np.arange(-cells, cells + 1)))
    kept.append((np.array([lost, lost * math.exp(-largest)]), np.array([largest, -largest])))
    masses, losses = (np.concatenate(column) for column in zip(*kept, strict=True))
    found = masses > 0
    slack = rough + rough_base + 64 * U
    return Atoms(tuple((np.log(masses[found]) + slack).tolist()), tuple(losses[found].tolist()))


@lru_cache(maxsize=2)
def _edges(width: float) -> "Index":
    """Return 0, 1, ... and numbers up to 2^40 whose neighbors differ by `width`, relatively."""
    last = math.ceil(40 * math.log(2) / width)
    return np.insert(np.unique(np.floor(np.exp(width * np.arange(last + 1)))), 0, 0).astype(np.intp)


def _rounded_down(law: Binomial, more: int, width: float) -> list[tuple[float, int, int]]:
    """Return weight, lower bound and largest number of each block of the numbers + `more`."""
    numbers = law.first + more + np.arange(law.mass.size)
    edges = _edges(width)
    block = np.searchsorted(edges, numbers, side="right") - 1
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    weights = np.add.reduceat(law.mass, starts)
    lasts = np.append(numbers[starts[1:] - 1], numbers[-1])
    return list(zip(weights.tolist(), edges[block[starts]].tolist(), lasts.tolist(), strict=True))


_Parts = dict[int, tuple["Array", "Array", "Array"]]


def _parts(epsilon: float, reports: int, categories: int | None) -> tuple[_Parts, float, float]:
    """Return s, 1 - s and weights for each m, the weight that is not resolved, and its rounding."""
    e = math.exp(-epsilon)
    low = 1 - 16 * U
    if categories is None or categories == 2:
        clones = low * (e if categories is None else 2 * e / (1 + e))
        others = binomial(reports - 1, clones)
        blocks = _rounded_down(others, 1, _BLOCK)
        s, rest = np.array([math.tanh(epsilon / 2)]), np.array([2 * e / (1 + e)])
        two = {m: (s, rest, np.array([weight])) for weight, m, _ in blocks}
        return two, others.beyond, others.rough
    k = categories
    uniform = binomial(reports - 1, low * k * e / (1 + (k - 1) * e))
    lost, rough = uniform.beyond, 0.0
    found: dict[int, list[tuple[float, float, float]]] = {}
    growth = math.expm1(epsilon)
    for weight, total, _ in _rounded_down(uniform, 1, _BLOCKS):
        # of `total` reports, one of which is that of interest, m are 0 or 1
        both = binomial(total, 2 / k)
        lost += weight * both.beyond * k  # the factor below is at most k / 2
        rough = max(rough, both.rough)
        m = both.first + np.arange(both.mass.size)
        share = both.mass * (1 + 0.5 * growth * m / total) / (1 + growth / k)
        for part, least, most in _rounded_down(replace(both, mass=share), 0, _BLOCKS):
            if weight * part < _LEAST:
                lost += weight * part
                continue
            top = 0.5 * growth * most
            one = (top / (total + top), total / (total + top), weight * part)
            found.setdefault(least, []).append(one)
    parts = {least: _of_few(np.array(rows).T) for least, rows in found.items()}
    return parts, lost, uniform.rough + rough


def _of_few(columns: "Array") -> tuple["Array", "Array", "Array"]:
    """Return s, 1 - s and weights, with neighboring s rounded up to the largest of them."""
    order = np.argsort(-columns[0])
    s, rest, weight = columns[:, order]
    block = np.floor(np.log(s[0] / np.maximum(s, 1e-300)) / _BLOCKS) if s[0] > 0 else 0 * s
    starts = np.flatnonzero(np.diff(block, prepend=-1))
    return s[starts], rest[starts], np.add.reduceat(weight, starts)
