"""Mechanism -> curve: one fold over the tree.

Composition arithmetic lives in `_fold` and nowhere else: an accounting method turns the loss of
ONE application into a curve and never sees a count.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import ClassVar, Literal, get_args

from privacy import checks
from privacy.curves import NO_HINT, Answer, Curve, GroupCurve, Hint
from privacy.guarantees import ONE_RECORD, Guarantee
from privacy.losses.pair import Loss
from privacy.mechanisms import (
    REGISTRY,
    Composed,
    Mechanism,
    Parallel,
    Repeated,
    UnsupportedMechanism,
    compose,
    parallel,
    repeat,
)
from privacy.mechanisms.base import told
from privacy.names import told_by_ours
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

Notion = Literal["tightest", "zcdp", "rdp", "gaussian", "contour", "approximate"]

# In the order in which "tightest" tries them: closed forms first, moment bounds last.
NOTION_MODULES = {
    "gaussian": "privacy.notions.gaussian",
    "approximate": "privacy.notions.approximate",
    "contour": "privacy.notions.contour",
    "zcdp": "privacy.notions.zcdp",
    "rdp": "privacy.notions.renyi",
}
_TIGHT = 1e-4  # relative error bound up to which no other method need be asked


@told_by_ours
def account(
    mechanism: Mechanism,
    *,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
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
        raise TypeError(checks.expected("mechanism", mechanism, "a mechanism", remedy))
    check_notion(notion)
    relation = checks.relation(relation)
    unit = checks.unit(unit)
    if orders is not None and notion != "rdp":
        remedy = 'Orders belong to notion="rdp"; leave them out otherwise.'
        raise ValueError(checks.expected("orders", orders, "None", remedy))
    curve: Curve
    if notion == "tightest":
        curve = _tightest(mechanism, relation)
    else:
        curve = _answered(mechanism, notion, relation)
    if orders is not None:
        from privacy.notions.renyi import with_orders

        curve = with_orders(curve, orders)
    return curve.labelled(mechanism, unit, _prove)


def _prove(guarantee: Guarantee, move: str) -> Guarantee:
    """Prove a guarantee by interval arithmetic, which is loaded by the first proof."""
    from privacy.certification import certified

    return certified(guarantee, "epsilon" if move == "epsilon" else "delta")


def check_notion(notion: object) -> None:
    """Raise unless `notion` is one; names that other tools use are told by ours."""
    names = get_args(Notion)
    if notion in names:
        return
    remedy = "Leave it out for the tightest answer."
    meant = _OTHER_NAMES.get(notion.lower()) if isinstance(notion, str) else None
    if meant is not None:
        remedy = f"Did you mean {meant!r}? {remedy}"
    raise ValueError(checks.expected("notion", notion, f"one of {', '.join(names)}", remedy))


_OTHER_NAMES = {
    **dict.fromkeys(("rdp", "renyi", "rényi"), "rdp"),
    **dict.fromkeys(("pld", "prv", "fft", "exact"), "contour"),
    **dict.fromkeys(("gdp", "fdp", "gaussian", "analytic"), "gaussian"),
    **dict.fromkeys(("cdp", "zcdp", "rho"), "zcdp"),
    **dict.fromkeys(("pure", "dp", "epsilon_delta", "approximate"), "approximate"),
}


def support_matrix() -> dict[str, tuple[str, ...]]:
    """Return, for every kind of mechanism, the accounting methods that answer it.

    Read off the example that each kind was registered with.
    """
    return {
        name: tuple(_notions_of(known.example, _relation_of(known.example)))
        for name, known in sorted(REGISTRY.items())
        if known.example is not None
    }


def _relation_of(mechanism: Mechanism) -> NeighboringRelation:
    """Return the relation that a claim was proven for, else add/remove."""
    found = getattr(mechanism, "relation", ADD_OR_REMOVE_ONE)
    return found if isinstance(found, NeighboringRelation) else ADD_OR_REMOVE_ONE


def _answered(mechanism: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    """Return the curve in one notion; a refusal names those that answer instead."""
    try:
        return _whole(mechanism, notion, relation)
    except UnsupportedMechanism as refusal:
        others = _notions_of(mechanism, relation)
        instead = f"Use notion {' or '.join(map(repr, others))}." if others else _NO_OTHER
        raise UnsupportedMechanism(
            f"{refusal} {instead}",
            mechanism=refusal.mechanism or mechanism,
            notion=notion,
            alternatives=others,
        ) from refusal


_NO_OTHER = "No other notion answers it either."


def _notions_of(mechanism: Mechanism, relation: NeighboringRelation) -> list[str]:
    """Return the accounting methods that answer a mechanism."""
    return [curve.notion for curve in _curves(mechanism, relation, [])]


def _whole(mechanism: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    """Return the curve of a whole plan; a method may add up its parts and still not answer it."""
    curve = _fold(mechanism, notion, relation)
    if curve.refusal:
        raise UnsupportedMechanism(curve.refusal, mechanism=mechanism, notion=notion)
    return curve


def _fold(node: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    if isinstance(node, Repeated):
        return node.count * _fold(node.mechanism, notion, relation)
    if isinstance(node, Composed):
        first, *rest = [_fold(part, notion, relation) for part in node.parts]
        return first.plus(rest)
    if isinstance(node, Parallel):
        return _fold_parallel(node, notion, relation)
    read: Callable[[Loss, NeighboringRelation], Curve | None]
    read = import_module(NOTION_MODULES[notion]).curve
    curve = read(node.loss(relation), relation)
    if curve is None:
        raise UnsupportedMechanism(
            f"Notion {notion!r} has no bound for {told(node)}.", mechanism=node, notion=notion
        )
    return curve


def _fold_parallel(node: Parallel, notion: str, relation: NeighboringRelation) -> Curve:
    curves, left = node.in_cells(relation, lambda part, each: _fold(part, notion, each))
    if relation is REPLACE_ONE:
        # the replaced record may leave cell i and enter cell j: both cells change
        curves += [
            left[leaves].moved(left[enters])
            for leaves in left
            for enters in left
            if leaves != enters or node.parts.count(leaves) > 1
        ]
    else:
        curves += [replace(curve, relation=relation) for curve in left.values()]
    worst, *rest = curves
    for other in rest:
        worst = worst.worst_of(other)
    return worst


def _tightest(mechanism: Mechanism, relation: NeighboringRelation) -> "TightestCurve":
    """Return the tightest curve, with a member for every method that is not surely looser."""
    members: list[Curve] = []
    refusals: list[UnsupportedMechanism] = []
    for curve in _curves(mechanism, relation, refusals):
        members.append(curve)
        if curve.exact and curve.closed_form:  # nothing that follows can be smaller
            break
    if not members:
        raise _unanswered(mechanism, relation, refusals)
    return TightestCurve(relation, mechanism=mechanism, members=tuple(members))


def _curves(
    mechanism: Mechanism, relation: NeighboringRelation, refusals: list[UnsupportedMechanism]
) -> Iterator[Curve]:
    """Yield the curve of every accounting method that has one; note the refusals of the others."""
    for notion in NOTION_MODULES:
        try:
            yield _whole(mechanism, notion, relation)
        except UnsupportedMechanism as refusal:
            refusals.append(refusal)


def _unanswered(
    mechanism: Mechanism, relation: NeighboringRelation, refusals: list[UnsupportedMechanism]
) -> UnsupportedMechanism:
    """Return the refusal of every method in two or three lines."""
    if isinstance(mechanism, Composed) and all(
        any(_curves(part, relation, [])) for part in mechanism.parts
    ):
        message = (
            f"No notion answers all {len(mechanism.parts)} parts together under {relation}; each "
            "alone is answered.\nAccount for parts that share a notion together. Then add up the "
            "epsilons and the deltas (basic composition)."
        )
        return UnsupportedMechanism(message, mechanism=mechanism, notion="tightest")
    # what several methods say is about the mechanism, not about one of them
    said, times = Counter(map(str, refusals)).most_common(1)[0]
    reason = next(refusal for refusal in refusals if str(refusal) == said)
    lead = "" if times > 1 else f"No notion answers this mechanism under {relation}. "
    return UnsupportedMechanism(
        lead + said,
        mechanism=reason.mechanism or mechanism,
        notion="tightest",
    )


@dataclass(frozen=True, eq=False, repr=False)
class TightestCurve(Curve):
    """The smallest valid answer over all methods, taken at each query.

    Holds the mechanism, so that composing two of these accounts the composed
    mechanism in every method afresh and no minimum is taken too early.
    """

    notion: ClassVar[str] = "tightest"
    theorem: ClassVar[str] = "the smallest of several valid bounds is a valid bound"
    members: tuple[Curve, ...] = ()

    @property
    def _known(self) -> Mechanism:
        assert self.mechanism is not None  # `_tightest` sets it, and every operation keeps it
        return self.mechanism

    @cached_property
    def resolution(self) -> float:  # type: ignore[override]
        """The coarsest of the members'."""
        return max(member.resolution for member in self.members)

    def _smallest(self, ask: Callable[[Curve], Answer], nothing: float) -> Answer:
        """Return the smallest answer.

        `nothing` is the value that says nothing. What follows an exact member is looser, and
        serves where that one fails; its error bound stays in the answer.
        """
        best, error = Answer(nothing, notion=self.members[0].notion), 0.0
        for member in self.members:
            answer = ask(member)
            if answer.value < best.value or not best.theorem:
                best = answer
            error = max(error, answer.error)
            best = best._replace(hint=answer.hint)
            if member.exact and answer.error < _TIGHT and best.value < nothing:
                break
        return best._replace(error=error)

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        return self._smallest(lambda member: member._at_epsilon(epsilon, hint), 0.0)

    def _at_delta(self, delta: float) -> Answer:
        return self._smallest(lambda member: member._at_delta(delta), math.inf)

    def _least_delta(self) -> float:
        return min(member._least_delta() for member in self.members)

    def _group(self, size: int) -> Curve:
        groups = [member.group(size) for member in self.members]
        if not groups[-1].exact:  # a method that was left out for one record may answer best here
            known = {member.notion for member in self.members}
            others = _curves(self._known, self.relation, [])
            groups += [other.group(size) for other in others if other.notion not in known]
        return _TightestGroup(self.relation, self, size, tuple(groups))

    def _labelled(self, curve: "TightestCurve") -> "TightestCurve":
        return replace(curve, unit=self.unit, prover=self.prover)

    def _plus(self, others: Sequence["TightestCurve"]) -> "TightestCurve":
        return _tightest(compose(self._known, *(other._known for other in others)), self.relation)

    def _times(self, count: int) -> "TightestCurve":
        return _tightest(repeat(self._known, count), self.relation)

    def _worst_of(self, other: "TightestCurve") -> "TightestCurve":
        both = parallel(self._known, other._known, cells="by_public_index")
        return _tightest(both, self.relation)


@dataclass(frozen=True, eq=False, repr=False)
class _TightestGroup(GroupCurve):
    """The smallest of the members' group bounds, taken at each query."""

    members: tuple[Curve, ...] = ()

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        answers = [member._at_epsilon(epsilon) for member in self.members]
        return min(answers, key=lambda answer: answer.value)

    def _at_delta(self, delta: float) -> Answer:
        answers = [member._at_delta(delta) for member in self.members]
        return min(answers, key=lambda answer: answer.value)
