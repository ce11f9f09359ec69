"""Rényi differential privacy: the divergence at every order, and its best conversion.

log delta(order) = (a - 1) (D - epsilon) + (a - 1) log(1 - 1/a) - log a (Canonne, Kamath and
Steinke 2020, Proposition 12) is convex in the order a, since (a - 1) D is (van Erven and
Harremoës 2014, Corollary 2) and the rest's second derivative is 1 / (a (a - 1)). So one
descent from a coarse grid finds the best of all orders, and every order is valid.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from privacy import _checks
from privacy._solve import ratio_up, round_up
from privacy.accounting import rule
from privacy.guarantees import Curve
from privacy.mechanisms import (
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    UnsupportedMechanism,
    ZeroConcentratedDP,
)
from privacy.notions._divergences import (
    Divergence,
    LaplaceNoise,
    Linear,
    Response,
    SampledGaussianNoise,
    antipodal,
    sampled_laplace,
)
from privacy.notions._moments import Array
from privacy.notions._profiles import ClaimProfile, amplified
from privacy.notions._trees import check_claim, mu_squared, refused, sampled_mu, shift
from privacy.relations import NeighboringRelation

Conversion = Literal["optimal", "classic"]

_U = 2.0**-53
_FRACTIONAL = 16  # from this order on only integers are tried: their steps are small enough
_LAST = 2**17


def _default_orders() -> Array:
    """Return the default orders: fractional near 1, all of 2 .. 64, then two an octave."""
    near = 1 + np.array([0.002, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    between = np.array([2.25, 2.5, 2.75, 3.25, 3.5, 3.75, 4.5, 5.5, 6.5, 7.5])
    far = np.floor(2.0 ** np.arange(6.5, 9.1, 0.5))
    return np.sort(np.concatenate([near, between, np.arange(2.0, 65.0), far]))


DEFAULT_ORDERS = _default_orders()
_SIXTHS = np.arange(1, 6) / 6
_COARSE = np.array(
    [1.002, 1.03, 1.1, 1.3, 1.6, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512]
)
_Objective = Callable[[Array, Array], Array]


class RenyiCurve(Curve):
    """Rényi divergence bounds of composed releases.

    Parameters
    ----------
    parts
        How often each divergence is released on the same records.
    relation
        The neighbouring relation.
    orders
        The only orders to use; None searches all.
    """

    notion = "rdp"
    resolution = 1e-10
    theorem = "Mironov 2017, Proposition 1; Canonne, Kamath and Steinke 2020, Proposition 12"

    def __init__(
        self,
        parts: Mapping[Divergence, int],
        relation: NeighboringRelation,
        orders: tuple[float, ...] | None = None,
    ) -> None:
        self.parts = dict(parts)
        self.relation = relation
        self.orders = orders

    def divergences(self, orders: Sequence[float] | Array = DEFAULT_ORDERS) -> Array:
        """Return the divergence at each order, by direction where directions differ.

        Parameters
        ----------
        orders
            Rényi orders > 1, shape (n,).

        Returns
        -------
        ndarray
            Upper bounds, shape (n,), or (2, n): one record removed, one added.
        """
        a = np.asarray(orders, dtype=float)
        with np.errstate(over="ignore"):
            total: Array = sum(
                (count * part.at(a) for part, count in self.parts.items()), start=np.zeros(())
            )
            return total * (1 + 2 * len(self.parts) * _U)

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence bound at one order > 1, the worse direction."""
        order = _checks.real("order", order, "Pass a Rényi order, such as 2.", above=1)
        return float(self.divergences(np.array([order])).max())

    def _worst(self, orders: Array) -> Array:
        rows = self.divergences(orders)
        return rows if rows.ndim == 1 else rows.max(axis=0)

    @cached_property
    def _first(self) -> tuple[Array, Array]:
        """The orders that every query starts from, and their divergences."""
        orders = _COARSE if self.orders is None else np.array(sorted(self.orders))
        return orders, self._worst(orders)

    def _search(self, objective: _Objective) -> tuple[float, float]:
        """Return the smallest value of a quasi-convex objective, and its order."""
        orders, worst = self._first
        values = objective(orders, worst)
        best = int(values.argmin())
        if self.orders is not None:
            return float(values[best]), float(orders[best])
        while best == orders.size - 1 and orders[best] < _LAST:  # the best order is at the edge
            more = orders[-1] * np.array([2.0, 4.0])
            orders = np.concatenate([orders[-2:], more])
            values = np.concatenate([values[-2:], objective(more, self._worst(more))])
            best = int(values.argmin())
        # cut the bracket into sixths, three times; the objective is flat at its best
        for _ in range(3):
            low, high = orders[max(best - 1, 0)], orders[min(best + 1, orders.size - 1)]
            inner = 1 + (low - 1) * ((high - 1) / (low - 1)) ** _SIXTHS
            if low >= _FRACTIONAL:
                inner = np.unique(np.floor(inner))
            kept = slice(max(best - 1, 0), best + 2)
            tried = objective(inner, self._worst(inner))
            orders = np.concatenate([orders[kept], inner])
            values = np.concatenate([values[kept], tried])
            rank = np.argsort(orders)
            orders, values = orders[rank], values[rank]
            best = int(values.argmin())
        return float(values[best]), float(orders[best])

    @cached_property
    def _log_total_variation(self) -> float:
        """An upper bound: TV <= sqrt(1 - e^-KL), and KL <= D at any order > 1.

        Bretagnolle and Huber 1979, Lemma 2.1. It keeps tiny epsilons reachable, where every
        order's conversion is above zero.
        """
        gap = -math.expm1(-float(self._first[1][0]))
        return 0.5 * math.log(gap) + 8 * _U if gap > 0 else -math.inf

    def _log_delta(self, epsilon: float) -> float:
        value, _ = self._search(lambda orders, worst: _log_deltas(worst, epsilon, orders))
        return min(0.0, value, self._log_total_variation)

    def epsilon(self, delta: float, *, conversion: Conversion = "optimal") -> float:
        """Return the smallest epsilon proven for `delta`.

        Parameters
        ----------
        delta
            Probability in [0, 1).
        conversion
            ``"optimal"``: D + log(1 - 1/a) - log(a delta)/(a - 1) (Canonne, Kamath and Steinke
            2020, Proposition 12). ``"classic"``: D + log(1/delta)/(a - 1) (Mironov 2017,
            Proposition 3), valid and loose.
        """
        if conversion not in ("optimal", "classic"):
            remedy = "Use 'optimal' unless you must match another tool."
            raise ValueError(
                _checks.expected("conversion", conversion, "'optimal' or 'classic'", remedy)
            )
        return self._best(_checks.query_delta(delta), conversion)[0]

    def _epsilon(self, delta: float) -> float:
        return self._best(delta, "optimal")[0]

    def _best(self, delta: float, conversion: Conversion) -> tuple[float, float | None]:
        if delta == 0:
            return math.inf, None
        if conversion == "optimal" and self._log_total_variation <= math.log(delta):
            return 0.0, None
        convert = _epsilons if conversion == "optimal" else _classic_epsilons
        value, order = self._search(lambda orders, worst: convert(worst, delta, orders))
        return max(0.0, math.nextafter(value, math.inf)), order

    def order(self, epsilon: float) -> float | None:
        """Return the order whose delta at `epsilon` is smallest."""
        return self._search(lambda orders, worst: _log_deltas(worst, epsilon, orders))[1]

    def __add__(self, other: "RenyiCurve") -> "RenyiCurve":
        """Return the curve of both: divergences add, within each direction."""
        self._check_same(other)
        parts = dict(self.parts)
        for part, count in other.parts.items():
            parts[part] = parts.get(part, 0) + count
        return RenyiCurve(parts, self.relation, self.orders)

    def __mul__(self, count: int) -> "RenyiCurve":
        """Return the curve of `count` releases."""
        count = _checks.count("count", count, "Pass the number of releases.")
        return RenyiCurve({p: count * n for p, n in self.parts.items()}, self.relation, self.orders)

    def worst_of(self, other: "RenyiCurve") -> "RenyiCurve":
        """Return the larger divergence at each order and in each direction."""
        self._check_same(other)
        if self.parts == other.parts:
            return self
        return RenyiCurve({_Worst(self._frozen(), other._frozen()): 1}, self.relation, self.orders)

    def moved(self, other: "RenyiCurve") -> "RenyiCurve":
        """Return the REPLACE_ONE curve of a record removed here and added to `other`."""
        return RenyiCurve(
            {_Moved(self._frozen(), other._frozen()): 1}, NeighboringRelation.REPLACE_ONE
        )

    def _frozen(self) -> "_Parts":
        return tuple(self.parts.items())


