"""Reward models for doubly robust estimates, fitted to the earlier rounds of the log."""

import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bandits import checks
from bandits.checks import Array, Indices
from bandits.learning.rewards import numbers


class FittedRewards(NamedTuple):
    """Predictions for `doubly_robust`, in the range of rewards."""

    predicted: Array
    """Of the logged action, shape (n,)."""
    baseline: Array
    """Mean under the evaluated policy, shape (n,)."""


def fit_rewards(
    regressor: Any,
    features: Array,
    action: Indices,
    reward: Array,
    target: Array,
    *,
    folds: int = 10,
    low: float = 0.0,
    high: float = 1.0,
) -> FittedRewards:
    """Return predictions by a regressor such as scikit-learn's, from earlier rounds only.

    The log is divided into blocks in the order of its rounds. Each block is predicted by a copy
    that is fitted to all earlier blocks, and the first block by the middle of the range. So the
    interval of `doubly_robust` stays valid, also for a logging policy that learns.

    Parameters
    ----------
    regressor
        Object with ``fit(X, y)`` and ``predict(X)``; it is copied, not changed.
    features
        Contexts, shape (n, d), to which a one-hot action is appended, or features of every action,
        shape (n, actions, d).
    action, reward
        Logged action, from 0, and its reward, shape (n,).
    target
        Probability of each action under the evaluated policy, shape (n, actions).
    folds
        Number of blocks, >= 2.
    low, high
        Range of rewards, to which predictions are clipped.
    """
    target = np.asarray(target, dtype=float)
    features = np.asarray(features, dtype=float)
    action = np.asarray(action)
    n = len(action)
    folds = checks.count("folds", folds, "Pass the number of folds.", at_least=2, at_most=n)
    remedy = "Pass the probability of each action in each round."
    checks.refuse_if(target.ndim != 2, "shape of target", target.shape, "(n, actions)", remedy)
    target = checks.finite("target", target, (n, target.shape[1]), remedy)
    actions = target.shape[1]
    if features.ndim == 2:  # append a one-hot action
        each = np.broadcast_to(features[:, None, :], (n, actions, features.shape[1]))
        one_hot = np.broadcast_to(np.eye(actions), (n, actions, actions))
        features = np.concatenate((each, one_hot), axis=-1)
    remedy = "Pass (n, d), or (n, actions, d)."
    features = checks.finite("features", features, (n, actions, *features.shape[2:]), remedy)
    rewards = checks.finite("reward", numbers(reward), (n,), "Pass one reward for each round.")
    predicted, baseline = np.full((2, n), (low + high) / 2)
    edges = np.linspace(0, n, folds + 1).astype(int)
    for start, stop in pairwise(edges[1:]):
        fitted = copy.deepcopy(regressor)
        fitted.fit(features[np.arange(start), action[:start]], rewards[:start])
        block = features[start:stop]
        found = np.asarray(fitted.predict(block.reshape(-1, block.shape[-1])), dtype=float)
        each = np.clip(found.reshape(block.shape[:2]), low, high)
        predicted[start:stop] = each[np.arange(stop - start), action[start:stop]]
        baseline[start:stop] = np.clip((each * target[start:stop]).sum(1), low, high)
    return FittedRewards(predicted, baseline)
