"""Base class of the algorithms: frozen descriptions that build learners and live agents.

Like a mechanism of `privacy`, an algorithm is validated when constructed, can be compared, and
states its guarantee before it runs.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.runner import runner
from bandits.checks import Array
from bandits.learning.exploration import Draws, Exploration, mixed
from bandits.learning.learner import Learner
from bandits.learning.linear_model import Model
from bandits.learning.rewards import MARGIN, Channel, Range, Waits
from bandits.learning.schedules import Schedule

if TYPE_CHECKING:
    from bandits.live.agent import Agent

Seeds = np.random.SeedSequence | list[np.random.SeedSequence]


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """Base class of all bandit algorithms: features, horizon and reward range.

    Parameters
    ----------
    dimension
        Length d of a feature vector, >= 1. Features of norm above 1 are scaled to norm 1.
    rounds
        Maximum number of rounds; public, and fixed before the first round.
    low, high
        Public range of rewards, to which rewards are clipped.
    center
        Constant subtracted from rewards; public, in [low, high]. None uses the algorithm's default.
    bias
        Weight w in [0.001, 0.999] of a constant feature that learns the mean reward: x becomes
        (sqrt(1 - w^2) x, w). None adds no constant feature.
    prior_mean
        Prior mean of theta, d numbers. It must be public or accounted for separately.
    explore
        Probability in [0, 1] with which a uniform candidate is selected. If > 0, each of n
        candidates has a probability of at least explore / n, and tickets have a `propensity`.
    """

    dimension: int
    rounds: int
    low: float = 0.0
    high: float = 1.0
    center: float | None = None
    bias: float | None = None
    prior_mean: Sequence[float] | None = None
    explore: float = 0.0

    def __post_init__(self) -> None:
        checks.count("dimension", self.dimension, "Pass the length of a feature vector.")
        checks.count("rounds", self.rounds, "Pass the maximum number of rounds.")
        if self.bias is not None:
            remedy = "Pass the weight of the constant feature, such as 0.25."
            checks.real("bias", self.bias, remedy, at_least=0.001, at_most=0.999)
        remedy = "Pass the probability of a uniform candidate, such as 0.05."
        checks.real("explore", self.explore, remedy, at_least=0, at_most=1)
        if self.prior_mean is not None:
            remedy = "Pass one number for each feature."
            mean = checks.finite("prior_mean", self.prior_mean, (self.dimension,), remedy)
            largest = float(np.abs(mean).max())
            checks.real("largest prior_mean", largest, remedy, at_most=1e50)
            object.__setattr__(self, "prior_mean", tuple(mean.tolist()))
        for field in fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))
        _ = self.reward_range, self.exploration, self.schedule  # each checks its own numbers

    @cached_property
    def reward_range(self) -> Range:
        """The reward range and its center."""
        center = self.low if self.center is None else self.center
        return Range(self.low, self.high, center)

    @cached_property
    def features(self) -> int:
        """Length of the model's feature vectors, including the constant feature."""
        return self.dimension + (self.constant is not None)

    @cached_property
    def constant(self) -> float | None:
        """The weight of the constant feature, or None."""
        return self.bias

    @cached_property
    def shrink(self) -> float:
        """Factor on the features that keeps the norm <= 1 with the constant feature."""
        return 1.0 if self.constant is None else math.sqrt(1 - self.constant**2)

    @property
    def prior(self) -> Array:
        """The prior mean of all coefficients of the model."""
        prior = np.zeros(self.features)
        if self.prior_mean is not None:
            prior[: self.dimension] = np.array(self.prior_mean) / self.shrink
        return prior

    def coefficients(self, mean: Array) -> Array:
        """Return the coefficients of the prepared features, given the model's `mean`."""
        return mean

    def theta(self, coefficients: Array) -> Array:
        """Return the coefficients of the original features, given the model's coefficients."""
        return coefficients[..., : self.dimension] * self.shrink

    @property
    @abstractmethod
    def exploration(self) -> Exploration:
        """The exploration rule."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """When batches end."""

    @abstractmethod
    def model(self, lead: tuple[int, ...]) -> Model:
        """Return a new model."""

    @abstractmethod
    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        """Return a new channel; `rng` None uses the operating system's random generator."""

    @abstractmethod
    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return the guarantee of the whole transcript, however the rounds are played."""

    def prepared(self, candidates: Array) -> Array:
        """Return candidates (..., n, d) scaled into the unit ball, with the constant feature."""
        # einsum emits no overflow warning; NumPy's products do
        squares = np.einsum("...i,...i->...", candidates, candidates)
        if not squares.item(squares.argmax()) <= MARGIN:
            candidates = _shortened(candidates)
        constant = self.constant
        if constant is None:
            return candidates
        out = np.empty((*candidates.shape[:-1], self.features))
        out[..., :-1] = candidates
        out[..., -1] = constant / self.shrink
        out *= self.shrink
        return out

    def learner(self, seeds: Seeds, rng: np.random.Generator | None) -> Learner:
        """Return a new learner, with a replicate axis if `seeds` is a list."""
        lead = (len(seeds),) if isinstance(seeds, list) else ()
        return Learner(
            model=self.model(lead),
            exploration=mixed(self.exploration, self.explore),
            channel=self.channel(lead, rng),
            schedule=self.schedule,
            draws=Draws(seeds),
            dimension=self.features,
            grace=self.waits.grace,
        )

    @property
    def waits(self) -> Waits:
        """How the algorithm treats rewards that arrive late."""
        return Waits()

    def start(
        self,
        *,
        simulation: bool = False,
        seed: int | None = None,
        folder: str | PathLike[str] | None = None,
        ledger: dp.Ledger | None = None,
        fsync: bool = False,
    ) -> "Agent":
        """Return a live agent.

        Parameters
        ----------
        simulation
            True for simulation only: the noise is float noise that `seed` reproduces and gives no
            privacy. False draws noise from the operating system's random generator.
        seed
            Random seed; requires ``simulation=True``.
        folder
            Save the agent to this folder, as `Agent.save`.
        ledger
            Spend the mechanism of all releases from a budget of the same relation and unit. With a
            `folder`, a crash during the start neither loses nor repeats the charge: start again
            with the same folder, or restore it with the same ledger.
        fsync
            Whether rounds and rewards in the folder survive a crash of the machine, not only of the
            process. Each then costs a disk write.
        """
        return runner().start(
            self, simulation=simulation, seed=seed, folder=folder, ledger=ledger, fsync=fsync
        )

    @staticmethod
    def restore(folder: str | PathLike[str], *, ledger: dp.Ledger | None = None) -> "Agent":
        """Return the agent that `Agent.save` wrote to a folder.

        Pass the `ledger` that the agent was started with.
        """
        return runner().restore(folder, ledger=ledger)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-serializable mapping that `algorithm_from_json` reads."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"type": type(self).__name__, **values}


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _shortened(features: Array) -> Array:
    if not np.isfinite(features).all():
        raise ValueError(checks.expected("candidates", "...", "finite", "Pass finite features."))
    largest = np.maximum(np.abs(features).max(-1, keepdims=True), 1.0)
    scaled = features / largest
    norms = np.sqrt(np.square(scaled).sum(-1, keepdims=True))
    shortened: Array = scaled / np.maximum(norms, 1 / largest)
    return shortened
