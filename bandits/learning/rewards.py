"""How rewards reach the model: clipped, centred, summed over a batch, and released with noise.

In this order: clip to the range, subtract the centre, then NaN and missing become 0, so that a
missing reward says exactly what no reward says. A channel sums (r - centre) x over a batch and
releases the prefix of all batches. Every round counts, whatever its reward.

The noise comes from `privacy.RunningSum`; the channels differ in who is protected.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.checks import Array

MARGIN = 1 + 1e-12
"""Float norms of features may exceed 1 by rounding; the noise pays for it."""

REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = dp.NeighboringRelation.REPLACE_SPECIAL
RELATIONS = (REPLACE_ONE, REPLACE_SPECIAL)


@dataclass(frozen=True)
class Range:
    """The public range of rewards and the constant that is subtracted from them.

    Parameters
    ----------
    low, high
        Rewards are clipped to [low, high].
    centre
        In [low, high]; public. A missing reward counts as `centre`.
    """

    low: float = 0.0
    high: float = 1.0
    centre: float = 0.0

    def __post_init__(self) -> None:
        low = checks.real("low", self.low, "Pass the smallest reward.")
        high = checks.real("high", self.high, "Pass the largest reward.", above=low)
        remedy = "Choose a unit in which rewards are neither tiny nor huge."
        checks.real("high - low", high - low, remedy, at_least=1e-50, at_most=1e50)
        remedy = "Pass a public guess of the mean reward."
        checks.real("centre", self.centre, remedy, at_least=low, at_most=high)

    @classmethod
    def centred_on_middle(cls, low: float, high: float) -> "Range":
        """Return a range whose centre is its middle."""
        checked = cls(low, high, low)
        return cls(low, high, (checked.low + checked.high) / 2)

    @property
    def clip_norm(self) -> float:
        """The largest |r - centre|."""
        return max(self.high - self.centre, self.centre - self.low)

    @property
    def is_end(self) -> bool:
        """Whether all centred rewards are on one side of zero."""
        return self.centre in (self.low, self.high)

    @property
    def replace_distance(self) -> float:
        """How far a replaced reward moves, in clip norms; in [1, 2], and 2 for a rounded middle."""
        above, below = self.high - self.centre, self.centre - self.low
        # low, high and centre were each rounded by half an ulp, and so were the differences
        if abs(above - below) <= 4 * math.ulp(max(abs(self.low), abs(self.high))):
            return 2.0
        return min(2.0, (self.high - self.low) / self.clip_norm)

    def centred(self, reward: Any) -> float:
        """Return one reward as it is summed; None and NaN are 0.

        Raises
        ------
        TypeError
            The reward is no number. It is not shown.
        """
        value = _number(reward)
        if self.low <= value <= self.high:
            return value - self.centre
        if math.isnan(value):
            return 0.0
        return (self.low if value < self.low else self.high) - self.centre

    def centred_all(self, rewards: Array) -> Array:
        """Return many rewards, as floats, as they are summed."""
        out: Array = np.clip(rewards, self.low, self.high) - self.centre
        return np.nan_to_num(out, nan=0.0)


def numbers(rewards: Any) -> Array:
    """Return rewards of any shape as floats, missing ones as NaN; an error shows none of them."""
    array = np.asarray(rewards)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    each = [_number(reward) for reward in array.astype(object).flat]
    return np.array(each, dtype=np.float64).reshape(array.shape)


def _number(reward: Any) -> float:
    if type(reward) is float:
        return reward
    if reward is None:
        return math.nan
    try:
        if not isinstance(reward, str | bytes | bytearray):
            return float(reward)
    except OverflowError:  # a whole number beyond the floats
        return math.inf if reward > 0 else -math.inf
    except (TypeError, ValueError):
        pass
    shown = type(reward).__name__  # never the reward itself
    remedy = "Pass None where there is none."
    raise TypeError(checks.expected("type of reward", shown, "a number", remedy))


def unprotected(delta: float, relation: dp.NeighboringRelation, why: str) -> dp.Guarantee:
    """Return the guarantee of no privacy: an infinite epsilon."""
    delta = checks.real("delta", delta, "Pass a small probability.", at_least=0, below=1)
    return dp.Guarantee(math.inf, delta, relation, "none", theorem=why)


class Open:
    """No privacy: the sums themselves."""

    private = False
    by_user = False

    def __init__(self, dimension: int, lead: tuple[int, ...] = ()) -> None:
        self.prefix = np.zeros((*lead, dimension))
        self.releases = 0

    def release(self, features: Array, rewards: Array, users: Any) -> None:
        """Add a batch to `prefix`, the sum of all batches.

        Parameters
        ----------
        features, rewards
            The batch: shapes (..., B, d) and (..., B), centred.
        users
            Not used here.
        """
        self.prefix = self.prefix + summed(features, rewards)
        self.releases += 1

    def add(self, late: Array) -> None:
        """Add a reward that came after its batch; the model sees it with the next batch."""
        self.prefix = self.prefix + late

    def state(self) -> dict[str, Array]:
        """Return the arrays that change."""
        return {"prefix": self.prefix, "releases": np.array(float(self.releases))}

    def load(self, state: Mapping[str, Array]) -> None:
        """Put the arrays back."""
        self.prefix, self.releases = state["prefix"].copy(), int(state["releases"])


def summed(features: Array, rewards: Array) -> Array:
    """Return the sum of r x over a batch, shape (..., d)."""
    if rewards.ndim == 1:
        product: Array = rewards.dot(features)
        return product
    total: Array = (rewards[..., None, :] @ features)[..., 0, :]
    return total


class Released:
    """Each round's reward is protected: the batch sums are released as noisy running sums.

    Parameters
    ----------
    sums
        The running sum, of vectors like b.
    """

    private = True
    by_user = False

    def __init__(self, sums: dp.RunningSum) -> None:
        self.sums = sums

    @property
    def prefix(self) -> Array:
        """The last release."""
        return self._published(self.sums.prefix)

    @property
    def releases(self) -> int:
        """How many batches were released."""
        return self.sums.releases

    def release(self, features: Array, rewards: Array, users: Any) -> None:
        """Add a batch and release the prefix; see `Open.release`."""
        self.sums.step(self._values(features, rewards, users))

    def add(self, late: Array) -> None:
        """Do nothing: a reward after its batch's release adds nothing."""

    def account(self, features: Array, rewards: Array, users: Any) -> None:
        """Write a batch into the books whose release was made before a crash."""
        self._values(features, rewards, users)

    def _published(self, prefix: Array) -> Array:
        return prefix

    def _values(self, features: Array, rewards: Array, users: Any) -> Array:
        if self.sums.simulation:  # nothing to quantise: a matrix product is enough
            return summed(features, rewards)
        values: Array = self.sums.quantise(rewards[..., None] * features).sum(-2)
        return values

    def state(self) -> dict[str, Array]:
        """Return the secret arrays that change, beside those of the running sum."""
        return {}

    def load(self, state: Mapping[str, Array]) -> None:
        """Put the arrays back."""


