"""Exploration rules, which pick an action given the model's mean and covariance.

Random numbers are arguments, one row per round, so the same code runs one live round, one round of
many replicates, or a batch of them. Normals and uniforms are separate sequences, so the numbers of
a round do not depend on how many rounds are drawn at a time.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy import multiply, sqrt
from scipy.linalg.blas import dgemv, dsyrk
from scipy.special import ndtr

from bandits import checks
from bandits.checks import Array, Indices
from bandits.learning.linear_model import rows_times, sum_with, times

Rounds = int | Indices


class Noise(NamedTuple):
    """Random numbers of a round, of many replicates, or of B rounds of many replicates."""

    normals: Array
    """Shape (..., d), or (..., 0) if unused."""
    uniforms: Array
    """Shape (..., 2), or (..., 0) if unused."""


class Exploration(Protocol):
    """Rule that picks a candidate."""

    @property
    def normals(self) -> int:
        """Number of vectors of d normals per round."""

    @property
    def uniforms(self) -> int:
        """Number of uniforms per round."""

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return the picks among candidates (..., n, d).

        `mean` (..., d) and `root` (..., d, d), a square root of the covariance, are the model's;
        `batch` counts from 0, and `rounds`, a number or shape (B,), from 1.
        """


class ByScore(ABC):
    """Deterministic rule: the score of a candidate depends only on its features."""

    normals = 0
    uniforms = 0

    @abstractmethod
    def scores(self, candidates: Array, mean: Array, root: Array) -> Array:
        """Return the scores (..., n) of candidates (..., n, d)."""

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        best: Indices = self.scores(candidates, mean, root).argmax(-1)
        return best


@dataclass(frozen=True)
class Greedy(ByScore):
    """Picks the largest estimated reward x'mean, without exploration."""

    def scores(self, candidates: Array, mean: Array, root: Array) -> Array:
        return times(candidates, mean)


@dataclass(frozen=True)
class UpperConfidence(ByScore):
    """Picks the largest x'mean + width |x|, |x|^2 = x' covariance x; width in [0, 1e50]."""

    width: float = 1.0

    def __post_init__(self) -> None:
        checks.width(self.width)

    def scores(self, candidates: Array, mean: Array, root: Array) -> Array:
        reach = rows_times(candidates, root)
        multiply(reach, reach, reach)
        squares = reach.dot(np.full(mean.shape[-1], self.width**2))
        return sum_with(sqrt(squares, squares), candidates, mean)


@dataclass(frozen=True)
class Thompson:
    """Picks the best candidate for a new theta ~ N(mean, v^2 covariance) in each round.

    v is `scale`, in [1e-50, 1e50], times `decay`, in (0, 1], to the power of the batch.
    """

    scale: float = 1.0
    decay: float = 1.0
    normals = 1
    uniforms = 0

    def __post_init__(self) -> None:
        checks.moderate("scale", self.scale, "Pass the factor v of the standard deviation.")
        checks.real("decay", self.decay, "Pass a factor, such as 0.95.", above=0, at_most=1)

    def factor(self, batch: int) -> float:
        """Return v in a batch."""
        return self.scale * self.decay**batch

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        theta = sum_with(mean, root, noise.normals, self.factor(batch))
        best: Indices = times(candidates, theta).argmax(-1)
        return best


def prepared(
    rule: Exploration, candidates: Array, mean: Array, root: Array, batch: int
) -> Callable[[Noise], Any] | None:
    """Return a faster `rule.pick` for arrays that change in place between calls, or None.

    Its calls share the arrays of their results.
    """
    total = np.empty(len(candidates))
    best = total.argmax
    if type(rule) is Thompson:
        scale, columns, fit = rule.factor(batch), root.T, candidates.dot

        def sampled(noise: Noise) -> Any:
            fit(dgemv(scale, columns, noise[0], 1.0, mean, 0, 1, 0, 1, 1), total)
            return best()

        return sampled
    if type(rule) is not UpperConfidence:
        return None
    reach = np.empty(candidates.shape)
    products = np.zeros((len(candidates), len(candidates)))
    reached = partial(candidates.dot, root, reach)
    multiplied = partial(dsyrk, rule.width**2, reach.T, 0.0, products.T, 1, 0, 1)
    rooted = partial(sqrt, products.diagonal(), total)
    added = partial(dgemv, 1.0, candidates.T, mean, 1.0, total, 0, 1, 0, 1, 1, 1)

    def bounded(_: Noise) -> Any:
        reached()
        multiplied()
        rooted()
        added()
        return best()

    return bounded


