"""Quadrature nodes of Gaussian pairs, by the trapezoid rule (docs/theory/contour.md)."""

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Self

import numpy as np

from privacy.losses import quadrature
from privacy.losses.densities import log_sum, refuse_beyond
from privacy.losses.quadrature import Array, Complex, Direction, LineNodes, LossModel, LossNodes

TAIL = 9.0  # the normal mass beyond 9 sigma is 1e-19
NARROW = 0.1  # accuracy of the end of a range, in sigmas
MOST_NODES = 2**17  # most nodes of a quadrature
_DIGITS = 42.0  # trapezoid error: exp(-42) = 6e-19
_NEGLIGIBLE = 100.0  # log of the ratio of weights in a bound on the decay
_EDGE = 0.95  # fraction of the strip of analyticity that is used
_CELL = 0.5  # cell width, in sigmas, of the scan for the support of an integrand
_FEW = 1500  # most nodes of a set that is shared by all t
_MOST_CELLS = 2**14  # most cells of a scan; more only for deltas below any positive float
_DEPTHS = np.array([0, 0.15, 0.4, 0.7, 1])


class NormalMixtures(LossModel):
    """Two mixtures of shifted standard normals, as functions of the noise z.

    The error of the trapezoid rule in z with spacing h on Im z = d0 is at most
    F(d) / (exp(2 pi |d - d0| / h) - 1), summed over one d above and one below d0. F(d) is the
    integral of |integrand| on Im z = d, |Im z| < pi / shift, where a mixture has no zero.
    """

    sampling_probability: float  # or a column, for several models
    noise_multiplier: float
    _ulps = 16.0  # rounding error of a density, in addition to that of its logs

    @property
    def shift(self) -> float:
        """Distance of the centers of the mixtures, in standard deviations."""
        return 1 / self.noise_multiplier

    @property
    def _reach(self) -> float:
        """Return the distance from the real line up to which |arg dP/dQ| < pi for one mixture."""
        return math.pi / self.shift

    @property
    def _strip(self) -> float:
        return min(_EDGE * self._reach, 9.5)

    def _side(self, direction: Direction) -> int:
        """Return on which side of the real line arg dP/dQ > 0."""
        return 1 if direction == "remove" else -1

    def extent(self, direction: Direction, t: float) -> tuple[float, float]:
        """Return the range of z outside of which the integrand is negligible."""
        raise NotImplementedError

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        """Return the log density of P, up to log sqrt(2 pi), and log dP/dQ at z."""
        raise NotImplementedError

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Array | Complex, Array | Complex]:
        """Return log dQ/dN and log dP/dQ at z = x + i side depth, N the standard normal."""
        raise NotImplementedError

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        return self._nodes_at(direction, *self._pruned_grid(direction, t))

    def shared_nodes(self, direction: Direction, t: float) -> LossNodes | None:
        grid = self._shared_grid(direction, t)
        return None if grid is None else self._nodes_at(direction, *grid)

    def stack_key(self, t: float) -> Hashable:
        return self._rounded_probability(t), _octave(self.noise_multiplier)

    def several(self, models: Sequence[Self]) -> Self:
        q, noise = columns((one.sampling_probability, one.noise_multiplier) for one in models)
        return replace(self, sampling_probability=q, noise_multiplier=noise)  # type: ignore[type-var]

    def _shared_grid(self, direction: Direction, t: float) -> tuple[Array, float] | None:
        outer = self._outer(t)
        low, high = outer.extent(direction, t)
        if high - low > _FEW * 0.4 * min(1.0, outer._reach / math.pi):
            return None
        return whole_grid(self._rounded(t), direction, t)

    def _outer(self, t: float) -> Self:
        """Return a single model whose range and strip are valid for every row."""
        parameters = self.sampling_probability, self.noise_multiplier
        return self._rounded(t) if any(map(_is_column, parameters)) else self

    def _rounded(self, t: float) -> Self:
        """Return a model of less noise, whose finer, wider grid for (0, t] suits every row."""
        q, noise = self._rounded_probability(t), -_most(-self.noise_multiplier)
        return replace(self, sampling_probability=q, noise_multiplier=2.0 ** (_octave(noise) / 32))  # type: ignore[type-var]

    def _rounded_probability(self, t: float) -> float:
        """Return a probability >= every q whose grid for (0, t] is valid for q too.

        That grid is at least as wide. For q <= 1/2 a change of log q by x, else one of log(1 - q),
        changes log |dP/dQ| by at most 2 x on the real line, and 2 x / cos(_EDGE pi / 2) in the
        strip. The log of the rule's error changes by at most t + 1 times that; it stays < e^-30.
        """
        q, fine = _most(self.sampling_probability), 2 * max(t, 16.0)
        if 0.5 < q < 1:
            return max(1.0 - float(2.0 ** (math.floor(fine * math.log2(1 - q)) / fine)), q)
        rounded = 2.0 ** (math.ceil(fine * math.log2(q)) / fine)
        return max(rounded, q) if rounded <= 0.5 else q

    def _nodes_at(self, direction: Direction, z: Array, h: float) -> LossNodes:
        log_weight, loss = self._log_densities(direction, z)
        return LossNodes(log_weight + math.log(h / math.sqrt(2 * math.pi)), loss, self._ulps)

    def _pruned_grid(self, direction: Direction, t: float) -> tuple[Array, float]:
        """Return nodes on the real line for this t, and their spacing."""
        scan, size, _ = self._scan(direction, t)
        h = self._spacing(direction, np.array([t]), scan[size > size.max() - 200])
        return self._spaced(direction, t, scan, size, h)

    def _spacing(self, direction: Direction, t: Array, scan: Array) -> float:
        """Return a node spacing that is valid for all of `t`."""
        depth, kept = self._strip * _DEPTHS, np.full(1, -np.inf)
        if scan.size:
            base, _ = self._log_integrand(direction, scan, depth[:, None], t[:, None, None])
            size = base[:, :1]
            kept = np.where(size > size.max(axis=-1, keepdims=True) - 200, base, kept)
        if not np.isfinite(kept.max(axis=-1)).all():
            raise OverflowError("the privacy loss is too small for the quadrature")
        strip = log_sum(kept)
        # conservative: an integral that is smaller off the real line is not used
        rise = np.maximum(strip - strip[:, :1], 0.0)
        return float((2 * math.pi * depth / (_DIGITS + rise)).max(axis=1).min())

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: Any) -> LineNodes:
        """Return nodes on the real line or, at high frequencies, above it.

        Above it the integrand of M(t + i w) has the factor exp(-w arg(dP/dQ)) <= 1; below it the
        error bound has the factor exp(w arg). The worst row decides.
        """
        depth, spare = self._outer(t)._strip * _DEPTHS, math.pi * w
        scan, base, arg = self._scan(direction, t, depth[:, None, None])
        size = base[0]
        within = (size > size.max(axis=-1, keepdims=True) - 200 - spare).any(axis=0)
        strip, turned = log_sum((base + np.multiply.outer([0.0, w], arg))[..., within])
        above = 2 * _DIGITS + np.maximum(strip - strip[0], 0.0).max(axis=-1)
        below = _DIGITS + np.maximum(turned - strip[0], 0.0).max(axis=-1)
        real = 2 * math.pi * depth / below
        # d0 between 0 and d, with both errors equal
        raised = 2 * math.pi * depth / above
        h, lift = float(real.max()), 0.0
        if raised.max() > 1.5 * h:
            k = int(raised.argmax())
            h, lift = float(raised[k]), float(depth[k] * _DIGITS / above[k])
        x, h = self._spaced(direction, t, scan, size, h)
        log_q, log_ratio = self._on_line(direction, x, lift)
        z: Any = x
        if lift:
            z = x + 1j * self._side(direction) * lift
        else:
            log_q, log_ratio = log_q.real, log_ratio.real
        exponent = log_q + (t + 1) * log_ratio - 0.5 * z * z
        weight = np.exp(exponent + (math.log(h / math.sqrt(2 * math.pi)) - log_moment))
        # twice F(d) / exp(2 pi d / h), with F(d) from the sum over the scan
        missed = np.minimum(strip[0] - _DIGITS - np.ravel(log_moment), 700.0)
        error = 2 * _CELL * np.exp(missed)
        logs = np.abs(log_q) + (t + 1) * np.abs(log_ratio) + np.abs(log_moment)
        rounding = self._ulps + logs + x * x
        return LineNodes(weight, log_ratio, rounding, error if error.size > 1 else float(error[0]))

    def _scan(
        self, direction: Direction, t: float, depth: Array | float = 0.0
    ) -> tuple[Array, Array, Array]:
        """Return a coarse grid, and what `_log_integrand` returns there."""
        scan = self._cells(direction, t)
        return scan, *self._log_integrand(direction, scan, depth, t)

    def _cells(self, direction: Direction, t: float) -> Array:
        low, high = self._outer(t).extent(direction, t)
        refuse_beyond(_MOST_CELLS, (high - low) / _CELL)
        return low + _CELL * np.arange(math.ceil((high - low) / _CELL) + 1)

    def _spaced(
        self, direction: Direction, t: float, scan: Array, size: Array, h: float
    ) -> tuple[Array, float]:
        """Return nodes with spacing <= h: everywhere or, if many, where they are not negligible."""
        low, high = float(scan[0]), float(scan[-1])
        count = math.ceil((high - low) / h) + 1
        if count <= _FEW // 3:
            return low + h * np.arange(count), h
        # keep the cells of the integrand of M - 1, and those of P tilted by exp(t L)
        log_q, log_ratio = self._on_line(direction, scan, 0.0)
        mass = log_q.real + (t + 1) * log_ratio.real - 0.5 * scan * scan
        rank = [part - part.max(axis=-1, keepdims=True) for part in (size, mass)]
        live = np.flatnonzero((np.maximum(*rank) > -_DIGITS - 8).reshape(-1, scan.size).any(axis=0))
        place = np.rint((scan[live] - low) / _CELL)
        cells = np.unique(np.concatenate([place - 1, place]))
        inside = math.ceil(_CELL / h)
        h = _CELL / inside
        refuse_beyond(MOST_NODES, cells.size * inside)
        return (low + _CELL * cells[:, None] + h * np.arange(inside)).ravel(), h

    def _log_integrand(
        self, direction: Direction, x: Array, depth: Array | float, t: Array | float
    ) -> tuple[Array, Array]:
        """Return the log of a bound on the integrand of M(t) - 1, and |arg dP/dQ|, at x + i depth.

        With r = dP/dQ, M(s) - 1 = E_Q[r^p - 1 - p (r - 1)] at p = s + 1, and the bracket is
        p (p - 1) times the integral over v in [0, 1] of (1 - v) (r - 1)^2 (1 + v (r - 1))^(p - 2).
        Constant factors are omitted; s = t + i w has the factor exp(w |arg|).
        """
        log_q, log_ratio = self._on_line(direction, x, depth)
        log_r, arg = log_ratio.real, np.abs(log_ratio.imag)
        away = np.exp(-np.abs(log_r))
        square = np.expm1(-np.abs(log_r)) ** 2 + 4 * away * np.sin(arg / 2) ** 2
        up = np.maximum(log_r, 0)
        with np.errstate(divide="ignore"):  # r = 1: the integrand is 0
            size = log_q.real + np.log(square) + (t + 1) * up
        if np.any(t < 1):  # |1 + v (r - 1)| >= cos(arg / 2) (1 - v + v |r|)
            turned = np.log(np.cos(np.minimum(arg, 3.0) / 2))
            size += np.where(t < 1, np.log(np.maximum(up, 1)) + (t - 1) * turned, 0.0)
        return size + 0.5 * (np.square(depth) - x * x), arg

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: Any, depth: Array
    ) -> Array:
        """Return log upper bounds on |M(t + i w)| / M(t) for every w >= frequency.

        On Im z = d, where arg(dP/dQ) > 0, the integrand of M has the decreasing factor exp(-w arg).
        """
        shared = self._shared_grid(direction, quadrature.reach(t))
        z, h = shared or self._pruned_grid(direction, t)
        depth = np.minimum(depth, 0.6 * self._outer(t)._reach)[..., None]
        log_q, log_ratio = self._on_line(direction, z, depth)
        base = log_q.real + (t + 1) * log_ratio.real + 0.5 * (depth**2 - z * z)
        # it replaces the weights of nodes that are smaller in every row
        floor = base.max(axis=-1, keepdims=True).min(axis=0) - _NEGLIGIBLE
        live = (base > floor).reshape(-1, z.size).any(axis=0)
        exponent = np.multiply.outer(-frequency, np.abs(log_ratio.imag[..., live]))
        exponent += base[..., live]
        least = np.logaddexp(log_sum(exponent).min(axis=1), floor[..., 0] + math.log(z.size))
        return np.asarray(least + (math.log(h / math.sqrt(2 * math.pi)) - log_moment))


