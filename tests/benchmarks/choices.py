"""Figures of all mechanisms: audits, planted faults, true deltas and other tools."""

import itertools
import logging
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event

import privacy as dp
from privacy.audit import falsify
from privacy.interop.dp_accounting import EVENTS
from tests.audit.test_sparse_vector import CASES, RUNS, low_answer, negatives, pair, sparse
from tests.audit.worst_cases import cases, losses
from tests.crosscheck import dp_events
from tests.reference import truths

LEVEL = 1e-3
AUDITS = 200


def figures() -> Iterator[tuple]:
    """Yield name, value, unit and limit."""
    yield from false_alarms()
    yield from planted_faults()
    yield from true_deltas()
    yield from events()
    yield from beside_the_peers()


# -- audits --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Exact(dp.Mechanism):
    """One bit, 1 with probability p with the record and q without it."""

    p: float
    q: float

    def loss(self, relation):
        return ExactPair(self.p, self.q)


@dataclass(frozen=True)
class ExactPair(dp.DiscretePair):
    """Bernoulli(p) against Bernoulli(q)."""

    p: float
    q: float

    def atoms(self):
        losses = (math.log(self.p / self.q), math.log((1 - self.p) / (1 - self.q)))
        up = tuple(math.nextafter(x, math.inf) for x in losses)
        return dp.Atoms((math.log(self.p), math.log1p(-self.p)), up)


def bits(p, q, rng, runs):
    """Return scores of draws of `Exact`, without and with the record."""
    one, zero = math.log(p / q), math.log((1 - p) / (1 - q))
    return [np.where(rng.random(runs) < chance, one, zero) for chance in (q, p)]


def geometric_best(epsilon, mean, rng, runs, *, more=0):
    """Return the exact claim for the best of K randomized responses, and scores of K + `more`.

    1 is the better answer. K is geometric.
    """
    stop = dp.best_of(dp.RandomizedResponse(epsilon), mean_runs=mean).gamma
    wrong = [1 / (1 + math.exp(side * epsilon)) for side in (-1, 1)]  # P(0), by world
    never = [stop * x / (1 - (1 - stop) * x) for x in wrong]
    one, zero = math.log((1 - never[1]) / (1 - never[0])), math.log(never[1] / never[0])
    scores = [
        np.where(rng.random(runs) < x ** (rng.geometric(stop, runs) + more), zero, one)
        for x in wrong
    ]
    return Exact(1 - never[1], 1 - never[0]), scores


def false_alarms() -> Iterator[tuple]:
    """Yield the audits that falsify a true claim: the worst pairs of each kind in turn."""
    by_kind: dict[str, list] = {}
    for mechanism, relation in cases():
        by_kind.setdefault(type(mechanism).__name__, []).append((mechanism, relation))
    for kind, known in by_kind.items():
        alarms = 0
        seeds = np.random.SeedSequence(2026).spawn(AUDITS)
        for (mechanism, relation), seed in zip(itertools.cycle(known), seeds, strict=False):
            scores = losses(mechanism, relation, np.random.default_rng(seed), 2000)
            alarms += falsify(mechanism, *scores, significance=LEVEL, relation=relation).falsified
        yield f"false alarms in {AUDITS}: {kind}", alarms, "", 0
    for variant in (1, 2):
        alarms = 0
        for seed in np.random.SeedSequence(variant).spawn(AUDITS):
            epsilon, most, below, above, score = CASES[variant][0]
            rng = np.random.default_rng(seed)
            scores = [
                score(sparse(queries, rng, epsilon, most, variant, 2000), below)
                for queries in pair(below, above)
            ]
            claim = dp.AboveThreshold(epsilon, max_positives=most)
            alarms += falsify(claim, *scores, significance=LEVEL).falsified
        yield f"false alarms in {AUDITS}: sparse vector, Algorithm {variant}", alarms, "", 0
    chance = [p / 2**192 for p in _keep(1.0, 1e-4, 8)]
    for name, claim, draw in (
        ("exact best of K", None, None),
        ("keys", dp.ApproximateDP(1.0, 1e-4), (chance[8], chance[7])),
    ):
        alarms = 0
        for seed in np.random.SeedSequence(7).spawn(AUDITS):
            rng = np.random.default_rng(seed)
            if draw is None:
                claim, scores = geometric_best(1.0, 5, rng, 2000)
            else:
                scores = bits(*draw, rng, 2000)
            alarms += falsify(claim, *scores, significance=LEVEL).falsified
        yield f"false alarms in {AUDITS}: {name}", alarms, "", 0


def _keep(epsilon, delta, most):
    from privacy.release.partitions import keep_probabilities

    return keep_probabilities(dp.ApproximateDP(epsilon, delta), most)


