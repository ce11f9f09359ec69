"""Bounds from curves of groups of parts: basic composition, and the worst of parallel cells."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from privacy.curves import NO_HINT, Answer, Curve, Hint, LastCurve
from privacy.mechanisms.base import UnsupportedMechanism
from privacy.numerics.rounding import U
from privacy.numerics.solve import golden, safe_root

_INTERVALS = 8  # intervals of the grid of a search
_STEPS = 10  # steps of the search near the best point; the bound is flat there
_ROUGH = 1e-3  # relative accuracy of the epsilon at which two deltas are equal
_TYPICAL = -12.0  # log delta at which groups are compared
_FAR = 30.0  # logit of the largest share

_Groups = tuple[Curve, Curve]


class _Combined(LastCurve):
    """A bound from the answers of other curves."""

    closed_form: ClassVar[bool] = False

    def last(self) -> UnsupportedMechanism:
        return self._no_cells()


@dataclass(frozen=True, eq=False, repr=False)
class SplitCurve(_Combined):
    """Basic composition of two groups of parts: epsilons add up, and so do deltas.

    (Dwork and Roth 2014, Theorem 3.16; also if the parts are chosen adaptively.) A search finds
    the groups, and the share of delta, or of epsilon, of each. Every choice is valid. `groups` has
    the curves of both groups, for each way to split the parts.
    """

    notion: ClassVar[str] = "split"
    theorem: ClassVar[str] = "Dwork and Roth 2014, Theorem 3.16: basic composition"
    resolution: ClassVar[float] = 1e-5
    groups: tuple[_Groups, ...]

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT, limit: float = 0.0) -> Answer:
        best = self._answer(0.0)
        delta = math.exp(min(limit, _TYPICAL))
        for _, groups in self._ordered(delta):
            found = self._shared_epsilon(groups, epsilon, min(limit, best.value))
            best = _least([best, *found])
        return best

    def _ordered(self, delta: float) -> list[tuple[list[float], _Groups]]:
        """Return both epsilons if each group had all of `delta`, and the groups, best first."""
        each = [([one._at_delta(delta).value for one in groups], groups) for groups in self.groups]
        return sorted(each, key=lambda pair: sum(pair[0]))

    def _shared_epsilon(self, groups: _Groups, epsilon: float, limit: float) -> list[Answer]:
        """Return bounds on log delta for shares of epsilon, none if all are above `limit`."""
        one, other = groups

        def split(first: float) -> Answer:
            rest = max(0.0, math.nextafter(epsilon - first, 0.0))
            both = one._at_epsilon(first), other._at_epsilon(rest)
            small, value = sorted(answer.value for answer in both)
            if value > -math.inf:
                value += math.log1p(math.exp(small - value))
                value = min(0.0, value + 4 * U * (1 + abs(value)))
            return self._of(both, value, f"epsilon = {first:.3g} and {rest:.3g}")

        def excess(first: float) -> float:
            """Return by how much the log delta of the first group is above that of the second."""
            value = one._at_epsilon(first).value
            return value if value == -math.inf else value - other._at_epsilon(epsilon - first).value

        def ends(limit: float) -> tuple[float, float]:
            """Return the least and largest epsilon of the first group with deltas below a limit."""
            if limit >= 0:
                return 0.0, epsilon
            delta = one._delta(limit)
            return one._at_delta(delta).value, epsilon - other._at_delta(delta).value

        low, high = ends(limit)
        if not low <= high:
            return []
        # the best choice is at most twice as good as that of equal deltas
        at_low, at_high = excess(low), excess(high)
        equal = low if at_low <= 0 else high
        if at_low > 0 >= at_high:
            equal = safe_root(excess, high, low, at_safe=at_high, at_unsafe=at_low, rtol=_ROUGH)
        found = split(equal)
        low, high = ends(min(limit, found.value))
        if not low <= high:
            return [found]
        # delta is constant beyond the largest loss: start from the smallest epsilon with it
        high = min(high, one._at_delta(one._delta(one._at_epsilon(high).value)).value)
        return [found, *_searched(split, low, high)]

    def _at_delta(self, delta: float, limit: float = math.inf) -> Answer:
        best = self._answer(math.inf)
        for epsilons, groups in self._ordered(delta):
            if sum(epsilons) < min(limit, best.value):
                found = self._shared_delta(groups, delta, min(limit, best.value), *epsilons)
                best = _least([best, *found])
        return best

    def _shared_delta(
        self, groups: _Groups, delta: float, limit: float, first_least: float, rest_least: float
    ) -> list[Answer]:
        """Return bounds on epsilon for shares of delta.

        `first_least` and `rest_least` are the epsilons of both groups if each had all of delta.
        """
        one, other = groups

        def split(first: float) -> Answer:
            rest = max(0.0, math.nextafter(delta - first, 0.0))
            both = one._at_delta(first), other._at_delta(rest)
            value = sum(answer.value for answer in both)
            if value:
                value = math.nextafter(value, math.inf)
            return self._of(both, value, f"delta = {first:.3g} and {rest:.3g}")

        def delta_of(curve: Curve, epsilon: float) -> float:
            return curve._delta(curve._at_epsilon(epsilon).value)

        if delta == 0:
            return [split(0.0)]
        # try half of delta, and hardly more than the first group's mass at infinity
        found = _least(
            split(min(first, delta)) for first in (delta / 2, delta_of(one, 2 * first_least + 1))
        )
        limit = min(limit, found.value)
        if limit == math.inf:
            return [found]
        low = delta_of(one, limit - rest_least)
        high = delta - delta_of(other, limit - first_least)
        if not low <= high:
            return [found]
        ends = _logit(low / delta), _logit(high / delta)
        searched = _searched(lambda logit: split(delta / (1 + math.exp(-logit))), *ends)
        return [found, split(low), *searched]

    def _of(self, both: Sequence[Answer], value: float, shares: str) -> Answer:
        methods = " and ".join(answer.notion for answer in both)
        theorem = f"{self.theorem} of the parts by {methods}, at {shares}"
        return self._answer(value, max(answer.error for answer in both))._replace(theorem=theorem)

    def _least_delta(self) -> float:
        return min(max(a._least_delta(), b._least_delta()) for a, b in self.groups)


def _logit(share: float) -> float:
    if not 0 < share < 1:
        return math.copysign(_FAR, share - 0.5)
    return min(max(math.log(share / (1 - share)), -_FAR), _FAR)


def _searched(at: Callable[[float], Answer], low: float, high: float) -> Iterable[Answer]:
    """Return the answers on a grid from `low` to `high`, and near the smallest one of them."""
    answers: dict[float, Answer] = {}

    def value(point: float) -> float:
        if point not in answers:
            answers[point] = at(point)
        return answers[point].value

    points = [low + (high - low) * k / _INTERVALS for k in range(_INTERVALS)] + [high]
    k = min(range(len(points)), key=lambda i: value(points[i]))
    near = points[max(k - 1, 0)], points[min(k + 1, _INTERVALS)]
    golden(value, *near, _STEPS)
    return answers.values()


def _least(answers: Iterable[Answer]) -> Answer:
    return min(answers, key=lambda answer: answer.value)


@dataclass(frozen=True, eq=False, repr=False)
class WorstCurve(_Combined):
    """The pointwise maximum of the profiles of parallel cells: each record is in one of them."""

    theorem: ClassVar[str] = "the largest bound of all cells"
    cells: tuple[Curve, ...]

    @property
    def notion(self) -> str:  # type: ignore[override]
        return self.cells[0].notion

    @property
    def exact(self) -> bool:
        return all(cell.exact for cell in self.cells)

    @property
    def resolution(self) -> float:  # type: ignore[override]
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
