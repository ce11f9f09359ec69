"""A privacy filter: what comes next may depend on what came out, and the budget still holds.

Most composition theorems are for plans fixed in advance. A filter allows the next mechanism to be
chosen after looking at earlier outputs, in the few notions with a theorem for that; the guarantee
is that of the whole budget, whatever was spent of it.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, Literal, get_args

from privacy import _checks
from privacy._solve import round_down, round_up
from privacy.accounting import account
from privacy.guarantees import Guarantee
from privacy.mechanisms import (
    ApproximateDP,
    Composed,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    Repeated,
    UnsupportedMechanism,
)
from privacy.relations import NeighboringRelation

FilterNotion = Literal["zcdp", "gaussian", "rdp", "approximate"]
Cost = tuple[Fraction, ...]

_ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
# Noise is a float: ten Gaussians of a tenth of rho may cost some ulp more than rho. The limit is
# set so much lower in advance that this much above it still keeps the promise.
_GRACE = Fraction(1, 10**12)


class BudgetExceeded(ValueError):
    """A mechanism costs more than the budget has left; nothing was spent.

    Attributes
    ----------
    asked, spent, remaining
        What it costs, what was spent before, what is left: in the budget's unit, one number, or
        (epsilon, delta) in notion ``"approximate"``.
    """

    def __init__(
        self,
        message: str,
        asked: tuple[float, ...],
        spent: tuple[float, ...],
        remaining: tuple[float, ...],
    ) -> None:
        super().__init__(message)
        self.asked = asked
        self.spent = spent
        self.remaining = remaining


class _Unit(ABC):
    """What a notion adds up: the filter compares sums of it with a limit."""

    name: str
    theorem: str
    grace = _GRACE

    @abstractmethod
    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return the most that keeps (epsilon, delta)."""

    @abstractmethod
    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the epsilon of a limit, rounded up."""

    @abstractmethod
    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        """Return what one application costs."""


@dataclass(frozen=True)
class _Rho(_Unit):
    name = "rho"
    theorem = "Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023: rho adds adaptively"

    def limit(self, epsilon: float, delta: float) -> Cost:
        from privacy.notions.zcdp import rho_from_epsilon

        return (Fraction(rho_from_epsilon(epsilon, delta)),)

    def epsilon(self, limit: Cost, delta: float) -> float:
        from privacy.notions.zcdp import epsilon_from_rho

        return epsilon_from_rho(_up(limit[0]), delta) if limit[0] else 0.0

    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        from privacy.notions.zcdp import ZeroConcentratedCurve

        curve = account(mechanism, notion="zcdp", relation=relation)
        assert isinstance(curve, ZeroConcentratedCurve)
        return (_finite(curve.rho, mechanism),)


@dataclass(frozen=True)
class _MuSquared(_Unit):
    name = "mu^2"
    theorem = "Smith and Thakurta 2022: mu^2 of Gaussians adds adaptively"

    def limit(self, epsilon: float, delta: float) -> Cost:
        from privacy.calibration import noise_multiplier

        return (1 / Fraction(noise_multiplier(epsilon=epsilon, delta=delta)) ** 2,)

    def epsilon(self, limit: Cost, delta: float) -> float:
        from privacy.notions.gaussian import GaussianCurve

        return GaussianCurve(_up(limit[0]), _ADD_OR_REMOVE_ONE).epsilon(delta)

    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        from privacy.notions.gaussian import GaussianCurve

        curve = account(mechanism, notion="gaussian", relation=relation)
        assert isinstance(curve, GaussianCurve)
        return (_finite(curve.mu_squared, mechanism),)


@dataclass(frozen=True)
class _Divergence(_Unit):
    order: float
    name = "divergence"
    theorem = "Feldman and Zrnic 2021: divergences of one fixed order add adaptively"

    def _gap(self, delta: float) -> float:
        """Return epsilon - D: Canonne, Kamath and Steinke 2020, Proposition 12."""
        a = self.order
        return math.log1p(-1 / a) - (math.log(a) + math.log(delta)) / (a - 1)

    def limit(self, epsilon: float, delta: float) -> Cost:
        gap = self._gap(delta)
        most = epsilon - gap - 1e-14 * (abs(gap) + epsilon)
        if most <= 0:
            remedy = f"At this epsilon and delta an order above {1 - math.log(delta) / epsilon:.4g}"
            raise ValueError(
                _checks.expected("order", self.order, "large enough", remedy + " is enough.")
            )
        return (Fraction(most),)

    def epsilon(self, limit: Cost, delta: float) -> float:
        gap, most = self._gap(delta), _up(limit[0])
        return max(0.0, most + gap + 1e-14 * (abs(gap) + most))

    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        from privacy.notions.renyi import RenyiCurve

        curve = account(mechanism, notion="rdp", relation=relation)
        assert isinstance(curve, RenyiCurve)
        return (_finite(curve.divergence(self.order), mechanism),)


@dataclass(frozen=True)
class _EpsilonDelta(_Unit):
    """Basic composition, exact: the decimals of a claim are what was proven."""

    name = "(epsilon, delta)"
    theorem = "Rogers, Roth, Ullman and Vadhan 2016: basic composition is a valid filter"
    grace = Fraction(0)

    def limit(self, epsilon: float, delta: float) -> Cost:
        return _decimal(epsilon), _decimal(delta)

    def epsilon(self, limit: Cost, delta: float) -> float:
        return _up(limit[0])

    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        curve = account(mechanism, notion="approximate", relation=relation)
        match mechanism:
            case ApproximateDP():
                return _decimal(mechanism.epsilon), _decimal(mechanism.delta)
            case PureDP():
                return _decimal(mechanism.epsilon), Fraction(0)
            case RandomizedResponse():
                return Fraction(mechanism.epsilon), Fraction(0)
            case Laplace():
                replaced = relation is NeighboringRelation.REPLACE_ONE
                shift = mechanism.replace_distance if replaced else 1.0
                ratio = Fraction(shift) / Fraction(mechanism.scale)
                short = _decimal(float(ratio))  # many long fractions would take long to add
                return short if short >= ratio else Fraction(_up(ratio)), Fraction(0)
        return _finite(curve.epsilon(0), mechanism), Fraction(0)


def _decimal(value: float) -> Fraction:
    """Return the number as it is written: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


