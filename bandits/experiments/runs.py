"""Cached simulations, and the quantities that the tables report."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import privacy
from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import AdaPrivateTS
from bandits.algorithms.bases import Private
from bandits.algorithms.named import LinTS, LinUCB, PrivateUCB
from bandits.checks import Array
from bandits.experiments.tables import Row, Setup
from bandits.offline.environments import Environment, Synthetic
from bandits.offline.simulation import Simulation, mean_and_error, simulate

DELTA = 1e-5
SEED = 2026
BASELINE = "LinUCB"
OURS = "PrivateUCB (ours)"
OURS_AT_TRUE = "PrivateUCB (ours), true epsilon of TS"
OF_BASELINE = "% of LinUCB's reward"
GAIN = "points of LinUCB's reward"
POINTS = 100
"""Points of each curve."""


def private(setup: Setup, epsilon: float, **more: Any) -> dict[str, Any]:
    """Return the options of a private algorithm in the preprint's synthetic setup."""
    return {"dimension": 20, "rounds": setup.rounds, "epsilon": epsilon, "delta": DELTA} | more


def run(
    setup: Setup,
    algorithms: Mapping[str, Algorithm],
    environment: Environment | None = None,
    *,
    replicates: int | None = None,
) -> Simulation:
    """Simulate each algorithm in an environment, by default the preprint's, with caching."""
    environment = environment or Synthetic()
    found = [
        _run_one(setup, name, algorithm, environment, replicates or setup.replicates)
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
) -> Simulation:
    path = None
    if setup.cache is not None:
        form = {"type": type(algorithm).__name__, "options": algorithm.to_json()}
        key = json.dumps([form, _described(environment), replicates, POINTS, SEED, _code()])
        digest = hashlib.sha256(key.encode()).hexdigest()[:24]
        path = Path(setup.cache) / f"{digest}.npz"
        if path.exists():
            with np.load(path) as stored:
                return Simulation(
                    stored["rounds"], {name: stored["regret"]}, {name: stored["reward"]}
                )
    options: dict[str, Any] = {"replicates": replicates, "seed": SEED, "points": POINTS}
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
            if path.parent != Path(__file__).parent or path.stem in (
                "runs",
                "rivals",
                "printed_formula",
            ):
                digest.update(path.read_bytes())
    digest.update("".join(version(name) for name in ("numpy", "scipy")).encode())
    return digest.hexdigest()


def seed_and_ours(setup: Setup, epsilon: float, **more: Any) -> dict[str, Algorithm]:
    """Return AdaPrivate-TS as printed, and PrivateUCB at the claimed and at its true epsilon."""
    options = private(setup, epsilon, **more)
    seed = AdaPrivateTS(**options)
    true = options | {"epsilon": seed.guarantee(DELTA).epsilon}
    return {
        "AdaPrivate-TS": seed,
        OURS: PrivateUCB(**options),
        OURS_AT_TRUE: PrivateUCB(**true),
    }


def ratio(own: Array, other: Array) -> tuple[float, float]:
    """Return 100 times a ratio of means over replicates, and its error by the delta method."""
    found = own.mean() / other.mean()
    _, error = mean_and_error(own - found * other)
    return float(100 * found), float(100 * error / other.mean())


def paired(first: Array, second: Array) -> tuple[float, float]:
    """Return the mean difference over replicates and its standard error."""
    mean, error = mean_and_error(first - second)
    return float(mean), float(error)


def compared(
    setup: Setup,
    setting: str,
    algorithms: Mapping[str, Algorithm],
    environment: Environment | None = None,
    *,
    epsilon: float | None = None,
    gains: Iterable[tuple[str, str]] = (),
    replicates: int | None = None,
) -> tuple[Simulation, list[Row]]:
    """Play algorithms and LinUCB and LinTS, and return the results and the rows of all of them.

    Parameters
    ----------
    epsilon
        The epsilon that the private algorithms claim.
    gains
        Pairs of names; the row is the paired difference of rewards in percent of LinUCB's. Ours at
        the true epsilon of AdaPrivate-TS is compared with it in any case.
    """
    first = next(iter(algorithms.values()))
    size: dict[str, Any] = {"dimension": first.dimension, "rounds": first.rounds}
    everyone = {BASELINE: LinUCB(**size), "LinTS": LinTS(**size), **algorithms}
    played = run(setup, everyone, environment, replicates=replicates)
    ends = {name: curve[:, -1] for name, curve in played.reward.items()}
    count = len(ends[BASELINE])
    rows = []
    for name, algorithm in everyone.items():
        more: dict[str, Any] = {"replicates": count}
        if isinstance(algorithm, Private):
            true = algorithm.guarantee(DELTA).epsilon
            more |= {"claimed_epsilon": epsilon, "true_epsilon": true}
        for other in (BASELINE, "LinTS"):
            if name != other:
                measure = f"% of {other}'s reward"
                rows.append(Row(setting, name, measure, *ratio(ends[name], ends[other]), **more))
        rows.append(Row(setting, name, "regret", *played.last()[name], **more))
    whole = ends[BASELINE].mean() / 100
    gains = [pair for pair in gains if pair[0] != pair[1]]
    if OURS_AT_TRUE in ends and (OURS_AT_TRUE, "AdaPrivate-TS") not in gains:
        gains.append((OURS_AT_TRUE, "AdaPrivate-TS"))
    for one, other in gains:
        gain = paired(ends[one] / whole, ends[other] / whole)
        rows.append(Row(setting, f"{one} - {other}", GAIN, *gain, count))
    return played, rows


def mean_reward(played: Simulation, name: str) -> tuple[float, float]:
    """Return the mean reward per round and its standard error over replicates."""
    mean, error = mean_and_error(played.reward[name][:, -1] / played.rounds[-1])
    return float(mean), float(error)
