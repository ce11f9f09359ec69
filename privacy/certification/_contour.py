"""An upper bound on delta of a sum of losses, by a contour integral in ball arithmetic.

Let M(t) = E_P exp(t L) be the moments of the loss L = log dP/dQ of one part, and M_i, T_i those of
part i and its count. For every c > 0 and h > 0 (docs/theory/contour.md),

    delta(epsilon) <= h / (2 pi) * sum over all integers n of F(c + i n h),
    F(t) = exp(-t epsilon) / (t (t + 1)) * prod M_i(t)^T_i,

because the sum differs from the integral by alias terms that are >= 0. Floats choose c, h and the
other parameters. They affect only the tightness: these errors are enclosed for any choice.

1. Nodes. M(c + iw) is a sum of weights times exp(i w L) at the nodes of a `Part`, plus an error
   whose modulus is at most the `error` of the nodes, for all |w| <= W.
2. Truncation. With R_i >= |M_i(c + iw)| for all w >= W, the terms beyond n h = W add at most
   exp(-c epsilon) prod R_i^T_i / (pi W), because |t (t + 1)| > w^2 there.
3. Dummy Gaussian. Composing one multiplies F by exp(eta^2 t (t + 1) / 2). It never decreases
   delta, because dropping its output is post-processing.

The upper bound of the ball includes the rounding of the evaluation.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from flint import acb, acb_mat, arb
from scipy.special import log_ndtr

from privacy.certification._coverage import Unproven

Array = npt.NDArray[np.float64]

_DIGITS = 31.0  # nats: relative size of the alias terms, of the tail and of the node errors
_MOST_FREQUENCIES, _MOST_NODES = 20_000, 500_000
_CELLS, _OUTER, _LEVELS, _STAIR = 80, 16, 48, 3
_FINER = 3  # for cells of windows
_BLOCK = 1000  # nodes in memory at once
_EASY = 1_500_000  # products below which no other parameters are tried
_WIDTHS = 0.1, 0.2, 0.05
_FAR = 10.5  # widths beyond the end at which a window is negligible
_SMALL_CELLS, _LARGE_CELLS = 300, 800
# multiples of epsilon: the ends of windows, and the reciprocals of t of their bounds
_SHARES = 2.0 ** np.arange(-8.0, 8.0, 0.25)
_ORDERS = 2.0 ** np.arange(-1.0, 11.0)
_DEPTHS = 2.0 ** np.arange(-4.0, 2.0)
# multiples of the saddle point at which delta is bounded by a real t, to place the line
_BESIDE = np.concatenate(
    [[0.1, 0.25, 0.5, 1.0], 1 - 2.0 ** -np.arange(2, 10), 1 + 2.0 ** -np.arange(0.5, 10)]
)


class Nodes(NamedTuple):
    """Weights and losses whose sum is a moment, and a bound on its error."""

    weights: list[arb]
    losses: list[arb]
    error: arb

    def total(self) -> arb:
        """Return an upper bound on the moment at w = 0."""
        return sum(self.weights, self.error)


class Part(Protocol):
    """One loss in one direction.

    Methods in floats (`rough`, `rough_decay`, `plan`) are hints; the others enclose.
    """

    def supremum(self) -> arb:
        """Return an upper bound on the loss."""

    def rough(self, c: float) -> tuple[Array, Array]:
        """Return weights whose sum approximates M(c), and their losses."""

    def rough_decay(self, c: float, frequency: float, depth: float) -> tuple[float, float]:
        """Return approximately log of `decay` / M(c), and its best shift, near `depth`."""

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> object:
        """Return parameters for `nodes` and `decay` with relative errors of exp(-digits)."""

    def size(self, plan: object) -> int:
        """Return the number of nodes."""

    def nodes(self, c: float, frequency: float, plan: object) -> Nodes:
        """Return nodes for M(c + iw), |w| <= frequency."""

    def decay(self, c: float, frequency: float, plan: object, shift: float) -> arb:
        """Return a bound on |M(c + iw)| for all w >= frequency."""


class _Factor(NamedTuple):
    """A power B(side * x)^(offset + slope * t) of the mixture's likelihood ratio B."""

    side: int
    offset: int
    slope: int


_FACTORS = {
    "remove": (_Factor(1, 1, 1),),
    "add": (_Factor(1, 0, -1),),
    "replace": (_Factor(1, 1, 1), _Factor(-1, 0, -1)),
}


class Window(NamedTuple):
    """A smooth indicator X(z) = Phi((z - low) / width) - Phi((z - high) / width) of [low, high].

    On the real axis 0 <= X <= 1. As a convolution with a Gaussian, it is entire, and
    |X(x + iy)| <= exp((y / width)^2 / 2) X(x).
    """

    low: float = -math.inf
    high: float = math.inf
    width: float = math.inf

    @property
    def growth(self) -> float:
        """Return the factor of y^2 / 2 in bounds on |phi X| at x + iy."""
        return 1 + self.width**-2

    def reach(self, tilt: float) -> float:
        """Return a place beyond which X exp(tilt z) decreases quickly."""
        return self.high + self.width**2 * tilt + 10 * self.width

    def rough_log(self, near: Array, far: Array) -> Array:
        """Return approximately the largest log X between places."""
        size = np.zeros(near.size)
        if math.isfinite(self.low):
            size = log_ndtr((far - self.low) / self.width)
        if math.isfinite(self.high):
            size = np.minimum(size, log_ndtr((self.high - near) / self.width))
        return size

    def at(self, x: arb) -> arb:
        below, above = self._tails(x, 1)
        if not x > self.high:
            return below - above
        below, above = self._tails(x, -1)
        return above - below

    def _tails(self, x: arb, side: int) -> tuple[arb, arb]:
        """Return Phi(side * (x - end) / width) for both ends."""
        scale = -side / (arb(self.width) * arb(2).sqrt())
        ends = self.low, self.high
        beyond = [arb(int(side * end < 0)) for end in ends]
        for k, end in enumerate(ends):
            if math.isfinite(end):
                beyond[k] = ((x - end) * scale).erfc() / 2
        return beyond[0], beyond[1]

    def log_bound(self, near: float, far: float) -> arb:
        """Bound log X between two places, which may be infinite."""
        size = arb(0)
        if math.isfinite(self.low) and math.isfinite(far):
            size = self._tails(arb(far), 1)[0].log()
        if math.isfinite(self.high) and math.isfinite(near):
            size = size.min(self._tails(arb(near), -1)[1].log())
        return size


