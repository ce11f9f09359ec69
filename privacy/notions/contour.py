"""The privacy profile of composed releases, by contour integration."""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from privacy.curves import NO_HINT, Answer, Curve, Hint, merged
from privacy.losses.batches import ReplacedPair
from privacy.losses.claims import ClaimPair
from privacy.losses.discrete import DiscretePair
from privacy.losses.gaussian import (
    AntipodalPair,
    GaussianPair,
    GroupSampledPair,
    SampledGaussianPair,
)
from privacy.losses.groups import GroupSampledGaussian
from privacy.losses.halves import MixedModel
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.pair import Loss
from privacy.losses.quadrature import Array, LossModel
from privacy.losses.similar import Parts, fewer_parts
from privacy.mechanisms.selection import BestOf
from privacy.notions import contour_integral, direct_sums, few_steps
from privacy.notions.both_lines import BothLines
from privacy.notions.contour_integral import Bound
from privacy.notions.loss_sums import LossSum
from privacy.notions.pairs import PairCurve
from privacy.notions.selection import BestOfCurve
from privacy.numerics.rounding import U, exp_up, round_up
from privacy.numerics.solve import invert, safe_root
from privacy.relations import NeighboringRelation

if TYPE_CHECKING:
    from privacy.losses.divergences import Divergence
    from privacy.tradeoffs import LogDeltas

_FINE = 1e-10  # relative error bound above which the general integral is computed
# expected samples with the record, and releases, for which both directions are integrated at once
_FEWEST, _MOST_EQUAL = 3, 10**6
_NORMAL = (GaussianPair, SampledGaussianPair, AntipodalPair, GroupSampledPair)
_DISJOINT = 15.0  # mu above which a sampled release may reveal nearly surely that a record is in
_LARGE = 0.1  # delta above which epsilon is often 0
_INEXACT = 1e-6  # relative error bound above which sums on a lattice may be smaller
_HOPELESS = 1e6  # epsilon above which a tighter bound is not worth a long search
_LOOSE = 1e-3  # relative error bound above which basic composition may be smaller
_MOST_PARTS, _FEWER_PARTS = 1200, 900  # if more parts differ, fewer dominating ones replace them
_LOWER = 10_000  # cells of parts in a lower bound on the moments
_MOST_SOUGHT = 48  # different parts in the search for a saddle point
_NARROW = 0.01  # relative change of a parameter below which no moment bound is smaller
_MOST_DISCRETE = 500  # most different discrete parts; each has its own nodes
_RARE = (1e-20, 1e-28, 1e-36)  # total probabilities of the batches that are omitted
_UNSEEN = 23.0  # log(delta / omitted mass) above which the omitted mass is negligible


