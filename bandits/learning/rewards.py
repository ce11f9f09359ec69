"""Reward channels, which clip, center and sum rewards, and release the sums with noise.

Rewards are clipped to the range and centered; then NaN and missing rewards become 0 and contribute
nothing. A channel sums (r - center) x over a batch, to which every round counts, and releases the
prefix sum of all batches. `privacy.RunningSum` adds the noise; the channels differ in the privacy
unit.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import privacy as dp
from bandits import checks
from bandits.checks import Array

MARGIN = 1 + 1e-12
"""Upper bound on the norm of scaled features, which rounding may lift above 1.

It is a factor of the clip norm, so the noise accounts for it.
"""

SIMULATION_ONLY = "simulation only: this noise is reproducible and gives no privacy"

REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dp.NeighboringRelation.REPLACE_SPECIAL
RELATIONS = (REPLACE_ONE, REPLACE_SPECIAL)


class Waits(NamedTuple):
    """How an algorithm treats rewards that arrive late."""

    grace: int = 0
    """Rounds between the end of a batch and its release."""
    joins: bool = False
    """Whether a reward joins the batch open at its arrival if its own was released."""


@dataclass(frozen=True)
class Range:
    """The public range of rewards and the center that is subtracted from them.

    Rewards are clipped to [low, high]. `center`, in the range, is public, and a missing reward
    counts as `center`.
    """

    low: float = 0.0
    high: float = 1.0
    center: float = 0.0

    def __post_init__(self) -> None:
        low = checks.real("low", self.low, "Pass the smallest reward.")
        high = checks.real("high", self.high, "Pass the largest reward.", above=low)
        remedy = "Rescale the rewards."
        checks.real("high - low", high - low, remedy, at_least=1e-50, at_most=1e50)
        remedy = "Pass a public guess of the mean reward."
        checks.real("center", self.center, remedy, at_least=low, at_most=high)

    @classmethod
    def centered_on_middle(cls, low: float, high: float) -> "Range":
        checked = cls(low, high, low)
        return cls(low, high, (checked.low + checked.high) / 2)

    @property
    def clip_norm(self) -> float:
        return max(self.high - self.center, self.center - self.low)

    @property
    def is_end(self) -> bool:
        return self.center in (self.low, self.high)

    @property
    def replace_distance(self) -> float:
        """Largest distance of two rewards in units of `clip_norm`, in [1, 2]; 2 for the middle."""
        above, below = self.high - self.center, self.center - self.low
        # the tolerance covers rounding of low, high, center and the differences by half an ulp each
        if abs(above - below) <= 4 * math.ulp(max(abs(self.low), abs(self.high))):
            return 2.0
        return min(2.0, (self.high - self.low) / self.clip_norm)

    def read(self, reward: Any) -> tuple[float, str | None]:
        """Return one reward, clipped and centered, and "clipped", "missing" or None.

        None and NaN are missing, and become 0. Errors do not show the reward.
        """
        value = reward if type(reward) is float else _number(reward)
        if self.low <= value <= self.high:
            return value - self.center, None
        if math.isnan(value):
            return 0.0, "missing"
        return (self.low if value < self.low else self.high) - self.center, "clipped"

    def centered_all(self, rewards: Array) -> Array:
        """Return an array of rewards, clipped and centered; NaN becomes 0."""
        out: Array = np.clip(rewards, self.low, self.high) - self.center
        return np.where(np.isnan(out), 0.0, out)


def numbers(rewards: Any) -> Array:
    """Return rewards of any shape as floats, missing ones as NaN. Errors show no reward."""
    array = np.asarray(rewards)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    each = [_number(reward) for reward in array.astype(object).flat]
    return np.array(each, dtype=np.float64).reshape(array.shape)


def _number(reward: Any) -> float:
    if reward is None:
        return math.nan
    try:
        if not isinstance(reward, str | bytes | bytearray):
            return float(reward)
    except OverflowError:  # an int above the largest float
        return math.inf if reward > 0 else -math.inf
    except (TypeError, ValueError):
        pass
    shown = type(reward).__name__  # the reward itself is sensitive
    remedy = "Pass None if the reward is missing."
    raise TypeError(checks.expected("type of reward", shown, "a number", remedy))


def unprotected(delta: float, relation: dp.NeighboringRelation, why: str) -> dp.Guarantee:
    """Return a guarantee with an infinite epsilon."""
    delta = checks.real("delta", delta, "Pass a small probability.", at_least=0, below=1)
    return dp.Guarantee(math.inf, delta, relation, "none", theorem=why)


class Open:
    """Channel without privacy, which returns the exact sums."""

    private = False
    by_user = False

    def __init__(self, dimension: int, lead: tuple[int, ...] = ()) -> None:
        self.prefix = np.zeros((*lead, dimension))
        self.releases = 0

    def release(self, features: Array, rewards: Array, users: Any) -> None:
        """Add a batch of features (..., B, d) and centered rewards (..., B) to `prefix`.

        `prefix` is the sum of all batches; `users` are unused.
        """
        self.prefix = self.prefix + summed(features, rewards)
        self.releases += 1

    def add(self, late: Array) -> None:
        """Add a late reward times its features; the model uses it after the next batch."""
        self.prefix = self.prefix + late

    def state(self) -> dict[str, Array]:
        return {"prefix": self.prefix, "releases": np.array(float(self.releases))}

    def load(self, state: Mapping[str, Array]) -> None:
        self.prefix, self.releases = state["prefix"].copy(), int(state["releases"])


def summed(features: Array, rewards: Array) -> Array:
    """Return the sum of r x over a batch, shape (..., d)."""
    if rewards.ndim == 1:
        product: Array = rewards.dot(features)
        return product
    total: Array = (rewards[..., None, :] @ features)[..., 0, :]
    return total


class Released:
    """Channel that protects the reward of each round by a noisy running sum of the batches.

    `sums` is a running sum of vectors of the shape of b.
    """

    private = True
    by_user = False

    def __init__(self, sums: dp.RunningSum) -> None:
        self.sums = sums

    @property
    def prefix(self) -> Array:
        return self._published(self.sums.prefix)

    @property
    def releases(self) -> int:
        return self.sums.releases

    def release(self, features: Array, rewards: Array, users: Any) -> None:
        self.sums.step(self._values(features, rewards, users))

    def add(self, late: Array) -> None:
        """Do nothing: rewards are dropped after the release of their batch."""

    def account(self, features: Array, rewards: Array, users: Any) -> None:
        """Update the ledgers for a batch that was released before a crash."""
        self._values(features, rewards, users)

    def _published(self, prefix: Array) -> Array:
        return prefix

    def _values(self, features: Array, rewards: Array, users: Any) -> Array:
        if self.sums.simulation:  # float noise needs no quantization
            return summed(features, rewards)
        values: Array = self.sums.quantize(rewards[..., None] * features).sum(-2)
        return values

    def state(self) -> dict[str, Array]:
        """Return the mutable sensitive arrays, except those of the running sum."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Restore the arrays of `state`."""