EVERYWHERE = Window()


class _Grid(NamedTuple):
    """Nodes at step * n for first <= n <= last."""

    step: float
    first: int
    last: int


@dataclass(frozen=True)
class SampledGaussian:
    """The loss of a Poisson-sampled Gaussian.

    With z ~ N(0, 1) and B(x) = 1 - q + q exp(mu x - mu^2 / 2), M(t) = E f_t(z), where f_t is

    - B(z)^(1 + t) if a record is removed: P = (1 - q) N(0, 1) + q N(mu, 1), Q = N(0, 1);
    - B(z)^(-t) if a record is added: the same P and Q exchanged;
    - B(z)^(1 + t) B(-z)^(-t) if it is replaced: the antipodal pair.

    In |Im z| < pi / mu, B has no zero, and theta = arg B(x + iy) increases with x and y. Hence, at
    t = c + iw, |f_t(x + iy)| is the product of the |B(+-(x + iy))|^exponent at t = c, times
    exp(-+ w Theta), with Theta >= 0 the sum of theta over the factors.

    **Trapezoid rule in z.** Nodes n h, first <= n <= last, lie between X0 = (first - 1/2) h and
    X1 = (last + 1/2) h. By the residues of cot(pi z / h), the sum differs from the integral over
    [X0, X1] by at most the integral of |phi f_t| |k| along two paths from X0 to X1, above and
    below the axis within |Im z| < pi / mu. At height v, |k| <= 1 / (exp(2 pi v / h) - 1), and
    |k| = 1 / (exp(2 pi v / h) + 1) at X0 + iv and X1 + iv. The paths are staircases, lower where
    the weights are small. The integrals along them, and the one beyond [X0, X1], are bounded by
    sums of upper bounds on cells, from the monotone B and theta, and from

        |B(x + iy)|^2 = B(x)^2 (1 - 2 p (1 - p) (1 - cos(mu y))),  p = 1 - (1 - q) / B(x).

    **Decay.** Shifting the line to Im z = +-b, with the sign for which |exp| decays,

        |M(c + iw)| <= R = integral of phi(x) e^(b^2/2) prod |B(+-x + ib)|^exponent e^(-w Theta),

    which decreases in w. Its integrand is analytic in x: log|B(x + ib)| and theta are half the sum
    and half the difference of log B(x + ib) and log B(x - ib). At x + iy, Theta becomes half of
    theta(b + y) + theta(b - y), which is >= 0 also for y > b, since theta is odd and increasing in
    its second argument. So the errors of the trapezoid rule for R are bounded as above with w = 0,
    y + b instead of y in B, and e^((b^2 + y^2)/2), for every w.
    """

    mu_squared: arb
    q: float
    direction: str
    window: Window = EVERYWHERE

    @property
    def _finer(self) -> int:
        return 1 if self.window == EVERYWHERE else _FINER

    @cached_property
    def mu(self) -> float:
        return float(self.mu_squared.sqrt().mid())

    def within(self, low: float, high: float, width: float) -> "SampledGaussian":
        return replace(self, window=Window(low, high, width))

    def kept(self) -> tuple[arb, arb]:
        """Return E X under P and under Q, for a window without a lower end."""
        mu, scale = self.mu_squared.sqrt(), (2 * (1 + arb(self.window.width) ** 2)).sqrt()
        plain, up, down = (((m - self.window.high) / scale).erfc() / 2 for m in (arb(0), mu, -mu))
        rest = 1 - arb(self.q)
        mixed = rest * plain + self.q * up
        return mixed, rest * plain + self.q * down if self.direction == "replace" else plain

    def below(self, t: float) -> arb:
        """Bound E_P X exp(t L) on z <= `far_end`, if t > 0 and the loss increases with z."""
        end = self.far_end
        edges = _linear(min(-10.0, end - 1), end, _SMALL_CELLS)
        mu, rest, half = self.mu_squared.sqrt(), 1 - arb(self.q), arb(0.5).sqrt()
        total, before, kept = arb(0), arb(0), arb(1)
        for x in map(arb, edges):
            none, one = ((-x * half).erfc() / 2, ((mu - x) * half).erfc() / 2)
            mass, loss = rest * none + self.q * one, self._loss(x)
            total += (mass - before) * kept * (arb(t) * loss).exp()
            before, kept = mass, self.window.at(x)
        return total

    def _loss(self, x: arb) -> arb:
        return sum((f.slope * self._log_ratio_ball(f.side * x) for f in self.factors), arb(0))

    def above(self, t: float, whole: arb) -> arb:
        """Bound E_P (1 - X) exp(t L), if t < 0, the loss increases with z, and E exp(t L) <= whole.

        The window has no lower end.
        """
        window = Window(self.window.high, math.inf, self.window.width)
        edges = _linear(
            window.low - 80 * window.width, window.low + 10 * window.width, _LARGE_CELLS
        )
        mu, rest, half = self.mu_squared.sqrt(), 1 - arb(self.q), arb(0.5).sqrt()
        masses = [
            (rest * (x * half).erfc() + self.q * ((x - mu) * half).erfc()) / 2
            for x in map(arb, edges)
        ] + [arb(0)]
        total = whole * window.at(arb(edges[0]))
        for n, edge in enumerate(edges):
            kept = window.at(arb(edges[n + 1])) if n < _LARGE_CELLS else arb(1)
            total += (masses[n] - masses[n + 1]) * kept * (arb(t) * self._loss(arb(edge))).exp()
        return total

    def spilled(self) -> arb:
        """Bound E_P X beyond `far_end`, for a window without a lower end."""
        end = arb(self.far_end)
        mu, half = self.mu_squared.sqrt(), arb(0.5).sqrt()
        none, one = (((end - mean) * half).erfc() / 2 for mean in (arb(0), mu))
        return self.window.at(end) * ((1 - arb(self.q)) * none + self.q * one)

    @property
    def far_end(self) -> float:
        return self.window.high + _FAR * self.window.width

    @property
    def factors(self) -> tuple[_Factor, ...]:
        return _FACTORS[self.direction]

    def _exponents(self, c: float) -> list[tuple[int, float]]:
        return [(f.side, f.offset + f.slope * c) for f in self.factors]

    def _exact_exponents(self, c: float) -> list[tuple[int, arb]]:
        return [(f.side, f.offset + f.slope * arb(c)) for f in self.factors]

    def supremum(self) -> arb:
        return -(-arb(self.q)).log1p() if self.direction == "add" else arb("inf")

    # -- hints in floats

    def _log_ratio(self, x: Array) -> Array:
        return np.logaddexp(math.log1p(-self.q), math.log(self.q) + self.mu * (x - self.mu / 2))

    def rough(self, c: float) -> tuple[Array, Array]:
        x = self._rough_places(c)
        log_weight, loss = self._rough_at(x, c)
        return np.exp(log_weight) * (x[1] - x[0]) / math.sqrt(2 * math.pi), loss

    def _rough_at(self, x: Array, c: float) -> tuple[Array, Array]:
        log_weight, loss = self.window.rough_log(x, x) - 0.5 * x * x, np.zeros_like(x)
        for factor in self.factors:
            log_ratio = self._log_ratio(factor.side * x)
            log_weight += (factor.offset + factor.slope * c) * log_ratio
            loss += factor.slope * log_ratio
        return log_weight, loss

    def _rough_places(self, c: float) -> Array:
        mu, low, high = self.mu, -12.0, 12.0
        for side, exponent in self._exponents(c):
            if exponent > 0:
                low, high = (low, high + exponent * mu) if side > 0 else (low - exponent * mu, high)
            elif side > 0:
                low += exponent * mu * self.q
            else:
                high -= exponent * mu * self.q
        if math.isfinite(self.window.high):
            tilt = sum(max(exponent, 0.0) for _, exponent in self._exponents(c)) * mu
            high = min(high, self.window.reach(tilt))
        count = int((high - low) / min(0.25, 0.5 / mu, 0.3 * self.window.width)) + 2
        if count > 200_000:
            raise Unproven("the loss spreads too widely")
        return np.linspace(low, high, count)

    def rough_ends(self, losses: Array) -> Array:
        """Return approximately the places of increasing losses."""
        x = np.linspace(-40.0, 40.0, 2001)
        _, loss = replace(self, window=EVERYWHERE)._rough_at(x, 0.0)
        return np.interp(losses, loss, x)

    def rough_below(self, t: float, ends: Array, width: float) -> Array:
        """Return approximately the log of `below` for windows with these ends."""
        x = np.linspace(-12.0, max(ends[-1] + _FAR * width, 12.0), 800)
        log_weight = self._rough_at(x, t)[0] + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi))
        beyond = np.subtract.outer(ends, x) / width
        log_kept = np.where(beyond > -_FAR, log_ndtr(beyond), -np.inf)
        return np.asarray(np.logaddexp.reduce(log_weight + log_kept, axis=1))

    def rough_above(self, t: float, ends: Array, width: float) -> tuple[Array, float]:
        """Return log moments at t beyond the ends, and the log of M(t)."""
        x = self._rough_places(t)
        log_weight = self._rough_at(x, t)[0] + math.log((x[1] - x[0]) / math.sqrt(2 * math.pi))
        log_kept = log_weight + log_ndtr(np.subtract.outer(-ends, -x) / width)
        return np.logaddexp.reduce(log_kept, axis=1), float(np.logaddexp.reduce(log_weight))

    def rough_decay(self, c: float, frequency: float, depth: float) -> tuple[float, float]:
        x = self._rough_places(c)
        best, shift = 0.0, 0.0
        plain = self._rough_size(x, c, 0.0, 0.0)
        for b in np.minimum(depth * _DEPTHS, 0.9 * math.pi / self.mu):
            log_size = self._rough_size(x, c, b, -frequency) - plain
            if log_size < best:
                best, shift = log_size, float(b)
        return best, shift

    def _rough_size(self, x: Array, c: float, y: float, frequency: float) -> float:
        """Return the log of the integral of |phi f_t(x + iy)|."""
        log_size = self.window.rough_log(x, x) - 0.5 * (x * x - self.window.growth * y * y)
        for side, exponent in self._exponents(c):
            log_ratio = self._log_ratio(side * x)
            p = -np.expm1(math.log1p(-self.q) - log_ratio)
            turn = self.mu * y
            modulus = 0.5 * np.log1p(-2 * p * (1 - p) * (1 - math.cos(turn)))
            log_size += exponent * (log_ratio + modulus)
            log_size += frequency * np.arctan2(p * math.sin(turn), 1 - p + p * math.cos(turn))
        top = log_size.max()
        return float(top + math.log(np.exp(log_size - top).sum() * (x[1] - x[0])))

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> _Grid:
        x = self._rough_places(c)
        plain = self._rough_size(x, c, 0.0, 0.0)
        # the cells of a window's end are wide
        margin = 6 * self._finer
        least = plain - digits - margin - 0.5 * self.window.growth * shift**2
        low, high = self._span(x, c, least)
        edges = np.linspace(low, high, self._finer * _CELLS + 1)
        heights, sizes = self._rough_sizes(edges, c, 0.0, frequency)
        sizes, width = sizes - plain, float(edges[1] - edges[0])
        small, step = 1e-6, 4.0
        for _ in range(11):
            middle = math.sqrt(small * step)
            enough = _path(heights, sizes, width, middle)[1] < math.exp(-digits - 1)
            small, step = (middle, step) if enough else (small, middle)
        # few bits, so that the nodes are exact floats
        fine = 2.0 ** (math.frexp(small)[1] - 12)
        step = math.floor(small / fine) * fine
        if high - low > _MOST_NODES * step:
            raise Unproven("its quadrature needs too many nodes")
        return _Grid(step, math.floor(low / step), math.ceil(high / step))

    def _span(self, x: Array, c: float, least: float) -> tuple[float, float]:
        log_size = self.window.rough_log(x, x) - 0.5 * x * x
        for side, exponent in self._exponents(c):
            log_size += exponent * self._log_ratio(side * x)
        kept = np.flatnonzero(log_size > least)
        return float(x[max(kept[0] - 1, 0)]), float(x[min(kept[-1] + 1, x.size - 1)])

    def _rough_sizes(
        self, edges: Array, c: float, b: float, frequency: float
    ) -> tuple[Array, Array]:
        """Return heights, and the log of `_log_sizes` for each of them and each cell."""
        left, right = edges[:-1], edges[1:]
        most = min(12.0, 0.98 * math.pi / self.mu - b)
        least = min(2e-3 * most, 0.5 / (1 + frequency * self.mu))
        heights: Array = np.geomspace(most, least, _LEVELS)[:, None]
        turn = self.mu * (heights + b)
        nearest = np.where(left > 0, left, np.minimum(right, 0.0))
        log_size = 0.5 * self.window.growth * heights**2 - 0.5 * nearest**2
        log_size = log_size + self.window.rough_log(left, right)
        for side, exponent in self._exponents(c):
            near, far = (left, right) if side > 0 else (-right, -left)
            log_near, log_far = self._log_ratio(near), self._log_ratio(far)
            p, top = (-np.expm1(math.log1p(-self.q) - each) for each in (log_near, log_far))
            if exponent > 0:
                log_size = log_size + exponent * log_far
            else:
                spread = np.where(p > 0.5, p * (1 - p), np.where(top < 0.5, top * (1 - top), 0.25))
                loss = 0.5 * np.log1p(-2 * spread * (1 - np.cos(turn)))
                log_size = log_size + exponent * (log_near + loss)
            if frequency:
                angle = np.arctan2(top * np.sin(turn), 1 - top + top * np.cos(turn))
                log_size = log_size + frequency * angle
        return heights, log_size

    # -- enclosures

    def _log_ratio_ball(self, x: arb) -> arb:
        mu = self.mu_squared.sqrt()
        return (self.q * (mu * x - self.mu_squared / 2).expm1()).log1p()

    def size(self, plan: object) -> int:
        grid = _as_grid(plan)
        return grid.last - grid.first + 1

    def nodes(self, c: float, frequency: float, plan: object) -> Nodes:
        grid = _as_grid(plan)
        scale = (2 * arb.pi()).sqrt()
        weights, losses = [], []
        for n in range(grid.first, grid.last + 1):
            x = arb(grid.step) * n
            log_weight, loss = -x * x / 2, arb(0)
            for factor in self.factors:
                log_ratio = self._log_ratio_ball(factor.side * x)
                log_weight += (factor.offset + factor.slope * arb(c)) * log_ratio
                loss += factor.slope * log_ratio
            weights.append(log_weight.exp() * self._windowed(x) * grid.step / scale)
            losses.append(loss)
        return Nodes(weights, losses, self._error(grid, c, 0.0, frequency))

    def _windowed(self, x: arb) -> arb:
        return arb(1) if self.window == EVERYWHERE else self.window.at(x)

    def _error(self, grid: _Grid, c: float, b: float, frequency: float) -> arb:
        """Bound the difference between the trapezoid sum and the integral at a shift b."""
        rate, w = 2 * arb.pi() / grid.step, arb(frequency)
        ends = grid.step * (grid.first - 0.5), grid.step * (grid.last + 0.5)
        edges = _linear(*ends, self._finer * _CELLS)
        levels, sizes = self._rough_sizes(np.array(edges), c, b, frequency)
        stairs = _path(levels, sizes, edges[1] - edges[0], grid.step)[0]
        heights = [float(each) for each in levels[:, 0]]
        if not (arb(b) + max(heights)) * self.mu_squared.sqrt() < arb.pi():
            return arb("inf")
        spread = 1 + 1 / arb(self.window.width) ** 2
        growth = [(spread * arb(y) * y / 2).exp() for y in heights]
        turns = [_turn(self.mu_squared.sqrt() * (arb(b) + y)) for y in heights]
        waves = [(rate * y).exp() for y in [*heights, 0.0]]
        exponents = self._exact_exponents(c)
        places = [[_Place.at(self, side * x) for x in edges] for side, _ in exponents]
        total = arb(0)
        for n, k in enumerate(stairs):
            log_size = self._log_kept(edges[n], edges[n + 1])
            for (side, exponent), cells in zip(exponents, places, strict=True):
                near, far = (cells[n], cells[n + 1]) if side > 0 else (cells[n + 1], cells[n])
                log_size += _log_turned(near, far, exponent, turns[k], w)
            width = arb(edges[n + 1]) - edges[n]
            total += width * growth[k] * log_size.exp() / (waves[k] - 1)
        heights.append(0.0)
        foot = len(heights) - 1
        for n, both in enumerate(zip([foot, *stairs], [*stairs, foot], strict=True)):
            log_size = self._log_kept(edges[n], edges[n])
            at_end = n in (0, len(stairs))
            for k in range(min(both), max(both)):
                size = log_size
                for (_, exponent), cells in zip(exponents, places, strict=True):
                    size += _log_turned(cells[n], cells[n], exponent, turns[k], w)
                kernel = waves[k + 1] + (1 if at_end else -1)
                total += (arb(heights[k]) - heights[k + 1]) * growth[k] * size.exp() / kernel
        total = 2 * total + self._outside(ends, c, b)
        return total * (spread * arb(b) * b / 2).exp() / (2 * arb.pi()).sqrt()

    def _log_kept(self, low: float, high: float) -> arb:
        """Bound -x^2 / 2 + log X(x) between two places."""
        nearest = arb(low if low > 0 else min(high, 0.0))
        return self.window.log_bound(low, high) - nearest * nearest / 2

    def _outside(self, ends: tuple[float, float], c: float, b: float) -> arb:
        """Bound the integral of e^(-x^2/2) prod |B(+-x + ib)|^exponent beyond the ends."""
        low, high = ends
        exponents = self._exact_exponents(c)
        turn, still = _turn(self.mu_squared.sqrt() * b), arb(0)
        rising = max(0.0, *(exponent for _, exponent in self._exponents(c))) * self.mu
        first, last = min(low, -1.0) - 6, max(high, 1.01 * rising + 1) + 6
        cut = math.isfinite(self.window.high)
        if cut:
            last = max(high, 1.0, min(last, self.window.reach(1.01 * rising)))
        most = self._finer * _OUTER
        squares = [(k / most) ** 2 for k in range(most + 1)]
        left = [low + (first - low) * share for share in reversed(squares)]
        right = [high + (last - high) * share for share in squares]
        total = arb(0)
        for edges in (left, right):
            places = [[_Place.at(self, side * x) for x in edges] for side, _ in exponents]
            for n in range(len(edges) - 1):
                log_size = self._log_kept(edges[n], edges[n + 1])
                for (side, exponent), cells in zip(exponents, places, strict=True):
                    near, far = (cells[n], cells[n + 1]) if side > 0 else (cells[n + 1], cells[n])
                    log_size += _log_turned(near, far, exponent, turn, still)
                total += (arb(edges[n + 1]) - edges[n]) * log_size.exp()
        # beyond the last edges no other factor but B^exponent, exponent > 0, x > 0, increases
        for edge, outward in ((left[0], -1), (right[-1], 1)):
            beyond = (edge, math.inf) if outward > 0 else (-math.inf, edge)
            log_size, fall = self._log_kept(*beyond), abs(arb(edge))
            if cut and outward > 0:
                # Phi(-v) falls at least as fast as exp(-v^2 / 2), v > 0
                fall += ((arb(edge) - self.window.high) / arb(self.window.width) ** 2).max(arb(0))
            for side, exponent in exponents:
                place, up = _Place.at(self, side * edge), side * outward > 0
                if exponent > 0:
                    log_size += exponent * place.log_ratio
                    fall -= exponent * self.mu_squared.sqrt() * int(up)
                else:
                    end = _Place((-arb(self.q)).log1p(), arb(int(up)))
                    near, far = (place, end) if up else (end, place)
                    log_size += _log_turned(near, far, exponent, turn, still)
            if not fall > 0:
                return arb("inf")
            total += log_size.exp() / fall
        return total

    def decay(self, c: float, frequency: float, plan: object, shift: float) -> arb:
        grid, b, w = _as_grid(plan), shift, arb(frequency)
        if not b < 0.97 * math.pi / self.mu:
            return arb("inf")
        log_rest = 1 - arb(self.q)
        mu = self.mu_squared.sqrt()
        turned = acb(0, mu * b).exp()
        total = arb(0)
        for n in range(grid.first, grid.last + 1):
            x = arb(grid.step) * n
            log_size = -x * x / 2
            for factor in self.factors:
                ratio = self.q * (mu * factor.side * x - self.mu_squared / 2).exp()
                log_ratio = (log_rest + ratio * turned).log()
                log_size += (factor.offset + factor.slope * arb(c)) * log_ratio.real
                log_size -= w * log_ratio.imag
            total += log_size.exp() * self._windowed(x)
        spread = 1 + 1 / arb(self.window.width) ** 2
        total *= (spread * arb(b) * b / 2).exp() * grid.step / (2 * arb.pi()).sqrt()
        return total + self._error(grid, c, b, 0.0)


