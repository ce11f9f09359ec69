"""dp-accounting: its events as mechanisms, and an accountant that computes with `privacy`."""

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

import dp_accounting
from dp_accounting import dp_event

from privacy import checks, mechanisms
from privacy.accounting import Notion, account, check_notion
from privacy.curves import Curve
from privacy.mechanisms import Mechanism, UnsupportedMechanism, compose, no_op, repeat
from privacy.numerics.rounding import ratio_up, round_down, round_up
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, REPLACE_SPECIAL, NeighboringRelation

Event = Any
_Reader = Callable[[Event, NeighboringRelation], Mechanism]
_Write = Callable[[Any, NeighboringRelation], tuple[str, Mapping[str, Any]]]
_MOST_GRID = 1200  # losses of a mixture of Gaussians


class NoGuarantee(UnsupportedMechanism):
    """The event gives no privacy: its epsilon is infinite."""


def from_dp_event(event: Event, *, relation: NeighboringRelation = ADD_OR_REMOVE_ONE) -> Mechanism:
    """Return the mechanism that an event describes.

    `event` is a `dp_accounting.DpEvent`, of the released version or of a later one. Pass the
    mechanism to `account` with the same `relation` (ours, its name, or that of dp-accounting):
    claims and tables carry the relation, and some events have a meaning under some relations only.
    Raises `NoGuarantee` if the event has no finite epsilon, such as `NonPrivateDpEvent` or noise of
    scale 0, and `UnsupportedMechanism`, which names the event, if it has no counterpart.
    """
    return _read(event, our_relation(relation))


def _read(event: Event, relation: NeighboringRelation) -> Mechanism:
    remedy = "Pass an event, such as GaussianDpEvent(1.0)."
    checks.instance("event", event, dp_event.DpEvent, "a dp_accounting.DpEvent", remedy)
    read = EVENTS.get(type(event).__name__)
    if read is None:
        raise _refused(event, "Describe what ran with another event, or as a mechanism.")
    return read(event, relation)


def to_dp_event(
    mechanism: Mechanism, *, relation: NeighboringRelation = ADD_OR_REMOVE_ONE
) -> Event:
    """Return the event of dp-accounting that describes a mechanism.

    `relation` is the neighboring relation that the event will be accounted under. Raises
    `UnsupportedMechanism` if the installed version has no event with that meaning under it.
    """
    relation = our_relation(relation)
    mechanism = mechanisms.checked(mechanism, "mechanism")
    proven = getattr(mechanism, "relation", relation)
    write = _WRITERS.get(type(mechanism))
    if write is None and (parts := mechanism.expanded(relation)) is not mechanism:
        return to_dp_event(parts, relation=relation)
    if write is None or proven is not relation:
        raise _unwritten(mechanism, relation)
    name, values = write(mechanism, relation)
    kind = getattr(dp_event, name, None)
    if kind is None:
        message = f"The installed dp-accounting has no {name} for {mechanisms.brief(mechanism)}."
        raise UnsupportedMechanism(f"{message} Install a later version.", mechanism=mechanism)
    return kind(**values)


def our_relation(relation: Any) -> NeighboringRelation:
    """Return a neighboring relation of dp-accounting, or its name, as ours."""
    if isinstance(relation, dp_accounting.NeighboringRelation):
        relation = relation.name
    return checks.relation(relation)


def _refused(event: Event, reason: str) -> UnsupportedMechanism:
    return UnsupportedMechanism(f"{event} has no counterpart. {reason}")


def _unwritten(mechanism: Mechanism, relation: NeighboringRelation) -> UnsupportedMechanism:
    remedy = "Account for it with account(mechanism)."
    message = f"No event describes {mechanisms.brief(mechanism)} under {relation}. {remedy}"
    return UnsupportedMechanism(message, mechanism=mechanism)


def _noisy(event: Event, noise: float) -> float:
    """Return a noise level; without noise there is no guarantee."""
    if noise == 0:
        raise NoGuarantee(f"{event} adds no noise. Its epsilon is infinite.")
    return noise


