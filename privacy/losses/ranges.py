"""Pairs of mechanisms of bounded range, such as the exponential mechanism.

The privacy loss of a mechanism of range e lies in some interval of length e, which may depend on
the pair of data sets (Durfee and Rogers 2019). For the interval [t - e, t], 0 <= t <= e, the worst
pair has only the losses t - e and t (Dong, Durfee and Rogers 2020, section 4). Over all t, the best
test of level q has the power e^e q / (1 + (e^e - 1) q). This is the trade-off between two logistic
distributions at distance e, which therefore are a dominating pair.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from privacy.losses.pair import LossPair
from privacy.losses.profiles import Profile, RangeProfile, SampledProfile
from privacy.numerics.rounding import U, round_up

if TYPE_CHECKING:
    from privacy.losses.divergences import Divergence
    from privacy.losses.quadrature import LossModel


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
    def divergence(self) -> "Divergence":
        """The largest over all losses t, t - width; less than that of the dominating pair."""
        from privacy.losses.divergences import BoundedRange

        return BoundedRange(self.width)

    @property
    def rho(self) -> float:
        """At most width^2 / 8 (Cesar and Rogers 2021)."""
        from privacy.losses.divergences import largest_rho

        most = round_up(0.125 * self.width * self.width, 4 * U)
        if self.width < 1e-6:  # both bounds agree to a relative 1e-12
            return most
        return min(most, largest_rho(self.divergence, self.width))

    @property
    def model(self) -> "LossModel | None":
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
    def divergence(self) -> "Divergence":
        from privacy.losses.divergences import BoundedRange, SampledNoise, Smallest

        whole = BoundedRange(self.width)
        model = _model(self.q, self.width)
        return whole if model is None else Smallest((whole, SampledNoise(model, whole)))

    @property
    def model(self) -> "LossModel | None":
        return _model(self.q, self.width)


def _model(q: float, width: float) -> "LossModel | None":
    from privacy.losses.panels import SampledLogistic

    return SampledLogistic(q, 1 / width) if 1e-140 < width < math.inf else None