class _Place(NamedTuple):
    """log B(x) and p(x) at one x."""

    log_ratio: arb
    p: arb

    @classmethod
    def at(cls, part: SampledGaussian, x: float) -> "_Place":
        excess = part.q * (part.mu_squared.sqrt() * x - part.mu_squared / 2).expm1()
        return cls(excess.log1p(), (excess + part.q) / (1 + excess))


def _turn(angle: arb) -> tuple[arb, arb]:
    return angle.cos(), angle.sin()


def _log_turned(near: _Place, far: _Place, exponent: arb, turn: tuple[arb, arb], w: arb) -> arb:
    """Bound exponent * log|B(x + iy)| + w theta between two places; turn: cos and sin of mu y."""
    cos, sin = turn
    angle = arb(0)
    if w > 0:
        angle = w * acb(1 - far.p + far.p * cos, far.p * sin).arg()
    if exponent > 0:
        return exponent * far.log_ratio + angle
    if near.p > 0.5:
        spread = near.p * (1 - near.p)
    elif far.p < 0.5:
        spread = far.p * (1 - far.p)
    else:
        spread = arb("0.25")
    return exponent * (near.log_ratio + (-2 * spread * (1 - cos)).log1p() / 2) + angle


def _path(heights: Array, sizes: Array, width: float, step: float) -> tuple[list[int], float]:
    """Return the height (an index) of the path above each cell, and its approximate integral."""
    rate = 2 * math.pi / step * heights
    kernel = rate + np.log(-np.expm1(-rate))
    level = (sizes - kernel).argmin(axis=0)
    place = np.arange(level.size)
    level = (level - _STAIR * np.abs(place - place[:, None])).max(axis=1)
    flat = np.exp(np.minimum(sizes[level, place] - kernel[level, 0], 500.0)).sum() * width
    # stairs: the larger size at their top, the kernel at their foot
    foot = np.append(kernel[1:], [[math.log(2)]], axis=0)
    tall = np.log(heights - np.append(heights[1:], [[0.0]], axis=0))
    stairs = np.zeros((heights.size + 1, level.size + 1))
    edge = stairs[1:]
    edge[:, :-1] = sizes
    edge[:, -1] = sizes[:, -1]
    np.maximum(edge[:, 1:-1], sizes[:, :-1], out=edge[:, 1:-1])
    np.exp(np.minimum(edge + (tall - foot), 500.0, out=edge), out=edge)
    np.cumsum(edge, axis=0, out=edge)
    low, high = np.append(level, heights.size), np.append(heights.size, level)
    ends = np.arange(level.size + 1)
    return level.tolist(), flat + float(np.abs(stairs[low, ends] - stairs[high, ends]).sum())


