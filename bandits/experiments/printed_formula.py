"""The preprint's formula for Poisson sampling, which is not an upper bound; a negative control."""

import math
from dataclasses import dataclass
from functools import cached_property

from bandits import checks
from bandits.algorithms.baselines import AdaPrivateAmp
from bandits.learning.exploration import Exploration, Thompson


def printed_subsampling_formula_not_a_bound(
    order: int, noise_multiplier: float, sampling_probability: float
) -> float:
    """Return the preprint's "RDP of the subsampled Gaussian", which is too small.

    log(1 + C(a, 2) 2 q^2 / s^2 + sum over j = 3 .. a of C(a, j) (2 q^2)^(j/2) / s^j) / (a - 1)
    equals log((1 + x)^a - a x) / (a - 1) with x = sqrt(2) q / s. It stays bounded as the order
    grows, and so claims pure differential privacy for Gaussian noise. Noise calibrated with it to
    epsilon = 1, delta = 1e-5 at q = 0.1 has a true epsilon of 67.5. Never use it for a guarantee.

    `order` a >= 2 is a whole Rényi order, `noise_multiplier` the standard deviation s > 0 over the
    clip norm, and `sampling_probability` the q in (0, 1] of Poisson sampling.
    """
    order = checks.count("order", order, "Pass a whole Rényi order, at least 2.", at_least=2)
    remedy = "Pass the noise scale divided by the clip norm."
    sigma = checks.real("noise_multiplier", noise_multiplier, remedy, above=0)
    remedy = "Pass a probability."
    q = checks.real("sampling_probability", sampling_probability, remedy, above=0, at_most=1)
    x = math.sqrt(2) * q / sigma
    tail = sum(math.comb(order, j) * x**j for j in range(2, order + 1))
    return math.log1p(tail) / (order - 1)


@dataclass(frozen=True, kw_only=True)
class PrintedAmp(AdaPrivateAmp):
    """AdaPrivate-Amp with noise calibrated by the printed formula: a negative control.

    `guarantee` returns the true epsilon: 14 for a claimed 1 at q = 0.3. `decay` is that of
    AdaPrivate-Adaptive.
    """

    decay: float = 1.0
    calibration: str = "printed_not_a_bound"

    CALIBRATIONS = ("printed_not_a_bound",)

    @property
    def exploration(self) -> Exploration:
        return Thompson(self.scale, self.decay)

    @cached_property
    def noise_multiplier(self) -> float:
        """Noise multiplier of one release by the printed formula with orders 2 to 64."""

        def claimed(sigma: float) -> float:
            q, log_inverse = self.sampling_probability, math.log(1 / self.delta)
            return min(
                printed_subsampling_formula_not_a_bound(a, sigma, q) + log_inverse / (a - 1)
                for a in range(2, 65)
            )

        low, high = 1e-3, 1e4
        for _ in range(60):
            middle = math.sqrt(low * high)
            low, high = (middle, high) if claimed(middle) > self.epsilon else (low, middle)
        return self.replace_distance * high

    def _price(self) -> str:
        true = self.guarantee(self.delta).epsilon
        return f"The printed formula is not a bound: the true epsilon is {true:.4g}."
