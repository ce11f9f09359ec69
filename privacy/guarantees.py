"""What a mechanism guarantees: the `Curve` of a notion, the `Guarantee` a person reads."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Self, TypeVar

from privacy import _checks
from privacy._display import rounded
from privacy._solve import round_up, safe_root
from privacy.mechanisms import Mechanism, UnsupportedMechanism, parallel
from privacy.relations import NeighboringRelation

ONE_RECORD = "one record"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee with everything needed to read it.

    Attributes
    ----------
    epsilon, delta
        The guarantee: P(event) <= e^epsilon P'(event) + delta for every event.
    relation
        Which data sets count as neighbours.
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


class Curve(ABC):
    """A guarantee in one notion, for every delta (or epsilon) at once.

    A curve is closed under composition: ``a + b``, ``n * a``, and
    ``a.worst_of(b)`` for parts that see disjoint records. It belongs to one
    neighbouring relation and refuses to mix two.

    Attributes
    ----------
    relation
        The neighbouring relation.
    exact
        Whether no other notion can give a smaller number for the mechanism.
    mechanism
        What was accounted; None for a curve that was put together from others.
    unit
        Whose data it hides: one record, unless said.
    """

    notion: str
    theorem: str
    resolution: float = 4e-16
    """Relative accuracy that a parameter calibrated with this curve deserves."""
    relation: NeighboringRelation
    unit: str = ONE_RECORD
    exact: bool = False
    closed_form: bool = True
    """Whether the numbers come from formulas, which never fail."""
    looseness: float = 0.0
    """By what share the delta of the last answer may exceed the notion's best."""
    mechanism: Mechanism | None = None
    best_order: float | None = None
    """The order that answered the last query, where the notion has one."""

    def __repr__(self) -> str:
        of = "several curves" if self.mechanism is None else repr(self.mechanism)
        return (
            f"<curve of {of} for {self.unit}, {self.relation}, by {self.notion}: "
            "ask .epsilon(delta), .delta(epsilon) or .guarantee(delta=)>"
        )

    @abstractmethod
    def _log_delta(self, epsilon: float) -> float:
        """Return an upper bound of log delta(epsilon), epsilon >= 0; -inf for zero."""

    guided: bool = False
    """Whether `_guide` is cheaper than `_log_delta` and may be below it."""

    def _guide(self, epsilon: float) -> float:
        """Return log delta in the direction that mostly loses more, to search with."""
        return self._log_delta(epsilon)

    def __add__(self, other: Self) -> Self:
        """Return the curve of both releases on the same records."""
        return self.plus([other])

    def plus(self, others: Sequence[Self]) -> Self:
        """Return the curve of this and all other releases on the same records."""
        for other in others:
            self._check_same(other)
        return self._labelled(self._plus(others)) if others else self

    def __mul__(self, count: int) -> Self:
        """Return the curve of `count` releases."""
        count = _checks.count("count", count, "Pass the number of releases.")
        return self if count == 1 else self._labelled(self._times(count))

    def __rmul__(self, count: int) -> Self:
        """Return the curve of `count` releases."""
        return self * count

    def worst_of(self, other: Self) -> Self:
        """Return the curve of two releases of which each record sees only one."""
        self._check_same(other)
        # one of the two may dominate, and be returned as it is
        curve = self._labelled(copy(self._worst_of(other)))
        curve.mechanism = None
        if self.mechanism is not None and other.mechanism is not None:
            curve.mechanism = parallel(self.mechanism, other.mechanism, cells="by_public_index")
        return curve

    def moved(self, other: Self) -> Self:
        """Return the REPLACE_ONE curve of a record that leaves one cell and enters another.

        Both curves are of ADD_OR_REMOVE_ONE: removed here, added to `other`.
        """
        self._check_same(other)
        return self._labelled(self._moved(other))

    def group(self, size: int) -> "Curve":
        """Return the curve for `size` records that change together.

        A notion with a theorem of its own answers by that; the others by their profile, see
        `GroupCurve`.
        """
        size = _checks.count("size", size, "Pass the number of records in the group.")
        if size == 1:
            return self
        curve = self._group(size)
        curve.mechanism = self.mechanism
        curve.unit = group_unit(self.unit, size)
        return curve

    def _labelled(self, curve: Self) -> Self:
        curve.unit = self.unit
        return curve

    @abstractmethod
    def _plus(self, others: Sequence[Self]) -> Self:
        """Add other releases, at least one, on the same records."""

    @abstractmethod
    def _times(self, count: int) -> Self:
        """Add `count` releases, at least 2."""

    def _worst_of(self, other: Self) -> Self:
        raise UnsupportedMechanism(f"Parallel parts cannot be answered by notion {self.notion!r}.")

    def _moved(self, other: Self) -> Self:
        raise UnsupportedMechanism(
            f"A replaced record that changes its cell cannot be answered by notion {self.notion!r}."
        )

    def _group(self, size: int) -> "Curve":
        return GroupCurve(self, size)

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta proven for `epsilon`: the privacy profile.

        Parameters
        ----------
        epsilon
            Privacy loss bound, >= 0.

        Returns
        -------
        float
            An upper bound in [0, 1]; positive where the truth is, however small.
        """
        remedy = "Pass the privacy loss bound, such as epsilon=1."
        log_delta = self._log_delta(_checks.real("epsilon", epsilon, remedy, at_least=0))
        if log_delta == -math.inf:
            return self._least_delta()
        # the log itself is rounded: for a claim of 1e-300 that is 4e-14 of delta
        rounding = 4e-16 * (1 + abs(log_delta))
        return 1.0 if log_delta >= 0 else min(1.0, round_up(math.exp(log_delta), rounding))

    def _least_delta(self) -> float:
        """Return what a log delta of -inf means: underflow, unless losses are bounded."""
        return math.ulp(0.0)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon proven for `delta`.

        Parameters
        ----------
        delta
            Probability in [0, 1). At 0 the answer is infinite unless the
            privacy loss is bounded.

        Returns
        -------
        float
            An upper bound, >= 0, possibly infinite.
        """
        return self._epsilon(_checks.query_delta(delta))

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return math.inf
        return invert(self._log_delta, math.log(delta))

    def follow(self, order: float | None, enough: float) -> None:
        """Take a hint for the next log delta, on which only speed depends.

        `order` is the `best_order` of a curve of similar numbers; below `enough` the bound need
        not be the smallest.
        """

    def order(self, epsilon: float | None = None, *, delta: float | None = None) -> float | None:
        """Return the Rényi order that answers for `epsilon` or `delta`.

        Parameters
        ----------
        epsilon, delta
            Exactly one of the two.

        Returns
        -------
        float or None
            None where the notion has no orders, or where no finite epsilon holds.
        """
        _check_one(delta, epsilon)
        if delta is not None:
            epsilon = self.epsilon(delta)
            return self._order(epsilon) if math.isfinite(epsilon) else None
        remedy = "Pass the privacy loss bound, such as epsilon=1."
        return self._order(_checks.real("epsilon", epsilon, remedy, at_least=0))

    def _order(self, epsilon: float) -> float | None:
        """Return the order whose delta at `epsilon` is smallest, where the notion has one."""
        return None

    def guarantee(
        self, *, delta: float | None = None, epsilon: float | None = None, certify: bool = False
    ) -> Guarantee:
        """Return the full answer for one `delta` or one `epsilon`.

        Parameters
        ----------
        delta, epsilon
            Exactly one of the two; the other is computed.
        certify
            Prove the pair with interval arithmetic (needs python-flint). The
            answer may move up by a few units in the last place.

        Raises
        ------
        NotCertified
            `certify` was asked and no proof exists or was found.
        """
        _check_one(delta, epsilon)
        asked_delta = delta is not None
        # the floats that were asked about are the claim: a Fraction would be another one
        if delta is not None:
            epsilon, delta = self.epsilon(delta), float(delta)
        else:
            assert epsilon is not None
            delta, epsilon = self.delta(epsilon), float(epsilon)
        found = replace(self._guarantee(epsilon, delta), mechanism=self.mechanism)
        if not certify:
            return found
        from privacy.certification import certified

        return certified(found, "epsilon" if asked_delta else "delta")

    def _guarantee(self, epsilon: float, delta: float) -> Guarantee:
        order = self._order(epsilon) if math.isfinite(epsilon) else None
        return Guarantee(
            epsilon, delta, self.relation, self.notion, order, self.theorem, unit=self.unit
        )

    def _check_same(self, other: "Curve") -> None:
        same = type(other) is type(self) and other.relation is self.relation
        if not (same and other.unit == self.unit):
            given: object = other
            shown = given._kind() if isinstance(given, Curve) else given
            remedy = "Account both mechanisms with one notion, relation and unit, then add."
            raise ValueError(_checks.expected("other", shown, repr(self._kind()), remedy))

    def _kind(self) -> str:
        return f"curve by {self.notion}, {self.relation}, for {self.unit}"


