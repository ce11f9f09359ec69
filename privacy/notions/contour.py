"""The exact privacy loss of composed releases, by contour integration.

The two directions (a record removed, a record added) are summed each on its own and the larger
delta is taken at the end. `privacy.notions._inversion` has the integral, docs/theory/contour.md
the derivation. One release alone is answered by its closed form.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from privacy._solve import exp_up, ratio_up, round_up, sum_up
from privacy.accounting import rule
from privacy.guarantees import Curve, invert, merged
from privacy.mechanisms import Gaussian, GroupSampled, Laplace, PoissonSampled, UnsupportedMechanism
from privacy.notions import _inversion
from privacy.notions._groups import GroupSampledGaussian, GroupSampledProfile
from privacy.notions._loss_models import AntipodalGaussian, SampledGaussian, SampledLaplace
from privacy.notions._moments import LossModel
from privacy.notions._profiles import (
    AntipodalProfile,
    GaussianProfile,
    LaplaceProfile,
    Profile,
    SampledProfile,
)
from privacy.notions._trees import group_mu, mu_squared, refused, sampled_mu, shift
from privacy.relations import NeighboringRelation

_U = 2.0**-53
_LOOSE = 1e-3  # from which on basic composition may be nearer
_LEAST = 1e-70  # q and mu of which quadrature still tells something
_LARGE = 0.1  # from which delta on the least epsilon is often 0
_HOPELESS = 1e6  # an epsilon that hides nothing, not worth a long search for a smaller one
_UNSEEN = 32.0  # log of the share of delta at which a mass that is left out does not show


@dataclass(frozen=True)
class Step:
    """One release: its loss for the contour, and its profile in closed form."""

    model: LossModel
    profile: Profile
    symmetric: bool
    """Whether removing and adding a record lose the same."""


class ContourCurve(Curve):
    """The exact profile of sampled Gaussians, Laplaces and Gaussians together.

    Parameters
    ----------
    parts
        How often each step is released on the same records.
    mu_squared
        Sum of mu^2 over the unsampled Gaussians.
    relation
        The neighbouring relation.
    exact
        Whether each part's loss is the mechanism's own, and not one that is a little larger.
    """

    notion = "contour"
    theorem = "Zhu, Dong and Wang 2022, Theorem 11; contour integral of the loss's log moment"
    closed_form = False
    resolution = 1e-9

    def __init__(
        self,
        parts: Mapping[Step, int],
        mu_squared: float,
        relation: NeighboringRelation,
        *,
        exact: bool = True,
    ) -> None:
        self.exact = exact
        self.parts = dict(parts)
        self.mu_squared = mu_squared
        self.relation = relation
        steps = tuple((step.model, count) for step, count in self.parts.items())
        likely = tuple((_likely(model), count) for model, count in steps)
        ways = ("remove",) if all(step.symmetric for step in self.parts) else ("remove", "add")
        self._asked: tuple[float, _inversion.Answer] | None = None
        self._near = 1.0
        closed = self._closed_form() is not None
        self.guided = len(ways) > 1 and not closed
        self.looseness = 0.0 if closed else math.inf  # until something is asked
        self._sums = [_inversion.LossSum(likely, mu_squared, way) for way in ways]  # type: ignore[arg-type]
        self._whole = [_inversion.LossSum(steps, mu_squared, way) for way in ways]  # type: ignore[arg-type]
        self._log_lost = max(math.log(one.lost) if one.lost else -math.inf for one in self._sums)

    def _closed_form(self) -> Profile | None:
        if not self.parts:
            return GaussianProfile(round_up(math.sqrt(self.mu_squared), 4 * _U))
        (step, count), *others = self.parts.items()
        return step.profile if count == 1 and not others and not self.mu_squared else None

    def _log_delta(self, epsilon: float) -> float:
        profile = self._closed_form()
        if profile is not None:
            return profile.log_delta(epsilon)
        first = self._answer(epsilon)
        _, *others = self._serving(first.value)
        rest = (_inversion.log_delta(s, epsilon, first.saddle, first.value) for s in others)
        return self._or_basic(epsilon, self._worst([first, *rest]))

    def _or_basic(self, epsilon: float, found: float) -> float:
        """Return a log delta, or that of basic composition where it is loose and that one less.

        Among few releases that seldom see a record the others hardly count.
        """
        return min(found, self._basic(epsilon)) if self._has_basic else found

    @property
    def _has_basic(self) -> bool:
        loose = self.looseness > _LOOSE or not self.exact
        return loose and len(self.parts) == 1 and not self.mu_squared

    def _basic(self, epsilon: float) -> float:
        """Return log of n delta_1(epsilon / n), for n releases of one kind."""
        ((step, count),) = self.parts.items()
        one = step.profile.log_delta(math.nextafter(epsilon / count, 0.0))
        if one == -math.inf:
            return one
        return min(0.0, one + math.log(count) + 8 * _U * (abs(one) + math.log(count)))

    @cached_property
    def _total_variation(self) -> float:
        """Return a bound of delta(0): total variations add up."""
        each = [(count, step.profile.log_delta(0.0)) for step, count in self.parts.items()]
        if self.mu_squared:
            each.append((1, GaussianProfile(round_up(math.sqrt(self.mu_squared))).log_delta(0.0)))
        return sum_up(count * exp_up(log_delta) for count, log_delta in each)

    def _serving(self, log_delta: float) -> list[_inversion.LossSum]:
        """Return the sums to ask: what the quick ones leave out must not count."""
        return self._sums if log_delta > self._log_lost + _UNSEEN else self._whole

    def _answer(self, epsilon: float) -> _inversion.Answer:
        """Return the first direction's answer, which a search may ask for twice."""
        if self._asked is None or self._asked[0] != epsilon:
            found = _inversion.log_delta(self._sums[0], epsilon, self._near)
            guide = self._serving(found.value)[0]
            if guide is not self._sums[0]:
                found = _inversion.log_delta(guide, epsilon, self._near)
            self._asked = epsilon, found
        self.best_order = self._asked[1].saddle + 1
        return self._asked[1]

    def follow(self, order: float | None, enough: float) -> None:
        """Look for the saddle point near order - 1."""
        self._near = 1.0 if order is None else order - 1

    def _worst(self, answers: Iterable[_inversion.Answer]) -> float:
        values, loose, _ = zip(*answers, strict=True)
        self.looseness = max(loose)
        return float(max(values))

    def _guide(self, epsilon: float) -> float:
        profile = self._closed_form()
        if profile is not None:
            return profile.log_delta(epsilon)
        return self._or_basic(epsilon, self._worst([self._answer(epsilon)]))

    def _least_delta(self) -> float:
        return 0.0 if self._supremum < math.inf else math.ulp(0.0)

    @property
    def _supremum(self) -> float:
        return max(total.supremum for total in self._sums)

    def _epsilon(self, delta: float) -> float:
        if delta == 0:
            return self._supremum
        if self._closed_form() is not None:
            return min(super()._epsilon(delta), self._supremum)
        if self._total_variation <= delta or (
            delta > _LARGE and self._log_delta(0.0) <= math.log(delta)
        ):
            self.looseness = 0.0
            return 0.0
        guide, *others = self._serving(math.log(delta))
        first = _inversion.epsilon(guide, math.log(delta))
        rest = (_inversion.epsilon(s, math.log(delta), first.value) for s in others)
        found = self._worst([first, *rest])
        loose = self.looseness
        if self._has_basic:
            found = min(found, invert(self._basic, math.log(delta)))
        if found > 0 and loose > 1e-4:
            if delta > _LARGE and found < _HOPELESS:  # a line that is hard to guess
                return min(found, invert(self._log_delta, math.log(delta), rtol=self.resolution))
            if self._log_delta(0.0) <= math.log(delta):  # maybe no epsilon is needed at all
                return 0.0
            self.looseness = loose
        return found

    def _plus(self, others: Sequence["ContourCurve"]) -> "ContourCurve":
        """Return the curve of all: log moments add, within each direction."""
        curves = (self, *others)
        parts = merged(pair for curve in curves for pair in curve.parts.items())
        squared = sum_up(curve.mu_squared for curve in curves)
        exact = all(curve.exact for curve in curves)
        return ContourCurve(parts, squared, self.relation, exact=exact)

    def _times(self, count: int) -> "ContourCurve":
        """Return the curve of `count` releases."""
        parts = {step: count * n for step, n in self.parts.items()}
        squared = sum_up([count * self.mu_squared])
        return ContourCurve(parts, squared, self.relation, exact=self.exact)

    def _worst_of(self, other: "ContourCurve") -> "ContourCurve":
        """Return the curve of parallel releases, where one dominates the other."""
        if self.parts == other.parts:
            return self if self.mu_squared >= other.mu_squared else other
        return super()._worst_of(other)


