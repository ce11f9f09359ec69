"""Phased elimination of arms on a core set, where the candidates of a round come at random.

Arms are played in phases. Each phase estimates theta from its own rounds alone, released once, at
its end. An arm whose upper bound lies below the lower bound of another arm is out for good (Hanna,
Girgis, Fragouli and Diggavi 2022, after Lattimore and Szepesvari). Only rounds and features decide
when a phase ends and what it plays; elimination reads releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandits import checks
from bandits.algorithms.bases import Private
from bandits.checks import Array, Indices
from bandits.learning.exploration import Exploration, Noise, Rounds
from bandits.learning.linear_model import Model, add_round, rows_times, times, transposed
from bandits.learning.schedules import Geometric, Schedule

_DIGITS = 9
"""Of the scores of the design: candidates that it knows equally well are a tie, rounding or not."""


class Phases:
    """What each phase said of theta, the newest first, and the design of the open phase.

    Parameters
    ----------
    phases, dimension, lead
        P; features' dimension d; shape of the replicate axis.
    ridge, prior_mean
        As in `Ridge`, for each phase anew.
    width
        Of the confidence bounds, in standard deviations.
    reward_variance, noise_variance
        Of a reward around its mean, and of the noise of a release.

    Attributes
    ----------
    mean
        For each phase theta and, behind it, the lower bound that an arm has to reach: (..., P, d +
        1).
    root
        For each phase S with x'S S'x the squared reach of x, and last S S' = A^-1 of the open
        phase: shape (..., P + 1, d, d).
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
        self.mean = np.full((*lead, phases, dimension + 1), -np.inf)  # which every arm reaches
        self.mean[..., :-1] = self.prior
        self.root = np.zeros((*lead, phases + 1, dimension, dimension))
        self.root[..., -1, :, :] = np.eye(dimension) / np.sqrt(ridge)
        self.before = np.zeros((*lead, dimension))

    def observe(self, x: Array) -> Array | float:
        """Add x x' to the A of the open phase."""
        return add_round(self.root[..., -1, :, :], x)[1]

    def close(self, features: Array, prefix: Array) -> None:
        """End a phase: estimate theta from its own sum, prefix minus the prefix before.

        theta = A^-1 (b + ridge prior) has covariance A^-1 (reward_variance A + noise_variance) A^-1
        and less.
        """
        own, self.before = prefix - self.before + self.ridge * self.prior, prefix
        values, vectors = np.linalg.eigh(transposed(features) @ features)
        values = self.ridge + np.maximum(values, 0.0)
        theta = times(vectors, times(transposed(vectors), own) / values)
        deviations = np.sqrt(self.reward_variance * values + self.noise_variance) / values
        root = self.width * vectors * deviations[..., None, :]
        reach = np.sqrt(np.square(rows_times(features, root)).sum(-1))
        lowest = (_estimates(features, theta) - reach).max(-1, initial=-np.inf, keepdims=True)
        newest = np.concatenate((theta, lowest), axis=-1)[..., None, :]
        self.mean = np.concatenate((newest, self.mean[..., :-1, :]), axis=-2)
        start = np.zeros_like(root) + np.eye(root.shape[-1]) / np.sqrt(self.ridge)
        kept = self.root[..., :-2, :, :]
        ends = root[..., None, :, :], start[..., None, :, :]
        self.root = np.concatenate((ends[0], kept, ends[1]), axis=-3)

    def state(self) -> dict[str, Array]:
        """Return the arrays that change."""
        return {"mean": self.mean, "root": self.root, "before": self.before}

    def load(self, state: Mapping[str, Array]) -> None:
        """Put the arrays back."""
        names = ("mean", "root", "before")
        self.mean, self.root, self.before = (state[name].copy() for name in names)


def _estimates(features: Array, theta: Array) -> Array:
    """Return x'theta of the rows (..., n, d) for theta (..., d): shape (..., n)."""
    found: Array = (features @ theta[..., None])[..., 0]
    return found


def alive(candidates: Array, mean: Array, root: Array) -> Array:
    """Return which candidates (..., n, d) reach the lower bound of every one of the `Phases`."""
    estimates = mean[..., :-1] @ transposed(candidates)
    reach = np.sqrt(np.square(candidates[..., None, :, :] @ root[..., :-1, :, :]).sum(-1))
    found: Array = (estimates + reach >= mean[..., -1:]).all(-2)
    return found


@dataclass(frozen=True)
class Elimination:
    """Of the candidates that are alive, the one that the design of the open phase knows least.

    That is x'A^-1 x, the step by which Wynn (1970) approaches the D-optimal design, which by Kiefer
    and Wolfowitz is the G-optimal one: its support, the core set, is found among what is offered.
    Where no candidate is alive, it takes the best estimate of the newest phase.
    """

    normals = False
    uniforms = 0

    def pick(
        self, candidates: Array, mean: Array, root: Array, noise: Noise, batch: int, rounds: Rounds
    ) -> Indices:
        """Return the picks; `mean` and `root` are those of `Phases`."""
        still = alive(candidates, mean, root)
        unknown = np.square(rows_times(candidates, root[..., -1, :, :])).sum(-1).round(_DIGITS)
        best = _estimates(candidates, mean[..., 0, :-1])
        scores = np.where(still, unknown, np.where(still.any(-1, keepdims=True), -np.inf, best))
        picks: Indices = scores.argmax(-1)
        return picks


@dataclass(frozen=True, kw_only=True)
class CoreSetElimination(Private):
    """Phased elimination on a core set, with the sum of each phase released once.

    Parameters
    ----------
    first, ratio
        Rounds of the first phase, and how much longer each is than the one before.
    width
        Of the confidence bounds, in standard deviations of rewards and noise, in [0, 1e50].
    noise
        ``"independent"``: a reward enters one phase.
    """

    first: int = 300
    ratio: float = 2.0
    width: float = 1.0

    def __post_init__(self) -> None:
        if self.noise != "independent":
            remedy = "Each phase is estimated alone: noise shared with others only adds to it."
            raise ValueError(checks.expected("noise", self.noise, "'independent'", remedy))
        checks.width(self.width)
        super().__post_init__()

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return Elimination()

    @cached_property
    def schedule(self) -> Schedule:
        """When phases end."""
        return Geometric(self.first, self.ratio)

    def theta(self, coefficients: Array) -> Array:
        """Return the newest phase's coefficients of the features as they were given."""
        return super().theta(coefficients[..., 0, :-1])

    def model(self, lead: tuple[int, ...]) -> Model:
        """Return a fresh model."""
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