def _check_one(delta: float | None, epsilon: float | None) -> None:
    if (delta is None) == (epsilon is None):
        remedy = "Pass exactly one of the two."
        raise ValueError(_checks.expected("delta, epsilon", (delta, epsilon), "one value", remedy))


class GroupCurve(Curve):
    """The profile of a group from that of one record.

    delta_k(k e) <= delta(e) (e^(k e) - 1) / (e^e - 1) = delta(e) (1 + e^e + ... + e^((k-1) e)):
    the chain from one neighbour to the next, k times (Vadhan 2017, Lemma 2.2). It is taken at
    several e up to epsilon / k, since a delta_k only falls.

    Parameters
    ----------
    one
        The curve of one record.
    size
        Number of records k >= 2.
    """

    theorem = "Vadhan 2017, Lemma 2.2, on the profile of one record"

    def __init__(self, one: Curve, size: int) -> None:
        self.notion = one.notion
        self.relation = one.relation
        self.resolution = max(one.resolution, 1e-12)
        self.one = one
        self.size = size

    def _log_delta(self, epsilon: float) -> float:
        each = epsilon / self.size
        if self.size * Fraction(each) > epsilon:
            each = math.nextafter(each, 0.0)
        found = min(self._at(share * each) for share in _SHARES)
        self.looseness = self.one.looseness
        return min(found, 0.0)

    def _at(self, each: float) -> float:
        """Return the log of the bound from delta(each), rounded up."""
        gain, k, last = math.log(self.size), self.size, 0.0
        if each > 0:
            last = math.log(-math.expm1(-each))  # both logs are large where `each` is tiny
            gain = (k - 1) * each + math.log(-math.expm1(-k * each)) - last
        return self.one._log_delta(each) + gain + 1e-15 * (4 + abs(gain) + k * each + abs(last))

    def _least_delta(self) -> float:
        return self.one._least_delta()

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return round_up(self.size * self.one._epsilon(0))
        return invert(self._log_delta, math.log(delta))

    def _plus(self, others: Sequence[Curve]) -> Self:
        raise UnsupportedMechanism(_GROUP_LAST)

    def _times(self, count: int) -> Self:
        raise UnsupportedMechanism(_GROUP_LAST)


