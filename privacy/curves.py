"""Privacy curves by one accounting method: `Curve` and `Answer`."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, overload

from privacy import checks
from privacy.guarantees import ONE_RECORD, Guarantee, NotCertified, group_unit
from privacy.mechanisms import (
    BestOf,
    Mechanism,
    UnsupportedMechanism,
    brief,
    needs_largest_count,
    parallel,
)
from privacy.numerics.display import html_table, rounded
from privacy.numerics.rounding import ratio_down, round_up, sum_up
from privacy.numerics.solve import invert, invert_all
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation
from privacy.risk import Risk

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privacy.tradeoffs import Array, LogDeltas

_T = TypeVar("_T")
_SHOWN = (1e-3, 1e-6, 1e-9)  # deltas of a curve in a notebook
_SEVERAL = 16  # fewer different queries are answered one by one
Prover = Callable[[Guarantee, str], Guarantee]


class Answer(NamedTuple):
    """The answer to one query of a curve, by the accounting method `notion` and its `theorem`.

    `value` is an upper bound on epsilon or delta (internally also on log delta). `error` is the
    relative error bound: delta exceeds the method's exact value by at most this. `order` is the
    Rényi order used, if any, and `hint` an order to start the search of a similar query.
    """

    value: float
    error: float = 0.0
    order: float | None = None
    notion: str = ""
    theorem: str = ""
    hint: float | None = None


class Hint(NamedTuple):
    """Hints from a search for its next query."""

    order: float | None = None  # the hint of a similar answer
    enough: float = -math.inf  # a bound on log delta below this need not be tight
    # compute only the direction that is usually worse; the result may be no upper bound
    one_direction: bool = False
    sharp: bool = False  # the order is the best one, to about six digits


NO_HINT = Hint()


@dataclass(frozen=True, eq=False, repr=False)
class Curve(Risk, ABC):
    """The privacy guarantee of a mechanism by one accounting method, for every delta or epsilon.

    Compose curves of one neighboring relation with ``a + b``, ``n * a``, and ``a.worst_of(b)`` for
    disjoint records. A curve is immutable and thread-safe.

    `relation` is the neighboring relation. `mechanism` is what ran; of sums and multiples of
    curves, only those with ``"tightest"`` have it, others None. `unit` is the unit of privacy, by
    default one record. The curve of a group has the mechanism of one record and the size in `unit`.
    """

    notion: ClassVar[str]
    theorem: ClassVar[str]
    resolution: ClassVar[float] = 4e-16
    """Relative accuracy to which a parameter is calibrated with this curve."""
    closed_form: ClassVar[bool] = True
    """Whether the numbers come from closed formulas, which never fail."""
    vectorized: ClassVar[bool] = False
    """Whether many epsilons cost little more than one."""
    relation: NeighboringRelation
    _: KW_ONLY
    mechanism: Mechanism | None = None
    unit: str = ONE_RECORD
    prover: Prover | None = field(default=None, repr=False)
    counted: bool = field(default=False, repr=False)  # see `needs_largest_count`

    def __repr__(self) -> str:
        of = "several curves" if self.mechanism is None else repr(self.mechanism)
        return (
            f"<curve of {of} for {self.unit}, {self.relation}, by {self.notion}: "
            "call .epsilon(delta), .delta(epsilon) or .guarantee(delta=)>"
        )

    def _repr_html_(self) -> str:
        of = "several curves" if self.mechanism is None else brief(self.mechanism)
        rows: list[tuple[object, ...]] = [("curve of", of), ("unit", self.unit)]
        rows.append(("relation", self.relation))
        for delta in _SHOWN:
            found = self._at_delta(delta)
            rows.append((f"epsilon at delta={delta:g}", rounded(found.value), f"by {found.notion}"))
        return html_table(rows)

    @property
    def exact(self) -> bool:
        """Whether no other method can give a smaller bound for the mechanism."""
        return False

    @property
    def beats_moments(self) -> bool:
        """Whether every bound from moments is at least as large, whatever the error bound."""
        return False

    @property
    def below(self) -> "tuple[Curve, ...]":
        """Lower bounds on the other methods: if all exceed a bound, so do the other methods."""
        return ()

    @property
    def refusal(self) -> str:
        """Why this method does not support the whole plan; empty if it does."""
        return ""

    @abstractmethod
    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        """Return an upper bound on log delta(epsilon), epsilon >= 0; -inf if delta is 0."""

    def _at_delta(self, delta: float) -> Answer:
        if delta == 0:
            return self._answer(math.inf)
        found = invert(lambda epsilon: self._at_epsilon(epsilon).value, math.log(delta))
        last = self._at_epsilon(found) if math.isfinite(found) else self._answer(found)
        return last._replace(value=found)

    def _profile(self) -> "LogDeltas":
        """Return the privacy profile as a function of many epsilons.

        It returns upper bounds on log delta and their error bounds, and keeps what several calls
        share. A curve keeps nothing, so that no result depends on earlier queries.
        """
        import numpy as np

        def log_deltas(epsilons: "Array") -> "tuple[Array, Array]":
            answers = [self._at_epsilon(epsilon) for epsilon in epsilons.tolist()]
            values, errors, *_ = zip(*answers, strict=True)
            return np.array(values, dtype=float), np.array(errors, dtype=float)

        return log_deltas

    def _answer(
        self,
        value: float,
        error: float = 0.0,
        order: float | None = None,
        hint: float | None = None,
    ) -> Answer:
        return Answer(value, error, order, self.notion, self.theorem, hint)

    def __add__(self, other: Self) -> Self:
        return self.plus([other])

    def plus(self, others: Sequence[Self]) -> Self:
        """Return the curve of this and `others` on the same records."""
        each = {
            (type(x), getattr(x, "relation", None), getattr(x, "unit", None)): x for x in others
        }
        for kind in each.values():
            self._check_same(kind)
        if not others:
            return self
        found = self._labeled(self._plus(others))
        return replace(found, counted=True) if any(x._counted for x in others) else found

    def __mul__(self, count: int) -> Self:
        count = checks.count("count", count, "Pass the number of releases.")
        return self if count == 1 else self._labeled(self._times(count))

    def __rmul__(self, count: int) -> Self:
        return self * count

    def worst_of(self, other: Self) -> Self:
        """Return the curve of two releases on disjoint records."""
        self._check_same(other)
        mechanism = None
        if self.mechanism is not None and other.mechanism is not None:
            mechanism = parallel(self.mechanism, other.mechanism, cells="by_public_index")
        worst = self._worst_of(other).labeled(mechanism, self.unit, self.prover)
        return replace(worst, counted=True) if self._counted or other._counted else worst

    def moved(self, other: Self) -> Self:
        """Return the REPLACE_ONE curve of a record that moves from this cell to that of `other`.

        Both curves are under ADD_OR_REMOVE_ONE.
        """
        self._check_same(other)
        return self._labeled(self._moved(other))

    def group(self, size: int) -> "Curve":
        """Return the curve for a group of `size` records that change together.

        By the method's own group theorem if it has one, else Vadhan 2017, Lemma 2.2.
        """
        size = checks.count("size", size, "Pass the number of records in the group.")
        if size == 1:
            return self
        if self.relation is ADD_OR_REMOVE_ONE and self._counted:
            raise UnsupportedMechanism(_COUNTED, mechanism=self.mechanism, notion=self.notion)
        return self._group(size).labeled(self.mechanism, group_unit(self.unit, size), self.prover)

    def best_of(self, runs: BestOf) -> "Curve":
        """Return the curve of the best of a random number of runs, this being that of one run."""
        message = f"Accounting method {self.notion!r} has no bound for the best of several runs."
        raise UnsupportedMechanism(message, mechanism=runs, notion=self.notion)

    def labeled(self, mechanism: Mechanism | None, unit: str, prover: Prover | None) -> Self:
        """Return this curve with another mechanism, unit and prover."""
        if mechanism is self.mechanism and unit == self.unit and prover is self.prover:
            return self
        return replace(self, mechanism=mechanism, unit=unit, prover=prover)

    def _labeled(self, curve: Self) -> Self:
        found = curve.labeled(None, self.unit, self.prover)
        return replace(found, counted=True) if self._counted else found

    @property
    def _counted(self) -> bool:
        mechanism = self.mechanism
        return self.counted or (mechanism is not None and needs_largest_count(mechanism))

    @abstractmethod
    def _plus(self, others: Sequence[Self]) -> Self:
        """Return the sum with at least one other release on the same records."""

    @abstractmethod
    def _times(self, count: int) -> Self:
        """Return the sum of `count` >= 2 releases."""

    def _worst_of(self, other: Self) -> Self:
        raise self._no_cells()

    def _moved(self, other: Self) -> Self:
        raise self._unsupported("a replaced record that changes its cell")

    def _group(self, size: int) -> "Curve":
        return GroupCurve(self.relation, self, size)

    def answer(self, *, delta: float | None = None, epsilon: float | None = None) -> Answer:
        """Return the bound, with its details, for exactly one of `delta` and `epsilon`."""
        names, given, remedy = "delta, epsilon", (delta, epsilon), "Pass exactly one of the two."
        checks.refuse_if((delta is None) == (epsilon is None), names, given, "one value", remedy)
        return self._asked_delta(epsilon) if delta is None else self._asked_epsilon(delta)

    def _asked_epsilon(self, delta: object) -> Answer:
        return self._at_delta(checks.query_delta(delta))

    def _asked_delta(self, epsilon: object) -> Answer:
        found = self._at_epsilon(checks.query_epsilon(epsilon))
        return found._replace(value=self._delta(found.value))

    def _delta(self, log_delta: float) -> float:
        if log_delta == -math.inf:
            return self._least_delta()
        # includes the rounding of the log: a relative 4e-14 of a delta of 1e-300
        rounding = 4e-16 * (1 + abs(log_delta))
        return 1.0 if log_delta >= 0 else min(1.0, round_up(math.exp(log_delta), rounding))

    @overload
    def delta(self, epsilon: float) -> float: ...
    @overload
    def delta(self, epsilon: "ArrayLike") -> "Array": ...
    def delta(self, epsilon: "ArrayLike") -> "Array | float":
        """Return the smallest delta proven for `epsilon` >= 0 (the privacy profile).

        It is an upper bound in [0, 1]; 0 only if the exact delta is 0. An array gives an array of
        the same shape; its values share work, and may exceed those of single queries by .1 %.
        """
        if several(epsilon):
            return self._each(epsilon, self._asked_delta, self._many_deltas)
        return self._asked_delta(epsilon).value

    def _each(
        self, values: "ArrayLike", ask: Callable[[object], Answer], many: "Callable[[Array], Array]"
    ) -> "Array":
        """Return the answers to an array of queries, by `ask` one by one or by `many` at once."""
        import numpy as np

        asked = np.asarray(values)
        flat, where = np.unique(asked.ravel(), return_inverse=True)
        if self.vectorized and flat.size >= _SEVERAL and flat.dtype.kind in "iuf":
            found = many(flat.astype(float))
        else:
            found = np.array([ask(one).value for one in flat.tolist()], dtype=float)
        return found[where].reshape(asked.shape)

    def _many_deltas(self, epsilons: "Array") -> "Array":
        import numpy as np

        for end in epsilons[[0, -1]]:  # NaN is last
            checks.query_epsilon(end)
        values, errors = self._profile()(epsilons)
        self._ask_again(values, errors > _SHARED, lambda k: self._at_epsilon(float(epsilons[k])))
        return np.array([self._delta(one) for one in np.minimum.accumulate(values).tolist()])

    def _many_epsilons(self, deltas: "Array") -> "Array":
        import numpy as np

        for end in deltas[[0, -1]]:
            checks.query_delta(end)
        found = np.full_like(deltas, math.nan)
        loose = np.ones(deltas.size, dtype=bool)
        if (known := deltas > 0).any():
            top = self._at_delta(float(deltas[known][0])).value
            rising, errors = invert_all(self._profile(), np.log(deltas[known][::-1]), top)
            found[known], loose[known] = rising[::-1], (errors > _SHARED)[::-1]
            found[known.argmax()] = np.fmin(found[known.argmax()], top)
        loose |= np.isnan(found)
        self._ask_again(found, loose, lambda k: self._at_delta(float(deltas[k])))
        return np.asarray(np.fmin.accumulate(found))  # epsilon decreases in delta

    @staticmethod
    def _ask_again(values: "Array", loose: Any, ask: Callable[[int], Answer]) -> None:
        """Improve loose bounds by single queries, until most of these are loose too."""
        import numpy as np

        left, where = _MOST_LOOSE, np.flatnonzero(loose)
        for k in where[np.argsort(0.618 * where % 1)].tolist():  # spread; the first one first
            answer = ask(k)
            values[k] = np.fmin(values[k], answer.value)
            left += -1 if answer.error > _SHARED else 1
            if not left:
                break

    def _least_delta(self) -> float:
        """Return the delta reported for a log delta of -inf; 0 only if delta is exactly 0."""
        return math.ulp(0.0)

    @overload
    def epsilon(self, delta: float) -> float: ...
    @overload
    def epsilon(self, delta: "ArrayLike") -> "Array": ...
    def epsilon(self, delta: "ArrayLike") -> "Array | float":
        """Return the smallest epsilon proven for `delta` in [0, 1).

        It is >= 0, and infinite at delta 0 unless the loss is bounded. Arrays are as in `delta`.
        """
        if several(delta):
            return self._each(delta, self._asked_epsilon, self._many_epsilons)
        return self._asked_epsilon(delta).value

    def guarantee(
        self, *, delta: float | None = None, epsilon: float | None = None, certify: bool = False
    ) -> Guarantee:
        """Return the guarantee for one `delta` or one `epsilon`.

        Pass exactly one of the two; the other is computed. `certify` verifies the pair with
        interval arithmetic (needs python-flint); the computed value may increase by a few units in
        the last place. Raises `NotCertified` if ``certify=True``, and no proof exists or was found.
        """
        found = self.answer(delta=delta, epsilon=epsilon)
        if delta is not None:
            # the guarantee is stated for the float; a Fraction could differ from it
            pair, move = (found.value, float(delta)), "epsilon"
        else:
            assert epsilon is not None
            pair, move = (float(epsilon), found.value), "delta"
        guarantee = self._guarantee(*pair, found)
        if not certify:
            return guarantee
        if self.prover is None:
            raise NotCertified(
                f"A sum of curves cannot be certified: {guarantee}. "
                "Account for the composed mechanism."
            )
        return self.prover(guarantee, move)

    def _guarantee(self, epsilon: float, delta: float, found: Answer) -> Guarantee:
        order = found.order if math.isfinite(epsilon) else None
        basis = (self.relation, found.notion, order, found.theorem)
        return Guarantee(epsilon, delta, *basis, mechanism=self.mechanism, unit=self.unit)

    def _check_same(self, other: "Curve") -> None:
        for curve in (self, other):
            if isinstance(curve, LastCurve):
                raise curve.last()
        same = type(other) is type(self) and other.relation is self.relation
        if not (same and other.unit == self.unit):
            given: object = other
            if isinstance(given, Curve) and given._kind() == self._kind():
                raise self._no_cells()  # one of them is the worst of several cells
            shown = given._kind() if isinstance(given, Curve) else given
            remedy = "Account for both mechanisms with the same notion, relation and unit."
            raise ValueError(checks.expected("other", shown, repr(self._kind()), remedy))

    def _no_cells(self) -> UnsupportedMechanism:
        return self._unsupported("different parallel parts inside a composition")

    def _unsupported(self, what: str) -> UnsupportedMechanism:
        message = f"Accounting method {self.notion!r} does not support {what}."
        return UnsupportedMechanism(message, mechanism=self.mechanism, notion=self.notion)

    def _kind(self) -> str:
        return f"curve by {self.notion}, {self.relation}, for {self.unit}"


@dataclass(frozen=True, eq=False, repr=False)
class LastCurve(Curve):
    """A curve that does not compose."""

    @abstractmethod
    def last(self) -> UnsupportedMechanism:
        """Return the error for a composition."""

    def _plus(self, others: Sequence[Curve]) -> Self:
        raise self.last()

    def _times(self, count: int) -> Self:
        raise self.last()


@dataclass(frozen=True, eq=False, repr=False)
class GroupCurve(LastCurve):
    """The privacy profile of a group, from that of one record.

    delta_k(k x) <= delta(x) (1 + e^x + ... + e^((k-1) x)) (Vadhan 2017, Lemma 2.2). Since delta_k
    is nonincreasing, the bound is the smallest one over several x <= epsilon / k.
    """

    theorem: ClassVar[str] = "Vadhan 2017, Lemma 2.2, on the profile of one record"
    one: Curve
    size: int

    @property
    def resolution(self) -> float:  # type: ignore[override]
        """The resolution for one record, at least the rounding error of the gain."""
        return max(self.one.resolution, 1e-12)

    @property
    def notion(self) -> str:  # type: ignore[override]
        return self.one.notion

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        return self._over_shares(epsilon, self.one._at_epsilon)

    def _over_shares(self, epsilon: float, ask: Callable[[float], Answer]) -> Answer:
        """Return the smallest bound, `ask` being the profile of one record."""
        each = ratio_down(epsilon, self.size)
        found = min((self._bound(share * each, ask) for share in _SHARES), key=lambda a: a.value)
        return self._answer(min(found.value, 0.0), found.error)

    def _bound(self, each: float, ask: Callable[[float], Answer]) -> Answer:
        """Return the log of the bound from delta(each), rounded up."""
        gain, k, last = math.log(self.size), self.size, 0.0
        if each > 0:
            last = math.log(-math.expm1(-each))  # both logs are large if `each` is tiny
            gain = (k - 1) * each + math.log(-math.expm1(-k * each)) - last
        found = ask(each)
        rounding = 1e-15 * (4 + abs(gain) + k * each + abs(last))
        return found._replace(value=found.value + gain + rounding)

    def _least_delta(self) -> float:
        return self.one._least_delta()

    def _at_delta(self, delta: float) -> Answer:
        if delta == 0:
            return self._answer(sum_up([self.size * self.one._at_delta(0).value]))
        import numpy as np

        profile = self.one._profile()  # many epsilons of one record share work
        known, log_delta = list[float](), math.log(delta)

        def ask(epsilon: float) -> Answer:
            (value,), (error,) = profile(np.array([epsilon]))
            known.append(float(value))
            return self._answer(known[-1], float(error))

        def bound(epsilon: float) -> Answer:
            found = self._over_shares(epsilon, ask)
            far, near = known[-3:-1]  # at the shares 0.5 and 0.25
            # below all floats, log delta is often bounded by a line, which may never suffice
            if found.value > log_delta and -math.inf < near < _TINY and far > 2.05 * near:
                raise OverflowError("no bound for the group from floats")
            return found

        try:
            found = invert(lambda epsilon: bound(epsilon).value, log_delta)
        except OverflowError:
            return self._at_delta(0)
        last = bound(found) if math.isfinite(found) else self._answer(found)
        return last._replace(value=found)

    def last(self) -> UnsupportedMechanism:
        return UnsupportedMechanism(_GROUP_LAST, mechanism=self.mechanism, notion=self.notion)


_SHARED = 1e-3  # relative error bound above which queries of an array are answered one by one
_MOST_LOOSE = 8  # these queries stop once this many more answers have larger errors than not
_SHARES = (1.0, 0.75, 0.5, 0.25, 0.0)
_COUNTED = (
    "TruncatedPoisson has no bound for a group of added records: the data sets between have fewer "
    "records. Pass relation=REPLACE_ONE or REPLACE_SPECIAL."
)
_TINY = -1e3  # a log delta below that of every positive float
_GROUP_LAST = "Group curves do not compose. Account for the whole plan, then call .group(size)."


def several(value: object) -> bool:
    """Return whether a query is an array or a list."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def merged(counts: Iterable[tuple[_T, int]]) -> dict[_T, int]:
    """Return the total count of each item."""
    total: dict[_T, int] = {}
    for thing, count in counts:
        total[thing] = total.get(thing, 0) + count
    return total
