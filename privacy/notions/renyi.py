"""Rényi differential privacy (RDP): the divergence at every order, and its best conversion.

log delta(order) = (a - 1) (D - epsilon) + (a - 1) log(1 - 1/a) - log a (Canonne, Kamath and
Steinke 2020, Proposition 12) is convex in the order a, since (a - 1) D is (van Erven and
Harremoës 2014, Corollary 2) and the second derivative of the rest is 1 / (a (a - 1)). So one
descent from a coarse grid finds the best order; every order is valid.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, get_args

import numpy as np

from privacy import checks
from privacy.curves import NO_HINT, Answer, Curve, Hint, merged
from privacy.losses.chains import GroupDivergence
from privacy.losses.claims import NO_LOSS
from privacy.losses.divergences import FRACTIONAL, Divergence, Linear
from privacy.losses.pair import Loss
from privacy.losses.quadrature import Array
from privacy.mechanisms.selection import BestOf
from privacy.numerics.rounding import U, round_up, sum_up
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

Conversion = Literal["optimal", "classic"]

_FLAT = 2e-4  # relative range of values in a bracket below which parabolas are tried
_ACCURACY = 1e-11  # accuracy of the smallest value, relative to its size or `unit`
_LAST = 1e15


# fractional orders near 1, all of 2 .. 64, then two per octave
_NEAR = 1 + np.array([0.002, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
_BETWEEN = np.array([2.25, 2.5, 2.75, 3.25, 3.5, 3.75, 4.5, 5.5, 6.5, 7.5])
_FAR = np.floor(2.0 ** np.arange(6.5, 9.1, 0.5))
DEFAULT_ORDERS = np.sort(np.concatenate([_NEAR, _BETWEEN, np.arange(2.0, 65.0), _FAR]))
_MIDDLE = np.array([2.0, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64])
_NEAREST = 1e-3  # smallest order - 1 that is searched
_AROUND, _ABOUT = np.array([0.9995, 1.0, 1.0005]), np.array([0.99, 1.0, 1.01])
_AT = np.array([0.9995, 0.999985, 1.0, 1.000015, 1.0005])
_MANY = 64  # least number of different parts in a sample that finds the order
_STACK = 128  # divergences computed at once
_SIXTHS = np.arange(1, 6) / 6
_Objective = Callable[[Array, Array], Array]


@dataclass(frozen=True, eq=False, repr=False)
class RenyiCurve(Curve):
    """Upper bounds on the Rényi divergences of composed releases.

    `parts` has the number of releases of each divergence; `orders` the only ones to use, or None.
    """

    notion: ClassVar[str] = "rdp"
    resolution: ClassVar[float] = 1e-9
    theorem: ClassVar[str] = (
        "Mironov 2017, Proposition 1; Canonne, Kamath and Steinke 2020, Proposition 12"
    )
    parts: Mapping[Divergence, int]
    orders: tuple[float, ...] | None = None

    def divergences(self, orders: Sequence[float] | Array = DEFAULT_ORDERS) -> Array:
        """Return upper bounds on the divergences at `orders` > 1: (n,), or (2, n) by direction."""
        a = np.asarray(orders, dtype=float)
        if not self.parts:
            return np.zeros(a.shape)
        with np.errstate(over="ignore"):
            total = sum(
                (counts @ several[0].at_once(several, a) for counts, several in self._stacks),
                start=np.zeros(()),
            )
            total = total * (1 + 2 * (1 + len(self.parts)) * U)
        return np.asarray(np.maximum(total, math.ulp(0.0)))  # underflow is not zero

    @cached_property
    def _stacks(self) -> list[tuple[Array, list[Divergence]]]:
        kinds: dict[type[Divergence], list[Divergence]] = {}
        for part in self.parts:
            kinds.setdefault(type(part), []).append(part)
        runs = (
            kind[start : start + _STACK]
            for kind in kinds.values()
            for start in range(0, len(kind), _STACK)
        )
        return [(np.array([float(self.parts[part]) for part in run]), run) for run in runs]

    def divergence(self, order: float) -> float:
        """Return the Rényi divergence bound at one order > 1, the worse direction."""
        order = checks.real("order", order, "Pass a Rényi order, such as 2.", above=1)
        return float(self.divergences(np.array([order])).max())

    def _worst(self, orders: Array) -> Array:
        rows = self.divergences(orders)
        return rows if rows.ndim == 1 else rows.max(axis=0)

    def _search(
        self, objective: _Objective, unit: float = 0.0, hint: Hint = NO_HINT
    ) -> tuple[float, float]:
        """Return the smallest value of a quasi-convex objective, and its order.

        The accuracy is relative to the size of the value or `unit`, whichever is larger.
        """
        if self.orders is not None:
            given = np.array(self.orders)
            values = objective(given, self._worst(given))
            best = int(values.argmin())
            return float(values[best]), float(given[best])
        near, around = hint.order, _AT if hint.sharp else _AROUND
        if near is None and self._some is not self:
            near, around = self._some._search(objective, unit)[1], _ABOUT
        tried = _Tried(lambda orders: objective(orders, self._worst(orders)), unit)
        if near is None:
            tried.add(_MIDDLE)
        else:
            tried.whole = False
            tried.add(1 + np.maximum((near - 1) * around, _NEAREST))
        if math.isfinite(tried.values.min()):
            tried.widen()
            tried.narrow()
        return float(tried.values.min()), tried.best()

    @cached_property
    def _some(self) -> "RenyiCurve":
        """If there are many parts, every k-th one k times; its best order is near that of all."""
        every = len(self.parts) // _MANY
        if every < 2:
            return self
        some = dict(list(self.parts.items())[every // 2 :: every])
        return RenyiCurve(self.relation, {part: n * every for part, n in some.items()})

    @cached_property
    def _log_total_variation(self) -> float:
        """An upper bound: TV <= sqrt(1 - e^-KL), and KL <= D at any order > 1.

        Bretagnolle and Huber 1979, Lemma 2.1. Epsilon is 0 above it, where conversions give more.
        """
        if not self.parts:
            return -math.inf
        nearest = 1 + _NEAREST if self.orders is None else min(self.orders)
        gap = -math.expm1(-float(self._worst(np.array([nearest]))[0]))
        return 0.5 * math.log(gap) + 8 * U

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        if not self.parts:
            return self._answer(-math.inf)
        value, order = self._search(lambda a, worst: _log_deltas(worst, epsilon, a), 1.0, hint)
        if value > hint.enough:
            value = min(0.0, value, self._log_total_variation)
        return self._answer(value, order=order, hint=order)

    def _least_delta(self) -> float:
        return super()._least_delta() if self.parts else 0.0

    def epsilon(  # type: ignore[override]
        self, delta: float, *, conversion: Conversion = "optimal"
    ) -> float:
        """Return the smallest epsilon proven for `delta`, a probability in [0, 1).

        `conversion` ``"optimal"`` is that of the module, ``"classic"`` D + log(1/delta)/(a - 1)
        (Mironov 2017, Proposition 3), valid but loose.
        """
        remedy = "Use 'optimal' unless you must match another tool."
        checks.one_of("conversion", conversion, get_args(Conversion), remedy)
        if conversion == "optimal":
            return super().epsilon(delta)
        return self._best(checks.query_delta(delta), conversion).value

    def _at_delta(self, delta: float) -> Answer:
        return self._best(delta, "optimal")

    def _best(self, delta: float, conversion: Conversion) -> Answer:
        if not self.parts:
            return self._answer(0.0)
        if delta == 0:
            return self._answer(math.inf)
        few = self._some._log_total_variation - 1 <= math.log(delta)  # else it is far from enough
        if conversion == "optimal" and few and self._log_total_variation <= math.log(delta):
            return self._at_epsilon(0.0)._replace(value=0.0)
        convert = _epsilons if conversion == "optimal" else _classic_epsilons
        value, order = self._search(lambda orders, worst: convert(worst, delta, orders))
        return self._answer(max(0.0, math.nextafter(value, math.inf)), order=order, hint=order)

    def _plus(self, others: Sequence["RenyiCurve"]) -> "RenyiCurve":
        parts = merged(pair for curve in (self, *others) for pair in curve.parts.items())
        linear = [(part, n) for part, n in parts.items() if isinstance(part, Linear)]
        if len(linear) > 1:
            rho = sum_up(n * part.rho * (1 + 2 * U) for part, n in linear)
            parts = {part: n for part, n in parts.items() if not isinstance(part, Linear)}
            parts[Linear(rho)] = 1
        return RenyiCurve(self.relation, parts, self.orders)

    def _times(self, count: int) -> "RenyiCurve":
        parts = {part: count * n for part, n in self.parts.items()}
        return RenyiCurve(self.relation, parts, self.orders)

    def _worst_of(self, other: "RenyiCurve") -> "RenyiCurve":
        if self.parts == other.parts:
            return RenyiCurve(self.relation, self.parts, self.orders)
        both = _Worst(tuple(dict.fromkeys(self._cells() + other._cells())))
        return RenyiCurve(self.relation, {both: 1}, self.orders)

    def _group(self, size: int) -> "RenyiCurve":
        """Return size^2 rho for parts linear in the order, else the bound of `GroupDivergence`."""
        parts: dict[Divergence, int] = {}
        chained = []
        for part, count in self.parts.items():
            if isinstance(part, Linear):
                rho = round_up(size * (size * part.rho), 4 * U)
                parts[Linear(rho)] = parts.get(Linear(rho), 0) + count
            else:
                chained.append((part, count))
        if chained:
            parts[GroupDivergence(tuple(chained), size)] = 1
        return RenyiCurve(self.relation, parts, self.orders)

    def best_of(self, runs: BestOf) -> "RenyiCurve":
        """Return the curve of the best of several runs (Papernot and Steinke 2022)."""
        one, log_mean = self._frozen(), runs.log_mean
        if runs.shape is None:
            return RenyiCurve(self.relation, {_BestOfPoisson(one, runs.mean_runs): 1})
        log_odds = round_up(-math.log(runs.gamma), 4 * U)
        constant, _ = self._search(lambda a, worst: (1 - 1 / a) * worst + log_odds / a)
        constant = round_up((1 + runs.shape) * min(constant, log_odds), 16 * U)
        least, order = self._search(lambda a, worst: worst + log_mean / (a - 1))
        best = _BestOf(one, constant, log_mean, order, round_up(least, 16 * U))
        return RenyiCurve(self.relation, {best: 1})

    def _cells(self) -> "tuple[_Parts, ...]":
        match self._frozen():
            case ((_Worst(cells=cells), 1),):
                return cells
        return (self._frozen(),)

    def _moved(self, other: "RenyiCurve") -> "RenyiCurve":
        return RenyiCurve(REPLACE_ONE, {_Moved(self._frozen(), other._frozen()): 1})

    def _frozen(self) -> "_Parts":
        return tuple(self.parts.items())


class _Tried:
    """The orders tried so far, sorted, and the values of a quasi-convex objective there."""

    def __init__(self, objective: Callable[[Array], Array], unit: float) -> None:
        self.objective = objective
        self.unit = unit
        self.whole = True  # round large orders: finite sums are cheaper than quadrature
        self.orders = self.values = np.empty(0)

    def add(self, orders: Array) -> bool:
        some = (round(a) if self.whole and a >= FRACTIONAL else a for a in orders.tolist())
        old = self.orders.tolist()
        new = np.array(sorted({float(a) for a in some if all(abs(a - b) > 1e-9 * a for b in old)}))
        if not new.size:
            return False
        both = np.concatenate([self.orders, new])
        rank = both.argsort()
        self.orders = both[rank]
        self.values = np.concatenate([self.values, self.objective(new)])[rank]
        return True

    def best(self) -> float:
        return float(self.orders[self.values.argmin()])

    def widen(self) -> None:
        """Extend the range in growing steps while the best order is at its end."""
        step = 0.2
        while (best := self.best()) in (self.orders[0], self.orders[-1]):
            upward = best == self.orders[-1]
            if best >= _LAST if upward else best <= 1 + _NEAREST:
                # after a long step to the end, a better order may be just inside
                self.add(np.array([1 + (best - 1) * (0.95 if upward else 1.05)]))
                if self.best() == best:
                    return
                continue
            factors = np.exp(np.array([step, 2 * step]))
            beyond = (best - 1) * (factors if upward else 1 / factors)
            self.add(1 + np.clip(beyond, _NEAREST, _LAST))
            step *= 1.5

    def narrow(self) -> None:
        """Shrink the bracket around the best order until the objective is flat inside."""
        while True:
            best = int(self.values.argmin())
            around = slice(max(best - 1, 0), best + 2)
            self.orders, self.values = self.orders[around], self.values[around]
            low, high = self.orders[0] - 1, self.orders[-1] - 1
            if self.orders.size < 3 or high - low < 1e-7 * high:
                return
            lowest = self.values.min()
            size = max(abs(lowest), self.unit)
            accuracy = _ACCURACY * size
            if np.ptp(self.values) <= _FLAT * size:
                vertex, foretold = _vertex(self.orders, self.values)
                if lowest - foretold <= accuracy:
                    return
                new = self.add(np.array([vertex]))
                if new and abs(self.values.min() - foretold) <= accuracy:
                    return
                if self.values.min() < lowest - accuracy:
                    continue
            if not self.add(1 + low * (high / low) ** _SIXTHS):
                if not self.whole:
                    return
                self.whole = False


def _vertex(x: Array, y: Array) -> tuple[float, float]:
    left, right = np.diff(y) / np.diff(x)
    bend = (right - left) / (x[2] - x[0])
    if not bend > 0:
        return float(x[1]), float(y[1])
    lowest = min(max(0.5 * (x[0] + x[1] - left / bend), x[0]), x[2])
    return float(lowest), float(y[0] + (lowest - x[0]) * (left + (lowest - x[1]) * bend))


_Parts = tuple[tuple[Divergence, int], ...]


def _epsilons(worst: Array, delta: float, orders: Array) -> Array:
    a, log_delta = orders, math.log(delta)
    mass = (np.log(a) + log_delta) / (a - 1)
    rounding = 8 * U * (worst + 1 / a + (np.log(a) - log_delta) / (a - 1))
    return np.asarray(worst + np.log1p(-1 / a) - mass + rounding)


def _classic_epsilons(worst: Array, delta: float, orders: Array) -> Array:
    value = worst - math.log(delta) / (orders - 1)
    return np.asarray(value * (1 + 8 * U))


def _log_deltas(worst: Array, epsilon: float | Array, orders: Array) -> Array:
    a = orders
    gain, log_a = (a - 1) * np.log1p(-1 / a), np.log(a)
    with np.errstate(over="ignore", invalid="ignore"):
        loss = (a - 1) * (worst - epsilon)
        rounding = 8 * U * ((a - 1) * (worst + epsilon) - gain + log_a + 1)
        value = loss + gain - log_a + rounding
    return np.asarray(np.where(np.isnan(value), 0.0, value))  # inf - inf: no information


def _rows(parts: _Parts, orders: Array) -> Array:
    total = RenyiCurve(ADD_OR_REMOVE_ONE, dict(parts)).divergences(orders)
    return np.broadcast_to(total, (2, orders.size))


@dataclass(frozen=True)
class _Worst(Divergence):
    """The maximum over parallel cells, each a set of releases."""

    cells: tuple[_Parts, ...]

    def at(self, orders: Array) -> Array:
        return np.asarray(np.max([_rows(cell, orders) for cell in self.cells], axis=0))


@dataclass(frozen=True)
class _Moved(Divergence):
    """A record that moves from the cell of `leaves` to the cell of `enters`."""

    leaves: _Parts
    enters: _Parts

    def at(self, orders: Array) -> Array:
        removed, added = _rows(self.leaves, orders), _rows(self.enters, orders)
        return np.stack([removed[0] + added[1], removed[1] + added[0]])


@dataclass(frozen=True)
class _BestOf(Divergence):
    """D(a) + log E[K] / (a - 1) + `constant` (Papernot and Steinke 2022, Theorem 2).

    Below `order`, where the sum is smallest, its value there is used: divergences do not decrease.
    """

    one: _Parts
    constant: float
    log_mean: float
    order: float
    least: float

    def at(self, orders: Array) -> Array:
        worst = _rows(self.one, orders).max(axis=0) + self.log_mean / (orders - 1)
        worst = np.where(orders < self.order, np.minimum(worst, self.least), worst)
        return np.asarray((worst + self.constant) * (1 + 8 * U))


@dataclass(frozen=True)
class _BestOfPoisson(Divergence):
    """D(a) + m delta(log(1 + 1 / (a - 1))) + log m / (a - 1), m the mean number of runs.

    Papernot and Steinke 2022, Theorem 6.
    """

    one: _Parts
    mean: float

    def at(self, orders: Array) -> Array:
        t = orders - 1
        grid, most = _on_grid(self.one)
        epsilon = np.log1p(1 / t)[:, None] * (1 - 4 * U)
        log_delta = np.minimum(_log_deltas(grid, epsilon, _GRID).min(axis=1), most)
        value = _rows(self.one, orders).max(axis=0) + self.mean * np.exp(log_delta)
        return np.asarray((value + math.log(self.mean) / t) * (1 + 16 * U))


_GRID = np.unique(
    np.concatenate([DEFAULT_ORDERS, np.linspace(1.1, 10.9, 99), 2.0 ** np.arange(9.5, 13.1, 0.5)])
)


@lru_cache(maxsize=64)
def _on_grid(parts: _Parts) -> tuple[Array, float]:
    """Return the divergence at the orders `_GRID`, and a bound on log delta(0)."""
    bound = RenyiCurve(ADD_OR_REMOVE_ONE, dict(parts))._log_total_variation
    return _rows(parts, _GRID).max(axis=0), bound


def with_orders(curve: Curve, orders: Sequence[float]) -> RenyiCurve:
    """Return the RDP curve restricted to the given orders (> 1)."""
    assert isinstance(curve, RenyiCurve)
    return RenyiCurve(curve.relation, curve.parts, checks.orders(orders))


def curve(loss: Loss, relation: NeighboringRelation) -> RenyiCurve | None:
    """Return the curve of one release, None if it has no divergence bound."""
    if loss == NO_LOSS:
        return RenyiCurve(relation, {})
    divergence = loss.divergence
    return None if divergence is None else RenyiCurve(relation, {divergence: 1})