class Sampled(Released):
    """Each round enters its batch's sum with probability q, by a secret coin of its own.

    Parameters
    ----------
    sums
        The running sum.
    sampling_probability
        q in (0, 1].
    rescale
        Divide the released sums by q, so that they estimate the full ones.
    coins
        A generator, in a simulation; None takes the operating system's.
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
        # multiples of 2^-53: the next one is at most q with probability at most q
        kept = np.where(uniforms + 2.0**-53 <= self.sampling_probability, rewards, 0.0)
        return super()._values(features, kept, users)

    def state(self) -> dict[str, Array]:
        """Return the coins' state, in a simulation."""
        if self.coins is None:
            return {}
        return {"coins": np.array(json.dumps(self.coins.bit_generator.state))}

    def load(self, state: Mapping[str, Array]) -> None:
        """Put it back."""
        if self.coins is not None:
            self.coins.bit_generator.state = json.loads(str(state["coins"]))


class WithContexts(Released):
    """Contexts and rewards are protected: sums of x x' and of (r - centre) x, released together.

    The upper triangle of x x', its off-diagonal entries times sqrt 2, has the Frobenius norm of
    x x'; with w (r - centre) x behind it, it is one vector of norm^2 <= 1 + w^2 clip_norm^2.
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
        values: Array = self.sums.quantise(rounds).sum(-2)
        return values


Channel = Open | Released
