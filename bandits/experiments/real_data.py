"""Replay of ratings: MovieLens and Jester."""

from typing import Any

import numpy as np

from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import AdaPrivateTS, AdaPrivateUCB
from bandits.algorithms.contexts import PrivateContexts
from bandits.checks import Array
from bandits.experiments import runs
from bandits.experiments.printed_formula import PrintedAmp
from bandits.experiments.rivals import ThetaPerturbed
from bandits.experiments.tables import Row, Setup
from bandits.offline import features as item_features
from bandits.offline.datasets import Ratings, load_jester, load_movielens
from bandits.offline.environments import Replay
from bandits.offline.simulation import Simulation

DIMENSION = 50
_TS, _UCB, _AMP = "AdaPrivate-TS", "AdaPrivate-UCB", "Amp printed, q=0.3"
_CANDIDATES = 5
_CLICK = {"MovieLens": 4.0, "Jester": 5.0}
"""Least rating that counts as a click."""


def real_data(setup: Setup) -> list[Row]:
    """Replay MovieLens latest-small and Jester."""
    steps = (load_movielens(**where(setup)), 60_000), (load_jester(**where(setup)), 30_000)
    return [row for ratings, count in steps for row in _replayed(setup, ratings, count)]


def real_data_25m(setup: Setup) -> list[Row]:
    """Replay MovieLens 25M, which must be downloaded separately."""
    return _replayed(setup, load_movielens("25m", **where(setup)), 60_000)


def where(setup: Setup) -> dict[str, Any]:
    """Return the options that locate the data for a loader."""
    return {"folder": setup.data, "download_if_missing": setup.download}


def clicks(ratings: Ratings) -> Array:
    """Return 1.0 for ratings that count as a click, else 0.0."""
    found: Array = (ratings.rating >= _CLICK[ratings.name.split()[0]]).astype(float)
    return found


def replay(ratings: Ratings, features: Array, rewards: Array) -> Replay:
    """Return a replay of ratings with the given features and rewards."""
    return Replay(items=features, user=ratings.user, item=ratings.item, rating=rewards)


def _replayed(setup: Setup, ratings: Ratings, steps: int) -> list[Row]:
    features = item_features.svd_features(ratings, DIMENSION).values
    prior = _prior(ratings, features)
    matched, every = (300, 500) if setup.quick else (steps // _CANDIDATES, 30_000)
    readings = {
        "clicks": (clicks(ratings), matched, (1.0, 2.0, 5.0, 10.0)),
        "clicks, all rounds": (clicks(ratings), every, (1.0,)),
        "ratings": (ratings.scaled, matched, (1.0, 10.0)),
    }
    rows: list[Row] = []
    for reading, (rewards, rounds, epsilons) in readings.items():
        size = {"dimension": DIMENSION, "rounds": rounds}
        world = replay(ratings, features, rewards)
        name, counts = f"{ratings.name}, {reading}", np.bincount(ratings.user)
        own = np.bincount(ratings.user, rewards)[counts >= _CANDIDATES]
        random_play = float((own / counts[counts >= _CANDIDATES]).mean())
        rows.append(Row(name, "random play", "expected reward per round", random_play))
        for epsilon in epsilons[:1] if setup.quick else epsilons:
            algorithms = _everyone(setup, epsilon, size, prior)
            if reading != "clicks":
                few = (_TS, runs.OURS)
                algorithms = {key: algorithms[key] for key in few}
            others = [key for key in algorithms if key not in (_TS, runs.OURS)]
            gains = [(one, other) for one in (_TS, runs.OURS) for other in others]
            gains += [(runs.OURS, _TS)] + [(_AMP, _TS)] * (_AMP in algorithms)
            played, found = runs.compared(
                setup,
                f"{name}, epsilon={epsilon:g}",
                algorithms,
                world,
                epsilon=epsilon,
                gains=gains,
                replicates=4 if setup.quick else 5,
            )
            rows += found + _click_rows(f"{name}, epsilon={epsilon:g}", played)
    return rows


def _everyone(
    setup: Setup, epsilon: float, size: dict[str, int], prior: list[float]
) -> dict[str, Algorithm]:
    options = runs.private(setup, epsilon, **size)
    algorithms = runs.seed_and_ours(setup, epsilon, **size)
    algorithms |= {
        _UCB: AdaPrivateUCB(**options),
        _AMP: PrintedAmp(sampling_probability=0.3, **options),
        "AdaPrivate-TS, warm start": AdaPrivateTS(prior_mean=prior, **options),
        "zCDP-Episodic": ThetaPerturbed(own_data=True, **options),
        "AdaC-OFUL": AdaPrivateUCB(growth=0.5, **options),
        "RarelySwitching": AdaPrivateUCB(growth=1.0, **options),
        "DGS-LinUCB": ThetaPerturbed(first=1, ratio=1.0, split=True, **options),
        "JDP-LinUCB": PrivateContexts(noise="binary_tree", batch=100, **options),
    }
    return algorithms


def _prior(ratings: Ratings, features: Array) -> list[float]:
    """Return the ridge estimate from every tenth user."""
    kept = ratings.user % 10 == 0
    x, rewards = features[ratings.item[kept]], clicks(ratings)[kept]
    gram = x.T @ x + np.eye(DIMENSION)
    found: list[float] = np.linalg.solve(gram, x.T @ rewards).tolist()
    return found


def _click_rows(setting: str, played: Simulation) -> list[Row]:
    """Return the rewards per round so far: at the first point, their least later value, the end."""
    rows = []
    means = {name: curve.mean(0) / played.rounds for name, curve in played.reward.items()}
    count = len(played.reward[runs.BASELINE])
    for name in (runs.BASELINE, _TS, _UCB, runs.OURS):
        if name not in means:
            continue
        own = means[name]
        per_round = played.reward[name] / played.rounds
        errors = per_round.std(0, ddof=1) / np.sqrt(count)
        least = int(own.argmin())
        for measure, at in (
            ("reward per round, first batch", 0),
            ("least reward per round so far", least),
            ("reward per round", -1),
        ):
            rows.append(Row(setting, name, measure, float(own[at]), float(errors[at]), count))
    if _UCB not in means:
        return rows
    ahead = means[_TS] > means[_UCB]
    first = float(played.rounds[ahead.argmax()]) if ahead.any() else np.inf
    measure = "first round with more reward"
    return [*rows, Row(setting, f"{_TS} over {_UCB}", measure, first, 0, count)]