class Sampled(Released):
    """Channel with Poisson sampling: the sum includes each round independently with probability q.

    `rescale` divides the released sums by q = `sampling_probability`, so that they estimate the
    full sums. `coins` is the generator of a simulation; None uses that of the operating system.
    """

    def __init__(
        self,
        sums: dp.RunningSum,
        *,
        sampling_probability: float,
        rescale: bool,
        coins: np.random.Generator | None,
    ) -> None:
        super().__init__(sums)
        self.sampling_probability = sampling_probability
        self.factor = 1 / sampling_probability if rescale else 1.0
        self.coins = coins

    def _published(self, prefix: Array) -> Array:
        return self.factor * prefix

    def _values(self, features: Array, rewards: Array, users: Any) -> Array:
        if self.coins is None:
            bits = np.frombuffer(os.urandom(8 * rewards.size), np.uint64) >> np.uint64(11)
            uniforms = bits.reshape(rewards.shape) * 2.0**-53
        else:
            uniforms = self.coins.random(rewards.shape)
        # u is a multiple of 2^-53, so u + 2^-53 <= q has probability at most q
        kept = np.where(uniforms + 2.0**-53 <= self.sampling_probability, rewards, 0.0)
        return super()._values(features, kept, users)

    def state(self) -> dict[str, Array]:
        if self.coins is None:
            return {}
        return {"coins": np.array(json.dumps(self.coins.bit_generator.state))}

    def load(self, state: Mapping[str, Array]) -> None:
        if self.coins is not None:
            self.coins.bit_generator.state = json.loads(str(state["coins"]))


class WithContexts(Released):
    """Channel that protects contexts and rewards: noisy sums of x x' and of (r - center) x.

    The upper triangle of x x' with off-diagonal entries times sqrt 2 has the Frobenius norm of
    x x'. Concatenated with w (r - center) x it is one vector of norm^2 <= 1 + w^2 clip_norm^2.
    """

    def __init__(self, sums: dp.RunningSum, dimension: int, *, reward_weight: float = 1.0) -> None:
        super().__init__(sums)
        self.reward_weight = reward_weight
        self.upper = np.triu_indices(dimension)
        self.weights = np.where(self.upper[0] == self.upper[1], 1.0, math.sqrt(2))

    def _values(self, features: Array, rewards: Array, users: Any) -> Array:
        first, second = self.upper
        squares = features[..., first] * features[..., second] * self.weights
        weighted = self.reward_weight * rewards[..., None] * features
        rounds = np.concatenate((squares, weighted), axis=-1)
        values: Array = self.sums.quantize(rounds).sum(-2)
        return values


Channel = Open | Released
