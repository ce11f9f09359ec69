"""Power series: the square root of the running sum, its inverse, and sums of exponentials."""

import numpy as np
import scipy.fft

from privacy.release._memory import Array


def square_root(count: int) -> Array:
    """Return the first coefficients of (1 - x)^(-1/2)."""
    i = np.arange(1, count)
    series: Array = np.concatenate(([1.0], np.cumprod(1 - 0.5 / i)))
    return series


def exponentials(terms: int, reach: int) -> tuple[Array, Array]:
    """Return w, t with f_n near sum_i w_i t_i^(n - 1) for 1 <= n < reach, f of `square_root`.

    The trapezoid rule, in the logit of t, for f_n = (1/pi) int_0^1 t^n (t (1 - t))^(-1/2) dt.
    """
    low, high = -4.0, np.log(reach) + 4.0
    spacing = (high - low) / terms
    logit = low + spacing * (0.5 + np.arange(terms))
    decays = 1 / (1 + np.exp(-logit))
    weights = spacing / np.pi * decays**1.5 / np.sqrt(1 + np.exp(logit))
    return weights, decays


def inverse(series: Array, terms: int) -> Array:
    """Return the first `terms` coefficients of 1 / series, by Newton's iteration."""
    found: Array = np.array([1 / series[0]])
    while len(found) < terms:
        length = min(2 * len(found), terms)
        rest = _product(series[:length], found, length)
        rest[0] -= 1
        found = np.pad(found, (0, length - len(found))) - _product(found, rest, length)
    return found


def _product(first: Array, second: Array, terms: int) -> Array:
    length = scipy.fft.next_fast_len(len(first) + len(second) - 1, real=True)
    transformed = scipy.fft.rfft(first, length) * scipy.fft.rfft(second, length)
    product: Array = scipy.fft.irfft(transformed, length)[:terms]
    padded: Array = np.pad(product, (0, terms - len(product)))
    return padded