def _as_grid(plan: object) -> _Grid:
    assert isinstance(plan, _Grid)
    return plan


def _linear(low: float, high: float, count: int) -> list[float]:
    return [low + (high - low) * k / count for k in range(count)] + [high]


@dataclass(frozen=True)
class Atoms:
    """A loss with finitely many values: probabilities under P, and the losses."""

    probabilities: tuple[arb, ...]
    losses: tuple[arb, ...]

    def supremum(self) -> arb:
        return reduce(arb.max, self.losses)

    def rough(self, c: float) -> tuple[Array, Array]:
        losses = np.array([float(loss) for loss in self.losses])
        return np.array([float(p) for p in self.probabilities]) * np.exp(c * losses), losses

    def rough_decay(self, c: float, frequency: float, depth: float) -> tuple[float, float]:
        return 0.0, 0.0

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> None:
        return None

    def size(self, plan: object) -> int:
        return len(self.losses)

    def nodes(self, c: float, frequency: float, plan: object) -> Nodes:
        pairs = zip(self.probabilities, self.losses, strict=True)
        weights = [p * (loss * arb(c)).exp() for p, loss in pairs]
        return Nodes(weights, list(self.losses), arb(0))

    def decay(self, c: float, frequency: float, plan: object, shift: float) -> arb:
        return sum(self.nodes(c, frequency, plan).weights, arb(0))


