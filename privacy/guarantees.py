"""The guarantee that a person reads."""

import math
import re
from dataclasses import dataclass, field
from typing import Any

from privacy.mechanisms.base import Mechanism
from privacy.numerics.display import rounded
from privacy.relations import NeighboringRelation

ONE_RECORD = "one record"


class NotCertified(ValueError):
    """A proof of the reported number was asked for and none was found."""


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee with everything needed to read it.

    Attributes
    ----------
    epsilon, delta
        The guarantee: P(event) <= e^epsilon P'(event) + delta for every event.
    relation
        Which data sets count as neighbors.
    notion
        The notion that gave the number; ``"none"`` where nothing protects the data.
    order
        The Rényi order used, where the notion has one.
    theorem
        Where the formula is proven.
    certified
        Whether interval arithmetic proved this pair of floats. ``guarantee(certify=True)`` sets
        it; `dataclasses.replace` gives another claim, which is not certified.
    mechanism
        What was accounted, where known.
    unit
        Whose data it hides: one record, a group of them, one user.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    notion: str
    order: float | None = None
    theorem: str = ""
    certified: bool = field(default=False, init=False)
    mechanism: Mechanism | None = None
    unit: str = ONE_RECORD

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able form; an unbounded epsilon is the string ``"inf"``."""
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "delta": self.delta,
            "relation": str(self.relation),
            "notion": self.notion,
            "order": self.order,
            "theorem": self.theorem,
            "certified": self.certified,
            "unit": self.unit,
            "mechanism": None if self.mechanism is None else self.mechanism.to_json(),
        }

    def __str__(self) -> str:
        if self.notion == "none":
            return f"no privacy: {self.theorem}"
        kind = "certified" if self.certified else "an upper bound"
        pair = f"({rounded(self.epsilon, digits=5)}, {rounded(self.delta, digits=5)})"
        unit = "" if self.unit == ONE_RECORD else f" for {self.unit}"
        return f"{pair}-DP{unit}, {self.relation}, by {self.notion} ({kind})"


_GROUP_UNIT = re.compile(r"\s*(\d+)\s+(?:times\b(.*)|records?\s*)", re.IGNORECASE | re.DOTALL)


def group_unit(unit: str, size: int) -> str:
    """Return whose data a guarantee hides if `size` units change together."""
    return f"{size} records" if unit == ONE_RECORD else f"{size} times {unit}"


def records_in(unit: str) -> float:
    """Return how many records of the mechanism change together: 1 unless `group_unit` says more."""
    size = 1.0
    while found := _GROUP_UNIT.fullmatch(unit):
        size *= float(found[1])
        unit = found[2] or ""
    return size