@dataclass(frozen=True)
class Forced:
    """Picks a uniform candidate in round t with probability min(1, d log t / (t gamma)).

    Otherwise, `base` picks. gamma is in [1e-50, 1e50].
    """

    base: Exploration
    gamma: float = 1.0
    uniforms = 2

    def __post_init__(self) -> None:
        checks.moderate("gamma", self.gamma, "Pass gamma of d log t / (t gamma), such as 1.")

    @property
    def normals(self) -> int:
        return self.base.normals

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        picked = self.base.pick(candidates, mean, root, noise, batch, rounds)
        arms, dimension = candidates.shape[-2:]
        forced = noise.uniforms[..., 0] < dimension * np.log(rounds) / (rounds * self.gamma)
        any_arm = (noise.uniforms[..., 1] * arms).astype(np.int64)
        return np.where(forced, any_arm, picked)


FEW = 16
"""Up to this many candidates, the rounds of a live learner share arrays."""
DRAWS = 16
"""Number of picks of a randomized rule that `Mixed` averages."""


@dataclass(frozen=True)
class Mixed:
    """A uniform candidate with probability `explore` in (0, 1], else a pick of `base`.

    If `base` uses normals, it picks 16 times, and one of these picks is played. Given them, the
    probabilities are exact and at least explore / n; they average to those of `base`.
    """

    base: Exploration
    explore: float

    @property
    def normals(self) -> int:
        return DRAWS if self.base.normals else 0

    @property
    def uniforms(self) -> int:
        return 1 + self.base.uniforms

    def probabilities(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Array:
        """Return the probabilities (..., n) of the candidates, given the random numbers."""
        n, d = candidates.shape[-2:]
        picks = []
        for i in range(max(self.normals, 1)):
            own = Noise(noise.normals[..., i * d : (i + 1) * d], noise.uniforms[..., 1:])
            picks.append(self.base.pick(candidates, mean, root, own, batch, rounds))
        share = (np.stack(picks)[..., None] == np.arange(n)).mean(0)
        found: Array = self.explore / n + (1 - self.explore) * share
        return found

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        return self.drawn(self.probabilities(candidates, mean, root, noise, batch, rounds), noise)

    @staticmethod
    def drawn(probabilities: Array, noise: Noise) -> Indices:
        """Return the picks, given `probabilities` and the same random numbers."""
        reached = probabilities.cumsum(-1)[..., :-1] <= noise.uniforms[..., :1]
        picks: Indices = reached.sum(-1)
        return picks


@dataclass(frozen=True)
class Challenging:
    """Spreads the rounds of a batch over the candidates that may be better than the leader.

    The leader has the largest estimate. Let another candidate be d below it, with a posterior
    standard deviation s of the difference. Its weight is (2 Phi(-d / s))^2, against 1 for the
    leader, if the remaining rounds times E max(difference, 0) exceed `cost`, else 0. The rounds are
    divided in proportion to the weights by multiples of the golden ratio, without random numbers.
    """

    horizon: int
    cost: float
    normals = 0
    uniforms = 0

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        return self.divided(*self.weighted(candidates, mean, root), rounds)

    def weighted(self, candidates: Array, mean: Array, root: Array) -> tuple[Array, Array]:
        """Return the weights (..., n) of candidates, and E max(difference, 0); inf for leaders."""
        means, reach = times(candidates, mean), rows_times(candidates, root)
        leads = np.arange(means.shape[-1]) == means.argmax(-1)[..., None]
        below = means.max(-1, keepdims=True) - means
        apart = reach - leads[..., None, :].astype(float) @ reach
        deviations = np.sqrt(np.einsum("...i,...i->...", apart, apart))
        z = below / np.maximum(deviations, _TINY)
        better = ndtr(-z)
        gains = deviations * (np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)) - below * better
        return 4 * better * better, np.where(leads, math.inf, gains)

    def divided(self, weights: Array, gains: Array, rounds: Rounds) -> Indices:
        """Return the picks of rounds, given the results of `weighted`."""
        rounds = rounds if isinstance(rounds, int) else rounds[:, None]
        left = np.maximum(self.horizon - rounds, _TINY)
        sums = (weights * (left * gains > self.cost)).cumsum(-1)
        picks: Indices = (sums <= rounds * _GOLDEN % 1.0 * sums[..., -1:]).sum(-1)
        return picks


