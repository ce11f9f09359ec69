"""For private contexts: the sums of x x' and of (r - centre) x, released together with noise."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.bases import Noise, Private
from bandits.learning.exploration import Exploration, UpperConfidence
from bandits.learning.linear_model import Model, NoisyRidge
from bandits.learning.rewards import Channel, WithContexts
from bandits.learning.schedules import Fixed, Schedule


@dataclass(frozen=True, kw_only=True)
class PrivateContexts(Private):
    """For private contexts: x x' and (r - centre) x are released together, both with noise.

    The action of a round shows that round's own context to whoever sees it, so that the claim is
    JOINT differential privacy: everything but the round's own action (Shariff and Sheffet 2018).

    Parameters
    ----------
    batch, width
        As in `AdaPrivateUCB`.
    relation
        ``"REPLACE_SPECIAL"``: the round adds nothing; its number stays public. ``"REPLACE_ONE"``:
        its context and reward are any others, which moves the sums by `replace_distance` as much.
    ridge
        A starts as ridge times the identity; not with ``calibration="published"``.
    calibration
        ``"exact"`` and ``"printed"``, or ``"published"``: the constants of Shariff and Sheffet for
        a binary tree with Gaussian noise. They meet the target by far: `guarantee` tells.
    failure_probability
        Of the ``"published"`` shift, in (0, 1): with which it may leave some A not positive.

    Notes
    -----
    The published noise of a node is (Z + Z')/sqrt2, with Z of deviation ``published_sigma`` in each
    entry, on the sum of v v', v = (x, r - centre). It doubles on the diagonal, so that the upper
    triangle with sqrt2 off the diagonal, and sqrt2 (r - centre) x, has one deviation, sqrt2 sigma.
    The corner (r - centre)^2 is read by nobody, and is not released here. Leaves of the tree are
    batches. The published regulariser is a shift of each released matrix by 2 Upsilon, and
    eigenvalues below Upsilon, which it allows with `failure_probability`, are taken as Upsilon.
    """

    batch: int = 300
    width: float = 1.0
    relation: str = "REPLACE_SPECIAL"
    noise: Noise = "column_normalised"
    ridge: float = 10.0
    failure_probability: float = 0.05
    unit = "one round, all outputs but its own action (joint DP)"

    CALIBRATIONS = ("exact", "printed", "published")

    def __post_init__(self) -> None:
        if self.published:
            checks.real("epsilon", self.epsilon, "Pass the target.", above=0)
            checks.real("delta", self.delta, "Pass a probability, such as 1e-5.", above=0, below=1)
            for name, only, remedy in (
                ("noise", "binary_tree", "The published constants are those of a tree."),
                ("ridge", PrivateContexts.ridge, "Leave it out: the published shift replaces it."),
            ):
                value = getattr(self, name)
                if value != only:
                    rule = f"{only!r} with calibration='published'"
                    raise ValueError(checks.expected(name, value, rule, remedy))
        remedy = "Pass a probability, such as 0.05."
        failure = self.failure_probability
        checks.real("failure_probability", failure, remedy, above=0, below=1)
        super().__post_init__()

    @property
    def published(self) -> bool:
        """Whether noise and regulariser are those of Shariff and Sheffet."""
        return self.calibration == "published"

    @property
    def exploration(self) -> Exploration:
        """How actions are picked."""
        return UpperConfidence(self.width)

    @cached_property
    def schedule(self) -> Schedule:
        """When batches end."""
        return Fixed(self.batch)

    @property
    def reward_weight(self) -> float:
        """By which (r - centre) x is multiplied before both sums get the same noise."""
        return math.sqrt(2) if self.published else 1.0

    @property
    def clip_norm(self) -> float:
        """sqrt(|x x'|_F^2 + |w (r - centre) x|^2) <= sqrt(1 + (w |r - centre|)^2)."""
        return math.hypot(1, self.reward_weight * self.reward_range.clip_norm)

    @property
    def replace_distance(self) -> float:
        """How far a replaced round moves the sums, in clip norms; rounded up, in [sqrt(2), 2].

        With v = (w clip_norm of a reward)^2 it is (v + 2) / sqrt(2 (1 + v)) for v <= 2, else
        2 sqrt(v / (1 + v)). The largest |x x' - y y'|_F^2 + w^2 |r x - s y|^2 has unit x and y and
        r = s at the far end of the range: in c = x'y it is 2 (1 - c^2) + 2 v (1 - c), which is
        largest at c = max(-v / 2, -1). Two features or more reach it.
        """
        v = (self.reward_weight * self.reward_range.clip_norm) ** 2
        distance = (v + 2) / math.sqrt(2 * (1 + v)) if v <= 2 else 2 / math.sqrt(1 + 1 / v)
        return min(2.0, distance * (1 + 2.0**-50))

    @property
    def _levels(self) -> int:
        """The m = 1 + ceil(log2 K) of the published constants."""
        return 1 + (self.batches - 1).bit_length()

    @property
    def published_sigma(self) -> float:
        """Deviation of Z.

        ``4 sqrt(m) (1 + (r - centre)^2) log(4 / delta) / epsilon``
        """
        squared = 1 + self.reward_range.clip_norm**2
        return 4 * math.sqrt(self._levels) * squared * math.log(4 / self.delta) / self.epsilon

    @property
    def published_upsilon(self) -> float:
        """Upsilon, which bounds the noise of all releases; half of the shift.

        ``sigma sqrt(2 m) (4 sqrt(d) + 2 log(2 K / failure_probability))``
        """
        tail = 2 * math.log(2 * self.batches / self.failure_probability)
        factor = 4 * math.sqrt(self.features) + tail
        return self.published_sigma * math.sqrt(2 * self._levels) * factor

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise of one release over `clip_norm`."""
        if not self.published:
            return super().noise_multiplier
        # of a node over how far a record moves all of its nodes together
        moved = self.clip_norm * self.factorisation.sensitivity()
        found = math.sqrt(2) * self.published_sigma / moved
        return dp.Gaussian(found, self.replace_distance).noise_multiplier  # checks it

    def model(self, lead: tuple[int, ...]) -> Model:
        """Return a fresh model."""
        start = {"ridge": self.ridge}
        if self.published:
            start = {"ridge": self.published_upsilon, "shift": self.published_upsilon}
        weight = self.reward_weight
        return NoisyRidge(self.features, lead, **start, reward_weight=weight, prior_mean=self.prior)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        """Return a fresh channel for rewards."""
        d = self.features
        sums = self.sums((*lead, d * (d + 1) // 2 + d), rng)
        return WithContexts(sums, d, reward_weight=self.reward_weight)
