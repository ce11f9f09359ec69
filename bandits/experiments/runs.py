"""Cached simulations, and the quantities that the tables report."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import privacy
from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import AdaPrivateTS
from bandits.algorithms.named import LinUCB, PrivateUCB
from bandits.checks import Array
from bandits.experiments.tables import Row, Setup, reproduced
from bandits.offline.environments import Environment, Synthetic
from bandits.offline.simulation import Simulation, mean_and_error, simulate

DELTA = 1e-5
SEED = 2026
BASELINE = "LinUCB"
OURS = "PrivateUCB (ours)"
OF_BASELINE = "% of LinUCB's reward"


def private(setup: Setup, epsilon: float, **more: Any) -> dict[str, Any]:
    """Return the options of a private algorithm in the preprint's synthetic setup."""
    return {"dimension": 20, "rounds": setup.rounds, "epsilon": epsilon, "delta": DELTA} | more


def run(
    setup: Setup,
    algorithms: Mapping[str, Algorithm],
    environment: Environment | None = None,
    *,
    replicates: int | None = None,
    points: int = 1,
) -> Simulation:
    """Simulate each algorithm in an environment, by default the preprint's, with caching."""
    environment = environment or Synthetic()
    found = [
        _run_one(setup, name, algorithm, environment, replicates or setup.replicates, points)
        for name, algorithm in algorithms.items()
    ]
    regret = {name: curve for each in found for name, curve in each.regret.items()}
    reward = {name: curve for each in found for name, curve in each.reward.items()}
    return Simulation(found[0].rounds, regret, reward)


def _run_one(
    setup: Setup,
    name: str,
    algorithm: Algorithm,
    environment: Environment,
    replicates: int,
    points: int,
) -> Simulation:
    path = None
    if setup.cache is not None:
        form = {"type": type(algorithm).__name__, "options": algorithm.to_json()}
        key = json.dumps([form, _described(environment), replicates, points, SEED, _code()])
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        path = Path(setup.cache) / f"{digest}.npz"
        if path.exists():
            with np.load(path) as stored:
                return Simulation(
                    stored["rounds"], {name: stored["regret"]}, {name: stored["reward"]}
                )
    options: dict[str, Any] = {"replicates": replicates, "seed": SEED, "points": points}
    played = simulate({name: algorithm}, environment, n_jobs=setup.jobs, **options)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {"regret": played.regret[name], "reward": played.reward[name]}
        partial = path.with_suffix(".part.npz")
        np.savez(partial, rounds=played.rounds, **arrays)
        partial.replace(path)
    return played


def _described(environment: Environment) -> list[str]:
    found = [type(environment).__name__]
    for field in fields(environment):  # type: ignore[arg-type]  # every environment is a dataclass
        value = getattr(environment, field.name)
        if isinstance(value, np.ndarray):
            value = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        found.append(f"{field.name}={value}")
    return found


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for home in (Path(__file__).parents[1], Path(str(privacy.__file__)).parent):
        for path in sorted(home.rglob("*.py")):
            if path.parent != Path(__file__).parent or path.stem in ("runs", "rivals"):
                digest.update(path.read_bytes())
    digest.update("".join(version(name) for name in ("numpy", "scipy")).encode())
    return digest.hexdigest()


def baseline(setup: Setup, **more: Any) -> dict[str, Algorithm]:
    """Return LinUCB without privacy, the baseline of the rewards."""
    return {BASELINE: LinUCB(**{"dimension": 20, "rounds": setup.rounds} | more)}


def seed_and_ours(setup: Setup, epsilon: float, **more: Any) -> dict[str, Algorithm]:
    """Return AdaPrivate-TS as printed, and PrivateUCB."""
    options = private(setup, epsilon, **more)
    return {"AdaPrivate-TS": AdaPrivateTS(**options), OURS: PrivateUCB(**options)}


def percent(played: Simulation, name: str) -> tuple[float, float]:
    """Return the total reward in percent of LinUCB's on the same replicates, and its error.

    It is a ratio of means over replicates, with the standard error of the delta method.
    """
    own, other = played.reward[name][:, -1], played.reward[BASELINE][:, -1]
    ratio = own.mean() / other.mean()
    rest = own - ratio * other
    return 100 * ratio, 100 * rest.std(ddof=1) / (math.sqrt(len(own)) * other.mean())


def paired(first: Array, second: Array) -> tuple[float, float]:
    """Return the mean difference over replicates and its standard error."""
    mean, error = mean_and_error(first - second)
    return float(mean), float(error)


def all_rows(
    setup: Setup,
    played: Simulation,
    algorithms: Mapping[str, Algorithm],
    epsilon: float,
    *,
    setting: str,
    papers: Mapping[str, float] | None = None,
) -> list[Row]:
    """Return the two rows of every private algorithm that claims `epsilon`."""
    return [
        row
        for name, algorithm in algorithms.items()
        if name != BASELINE
        for row in percent_and_regret(
            setup,
            played,
            name,
            setting=setting,
            paper=(papers or {}).get(name),
            claimed_epsilon=epsilon,
            true_epsilon=algorithm.guarantee(DELTA).epsilon,
        )
    ]


def percent_and_regret(
    setup: Setup,
    played: Simulation,
    name: str,
    *,
    setting: str,
    paper: float | None = None,
    claimed_epsilon: float | None = None,
    true_epsilon: float | None = None,
) -> list[Row]:
    """Return two rows: the reward in percent of LinUCB's, and the absolute regret."""
    value, error = percent(played, name)
    count = len(played.reward[name])
    verdict = ""
    if paper is not None:
        verdict = "too short" if setup.quick else reproduced(value, error, count, paper)
    regret, regret_error = played.last()[name]
    epsilons: dict[str, Any] = {
        "claimed_epsilon": claimed_epsilon,
        "true_epsilon": true_epsilon,
    }
    return [
        Row(setting, name, OF_BASELINE, value, error, paper, verdict=verdict, **epsilons),
        Row(setting, name, "regret", regret, regret_error, **epsilons),
    ]


def mean_reward(played: Simulation, name: str) -> tuple[float, float]:
    """Return the mean reward per round and its standard error over replicates."""
    mean, error = mean_and_error(played.reward[name][:, -1] / played.rounds[-1])
    return float(mean), float(error)