def columns(pairs: Iterable[tuple[float, float]]) -> tuple[Any, Any]:
    """Return a column of each of two parameters, or a number if all its values are equal."""
    both = zip(*pairs, strict=True)
    q, noise = (np.array(p)[:, None] if len(set(p)) > 1 else p[0] for p in both)
    return q, noise


def _is_column(parameter: Any) -> bool:
    return isinstance(parameter, np.ndarray)


def _most(parameter: Any) -> float:
    return float(parameter.max()) if _is_column(parameter) else parameter


def _octave(noise: float) -> int:
    return math.floor(32 * math.log2(noise))


@lru_cache(maxsize=512)
def whole_grid(model: NormalMixtures, direction: Direction, t: float) -> tuple[Array, float]:
    """Return nodes on the real line for (0, t], and their spacing."""
    scan = model._cells(direction, t)
    # for a large t the integrand may be smoother than for a smaller one
    some = np.append(t * 4.0 ** -np.arange(math.ceil(math.log2(max(t, 1.0))) / 2 + 1), 0.0)
    h = model._spacing(direction, some, scan)
    low, high = float(scan[0]), float(scan[-1])
    # the step of arange(low, high, h) would be rounded to an ulp of `low`
    return low + h * np.arange(math.ceil((high - low) / h) + 1), h
