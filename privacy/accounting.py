"""The privacy curve of a mechanism, computed by one fold over its tree.

All composition is in `_fold`. An accounting method turns the loss of ONE application into a curve.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial, reduce
from importlib import import_module
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, get_args

from privacy import checks, mechanisms
from privacy.curves import NO_HINT, Answer, Curve, GroupCurve, Hint
from privacy.guarantees import ONE_RECORD, Guarantee
from privacy.mechanisms import Mechanism, UnsupportedMechanism, brief, compose
from privacy.mechanisms.sampling import mu_squared, unsampled
from privacy.names import suggests_names
from privacy.notions.splits import SplitCurve, WorstCurve
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation
from privacy.risk import GaussianBound

if TYPE_CHECKING:
    from privacy.tradeoffs import Array, LogDeltas

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
_COMPOSING = {"contour", "pld"}  # the methods that compose all losses; they agree
_MOMENTS = ("zcdp", "rdp")
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

    Call ``.epsilon(delta)``, ``.delta(epsilon)`` or ``.guarantee(...)`` of the curve. Raises
    `UnsupportedMechanism` if the method has no proven bound for a part of the mechanism.

    Parameters
    ----------
    mechanism
        What ran, such as ``repeat(PoissonSampled(Gaussian(1.0), ...), 1000)``.
    notion
        The accounting method: ``"gaussian"``, ``"approximate"``, ``"contour"``, ``"pld"`` (or
        ``"prv"``, ``"fft"``), ``"zcdp"``, ``"rdp"``, or ``"tightest"``, the smallest bound of all.
    relation
        The neighboring relation.
    orders
        The only Rényi orders (> 1) for ``notion="rdp"``, such as ``range(2, 65)``; by default all.
    unit
        The unit of privacy, in words: ``"one user"`` if the noise covers all data of one user.

    Examples
    --------
    >>> import privacy as dp
    >>> round(dp.account(dp.Gaussian(2.0)).epsilon(1e-5), 4)
    1.9931
    """
    remedy = "Pass a mechanism, such as Gaussian(1.0)."
    checks.instance("mechanism", mechanism, Mechanism, "a mechanism", remedy)
    notion = check_notion(notion)
    relation = checks.relation(relation)
    unit = checks.unit(unit)
    remedy = 'Pass notion="rdp" to choose orders.'
    checks.refuse_if(orders is not None and notion != "rdp", "orders", orders, "None", remedy)
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
    from privacy.certification import certified

    return certified(guarantee, "epsilon" if move == "epsilon" else "delta")


def check_notion(notion: object) -> Notion:
    """Return an accounting method; for a name from other tools, suggest ours."""
    if notion in ("prv", "fft"):
        return "pld"
    if notion in get_args(Notion):
        return cast(Notion, notion)
    remedy = "Omit it to use the tightest method."
    meant = _OTHER_NAMES.get(notion.lower()) if isinstance(notion, str) else None
    if meant is not None:
        remedy = f"Did you mean {meant!r}?"
    rule = f"one of {', '.join(get_args(Notion))}"
    raise ValueError(checks.expected("notion", notion, rule, remedy))


_OTHER_NAMES = {
    **dict.fromkeys(("rdp", "renyi", "rényi"), "rdp"),
    **dict.fromkeys(("pld", "prv", "fft"), "pld"),
    "exact": "contour",
    **dict.fromkeys(("gdp", "fdp", "gaussian", "analytic"), "gaussian"),
    **dict.fromkeys(("cdp", "zcdp", "rho"), "zcdp"),
    **dict.fromkeys(("pure", "dp", "epsilon_delta", "approximate"), "approximate"),
}


