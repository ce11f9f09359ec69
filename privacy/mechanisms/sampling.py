"""Poisson sampling: one independent draw per record for the whole inner mechanism."""

import math
from dataclasses import dataclass
from typing import Any

from privacy import checks
from privacy.losses.gaussian import AntipodalPair, GaussianPair, GroupSampledPair
from privacy.losses.pair import Loss
from privacy.mechanisms import base
from privacy.mechanisms.base import Mechanism, checked, register_mechanism, unproven
from privacy.mechanisms.combinators import Composed, NoOp, Parallel, Repeated, compose, repeat
from privacy.mechanisms.noise import Gaussian
from privacy.mechanisms.selection import BestOf
from privacy.names import suggests_names
from privacy.numerics.rounding import sum_up
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

_GROUP = "Use user_level(PoissonSampled(...), max_contributions=...)."
_LARGEST_GROUP = 1000


class _Unsampled(type):
    """Make ``PoissonSampled(m, sampling_probability=1)`` return `m`."""

    @suggests_names
    def __call__(cls, mechanism: Mechanism, *, sampling_probability: float) -> Any:
        mechanism = checked(mechanism, "PoissonSampled(mechanism, ...)")
        q = checks.probability(sampling_probability)
        if q == 1 or isinstance(mechanism, NoOp):
            return mechanism
        if isinstance(mechanism, PoissonSampled):  # nested sampling probabilities multiply
            q = math.nextafter(q * mechanism.sampling_probability, 1.0)
            mechanism = mechanism.mechanism
        return super().__call__(mechanism, q)


@dataclass(frozen=True)
class PoissonSampled(base.OfParts, metaclass=_Unsampled):
    """`mechanism` on a Poisson sample: each record is included independently with probability q.

    The sample must stay secret. T new samples are ``repeat(PoissonSampled(m, ...), T)``.

    Parameters
    ----------
    mechanism
        What runs on the sample. All its parts use the same sample.
    sampling_probability
        q in (0, 1]; 1 gives `mechanism` itself. Nested probabilities multiply.
    """

    mechanism: Mechanism
    sampling_probability: float

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the loss of the inner mechanism on one sample.

        Under REPLACE_ONE a dominating pair is known only for Gaussians with replace_distance 2:
        the antipodal one (Lebeda, Regehr, Kamath and Steinke 2024, arXiv 2405.20769).
        """
        inner, q = self.mechanism, self.sampling_probability
        squared = mu_squared(inner, ADD_OR_REMOVE_ONE)
        if squared is None:
            refuse_composition(self, relation)
            return inner.sampled_loss(q, relation)
        joint = GaussianPair(squared)
        if relation is not REPLACE_ONE:
            return joint.sampled(q)
        replaced = mu_squared(inner, REPLACE_ONE)
        assert replaced is not None
        if not math.isclose(replaced, 4 * squared, rel_tol=1e-12):
            reason = "With sampling, a pair is known only for replace_distance=2. Pass 2."
            raise unproven(self, relation, reason)
        return AntipodalPair(joint.mu, q)

    def for_group(self, size: int) -> Mechanism:
        if mu_squared(self.mechanism, ADD_OR_REMOVE_ONE) is None:
            return super().for_group(size)
        return GroupSampled(self.mechanism, self.sampling_probability, size)


@dataclass(frozen=True)
class GroupSampled(base.OfParts):
    """`PoissonSampled` for a group of `size` records that change together; see `user_level`."""

    mechanism: Mechanism
    sampling_probability: float
    size: int

    def __post_init__(self) -> None:
        q = checks.probability(self.sampling_probability)
        size = checks.count("size", self.size, _GROUP)
        checks.refuse_if(q == 1, "sampling_probability", q, "< 1", _GROUP)
        checks.refuse_if(size == 1, "size", size, ">= 2", _GROUP)
        mechanism = checked(self.mechanism, "mechanism")
        base.freeze(self, mechanism=mechanism, size=size, sampling_probability=q)

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return sum over j of Bin(j; k, q) N(j mu, 1) against N(0, 1)."""
        squared = mu_squared(self.mechanism, relation)
        if relation is REPLACE_ONE or squared is None:
            reason = (
                "Several sampled records of one user are supported only for Gaussian noise. Pass "
                "Gaussian noise, and relation=ADD_OR_REMOVE_ONE or REPLACE_SPECIAL."
            )
            raise unproven(self, relation, reason)
        if self.size > _LARGEST_GROUP:
            reason = f"Pass at most {_LARGEST_GROUP} records per group: more are not supported."
            raise unproven(self, relation, reason)
        return GroupSampledPair(GaussianPair(squared).mu, self.sampling_probability, self.size)


def refuse_composition(node: Any, relation: NeighboringRelation) -> None:
    """Raise if several releases run on one sample: no bound is known unless all are Gaussian."""
    if isinstance(node.mechanism, Repeated | Composed | Parallel | BestOf):
        reason = (
            "Several releases on ONE sample have a proven bound only for Gaussians. If each "
            f"release draws its own sample, use repeat({type(node).__name__}(...), count)."
        )
        raise unproven(node, relation, reason)


def unsampled(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism on all records, the same object if nothing is sampled.

    It is at most as private by joint convexity: a sample mixes the pair with equal distributions.
    """
    match mechanism:
        case PoissonSampled(mechanism=inner):
            return inner
        case GroupSampled(mechanism=inner, size=size):
            return inner.for_group(size) if isinstance(inner, Gaussian) else mechanism
        case Repeated(mechanism=inner, count=count):
            dense = unsampled(inner)
            return mechanism if dense is inner else repeat(dense, count)
        case Composed(parts=parts):
            each = [unsampled(part) for part in parts]
            same = all(one is part for one, part in zip(each, parts, strict=True))
            return mechanism if same else compose(*each)
    return mechanism


def mu_squared(mechanism: Mechanism, relation: NeighboringRelation) -> float | None:
    """Return mu^2 of a composition of Gaussians on the same records, else None."""
    match mechanism:
        case Gaussian():
            return mechanism.loss(relation).mu_squared
        case Repeated(mechanism=inner, count=count):
            one = mu_squared(inner, relation)
            return None if one is None else sum_up([count * one])
        case Composed(parts=parts):
            each = [mu_squared(part, relation) for part in parts]
            known = [one for one in each if one is not None]
            return sum_up(known) if len(known) == len(each) else None
    return None


register_mechanism(PoissonSampled(Gaussian(1.5), sampling_probability=0.25))
register_mechanism(GroupSampled(Gaussian(1.5), 0.25, 3))