def _non_private(event: Event, _: NeighboringRelation) -> Mechanism:
    raise NoGuarantee(f"{event} has no guarantee. Its epsilon is infinite.")


def _unsupported(event: Event, _: NeighboringRelation) -> Mechanism:
    raise _refused(event, "It describes no mechanism: pass the event of what ran.")


def _response(event: Event, relation: NeighboringRelation) -> Mechanism:
    """Return the response, whose answer is uniform with probability `noise_parameter`.

    Under REPLACE_SPECIAL the answer of the special record is uniform.
    """
    if relation is ADD_OR_REMOVE_ONE:
        raise _refused(event, "Its number of records is public: pass relation=REPLACE_ONE.")
    k = checks.count("num_buckets", event.num_buckets, "Pass the number of answers.")
    remedy = "Pass the probability of a uniform answer."
    p = checks.real("noise_parameter", event.noise_parameter, remedy, at_least=0, at_most=1)
    if k == 1 or p == 1:
        return no_op()
    _noisy(event, p)
    if relation is REPLACE_SPECIAL:
        given, null = [1 - p + p / k, p * (k - 1) / k], [1 / k, 1 - 1 / k]
        return mechanisms.from_pmfs(given, null, relation=relation)
    return mechanisms.RandomizedResponse(round_up(math.log1p(k * (1 - p) / p), 1e-15), k)


def _discrete_laplace(event: Event, _: NeighboringRelation) -> Mechanism:
    if event.sensitivity == 0:
        return no_op()
    rate = _noisy(event, event.noise_parameter)
    rate = checks.real("noise_parameter", rate, "Pass the decay rate of the noise.", above=0)
    return mechanisms.DiscreteLaplace(round_down(1 / rate), sensitivity=event.sensitivity)


def _discrete_gaussian(event: Event, relation: NeighboringRelation) -> Mechanism:
    """Return the noise on one integer, else its zCDP (Canonne, Kamath and Steinke 2020)."""
    if event.sensitivity == 0:
        return no_op()
    sigma = _noisy(event, event.sigma)
    if event.dimension == 1 and float(event.sensitivity).is_integer():
        return mechanisms.DiscreteGaussian(sigma, sensitivity=int(event.sensitivity))
    sigma = checks.real("sigma", sigma, "Pass the parameter of the noise.", above=0)
    moved = (2 if relation is REPLACE_ONE else 1) * event.sensitivity
    return mechanisms.ZeroConcentratedDP(round_up(0.5 * (moved / sigma) ** 2, 1e-15), relation)


def _sampled(event: Event, relation: NeighboringRelation) -> Mechanism:
    if event.sampling_probability == 0:
        return no_op()
    q, once = event.sampling_probability, _read(event.event, relation)
    return mechanisms.PoissonSampled(once, sampling_probability=q)


def _fixed_size(event: Event, relation: NeighboringRelation) -> Mechanism:
    if event.sample_size == 0:
        return no_op()
    return mechanisms.FixedSizeSampled(
        _read(event.event, relation),
        batch_size=event.sample_size,
        records=event.source_dataset_size,
        replacement=type(event).__name__ == "SampledWithReplacementDpEvent",
    )


def _truncated(event: Event, _: NeighboringRelation) -> Mechanism:
    if 0 in (event.sampling_probability, event.truncated_batch_size, event.dataset_size):
        return no_op()
    return mechanisms.TruncatedPoisson(
        mechanisms.Gaussian(_noisy(event, event.noise_multiplier)),
        sampling_probability=event.sampling_probability,
        max_batch_size=event.truncated_batch_size,
        records=event.dataset_size,
    )


def _tree(event: Event, relation: NeighboringRelation) -> Mechanism:
    if relation is ADD_OR_REMOVE_ONE:
        reason = "An added record may move others to other steps: pass relation=REPLACE_SPECIAL."
        raise _refused(event, reason)
    counts = event.step_counts
    trees = [n for n in ([counts] if isinstance(counts, int) else counts) if n != 0]
    if not trees:
        return no_op()
    return mechanisms.TreeAggregation(_noisy(event, event.noise_multiplier), trees)


