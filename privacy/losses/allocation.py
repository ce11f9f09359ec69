"""The dominating pair of a random allocation; docs/theory/random-allocation.md has its bounds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

import numpy as np

from privacy.losses.lattice import GridLoss, from_atoms
from privacy.losses.profiles import Profile
from privacy.losses.quadrature import Array, Direction, legendre
from privacy.numerics.normal import log_tail
from privacy.numerics.rounding import ULP, U, exp_up, round_up

_CELLS = 2048  # cells of the grid for an upper bound
_LABELS = 1024  # labels of a factor for a lower bound
_FINE = 16  # refinement of the last grid of labels, relative to those of its halves
_LOW, _HIGH = -10.0, 11.5  # ends of the grid in z under Q, and beyond mu
_OMITTED = 1e-30  # mass of a tail that is cut off
_NODES, _WEIGHTS = legendre(8)
_QUADRATURE = 1e-12  # relative error of the mass of a cell, with its rounding


@dataclass(frozen=True)
class Ratios:
    """Masses under Q, rounded up, of a mean-preserving spread of dP/dQ on exp(k spacing)."""

    spacing: float  # distance of neighboring losses
    first: int  # index of the first value
    mass: Array  # upper bounds on the probabilities under Q
    empty: float  # upper bound on the probability under Q of a ratio of 0
    lost: float  # upper bound on the probability under P of an infinite ratio

    @property
    def losses(self) -> Array:
        """The log ratios."""
        return np.asarray(self.spacing * np.arange(self.first, self.first + self.mass.size))

    def refined(self) -> "Ratios":
        """Return the same distribution on a grid of half the spacing."""
        mass = np.zeros(2 * self.mass.size - 1)
        mass[::2] = self.mass
        return Ratios(self.spacing / 2, 2 * self.first, mass, self.empty, self.lost)


@dataclass(frozen=True)
class Labels:
    """The distribution of a label k under Q and P, rare ones omitted; log ratio near k spacing."""

    spacing: float
    first: int
    without: Array  # probabilities under Q
    present: Array  # probabilities under P
    error: float  # relative error bound on each of them

    def refined(self) -> "Labels":
        """Return the same labels with doubled numbers."""
        both = np.zeros((2, 2 * self.without.size - 1))
        both[:, ::2] = self.without, self.present
        return Labels(self.spacing / 2, 2 * self.first, both[0], both[1], self.error)


_Grid = TypeVar("_Grid", Ratios, Labels)


class _Run(NamedTuple):
    """All pairs of a lower and a higher index at one distance, and their mean.

    The mean of exp(a spacing) and exp((a + d) spacing) is exp((a + place) spacing).
    """

    lower: slice
    higher: slice
    start: int
    place: float


def _cells(mu: float, cells: int) -> tuple[float, int, Array, Array, Array]:
    """Return the spacing and the first index of a factor's grid, and the nodes of its cells.

    Of each node: the distance from the cell's lower end, the weight under Q, and z.
    """
    spacing = mu * (_HIGH + mu - _LOW) / cells
    first = math.floor((_LOW * mu - 0.5 * mu * mu) / spacing)
    within = 0.5 * (_NODES + 1)
    z = (np.arange(first, first + cells)[:, None] + within) * (spacing / mu) + 0.5 * mu
    density = np.exp(-0.5 * z * z) * (spacing / mu / math.sqrt(8 * math.pi) * _WEIGHTS)
    return spacing, first, within * spacing, density, z


def _factor(mu: float, cells: int) -> Ratios:
    """Return the distribution of a factor exp(mu z - mu^2 / 2), spread to the ends of each cell."""
    spacing, first, above, density, _ = _cells(mu, cells)
    upper = np.expm1(above) / math.expm1(spacing)
    mass = np.zeros(cells + 1)
    mass[1:] += (density * upper).sum(axis=1)
    mass[:-1] += (density * (1 - upper)).sum(axis=1)
    mass *= 1 + _QUADRATURE
    low, high = (k * (spacing / mu) + 0.5 * mu for k in (first, first + cells))
    # each tail moves to two values: 0 and the first one, or the last one and infinity
    mass[0] += exp_up(log_tail(mu - low), 1e-12) * math.exp(min(-first * spacing, 700.0))
    mass[-1] += exp_up(log_tail(high), 1e-12)
    empty, lost = exp_up(log_tail(-low), 1e-12), exp_up(log_tail(high - mu), 1e-12)
    return Ratios(spacing, first, mass, empty, lost)


def _runs(
    first: int, size: int, other: int, other_size: int, spacing: float, share: float, least: int
) -> Iterator[_Run]:
    """Yield index pairs at distances >= `least`, lower one first; `share` weighs the higher one."""
    start = max(least, other - (first + size - 1))
    distance = np.arange(start, other + other_size - first)
    apart = distance * spacing
    # the first form is accurate near 0, the second one cannot overflow
    near = np.log1p(share * np.expm1(np.minimum(apart, 1.0)))
    far = apart + np.log(share + (1 - share) * np.exp(-apart))
    places = np.where(apart < 1, near, far) / spacing
    for d, place in zip(distance.tolist(), places.tolist(), strict=True):
        a = max(first, other - d)
        b = min(first + size, other + other_size - d)
        if a < b:
            yield _Run(slice(a - first, b - first), slice(a + d - other, b + d - other), a, place)


def _aligned(one: _Grid, other: _Grid) -> tuple[_Grid, _Grid]:
    while one.spacing > 1.5 * other.spacing:
        one = one.refined()
    while other.spacing > 1.5 * one.spacing:
        other = other.refined()
    return one, other


def _mean(one: Ratios, other: Ratios, share: float) -> Ratios:
    """Return the distribution of (1 - share) X + share Y, X, Y independent, spread to the grid."""
    one, other = _aligned(one, other)
    spacing, first = one.spacing, min(one.first, other.first)
    last = max(one.first + one.mass.size, other.first + other.mass.size)
    found = np.zeros(last - first + 2)
    step = math.expm1(spacing)

    def spread(low: Ratios, high: Ratios, weight: float, least: int, times: float) -> None:
        x, y = low.mass, high.mass
        for run in _runs(low.first, x.size, high.first, y.size, spacing, weight, least):
            below = math.floor(run.place)
            up = math.expm1((run.place - below) * spacing) / step
            # both weights are rounded up, by a bound on the error of `place`
            slack = 64 * U * (run.place + 1)
            product = x[run.lower] * y[run.higher]
            at = run.start + below - first
            found[at : at + product.size] += (times * (1 - up + slack)) * product
            found[at + 1 : at + 1 + product.size] += (times * (up + slack)) * product

    if one is other:
        found[: one.mass.size] += one.mass**2
        spread(one, one, 0.5, 1, 2.0)
    else:
        spread(one, other, share, 0, 1.0)
        spread(other, one, 1 - share, 1, 1.0)
    # the mean of 0 and v is spread to 0 and v
    for value, weight, rest in ((one, 1 - share, other), (other, share, one)):
        at = value.first - first
        found[at : at + value.mass.size] += (weight * rest.empty) * value.mass
    empty = (1 - share) * one.empty + share * other.empty + one.empty * other.empty
    lost = (1 - share) * one.lost + share * other.lost
    found *= 1 + ULP * (found.size + 8)
    return _trimmed(Ratios(spacing, first, found, round_up(empty, 8 * U), round_up(lost, 8 * U)))


def _trimmed(law: Ratios) -> Ratios:
    """Return the distribution without its negligible ends, on a finer grid if it is short."""
    present = law.mass * np.exp(np.minimum(law.losses, 700.0))
    above = np.cumsum(present[::-1])[::-1]
    low = int((np.cumsum(law.mass) <= _OMITTED).sum())
    high = int((above > _OMITTED).sum())
    mass = law.mass[low:high].copy()
    # the ends move to 0 and the first value, and to the last value and infinity
    mass[0] += float(law.mass[:low].sum()) * (1 + 1e-9)
    mass[-1] += float(law.mass[high:].sum()) * (1 + 1e-9)
    empty = law.empty + float(law.mass[:low].sum()) * (1 + 1e-9)
    lost = law.lost + (float(above[high]) * (1 + 1e-9) if high < above.size else 0.0)
    trimmed = Ratios(law.spacing, law.first + low, mass, round_up(empty), round_up(lost))
    while 2 * trimmed.mass.size <= _CELLS:
        trimmed = trimmed.refined()
    return trimmed


@lru_cache(maxsize=256)
def ratios(mu: float, steps: int, cells: int = _CELLS) -> Ratios:
    """Return the distribution of dP/dQ for one allocation to `steps` steps, an upper bound."""
    if steps == 1:
        return _factor(mu, cells)
    half = ratios(mu, steps // 2, cells)
    rest = ratios(mu, steps - steps // 2, cells)
    return _mean(half, rest, (steps - steps // 2) / steps)


def _labeled_factor(mu: float, cells: int) -> Labels:
    """Return the cells of the grid as the labels of one factor."""
    spacing, first, _, density, z = _cells(mu, cells)
    shifted = density * np.exp(mu * z - 0.5 * mu * mu)
    return Labels(spacing, first, density.sum(axis=1), shifted.sum(axis=1), _QUADRATURE)


def _labeled_mean(one: Labels, other: Labels, share: float, fine: int) -> Labels:
    """Return the labels of the mean of two sums, on a grid that is `fine` times as fine."""
    one, other = _aligned(one, other)
    spacing, first = one.spacing, min(one.first, other.first)
    last = max(one.first + one.without.size, other.first + other.without.size)
    found = np.zeros((2, fine * (last - first + 2)))

    def add(low: Labels, high: Labels, weight: float, least: int, times: float) -> None:
        x, y = low.without, high.without
        for run in _runs(low.first, x.size, high.first, y.size, spacing, weight, least):
            a, b = times * x[run.lower], y[run.higher]
            at = fine * (run.start - first) + round(fine * run.place)
            into = found[:, at : at + fine * a.size : fine]
            into[0] += a * b
            # under P the record is in either sum, in proportion to its number of steps
            into[1] += ((1 - weight) * times) * low.present[run.lower] * b
            into[1] += weight * a * high.present[run.higher]

    if one is other:
        add(one, one, 0.5, 1, 2.0)
        equal = found[:, : fine * one.without.size : fine]
        equal += one.without * np.array([one.without, one.present])
    else:
        add(one, other, share, 0, 1.0)
        add(other, one, 1 - share, 1, 1.0)
    error = one.error + other.error + ULP * (2 * found.shape[1] + 16)
    kept = np.flatnonzero(found.sum(axis=0) > _OMITTED)
    low, high = int(kept[0]), int(kept[-1]) + 1
    both = found[:, low:high].copy()
    return Labels(spacing / fine, fine * first + low, both[0], both[1], error)


@lru_cache(maxsize=256)
def labels(mu: float, steps: int, cells: int = _LABELS, fine: int = _FINE) -> Labels:
    """Return the distributions of a label of the output, for a lower bound."""
    if steps == 1:
        return _labeled_factor(mu, cells)
    rest = steps - steps // 2
    one, other = (labels(mu, each, cells, 1) for each in (steps // 2, rest))
    found = _labeled_mean(one, other, rest / steps, fine)
    while fine == 1 and 2 * found.without.size <= cells:
        found = found.refined()
    return found


@dataclass(frozen=True)
class AllocationProfile(Profile):
    """The profile of one allocation, from `ratios`, in the worse direction."""

    mu: float
    steps: int

    def log_delta(self, epsilon: float) -> float:
        law = ratios(self.mu, self.steps)
        delta = max(
            _above(law.mass * np.exp(law.losses), law.losses, epsilon) + law.lost,
            _above(law.mass, -law.losses, epsilon) + law.empty,
        )
        if delta <= 0:
            return -math.inf
        return min(0.0, math.log(delta) + ULP * (law.mass.size + 64 * (1 + abs(math.log(delta)))))


def _above(mass: Array, loss: Array, epsilon: float) -> float:
    """Return sum mass (1 - e^(epsilon - loss))+, with the rounding of the losses added."""
    some = loss > epsilon
    gap = epsilon - loss[some]
    return float(mass[some] @ -np.expm1(gap - 8 * U * (epsilon + np.abs(loss[some]))))


def on_grid(mu: float, steps: int, direction: Direction, step: float, *, upper: bool) -> GridLoss:
    """Return an upper or a lower bound of one allocation on a grid of losses."""
    if upper:
        law = ratios(mu, steps)
        mass, loss, infinite = law.mass * np.exp(law.losses), law.losses, law.lost
        if direction == "add":
            mass, loss, infinite = law.mass[::-1], -loss[::-1], law.empty
        start, rough = float(loss[0]), 8 * U * (1 + float(np.abs(loss).max()))
        grid = from_atoms(mass, loss, step, start, upper=True, infinite=infinite)
        return replace(grid, relative=grid.relative + rough)
    found = labels(mu, steps)
    mass, other = found.present, found.without
    if direction == "add":
        mass, other = other[::-1], mass[::-1]
    some = (mass > 0) & (other > 0)
    mass, other = mass[some], other[some]
    loss = np.log(mass / other)
    grid = from_atoms(mass, loss, step, float(loss.min()), upper=False)
    relative, absolute = grid.relative + found.error, grid.absolute + 2 * found.error
    return replace(grid, relative=relative, absolute=absolute)
