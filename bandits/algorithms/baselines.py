"""Algorithm 1 of the AdaPrivate-TS preprint (2026) and its variants.

Batches have one length, b accumulates the noise of every batch, and A is public and has no noise.
Where the preprint's accounting is wrong, these classes correct it.
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
    """Algorithm 1: b is released at the end of batches of one length; A has no noise.

    Parameters
    ----------
    batch
        Rounds per batch.
    growth
        If given, a batch ends when det A has grown by the factor 1 + growth instead.
    ridge
        Initial A is ridge times the identity, > 0.
    frozen
        Update A once per batch, when the batch ends, instead of once per round.
    """

    batch: int = 300
    growth: float | None = None
    frozen: bool = False
    calibration: str = "printed"

    def __post_init__(self) -> None:
        if self.growth is not None and self.frozen:
            remedy = "Pass frozen=False: with growth=, the matrix A is updated in every round."
            raise ValueError(checks.expected("frozen", self.frozen, "False with growth=", remedy))
        super().__post_init__()

    @cached_property
    def schedule(self) -> Schedule:
        return Fixed(self.batch) if self.growth is None else Determinant(self.growth)

    def model(self, lead: tuple[int, ...]) -> Model:
        return Ridge(
            self.features, lead, ridge=self.ridge, frozen=self.frozen, prior_mean=self.prior
        )


@dataclass(frozen=True, kw_only=True)
class AdaPrivateUCB(_AdaPrivate):
    """Algorithm 1 of the AdaPrivate-TS preprint, with upper confidence bounds.

    `width` >= 0 is the number of standard deviations added to the estimate.
    """

    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        return UpperConfidence(self.width)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTS(_AdaPrivate):
    """Algorithm 1 of the AdaPrivate-TS preprint: Thompson sampling, theta ~ N(A^-1 b, v^2 A^-1).

    `scale` is v > 0.
    """

    scale: float = 1.0

    @property
    def exploration(self) -> Exploration:
        return Thompson(self.scale)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateAdaptive(AdaPrivateTS):
    """AdaPrivate-TS with decaying exploration: v_k = v_0 decay^k in batch k = 0, 1, ..."""

    scale: float = 1.5
    decay: float = 0.95

    @property
    def exploration(self) -> Exploration:
        return Thompson(self.scale, self.decay)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateTuned(_AdaPrivate):
    """AdaPrivate-Adaptive with v_0 = 1 + sigma / (d sqrt(ridge))."""

    decay: float = 0.95

    @property
    def exploration(self) -> Exploration:
        sigma = self.noise_multiplier * self.clip_norm
        return Thompson(1 + sigma / (self.features * math.sqrt(self.ridge)), self.decay)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateForced(AdaPrivateTS):
    """AdaPrivate-TS that plays a uniform arm with probability min(1, d log t / (t gamma)).

    t is the number of the round, from 1.
    """

    gamma: float = 1.0

    @property
    def exploration(self) -> Exploration:
        return Forced(Thompson(self.scale), self.gamma)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateAmp(AdaPrivateTS):
    """AdaPrivate-TS with Poisson sampling of each batch and exact accounting; for comparison only.

    At the same guarantee, sampling multiplies the noise of a sum, after division by q, by
    sigma(q) / (q sigma(1)), usually above 1, and adds sampling error. `sampling_probability` q is
    in (0, 1]; if q < 1, a warning states this factor. `rescale` divides the released sums by q.

    Notes
    -----
    A uses every round, and the sampled rounds stay secret. With rewards r and r' the outputs are
    (1 - q) N(0) + q N(r x) and (1 - q) N(0) + q N(r' x). A missing reward has r' = 0, which gives
    the dominating pair of ADD_OR_REMOVE_ONE, in both directions, for any center. Under REPLACE_ONE,
    the same pair applies if the center is an end of the range, and the antipodal pair if it is the
    middle; other centers are refused for q < 1.
    """

    sampling_probability: float = 1.0
    rescale: bool = True
    calibration: str = "exact"

    CALIBRATIONS = ("exact",)

    def __post_init__(self) -> None:
        remedy = "Pass the probability that a round is sampled."
        q = self.sampling_probability
        checks.real("sampling_probability", q, remedy, above=0, at_most=1)
        proven = self.reward_range.is_end or self.replace_distance == 2
        if self.relation == REPLACE_ONE and q < 1 and not proven:
            remedy = "Pass an end or the middle: no dominating pair is proven for other centers."
            rule = "at an end or in the middle of the range"
            raise ValueError(checks.expected("center", self.center, rule, remedy))
        super().__post_init__()
        if q < 1:
            warnings.warn(self._price(), stacklevel=3)

    def _price(self) -> str:
        full = replace(self, sampling_probability=1.0).noise_multiplier
        times = self.noise_multiplier / (self.sampling_probability * full)
        return (
            f"At the same guarantee, sampling multiplies the noise of a sum by {times:.3g} (after "
            "division by q) and adds sampling error. Use AdaPrivateTS instead."
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
        return dp.calibrate(
            self._sampled, epsilon=self.epsilon, delta=self.delta, relation=self._accounted
        )

    @property
    def mechanism(self) -> dp.Gaussian | dp.PoissonSampled:
        return self._sampled(self.noise_multiplier)

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return the guarantee of the whole transcript: the true epsilon, for any calibration."""
        answer = dp.account(self.mechanism, relation=self._accounted).guarantee(delta=delta)
        return replace(answer, relation=dp.NeighboringRelation(self.relation), unit=self.unit)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        return Sampled(
            self.sums((*lead, self.features), rng),
            sampling_probability=self.sampling_probability,
            rescale=self.rescale,
            coins=None if rng is None else rng.spawn(1)[0],
        )


@dataclass(frozen=True, kw_only=True)
class AdaPrivateUser(AdaPrivateTS):
    """AdaPrivate-TS with user-level privacy: a lifetime cap bounds each user's contribution.

    Parameters
    ----------
    cap
        Contribution bound of a user over all batches, in [1e-50, 1e50]. For independent noise it
        bounds the root of the sum of squared norms, for correlated noise the sum of norms.
    per_batch
        Contribution bound of a user per batch, in [1e-50, 1e50]; None allows the whole cap.

    Notes
    -----
    Rounds, contexts and the user of each round are public. Neighboring data sets differ in all
    rewards of one user, which are replaced (sensitivity up to 2 cap) or missing.
    """

    cap: float = 1.0
    per_batch: float | None = None
    unit = "all rewards of one user"
    replace_distance = 2.0

    def __post_init__(self) -> None:
        checks.moderate("cap", self.cap, "Pass the contribution bound of a user.")
        if self.per_batch is not None:
            remedy = "Pass the contribution bound of a user per batch."
            checks.moderate("per_batch", self.per_batch, remedy)
        super().__post_init__()

    @property
    def clip_norm(self) -> float:
        return self.cap

    @property
    def _norm(self) -> Literal["l1", "l2"]:
        return "l2" if self.noise == "independent" else "l1"

    @property
    def participation(self) -> dp.Participation:
        return dp.Participation.lifetime_cap(self._norm)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        sums = self.sums((*lead, self.features), rng)
        per_batch = self.cap if self.per_batch is None else self.per_batch
        return Capped(sums, cap=self.cap, per_batch=per_batch, norm=self._norm)


@dataclass(frozen=True, kw_only=True)
class AdaPrivateGroup(AdaPrivateTS):
    """AdaPrivate-TS with user-level privacy by group privacy for k rounds per user.

    `rounds_per_user` is k; the rewards of a user's later rounds are dropped.
    """

    rounds_per_user: int = 10
    unit = "all rewards of one user"

    def __post_init__(self) -> None:
        remedy = "Pass the maximum number of rewards per user."
        checks.count("rounds_per_user", self.rounds_per_user, remedy)
        super().__post_init__()

    @property
    def clip_norm(self) -> float:
        """Norm bound on the contribution of k rounds together."""
        return self.rounds_per_user * self.reward_range.clip_norm

    @property
    def participation(self) -> dp.Participation:
        """Participation in any releases; the norms of k rounds sum to at most `clip_norm`."""
        return dp.Participation.lifetime_cap("l1")

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        return Limited(self.sums((*lead, self.features), rng), rounds_per_user=self.rounds_per_user)
