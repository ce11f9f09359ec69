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

    The nodes j are on the last axis, which k replaces. With psi(y) = e^y - 1 - y, weights that sum
    to 1 and a loss of mean 0, this is the characteristic function minus 1, with an error of a few
    ulp of (k step)^2 E |loss|^2.
    From k = b size + a, psi(x + y) = psi(x) + psi(y) + (e^x - 1) (e^y - 1) splits the table of
    count x nodes numbers into two of sqrt(count) x nodes and a matrix product. A long one is split
    again. |psi(i x)| <= x^2 / 2 and |e^(i x) - 1| <= x, so a split adds at most 2 ulp of (x + y)^2.
    """
    size = math.isqrt(count - 1) + 1
    split = size > _LONG
    part = math.isqrt(size - 1) + 1 if split else size
    size = part * part if split else size
    rows = -(-count // size)
    factors = np.array([1, part, size, size * part] if split else [1, size]) * step
    several = loss.shape[:-1]
    frequency = np.multiply.outer(factors, np.arange(part))[..., None]
    frequency = frequency.reshape(-1, *(1 for _ in several), part, 1)
    total = np.zeros((*several, rows, size), dtype=complex)
    width = max(_TABLE // (size * math.prod(several)), 1)
    most = max(_PRODUCT // (size * width), 1)
    for start in range(0, loss.shape[-1], width):
        w, x = (some[..., None, start : start + width] for some in (weight, loss))
        tables = zip(*_psi_and_growth(frequency, x), strict=True)
        (psi, low), (high_psi, high) = map(_summed, tables, tables) if split else tables
        column, low = w.swapaxes(-1, -2), low.swapaxes(-1, -2)
        total += high_psi[..., :rows, :] @ column
        total += (psi @ column).swapaxes(-1, -2)
        weighted = high[..., :rows, :] * w
        for row in range(0, rows, most):
            total[..., row : row + most, :] += weighted[..., row : row + most, :] @ low
    return total.reshape(*several, -1)[..., :count]


def _summed(one: tuple[Complex, Complex], other: tuple[Complex, Complex]) -> list[Complex]:
    """Return the tables of psi and growth at all sums of two frequencies."""
    (near, low), (far, high) = one, other
    above, below = (..., slice(None), None, slice(None)), (..., None, slice(None), slice(None))
    psi = high[above] * low[below]
    growth = psi + low[below]
    growth += high[above]
    psi += near[below]
    psi += far[above]
    shape = *low.shape[:-2], -1, low.shape[-1]
    return [table.reshape(shape) for table in (psi, growth)]


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


def log1p(x: Complex) -> Complex:
    """Return log(1 + x), relatively accurate near 0, which np.log1p is not for complex x."""
    real, imaginary = x.real, x.imag
    square = np.maximum(2 * real + real * real + imaginary * imaginary, -0.75)
    out = np.empty_like(x)
    out.real = 0.5 * np.log1p(square)
    if square.min() <= -0.75:
        far = np.log(np.maximum(np.hypot(1 + real, imaginary), 1e-300))
        out.real = np.where(square > -0.75, out.real, far)
    out.imag = np.arctan2(imaginary, 1 + real)
    return out
