"""Regret as a function of the round."""

from bandits.algorithms.baselines import AdaPrivateAdaptive, AdaPrivateUCB
from bandits.algorithms.named import LinTS
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table

_EPSILON = 1.0


def table(setup: Setup) -> Table:
    """Return the regret at ten rounds, and a figure in a full run."""
    options = runs.private(setup, _EPSILON)
    algorithms = runs.baseline(setup) | runs.seed_and_ours(setup, _EPSILON)
    algorithms |= {
        "LinTS": LinTS(dimension=20, rounds=setup.rounds),
        "AdaPrivate-UCB": AdaPrivateUCB(**options),
        "AdaPrivate-Adaptive": AdaPrivateAdaptive(**options),
    }
    played = runs.run(setup, algorithms, points=10 if setup.quick else 50)
    columns = played.table()
    every = 1 if setup.quick else 5
    points = zip(
        columns["round"],
        columns["algorithm"],
        columns["regret"],
        columns["standard_error"],
        strict=True,
    )
    rows = [
        Row(f"t={t}", name, "regret", regret, error)
        for place, (t, name, regret, error) in enumerate(points)
        if (place + 1) % every == 0
    ]
    choices = ("epsilon = 1, the synthetic setup of ts-vs-ucb; LinUCB and LinTS are not private.",)
    figure = None if setup.quick else played.plot()
    return Table("curves", "Regret over the rounds", choices, tuple(rows), figure)