@dataclass(frozen=True)
class Sum:
    """Independent losses in one direction: parts with counts, and one Gaussian.

    With `small`, one measure <= the part's or None for each part, the difference between the
    product of all measures and the product of the small ones.
    """

    parts: tuple[tuple[Part, int], ...]
    mu_squared: arb
    small: tuple["SampledGaussian | None", ...] = ()

    def delta(self, epsilon: arb, least: arb, work: int) -> arb:
        """Return an upper bound on delta; one at most `least` need not be tight.

        Raises `Unproven` if more than `work` frequencies times nodes are needed.
        """
        if self.mu_squared == 0 and self._supremum() <= epsilon:
            return arb(0)
        try:
            with np.errstate(all="ignore"):
                return self._delta(epsilon, least, work)
        except (OverflowError, ValueError, ZeroDivisionError, IndexError) as error:
            raise Unproven("the parameters of the contour integral overflow floats") from error

    def _supremum(self) -> arb:
        return sum((count * part.supremum() for part, count in self.parts), arb(0))

    def _delta(self, epsilon: arb, least: arb, work: int) -> arb:
        log_least = float(least.log().mid())
        line = _Line(self, float(epsilon.mid()), log_least)
        if line.log_bound < log_least - 1e-9:
            bound = self._at_real(line.best, epsilon)
            if bound <= least:
                return bound
        plain = line.place()
        if plain <= min(work, _EASY):
            return self._on_line(line, epsilon)
        if work <= _EASY:  # a split alone takes longer
            raise Unproven(_too_many(plain, work))
        split = _Split(self, float(epsilon.mid()), log_least)
        found = split.line.place() if split.line else math.inf
        if split.line is None or plain <= found:
            if plain > work:
                raise Unproven(_too_many(plain, work))
            return self._on_line(line, epsilon)
        if found > work:
            raise Unproven(_too_many(found, work))
        try:
            bound = split.delta(epsilon)
        except Unproven:
            if plain > work:
                raise
            bound = arb("inf")
        # float estimates of the split can be far off
        loose = bound > 2 * least and plain <= work
        return self._on_line(line, epsilon) if loose else bound

    def _at_real(self, t: float, epsilon: arb) -> arb:
        """Return exp(K(t) - t epsilon) t^t / (1 + t)^(1 + t).

        Canonne, Kamath and Steinke 2020, Proposition 12.
        """
        ball = arb(t)
        log_size = self.log_moment(t) + ball * ball.log() - (ball + 1) * ball.log1p()
        return _upper((log_size - ball * epsilon).exp())

    def log_moment(self, t: float) -> arb:
        total = self.mu_squared * arb(t) * (arb(t) + 1) / 2
        for part, count in self.parts:
            nodes = part.nodes(t, 0.0, part.plan(t, 0.0, _DIGITS + math.log(count)))
            total += count * nodes.total().log()
        return total

    def _on_line(self, line: "_Line", epsilon: arb) -> arb:
        c, h, count = arb(line.c), arb(line.step), line.count
        gaussian = self.mu_squared + arb(line.dummy)
        edge = line.step * (count - 1)
        whole, rest = [acb(1)] * count, [acb(1)] * count
        plain, sizes = arb(1), arb(0)
        for k, (part, times) in enumerate(self.parts):
            small = self.small[k] if self.small else None
            plan, shift = line.plans[k], line.shifts[k]
            nodes = part.nodes(line.c, edge, plan)
            moments = [each**times for each in _moments(nodes, line.step, count)]
            whole = [a * b for a, b in zip(whole, moments, strict=True)]
            if not self.small:
                plain *= part.decay(line.c, edge, plan, shift) ** times
                continue
            if small is not None:
                fewer = _moments(small.nodes(line.c, edge, plan), line.step, count)
                moments = [each**times for each in fewer]
                beyond = _large(part, small).decay(line.c, edge, plan, shift)
                sizes += times * beyond / nodes.total()
            rest = [a * b for a, b in zip(rest, moments, strict=True)]
            plain *= nodes.total() ** times
        if self.small:
            # |a^n - b^n| <= n |a - b| max(|a|, |b|)^(n - 1)
            plain *= sizes
            whole = [a - b for a, b in zip(whole, rest, strict=True)]
        total = arb(0)
        for n, value in enumerate(whole):
            t = acb(c, h * n)
            term = (((gaussian * (t + 1) / 2 - epsilon) * t).exp() / (t * (t + 1)) * value).real
            total += term if n else term / 2
        size = plain * (gaussian * (c * (c + 1) - arb(edge) ** 2) / 2 - c * epsilon).exp()
        return _upper(total * h / arb.pi() + size / (arb.pi() * edge))


