"""The dominating pairs of one step, turned into nodes for log moments.

Gaussian noise by the trapezoid rule, Laplace noise by Gauss-Legendre panels and two atoms.
docs/theory/contour.md derives the spacing and the errors.
"""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from privacy.losses.quadrature import Array, Complex, Direction, LineNodes, LossNodes

_LARGEST = 600.0  # exponents up to which weights are taken
_TAIL = 9.0  # the normal mass beyond 9 sigma is 1e-19
_DIGITS = 42.0  # trapezoid error: exp(-42) = 6e-19
_NARROW = 0.1  # sigmas within which an end of a range is looked for
_EDGE = 0.95  # how much of the strip of analyticity is used
_EVEN = 64  # panels up to which all are of one width
_CELL = 0.5  # cells of the scan that finds where an integrand lives, in sigmas
_WIDE, _BLOCK = 2000, 16  # cells of a scan beyond which blocks of them are looked at first
_FEW, _MANY = 1500, 2**17  # nodes: below, one set may serve all t; above, refused
_MOST_CELLS = 2**14  # of a scan; a wider one tells of deltas below any float
_DEPTHS = np.array([0, 0.15, 0.4, 0.7, 1])


class _GaussianPair:
    """Two mixtures of shifted standard normals, as functions of the noise z.

    The trapezoid rule in z with spacing h, along Im z = d0, errs by at most
    F(d) / (exp(2 pi |d - d0| / h) - 1) summed over one d above and one below d0, where F(d) is
    the integral of |integrand| along Im z = d, inside the strip where a mixture has no zero:
    |Im z| < pi / shift.
    """

    sampling_probability: float
    noise_multiplier: float
    _ulps = 16.0  # what the rounding of a density may cost, beside that of its logs

    @property
    def shift(self) -> float:
        """Distance of the mixtures' centres, in standard deviations."""
        return 1 / self.noise_multiplier

    def supremum(self, direction: Direction) -> float:
        """Return infinity: normal tails."""
        return math.inf

    def lost(self, direction: Direction) -> float:
        """Return the mass of P that is left out."""
        return 0.0

    @property
    def _reach(self) -> float:
        """Return the distance from the real line up to which |arg dP/dQ| < pi, one mixture."""
        return math.pi / self.shift

    @property
    def _strip(self) -> float:
        return min(_EDGE * self._reach, 9.5)

    def _side(self, direction: Direction) -> int:
        """Return on which side of the real line arg dP/dQ > 0."""
        return 1 if direction == "remove" else -1

    def _range(self, direction: Direction, t: float) -> tuple[float, float]:
        """Return z outside of which the integrand is negligible."""
        raise NotImplementedError

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        """Return P's log density, up to log sqrt(2 pi), and log dP/dQ at z."""
        raise NotImplementedError

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Complex, Complex]:
        """Return log dQ/dN and log dP/dQ at z = x + i side depth, N the standard normal law."""
        raise NotImplementedError

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        """Return the trapezoid rule's nodes for K(t)."""
        return self._nodes_at(direction, *self._pruned_grid(direction, t))

    def shared_nodes(self, direction: Direction, t: float) -> LossNodes | None:
        """Return nodes for (0, t], None when they would be more than some hundred."""
        grid = self._shared_grid(direction, t)
        return None if grid is None else self._nodes_at(direction, *grid)

    def stack_key(self, t: float) -> Hashable:
        """Return what fixes the shared grid."""
        return self._rounded_probability(t), _octave(self.noise_multiplier)

    def stacked_nodes(
        self, models: Sequence[Self], direction: Direction, t: float
    ) -> LossNodes | None:
        """Return shared nodes of models of one key, a row for each."""
        grid = self._shared_grid(direction, t)
        if grid is None:
            return None
        q, noise = _columns((one.sampling_probability, one.noise_multiplier) for one in models)
        several = replace(self, sampling_probability=q, noise_multiplier=noise)  # type: ignore[type-var]
        return several._nodes_at(direction, *grid)

    def _shared_grid(self, direction: Direction, t: float) -> tuple[Array, float] | None:
        low, high = self._range(direction, t)
        if high - low > _FEW * 0.4 * min(1.0, self._reach / math.pi):
            return None
        # a grid for slightly less noise is a little finer and wider: it serves this noise too
        return _whole_grid(self._rounded(t), direction, t)

    def _rounded(self, t: float) -> Self:
        q, step = self._rounded_probability(t), 2.0 ** (_octave(self.noise_multiplier) / 32)
        return replace(self, sampling_probability=q, noise_multiplier=step)  # type: ignore[type-var]

    def _rounded_probability(self, t: float) -> float:
        """Return a probability, as large or a little larger, whose grid for (0, t] serves too.

        It is as wide or wider. For q <= 1/2 a change of log q by x changes log |dP/dQ| by at most
        2 x on the real line, and 2 x / cos(_EDGE pi / 2) in the strip, and by t + 1 times that the
        log of the rule's error, which stays below e^-30.
        """
        q, fine = self.sampling_probability, 2 * max(t, 16.0)
        rounded = 2.0 ** (math.ceil(fine * math.log2(q)) / fine)
        return max(rounded, q) if rounded <= 0.5 else q

    def _nodes_at(self, direction: Direction, z: Array, h: float) -> LossNodes:
        log_weight, loss = self._log_densities(direction, z)
        return LossNodes(log_weight + math.log(h / math.sqrt(2 * math.pi)), loss, self._ulps)

    def _pruned_grid(self, direction: Direction, t: float) -> tuple[Array, float]:
        """Return nodes on the real line for t alone, and their spacing."""
        scan, size = self._scan(direction, t)
        h = self._spacing(direction, np.array([t]), scan[size > size.max() - 200])
        return self._spaced(direction, t, scan, size, h)

    def whole_grid(self, direction: Direction, t: float) -> tuple[Array, float]:
        """Return nodes on the real line for (0, t], and their spacing."""
        scan, _ = self._scan(direction, t)
        # a large t lives where the integrand is smooth, and may ask for less than a small one
        some = t * 4.0 ** -np.arange(math.ceil(math.log2(max(t, 1.0))) / 2 + 5)
        h = self._spacing(direction, some, scan)
        low, high = float(scan[0]), float(scan[-1])
        # not arange(low, high, h): its step is rounded to an ulp of `low`
        return low + h * np.arange(math.ceil((high - low) / h) + 1), h

    def _spacing(self, direction: Direction, t: Array, scan: Array) -> float:
        """Return the distance of nodes that serves all of several t."""
        depth = self._strip * _DEPTHS
        base, _ = self._log_integrand(direction, scan, depth[:, None], t[:, None, None])
        size = base[:, :1]
        kept = np.where(size > size.max(axis=-1, keepdims=True) - 200, base, -np.inf)
        if not scan.size or not np.isfinite(kept.max(axis=-1)).all():
            raise OverflowError("the privacy loss is too small for the quadrature")
        strip = log_sum(kept)
        # no credit for an integral that is smaller off the real line than on it
        rise = np.maximum(strip - strip[:, :1], 0.0)
        return float((2 * math.pi * depth / (_DIGITS + rise)).max(axis=1).min())

    def line_nodes(
        self, direction: Direction, t: float, frequency: float, log_moment: float
    ) -> LineNodes:
        """Return nodes on the real line or, at high frequencies, above it.

        There the integrand of M(t + i w) carries exp(-w arg(dP/dQ)), which is at most 1, while
        an error bound that looks below the real line pays exp(w arg).
        """
        scan, size = self._scan(direction, t, math.pi * frequency)
        depth = self._strip * _DEPTHS
        within = scan[size > size.max() - 200 - math.pi * frequency]
        base, arg = self._log_integrand(direction, within, depth[:, None], t)
        strip = log_sum(base)
        above = 2 * _DIGITS + np.maximum(strip - strip[0], 0.0)
        below = _DIGITS + np.maximum(log_sum(base + frequency * arg) - strip[0], 0.0)
        real = 2 * math.pi * depth / below
        # d0 between 0 and d, with both errors equal
        raised = 2 * math.pi * depth / above
        h, lift = float(real.max()), 0.0
        if raised.max() > 1.5 * h:
            k = int(raised.argmax())
            h, lift = float(raised[k]), float(depth[k] * _DIGITS / above[k])
        x, h = self._spaced(direction, t, scan, size, h)
        log_q, log_ratio = self._on_line(direction, x, lift)
        z = x + 1j * self._side(direction) * lift
        exponent = log_q + (t + 1) * log_ratio - 0.5 * z * z
        weight = np.exp(exponent + (math.log(h / math.sqrt(2 * math.pi)) - log_moment))
        # twice F(d) / exp(2 pi d / h), F(d) by the scan's sum
        error = 2 * math.exp(min(float(strip[0]) - _DIGITS - log_moment, 700.0)) * _CELL
        rounding = (
            self._ulps + np.abs(log_q) + (t + 1) * np.abs(log_ratio) + x * x + abs(log_moment)
        )
        if lift:
            return LineNodes(weight, log_ratio, rounding, error)
        return LineNodes(weight.real.copy(), log_ratio.real.copy(), rounding, error)

    def _scan(self, direction: Direction, t: float, spare: float = 0.0) -> tuple[Array, Array]:
        """Return a coarse grid, and the log of the integrand there.

        A wide one is left out where the integrand is some e^-200 of its largest, or `spare` less.
        """
        low, high = self._range(direction, t)
        refuse_beyond(_MOST_CELLS, (high - low) / _CELL)
        cells = np.arange(math.ceil((high - low) / _CELL) + 1)
        if cells.size > _WIDE:
            cells = cells[self._live(direction, t, low, cells.size, spare)]
        scan = low + _CELL * cells
        return scan, self._log_integrand(direction, scan, 0.0, t)[0]

    def _live(
        self, direction: Direction, t: float, low: float, count: int, spare: float
    ) -> NDArray[np.bool_]:
        """Return which cells may matter, from bounds of whole blocks of them.

        The log of the integrand is at most log Q + (t + 1) max(log r, 0) - z^2 / 2, which lies
        above a chord by at most width^2 / 8 times a bound of minus its second derivative.
        """
        above = (_BLOCK * _CELL) ** 2 / 8 * self._bend(direction, t, low)
        if above > 100:
            return np.ones(count, dtype=bool)
        z = low + _CELL * _BLOCK * np.arange(count // _BLOCK + 2)
        log_q, log_ratio = self._on_line(direction, z, 0.0)
        base = log_q.real - 0.5 * z * z
        bound = base + (t + 1) * np.maximum(log_ratio.real, 0.0)
        size = self._log_integrand(direction, z, 0.0, t)[0].max() - 220 - spare
        mass = (base + (t + 1) * log_ratio.real).max() - 2 * _DIGITS
        live = np.maximum(bound[:-1], bound[1:]) + above >= min(size, mass)
        live[1:] |= live[:-1].copy()  # the last cell of a block ends in the next
        return np.repeat(live, _BLOCK)[:count]

    def _bend(self, direction: Direction, t: float, low: float) -> float:
        """Return a bound of minus the second derivative of the log mass, right of `low`."""
        raise NotImplementedError

    def _spaced(
        self, direction: Direction, t: float, scan: Array, size: Array, h: float
    ) -> tuple[Array, float]:
        """Return nodes at most h apart: all along the scan or, if many, where something is."""
        low, high = float(scan[0]), float(scan[-1])
        count = math.ceil((high - low) / h) + 1
        if count <= _FEW // 3:
            return low + h * np.arange(count), h
        # the integrand of M - 1 lives here, the mass of P tilted by exp(t L) there
        log_q, log_ratio = self._on_line(direction, scan, 0.0)
        mass = log_q.real + (t + 1) * log_ratio.real - 0.5 * scan * scan
        rank = np.maximum(size - size.max(), mass - mass.max())
        live = np.flatnonzero(rank > -_DIGITS - 8)
        place = np.rint((scan[live] - low) / _CELL)
        cells = np.unique(np.concatenate([place - 1, place]))
        inside = math.ceil(_CELL / h)
        h = _CELL / inside
        refuse_beyond(_MANY, cells.size * inside)
        return (low + _CELL * cells[:, None] + h * np.arange(inside)).ravel(), h

    def _log_integrand(
        self, direction: Direction, x: Array, depth: Array | float, t: Array | float
    ) -> tuple[Array, Array]:
        """Return log of a bound of the integrand of M(t) - 1, and arg dP/dQ, at x + i depth.

        With r = dP/dQ, M(s) - 1 = E_Q[r^p - 1 - p (r - 1)] at p = s + 1, and the
        bracket is p (p - 1) times the integral over v in [0, 1] of
        (1 - v) (r - 1)^2 (1 + v (r - 1))^(p - 2). Constant factors are left out;
        s = t + i w has the factor exp(w |arg|).
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
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        """Return log bounds of |M(t + i w)| / M(t) for every w >= frequency.

        On the line Im z = d, where arg(dP/dQ) > 0, the integrand of M carries
        exp(-w arg), which falls in w; any d inside the strip will do.
        """
        shared = self._shared_grid(direction, max(16.0, 2.0 ** math.ceil(math.log2(t))))
        z, h = shared or self._pruned_grid(direction, t)
        depth = np.minimum(depth, 0.6 * self._reach)[:, None]
        log_q, log_ratio = self._on_line(direction, z, depth)
        base = log_q.real + (t + 1) * log_ratio.real + 0.5 * (depth**2 - z * z)
        exponent = np.multiply.outer(-frequency, np.abs(log_ratio.imag)) + base
        least: Array = log_sum(exponent).min(axis=1)
        return least + (math.log(h / math.sqrt(2 * math.pi)) - log_moment)


def _columns(pairs: Iterable[tuple[float, float]]) -> tuple[Any, Any]:
    """Return a column of each of two parameters, or the one number where they are all equal."""
    both = zip(*pairs, strict=True)
    q, noise = (np.array(p)[:, None] if len(set(p)) > 1 else p[0] for p in both)
    return q, noise


def _octave(noise: float) -> int:
    """Return the largest k with 2^(k / 32) <= noise."""
    return math.floor(32 * math.log2(noise))


@lru_cache(maxsize=512)
def _whole_grid(model: _GaussianPair, direction: Direction, t: float) -> tuple[Array, float]:
    return model.whole_grid(direction, t)


def refuse_beyond(limit: int, count: float) -> None:
    """Raise OverflowError where a quadrature needs too many nodes."""
    if count > limit:
        raise OverflowError(f"the privacy loss is spread too widely: {count:.1e} nodes needed")


def log_sum(exponent: Array) -> Array:
    """Return the log of the sum of exp over the last axis."""
    top = exponent.max(axis=-1, keepdims=True)
    return np.asarray(np.log(np.exp(exponent - top).sum(axis=-1)) + top[..., 0])


def _log_mixture(y: Array, q: Any) -> Array:
    """Return log(1 - q + q e^y), relatively accurate where it is near 0."""
    if _unsampled(q):
        return y
    excess = q * np.expm1(np.minimum(y, 700.0))
    # far from 1 the two parts are added as they are: 1 - q may be all that is left
    far = np.logaddexp(np.log1p(-q), np.log(q) + y)
    near = np.log1p(np.clip(excess, -0.5, 0.5))
    return np.asarray(np.where(np.abs(excess) < 0.5, near, far))


def _unsampled(q: Any) -> bool:
    """Return whether q is 1, which no entry of a column is."""
    return isinstance(q, float) and q == 1


def _log_normal_mixture(z: Array, shift: Any, q: Any) -> Array:
    """Return log((1 - q) exp(-z^2/2) + q exp(-(z - shift)^2/2))."""
    if _unsampled(q):
        return np.asarray(-0.5 * (z - shift) ** 2)
    near = np.log(q) - 0.5 * (z - shift) ** 2
    return np.asarray(np.logaddexp(near, np.log1p(-q) - 0.5 * z * z))


def _complex_log_mixture(y: Array, angle: Array | float, q: float) -> Complex:
    """Return log(1 - q + q exp(y + i angle)), |angle| < pi unless q = 1.

    Relatively accurate near 0, as the losses of much noise are tiny.
    """
    out = np.empty(np.broadcast(y, angle).shape, dtype=complex)
    if q == 1:
        out.real, out.imag = y, angle
        return out
    if np.ndim(angle) == 0 and angle == 0:
        out.real, out.imag = _log_mixture(y, q), 0.0
        return out
    low = np.minimum(y, 300.0)
    growth, cosine = np.expm1(low), np.cos(angle)
    r = q * (1 + growth)
    # e^(y + i angle) - 1, no part of which cancels where both are small
    real = q * (growth * cosine - 2 * np.sin(0.5 * angle) ** 2)
    imaginary = r * np.sin(angle)
    square = 2 * real + real * real + imaginary * imaginary
    whole = (1 - q) + r * cosine
    far = np.log(np.maximum(np.hypot(whole, imaginary), 1e-300))
    out.real = np.where(square > -0.5, 0.5 * np.log1p(np.maximum(square, -0.5)), far) + (y - low)
    out.imag = np.arctan2(imaginary, whole)
    return out


def _slope(y: float, q: float) -> float:
    """Return d log(1 - q + q e^y) / dy, in [0, 1]."""
    return 1 / (1 + (1 - q) / q * math.exp(min(-y, 700.0)))


def _right_end(pull: Callable[[float], float], span: float, p: float, extra: float = 0.0) -> float:
    """Bound the mass of exp(-z^2/2 + extra z) mixture(z)^p from the right.

    `pull` is the increasing slope of log mixture(z) - log normal(z), at most `span`. Where the
    exponent's slope is at most z0 - z beyond z0, the mass beyond z0 + 9 is negligible; a bound
    of z tightens the bound of the slope.
    """
    end = math.inf
    for _ in range(8):
        last, end = end, _TAIL + p * (pull(end) if end < math.inf else span) + extra
        if end > last - _NARROW:
            break
    return max(end, _TAIL + 2 * span)


class AgainstNormal(_GaussianPair):
    """A mixture R of normals right of 0 against the standard normal N.

    "remove" is the mixture against the normal, "add" the reverse.
    """

    @property
    def _span(self) -> float:
        """Return the place of the last centre."""
        return self.shift

    def _pull(self, z: float) -> float:
        """Return the derivative of log dR/dN, which increases."""
        raise NotImplementedError

    def log_ratio(self, z: Array) -> Array:
        """Return log dR/dN, relatively accurate where it is near 0."""
        raise NotImplementedError

    def _log_mixture(self, z: Array) -> Array:
        """Return R's log density, up to log sqrt(2 pi)."""
        raise NotImplementedError

    def _line_ratio(self, x: Array, y: Array | float) -> Complex:
        """Return log dR/dN at x + i y."""
        raise NotImplementedError

    def _range(self, direction: Direction, t: float) -> tuple[float, float]:
        if direction == "remove":
            return -_TAIL, _right_end(self._pull, self._span, t + 1)
        # the mode of -z^2/2 - t log dR/dN is the root of a monotone function
        low, high = -t * self._pull(0.0), 0.0
        for _ in range(30):
            if high - low < _NARROW:
                break
            middle = (low + high) / 2
            if -t * self._pull(middle) > middle:
                low = middle
            else:
                high = middle
        return low - _TAIL, _TAIL + 2 * self._span

    def _bend(self, direction: Direction, t: float, low: float) -> float:
        # log dR/dN is convex, its second derivative a variance of centres
        return 1.0 if direction == "remove" else 1 + t * self._span**2 / 4

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        ratio = self.log_ratio(z)
        return (self._log_mixture(z), ratio) if direction == "remove" else (-0.5 * z * z, -ratio)

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Complex, Complex]:
        ratio = self._line_ratio(x, self._side(direction) * depth)
        return (np.zeros(1, dtype=complex), ratio) if direction == "remove" else (ratio, -ratio)


