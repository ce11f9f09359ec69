"""Power series: the square root of the running sum, its inverse, and sums of exponentials."""

import numpy as np
import scipy.fft

from privacy.running_sums.memory import Array

_LEAF = 128


def square_root(count: int) -> Array:
    """Return the first coefficients of (1 - x)^(-1/2)."""
    return np.asarray(np.concatenate(([1.0], np.cumprod(1 - 0.5 / np.arange(1, count)))))


def exponentials(terms: int, reach: int) -> tuple[Array, Array]:
    """Return w, t with f_n near sum_i w_i t_i^(n - 1) for 1 <= n < reach, f of `square_root`.

    The trapezoid rule, in the logit of t, for f_n = (1/pi) int_0^1 t^n (t (1 - t))^(-1/2) dt.
    """
    low, high = -4.0, np.log(reach) + 4.0
    spacing = (high - low) / terms
    logit = low + spacing * (0.5 + np.arange(terms))
    decays = 1 / (1 + np.exp(-logit))
    return spacing / np.pi * decays**1.5 / np.sqrt(1 + np.exp(logit)), decays


def decaying(weights: Array, decays: Array, count: int) -> Array:
    """Return 1, then sum_i weights_i decays_i^(n - 1) for n = 1 .. count - 1."""
    tail = np.power.outer(decays, np.arange(count - 1))
    return np.asarray(np.concatenate(([1.0], weights @ tail)))


def inverse(series: Array, terms: int) -> Array:
    """Return the first `terms` coefficients of 1 / series, by Newton's iteration."""
    found: Array = np.array([1 / series[0]])
    while len(found) < terms:
        length = min(2 * len(found), terms)
        rest = product(series[:length], found, length)
        rest[0] -= 1
        found = np.pad(found, (0, length - len(found))) - product(found, rest, length)
    return found


def product(first: Array, second: Array, terms: int) -> Array:
    """Return the first `terms` coefficients of first * second."""
    length = scipy.fft.next_fast_len(len(first) + len(second) - 1, real=True)
    transformed = scipy.fft.rfft(first, length) * scipy.fft.rfft(second, length)
    product: Array = scipy.fft.irfft(transformed, length)[:terms]
    return np.asarray(np.pad(product, (0, terms - len(product))))


def running_products(weights: Array, series: Array) -> Array:
    """Return sum_{i<k} weights_i sum_{n<=i} series_n series_(n + k - i) for each k.

    Divide and conquer, in order K log(K)^2 instead of K^2: terms with i in the left half, k in the
    right one, and n before that half or inside it, are convolutions.
    """
    found = np.zeros(len(series))

    def add(low: int, high: int, before: Array) -> None:
        """Add i < k in [low, high); before_d is the sum of series_n series_(n + d) over n < low."""
        if high - low <= _LEAF:
            for i in range(low, high):
                before = before[: high - i] + series[i] * series[i:high]
                found[i + 1 : high] += weights[i] * before[1:]
            return
        middle, length = (low + high) // 2, high - low
        left = middle - low
        first, whole = series[low:middle], series[low:high]
        outside = product(weights[low:middle], before, length)[left:]
        lagged = product(weights[low:middle][::-1], first, left)[::-1]
        found[middle:high] += outside + product(lagged, whole[1:], length - 1)[left - 1 :]
        between = product(first[::-1], whole, length - 1)[left - 1 :]
        add(low, middle, before[:left])
        add(middle, high, before[: high - middle] + between)

    add(0, len(series), np.zeros(len(series)))
    return found
