"""Sensitivity to batch length, exploration and its decay, at epsilon = 1."""

from bandits.algorithms.baselines import AdaPrivateAdaptive, AdaPrivateTS
from bandits.algorithms.named import PrivateUCB
from bandits.experiments import runs
from bandits.experiments.tables import Row, Setup, Table

_EPSILON = 1.0


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret by B, v, decay and our settings."""
    options = runs.private(setup, _EPSILON)
    algorithms = runs.baseline(setup)
    algorithms |= {f"B={b}": AdaPrivateTS(batch=b, **options) for b in (10, 50, 100, 300, 1000)}
    algorithms |= {f"v={v:g}": AdaPrivateTS(scale=v, **options) for v in (0.1, 0.5, 2.0)}
    algorithms |= {
        f"decay={decay:g}": AdaPrivateAdaptive(decay=decay, **options)
        for decay in (0.9, 0.95, 0.99)
    }
    algorithms[runs.OURS] = PrivateUCB(**options)
    algorithms |= {
        f"ours, first={first}": PrivateUCB(first=first, **options) for first in (25, 400)
    }
    algorithms |= {f"ours, width={w:g}": PrivateUCB(width=w, **options) for w in (0.0, 2.0)}
    played = runs.run(setup, algorithms)
    setting = f"epsilon={_EPSILON:g}"
    rows = runs.all_rows(setup, played, algorithms, _EPSILON, setting=setting)
    more, error = runs.paired(played.regret["B=10"][:, -1], played.regret["B=300"][:, -1])
    verdict = "contradicts" if abs(more) > 2 * error else "reproduced"
    measure = "claim: the privacy part of the regret is free of B (difference of regrets)"
    rows.append(Row(setting, "B=10 - B=300", measure, more, error, 0.0, verdict=verdict))
    choices = (
        (
            "AdaPrivate-TS with B = 300 and v = 1 unless stated; decay is that of AdaPrivate-"
            "Adaptive, from v = 1.5."
        ),
        "Every setting has the same guarantee, because a round's reward enters one batch.",
    )
    return Table("robustness", "Settings of AdaPrivate-TS and of ours", choices, tuple(rows))