@dataclass(frozen=True)
class SampledGaussian(AgainstNormal):
    """Poisson-subsampled Gaussian: (1-q) N(0, s^2) + q N(1, s^2) against N(0, s^2).

    References
    ----------
    Zhu, Dong and Wang 2022 (arXiv 2106.08567), theorem 11: the pair dominates.
    """

    sampling_probability: float
    noise_multiplier: float

    def supremum(self, direction: Direction) -> float:
        """Return log(1 / (1 - q)) when adding: a record that was not sampled."""
        q = self.sampling_probability
        return math.inf if direction == "remove" or q == 1 else -math.log1p(-q)

    def _pull(self, z: float) -> float:
        m = self.shift
        return m * _slope(m * (z - m / 2), self.sampling_probability)

    def log_ratio(self, z: Array) -> Array:
        """Return log dR/dN, relatively accurate where it is near 0."""
        m = self.shift
        return _log_mixture(m * (z - m / 2), self.sampling_probability)

    def _log_mixture(self, z: Array) -> Array:
        return _log_normal_mixture(z, self.shift, self.sampling_probability)

    def _line_ratio(self, x: Array, y: Array | float) -> Complex:
        m = self.shift
        return _complex_log_mixture(m * (x - m / 2), m * y, self.sampling_probability)


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

    def _range(self, direction: Direction, t: float) -> tuple[float, float]:
        m, q = self.shift, self.sampling_probability
        # Q's own density has slope <= m _slope(...) in log, to the power -t

        def pull(z: float) -> float:
            return m * _slope(m * (z - m / 2), q)

        return -_TAIL - 2 * m, _right_end(pull, m, t + 1, t * pull(0.0))

    def _bend(self, direction: Direction, t: float, low: float) -> float:
        # of -t log Q, whose centre -shift has at most this share right of `low`
        share = _slope(self.shift * (-low - self.shift / 2), self.sampling_probability)
        return 1 + t * self.shift**2 * (share * (1 - share) if share < 0.5 else 0.25)

    def _log_densities(self, direction: Direction, z: Array) -> tuple[Array, Array]:
        m, q = self.shift, self.sampling_probability
        up = _log_mixture(m * (z - m / 2), q)
        down = _log_mixture(m * (-z - m / 2), q)
        near = np.clip(m * z, -1.0, 1.0)
        odds = 2 * q * np.exp(-m * m / 2) * np.sinh(near) * np.exp(-np.maximum(down, -1e4))
        weight = _log_normal_mixture(z, m, q)
        return weight, np.where(np.abs(m * z) < 1, np.log1p(np.maximum(odds, -0.999)), up - down)

    def _on_line(
        self, direction: Direction, x: Array, depth: Array | float
    ) -> tuple[Complex, Complex]:
        m, q = self.shift, self.sampling_probability
        up = _complex_log_mixture(m * (x - m / 2), m * depth, q)
        down = _complex_log_mixture(m * (-x - m / 2), -m * depth, q)
        return down, up - down

    def _side(self, direction: Direction) -> int:
        """Return 1: both directions are the same pair."""
        return 1


