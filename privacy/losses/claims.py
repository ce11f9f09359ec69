"""Dominating pairs of privacy claims: randomized response."""

import math
from dataclasses import dataclass

from privacy import losses
from privacy.losses.discrete import Atoms, DiscretePair
from privacy.losses.profiles import ClaimProfile, Profile
from privacy.numerics.rounding import U, round_up


@dataclass(frozen=True)
class ClaimPair(DiscretePair):
    """Randomized response with odds e^epsilon : 1 that reveals its input with probability `mass`.

    2 categories dominate (epsilon, mass)-DP (Kairouz, Oh and Viswanath 2015, Theorem 3.3).
    """

    epsilon: float
    mass: float = 0.0
    categories: int = 2

    symmetric = True  # exchanging the answers exchanges P and Q

    def atoms(self) -> Atoms:
        epsilon, rest = self.epsilon, self.categories - 2
        log_whole = math.log1p((self.categories - 1) * math.exp(-epsilon))
        log_p, loss = [-log_whole, -epsilon - log_whole], [epsilon, -epsilon]
        if rest:
            log_p.append(math.log(rest) - epsilon - log_whole)
            loss.append(0.0)
        return Atoms(tuple(log_p), tuple(loss))

    @property
    def mass_at_infinity(self) -> float:
        return self.mass

    @property
    def claim(self) -> tuple[float, float]:
        return self.epsilon, self.mass

    @property
    def profile(self) -> Profile:
        return ClaimProfile(self.epsilon, self.mass, self.categories)

    @property
    def divergence(self) -> "losses.divergences.Divergence | None":
        """Mironov 2017, Proposition 5."""
        if self.mass:
            return None
        return losses.divergences.Response(self.epsilon, self.categories)

    @property
    def rho(self) -> float | None:
        """Epsilon tanh(epsilon / 2) with 2 categories: the Kullback-Leibler divergence.

        With order - 1/2 = u, log E_Q (P/Q)^order = log(cosh(epsilon u) / cosh(epsilon / 2)) is
        concave in u^2, so that divergence / order decreases with the order.
        """
        if self.mass or self.categories > 2:
            return None if self.mass else super().rho
        return round_up(self.epsilon * math.tanh(0.5 * self.epsilon), 8 * U)


NO_LOSS = ClaimPair(0.0)
"""Two equal distributions: the loss is 0."""
