"""Batches that are not Poisson samples: of a fixed or limited size, and shuffled epochs."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from privacy import checks
from privacy.losses.batches import mixed, replaced
from privacy.losses.gaussian import GaussianPair
from privacy.losses.laplace import LaplacePair
from privacy.losses.pair import Loss, LossPair
from privacy.mechanisms.base import Mechanism, checked, freeze, register_mechanism, unproven
from privacy.mechanisms.combinators import Composed, Parallel, Repeated, compose, repeat
from privacy.mechanisms.noise import Gaussian
from privacy.mechanisms.sampling import PoissonSampled, mu_squared, refuse_composition
from privacy.mechanisms.tables import composable
from privacy.names import suggests_names
from privacy.numerics.binomial import binomial_weights, log_binomial_tails
from privacy.numerics.rounding import U, ratio_up, sum_up
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, REPLACE_SPECIAL, NeighboringRelation

_BATCH = "Pass the (largest) number of records in a batch, a whole number >= 1."
_RECORDS = "Pass the number of records of the data set, a public whole number."
_PASSES = "Pass the number of passes over the data set (epochs), at least 1."
_MOMENTS = "It has only bounds on its moments. Pass a mechanism with a dominating pair."
_DISPLACED = (
    "Batch sizes are fixed, so an added record displaces others, as in "
    "DataLoader(shuffle=True). Pass relation=REPLACE_ONE or REPLACE_SPECIAL. If each record is "
    "drawn independently, as by Opacus' UniformWithReplacementSampler, use PoissonSampled."
)


class _OfBatches(Mechanism):
    """A mechanism whose loss depends on the number of records, or on their places."""

    __slots__ = ()

    def sampled_loss(self, sampling_probability: float, relation: NeighboringRelation) -> Loss:
        """Raise: the number of records of a Poisson sample is not public."""
        reason = "A Poisson sample has no public size. Remove the outer PoissonSampled."
        raise unproven(self, relation, reason, sampled=True)


def _batched(mechanism: object) -> Mechanism:
    """Return the mechanism of one batch, or raise if it is of several batches itself."""
    mechanism = checked(mechanism, "mechanism")
    if isinstance(mechanism, _OfBatches):
        remedy = "Remove the inner sampler."
        rule = "a mechanism that runs on one batch"
        raise TypeError(checks.expected("mechanism", type(mechanism).__name__, rule, remedy))
    return mechanism


@dataclass(frozen=True)
class FixedSizeSampled(_OfBatches):
    """`mechanism` run once on a batch of exactly `batch_size` of the `records`, drawn uniformly.

    For T steps, use ``repeat(FixedSizeSampled(m, ...), T)``. The batch must stay secret; the
    number of records is public. With `replacement`, a record may be drawn several times. Valid
    under REPLACE_ONE and REPLACE_SPECIAL, for which a null record takes part in the draw.
    Sources: Balle, Barthe and Gaboardi 2018, Theorems 9 (without replacement) and 10 (with); Zhu,
    Dong and Wang 2022, arXiv 2106.08567, Theorem 11 (the dominating pair).
    """

    mechanism: Mechanism
    _: KW_ONLY
    batch_size: int
    records: int
    replacement: bool = False

    relation: ClassVar[NeighboringRelation] = REPLACE_ONE

    def __post_init__(self) -> None:
        size = checks.count("batch_size", self.batch_size, _BATCH)
        records = checks.count("records", self.records, _RECORDS)
        remedy = "Pass True if a record may be drawn several times."
        checks.flag("replacement", self.replacement, remedy)
        larger, rule = size > records and not self.replacement, f"<= records={records}"
        remedy = "Pass the size of one batch, or replacement=True."
        checks.refuse_if(larger, "batch_size", size, rule, remedy)
        freeze(self, mechanism=_batched(self.mechanism), batch_size=size, records=records)

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the pair of a replaced record, valid at every epsilon.

        With replacement, a record is drawn j ~ Bin(batch_size, 1 / records) times: j replacements.
        """
        if relation is ADD_OR_REMOVE_ONE:
            raise unproven(self, relation, _DISPLACED)
        size, records = self.batch_size, self.records
        if not self.replacement:
            return composable(replaced(_exchanged(self, relation), ratio_up(size, records)))
        if records == 1:
            return _exchanged(self, relation, size)
        weights, lost = binomial_weights(size, records)
        drawn = min(math.fsum([*weights, lost]) * (1 + 8 * U), 1.0)
        several = (_exchanged(self, relation, copies + 1) for copies in range(len(weights)))
        pairs = [replaced(pair, drawn) for pair in several]
        return composable(mixed(pairs, [weight / drawn for weight in weights], lost))


def _exchanged(node: Any, relation: NeighboringRelation, copies: int = 1) -> LossPair:
    """Return a pair for every two batches that differ in `copies` records, or raise.

    Under REPLACE_SPECIAL the null record or any other record can be in place of the changed one.
    """
    pair = _of_batch(node, REPLACE_ONE, copies)
    if relation is REPLACE_SPECIAL:
        null = _of_batch(node, REPLACE_SPECIAL, copies)
        if pair != null:
            pair = _larger(node, pair, null)
    if not pair.symmetric:
        raise unproven(node, relation, "The pair of a replacement is asymmetric. Pass other noise.")
    return pair


def _larger(node: Mechanism, one: LossPair, other: LossPair) -> LossPair:
    """Return the pair with less noise, if both are of one family; else raise."""
    match one, other:
        case GaussianPair(), GaussianPair():
            return max(one, other, key=lambda pair: pair.mu_squared)
        case LaplacePair(), LaplacePair():
            return max(one, other, key=lambda pair: pair.distance)
    raise unproven(
        node,
        REPLACE_SPECIAL,
        "It is not known whether a replaced or a null record is worse. Pass relation=REPLACE_ONE.",
    )


