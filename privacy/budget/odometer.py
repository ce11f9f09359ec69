"""A privacy odometer: what was spent so far, valid at every moment at once.

A filter's guarantee is that of its whole budget. An odometer may be read at any time, also at one
that was chosen by looking at outputs: with probability 1 - delta the privacy loss is at most the
reading at ALL times. That costs more than a plan that was fixed in advance.
"""

import math
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, get_args

from privacy import checks
from privacy.budget._measures import Cost, Divergence, EpsilonDelta, Measure, added, decimal, up
from privacy.guarantees import ONE_RECORD, Guarantee
from privacy.mechanisms import Mechanism
from privacy.numerics.rounding import round_up
from privacy.relations import NeighboringRelation

OdometerNotion = Literal["rdp", "approximate"]

_ORDERS = tuple(1 + 2.0**k for k in range(11))
_ORDERS_OF_RDP = 'Orders belong to notion="rdp"; leave them out otherwise.'
_THEOREMS = {
    "rdp": "Whitehouse, Ramdas, Rogers and Wu 2023: Ville's inequality at orders fixed in advance",
    "approximate": "Rogers, Roth, Ullman and Vadhan 2016: basic composition is a valid odometer",
}


@dataclass(frozen=True, kw_only=True)
class Odometer:
    """What mechanisms that are chosen one after the other have spent, readable at any time.

    Immutable: `spend` returns another odometer.

    In notion ``"rdp"``, exp((a - 1) (loss - sum of divergences of order a)) is a supermartingale
    at each order a, so that with probability 1 - delta, at all times and all J orders,

        loss <= min over a of (sum of divergences of order a + log(J / delta) / (a - 1)).

    In notion ``"approximate"`` the reading is the sum of epsilons, as long as the deltas add up to
    at most delta.

    Parameters
    ----------
    delta
        Probability that the loss exceeds the reading at some time; in (0, 1), or 0 in notion
        ``"approximate"``.
    notion
        ``"rdp"`` or ``"approximate"``.
    orders
        The Rényi orders (> 1) of notion ``"rdp"``, fixed before the first spend; 2 to 1025
        unless said.
    relation
        The neighbouring relation.
    unit
        Whose data one record of the mechanisms is, in words.

    Examples
    --------
    >>> import privacy as dp
    >>> reading = dp.Odometer(delta=1e-6)
    >>> for _ in range(3):
    ...     reading = reading.spend(dp.Gaussian(20.0))
    >>> round(reading.epsilon, 3)
    0.497
    """

    delta: float
    notion: OdometerNotion = "rdp"
    orders: Iterable[float] | None = None
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    unit: str = ONE_RECORD
    _spent: tuple[Cost, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.notion not in get_args(OdometerNotion):
            remedy = "No odometer theorem holds in the others; a Budget may serve."
            rule = f"one of {get_args(OdometerNotion)}"
            raise ValueError(checks.expected("notion", self.notion, rule, remedy))
        orders: tuple[float, ...] = ()
        if self.notion == "rdp":
            delta = checks.delta(self.delta)
            orders = checks.orders(_ORDERS if self.orders is None else self.orders)
        else:
            delta = checks.query_delta(self.delta)
            if self.orders is not None:
                raise ValueError(checks.expected("orders", self.orders, "None", _ORDERS_OF_RDP))
        nothing = tuple((Fraction(0),) for _ in orders) or ((Fraction(0), Fraction(0)),)
        self._set(delta=delta, orders=orders, relation=checks.relation(self.relation))
        self._set(unit=checks.unit(self.unit), _spent=nothing)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def _measures(self) -> tuple[Measure, ...]:
        return tuple(map(Divergence, self.orders or ())) or (EpsilonDelta(),)

    def spend(self, mechanism: Mechanism) -> "Odometer":
        """Return the odometer after a mechanism, which may be chosen by earlier outputs.

        Call it before the mechanism reads the data: what fails afterwards stays spent.

        Raises
        ------
        UnsupportedMechanism
            The notion has no rule for the mechanism.
        """
        costs = (measure.cost(mechanism, self.relation) for measure in self._measures)
        after = copy(self)
        after._set(_spent=tuple(map(added, self._spent, costs)))
        return after

    @property
    def epsilon(self) -> float:
        """Return the reading, rounded up; infinite where delta is overspent."""
        if self.notion == "approximate":
            ((epsilon, delta),) = self._spent
            return up(epsilon) if delta <= decimal(self.delta) else math.inf
        return min(reading for reading, _ in self._readings())

    def _readings(self) -> list[tuple[float, float]]:
        """Return the bound of each order, rounded up, and the order."""
        assert isinstance(self.orders, tuple)
        if not any(spent for (spent,) in self._spent):
            return [(0.0, self.orders[0])]
        tail = math.log(len(self.orders)) - math.log(self.delta)
        return [
            (round_up(up(spent) + tail / (order - 1), 16 * 2.0**-53), order)
            for (spent,), order in zip(self._spent, self.orders, strict=True)
        ]

    def guarantee(self) -> Guarantee:
        """Return the reading: with probability 1 - delta the loss is at most epsilon by now.

        It holds at any time, also one chosen by looking at outputs.
        """
        order = min(self._readings())[1] if self.notion == "rdp" else None
        return Guarantee(
            self.epsilon,
            self.delta,
            self.relation,
            self.notion,
            order,
            _THEOREMS[self.notion],
            unit=self.unit,
        )
