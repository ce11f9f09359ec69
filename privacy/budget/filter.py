"""A privacy filter: what comes next may depend on what came out, and the budget still holds.

Most composition theorems are for plans fixed in advance. A filter allows the next mechanism to be
chosen after looking at earlier outputs, in the few notions with a theorem for that; the guarantee
is that of the whole budget, whatever was spent of it.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, get_args

from privacy import checks
from privacy.budget._measures import (
    Cost,
    Divergence,
    EpsilonDelta,
    Measure,
    MuSquared,
    Rho,
    added,
    down,
    shown,
    up,
)
from privacy.guarantees import ONE_RECORD, Guarantee
from privacy.mechanisms import Mechanism
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

FilterNotion = Literal["zcdp", "gaussian", "rdp", "approximate"]


class BudgetExceeded(ValueError):
    """A mechanism costs more than the budget has left; nothing was spent.

    Attributes
    ----------
    asked, spent, remaining
        What it costs, what was spent before, what is left: in the budget's measure, one number, or
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
    unit
        Whose data one record of the mechanisms is, in words.

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
    unit: str
    measure: Measure
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
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        unit: str = ONE_RECORD,
    ) -> None:
        if notion not in get_args(FilterNotion):
            remedy = "Others hold for plans fixed in advance: account the plan instead."
            rule = f"one of {get_args(FilterNotion)}"
            raise ValueError(checks.expected("notion", notion, rule, remedy))
        epsilon = checks.epsilon(epsilon)
        delta = checks.query_delta(delta) if notion == "approximate" else checks.delta(delta)
        if (order is not None) != (notion == "rdp"):
            remedy = 'Pass order= with notion="rdp", and only there.'
            rule = "a Rényi order" if order is None else "None"
            raise ValueError(checks.expected("order", order, rule, remedy))
        measure: Measure
        if order is not None:
            measure = Divergence(
                checks.real("order", order, "Pass a Rényi order, such as 8.", above=1)
            )
        elif notion == "gaussian":
            measure = MuSquared()
        else:
            measure = Rho() if notion == "zcdp" else EpsilonDelta()
        limit = tuple(most / (1 + measure.grace) for most in measure.limit(epsilon, delta))
        nothing = (Fraction(0),) * len(limit)
        self._set(epsilon=epsilon, delta=delta, notion=notion, measure=measure)
        self._set(relation=checks.relation(relation), unit=checks.unit(unit))
        self._set(_limit=limit, _spent=nothing)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _with(self, **values: Any) -> "Budget":
        other = copy(self)
        other._set(**values)
        return other

    @property
    def limit(self) -> tuple[float, ...]:
        """Return the most that may be spent, in the budget's measure, rounded down."""
        return tuple(map(down, self._limit))

    @property
    def spent(self) -> tuple[float, ...]:
        """Return what was spent, rounded up. It is a reading: the guarantee is the budget's."""
        return tuple(map(up, self._spent))

    @property
    def remaining(self) -> tuple[float, ...]:
        """Return what is left, rounded down."""
        left = zip(self._limit, self._spent, strict=True)
        return tuple(down(max(limit - spent, Fraction(0))) for limit, spent in left)

    def cost(self, mechanism: Mechanism) -> tuple[float, ...]:
        """Return what a mechanism would cost, in the budget's measure, rounded up."""
        return tuple(map(up, self.measure.cost(mechanism, self.relation)))

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether `spend` would accept the mechanism."""
        return self._allows(added(self._spent, self.measure.cost(mechanism, self.relation)))

    def _allows(self, total: Cost) -> bool:
        most = 1 + self.measure.grace
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
        cost = self.measure.cost(mechanism, self.relation)
        total = added(self._spent, cost)
        if not self._allows(total):
            asked = tuple(map(up, cost))
            raise BudgetExceeded(
                f"Expected {mechanism!r} to cost at most the remaining {self.measure.name} "
                f"{shown(self.remaining)}: it costs {shown(asked)}, and {shown(self.spent)} of "
                f"{shown(self.limit)} is spent. Add noise, or stop here.",
                asked,
                self.spent,
                self.remaining,
            )
        return self._with(_spent=total)

    def guarantee(self) -> Guarantee:
        """Return what holds at any stopping time: the guarantee of the whole budget."""
        order = self.measure.order if isinstance(self.measure, Divergence) else None
        return Guarantee(
            self.epsilon,
            self.delta,
            self.relation,
            self.notion,
            order,
            self.measure.theorem,
            unit=self.unit,
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
            weights = [Fraction(checks.real("shares", share, remedy, above=0)) for share in shares]
        else:
            weights = [Fraction(1)] * checks.count("shares", shares, remedy)
        if not weights:
            raise ValueError(checks.expected("shares", shares, "at least one part", remedy))
        whole = sum(weights)
        left = [limit - min(s, limit) for limit, s in zip(self._limit, self._spent, strict=True)]
        nothing = (Fraction(0),) * len(left)
        parts = []
        for weight in weights:
            limit = tuple(weight / whole * rest for rest in left)
            delta = up(limit[1]) if len(limit) > 1 else self.delta
            most = tuple((1 + self.measure.grace) * part for part in limit)
            epsilon = self.measure.epsilon(most, delta)
            parts.append(self._with(epsilon=epsilon, delta=delta, _limit=limit, _spent=nothing))
        return tuple(parts)

    def __str__(self) -> str:
        spent = f"{self.measure.name} {shown(self.spent)} of {shown(self.limit)} spent"
        return f"{spent}; the whole budget is {self.guarantee()}"