def _of_batch(node: Any, relation: NeighboringRelation, copies: int) -> LossPair:
    """Return the pair of the inner mechanism, `copies` records of the batch being replaced."""
    inner: Mechanism = node.mechanism
    squared = mu_squared(inner, relation)
    if squared is not None:
        return GaussianPair(sum_up([copies * copies * squared]) if copies > 1 else squared)
    refuse_composition(node, relation)
    loss = (inner if copies == 1 else inner.for_group(copies)).loss(relation)
    if not isinstance(loss, LossPair):
        raise unproven(node, relation, _MOMENTS)
    return loss


class _Limited(type):
    """Make ``TruncatedPoisson`` of at most `max_batch_size` records return `PoissonSampled`."""

    @suggests_names
    def __call__(
        cls, mechanism: Mechanism, *, sampling_probability: float, max_batch_size: int, records: int
    ) -> Any:
        size = checks.count("max_batch_size", max_batch_size, _BATCH)
        records = checks.count("records", records, _RECORDS)
        if records <= size:
            return PoissonSampled(mechanism, sampling_probability=sampling_probability)
        return super().__call__(mechanism, sampling_probability, size, records)


@dataclass(frozen=True)
class TruncatedPoisson(_OfBatches, metaclass=_Limited):
    """`mechanism` run once on a Poisson sample of at most `max_batch_size` records.

    Each record is included independently with `sampling_probability` q in (0, 1]. If more than
    `max_batch_size` are, a uniformly chosen subset of that size is used; if `records` is not
    larger, the result is `PoissonSampled`. T steps are ``repeat(TruncatedPoisson(m, ...), T)``.
    The sample must stay secret. The number of records is public; under ADD_OR_REMOVE_ONE, pass that
    of the larger neighboring data set. :doc:`/theory/samplers` derives the pair.
    """

    mechanism: Mechanism
    sampling_probability: float
    max_batch_size: int
    records: int

    largest_count: ClassVar[bool] = True

    def __post_init__(self) -> None:
        q = checks.probability(self.sampling_probability)
        freeze(self, mechanism=_batched(self.mechanism), sampling_probability=q)

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the mixture of an added and a replaced record, the case revealed."""
        q, most, records = self.sampling_probability, self.max_batch_size, self.records
        rest, full = log_binomial_tails(records - 1, q, most)
        _, cut = log_binomial_tails(records, q, most + 1)
        share = most / (most + 1) * q  # at least the probability of the exchange
        if cut > -math.inf:
            exact = math.exp(cut - full) * (most / records)
            share = min(share, exact * (1 + 4 * U * (abs(cut) + abs(full))))
        share = min(share * (1 + 8 * U), 1.0)
        exchanged = _exchanged(self, relation)
        added = PoissonSampled(self.mechanism, sampling_probability=q).loss(relation)
        if relation is ADD_OR_REMOVE_ONE:
            pairs = (added, exchanged.sampled(share))
        else:
            pairs = (added, replaced(exchanged, share))
        known = [pair for pair in pairs if isinstance(pair, LossPair)]
        if len(known) < len(pairs):
            raise unproven(self, relation, _MOMENTS)
        # a probability that was rounded to 0 is at most 1e-300
        return composable(mixed(known, [max(math.exp(log), 1e-300) for log in (rest, full)]))


class _OnePass(type):
    """Make ``Epochs(m, passes=n)`` return n repetitions of one epoch of m."""

    @suggests_names
    def __call__(cls, mechanism: Mechanism, *, passes: int = 1) -> Any:
        mechanism = checked(mechanism, "mechanism")
        passes = checks.count("passes", passes, _PASSES)
        one: Callable[[Mechanism], Mechanism] = cls
        match mechanism:
            case Repeated():
                return repeat(one(mechanism.mechanism), mechanism.count * passes)
            case Composed():
                return repeat(compose(*map(one, mechanism.parts)), passes)
            case Epochs():
                return repeat(mechanism, passes)
        return repeat(super().__call__(_batched(mechanism)), passes)


@dataclass(frozen=True)
class Epochs(_OfBatches, metaclass=_OnePass):
    """`mechanism` run on every batch of a shuffled data set, once per epoch.

    Each record is in at most one batch of an epoch, at a random or fixed place that does not depend
    on the records' contents and may be public. An epoch costs as much as one release (parallel
    composition); no amplification by shuffling is claimed (:doc:`/theory/samplers`). Valid under
    REPLACE_ONE and REPLACE_SPECIAL. `passes` epochs are ``repeat(Epochs(mechanism), passes)``.
    """

    mechanism: Mechanism
    passes: int = 1

    relation: ClassVar[NeighboringRelation] = REPLACE_ONE

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the loss of the mechanism: one batch contains the record."""
        if relation is ADD_OR_REMOVE_ONE:
            raise unproven(self, relation, _DISPLACED)
        if isinstance(self.mechanism, Parallel):
            reason = "Parallel cells are not supported. Pass the mechanism of one batch."
            raise unproven(self, relation, reason)
        return self.mechanism.loss(relation)


register_mechanism(FixedSizeSampled(Gaussian(1.5), batch_size=25, records=100))
register_mechanism(
    TruncatedPoisson(Gaussian(1.5), sampling_probability=0.25, max_batch_size=30, records=100)
)
register_mechanism(Epochs(Gaussian(1.5)))
