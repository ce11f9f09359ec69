"""Sums of weights times powers of unit numbers, by matrix products of floats, enclosed in balls.

sum_j w_j u_j^n, n = r + rows * k, is entry (k, r) of the product of A_kj = w_j u_j^(rows k) and
B_jr = u_j^r. Powers are pairs of floats, high + low (Dekker 1971). One complex step has a relative
error below 2^-98: it has 4 products and 2 sums, each with an error below 8 * 2^-106. 1,000 steps
from numbers with an error of 2^-92 thus have one below 2^-80.

With w <= 1, A = A_1 + A_2 and B = B_1 + B_2, where A_1 and B_1 are multiples of 2^-21. A sum of
1,024 products of their entries is a multiple of 2^-42 below 2^10, and thus exact in floats.
A_1 B_2 + A_2 B is computed in floats, where |A_2| and |B_2| are at most 2^-22. In any order of
summation, a sum of m products has an error below 2 m 2^-53 times the sum of moduli (Higham 2002,
Section 3.1).
"""

import math

import numpy as np
from flint import acb, acb_mat, arb, ctx

from privacy.certification._coverage import Unproven
from privacy.certification._panels import Array

_BLOCK = 1024
_UNIT = 2.0**21
_FLOAT_BITS = 128  # largest precision at which floats are used
_SPLIT = 2.0**27 + 1
_MOST_STEPS = 1000
_FLOAT_DIGITS = 46.0  # nats; floats reach 41 to 43
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
    exact, lost, rest = np.zeros((3, 2 * columns, 2 * rows))
    error = float(sum((weight.rad() for weight in weights), arb(0)) / scale)
    for start in range(0, len(turns), _BLOCK):
        part = slice(start, start + _BLOCK)
        turn = _pairs(turns[part])
        jump = _pairs([each**rows for each in turns[part]])
        first = _pairs([acb(weight.mid() / scale) for weight in weights[part]])
        one = np.zeros_like(turn)
        one[0] = 1.0
        a, b = _float_powers(first, jump, columns), _float_powers(one, turn, rows)
        size = turn.shape[1]
        (a_1, a_2), (b_1, b_2) = map(_parts, (a, b))
        exact, off = _two_sum(exact, a_1 @ b_1.T)
        lost += off
        found = a_1 @ b_2.T + a_2 @ b[0].T
        rest += found
        large, small = (float(np.abs(x).sum(axis=1).max()) for x in (a_1, a_2))
        error += 2 * size * 2.0**-53 * (2.0**-21 * large + small)
        # the rounding of A_2 and B_2, the low parts of B, and the powers
        error += 2.0**-74 * (size + large) + 2.0**-78 * (large + small)
        error += 2.0**-52 * float(np.abs(found).max() + np.abs(rest).max())
    re, re_low = _two_sum(exact[:columns, :rows], -exact[columns:, rows:])
    im, im_low = _two_sum(exact[:columns, rows:], exact[columns:, :rows])
    lows = [
        (x[:columns, :rows] - x[columns:, rows:], x[:columns, rows:] + x[columns:, :rows])
        for x in (lost, rest)
    ]
    error = 2.1 * (error + 2.0**-50 * float(np.abs(lost).max() + np.abs(rest).max()))
    real_rest, imaginary_rest = (sum(each) for each in zip((re_low, im_low), *lows, strict=True))
    ball = acb(arb(0, error), arb(0, error))
    parts = (x.ravel().tolist() for x in (re, real_rest, im, imaginary_rest))
    return [scale * (acb(arb(a) + b, arb(c) + d) + ball) for a, b, c, d in zip(*parts, strict=True)]


def _pairs(values: list[acb]) -> Array:
    """Return rows of the real high and low, and imaginary high and low parts."""
    parts = [x for value in values for x in (value.real, value.imag)]
    if not sum((x.rad() for x in parts), arb(0)) < 2.0**-92:
        raise Unproven("powers are not accurate enough")
    high = [float(x) for x in parts]
    low = [float(x - y) for x, y in zip(parts, high, strict=True)]
    pairs = np.array([high, low]).reshape(2, -1, 2)
    return np.concatenate([pairs[:, :, 0], pairs[:, :, 1]])


def _float_powers(first: Array, factor: Array, count: int) -> tuple[Array, Array]:
    """Return the high and low parts of first * factor^k for k < count, real rows first."""
    found = np.empty((count, *first.shape))
    found[0] = first
    real, imaginary = factor[:2], factor[2:]
    for k in range(1, count):
        x, y = found[k - 1, :2], found[k - 1, 2:]
        found[k, :2] = _sum(_product(x, real), -_product(y, imaginary))
        found[k, 2:] = _sum(_product(x, imaginary), _product(y, real))
    high, low = (np.concatenate([found[:, n], found[:, n + 2]]) for n in (0, 1))
    return high, low


def _parts(pair: tuple[Array, Array]) -> tuple[Array, Array]:
    high = np.rint(pair[0] * _UNIT) / _UNIT
    return high, (pair[0] - high) + pair[1]


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


def _product(a: Array, b: Array) -> Array:
    """Return the product of two numbers of high and low parts, nearly in the same form."""
    high = a[0] * b[0]
    (p, q), (r, s) = _halves(a[0]), _halves(b[0])
    low = ((p * r - high) + p * s + q * r) + q * s
    return np.array([high, low + (a[0] * b[1] + a[1] * b[0])])


def _sum(a: Array, b: Array) -> Array:
    total, low = _two_sum(a[0], b[0])
    low = low + (a[1] + b[1])
    high = total + low
    return np.array([high, low - (high - total)])
