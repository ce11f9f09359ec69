"""Replay of ratings: MovieLens and Jester."""

from collections.abc import Iterable
from typing import Any

from bandits.algorithms.baselines import AdaPrivateTS, AdaPrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table
from bandits.offline.datasets import Ratings, load_jester, load_movielens
from bandits.offline.environments import Replay
from bandits.offline.features import svd_features

_DIMENSION = 50


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret on both data sets."""
    played = (load_movielens(**where(setup)), load_jester(**where(setup)))
    choice = (
        "The preprint uses MovieLens 25M (T = 60,000, warm start) and Jester (T = 30,000). We use "
        "MovieLens latest-small, a development set, and part 1 of Jester, T = 30,000, no warm start"
        " (a prior from private ratings is a release). See real-data-25m for MovieLens 25M."
    )
    return replayed(setup, "real-data", "Replay of ratings", played, 30_000, choice)


def where(setup: Setup) -> dict[str, Any]:
    """Return the options that locate the data for a loader."""
    return {"folder": setup.data, "download_if_missing": setup.download}


def replayed(
    setup: Setup, name: str, title: str, played: Iterable[Ratings], rounds: int, choice: str
) -> Table:
    """Return the table of data sets replayed for `rounds` rounds each (2,000 if quick)."""
    rows: list[Row] = []
    for ratings in played:
        world = replay(ratings)
        for epsilon in setup.epsilons:
            rows += _rows(setup, ratings.name, world, epsilon, 2_000 if setup.quick else rounds)
    choices = (
        choice,
        (
            "Each round draws a random user and 5 items that the user rated; the reward is the "
            "rating scaled to [0, 1]. No round is discarded."
        ),
        (
            "50 features from a truncated SVD of all ratings, which is not private: epsilon is "
            "that of the bandit only. See svd-features for private features."
        ),
        "We have no numbers of the preprint for comparison.",
    )
    return Table(name, title, choices, tuple(rows))


def replay(ratings: Ratings) -> Replay:
    """Return a replay of ratings with features from their SVD."""
    return Replay(
        items=svd_features(ratings, _DIMENSION).values,
        user=ratings.user,
        item=ratings.item,
        rating=ratings.scaled,
    )


def _rows(setup: Setup, name: str, world: Replay, epsilon: float, rounds: int) -> list[Row]:
    size = {"dimension": _DIMENSION, "rounds": rounds}
    options = runs.private(setup, epsilon, **size)
    fair: dict[str, Any] = {"center": 0.5, "calibration": "exact", "scale": 0.1}
    algorithms = runs.baseline(setup, **size) | runs.seed_and_ours(setup, epsilon, **size)
    algorithms |= {
        "AdaPrivate-UCB": AdaPrivateUCB(**options),
        "fair TS": AdaPrivateTS(**options, **fair),
    }
    played = runs.run(setup, algorithms, world, replicates=8 if setup.quick else 12)
    setting = f"{name}, epsilon={epsilon:g}"
    found = runs.all_rows(setup, played, algorithms, epsilon, setting=setting)
    regret, error = played.last()[runs.BASELINE]
    return [Row(setting, runs.BASELINE, "regret", regret, error), *found]
