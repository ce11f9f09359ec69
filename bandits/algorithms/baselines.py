"""The AdaPrivate-TS preprint's Algorithm 1 (2026) and its variants.

Batches of one length; the noise of every batch stays in b; A is public and needs none. Where the
preprint's accounting is wrong, the right one is here, and the printed one is kept under a name
that says so.
"""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.bases import Private
from bandits.learning.exploration import Exploration, Forced, Thompson, UpperConfidence
from bandits.learning.linear_model import Model, Ridge
from bandits.learning.per_user import Capped, Limited
from bandits.learning.rewards import REPLACE_ONE, Channel, Sampled
from bandits.learning.schedules import Determinant, Fixed, Schedule

_ADD_OR_REMOVE_ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE


@dataclass(frozen=True, kw_only=True)
class _AdaPrivate(Private):
    """Algorithm 1: b is released at the end of batches of one length; A needs no noise.

    Parameters
    ----------
    batch
        Rounds of a batch.
    growth
        End a batch when det A has grown by the factor 1 + growth instead; None counts rounds.
    ridge
        A starts as ridge times the identity, > 0.
    frozen
        Add rounds to A when their batch ends, not one by one.
    """

    batch: int = 300
    growth: float | None = None
    frozen: bool = False
    calibration: str = "printed"

    def __post_init__(self) -> None:
        if self.growth is not None and self.frozen:
            remedy = "det A grows round by round only where A does."
            raise ValueError(checks.expected("frozen", self.frozen, "False with growth=", remedy))
        super().__post_init__()

    @cached_property
    def schedule(self) -> Schedule:
        """When batches end."""
        return Fixed(self.batch) if self.growth is None else Determinant(self.growth)

    def model(self, lead: tuple[int, ...]) -> Model:
        """Return a fresh model."""
        return Ridge(
            self.features, lead, ridge=self.ridge, frozen=self.frozen, prior_mean=self.prior
        )


@dataclass(frozen=True, kw_only=True)
class AdaPrivateUCB(_AdaPrivate):
    """Algorithm 1 with upper confidence bounds.

    Parameters
    ----------
    width
        Standard deviations added to the estimate, >= 0.
    """

    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return UpperConfidence(self.width)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTS(_AdaPrivate):
    """Algorithm 1 of the preprint: Thompson sampling, theta ~ N(A^-1 b, v^2 A^-1).

    Parameters
    ----------
    scale
        v > 0.
    """

    scale: float = 1.0

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return Thompson(self.scale)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateAdaptive(AdaPrivateTS):
    """AdaPrivate-TS whose exploration decays: v_k = v_0 decay^k in batch k = 0, 1, ..."""

    scale: float = 1.5
    decay: float = 0.95

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return Thompson(self.scale, self.decay)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTuned(_AdaPrivate):
    """AdaPrivate-Adaptive that starts at v_0 = 1 + sigma / (d sqrt(ridge))."""

    decay: float = 0.95

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        sigma = self.noise_multiplier * self.clip_norm
        return Thompson(1 + sigma / (self.features * math.sqrt(self.ridge)), self.decay)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateForced(AdaPrivateTS):
    """AdaPrivate-TS that plays a uniform arm with probability min(1, d log t / (t gamma))."""

    gamma: float = 1.0

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return Forced(Thompson(self.scale), self.gamma)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateAmp(AdaPrivateTS):
    """AdaPrivate-TS on Poisson samples of each batch, which is accounted exactly.

    At one true guarantee this is noisier than no sampling: the noise of a sum that stands for the
    batch is sigma / q, never below sigma at q = 1. It is here to be compared with.

    Parameters
    ----------
    sampling_probability
        q in (0, 1]; a value below 1 warns, and says what it costs.
    rescale
        Divide the released sums by q.

    Notes
    -----
    A uses every round, and who was sampled stays secret. The outputs with rewards r and r' are
    (1 - q) N(0) + q N(r x) and (1 - q) N(0) + q N(r' x). A missing reward is r' = 0: the pair of
    ADD_OR_REMOVE_ONE, in both directions, for any centre. Under REPLACE_ONE that is the pair for
    rewards on one side of the centre, and the antipodal pair is that for a centre in the middle;
    other centres have no proven pair and are refused for q < 1.
    """

    sampling_probability: float = 1.0
    rescale: bool = True
    calibration: str = "exact"

    CALIBRATIONS = ("exact",)

    def __post_init__(self) -> None:
        remedy = "Pass the share of rounds whose rewards are used."
        q = self.sampling_probability
        checks.real("sampling_probability", q, remedy, above=0, at_most=1)
        proven = self.reward_range.is_end or self.replace_distance == 2
        if self.relation == REPLACE_ONE and q < 1 and not proven:
            remedy = "Other centres have no proven pair of distributions under sampling."
            rule = "at an end or in the middle of the range"
            raise ValueError(checks.expected("centre", self.centre, rule, remedy))
        super().__post_init__()
        if q < 1:
            warnings.warn(self._price(), stacklevel=3)

    def _price(self) -> str:
        """Return what sampling costs, in words."""
        full = replace(self, sampling_probability=1.0).noise_multiplier
        times = self.noise_multiplier / (self.sampling_probability * full)
        return (
            f"Each reward is released once, and sampling makes the noise of a full sum {times:.3g} "
            "times as large at one guarantee. AdaPrivateTS uses every reward."
        )

    @property
    def _accounted(self) -> dp.NeighboringRelation:
        one_sided = self.relation == REPLACE_ONE and self.reward_range.is_end
        return _ADD_OR_REMOVE_ONE if one_sided else dp.NeighboringRelation(self.relation)

    def _sampled(self, multiplier: float) -> dp.Gaussian | dp.PoissonSampled:
        found: dp.Gaussian | dp.PoissonSampled = dp.PoissonSampled(
            dp.Gaussian(multiplier, self.replace_distance),
            sampling_probability=self.sampling_probability,
        )
        return found

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of one release over `clip_norm`."""
        return dp.calibrate(
            self._sampled, epsilon=self.epsilon, delta=self.delta, relation=self._accounted
        )

    @property
    def mechanism(self) -> dp.Gaussian | dp.PoissonSampled:
        """All releases together, as one mechanism of `privacy`."""
        return self._sampled(self.noise_multiplier)

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return what the whole transcript guarantees: the true epsilon, however calibrated."""
        answer = dp.account(self.mechanism, relation=self._accounted).guarantee(delta=delta)
        return replace(answer, relation=dp.NeighboringRelation(self.relation), unit=self.unit)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        """Return a fresh channel for rewards."""
        return Sampled(
            self.sums((*lead, self.features), rng),
            sampling_probability=self.sampling_probability,
            rescale=self.rescale,
            coins=None if rng is None else rng.spawn(1)[0],
        )


