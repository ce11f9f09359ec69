"""Privacy filters: budgets that hold when mechanisms are chosen adaptively."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from privacy import checks
from privacy.budget import _measures as measures
from privacy.budget._measures import GRACE, SAVED, Cost, Immutable, Measure, added, down, shown, up
from privacy.certification import certified
from privacy.guarantees import ONE_RECORD, Guarantee
from privacy.mechanisms import ApproximateDP, Mechanism
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

FilterNotion = Literal["zcdp", "gaussian", "rdp", "approximate"]
Amounts = tuple[float, ...]

_SCHEMA = "dpcalib.budget/1"
_KEYS = ("epsilon", "delta", "notion", "order", "relation", "unit", "of_epsilon")
_SUMS = ("limit", "most", "spent")
_ONE_OF = "Pass delta, and exactly one of epsilon, rho (of zCDP) and mu (of Gaussian DP)."


class BudgetExceeded(ValueError):
    """A mechanism costs more than the remaining budget. Nothing was spent.

    `asked` is its cost, `spent` and `remaining` are the amounts before, all in the budget's
    measure: one number, or (epsilon, delta) with ``notion="approximate"``.
    """

    def __init__(self, message: str, asked: Amounts, spent: Amounts, remaining: Amounts) -> None:
        super().__init__(message)
        self.asked, self.spent, self.remaining = asked, spent, remaining


@dataclass(frozen=True, init=False)
class Budget(Immutable):
    """A privacy filter: a budget for adaptively chosen mechanisms.

    Immutable: `spend` returns another budget. Threads share one in a `SharedBudget`.

    Parameters
    ----------
    epsilon, delta
        The guarantee at any stopping time.
    rho, mu
        Instead of `epsilon`: a limit that implies epsilon at `delta`.
    notion
        What adds up: ``"zcdp"`` (rho; the default), ``"gaussian"`` (mu^2, of unsampled Gaussian
        noise; the default with `mu`), ``"rdp"`` (the divergence at one order, also of sampled
        noise), or ``"approximate"`` (epsilon and delta, which may be 0).
    order
        The Rényi order > 1 of ``"rdp"``.
    relation, unit
        The neighboring relation, and the unit of privacy in words.

    Examples
    --------
    >>> import privacy as dp
    >>> left = dp.Budget(epsilon=1, delta=0, notion="approximate")
    >>> left = left.spend(dp.repeat(dp.PureDP(0.1), 10))
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
    """What adds up, and the composition theorem."""
    _limit: Cost
    _most: Cost  # what may be spent: `_limit` * (1 + measure.grace) if an epsilon set the limit
    _of_epsilon: bool  # whether epsilon and delta set the limit, not rho, mu or a split
    _spent: Cost

    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float,
        rho: float | None = None,
        mu: float | None = None,
        notion: FilterNotion | None = None,
        order: float | None = None,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        unit: str = ONE_RECORD,
    ) -> None:
        given = {"epsilon": epsilon, "rho": rho, "mu": mu}
        if sum(value is not None for value in given.values()) != 1:
            names, values = ", ".join(given), tuple(given.values())
            raise ValueError(checks.expected(names, values, "one value", _ONE_OF))
        if notion is None:
            notion = "zcdp" if mu is None else "gaussian"
        measure = _measure(notion, order)
        delta = _delta(delta, notion)
        if epsilon is not None:
            epsilon = checks.epsilon(epsilon)
            most = measure.limit(epsilon, delta)
            limit = tuple(amount / (1 + measure.grace) for amount in most)
        else:
            most = limit = (_of_parameter(measure, rho, mu),)
            epsilon = measure.epsilon(most, delta)
        nothing = (Fraction(0),) * len(limit)
        self._set(epsilon=epsilon, delta=delta, notion=notion, measure=measure)
        self._set(relation=checks.relation(relation), unit=checks.unit(unit))
        self._set(_limit=limit, _most=most, _of_epsilon=rho is None and mu is None, _spent=nothing)

    @property
    def limit(self) -> Amounts:
        """Return the limit in the budget's measure, rounded down."""
        return tuple(map(down, self._limit))

    @property
    def spent(self) -> Amounts:
        """Return the amount spent, rounded up; the guarantee is that of the whole budget."""
        return tuple(map(up, self._spent))

    @property
    def remaining(self) -> Amounts:
        """Return the remaining budget, rounded down."""
        return tuple(map(down, self._left_of(self._limit)))

    def _left_of(self, limit: Cost) -> Cost:
        left = zip(limit, self._spent, strict=True)
        return tuple(max(most - spent, Fraction(0)) for most, spent in left)

    def cost(self, mechanism: Mechanism) -> Amounts:
        """Return the cost of a mechanism in the budget's measure, rounded up."""
        return tuple(map(up, self.measure.cost(mechanism, self.relation)))

    def fits(self, mechanism: Mechanism) -> bool:
        """Return whether `spend` would accept the mechanism."""
        return self._allows(added(self._spent, self.measure.cost(mechanism, self.relation)))

    def _allows(self, total: Cost) -> bool:
        if all(amount <= most for amount, most in zip(total, self._most, strict=True)):
            return True
        return self._of_epsilon and self.measure.holds(total, self.epsilon, self.delta)

    def spend(self, mechanism: Mechanism) -> "Budget":
        """Return the budget after a mechanism, which may depend on earlier outputs.

        Call it before the mechanism reads the data. The cost stays spent if the mechanism fails.
        Raises `BudgetExceeded` if it costs more than remains, and `UnsupportedMechanism` if the
        accounting method has no rule for it; this budget is unchanged.
        """
        return self._spend(mechanism, self.measure.cost(mechanism, self.relation))

    def _spend(self, mechanism: Mechanism, cost: Cost) -> "Budget":
        total = added(self._spent, cost)
        if not self._allows(total):
            asked, left = tuple(map(up, cost)), self.remaining
            message = (
                f"Expected {mechanism!r} to cost at most the remaining {self.measure.name} "
                f"{shown(left, up=False)}: it costs {shown(asked)}, and "
                f"{shown(self.spent)} of {shown(self.limit, up=False)} is spent. "
                "Increase the noise."
            )
            raise BudgetExceeded(message, asked, self.spent, left)
        return self._with(_spent=total)

    @property
    def _order(self) -> float | None:
        return self.measure.orders[0] if isinstance(self.measure, measures.Divergence) else None

    def guarantee(self, *, certify: bool = False) -> Guarantee:
        """Return the guarantee of the whole budget, which holds at any stopping time.

        With `certify`, prove by interval arithmetic that no sum that `spend` accepts exceeds it,
        or raise `NotCertified`; epsilon may increase by 1e-9 relative, and delta with
        ``notion="approximate"`` by 1e-12. Its `mechanism` costs slightly more than all such sums.
        """
        basis = (self.relation, self.notion, self._order, self.measure.theorem)
        found = Guarantee(self.epsilon, self.delta, *basis, unit=self.unit)
        if not certify:
            return found
        # `spend` accepts a sum above the limit if its conversion is at most epsilon
        most = tuple(amount * (1 + GRACE) for amount in self._most)
        if self._of_epsilon and self.measure.holds(most, self.epsilon, self.delta):
            return certified(found, "epsilon")  # raises
        claim = self.measure.claim(most, self.relation)
        delta = claim.delta if isinstance(claim, ApproximateDP) else self.delta
        return certified(replace(found, mechanism=claim, delta=delta), "epsilon")

    def split(self, shares: int | Sequence[float]) -> tuple["Budget", ...]:
        """Return unspent budgets whose limits add up exactly to the remainder of this one.

        `shares` is the number of equal parts, or the weight (> 0) of each part. With
        ``notion="approximate"``, delta is divided too.
        """
        remedy = "Pass the number of parts, or a weight for each."
        if isinstance(shares, Sequence):
            weights = [Fraction(checks.real("shares", share, remedy, above=0)) for share in shares]
        else:
            weights = [Fraction(1)] * checks.count("shares", shares, remedy)
        checks.refuse_if(not weights, "shares", shares, "at least one part", remedy)
        whole = sum(weights)
        left, rest = self._left_of(self._limit), self._left_of(self._most)
        nothing = (Fraction(0),) * len(left)
        parts = []
        for weight in weights:
            limit = tuple(weight / whole * amount for amount in left)
            most = tuple(weight / whole * amount for amount in rest)
            delta = up(limit[1]) if len(limit) > 1 else self.delta
            epsilon = self.measure.epsilon(most, delta)
            part = self._with(epsilon=epsilon, delta=delta, _limit=limit, _most=most)
            parts.append(part._with(_of_epsilon=False, _spent=nothing))
        return tuple(parts)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-compatible dict for `from_json`, with the amount spent."""
        values = (self.epsilon, self.delta, self.notion, self._order, str(self.relation), self.unit)
        sums = (self._limit, self._most, self._spent)
        return {
            "schema": _SCHEMA,
            **dict(zip(_KEYS, (*values, self._of_epsilon), strict=True)),
            **dict(zip(_SUMS, map(measures.cost_to_json, sums), strict=True)),
        }

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "Budget":
        """Return the budget that `to_json` wrote; `ValueError` if its limit was increased.

        Restore it in one process at a time: two would both spend the remainder.
        """
        values = measures.saved(form, _SCHEMA, (*_KEYS, *_SUMS))
        notion = values["notion"]
        measure = _measure(notion, values["order"])
        epsilon = checks.real("epsilon", values["epsilon"], SAVED, at_least=0)
        delta = _delta(values["delta"], notion)
        by = checks.flag("of_epsilon", values["of_epsilon"], SAVED)
        length = 2 if notion == "approximate" else 1
        limit, most, spent = (measures.cost_from_json(name, values[name], length) for name in _SUMS)
        # epsilon was rounded; refuse a file whose limit was raised
        within = measure.epsilon(most, delta) <= epsilon * (1 + 1e-9)
        if length > 1:
            within &= most[1] <= max(measures.decimal(delta), Fraction(delta))
        if not within or any(one > other for one, other in zip(limit, most, strict=True)):
            rule = f"within epsilon={epsilon!r} and delta={delta!r}"
            raise ValueError(checks.expected("most", values["most"], rule, SAVED))
        budget: Budget = cls.__new__(cls)
        budget._set(epsilon=epsilon, delta=delta, notion=notion, measure=measure)
        relation, unit = checks.relation(values["relation"]), checks.unit(values["unit"])
        budget._set(relation=relation, unit=unit)
        budget._set(_limit=limit, _most=most, _of_epsilon=by, _spent=spent)
        return budget

    def __str__(self) -> str:
        spent = f"{self.measure.name} {shown(self.spent)} of {shown(self.limit, up=False)} spent"
        return f"{spent}; the whole budget is {self.guarantee()}"


def _delta(delta: float, notion: FilterNotion) -> float:
    return checks.query_delta(delta) if notion == "approximate" else checks.delta(delta)


def _measure(notion: FilterNotion, order: float | None) -> Measure:
    remedy = "For other methods, fix the plan in advance and use account()."
    checks.one_of("notion", notion, get_args(FilterNotion), remedy)
    remedy = 'Pass order= with notion="rdp", and only there.'
    rule = "a Rényi order" if order is None else "None"
    checks.refuse_if((order is not None) != (notion == "rdp"), "order", order, rule, remedy)
    if order is not None:
        remedy = "Pass a Rényi order, such as 8."
        return measures.Divergence((checks.real("order", order, remedy, above=1),))
    plain: dict[str, Measure] = {"zcdp": measures.Rho(), "gaussian": measures.MuSquared()}
    return plain.get(notion) or measures.EpsilonDelta()


def _of_parameter(measure: Measure, rho: float | None, mu: float | None) -> Fraction:
    """Return the larger of a float and its decimal value, so that both fit the budget."""
    name, value, notion = ("rho", rho, "zcdp") if mu is None else ("mu", mu, "gaussian")
    number = checks.real(name, value, f"Pass the largest {name} to spend.", above=0)
    remedy = f"Leave notion out: {name}= implies it."
    checks.refuse_if(measure.notion != notion, "notion", measure.notion, repr(notion), remedy)
    return max(Fraction(number), measures.decimal(number)) ** (1 if mu is None else 2)
