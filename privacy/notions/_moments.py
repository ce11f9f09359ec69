"""Log moments of one step's privacy loss, by quadrature.

For a dominating pair (P, Q) put L = log dP/dQ and, for t > 0,

    M(t) = E_P exp(t L),   K(t) = log M(t) = t D_{t+1}(P || Q),

with D the Renyi divergence. Since E_P exp(-L) = 1,

    M(t) - 1 = E_P[psi(t L) + t psi(-L)],   psi(y) = e^y - 1 - y,

where every term is >= 0 at real t: nothing cancels, and M - 1 keeps its
relative accuracy when it is 1e-16 or t is 1e-8. A model below turns P into
weighted nodes (`LossNodes`): the trapezoid rule in Gaussian noise, atoms and
Gauss-Legendre in Laplace noise. docs/theory/contour.md derives the spacing of
the nodes and the errors.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Direction = Literal["remove", "add"]

_ULP = float(np.finfo(float).eps)
_TAIL = 9.0  # the normal mass beyond 9 sigma is 1e-19
_DIGITS = 42.0  # trapezoid error: exp(-42) = 6e-19
_EDGE = 0.95  # how much of the strip of analyticity is used
_CELL = 0.5  # cells of the scan that finds where an integrand lives, in sigmas
_FEW, _MANY = 1500, 1_000_000  # nodes: below, one set serves all t; above, refused
_SMALL = 0.125  # below, psi by its series
_LARGE = 600.0  # above, sums of exp(y) are done in logs


def psi(y: Array) -> Array:
    """Return e^y - 1 - y to a relative accuracy of 4e-15 (y <= 700)."""
    series = np.full_like(y, 1 / 10)
    for k in range(9, 2, -1):
        series *= y
        series += 1
        series *= 1 / k
    series *= y
    series += 1
    series *= y * y
    series *= 0.5
    return np.where(np.abs(y) < _SMALL, series, np.expm1(y) - y)


def _weighted_psi(log_weight: Array, y: Array) -> Array:
    """Return exp(log_weight) psi(y), also where exp(y) alone would overflow."""
    weight = np.exp(log_weight)
    far = np.exp(log_weight + np.maximum(y, 1.0)) - weight * (1 + y)
    return np.where(y > 1, far, weight * psi(np.minimum(y, 1.0)))


@dataclass(frozen=True)
class LossNodes:
    """A quadrature of P: ``sum(exp(log_weight) * f(loss))`` is E_P f(L).

    Its error in M(s) is at most ``quadrature * |s (s + 1)|``.
    """

    log_weight: Array
    loss: Array
    quadrature: float = 0.0

    def log_moment(self, t: Array) -> tuple[Array, Array]:
        """Return K(t) and a bound of its rounding error, for each real t > 0."""
        value, error = np.empty_like(t), np.empty_like(t)
        large = t * self.loss.max() > _LARGE
        for rows, moments in ((~large, self._moderate), (large, self._large)):
            if rows.any():
                value[rows], error[rows] = moments(t[rows])
        return value, error

    def _moderate(self, t: Array) -> tuple[Array, Array]:
        y = np.multiply.outer(t, self.loss)
        terms = psi(y)
        terms *= self._weight
        excess = terms.sum(axis=1) + t * self._back
        # the condition of a term in y is y psi'(y) / psi(y) <= 2 + |y|
        scale = 8 * excess + terms @ np.abs(self.log_weight)
        scale += np.einsum("ij,ij->i", terms, np.abs(y, out=y))
        return np.log1p(excess), 4 * _ULP * scale / (1 + excess)

    def _large(self, t: Array) -> tuple[Array, Array]:
        y = np.multiply.outer(t, self.loss)
        exponent = self.log_weight + y
        shift = exponent.max(axis=1)
        terms = np.exp(exponent - shift[:, None])
        total = terms.sum(axis=1)
        value = shift + np.log(total)
        scale = np.einsum("ij,ij->i", terms, np.abs(exponent) + np.abs(y)) / total
        # the log of a sum near 1 has no relative accuracy
        for i in np.flatnonzero(value < 1):
            excess = _weighted_psi(self.log_weight, y[i]).sum() + t[i] * self._back
            value[i], scale[i] = np.log1p(excess), excess * (scale[i] + 50)
        return value, 4 * _ULP * (scale + np.abs(value))

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Return K(t), K'(t) and K''(t): mean and variance of the loss tilted by exp(t L)."""
        y = t * self.loss
        if y.max() <= _LARGE:
            growth = np.expm1(y)
            growth *= self._weight
            excess = float(self._weight @ psi(y)) + t * self._back
            first = float(growth @ self.loss) + self._back
            second = float((growth + self._weight) @ (self.loss * self.loss))
            mean = first / (1 + excess)
            return math.log1p(excess), mean, second / (1 + excess) - mean * mean
        tilted, value = self.log_weight + y, float(self.log_moment(np.array([t]))[0][0])
        tilted = np.exp(tilted - tilted.max())
        tilted /= tilted.sum()
        mean = float(tilted @ self.loss)
        return value, mean, float(tilted @ (self.loss - mean) ** 2)

    @cached_property
    def _weight(self) -> Array:
        return np.exp(self.log_weight)

    @cached_property
    def _back(self) -> float:
        return float(_weighted_psi(self.log_weight, -self.loss).sum())


