"""Laplace pairs: unsampled and Poisson-sampled."""

import math
from dataclasses import dataclass

from privacy import losses
from privacy.losses.pair import LossPair
from privacy.losses.profiles import LaplaceProfile, Profile, SampledProfile
from privacy.numerics.rounding import U, round_up


@dataclass(frozen=True)
class LaplacePair(LossPair):
    """Two Laplace distributions of scale 1 at a distance of `distance`."""

    distance: float

    symmetric = True  # a reflection exchanges the two

    @property
    def profile(self) -> Profile:
        """Balle, Barthe and Gaboardi 2018, Theorem 3."""
        return LaplaceProfile(self.distance)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """Mironov 2017, Proposition 6."""
        return losses.divergences.LaplaceNoise(self.distance)

    @property
    def rho(self) -> float:
        """The Kullback-Leibler divergence d - 1 + e^-d, d the distance.

        With order - 1/2 = u, log E_Q (P/Q)^order = log(cosh(d u) + sinh(d u) / (2 u)) - d / 2 is
        concave in u^2, since all zeros of that entire function of u^2, of order 1/2, are real and
        negative. Divergence / order = (its difference to u = 1/2) / (u^2 - 1/4) therefore
        decreases with the order, from its limit at order 1.
        """
        d = self.distance
        if d > 0.5:
            return round_up(d + math.expm1(-d), 8 * U)
        rest = 0.0  # d^2/2 - d^3/6 + ... in nested form; the omitted terms are below rounding
        for k in range(18, 2, -1):
            rest = d / k * (1 - rest)
        return round_up(0.5 * d * d * (1 - rest), 32 * U)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        return _model(1.0, self.distance)

    def sampled(self, sampling_probability: float) -> "SampledLaplacePair":
        return SampledLaplacePair(self.distance, sampling_probability)


@dataclass(frozen=True)
class SampledLaplacePair(LossPair):
    """(1 - q) Lap(0) + q Lap(distance) against Lap(0), of scale 1."""

    distance: float
    q: float

    @property
    def profile(self) -> Profile:
        return SampledProfile(LaplaceProfile(self.distance), self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        whole = losses.divergences.LaplaceNoise(self.distance)
        model = _model(self.q, self.distance)
        return whole if model is None else losses.divergences.SampledNoise(model, whole)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        return _model(self.q, self.distance)


def _model(q: float, distance: float) -> "losses.quadrature.LossModel | None":
    return losses.panels.SampledLaplace(q, 1 / distance) if distance < math.inf else None
