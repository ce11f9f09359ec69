"""Guarantees that were proven elsewhere, and randomized response."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

from privacy import checks
from privacy.losses.claims import ClaimPair
from privacy.losses.pair import MomentBound
from privacy.mechanisms.base import (
    Mechanism,
    UnsupportedMechanism,
    freeze,
    register_mechanism,
    told,
    unproven,
)
from privacy.mechanisms.combinators import repeat
from privacy.names import fields_told_by_ours
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation


@fields_told_by_ours
@dataclass(frozen=True)
class RandomizedResponse(Mechanism):
    """One report that keeps the true answer with odds e^epsilon : 1 each other.

    The true one of `categories` answers is reported with probability
    e^epsilon / (e^epsilon + categories - 1), each other one with
    1 / (e^epsilon + categories - 1). The guarantee holds in every relation,
    where an absent or null record reports through the same randomizer. On a Poisson sample it
    holds under ADD_OR_REMOVE_ONE alone: a null record may report another answer than an absent one.

    Parameters
    ----------
    epsilon
        Log of the odds, > 0.
    categories
        Number of possible answers, >= 2.
    """

    epsilon: float
    categories: int = 2

    def __post_init__(self) -> None:
        categories = checks.count("categories", self.categories, "Pass the number of answers.")
        if categories < 2:
            raise ValueError(
                checks.expected("categories", categories, ">= 2", "Pass the number of answers.")
            )
        freeze(self, epsilon=checks.epsilon(self.epsilon), categories=categories)

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        """Return the reports of two answers."""
        return ClaimPair(self.epsilon, categories=self.categories)

    def for_group(self, size: int) -> Mechanism:
        """Return `size` reports: at worst each of the records sends one."""
        return repeat(self, size)


@fields_told_by_ours
@dataclass(frozen=True)
class PureDP(Mechanism):
    """Any mechanism proven epsilon-DP under `relation`."""

    epsilon: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        freeze(
            self,
            epsilon=checks.epsilon(self.epsilon),
            relation=checks.relation(self.relation),
        )

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        """Return randomized response, the worst epsilon-DP mechanism."""
        check_relation(self, relation)
        return ClaimPair(self.epsilon)

    def for_group(self, size: int) -> "PureDP":
        """Return size * epsilon (Vadhan 2017, Lemma 2.2)."""
        return replace(self, epsilon=_scaled(self.epsilon, size))


@fields_told_by_ours
@dataclass(frozen=True)
class ApproximateDP(Mechanism):
    """Any mechanism proven (epsilon, delta)-DP under `relation`; epsilon >= 0."""

    epsilon: float
    delta: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the epsilon that was proven."
        freeze(
            self,
            epsilon=checks.real("epsilon", self.epsilon, remedy, at_least=0),
            delta=checks.delta(self.delta),
            relation=checks.relation(self.relation),
        )

    def loss(self, relation: NeighboringRelation) -> ClaimPair:
        """Return randomized response that fails with probability delta."""
        check_relation(self, relation)
        return ClaimPair(self.epsilon, self.delta)

    def for_group(self, size: int) -> "ApproximateDP":
        """Return (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))), rounded up.

        Vadhan 2017, Lemma 2.2.
        """
        last = (size - 1) * self.epsilon
        log_gain = math.log(size)
        if self.epsilon > 0:
            steps = -math.expm1(-size * self.epsilon) / -math.expm1(-self.epsilon)
            log_gain = last + math.log(steps)
        log_gain += 1e-15 * (4 + last + log_gain)
        delta = 1.0
        if log_gain < 1000:  # else more than any float delta has room for
            # the root of the gain is a float where the gain is none
            delta = _scaled(self.delta, Fraction(math.exp(0.5 * log_gain)) ** 2)
        if delta >= 1:
            raise UnsupportedMechanism(
                f"{size} records of one user under {told(self)} have a delta of 1 or more. "
                "Bound the records of a user, or prove the claim for a smaller delta.",
                mechanism=self,
            )
        return replace(self, epsilon=_scaled(self.epsilon, size), delta=delta)


@fields_told_by_ours
@dataclass(frozen=True)
class ZeroConcentratedDP(Mechanism):
    """Any mechanism proven rho-zCDP under `relation` (Bun and Steinke 2016)."""

    rho: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        remedy = "Pass the rho that was proven, such as rho=0.1."
        freeze(
            self,
            rho=checks.real("rho", self.rho, remedy, above=0),
            relation=checks.relation(self.relation),
        )

    def loss(self, relation: NeighboringRelation) -> MomentBound:
        """Return order * rho for every Rényi order: no pair is known."""
        check_relation(self, relation)
        return MomentBound(self.rho)

    def for_group(self, size: int) -> "ZeroConcentratedDP":
        """Return size^2 * rho (Bun and Steinke 2016, Proposition 1.9)."""
        return replace(self, rho=_scaled(self.rho, size * size))


def check_relation(
    claim: PureDP | ApproximateDP | ZeroConcentratedDP, relation: NeighboringRelation
) -> None:
    """Refuse a claim that was proven for another relation than the one asked."""
    if claim.relation is not relation:
        raise unproven(
            claim,
            relation,
            f"It was proven for {claim.relation}: ask for that relation, or state the claim that "
            "group privacy gives for this one.",
        )


def _scaled(value: float, size: int | Fraction) -> float:
    """Return value * size, rounded up: both as floats and, as a budget reads them, as written."""
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
