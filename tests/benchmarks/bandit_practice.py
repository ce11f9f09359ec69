"""Figures of `acceptance.py bandit-practice`: goals of a recommender in production."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import bandits
from bandits import Options

Row = tuple[str, float, str, float | None]
"""Name, value, unit and upper limit of a figure."""

_TARGET = np.array([0.1, 0.2, 0.7])
_MEANS = np.array([0.2, 0.5, 0.9])
_LOGS = {
    "easy": np.array([0.5, 0.3, 0.2]),
    "heavy": np.array([0.9, 0.09, 0.01]),
    "no overlap": np.array([0.6, 0.4, 0.0]),
}


def _bernstein(weight: Any, reward: Any, most: float) -> tuple[float, float]:
    """Return the 95 % interval of Maurer and Pontil (2009), cut to [0, 1]."""
    terms, log, n = weight * reward, math.log(4 / 0.05), len(weight)
    half = math.sqrt(2 * terms.var(ddof=1) * log / n) + 7 * most * log / (3 * (n - 1))
    return max(terms.mean() - half, 0.0), min(terms.mean() + half, 1.0)


def off_policy(replicates: int = 500) -> Iterator[Row]:
    """Yield coverage and width of the intervals that are called valid."""
    truth = float(_TARGET @ _MEANS)
    for (name, logging), n in ((log, n) for log in _LOGS.items() for n in (500, 5000)):
        most = None if name == "no overlap" else float((_TARGET / logging).max())
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(replicates):
            rng = np.random.default_rng([seed, n])
            action = rng.choice(3, n, p=logging)
            reward = (rng.random(n) < _MEANS[action]).astype(float)
            log = reward, logging[action], _TARGET[action]
            each: dict[str, Any] = {
                "no bound": bandits.ips(*log, Options(resamples=1)).interval,
                "clip=10": bandits.ips(*log, Options(clip=10, resamples=1)).interval,
            }
            if most is not None:
                options = Options(largest_weight=most, resamples=1)
                each["largest_weight="] = bandits.ips(*log, options).interval
                model = np.array([0.3, 0.4, 0.8])
                predicted = model[action], np.full(n, _TARGET @ model)
                each["dr, largest_weight="] = bandits.doubly_robust(
                    *log, *predicted, options
                ).interval
                each["Bernstein"] = _bernstein(log[2] / log[1], reward, most)
            for kind, interval in each.items():
                found.setdefault(kind, []).append(interval)
        for kind, intervals in found.items():
            missed = np.mean([not low <= truth <= high for low, high in intervals])
            width = float(np.mean([high - low for low, high in intervals]))
            limit = None if kind == "Bernstein" else 7.0
            at = f"{name}, n={n}, {kind}"
            yield f"{at}: value not covered, width {width:.3f}", 100 * float(missed), "%", limit
        if most is not None:
            widths = {k: np.mean([h - x for x, h in v]) for k, v in found.items()}
            ratio = float(widths["largest_weight="] / widths["Bernstein"])
            yield f"{name}, n={n}: width over Bernstein", ratio, "", 1.0


def figures() -> Iterator[Row]:
    """Yield all figures."""
    yield from off_policy()