@dataclass(frozen=True)
class SampledLaplace:
    """Poisson-subsampled Laplace: (1-q) Lap(0, b) + q Lap(1, b) against Lap(0, b).

    The densities' ratio is constant for noise x below 0 and above 1, so that the
    loss has two atoms, and a density between them.
    """

    sampling_probability: float
    scale: float

    def supremum(self, direction: Direction) -> float:
        """Return the loss of one of the two atoms."""
        side = 1 if direction == "remove" else -1
        return side * float(
            _log_mixture(np.array([side / self.scale]), self.sampling_probability)[0]
        )

    def lost(self, direction: Direction) -> float:
        """Return the mass of P that is left out."""
        return 0.0

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        """Return the two atoms and Gauss-Legendre panels between them."""
        return self._nodes_at(direction, t, self.sampling_probability, np.array([self.scale]))

    def _nodes_at(self, direction: Direction, t: float, q: Any, scale: Array) -> LossNodes:
        """Return the nodes of this model, or of all that have columns of its parameters."""
        rate = 1 / scale
        x, weight = self._graded(direction, t)
        left = np.full(rate.shape, -math.log(2))
        between = np.log(weight * (rate / 2)) - rate * x
        log_base = np.concatenate([left, between, left - rate], axis=-1)
        ends = np.concatenate([[-1.0], 2 * x - 1, [1.0]])
        ratio = _log_mixture(rate * ends, q)
        if direction == "remove":
            return LossNodes(log_base + ratio, ratio)
        return LossNodes(log_base, -ratio)

    def stack_key(self, t: float) -> Hashable:
        """Return what fixes the panels, and whether all records are sampled."""
        count = self._panel_count(t, 0.0)
        return (count, self.sampling_probability == 1) if count <= _EVEN else self

    def stacked_nodes(self, models: Sequence[Self], direction: Direction, t: float) -> LossNodes:
        """Return shared nodes of models of one key, a row for each."""
        q, scale = _columns((one.sampling_probability, one.scale) for one in models)
        return self._nodes_at(direction, t, q, np.atleast_1d(scale))

    def _graded(self, direction: Direction, t: float) -> tuple[Array, Array]:
        """Return panels of [0, 1] for all of (0, t], wider where the loss is far from its largest.

        With D how far a panel's losses are below that at least, and S the steepest loss in it,
        a width of 8 D / (S digits) lets the exponent s L grow by 8 at most while s D < digits,
        and beyond that e^(s L) does not count. In distance u from the largest loss,
        D >= S e^(-2 h / b) (1 - e^(-2 u / b)) b / 2, as log S changes by 2 / b at most.
        """
        count, rate = self._panel_count(t, 0.0), 2 / self.scale
        refuse_beyond(_MANY, count * 16)
        if count <= _EVEN:
            away, weight = _panels(np.linspace(0.0, 1.0, count + 1))
        else:
            share, ends = 6 / (_DIGITS + 8 + rate), [0.0]
            while ends[-1] < 1:
                ends.append(ends[-1] + max(1 / count, share * -math.expm1(-rate * ends[-1]) / rate))
            away, weight = _panels(np.array([*ends[:-1], 1.0]))
        return (away, weight) if direction == "add" else (1 - away, weight)

    def _panel_count(self, t: float, more: float) -> int:
        count = 2 / self.scale + (t + 1) * self._steepest() / 8 + more
        return math.ceil(min(count, _MANY))  # which is refused

    def _across(self, t: float, more: float) -> tuple[Array, Array]:
        """Return panels of [0, 1] over which the exponent grows by 8 at most.

        Then 16 points are exact to 1e-25.
        """
        count = self._panel_count(t, more)
        refuse_beyond(_MANY, count * 16)
        return _panels(np.linspace(0.0, 1.0, count + 1))

    def _steepest(self) -> float:
        """Return a bound of |dL/dx| on [0, 1] and, but for a factor near 1, on the path."""
        return 2 / self.scale * _slope(1 / self.scale, self.sampling_probability)

    def shared_nodes(self, direction: Direction, t: float) -> LossNodes | None:
        """Return nodes for (0, t]."""
        return self.nodes(direction, t)

    def line_nodes(
        self, direction: Direction, t: float, frequency: float, log_moment: float
    ) -> LineNodes:
        """Return the atoms, and panels along 0, i d, 1 + i d, 1.

        On that path exp(i w L) falls off, so that the panels need not be finer as w grows: the
        legs' panels double in length from 1 / w on.
        """
        rate, q = 1 / self.scale, self.sampling_probability
        depth = min(0.25 * math.pi * self.scale, 1.0)
        # panels of length 1 / w near the real line, doubling up to what exp(t L) asks for
        even = depth * np.linspace(0.0, 1.0, math.ceil(depth * self._steepest() * (t + 1) / 8) + 1)
        finest = math.ceil(math.log2(max(even[1] * self._steepest() * (t + 1 + frequency) / 8, 1)))
        halves = even[1] * 2.0 ** np.arange(-finest, 0)
        y, leg = _panels(np.concatenate([[0.0], halves, even[1:]]))
        x, top = self._across(t, 5 * max(2 * rate, 1 / depth))
        place = np.concatenate([1j * y, x + 1j * depth, 1 + 1j * y, [0.0, 1.0]])
        measure = 0.5 * rate * np.concatenate([1j * leg, top, -1j * leg])
        if direction == "add":
            place, measure = place.conj(), measure.conj()
        ratio = _complex_log_mixture(rate * (2 * place.real - 1), 2 * rate * place.imag, q)
        log_p = ratio * (t + 1) if direction == "remove" else -t * ratio
        exponent = log_p - rate * place - log_moment
        if exponent.real.max() > _LARGEST:  # an order so large that the path is no good
            raise OverflowError("the path round the integral is too far from the real line")
        weight = np.exp(exponent)
        weight[:-2] *= measure
        weight[-2:] *= 0.5
        rounding = 16 + np.abs(log_p) + rate + abs(log_moment)
        return LineNodes(weight, ratio if direction == "remove" else -ratio, rounding, 1e-20)

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        """Return log bounds of |M(t + i w)| / M(t) for every w >= frequency.

        The atoms do not decay, the panels do. Where |M(t + i w)| / M(t) <= b < 1 for all
        w >= a, it is at most 1 - (1 - b^2) w^2 / (8 a^2) for w < a (Petrov 1975, lemma I.1).
        """
        spread = 2 / self.scale
        size = min(spread, self.sampling_probability * math.expm1(spread))
        a = 2.0 ** np.arange(-2.0, 12.0) / max(size, 1e-140)
        line = self.line_nodes(direction, t, float(a[-1]), log_moment)
        fall = np.exp(-np.multiply.outer(a, np.maximum(line.loss.imag, 0.0)))
        b = np.minimum(fall @ np.abs(line.weight) * (1 + 1e-12), 1.0)
        rate = float(((1 - b * b) / (8 * a * a)).max())
        k = int(((1 - b * b) / (8 * a * a)).argmax())
        bound: Array = np.log1p(-rate * np.minimum(frequency, a[k]) ** 2)
        return bound


def _panels(ends: Array) -> tuple[Array, Array]:
    """Return 16-point Gauss-Legendre nodes and weights of all panels between `ends`."""
    x, weight = _legendre()
    half = 0.5 * np.diff(ends)[:, None]
    return (ends[:-1, None] + half * (1 + x)).ravel(), (half * weight).ravel()


@lru_cache(maxsize=1)
def _legendre() -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(16)
