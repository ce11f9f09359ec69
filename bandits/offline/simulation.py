"""Simulation of many replicates of an algorithm, and confidence intervals of its regret.

Replicates of the live agents' learner run in groups of a fixed size, each with its own random
streams, so results do not depend on the number of processes or the cluster.
"""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.checks import Array, Indices
from bandits.learning.learner import Learner
from bandits.offline.environments import Environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLOCK = 128
"""Rounds generated at once; changing it changes the results of a seed."""
GROUP = 96
"""Replicates simulated together; changing it changes the results of a seed."""


@dataclass(frozen=True)
class Simulation:
    """Cumulative regret and reward of every algorithm and replicate, at selected rounds.

    `rounds`, shape (P,), are the points of the curves. `reward` has the sums of the picks' mean
    rewards up to each point, by algorithm, shape (replicates, P). `regret` has the sums of the
    differences of these means from the best means.
    """

    rounds: Indices
    regret: dict[str, Array]
    reward: dict[str, Array]

    def table(self, level: float = 0.95) -> dict[str, list[Any]]:
        """Return a tidy table as a mapping from column names to values.

        `level` is that of the confidence interval of the mean over replicates (Student's t).
        """
        from scipy.special import stdtrit

        level = checks.real("level", level, "Pass a level such as 0.95.", above=0, below=1)
        names = ("algorithm", "round", "regret", "standard_error", "low", "high", "reward")
        columns: dict[str, list[Any]] = {name: [] for name in (*names, "replicates")}
        for name, regret in self.regret.items():
            replicates, points = regret.shape
            mean, error = mean_and_error(regret)
            # the error of a single replicate is infinite
            reach = stdtrit(max(replicates - 1, 1), (1 + level) / 2) * error
            columns["algorithm"] += [name] * points
            columns["round"] += self.rounds.tolist()
            columns["regret"] += mean.tolist()
            columns["standard_error"] += error.tolist()
            columns["low"] += (mean - reach).tolist()
            columns["high"] += (mean + reach).tolist()
            columns["reward"] += self.reward[name].mean(0).tolist()
            columns["replicates"] += [replicates] * points
        return columns

    def final_regret(self) -> dict[str, tuple[float, float]]:
        """Return the mean and standard error of the regret after the last round, by algorithm."""
        ends = {name: mean_and_error(regret[:, -1]) for name, regret in self.regret.items()}
        return {name: (float(mean), float(error)) for name, (mean, error) in ends.items()}

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Write the table to a CSV file."""
        columns = self.table()
        with Path(path).open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))

    def to_parquet(self, path: str | PathLike[str]) -> None:
        """Write the table to a Parquet file; requires polars."""
        import polars as pl

        pl.DataFrame(self.table()).write_parquet(Path(path))

    def plot(self) -> "Figure":
        """Plot the regret curves with 95 % confidence bands, as `privacy.plotting`."""
        axes = dp.plotting.new_axes("round", "regret (mean and 95 % band)")
        columns = {name: np.array(values) for name, values in self.table().items()}
        for number, name in enumerate(self.regret):
            own = columns["algorithm"] == name
            x, mean = columns["round"][own], columns["regret"][own]
            look = dp.plotting.style(number)
            axes.plot(x, mean, label=name, **look)
            low, high = columns["low"][own], columns["high"][own]
            if np.isfinite(high).all():
                axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        figure: Figure = dp.plotting.finish(axes)
        return figure


def mean_and_error(values: Array) -> tuple[Array, Array]:
    """Return the mean over the first axis and its standard error (infinite for one value)."""
    count = len(values)
    mean: Array = values.mean(0)
    if count == 1:
        return mean, np.full_like(mean, np.inf)
    return mean, values.std(0, ddof=1) / np.sqrt(count)


def simulate(
    algorithms: Mapping[str, Algorithm],
    environment: Environment,
    *,
    replicates: int,
    seed: int,
    points: int = 100,
    n_jobs: int | None = 1,
    progress: bool = False,
) -> Simulation:
    """Simulate all algorithms on the same replicates of an environment.

    Parameters
    ----------
    algorithms, environment
        Algorithms by name, with one number of rounds and the environment's dimension.
    replicates, points
        Numbers of replicates, and of points per curve.
    seed
        Random seed; it determines the results for any number of processes.
    n_jobs
        1 runs in this process. Other numbers are passed to joblib. None uses
        ``joblib.parallel_config``, such as ``backend="dask"`` for a cluster. Both require joblib.
    progress
        Show a progress bar.
    """
    remedy = "Pass algorithms by name, such as {'ours': PrivateUCB(...)}."
    if not isinstance(algorithms, Mapping):
        shown = type(algorithms).__name__
        raise TypeError(checks.expected("algorithms", shown, "a mapping", remedy))
    checks.refuse_if(not algorithms, "algorithms", {}, "at least one", remedy)
    for algorithm in algorithms.values():
        if not isinstance(algorithm, Algorithm):
            shown = type(algorithm).__name__
            raise TypeError(checks.expected("algorithms", shown, "Algorithms", "Pass instances."))
    remedy = "Pass the number of replicates."
    replicates = checks.count("replicates", replicates, remedy, at_most=10**7)
    seed = checks.count("seed", seed, "Pass a whole number.", at_least=0)
    rounds = {algorithm.rounds for algorithm in algorithms.values()}
    dimensions = {algorithm.dimension for algorithm in algorithms.values()}
    if len(rounds) > 1 or dimensions != {environment.dimension}:
        rule = f"of dimension {environment.dimension} and one number of rounds"
        remedy = "Build all algorithms for this environment."
        raise ValueError(checks.expected("algorithms", list(algorithms), rule, remedy))
    (last,) = rounds
    points = min(checks.count("points", points, "Pass the number of points per curve."), last)
    marks = np.unique(np.linspace(0, last, points + 1).round().astype(np.int64))[1:]
    groups = [range(i, min(i + GROUP, replicates)) for i in range(0, replicates, GROUP)]
    tasks = [(name, group) for name in algorithms for group in groups]
    found = _each(
        [(algorithms[name], environment, seed, group, marks) for name, group in tasks],
        n_jobs,
        progress=progress,
    )
    curves: dict[str, list[tuple[Array, Array]]] = {name: [] for name in algorithms}
    for (name, _), curve in zip(tasks, found, strict=True):
        curves[name].append(curve)
    return Simulation(
        marks,
        {name: np.concatenate([regret for regret, _ in parts]) for name, parts in curves.items()},
        {name: np.concatenate([reward for _, reward in parts]) for name, parts in curves.items()},
    )


Task = tuple[Algorithm, Environment, int, range, Indices]


def _each(tasks: list[Task], n_jobs: int | None, *, progress: bool) -> list[tuple[Array, Array]]:
    results: Iterable[tuple[Array, Array]]
    if n_jobs == 1:
        results = (play(*task) for task in tasks)
    else:
        with checks.installed("scale"):
            from joblib import Parallel, delayed

        results = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(play)(*task) for task in tasks
        )
    if not progress:
        return list(results)
    from rich.progress import track

    return list(track(results, "simulating", total=len(tasks)))


def play(
    algorithm: Algorithm, environment: Environment, seed: int, group: range, marks: Indices
) -> tuple[Array, Array]:
    """Return the regret and reward curves of a group of replicates, each of shape (R, P)."""
    if not algorithm.schedule.lockstep and len(group) > 1:
        parts = [play(algorithm, environment, seed, range(i, i + 1), marks) for i in group]
        regrets, rewards = zip(*parts, strict=True)
        return np.concatenate(regrets), np.concatenate(rewards)
    streams = [np.random.SeedSequence(seed, spawn_key=(i,)).spawn(3) for i in group]
    world = environment.world([stream[0] for stream in streams])
    learner = algorithm.learner(
        [stream[1] for stream in streams], np.random.default_rng(streams[0][2])
    )
    # regret and reward: the sums before a block, and the curves
    sums, curves = np.zeros((2, len(group), 1)), np.empty((2, len(group), len(marks)))
    arms = algorithm.prepared(world.features)
    played: list[tuple[Indices, Array, Indices]] = []
    for start in range(0, algorithm.rounds, _BLOCK):
        block = world.block(min(_BLOCK, algorithm.rounds - start))
        # an elementwise maximum of columns is 3 times as fast as max() over a short axis
        best = reduce(np.maximum, np.moveaxis(block.means, -1, 0))
        count = best.shape[1]
        earned = np.empty(best.shape)
        at = 0
        while at < count:
            if learner.ended:
                learner.turn()
            while learner.due:
                played = _close(learner, arms, played)
            stop = at + 1 if learner.left is None else min(count, at + learner.left)
            offered = block.candidates[:, at:stop]
            picked = learner.play_block(arms, offered)[..., None]
            means = np.take_along_axis(block.means[:, at:stop], picked, -1)[..., 0]
            chosen = np.take_along_axis(offered, picked, -1)[..., 0]
            got = world.rewards(means, block.draws[:, at:stop])
            centered = algorithm.reward_range.centered_all(got)
            played.append((chosen, centered, block.users[:, at:stop]))
            earned[:, at:stop] = means
            at = stop
        total = np.concatenate((sums, np.stack((best - earned, earned))), -1).cumsum(-1)
        inside = (start < marks) & (marks <= start + count)
        curves[..., inside] = total[..., marks[inside] - start]
        sums = total[..., -1:]
    return curves[0], curves[1]


def _close(
    learner: Learner, arms: Array, played: list[tuple[Indices, Array, Indices]]
) -> list[tuple[Indices, Array, Indices]]:
    chosen, rewards, users = (np.concatenate(part, axis=1) for part in zip(*played, strict=True))
    count = learner.waiting[0][0]
    learner.close_block(arms, chosen[:, :count], rewards[:, :count], users[:, :count])
    left = chosen[:, count:], rewards[:, count:], users[:, count:]
    return [left] if left[0].shape[1] else []
