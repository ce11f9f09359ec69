"""Dominating pairs of Poisson-sampled Gaussians, as functions of the noise."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from privacy.losses.densities import complex_log_mixture, log_mixture, log_normal_mixture, slope
from privacy.losses.quadrature import Array, Complex, Direction
from privacy.losses.trapezoid import NARROW, TAIL, NormalMixtures


def _right_end(pull: Callable[[float], float], span: float, p: float, extra: float = 0.0) -> float:
    """Return a right end beyond which exp(-z^2/2 + extra z) mixture(z)^p has negligible mass.

    `pull` is the increasing slope of log mixture(z) - log normal(z), at most `span`. If the slope
    of the exponent is at most z0 - z beyond z0, the mass beyond z0 + 9 is negligible. Each end
    gives a tighter bound on the slope.
    """
    end = math.inf
    for _ in range(8):
        last, end = end, TAIL + p * (pull(end) if end < math.inf else span) + extra
        if end > last - NARROW:
            break
    return max(end, TAIL + 2 * span)


class AgainstNormal(NormalMixtures):
    """A mixture R of normals with centers >= 0 against N(0, 1) ("remove"), or reversed ("add")."""

    @property
    def _span(self) -> float:
        return self.shift

    def centers(self) -> tuple[Array, Array]:
        """Return the position and the weight of each center."""
        raise NotImplementedError

    def pull(self, z: float) -> float:
        """Return the derivative of log dR/dN, which increases."""
        raise NotImplementedError

    def log_ratio(self, z: Array) -> Array:
        raise NotImplementedError

    def _log_mixture(self, z: Array) -> Array:
        raise NotImplementedError

    def _line_ratio(self, x: Array, y: Array | float) -> Array | Complex:
        raise NotImplementedError

    def extent(self, direction: Direction, t: float) -> tuple[float, float]:
        if direction == "remove":
            return -TAIL, _right_end(self.pull, self._span, t + 1)
        # the mode of -z^2/2 - t log dR/dN is the root of a monotone function
        low, high = -t * self.pull(0.0), 0.0
        for _ in range(30):
            if high - low < NARROW:
                break
            middle = (low + high) / 2
            if -t * self.pull(middle) > middle:
                low = middle
            else:
                high = middle
        return low - TAIL, TAIL + 2 * self._span

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        ratio = self.log_ratio(z)
        return (self._log_mixture(z), ratio) if direction == "remove" else (-0.5 * z * z, -ratio)

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Array | Complex, Array | Complex]:
        ratio = self._line_ratio(x, self._side(direction) * depth)
        return (np.zeros(1), ratio) if direction == "remove" else (ratio, -ratio)


@dataclass(frozen=True)
class SampledGaussian(AgainstNormal):
    """Poisson-sampled Gaussian: (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2)."""

    sampling_probability: float
    noise_multiplier: float

    def supremum(self, direction: Direction) -> float:
        """Return log(1 / (1 - q)) when adding, for an output without the record."""
        q = self.sampling_probability
        return math.inf if direction == "remove" or q == 1 else -math.log1p(-q)

    def centers(self) -> tuple[Array, Array]:
        q = self.sampling_probability
        return np.array([0.0, self.shift]), np.array([1 - q, q])

    def pull(self, z: float) -> float:
        m = self.shift
        return m * slope(m * (z - m / 2), self.sampling_probability)

    def log_ratio(self, z: Array) -> Array:
        m = self.shift
        return log_mixture(m * (z - m / 2), self.sampling_probability)

    def _log_mixture(self, z: Array) -> Array:
        return log_normal_mixture(z, self.shift, self.sampling_probability)

    def _line_ratio(self, x: Array, y: Array | float) -> Array | Complex:
        m = self.shift
        return complex_log_mixture(m * (x - m / 2), m * y, self.sampling_probability)


@dataclass(frozen=True)
class AntipodalGaussian(NormalMixtures):
    """(1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2).

    One replaced record, v against -v, with Poisson sampling. Both directions are equal.
    """

    sampling_probability: float
    noise_multiplier: float

    def extent(self, direction: Direction, t: float) -> tuple[float, float]:
        m, q = self.shift, self.sampling_probability
        # the log density of Q has a slope of at most m slope(...), to the power -t

        def pull(z: float) -> float:
            return m * slope(m * (z - m / 2), q)

        return -TAIL - 2 * m, _right_end(pull, m, t + 1, t * pull(0.0))

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        m, q = self.shift, self.sampling_probability
        up = log_mixture(m * (z - m / 2), q)
        down = log_mixture(m * (-z - m / 2), q)
        near = np.clip(m * z, -1.0, 1.0)
        odds = 2 * q * np.exp(-m * m / 2) * np.sinh(near) * np.exp(-np.maximum(down, -1e4))
        weight = log_normal_mixture(z, m, q)
        return weight, np.where(np.abs(m * z) < 1, np.log1p(np.maximum(odds, -0.999)), up - down)

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Array | Complex, Array | Complex]:
        m, q = self.shift, self.sampling_probability
        up = complex_log_mixture(m * (x - m / 2), m * depth, q)
        down = complex_log_mixture(m * (-x - m / 2), -m * depth, q)
        return down, up - down

    def _side(self, direction: Direction) -> int:
        return 1
