"""The learner, which combines a model, an exploration rule, a reward channel and a schedule.

Live agents run it one round at a time, simulations run many replicates by rounds or batches.
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
"""Number of rounds for which random numbers are drawn at once."""


@dataclass
class Learner:
    """Components and their progress. Arrays may have a leading replicate axis.

    Attributes
    ----------
    model, exploration, channel, schedule
        The components.
    draws
        Random numbers for the exploration.
    dimension
        Feature dimension d.
    batch, rounds, in_batch
        Numbers of closed batches, started rounds, and rounds of the open batch.
    growth
        Growth of log det A in the open batch, if the schedule uses it.
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
        self._scores: Array | None = None  # scores of all arms, valid until the model changes

    @property
    def ended(self) -> bool:
        if self._length is not None:
            return self.in_batch >= self._length
        return self.schedule.ends(self.batch, self.in_batch, self.growth)

    @property
    def left(self) -> int | None:
        """Rounds until the open batch ends; None if that depends on the features."""
        return None if self._length is None else self._length - self.in_batch

    def choose(self, candidates: Array) -> Indices:
        """Return the picks of one round from features (n, d), or (R, n, d) with the replicate axis.

        Pass the features of the picks to `observe`.
        """
        self.rounds += 1
        return self.exploration.pick(
            candidates, self.model.mean, self.model.root, self._noise(), self.batch, self.rounds
        )

    def observe(self, x: Array) -> None:
        """Update the model with the features (..., d) of the last pick."""
        square = self.model.observe(x)
        self.in_batch += 1
        if self._measured:
            self.growth += float(np.log1p(square).max())

    def play_block(self, arms: Array, offered: Indices) -> Indices:
        """Pick and observe candidates in B rounds of one batch; return the picks, shape (R, B).

        Parameters
        ----------
        arms
            Features of all arms, shape (R, A, d), or (1, A, d) if shared by all replicates; the
            same in all blocks of a batch.
        offered
            Arm of each candidate, shape (R, B, n).
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
                self._scores = self.exploration.scores(arms, mean, root)
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
        """Release the open batch and update the model with the release.

        Features are (..., B, d), centered rewards (..., B), and users (..., B), given only for
        user-level privacy.
        """
        self.channel.release(features, rewards, users)
        self.learn(features, self.channel.prefix)

    def learn(self, features: Array, prefix: Array) -> None:
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
        """Return the state of a live learner, except for the arrays of its components."""
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
        for name in ("batch", "rounds", "in_batch", "growth"):
            setattr(self, name, progress[name])
        self._length = self.schedule.length(self.batch)
        self.draws.load(progress["draws"])
        self._before = progress["draws"]
        self._next = progress["next"]
        if progress["drawn"]:
            self._draw_ahead()


def gathered(arms: Array, places: Indices) -> Array:
    """Return rows of arms, shape (R, A, d) or (1, A, d), by index (R, ...): shape (R, ..., d)."""
    size = arms.shape[1] if len(arms) > 1 else 0
    first = size * np.arange(len(places)).reshape(-1, *(1,) * (places.ndim - 1))
    return arms.reshape(-1, arms.shape[-1]).take(first + places, axis=0)
