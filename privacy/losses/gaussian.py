"""Gaussian pairs: unsampled, sampled, allocated, with a replaced record, for a group."""

import math
from dataclasses import dataclass

from privacy import losses
from privacy.losses.pair import LossPair
from privacy.losses.profiles import AntipodalProfile, GaussianProfile, Profile, SampledProfile
from privacy.numerics.rounding import U, round_up

_LARGEST_MU = 1e60  # for a larger mu every divergence is taken to be infinite
_LARGEST_REACHED = 1e12  # largest mu that the contour method supports
_LEAST = 1e-70  # smaller q or mu are increased to this, which is conservative


@dataclass(frozen=True)
class GaussianPair(LossPair):
    """N(mu, 1) against N(0, 1), with log moment mu^2 t (t + 1) / 2."""

    mu_squared: float

    symmetric = True  # the loss is N(mu^2 / 2, mu^2) in both directions

    @property
    def mu(self) -> float:
        return round_up(math.sqrt(self.mu_squared), 4 * U)

    @property
    def profile(self) -> Profile:
        """Balle and Wang 2018, Theorem 8."""
        return GaussianProfile(self.mu)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        return losses.divergences.Linear(0.5 * self.mu_squared)

    @property
    def rho(self) -> float:
        """mu^2 / 2 (Bun and Steinke 2016, Proposition 1.6)."""
        return round_up(0.5 * self.mu_squared, 4 * U)

    def sampled(self, sampling_probability: float) -> "SampledGaussianPair":
        return SampledGaussianPair(self.mu, sampling_probability)


@dataclass(frozen=True)
class _Sampled(LossPair):
    mu: float
    q: float

    @property
    def _kept(self) -> tuple[float, float] | None:
        """The probability and the noise of the model, None if mu is too large."""
        mu, q = max(self.mu, _LEAST), max(self.q, _LEAST)
        return (q, 1 / mu) if mu < _LARGEST_REACHED else None

    @property
    def exact_model(self) -> bool:
        return min(self.mu, self.q) >= _LEAST


class SampledGaussianPair(_Sampled):
    """(1 - q) N(0, 1) + q N(mu, 1) against N(0, 1) (Zhu, Dong and Wang 2022, Theorem 11)."""

    @property
    def profile(self) -> Profile:
        return SampledProfile(GaussianProfile(self.mu), self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """Removing, which is at least adding (Mironov, Talwar and Zhang 2019, Theorem 5)."""
        if self.mu > _LARGEST_MU:
            return losses.divergences.Linear(math.inf)
        return losses.divergences.SampledGaussianNoise(max(self.mu, 1e-100), self.q)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        kept = self._kept
        return losses.mixtures.SampledGaussian(*kept) if kept else None


class AntipodalPair(_Sampled):
    """(1 - q) N(0, 1) + q N(mu, 1) against (1 - q) N(0, 1) + q N(-mu, 1): a replaced record."""

    symmetric = True  # a reflection exchanges the two

    @property
    def profile(self) -> Profile:
        return AntipodalProfile(self.mu, self.q)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """By quadrature, or by joint convexity at orders at which that fails."""
        if self.mu > _LARGEST_MU:
            return losses.divergences.Linear(math.inf)
        mu, q = max(self.mu, _LEAST), max(self.q, _LEAST)
        model = losses.mixtures.AntipodalGaussian(q, 1 / mu)
        return losses.divergences.SampledNoise(model, losses.divergences.SampledPair(2 * mu, q))

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        kept = self._kept
        return losses.mixtures.AntipodalGaussian(*kept) if kept else None


@dataclass(frozen=True)
class GroupSampledPair(LossPair):
    """sum over j of Bin(j; k, q) N(j mu, 1) against N(0, 1) (Ganesh 2024, arXiv 2401.10294)."""

    mu: float
    q: float
    size: int

    @property
    def profile(self) -> Profile:
        return losses.groups.GroupSampledProfile(self.mu, self.q, self.size)

    @property
    def divergence(self) -> "losses.divergences.Divergence | None":
        if not 1e-12 < self.mu < _LARGEST_MU:
            return None
        whole = self.size * self.mu * (1 + 2 * U)
        unsampled = losses.divergences.Linear(0.5 * whole * whole)
        model = losses.groups.GroupSampledGaussian(self.q, 1 / self.mu, self.size)
        return losses.divergences.SampledNoise(model, unsampled)

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        if not (1e-12 < self.mu < _LARGEST_REACHED and self.q > 1e-9):
            return None
        return losses.groups.GroupSampledGaussian(self.q, 1 / self.mu, self.size)


@dataclass(frozen=True)
class AllocationPair(LossPair):
    """The mean over i of N(mu e_i, I) against N(0, I), in `steps` dimensions."""

    mu: float
    steps: int

    @property
    def profile(self) -> Profile:
        """From a distribution of the ratio on a grid, an upper bound."""
        return losses.allocation.AllocationProfile(self.mu, self.steps)

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        """That of a known step, by joint quasi-convexity; an upper bound."""
        return GaussianPair(round_up(self.mu * self.mu, 2 * U)).divergence

    @property
    def rho(self) -> float | None:
        return GaussianPair(round_up(self.mu * self.mu, 2 * U)).rho

    exact_profile = False  # the distribution is rounded to a grid
    gridded = True

    def on_grid(
        self, direction: "losses.quadrature.Direction", step: float, *, upper: bool
    ) -> "losses.lattice.GridLoss":
        return losses.allocation.on_grid(self.mu, self.steps, direction, step, upper=upper)
