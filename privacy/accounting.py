"""Mechanism -> curve: one fold over the tree, and the registry of rules it uses.

Composition arithmetic lives in `_fold` and nowhere else: a *rule* describes ONE
application of one kind of mechanism in one notion and never sees a count.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import Any, Literal, TypeVar, get_args

from privacy import _checks
from privacy._names import told_by_ours
from privacy.guarantees import ONE_RECORD, Curve, GroupCurve, Guarantee
from privacy.mechanisms import (
    Composed,
    Mechanism,
    Parallel,
    Repeated,
    UnsupportedMechanism,
    compose,
    parallel,
    repeat,
)
from privacy.relations import NeighboringRelation

Notion = Literal["tightest", "zcdp", "rdp", "gaussian", "contour", "approximate"]
Rule = Callable[[Any, NeighboringRelation], Curve]
_R = TypeVar("_R", bound=Rule)

# In the order in which "tightest" tries them: closed forms first, moment bounds last.
NOTION_MODULES = {
    "gaussian": "privacy.notions.gaussian",
    "approximate": "privacy.notions.approximate",
    "contour": "privacy.notions.contour",
    "zcdp": "privacy.notions.zcdp",
    "rdp": "privacy.notions.renyi",
}
_TIGHT = 1e-4  # looseness up to which no other notion need be asked
_ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
_rules: dict[tuple[str, type[Mechanism]], Rule] = {}


def rule(notion: str, *kinds: type[Mechanism]) -> Callable[[_R], _R]:
    """Register a function ``(mechanism, relation) -> Curve`` for `kinds` in `notion`."""

    def register(function: _R) -> _R:
        for kind in kinds:
            _rules[notion, kind] = function
        return function

    return register


@cache
def _load(notion: str) -> None:
    import_module(NOTION_MODULES[notion])


def rules_of(notion: str) -> dict[type[Mechanism], Rule]:
    """Return the rules of one notion, by kind of mechanism."""
    _load(notion)
    return {kind: function for (name, kind), function in _rules.items() if name == notion}


@told_by_ours
def account(
    mechanism: Mechanism,
    *,
    notion: Notion = "tightest",
    relation: NeighboringRelation = _ADD_OR_REMOVE_ONE,
    orders: Sequence[float] | None = None,
    unit: str = ONE_RECORD,
) -> Curve:
    """Return the privacy curve of a mechanism.

    Parameters
    ----------
    mechanism
        What ran, such as ``repeat(PoissonSampled(Gaussian(1.0), ...), 1000)``.
    notion
        ``"tightest"`` (the smallest valid answer over the others), or one of
        ``"gaussian"``, ``"approximate"``, ``"contour"``, ``"zcdp"``, ``"rdp"``.
    relation
        Which data sets count as neighbours.
    orders
        Rényi orders (> 1) to use with ``notion="rdp"``, such as
        ``range(2, 65)``; without them all orders are searched.
    unit
        Whose data one record of the mechanism is, in words: ``"one user"`` where the noise is
        scaled to all that a user contributes. It is repeated in the guarantee.

    Returns
    -------
    Curve
        Ask it ``.epsilon(delta)``, ``.delta(epsilon)`` or ``.guarantee(...)``.

    Raises
    ------
    UnsupportedMechanism
        No proven rule answers a part of the mechanism in this notion.

    Examples
    --------
    >>> import privacy as dp
    >>> round(dp.account(dp.Gaussian(2.0)).epsilon(1e-5), 4)
    1.9931
    """
    if not isinstance(mechanism, Mechanism):
        remedy = "Pass a mechanism, such as Gaussian(1.0)."
        raise TypeError(_checks.expected("mechanism", mechanism, "a mechanism", remedy))
    check_notion(notion)
    relation = _checks.relation(relation)
    if orders is not None:
        if notion != "rdp":
            remedy = 'Orders belong to notion="rdp"; leave them out otherwise.'
            raise ValueError(_checks.expected("orders", orders, "None", remedy))
        from privacy.notions.renyi import with_orders

        curve: Curve = with_orders(_answered(mechanism, notion, relation), orders)
    elif notion == "tightest":
        curve = TightestCurve(mechanism, relation)
    else:
        curve = _answered(mechanism, notion, relation)
    curve.mechanism, curve.unit = mechanism, _checks.unit(unit)
    return curve


def check_notion(notion: object) -> None:
    """Raise unless `notion` is one; names that other tools use are told by ours."""
    names = get_args(Notion)
    if notion in names:
        return
    remedy = "Leave it out for the tightest answer."
    meant = _OTHER_NAMES.get(notion.lower()) if isinstance(notion, str) else None
    if meant is not None:
        remedy = f"Did you mean {meant!r}? {remedy}"
    raise ValueError(_checks.expected("notion", notion, f"one of {', '.join(names)}", remedy))


_OTHER_NAMES = {
    **dict.fromkeys(("rdp", "renyi", "rényi"), "rdp"),
    **dict.fromkeys(("pld", "prv", "fft", "exact"), "contour"),
    **dict.fromkeys(("gdp", "fdp", "gaussian", "analytic"), "gaussian"),
    **dict.fromkeys(("cdp", "zcdp", "rho"), "zcdp"),
    **dict.fromkeys(("pure", "dp", "epsilon_delta", "approximate"), "approximate"),
}


def support_matrix() -> dict[str, tuple[str, ...]]:
    """Return, for every kind of mechanism, the notions that have a rule for it."""
    kinds = {kind for notion in NOTION_MODULES for kind in rules_of(notion)}
    return {
        kind.__name__: tuple(name for name in NOTION_MODULES if kind in rules_of(name))
        for kind in sorted(kinds, key=lambda kind: kind.__name__)
    }


def _answered(mechanism: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    """Return the curve in one notion; a refusal says which notions answer instead."""
    try:
        return _fold(mechanism, notion, relation)
    except UnsupportedMechanism as refusal:
        others = ", ".join(_notions_of(mechanism, relation))
        instead = f"Use the default, 'tightest', or one of: {others}." if others else _NO_OTHER
        raise UnsupportedMechanism(f"{refusal} {instead}") from refusal


_NO_OTHER = "No other notion answers it either."


def _notions_of(mechanism: Mechanism, relation: NeighboringRelation) -> list[str]:
    """Return the notions that answer a mechanism."""
    found = []
    for notion in NOTION_MODULES:
        with suppress(UnsupportedMechanism):
            _fold(mechanism, notion, relation)
            found.append(notion)
    return found


def _apart(mechanism: Mechanism, relation: NeighboringRelation) -> str:
    """Return what to do about parts that no notion answers together, if each is answered alone."""
    if not isinstance(mechanism, Composed):
        return ""
    alone = {part: _notions_of(part, relation) for part in mechanism.parts}
    if not all(alone.values()):
        return ""
    told = "".join(f"\n  {part!r}: {', '.join(notions)}" for part, notions in alone.items())
    return (
        f"\nAlone, each part is answered:{told}\nAccount for the parts that share a notion "
        "together, and add up: by basic composition the epsilons add, and so do the deltas."
    )


def _fold(node: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    if isinstance(node, Repeated):
        return node.count * _fold(node.mechanism, notion, relation)
    if isinstance(node, Composed):
        first, *rest = [_fold(part, notion, relation) for part in node.parts]
        return first.plus(rest)
    if isinstance(node, Parallel):
        return _fold_parallel(node, notion, relation)
    _load(notion)
    found = _rules.get((notion, type(node)))
    if found is None:
        raise UnsupportedMechanism(f"No rule for {node!r} in notion {notion!r}.")
    return found(node, relation)


def _fold_parallel(node: Parallel, notion: str, relation: NeighboringRelation) -> Curve:
    curves = [_fold(part, notion, relation) for part in dict.fromkeys(node.parts)]
    if relation is NeighboringRelation.REPLACE_ONE and node.cells == "by_record":
        # the replaced record may leave cell i and enter cell j: both cells change
        once = {part: _fold(part, notion, _ADD_OR_REMOVE_ONE) for part in set(node.parts)}
        curves += [
            once[leaves].moved(once[enters])
            for leaves in once
            for enters in once
            if leaves != enters or node.parts.count(leaves) > 1
        ]
    worst, *rest = curves
    for other in rest:
        worst = worst.worst_of(other)
    return worst


class TightestCurve(Curve):
    """The smallest valid answer over all notions, taken at each query.

    Holds the mechanism, so that composing two of these accounts the composed
    mechanism in every notion afresh and no minimum is taken too early.
    """

    notion = "tightest"
    theorem = "the smallest of several valid bounds is a valid bound"
    mechanism: Mechanism
    _winner: Curve | None = None
    """The member that gave the last answer."""

    def __init__(self, mechanism: Mechanism, relation: NeighboringRelation) -> None:
        self.mechanism = mechanism
        self.relation = relation
        self.members: tuple[Curve, ...] = self._members()
        self.resolution = max(member.resolution for member in self.members)
        self.guided = any(member.guided for member in self.members)

    def _members(self) -> tuple[Curve, ...]:
        members: list[Curve] = []
        refusals: dict[str, UnsupportedMechanism] = {}
        for notion in NOTION_MODULES:
            try:
                curve = _fold(self.mechanism, notion, self.relation)
            except UnsupportedMechanism as refusal:
                refusals[notion] = refusal
                continue
            members.append(curve)
            if curve.exact and curve.closed_form:  # nothing that follows can be smaller
                break
        if not members:
            reasons = "".join(f"\n  {notion}: {why}" for notion, why in refusals.items())
            raise UnsupportedMechanism(
                f"No notion answers {self.mechanism!r} under {self.relation}.{reasons}"
                f"{_apart(self.mechanism, self.relation)}"
            )
        return tuple(members)

    def _smallest(self, ask: Callable[[Curve], float], nothing: float) -> float:
        """Return the smallest answer, and remember the member that gave it.

        `nothing` is the answer that says nothing; a member that failed to be tight leaves its
        looseness. What follows an exact member is looser, and serves where that one fails.
        """
        found, winner, self.looseness = nothing, self.members[0], 0.0
        for member in self.members:
            answer = ask(member)
            if answer < found:
                found, winner = answer, member
            self.best_order = member.best_order
            self.looseness = max(self.looseness, member.looseness)
            if member.exact and member.looseness < _TIGHT and found < nothing:
                break
        self._winner = winner
        return found

    def follow(self, order: float | None, enough: float) -> None:
        """Pass the hint on."""
        for member in self.members:
            member.follow(order, enough)

    def _log_delta(self, epsilon: float) -> float:
        return self._smallest(lambda member: member._log_delta(epsilon), 0.0)

    def _guide(self, epsilon: float) -> float:
        return self._smallest(lambda member: member._guide(epsilon), 0.0)

    def _least_delta(self) -> float:
        return min(member._least_delta() for member in self.members)

    def _epsilon(self, delta: float) -> float:
        return self._smallest(lambda member: member._epsilon(delta), math.inf)

    def _guarantee(self, epsilon: float, delta: float) -> Guarantee:
        if self._winner is None:
            self._log_delta(epsilon)
        assert self._winner is not None
        return replace(self._winner._guarantee(epsilon, delta), unit=self.unit)

    def _group(self, size: int) -> "Curve":
        return _TightestGroup(self, size)

    def _plus(self, others: Sequence["TightestCurve"]) -> "TightestCurve":
        both = compose(self.mechanism, *(other.mechanism for other in others))
        return TightestCurve(both, self.relation)

    def _times(self, count: int) -> "TightestCurve":
        return TightestCurve(repeat(self.mechanism, count), self.relation)

    def _worst_of(self, other: "TightestCurve") -> "TightestCurve":
        both = parallel(self.mechanism, other.mechanism, cells="by_public_index")
        return TightestCurve(both, self.relation)


class _TightestGroup(GroupCurve):
    """The smallest of the members' group bounds, taken at each query."""

    def __init__(self, one: TightestCurve, size: int) -> None:
        super().__init__(one, size)
        self.members = tuple(member.group(size) for member in one.members)

    def _best(self, answers: list[float]) -> float:
        best = min(range(len(answers)), key=answers.__getitem__)
        self.notion, self.theorem = self.members[best].notion, self.members[best].theorem
        self.looseness = self.members[best].looseness
        return answers[best]

    def _log_delta(self, epsilon: float) -> float:
        return self._best([member._log_delta(epsilon) for member in self.members])

    def _epsilon(self, delta: float) -> float:
        return self._best([member._epsilon(delta) for member in self.members])
