"""The learner, which combines a model, an exploration rule, a reward channel and a schedule.

Live agents run it one round at a time, simulations run many replicates by rounds or batches.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np

from bandits.checks import Array, Indices
from bandits.learning.exploration import (
    COMPARED,
    FEW,
    ByScore,
    Challenging,
    Draws,
    Exploration,
    Mixed,
    Noise,
    Repeating,
    Repeats,
    Rounds,
    Thompson,
    prepared,
    stacked,
)
from bandits.learning.linear_model import Model, Ridge, times
from bandits.learning.posterior import NoiseAware
from bandits.learning.rewards import Channel, Open, Released
from bandits.learning.schedules import Schedule

_CACHED = 12
"""Number of replicates whose candidates are scored at once, so that they stay in the cache."""
_AHEAD = 256
"""Number of rounds for which random numbers are drawn at once."""


@dataclass
class Learner:
    """Components and their progress. Arrays may have a leading replicate axis.

    `batch`, `rounds` and `in_batch` are the numbers of ended batches, of started rounds, and of
    rounds of the open batch; `waiting` has, for each batch that ended but was not released, its
    rounds and the round of its release. `grace` is the number of rounds between the two, and
    `growth` the increase of log det A in the open batch.
    """

    model: Model
    exploration: Exploration
    channel: Channel
    schedule: Schedule
    draws: Draws
    dimension: int
    grace: int = 0
    batch: int = 0
    rounds: int = 0
    in_batch: int = 0
    growth: float = 0.0

    def __post_init__(self) -> None:
        self.waiting: list[tuple[int, int]] = []
        rule = self.exploration
        self._base = rule.base if isinstance(rule, Repeating) else rule
        self._sampling = rule.sampling if isinstance(rule, Repeating) else None
        self._compared = 0 if self._sampling is None else COMPARED
        self._fixed = not (rule.normals or rule.uniforms)
        lead = () if self.draws.live else (len(self.draws.generators[0]),)
        self._repeats = Repeats(lead, self.dimension)
        self._nothing = Noise(np.zeros(0), np.zeros(0))
        self._measured = not self.schedule.lockstep
        # whether a batch counts only by its sums of x x' and r x; live sums quantize each round
        model, channel = self.model, self.channel
        exact = type(channel) is Open or (type(channel) is Released and channel.sums.simulation)
        kept = type(model) is Ridge or (type(model) is NoiseAware and model.half_life == math.inf)
        self._summed = exact and kept
        self._open()
        self._ahead: list[Noise] = []
        self._next = 0
        self._before = self.draws.state() if self.draws.live else []
        self.propensity: float | None = None  # of a live learner's last pick
        # valid until the model changes: scores of all arms, or x'mean and S'x of Thompson sampling,
        # and weights of a live learner's arms
        self._scores: Array | None = None
        self._fits: tuple[Array, Array] | None = None
        self._weights: tuple[bytes, tuple[Array, Array]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_prepared": {}}  # functions of this learner's arrays

    def _open(self) -> None:
        """Set what stays fixed in a batch: its length, and its rule if any replicate samples."""
        self._length = self.schedule.length(self.batch)
        base, samples = self._base, self._sampling is not None and self._repeats.any
        self._rule = (samples and self._sampling) or base
        scored = self._fixed and not samples
        self._score = base.scores if scored and isinstance(base, ByScore) else None
        # a live learner's picks by number of candidates, with the arrays that they are prepared for
        self._prepared: dict[int, tuple[Any, ...]] = {}

    @property
    def ended(self) -> bool:
        return self.schedule.ends(self.batch, self.in_batch, self.growth)

    @property
    def left(self) -> int | None:
        """Rounds until a batch ends or is due; None if that depends on the features."""
        if self._length is None:
            return None
        left = self._length - self.in_batch
        return min(left, self.waiting[0][1] - self.rounds) if self.waiting else left

    @property
    def due(self) -> bool:
        """Whether the oldest batch that ended must be released."""
        return bool(self.waiting) and self.rounds >= self.waiting[0][1]

    @property
    def unreleased(self) -> int:
        """Number of rounds whose batch was not released."""
        return self.in_batch + sum(rounds for rounds, _ in self.waiting)

    @property
    def learned(self) -> int:
        """Number of released batches that the model includes."""
        return self.batch - len(self.waiting)

    def choose(self, candidates: Array) -> Indices:
        """Return the picks of one round from features (n, d), or (R, n, d) with the replicate axis.

        Pass the features of the picks to `observe`.
        """
        self.rounds += 1
        if self.in_batch < self._compared:
            repeats = self._repeats
            repeats.add(candidates.dot(repeats.direction).sum(-1, keepdims=True))
        model = self.model
        mean, root = model.mean, model.root
        seen = self._prepared.get(len(candidates))
        if seen is not None and seen[0] is candidates and seen[1] is mean and seen[2] is root:
            best: Indices = seen[3](self._nothing if self._fixed else self._noise())
            return best
        rule = self._rule
        if not self.draws.live:
            return self._pick(candidates, mean, root, lambda _: self._noise(), self.rounds)
        noise = self._noise()
        if len(candidates) <= FEW:
            again = seen is not None and seen[0] is candidates
            pick = prepared(rule, candidates, mean, root, self.batch) if again else None
            self._prepared[len(candidates)] = candidates, pick and mean, root, pick
            if pick is not None:
                return np.asarray(pick(noise))
        if isinstance(rule, Mixed):
            each = rule.probabilities(candidates, mean, root, noise, self.batch, self.rounds)
            drawn = rule.drawn(each, noise)
            self.propensity = float(each[drawn])
            return drawn
        if self._fixed and isinstance(rule, Challenging):
            arms = candidates.tobytes()
            if self._weights is None or self._weights[0] != arms:
                self._weights = arms, rule.weighted(candidates, mean, root)
            return rule.divided(*self._weights[1], self.rounds)
        return rule.pick(candidates, mean, root, noise, self.batch, self.rounds)

    @property
    def compared(self) -> float:
        """The sum over the last round's candidates that `Repeats` compares, for a live learner."""
        return float(self._repeats.last)

    def repeat(self, compared: float) -> None:
        """Repeat a round of a live learner that had `compared`; pass its features to `observe`."""
        self.rounds += 1
        if self.in_batch < self._compared:
            self._repeats.add(np.array([compared]))
        self._noise()

    def _pick(
        self,
        candidates: Array,
        mean: Array,
        root: Array,
        noise: Callable[[Exploration], Noise],
        rounds: Rounds,
    ) -> Indices:
        """Pick by each replicate's rule, with the numbers that `noise` draws for the rules."""
        if self._rule is self._base:
            return self._base.pick(candidates, mean, root, noise(self._base), self.batch, rounds)
        drawn = noise(self.exploration)
        picks = self._rule.pick(candidates, mean, root, drawn, self.batch, rounds)
        sampling = self._repeats.sampling
        if sampling.all():
            return picks
        others = self._base.pick(candidates, mean, root, drawn, self.batch, rounds)
        chosen = sampling.reshape(-1, *(1,) * (picks.ndim - 1))
        return np.where(chosen, picks, others)

    def observe(self, x: Array) -> None:
        """Update the model with the features (..., d) of the last pick."""
        if self.model.moves:
            square = self.model.observe(x)
            if self._measured:
                self.growth += float(np.log1p(square).max())
        self.in_batch += 1

    def play_block(self, arms: Array, offered: Indices) -> Indices:
        """Pick and observe candidates in B rounds of one batch; return the picks, shape (R, B).

        `arms` are the features of all arms, shape (R, A, d), or (1, A, d) if shared by all
        replicates, the same in all blocks of a batch; `offered` is the arm of each candidate, shape
        (R, B, n).
        """
        count = offered.shape[1]
        if self.model.moves:
            return self._one_by_one(gathered(arms, offered))
        if self.in_batch < self._compared:
            each = (arms @ self._repeats.direction)[..., None]
            self._repeats.add(gathered(each, offered[:, :COMPARED])[..., 0].sum(-1))
        mean, root = self.model.mean, self.model.root
        rounds = self.rounds + np.arange(1, count + 1)
        self.rounds += count
        self.in_batch += count
        rule, few = self._rule, arms.shape[1] <= (self._length or count) * offered.shape[-1]
        if few and self._score is not None:
            if self._scores is None:
                self._scores = self._score(arms, mean, root)
            best: Indices = self._scores.take(_places(arms, offered)).argmax(-1)
            return best
        if (offered[:, 0] == offered[:, -1]).all() and (offered == offered[:, :1]).all():
            offered = offered[:, :1]  # repeated candidates are scored once
        elif few and rule is self._base and type(rule) is Thompson:
            return self._sampled(rule, arms, offered)
        candidates, mean, root = gathered(arms, offered), mean[:, None, :], root[:, None]
        draw = partial(self.draws.noise, rounds=count, dimension=self.dimension)
        picks = self._pick(candidates, mean, root, draw, rounds)
        return np.broadcast_to(picks, (len(offered), count))

    def _sampled(self, rule: Thompson, arms: Array, offered: Indices) -> Indices:
        """Pick by Thompson sampling: with S the root, x scores x'mean + v (S'x)'z."""
        if self._fits is None:
            mean, root = self.model.mean, self.model.root
            self._fits = (arms @ mean[..., None]).ravel(), (arms @ root).reshape(-1, root.shape[-1])
        fits, reach = self._fits
        places = _places(arms, offered)
        picks = np.empty(offered.shape[:2], dtype=np.int64)
        generators, shape = self.draws.generators[0], (offered.shape[1], self.dimension)
        for i in range(0, len(picks), _CACHED):
            own = slice(i, i + _CACHED)
            noise = stacked([rng.standard_normal for rng in generators[own]], shape)
            scores = times(reach.take(places[own], axis=0), noise)
            scores *= rule.factor(self.batch)
            scores += fits.take(places[own])
            scores.argmax(-1, picks[own])
        return picks

    def _one_by_one(self, candidates: Array) -> Indices:
        picks = np.empty(candidates.shape[:2], dtype=np.int64)
        rows = np.arange(len(candidates))
        for i in range(candidates.shape[1]):
            picks[:, i] = self.choose(candidates[:, i])
            self.observe(candidates[rows, i, picks[:, i]])
        return picks

    def close(self, features: Array, rewards: Array, users: Any = None) -> None:
        """Release the oldest batch, ending the open one if none waits, and update the model.

        Features are (..., B, d), centered rewards (..., B), and users (..., B), given only for
        user-level privacy.
        """
        if not self.waiting:
            self.turn()
        self.channel.release(features, rewards, users)
        self.learn(features, self.channel.prefix)

    def close_block(self, arms: Array, chosen: Indices, rewards: Array, users: Indices) -> None:
        """`close` a batch, given all arms as in `play_block` and the picks, shape (R, B)."""
        if not self._summed or arms.shape[1] > chosen.shape[1]:
            self.close(gathered(arms, chosen), rewards, users)
            return
        # one row for each arm, with the same sums of x x' and r x
        shape, places = (len(chosen), arms.shape[1]), _places(arms, chosen).ravel()
        roots = np.sqrt(np.bincount(places, minlength=math.prod(shape)).reshape(shape))
        sums = np.bincount(places, rewards.ravel(), math.prod(shape)).reshape(shape)
        self.close(roots[..., None] * arms, sums / np.maximum(roots, 1), users)

    def learn(self, features: Array, prefix: Array) -> None:
        """Update the model with the release of the oldest batch."""
        if self._sampling is not None and isinstance(self.model, NoiseAware):
            self.model.repeats = self._repeats.sampling
        self.model.close(features, prefix)
        self.waiting.pop(0)
        self._scores = self._fits = self._weights = None

    def turn(self) -> None:
        """End the open batch, which is released after the grace period."""
        self.waiting.append((self.in_batch, self.rounds + self.grace))
        self.batch += 1
        self.in_batch = 0
        self.growth = 0.0
        if self._sampling is not None:
            self._repeats.end()
        self._open()

    def _noise(self) -> Noise:
        if self._fixed:
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
        normals, uniforms = (np.moveaxis(part, -2, 0) for part in drawn)
        # views take time, so rounds without uniforms share one
        each = uniforms if uniforms.size else repeat(uniforms[0], _AHEAD)
        self._ahead = list(map(partial(tuple.__new__, Noise), zip(normals, each, strict=True)))

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
            "repeats": self._repeats.state(),
            "waiting": self.waiting,
        }

    def resume(self, progress: dict[str, Any]) -> None:
        for name in ("batch", "rounds", "in_batch", "growth"):
            setattr(self, name, progress[name])
        self.waiting = [(rounds, due) for rounds, due in progress.get("waiting", [])]
        self.draws.load(progress["draws"])
        self._before = progress["draws"]
        self._next = progress["next"]
        # an agent saved before this was recorded continues with its base rule
        self._repeats.load(progress.get("repeats", [0.0, 0.0, 0, None]))
        self._open()
        if progress["drawn"]:
            self._draw_ahead()


def gathered(arms: Array, places: Indices) -> Array:
    """Return rows of arms, shape (R, A, d) or (1, A, d), by index (R, ...): shape (R, ..., d)."""
    flat = _places(arms, places) if len(arms) > 1 else places
    return arms.reshape(-1, arms.shape[-1]).take(flat, axis=0)


def _places(arms: Array, places: Indices) -> Indices:
    """Return the indices of arms (R, ...) as indices of the R A rows of all replicates."""
    first = np.arange(0, arms.shape[1] * len(places), arms.shape[1])
    return first.reshape(-1, *(1,) * (places.ndim - 1)) + places