_Parts = tuple[tuple[Divergence, int], ...]


def _epsilons(worst: Array, delta: float, orders: Array) -> Array:
    a, log_delta = orders, math.log(delta)
    mass = (np.log(a) + log_delta) / (a - 1)
    rounding = 8 * _U * (worst + 1 / a + (np.log(a) - log_delta) / (a - 1))
    return np.asarray(worst + np.log1p(-1 / a) - mass + rounding)


def _classic_epsilons(worst: Array, delta: float, orders: Array) -> Array:
    value = worst - math.log(delta) / (orders - 1)
    return np.asarray(value * (1 + 8 * _U))


def _log_deltas(worst: Array, epsilon: float, orders: Array) -> Array:
    a = orders
    gain, log_a = (a - 1) * np.log1p(-1 / a), np.log(a)
    rounding = 8 * _U * ((a - 1) * (worst + epsilon) - gain + log_a + 1)
    return np.asarray((a - 1) * (worst - epsilon) + gain - log_a + rounding)


def _sum(parts: _Parts, orders: Array) -> Array:
    return RenyiCurve(dict(parts), NeighboringRelation.ADD_OR_REMOVE_ONE).divergences(orders)


def _rows(parts: _Parts, orders: Array) -> Array:
    return np.broadcast_to(_sum(parts, orders), (2, orders.size))