class LossModel(Protocol):
    """The dominating pair of one step, in both directions; hashable, to be remembered."""

    def __hash__(self) -> int: ...

    def nodes(self, direction: Direction, t: float, frequency: float = 0.0) -> LossNodes:
        """Return nodes that serve K(s) at Re s = t, |Im s| <= frequency.

        Raises
        ------
        OverflowError
            The loss is spread too widely for a million nodes.
        """
        ...

    def compact(self, direction: Direction, t: float) -> bool:
        """Whether the nodes for t are few, so that they may serve smaller t too."""
        ...


def log_moment(model: LossModel, t: Array, direction: Direction) -> tuple[Array, Array]:
    """Return K(t) and a bound of its error, for each real t > 0.

    K(t) / t is the Renyi divergence of order t + 1 of the direction: P || Q for
    "remove", Q || P for "add". The bound is about 1e-14 relative.

    Raises
    ------
    OverflowError
        The loss is spread too widely for a million nodes.
    """
    t = np.atleast_1d(np.asarray(t, dtype=float))
    shared = shared_nodes(model, float(t.max()), direction)
    if shared is not None:
        return shared.log_moment(t)
    if t.size == 1:
        return model.nodes(direction, float(t[0])).log_moment(t)
    parts = [log_moment(model, s, direction) for s in t]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def shared_nodes(model: LossModel, t: float, direction: Direction) -> LossNodes | None:
    """Return nodes that serve all smaller t too, None where there would be too many."""
    # rounded up, so that a search over t finds them again
    doubled = 2.0 ** math.ceil(math.log2(t))
    for enough in (max(doubled, 16.0), doubled):
        if model.compact(direction, enough):
            return _shared_nodes(model, direction, enough)
    return None


@lru_cache(maxsize=16)
def _shared_nodes(model: LossModel, direction: Direction, t: float) -> LossNodes:
    if isinstance(model, SampledGaussian):
        # a grid for slightly less noise is a little finer and wider: it serves this noise too
        step = 2.0 ** (math.floor(32 * math.log2(model.noise_multiplier)) / 32)
        grid = _shared_grid(SampledGaussian(model.sampling_probability, step), direction, t)
        return model._nodes_at(direction, *grid)
    return model.nodes(direction, t)


@lru_cache(maxsize=16)
def _shared_grid(model: "SampledGaussian", direction: Direction, t: float) -> "_Grid":
    return model._grid(direction, t, 0.0)


