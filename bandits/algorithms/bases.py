"""Base classes of non-private algorithms and of those that release noisy running sums."""

import math
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, get_args

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.learning.linear_model import Model, Ridge
from bandits.learning.rewards import (
    MARGIN,
    RELATIONS,
    REPLACE_ONE,
    Channel,
    Open,
    Released,
    unprotected,
)
from bandits.learning.schedules import Fixed, Schedule

Noise = Literal[
    "independent", "binary_tree", "honaker_tree", "square_root", "column_normalized", "optimized"
]
_MOST_RELEASES = {"binary_tree": 4096, "honaker_tree": 1024, "optimized": 1024}
"""Limits for factorizations that form a dense matrix; at the limit this takes seconds."""


def _ridge(ridge: float) -> None:
    checks.moderate("ridge", ridge, "Pass the regularizer, such as 1.")


@dataclass(frozen=True, kw_only=True)
class NonPrivate(Algorithm):
    """Base class of algorithms without privacy, which learn from each reward immediately.

    A starts as `ridge` > 0 times the identity.
    """

    ridge: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ridge(self.ridge)

    @property
    def schedule(self) -> Schedule:
        return Fixed(1)

    def model(self, lead: tuple[int, ...]) -> Model:
        return Ridge(self.features, lead, ridge=self.ridge, prior_mean=self.prior)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        return Open(self.features, lead)

    def guarantee(self, delta: float) -> dp.Guarantee:
        return unprotected(delta, REPLACE_ONE, "rewards are used as they are")


@dataclass(frozen=True, kw_only=True)
class Private(Algorithm):
    """Base class of algorithms that release the batch sums of rewards as noisy running sums.

    Parameters
    ----------
    epsilon, delta
        Privacy target of the whole transcript. Choose delta well below 1 / rounds.
    relation
        Under ``REPLACE_ONE`` the reward of one round takes any other value, under
        ``REPLACE_SPECIAL`` it is missing. Rounds and contexts are public in both.
    noise
        Correlation of the noise of the releases: the name of a `privacy.Factorization`.
    calibration
        ``"exact"`` uses the smallest noise that meets the target. ``"printed"`` uses
        rho = (sqrt(epsilon + L) - sqrt(L))^2 with L = log(1/delta): valid, but conservative.
    """

    epsilon: float
    delta: float
    relation: str = "REPLACE_ONE"
    noise: Noise = "independent"
    calibration: str = "exact"

    ridge: float = 1.0

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("exact", "printed")
    unit: ClassVar[str] = "the reward of one round"

    def __post_init__(self) -> None:
        remedy = "Use LinUCB or LinTS, which have no privacy."
        checks.refuse_if(self.epsilon == math.inf, "epsilon", self.epsilon, "finite", remedy)
        remedy = "Rounds are public, so choose a relation that changes only a reward."
        checks.one_of("relation", self.relation, RELATIONS, remedy)
        object.__setattr__(self, "relation", str(self.relation))
        checks.one_of("noise", self.noise, get_args(Noise))
        checks.one_of("calibration", self.calibration, self.CALIBRATIONS)
        super().__post_init__()
        _ridge(self.ridge)
        remedy = f"Pass longer batches: noise={self.noise!r} has this limit."
        most = _MOST_RELEASES.get(self.noise, 2**31)
        checks.count("batches", self.batches, remedy, at_most=most)
        _ = self.noise_multiplier  # checks epsilon and delta
        if self.rounds * self.delta >= 1:
            warnings.warn(
                f"rounds * delta = {self.rounds * self.delta:.3g} is not small: with such a delta "
                "a mechanism may publish some rewards. Pass delta well below 1 / rounds.",
                stacklevel=3,
            )

    @property
    def replaced(self) -> bool:
        """Whether the relation is REPLACE_ONE."""
        return self.relation == REPLACE_ONE

    @property
    def clip_norm(self) -> float:
        """Norm bound on one unit's contribution to the sums."""
        return self.reward_range.clip_norm

    @property
    def replace_distance(self) -> float:
        """Sensitivity to replacing one unit's contribution, in units of `clip_norm`."""
        return self.reward_range.replace_distance

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise multiplier: the noise scale of one release divided by `clip_norm`."""
        if self.calibration == "printed":
            rho = dp.rho_from_epsilon(self.epsilon, self.delta, conversion="classic")
            distance = self.replace_distance if self.replaced else 1.0
            return distance * dp.noise_multiplier_from_rho(rho)
        return dp.calibrate(
            lambda multiplier: dp.Gaussian(multiplier, self.replace_distance),
            epsilon=self.epsilon,
            delta=self.delta,
            relation=dp.NeighboringRelation(self.relation),
        )

    @property
    def mechanism(self) -> dp.Gaussian | dp.PoissonSampled:
        """One mechanism of `privacy` for all releases together."""
        return dp.Gaussian(self.noise_multiplier, self.replace_distance)

    def guarantee(self, delta: float) -> dp.Guarantee:
        relation = dp.NeighboringRelation(self.relation)
        answer = dp.account(self.mechanism, relation=relation).guarantee(delta=delta)
        return replace(answer, unit=self.unit)

    @cached_property
    def batches(self) -> int:
        """Maximum number K of releases."""
        return self.schedule.batches(self.rounds, self.features, self.ridge)

    @cached_property
    def factorization(self) -> dp.Factorization:
        """The factorization that correlates the noise of the K releases."""
        build = getattr(dp.Factorization, self.noise)
        found: dp.Factorization = build(self.batches)
        return found

    @property
    def participation(self) -> dp.Participation:
        """Participation of one unit in the releases."""
        return dp.Participation.once()

    def sums(self, shape: tuple[int, ...], rng: np.random.Generator | None) -> dp.RunningSum:
        """Return a new running sum of arrays of the given shape."""
        return dp.RunningSum(
            self.factorization,
            noise_multiplier=self.noise_multiplier,
            shape=shape,
            clip_norm=self.clip_norm * MARGIN,
            participation=self.participation,
            relation=dp.NeighboringRelation(self.relation),
            replace_distance=self.replace_distance,
            step=self._step,
            simulation=rng is not None,
            rng=rng,
        )

    @property
    def _step(self) -> float:
        """Lattice step: fine relative to the noise, and coarse enough that no batch sum is clamped.

        Sums of up to 2^42 steps are exact. A step above 2^-16 of the noise scale would require more
        noise, so sums above 2^26 noise scales, from batches of over 10^8 rounds, are clamped.
        """
        # no batch is longer than the first or the last
        ends = self.schedule.length(0), self.schedule.length(self.batches - 1)
        rounds = min(max(length or self.rounds for length in ends), self.rounds)
        if self.waits.joins:  # any batch can get all late rewards
            rounds = self.rounds
        reach = rounds * max(self.clip_norm, self.reward_range.clip_norm)
        noise = self.noise_multiplier * self.clip_norm
        step = min(max(noise * 2**-31, reach * 2**-42), noise * 2**-16)
        return math.ldexp(1.0, math.frexp(step)[1])

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        return Released(self.sums((*lead, self.features), rng))