@rule("contour", Gaussian)
def _gaussian(mechanism: Gaussian, relation: NeighboringRelation) -> ContourCurve:
    squared = mu_squared(mechanism, relation)
    assert squared is not None
    return ContourCurve({}, round_up(squared, 4 * _U), relation)


@rule("contour", Laplace)
def _laplace(mechanism: Laplace, relation: NeighboringRelation) -> ContourCurve:
    loss = _largest_loss(mechanism, relation)
    step = Step(SampledLaplace(1.0, 1 / loss), LaplaceProfile(loss), symmetric=True)
    return ContourCurve({step: 1}, 0.0, relation)


def _likely(model: LossModel) -> LossModel:
    return model.likely() if isinstance(model, GroupSampledGaussian) else model


def _largest_loss(mechanism: Laplace, relation: NeighboringRelation) -> float:
    loss = ratio_up(shift(mechanism, relation), mechanism.scale)
    if math.isinf(loss):
        raise UnsupportedMechanism(
            f"Expected {mechanism!r} to have scale > 1e-300 for notion 'contour'. "
            "Use notion 'tightest'."
        )
    return loss


@rule("contour", GroupSampled)
def _group_sampled(mechanism: GroupSampled, relation: NeighboringRelation) -> ContourCurve:
    mu = round_up(group_mu(mechanism, relation), 4 * _U)
    q, size = mechanism.sampling_probability, mechanism.size
    if not 1e-12 < mu < 1e12 or q < 1e-9:
        raise refused(
            repr(mechanism),
            relation,
            "Expected 1e-12 < noise_multiplier < 1e12 and sampling_probability > 1e-9.",
        )
    profile = GroupSampledProfile(mu, q, size)
    step = Step(GroupSampledGaussian(q, 1 / mu, size), profile, symmetric=False)
    return ContourCurve({step: 1}, 0.0, relation)