def _finite(value: float, mechanism: Mechanism) -> Fraction:
    if not math.isfinite(value):
        raise UnsupportedMechanism(
            f"{mechanism!r} has no finite cost in this budget's notion. Choose another notion."
        )
    return Fraction(value)


def _up(value: Fraction) -> float:
    return float(value) if Fraction(float(value)) >= value else round_up(float(value))


def _down(value: Fraction) -> float:
    return float(value) if Fraction(float(value)) <= value else round_down(float(value))


@dataclass(frozen=True, init=False)
class Budget:
    """A privacy filter: what may be spent by mechanisms that are chosen one after the other.

    Immutable: `spend` returns another budget.

    Parameters
    ----------
    epsilon, delta
        The guarantee that holds at any stopping time, epsilon > 0, 0 < delta < 1 (delta may be
        0 in notion ``"approximate"``).
    notion
        What adds up: ``"zcdp"`` (rho), ``"gaussian"`` (mu^2; Gaussians only), ``"rdp"`` (the
        divergence at one `order`; also sampled noise), ``"approximate"`` (epsilon and delta).
        Tighter notions hold for plans that were fixed in advance, and have no filter.
    order
        The Rényi order > 1 of notion ``"rdp"``, fixed before the first spend.
    relation
        The neighbouring relation.

    Examples
    --------
    >>> import privacy as dp
    >>> left = dp.Budget(epsilon=1, delta=0, notion="approximate")
    >>> for _ in range(10):
    ...     left = left.spend(dp.PureDP(0.1))
    >>> left.remaining
    (0.0, 0.0)
    >>> left.fits(dp.PureDP(0.1))
    False
    """

    epsilon: float
    delta: float
    notion: FilterNotion
    relation: NeighboringRelation
    unit: _Unit
    """What adds up, and the theorem that lets it."""
    _limit: Cost
    _spent: Cost

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        notion: FilterNotion = "zcdp",
        order: float | None = None,
        relation: NeighboringRelation = _ADD_OR_REMOVE_ONE,
    ) -> None:
        if notion not in get_args(FilterNotion):
            remedy = "Others hold for plans fixed in advance: account the plan instead."
            rule = f"one of {get_args(FilterNotion)}"
            raise ValueError(_checks.expected("notion", notion, rule, remedy))
        epsilon = _checks.epsilon(epsilon)
        delta = _checks.query_delta(delta) if notion == "approximate" else _checks.delta(delta)
        if (order is not None) != (notion == "rdp"):
            remedy = 'Pass order= with notion="rdp", and only there.'
            rule = "a Rényi order" if order is None else "None"
            raise ValueError(_checks.expected("order", order, rule, remedy))
        unit: _Unit
        if order is not None:
            unit = _Divergence(
                _checks.real("order", order, "Pass a Rényi order, such as 8.", above=1)
            )
        elif notion == "gaussian":
            unit = _MuSquared()
        else:
            unit = _Rho() if notion == "zcdp" else _EpsilonDelta()
        limit = tuple(most / (1 + unit.grace) for most in unit.limit(epsilon, delta))
        nothing = (Fraction(0),) * len(limit)
        self._set(epsilon=epsilon, delta=delta, notion=notion, unit=unit)
        self._set(relation=_checks.relation(relation), _limit=limit, _spent=nothing)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _with(self, **values: Any) -> "Budget":
        other = copy(self)
        other._set(**values)
        return other

    @property
    def limit(self) -> tuple[float, ...]:
        """Return the most that may be spent, in the budget's unit, rounded down."""
        return tuple(map(_down, self._limit))

    @property
    def spent(self) -> tuple[float, ...]:
        """Return what was spent, rounded up. It is a reading: the guarantee is the budget's."""
        return tuple(map(_up, self._spent))

    @property
    def remaining(self) -> tuple[float, ...]:
        """Return what is left, rounded down."""
        left = zip(self._limit, self._spent, strict=True)
        return tuple(_down(max(limit - spent, Fraction(0))) for limit, spent in left)

    def cost(self, mechanism: Mechanism) -> tuple[float, ...]:
        """Return what a mechanism would cost, in the budget's unit, rounded up."""
        return tuple(map(_up, self._cost(mechanism)))

    def _cost(self, mechanism: Mechanism) -> Cost:
        # spent one after the other: a filter adds what the parts cost, exactly
        if isinstance(mechanism, Repeated):
            return tuple(mechanism.count * one for one in self._cost(mechanism.mechanism))
        if isinstance(mechanism, Composed):
            return reduce(_plus, map(self._cost, mechanism.parts))
        return self.unit.cost(mechanism, self.relation)

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether `spend` would accept the mechanism."""
        return self._allows(_plus(self._spent, self._cost(mechanism)))

    def _allows(self, total: Cost) -> bool:
        most = 1 + self.unit.grace
        return all(t <= most * limit for t, limit in zip(total, self._limit, strict=True))

    def spend(self, mechanism: Mechanism) -> "Budget":
        """Return the budget after a mechanism, which may be chosen by earlier outputs.

        Call it before the mechanism reads the data: what fails afterwards stays spent.

        Raises
        ------
        BudgetExceeded
            The mechanism costs more than is left. This budget is as it was.
        UnsupportedMechanism
            The notion has no rule for the mechanism.
        """
        cost = self._cost(mechanism)
        total = _plus(self._spent, cost)
        if not self._allows(total):
            asked = tuple(map(_up, cost))
            raise BudgetExceeded(
                f"Expected {mechanism!r} to cost at most the remaining {self.unit.name} "
                f"{_shown(self.remaining)}: it costs {_shown(asked)}, and {_shown(self.spent)} of "
                f"{_shown(self.limit)} is spent. Add noise, or stop here.",
                asked,
                self.spent,
                self.remaining,
            )
        return self._with(_spent=total)

    def guarantee(self) -> Guarantee:
        """Return what holds at any stopping time: the guarantee of the whole budget."""
        order = self.unit.order if isinstance(self.unit, _Divergence) else None
        return Guarantee(
            self.epsilon, self.delta, self.relation, self.notion, order, self.unit.theorem
        )

    def split(self, shares: int | Sequence[float]) -> tuple["Budget", ...]:
        """Return budgets that together may spend what is left of this one.

        Parameters
        ----------
        shares
            How many equal parts, or the weight (> 0) of each part.

        Returns
        -------
        tuple of Budget
            Unspent. Their limits add up to exactly what is left; in notion ``"approximate"``
            delta is shared out too.
        """
        remedy = "Pass how many parts, or a weight for each."
        if isinstance(shares, Sequence):
            weights = [Fraction(_checks.real("shares", share, remedy, above=0)) for share in shares]
        else:
            weights = [Fraction(1)] * _checks.count("shares", shares, remedy)
        if not weights:
            raise ValueError(_checks.expected("shares", shares, "at least one part", remedy))
        whole = sum(weights)
        left = [limit - min(s, limit) for limit, s in zip(self._limit, self._spent, strict=True)]
        nothing = (Fraction(0),) * len(left)
        parts = []
        for weight in weights:
            limit = tuple(weight / whole * rest for rest in left)
            delta = _up(limit[1]) if len(limit) > 1 else self.delta
            most = tuple((1 + self.unit.grace) * part for part in limit)
            epsilon = self.unit.epsilon(most, delta)
            parts.append(self._with(epsilon=epsilon, delta=delta, _limit=limit, _spent=nothing))
        return tuple(parts)

    def __str__(self) -> str:
        spent = f"{self.unit.name} {_shown(self.spent)} of {_shown(self.limit)} spent"
        return f"{spent}: {self.guarantee()}"


def _plus(one: Cost, other: Cost) -> Cost:
    return tuple(a + b for a, b in zip(one, other, strict=True))


def _shown(cost: tuple[float, ...]) -> str:
    numbers = ", ".join(f"{value:.6g}" for value in cost)
    return numbers if len(cost) == 1 else f"({numbers})"