class _GaussianPair:
    """Two mixtures of shifted standard normals, as functions of the noise z.

    The trapezoid rule in z with spacing h errs by 2 F(d) / (exp(2 pi d/h) - 1),
    F(d) the integral of |integrand| along Im z = d, for every d inside the
    strip where a mixture has no zero: |Im z| < pi / shift.
    """

    @property
    def shift(self) -> float:
        """Distance of the mixtures' centres, in standard deviations."""
        raise NotImplementedError

    def _range(self, direction: Direction, t: float) -> tuple[float, float]:
        """Return z outside of which the integrand is negligible."""
        raise NotImplementedError

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        """Return P's log density, up to log sqrt(2 pi), and log dP/dQ at z."""
        raise NotImplementedError

    def _on_line(self, direction: Direction, x: Array, angle: Array) -> tuple[Array, Array, Array]:
        """Return log |dQ/dN|, log |dP/dQ| and arg dP/dQ at z = x + i angle / shift.

        N is the standard normal law.
        """
        raise NotImplementedError

    def compact(self, direction: Direction, t: float) -> bool:
        low, high = self._range(direction, t)
        return high - low < _FEW * 0.4 * min(1.0, 1 / self.shift)

    def nodes(self, direction: Direction, t: float, frequency: float = 0.0) -> LossNodes:
        return self._nodes_at(direction, *self._grid(direction, t, frequency))

    def _nodes_at(
        self, direction: Direction, z: Array, h: float, quadrature: float = 0.0
    ) -> LossNodes:
        log_weight, loss = self._log_densities(direction, z)
        return LossNodes(log_weight + math.log(h / math.sqrt(2 * math.pi)), loss, quadrature)

    def _grid(self, direction: Direction, t: float, frequency: float) -> "_Grid":
        """Return the nodes z, their spacing, and the quadrature's error."""
        low, high = self._range(direction, t)
        _refuse_beyond(_MANY, (high - low) / _CELL)
        scan = low + _CELL * np.arange(math.ceil((high - low) / _CELL) + 1)
        size = self._log_integrand(direction, scan, 0.0, t, frequency)
        within = size > size.max() - 200 - math.pi * frequency
        depth = min(_EDGE * math.pi / self.shift, 9.5) * np.array([0, 0.12, 0.25, 0.5, 0.75, 1])
        above = self._log_integrand(direction, scan[within], depth[:, None], t, frequency)
        strip = np.logaddexp.reduce(above, axis=1)
        h = float((2 * math.pi * depth / (_DIGITS + strip - strip[0])).max())
        count = math.ceil((high - low) / h) + 1
        if count <= _FEW:
            z = low + h * np.arange(count)
        else:
            live = np.flatnonzero(size > size.max() - _DIGITS - 8)
            cells = np.unique(np.concatenate([live - 1, live]))
            inside = math.ceil(_CELL / h)
            h = _CELL / inside
            _refuse_beyond(_MANY, cells.size * inside)
            z = (low + _CELL * cells[:, None] + h * np.arange(inside)).ravel()
        # 2 F(d) / (exp(2 pi d / h) - 1) at the d that gave h, F(d) by the scan's sum
        return z, h, math.exp(min(strip[0] - _DIGITS, 700.0)) * _CELL

    def decay(self, direction: Direction, t: float, frequency: Array, depth: Array) -> Array:
        """Return log bounds of |M(t + i w)| for every w >= frequency.

        On the line Im z = d where arg(dP/dQ) > 0 the integrand of M carries
        exp(-w arg), which falls in w; any d inside the strip will do.
        """
        z, h, _ = self._grid(direction, t, 0.0)
        depth = np.minimum(depth, 0.6 * math.pi / self.shift)[:, None]
        log_q, log_r, arg = self._on_line(direction, z, depth * self.shift)
        base = log_q + (t + 1) * log_r + 0.5 * (depth**2 - z**2)
        bounds = np.logaddexp.reduce(base - np.multiply.outer(frequency, np.abs(arg)), axis=-1)
        return np.asarray(bounds.min(axis=1) + math.log(h / math.sqrt(2 * math.pi)))

    def _log_integrand(
        self, direction: Direction, x: Array, depth: Array | float, t: float, frequency: float
    ) -> Array:
        """Return log of a bound of the integrand of M(s) - 1 at z = x + i depth.

        With r = dP/dQ, M(s) - 1 = E_Q[r^p - 1 - p (r - 1)] at p = s + 1, and the
        bracket is p (p - 1) times the integral over v in [0, 1] of
        (1 - v) (r - 1)^2 (1 + v (r - 1))^(p - 2). Constant factors are left out.
        """
        log_q, log_r, arg = self._on_line(direction, x, depth * self.shift)
        away = np.exp(-np.abs(log_r))
        square = (1 - away) ** 2 + 4 * away * np.sin(arg / 2) ** 2
        with np.errstate(divide="ignore"):  # r = 1: the integrand is 0
            log_square = 2 * np.maximum(log_r, 0) + np.log(square)
        up = np.maximum(log_r, 0)
        power = (t - 1) * up
        if t < 1:  # |1 + v (r - 1)| >= cos(arg / 2) (1 - v + v |r|)
            turned = np.log(np.cos(np.minimum(np.abs(arg), 3.0) / 2))
            power += np.log(np.maximum(up, 1)) + (t - 1) * turned
        normal = 0.5 * (depth**2 - x**2)
        return log_q + log_square + power + frequency * np.abs(arg) + normal


