"""Pairs of mechanisms of bounded range, such as the exponential mechanism.

The privacy loss of a mechanism of range w lies in some interval of length w, which may depend on
the pair of data sets (Durfee and Rogers 2019). For the interval [t - w, t], 0 <= t <= w, the worst
pair has only the losses t - w and t (Dong, Durfee and Rogers 2020, section 4). Over all t, the best
test of level q has the power e^w q / (1 + (e^w - 1) q). This is the trade-off between two logistic
distributions at distance w, which therefore are a dominating pair.
"""

import math
from dataclasses import dataclass

from privacy import losses
from privacy.losses.pair import LossPair
from privacy.losses.profiles import Profile, RangeProfile, SampledProfile
from privacy.numerics.rounding import U, round_up


@dataclass(frozen=True)
class RangePair(LossPair):
    """(1 - q) N + q P against N, logistic distributions of scale 1 at a distance of `width`.

    Without sampling, q is 1.
    """

    width: float
    q: float = 1.0

    exact_model = False  # no one mechanism attains the profile at every epsilon

    @property
    def symmetric(self) -> bool:
        """A reflection exchanges unsampled distributions."""
        return self.q == 1

    @property
    def profile(self) -> Profile:
        whole = RangeProfile(self.width)
        return whole if self.q == 1 else SampledProfile(whole, self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """The largest over all losses t, t - width; less than that of the dominating pair."""
        whole, model = losses.divergences.BoundedRange(self.width), self.model
        if self.q == 1 or model is None:
            return whole
        sampled = losses.divergences.SampledNoise(model, whole)
        return losses.divergences.Smallest((whole, sampled))

    @property
    def rho(self) -> float | None:
        """Without sampling, at most width^2 / 8 (Cesar and Rogers 2021)."""
        if self.q < 1:
            return None
        most = round_up(0.125 * self.width * self.width, 4 * U)
        if self.width < 1e-6:  # both bounds agree to a relative 1e-12
            return most
        return min(most, losses.divergences.largest_rho(self.divergence, self.width))

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        if not 1e-140 < self.width < math.inf:
            return None
        return losses.panels.SampledLogistic(self.q, 1 / self.width)

    def sampled(self, sampling_probability: float) -> "RangePair | None":
        return RangePair(self.width, sampling_probability) if self.q == 1 else None
