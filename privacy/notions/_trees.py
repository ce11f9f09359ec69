"""What every notion asks of a mechanism: its shift, its relation, its joint Gaussian."""

import math

from privacy._solve import round_up, sum_up
from privacy.mechanisms import (
    ApproximateDP,
    Composed,
    Gaussian,
    GroupSampled,
    Laplace,
    Mechanism,
    PoissonSampled,
    PureDP,
    Repeated,
    UnsupportedMechanism,
    ZeroConcentratedDP,
)
from privacy.relations import NeighboringRelation

_LARGEST_GROUP = 1000


def shift(mechanism: Gaussian | Laplace, relation: NeighboringRelation) -> float:
    """Return how far one record moves the query, in clip norms."""
    replaced = relation is NeighboringRelation.REPLACE_ONE
    return mechanism.replace_distance if replaced else 1.0


def mu_squared(mechanism: Mechanism, relation: NeighboringRelation) -> float | None:
    """Return mu^2 of a tree of Gaussians on the same records, None for any other tree.

    Sums are rounded up; one Gaussian's own mu^2 is right to two units in the last place.
    """
    match mechanism:
        case Gaussian(noise_multiplier=multiplier):
            # noise beyond 1e150 counts as 1e150: the square must not underflow
            ratio = shift(mechanism, relation) / min(multiplier, 1e150)
            return ratio * ratio if ratio < 1e154 else math.inf
        case Repeated(mechanism=inner, count=count):
            one = mu_squared(inner, relation)
            return None if one is None else round_up(count * one)
        case Composed(parts=parts):
            each = [mu_squared(part, relation) for part in parts]
            known = [one for one in each if one is not None]
            return sum_up(known) if len(known) == len(each) else None
    return None


def check_claim(
    claim: PureDP | ApproximateDP | ZeroConcentratedDP, relation: NeighboringRelation
) -> None:
    """Refuse a claim that was proven for another relation than the one asked."""
    if claim.relation is not relation:
        raise refused(
            repr(claim),
            relation,
            f"It was proven for {claim.relation}: ask for that relation, or state the claim that "
            "group privacy gives for this one.",
        )


def group_mu(mechanism: GroupSampled, relation: NeighboringRelation) -> float:
    """Return the mu of ONE record of the joint Gaussian under one sample, or refuse."""
    squared = mu_squared(mechanism.mechanism, relation)
    if relation is NeighboringRelation.REPLACE_ONE or squared is None:
        raise refused(
            repr(mechanism),
            relation,
            "Several records of one user under sampling are proven for Gaussians, where the "
            "records are added, removed or zeroed.",
        )
    if mechanism.size > _LARGEST_GROUP:
        raise refused(repr(mechanism), relation, f"Groups have at most {_LARGEST_GROUP} records.")
    return math.sqrt(squared)


def sampled_mu(mechanism: PoissonSampled, relation: NeighboringRelation) -> float | None:
    """Return the mu of the joint Gaussian under one sample, None for other inner trees.

    Under REPLACE_ONE a dominating pair is known for distance 2 alone: the
    antipodal one (Lebeda, Regehr, Kamath and Steinke 2024, arXiv 2405.20769).
    The mu returned there is that of ONE record's contribution.
    """
    squared = mu_squared(mechanism.mechanism, NeighboringRelation.ADD_OR_REMOVE_ONE)
    if squared is None:
        return None
    replaced = mu_squared(mechanism.mechanism, NeighboringRelation.REPLACE_ONE)
    assert replaced is not None
    if relation is NeighboringRelation.REPLACE_ONE and not math.isclose(
        replaced, 4 * squared, rel_tol=1e-12
    ):
        raise refused(
            repr(mechanism),
            relation,
            "Under sampling the dominating pair is known for replace_distance=2 alone.",
        )
    return math.sqrt(squared)


def refused(what: str, relation: NeighboringRelation, remedy: str) -> UnsupportedMechanism:
    """Return the error for a mechanism that has no proof under `relation`."""
    return UnsupportedMechanism(f"No proven bound for {what} under {relation}. {remedy}")
