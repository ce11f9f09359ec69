"""The recommended algorithms: `LinUCB`, `LinTS`, `PrivateUCB` and `PrivateThompson`.

`LinUCB` and `LinTS` are not private. `PrivateUCB` and `PrivateThompson` are specific to this
package.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, get_args

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.bases import Noise, NonPrivate, Private
from bandits.checks import Array
from bandits.learning.exploration import (
    Challenging,
    Exploration,
    Greedy,
    Repeating,
    Thompson,
    UpperConfidence,
)
from bandits.learning.linear_model import Model
from bandits.learning.posterior import Estimator, NoiseAware
from bandits.learning.rewards import Range, Waits
from bandits.learning.schedules import Geometric


@dataclass(frozen=True, kw_only=True)
class LinUCB(NonPrivate):
    """LinUCB, without privacy: ridge regression with upper confidence bounds.

    See Li, Chu, Langford and Schapire (2010). `width` >= 0 is the number of standard deviations
    added to the estimate.
    """

    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        return UpperConfidence(self.width)


@dataclass(frozen=True, kw_only=True)
class LinTS(NonPrivate):
    """Linear Thompson sampling, without privacy (Agrawal and Goyal 2013).

    theta is sampled from N(mean, v^2 A^-1) with v = `scale` > 0.
    """

    scale: float = 1.0

    @property
    def exploration(self) -> Exploration:
        return Thompson(self.scale)


_MOST_BLOCKS = 2**14
"""Largest side of the factor that ``estimator="all"`` stores, about a gigabyte."""


@dataclass(frozen=True, kw_only=True)
class _Ours(Private):
    """Centered rewards, correlated noise, growing batches and a posterior that models the noise.

    Parameters
    ----------
    center, bias
        If you pass `center`, it is used as the mean reward. Otherwise the center is the middle of
        the range, and a constant feature of weight `bias` (0.25 by default, none with
        `one_hot_arms`) learns the difference from the mean reward.
    one_hot_arms
        Declare that each round offers the same `dimension` arms, as the rows of the identity
        matrix. The prior is then that of uniform means, and the noise allocation favors early
        releases: regret is lower. The guarantee does not depend on the declaration.
    first, ratio
        Rounds of the first batch, and the ratio of the lengths of successive batches. With
        `one_hot_arms`, one more batch of at least 10 rounds per arm comes first.
    estimator
        ``"all"`` uses every release. ``"prefix"`` uses only the last one: 1 to 5 % worse, at
        O(d^3) or less per batch.
    prior_variance
        Prior variance of a coefficient; None estimates it from the releases, except that it is
        (high - low)^2 / 12 with `one_hot_arms` and while rounds repeat their candidates.
    reward_variance
        Variance of a reward around its mean; None uses the upper bound (high - low)^2 / 4.
    half_life
        For non-stationary rewards: number of rounds, at least 4, in which the weight of a batch
        halves. The noise is then independent, and batches have at most half_life / 4 rounds.
    grace
        Rounds between the end of a batch and its release, so that its rewards can arrive; public.
        The rounds in between belong to later batches.
    late
        A reward that arrives after the release of its batch: ``"drop"`` drops it, ``"next"`` adds
        it to the batch that is open at its arrival, for up to 65,536 rounds.
    public_arrivals
        Whether the times at which rewards arrive are public. If not, ``late="next"`` under
        ``REPLACE_ONE`` charges two clip norms, as a reward may move between two batches.
    """

    noise: Noise = "optimized"
    one_hot_arms: bool = False
    first: int = 100
    ratio: float = 1.15
    estimator: Estimator = "all"
    prior_variance: float | None = None
    reward_variance: float | None = None
    half_life: int | None = None
    grace: int = 0
    late: Literal["drop", "next"] = "drop"
    public_arrivals: bool = False

    def __post_init__(self) -> None:
        remedy = "Pass a variance, or None."
        for name in ("prior_variance", "reward_variance"):
            if getattr(self, name) is not None:
                checks.real(name, getattr(self, name), remedy, at_least=1e-100, at_most=1e100)
        checks.one_of("estimator", self.estimator, get_args(Estimator))
        remedy = "Pass a number of rounds."
        if self.half_life is not None:
            checks.count("half_life", self.half_life, remedy, at_least=4)
            object.__setattr__(self, "noise", "independent")
        checks.count("grace", self.grace, remedy, at_least=0, at_most=10**6)
        checks.one_of("late", self.late, ("drop", "next"))
        for name, fact in (
            ("public_arrivals", "arrival times are public"),
            ("one_hot_arms", "all rounds offer the same arms"),
        ):
            if not isinstance(shown := getattr(self, name), bool):
                remedy = f"Pass True only if {fact}."
                raise TypeError(checks.expected(name, shown, "True or False", remedy))
        super().__post_init__()
        if self.estimator == "all" and self.half_life is None:
            remedy = "Pass estimator='prefix'."
            blocks = self.batches * self.features
            checks.count("batches * features", blocks, remedy, at_most=_MOST_BLOCKS)

    @cached_property
    def reward_range(self) -> Range:
        if self.center is None:
            return Range.centered_on_middle(self.low, self.high)
        return super().reward_range

    @cached_property
    def constant(self) -> float | None:
        learned = self.bias is None and self.center is None and not self.one_hot_arms
        return 0.25 if learned else self.bias

    @property
    def waits(self) -> Waits:
        return Waits(self.grace, self.late == "next")

    @property
    def replace_distance(self) -> float:
        # If the arrival may change too, s x leaves batch j and s' x enters batch k. The columns of
        # the factorization have norms <= 1, so this moves the releases by at most |s| + |s'|.
        moves = self.late == "next" and not self.public_arrivals
        return 2.0 if moves else super().replace_distance

    @cached_property
    def schedule(self) -> Geometric:
        most = Geometric.most if self.half_life is None else self.half_life // 4
        first = min(Geometric(self.first, self.ratio).first, most)  # checked
        lead = min(max(first, 10 * self.dimension), most) if self.one_hot_arms else 0
        return Geometric(first, self.ratio, most, lead)

    @cached_property
    def factorization(self) -> dp.Factorization:
        if not self.one_hot_arms or self.noise != "optimized":
            return super().factorization
        # the variance of a mean is that of the sum / rounds^2, and it is used for about `rounds`
        # rounds: the weight is 1 / rounds
        lengths = map(self.schedule.length, range(self.batches))
        weights = [max(self.schedule.length(0) / end, 2e-6) for end in accumulate(lengths)]
        return dp.Factorization.optimized(self.batches, weights=weights)

    def model(self, lead: tuple[int, ...]) -> Model:
        width = self.high - self.low
        constant = self.constant
        far = self.reward_range.clip_norm
        bias = None if constant is None else (far / constant) ** 2
        uniform = width**2 / 12 if self.one_hot_arms else None
        return NoiseAware(
            self.features,
            lead,
            noise_covariance=self._noise_covariance,
            reward_variance=self.reward_variance or width**2 / 4,
            prior_variance=self.prior_variance or uniform,
            prior_mean=self.prior,
            estimator=self.estimator,
            bias_variance=bias,
            unit=width,
            half_life=self.half_life,
        )

    @cached_property
    def _noise_covariance(self) -> Array:
        return self.covariance_of(self.sums((self.features,), np.random.default_rng(0)))

    def covariance_of(self, sums: dp.RunningSum) -> Array:
        """Return the noise covariance that the model needs."""
        return sums.noise_covariance(self.batches if self.half_life is None else 1)


@dataclass(frozen=True, kw_only=True)
class PrivateUCB(_Ours):
    """Upper confidence bounds from a posterior that models the privacy noise. The default choice.

    `width` >= 0 is the number of posterior standard deviations added to the estimate. With changing
    candidates, ``width=0`` performs as well. While rounds repeat the same candidates, the rounds of
    a batch are divided among those that may be the best, because the bounds would select only one.
    If all rounds offer the same arms, pass ``one_hot_arms=True``.
    """

    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        repeated = Challenging(self.rounds, 4 * self.noise_multiplier * self.clip_norm)
        if self.one_hot_arms:
            return repeated
        return Repeating(UpperConfidence(self.width) if self.width else Greedy(), repeated)


@dataclass(frozen=True, kw_only=True)
class PrivateThompson(_Ours):
    """Thompson sampling from a posterior that models the privacy noise.

    theta is sampled from N(mean, v^2 covariance) with v = `scale` > 0. While rounds repeat the same
    candidates, v is at least 0.7.
    """

    scale: float = 0.1

    @property
    def exploration(self) -> Exploration:
        rule = Thompson(self.scale)
        return Repeating(rule, Thompson(max(self.scale, 0.7)))
