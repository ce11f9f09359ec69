"""Off-policy evaluation: errors of the estimators, and coverage of their intervals."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.named import LinTS, LinUCB, PrivateThompson
from bandits.checks import Array, Indices
from bandits.experiments import runs
from bandits.experiments.real_data import clicks, where
from bandits.experiments.real_data import replay as rated
from bandits.experiments.tables import Row, Setup
from bandits.offline import features as item_features
from bandits.offline.datasets import load_jester
from bandits.offline.environments import Environment, Synthetic, World
from bandits.offline.evaluation import Estimate, doubly_robust, ips, replay, snips
from bandits.offline.intervals import Options, Privacy
from bandits.offline.propensities import thompson_propensities

_CLIP = 10.0


class _Policy(NamedTuple):
    """Thompson sampling from a fixed posterior; a scale of 0 is greedy."""

    algorithm: Algorithm
    mean: Array
    root: Array
    scale: float

    def predictions(self, candidates: Array) -> Array:
        scores = self.algorithm.prepared(candidates) @ self.mean
        return np.clip(self.algorithm.reward_range.center + scores, 0.0, 1.0)

    def propensities(self, candidates: Array) -> Array:
        candidates = self.algorithm.prepared(candidates)
        if not self.scale:
            best: Indices = (candidates @ self.mean).argmax(1)
            one_hot: Array = np.eye(candidates.shape[1])[best]
            return one_hot
        found = thompson_propensities(candidates, self.mean, self.root, scale=self.scale, draws=400)
        return found.value

    def picks(self, candidates: Array, rng: np.random.Generator) -> Indices:
        normals = rng.standard_normal((len(candidates), self.root.shape[1]))
        thetas = self.mean + self.scale * normals @ self.root.T
        candidates = self.algorithm.prepared(candidates)
        picked: Indices = (candidates @ thetas[..., None])[..., 0].argmax(1)
        return picked


def off_policy(setup: Setup) -> list[Row]:
    """Measure the errors of the estimators and the coverage of their intervals."""
    worlds, rounds = (4, 200) if setup.quick else (48, 2_000)
    logging = LinTS(dimension=20, rounds=300)
    target = PrivateThompson(dimension=20, rounds=3_000, epsilon=1.0, delta=runs.DELTA, center=0.5)
    rows = _part("LinTS logs, d=20", Synthetic(), target, 1.0, worlds, rounds, logging)
    few, learned, logged = _sizes(setup)
    world, epsilons = Synthetic(dimension=50), (1.0, 5.0, 10.0)
    policies = _private(setup, learned, epsilons) | {"LinUCB": LinUCB(dimension=50, rounds=learned)}
    for name, algorithm in policies.items():
        scale = float(name != "LinUCB")
        rows += _part(f"uniform logs, d=50, {name}", world, algorithm, scale, few, logged)
    online = _private(setup, 2_000 if setup.quick else 50_000, epsilons)
    played, _ = runs.compared(setup, "", online, world, replicates=few)
    for name, curve in played.reward.items():
        mean, error = runs.paired(curve[:, -1] / played.rounds[-1], np.zeros(few))
        rows.append(Row("online, d=50", name, "reward per round", mean, error, few))
    return rows


def off_policy_jester(setup: Setup) -> list[Row]:
    """Measure the same for Jester."""
    ratings = load_jester(**where(setup))
    features = item_features.svd_features(ratings, 50).values
    world = replace(rated(ratings, features, clicks(ratings)), candidates=20)
    few, learned, logged = _sizes(setup)
    rows: list[Row] = []
    for name, algorithm in _private(setup, learned, (1.0, 10.0)).items():
        rows += _part(name, world, algorithm, 0.0, few, 3 * logged)
    return rows


def _sizes(setup: Setup) -> tuple[int, int, int]:
    return (2, 300, 200) if setup.quick else (5, 10_000, 5_000)


def _private(setup: Setup, rounds: int, epsilons: tuple[float, ...]) -> dict[str, Algorithm]:
    size = {"dimension": 50, "rounds": rounds}
    return {
        f"{name}, epsilon={epsilon:g}": algorithm
        for epsilon in epsilons
        for name, algorithm in runs.seed_and_ours(setup, epsilon, **size).items()
        if name != runs.OURS
    }


def _part(
    setting: str,
    environment: Environment,
    target: Algorithm,
    scale: float,
    worlds: int,
    rounds: int,
    logging: Algorithm | None = None,
) -> list[Row]:
    found: dict[str, list[tuple[Estimate, float]]] = {}
    for world in range(worlds):
        for name, pair in _evaluated(environment, world, target, scale, rounds, logging).items():
            found.setdefault(name, []).append(pair)
    return [row for name, pairs in found.items() for row in _rows(setting, name, pairs)]


def _evaluated(
    environment: Environment,
    number: int,
    algorithm: Algorithm,
    scale: float,
    rounds: int,
    logged_by: Algorithm | None,
) -> dict[str, tuple[Estimate, float]]:
    rng = np.random.default_rng([runs.SEED, number])
    world = environment.world([np.random.SeedSequence([runs.SEED, number])])
    target = _learned(algorithm, world, rng, scale)
    logging = target if logged_by is None else _learned(logged_by, world, rng, 1.0)
    block = world.block(rounds)
    candidates, means = world.features[0][block.candidates[0]], block.means[0]
    if logged_by is None:
        action = rng.integers(means.shape[1], size=rounds)
        logged = np.full(means.shape, 1 / means.shape[1])
    else:
        action, logged = logging.picks(candidates, rng), logging.propensities(candidates)
    at = np.arange(rounds), action
    reward = (rng.random(rounds) < means[at]).astype(float)
    shares = target.propensities(candidates)
    truth = float((shares * means).sum(1).mean())
    log = reward, logged[at], np.minimum(shares[at], 1.0)
    model = logging.predictions(candidates)
    predicted = model[at], np.minimum((shares * model).sum(1), 1.0)
    clipped = Options(clip=_CLIP)
    noise = Privacy(1.0, runs.DELTA, simulation=True, seed=number)
    private_options = Options(clip=_CLIP, private=True, privacy=noise)
    estimates = {
        "replay": replay(action, target.picks(candidates, rng), reward),
        "ips": ips(*log),
        "snips": snips(*log),
        "dr": doubly_robust(*log, *predicted),
    }
    if logged_by is not None:
        estimates |= {
            "ips, clipped": ips(*log, clipped),
            "snips, clipped": snips(*log, clipped),
            "dr, clipped": doubly_robust(*log, *predicted, clipped),
            "snips, clipped, private": snips(*log, private_options),
            "dr, clipped, private": doubly_robust(*log, *predicted, private_options),
        }
    return {name: (estimate, truth) for name, estimate in estimates.items()}


def _learned(algorithm: Algorithm, world: World, rng: np.random.Generator, scale: float) -> _Policy:
    agent = algorithm.start(simulation=True, seed=int(rng.integers(2**31)))
    block = world.block(algorithm.rounds)
    arms = world.features[0]
    for offered, means in zip(block.candidates[0], block.means[0], strict=True):
        ticket = agent.select(arms[offered])
        agent.update(ticket, float(rng.random() < means[ticket.action]))
    model = agent._learner.model
    return _Policy(algorithm, model.mean.copy(), model.root.copy(), scale)


def _rows(setting: str, name: str, pairs: list[tuple[Estimate, float]]) -> list[Row]:
    values = np.array([estimate.value for estimate, _ in pairs])
    truths = np.array([truth for _, truth in pairs])
    errors = values - truths
    count = len(pairs)
    root = math.sqrt(np.square(errors).mean())

    def row(measure: str, value: float, error: float = 0.0, epsilon: float | None = None) -> Row:
        return Row(setting, name, measure, value, error, count, None, epsilon)

    def mean(measure: str, numbers: Array) -> Row:
        return row(measure, float(numbers.mean()), float(numbers.std(ddof=1) / math.sqrt(count)))

    rows = [
        mean("true value", truths),
        mean("estimate", values),
        mean("bias", errors),
        mean("absolute error", np.abs(errors)),
        row("root mean square error", root, mean("", errors**2).error / (2 * root)),
        row("coefficient of variation, %", float(100 * values.std(ddof=1) / values.mean())),
    ]
    for kind in ("bootstrap", "interval"):
        intervals = [getattr(estimate, kind) for estimate, _ in pairs]
        if None not in intervals:
            low, high = np.array(intervals).T
            share = float(((low <= truths) & (truths <= high)).mean())
            error = math.sqrt(share * (1 - share) / count)
            rows.append(row(f"coverage of {kind}", share, error))
            rows.append(row(f"width of {kind}", float((high - low).mean())))
    sizes = np.array([estimate.effective_sample_size for estimate, _ in pairs])
    rows.append(mean("effective sample size", sizes))
    # report the guarantee that real noise of this scale would give
    epsilon = max(
        replace(estimate, is_simulation=False).guarantee(runs.DELTA).epsilon
        for estimate, _ in pairs
    )
    return [*rows, row("true epsilon", epsilon, epsilon=epsilon)]
