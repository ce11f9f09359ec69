"""Dominating pairs on a grid of losses: bounds in each direction (docs/theory/pld.md)."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from privacy.losses.densities import log_mixture, refuse_beyond
from privacy.losses.discrete import Atoms, DiscretePair
from privacy.losses.gaussian import GaussianPair
from privacy.losses.groups import GroupSampledGaussian
from privacy.losses.laplace import LaplacePair
from privacy.losses.lattice import MOST_CELLS, GridLoss, from_atoms, from_cells, together
from privacy.losses.mixtures import AgainstNormal, SampledGaussian
from privacy.losses.pair import LossPair
from privacy.losses.quadrature import Array, Direction, Index, legendre
from privacy.losses.trapezoid import NormalMixtures
from privacy.numerics.rounding import U

_WIDEST = 0.05  # largest width of a panel, in standard deviations or scales
_TURN = 0.3  # largest width of a panel times the slope of the log density of a component
_WIDER = 4  # width of a panel without the end of a cell, relative to the default one
# numbers of nodes of a panel, and its width times slope up to which their error is about 1e-12
_NODES = ((2, 0.005), (3, 0.075), (6, 1.2), (8, math.inf))
_MOST_PANELS = 2**16  # most panels of the default width
_LARGEST = 1e5  # largest distance of two noises, in standard deviations or scales
_LONGEST = 10_000  # largest number of steps of the own lattice of a discrete pair
_LOOSEST = 1e-6  # largest relative error of the nodes of a panel
_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Noise:
    """One direction of a pair whose loss is monotone in a real noise z."""

    loss: Callable[[Array], Array]  # the loss at z
    log_density: Callable[[Array, Array], Array]  # log density of P, from z and its loss
    low: float  # the range of z that is divided
    high: float
    width: float  # largest width of a panel
    slope: float  # bound on that of the log density of every component of P and Q in the range
    atoms: tuple[tuple[float, float], ...] = ()  # each a probability under P and a loss
    beyond: float = 0.0  # upper bound on the probability under P of z < low, and of z > high
    supremum: float = math.inf  # the largest loss
    inverse: Callable[[Array], Array] | None = None  # the z at a loss, if in closed form


def supports(pair: LossPair) -> bool:
    """Return whether a pair has its own `on_grid`, is discrete, or has a loss monotone in noise."""
    if pair.gridded:
        return True
    if isinstance(pair, LaplacePair):
        return pair.distance < _LARGEST
    if isinstance(pair, GaussianPair):
        return pair.mu < _LARGEST
    if isinstance(pair, DiscretePair):
        return pair.claim[0] < _LARGEST
    return isinstance(pair.model, NormalMixtures)


def on_grid(
    pair: LossPair,
    direction: Direction,
    step: float,
    log_tail: float,
    floor: float,
    *,
    upper: bool,
    origin: float | None = None,
    known: dict[LossPair, Callable[..., GridLoss]] | None = None,
) -> GridLoss:
    """Return an upper or a lower bound of a supported pair.

    A probability exp(log_tail) under P may be moved to infinity (or omitted), and losses below
    `floor` raised to it (or omitted). The grid has the loss `origin`, by default the largest atom.
    `known` keeps the nodes of each pair for its other bound, with the other arguments unchanged.
    """
    if pair.gridded:
        return pair.on_grid(direction, step, upper=upper)
    if isinstance(pair, DiscretePair):
        atoms, infinite = pair.directed(direction), pair.infinite(direction)
        return _discrete(atoms, infinite, step, origin, upper=upper)
    known = {} if known is None else known
    if pair not in known:
        known[pair] = _continuous(_noise(pair, direction, log_tail), step, floor, origin)
    return known[pair](upper=upper)


def spacing(pair: LossPair, direction: Direction) -> float:
    """Return a distance whose divisors are good steps, since they put atoms on the grid; or 0."""
    if isinstance(pair, DiscretePair):
        lattice = own_lattice(pair, direction)
        return 0.0 if lattice is None else lattice[0].step
    if isinstance(pair, LaplacePair):
        (_, low), (_, high) = _laplace(pair, direction).atoms
        return abs(high - low)
    return 0.0


def own_lattice(pair: LossPair, direction: Direction) -> tuple[GridLoss, GridLoss] | None:
    """Return an upper and a lower bound on a lattice that holds all losses of a discrete pair.

    None if there is none. The sum of equal pairs is exact on their own lattice.
    """
    if not isinstance(pair, DiscretePair):
        return None
    atoms = pair.directed(direction)
    loss = np.array(atoms.loss)
    gaps = np.diff(np.unique(loss))
    step = float(gaps[gaps > 1e-9 * gaps.max()].min()) if gaps.size else 0.0
    if not step > 0:
        return None
    largest = float(loss.max())
    place = (loss - largest) / step
    off = float(np.abs(place - np.round(place)).max()) * step
    if off > 1e-13 * float(np.abs(loss).max()) or -place.min() > _LONGEST:
        return None
    index = np.round(place - place.min()).astype(np.intp)
    log_p = np.array(atoms.log_probability)
    infinite = pair.infinite(direction)
    mass = np.bincount(index, np.exp(log_p) * (1 - infinite)).astype(float)
    rough = 64 * U * (1 + float(np.abs(log_p).max()))
    blur = off + 16 * U * float(np.abs(loss).max())
    start = largest - step * (mass.size - 1)
    upper, lower = (GridLoss(step, start, mass, infinite, up, rough, blur) for up in (True, False))
    return upper, lower


def _discrete(
    atoms: Atoms, infinite: float, step: float, origin: float | None, *, upper: bool
) -> GridLoss:
    loss = np.array(atoms.loss)
    mass = np.exp(np.array(atoms.log_probability)) * (1 - infinite)
    start = float(loss.max()) if origin is None else origin
    grid = from_atoms(mass, loss, step, start, upper=upper, infinite=infinite)
    rough = 64 * U * (1 + float(np.abs(np.array(atoms.log_probability)).max()))
    return replace(grid, relative=grid.relative + rough)


def _noise(pair: LossPair, direction: Direction, log_tail: float) -> Noise:
    if isinstance(pair, LaplacePair):
        return _laplace(pair, direction)
    if isinstance(pair, GaussianPair):
        return _normal(SampledGaussian(1.0, 1 / pair.mu), direction, log_tail)
    model = pair.model
    assert isinstance(model, NormalMixtures)  # `supports` refused the others
    if isinstance(model, GroupSampledGaussian):
        model = model.likely()
    return _normal(model, direction, log_tail)


def _normal(model: NormalMixtures, direction: Direction, log_tail: float) -> Noise:
    """Return mixtures of standard normals; P(|z - center| > x) <= exp(-x^2 / 2)."""
    shift = model.shift
    span = shift * (model.most if isinstance(model, GroupSampledGaussian) else 1)
    away = math.sqrt(-2 * min(log_tail, -40.0))
    rising = direction == "remove" or model._side(direction) > 0
    low, high = -away, away + (span if rising else 0.0)
    beyond = math.exp(-0.5 * away * away) * (1 + 1e-12) + model.lost(direction)
    slope = max(-low, high) + span
    refuse_beyond(MOST_CELLS, slope)
    width = min(_WIDEST / max(1.0, shift), _TURN / slope)
    side = 1 if direction == "remove" else -1

    def loss(z: Array) -> Array:
        if isinstance(model, AgainstNormal):
            return side * model.log_ratio(z)
        return model._log_densities(direction, z)[1]

    def log_density(z: Array, loss: Array) -> Array:
        if isinstance(model, AgainstNormal):  # the normal density, times the ratio
            return -0.5 * z * z - _LOG_SQRT_2PI + (loss if side > 0 else 0.0)
        return model._log_densities(direction, z)[0] - _LOG_SQRT_2PI

    def inverse(loss: Array) -> Array:
        return _log_excess(side * loss, model.sampling_probability) / shift + 0.5 * shift

    known = inverse if isinstance(model, SampledGaussian) else None
    supremum = model.supremum(direction)
    return Noise(loss, log_density, low, high, width, slope, (), beyond, supremum, known)


def _log_excess(loss: Array, q: float) -> Array:
    """Return y with log(1 - q + q e^y) = loss, which is only used to place panels."""
    if q == 1:
        return loss
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        near = np.log(np.maximum((np.expm1(np.minimum(loss, 700.0)) + q) / q, 1e-300))
    return np.asarray(np.where(loss < 500, near, loss - math.log(q)))


def _laplace(pair: LaplacePair, direction: Direction) -> Noise:
    """Return Laplace noise of scale 1: two atoms, and a density for noise between 0 and d."""
    d, q = pair.distance, pair.q
    side = 1 if direction == "remove" else -1

    def loss(z: Array) -> Array:
        return side * log_mixture(2 * z - d, q)

    def log_density(z: Array, loss: Array) -> Array:
        return (loss if side > 0 else 0.0) - z - math.log(2)

    def inverse(loss: Array) -> Array:
        return 0.5 * (_log_excess(side * loss, q) + d)

    ends = log_mixture(np.array([-d, d]), q)
    log_mass = np.array([0.0, -d]) - math.log(2)
    mass = np.exp(log_mass + ends if side > 0 else log_mass)
    atoms = tuple(zip(mass.tolist(), (side * ends).tolist(), strict=True))
    # any bound >= 1 on the slope holds; this one gives the node counts an error of about 1e-12
    return Noise(loss, log_density, 0.0, d, _WIDEST, 6.0, atoms, inverse=inverse)


def _continuous(
    noise: Noise, step: float, floor: float, origin: float | None
) -> Callable[..., GridLoss]:
    """Put a density and its atoms on one grid; the result gives its upper or its lower bound."""
    ends = noise.loss(np.array([noise.low, noise.high]))
    rising = bool(ends[1] > ends[0])
    start = max((loss for _, loss in noise.atoms), default=0.0) if origin is None else origin
    bottom = max(float(ends.min()), min(floor, float(ends.max())))
    first = math.floor((bottom - start) / step * (1 + 4 * U)) - 1
    start += first * step
    edges, index = _edges(noise, start, step, rising=rising)
    log_p, quadrature, parts, least = 0.0, 0.0, [], 0.0
    width = np.diff(edges)
    for count, most in _NODES:
        some = (width * noise.slope > least) & (width * noise.slope <= most)
        least = most
        if not some.any():
            continue
        quadrature = max(quadrature, _quadrature_error(count, width[some].max(), noise.slope))
        weight, loss, depth = _panels(noise, edges[:-1][some], edges[1:][some], count)
        log_p = max(log_p, depth)
        parts.append((weight, loss, index[some]))
    refuse_beyond(1, quadrature / _LOOSEST)
    relative = quadrature + 16 * U * (8 + log_p)
    # masses under P and Q off by `quadrature` change the log of their ratio by twice as much
    cells = from_cells(parts, step, start, relative, 2 * quadrature)

    def bound(*, upper: bool) -> GridLoss:
        beyond = noise.beyond if upper else 0.0
        finite, infinite = (beyond, 0.0) if noise.supremum < math.inf else (0.0, beyond)
        extra = [*noise.atoms, (beyond, float(ends.min())), (finite, noise.supremum)]
        extra = [(mass, loss) for mass, loss in extra if mass > 0 and (upper or loss >= bottom)]
        grids = [cells[upper]]
        if extra:
            mass, place = np.array(extra).T
            place = np.maximum(place, bottom)
            grids.append(from_atoms(mass, place, step, start, upper=upper))
        return replace(together(grids), infinite=infinite)

    return bound


def _edges(noise: Noise, start: float, step: float, *, rising: bool) -> tuple[Array, Index]:
    """Return increasing ends of panels, none of which crosses a cell, and the cell of each.

    Panels at losses below `start` are not divided by cells and have the cell -1.
    """
    span = noise.high - noise.low
    count = _WIDER * math.ceil(min(span / noise.width, _MOST_PANELS) / _WIDER)
    z = np.linspace(noise.low, noise.high, count + 1)
    place = (noise.loss(z) - start) / step
    if not rising:
        place = -place
    lowest, highest = math.ceil(float(place[0])), math.floor(float(place[-1]))
    lowest, highest = (max(lowest, 0), highest) if rising else (lowest, min(highest, 0))
    refuse_beyond(MOST_CELLS, highest - lowest)
    level = np.arange(lowest, highest + 1.0)
    crossing = _crossings(noise, z, place, level, start, step if rising else -step)
    edges = np.concatenate([z[::_WIDER], crossing])
    edges.sort()
    edges = edges[np.append(True, np.diff(edges) > 0)]
    middle = 0.5 * (edges[1:] + edges[:-1])
    # the number of crossings left of the middle counts the cells from the first one
    passed = np.searchsorted(crossing, middle)
    cell = lowest - 1 + passed if rising else -lowest - passed
    return edges, np.maximum(cell, -1).astype(np.intp)


def _crossings(
    noise: Noise, z: Array, place: Array, level: Array, start: float, step: float
) -> Array:
    """Return where the loss is start + level step, from its inverse or by the secant method."""
    if not level.size:
        return level
    place = np.maximum.accumulate(place)
    interval = np.clip(np.searchsorted(place, level, side="right") - 1, 0, z.size - 2)
    left, right = z[interval], z[interval + 1]
    if noise.inverse is not None:
        newer = np.clip(noise.inverse(start + level * step), left, right)
        return np.asarray(np.maximum.accumulate(newer))
    rise = np.maximum(place[interval + 1] - place[interval], 1e-300)
    share = np.clip((level - place[interval]) / rise, 0.0, 1.0)
    older, f_older = left, place[interval] - level
    newer = left + share * (right - left)
    for _ in range(3):
        f_newer = (noise.loss(newer) - start) / step - level
        gap = f_newer - f_older
        with np.errstate(divide="ignore", invalid="ignore"):
            move = np.nan_to_num(f_newer * (newer - older) / gap, nan=0.0, posinf=0.0, neginf=0.0)
        older, f_older = newer, f_newer
        newer = np.clip(newer - move, left, right)
    return np.asarray(np.maximum.accumulate(newer))


def _panels(noise: Noise, low: Array, high: Array, count: int) -> tuple[Array, Array, float]:
    """Return weights and losses at Gauss-Legendre nodes of each panel, and the largest |log p|."""
    x, weight = legendre(count)
    half = 0.5 * (high - low)[:, None]
    z = (low[:, None] + half * (1 + x)).ravel()
    loss = noise.loss(z)
    log_p = noise.log_density(z, loss)
    depth = float(np.abs(log_p).max())
    return half * weight * np.exp(log_p).reshape(half.size, count), loss.reshape(-1, count), depth


def _quadrature_error(count: int, width: float, slope: float) -> float:
    """Return a bound on the relative error of Gauss-Legendre nodes on a panel.

    On a circle of radius r a density grows by at most exp(slope r + r^2 / 2), which bounds its
    2 count-th derivative (Cauchy). On the panel it falls by at most exp(width slope).
    """
    order = 2 * count
    radius = min(order / slope, 1.0)
    exponent = slope * (radius + width) + 0.5 * radius * radius
    exponent += order * math.log(width / radius)
    exponent += 4 * math.lgamma(count + 1) - 2 * math.lgamma(order + 1) - math.log(order + 1)
    return math.exp(min(exponent, 700.0)) * (1 + 1e-9)
