"""What an algorithm is: a frozen description, from which learners and live agents are built.

A description names the parts; `agents` holds the named ones. As a mechanism of `privacy` it is
validated when it is made, can be compared, and says what it guarantees before anything runs.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np
from scipy.linalg.blas import dsyrk

import privacy as dp
from bandits import _checks
from bandits._checks import Array
from bandits.exploration import Draws, Exploration
from bandits.learner import Learner
from bandits.linear_model import Model, Ridge
from bandits.rewards import (
    MARGIN,
    RELATIONS,
    REPLACE_ONE,
    Channel,
    Open,
    Private,
    Range,
    unprotected,
)
from bandits.schedules import Schedule

if TYPE_CHECKING:
    from bandits.live import Agent

Noise = Literal[
    "independent",
    "binary_tree",
    "honaker_tree",
    "square_root",
    "column_normalised",
    "optimised",
]
_FEW = 16
"""Candidates up to which all their products take less time than their squares alone."""
_MOST_RELEASES = {
    "binary_tree": 4096,
    "honaker_tree": 1024,
    "optimised": 1024,
}
"""Where a matrix has to be written out; it takes seconds."""
Seeds = np.random.SeedSequence | list[np.random.SeedSequence]


@dataclass(frozen=True, kw_only=True)
class Algorithm(ABC):
    """Base of every algorithm: the features, the horizon and the rewards.

    Parameters
    ----------
    dimension
        Length d of a feature vector, >= 1. Features of norm above 1 are scaled to norm 1.
    rounds
        The most rounds that will be played; public, and fixed before the first.
    low, high
        The public range of rewards; what lies outside is clipped.
    centre
        Subtracted from rewards; public, in [low, high]. None takes the algorithm's own.
    bias
        Weight w in [0.001, 0.999] of a constant feature, so that the mean reward is learnt: x
        becomes (sqrt(1 - w^2) x, w). None adds none.
    prior_mean
        theta before the first round, d numbers. It must be public, or paid for elsewhere.
    """

    dimension: int
    rounds: int
    low: float = 0.0
    high: float = 1.0
    centre: float | None = None
    bias: float | None = None
    prior_mean: Sequence[float] | None = None

    def __post_init__(self) -> None:
        _checks.count("dimension", self.dimension, "Pass the length of a feature vector.")
        _checks.count("rounds", self.rounds, "Pass the most rounds that will be played.")
        if self.bias is not None:
            remedy = "Pass the weight of the constant feature, such as 0.25."
            _checks.real("bias", self.bias, remedy, at_least=0.001, at_most=0.999)
        if self.prior_mean is not None:
            remedy = "Pass one number for each feature."
            mean = _checks.finite("prior_mean", self.prior_mean, (self.dimension,), remedy)
            largest = float(np.abs(mean).max())
            _checks.real("largest prior_mean", largest, remedy, at_most=1e50)
            object.__setattr__(self, "prior_mean", tuple(mean.tolist()))
        for field in fields(self):
            object.__setattr__(self, field.name, _plain(getattr(self, field.name)))
        _ = self.reward_range, self.exploration, self.schedule  # each checks its own numbers

    @cached_property
    def reward_range(self) -> Range:
        """The range of rewards and the centre."""
        centre = self.low if self.centre is None else self.centre
        return Range(self.low, self.high, centre)

    @cached_property
    def features(self) -> int:
        """Length of the feature vectors that the model sees."""
        return self.dimension + (self.constant is not None)

    @cached_property
    def constant(self) -> float | None:
        """The weight of the constant feature; None where there is none."""
        return self.bias

    @cached_property
    def _shrink(self) -> float:
        """By what features are multiplied to make room for the constant."""
        return 1.0 if self.constant is None else math.sqrt(1 - self.constant**2)

    @property
    def prior(self) -> Array:
        """The prior mean of all coefficients that the model sees."""
        prior = np.zeros(self.features)
        if self.prior_mean is not None:
            prior[: self.dimension] = np.array(self.prior_mean) / self._shrink
        return prior

    def theta(self, coefficients: Array) -> Array:
        """Return the coefficients of the features as they were given, from the model's."""
        return coefficients[..., : self.dimension] * self._shrink

    @property
    @abstractmethod
    def exploration(self) -> Exploration:
        """How actions are picked."""

    @property
    @abstractmethod
    def schedule(self) -> Schedule:
        """When batches end."""

    @abstractmethod
    def model(self, lead: tuple[int, ...]) -> Model:
        """Return a fresh model."""

    @abstractmethod
    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        """Return a fresh channel; `rng` None takes the operating system's randomness."""

    @abstractmethod
    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return what the whole transcript guarantees, however the rounds are played."""

    def prepared(self, candidates: Array) -> Array:
        """Return candidates (..., n, d) scaled into the unit ball, with the constant feature."""
        if candidates.ndim == 2 and len(candidates) <= _FEW:
            # of all products of two vectors the largest is a square
            squares = dsyrk(1.0, candidates.T, trans=1)
        else:
            squares = np.einsum("...i,...i->...", candidates, candidates)
        # neither of these warns of an overflow, which NumPy's products do
        if not squares.item(squares.argmax()) <= MARGIN:
            candidates = _shortened(candidates)
        constant = self.constant
        if constant is None:
            return candidates
        out = np.empty((*candidates.shape[:-1], self.features))
        out[..., :-1] = candidates
        out[..., -1] = constant / self._shrink
        out *= self._shrink
        return out

    def learner(self, seeds: Seeds, rng: np.random.Generator | None) -> Learner:
        """Return a fresh learner, with a replicate axis if `seeds` is a list."""
        lead = (len(seeds),) if isinstance(seeds, list) else ()
        return Learner(
            model=self.model(lead),
            exploration=self.exploration,
            channel=self.channel(lead, rng),
            schedule=self.schedule,
            draws=Draws(seeds),
            dimension=self.features,
        )

    def start(self, *, simulation: bool = False, seed: int | None = None) -> "Agent":
        """Return a live agent.

        Parameters
        ----------
        simulation
            Say True to use `seed` and float noise; what comes out must then protect nobody.
        seed
            In a simulation alone. Otherwise noise comes from the operating system.
        """
        from bandits.live import Agent

        if seed is not None and not simulation:
            remedy = "Leave it out, or pass simulation=True for numbers that protect nobody."
            raise ValueError(
                _checks.expected("seed", seed, "None for noise that is released", remedy)
            )
        explore, noise = np.random.SeedSequence(seed).spawn(2)
        rng = np.random.default_rng(noise) if simulation else None
        return Agent(self, self.learner(explore, rng), simulation=simulation)

    @staticmethod
    def restore(folder: str | PathLike[str]) -> "Agent":
        """Return the agent that `Agent.save` wrote to a folder."""
        from bandits.checkpoint import restore

        return restore(folder)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able form that `algorithm_from_json` reads back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"type": type(self).__name__, **values}


def _ridge(ridge: float) -> None:
    _checks.moderate("ridge", ridge, "Pass the regulariser, such as 1.")


def _plain(value: Any) -> Any:
    """Return a number of NumPy or another library as Python's own, which JSON knows."""
    if isinstance(value, bool | int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _shortened(features: Array) -> Array:
    """Return features scaled to norm 1 where they are longer, however long."""
    if not np.isfinite(features).all():
        raise ValueError(_checks.expected("candidates", "...", "finite", "Pass finite features."))
    largest = np.maximum(np.abs(features).max(-1, keepdims=True), 1.0)
    scaled = features / largest
    norms = np.sqrt(np.square(scaled).sum(-1, keepdims=True))
    shortened: Array = scaled / np.maximum(norms, 1 / largest)
    return shortened


@dataclass(frozen=True, kw_only=True)
class _NonPrivate(Algorithm):
    """Learns from each reward at once, and protects nobody.

    Parameters
    ----------
    ridge
        A starts as ridge times the identity, > 0.
    """

    ridge: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _ridge(self.ridge)

    @property
    def schedule(self) -> Schedule:
        from bandits.schedules import Fixed

        return Fixed(1)

    def model(self, lead: tuple[int, ...]) -> Model:
        return Ridge(self.features, lead, ridge=self.ridge, prior_mean=self.prior)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        return Open(self.features, lead)

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return the guarantee of no privacy: an infinite epsilon."""
        return unprotected(delta, REPLACE_ONE, "rewards are used as they are")


@dataclass(frozen=True, kw_only=True)
class _Private(Algorithm):
    """An algorithm whose batch sums of rewards are released as noisy running sums.

    Parameters
    ----------
    epsilon, delta
        The target, met by the whole transcript. delta well below 1 / rounds.
    relation
        What changes between neighbours: ``REPLACE_ONE``, the reward of one round is any other;
        ``REPLACE_SPECIAL``, it is missing. Rounds and contexts are public in both.
    noise
        How the noise of the releases is correlated: a factorisation of `privacy.Factorisation`.
    calibration
        ``"exact"``: the smallest noise. ``"printed"``: rho = (sqrt(epsilon + L) - sqrt(L))^2 with
        L = log(1/delta), valid and loose.
    """

    epsilon: float
    delta: float
    relation: str = "REPLACE_ONE"
    noise: Noise = "independent"
    calibration: str = "exact"

    ridge: float = 1.0

    CALIBRATIONS: ClassVar[tuple[str, ...]] = ("exact", "printed")
    unit: ClassVar[str] = "the reward of one round"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relation not in RELATIONS:
            remedy = "Rounds are public: a reward can be replaced, or missing."
            raise ValueError(
                _checks.expected(
                    "relation", self.relation, f"one of {[str(r) for r in RELATIONS]}", remedy
                )
            )
        object.__setattr__(self, "relation", str(self.relation))
        for name, value, known in (
            ("noise", self.noise, get_args(Noise)),
            ("calibration", self.calibration, self.CALIBRATIONS),
        ):
            if value not in known:
                raise ValueError(
                    _checks.expected(name, value, f"one of {known}", "Choose one of them.")
                )
        _ridge(self.ridge)
        remedy = f"Pass longer batches, or another noise than {self.noise!r}."
        most = _MOST_RELEASES.get(self.noise, 2**31)
        _checks.count("batches", self.batches, remedy, at_most=most)
        _ = self.noise_multiplier  # checks epsilon and delta
        if self.rounds * self.delta >= 1:
            warnings.warn(
                f"rounds * delta = {self.rounds * self.delta:.3g} is not small: such a delta lets "
                "a mechanism show some rewards outright. Pass delta well below 1 / rounds.",
                stacklevel=3,
            )

    @property
    def replaced(self) -> bool:
        """Whether the relation is REPLACE_ONE."""
        return self.relation == REPLACE_ONE

    @property
    def clip_norm(self) -> float:
        """Norm bound of what the protected unit adds to the sums."""
        return self.reward_range.clip_norm

    @property
    def replace_distance(self) -> float:
        """How far it moves when it is replaced, in clip norms."""
        return self.reward_range.replace_distance

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of one release over `clip_norm`."""
        if self.calibration == "printed":
            rho = dp.rho_from_epsilon(self.epsilon, self.delta, conversion="classic")
            distance = self.replace_distance if self.replaced else 1.0
            return distance * dp.noise_multiplier_from_rho(rho)
        return dp.calibrate(
            lambda multiplier: dp.Gaussian(multiplier, self.replace_distance),
            epsilon=self.epsilon,
            delta=self.delta,
            relation=dp.NeighboringRelation(self.relation),
        )

    @property
    def mechanism(self) -> dp.Gaussian | dp.PoissonSampled:
        """All releases together, as one mechanism of `privacy`."""
        return dp.Gaussian(self.noise_multiplier, self.replace_distance)

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return what the whole transcript guarantees, however the rounds are played.

        Parameters
        ----------
        delta
            In (0, 1).
        """
        relation = dp.NeighboringRelation(self.relation)
        answer = dp.account(self.mechanism, relation=relation).guarantee(delta=delta)
        return replace(answer, unit=self.unit)

    @cached_property
    def batches(self) -> int:
        """The most releases: K."""
        return self.schedule.batches(self.rounds, self.features, self.ridge)

    @cached_property
    def factorisation(self) -> dp.Factorisation:
        """How the noise of the K releases is correlated."""
        build = getattr(dp.Factorisation, self.noise)
        found: dp.Factorisation = build(self.batches)
        return found

    @property
    def participation(self) -> dp.Participation:
        """In how many releases the protected unit takes part."""
        return dp.Participation.once()

    def sums(self, shape: tuple[int, ...], rng: np.random.Generator | None) -> dp.RunningSum:
        """Return a fresh running sum of vectors of a shape."""
        return dp.RunningSum(
            self.factorisation,
            noise_multiplier=self.noise_multiplier,
            shape=shape,
            clip_norm=self.clip_norm * MARGIN,
            participation=self.participation,
            relation=dp.NeighboringRelation(self.relation),
            replace_distance=self.replace_distance,
            step=self._step,
            simulation=rng is not None,
            rng=rng,
        )

    @property
    def _step(self) -> float:
        """The lattice: fine against the noise, and wide enough that no batch's sum is clamped.

        Sums of up to 2^42 steps are exact. A lattice that is coarse against the noise would cost
        noise: batches whose rounds all add up to more than 2^26 noises, beyond 10^8 rounds, are
        clamped.
        """
        longest = self.schedule.length(self.batches - 1)  # no batch is longer than the last
        rounds = self.rounds if longest is None else min(longest, self.rounds)
        reach = rounds * max(self.clip_norm, self.reward_range.clip_norm)
        noise = self.noise_multiplier * self.clip_norm
        step = min(max(noise * 2**-31, reach * 2**-42), noise * 2**-16)
        return math.ldexp(1.0, math.frexp(step)[1])

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        return Private(self.sums((*lead, self.features), rng))