_TINY = 1e-100
"""Least deviation in z; its square does not overflow, whatever rounding leaves of equal rows."""
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Repeating:
    """`base`, or `sampling` in batches whose rounds repeat one set of candidates.

    In such a batch, a deterministic rule plays one arm in every round. So the learner samples in
    the first batch, and in a later one if most of the first rounds of the batch before repeated the
    candidates of the previous round.
    """

    base: Exploration
    sampling: Exploration

    @property
    def normals(self) -> int:
        return max(self.base.normals, self.sampling.normals)

    @property
    def uniforms(self) -> int:
        return self.base.uniforms

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        return self.base.pick(candidates, mean, root, noise, batch, rounds)


def mixed(rule: Exploration, explore: float) -> Exploration:
    """Return a rule that plays a uniform candidate with probability `explore`."""
    if not explore:
        return rule
    if isinstance(rule, Repeating):
        return Repeating(mixed(rule.base, explore), mixed(rule.sampling, explore))
    return Mixed(rule, explore)


class Repeats:
    """Whether each replicate samples, decided by comparing the first rounds of a batch.

    Candidates are public, and so is the decision.
    """

    def __init__(self, lead: tuple[int, ...], dimension: int) -> None:
        self.direction = np.cos(np.arange(1.0, dimension + 1))
        self.sampling = np.ones(lead, dtype=bool)
        self.any = True
        self.same = np.zeros(lead, dtype=np.int64)
        self.compared = 0
        self.last = np.full(lead, np.nan)

    def add(self, sums: Array) -> None:
        """Compare rounds, given the sum of x'direction over candidates, shape (..., B)."""
        sums = sums[..., : COMPARED - self.compared]
        if sums.shape == (1,):  # a round of a live learner
            self.same = self.same + (abs(sums[0] - self.last) <= _SAME)
        elif sums.shape[-1]:
            before = np.concatenate((self.last[..., None], sums[..., :-1]), axis=-1)
            self.same += (np.abs(sums - before) <= _SAME).sum(-1)
        if sums.shape[-1]:
            self.last = sums[..., -1]
            self.compared += sums.shape[-1]

    def end(self) -> None:
        """End a batch; a batch of one round leaves the decision unchanged."""
        if self.compared > 1:
            self.sampling = np.asarray(2 * self.same >= self.compared - 1)
            self.any = bool(self.sampling.any())
        self.same, self.compared = np.zeros_like(self.same), 0
        self.last = np.full_like(self.last, np.nan)

    def state(self) -> list[float | None]:
        last = float(self.last)
        known = None if np.isnan(last) else last
        return [float(self.sampling), float(self.same), self.compared, known]

    def load(self, state: list[float | None]) -> None:
        sampling, same, compared, last = state
        self.sampling, self.same = np.array(bool(sampling)), np.array(int(same or 0))
        self.any = bool(sampling)
        self.compared, self.last = int(compared or 0), np.array(np.nan if last is None else last)


COMPARED = 16
"""Number of rounds of a batch that are compared."""
_SAME = 1e-9


def stacked(draws: list[Callable[..., Array]], shape: tuple[int, ...]) -> Array:
    """Return the stacked samples of several generators, shape (len(draws), *shape)."""
    out = np.empty((len(draws), *shape))
    if out.size:
        for draw, own in zip(draws, out, strict=True):
            draw(out=own)
    return out


class Draws:
    """The two sequences of random numbers, for a live learner (one seed) or for replicates.

    Exploration is post-processing of releases, so its random numbers may be seeded.
    """

    def __init__(self, seeds: np.random.SeedSequence | list[np.random.SeedSequence]) -> None:
        self.live = not isinstance(seeds, list)
        each = seeds if isinstance(seeds, list) else [seeds]
        pairs = [[np.random.default_rng(child) for child in seed.spawn(2)] for seed in each]
        self.generators = list(zip(*pairs, strict=True))

    def noise(self, exploration: Exploration, rounds: int, dimension: int) -> Noise:
        """Return the numbers of the next rounds, shape (R, B, ...), or (B, ...) if live."""
        normals = (rounds, dimension * exploration.normals)
        uniforms = (rounds, exploration.uniforms)
        noise = Noise(
            stacked([rng.standard_normal for rng in self.generators[0]], normals),
            stacked([rng.random for rng in self.generators[1]], uniforms),
        )
        return Noise(noise.normals[0], noise.uniforms[0]) if self.live else noise

    def state(self) -> list[dict[str, object]]:
        return [dict(rngs[0].bit_generator.state) for rngs in self.generators]

    def load(self, state: list[dict[str, object]]) -> None:
        for rngs, each in zip(self.generators, state, strict=True):
            rngs[0].bit_generator.state = each
