"""Replay of ratings: MovieLens and Jester."""

import math
from dataclasses import replace
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
from bandits.offline.simulation import Simulation, mean_and_error

DIMENSION = 50
_TS, _UCB, _AMP = "AdaPrivate-TS", "AdaPrivate-UCB", "Amp printed, q=0.3"
_CANDIDATES = 5
_CLICK = {"MovieLens": 4.0, "Synthetic": 4.0, "Jester": 5.0}
"""Least rating that counts as a click."""
_USERS, _ITEMS = 162_541, 59_047
"""Users and rated items of MovieLens 25M."""
_STARS = 393068, 776815, 399490, 1640868, 1262797, 4896928, 3177318, 6639798, 2200539, 3612474
"""Its numbers of ratings of 0.5, 1, ..., 5 stars."""


def real_data(setup: Setup) -> list[Row]:
    """Replay MovieLens latest-small and Jester."""
    rows = _replayed(setup, load_movielens(**where(setup)))
    return rows + _replayed(setup, load_jester(**where(setup)), 6_000, 30_000)


def real_data_25m(setup: Setup) -> list[Row]:
    """Replay MovieLens 25M, which must be downloaded separately."""
    return _replayed(setup, load_movielens("25m", **where(setup)))


def synthetic_25m(setup: Setup) -> list[Row]:
    """Replay synthetic ratings with published marginals of MovieLens 25M."""
    return _replayed(setup, made_up(200 if setup.quick else 1))


