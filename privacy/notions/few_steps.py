"""The profile of two to four sampled releases with normal noise, by direct sums on a lattice.

If sampled records are rare, the tail of the loss is so much smaller than its center that the
contour integral has no digits left. All terms here are positive, so that tiny deltas are accurate.

The loss of one release is put on a lattice. A cell of the loss between lattice points l and l + h
with masses p under P and q under Q becomes masses at both points, with the sum p under P and q
under Q. The profile between the points is then a chord, which is an upper bound, since
E (1 - x e^-L)+ is convex in x ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar and Manurangsi
2022). A sum of losses at or above the true ones has a delta at or above the true one.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from privacy.losses.mixtures import AgainstNormal
from privacy.losses.quadrature import Array, Direction
from privacy.notions.loss_sums import LossSum
from privacy.numerics.rounding import ULP

MOST_RELEASES = 4
_FINE = 0.03  # lattice spacing times the saddle point; the relative error is near its square / 8
_DIGITS = 35.0  # log of the ratio to delta below which a mass is negligible
_MOST_CELLS, _MOST_CENTERS = 2**13, 64  # largest sides of a table
_SMALLEST = 1e-270  # products of smaller masses underflow
_ROUNDING = 1e-9  # relative, of the masses and their sum


def supports(total: LossSum) -> bool:
    """Return whether the sum has few losses, all of normal noise with few centers."""
    few = sum(count for _, count in total.parts) <= MOST_RELEASES and not total.mu_squared
    return few and all(
        isinstance(model, AgainstNormal) and model.centers()[0].size <= _MOST_CENTERS
        for model, _ in total.parts
    )


def log_delta(total: LossSum, epsilon: float) -> float:
    """Return an upper bound on log delta(epsilon), 0 if the lattice would be too large."""
    if epsilon >= total.supremum:
        return -math.inf
    try:
        saddle = total.saddle(epsilon, 1.0)
    except ArithmeticError:
        return 0.0
    step = 2.0 ** math.floor(math.log2(_FINE / (1 + saddle)))
    low = -math.ceil(20 / (saddle * step))
    mass, lost = np.ones(1), 0.0
    models: list[AgainstNormal] = [m for m, count in total.parts for _ in range(count)]  # type: ignore[misc]
    for model in models:
        high = _highest(model, total.direction, epsilon) / step
        if not high - low < _MOST_CELLS:
            return 0.0
        one, beyond = _lattice(model, total.direction, step, low, math.ceil(high))
        mass, lost = np.convolve(mass, one), lost + beyond + model.lost(total.direction)
    loss = step * (low * len(models) + np.arange(mass.size))
    # a smaller epsilon covers the rounding of the cells' ends
    gap = epsilon * (1 - 1e-13) - 1e-6 * step - loss
    far = gap < 0
    delta = float(mass[far] @ -np.expm1(gap[far])) + lost
    if not delta > _SMALLEST:
        return 0.0
    return min(0.0, math.log(delta) + 2 * _ROUNDING)


def _masses(model: AgainstNormal, ends: Array) -> tuple[Array, Array]:
    """Return the masses between increasing `ends`, rounded up, and bounds on their errors.

    Each has two rows: of the mixture, and of the standard normal.
    """
    place, weight = model.centers()
    mixture, off = _between(np.subtract.outer(ends, place))
    normal, other = _between(ends[:, None])
    mass = np.stack([mixture @ weight, normal[:, 0]])
    error = np.stack([off @ weight, other[:, 0]]) + 1e-13 * mass
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


def _highest(model: AgainstNormal, direction: Direction, epsilon: float) -> float:
    """Return a loss above `epsilon` beyond which the mass of P is negligible in delta(epsilon)."""
    sign = 1 if direction == "remove" else -1
    z = sign * np.linspace(0.0, 40.0, 2001)
    loss = sign * model.log_ratio(z)
    if direction == "add":
        tail = log_ndtr(z)
    else:
        place, weight = model.centers()
        with np.errstate(divide="ignore"):
            tail = np.log(np.exp(log_ndtr(-np.subtract.outer(z, place))) @ weight)
    at = int(np.searchsorted(loss, epsilon))
    if at == loss.size:
        return epsilon
    far = int((tail > tail[at] - _DIGITS).sum())
    return float(loss[min(far, loss.size - 1)])


@lru_cache(maxsize=8)
def _lattice(
    model: AgainstNormal, direction: Direction, step: float, low: int, high: int
) -> tuple[Array, float]:
    """Return the masses of P at the losses step * (low .. high), and the mass beyond."""
    loss = step * np.arange(low, high + 1.0)
    sign = 1 if direction == "remove" else -1
    ends = _where(model, sign * loss)
    if direction == "remove":
        (p, q), (_, off) = _masses(model, np.concatenate([[-np.inf], ends, [np.inf]]))
    else:
        both, errors = _masses(model, np.concatenate([[-np.inf], ends[::-1], [np.inf]]))
        (q, p), (off, _) = both[:, ::-1], errors[:, ::-1]
    between = p[1:-1]
    # the mass u at the upper end, rounded up: u e^-h + (p - u) = q e^l
    least_q = np.maximum(q - off, 0.0)[1:-1] * (np.exp(loss[:-1]) * (1 - 8 * ULP))
    upper = np.clip((between - least_q) / -math.expm1(-step), 0.0, between)
    mass = np.zeros(loss.size)
    mass[0] = p[0]
    mass[:-1] += between - upper
    mass[1:] += upper
    return mass, float(p[-1])


def _where(model: AgainstNormal, ratio: Array) -> Array:
    """Return the noise z at which the log ratio of the mixture to the normal is `ratio`."""
    low, high = np.full(ratio.size, -40.0), np.full(ratio.size, 40.0)
    for _ in range(52):
        middle = 0.5 * (low + high)
        above = model.log_ratio(middle) > ratio
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray(0.5 * (low + high))
