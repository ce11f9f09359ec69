"""The algorithms to start with, each an assembly of a model, an exploration and a schedule.

`LinUCB` and `LinTS` protect nobody. `PrivateUCB` and `PrivateThompson` are ours: centred rewards,
exact noise that is correlated across batches, growing batches, a posterior that knows the noise.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bandits import checks
from bandits.algorithms.bases import Noise, NonPrivate, Private
from bandits.learning.exploration import Exploration, Greedy, Thompson, UpperConfidence
from bandits.learning.linear_model import Model
from bandits.learning.posterior import Estimator, NoiseAware
from bandits.learning.rewards import Range
from bandits.learning.schedules import Geometric, Schedule


@dataclass(frozen=True, kw_only=True)
class LinUCB(NonPrivate):
    """Ridge regression and upper confidence bounds (Li, Chu, Langford and Schapire 2010).

    No privacy.

    Parameters
    ----------
    width
        Standard deviations added to the estimate, >= 0.
    """

    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return UpperConfidence(self.width)


@dataclass(frozen=True, kw_only=True)
class LinTS(NonPrivate):
    """Ridge regression and Thompson sampling (Agrawal and Goyal 2013). No privacy.

    Parameters
    ----------
    scale
        v > 0: theta is drawn from N(mean, v^2 A^-1).
    """

    scale: float = 1.0

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return Thompson(self.scale)


_MOST_BLOCKS = 2**14
"""Side of the factor that all releases together need: a gigabyte."""


@dataclass(frozen=True, kw_only=True)
class _Ours(Private):
    """Centred rewards, exact correlated noise, growing batches, a posterior that knows the noise.

    Parameters
    ----------
    centre, bias
        A `centre` that is given is trusted. Otherwise it is the middle of the range, and what the
        mean reward differs from it is learnt by a constant feature of weight `bias`, 0.25 unless
        said.
    first, ratio
        Rounds of the first batch, and how much longer each is than the one before.
    estimator
        ``"all"``: every release; ``"prefix"``: the last one alone, which is 1 to 5 % worse and
        needs no more than O(d^3) a batch.
    prior_variance
        Variance of a coefficient before the first round; None learns it from the releases.
    reward_variance
        Variance of a reward around its mean; None takes the bound (high - low)^2 / 4.
    """

    noise: Noise = "optimised"
    first: int = 100
    ratio: float = 1.15
    estimator: Estimator = "all"
    prior_variance: float | None = None
    reward_variance: float | None = None

    def __post_init__(self) -> None:
        remedy = "Pass a variance, or None."
        for name in ("prior_variance", "reward_variance"):
            if getattr(self, name) is not None:
                checks.real(name, getattr(self, name), remedy, at_least=1e-100, at_most=1e100)
        if self.estimator not in ("prefix", "all"):
            rule = "'prefix' or 'all'"
            raise ValueError(checks.expected("estimator", self.estimator, rule, "Choose one."))
        super().__post_init__()
        if self.estimator == "all":
            remedy = "Pass a larger first or ratio, or estimator='prefix'."
            blocks = self.batches * self.features
            checks.count("batches * features", blocks, remedy, at_most=_MOST_BLOCKS)

    @cached_property
    def reward_range(self) -> Range:
        """The range of rewards, and the centre: the middle unless said."""
        if self.centre is None:
            return Range.centred_on_middle(self.low, self.high)
        return super().reward_range

    @cached_property
    def constant(self) -> float | None:
        """The weight of the constant feature; None where there is none."""
        return 0.25 if self.bias is None and self.centre is None else self.bias

    @cached_property
    def schedule(self) -> Schedule:
        """When batches end."""
        return Geometric(self.first, self.ratio)

    def model(self, lead: tuple[int, ...]) -> Model:
        """Return a fresh model."""
        width = self.high - self.low
        constant = self.constant
        far = self.reward_range.clip_norm
        bias = None if constant is None else (far / constant) ** 2
        return NoiseAware(
            self.features,
            lead,
            noise_covariance=self._noise_covariance,
            reward_variance=self.reward_variance or width**2 / 4,
            prior_variance=self.prior_variance,
            prior_mean=self.prior,
            estimator=self.estimator,
            bias_variance=bias,
            unit=width,
        )

    @cached_property
    def _noise_covariance(self) -> "np.ndarray[tuple[int, int], np.dtype[np.float64]]":
        return self.sums((self.features,), np.random.default_rng(0)).noise_covariance(self.batches)


@dataclass(frozen=True, kw_only=True)
class PrivateUCB(_Ours):
    """The default: upper confidence bounds from a posterior that knows the noise.

    With changing candidates a `width` of 0 does as well. Where every round offers the same few, it
    gets stuck.

    Parameters
    ----------
    width
        Posterior standard deviations added to the estimate, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bandits import PrivateUCB
    >>> agent = PrivateUCB(dimension=3, rounds=1000, epsilon=1.0, delta=1e-5).start()
    >>> ticket = agent.select(np.eye(3))
    >>> agent.update(ticket, 1.0)
    >>> print(agent.guarantee(1e-5))
    (1, 1e-05)-DP for the reward of one round, REPLACE_ONE, by gaussian (an upper bound)
    """

    width: float = 1.0

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return UpperConfidence(self.width) if self.width else Greedy()


@dataclass(frozen=True, kw_only=True)
class PrivateThompson(_Ours):
    """Thompson sampling from a posterior that knows the noise.

    Parameters
    ----------
    scale
        v > 0: theta is drawn from N(mean, v^2 covariance).
    """

    scale: float = 0.1

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return Thompson(self.scale)
