"""Sums of weights times powers of unit numbers: docs/theory/contour.md, "Products of floats"."""

import math

import numpy as np
from flint import acb, acb_mat, arb, ctx

from privacy.certification._coverage import Unproven
from privacy.certification._panels import Array

_BLOCK = 4096
_UNIT = 2.0**20
_FLOAT_BITS = 128  # largest precision at which floats are used
_SPLIT = 2.0**27 + 1
_MOST_STEPS = 1000
_FLOAT_DIGITS = 53.0  # nats; floats reach about 52
_FEW = 50_000  # products below which floats are not faster


def sums(weights: list[arb], turns: list[acb], count: int, digits: float) -> list[acb]:
    """Return sum_j weights_j turns_j^n for n < count, weights >= 0, |turns| = 1.

    `digits` are the nats of accuracy relative to the sum of weights that should be reached.
    """
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    few = len(turns) * count <= _FEW
    if few or digits > _FLOAT_DIGITS or ctx.prec > _FLOAT_BITS or rows > _MOST_STEPS:
        return _ball_sums(weights, turns, rows, columns)[:count]
    return _float_sums(weights, turns, rows, columns)[:count]


def _ball_sums(weights: list[arb], turns: list[acb], rows: int, columns: int) -> list[acb]:
    product = acb_mat(columns, rows)
    for start in range(0, len(turns), _BLOCK):
        part = slice(start, start + _BLOCK)
        low = _powers([acb(1)] * len(turns[part]), turns[part], rows)
        jump = [a * b for a, b in zip(low[-1], turns[part], strict=True)]
        high = _powers([acb(weight) for weight in weights[part]], jump, columns)
        product += acb_mat(high) * acb_mat(low).transpose()
    return product.entries()


def _powers(first: list[acb], factor: list[acb], count: int) -> list[list[acb]]:
    rows = [first]
    for _ in range(count - 1):
        rows.append([a * b for a, b in zip(rows[-1], factor, strict=True)])
    return rows


def _float_sums(weights: list[arb], turns: list[acb], rows: int, columns: int) -> list[acb]:
    scale = 2.0 ** math.frexp(max(float(weight) for weight in weights) * (1 + 2.0**-40))[1]
    error = float(sum((weight.rad() for weight in weights), arb(0)) / scale)
    total = [acb(0)] * (rows * columns)
    for start in range(0, len(turns), _BLOCK):
        part = slice(start, start + _BLOCK)
        turn = _pairs(turns[part])
        jump = _pairs([each**rows for each in turns[part]])
        first = _pairs([acb(weight.mid() / scale) for weight in weights[part]])
        one = np.zeros_like(turn)
        one[0, 0] = 1.0
        a = _thirds(_float_powers(first, jump, columns))
        b = _thirds(_float_powers(one, turn, rows))
        large, small, tiny = (float(np.abs(x).sum(axis=(0, 2)).max()) for x in a)
        off = 2.0**-52 * turn.size * (2.0**-40 * large + 2.0**-20 * small + 2 * tiny)
        error += off + 2.0**-78 * (large + 1) + 2.0**-85 * turn.size  # powers, rounded parts
        b_1, b_2, b_3 = (np.concatenate([*x], axis=1).T for x in b)
        for sign, way in ((-1.0, acb(1)), (1.0, acb(0, 1))):
            # the real part of the product, then the imaginary one
            both = (np.concatenate([x[0], -x[1]] if sign < 0 else [x[1], x[0]], axis=1) for x in a)
            a_1, a_2, a_3 = both
            high, low = a_1 @ b_1, a_1 @ b_2 + a_2 @ b_1
            rest = a_1 @ b_3 + a_2 @ (b_2 + b_3) + a_3 @ (b_1 + (b_2 + b_3))
            found = (x.ravel().tolist() for x in (high, low, rest))
            total = [
                each + (arb(x) + y + z) * way for each, x, y, z in zip(total, *found, strict=True)
            ]
    ball = acb(arb(0, error), arb(0, error))
    return [scale * (each + ball) for each in total]


def _pairs(values: list[acb]) -> Array:
    """Return the high and the low parts, each with a row of real and one of imaginary parts."""
    parts = [x for value in values for x in (value.real, value.imag)]
    high = [*map(float, parts)]
    rest = [*map(arb.__sub__, parts, high)]
    if not sum(rest, arb(0)).rad() < 2.0**-92:
        raise Unproven("the powers in the contour integral are not accurate enough")
    both = np.array([high, [*map(float, rest)]])
    return both.reshape(2, -1, 2).transpose(0, 2, 1).copy()


def _float_powers(first: Array, factor: Array, count: int) -> Array:
    """Return first * factor^k, k < count, with the axes of `_pairs` and k before the last one."""
    found = np.empty((2, 2, count, first.shape[2]))
    found[:, :, 0] = high, low = first
    real, imaginary = factor[:, 0], factor[:, 1]
    # x times the first pair plus y times the second one
    pairs = np.array([[real, imaginary], [-imaginary, real]]).transpose(2, 0, 1, 3)
    other, other_low = pairs
    p, q = _halves(other)
    for k in range(1, count):
        r, s = (x[:, None] for x in _halves(high))
        product = high[:, None] * other
        off = ((p * r - product) + p * s + q * r) + q * s
        off += high[:, None] * other_low + low[:, None] * other
        total, low = _two_sum(product[0], product[1])
        low += off[0] + off[1]
        high = total + low
        low = low - (high - total)
        found[0, :, k], found[1, :, k] = high, low
    return found


def _thirds(powers: Array) -> tuple[Array, Array, Array]:
    """Return multiples of 2^-20, multiples of 2^-40, and the rest."""
    high, low = powers
    one = np.rint(high * _UNIT) / _UNIT
    rest = high - one
    two = np.rint(rest * _UNIT**2) / _UNIT**2
    return one, two, (rest - two) + low


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """Return the rounded sum and its error (Knuth 1969)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _halves(x: Array) -> tuple[Array, Array]:
    """Return numbers of 26 bits with the sum x (Dekker 1971)."""
    high = x * _SPLIT
    high = high - (high - x)
    return high, x - high