_Grid = tuple[Array, float, float]


def _refuse_beyond(limit: int, count: float) -> None:
    if count > limit:
        raise OverflowError(f"the privacy loss is spread too widely: {count:.1e} nodes needed")


def _log_mixture(y: Array, q: float) -> Array:
    """Return log(1 - q + q e^y), relatively accurate where it is near 0."""
    if q == 1:
        return y
    top = np.maximum(y, 100.0)
    near = np.log1p(q * np.expm1(np.minimum(y, 100.0)))
    return np.where(y < 100, near, top + math.log(q) + np.log1p((1 - q) / q * np.exp(-top)))


def _log_normal_mixture(z: Array, shift: float, q: float) -> Array:
    """Return log((1 - q) exp(-z^2/2) + q exp(-(z - shift)^2/2))."""
    near = math.log(q) - 0.5 * (z - shift) ** 2
    return near if q == 1 else np.logaddexp(near, math.log1p(-q) - 0.5 * z * z)


def _polar_mixture(y: Array, angle: Array, q: float) -> tuple[Array, Array]:
    """Return log |v| and arg v of v = 1 - q + q exp(y + i angle)."""
    if q == 1:
        return y + 0 * angle, angle + 0 * y
    low = np.minimum(y, 300.0)
    r = q * np.exp(low)
    real, imaginary = r * np.cos(angle) - q, r * np.sin(angle)
    size = 0.5 * np.log1p(2 * real + real * real + imaginary * imaginary)
    return size + (y - low), np.arctan2(imaginary, 1 + real)


def _slope(y: float, q: float) -> float:
    """Return d log(1 - q + q e^y) / dy, in [0, 1]."""
    return 1 / (1 + (1 - q) / q * math.exp(min(-y, 700.0)))


def _right_end(shift: float, q: float, p: float, extra: float = 0.0) -> float:
    """Bound the mass of exp(-z^2/2 + extra z) mixture(z)^p from the right.

    Where the exponent's slope is at most z0 - z beyond z0, the mass beyond
    z0 + 9 is negligible; a bound of z tightens the bound of the slope.
    """
    end = math.inf
    for _ in range(8):
        pull = shift * _slope(shift * (end - shift / 2), q) if end < math.inf else shift
        end = _TAIL + p * pull + extra
    return max(end, _TAIL + 2 * shift)


@dataclass(frozen=True)
class SampledGaussian(_GaussianPair):
    """Poisson-subsampled Gaussian: (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2).

    "remove" is the mixture against the Gaussian, "add" the reverse.

    References
    ----------
    Zhu, Dong and Wang 2022 (arXiv 2106.08567), theorem 11: the pair dominates.
    """

    sampling_probability: float
    noise_multiplier: float

    @property
    def shift(self) -> float:
        return 1 / self.noise_multiplier

    def _range(self, direction: Direction, t: float) -> tuple[float, float]:
        m, q = self.shift, self.sampling_probability
        if direction == "remove":
            return -_TAIL, _right_end(m, q, t + 1)
        # the mode of -z^2/2 - t log mixture(z) is the root of a monotone function
        low, high = -t * m * _slope(-m * m / 2, q), 0.0
        for _ in range(30):
            middle = (low + high) / 2
            if -t * m * _slope(m * (middle - m / 2), q) > middle:
                low = middle
            else:
                high = middle
        return low - _TAIL, _TAIL + 2 * m

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        m = self.shift
        ratio = _log_mixture(m * (z - m / 2), self.sampling_probability)
        if direction == "remove":
            return _log_normal_mixture(z, m, self.sampling_probability), ratio
        return -0.5 * z * z, -ratio

    def _on_line(self, direction: Direction, x: Array, angle: Array) -> tuple[Array, Array, Array]:
        m = self.shift
        size, arg = _polar_mixture(m * (x - m / 2), angle, self.sampling_probability)
        return (np.zeros_like(size), size, arg) if direction == "remove" else (size, -size, arg)