@dataclass(frozen=True, kw_only=True)
class AdaPrivateUser(AdaPrivateTS):
    """AdaPrivate-TS that protects all rewards of a user, by a cap on the user's lifetime.

    Parameters
    ----------
    cap
        What a user may add to all batches, in [1e-50, 1e50]: the root of the sum of squared
        norms for independent noise, the sum of norms for correlated noise.
    per_batch
        What a user may add to one batch, in [1e-50, 1e50]; None allows the whole cap.

    Notes
    -----
    Rounds, contexts and who plays which round are public; all REWARDS of a user are replaced, or
    missing. Replacing moves a capped sum by up to 2 cap.
    """

    cap: float = 1.0
    per_batch: float | None = None
    unit = "all rewards of one user"
    replace_distance = 2.0

    def __post_init__(self) -> None:
        remedy = "Pass what a user may add to the sums."
        checks.moderate("cap", self.cap, remedy)
        if self.per_batch is not None:
            checks.moderate("per_batch", self.per_batch, remedy)
        super().__post_init__()

    @property
    def clip_norm(self) -> float:
        """The lifetime cap."""
        return self.cap

    @property
    def _norm(self) -> Literal["l1", "l2"]:
        return "l2" if self.noise == "independent" else "l1"

    @property
    def participation(self) -> dp.Participation:
        """All releases, under the cap."""
        return dp.Participation.lifetime_cap(self._norm)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        """Return a fresh channel for rewards."""
        sums = self.sums((*lead, self.features), rng)
        per_batch = self.cap if self.per_batch is None else self.per_batch
        return Capped(sums, cap=self.cap, per_batch=per_batch, norm=self._norm)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateGroup(AdaPrivateTS):
    """AdaPrivate-TS that protects all rewards of a user naively, as a group of k rounds.

    Parameters
    ----------
    rounds_per_user
        k; rewards of a user's later rounds are dropped.
    """

    rounds_per_user: int = 10
    unit = "all rewards of one user"

    def __post_init__(self) -> None:
        remedy = "Pass the most rewards of a user that are used."
        checks.count("rounds_per_user", self.rounds_per_user, remedy)
        super().__post_init__()

    @property
    def clip_norm(self) -> float:
        """What k rounds can add to the sums together."""
        return self.rounds_per_user * self.reward_range.clip_norm

    @property
    def participation(self) -> dp.Participation:
        """Any releases: the norms of k rounds add up to `clip_norm`."""
        return dp.Participation.lifetime_cap("l1")

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        """Return a fresh channel for rewards."""
        return Limited(self.sums((*lead, self.features), rng), rounds_per_user=self.rounds_per_user)
