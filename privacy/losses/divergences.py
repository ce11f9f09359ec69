"""Rényi divergences of one release, at many orders at once.

Each is an upper bound on the maximum over both directions or, if the directions differ and may
cross, has one row per direction: "remove" first, "add" second.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Self

import numpy as np

from privacy.losses import quadrature
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import Array, Direction, Index, LossModel, psi
from privacy.numerics.rounding import U

FRACTIONAL = 16  # from this order on only integers are searched, as their spacing suffices
_EXACT = 64  # largest order with exact integer binomial coefficients
_LAST_SUM = 2**17  # largest order for the finite sum; larger orders use quadrature or a bound
_SUMMANDS = 2**15  # most summands computed at once, unless one order has more


class Divergence:
    """An upper bound on the Rényi divergence of one release as a function of the order."""

    __slots__ = ()

    def at(self, orders: Array) -> Array:
        """Return upper bounds at `orders` > 1, shape (n,), or (2, n) per direction."""
        raise NotImplementedError

    @classmethod
    def at_once(cls, several: Sequence[Self], orders: Array) -> Array:
        """Return the bounds of m instances of this class, shape (..., m, n)."""
        return np.stack([one.at(orders) for one in several], axis=-2)


@dataclass(frozen=True)
class Largest(Divergence):
    """The largest of several divergences, in the worse direction."""

    several: tuple[Divergence, ...]

    def at(self, orders: Array) -> Array:
        each = [np.atleast_2d(one.at(orders)).max(axis=0) for one in self.several]
        return np.asarray(np.max(each, axis=0))


class Formula(Divergence):
    """A divergence whose fields may be columns, to evaluate several instances at once."""

    __slots__ = ()

    @classmethod
    def at_once(cls, several: Sequence[Self], orders: Array) -> Array:
        if len(several) == 1:
            return several[0].at(orders)[None, :]
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        columns = ([[getattr(one, name)] for one in several] for name in names)
        return cls(*map(np.array, columns)).at(orders)


@dataclass(frozen=True)
class Linear(Divergence):
    """order * rho: exact for the Gaussian mechanism, an upper bound for a zCDP claim."""

    rho: float

    def at(self, orders: Array) -> Array:
        return orders * (self.rho * (1 + 4 * U))


@dataclass(frozen=True)
class Response(Formula):
    """Randomized response; with 2 `categories` it dominates every pure-DP mechanism.

    log(p^a r^(1-a) + r^a p^(1-a) + (categories - 2) r) / (a - 1) with
    p = e^loss / (e^loss + categories - 1), r = p e^-loss (Mironov 2017, Proposition 5).
    """

    loss: float
    categories: int = 2

    def at(self, orders: Array) -> Array:
        loss, t = self.loss, orders - 1
        # P puts p on +loss, r on -loss and the rest on 0, with p = r e^loss:
        # M - 1 = p (e^(t loss) - 1) + r (e^(-t loss) - 1) = p (e^(t loss) - 1)(1 - e^(-a loss))
        log_p = -np.log1p((self.categories - 1) * np.exp(-loss))
        grows, falls = _log_expm1(t * loss), np.log(-np.expm1(-orders * loss))
        size = np.abs(log_p) + np.abs(grows) + np.abs(falls)
        value = _log1p_exp(log_p + grows + falls, size) / t * (1 + 4 * U)
        return np.asarray(np.minimum(value, loss))


def _log1p_exp(log_sum: Array, size: Array) -> Array:
    """Return an upper bound on log(1 + e^log_sum).

    `size` is the sum of the absolute values of the summands of `log_sum`, each of which is
    accurate to a few units in the last place of 1 + its absolute value.
    """
    value = np.logaddexp(0.0, log_sum)
    rounding = U * (32 + 4 * size + 4 * np.abs(log_sum))
    # d log(1 + e^s) / ds = e^s / (1 + e^s) is at most 1, and at most 1.6 log(1 + e^s)
    return np.asarray(value + rounding * np.minimum(1.0, 1.6 * value) + 4 * U * value)


def _log_expm1(x: Array) -> Array:
    return np.asarray(x + np.log(-np.expm1(-x)))


def largest_rho(divergence: Divergence, supremum: float) -> float:
    """Return an upper bound on divergence / order over all orders > 1.

    Its relative error is 1e-12 at a sharp maximum, and up to 2e-5 at a flat one.
    With t = order - 1, K = t D is convex and 0 at t = 0 (van Erven and Harremoës 2014, Corollary
    2), and K <= t supremum. Between two t the chord A + B t, A <= 0, is above K, and
    (A + B t) / (t (t + 1)) is largest where B t^2 + 2 A t + A = 0. Panels whose bound exceeds the
    largest computed value are split.
    """
    if not supremum < 1e150:
        return math.inf

    def moment(t: Array) -> Array:
        rows = np.atleast_2d(divergence.at(1 + t)) * t
        return np.asarray(rows.max(axis=0))

    t = (1 + np.geomspace(1e-9, max(4.0, 64 / supremum), 64)) - 1  # as the orders are rounded
    k = moment(t)
    while supremum / (1 + t[-1]) > (k / (t * (1 + t))).max():
        t = np.append(t, 2 * t[-1])
        k = np.append(k, moment(t[-1:]))
    best = float((k / (t * (1 + t))).max())
    low, high, k_low, k_high = t[:-1], t[1:], k[:-1], k[1:]
    for _ in range(60):
        a = np.minimum((k_low * high - k_high * low) / (high - low), 0.0)
        b = (k_high - a) / high
        peak = np.clip((-a + np.sqrt(a * (a - b))) / b, low, high)
        bound = (a + b * peak) / (peak * (1 + peak))
        open_ = bound > best * (1 + 1e-12)
        if not open_.any() or open_.sum() > 4096:
            break
        middle = (1 + np.sqrt(low * high)[open_]) - 1
        k_middle = moment(middle)
        best = max(best, float((k_middle / (middle * (1 + middle))).max()))
        low, high = np.append(low[open_], middle), np.append(middle, high[open_])
        k_low, k_high = np.append(k_low[open_], k_middle), np.append(k_middle, k_high[open_])
    below = float(k[0] / t[0])  # orders nearer to 1 than the first
    # a discarded panel may exceed the largest computed value by a relative 1e-12
    return max(best * (1 + 1e-12), below, float(bound.max())) * (1 + 16 * U)


@dataclass(frozen=True)
class LaplaceNoise(Formula):
    """Two Laplace distributions at a distance of `loss` scales (Mironov 2017, Proposition 6).

    log(a / (2a - 1) e^((a-1) loss) + (a - 1) / (2a - 1) e^(-a loss)) / (a - 1)
    """

    loss: float

    def at(self, orders: Array) -> Array:
        """Return the divergence, from M - 1 >= 0 if the closed form would cancel.

        With psi(y) = e^y - 1 - y, M - 1 = (a psi(t loss) + t psi(-a loss)) / (2a - 1).
        """
        t = orders - 1
        value = self.loss + np.log(orders / (2 * orders - 1)) / t
        value += np.log1p(t / orders * np.exp(-(2 * orders - 1) * self.loss)) / t
        value = value * (1 + 16 * U) + 16 * U / t
        reach = self.loss * orders
        near = np.clip(reach, 1e-150, 30.0)  # the condition number of psi there is at most 32
        excess = orders * psi(near * (t / orders)) + t * psi(-near)
        small = np.log1p(excess / (2 * orders - 1)) / t * (1 + 192 * U)
        return np.asarray(np.minimum(np.where(reach < 30, small, value), self.loss))


@dataclass(frozen=True)
class BoundedRange(Formula):
    """The largest divergence of two losses t and t - width, over all t.

    With p = (e^width - e^t) / (e^width - 1), e^((a-1) D) = p e^((a-1) t) + (1 - p) e^((a-1)
    (t - width)) is largest at e^t = (1 - 1/a) (e^(a width) - 1) / (e^((a-1) width) - 1), where
    (a - 1) D = a g(a) - (a - 1) g(a - 1) - g(1), g(x) = log(2 sinh(x width / 2) / (x width)).
    """

    width: float

    def at(self, orders: Array) -> Array:
        """Return the divergence, at most width, and order * width^2 / 8 (Cesar and Rogers 2021)."""
        t = orders - 1
        half = 0.5 * self.width
        reach = orders * half
        terms = [a * _log_sinhc(np.minimum(a * half, 1e8)) for a in (orders, t, np.ones_like(t))]
        value = terms[0] - terms[1] - terms[2]
        rounding = 32 * U * (terms[0] + terms[1] + terms[2])
        linear = orders * (0.5 * half * half) * (1 + 8 * U)
        value = np.where(reach < 1e8, (value + rounding) / t, self.width)
        return np.asarray(np.minimum(np.minimum(value, linear), self.width))


def _log_sinhc(z: Array) -> Array:
    """Return log(sinh(z) / z), z > 0, with a relative accuracy of a few ulp."""
    low, high = np.minimum(z, 1.0), np.maximum(z, 1.0)
    square, series = low * low, np.zeros_like(low)
    for k in range(10, 0, -1):
        series = (1 + series) * square / ((2 * k) * (2 * k + 1))
    far = high + np.log(-np.expm1(-2 * high) / (2 * high))
    return np.where(z < 1, np.log1p(series), far)


@dataclass(frozen=True)
class Smallest(Divergence):
    """The smallest of several bounds at each order and in each direction."""

    bounds: tuple[Divergence, ...]

    def at(self, orders: Array) -> Array:
        """Return the bounds, one row per direction if one of them has directions."""
        each = [bound.at(orders) for bound in self.bounds]
        return np.asarray(np.min(np.broadcast_arrays(*each), axis=0))


@dataclass(frozen=True)
class SampledPair(Formula):
    """An upper bound for two mixtures (1 - q) R + q N(0, 1), (1 - q) R + q N(mu, 1).

    e^((a-1) D) is jointly convex in the pair: 1 + q (e^(a (a-1) mu^2 / 2) - 1).
    """

    mu: float
    q: float

    def at(self, orders: Array) -> Array:
        """Return the bound, which is loose by a factor 1 / q for small mu."""
        x = np.maximum(0.5 * self.mu * self.mu * orders * (orders - 1), 1e-300)
        log_q, growth = np.log(self.q), _log_expm1(x)
        value = _log1p_exp(log_q + growth, np.abs(log_q) + np.abs(growth))
        return np.asarray(value / (orders - 1) * (1 + 4 * U))


@dataclass(frozen=True)
class SampledNoise(Divergence):
    """Poisson-sampled noise with log moments by quadrature, in both directions."""

    model: LossModel
    unsampled: Divergence
    """An upper bound for orders at which the quadrature fails, such as that without sampling."""

    def at(self, orders: Array) -> Array:
        return self.at_once([self], orders)[:, 0]

    @classmethod
    def at_once(cls, several: Sequence[Self], orders: Array) -> Array:
        models = [one.model for one in several]
        bounds = [one.unsampled.at for one in several]
        return np.stack([_by_moments(models, orders, way, bounds) for way in ("remove", "add")])


@dataclass(frozen=True)
class SampledGaussianNoise(Formula):
    """The Poisson-sampled Gaussian mechanism in direction "remove".

    At integer orders a it is the finite sum of Mironov, Talwar and Zhang 2019 (section 3.3),
    A - 1 = sum over k >= 2 of C(a, k) (1-q)^(a-k) q^k (e^(k (k-1) mu^2 / 2) - 1),
    without cancellation; at fractional orders, quadrature. Removing is worse (their Theorem 5).
    """

    mu: float
    q: float

    def at(self, orders: Array) -> Array:
        whole = orders == np.floor(orders)
        if not whole.any():
            return self._integrated(orders, SampledGaussianNoise._chord)
        value = np.empty(orders.shape + np.shape(self.mu)[:-1])  # one row per order
        if not whole.all():
            value[~whole] = self._integrated(orders[~whole], SampledGaussianNoise._chord).T
        huge = orders > _LAST_SUM
        if huge.any():
            value[huge] = self._integrated(orders[huge], SampledGaussianNoise._convex).T
        sums = np.flatnonzero(whole & ~huge)
        for rows in _groups(sums, orders[sums]):
            value[rows] = self._by_sum(orders[rows]).T
        return value.T

    def _log_odds_terms(self, last: int) -> tuple[Array, Array]:
        """Return k log(q / (1-q)) + log(e^x - 1), x = k (k-1) mu^2 / 2, for k = 2 .. last."""
        k = np.arange(2, last + 1, dtype=float)
        x = k * (k - 1) * (0.5 * self.mu * self.mu)
        with np.errstate(divide="ignore"):  # x underflows to 0: the term is 0
            growth = _log_expm1(x)
        odds = k * (np.log(self.q) - np.log1p(-self.q))
        return odds + growth, np.abs(odds) + np.abs(growth)

    def _by_sum(self, orders: Array) -> Array:
        table = _binomials(tuple(orders.tolist()))
        terms, size = self._log_odds_terms(int(orders.max()))
        exponents = terms.take(table.place, axis=-1)
        exponents += table.log_binomial
        top = np.maximum.reduceat(exponents, table.start, axis=-1)
        exponents -= np.repeat(top, table.length, axis=-1)
        total = np.add.reduceat(np.exp(exponents, out=exponents), table.start, axis=-1)
        rest = orders * np.log1p(-self.q)
        log_sum = top + np.log(total) + rest
        # total size of the terms of an exponent, each accurate to an ulp
        scale = table.size + size.take(table.length - 1, axis=-1) + np.abs(rest)
        return np.asarray(_log1p_exp(log_sum, scale) / (orders - 1))

    def _integrated(
        self, orders: Array, bound: "Callable[[SampledGaussianNoise, Array], Array]"
    ) -> Array:
        if np.ndim(self.mu) == 0:
            model = SampledGaussian(self.q, 1 / self.mu)
            return _by_moment(model, orders, "remove", partial(bound, self))
        each = [
            SampledGaussianNoise(float(mu), float(q))
            for (mu,), (q,) in zip(self.mu, self.q, strict=True)  # type: ignore[call-overload]
        ]
        models = [SampledGaussian(one.q, 1 / one.mu) for one in each]
        return _by_moments(models, orders, "remove", [partial(bound, one) for one in each])

    def _convex(self, orders: Array) -> Array:
        return SampledPair(self.mu, self.q).at(orders)

    def _chord(self, orders: Array) -> Array:
        """Return a bound between integer orders: (a - 1) D is convex in a and 0 at 1.

        van Erven and Harremoës 2014, Corollary 2.
        """
        low, high = np.floor(orders), np.ceil(orders)
        below = np.where(low > 1, (low - 1) * self.at(np.maximum(low, 2.0)), 0.0)
        above = (high - 1) * self.at(high)
        chord = below + (orders - low) * (above - below)
        return np.asarray(chord * (1 + 8 * U) / (orders - 1))


def _by_moments(
    models: Sequence[LossModel],
    orders: Array,
    direction: Direction,
    bounds: Sequence[Callable[[Array], Array]],
) -> Array:
    value = np.empty((len(models), orders.size))
    for rows, nodes in quadrature.stacked_nodes(models, float(orders.max()) - 1, direction):
        if nodes is not None:
            value[rows] = _from_moments(*nodes.log_moment(orders - 1), orders)
            continue
        for row in rows:
            value[row] = _by_moment(models[row], orders, direction, bounds[row])
    return value


def _by_moment(
    model: LossModel, orders: Array, direction: Direction, bound: Callable[[Array], Array]
) -> Array:
    try:
        return _from_moments(*quadrature.log_moment(model, orders - 1, direction), orders)
    except OverflowError:
        if orders.size == 1:
            return bound(orders)
        each = np.split(orders, orders.size)
        return np.concatenate([_by_moment(model, order, direction, bound) for order in each])


def _from_moments(value: Array, error: Array, orders: Array) -> Array:
    return (value + error + 8 * U * value) / (orders - 1)


def _groups(rows: Index, orders: Array) -> list[Index]:
    ends = np.cumsum(orders)
    if not rows.size or ends[-1] <= _SUMMANDS:
        return [rows] if rows.size else []
    return np.split(rows, np.flatnonzero(np.diff(ends // _SUMMANDS)) + 1)


@dataclass(frozen=True)
class _Binomials:
    """log C(a, k) for k = 2 .. a, concatenated over the orders a."""

    log_binomial: Array
    place: Index  # k - 2 of each
    start: Index  # index of the first term of each order
    length: Index
    size: Array  # per order, of the numbers that the logs came from, which bounds the rounding


@lru_cache(maxsize=16)
def _binomials(orders: tuple[float, ...]) -> _Binomials:
    a = np.array(orders)
    length = a.astype(int) - 1
    start = np.cumsum(length) - length
    place = np.arange(length.sum()) - np.repeat(start, length)
    size = a.copy()
    factorials = np.empty(0)
    if a.max() > _EXACT:
        from scipy.special import gammaln

        factorials = gammaln(np.arange(1.0, a.max() + 2))
        large = a > _EXACT
        size[large] += a[large] * np.log(2 * a[large])
    logs = [_log_row(n + 1, factorials) for n in length.tolist()]
    return _Binomials(np.concatenate(logs), place, start, length, size)


def _log_row(a: int, log_factorials: Array) -> Array:
    if a <= _EXACT:
        return _exact_row(a)
    down = log_factorials[: a + 1]
    return np.asarray((down[a] - down - down[::-1])[2:])


@lru_cache(maxsize=_EXACT)
def _exact_row(a: int) -> Array:
    return np.asarray([math.log(math.comb(a, k)) for k in range(2, a + 1)])