def _best_of(event: Event, relation: NeighboringRelation) -> Mechanism:
    once = _read(event.event, relation)
    if event.mean == 1 and event.shape < math.inf:
        return once
    law: Any = "poisson" if event.shape == math.inf else event.shape
    return mechanisms.best_of(once, mean_runs=event.mean, distribution=law)


def _zcdp(event: Event, relation: NeighboringRelation) -> Mechanism:
    if event.xi != 0:
        raise _refused(event, "An additive constant is not supported: pass an event with xi=0.")
    if event.rho == 0:
        return no_op()
    return mechanisms.ZeroConcentratedDP(event.rho, relation)


def _claim(event: Event, relation: NeighboringRelation) -> Mechanism:
    if event.delta >= 1:
        raise NoGuarantee(f"{event} has a delta of 1. Its epsilon is infinite.")
    if event.delta == 0:
        return _epsilon(mechanisms.PureDP)(event, relation)
    return mechanisms.ApproximateDP(event.epsilon, event.delta, relation)


def _epsilon(kind: Callable[[float, NeighboringRelation], Mechanism]) -> _Reader:
    """Return how to read an event with one epsilon, 0 for no loss."""
    return lambda event, relation: kind(event.epsilon, relation) if event.epsilon else no_op()


def _mixture(event: Event, relation: NeighboringRelation) -> Mechanism:
    """Return an upper bound on a mixture of Gaussians against one of them, by its loss on a grid.

    The loss increases with the output, as no sensitivity is negative. If the probabilities add up
    to less than 1, the largest sensitivity gets the rest; if to more, the smallest ones lose it.
    """
    import numpy as np
    from scipy.special import log_ndtr, logsumexp

    if relation is REPLACE_ONE:
        raise _refused(event, "Pass relation=ADD_OR_REMOVE_ONE or REPLACE_SPECIAL.")
    remedy = "Pass sensitivities >= 0 and their probabilities."
    shifts = [checks.real("sensitivities", x, remedy, at_least=0) for x in event.sensitivities]
    weights = [checks.real("sampling_probs", w, remedy, at_least=0) for w in event.sampling_probs]
    if len(weights) != len(shifts) or not abs(math.fsum(weights) - 1) <= 1e-9:
        raise ValueError(checks.expected("sampling_probs", weights, "probabilities", remedy))
    if not any(shift and weight for shift, weight in zip(shifts, weights, strict=True)):
        return no_op()
    sigma = _noisy(event, event.standard_deviation)
    remedy = "Pass the noise's standard deviation."
    sigma = checks.real("standard_deviation", sigma, remedy, above=0)
    used = sorted(((c, w) for c, w in zip(shifts, weights, strict=True) if w > 0), reverse=True)
    c, w = np.array(used).T
    c = c / sigma
    w = np.minimum(w, np.maximum(1 - (np.cumsum(w) - w), 0))
    w[0] += max(1 - math.fsum(w), 0)
    x = np.linspace(-9, 9 + c.max(), _MOST_GRID)[:, None]
    loss = logsumexp(c * x - c * c / 2, b=w, axis=1)
    kept = np.flatnonzero((np.diff(loss, prepend=-np.inf) > 1e-12) & (abs(loss) <= 700))
    x, loss = x[kept], loss[kept]

    def tail(side: int, centers: Any, weights: Any) -> Callable[[Any], Any]:
        found = (weights * np.exp(log_ndtr(side * (x - centers)))).sum(axis=1)
        return lambda _: np.minimum(found, 1)

    zero, one = np.zeros(1), np.ones(1)
    return mechanisms.from_cdfs(
        tail(1, c, w),
        tail(1, zero, one),
        loss.tolist(),
        p_above=tail(-1, c, w),
        q_above=tail(-1, zero, one),
        relation=relation,
    )


