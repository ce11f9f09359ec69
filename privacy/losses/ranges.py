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
    """Two logistic distributions of scale 1 at a distance of `width`."""

    width: float

    symmetric = True  # a reflection exchanges the two
    exact_model = False  # no one mechanism attains the profile at every epsilon

    @property
    def profile(self) -> Profile:
        return RangeProfile(self.width)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """The largest over all losses t, t - width; less than that of the dominating pair."""
        return losses.divergences.BoundedRange(self.width)

    @property
    def rho(self) -> float:
        """At most width^2 / 8 (Cesar and Rogers 2021)."""
        most = round_up(0.125 * self.width * self.width, 4 * U)
        if self.width < 1e-6:  # both bounds agree to a relative 1e-12
            return most
        return min(most, losses.divergences.largest_rho(self.divergence, self.width))

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        return _model(1.0, self.width)

    def sampled(self, sampling_probability: float) -> "SampledRangePair":
        return SampledRangePair(self.width, sampling_probability)


@dataclass(frozen=True)
class SampledRangePair(LossPair):
    """(1 - q) N + q P against N, for the two distributions P, N of a `RangePair`."""

    width: float
    q: float

    exact_model = False

    @property
    def profile(self) -> Profile:
        return SampledProfile(RangeProfile(self.width), self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        whole = losses.divergences.BoundedRange(self.width)
        if (model := _model(self.q, self.width)) is None:
            return whole
        sampled = losses.divergences.SampledNoise(model, whole)
        return losses.divergences.Smallest((whole, sampled))

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        return _model(self.q, self.width)


def _model(q: float, width: float) -> "losses.quadrature.LossModel | None":
    return losses.panels.SampledLogistic(q, 1 / width) if 1e-140 < width < math.inf else None
