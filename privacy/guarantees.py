"""The (epsilon, delta) guarantee that `Curve.guarantee` returns."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from privacy import checks
from privacy.mechanisms.base import Mechanism
from privacy.numerics.display import html_table, rounded
from privacy.relations import NeighboringRelation

ONE_RECORD = "one record"


class NotCertified(ValueError):
    """No proof of the reported number was found with ``certify=True``."""


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee with all its conditions.

    P(event) <= e^epsilon P'(event) + delta for every event and all neighboring data sets. `notion`
    is the accounting method, ``"none"`` if there is no privacy; `order` its Rényi order, if it has
    one; `theorem` the reference for the formula. `certified`: whether ``guarantee(certify=True)``
    verified this pair of floats with interval arithmetic; `dataclasses.replace` resets it. `unit`
    is the unit of privacy: one record, a group of records, or one user.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    notion: str
    order: float | None = None
    theorem: str = ""
    certified: bool = field(default=False, init=False, repr=False)
    mechanism: Mechanism | None = None
    unit: str = ONE_RECORD

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-serializable dict; an infinite epsilon is the string ``"inf"``."""
        names = ("delta", "relation", "notion", "order", "theorem", "certified", "unit")
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            **{name: getattr(self, name) for name in names},
            "relation": str(self.relation),
            "mechanism": None if self.mechanism is None else self.mechanism.to_json(),
        }

    def attack(self, false_positive_rate: float = 0.01) -> str:
        """Return in words what (epsilon, delta) implies about an attack.

        The true positive rate is at most delta + e^epsilon a and 1 - e^-epsilon (1 - delta - a), at
        false positive rate a (Kairouz, Oh and Viswanath 2015). `Curve.true_positive_rate` gives a
        smaller bound from the whole privacy profile.
        """
        name, remedy = "false_positive_rate", "Pass a rate, such as 0.01."
        rate = checks.real(name, false_positive_rate, remedy, at_least=0, at_most=1)
        most = 1.0
        if self.epsilon < 700 and self.notion != "none":
            growth = math.exp(self.epsilon)
            # 1 - (1 - delta - rate) / growth without cancellation
            mirrored = (math.expm1(self.epsilon) + self.delta + rate) / growth
            most = min(1.0, (self.delta + growth * rate) * (1 + 1e-14), mirrored * (1 + 1e-14))
        return attack_in_words(rate, most, self.unit)

    def __str__(self) -> str:
        if self.notion == "none":
            return f"no privacy: {self.theorem}"
        kind = "certified" if self.certified else "an upper bound"
        pair = f"({rounded(self.epsilon, digits=5)}, {rounded(self.delta, digits=5)})"
        unit = "" if self.unit == ONE_RECORD else f" for {self.unit}"
        return f"{pair}-DP{unit}, {self.relation}, by {self.notion} ({kind})"

    def _repr_html_(self) -> str:
        certified = "yes" if self.certified else "no, an upper bound"
        shown: dict[str, object] = {"epsilon": rounded(self.epsilon), "delta": rounded(self.delta)}
        shown |= {name: getattr(self, name) for name in ("unit", "relation", "notion")}
        return html_table([*shown.items(), ("certified", certified), ("theorem", self.theorem)])


def attack_in_words(false_positive_rate: float, most: float, unit: str = ONE_RECORD) -> str:
    """Return a sentence on the largest true positive rate of an attack."""
    known = "all other records" if unit == ONE_RECORD else f"all data except that of {unit}"
    hits = rounded(min(100 * most * (1 + 1e-15), 100.0), digits=4)
    alarms = rounded(100 * false_positive_rate * (1 + 1e-15), up=False)
    return (
        f"An attacker who knows {known} and has a false positive rate of "
        f"{alarms} % has a true positive rate of at most {hits} %."
    )


_GROUP_UNIT = re.compile(r"\s*(\d+)\s+(?:times\b(.*)|records?\s*)", re.IGNORECASE | re.DOTALL)


def group_unit(unit: str, size: int) -> str:
    """Return the unit of privacy for `size` units that change together."""
    return f"{size} records" if unit == ONE_RECORD else f"{size} times {unit}"


def records_in(unit: str) -> float:
    """Return the group size in a unit written by `group_unit`; 1 for other units."""
    size = 1.0
    while found := _GROUP_UNIT.fullmatch(unit):
        size *= float(found[1])
        unit = found[2] or ""
    return size