@dataclass(frozen=True)
class AntipodalGaussian(_GaussianPair):
    """(1-q) N(0, s^2) + q N(1, s^2) against (1-q) N(0, s^2) + q N(-1, s^2).

    One replaced record, v against -v, under Poisson sampling. Both directions
    are the same by symmetry.

    References
    ----------
    Lebeda, Regehr, Kamath and Steinke 2024 (arXiv 2405.20769).
    """

    sampling_probability: float
    noise_multiplier: float

    @property
    def shift(self) -> float:
        return 1 / self.noise_multiplier

    def _range(self, direction: Direction, t: float) -> tuple[float, float]:
        m, q = self.shift, self.sampling_probability
        # Q's own density has slope <= m _slope(...) in log, to the power -t
        end = _right_end(m, q, t + 1, t * m * _slope(-m * m / 2, q))
        return -_TAIL - 2 * m, end

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        m, q = self.shift, self.sampling_probability
        up = _log_mixture(m * (z - m / 2), q)
        down = _log_mixture(m * (-z - m / 2), q)
        near = np.clip(m * z, -1.0, 1.0)
        odds = 2 * q * math.exp(-m * m / 2) * np.sinh(near) * np.exp(-np.maximum(down, -1e4))
        weight = _log_normal_mixture(z, m, q)
        return weight, np.where(np.abs(m * z) < 1, np.log1p(np.maximum(odds, -0.999)), up - down)

    def _on_line(self, direction: Direction, x: Array, angle: Array) -> tuple[Array, Array, Array]:
        m, q = self.shift, self.sampling_probability
        up, up_arg = _polar_mixture(m * (x - m / 2), angle, q)
        down, down_arg = _polar_mixture(m * (-x - m / 2), -angle, q)
        return down, up - down, np.abs(up_arg) + np.abs(down_arg)


@dataclass(frozen=True)
class SampledLaplace:
    """Poisson-subsampled Laplace: (1-q) Lap(0, b) + q Lap(1, b) against Lap(0, b).

    The densities' ratio is constant for noise below 0 and above 1, so that the
    loss has two atoms, and a density between them.
    """

    sampling_probability: float
    scale: float

    def compact(self, direction: Direction, t: float) -> bool:
        return True

    def nodes(self, direction: Direction, t: float, frequency: float = 0.0) -> LossNodes:
        rate, q = 1 / self.scale, self.sampling_probability
        # over a panel the exponent grows by 8 at most: 16 points are exact to 1e-25
        panels = 2 * rate * (1 + (t + 1 + frequency) / 8)
        _refuse_beyond(_MANY, panels * 16)
        x, weight = _panels(math.ceil(panels))
        log_base = np.concatenate(
            [[-math.log(2)], np.log(weight * (rate / 2)) - rate * x, [-rate - math.log(2)]]
        )
        ratio = _log_mixture(rate * np.concatenate([[-1.0], 2 * x - 1, [1.0]]), q)
        if direction == "remove":
            return LossNodes(log_base + ratio, ratio)
        return LossNodes(log_base, -ratio)


@lru_cache(maxsize=8)
def _panels(count: int) -> tuple[Array, Array]:
    """Return composite 16-point Gauss-Legendre nodes and weights on [0, 1]."""
    x, weight = np.polynomial.legendre.leggauss(16)
    nodes = (np.arange(count)[:, None] + (x + 1) / 2) / count
    return nodes.ravel(), np.tile(weight / (2 * count), count)
