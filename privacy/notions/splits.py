"""Bounds from the curves of groups of parts: basic composition, and the worst of parallel cells.

They serve plans that no single accounting method supports well.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

from privacy.curves import NO_HINT, Answer, Curve, Hint
from privacy.numerics.rounding import U
from privacy.numerics.solve import golden

_LOGITS = (-30.0, -9.0, -4.0, -1.5, 0.0, 1.5, 4.0, 9.0, 30.0)
_LARGE = 1e300  # an epsilon above that of all claims
_ACCURACY = 1e-2  # of the logit of the best share, where the bound is flat


@dataclass(frozen=True, eq=False, repr=False)
class _Combined(Curve):
    """A bound from the answers of other curves, that does not compose."""

    closed_form: ClassVar[bool] = False

    def _plus(self, others: Sequence[Curve]) -> Self:
        raise self._no_cells()

    def _times(self, count: int) -> Self:
        raise self._no_cells()


@dataclass(frozen=True, eq=False, repr=False)
class SplitCurve(_Combined):
    """Basic composition of two groups of parts: epsilons add up, and so do deltas.

    (Dwork and Roth 2014, Theorem 3.16; also if the parts are chosen adaptively.) A search finds
    the groups, and the share of delta, or of epsilon, of each. Every choice is valid.

    Parameters
    ----------
    groups
        The curves of both groups, for each way to split the parts.
    """

    notion: ClassVar[str] = "split"
    theorem: ClassVar[str] = "Dwork and Roth 2014, Theorem 3.16: basic composition"
    resolution: ClassVar[float] = 1e-5
    groups: tuple[tuple[Curve, Curve], ...]

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT, limit: float = math.inf) -> Answer:
        def at(groups: _Groups, share: float) -> Answer:
            first = max(0.0, math.nextafter(epsilon * (1 - share), 0.0))
            found = self._log_deltas(groups, first, epsilon - first)
            flat = groups[0]._at_epsilon(first)
            if flat.notion != "approximate" or not flat.value < 0:
                return found
            # claims may reach the same delta at a smaller epsilon
            reached = groups[0]._at_delta(groups[0]._delta(flat.value)).value
            if reached >= first:
                return found
            return _least([found, self._log_deltas(groups, reached, epsilon - reached)])

        lowest = [self._log_deltas(groups, epsilon, epsilon) for groups in self.groups]
        return self._best(at, lowest, limit)

    def _log_deltas(self, groups: "_Groups", first: float, rest: float) -> Answer:
        """Return the log of the sum of both deltas, at these two epsilons, `rest` rounded down."""
        rest = max(0.0, math.nextafter(rest, 0.0))
        both = groups[0]._at_epsilon(first), groups[1]._at_epsilon(rest)
        small, value = sorted(answer.value for answer in both)
        if value > -math.inf:
            value += math.log1p(math.exp(small - value))
            value = min(0.0, value + 4 * U * (1 + abs(value)))
        return self._of(both, value, f"epsilon = {first:.3g} and {rest:.3g}")

    def _at_delta(self, delta: float, limit: float = math.inf) -> Answer:
        def at(groups: _Groups, share: float) -> Answer:
            rest = share * delta
            first = math.nextafter(delta - rest, 0.0)
            return self._epsilons(groups, first, rest)

        surest = _least(self._surest(groups, delta) for groups in self.groups)
        if delta == 0:
            return surest
        lowest = [self._epsilons(groups, delta, delta) for groups in self.groups]
        return _least([surest, self._best(at, lowest, min(limit, surest.value))])

    def _surest(self, groups: "_Groups", delta: float) -> Answer:
        """Return the answer if the first group gets the smallest delta of its claims."""
        first = 0.0
        if delta and groups[0]._at_delta(delta).notion == "approximate":
            log_mass = groups[0]._at_epsilon(_LARGE).value
            first = groups[0]._delta(log_mass) if log_mass > -math.inf else 0.0
        rest = math.nextafter(delta - first, 0.0) if first else delta
        return self._epsilons(groups, min(first, delta), max(rest, 0.0))

    def _epsilons(self, groups: "_Groups", first: float, rest: float) -> Answer:
        """Return the sum of both epsilons, at these two deltas."""
        both = [groups[0]._at_delta(first)]
        both += [groups[1]._at_delta(rest)] if both[0].value < math.inf else both
        value = sum(answer.value for answer in both)
        if value:
            value = math.nextafter(value, math.inf)
        return self._of(both, value, f"delta = {first:.3g} and {rest:.3g}")

    def _of(self, both: Sequence[Answer], value: float, shares: str) -> Answer:
        methods = " and ".join(answer.notion for answer in both)
        theorem = f"{self.theorem} of the parts by {methods}, at {shares}"
        return self._answer(value, max(answer.error for answer in both))._replace(theorem=theorem)

    def _best(
        self, at: "Callable[[_Groups, float], Answer]", lowest: Sequence[Answer], limit: float
    ) -> Answer:
        """Return the smallest answer over groups and shares, if one is below `limit`.

        `lowest` has a lower bound on the answers of each split.
        """
        found = self._answer(math.inf)
        for bound, groups in sorted(zip(lowest, self.groups, strict=True), key=_value):
            if bound.value < min(limit, found.value):
                found = _least([found, _over_shares(partial(at, groups))])
        return found

    def _least_delta(self) -> float:
        return min(max(a._least_delta(), b._least_delta()) for a, b in self.groups)


_Groups = tuple[Curve, Curve]


def _value(pair: tuple[Answer, _Groups]) -> float:
    return pair[0].value


def _over_shares(at: Callable[[float], Answer]) -> Answer:
    """Return the smallest answer over the shares of the second group, from a grid of logits."""
    answers: dict[float, Answer] = {}

    def value(logit: float) -> float:
        if logit not in answers:
            answers[logit] = at(1 / (1 + math.exp(-logit)))
        return answers[logit].value

    k = min(range(len(_LOGITS)), key=lambda i: value(_LOGITS[i]))
    golden(value, _LOGITS[max(k - 1, 0)], _LOGITS[min(k + 1, len(_LOGITS) - 1)], _ACCURACY)
    return _least(answers.values())


def _least(answers: Iterable[Answer]) -> Answer:
    return min(answers, key=lambda answer: answer.value)


@dataclass(frozen=True, eq=False, repr=False)
class WorstCurve(_Combined):
    """The pointwise maximum of the profiles of parallel cells: each record is in one of them.

    Parameters
    ----------
    cells
        The curve of each cell.
    """

    theorem: ClassVar[str] = "the largest bound of all cells"
    cells: tuple[Curve, ...] = ()

    @classmethod
    def of(cls, cells: Iterable[Curve]) -> "WorstCurve":
        """Return the curve of these cells."""
        first, *rest = cells
        return cls(first.relation, cells=(first, *rest))

    @property
    def notion(self) -> str:  # type: ignore[override]
        """The method of the cells."""
        return self.cells[0].notion

    @property
    def exact(self) -> bool:
        """Whether the curve of every cell is exact."""
        return all(cell.exact for cell in self.cells)

    @property
    def resolution(self) -> float:  # type: ignore[override]
        """The coarsest resolution of the cells."""
        return max(cell.resolution for cell in self.cells)

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        return _worst(cell._at_epsilon(epsilon) for cell in self.cells)

    def _at_delta(self, delta: float) -> Answer:
        return _worst(cell._at_delta(delta) for cell in self.cells)

    def _least_delta(self) -> float:
        return max(cell._least_delta() for cell in self.cells)


def _worst(answers: Iterable[Answer]) -> Answer:
    found = list(answers)
    worst = max(found, key=lambda answer: answer.value)
    return worst._replace(error=max(answer.error for answer in found), hint=None)
