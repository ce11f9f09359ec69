"""The privacy profile of composed releases, by the distribution of their privacy loss."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from privacy.curves import NO_HINT, Answer, Hint, merged
from privacy.losses import lattice
from privacy.losses.claims import ClaimPair
from privacy.losses.discrete import DiscretePair
from privacy.losses.gaussian import GaussianPair
from privacy.losses.grids import on_grid, own_lattice, spacing, supports
from privacy.losses.lattice import GridLoss, GridSum
from privacy.losses.pair import Loss, LossPair
from privacy.losses.quadrature import Array, Direction
from privacy.losses.similar import Blend, Parts, blended, fewer_parts
from privacy.notions.loss_sums import NOTHING
from privacy.notions.pairs import PairCurve
from privacy.numerics.rounding import U, sum_up
from privacy.numerics.solve import invert
from privacy.relations import NeighboringRelation

if TYPE_CHECKING:
    from privacy.tradeoffs import LogDeltas

_ACCURACY = 1e-5  # intended relative error of delta due to the grid
_WINDOW = 2**17  # most cells of a window
_ROUGH_WINDOW = 2**16  # most cells of the window of a sum whose parts were merged
_OWN = 2**18  # most cells of the sum of equal discrete pairs
_CUT = 30.0  # log(delta / mass that is moved to infinity)
_COARSE = 30.0  # step of the first grids, which only find the tilt, relative to the last one
_SHARED, _KEPT = 3e-5, 15  # largest relative error of sums used for other epsilons; most of them
_LOOSE = 1e-3  # relative error above which another tilt is tried
_WIDEST = 100.0  # largest step of a grid
_FAR = 3.0  # distance from the epsilon of the tilt, in 1 / tilt, above which another is tried
_MANY, _BLOCKS = 200, 64  # most different parts of a sum; parts after similar ones are merged
_NARROW = 0.01  # relative change of a parameter below which no moment bound is smaller
_ROUNDS = 12
_FIRST = 0.05  # first step that is tried


class Bracket(NamedTuple):
    """Bounds on log delta in one direction."""

    lower: float
    upper: float


class LossDistribution(NamedTuple):
    """The distribution of a privacy loss on a grid, an upper bound of the exact one."""

    loss: Array  # increasing
    mass: Array  # the probability of each under P
    infinite: float  # the probability of an infinite loss


class Sums(NamedTuple):
    """Upper and lower bounds of a sum of losses, tight near one epsilon; the terms of `upper`."""

    upper: GridSum
    lower: GridSum
    epsilon: float
    parts: list[tuple[GridLoss, int]]

    def bracket(self, epsilon: float) -> Bracket:
        """Return bounds on log delta(epsilon)."""
        return Bracket(self.lower.log_delta(epsilon), self.upper.log_delta(epsilon))


_Grids = list[tuple[GridLoss, int]]
_Known = dict[LossPair, Callable[..., GridLoss]]


@dataclass(frozen=True)
class LossesOnGrid:
    """Pairs in one direction, on a grid that is chosen for each query."""

    parts: Parts
    direction: Direction

    @cached_property
    def _merged(self) -> bool:
        """Whether similar parts are merged, as there are very many."""
        return len(self.parts) > _MANY

    @cached_property
    def _infinite(self) -> float:
        """The probability of an infinite loss of merged claims."""
        claims = ((pair.mass, n) for pair, n in self.parts if isinstance(pair, ClaimPair))
        return -math.expm1(math.fsum(n * math.log1p(-mass) for mass, n in claims))

    @cached_property
    def _finite(self) -> Parts:
        """The parts, with claims without a mass at infinity."""
        pairs = (replace(p, mass=0.0) if isinstance(p, ClaimPair) else p for p, _ in self.parts)
        return tuple(merged(zip(pairs, (n for _, n in self.parts), strict=True)).items())

    @cached_property
    def _blended(self) -> tuple[Parts, tuple[Blend, ...]]:
        return blended(self._finite, _MANY) if self._merged else (self.parts, ())

    @cached_property
    def _above(self) -> tuple[Parts, float]:
        """The parts for an upper bound, in addition to mixtures; their largest relative change."""
        left, _ = self._blended
        return fewer_parts(left, _BLOCKS) if self._merged else (left, 0.0)

    @property
    def beats_moments(self) -> bool:
        """Whether parts were merged with pairs so near that no bound from moments is smaller."""
        near = all(one.ratio <= 1.1 for one in self._blended[1])
        return self._merged and near and self._above[1] <= _NARROW

    @cached_property
    def _below(self) -> Parts:
        return fewer_parts(self._finite, _BLOCKS, upper=False)[0] if self._merged else self.parts

    def near(self, epsilon: float, enough: float = -math.inf) -> Sums | None:
        """Return sums that are tight near `epsilon`, None if log delta is below `enough`."""
        return self._sums(lambda _: epsilon, epsilon, enough)

    def reaching(self, log_delta: float, least: float = 0.0) -> Sums | None:
        """Return sums that are tight near the epsilon of `log_delta`, None if below `least`."""

        def place(grids: _Grids) -> float:
            return max(_rough_epsilon(grids, log_delta), least)

        return self._sums(place, least, log_delta if least else -math.inf)

    def _sums(self, place: Callable[[_Grids], float], least: float, enough: float) -> Sums | None:
        """Return sums tight near `place(grids)`, None if log delta(least) is at most `enough`."""
        count = sum(n for _, n in self.parts)
        # the number of losses that are put on the grid before they are summed
        spread = sum(1 if pair in self._own else n for pair, n in self.parts)
        step, log_tail, at, coarsest, beyond = _FIRST, -40.0, 1.0, 0.0, 0
        floors: list[float] = []
        for _ in range(_ROUNDS):
            try:
                grids = self._grids(step, log_tail, at, floors, upper=True)
                start = math.fsum(n * grid.start for grid, n in grids)
                end = start + math.fsum(n * (grid.mass.size - 1) for grid, n in grids) * step
                off = math.fsum(n * grid.absolute for grid, n in grids) + 8 * U * (abs(end) + 1)
                infinite = math.fsum(n * grid.infinite * (1 + grid.relative) for grid, n in grids)
                infinite *= 1 + 8 * U * (1 + abs(enough))
                if least >= end + off and enough > -math.inf and infinite <= math.exp(enough):
                    return None  # all finite losses are smaller
                wished = place(grids)
                epsilon = min(wished, end - 2 * step)
                tilt = lattice.choose_tilt(grids, epsilon, at)
            except OverflowError:
                step *= 8
                coarsest = step
                if step > _WIDEST:
                    raise
                continue
            at = tilt.tilt
            floors = _floors(grids, at / 4, count)  # for a smaller tilt of the next grids
            if tilt.bound <= enough and epsilon <= least:
                return None
            if wished > epsilon:  # above the largest finite loss
                if (beyond := beyond + 1) > 3:
                    wanted = step
                    break
                step /= _COARSE
                continue
            width = min(tilt.high, end) - max(tilt.low, start)
            wanted = math.sqrt(12 * _ACCURACY / (spread * at * (1 + at)))
            cells = _ROUGH_WINDOW if self._merged else _WINDOW
            wanted = max(wanted, width / cells, coarsest, self._lattice)
            tail = tilt.log_delta - math.log(count) - _CUT
            if step <= 1.5 * _COARSE * wanted and log_tail <= tail + 5:
                break
            step, log_tail = min(step, _COARSE * wanted), min(log_tail, tail)
        else:
            raise OverflowError("no grid was found")
        floors = _floors(grids, at, count)
        return self._fine(min(step, wanted), log_tail, floors, tilt, epsilon)

    def _fine(
        self,
        step: float,
        log_tail: float,
        floors: Sequence[float],
        tilt: lattice.Tilt,
        epsilon: float,
    ) -> Sums:
        """Return sums on a grid of at most `step`, or the finest possible one above it."""
        at, step = tilt.tilt, self._aligned(step)
        while step < _WIDEST:
            try:
                known: _Known = {}
                above = self._grids(step, log_tail, at, floors, known, upper=True)
                below = self._grids(step, log_tail, at, floors, known, upper=False)
                return Sums(GridSum(above, tilt), GridSum(below, tilt), epsilon, above)
            except OverflowError:
                step *= 4
        raise OverflowError("no grid was found")

    def _aligned(self, step: float) -> float:
        """Return a smaller step that puts the atoms of a pair on the grid, if there is one."""
        least = min((space for space in self._spaces if space >= step), default=step)
        return least / math.ceil(least / step * (1 - 1e-9))

    @cached_property
    def _spaces(self) -> set[float]:
        """The distances whose divisors put the atoms of a pair on the grid."""
        pairs = () if self._merged else (pair for pair, _ in self.parts)
        return {spacing(pair, self.direction) for pair in pairs}

    @property
    def _lattice(self) -> float:
        """The step of a lattice with all losses of the parts, which needs no finer one; or 0."""
        discrete = all(isinstance(pair, DiscretePair) for pair, _ in self.parts)
        return max(self._spaces) if discrete and len(self._spaces) == 1 else 0.0

    @cached_property
    def _own(self) -> dict[LossPair, tuple[GridLoss, GridLoss]]:
        """The discrete pairs whose sums are computed on their own lattice."""
        own: dict[LossPair, tuple[GridLoss, GridLoss]] = {}
        if len(self.parts) > _BLOCKS:
            return own
        for pair, count in self.parts:
            bounds = own_lattice(pair, self.direction) if count > 1 else None
            if bounds is not None and count * bounds[0].mass.size <= _OWN:
                own[pair] = bounds
        return own

    def _grids(
        self,
        step: float,
        log_tail: float,
        tilt: float,
        floors: Sequence[float] = (),
        known: _Known | None = None,
        *,
        upper: bool,
    ) -> _Grids:
        grids: _Grids = []
        parts, blends = (self._above[0], self._blended[1]) if upper else (self._below, ())
        lowest = min(floors, default=-math.inf)
        if self._merged or not floors:
            floors = [lowest] * len(parts)
        for (pair, count), floor in zip(parts, floors, strict=True):
            if pair not in self._own:
                one = on_grid(pair, self.direction, step, log_tail, floor, upper=upper, known=known)
                grids.append((one, count))
                continue
            everywhere = lattice.Tilt(tilt, 0.0, 0.0, -math.inf, math.inf, 0.0, 0.0)
            law = GridSum([(self._own[pair][0 if upper else 1], count)], everywhere).law()
            kept = law.mass > 0
            if not kept.any():
                raise OverflowError("the masses of repeated discrete losses underflow")
            mass, loss, start = law.mass[kept], law.loss[kept], float(law.loss[-1])
            grid = lattice.from_atoms(mass, loss, step, start, upper=upper, infinite=law.infinite)
            relative, absolute = grid.relative + law.relative, grid.absolute + law.absolute
            grids.append((replace(grid, relative=relative, absolute=absolute), 1))
        for blend in blends:
            nodes = [
                on_grid(pair, self.direction, step, log_tail, lowest, upper=True, origin=0.0)
                for pair in blend.nodes
            ]
            mixed = lattice.MixedGrid.of(nodes, blend.cell, blend.share, blend.times)
            grids.append((mixed, int(blend.times.sum())))
        if self._merged and self._infinite:
            infinite = self._infinite * (1 + (16 if upper else -16) * U)
            grids.append((GridLoss(step, 0.0, np.array([1 - infinite]), infinite, upper), 1))
        return grids


def _floors(grids: _Grids, tilt: float, count: int) -> list[float]:
    """Return a loss of each grid below which tilted masses are negligible."""
    return [(grid.log_moment(tilt) - _CUT - math.log(count)) / tilt for grid, _ in grids]


def _rough_epsilon(grids: _Grids, log_delta: float) -> float:
    """Return an epsilon near that of `log_delta`, from log moments (see `ContourCurve`)."""
    t = np.geomspace(1e-4, 1e4, 33)
    for _ in range(2):
        growth = sum((n * grid.log_moments(t) for grid, n in grids), start=np.zeros(t.size))
        peak = t * np.log(t) - (1 + t) * np.log1p(t)
        bound = np.maximum((growth + peak - log_delta) / t, -1.0)
        k = int(bound.argmin())
        t = np.geomspace(t[max(k - 1, 0)], t[min(k + 1, t.size - 1)], 9)
    return max(float(bound.min()), 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class LossCurve(PairCurve):
    """The profile of composed dominating pairs by their privacy loss distributions."""

    notion: ClassVar[str] = "pld"
    theorem: ClassVar[str] = (
        "Zhu, Dong and Wang 2022, Theorem 11; connect-the-dots discretization "
        "(Doroshenko et al. 2022, arXiv 2207.04380)"
    )
    resolution: ClassVar[float] = 1e-6

    @property
    def exact(self) -> bool:
        """Whether the grids are those of each pair, up to the stated error, not of a worse one."""
        return all(pair.exact_model for pair in self.parts)

    @property
    def beats_moments(self) -> bool:
        """Whether no bound from moments is smaller, although parts were merged."""
        return all(sums.beats_moments for sums in self._sums)

    @cached_property
    def _sums(self) -> tuple[LossesOnGrid, ...]:
        parts = tuple(self.parts.items())
        if self.mu_squared:
            parts += ((GaussianPair(self.mu_squared), 1),)
        return tuple(LossesOnGrid(parts, way) for way in self._directions)

    def bracket(self, epsilon: float) -> Bracket:
        """Return a lower and an upper bound on log delta(epsilon).

        The lower one is -inf if a pair was replaced by a worse one, as for batches with Laplace
        noise.
        """
        found = self._bracket(epsilon)
        return found if self.exact else found._replace(lower=-math.inf)

    def _bracket(self, epsilon: float) -> Bracket:
        """Return bounds for the pairs on the grids."""
        if epsilon >= self._supremum:
            return Bracket(-math.inf, -math.inf)
        lower = upper = -math.inf
        for sums in self._sums:
            enough = max(lower, NOTHING)
            if (found := sums.near(epsilon, enough)) is None:
                upper = max(upper, enough)
            else:
                one = found.bracket(epsilon)
                lower, upper = max(lower, one.lower), max(upper, one.upper)
        return Bracket(lower, upper)

    def distribution(self) -> dict[str, LossDistribution]:
        """Return the distribution of the privacy loss by direction, "remove" and "add".

        For inspection: probabilities have an absolute error of about 1e-15.
        """
        found: dict[str, LossDistribution] = {}
        for sums in self._sums:
            near = sums.near(0.0)
            assert near is not None  # only a given `enough` or `least` gives None
            whole = GridSum(near.parts, lattice.no_tilt(near.parts))
            found[sums.direction] = LossDistribution(*whole.losses, whole.infinite)
        return {"add": found["remove"], **found}

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        if self._closed_form is not None:
            return self._answer(self._closed_form.log_delta(epsilon))
        try:
            found = self._bracket(epsilon)
        except OverflowError:
            return self._answer(0.0, math.inf)
        return self._answer(found.upper, _excess(found))

    def _at_delta(self, delta: float) -> Answer:
        if delta == 0:
            return self._answer(self._supremum)
        if self._closed_form is not None:
            return super()._at_delta(delta)
        log_delta, largest, error = math.log(delta), 0.0, 0.0
        try:
            for sums in self._sums:
                near = sums.reaching(log_delta, largest)
                if near is None:
                    continue
                if near.upper.infinite > delta:
                    return self._answer(math.inf, math.inf)
                found, off = _inverted(near, log_delta)
                far = abs(found - near.epsilon) * near.upper.tilt > _FAR
                if off > _LOOSE and far and (again := sums.near(found)) is not None:
                    found, off = min((found, off), _inverted(again, log_delta))
                if found > largest:
                    largest, error = found, off
        except OverflowError:
            return self._answer(math.inf, math.inf)
        return self._answer(largest, error)

    def _profile(self) -> "LogDeltas":
        if self._closed_form is not None:
            return super()._profile()
        kept: dict[Direction, list[Sums]] = {losses.direction: [] for losses in self._sums}

        def at(epsilon: float) -> tuple[float, float]:
            try:
                brackets = [_shared(one, kept[one.direction], epsilon) for one in self._sums]
            except OverflowError:
                return 0.0, math.inf
            lower, upper = (max(ends) for ends in zip(*brackets, strict=True))
            return upper, _excess(Bracket(lower, upper))

        def log_deltas(epsilons: Array) -> tuple[Array, Array]:
            found = np.array([at(epsilon) for epsilon in epsilons.tolist()], dtype=float)
            return found[:, 0], found[:, 1]

        return log_deltas

    @property
    def _supremum(self) -> float:
        if self.mu_squared:
            return math.inf
        return sum_up(n * pair.profile.supremum for pair, n in self.parts.items())

    def _least_delta(self) -> float:
        return 0.0 if self._supremum < math.inf else math.ulp(0.0)


def _shared(losses: LossesOnGrid, kept: list[Sums], epsilon: float) -> Bracket:
    """Return bounds by the sums of a nearby epsilon, or by new ones, which are kept."""
    if kept:
        found = min(kept, key=lambda sums: abs(sums.epsilon - epsilon)).bracket(epsilon)
        if _excess(found) <= _SHARED:
            return found
    new = losses.near(epsilon)
    assert new is not None  # only a given `enough` gives None
    kept[:] = [*kept[-_KEPT:], new]
    return new.bracket(epsilon)


def _inverted(sums: Sums, log_delta: float) -> tuple[float, float]:
    """Return the epsilon of `log_delta`, and the relative error bound of delta there."""
    found = invert(sums.upper.log_delta, log_delta, rtol=1e-10)
    return found, _excess(sums.bracket(found)) if found < math.inf else math.inf


def _excess(found: Bracket) -> float:
    """Return by which fraction the upper bound may exceed the exact delta."""
    if found.upper == -math.inf:
        return 0.0
    apart = found.upper - found.lower
    return math.expm1(min(apart, 700.0)) if found.lower > -math.inf else math.inf


def curve(loss: Loss, relation: NeighboringRelation) -> LossCurve | None:
    """Return the curve of one release of a pair, None for moment bounds."""
    return LossCurve.of(loss, relation, supports)