EVENTS: dict[str, _Reader] = {
    "NoOpDpEvent": lambda *_: no_op(),
    "NonPrivateDpEvent": _non_private,
    "UnsupportedDpEvent": _unsupported,
    "GaussianDpEvent": lambda e, _: mechanisms.Gaussian(_noisy(e, e.noise_multiplier)),
    "LaplaceDpEvent": lambda e, _: mechanisms.Laplace(_noisy(e, e.noise_multiplier)),
    "DiscreteLaplaceDpEvent": _discrete_laplace,
    "RandomizedResponseDpEvent": _response,
    "SelfComposedDpEvent": lambda e, rel: repeat(_read(e.event, rel), e.count),
    "ComposedDpEvent": lambda e, relation: compose(
        no_op(), *(_read(part, relation) for part in e.events)
    ),
    "PoissonSampledDpEvent": _sampled,
    "SampledWithReplacementDpEvent": _fixed_size,
    "SampledWithoutReplacementDpEvent": _fixed_size,
    "TruncatedSubsampledGaussianDpEvent": _truncated,
    "SingleEpochTreeAggregationDpEvent": _tree,
    "RepeatAndSelectDpEvent": _best_of,
    "MixtureOfGaussiansDpEvent": _mixture,
    "ZCDpEvent": _zcdp,
    # not in version 0.6
    "EpsilonDeltaDpEvent": _claim,
    "DiscreteGaussianDpEvent": _discrete_gaussian,
    "ExponentialMechanismDpEvent": _epsilon(mechanisms.ExponentialMechanism),
    "PermuteAndFlipDpEvent": _epsilon(mechanisms.PermuteAndFlip),
    "RandomAllocationDpEvent": lambda e, relation: (
        mechanisms.RandomAllocation(_read(e.event, relation), e.num_steps, e.num_selected)
        if e.num_selected
        else no_op()
    ),
}
"""How each class of events is read, by name, so that a class may be missing."""


def _check_distance(mechanism: Any, relation: NeighboringRelation) -> None:
    """Raise if a replaced record moves the query by less than two norm bounds, as events assume."""
    whole = getattr(mechanism, "replace_distance", 2.0) == 2.0
    if hasattr(mechanism, "replace_sensitivity"):
        whole = mechanism.replace_sensitivity == 2 * mechanism.sensitivity
    if relation is REPLACE_ONE and not whole:
        raise _unwritten(mechanism, relation)


def _write(
    name: str,
    *same: str,
    unless: Callable[[Any, NeighboringRelation], bool] = lambda *_: False,
    **fields: str | Callable[[Any], Any],
) -> _Write:
    """Return how to write an event, from attributes of the `same` or other names, and functions.

    Mechanisms in them become events. No event describes a mechanism for which `unless` is true.
    """
    given = {**{field: field for field in same}, **fields}
    read = {key: attrgetter(of) if isinstance(of, str) else of for key, of in given.items()}

    def write(m: Any, relation: NeighboringRelation) -> tuple[str, Mapping[str, Any]]:
        if unless(m, relation):
            raise _unwritten(m, relation)
        for each in (m, *mechanisms.parts_of(m)):
            _check_distance(each, relation)
        return name, {field: _written(of(m), relation) for field, of in read.items()}

    return write


def _written(value: Any, relation: NeighboringRelation) -> Any:
    if isinstance(value, tuple):
        return [_written(each, relation) for each in value]
    return to_dp_event(value, relation=relation) if isinstance(value, Mechanism) else value


def _share(m: mechanisms.RandomizedResponse) -> float:
    """Return the probability of a uniform answer, rounded down."""
    rest = math.exp(-m.epsilon)  # e^epsilon may be larger than a float
    return round_down(m.categories * rest / (1 + (m.categories - 1) * rest), 1e-15)


def _write_fixed_size(m: Any, relation: NeighboringRelation) -> tuple[str, Mapping[str, Any]]:
    name = f"SampledWith{'' if m.replacement else 'out'}ReplacementDpEvent"
    sizes: Any = {"source_dataset_size": "records", "sample_size": "batch_size"}
    return _write(name, event="mechanism", **sizes)(m, relation)


