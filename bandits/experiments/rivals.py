"""Competing methods that add noise to theta instead of sums; simulation only."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.bases import Private
from bandits.checks import Array
from bandits.learning.exploration import Exploration, UpperConfidence
from bandits.learning.linear_model import Model, Ridge, times, transposed
from bandits.learning.rewards import Channel, Open, summed
from bandits.learning.schedules import Geometric, Schedule

_KEPT = 16
"""Releases per computation of |A^-1|; A grows, so an earlier norm is an upper bound."""


@dataclass(frozen=True, kw_only=True)
class ThetaPerturbed(Private):
    """Release theta = A^-1 b with noise when an episode ends; one reward changes it by |A^-1 x|.

    The first episode has `first` rounds, and `ratio` is that of the lengths of successive ones.
    `own_data` estimates theta from the rounds of the episode, so that a reward enters one release.
    Otherwise theta is estimated from all rounds, and a reward enters every later release too.
    `split` divides rho by the number of releases. `width` is that of the confidence bound in
    standard deviations.

    With neither `own_data` nor `split` the epsilon of `guarantee` exceeds the target, because the
    episodes are not disjoint.
    """

    first: int = 100
    ratio: float = 2.0
    own_data: bool = False
    split: bool = False
    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        return UpperConfidence(self.width)

    @cached_property
    def schedule(self) -> Schedule:
        return Geometric(self.first, self.ratio)

    @property
    def per_release(self) -> float:
        """Noise scale of one release divided by its sensitivity to one reward."""
        return self.noise_multiplier * (self.batches**0.5 if self.split else 1.0)

    def guarantee(self, delta: float) -> dp.Guarantee:
        one = dp.Gaussian(self.per_release, self.replace_distance)
        run = one if self.own_data else dp.repeat(one, self.batches)
        relation = dp.NeighboringRelation(self.relation)
        return dp.account(run, relation=relation).guarantee(delta=delta)

    def model(self, lead: tuple[int, ...]) -> Model:
        return Ridge(self.features, lead, ridge=self.ridge, prior_mean=self.prior)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        if rng is None:
            remedy = "Pass simulation=True: this method has only float noise."
            raise ValueError(checks.expected("simulation", False, "True", remedy))  # noqa: FBT003
        return _Theta(self, lead, rng)


class _Theta(Open):
    """Releases A (theta + noise), from which the ridge model computes theta + noise."""

    def __init__(
        self, rival: ThetaPerturbed, lead: tuple[int, ...], rng: np.random.Generator
    ) -> None:
        d = rival.features
        super().__init__(d, lead)
        self.start = np.zeros((*lead, d, d)) + rival.ridge * np.eye(d)
        self.all = self.start.copy()
        self.sigma = rival.per_release * rival.clip_norm
        self.rng, self.own_data = rng, rival.own_data
        self.total = self.prefix
        self.reach: Array = np.zeros(lead)

    def release(self, features: Array, rewards: Array, users: Any) -> None:
        """Set `prefix` to A (theta + noise) after an episode."""
        gram = transposed(features) @ features
        self.all = self.all + gram
        used = self.start + gram if self.own_data else self.all
        own = summed(features, rewards)
        self.total = own if self.own_data else self.total + own
        if self.own_data or self.releases % _KEPT == 0:
            self.reach = 1 / np.linalg.eigvalsh(used)[..., 0]
        self.releases += 1
        noise = self.rng.standard_normal(self.total.shape)
        theta = np.linalg.solve(used, self.total[..., None])[..., 0]
        self.prefix = times(self.all, theta + self.sigma * self.reach[..., None] * noise)
