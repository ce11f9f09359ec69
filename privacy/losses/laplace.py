"""The pair of Laplace noise, also on a Poisson sample."""

import math
from dataclasses import dataclass

from privacy import losses
from privacy.losses.pair import LossPair
from privacy.losses.profiles import LaplaceProfile, Profile, SampledProfile
from privacy.numerics.rounding import U, round_up


@dataclass(frozen=True)
class LaplacePair(LossPair):
    """(1 - q) Lap(0) + q Lap(distance) against Lap(0), of scale 1; without sampling, q is 1."""

    distance: float
    q: float = 1.0

    @property
    def symmetric(self) -> bool:
        """A reflection exchanges unsampled distributions."""
        return self.q == 1

    @property
    def profile(self) -> Profile:
        """Balle, Barthe and Gaboardi 2018, Theorem 3."""
        whole = LaplaceProfile(self.distance)
        return whole if self.q == 1 else SampledProfile(whole, self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """Mironov 2017, Proposition 6; of a sample by quadrature."""
        whole, model = losses.divergences.LaplaceNoise(self.distance), self.model
        if self.q == 1 or model is None:
            return whole
        return losses.divergences.SampledNoise(model, whole)

    @property
    def rho(self) -> float | None:
        """Without sampling, the Kullback-Leibler divergence d - 1 + e^-d, d the distance.

        With order - 1/2 = u, log E_Q (P/Q)^order = log(cosh(d u) + sinh(d u) / (2 u)) - d / 2 is
        concave in u^2, since all zeros of that entire function of u^2, of order 1/2, are real and
        negative. Divergence / order = (its difference to u = 1/2) / (u^2 - 1/4) therefore
        decreases with the order, from its limit at order 1.
        """
        d = self.distance
        if self.q < 1:
            return None
        if d > 0.5:
            return round_up(d + math.expm1(-d), 8 * U)
        rest = 0.0  # d^2/2 - d^3/6 + ... in nested form; the omitted terms are below rounding
        for k in range(18, 2, -1):
            rest = d / k * (1 - rest)
        return round_up(0.5 * d * d * (1 - rest), 32 * U)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        if self.distance == math.inf:
            return None
        return losses.panels.SampledLaplace(self.q, 1 / self.distance)

    def sampled(self, sampling_probability: float) -> "LaplacePair | None":
        return LaplacePair(self.distance, sampling_probability) if self.q == 1 else None
