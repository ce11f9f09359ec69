"""Logs of mixtures, real and complex, with relative accuracy near 0."""

import math
from typing import Any

import numpy as np

from privacy.losses.quadrature import Array, Complex


def refuse_beyond(limit: int, count: float) -> None:
    """Raise OverflowError if a quadrature needs more than `limit` nodes."""
    if count > limit:
        raise OverflowError(f"the quadrature of the privacy loss needs {count:.1e} nodes")


def log_sum(exponent: Array) -> Array:
    """Return the log of the sum of exp over the last axis."""
    top = exponent.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(exponent - top).sum(axis=-1)) + top[..., 0])


def log_mixture(y: Array, q: Any) -> Array:
    """Return log(1 - q + q e^y), relatively accurate near 0."""
    if unsampled(q):
        return y
    excess = q * np.expm1(np.minimum(y, 700.0))
    near = np.log1p(np.maximum(excess, -0.5))
    accurate = (y <= 700) & (excess >= -0.5)
    if np.all(accurate):
        return np.asarray(near)
    # near -1, or beyond the floats, the parts are added in logs
    far = np.logaddexp(np.log1p(-q), np.log(q) + y)
    return np.asarray(np.where(accurate, near, far))


def unsampled(q: Any) -> bool:
    """Return whether q is the float 1; False for a column, whose entries are below 1."""
    return isinstance(q, float) and q == 1


def log_normal_mixture(z: Array, shift: Any, q: Any) -> Array:
    """Return log((1 - q) exp(-z^2/2) + q exp(-(z - shift)^2/2))."""
    if unsampled(q):
        return np.asarray(-0.5 * (z - shift) ** 2)
    near = np.log(q) - 0.5 * (z - shift) ** 2
    return np.asarray(np.logaddexp(near, np.log1p(-q) - 0.5 * z * z))


def complex_log_mixture(y: Array, angle: Array | float, q: Any) -> Array | Complex:
    """Return log(1 - q + q exp(y + i angle)), |angle| < pi unless q = 1; real if angle is 0.0.

    It is relatively accurate near 0, which tiny losses (large noise) need.
    """
    if isinstance(angle, float) and angle == 0:
        return log_mixture(y, q)
    out = np.empty(np.broadcast(y, angle, q).shape, dtype=complex)
    if unsampled(q):
        out.real, out.imag = y, angle
        return out
    low = np.minimum(y, 300.0)
    excess = q * np.expm1(low)
    part = q * np.exp(low)  # q + excess would cancel
    # |..|^2 - 1, without cancellation if both terms are small
    square = excess * (2 + excess) - 4 * (1 - q) * np.sin(0.5 * angle) ** 2 * part
    real, imaginary = part * np.cos(angle) + (1 - q), part * np.sin(angle)
    out.real = 0.5 * np.log1p(np.maximum(square, -0.5)) + (y - low)
    if square.min() <= -0.5:
        far = np.log(np.maximum(np.hypot(real, imaginary), 1e-300)) + (y - low)
        out.real = np.where(square > -0.5, out.real, far)
    out.imag = np.arctan2(imaginary, real)
    return out


def slope(y: float, q: float) -> float:
    """Return d log(1 - q + q e^y) / dy, in [0, 1]."""
    return 1 / (1 + (1 - q) / q * math.exp(min(-y, 700.0)))