@dataclass(frozen=True, eq=False, repr=False)
class ContourCurve(PairCurve):
    """The exact profile of composed dominating pairs."""

    notion: ClassVar[str] = "contour"
    theorem: ClassVar[str] = (
        "Zhu, Dong and Wang 2022, Theorem 11; contour integral of the loss's log moment"
    )
    resolution: ClassVar[float] = 1e-9

    @property
    def exact(self) -> bool:
        """Whether the nodes of each part are those of its pair, not of a slightly worse one."""
        return len(self.parts) <= _MOST_PARTS and all(pair.exact_model for pair in self.parts)

    @cached_property
    def beats_moments(self) -> bool:
        """Whether parts are replaced by pairs so near that no bound from moments is smaller."""
        noise = all(isinstance(pair, SampledGaussianPair) for pair in self.parts)
        many = len(self.parts) > _MOST_PARTS and noise
        return many and self._fewer[1] <= _NARROW

    @cached_property
    def below(self) -> tuple[Curve, ...]:
        """The RDP curve of slightly smaller losses, and the curve without sampling, rounded down.

        Only for very many sampled Gaussians, whose RDP takes longer than this bound.
        """
        noises = [(p, n) for p, n in self.parts.items() if isinstance(p, SampledGaussianPair)]
        if not _MOST_PARTS < len(noises) == len(self.parts):
            return ()
        from privacy.notions.renyi import RenyiCurve

        squared = math.fsum((self.mu_squared, *(n * pair.mu**2 for pair, n in noises)))
        squares = (GaussianPair(self.mu_squared), 1)
        fewer, _ = fewer_parts((*noises, squares), _LOWER, upper=False)
        moments = merged((cast("Divergence", pair.divergence), n) for pair, n in fewer)
        dense = ContourCurve(self.relation, {}, squared * (1 - 1e-12))
        return RenyiCurve(self.relation, moments), dense

    @property
    def refusal(self) -> str:
        """Why sums of claims alone, or of very many discrete parts, are not supported."""
        if self._closed_form is not None:
            return ""
        claims = all(isinstance(pair, ClaimPair) and pair.categories == 2 for pair in self.parts)
        if claims and not self.mu_squared:
            return (
                f"Accounting method {self.notion!r} does not support compositions of only "
                "(epsilon, delta) claims and randomized response."
            )
        if sum(isinstance(pair, DiscretePair) for pair, _ in self._fewer[0]) > _MOST_DISCRETE:
            return (
                f"Accounting method {self.notion!r} composes at most {_MOST_DISCRETE} different "
                "discrete parts."
            )
        return ""

    @cached_property
    def _whole(self) -> tuple[LossSum, ...]:
        """The loss sum of each direction."""
        parts, few = self._fewer[0], None
        models = _models(parts)
        if len(models) > _MOST_SOUGHT:
            few = _models(fewer_parts(parts, _MOST_SOUGHT)[0])
        squared, ways = self.mu_squared, self._directions
        fewer = {way: None if few is None else LossSum(few, squared, way) for way in ways}
        return tuple(LossSum(models, squared, way, fewer[way]) for way in ways)

    @cached_property
    def _fewer(self) -> tuple[Parts, float]:
        """The parts, very many replaced by slightly worse ones, and the largest relative change."""
        parts = tuple(self.parts.items())
        return fewer_parts(parts, _FEWER_PARTS if len(parts) > _MOST_PARTS else _MOST_PARTS)

    @cached_property
    def _sums(self) -> list[tuple[float, tuple[LossSum, ...]]]:
        """`_whole` without very unlikely batches, and the log of the mass that this adds."""
        found, parts = [], self._whole[0].parts
        mixed = any(isinstance(m, GroupSampledGaussian | MixedModel) for m, _ in parts)
        for least in _RARE if mixed else ():
            sums = tuple(
                replace(one, parts=tuple((_likely(model, least), n) for model, n in one.parts))
                for one in self._whole
            )
            omitted = max(a.lost - b.lost for a, b in zip(sums, self._whole, strict=True))
            found.append((math.log(omitted) if omitted > 0 else -math.inf, sums))
        return [*found, (-math.inf, self._whole)]

    def _equal(self, epsilon: float | None, hint: Hint, log_delta: float = 0.0) -> Answer | None:
        """Return log delta, or epsilon, of equal sampled Gaussians; None if that is not precise."""
        (pair, count), *others = self.parts.items()
        alone = self.exact and not (others or self.mu_squared) and count <= _MOST_EQUAL
        if not (alone and isinstance(pair, SampledGaussianPair) and pair.q * count >= _FEWEST):
            return None
        near = 1.0 if hint.order is None else hint.order - 1
        with suppress(ArithmeticError):
            lines = BothLines(cast("SampledGaussian", pair.model), count)
            if epsilon is None:
                rho = 0.5 * count * math.log1p(pair.q**2 * math.expm1(min(pair.mu**2, 80.0)))
                saddle, guess = lines.saddle_of_delta(log_delta, rho)
                lines.integrate(saddle, guess)
                value = contour_integral.on_line(lines, guess, log_delta)
            else:
                saddle = near if hint.sharp else lines.saddle(epsilon, near)
                lines.integrate(saddle, epsilon)
                value, _ = lines.log_delta(epsilon)
            if lines.error < _FINE:
                return self._answer(value, lines.error, hint=saddle + 1)
        return None

    def _serving(self, log_delta: float) -> tuple[LossSum, ...]:
        return next(sums for omitted, sums in self._sums if log_delta >= omitted + _UNSEEN)

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        if self._closed_form is not None:
            return self._answer(self._closed_form.log_delta(epsilon))
        near, about = (1.0, -math.inf) if hint.order is None else (hint.order - 1, hint.enough)
        if quick := self._nearly_disjoint(epsilon) or self._equal(epsilon, hint):
            return quick
        first = Bound(0.0, 0.0, near)
        served: tuple[LossSum, ...] = ()
        for omitted, sums in self._sums:
            if sums != served:
                served = sums
                first = contour_integral.log_delta(sums[0], epsilon, near, about=about)
            if first.value >= omitted + _UNSEEN:
                break
        first = _refined(served[0], epsilon, first)
        bounds = [first]
        for total in () if hint.one_direction else served[1:]:
            other = contour_integral.log_delta(total, epsilon, first.saddle, first.value)
            bounds.append(_refined(total, epsilon, other))
        found = self._worst(bounds)
        if self._has_basic(found.error):
            found = found._replace(value=min(found.value, self._basic(epsilon)))
        if found.error > _LOOSE and direct_sums.supports(self._whole[0]):
            pairs = tuple(self.parts.items())
            direct = max(direct_sums.log_delta(pairs, one, epsilon) for one in self._whole)
            found = found._replace(value=min(found.value, direct))
        return found._replace(hint=first.saddle + 1)

    vectorized: ClassVar[bool] = True
    """Many epsilons share an integration line, and a closed form takes microseconds."""

    def _profile(self) -> "LogDeltas":
        if self._closed_form is not None:
            return super()._profile()
        directions = [(total, contour_integral.Lines()) for total in self._whole]
        finite = not any(total.lost for total in self._whole)

        def log_deltas(epsilons: Array) -> tuple[Array, Array]:
            if epsilons.size and (quick := self._nearly_disjoint(float(epsilons.max()))):
                return np.full_like(epsilons, quick.value), np.full_like(epsilons, quick.error)
            worst, error = np.full_like(epsilons, -math.inf), np.zeros_like(epsilons)
            reverse = None
            for total, lines in directions:
                value, off = contour_integral.log_deltas(total, epsilons, lines, worst, reverse)
                reverse = lines if finite else None
                worst, error = np.maximum(worst, value), np.maximum(error, off)
            for k in np.flatnonzero(error > _LOOSE):
                if self._has_basic(error[k]):
                    worst[k] = min(worst[k], self._basic(float(epsilons[k])))
            return worst, error

        return log_deltas

    def _worst(self, bounds: Iterable[Bound]) -> Answer:
        values, errors, _ = zip(*bounds, strict=True)
        return self._answer(float(max(values)), float(max(errors)))

    def _has_basic(self, error: float) -> bool:
        """Return whether basic composition may be smaller, as for few rarely sampled releases."""
        loose = error > _LOOSE or not self.exact
        return loose and len(self.parts) == 1 and not self.mu_squared

    def _basic(self, epsilon: float) -> float:
        """Return an upper bound on log(n delta_1(epsilon / n)), for n equal releases."""
        ((pair, count),) = self.parts.items()
        one = pair.profile.log_delta(math.nextafter(epsilon / count, 0.0))
        if one == -math.inf:
            return one
        several = one + math.log(count) + 8 * U * (abs(one) + math.log(count))
        return min(several, _log_union(self._untouched(0.0)))

    def _untouched(self, epsilon: float, least: float = -math.inf) -> float:
        """Return a lower bound on log prod(1 - delta_i(epsilon)) over all releases.

        The sum ends at `least`. At epsilon = 0 the product is at most 1 minus the total variation
        distance of all releases, since their pairs can be coupled one by one.
        """
        profiles = [(pair.profile, count) for pair, count in self.parts.items()]
        if self.mu_squared:
            profiles.append((GaussianPair(self.mu_squared).profile, 1))
        total = 0.0
        for profile, count in profiles:
            delta = exp_up(profile.log_delta(epsilon))
            total += count * math.log1p(-delta) * (1 + 8 * U) if delta < 1 else -math.inf
            if total < least:
                break
        return total * (1 + 2 * U * len(profiles))

    def _nearly_disjoint(self, epsilon: float) -> Answer | None:
        """Return the bound on the total variation distance if delta is as large, else None.

        If an event has probability delta_i(e) + e^e p in one release and p without the record,
        delta(epsilon) is at least 1 - prod(1 - delta_i(e)) - n exp(epsilon - e).
        """
        pair = next(iter(self.parts))
        inner = pair.inner if isinstance(pair, ReplacedPair) else pair
        if not isinstance(inner, _NORMAL) or inner.mu < _DISJOINT:
            return None
        n = sum(self.parts.values()) + 1  # 1 for all unsampled Gaussians
        # n exp(epsilon - e) is a fraction e^-30 of the delta of one release
        large = epsilon + math.log(n) - pair.profile.log_delta(0.0) + 30.0
        most, least = self._untouched(0.0), self._untouched(large)
        if least - most > 1e-10 * -most:
            return None
        log_delta = _log_union(most)
        return self._answer(log_delta, 2e-10, hint=2.0)

    def _least_delta(self) -> float:
        return 0.0 if self._supremum < math.inf else math.ulp(0.0)

    @property
    def _supremum(self) -> float:
        if any(total.lost for total in self._whole):
            return math.inf
        return max(total.supremum for total in self._whole)

    def _at_delta(self, delta: float) -> Answer:
        if delta == 0:
            return self._answer(self._supremum)
        log_delta = math.log(delta)
        if self._closed_form is not None:
            found = super()._at_delta(delta)
            return found._replace(value=min(found.value, self._supremum))
        zero = delta > _LARGE and self._at_epsilon(0.0).value <= log_delta
        quick = self._answer(0.0) if zero else self._equal(None, NO_HINT, log_delta)
        allowed = math.log1p(-delta)
        if not quick and self._untouched(0.0, allowed) >= allowed * (1 - 4 * U):
            quick = self._answer(0.0)
        if quick:
            return quick
        bounds: list[Bound] = []
        for total, whole in zip(self._serving(log_delta), self._whole, strict=True):
            bounds.append(self._least(total, whole, log_delta, bounds[:1]))
        found = self._worst(bounds)
        if self._has_basic(found.error):
            least = invert(self._basic, log_delta, rtol=1e-14)
            found = found._replace(value=min(found.value, least))
        if found.value > 0 and found.error > 1e-4:
            if delta > _LARGE and found.value < _HOPELESS:  # no good line was found
                return found._replace(value=self._lowered(found.value, log_delta))
            if self._at_epsilon(0.0).value <= log_delta:
                return found._replace(value=0.0)
        return found

    def _lowered(self, epsilon: float, log_delta: float) -> float:
        """Return a smaller epsilon with this delta, if a search near `epsilon` finds one."""

        def excess(epsilon: float) -> float:
            return self._at_epsilon(epsilon).value - log_delta

        high, at_high, width = epsilon, excess(epsilon), 1e-5
        while at_high <= 0 < high:
            low = max(epsilon * (1 - width), 0.0)
            if (at_low := excess(low)) > 0:
                return safe_root(excess, high, low, at_safe=at_high, at_unsafe=at_low, rtol=1e-9)
            high, at_high, width = low, at_low, 16 * width
        return high

    def _least(
        self, total: LossSum, whole: LossSum, log_delta: float, others: list[Bound]
    ) -> Bound:
        """Return a bound on epsilon in one direction."""
        bound = contour_integral.epsilon(total, log_delta, *others)
        near: list[Callable[[float], Any]] = []
        if bound.error > _INEXACT and few_steps.supports(total):
            near.append(partial(few_steps.Lattice, total, log_delta=log_delta))
        if bound.error > _LOOSE and direct_sums.supports(whole):
            near.append(partial(direct_sums.DirectSum, tuple(self.parts.items()), whole))
        for one in near:
            bound = bound._replace(value=few_steps.least_epsilon(one, log_delta, bound.value))
        return bound

    def best_of(self, runs: BestOf) -> BestOfCurve:
        return BestOfCurve(self.relation, self, runs)


