"""Absolute regret, and its growth with the number of rounds."""

import math

import numpy as np

from bandits.algorithms.baselines import AdaPrivateTS, AdaPrivateUCB
from bandits.algorithms.named import PrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table

_EPSILON = 1.0


def table(setup: Setup) -> Table:
    """Return the regret by T, and the growth of the regret beyond LinUCB."""
    horizons = (500, 2_000) if setup.quick else (2_500, 10_000, 40_000)
    rows: list[Row] = []
    excess: dict[str, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for rounds in horizons:
        options = runs.private(setup, _EPSILON, rounds=rounds)
        algorithms = runs.baseline(setup, rounds=rounds) | {
            "AdaPrivate-TS": AdaPrivateTS(**options),
            "AdaPrivate-UCB": AdaPrivateUCB(**options),
            runs.OURS: PrivateUCB(**options),
        }
        played = runs.run(setup, algorithms, replicates=None if setup.quick else 24)
        for name in algorithms:
            mean, error = played.last()[name]
            rows.append(Row(f"T={rounds}", name, "regret", mean, error))
            over = played.regret[name][:, -1] - played.regret[runs.BASELINE][:, -1]
            excess.setdefault(name, []).append(over)
    for name in (runs.OURS, "AdaPrivate-TS", "AdaPrivate-UCB"):
        first, last = excess[name][0], excess[name][-1]
        if last.mean() <= 0 or first.mean() <= 0:  # no logarithm if better than LinUCB
            continue
        slope = math.log(last.mean() / first.mean()) / math.log(horizons[-1] / horizons[0])
        parts = [each.std(ddof=1) / math.sqrt(len(each)) / each.mean() for each in (first, last)]
        error = math.hypot(*parts) / math.log(horizons[-1] / horizons[0])
        # growth like log T between these horizons has this exponent
        log_slope = math.log(math.log(horizons[-1]) / math.log(horizons[0])) / math.log(
            horizons[-1] / horizons[0]
        )
        verdict = ""
        if name != runs.OURS:
            verdict = "contradicts" if slope - log_slope > 2 * error else "reproduced"
        measure = "claim: regret beyond LinUCB grows like log T (power of T)"
        setting = f"T={horizons[0]}..{horizons[-1]}"
        rows.append(Row(setting, name, measure, slope, error, log_slope, verdict=verdict))
    choices = (
        "epsilon = 1, the synthetic setup of ts-vs-ucb; 24 replicates in a full run.",
        (
            "LinUCB has no intercept, so a private agent that learns the mean reward can have less "
            "regret than LinUCB without privacy."
        ),
    )
    return Table("horizon", "Absolute regret and its growth", choices, tuple(rows))
