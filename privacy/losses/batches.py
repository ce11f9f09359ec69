"""Dominating pairs of batches of a fixed or limited size."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from privacy import losses
from privacy.losses.discrete import Atoms, DiscretePair, SampledDiscretePair
from privacy.losses.gaussian import GaussianPair
from privacy.losses.pair import LossPair
from privacy.losses.profiles import MixedProfile, Profile, SampledProfile
from privacy.numerics.rounding import sum_up


def replaced(inner: LossPair, q: float) -> LossPair:
    """Return the pair of a replaced record that is in the batch with probability q.

    `inner` is symmetric and dominates batches that differ in a record (docs/theory/samplers.md).
    """
    if q == 1:
        return inner
    kind = ReplacedDiscretePair if isinstance(inner, DiscretePair) else ReplacedPair
    return kind(inner, q)  # type: ignore[arg-type]  # each kind has its own pairs


def mixed(pairs: Sequence[LossPair], weights: Sequence[float], lost: float = 0.0) -> LossPair:
    """Return the pair of a release whose public index has probability `weights`.

    The index selects `pairs[index]`. With probability `lost`, the output identifies the data set.
    By joint convexity, the pair dominates the release without the index.
    """
    discrete = all(isinstance(pair, DiscretePair) for pair in pairs)
    kind = MixedDiscretePair if discrete else MixedPair
    return kind(tuple(pairs), tuple(weights), lost)  # type: ignore[arg-type]


@dataclass(frozen=True)
class ReplacedPair(LossPair):
    """See `replaced`. P and Q put probability (1 - q) TV(inner) on a loss of 0."""

    inner: LossPair
    q: float

    symmetric = True  # neighboring data sets can be exchanged

    @property
    def profile(self) -> Profile:
        return SampledProfile(self.inner.profile, self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence | None":
        model, unsampled = self.model, self.inner.divergence
        if model is None or unsampled is None:
            return None
        return losses.divergences.SampledNoise(model, unsampled)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        if not isinstance(self.inner, GaussianPair):
            return None
        kept = self.inner.sampled(self.q)._kept
        return losses.halves.MirroredGaussian(*kept) if kept else None

    @property
    def exact_model(self) -> bool:
        sampled = self.inner.sampled(self.q)
        return sampled is None or sampled.exact_model


@dataclass(frozen=True)
class ReplacedDiscretePair(DiscretePair):
    """See `replaced`."""

    inner: DiscretePair
    q: float

    symmetric = True

    @property
    def mass_at_infinity(self) -> float:
        return SampledDiscretePair(self.inner, self.q).mass_at_infinity

    def atoms(self) -> Atoms:
        """Return the losses > 0 of the sampled pair, their mirror image, and the loss 0."""
        inner = self.inner.atoms()
        there = SampledDiscretePair(self.inner, self.q).atoms()
        above = [(p, loss) for p, loss in zip(*there, strict=True) if loss > 0]
        log_p = [p for p, _ in above] + [p - loss for p, loss in above]
        losses = [loss for _, loss in above] + [-loss for _, loss in above]
        gains = [math.exp(p) * -math.expm1(-x) for p, x in zip(*inner, strict=True) if x > 0]
        equal = [math.exp(p) for p, loss in zip(*inner, strict=True) if loss == 0]
        none = math.fsum([*((1 - self.q) * gain for gain in gains), *equal])
        if none > 0:
            log_p.append(math.log(none))
            losses.append(0.0)
        return Atoms(tuple(log_p), tuple(losses))


@dataclass(frozen=True)
class MixedPair(LossPair):
    """See `mixed`."""

    pairs: tuple[LossPair, ...]
    weights: tuple[float, ...]
    lost: float = 0.0

    @property
    def symmetric(self) -> bool:
        return all(pair.symmetric for pair in self.pairs)

    @property
    def profile(self) -> Profile:
        return MixedProfile(tuple(pair.profile for pair in self.pairs), self.weights, self.lost)

    @property
    def divergence(self) -> "losses.divergences.Divergence | None":
        """By quadrature, or the largest of all where that fails."""
        model = self.model
        each = [pair.divergence for pair in self.pairs]
        known = [one for one in each if one is not None]
        if model is None or self.lost or len(known) < len(each):
            return None
        largest = losses.divergences.Largest(tuple(known))
        return losses.divergences.SampledNoise(model, largest)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        each = [pair.model for pair in self.pairs]
        known = tuple(one for one in each if one is not None)
        if len(known) < len(each):
            return None
        return losses.halves.MixedModel(known, self.weights, self.lost)

    @property
    def exact_model(self) -> bool:
        return all(pair.exact_model for pair in self.pairs)


@dataclass(frozen=True)
class MixedDiscretePair(DiscretePair):
    """See `mixed`."""

    pairs: tuple[DiscretePair, ...]
    weights: tuple[float, ...]
    lost: float = 0.0

    @property
    def symmetric(self) -> bool:
        return all(pair.symmetric for pair in self.pairs)

    @cached_property
    def _masses(self) -> list[float]:
        return [
            weight * pair.mass_at_infinity
            for weight, pair in zip(self.weights, self.pairs, strict=True)
        ]

    @property
    def mass_at_infinity(self) -> float:
        return sum_up([*(mass for mass in self._masses if mass), *([self.lost] * (self.lost > 0))])

    def atoms(self) -> Atoms:
        kept = math.fsum([*self.weights, *(-mass for mass in self._masses)])
        log_p: list[float] = []
        losses: list[float] = []
        for weight, mass, pair in zip(self.weights, self._masses, self.pairs, strict=True):
            atoms = pair.atoms()
            log_weight = math.log((weight - mass) / kept)
            log_p += [p + log_weight for p in atoms.log_probability]
            losses += atoms.loss
        return Atoms(tuple(log_p), tuple(losses))
