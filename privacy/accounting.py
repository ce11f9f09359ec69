"""The privacy curve of a mechanism, computed by one fold over its tree.

All composition is in `_fold`. An accounting method only turns the loss of ONE application into a
curve.
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
from privacy.mechanisms.base import brief
from privacy.names import suggests_names
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

Notion = Literal["tightest", "zcdp", "rdp", "gaussian", "contour", "pld", "approximate"]

# In the order in which "tightest" tries them: closed forms first, moment bounds last.
NOTION_MODULES = {
    "gaussian": "privacy.notions.gaussian",
    "approximate": "privacy.notions.approximate",
    "contour": "privacy.notions.contour",
    "pld": "privacy.notions.privacy_loss",
    "zcdp": "privacy.notions.zcdp",
    "rdp": "privacy.notions.renyi",
}
_TIGHT = 1e-4  # relative error bound up to which no other method is evaluated


@suggests_names
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
        The accounting method: ``"gaussian"``, ``"approximate"``, ``"contour"``, ``"pld"``,
        ``"zcdp"``, ``"rdp"``, or ``"tightest"``, the smallest of their bounds.
    relation
        The neighboring relation.
    orders
        The only Rényi orders (> 1) for ``notion="rdp"`` to use, such as ``range(2, 65)``. By
        default all orders are searched.
    unit
        The unit of privacy, in words, for the guarantee. Pass ``"one user"`` if the noise is
        scaled to the sensitivity to all data of one user.

    Returns
    -------
    Curve
        Call ``.epsilon(delta)``, ``.delta(epsilon)`` or ``.guarantee(...)``.

    Raises
    ------
    UnsupportedMechanism
        The accounting method has no proven bound for a part of the mechanism.

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
        remedy = 'Pass notion="rdp" to choose orders.'
        raise ValueError(checks.expected("orders", orders, "None", remedy))
    curve: Curve
    if notion == "tightest":
        curve = _tightest(mechanism, relation)
    else:
        curve = _answered(mechanism, notion, relation)
    if orders is not None:
        from privacy.notions.renyi import with_orders

        curve = with_orders(curve, orders)
    return curve.labeled(mechanism, unit, _prove)


def _prove(guarantee: Guarantee, move: str) -> Guarantee:
    """Verify a guarantee by interval arithmetic, imported on first use."""
    from privacy.certification import certified

    return certified(guarantee, "epsilon" if move == "epsilon" else "delta")


def check_notion(notion: object) -> None:
    """Raise unless `notion` is an accounting method; suggest ours for a name from other tools."""
    names = get_args(Notion)
    if notion in names:
        return
    remedy = "Omit it to use the tightest method."
    meant = _OTHER_NAMES.get(notion.lower()) if isinstance(notion, str) else None
    if meant is not None:
        remedy = f"Did you mean {meant!r}? {remedy}"
    raise ValueError(checks.expected("notion", notion, f"one of {', '.join(names)}", remedy))


_OTHER_NAMES = {
    **dict.fromkeys(("rdp", "renyi", "rényi"), "rdp"),
    **dict.fromkeys(("prv", "fft"), "pld"),
    "exact": "contour",
    **dict.fromkeys(("gdp", "fdp", "gaussian", "analytic"), "gaussian"),
    **dict.fromkeys(("cdp", "zcdp", "rho"), "zcdp"),
    **dict.fromkeys(("pure", "dp", "epsilon_delta", "approximate"), "approximate"),
}


def support_matrix() -> dict[str, tuple[str, ...]]:
    """Return the accounting methods that support each registered mechanism class.

    They are determined for the example that the class was registered with.
    """
    return {
        name: tuple(_notions_of(known.example, _relation_of(known.example)))
        for name, known in sorted(REGISTRY.items())
        if known.example is not None
    }


def _relation_of(mechanism: Mechanism) -> NeighboringRelation:
    """Return the relation that a claim was proven for, else ADD_OR_REMOVE_ONE."""
    found = getattr(mechanism, "relation", ADD_OR_REMOVE_ONE)
    return found if isinstance(found, NeighboringRelation) else ADD_OR_REMOVE_ONE


def _answered(mechanism: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    """Return the curve by one method; if it has none, raise and name the methods that do."""
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


_NO_OTHER = "No other accounting method supports it."


def _notions_of(mechanism: Mechanism, relation: NeighboringRelation) -> list[str]:
    return [curve.notion for curve in _curves(mechanism, relation, [])]


def _whole(mechanism: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    """Return the curve of a whole plan; a method may compose its parts yet not support the sum."""
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
            f"Accounting method {notion!r} has no bound for {brief(node)}.",
            mechanism=node,
            notion=notion,
        )
    return curve


def _fold_parallel(node: Parallel, notion: str, relation: NeighboringRelation) -> Curve:
    curves, left = node.in_cells(relation, lambda part, each: _fold(part, notion, each))
    if relation is REPLACE_ONE:
        # the replaced record may move from cell i to cell j, which changes both
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
    """Return the tightest curve; its members are the methods that may give the smallest bound."""
    members: list[Curve] = []
    refusals: list[UnsupportedMechanism] = []
    for curve in _curves(mechanism, relation, refusals):
        if curve.notion == "pld" and members and members[-1].notion == "contour":
            # the same profile: by the integral, or on a grid if the losses have atoms
            if not getattr(curve, "kinked", False):
                continue
            members.pop()
        members.append(curve)
        if curve.exact and curve.closed_form:  # no later method can give a smaller bound
            break
    if not members:
        raise _unanswered(mechanism, relation, refusals)
    return TightestCurve(relation, mechanism=mechanism, members=tuple(members))


def _curves(
    mechanism: Mechanism, relation: NeighboringRelation, refusals: list[UnsupportedMechanism]
) -> Iterator[Curve]:
    """Yield the curve of every method that supports the mechanism; append other errors."""
    for notion in NOTION_MODULES:
        try:
            yield _whole(mechanism, notion, relation)
        except UnsupportedMechanism as refusal:
            refusals.append(refusal)


def _unanswered(
    mechanism: Mechanism, relation: NeighboringRelation, refusals: list[UnsupportedMechanism]
) -> UnsupportedMechanism:
    """Return the error if no method supports the mechanism, in two or three lines."""
    if isinstance(mechanism, Composed) and all(
        any(_curves(part, relation, [])) for part in mechanism.parts
    ):
        message = (
            f"No accounting method supports all {len(mechanism.parts)} parts together under "
            f"{relation}; each alone is supported.\nAccount for the parts that share a method "
            "together. Then add up the epsilons and the deltas (basic composition)."
        )
        return UnsupportedMechanism(message, mechanism=mechanism, notion="tightest")
    # an error that several methods share is about the mechanism, not the method
    said, times = Counter(map(str, refusals)).most_common(1)[0]
    reason = next(refusal for refusal in refusals if str(refusal) == said)
    lead = "" if times > 1 else f"No accounting method supports this mechanism under {relation}. "
    return UnsupportedMechanism(
        lead + said,
        mechanism=reason.mechanism or mechanism,
        notion="tightest",
    )


@dataclass(frozen=True, eq=False, repr=False)
class TightestCurve(Curve):
    """The smallest valid bound over all methods, chosen at each query.

    Composing two such curves accounts for the composed mechanism again by every method, so that
    no minimum is taken before composition.
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
        """The coarsest resolution of the members."""
        return max(member.resolution for member in self.members)

    def _smallest(self, ask: Callable[[Curve], Answer], nothing: float) -> Answer:
        """Return the smallest answer, `nothing` being the trivial bound.

        Members after an exact one are looser and are used only where that one fails; its error
        bound stays in the answer.
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
        if not groups[-1].exact:  # a method omitted for one record may be the tightest for a group
            known = {member.notion for member in self.members}
            others = _curves(self._known, self.relation, [])
            groups += [other.group(size) for other in others if other.notion not in known]
        return _TightestGroup(self.relation, self, size, tuple(groups))

    def _labeled(self, curve: "TightestCurve") -> "TightestCurve":
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
    """The smallest of the members' group bounds, chosen at each query."""

    members: tuple[Curve, ...] = ()

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        answers = [member._at_epsilon(epsilon) for member in self.members]
        return min(answers, key=lambda answer: answer.value)

    def _at_delta(self, delta: float) -> Answer:
        answers = [member._at_delta(delta) for member in self.members]
        return min(answers, key=lambda answer: answer.value)