@rule("contour", PoissonSampled)
def _sampled(mechanism: PoissonSampled, relation: NeighboringRelation) -> ContourCurve:
    inner, q = mechanism.mechanism, mechanism.sampling_probability
    replaced = relation is NeighboringRelation.REPLACE_ONE
    mu = sampled_mu(mechanism, relation)
    if mu is not None:
        mu = round_up(mu, 4 * _U)
        if mu > 1e12:
            raise refused(repr(mechanism), relation, "Expected noise_multiplier > 1e-12.")
        # with less noise or more records, which lose more, quadrature still reaches the loss
        likelier, nearer = max(q, _LEAST), max(mu, _LEAST)
        exact = (likelier, nearer) == (q, mu)
        if replaced:
            model: LossModel = AntipodalGaussian(likelier, 1 / nearer)
            step = Step(model, AntipodalProfile(mu, q), symmetric=True)
        else:
            profile = SampledProfile(GaussianProfile(mu), q)
            step = Step(SampledGaussian(likelier, 1 / nearer), profile, symmetric=False)
    elif isinstance(inner, Laplace) and not replaced:
        loss = _largest_loss(inner, relation)
        profile = SampledProfile(LaplaceProfile(loss), q)
        step, exact = Step(SampledLaplace(q, 1 / loss), profile, symmetric=False), True
    else:
        raise UnsupportedMechanism(
            f"No exact loss for {inner!r} under one Poisson sample, {relation}. "
            "Gaussians and (add/remove) a Laplace have one."
        )
    return ContourCurve({step: 1}, 0.0, relation, exact=exact)