def made_up(divisor: int) -> Ratings:
    """Return synthetic ratings with MovieLens 25M's numbers of users, items and ratings by stars.

    A user has 20 ratings or more. Ratings per user and popularity of items are log-normal. A rating
    depends on its user, its item, 10 latent factors and noise. The numbers of users and ratings are
    divided by `divisor`, that of items by its square root.
    """
    rng = np.random.default_rng(runs.SEED)
    users, items = _USERS // divisor, _ITEMS // math.isqrt(divisor)
    stars = np.array(_STARS) // divisor
    # most ratings per user, and the log-normal scale that gives the number of ratings
    spread, most = np.exp(1.59 * rng.standard_normal(users)), min(32_202, items // 2)
    low, high = 0.0, 1e4
    for _ in range(60):
        scale = (low + high) / 2
        counts = np.minimum(20 + scale * spread, most).astype(np.int64)
        low, high = (scale, high) if counts.sum() <= stars.sum() else (low, scale)
    counts = np.minimum(20 + low * spread, most).astype(np.int64)
    counts[: stars.sum() - counts.sum()] += 1
    popular = np.exp(2.68 * rng.standard_normal(items))
    popular = np.minimum(popular, popular.sum() / 300)
    # a first rating for each item; pairs drawn twice are drawn again, with flatter popularity
    pairs = np.sort(rng.choice(users, items, p=counts / counts.sum()) * items + np.arange(items))
    while (missing := counts - np.bincount(pairs // items, minlength=users)).any():
        drawn = rng.choice(items, missing.sum(), p=popular / popular.sum())
        drawn += np.repeat(np.arange(users), missing) * items
        pairs = np.sort(np.append(pairs, np.sort(drawn)), kind="stable")
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
        popular = np.sqrt(popular)
    user, item = np.divmod(pairs, items)
    score = 0.8 * rng.standard_normal(len(pairs))
    score += 0.45 * rng.standard_normal(users)[user] + 0.5 * rng.standard_normal(items)[item]
    for _ in range(10):
        score += 0.12 * rng.standard_normal(users)[user] * rng.standard_normal(items)[item]
    rating = np.empty(len(pairs))
    rating[score.argsort()] = np.repeat(np.arange(1, 11) / 2, stars)
    ids = np.arange(users), np.arange(items)
    return Ratings("Synthetic MovieLens 25M", user, item, rating, 0.5, 5.0, *ids)


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


def _replayed(
    setup: Setup, ratings: Ratings, matched: int = 12_000, long: int = 40_000
) -> list[Row]:
    features = item_features.svd_features(ratings, DIMENSION).values
    prior = _prior(ratings, features)
    world = replay(ratings, features, clicks(ratings))
    if setup.quick:
        matched, long = 300, 500
    readings = {
        "clicks": (world, matched, (1.0, 2.0, 5.0, 10.0)),
        "clicks, long run": (world, long, (1.0,)),
        "clicks, users by ratings": (_by_ratings(world), matched, (1.0,)),
        "ratings": (replay(ratings, features, ratings.scaled), matched, (1.0, 10.0)),
    }
    rows: list[Row] = []
    for reading, (played_in, rounds, epsilons) in readings.items():
        name, counts = f"{ratings.name}, {reading}", np.bincount(played_in.user)
        own = np.bincount(played_in.user, played_in.rating)[counts >= _CANDIDATES]
        random_play = float((own / counts[counts >= _CANDIDATES]).mean())
        rows.append(Row(name, "random play", "expected reward per round", random_play))
        for epsilon in epsilons[:1] if setup.quick else epsilons:
            algorithms = _everyone(setup, epsilon, rounds, prior)
            if reading != "clicks":
                algorithms = {key: algorithms[key] for key in (_TS, _UCB, runs.OURS_AT_TRUE)}
            setting = f"{name}, epsilon={epsilon:g}"
            played, found = runs.compared(
                setup,
                setting,
                algorithms,
                played_in,
                epsilon=epsilon,
                gains=[(one, other) for one in (_TS, runs.OURS_AT_TRUE) for other in algorithms]
                + [(_AMP, _TS)] * (_AMP in algorithms),
                replicates=4 if setup.quick else 5,
            )
            rows += found + _click_rows(setting, played)
    return rows


def _by_ratings(world: Replay) -> Replay:
    """Split users into users of 5 random ratings: a round draws ratings, not users, uniformly."""
    order = np.random.default_rng(runs.SEED).permutation(len(world.user))
    order = order[np.argsort(world.user[order], kind="stable")]
    user, place = world.user[order], np.arange(len(order))
    parts = place - (place - np.searchsorted(user, user)) % _CANDIDATES
    return replace(world, user=parts, item=world.item[order], rating=world.rating[order])


def _everyone(
    setup: Setup, epsilon: float, rounds: int, prior: list[float]
) -> dict[str, Algorithm]:
    size = {"dimension": DIMENSION, "rounds": rounds}
    options = runs.private(setup, epsilon, **size)
    return runs.seed_and_ours(setup, epsilon, **size) | {
        _UCB: AdaPrivateUCB(**options),
        _AMP: PrintedAmp(sampling_probability=0.3, **options),
        "AdaPrivate-TS, warm start": AdaPrivateTS(prior_mean=prior, **options),
        "zCDP-Episodic": ThetaPerturbed(own_data=True, **options),
        "AdaC-OFUL": AdaPrivateUCB(growth=0.5, **options),
        "RarelySwitching": AdaPrivateUCB(growth=1.0, **options),
        "DGS-LinUCB": ThetaPerturbed(first=1, ratio=1.0, split=True, **options),
        "JDP-LinUCB": PrivateContexts(noise="binary_tree", batch=100, **options),
    }


def _prior(ratings: Ratings, features: Array) -> list[float]:
    """Return the ridge estimate from every tenth user."""
    kept = ratings.user % 10 == 0
    x, rewards = features[ratings.item[kept]], clicks(ratings)[kept]
    found: list[float] = np.linalg.solve(x.T @ x + np.eye(DIMENSION), x.T @ rewards).tolist()
    return found


def _click_rows(setting: str, played: Simulation) -> list[Row]:
    """Return the mean reward per round at the first point, its least value, and at the end."""
    rows, count = [], len(played.reward[runs.BASELINE])
    for name in (runs.BASELINE, _TS, _UCB, runs.OURS_AT_TRUE):
        own, errors = mean_and_error(played.reward[name] / played.rounds)
        for measure, at in (
            ("reward per round, first batch", 0),
            ("least reward per round so far", own.argmin()),
            ("reward per round", -1),
        ):
            rows.append(Row(setting, name, measure, float(own[at]), float(errors[at]), count))
    ahead = played.reward[_TS].mean(0) > played.reward[_UCB].mean(0)
    first = float(played.rounds[ahead.argmax()]) if ahead.any() else np.inf
    measure = "first round with more reward"
    return [*rows, Row(setting, f"{_TS} over {_UCB}", measure, first, 0, count)]