def _too_many(products: float, work: int) -> str:
    return f"the contour integral needs {products:.2g} products, more than {work:.2g}"


def _large(part: Part, small: SampledGaussian) -> SampledGaussian:
    """Return the difference of two measures whose windows have no lower end."""
    assert isinstance(part, SampledGaussian)
    return part.within(small.window.high, part.window.high, small.window.width)


class _Split:
    """A sum without the outcomes in which all losses are small, or one is large.

    Let X <= X' be windows without lower ends on the noise of each sampled Gaussian, mu its measure
    P, and delta[m] = integral of (1 - e^(epsilon - L))_+ dm. Then delta[mu^T] is the sum of

    - delta[(X mu)^T], whose losses are small: at most the real-t bound of losses below `far_end`,
      and the probability of X mu beyond it;
    - delta[(X' mu)^T - (X mu)^T], by the contour integral of the difference of moments. The measure
      is >= 0, so that alias terms are >= 0. Moments decay in w, since no loss is near 0;
    - delta[mu^T - (X' mu)^T], whose losses are large. Without the positive part, the integrand is
      a difference of probabilities under P and Q. The rest, (e^(epsilon - L) - 1)_+ <=
      e^((1 + t)(epsilon - L)) t^t / (1 + t)^(1 + t), has a real moment bound at -1 - t.
    """

    def __init__(self, total: Sum, epsilon: float, log_delta: float) -> None:
        self.total, self.epsilon = total, epsilon
        self.line: _Line | None = None
        self._cut = [
            part if isinstance(part, SampledGaussian) and part.direction != "add" else None
            for part, _ in total.parts
        ]
        most: float = math.inf
        for width in _WIDTHS if any(self._cut) else ():
            try:
                found = self._with(width, log_delta)
            except (Unproven, ArithmeticError, ValueError, IndexError):
                continue
            if found is not None and found[0] < most:
                most, self.line, self.inner, self.below, self.above = found
                if most <= _EASY:
                    break

    def _with(
        self, width: float, log_delta: float
    ) -> tuple[int, "_Line", Sum, float, float] | None:
        epsilon, goal = self.epsilon, log_delta - _DIGITS
        losses = epsilon * _SHARES
        ends = [cut.rough_ends(losses) if cut else losses for cut in self._cut]
        best, above = losses.size, 0.0
        for t in _ORDERS / epsilon:
            bound = (1 + t) * epsilon + self._rough_large(-1 - t, ends, width)
            enough = np.flatnonzero(bound + t * math.log(t) - (1 + t) * math.log1p(t) <= goal)
            if enough.size and enough[0] < best:
                best, above = int(enough[0]), float(t)
        high = [float(each[best]) if best < losses.size else math.inf for each in ends]
        worst, below = -1, 0.0
        for t in _ORDERS / epsilon:
            bound = self._rough_small(t, ends, width) - t * epsilon
            enough = np.flatnonzero(bound + t * math.log(t) - (1 + t) * math.log1p(t) <= goal)
            if enough.size and enough[-1] > worst:
                worst, below = int(enough[-1]), float(t)
        if worst < 0 or worst >= best:
            return None
        parts, small = [], []
        for (part, count), each, top, cut in zip(
            self.total.parts, ends, high, self._cut, strict=True
        ):
            parts.append((cut.within(-math.inf, top, width) if cut else part, count))
            small.append(cut.within(-math.inf, float(each[worst]), width) if cut else None)
        inner = Sum(tuple(parts), self.total.mu_squared, tuple(small))
        line = _Line(inner, epsilon, log_delta)
        return line.place(), line, inner, below, above

    def _rough_small(self, t: float, ends: list[Array], width: float) -> Array:
        """Return the log moment at t of small losses, for each of the ends."""
        total = self._rough_gaussian(t)
        for (part, count), each, cut in zip(self.total.parts, ends, self._cut, strict=True):
            if cut:
                total += count * cut.rough_below(t, each, width)
            else:
                total += count * math.log(part.rough(t)[0].sum())
        return total

    def _rough_large(self, t: float, ends: list[Array], width: float) -> Array:
        """Return the log moment at t of outcomes with a large loss, for each of the ends."""
        total, large = self._rough_gaussian(t), np.full(_SHARES.size, -math.inf)
        for (part, count), each, cut in zip(self.total.parts, ends, self._cut, strict=True):
            if cut:
                log_share, log_all = cut.rough_above(t, each, width)
                total += count * log_all
                large = np.logaddexp(large, math.log(count) + log_share - log_all)
            else:
                total += count * math.log(part.rough(t)[0].sum())
        return np.asarray(total + large)

    def _rough_gaussian(self, t: float) -> Array:
        return np.full(_SHARES.size, 0.5 * float(self.total.mu_squared.mid()) * t * (t + 1))

    def _small(self, epsilon: arb) -> arb:
        """Bound delta of the outcomes in which all losses are small."""
        assert self.line is not None
        t = arb(self.below)
        log_size = (self.inner.mu_squared + arb(self.line.dummy)) * t * (t + 1) / 2 - t * epsilon
        log_size += t * t.log() - (t + 1) * t.log1p()
        spilled = arb(0)
        for (part, count), small in zip(self.inner.parts, self.inner.small, strict=True):
            if small is None:
                alone = Sum(((part, count),), arb(0))
                log_size += alone.log_moment(self.below)
            else:
                log_size += count * small.below(self.below).log()
                spilled += count * small.spilled()
        return spilled + log_size.exp()

    def delta(self, epsilon: arb) -> arb:
        assert self.line is not None
        total = self._small(epsilon) + self.inner._on_line(self.line, epsilon)
        return _upper(total + self._certain(epsilon) if self.above else total)

    def _certain(self, epsilon: arb) -> arb:
        """Bound the share of outcomes with a large loss."""
        kept, other, large = arb(1), arb(1), arb(0)
        t, at = arb(self.above), -1 - self.above
        log_size = self.total.mu_squared * t * (t + 1) / 2
        log_size += (1 + t) * epsilon + t * t.log() - (1 + t) * t.log1p()
        for (part, count), (inner, _) in zip(self.total.parts, self.inner.parts, strict=True):
            # the antipodal pair is symmetric: its moments at -1 - t and t are equal
            same = isinstance(part, SampledGaussian) and part.direction == "replace"
            place = self.above if same else at
            plan = part.plan(place, 0.0, _DIGITS + math.log(count))
            whole = part.nodes(place, 0.0, plan).total()
            log_size += count * whole.log()
            if inner != part:
                assert isinstance(inner, SampledGaussian)
                one, two = inner.kept()
                kept, other = kept * one**count, other * two**count
                large += count * inner.above(at, whole) / whole
        return (1 - kept) - epsilon.exp() * (1 - other) + large * log_size.exp()


