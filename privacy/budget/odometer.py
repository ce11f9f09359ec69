"""Privacy odometers: bounds on the privacy loss so far, valid at all times at once."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, get_args

from privacy import checks
from privacy.budget import _measures as measures
from privacy.budget._measures import Cost, Immutable, Measure, added, decimal, up
from privacy.guarantees import ONE_RECORD, Guarantee
from privacy.mechanisms import Mechanism
from privacy.numerics.rounding import U, round_up
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

OdometerNotion = Literal["rdp", "approximate"]

_ORDERS = tuple(1 + 2.0**k for k in range(11))
_ORDERS_OF_RDP = 'Leave orders out: they belong to notion="rdp".'
_SCHEMA = "dpcalib.odometer/1"
_KEYS = ("delta", "notion", "orders", "relation", "unit", "spent")
_THEOREMS = {
    "rdp": "Whitehouse, Ramdas, Rogers and Wu 2023: Ville's inequality at orders fixed in advance",
    "approximate": "Rogers, Roth, Ullman and Vadhan 2016: basic composition is a valid odometer",
}


@dataclass(frozen=True, init=False)
class Odometer(Immutable):
    """An upper bound on the privacy loss of adaptive releases, readable at any time.

    With ``notion="rdp"``, with probability 1 - delta, at all times and for J orders a,

        loss <= min over a of (sum of divergences of order a + log(J / delta) / (a - 1)).

    With ``notion="approximate"`` the reading is the sum of epsilons, while the deltas add up to at
    most delta. Immutable, as `Budget`. `delta` is the probability that the loss ever exceeds the
    reading; in (0, 1), or 0 with ``notion="approximate"``. `orders` are the Rényi orders (> 1) of
    ``notion="rdp"``, by default 2, 3, 5, 9, ..., 1025. `relation` and `unit` are as in `Budget`.
    """

    delta: float
    notion: OdometerNotion
    orders: tuple[float, ...]
    relation: NeighboringRelation
    unit: str
    _spent: Cost = field(repr=False)

    def __init__(
        self,
        *,
        delta: float,
        notion: OdometerNotion = "rdp",
        orders: Iterable[float] | None = None,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        unit: str = ONE_RECORD,
    ) -> None:
        remedy = "For other methods use a Budget: no odometer theorem is known for them."
        checks.one_of("notion", notion, get_args(OdometerNotion), remedy)
        if notion == "rdp":
            delta = checks.delta(delta)
            orders = checks.orders(_ORDERS if orders is None else orders)
        else:
            delta = checks.query_delta(delta)
            checks.refuse_if(orders is not None, "orders", orders, "None", _ORDERS_OF_RDP)
            orders = ()
        self._set(delta=delta, notion=notion, orders=orders, relation=checks.relation(relation))
        self._set(unit=checks.unit(unit), _spent=(Fraction(0),) * (len(orders) or 2))

    @property
    def measure(self) -> Measure:
        """The costs added."""
        return measures.Divergence(self.orders) if self.orders else measures.EpsilonDelta()

    def spend(self, mechanism: Mechanism) -> "Odometer":
        """Return the odometer after a mechanism, as `Budget.spend`."""
        return self._spend(mechanism, self.measure.cost(mechanism, self.relation))

    def _spend(self, mechanism: Mechanism, cost: Cost) -> "Odometer":
        return self._with(_spent=added(self._spent, cost))

    @property
    def epsilon(self) -> float:
        """Return the reading, rounded up; infinite if delta is exceeded."""
        if self.notion == "approximate":
            epsilon, delta = self._spent
            return up(epsilon) if delta <= decimal(self.delta) else math.inf
        return min(reading for reading, _ in self._readings())

    def _readings(self) -> list[tuple[float, float]]:
        if not any(self._spent):
            return [(0.0, self.orders[0])]
        tail = math.log(len(self.orders)) - math.log(self.delta)
        return [
            (round_up(up(spent) + tail / (order - 1), 16 * U), order)
            for spent, order in zip(self._spent, self.orders, strict=True)
        ]

    def guarantee(self) -> Guarantee:
        """Return the reading, which holds at any time, even one chosen from outputs."""
        order = min(self._readings())[1] if self.notion == "rdp" else None
        basis = (self.relation, self.notion, order, _THEOREMS[self.notion])
        return Guarantee(self.epsilon, self.delta, *basis, unit=self.unit)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-compatible dict for `from_json`, with the amount spent."""
        head = (self.delta, self.notion, list(self.orders) or None, str(self.relation), self.unit)
        spent = measures.cost_to_json(self._spent)
        return {"schema": _SCHEMA, **dict(zip(_KEYS, (*head, spent), strict=True))}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Odometer":
        """Return the odometer that `to_json` wrote. Restore it in one process at a time."""
        values = measures.saved(form, _SCHEMA, _KEYS)
        spent = values.pop("spent")
        odometer = cls(**values)
        return odometer._with(_spent=measures.cost_from_json("spent", spent, len(odometer._spent)))