_WRITERS: dict[type[Mechanism], _Write] = {
    mechanisms.NoOp: _write("NoOpDpEvent"),
    mechanisms.Gaussian: _write("GaussianDpEvent", "noise_multiplier"),
    mechanisms.Laplace: _write("LaplaceDpEvent", noise_multiplier="scale"),
    mechanisms.DiscreteLaplace: _write(
        "DiscreteLaplaceDpEvent", "sensitivity", noise_parameter=lambda m: ratio_up(1.0, m.scale)
    ),
    mechanisms.DiscreteGaussian: _write(
        "DiscreteGaussianDpEvent", "sigma", "sensitivity", dimension=lambda _: 1
    ),
    mechanisms.RandomizedResponse: _write(
        "RandomizedResponseDpEvent",
        unless=lambda _, relation: relation is not REPLACE_ONE,  # events have another null record
        noise_parameter=_share,
        num_buckets="categories",
    ),
    mechanisms.ZeroConcentratedDP: _write("ZCDpEvent", "rho"),
    mechanisms.PureDP: _write("EpsilonDeltaDpEvent", "epsilon", delta=lambda _: 0.0),
    mechanisms.ApproximateDP: _write("EpsilonDeltaDpEvent", "epsilon", "delta"),
    mechanisms.ExponentialMechanism: _write("ExponentialMechanismDpEvent", "epsilon"),
    mechanisms.PermuteAndFlip: _write("PermuteAndFlipDpEvent", "epsilon"),
    mechanisms.Repeated: _write("SelfComposedDpEvent", "count", event="mechanism"),
    mechanisms.Composed: _write("ComposedDpEvent", events="parts"),
    mechanisms.PoissonSampled: _write(
        "PoissonSampledDpEvent", "sampling_probability", event="mechanism"
    ),
    mechanisms.FixedSizeSampled: _write_fixed_size,
    mechanisms.TruncatedPoisson: _write(
        "TruncatedSubsampledGaussianDpEvent",
        "sampling_probability",
        unless=lambda m, _: not isinstance(m.mechanism, mechanisms.Gaussian),
        dataset_size="records",
        truncated_batch_size="max_batch_size",
        noise_multiplier="mechanism.noise_multiplier",
    ),
    mechanisms.TreeAggregation: _write(
        "SingleEpochTreeAggregationDpEvent",
        "noise_multiplier",
        unless=lambda m, relation: m.participations > 1 or relation is ADD_OR_REMOVE_ONE,
        step_counts="steps",
    ),
    mechanisms.RandomAllocation: _write(
        "RandomAllocationDpEvent",
        unless=lambda m, _: m.epochs > 1,
        event="mechanism",
        num_selected="participations",
        num_steps="steps",
    ),
    mechanisms.BestOf: _write(
        "RepeatAndSelectDpEvent",
        event="mechanism",
        mean="mean_runs",
        shape=lambda m: math.inf if m.shape is None else m.shape,
    ),
}