def planted_faults() -> Iterator[tuple]:
    """Yield 1 for each fault that is not caught."""
    published = {
        3: "shows the compared value",
        4: "ignores the number of answers",
        5: "no noise of the queries",
        6: "never stops",
        7: "threshold noise reused",
    }
    for variant, name in published.items():
        (epsilon, most, below, above, score), *_ = CASES[variant]
        rng = np.random.default_rng(variant)
        runs = {low_answer: 20, negatives: 4}.get(score, 1) * RUNS
        scores = [
            score(sparse(queries, rng, epsilon, most, variant, runs), below)
            for queries in pair(below, above)
        ]
        claim = dp.AboveThreshold(epsilon, max_positives=most)
        found = falsify(claim, *scores, significance=LEVEL).falsified
        yield f"missed: sparse vector {variant}, {name}", int(not found), "", 0
    missed = {type(mechanism).__name__: 0 for mechanism, _ in cases()}
    for mechanism, relation in cases():
        scores = losses(mechanism, relation, np.random.default_rng(2), 20_000, 0.5)
        found = falsify(mechanism, *scores, significance=LEVEL, relation=relation).falsified
        missed[type(mechanism).__name__] += not found
    for kind, count in missed.items():
        yield f"missed: {kind}, sensitivity twice as large", count, "", 0
    claim, scores = geometric_best(1.0, 5, np.random.default_rng(3), 20_000, more=1)
    found = falsify(claim, *scores, significance=LEVEL).falsified
    yield "missed: best of K + 1 runs", int(not found), "", 0
    chance = [p / 2**192 for p in _keep(1.0, 1e-4, 8)]
    scores = bits(chance[8], chance[6], np.random.default_rng(4), 20_000)
    found = falsify(dp.ApproximateDP(1.0, 1e-4), *scores, significance=LEVEL).falsified
    yield "missed: keys, a user counted twice", int(not found), "", 0


def true_deltas(instances: int = 36) -> Iterator[tuple]:
    """Yield the random instances of which some reported number is below the truth."""
    for kind in truths.KINDS:
        wrong = sum(bool(truths.attack(kind, seed)) for seed in range(instances))
        yield f"below the true delta, instances of {instances}: {kind}", wrong, "", 0


# -- other tools ---------------------------------------------------------------------------


def events(cases: int = 500) -> Iterator[tuple]:
    """Yield the events of dp-accounting that we cannot express, and the excess over its epsilon."""
    kinds = {kind for kind in vars(dp_event).values() if isinstance(kind, type)}
    names = {kind.__name__ for kind in kinds if issubclass(kind, dp_event.DpEvent)} - {"DpEvent"}
    left_out = names - EVENTS.keys()
    yield f"events of dp-accounting without a mechanism, of {len(names)}", len(left_out), "", 0
    worst = max(dp_events.excess(np.random.default_rng([7, case]))[0] for case in range(cases))
    yield f"{cases} random plans: largest excess over dp-accounting", worst, "", 1e-6


def beside_the_peers(cases: int = 500) -> Iterator[tuple]:
    """Yield the largest ratio of our epsilon to that of another tool, in random cases."""
    import dp_accounting as peer
    from autodp.mechanism_zoo import ExponentialMechanism
    from autodp.transformer_zoo import Composition
    from dp_accounting import rdp

    logging.getLogger("absl").setLevel(logging.ERROR)  # orders that theirs leaves out
    rng, ratios = np.random.default_rng(2026), []
    shapes = [("geometric", 1.0), ("logarithmic", 0.0), ("poisson", math.inf)]
    for case in range(cases):
        size = float(np.exp(rng.uniform(math.log(0.7), math.log(20))))
        mean = 1 + float(np.exp(rng.uniform(-1, 6)))
        kind = case % 4
        if kind == 0:
            ours, theirs = dp.Gaussian(size), peer.GaussianDpEvent(size)
        elif kind == 1:
            ours, theirs = dp.Laplace(size), peer.LaplaceDpEvent(size)
        elif kind == 2:
            q, steps = float(rng.uniform(0.001, 0.2)), int(rng.integers(1, 300))
            step = dp.PoissonSampled(dp.Gaussian(size), sampling_probability=q)
            ours = dp.repeat(step, steps)
            event = peer.PoissonSampledDpEvent(q, peer.GaussianDpEvent(size))
            theirs = peer.SelfComposedDpEvent(event, steps)
        else:
            ours, theirs = dp.ZeroConcentratedDP(1 / size**2), peer.ZCDpEvent(1 / size**2)
        shape = float(rng.uniform(0.05, 5))
        distribution, other = [*shapes, (shape, shape)][int(rng.integers(4))]
        delta = float(10 ** rng.uniform(-10, -3))
        event = peer.dp_event.RepeatAndSelectDpEvent(theirs, mean, other)
        bound = rdp.RdpAccountant().compose(event).get_epsilon(delta)
        mechanism = dp.best_of(ours, mean_runs=mean, distribution=distribution)
        notion = "rdp" if kind == 2 and case % 20 else "tightest"
        ratios.append(dp.account(mechanism, notion=notion).epsilon(delta) / bound)
    yield f"best of K, epsilon over dp-accounting's, largest of {cases}", max(ratios), "", 1 + 1e-6
    yield "  median", float(np.median(ratios))
    ratios = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(100):
            epsilon = float(np.exp(rng.uniform(math.log(0.01), math.log(3))))
            count = int(np.exp(rng.uniform(0, 7)))
            delta = float(10 ** rng.uniform(-9, -3))
            other = ExponentialMechanism(epsilon)
            if count > 1:
                other = Composition()([other], [count])
            ours = dp.account(dp.repeat(dp.ExponentialMechanism(epsilon), count)).epsilon(delta)
            ratios.append(ours / other.get_approxDP(delta))
    yield "exponential mechanism, epsilon over autodp's, largest of 100", max(ratios), "", 1 + 1e-6
    yield "  median", float(np.median(ratios))
    choices = dp.account(dp.repeat(dp.ExponentialMechanism(0.1), 100)).epsilon(1e-6)
    claims = dp.account(dp.repeat(dp.PureDP(0.1), 100)).epsilon(1e-6)
    yield "100 choices of range 0.1, epsilon over 100 pure claims", choices / claims, "", 0.6
