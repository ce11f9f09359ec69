"""Thompson sampling and upper confidence bounds with the same noise."""

from typing import Any

from bandits.algorithms.baselines import AdaPrivateTS, AdaPrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table, claimed

_TS = {0.5: 93.5, 1.0: 96.7, 2.0: 98.2, 5.0: 98.7}
_UCB = {0.5: 92.2, 1.0: 95.2, 2.0: 96.9, 5.0: 98.2}


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret, by epsilon."""
    rows: list[Row] = []
    for epsilon in setup.epsilons:
        options = runs.private(setup, epsilon)
        fair: dict[str, Any] = {"center": 0.5, "calibration": "exact"}
        algorithms = runs.baseline(setup) | runs.seed_and_ours(setup, epsilon)
        algorithms |= {
            "AdaPrivate-UCB": AdaPrivateUCB(**options),
            "fair TS": AdaPrivateTS(scale=0.1, **options, **fair),
            "fair UCB": AdaPrivateUCB(width=0.1, **options, **fair),
        }
        played = runs.run(setup, algorithms)
        setting = f"epsilon={epsilon:g}"
        papers = {"AdaPrivate-TS": _TS[epsilon], "AdaPrivate-UCB": _UCB[epsilon]}
        rows += runs.all_rows(setup, played, algorithms, epsilon, setting=setting, papers=papers)
        for first, second, paper in (
            ("AdaPrivate-TS", "AdaPrivate-UCB", _TS[epsilon] - _UCB[epsilon]),
            ("fair TS", "fair UCB", None),
        ):
            whole = played.reward[runs.BASELINE][:, -1].mean() / 100
            gain, error = runs.paired(
                played.reward[first][:, -1] / whole, played.reward[second][:, -1] / whole
            )
            measure = "claim: TS earns more than UCB (points)"
            verdict = claimed(gain, error)
            rows.append(
                Row(setting, f"{first} - {second}", measure, gain, error, paper, verdict=verdict)
            )
    choices = (
        (
            "Synthetic: d = 20, 100 arms, 5 per round, theta of norm 2, logistic means, Bernoulli "
            "rewards."
        ),
        ("delta = 1e-5, REPLACE_ONE of one round's reward; B = 300, lambda = 1, v = 1, alpha = 1."),
        (
            "The last partial batch is not released. fair: centered rewards, v = alpha = 0.1, "
            "exact noise."
        ),
        "PrivateUCB is `bandits.PrivateUCB` with its defaults; the mean reward is not given to it.",
    )
    return Table("ts-vs-ucb", "Thompson sampling against UCB", choices, tuple(rows))
