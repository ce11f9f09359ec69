"""Poisson sampling: one independent draw per record for the whole inner mechanism."""

import math
from dataclasses import dataclass
from typing import Any

from privacy import checks
from privacy.losses.gaussian import AntipodalPair, GaussianPair, GroupSampledPair
from privacy.losses.pair import Loss
from privacy.mechanisms.base import Mechanism, checked, freeze, register_mechanism, unproven
from privacy.mechanisms.combinators import Composed, Parallel, Repeated
from privacy.mechanisms.noise import Gaussian
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
        if q == 1:
            return mechanism
        if isinstance(mechanism, PoissonSampled):  # nested sampling probabilities multiply
            q = math.nextafter(q * mechanism.sampling_probability, 1.0)
            mechanism = mechanism.mechanism
        return super().__call__(mechanism, q)


@dataclass(frozen=True)
class PoissonSampled(Mechanism, metaclass=_Unsampled):
    """`mechanism` on a Poisson sample: each record is included independently with probability q.

    Each record is included independently with `sampling_probability`. One sample is drawn for all
    of `mechanism`, so that a sampled repetition reuses it. For T steps with a new sample each, use
    ``repeat(PoissonSampled(m, ...), T)``. The sample must stay secret.

    Parameters
    ----------
    mechanism
        The mechanism that runs on the sample.
    sampling_probability
        Probability q in (0, 1] that a record is included. With 1 the result is `mechanism`
        itself. Nested probabilities multiply.
    """

    mechanism: Mechanism
    sampling_probability: float

    @property
    def null_is_absent(self) -> bool:  # type: ignore[override]
        """As in the sampled mechanism."""
        return self.mechanism.null_is_absent

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the loss of the inner mechanism on one sample.

        Under REPLACE_ONE a dominating pair is known only for Gaussians with replace_distance 2:
        the antipodal one (Lebeda, Regehr, Kamath and Steinke 2024, arXiv 2405.20769).
        """
        inner, q = self.mechanism, self.sampling_probability
        squared = mu_squared(inner, ADD_OR_REMOVE_ONE)
        if squared is None:
            if isinstance(inner, Repeated | Composed | Parallel):
                raise unproven(
                    self,
                    relation,
                    "Several releases on ONE sample have a proven bound only for Gaussians. If "
                    "each draws its own sample, use repeat(PoissonSampled(...), count).",
                )
            return inner.sampled_loss(q, relation)
        joint = GaussianPair(squared)
        if relation is not REPLACE_ONE:
            return joint.sampled(q)
        replaced = mu_squared(inner, REPLACE_ONE)
        assert replaced is not None
        if not math.isclose(replaced, 4 * squared, rel_tol=1e-12):
            raise unproven(
                self,
                relation,
                "With sampling, the dominating pair is known only for replace_distance=2.",
            )
        return AntipodalPair(joint.mu, q)

    def for_group(self, size: int) -> Mechanism:
        """Return the binomial mixture of Gaussians (Ganesh 2024, arXiv 2401.10294)."""
        if mu_squared(self.mechanism, ADD_OR_REMOVE_ONE) is None:
            return super().for_group(size)
        return GroupSampled(self.mechanism, self.sampling_probability, size)


@dataclass(frozen=True)
class GroupSampled(Mechanism):
    """`mechanism` on a Poisson sample, for a group of records. Built by `user_level`.

    Neighboring data sets differ in all `size` records of the group. Each record is included
    independently with `sampling_probability`.
    """

    mechanism: Mechanism
    sampling_probability: float
    size: int

    @property
    def null_is_absent(self) -> bool:  # type: ignore[override]
        """As in the sampled mechanism."""
        return self.mechanism.null_is_absent

    def __post_init__(self) -> None:
        q = checks.probability(self.sampling_probability)
        size = checks.count("size", self.size, _GROUP)
        for name, value, within, rule in (
            ("sampling_probability", q, q < 1, "< 1"),
            ("size", size, size > 1, ">= 2"),
        ):
            if not within:
                raise ValueError(checks.expected(name, value, rule, _GROUP))
        freeze(self, mechanism=checked(self.mechanism, "mechanism"), size=size)
        freeze(self, sampling_probability=q)

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return sum over j of Bin(j; k, q) N(j mu, 1) against N(0, 1)."""
        squared = mu_squared(self.mechanism, relation)
        if relation is REPLACE_ONE or squared is None:
            raise unproven(
                self,
                relation,
                "With sampling, several records of one user have a proven bound only for "
                "Gaussians under ADD_OR_REMOVE_ONE and REPLACE_SPECIAL.",
            )
        if self.size > _LARGEST_GROUP:
            raise unproven(
                self, relation, f"A sampled group may have at most {_LARGEST_GROUP} records."
            )
        return GroupSampledPair(GaussianPair(squared).mu, self.sampling_probability, self.size)


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


register_mechanism(PoissonSampled(Gaussian(1.5), sampling_probability=0.25), build=PoissonSampled)
register_mechanism(GroupSampled(Gaussian(1.5), 0.25, 3))
