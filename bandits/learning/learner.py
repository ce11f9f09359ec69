"""The one learner: a model, an exploration, a channel for rewards and a schedule, put together.

A live agent drives it one round at a time; a simulation drives many replicates, round by round or
a whole batch at once. There is no second implementation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bandits.checks import Array, Indices
from bandits.learning.exploration import ByScore, Draws, Exploration, Noise
from bandits.learning.linear_model import Model
from bandits.learning.rewards import Channel
from bandits.learning.schedules import Schedule

_AHEAD = 256
"""Rounds whose random numbers a live learner draws at once."""


@dataclass
class Learner:
    """Parts, and where they are: shapes have a replicate axis in front, or none.

    Attributes
    ----------
    model, exploration, channel, schedule
        The parts.
    draws
        Random numbers for the exploration.
    dimension
        d of the features.
    batch, rounds, in_batch
        Batches closed, rounds begun, rounds of the open batch.
    growth
        Growth of log det A in the open batch, where the schedule looks at it.
    """

    model: Model
    exploration: Exploration
    channel: Channel
    schedule: Schedule
    draws: Draws
    dimension: int
    batch: int = 0
    rounds: int = 0
    in_batch: int = 0
    growth: float = 0.0

    def __post_init__(self) -> None:
        self._silent = not self.exploration.normals and not self.exploration.uniforms
        self._nothing = Noise(np.zeros(0), np.zeros(0))
        self._measured = not self.schedule.lockstep
        self._length = self.schedule.length(self.batch)
        self._ahead: list[Noise] = []
        self._next = 0
        self._before = self.draws.state() if self.draws.live else []
        self._scores: Array | None = None  # of all arms, while the model stands still

    @property
    def ended(self) -> bool:
        """Whether the open batch is full."""
        if self._length is not None:
            return self.in_batch >= self._length
        return self.schedule.ends(self.batch, self.in_batch, self.growth)

    @property
    def left(self) -> int | None:
        """Rounds until the open batch ends; None where the features decide."""
        return None if self._length is None else self._length - self.in_batch

    def choose(self, candidates: Array) -> Indices:
        """Return the picks of one round, whose features are told to `observe`.

        Parameters
        ----------
        candidates
            Shape (n, d), or (R, n, d) with the replicate axis.
        """
        self.rounds += 1
        return self.exploration.pick(
            candidates, self.model.mean, self.model.root, self._noise(), self.batch, self.rounds
        )

    def observe(self, x: Array) -> None:
        """Take in the features (..., d) of the round that was chosen last."""
        square = self.model.observe(x)
        self.in_batch += 1
        if self._measured:
            self.growth += float(np.log1p(square).max())

    def play_block(self, arms: Array, offered: Indices) -> Indices:
        """Return which of the candidates are picked in B rounds of one batch, all observed.

        Parameters
        ----------
        arms
            Features of all arms, shape (R, A, d), or (1, A, d) for all replicates; the same ones
            in all blocks of a batch.
        offered
            The candidates' arms, shape (R, B, n).

        Returns
        -------
        ndarray of int, shape (R, B)
            Places in the last axis of `offered`.
        """
        count = offered.shape[1]
        if self.model.moves:
            return self._one_by_one(gathered(arms, offered))
        mean, root, first = self.model.mean, self.model.root, self.rounds + 1
        self.rounds += count
        self.in_batch += count
        in_batch = (self._length or count) * offered.shape[-1]
        if isinstance(self.exploration, ByScore) and arms.shape[1] <= in_batch:
            if self._scores is None:
                self._scores = self.exploration.scores(arms, mean, root)  # of each arm once
            picks: Indices = gathered(self._scores[..., None], offered)[..., 0].argmax(-1)
            return picks
        noise = self.draws.noise(self.exploration, count, self.dimension)
        mean, root, rounds = mean[:, None, :], root[:, None], np.arange(first, first + count)
        return self.exploration.pick(gathered(arms, offered), mean, root, noise, self.batch, rounds)

    def _one_by_one(self, candidates: Array) -> Indices:
        picks = np.empty(candidates.shape[:2], dtype=np.int64)
        rows = np.arange(len(candidates))
        for i in range(candidates.shape[1]):
            picks[:, i] = self.choose(candidates[:, i])
            self.observe(candidates[rows, i, picks[:, i]])
        return picks

    def close(self, features: Array, rewards: Array, users: Any = None) -> None:
        """Release the open batch and let the model learn from the release.

        Parameters
        ----------
        features, rewards
            Of the batch: shapes (..., B, d) and (..., B), centred.
        users
            Shape (..., B), where the channel protects users.
        """
        self.channel.release(features, rewards, users)
        self.learn(features, self.channel.prefix)

    def learn(self, features: Array, prefix: Array) -> None:
        """Let the model learn from a release that was made."""
        self.model.close(features, prefix)
        self.batch += 1
        self.in_batch = 0
        self.growth = 0.0
        self._length = self.schedule.length(self.batch)
        self._scores = None

    def _noise(self) -> Noise:
        if self._silent:
            return self._nothing
        if self._next == len(self._ahead):
            if self.draws.live:
                self._before = self.draws.state()
            self._draw_ahead()
            self._next = 0
        noise = self._ahead[self._next]
        self._next += 1
        return noise

    def _draw_ahead(self) -> None:
        drawn = self.draws.noise(self.exploration, _AHEAD, self.dimension)
        rows = (np.moveaxis(part, -2, 0) for part in drawn)
        self._ahead = list(map(Noise, *rows))

    def progress(self) -> dict[str, Any]:
        """Return what, with the arrays of the parts, is the whole state of a live learner."""
        return {
            "batch": self.batch,
            "rounds": self.rounds,
            "in_batch": self.in_batch,
            "growth": self.growth,
            "draws": self._before,
            "drawn": len(self._ahead),
            "next": self._next,
        }

    def resume(self, progress: dict[str, Any]) -> None:
        """Put back what `progress` returned."""
        for name in ("batch", "rounds", "in_batch", "growth"):
            setattr(self, name, progress[name])
        self._length = self.schedule.length(self.batch)
        self.draws.load(progress["draws"])
        self._before = progress["draws"]
        self._next = progress["next"]
        if progress["drawn"]:
            self._draw_ahead()


def gathered(arms: Array, places: Indices) -> Array:
    """Return the rows of arms (R, A, d), or (1, A, d), at places (R, ...): shape (R, ..., d)."""
    size = arms.shape[1] if len(arms) > 1 else 0
    first = size * np.arange(len(places)).reshape(-1, *(1,) * (places.ndim - 1))
    return arms.reshape(-1, arms.shape[-1]).take(first + places, axis=0)
