"""Off-policy evaluation: errors of the estimators, and coverage of their intervals."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.named import LinTS, PrivateThompson
from bandits.checks import Array, Indices
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table
from bandits.offline.evaluation import (
    Estimate,
    doubly_robust,
    ips,
    replay,
    snips,
)
from bandits.offline.intervals import Options, Privacy
from bandits.offline.propensities import thompson_propensities

_DIMENSION, _ARMS, _CANDIDATES = 20, 100, 5
_CLIP = 10.0


class _Policy(NamedTuple):
    """Thompson sampling from a fixed posterior."""

    mean: Array
    root: Array
    scale: float

    def propensities(self, candidates: Array) -> Array:
        found = thompson_propensities(candidates, self.mean, self.root, scale=self.scale, draws=400)
        return found.value

    def picks(self, candidates: Array, rng: np.random.Generator) -> Indices:
        normals = rng.standard_normal((len(candidates), self.root.shape[1]))
        thetas = self.mean + self.scale * normals @ self.root.T
        picked: Indices = (candidates @ thetas[..., None])[..., 0].argmax(1)
        return picked


def table(setup: Setup) -> Table:
    """Return bias, root mean square error, coverage and effective sample size."""
    worlds, rounds = (4, 200) if setup.quick else (48, 2_000)
    found: dict[str, list[tuple[Estimate, float]]] = {}
    for world in range(worlds):
        for name, pair in _evaluated(world, rounds).items():
            found.setdefault(name, []).append(pair)
    rows = [row for name, pairs in found.items() for row in _rows(name, pairs)]
    choices = (
        (
            f"{worlds} replicates of the synthetic setup, {rounds} logged rounds each. Logging "
            "policy: LinTS after 300 rounds, frozen, v = 1. Evaluated policy: PrivateThompson at "
            "epsilon = 1 after 3,000 rounds of its own, frozen, v = 1."
        ),
        "Propensities of both by conditional Monte Carlo with 400 samples.",
        ("The target is the mean over the logged contexts. dr uses the logging policy's model."),
        (
            f"clipped: weights up to {_CLIP:g}. private: epsilon = 1, delta = 1e-5 for a round's "
            "reward. With clipped weights, ips and dr estimate the clipped mean; their intervals "
            "are of the policy's value. replay assumes a uniform logging policy; this one is not "
            "uniform."
        ),
        ("Intervals at 95 %. For private estimates, interval is Hoeffding including the noise."),
    )
    return Table("off-policy", "Off-policy evaluation", choices, tuple(rows))


def _evaluated(world: int, rounds: int) -> dict[str, tuple[Estimate, float]]:
    rng = np.random.default_rng([runs.SEED, world])
    arms = rng.standard_normal((_ARMS, _DIMENSION))
    arms /= np.linalg.norm(arms, axis=1, keepdims=True)
    theta = rng.standard_normal(_DIMENSION)
    means = 1 / (1 + np.exp(-arms @ (2 * theta / np.linalg.norm(theta))))
    logging = _learned(LinTS(dimension=_DIMENSION, rounds=300), arms, means, rng, 1.0)
    private = PrivateThompson(
        dimension=_DIMENSION, rounds=3_000, epsilon=1.0, delta=runs.DELTA, center=0.5
    )
    target = _learned(private, arms, means, rng, 1.0)
    offered = _offered(rng, rounds)
    candidates = arms[offered]
    action = logging.picks(candidates, rng)
    at = np.arange(rounds), action
    reward = (rng.random(rounds) < means[offered][at]).astype(float)
    shares = target.propensities(candidates)
    truth = float((shares * means[offered]).sum(1).mean())
    log = reward, logging.propensities(candidates)[at], np.minimum(shares[at], 1.0)
    model = np.clip(candidates @ logging.mean, 0.0, 1.0)
    predicted = model[at], np.minimum((shares * model).sum(1), 1.0)
    clipped = Options(clip=_CLIP)
    noise = Privacy(1.0, runs.DELTA, simulation=True, seed=world)
    private_options = Options(clip=_CLIP, private=True, privacy=noise)
    estimates = {
        "replay": replay(action, target.picks(candidates, rng), reward),
        "ips": ips(*log),
        "ips, clipped": ips(*log, clipped),
        "snips": snips(*log),
        "snips, clipped": snips(*log, clipped),
        "dr": doubly_robust(*log, *predicted),
        "dr, clipped": doubly_robust(*log, *predicted, clipped),
        "snips, clipped, private": snips(*log, private_options),
        "dr, clipped, private": doubly_robust(*log, *predicted, private_options),
    }
    return {name: (estimate, truth) for name, estimate in estimates.items()}


def _learned(
    algorithm: Algorithm, arms: Array, means: Array, rng: np.random.Generator, scale: float
) -> _Policy:
    agent = algorithm.start(simulation=True, seed=int(rng.integers(2**31)))
    for offered in _offered(rng, algorithm.rounds):
        ticket = agent.select(arms[offered])
        agent.update(ticket, float(rng.random() < means[offered[ticket.action]]))
    model = agent._learner.model
    return _Policy(model.mean.copy(), model.root.copy(), scale)


def _offered(rng: np.random.Generator, rounds: int) -> Indices:
    return rng.random((rounds, _ARMS)).argsort(1)[:, :_CANDIDATES]


def _rows(name: str, pairs: list[tuple[Estimate, float]]) -> list[Row]:
    errors = np.array([estimate.value - truth for estimate, truth in pairs])
    count = len(pairs)
    squares = errors**2
    root = float(math.sqrt(squares.mean()))
    rows = [
        Row("", name, "bias", float(errors.mean()), float(errors.std(ddof=1) / math.sqrt(count))),
        Row(
            "",
            name,
            "root mean square error",
            root,
            float(squares.std(ddof=1) / math.sqrt(count) / (2 * root)),
        ),
    ]
    for kind in ("bootstrap", "interval"):
        intervals = [getattr(estimate, kind) for estimate, _ in pairs]
        if None not in intervals:
            inside = [
                low <= truth <= high
                for (low, high), (_, truth) in zip(intervals, pairs, strict=True)
            ]
            share = sum(inside) / count
            error = math.sqrt(share * (1 - share) / count)
            rows.append(Row("", name, f"coverage of {kind}", share, error))
            width = float(np.mean([high - low for low, high in intervals]))
            rows.append(Row("", name, f"width of {kind}", width))
    sizes = [estimate.effective_sample_size for estimate, _ in pairs]
    rows.append(Row("", name, "effective sample size", float(np.mean(sizes))))
    # report the guarantee that real noise of this scale would give
    epsilons = {
        replace(estimate, is_simulation=False).guarantee(runs.DELTA).epsilon
        for estimate, _ in pairs
    }
    rows.append(Row("", name, "true epsilon", max(epsilons), true_epsilon=max(epsilons)))
    return rows
