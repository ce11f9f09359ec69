"""Private item features: true epsilon of the printed sensitivity, and utility for a bandit."""

import math
from dataclasses import replace
from typing import Any

import privacy as dp
from bandits.algorithms.baselines import AdaPrivateUser
from bandits.algorithms.named import PrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table, spent
from bandits.offline.datasets import load_movielens
from bandits.offline.environments import Replay
from bandits.offline.features import ItemFeatures, private_svd_features, svd_features

_DIMENSION = 10
_REWARDS = 5.0


def table(setup: Setup) -> Table:
    """Return the true epsilon of the printed noise, and utility by epsilon_feat."""
    ratings = load_movielens(folder=setup.data, download_if_missing=setup.download)
    ratings = ratings.most_rated(300)
    rows: list[Row] = []
    for epsilon in (1.0, 5.0) if setup.quick else (1.0, 2.0, 5.0, 10.0):
        rows += _printed(epsilon)
    made: dict[str, ItemFeatures] = {"no privacy": svd_features(ratings, _DIMENSION)}
    for epsilon in (1.0, 10.0) if setup.quick else (1.0, 2.0, 5.0, 10.0, 100.0):
        made[f"epsilon_feat={epsilon:g}"] = private_svd_features(
            ratings,
            _DIMENSION,
            epsilon=epsilon,
            delta=runs.DELTA,
            clip_norm=4.0,
            simulation=True,
            seed=runs.SEED,
        )
    size = {"dimension": _DIMENSION, "rounds": 2_000 if setup.quick else 30_000}
    options = runs.private(setup, _REWARDS, **size)
    users = AdaPrivateUser(cap=1.0, center=0.5, scale=0.1, calibration="exact", **options)
    for name, features in made.items():
        world = Replay(
            items=features.values, user=ratings.user, item=ratings.item, rating=ratings.scaled
        )
        ours: Any = {"user level": users, "PrivateUCB (ours), per round": PrivateUCB(**options)}
        played = runs.run(
            setup, runs.baseline(setup, **size) | ours, world, replicates=8 if setup.quick else 12
        )
        # report the guarantee that real noise of this scale would give
        both = replace(features, is_simulation=False).guarantee_with(users, runs.DELTA).epsilon
        for subject, epsilon in (
            (runs.BASELINE, None),
            (*list(ours)[:1], both),
            (*list(ours)[1:], None),
        ):
            value, error = runs.mean_reward(played, subject)
            claim = None if epsilon is None else _REWARDS
            rows.append(Row(name, subject, "mean reward", value, error, None, claim, epsilon))
    choices = (
        (
            "Printed: noise for sensitivity 1 (times 1/n) of the Gram matrix, with rho from the "
            "classic conversion, or exact. The sensitivity to replacing a user is sqrt(2)."
        ),
        (
            "MovieLens latest-small, the 300 most rated movies (their choice is treated as public),"
            " 10 features, rows clipped to norm 4 on [-1, 1]."
        ),
        (
            "user level: AdaPrivateUser, lifetime cap 1, epsilon 5 for rewards. Its true epsilon is"
            " that of features and rewards together, for all ratings and rewards of a user, "
            "REPLACE_ONE."
        ),
        "PrivateUCB protects a round, so its guarantee does not compose with that of features.",
        "The features' noise is drawn once; standard errors are over the bandit's replicates only.",
    )
    return Table("svd-features", "Private item features", choices, tuple(rows))


def _printed(epsilon: float) -> list[Row]:
    """Return the true epsilon of noise for sensitivity 1 under REPLACE_ONE of a user."""
    rho = dp.rho_from_epsilon(epsilon, runs.DELTA, conversion="classic")
    noises = {
        "printed noise, classic rho": dp.noise_multiplier_from_rho(rho),
        "printed noise, exact": dp.noise_multiplier(epsilon=epsilon, delta=runs.DELTA),
    }
    rows = []
    for name, multiplier in noises.items():
        found = dp.account(
            dp.Gaussian(multiplier, math.nextafter(math.sqrt(2), 2)),
            relation=dp.NeighboringRelation.REPLACE_ONE,
        ).epsilon(runs.DELTA)
        measure = "claim: sensitivity 1 / n"
        verdict = spent(epsilon, found)
        setting = f"epsilon_feat={epsilon:g}"
        rows.append(Row(setting, name, measure, found, 0.0, epsilon, epsilon, found, verdict))
    return rows
