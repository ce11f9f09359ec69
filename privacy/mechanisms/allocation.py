"""Samplers that use each record in a fixed number of steps, or in every b-th step."""

from dataclasses import dataclass
from typing import ClassVar

from privacy import checks
from privacy.losses.gaussian import AllocationPair, GaussianPair
from privacy.losses.pair import Loss
from privacy.mechanisms import base
from privacy.mechanisms.base import Mechanism, checked, freeze, register_mechanism, unproven
from privacy.mechanisms.combinators import compose, repeat
from privacy.mechanisms.noise import Gaussian
from privacy.mechanisms.sampling import PoissonSampled, mu_squared
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

# a larger mu treats the record's steps as known; from 37 on, probabilities without it underflow
_LARGEST_MU = 20.0
_MOST_STEPS = 10**7
_ONE_SAMPLE = "No pair is known for several steps on one sample. Remove the outer sampler."


@dataclass(frozen=True)
class RandomAllocation(Mechanism):
    """Balls-in-bins sampling: each record is in `participations` random steps of each epoch.

    In each of `epochs` epochs of `steps` <= 10^7 steps, every record draws its steps uniformly,
    without replacement, independently of all other records and epochs. `mechanism` (one or more
    Gaussians) runs once in each step, on the records that drew it. The steps of a record must stay
    secret. Shuffling differs: batch sizes are fixed, so an added record moves others.

    Proven under ADD_OR_REMOVE_ONE and REPLACE_SPECIAL (Feldman and Shenfeld 2026, arXiv 2602.17284;
    :doc:`/theory/random-allocation` has the pair). zCDP and RDP bounds, and all bounds for mu = 1 /
    noise_multiplier > 20, do not use that the steps are secret.
    """

    mechanism: Mechanism
    steps: int
    participations: int = 1
    epochs: int = 1

    null_is_absent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        steps = checks.count("steps", self.steps, "Pass the number of steps in an epoch.")
        participations = checks.count("participations", self.participations, _PARTICIPATIONS)
        epochs = checks.count("epochs", self.epochs, "Pass the number of epochs.")
        remedy = "Pass fewer steps per epoch."
        checks.refuse_if(steps > _MOST_STEPS, "steps", steps, f"<= {_MOST_STEPS}", remedy)
        more, rule = participations > steps, f"<= steps={steps}"
        checks.refuse_if(more, "participations", participations, rule, _PARTICIPATIONS)
        freeze(self, mechanism=_gaussian(self), steps=steps)
        freeze(self, participations=participations, epochs=epochs)

    def expanded(self, relation: NeighboringRelation) -> Mechanism:
        """Return allocations to one step of a block; itself for one allocation."""
        if self.participations == self.epochs == 1 and self.steps > 1:
            return self
        size, longer = divmod(self.steps, self.participations)
        parts = [self._block(size, self.participations - longer)]
        if longer:
            parts.append(self._block(size + 1, longer))
        return compose(*parts)

    def _block(self, size: int, count: int) -> Mechanism:
        one = self.mechanism if size == 1 else RandomAllocation(self.mechanism, size)
        return repeat(one, count * self.epochs)

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the pair of one record that is in one of several steps."""
        if relation is REPLACE_ONE:
            raise unproven(self, relation, "Pass relation=ADD_OR_REMOVE_ONE or REPLACE_SPECIAL.")
        if self.expanded(relation) is not self:
            raise unproven(self, relation, _ONE_SAMPLE)
        squared = mu_squared(self.mechanism, ADD_OR_REMOVE_ONE)
        assert squared is not None  # checked at construction
        joint = GaussianPair(squared)
        return joint if joint.mu > _LARGEST_MU else AllocationPair(joint.mu, self.steps)


_PARTICIPATIONS = "Pass the participations of each record per epoch."


def _gaussian(sampler: "RandomAllocation | CyclicPoisson") -> Mechanism:
    """Return the mechanism of a sampler if it is Gaussian noise, else raise."""
    inner = checked(sampler.mechanism, "mechanism")
    if mu_squared(inner, ADD_OR_REMOVE_ONE) is None:
        rule = "Gaussian noise, the only noise with a proven bound for this sampler"
        remedy = "Pass Gaussian noise, or use PoissonSampled."
        message = checks.expected("mechanism", inner, rule, remedy)
        raise base.UnsupportedMechanism(message, mechanism=inner)
    return inner


@dataclass(frozen=True)
class CyclicPoisson(Mechanism):
    """Poisson sampling from one of `groups` groups of records in each step, in turn.

    Each record is in one group, random or given by its public index, independently of all others.
    Step i of `steps` uses group i mod `groups`, and includes each of its records independently with
    the `sampling_probability` q in (0, 1]: of n records, a batch has about q n / groups. If the
    encoder C of the `Factorization` has at most `groups` bands, all steps cost as much as
    ceil(steps / groups) sampled Gaussians (Choquette-Choo et al. 2023, arXiv 2306.08153, Theorem
    4). `mechanism` is Gaussian noise at the sensitivity of one participation, the largest column
    norm of C. One group is Poisson sampling.
    """

    mechanism: Mechanism
    sampling_probability: float
    steps: int
    groups: int

    null_is_absent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        freeze(
            self,
            mechanism=_gaussian(self),
            sampling_probability=checks.probability(self.sampling_probability),
            steps=checks.count("steps", self.steps, "Pass the total number of steps."),
            groups=checks.count("groups", self.groups, "Pass the number of groups of records."),
        )

    def expanded(self, relation: NeighboringRelation) -> Mechanism:
        """Return the sampled releases of one group."""
        once = PoissonSampled(self.mechanism, sampling_probability=self.sampling_probability)
        return repeat(once, -(-self.steps // self.groups))

    def loss(self, relation: NeighboringRelation) -> Loss:
        raise unproven(self, relation, _ONE_SAMPLE)


register_mechanism(RandomAllocation(Gaussian(1.5), 4, 2, 3))
register_mechanism(CyclicPoisson(Gaussian(1.5), 0.25, 10, 4))
