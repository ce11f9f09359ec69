"""Discrete Gaussian noise: integer noise on an integer query."""

import math
from dataclasses import dataclass

from privacy import checks, losses
from privacy.losses.discrete import Atoms, DiscretePair
from privacy.mechanisms.base import freeze, register_mechanism
from privacy.mechanisms.discrete_laplace import IntegerNoise, integer_sensitivities
from privacy.numerics.rounding import U, round_up
from privacy.relations import NeighboringRelation

_REACH = 14.0  # sigmas beyond both centers that have atoms; the mass beyond is e^(-14^2 / 2)
_LEAST_MASS = 1e-300  # least mass at infinity, since the loss is unbounded
_MOST = 4096  # most atoms; if there are more, neighboring ones are merged


@dataclass(frozen=True)
class DiscreteGaussian(IntegerNoise):
    """Integer noise with probability proportional to ``exp(-x^2 / (2 sigma^2))``.

    The noise is added to one integer. For several coordinates, account for ``ZeroConcentratedDP``
    with rho = (L2 sensitivity)^2 / (2 sigma^2). The privacy profile is not that of ``Gaussian``.

    `sigma` is in the unit of the query, in [0.01, 10,000]. `sensitivity` is that to adding or
    removing one record, an integer in [1, 10,000], `replace_sensitivity` that to replacing one, an
    integer up to 2 * sensitivity (the default).
    Source: Canonne, Kamath and Steinke 2020 (arXiv 2004.00010), Definition 1 and Theorem 4.
    """

    sigma: float
    sensitivity: int = 1
    replace_sensitivity: int | None = None

    def __post_init__(self) -> None:
        remedy = "Rescale the query, or use Gaussian and rounded_gaussian noise."
        sigma = checks.real("sigma", self.sigma, remedy, at_least=0.01, at_most=10_000)
        sensitivity, replaced = integer_sensitivities(self, "Gaussian")
        freeze(self, sigma=sigma, sensitivity=sensitivity, replace_sensitivity=replaced)

    def loss(self, relation: NeighboringRelation) -> "DiscreteGaussianPair":
        return DiscreteGaussianPair(self.sigma, self.distance(relation))


@dataclass(frozen=True)
class DiscreteGaussianPair(DiscretePair):
    """Discrete Gaussian noise centered at `distance` against the same noise centered at 0.

    The loss increases with the output, P(X > t) with the distance: a larger distance dominates.
    """

    sigma: float
    distance: int

    symmetric = True

    @property
    def _block(self) -> int:
        """An odd number of neighboring outputs of which one is kept."""
        span = self.distance + 2 * _REACH * self.sigma
        return 2 * math.ceil(max(span / _MOST - 1, 0.0) / 2) + 1

    @property
    def _least(self) -> int:
        """The least output that has an atom; the largest is `distance` minus it."""
        span = self.distance + 2 * math.ceil(_REACH * self.sigma)
        blocks = math.ceil(span / self._block)
        blocks += (blocks * self._block - self.distance) % 2  # both ends are integers
        return (self.distance - blocks * self._block) // 2

    @property
    def mass_at_infinity(self) -> float:
        """An upper bound on the probability of the outputs without atoms.

        P(X >= m) <= P(N(0, sigma^2) >= m - 1) (Canonne, Kamath and Steinke 2020, Proposition 25).
        """
        return max(math.exp(-0.5 * (self._least / self.sigma) ** 2), _LEAST_MASS)

    def atoms(self) -> Atoms:
        """Return the losses distance (2 x - distance) / (2 sigma^2) of the outputs x.

        The outputs within a block are divided between its two ends so that their probabilities
        under P and Q are kept. Since x -> max(x, 0) is convex, this never lowers delta.
        """
        import numpy as np

        least, block, variance = self._least, self._block, self.sigma**2
        x = np.arange(least, self.distance - least + 1, dtype=float)
        loss = self.distance * (2 * x - self.distance) / (2 * variance)
        weight = np.exp(-0.5 * (x - self.distance) ** 2 / variance)
        log_p = -0.5 * (x - self.distance) ** 2 / variance - math.log(math.fsum(weight))
        ends = loss[::block]
        if block > 1:
            width = float(ends[1] - ends[0])
            inner = loss[:-1].reshape(-1, block) - ends[:-1, None]
            # relative to the largest, so that none underflows
            rows = log_p[:-1].reshape(-1, block)
            top = rows.max(axis=1)
            down, up = losses.lattice.divided(np.exp(rows - top[:, None]), inner, width)
            with np.errstate(divide="ignore"):
                downs = np.append(top + np.log(down.sum(axis=1)), log_p[-1])
                ups = np.insert(top + np.log(up.sum(axis=1)), 0, -np.inf)
            log_p = np.logaddexp(downs, ups)
        *inside, largest = ends.tolist()
        largest = math.nextafter(largest * (1 + 4 * U), math.inf)
        return Atoms(tuple(log_p.tolist()), (*inside, largest))

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """Order * distance^2 / (2 sigma^2) (Canonne, Kamath and Steinke 2020, Theorem 4)."""
        return losses.divergences.Linear(self.rho)

    @property
    def rho(self) -> float:
        """distance^2 / (2 sigma^2), rounded up."""
        return round_up(0.5 * (self.distance / self.sigma) ** 2, 4 * U)


register_mechanism(DiscreteGaussian(2.5, sensitivity=3, replace_sensitivity=4))