def _upper(ball: arb) -> arb:
    """Return the upper end of a ball; infinity for a NaN."""
    end = ball.upper()
    return arb("inf") if end.is_nan() else end


def _moments(nodes: Nodes, step: float, count: int) -> list[acb]:
    """Return the sums of weight * exp(i n step loss) for n < count, with the error added.

    exp(i n step loss) with n = r + rows * k is a product, so that the sums are a matrix product.
    """
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    product = acb_mat(columns, rows)
    for start in range(0, len(nodes.losses), _BLOCK):
        turns = [acb(0, loss * step).exp() for loss in nodes.losses[start : start + _BLOCK]]
        weights = [acb(weight) for weight in nodes.weights[start : start + _BLOCK]]
        low = _powers([acb(1)] * len(turns), turns, rows)
        jump = [a * b for a, b in zip(low[-1], turns, strict=True)]
        product += acb_mat(_powers(weights, jump, columns)) * acb_mat(low).transpose()
    radius = _upper(nodes.error)
    off = acb(arb(0, radius), arb(0, radius))
    return [value + off for value in product.entries()[:count]]


def _powers(first: list[acb], factor: list[acb], count: int) -> list[list[acb]]:
    rows = [first]
    for _ in range(count - 1):
        rows.append([a * b for a, b in zip(rows[-1], factor, strict=True)])
    return rows


