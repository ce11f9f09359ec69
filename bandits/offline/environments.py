"""Simulated environments: synthetic ones, adversarial contexts, and replay of logged ratings.

`world` generates the rounds of each replicate from its own random stream, in blocks of a size that
does not depend on the algorithm: with one seed, two algorithms get the same candidates and random
numbers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from bandits import checks
from bandits.checks import Array, Indices
from bandits.learning.exploration import stacked

Link = Literal["logistic", "linear"]
RewardDistribution = Literal["bernoulli", "gaussian", "exact"]


class Block(NamedTuple):
    """Some rounds of R replicates."""

    candidates: Indices
    """Arm of each candidate, shape (R, B, n)."""
    means: Array
    """Mean reward of each candidate, shape (R, B, n)."""
    draws: Array
    """Random number that determines the reward, given its mean, shape (R, B)."""
    users: Indices
    """User of each round, shape (R, B)."""


class World(ABC):
    """Generator of the rounds of R replicates, block by block."""

    features: Array
    """Features of all arms, shape (R, arms, d), or (1, arms, d) if replicates share them."""

    @abstractmethod
    def block(self, count: int) -> Block:
        """Return the next `count` rounds."""

    @abstractmethod
    def rewards(self, means: Array, draws: Array) -> Array:
        """Return the rewards of the selected candidates, shape (R, B)."""


class Environment(ABC):
    """Base class of simulated environments."""

    dimension: int

    @abstractmethod
    def world(self, seeds: list[np.random.SeedSequence]) -> World:
        """Return a world with one replicate per seed."""


def distinct(uniforms: Array, pool: Indices) -> Indices:
    """Return a uniformly random set of n distinct numbers below `pool` >= n (Floyd 1987).

    `uniforms` in [0, 1) have the shape (..., n), and `pool` is a number or has the shape (...).
    """
    out: Indices = np.empty(uniforms.shape, dtype=np.int64)
    found: Indices = np.empty((out.shape[-1], *out.shape[:-1]), dtype=np.int64)
    for i, drawn in enumerate(found):
        last = pool - len(found) + i
        np.multiply(uniforms[..., i], last + 1, out=drawn, casting="unsafe")  # rounds toward zero
        np.copyto(drawn, last, where=(found[:i] == drawn).any(0))
        out[..., i] = drawn
    return out


@dataclass(frozen=True, kw_only=True)
class Synthetic(Environment):
    """A simulated environment with random unit features and a random theta of given norm.

    The defaults are those of the AdaPrivate-TS preprint.

    Parameters
    ----------
    dimension, arms, candidates
        Feature dimension d, number of arms, and number of arms offered per round.
    norm
        Norm of theta.
    link
        Mean reward: ``"logistic"``, 1 / (1 + exp(-theta'x)), or ``"linear"``, 1/2 + theta'x / 4
        clipped to [0, 1].
    reward_distribution
        Distribution of rewards: ``"bernoulli"``, ``"gaussian"`` with standard deviation `spread`,
        or ``"exact"``, the mean itself.
    base
        Added to theta'x; 0 gives a mean reward of 1/2.
    users
        Round t belongs to user t mod `users`; None gives each round its own user.
    """

    dimension: int = 20
    arms: int = 100
    candidates: int = 5
    norm: float = 2.0
    link: Link = "logistic"
    reward_distribution: RewardDistribution = "bernoulli"
    spread: float = 0.25
    base: float = 0.0
    users: int | None = None

    def __post_init__(self) -> None:
        for name in ("dimension", "arms", "candidates"):
            checks.count(name, getattr(self, name), "Pass a whole number >= 1.")
        remedy = "Pass at most as many candidates as arms."
        checks.count("candidates", self.candidates, remedy, at_most=self.arms)
        if self.users is not None:
            checks.count("users", self.users, "Pass the number of users.")
        checks.real("norm", self.norm, "Pass the norm of theta.", at_least=0, at_most=300)
        remedy = "Pass a standard deviation."
        checks.real("spread", self.spread, remedy, at_least=0, at_most=1e50)
        remedy = "Pass the constant added to theta'x."
        checks.real("base", self.base, remedy, at_least=-300, at_most=300)
        checks.one_of("link", self.link, get_args(Link))
        known = get_args(RewardDistribution)
        checks.one_of("reward_distribution", self.reward_distribution, known)

    def world(self, seeds: list[np.random.SeedSequence]) -> World:
        return _SyntheticWorld(self, seeds)

    def features(self, rng: np.random.Generator) -> Array:
        """Return the features of all arms, shape (arms, d)."""
        return _on_sphere(rng.standard_normal((self.arms, self.dimension)))

    def pool(self, first: int, count: int) -> tuple[Indices, int]:
        """Return the first arm on offer in rounds first, ..., shape (count,), and their number."""
        return np.zeros(count, dtype=np.int64), self.arms


@dataclass(frozen=True, kw_only=True)
class RankDeficient(Synthetic):
    """`Synthetic` with all features in `rank` coordinates; these change every `period` rounds.

    Estimates from one period give no information about the next one, and the features of a period
    do not span the space.
    """

    rank: int = 2
    period: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("rank", self.rank, "Pass at most d coordinates.", at_most=self.dimension)
        checks.count("period", self.period, "Pass a number of rounds.")
        remedy = "Pass at least `candidates` arms for each subspace."
        checks.count("candidates", self.candidates, remedy, at_most=self.arms // self.spaces)

    @property
    def spaces(self) -> int:
        """Number of subspaces."""
        return -(-self.dimension // self.rank)

    def features(self, rng: np.random.Generator) -> Array:
        """Return features that are zero outside the arm's subspace."""
        space = np.arange(self.arms) // (self.arms // self.spaces) % self.spaces
        inside = np.arange(self.dimension) // self.rank == space[:, None]
        return _on_sphere(rng.standard_normal((self.arms, self.dimension)) * inside)

    def pool(self, first: int, count: int) -> tuple[Indices, int]:
        each = self.arms // self.spaces
        return (np.arange(first, first + count) // self.period) % self.spaces * each, each


def _on_sphere(vectors: Array) -> Array:
    out: Array = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return out


class _SyntheticWorld(World):
    def __init__(self, environment: Synthetic, seeds: list[np.random.SeedSequence]) -> None:
        self.environment = environment
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        self.features = np.stack([environment.features(rng) for rng in self.generators])
        thetas = [_on_sphere(rng.standard_normal(environment.dimension)) for rng in self.generators]
        linear = environment.norm * np.einsum("rad,rd->ra", self.features, np.stack(thetas))
        linear += environment.base
        if environment.link == "logistic":
            self.means = 1 / (1 + np.exp(-linear))
        else:
            self.means = np.clip(0.5 + linear / 4, 0.0, 1.0)
        self.played = 0

    def block(self, count: int) -> Block:
        environment = self.environment
        size = count * environment.candidates
        gaussian = environment.reward_distribution == "gaussian"
        both = (size if gaussian else size + count,)
        uniforms = stacked([rng.random for rng in self.generators], both)
        drawn = uniforms[:, :size].reshape(-1, count, environment.candidates)
        draws = uniforms[:, size:]
        if gaussian:
            draws = stacked([rng.standard_normal for rng in self.generators], (count,))
        start, pool = environment.pool(self.played, count)
        chosen = distinct(drawn, np.asarray(pool)) + start[:, None]
        rows = np.arange(len(self.generators))[:, None, None] * environment.arms
        rounds = np.arange(self.played, self.played + count)
        self.played += count
        owners = rounds if environment.users is None else rounds % environment.users
        users = np.broadcast_to(owners, draws.shape)
        return Block(chosen, self.means.take(rows + chosen), draws, users)

    def rewards(self, means: Array, draws: Array) -> Array:
        match self.environment.reward_distribution:
            case "bernoulli":
                return (draws < means).astype(float)
            case "gaussian":
                return means + self.environment.spread * draws
            case _:
                return means


@dataclass(frozen=True, kw_only=True)
class Replay(Environment):
    """Replay of logged ratings: a round offers items that its user rated; the reward is the rating.

    No round is discarded, because the log has the reward of every candidate.

    Parameters
    ----------
    items
        Features of the items, shape (items, d).
    user, item, rating
        The log, three arrays of one length: whole numbers, whole numbers below the number of
        items, and rewards.
    candidates
        Number of items offered per round. Users with fewer ratings are excluded.
    """

    items: Array = field(repr=False)
    user: Indices = field(repr=False)
    item: Indices = field(repr=False)
    rating: Array = field(repr=False)
    candidates: int = 5

    def __post_init__(self) -> None:
        remedy = "Pass three arrays of one length."
        checks.count("candidates", self.candidates, "Pass how many items a round offers.")
        for name in ("item", "rating"):
            shape = np.shape(getattr(self, name))
            wrong = shape != np.shape(self.user)
            checks.refuse_if(wrong, f"shape of {name}", shape, "the shape of user", remedy)
        for name in ("user", "item"):
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or not array.size or array.dtype.kind not in "iu":
                rule = "whole numbers, one for each rating"
                raise TypeError(checks.expected(name, "...", rule, remedy))
            object.__setattr__(self, name, array)
        for name, dimensions in (("items", 2), ("rating", 1)):
            array = getattr(self, name)
            array = checks.finite(name, array, np.shape(array), "Pass numbers.")
            rule, wrong = f"of {dimensions} dimensions", array.ndim != dimensions
            checks.refuse_if(wrong, f"shape of {name}", array.shape, rule, remedy)
            object.__setattr__(self, name, array)
        if np.min(self.item) < 0 or np.max(self.item) >= len(self.items):
            rule = f"in [0, {len(self.items)})"
            raise ValueError(checks.expected("item", "...", rule, "Number the items from 0."))
        if np.unique(self.user, return_counts=True)[1].max() < self.candidates:
            rule = f"users with >= {self.candidates} ratings each"
            raise ValueError(checks.expected("user", "...", rule, "Decrease candidates."))

    @property
    def dimension(self) -> int:  # type: ignore[override]
        """Feature dimension."""
        return int(self.items.shape[1])

    def world(self, seeds: list[np.random.SeedSequence]) -> World:
        return _ReplayWorld(self, seeds)


class _ReplayWorld(World):
    def __init__(self, environment: Replay, seeds: list[np.random.SeedSequence]) -> None:
        self.environment = environment
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        # rows are gathered in each round, and numpy copies a table whose rows are not contiguous
        self.features = np.ascontiguousarray(environment.items)[None]
        order = np.argsort(environment.user, kind="stable")
        self.item, self.rating = environment.item[order], environment.rating[order]
        _, self.first, self.count = np.unique(
            environment.user[order], return_index=True, return_counts=True
        )
        self.eligible = np.flatnonzero(self.count >= environment.candidates)

    def block(self, count: int) -> Block:
        shape = (count, self.environment.candidates + 1)
        drawn = stacked([rng.random for rng in self.generators], shape)
        users: Indices = self.eligible[(drawn[..., 0] * len(self.eligible)).astype(np.int64)]
        places = self.first[users][..., None] + distinct(drawn[..., 1:], self.count[users])
        means = self.rating[places]
        return Block(self.item[places], means, np.zeros(users.shape), users)

    def rewards(self, means: Array, draws: Array) -> Array:
        return means
