"""How an action is picked from what the model believes.

Random numbers come in as an argument, one row a round, so that one code serves one live round, one
round of many replicates and a whole batch of many replicates. Normals and uniforms are two
sequences of their own: in whatever lengths they are drawn, a round gets the same ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from bandits import checks
from bandits.checks import Array, Indices
from bandits.learning.linear_model import add_to, rows_times, times

Rounds = int | Indices


class Noise(NamedTuple):
    """The random numbers of a round (no axis B), of many replicates, or of B rounds of them."""

    normals: Array
    """Shape (..., d), or (..., 0) where none are used."""
    uniforms: Array
    """Shape (..., 2), or (..., 0) where none are used."""


class Exploration(Protocol):
    """Picks a candidate."""

    @property
    def normals(self) -> bool:
        """Whether a round needs d normals."""

    @property
    def uniforms(self) -> int:
        """How many uniforms a round needs."""

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return the picked candidates.

        Parameters
        ----------
        candidates
            Features, shape (..., n, d).
        mean, root
            The model's mean (..., d) and square root of its covariance (..., d, d).
        noise
            The rounds' random numbers.
        batch
            The number of the batch, from 0.
        rounds
            The numbers of the rounds, from 1: a number, or shape (B,).
        """


@cache
def _ones(count: int) -> Array:
    return np.ones(count)


def _best(scores: Array) -> Indices:
    best: Indices = scores.argmax(-1)
    return best


class ByScore(ABC):
    """An exploration without randomness: a candidate's score depends on its features alone."""

    normals = False
    uniforms = 0

    @abstractmethod
    def scores(self, candidates: Array, mean: Array, root: Array) -> Array:
        """Return the scores (..., n) of candidates (..., n, d); the largest is picked."""

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return the largest score."""
        return _best(self.scores(candidates, mean, root))


@dataclass(frozen=True)
class Greedy(ByScore):
    """The largest estimated reward x'mean, and no exploration at all."""

    def scores(self, candidates: Array, mean: Array, root: Array) -> Array:
        """Return x'mean."""
        return times(candidates, mean)


@dataclass(frozen=True)
class UpperConfidence(ByScore):
    """The largest x'mean + width |x|, |x|^2 = x' covariance x.

    Parameters
    ----------
    width
        How many standard deviations are added, in [0, 1e50] (alpha in the papers).
    """

    width: float = 1.0

    def __post_init__(self) -> None:
        checks.width(self.width)

    def scores(self, candidates: Array, mean: Array, root: Array) -> Array:
        """Return x'mean + width |x|."""
        reach = rows_times(candidates, root)
        squares = (reach * reach).dot(_ones(mean.shape[-1]))
        bound = times(candidates, mean)
        add_to(bound, self.width, np.sqrt(squares))
        return bound


@dataclass(frozen=True)
class Thompson:
    """The best for one draw of theta ~ N(mean, v^2 covariance), a fresh one each round.

    Parameters
    ----------
    scale
        v in [1e-50, 1e50], in every batch, or of batch 0.
    decay
        v of the next batch over v of this one, in (0, 1].
    """

    scale: float = 1.0
    decay: float = 1.0
    normals = True
    uniforms = 0

    def __post_init__(self) -> None:
        checks.moderate("scale", self.scale, "Pass v, such as 1.")
        checks.real("decay", self.decay, "Pass a factor, such as 0.95.", above=0, at_most=1)

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return argmax x'theta."""
        theta = times(root, noise.normals)
        theta *= self.scale * self.decay**batch
        theta += mean
        return _best(times(candidates, theta))


@dataclass(frozen=True)
class Forced:
    """A uniform candidate with probability min(1, d log t / (t gamma)) in round t, else `base`.

    Parameters
    ----------
    base
        What picks in the other rounds.
    gamma
        How seldom it is forced, in [1e-50, 1e50].
    """

    base: Exploration
    gamma: float = 1.0
    uniforms = 2

    def __post_init__(self) -> None:
        checks.moderate("gamma", self.gamma, "Pass how seldom to force, such as 1.")

    @property
    def normals(self) -> bool:
        """Whether `base` needs normals."""
        return self.base.normals

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return the pick of `base`, or a uniform one."""
        picked = self.base.pick(candidates, mean, root, noise, batch, rounds)
        arms, dimension = candidates.shape[-2:]
        forced = noise.uniforms[..., 0] < dimension * np.log(rounds) / (rounds * self.gamma)
        any_arm = (noise.uniforms[..., 1] * arms).astype(np.int64)
        return np.where(forced, any_arm, picked)


def stacked(draws: list[Callable[..., Array]], shape: tuple[int, ...]) -> Array:
    """Return what each generator's method draws, one below the other: (len(draws), *shape)."""
    out = np.empty((len(draws), *shape))
    if out.size:
        for draw, own in zip(draws, out, strict=True):
            draw(out=own)
    return out


class Draws:
    """The two sequences of random numbers, for a live learner or for replicates.

    Exploration only touches what was released: its randomness protects nobody, and may be seeded.

    Parameters
    ----------
    seeds
        One seed a replicate, or a single one for a learner without the axis.
    """

    def __init__(self, seeds: np.random.SeedSequence | list[np.random.SeedSequence]) -> None:
        self.live = not isinstance(seeds, list)
        each = seeds if isinstance(seeds, list) else [seeds]
        pairs = [[np.random.default_rng(child) for child in seed.spawn(2)] for seed in each]
        self.generators = list(zip(*pairs, strict=True))

    def noise(self, exploration: Exploration, rounds: int, dimension: int) -> Noise:
        """Return the numbers of the next rounds, shape (R, B, ...), or (B, ...) when live."""
        normals = (rounds, dimension if exploration.normals else 0)
        uniforms = (rounds, exploration.uniforms)
        noise = Noise(
            stacked([rng.standard_normal for rng in self.generators[0]], normals),
            stacked([rng.random for rng in self.generators[1]], uniforms),
        )
        return Noise(noise.normals[0], noise.uniforms[0]) if self.live else noise

    def state(self) -> list[dict[str, object]]:
        """Return the generators' states, for a live learner."""
        return [dict(rngs[0].bit_generator.state) for rngs in self.generators]

    def load(self, state: list[dict[str, object]]) -> None:
        """Put the states back."""
        for rngs, each in zip(self.generators, state, strict=True):
            rngs[0].bit_generator.state = each