class _Line:
    """The parameters of the integral, from floats."""

    def __init__(self, total: Sum, epsilon: float, log_delta: float) -> None:
        self.total, self.epsilon, self.log_delta = total, epsilon, log_delta
        self.gaussian = float(total.mu_squared.mid())
        self.saddle = self._saddle()
        t = self.saddle * _BESIDE
        bound = np.array([self._cumulants(float(each))[0] for each in t])
        bound += t * np.log(t) - (t + 1) * np.log1p(t) - t * epsilon
        bound[np.isnan(bound)] = np.inf
        self.best, self.log_bound = float(t[bound.argmin()]), float(bound.min())
        self._beside, self._log_bound = np.append(t, 0.0), np.append(bound, 0.0)

    def _cumulants(self, t: float) -> tuple[float, float, float]:
        half = 0.5 * self.gaussian
        value, mean, variance = half * t * (t + 1), half * (2 * t + 1), 2 * half
        for part, count in self.total.parts:
            weight, loss = part.rough(t)
            one = float(weight.sum())
            first = float(weight @ loss) / one
            value += count * math.log(one)
            mean += count * first
            variance += count * float(weight @ (loss - first) ** 2) / one
        return value, mean, variance

    def _saddle(self) -> float:
        """Return t near the minimum of K(t) - t epsilon - log t - log(1 + t)."""
        low, high, t = 0.0, math.inf, 1.0
        for _ in range(60):
            try:
                _, mean, variance = self._cumulants(t)
                slope = mean - self.epsilon - 1 / t - 1 / (1 + t)
                bend = variance + t**-2 + (1 + t) ** -2
            except (OverflowError, Unproven):
                slope, bend = math.inf, 1.0
            if not math.isfinite(slope):
                slope, bend = math.inf, 1.0
            if abs(slope) < 0.05 * math.sqrt(bend):
                return t
            low, high = (t, high) if slope < 0 else (low, t)
            near = t - slope / bend if math.isfinite(slope) else 0.0
            t = min(max(near, t / 4), t * 4)
            if not low < t < high:
                t = math.sqrt(low * high) if low > 0 else (low + high) / 2
        raise Unproven("no saddle point was found")

    def place(self) -> int:
        """Choose c, the spacing, the last frequency, and the parameters of each part.

        Return the number of products of frequencies and nodes.
        """
        self.c, period = self._spacing()
        # few bits: multiples of the step are exact floats
        self.step = float(np.float32(2 * math.pi / period))
        value, _, variance = self._cumulants(self.c)
        excess = value - self.c * self.epsilon - self.log_delta
        self._depth = max(_DIGITS + excess - math.log(self.c), 10.0)
        last = self._last(excess, math.sqrt(2 * self._depth / variance))
        self.count = math.ceil(last / self.step) + 2
        edge = self.step * (self.count - 1)
        decay, self.shifts = self._decay(edge)
        missing = decay - math.log(math.pi * edge) + excess + _DIGITS
        self.dummy = 2 * max(missing, 0.0) / edge**2
        lost = _DIGITS + excess - math.log(2 * self.c)
        self.plans = [
            part.plan(self.c, edge, max(lost + math.log(count), 20.0), shift)
            for (part, count), shift in zip(self.total.parts, self.shifts, strict=True)
        ]
        size = sum(
            part.size(plan) for (part, _), plan in zip(self.total.parts, self.plans, strict=True)
        )
        return size * self.count * (2 if self.total.small else 1)

    def _spacing(self) -> tuple[float, float]:
        """Return c and the period 2 pi / h of the alias terms.

        A c left of the saddle point needs more digits but may need fewer terms.
        """
        t, excess = self._beside, self._log_bound - self.log_delta + _DIGITS
        among = (0.4 * self.saddle < t) & (t <= self.saddle)
        apart = t - t[among][:, None]
        with np.errstate(divide="ignore"):
            needed = excess / np.abs(apart)
        left = np.where(apart < 0, needed, np.inf).min(axis=1)
        right = np.where(apart > 0, needed, np.inf).min(axis=1)
        period = np.maximum(left, right)
        k = int((np.log(period) + 0.25 * excess[among]).argmin())
        return float(np.float32(t[among][k])), float(period[k])

    def _decay(self, frequency: float) -> tuple[float, list[float]]:
        total, shifts = -0.5 * self.gaussian * frequency**2, []
        for part, count in self.total.parts:
            depth = math.sqrt(2 * self._depth / count)
            if self.total.small:
                continue
            one, shift = part.rough_decay(self.c, frequency, depth)
            total += count * one
            shifts.append(shift)
        if not self.total.small:
            return total, shifts
        most = -math.inf
        for (part, count), small in zip(self.total.parts, self.total.small, strict=True):
            shift = 0.0
            if small is not None:
                large = _large(part, small)
                depth = math.sqrt(2 * self._depth / large.window.growth)
                one, shift = large.rough_decay(self.c, frequency, depth)
                one += math.log(count * large.rough(self.c)[0].sum() / part.rough(self.c)[0].sum())
                most = max(most, one)
            shifts.append(shift)
        return total + most, shifts

    def _last(self, excess: float, first: float) -> float:
        """Return a frequency beyond which the integrand is negligible, or the largest one."""
        most = _MOST_FREQUENCIES * self.step

        def negligible(frequency: float) -> bool:
            size = self._decay(frequency)[0] - math.log(math.pi * frequency)
            return size + excess + _DIGITS <= 0

        low = 0.0
        while not negligible(first):
            low, first = first, 1.6 * first
            if first >= most:
                return most
        for _ in range(3):
            middle = 0.5 * (low + first)
            low, first = (low, middle) if negligible(middle) else (middle, first)
        return first