class DpAccountant(dp_accounting.PrivacyAccountant):  # type: ignore[misc]  # it has no types
    """A `dp_accounting.PrivacyAccountant` that computes with `privacy.account`.

    For dp-accounting, jax-privacy and TF-Privacy, as ``calibrate_dp_mechanism(DpAccountant, ...)``.
    `neighboring_relation` is one of dp-accounting or ours, `notion` by default the tightest.
    """

    def __init__(
        self, neighboring_relation: Any = ADD_OR_REMOVE_ONE, *, notion: Notion = "tightest"
    ) -> None:
        self.relation = our_relation(neighboring_relation)
        super().__init__(dp_accounting.NeighboringRelation[self.relation.name])
        self.notion: Notion = check_notion(notion)
        self._private = True
        self._runs: dict[Mechanism, int] = {}
        self._kinds: dict[Any, Mechanism] = {}  # an accepted mechanism of each kind
        self._new_kinds: dict[Any, Mechanism] = {}
        self._checked: list[tuple[Event, Mechanism, int]] = []
        self._guaranteed = True
        # The last event. A set compares hashes too: those of numpy.float32(0.7) == 0.7 differ.
        self._last: set[Event] = set()
        self._more = 0  # its uncounted repetitions

    @property
    def mechanism(self) -> Mechanism:
        """What ran so far, without non-private events."""
        self._count_last()
        return compose(no_op(), *(repeat(once, count) for once, count in self._runs.items()))

    @property
    def ledger(self) -> Event:
        """The event that was composed so far."""
        self._count_last()
        return super().ledger

    def compose(self, event: Event, count: int = 1) -> "DpAccountant":
        """Compose an event `count` times; repeating the last event takes constant time."""
        try:
            if event in self._last and type(count) is int and count > 0:
                self._more += count
                return self
            last = {event}
        except TypeError:  # it has a list and can change
            last = set()
        self._count_last()
        super().compose(event, count)
        self._last = last
        return self

    def _count_last(self) -> None:
        last, more, self._last, self._more = self._last, self._more, set(), 0
        if more:
            super().compose(*last, more)

    def _maybe_compose(self, event: Event, count: int, do_compose: bool) -> Any:  # noqa: FBT001
        if do_compose:  # it was checked before
            for _, once, times in self._checked:
                self._runs[once] = self._runs.get(once, 0) + times
            self._kinds |= self._new_kinds
            self._private &= self._guaranteed
            return None
        self._checked, self._new_kinds, self._guaranteed, refused = [], {}, True, event
        try:
            for refused, times in _parts(event, count):
                try:
                    once = _read(refused, self.relation)
                except NoGuarantee:
                    self._guaranteed = False
                    continue
                self._checked.append((refused, once, times))
                if (kind := _kind(once)) not in self._kinds:
                    self._new_kinds[kind] = once
            # Only one mechanism of each kind is checked: checking all parts in each step would take
            # quadratic time. For a count of 0, from `supports`, all parts are checked.
            if self._new_kinds or not count:
                refused, new = event, (once for _, once, _ in self._checked)
                self._account(compose(no_op(), *self._kinds.values(), *new))
        except UnsupportedMechanism as refusal:
            parts = (part for part, once, _ in self._checked if not self._accepts(once))
            found = next(parts, refused)
            return self.CompositionErrorDetails(invalid_event=found, error_message=str(refusal))
        return None

    def _accepts(self, mechanism: Mechanism) -> bool:
        try:
            self._account(mechanism)
        except UnsupportedMechanism:
            return False
        return True

    def _account(self, mechanism: Mechanism) -> Curve:
        return account(mechanism, notion=self.notion, relation=self.relation)

    def curve(self) -> Curve:
        """Return the privacy curve of what ran; `NoGuarantee` after a non-private event."""
        if not self._private:
            raise NoGuarantee("A non-private event was composed. The epsilon is infinite.")
        return self._account(self.mechanism)

    def get_epsilon(self, target_delta: float) -> float:
        """Return an upper bound on epsilon; `target_delta` in [0, 1]."""
        if not self._private:
            return math.inf
        return 0.0 if target_delta == 1 else self.curve().epsilon(target_delta)

    def get_delta(self, target_epsilon: float) -> float:
        """Return an upper bound on delta; `target_epsilon` >= 0, possibly infinite."""
        if not self._private:
            return 1.0
        return self.curve().delta(min(target_epsilon, sys.float_info.max))


def _kind(mechanism: Mechanism) -> Any:
    return (type(mechanism), *map(_kind, mechanisms.parts_of(mechanism)))


def _parts(event: Event, count: int) -> Iterator[tuple[Event, int]]:
    """Yield the events of nested compositions, with their counts."""
    if isinstance(event, dp_event.SelfComposedDpEvent):
        yield from _parts(event.event, event.count * count)
    elif isinstance(event, dp_event.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    else:
        yield event, count
