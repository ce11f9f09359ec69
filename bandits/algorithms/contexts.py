"""Private contexts: noisy sums of x x' and of (r - center) x, released together."""

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
    """LinUCB with private contexts: noisy sums of x x' and (r - center) x, released together.

    The guarantee is joint differential privacy (Shariff and Sheffet 2018): it covers all outputs
    except the action of the protected round itself, which depends on that round's context.

    Parameters
    ----------
    batch, width
        As in `AdaPrivateUCB`.
    relation
        ``"REPLACE_SPECIAL"``: the round contributes nothing; its number stays public.
        ``"REPLACE_ONE"``: its context and reward take any other values, which multiplies the
        sensitivity by `replace_distance`.
    ridge
        Initial A is ridge times the identity; not with ``calibration="published"``.
    calibration
        ``"exact"`` and ``"printed"`` as in `Private`. ``"published"`` uses the very conservative
        constants of Shariff and Sheffet for a binary tree with Gaussian noise; `guarantee` returns
        the epsilon that they give.
    failure_probability
        Probability, in (0, 1), that the ``"published"`` shift leaves some A not positive definite.

    Notes
    -----
    A node of the tree holds the sum of v v', v = (x, r - center); the leaves are batches. Its
    published noise is (Z + Z')/sqrt2, where each entry of Z has standard deviation sigma =
    ``published_sigma``. On the diagonal the variance is twice as large. So the upper triangle, with
    off-diagonal entries times sqrt2, and sqrt2 (r - center) x all have standard deviation sqrt2
    sigma. The corner (r - center)^2 is not released. The published regularizer shifts each released
    matrix by 2 Upsilon; eigenvalues below Upsilon are set to Upsilon.
    """

    batch: int = 300
    width: float = 1.0
    relation: str = "REPLACE_SPECIAL"
    noise: Noise = "column_normalized"
    ridge: float = 10.0
    failure_probability: float = 0.05
    unit = "one round, all outputs but its own action (joint DP)"

    CALIBRATIONS = ("exact", "printed", "published")

    def __post_init__(self) -> None:
        if self.published:
            checks.real("epsilon", self.epsilon, "Pass the privacy target, such as 1.", above=0)
            checks.real("delta", self.delta, "Pass a probability, such as 1e-5.", above=0, below=1)
            for name, only, remedy in (
                ("noise", "binary_tree", "Pass noise='binary_tree'."),
                ("ridge", PrivateContexts.ridge, "Omit it: this calibration computes it."),
            ):
                value = getattr(self, name)
                rule = f"{only!r} with calibration='published'"
                checks.refuse_if(value != only, name, value, rule, remedy)
        remedy = "Pass a probability, such as 0.05."
        failure = self.failure_probability
        checks.real("failure_probability", failure, remedy, above=0, below=1)
        super().__post_init__()

    @property
    def published(self) -> bool:
        """Whether noise and regularizer are those of Shariff and Sheffet."""
        return self.calibration == "published"

    @property
    def exploration(self) -> Exploration:
        return UpperConfidence(self.width)

    @cached_property
    def schedule(self) -> Schedule:
        return Fixed(self.batch)

    @property
    def reward_weight(self) -> float:
        """Weight w of (r - center) x; both sums then get noise of one scale."""
        return math.sqrt(2) if self.published else 1.0

    @property
    def clip_norm(self) -> float:
        """sqrt(|x x'|_F^2 + |w (r - center) x|^2) <= sqrt(1 + (w |r - center|)^2)."""
        return math.hypot(1, self.reward_weight * self.reward_range.clip_norm)

    @property
    def replace_distance(self) -> float:
        """Sensitivity to replacing a round, in units of `clip_norm`; rounded up, in [sqrt(2), 2].

        With v = (w clip_norm of a reward)^2 it is (v + 2) / sqrt(2 (1 + v)) for v <= 2, else
        2 sqrt(v / (1 + v)). The maximum of |x x' - y y'|_F^2 + w^2 |r x - s y|^2 has unit x and y
        and r = s at the far end of the range. In c = x'y it is 2 (1 - c^2) + 2 v (1 - c), which is
        largest at c = max(-v / 2, -1). It is attained with two or more features.
        """
        v = (self.reward_weight * self.reward_range.clip_norm) ** 2
        distance = (v + 2) / math.sqrt(2 * (1 + v)) if v <= 2 else 2 / math.sqrt(1 + 1 / v)
        return min(2.0, distance * (1 + 2.0**-50))

    @property
    def _levels(self) -> int:
        """Number of tree levels in the published constants, m = 1 + ceil(log2 K)."""
        return 1 + (self.batches - 1).bit_length()

    @property
    def published_sigma(self) -> float:
        """Standard deviation of Z.

        ``4 sqrt(m) (1 + (r - center)^2) log(4 / delta) / epsilon``
        """
        squared = 1 + self.reward_range.clip_norm**2
        return 4 * math.sqrt(self._levels) * squared * math.log(4 / self.delta) / self.epsilon

    @property
    def published_upsilon(self) -> float:
        """Upsilon, the bound on the noise of all releases; half of the shift.

        ``sigma sqrt(2 m) (4 sqrt(d) + 2 log(2 K / failure_probability))``
        """
        tail = 2 * math.log(2 * self.batches / self.failure_probability)
        factor = 4 * math.sqrt(self.features) + tail
        return self.published_sigma * math.sqrt(2 * self._levels) * factor

    @cached_property
    def noise_multiplier(self) -> float:
        if not self.published:
            return super().noise_multiplier
        # noise scale of a node over the sensitivity of all nodes together
        moved = self.clip_norm * self.factorization.sensitivity()
        found = math.sqrt(2) * self.published_sigma / moved
        return dp.Gaussian(found, self.replace_distance).noise_multiplier  # checks it

    def model(self, lead: tuple[int, ...]) -> Model:
        start = {"ridge": self.ridge}
        if self.published:
            start = {"ridge": self.published_upsilon, "shift": self.published_upsilon}
        weight = self.reward_weight
        return NoisyRidge(self.features, lead, **start, reward_weight=weight, prior_mean=self.prior)

    def channel(self, lead: tuple[int, ...], rng: np.random.Generator | None) -> Channel:
        d = self.features
        sums = self.sums((*lead, d * (d + 1) // 2 + d), rng)
        return WithContexts(sums, d, reward_weight=self.reward_weight)