@dataclass(frozen=True)
class _Worst(Divergence):
    """Two sets of releases of which a record sees one."""

    one: _Parts
    other: _Parts

    def at(self, orders: Array) -> Array:
        return np.maximum(_rows(self.one, orders), _rows(self.other, orders))


@dataclass(frozen=True)
class _Moved(Divergence):
    """A record removed from the cell that `leaves` saw and added to the one `enters` saw."""

    leaves: _Parts
    enters: _Parts

    def at(self, orders: Array) -> Array:
        removed, added = _rows(self.leaves, orders), _rows(self.enters, orders)
        return np.stack([removed[0] + added[1], removed[1] + added[0]])


def with_orders(curve: Curve, orders: Sequence[float]) -> RenyiCurve:
    """Return an RDP curve that uses only the given orders (> 1)."""
    assert isinstance(curve, RenyiCurve)
    remedy = "Pass Rényi orders, such as range(2, 65)."
    checked = tuple(_checks.real("orders", order, remedy, above=1) for order in orders)
    if not checked:
        raise ValueError(_checks.expected("orders", orders, "at least one order", remedy))
    return RenyiCurve(curve.parts, curve.relation, checked)


def _one(divergence: Divergence, relation: NeighboringRelation) -> RenyiCurve:
    return RenyiCurve({divergence: 1}, relation)


@rule("rdp", Gaussian)
def _gaussian(mechanism: Gaussian, relation: NeighboringRelation) -> RenyiCurve:
    squared = mu_squared(mechanism, relation)
    assert squared is not None
    return _one(Linear(0.5 * squared), relation)


@rule("rdp", ZeroConcentratedDP)
def _zcdp(mechanism: ZeroConcentratedDP, relation: NeighboringRelation) -> RenyiCurve:
    check_claim(mechanism, relation)
    return _one(Linear(mechanism.rho), relation)


@rule("rdp", PureDP)
def _pure(mechanism: PureDP, relation: NeighboringRelation) -> RenyiCurve:
    check_claim(mechanism, relation)
    return _one(Response(mechanism.epsilon), relation)


@rule("rdp", RandomizedResponse)
def _response(mechanism: RandomizedResponse, relation: NeighboringRelation) -> RenyiCurve:
    return _one(Response(mechanism.epsilon, mechanism.categories), relation)


@rule("rdp", Laplace)
def _laplace(mechanism: Laplace, relation: NeighboringRelation) -> RenyiCurve:
    return _one(LaplaceNoise(ratio_up(shift(mechanism, relation), mechanism.scale)), relation)


@rule("rdp", PoissonSampled)
def _sampled(mechanism: PoissonSampled, relation: NeighboringRelation) -> RenyiCurve:
    inner, q = mechanism.mechanism, mechanism.sampling_probability
    mu = sampled_mu(mechanism, relation)
    if mu is not None:
        mu = round_up(mu, 4 * _U)
        replaced = relation is NeighboringRelation.REPLACE_ONE
        return _one(antipodal(mu, q) if replaced else SampledGaussianNoise(mu, q), relation)
    if relation is NeighboringRelation.REPLACE_ONE:
        raise refused(repr(mechanism), relation, "Sampling is proven for Gaussians alone there.")
    if isinstance(inner, Laplace):
        loss = ratio_up(shift(inner, relation), inner.scale)
        return _one(sampled_laplace(loss, q), relation)
    if isinstance(inner, PureDP) and relation is NeighboringRelation.ADD_OR_REMOVE_ONE:
        check_claim(inner, relation)
        return _one(Response(amplified(ClaimProfile(inner.epsilon), q).loss), relation)
    raise UnsupportedMechanism(
        f"No rule for {inner!r} under one Poisson sample in notion 'rdp', {relation}. "
        "Gaussians, a Laplace, and (add/remove) a pure claim have one."
    )
