"""Convert between noise multiplier and sigma, rounding conservatively."""

import math
from collections.abc import Mapping
from typing import Any


def noise_multiplier_from_sigma(sigma: float, clip_norm: float) -> float:
    """Return sigma / clip_norm, rounded down."""
    ratio = sigma / clip_norm
    return math.nextafter(ratio, 0) if _exceeds(ratio, clip_norm, sigma) else ratio


def sigma_from_noise_multiplier(noise_multiplier: float, clip_norm: float) -> float:
    """Return noise_multiplier * clip_norm, rounded up."""
    sigma = noise_multiplier * clip_norm
    above = _exceeds(noise_multiplier, clip_norm, sigma)
    return math.nextafter(sigma, math.inf) if above else sigma


def sigma_of(values: Mapping[str, Any]) -> float:
    """Return the given sigma, or noise_multiplier * clip_norm rounded up."""
    if "sigma" in values:
        return float(values["sigma"])
    return sigma_from_noise_multiplier(values["noise_multiplier"], values["clip_norm"])


def _exceeds(a: float, b: float, product: float) -> bool:
    """Return whether a * b > product in exact arithmetic; False if one of them is infinite."""
    if not all(map(math.isfinite, (a, b, product))):
        return False
    (an, ad), (bn, bd), (pn, pd) = (value.as_integer_ratio() for value in (a, b, product))
    return an * bn * pd > pn * ad * bd