def merged(counts: Iterable[tuple[_T, int]]) -> dict[_T, int]:
    """Return how often each thing is counted in all."""
    total: dict[_T, int] = {}
    for thing, count in counts:
        total[thing] = total.get(thing, 0) + count
    return total


_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
_GROUP_LAST = "A group's profile does not compose. Account the whole plan first, then .group(size)."


def invert(log_delta: Callable[[float], float], target: float, *, rtol: float = 1e-14) -> float:
    """Return the smallest epsilon >= 0 with ``log_delta(epsilon) <= target``.

    `log_delta` is a decreasing upper bound; the answer is a point at which it
    was evaluated, or infinity.
    """

    def excess(epsilon: float) -> float:
        return log_delta(epsilon) - target

    at_low = excess(0.0)
    if at_low <= 0:
        return 0.0
    low, high = 0.0, 1.0
    at_high = excess(high)
    if at_high <= 0:  # look for small epsilons on a log scale, so that they keep their digits
        while high > 1e-300:
            smaller = high / 16
            at_smaller = excess(smaller)
            if at_smaller > 0:
                low, at_low = smaller, at_smaller
                break
            high, at_high = smaller, at_smaller
    else:
        while at_high > 0:
            low, at_low = high, at_high
            high *= 2
            if high > 1e300:
                return math.inf
            at_high = excess(high)
    return safe_root(excess, high, low, at_safe=at_high, at_unsafe=at_low, rtol=rtol)
