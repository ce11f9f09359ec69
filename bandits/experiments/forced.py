"""Forced exploration, with and without a regularizer."""

from bandits.algorithms.baselines import AdaPrivateForced, AdaPrivateTS
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table, claimed

_EPSILON = 1.0


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret, with and without forced rounds."""
    options = runs.private(setup, _EPSILON)
    algorithms = runs.baseline(setup) | runs.seed_and_ours(setup, _EPSILON)
    for ridge in (1.0, 0.01):
        algorithms[f"TS, ridge={ridge:g}"] = AdaPrivateTS(ridge=ridge, **options)
        algorithms |= {
            f"forced, gamma={gamma:g}, ridge={ridge:g}": AdaPrivateForced(
                gamma=gamma, ridge=ridge, **options
            )
            for gamma in (1.0, 10.0)
        }
    played = runs.run(setup, algorithms)
    setting = f"epsilon={_EPSILON:g}"
    rows = runs.all_rows(setup, played, algorithms, _EPSILON, setting=setting)
    for ridge in (1.0, 0.01):
        less, error = runs.paired(
            played.regret[f"TS, ridge={ridge:g}"][:, -1],
            played.regret[f"forced, gamma=1, ridge={ridge:g}"][:, -1],
        )
        subject = f"TS - forced, gamma=1, ridge={ridge:g}"
        measure = "claim: forcing lowers regret (difference)"
        rows.append(Row(setting, subject, measure, less, error, verdict=claimed(less, error)))
    choices = ("A round is uniform with probability min(1, d log t / (t gamma)), d = 20.",)
    return Table("forced", "Forced exploration", choices, tuple(rows))
