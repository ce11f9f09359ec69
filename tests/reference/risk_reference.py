"""Write risk_reference.json with riskcal 1.5.1: ``python tests/reference/risk_reference.py``.

Needs an environment with ``riskcal==1.5.1``. For each plan and false positive rate, the file has
the trade-off function of a pessimistic and of an optimistic privacy loss distribution of
dp-accounting: the exact value is between them.
"""

import itertools
import json
from pathlib import Path

from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from riskcal.analysis import get_beta_from_pld

RATES = [1e-4, 1e-2, 0.1, 0.5]
PLANS = [
    *itertools.product((0.6, 0.8, 1.0, 2.0), (0.001, 0.01, 0.1), (1, 10, 100)),
    *itertools.product((1.0, 2.0), (0.005, 0.02, 0.05), (300, 1000)),
    (1.0, 1.0, 1),
    (5.0, 1.0, 10),
]


def beta(sigma: float, q: float, steps: int, *, pessimistic: bool) -> list[float]:
    """Return the trade-off function at RATES."""
    one = from_gaussian_mechanism(
        sigma,
        sampling_prob=q,
        pessimistic_estimate=pessimistic,
        use_connect_dots=pessimistic,
        value_discretization_interval=1e-4,
    )
    found = get_beta_from_pld(one.self_compose(steps), alpha=RATES)
    return [float(value) for value in found]


def main() -> None:
    """Write the file."""
    cases = [
        {
            "sigma": sigma,
            "q": q,
            "steps": steps,
            "low": beta(sigma, q, steps, pessimistic=True),
            "high": beta(sigma, q, steps, pessimistic=False),
        }
        for sigma, q, steps in PLANS
    ]
    path = Path(__file__).with_suffix(".json")
    found = {"source": "riskcal 1.5.1, dp-accounting 0.6.0", "rates": RATES, "cases": cases}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
