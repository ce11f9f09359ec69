"""Privacy claims proven elsewhere, and randomized response."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Self

from privacy import checks
from privacy.losses.claims import ClaimPair
from privacy.losses.pair import MomentBound
from privacy.mechanisms import base
from privacy.mechanisms.base import Mechanism, check_relation, freeze, register_mechanism
from privacy.mechanisms.combinators import repeat
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation


@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """k-ary randomized response: report the true category, or with some probability another.

    The true one of `categories` >= 2 answers has probability e^epsilon / (e^epsilon + categories -
    1), each other answer 1 / (e^epsilon + categories - 1). The guarantee holds under every relation
    if an absent or null record also reports. With Poisson sampling it holds only under
    ADD_OR_REMOVE_ONE, since a null record may report a different answer than an absent one.
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        remedy = "Pass the number of answers."
        categories = checks.count("categories", self.categories, remedy)
        checks.refuse_if(categories < 2, "categories", categories, ">= 2", remedy)
        freeze(self, epsilon=checks.epsilon(self.epsilon), categories=categories)

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        return ClaimPair(self.epsilon, categories=self.categories)

    def for_group(self, size: int) -> Mechanism:
        return repeat(self, size)


@dataclass(frozen=True)
class EpsilonClaim(Mechanism):
    """A guarantee in one number; for a group, it adds up over a chain of neighboring data sets."""

    epsilon: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        freeze(self, epsilon=checks.epsilon(self.epsilon), relation=checks.relation(self.relation))

    def for_group(self, size: int) -> Self:
        return replace(self, epsilon=scaled(self.epsilon, size))


@dataclass(frozen=True)
class PureDP(EpsilonClaim):
    """Any mechanism proven epsilon-DP under `relation`."""

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        check_relation(self, relation)
        return ClaimPair(self.epsilon)


@dataclass(frozen=True)
class ApproximateDP(Mechanism):
    """Any mechanism proven (epsilon, delta)-DP under `relation`; epsilon >= 0."""

    epsilon: float
    delta: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the epsilon that was proven."
        epsilon = checks.real("epsilon", self.epsilon, remedy, at_least=0)
        delta, relation = checks.delta(self.delta), checks.relation(self.relation)
        freeze(self, epsilon=epsilon, delta=delta, relation=relation)

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        """Return randomized response that reveals its input with probability delta."""
        check_relation(self, relation)
        return ClaimPair(self.epsilon, self.delta)

    def for_group(self, size: int) -> "ApproximateDP":
        last = (size - 1) * self.epsilon
        log_gain = math.log(size)
        if self.epsilon > 0:
            steps = -math.expm1(-size * self.epsilon) / -math.expm1(-self.epsilon)
            log_gain = last + math.log(steps)
        log_gain += 1e-15 * (4 + last + log_gain)
        delta = 1.0
        if log_gain < 1000:  # otherwise delta exceeds 1 for every positive float
            # exp(log_gain) may overflow; its square root does not
            delta = scaled(self.delta, Fraction(math.exp(0.5 * log_gain)) ** 2)
        if delta >= 1:
            raise base.UnsupportedMechanism(
                f"{base.brief(self)} has delta >= 1 for {size} records of one user. "
                "Bound the number of records of one user.",
                mechanism=self,
            )
        return replace(self, epsilon=scaled(self.epsilon, size), delta=delta)


@dataclass(frozen=True)
class ZeroConcentratedDP(Mechanism):
    """Any mechanism proven rho-zCDP under `relation` (Bun and Steinke 2016)."""

    rho: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the rho that was proven, such as rho=0.1."
        rho = checks.real("rho", self.rho, remedy, above=0)
        freeze(self, rho=rho, relation=checks.relation(self.relation))

    def loss(self, relation: NeighboringRelation) -> MomentBound:
        check_relation(self, relation)
        return MomentBound(self.rho)

    def for_group(self, size: int) -> "ZeroConcentratedDP":
        return replace(self, rho=scaled(self.rho, size * size))


def scaled(value: float, size: int | Fraction) -> float:
    """Return value * size, rounded up, as a binary value and by its decimal repr."""
    least = size * max(Fraction(value), Fraction(repr(value)))
    try:
        product = float(least)
    except OverflowError:
        product = math.inf
    while math.isfinite(product) and min(Fraction(product), Fraction(repr(product))) < least:
        product = math.nextafter(product, math.inf)
    return product


register_mechanism(RandomizedResponse(0.5, 7))
register_mechanism(PureDP(0.25))
register_mechanism(ApproximateDP(0.25, 1e-7))
register_mechanism(ZeroConcentratedDP(0.125))
