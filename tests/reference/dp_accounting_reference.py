"""Write dp_accounting_reference.json: ``python tests/reference/dp_accounting_reference.py``.

For each plan, the file has the epsilons of an optimistic and of a pessimistic privacy loss
distribution of dp-accounting on its default grid: the exact value is between them. It also has the
noise that its RDP accountant needs for a target. Together they take half a minute.
"""

import functools
import itertools
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dp_accounting as peer
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as losses

DELTAS = (1e-3, 1e-6, 1e-9)
# deltas above the rounding errors of their FFT: for 1000 steps at 1e-9, their pessimistic epsilon
# is 3e-6 below the exact one
COMPOSED_DELTAS = (1e-3, 1e-5, 1e-7)
RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_ONE")
ONE = [(2.0, 0.01), (1.0, 0.3), (1.5, 0.9)]
REPEATED = [(1.0, 0.01, 1000), (0.9, 0.1, 10), (4.0, 0.25, 200)]
MIXED = [("gaussian", 5.0, 1.0, 3), ("gaussian", 1.0, 0.05, 20), ("laplace", 4.0, 1.0, 2)]
TARGETS = [(0.5, 0.2, 50), (3.0, 0.01, 1000)]
Part = tuple[str, float, float, int]
PLANS: list[tuple[list[Part], str, tuple[float, ...]]] = [
    *(([("gaussian", *x, 1)], rel, DELTAS) for x, rel in itertools.product(ONE, RELATIONS)),
    *(([("gaussian", *x)], r, COMPOSED_DELTAS) for x, r in itertools.product(REPEATED, RELATIONS)),
    (MIXED, RELATIONS[0], COMPOSED_DELTAS),
]


def distribution(part: Part, relation: str, *, pessimistic: bool) -> Any:
    """Return the distribution of a release of sampled noise, repeated."""
    kind, scale, q, count = part
    build = getattr(losses, f"from_{kind}_mechanism")
    how: dict[str, Any] = {"sampling_prob": q, "use_connect_dots": pessimistic}
    if kind == "gaussian":
        how["neighboring_relation"] = peer.NeighboringRelation[relation]
    one = build(scale, pessimistic_estimate=pessimistic, **how)
    return one.self_compose(count) if count > 1 else one


def composed(*parts: Part, relation: str = RELATIONS[0], pessimistic: bool) -> Any:
    """Return the distribution of several parts."""
    each = (distribution(part, relation, pessimistic=pessimistic) for part in parts)
    return functools.reduce(lambda one, other: one.compose(other), each)


def case(parts: list[Part], relation: str, deltas: tuple[float, ...]) -> dict[str, Any]:
    """Return a plan and its bounds on epsilon."""
    found: dict[str, Any] = {"parts": parts, "relation": relation, "deltas": deltas}
    for name, pessimistic in (("low", False), ("high", True)):
        whole = composed(*parts, relation=relation, pessimistic=pessimistic)
        found[name] = [float(whole.get_epsilon_for_delta(delta)) for delta in deltas]
    return found


def calibrated(epsilon: float, q: float, steps: int) -> float:
    """Return the noise of sampled Gaussian steps at the best whole order, at delta = 1e-6."""
    return float(
        peer.calibrate_dp_mechanism(
            lambda: rdp.RdpAccountant(orders=range(2, 257)),
            lambda sigma: peer.SelfComposedDpEvent(
                peer.PoissonSampledDpEvent(q, peer.GaussianDpEvent(sigma)), steps
            ),
            epsilon,
            1e-6,
            tol=1e-9,
        )
    )


def main() -> None:
    """Write the file."""
    cases = [case(*plan) for plan in PLANS]
    targets = [
        {"epsilon": epsilon, "q": q, "steps": steps, "sigma": calibrated(epsilon, q, steps)}
        for epsilon, q, steps in TARGETS
    ]
    source = f"dp-accounting {version('dp-accounting')}"
    found = {"source": source, "cases": cases, "targets": targets}
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
