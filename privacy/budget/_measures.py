"""What filters and odometers add up, as exact fractions, and what its sums guarantee."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any

from privacy import checks
from privacy.accounting import Notion, account, support_matrix
from privacy.mechanisms import (
    ApproximateDP,
    Composed,
    Laplace,
    Mechanism,
    PureDP,
    RandomizedResponse,
    Repeated,
    UnsupportedMechanism,
)
from privacy.numerics.rounding import round_down, round_up
from privacy.relations import NeighboringRelation

Cost = tuple[Fraction, ...]

# Noise is a float: ten Gaussians of a tenth of rho may cost some ulp more than rho. The limit is
# set so much lower in advance that this much above it still keeps the promise.
GRACE = Fraction(1, 10**12)


class Measure(ABC):
    """What a notion adds up: a filter compares sums of it with a limit."""

    name: str
    notion: Notion
    theorem: str
    grace = GRACE

    @abstractmethod
    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return the most that keeps (epsilon, delta)."""

    @abstractmethod
    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the epsilon of a limit, rounded up."""

    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        """Return what a mechanism costs, its parts spent one after the other."""
        if isinstance(mechanism, Repeated):
            one = self.cost(mechanism.mechanism, relation)
            return tuple(mechanism.count * part for part in one)
        if isinstance(mechanism, Composed):
            return reduce(added, (self.cost(part, relation) for part in mechanism.parts))
        return self._cost_of_one(mechanism, relation)

    def _cost_of_one(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        try:
            curve = account(mechanism, notion=self.notion, relation=relation)
        except UnsupportedMechanism as refusal:
            # what `account` recommends is for plans alone
            raise UnsupportedMechanism(f"{refusal.__cause__} {_remedy(mechanism)}") from refusal
        return (_finite(self._amount(curve), mechanism),)

    def _amount(self, curve: Any) -> float:
        """Return what the curve of the notion costs."""
        raise NotImplementedError


@dataclass(frozen=True)
class Rho(Measure):
    """rho of zCDP."""

    name = "rho"
    notion = "zcdp"
    theorem = "Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023: rho adds adaptively"

    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return the largest rho."""
        from privacy.notions.zcdp import rho_from_epsilon

        return (Fraction(rho_from_epsilon(epsilon, delta)),)

    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the optimal conversion."""
        from privacy.notions.zcdp import epsilon_from_rho

        return epsilon_from_rho(up(limit[0]), delta) if limit[0] else 0.0

    def _amount(self, curve: Any) -> float:
        return float(curve.rho)


@dataclass(frozen=True)
class MuSquared(Measure):
    """mu^2 of Gaussians."""

    name = "mu^2"
    notion = "gaussian"
    theorem = "Smith and Thakurta 2022: mu^2 of Gaussians adds adaptively"

    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return 1 / noise_multiplier^2 of the one Gaussian that fills the budget."""
        from privacy.calibration import noise_multiplier

        return (1 / Fraction(noise_multiplier(epsilon=epsilon, delta=delta)) ** 2,)

    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the exact profile's epsilon."""
        from privacy.notions.gaussian import GaussianCurve

        relation = NeighboringRelation.ADD_OR_REMOVE_ONE  # of no account once mu is known
        return GaussianCurve(relation, up(limit[0])).epsilon(delta)

    def _amount(self, curve: Any) -> float:
        return float(curve.mu_squared)


@dataclass(frozen=True)
class Divergence(Measure):
    """The Rényi divergence of one order, fixed in advance."""

    order: float
    name = "divergence"
    notion = "rdp"
    theorem = "Feldman and Zrnic 2021: divergences of one fixed order add adaptively"

    def _gap(self, delta: float) -> float:
        """Return epsilon - D: Canonne, Kamath and Steinke 2020, Proposition 12."""
        a = self.order
        return math.log1p(-1 / a) - (math.log(a) + math.log(delta)) / (a - 1)

    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return the largest divergence, or refuse an order that cannot reach epsilon."""
        gap = self._gap(delta)
        most = epsilon - gap - 1e-14 * (abs(gap) + epsilon)
        if most <= 0:
            remedy = f"At this epsilon and delta an order above {1 - math.log(delta) / epsilon:.4g}"
            raise ValueError(
                checks.expected("order", self.order, "large enough", remedy + " is enough.")
            )
        return (Fraction(most),)

    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the optimal conversion of this order."""
        gap, most = self._gap(delta), up(limit[0])
        return max(0.0, most + gap + 1e-14 * (abs(gap) + most))

    def _amount(self, curve: Any) -> float:
        return float(curve.divergence(self.order))


@dataclass(frozen=True)
class EpsilonDelta(Measure):
    """Basic composition, exact: the decimals of a claim are what was proven."""

    name = "(epsilon, delta)"
    notion = "approximate"
    theorem = "Rogers, Roth, Ullman and Vadhan 2016: basic composition is a valid filter"
    grace = Fraction(0)

    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return both."""
        return decimal(epsilon), decimal(delta)

    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the sum of epsilons."""
        return up(limit[0])

    def _cost_of_one(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        curve = account(mechanism, notion="approximate", relation=relation)
        match mechanism:
            case ApproximateDP():
                return decimal(mechanism.epsilon), decimal(mechanism.delta)
            case PureDP():
                return decimal(mechanism.epsilon), Fraction(0)
            case RandomizedResponse():
                return Fraction(mechanism.epsilon), Fraction(0)
            case Laplace():
                replaced = relation is NeighboringRelation.REPLACE_ONE
                shift = mechanism.replace_distance if replaced else 1.0
                ratio = Fraction(shift) / Fraction(mechanism.scale)
                short = decimal(float(ratio))  # many long fractions would take long to add
                return short if short >= ratio else Fraction(up(ratio)), Fraction(0)
        return _finite(curve.epsilon(0), mechanism), Fraction(0)


def _remedy(mechanism: Mechanism) -> str:
    notions = support_matrix().get(type(mechanism).__name__, ())
    if "rdp" in notions:
        return 'Sampled noise and pure claims are spent in notion "rdp", at one fixed order.'
    if "approximate" in notions:
        return 'Claims of an epsilon and a delta are spent in notion "approximate".'
    return "Spend its parts, or another description of it."


def decimal(value: float) -> Fraction:
    """Return the number as it is written: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


def _finite(value: float, mechanism: Mechanism) -> Fraction:
    if not math.isfinite(value):
        raise UnsupportedMechanism(
            f"{mechanism!r} has no finite cost in this budget's notion. Choose another notion."
        )
    return Fraction(value)


def up(value: Fraction) -> float:
    """Return the nearest float that is not below."""
    return float(value) if Fraction(float(value)) >= value else round_up(float(value))


def down(value: Fraction) -> float:
    """Return the nearest float that is not above."""
    return float(value) if Fraction(float(value)) <= value else round_down(float(value))


def added(one: Cost, other: Cost) -> Cost:
    """Return the sum."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def shown(cost: tuple[float, ...]) -> str:
    """Return a cost for people to read."""
    numbers = ", ".join(f"{value:.6g}" for value in cost)
    return numbers if len(cost) == 1 else f"({numbers})"
