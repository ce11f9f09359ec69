"""Cached simulations, and the quantities that the tables report."""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

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
_COMPUTE = "runs", "rivals", "printed_formula"
"""Modules of this package on which simulations depend."""


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
    play: Any = _played
    if setup.cache is not None:
        from joblib import Memory

        play = Memory(setup.cache, verbose=0).cache(_played, ignore=["algorithm", "jobs"])
    world, count = environment or Synthetic(), replicates or setup.replicates
    found = {}
    for name, algorithm in algorithms.items():
        key = type(algorithm).__name__, algorithm.to_json(), _code()
        found[name] = play(algorithm, world, count, key, jobs=setup.jobs)
    regret = {name: played.regret[""] for name, played in found.items()}
    reward = {name: played.reward[""] for name, played in found.items()}
    return Simulation(next(iter(found.values())).rounds, regret, reward)


def _played(
    algorithm: Algorithm, world: Environment, count: int, _key: tuple[object, ...], jobs: int
) -> Simulation:
    return simulate({"": algorithm}, world, replicates=count, seed=SEED, points=POINTS, n_jobs=jobs)


@cache
def _code() -> str:
    digest = hashlib.sha256()
    for home in (Path(__file__).parents[1], Path(str(privacy.__file__)).parent):
        for path in sorted(home.rglob("*.py")):
            if path.parent != Path(__file__).parent or path.stem in _COMPUTE:
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

    `epsilon` is the one that the private algorithms claim. `gains` are pairs of names; the row is
    the paired difference of rewards in percent of LinUCB's. `gains` always include PrivateUCB at
    the true epsilon of AdaPrivate-TS, against AdaPrivate-TS.
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
        rows.append(Row(setting, name, "regret", *played.final_regret()[name], **more))
    whole = ends[BASELINE].mean() / 100
    gains = [pair for pair in gains if pair[0] != pair[1]]
    if OURS_AT_TRUE in ends and (OURS_AT_TRUE, "AdaPrivate-TS") not in gains:
        gains.append((OURS_AT_TRUE, "AdaPrivate-TS"))
    for one, other in gains:
        gain = paired(ends[one] / whole, ends[other] / whole)
        rows.append(Row(setting, f"{one} - {other}", GAIN, *gain, count))
    return played, rows
