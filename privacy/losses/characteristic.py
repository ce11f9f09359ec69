"""Characteristic function of a discrete loss on an even grid, without cancellation."""

import math

import numpy as np

from privacy.losses.quadrature import Array, Complex
from privacy.losses.quadrature import psi as real_psi

_TABLE = 7500  # entries of a table, small enough for the CPU cache
_LONG = 16  # rows of a table that is not split
_PRODUCT = 2**16  # products below this size stay on one BLAS thread, which is faster
# coefficients of (sin x - x) / x in powers of -x^2
_SINE = [1 / math.factorial(k) for k in range(17, 2, -2)]


def centered_characteristic(
    weight: Array | Complex, loss: Array | Complex, step: float, count: int
) -> Complex:
    """Return sum_j weight_j psi(i k step loss_j) for k = 0 .. count - 1, Im loss >= 0.

    With psi(y) = e^y - 1 - y, weights that sum to 1 and a loss of mean 0, this is the
    characteristic function minus 1, with an error of a few ulp of (k step)^2 E |loss|^2.

    From k = b size + a, psi(x + y) = psi(x) + psi(y) + (e^x - 1) (e^y - 1) splits the table of
    count x nodes numbers into two of sqrt(count) x nodes and a matrix product. Each of the two is
    split once more if it is long. |psi(i x)| <= x^2 / 2 and |e^(i x) - 1| <= x, so that a split
    adds 2 ulp of (x + y)^2 at most.
    """
    size = math.isqrt(count - 1) + 1
    split = size > _LONG
    part = math.isqrt(size - 1) + 1 if split else size
    size = part * part if split else size
    rows = -(-count // size)
    factors = np.array([1, part, size, size * part] if split else [1, size]) * step
    frequency = np.multiply.outer(factors, np.arange(part))[..., None]
    total = np.zeros((rows, size), dtype=complex)
    width = max(_TABLE // size, 1)
    some = max(_PRODUCT // (size * width), 1)
    for start in range(0, loss.size, width):
        w, x = weight[start : start + width], loss[start : start + width]
        tables = zip(*_psi_and_growth(frequency, x), strict=True)
        (psi, low), (high_psi, high) = map(_summed, tables, tables) if split else tables
        total += (high_psi[:rows] @ w)[:, None]
        total += psi @ w
        weighted = high[:rows] * w
        for row in range(0, rows, some):
            total[row : row + some] += weighted[row : row + some] @ low.T
    return total.ravel()[:count]


def _summed(one: tuple[Complex, Complex], other: tuple[Complex, Complex]) -> list[Complex]:
    """Return the tables of psi and growth at all sums of two frequencies."""
    (near, low), (far, high) = one, other
    psi = high[:, None] * low
    growth = psi + low
    growth += high[:, None]
    psi += near
    psi += far[:, None]
    return [table.reshape(-1, low.shape[1]) for table in (psi, growth)]


def _psi_and_growth(frequency: Array, loss: Array | Complex) -> tuple[Complex, Complex]:
    angle = frequency * loss.real
    half = np.sin(0.5 * angle)
    sine = np.sin(angle)
    minus_square = -angle * angle
    series = np.full_like(angle, _SINE[0])
    for coefficient in _SINE[1:]:
        series *= minus_square
        series += coefficient
    series *= minus_square
    series *= angle
    psi = np.empty(angle.shape, dtype=complex)
    growth = np.empty(angle.shape, dtype=complex)
    psi.real = -2 * half * half
    psi.imag = np.where(minus_square > -1, series, sine - angle)
    if not np.iscomplexobj(loss):
        growth.real, growth.imag = psi.real, sine
        return psi, growth
    fall = -frequency * loss.imag
    shrink = np.expm1(fall)
    # e^(a + i b) = e^a (cos b + i sin b), from differences to 1
    psi.imag += shrink * sine
    growth.imag = sine + shrink * sine
    psi.real += shrink * psi.real
    growth.real = psi.real + shrink
    psi.real += real_psi(fall)
    return psi, growth
