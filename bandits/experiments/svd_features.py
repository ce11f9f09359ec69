"""Private item features: true epsilon of the printed sensitivity, and utility for a bandit."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

import privacy as dp
from bandits.algorithms.baselines import AdaPrivateUCB, AdaPrivateUser
from bandits.experiments import runs
from bandits.experiments.real_data import clicks, replay, where
from bandits.experiments.runs import DELTA
from bandits.experiments.tables import Row, Setup
from bandits.offline import features
from bandits.offline.datasets import Ratings, load_movielens
from bandits.offline.features import ItemFeatures

_DIMENSION = 10
_USERS = 5.0
_TS, _UCB = "AdaPrivate-TS", "AdaPrivate-UCB"


def svd_features(setup: Setup) -> list[Row]:
    """Measure the printed noise's true epsilon, utility and effective dimension."""
    ratings = load_movielens(**where(setup)).most_rated(300)
    rows: list[Row] = []
    for epsilon in (1.0, 5.0) if setup.quick else (1.0, 2.0, 5.0, 10.0):
        rows += _printed(epsilon)
    made: dict[str, ItemFeatures] = {"public": features.svd_features(ratings, _DIMENSION)}
    noise: dict[str, Any] = {"delta": DELTA, "simulation": True, "seed": runs.SEED}
    for epsilon in (1.0, 10.0) if setup.quick else (1.0, 2.0, 5.0, 10.0, 100.0):
        made[f"epsilon_feat={epsilon:g}"] = features.private_svd_features(
            ratings, _DIMENSION, epsilon=epsilon, clip_norm=4.0, **noise
        )
    size = {"dimension": _DIMENSION, "rounds": 2_000 if setup.quick else 12_000}
    options = runs.private(setup, 1.0, **size)
    users = AdaPrivateUser(
        cap=1.0, center=0.5, scale=0.1, calibration="exact", **options | {"epsilon": _USERS}
    )
    public, few = None, 8 if setup.quick else 12
    gains = [(_TS, _UCB), (runs.OURS, _UCB)]
    for name, found in made.items():
        world = replay(ratings, found.values, clicks(ratings))
        algorithms = runs.seed_and_ours(setup, 1.0, **size)
        algorithms |= {_UCB: AdaPrivateUCB(**options), "user level, epsilon=5": users}
        played, own = runs.compared(
            setup, name, algorithms, world, epsilon=1.0, gains=gains, replicates=few
        )
        rows += own
        public = public or played
        for subject in (_TS, _UCB, runs.OURS):
            kept, error = runs.ratio(played.reward[subject][:, -1], public.reward[subject][:, -1])
            measure = "% of the reward with public features lost"
            rows.append(Row(name, subject, measure, 100 - kept, error, few))
        # report the guarantee that real noise of this scale would give
        both = replace(found, is_simulation=False).guarantee_with(users, DELTA).epsilon
        subject, measure = "features and user level, epsilon=5", "true epsilon"
        rows.append(Row(name, subject, measure, both, 0, 0, None, both))
    return rows + _effective(load_movielens(**where(setup)))


def _effective(ratings: Ratings) -> list[Row]:
    """Return two effective dimensions of the features."""
    x = features.svd_features(ratings, 50).values[ratings.item]
    mu = np.linalg.eigvalsh(x.T @ x / len(x))
    values = {
        "sum of mu^-2": float((mu**-2).sum()),
        "(sum of mu)^2 / sum of mu^2": float(mu.sum() ** 2 / (mu**2).sum()),
    }
    return [
        Row(f"{ratings.name}, d=50", "features", prefix + measure, 50 / value if prefix else value)
        for measure, value in values.items()
        for prefix in ("", "50 / ")
    ]


def _printed(epsilon: float) -> list[Row]:
    """Return the true epsilon of noise for sensitivity 1 under REPLACE_ONE of a user."""
    rho = dp.rho_from_epsilon(epsilon, DELTA, conversion="classic")
    noises = {
        "printed noise, classic rho": dp.noise_multiplier_from_rho(rho),
        "printed noise, exact": dp.noise_multiplier(epsilon=epsilon, delta=DELTA),
    }
    rows = []
    for name, multiplier in noises.items():
        gaussian = dp.Gaussian(multiplier, math.nextafter(math.sqrt(2), 2))
        found = dp.account(gaussian, relation=dp.NeighboringRelation.REPLACE_ONE).epsilon(DELTA)
        setting = f"epsilon_feat={epsilon:g}"
        rows.append(Row(setting, name, "true epsilon", found, 0, 0, epsilon, found))
    return rows
