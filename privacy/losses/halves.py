"""Quadrature nodes of positive losses and their mirror image, and of several pairs together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from privacy.losses import densities, quadrature
from privacy.losses.densities import log_sum, refuse_beyond
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import Array, Complex, Direction, LineNodes, LossModel, LossNodes
from privacy.losses.trapezoid import whole_grid
from privacy.numerics.rounding import ULP

_FROM = -45.0  # e^-45 = 3e-20 of the mass is nearer to a loss of 0
_FEW, _MOST_JOINED = 2**14, 2**16  # most joined nodes: shared by all t, of any kind
_WAYS: tuple[Direction, Direction] = ("remove", "add")


@dataclass(frozen=True)
class HalfGaussian(SampledGaussian):
    """The losses > 0 of the sampled Gaussian when removing; when adding, those < 0.

    The noise is z = shift / 2 + log(1 + e^u) (docs/theory/contour.md). The weights do not sum to 1.
    """

    @property
    def _reach(self) -> float:
        return min(math.pi, super()._reach)

    def extent(self, direction: Direction, t: float) -> tuple[float, float]:
        _, high = super().extent(direction, t)
        return _FROM, high - self.shift / 2

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        m, q = self.shift, self.sampling_probability
        beyond = np.logaddexp(0.0, z)
        ratio = densities.log_mixture(m * beyond, q)
        place = m / 2 + beyond
        if direction == "remove":
            return densities.log_normal_mixture(place, m, q) + z - beyond, ratio
        return -0.5 * place * place + z - beyond, -ratio

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Array | Complex, Array | Complex]:
        m, side = self.shift, self._side(direction)
        u, beyond = _softplus(x, side * np.asarray(depth))
        place = m / 2 + beyond
        base = 0.5 * (u - place) * (u + place) + u - beyond
        q = self.sampling_probability
        ratio = densities.complex_log_mixture(m * beyond.real, m * beyond.imag, q)
        return (base, ratio) if direction == "remove" else (base + ratio, -ratio)

    def _shared_grid(self, direction: Direction, t: float) -> tuple[Array, float]:
        return whole_grid(self, direction, t)


def _softplus(x: Array, y: Array) -> tuple[Complex, Complex]:
    """Return u = x + i y and log(1 + e^u), relatively accurate, for |y| < pi."""
    u: Complex = x + 1j * y
    low = -np.abs(x)  # log(1 + e^u) = u + log(1 + e^-u)
    size, angle = np.exp(low), np.where(x > 0, -y, y)
    out = np.empty(u.shape, dtype=complex)
    out.real = 0.5 * np.log1p(size * (2 * np.cos(angle) + size))
    out.imag = np.arctan2(size * np.sin(angle), 1 + size * np.cos(angle))
    return u, out + np.where(x > 0, u, 0.0)


@dataclass(frozen=True)
class MirroredGaussian(LossModel):
    """The losses > 0 of a sampled Gaussian when removing, their mirror image, and the loss 0."""

    sampling_probability: float
    noise_multiplier: float

    @property
    def _half(self) -> HalfGaussian:
        return HalfGaussian(self.sampling_probability, self.noise_multiplier)

    @property
    def _log_none(self) -> float:
        """Return log((1 - q) TV), the log probability of the loss 0."""
        apart = math.erf(self._half.shift / math.sqrt(8))
        return math.log(apart) + math.log1p(-self.sampling_probability)

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        return self._joined(*(self._half.nodes(way, t) for way in _WAYS))

    def shared_nodes(self, direction: Direction, t: float) -> LossNodes | None:
        each = [self._half.shared_nodes(way, t) for way in _WAYS]
        known = [nodes for nodes in each if nodes is not None]
        return self._joined(*known) if len(known) == 2 else None

    def _joined(self, above: LossNodes, below: LossNodes) -> LossNodes:
        return LossNodes(
            np.concatenate([above.log_weight, below.log_weight, [self._log_none]]),
            np.concatenate([above.loss, below.loss, [0.0]]),
            above.ulps,
        )

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: float) -> LineNodes:
        log_none = self._log_none - log_moment
        weight, ulps = np.array([[math.exp(log_none)], [16 + 4 * abs(log_none)]])
        none = LineNodes(weight, np.zeros(1), ulps, 0.0)
        each = [self._half.line_nodes(way, t, w, log_moment) for way in _WAYS]
        return _joined_lines([*each, none])

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        """Return the sum of the bounds; that of the loss 0 does not decay."""
        each = [self._half.decay(way, t, frequency, log_moment, depth) for way in _WAYS]
        return np.logaddexp(np.logaddexp(*each), self._log_none - log_moment)


@dataclass(frozen=True)
class MixedModel(LossModel):
    """A public choice among several models, and a mass at infinity."""

    models: tuple[LossModel, ...]
    weights: tuple[float, ...]
    omitted: float = 0.0

    def supremum(self, direction: Direction) -> float:
        return max(model.supremum(direction) for model in self.models)

    def lost(self, direction: Direction) -> float:
        each = (w * model.lost(direction) for w, model in self._weighted())
        return (math.fsum(each) + self.omitted) * (1 + 16 * ULP)

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        return self._joined(model.nodes(direction, t) for model in self.models)

    def shared_nodes(self, direction: Direction, t: float) -> LossNodes | None:
        known: list[LossNodes] = []
        for model in self.models:
            nodes = quadrature.nodes_up_to(model, t, direction)
            if nodes is None or sum(one.loss.size for one in known) > _FEW:
                return None
            known.append(nodes)
        return self._joined(known)

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: float) -> LineNodes:
        each = ((model, log_moment - math.log(weight)) for weight, model in self._weighted())
        return _joined_lines([m.line_nodes(direction, t, w, log) for m, log in each])

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        each = []
        for weight, model in self._weighted():
            own = float(quadrature.log_moment(model, np.array([t]), direction)[0][0])
            one = model.decay(direction, t, frequency, own, depth)
            each.append(math.log(weight) + own - log_moment + one)
        return log_sum(np.stack(each, axis=-1))

    def likely(self, least: float) -> "MixedModel":
        """Return the model without its last parts, of total probability at most `least`."""
        omitted = np.cumsum(self.weights[::-1])[::-1]
        kept = max(int((omitted > least).sum()), 1)
        if kept == len(self.models):
            return self
        lost = self.omitted + float(omitted[kept]) * (1 + 16 * ULP)
        return MixedModel(self.models[:kept], self.weights[:kept], lost)

    def _weighted(self) -> Any:
        return zip(self.weights, self.models, strict=True)

    def _joined(self, nodes: Iterable[LossNodes]) -> LossNodes:
        log_weight: list[Array] = []
        loss: list[Array] = []
        ulps = 0.0
        for weight, one in zip(self.weights, nodes, strict=True):
            log_weight.append(math.log(weight) + one.log_weight)
            loss.append(one.loss)
            ulps = max(ulps, one.ulps + 4)
            refuse_beyond(_MOST_JOINED, sum(part.size for part in loss))
        return LossNodes(np.concatenate(log_weight), np.concatenate(loss), ulps)


def _joined_lines(lines: Sequence[LineNodes]) -> LineNodes:
    return LineNodes(
        np.concatenate([line.weight for line in lines]),
        np.concatenate([line.loss for line in lines]),
        np.concatenate([line.rounding for line in lines]),
        math.fsum(line.quadrature for line in lines),
    )
