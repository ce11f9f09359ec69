"""Ablation: the changes from AdaPrivate-TS to PrivateUCB one by one, at one guarantee."""

from typing import Any

from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import AdaPrivateTS
from bandits.algorithms.named import PrivateThompson, PrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret of every step, by epsilon."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        algorithms = runs.baseline(setup) | _ladder(runs.private(setup, epsilon))
        played = runs.run(setup, algorithms)
        setting = f"epsilon={epsilon:g}"
        rows += runs.all_rows(setup, played, algorithms, epsilon, setting=setting)
    choices = (
        (
            "Each step includes those above it. Steps 1 to 7 are given the mean reward, 1/2; the "
            "defaults of PrivateUCB and PrivateThompson learn it."
        ),
        "The printed sigma is conservative: its true epsilon is smaller than the claimed one.",
    )
    return Table("ablation", "From AdaPrivate-TS to PrivateUCB", choices, tuple(rows))


def _ladder(options: dict[str, Any]) -> dict[str, Algorithm]:
    told: dict[str, Any] = {"center": 0.5}
    centered = told | {"scale": 0.1}
    exact = centered | {"calibration": "exact"}
    aware: dict[str, Any] = {"width": 0.0, "estimator": "prefix", "noise": "column_normalized"}
    return {
        "1 AdaPrivate-TS": AdaPrivateTS(**options),
        "2 centered, v=0.1": AdaPrivateTS(**options, **centered),
        "3 exact sigma": AdaPrivateTS(**options, **exact),
        "4 correlated noise": AdaPrivateTS(noise="column_normalized", **options, **exact),
        "5 posterior knows the noise": PrivateUCB(first=300, ratio=1.0, **options, **told, **aware),
        "6 growing batches": PrivateUCB(**options, **told, **aware),
        "7 all releases, optimized noise": PrivateUCB(width=0.0, **options, **told),
        runs.OURS: PrivateUCB(**options),
        "PrivateThompson (ours)": PrivateThompson(**options),
    }
