"""Dominating pairs of finite distributions, described by their atoms.

Atoms are log probabilities under P and losses log P/Q, accurate to some units in the last place. In
the reverse direction, log q = log p - loss and the loss is negated.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from privacy import losses
from privacy.losses.pair import LossPair
from privacy.losses.profiles import Profile
from privacy.numerics.rounding import U

_LARGEST_LOSS = 600.0  # the contour method does not support larger losses
_WAYS: tuple["losses.quadrature.Direction", "losses.quadrature.Direction"] = ("remove", "add")
ROUNDING = 32  # error bound on a log probability or a loss, in units in the last place


class Atoms(NamedTuple):
    """The finite privacy losses of a pair (P, Q), with their log probabilities.

    `log_probability` has the log of each atom's probability under P, given that the loss is finite,
    and `loss` its log P/Q, the largest one rounded up.
    """

    log_probability: tuple[float, ...]
    loss: tuple[float, ...]

    def reversed(self) -> "Atoms":
        """Return the atoms of (Q, P)."""
        both = zip(self.log_probability, self.loss, strict=True)
        return Atoms(tuple(p - loss for p, loss in both), tuple(-loss for loss in self.loss))


class DiscretePair(LossPair):
    """A dominating pair whose privacy loss has finitely many values.

    A subclass, a frozen dataclass, defines `atoms`, and `mass_at_infinity` unless it is 0.
    """

    __slots__ = ()

    def atoms(self) -> Atoms:
        """Return the finite losses in direction "remove"."""
        raise NotImplementedError

    @property
    def mass_at_infinity(self) -> float:
        """Probability of an infinite loss; the same in both directions."""
        return 0.0

    def directed(self, direction: "losses.quadrature.Direction") -> Atoms:
        """Return the finite losses in one direction."""
        return self.atoms() if direction == "remove" else self.atoms().reversed()

    def infinite(self, direction: "losses.quadrature.Direction") -> float:
        """Return the probability of an infinite loss in one direction."""
        return self.mass_at_infinity

    @property
    def claim(self) -> tuple[float, float]:
        return _largest(self), self.mass_at_infinity

    @property
    def profile(self) -> Profile:
        return DiscreteProfile(self)

    @property
    def divergence(self) -> "losses.divergences.Divergence | None":
        """From the atoms, in both directions; None if there is a mass at infinity."""
        if self.mass_at_infinity:
            return None
        model, unbounded = losses.atoms.DiscreteModel(self), losses.divergences.Linear(math.inf)
        return losses.divergences.SampledNoise(model, unbounded)

    @property
    def rho(self) -> float | None:
        if (divergence := self.divergence) is None:
            return None
        return losses.divergences.largest_rho(divergence, _largest(self))

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        return losses.atoms.DiscreteModel(self) if self.claim[0] < _LARGEST_LOSS else None

    def sampled(self, sampling_probability: float) -> "DiscretePair":
        return SampledDiscretePair(self, sampling_probability)


@dataclass(frozen=True)
class SampledDiscretePair(DiscretePair):
    """((1 - q) Q + q P, Q) of a discrete pair, and its reverse."""

    inner: DiscretePair
    q: float

    def atoms(self) -> Atoms:
        inner, q = self.inner.atoms(), self.q
        losses = tuple(rounded_out(log_mixture(loss, q), loss) for loss in inner.loss)
        each = zip(inner.reversed().log_probability, losses, strict=True)
        return Atoms(tuple(log_q + loss for log_q, loss in each), losses)

    @property
    def mass_at_infinity(self) -> float:
        """The sampling probability q times the mass m of the inner pair.

        With P = m P1 + (1 - m) P0 and likewise Q, the profile in each direction is at most
        q m + (1 - q m) times that of the sampled pair of the finite parts.
        """
        mass = self.inner.mass_at_infinity
        return math.nextafter(self.q * mass, 1.0) if mass else 0.0

    def sampled(self, sampling_probability: float) -> DiscretePair:
        return SampledDiscretePair(self.inner, math.nextafter(self.q * sampling_probability, 1.0))


def rounded_out(sampled: float, loss: float) -> float:
    """Return a sampled loss rounded away from 0, which bounds the exact one in absolute value."""
    away = sampled * (1 + 16 * U)
    return math.copysign(max(abs(away), math.ulp(0.0)), loss) if loss else 0.0


def log_mixture(loss: float, q: float) -> float:
    """Return log(1 - q + q e^loss), accurate to a few units in the last place."""
    if loss > 700:
        small = (1 - q) / q if q > 1e-300 else 1 / q
        return max(0.0, loss + math.log(q)) + math.log1p(small * math.exp(-700.0))
    growth = q * math.expm1(loss)
    return math.log1p(growth) if growth > -0.5 else math.log((1 - q) + q * math.exp(loss))


def _largest(pair: DiscretePair) -> float:
    return max(directed(pair, "remove").loss + directed(pair, "add").loss)


@lru_cache(maxsize=256)
def directed(pair: DiscretePair, direction: "losses.quadrature.Direction") -> Atoms:
    """Return the finite losses of a pair in one direction, cached."""
    return pair.directed(direction)


@dataclass(frozen=True)
class DiscreteProfile(Profile):
    """mass + (1 - mass) * sum over the atoms of p (1 - e^(epsilon - loss))+."""

    pair: DiscretePair

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return math.inf if self.pair.mass_at_infinity else _largest(self.pair)

    def log_delta(self, epsilon: float) -> float:
        delta = 0.0
        for way in _WAYS:
            mass = self.pair.infinite(way)
            delta = max(delta, mass + (1 - mass) * _sum(directed(self.pair, way), epsilon))
        if delta <= 0:
            return -math.inf
        return min(0.0, math.log(delta) + 16 * U * (1 + abs(math.log(delta))))


def _sum(atoms: Atoms, epsilon: float) -> float:
    beyond = [(p, loss) for p, loss in zip(*atoms, strict=True) if loss > epsilon]
    total = math.fsum(
        math.exp(p + U * ROUNDING * (1 + abs(p)))
        * -math.expm1(epsilon - loss - U * ROUNDING * (loss + epsilon))
        for p, loss in beyond
    )
    return total * (1 + 16 * U)