def _log_union(untouched: float) -> float:
    """Return log(1 - e^x), rounded up, for the log x <= 0 of the probability of no event."""
    some = round_up(-math.expm1(untouched), 4 * U)
    return 0.0 if some >= 1 else math.log(some) + 4 * U * (1 - math.log(some))


def _models(parts: Parts) -> tuple[tuple[LossModel, int], ...]:
    # `curve` refused pairs without a model; one that is None must raise, not be omitted
    return tuple(merged((cast("LossModel", pair.model), n) for pair, n in parts).items())


def _refined(total: LossSum, epsilon: float, bound: Bound) -> Bound:
    """Return a bound on log delta by sums on a lattice, if it may be smaller."""
    if not (bound.error > _INEXACT and few_steps.supports(total)):
        return bound
    found = few_steps.log_delta(total, epsilon, bound.value)
    return bound._replace(value=min(bound.value, found))


def _likely(model: LossModel, least: float) -> LossModel:
    """Return the model without very unlikely batches, which `lost` accounts for."""
    if isinstance(model, GroupSampledGaussian):
        return model.likely()
    return model.likely(least) if isinstance(model, MixedModel) else model


def curve(loss: Loss, relation: NeighboringRelation) -> ContourCurve | None:
    """Return the curve of one release if its pair has nodes or is Gaussian."""
    return ContourCurve.of(loss, relation, lambda pair: pair.model is not None)