def support_matrix() -> dict[str, tuple[str, ...]]:
    """Return the accounting methods that support the example of each registered mechanism class."""
    return {
        name: tuple(_notions_of(known.example, _relation_of(known.example)))
        for name, known in sorted(mechanisms.REGISTRY.items())
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
    """Return the curve of a plan; a method that supports each part may not support their sum."""
    try:
        curve = _fold(mechanism, notion, relation)
    except UnsupportedMechanism:
        if not isinstance(mechanism, mechanisms.Parallel):
            raise
        cells = _cells(mechanism, relation, lambda part, each: _whole(part, notion, each))
        return WorstCurve(relation, tuple(cells))
    if curve.refusal:
        raise UnsupportedMechanism(curve.refusal, mechanism=mechanism, notion=notion)
    return curve


def _fold(node: Mechanism, notion: str, relation: NeighboringRelation) -> Curve:
    if isinstance(node, mechanisms.Repeated):
        return node.count * _fold(node.mechanism, notion, relation)
    if isinstance(node, mechanisms.Composed):
        first, *rest = [_fold(part, notion, relation) for part in node.parts[:2]]
        if others := node.parts[2:]:
            first.plus(rest)  # may be refused, before many are folded
            rest += [_fold(part, notion, relation) for part in others]
        return first.plus(rest)
    if isinstance(node, mechanisms.BestOf):
        return _whole(node.mechanism, notion, relation).best_of(node)
    if isinstance(node, mechanisms.Parallel):
        cells = _cells(node, relation, lambda part, each: _fold(part, notion, each))
        return reduce(lambda worst, other: worst.worst_of(other), cells)
    expanded = node.expanded(relation)
    if expanded is not node:
        return _fold(expanded, notion, relation)
    curve: Curve | None = _method(notion)(node.loss(relation), relation)
    if curve is None:
        message = f"Accounting method {notion!r} has no bound for {brief(node)}."
        raise UnsupportedMechanism(message, mechanism=node, notion=notion)
    return curve


@cache
def _method(notion: str) -> Any:
    return import_module(NOTION_MODULES[notion]).curve


def _cells(
    node: mechanisms.Parallel,
    relation: NeighboringRelation,
    ask: Callable[[Mechanism, NeighboringRelation], Curve],
) -> list[Curve]:
    """Return curves, the worst of which is the curve of parallel cells."""
    curves, left = node.in_cells(relation, ask)
    if relation is not REPLACE_ONE:
        return [*curves, *(replace(curve, relation=relation) for curve in left.values())]
    # the replaced record may move from cell i to cell j, which changes both
    return curves + [
        left[leaves].moved(left[enters])
        for leaves in left
        for enters in left
        if leaves != enters or node.parts.count(leaves) > 1
    ]


def _tightest(
    mechanism: Mechanism, relation: NeighboringRelation, *, whole: bool = False
) -> "TightestCurve":
    """Return the tightest curve. A `whole` mechanism is not split into groups of parts.

    "contour" and "pld" both compose all losses. Only the faster one is a member: the contour
    integral, except for losses with atoms and nearly no noise. "pld" is asked where the contour
    integral has no useful answer, as for very low noise.
    """
    refusals: list[UnsupportedMechanism] = []
    members: dict[str, Curve] = {}
    late = False
    for curve in _curves(mechanism, relation, refusals):
        members[curve.notion] = curve
        if curve.exact and curve.closed_form:  # no later method can give a smaller bound
            break
        if curve.notion == "pld" or curve.beats_moments:
            break
        if curve.below or not getattr(curve, "kinked", True):
            late = True
            break
    more = late or "pld" in members  # bounds from moments are computed where they may be smaller
    if members.keys() >= _COMPOSING:
        del members["contour" if getattr(members["pld"], "kinked", False) else "pld"]
    more &= not any(curve.beats_moments for curve in members.values())
    asked = tuple(members.values())
    found = TightestCurve(relation, mechanism=mechanism, first=asked, more=more, whole=whole)
    if not members and not found._all:
        raise _unanswered(mechanism, relation, refusals)
    return found


def _splits(
    mechanism: Mechanism, relation: NeighboringRelation, composed: Sequence[str]
) -> Iterator[SplitCurve]:
    """Yield basic composition of two groups of parts, if some are known by moments only.

    The second group has at least these parts. The methods in `composed` support all parts.
    """

    def supports(part: Mechanism, *notions: str) -> bool:
        return any(one in composed or _supports(one, part, relation) for one in notions)

    if not isinstance(mechanism, mechanisms.Composed):
        return
    pairs: list[Mechanism] = []
    moments: list[Mechanism] = []
    for part in mechanism.parts:
        (pairs if supports(part, "contour", "pld", "approximate") else moments).append(part)
    joined: list[Sequence[Mechanism]] = [()]
    if len(pairs) <= _MOST_SPLIT:
        joined = [some for n in range(len(pairs)) for some in combinations(pairs, n)]
    else:
        joined.append([part for part in pairs if mu_squared(part, relation) is not None])
        joined.append([part for part in pairs if supports(part, "rdp")])
    groups = []
    for some in joined:
        chosen = set(some)
        rest = [part for part in pairs if part not in chosen]
        if rest and (moments or some):
            with suppress(UnsupportedMechanism):
                several = (rest, [*moments, *some])
                first, second = (_tightest(compose(*one), relation, whole=True) for one in several)
                groups.append((first, second))
    if groups:
        yield SplitCurve(relation, groups=tuple(groups))


def _supports(notion: str, part: Mechanism, relation: NeighboringRelation) -> bool:
    with suppress(UnsupportedMechanism):
        _fold(part, notion, relation)
        return True
    return False


_MOST_SPLIT = 3  # most parts with dominating pairs for which every grouping is tried


def _curves(
    mechanism: Mechanism,
    relation: NeighboringRelation,
    refusals: list[UnsupportedMechanism],
    notions: Iterable[str] = NOTION_MODULES,
) -> Iterator[Curve]:
    """Yield the curve of every method that supports the mechanism; append other errors."""
    for notion in notions:
        try:
            yield _whole(mechanism, notion, relation)
        except UnsupportedMechanism as refusal:
            refusals.append(refusal)


def _unanswered(
    mechanism: Mechanism, relation: NeighboringRelation, refusals: list[UnsupportedMechanism]
) -> UnsupportedMechanism:
    if isinstance(mechanism, mechanisms.Composed) and all(
        any(_curves(part, relation, [])) for part in mechanism.parts
    ):
        message = (
            f"No accounting method supports all {len(mechanism.parts)} parts together under "
            f"{relation}; each alone is supported.\nAccount separately for the parts "
            "that share a method, then add their epsilons and deltas (basic composition)."
        )
        return UnsupportedMechanism(message, mechanism=mechanism, notion="tightest")
    # an error that several methods share is about the mechanism, not the method
    said, times = Counter(map(str, refusals)).most_common(1)[0]
    reason = next(refusal for refusal in refusals if str(refusal) == said)
    lead = "" if times > 1 else f"No accounting method supports this mechanism under {relation}. "
    refused = reason.mechanism or mechanism
    return UnsupportedMechanism(lead + said, mechanism=refused, notion="tightest")


@dataclass(frozen=True, eq=False, repr=False)
class TightestCurve(Curve):
    """The smallest valid bound over all methods, chosen at each query.

    Composition accounts for the composed mechanism by every method: no minimum is taken before.
    """

    notion: ClassVar[str] = "tightest"
    theorem: ClassVar[str] = "the smallest of several valid bounds is a valid bound"
    first: tuple[Curve, ...] = ()
    more: bool = False
    whole: bool = False

    @cached_property
    def _backup(self) -> tuple[Curve, ...]:
        contour = self.more and any(curve.notion == "contour" for curve in self.first)
        return tuple(_curves(self._known, self.relation, [], ["pld"])) if contour else ()

    @cached_property
    def members(self) -> tuple[Curve, ...]:
        """The curves of all methods."""
        return self.first + self._moments

    @cached_property
    def _moments(self) -> tuple[Curve, ...]:
        return tuple(_curves(self._known, self.relation, [], _MOMENTS)) if self.more else ()

    def _in_turn(self) -> Iterator[Curve]:
        yield from self.first
        yield from self._moments

    @cached_property
    def others(self) -> tuple[Curve, ...]:
        """Bounds from simpler mechanisms, used where no member is exact."""
        if self.whole:
            return ()
        found: list[Curve] = []
        if isinstance(self._known, mechanisms.Parallel):
            with suppress(UnsupportedMechanism):
                cells = _cells(self._known, self.relation, _tightest)
                found.append(WorstCurve(self.relation, tuple(cells)))
        dense = unsampled(self._known) if self.first else self._known
        if dense is not self._known:
            with suppress(UnsupportedMechanism):
                found.append(_tightest(dense, self.relation, whole=True))
        return tuple(found)

    @cached_property
    def splits(self) -> tuple[Curve, ...]:
        """Bounds from groups of parts, used where no method composes all losses."""
        composed = [member.notion for member in self.members]
        return () if self.whole else tuple(_splits(self._known, self.relation, composed))

    @property
    def _known(self) -> Mechanism:
        assert self.mechanism is not None  # `_tightest` sets it, and every operation keeps it
        return self.mechanism

    @cached_property
    def resolution(self) -> float:  # type: ignore[override]
        return max(curve.resolution for curve in (self.first if self.exact else self._all))

    @property
    def _all(self) -> tuple[Curve, ...]:
        return self.members + self.others + self.splits

    def _smallest(self, ask: Callable[[Curve, float], Answer], nothing: float) -> Answer:
        """Return the smallest answer; `nothing` is the trivial bound.

        Members are asked until an exact one has a tight answer; without one, also simpler bounds.
        """
        answers: list[Answer] = []
        error, hint, composed = 0.0, None, False
        for member in self._in_turn():
            answer = ask(member, nothing)
            answers.append(answer)
            hint = answer.hint
            composed |= member.notion in _COMPOSING and answer.error < 1
            if member.exact:
                error = answer.error  # it bounds the error of a smaller answer as well
            tight = member.beats_moments or (member.exact and error < _TIGHT)
            if (tight and answer.value < nothing) or answer.value == -math.inf:
                break
            if composed and member.below and not isinstance(self._known, mechanisms.Parallel):
                least = answer.value + 1e-9 * (1 + abs(answer.value))
                if all(ask(one, nothing).value > least for one in member.below):
                    break
        else:
            # composing all parts is at most basic composition of groups of parts
            for other in self.others if composed else self._backup + self.others + self.splits:
                least = min((answer.value for answer in answers), default=nothing)
                if other not in self._backup:
                    answers.append(ask(other, least))
                elif found := self._much_smaller(partial(ask, other, least), least):
                    answers.append(found)
                    error = min(error, found.error)
        best = min(answers, key=lambda answer: answer.value)
        return best._replace(error=max(error, best.error), hint=hint)

    @staticmethod
    def _much_smaller(ask: Callable[[], Answer], least: float) -> Answer | None:
        """Return a bound from a grid if floats suffice for it and it is 1 % below `least`."""
        import numpy as np

        with suppress(ArithmeticError), np.errstate(over="raise", divide="raise", invalid="raise"):
            found = ask()
            # small differences vary with the grid, and the bound would not be monotone
            gain = least == math.inf or found.value < least - 0.01 * abs(least)
            if gain and found.error < 1:
                return found
        return None

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        def ask(curve: Curve, limit: float) -> Answer:
            if isinstance(curve, SplitCurve):
                return curve._at_epsilon(epsilon, limit=limit)
            return curve._at_epsilon(epsilon, hint)

        return self._smallest(ask, 0.0)

    def _at_delta(self, delta: float) -> Answer:
        def ask(curve: Curve, limit: float) -> Answer:
            if isinstance(curve, SplitCurve):
                return curve._at_delta(delta, limit)
            return curve._at_delta(delta)

        return self._smallest(ask, math.inf)

    @cached_property
    def exact(self) -> bool:
        return any(member.exact for member in self.first)

    def _quick(self) -> Iterator[Curve]:
        """Yield the members in the order for many epsilons: those that share work first."""
        yield from sorted(self.first or self._all, key=lambda one: not one.vectorized)
        yield from self._moments if self.first else ()

    @property
    def vectorized(self) -> bool:  # type: ignore[override]
        return next(self._quick()).vectorized

    def _rate_alone(self, rate: float) -> float | None:
        return self.members[0]._rate_alone(rate) if len(self.members) == 1 else None

    def _true_positive_rates(self, rates: "Array") -> "tuple[Array, Array]":
        if not self.more and len(self.members) == 1:
            return self.members[0]._true_positive_rates(rates)
        return super()._true_positive_rates(rates)

    def gaussian_bound(self, remainder: float = 1e-10) -> GaussianBound:
        if len(self.members) == 1:
            return self.members[0].gaussian_bound(remainder)
        return super().gaussian_bound(remainder)

    def _profile(self) -> "LogDeltas":
        import numpy as np

        # a later method is asked only where no exact one before has a tight bound
        profile = cache(lambda member: member._profile())

        def log_deltas(epsilons: "Array") -> "tuple[Array, Array]":
            best, error = np.zeros_like(epsilons), np.zeros_like(epsilons)
            missing = np.ones_like(epsilons, dtype=bool)
            for member in self._quick():
                value, off = profile(member)(epsilons[missing])
                best[missing] = np.minimum(best[missing], value)
                error[missing] = np.maximum(error[missing], off)
                if member.exact:
                    missing &= error >= _TIGHT
                if not missing.any():
                    break
            return best, error

        return log_deltas

    def _least_delta(self) -> float:
        return min(curve._least_delta() for curve in self.first or self._all)

    def _group(self, size: int) -> Curve:
        groups = [member.group(size) for member in self.members or self._all]
        if not groups[-1].exact:  # a method omitted for one record may be the tightest for a group
            known = {member.notion for member in self.members}
            if known & _COMPOSING:
                known |= _COMPOSING
            others = _curves(self._known, self.relation, [])
            groups += [other.group(size) for other in others if other.notion not in known]
        return _TightestGroup(self.relation, self, size, tuple(groups))

    def _labeled(self, curve: "TightestCurve") -> "TightestCurve":
        return replace(curve, unit=self.unit, prover=self.prover)

    def _plus(self, others: Sequence["TightestCurve"]) -> "TightestCurve":
        return _tightest(compose(self._known, *(other._known for other in others)), self.relation)

    def _times(self, count: int) -> "TightestCurve":
        return _tightest(mechanisms.repeat(self._known, count), self.relation)

    def best_of(self, runs: mechanisms.BestOf) -> "TightestCurve":
        best = replace(runs, mechanism=self._known)
        return _tightest(best, self.relation).labeled(best, self.unit, self.prover)

    def _worst_of(self, other: "TightestCurve") -> "TightestCurve":
        both = mechanisms.parallel(self._known, other._known, cells="by_public_index")
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
