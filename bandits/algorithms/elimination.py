"""Phased elimination of arms on a core set, for rounds with random candidates.

Each phase estimates theta from its own rounds only, released once at its end. An arm whose upper
confidence bound is below the lower bound of another arm is eliminated permanently (Hanna, Girgis,
Fragouli and Diggavi 2022, after Lattimore and Szepesvari). The end of a phase and the arms it plays
depend only on rounds and features; elimination uses released values.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandits import checks
from bandits.algorithms.bases import Private
from bandits.checks import Array, Indices
from bandits.learning.exploration import Exploration, Noise, Rounds
from bandits.learning.linear_model import Model, Stored, add_round, rows_times, times, transposed
from bandits.learning.schedules import Geometric, Schedule

_DIGITS = 9
"""Digits of the design scores, so that equal scores tie in spite of rounding errors."""


class Phases(Stored):
    """Estimates of theta by phase, newest first, and the design of the open phase.

    `mean` is theta of each of P phases, followed by the lower bound that an arm must reach, shape
    (..., P, d + 1). `root` is S of each phase, where x'S S'x is the squared half-width at x; the
    last S has S S' = A^-1 of the open phase. Shape (..., P + 1, d, d). `width` is that of the
    bounds in standard deviations, and `ridge` that of each phase separately.
    """

    moves = True

    def __init__(
        self,
        phases: int,
        dimension: int,
        lead: tuple[int, ...] = (),
        *,
        ridge: float,
        width: float,
        reward_variance: float,
        noise_variance: float,
        prior_mean: Array | float = 0.0,
    ) -> None:
        self.ridge, self.width = ridge, width
        self.reward_variance, self.noise_variance = reward_variance, noise_variance
        self.prior = np.zeros(dimension) + prior_mean
        self.mean = np.full((*lead, phases, dimension + 1), -np.inf)  # eliminates no arm
        self.mean[..., :-1] = self.prior
        self.root = np.zeros((*lead, phases + 1, dimension, dimension))
        self.root[..., -1, :, :] = np.eye(dimension) / np.sqrt(ridge)
        self.before = np.zeros((*lead, dimension))

    def observe(self, x: Array) -> Array | float:
        return add_round(self.root[..., -1, :, :], x)[1]

    def close(self, features: Array, prefix: Array) -> None:
        """End a phase: estimate theta from its own sum, the difference of two prefixes.

        theta = A^-1 (b + ridge prior) has covariance at most
        A^-1 (reward_variance A + noise_variance) A^-1.
        """
        own, self.before = prefix - self.before + self.ridge * self.prior, prefix
        values, vectors = np.linalg.eigh(transposed(features) @ features)
        values = self.ridge + np.maximum(values, 0.0)
        theta = times(vectors, times(transposed(vectors), own) / values)
        deviations = np.sqrt(self.reward_variance * values + self.noise_variance) / values
        root = self.width * vectors * deviations[..., None, :]
        reach = np.sqrt(np.square(rows_times(features, root)).sum(-1))
        lowest = (times(features, theta) - reach).max(-1, initial=-np.inf, keepdims=True)
        newest = np.concatenate((theta, lowest), axis=-1)[..., None, :]
        self.mean = np.concatenate((newest, self.mean[..., :-1, :]), axis=-2)
        start = np.zeros_like(root) + np.eye(root.shape[-1]) / np.sqrt(self.ridge)
        kept = self.root[..., :-2, :, :]
        ends = root[..., None, :, :], start[..., None, :, :]
        self.root = np.concatenate((ends[0], kept, ends[1]), axis=-3)

    _STATE = ("mean", "root", "before")


def alive(candidates: Array, mean: Array, root: Array) -> Array:
    """Return which candidates (..., n, d) reach the lower bounds of all phases."""
    estimates = mean[..., :-1] @ transposed(candidates)
    reach = np.sqrt(np.square(candidates[..., None, :, :] @ root[..., :-1, :, :]).sum(-1))
    found: Array = (estimates + reach >= mean[..., -1:]).all(-2)
    return found


@dataclass(frozen=True)
class Elimination:
    """Picks the remaining candidate with the largest x'A^-1 x, A of the open phase.

    The step of Wynn (1970) toward the D-optimal design, which is also G-optimal by Kiefer and
    Wolfowitz; the core set is its support. If no candidate remains, the largest estimate of the
    newest phase is picked.
    """

    normals = False
    uniforms = 0

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return the picks, given `mean` and `root` of `Phases`."""
        still = alive(candidates, mean, root)
        unknown = np.square(rows_times(candidates, root[..., -1, :, :])).sum(-1).round(_DIGITS)
        best = times(candidates, mean[..., 0, :-1])
        scores = np.where(still, unknown, np.where(still.any(-1, keepdims=True), -np.inf, best))
        picks: Indices = scores.argmax(-1)
        return picks


@dataclass(frozen=True, kw_only=True)
class CoreSetElimination(Private):
    """Phased elimination on a core set; the sum of each phase is released once.

    Parameters
    ----------
    first, ratio
        Rounds of the first phase, and the ratio of the lengths of successive phases.
    width
        Width of the confidence bounds in standard deviations of rewards and noise, in [0, 1e50].
    noise
        Only ``"independent"``, because each reward enters one phase.
    """

    first: int = 300
    ratio: float = 2.0
    width: float = 1.0

    def __post_init__(self) -> None:
        remedy = "Omit it: phases are estimated separately, so correlation only adds noise."
        checks.refuse_if(self.noise != "independent", "noise", self.noise, "'independent'", remedy)
        checks.width(self.width)
        super().__post_init__()

    @property
    def exploration(self) -> Exploration:
        return Elimination()

    @cached_property
    def schedule(self) -> Schedule:
        return Geometric(self.first, self.ratio)

    def coefficients(self, mean: Array) -> Array:
        """Return the coefficients of the newest phase."""
        return mean[..., 0, :-1]

    def model(self, lead: tuple[int, ...]) -> Model:
        return Phases(
            self.batches,
            self.features,
            lead,
            ridge=self.ridge,
            width=self.width,
            reward_variance=(self.high - self.low) ** 2 / 4,
            noise_variance=(self.noise_multiplier * self.clip_norm) ** 2,
            prior_mean=self.prior,
        )
