"""Random allocation beside PLD-accounting, and cyclic Poisson sampling beside jax-privacy.

Their results are in tests/reference/allocation_reference.json: brackets of epsilon by
`gaussian_allocation_epsilon_configurable` (loss discretization 0.02, at most 3,000 grid points for
86 draws and 1,000 for the others) for random parameters, and epsilon of `amplified_bandmf_event` by
dp-accounting's PLD accountant.
"""

import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import privacy as dp
from privacy.losses import allocation
from privacy.numerics.solve import invert

REFERENCE = Path(__file__).parents[1] / "reference" / "allocation_reference.json"
Row = tuple[str, float, str, float | None]


def reference(package: str) -> list[dict[str, Any]]:
    """Return the stored results of a package."""
    return json.loads(REFERENCE.read_text(encoding="utf-8"))[package]


def cpu(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return a result and its CPU seconds, with nothing kept from earlier calls."""
    for kept in (allocation.ratios, allocation.labels):
        kept.cache_clear()
    start = time.process_time_ns()
    return call(), (time.process_time_ns() - start) * 1e-9


def bracket(mechanism: dp.Mechanism, delta: float) -> tuple[float, float]:
    """Return a lower and an upper bound on epsilon, of the pair that is accounted for."""
    curve = dp.account(mechanism, notion="pld")
    upper = curve.epsilon(delta)
    lower = invert(lambda epsilon: curve.bracket(epsilon).lower, math.log(delta), rtol=1e-5)
    return min(lower, upper), upper


def allocated(row: dict[str, Any]) -> dp.RandomAllocation:
    """Return the mechanism of a stored draw."""
    fields = {name: row[name] for name in ("steps", "participations", "epochs")}
    return dp.RandomAllocation(dp.Gaussian(row["noise_multiplier"]), **fields)


def apart(row: dict[str, Any]) -> float:
    """Return by how much our bracket and that of a stored draw miss each other, relatively."""
    lower, upper = bracket(allocated(row), row["delta"])
    return max(row["lower"] / upper, lower / row["upper"]) - 1


def cyclic(row: dict[str, Any]) -> dp.CyclicPoisson:
    """Return the mechanism of a stored setting."""
    fields = {name: row[name] for name in ("sampling_probability", "steps", "groups")}
    return dp.CyclicPoisson(dp.Gaussian(row["noise_multiplier"]), **fields)


def simulated(rows: int, seed: int) -> tuple[float, float]:
    """Return by how many standard errors simulated deltas lie outside of the bracket."""
    rng, steps, epochs, mu = np.random.default_rng(seed), 100, 2, 1.0
    run = dp.RandomAllocation(dp.Gaussian(1 / mu), steps=steps, epochs=epochs)
    curve = dp.account(run, notion="pld")
    loss = np.zeros(rows)
    for _ in range(epochs):
        z = rng.standard_normal((rows, steps))
        z[:, 0] += mu
        loss += np.log(np.exp(mu * z - mu * mu / 2).mean(axis=1))
    below, above = 0.0, 0.0
    for epsilon in (0.1, 0.3, 0.6):
        part = np.maximum(-np.expm1(epsilon - loss), 0)
        error = part.std() / math.sqrt(rows)
        found = curve.bracket(epsilon)
        above = max(above, (part.mean() - math.exp(found.upper)) / error)
        below = max(below, (math.exp(found.lower) - part.mean()) / error)
    return above, below


def figures() -> Iterator[Row]:
    """Yield name, value, unit and limit of each figure."""
    run = dp.RandomAllocation(dp.Gaussian(1.0), steps=100, epochs=10)
    epsilon, seconds = cpu(lambda: dp.account(run).epsilon(1e-5))
    yield "allocation, t=100, 10 epochs, sigma=1: epsilon", epsilon, "", 1.740
    yield "allocation, the same: CPU", seconds, "s", 1
    lower, upper = bracket(run, 1e-5)
    yield "allocation, the same: 1.664 - lower bound", 1.664 - lower, "", 0
    yield "allocation, the same: width of the bracket", 100 * (upper / lower - 1), "%", 1

    def family(sigma: float) -> dp.Mechanism:
        return dp.RandomAllocation(dp.Gaussian(sigma), steps=100, epochs=10)

    sigma, seconds = cpu(lambda: dp.calibrate(family, epsilon=1.7, delta=1e-5))
    yield "allocation, calibrate: CPU", seconds, "s", 10
    missed = 1 - dp.account(family(sigma)).epsilon(1e-5) / 1.7
    yield "allocation, calibrate: 1 - epsilon / target", missed, "", 1e-3
    yield "allocation, calibrate: epsilon / target - 1", -missed, "", 0
    above, below = simulated(200_000, 5)
    yield "allocation, simulated delta above the bracket", above, "s.e.", 5
    yield "allocation, simulated delta below the bracket", below, "s.e.", 5

    draws = reference("pld-accounting 2.0")
    gaps = [apart(row) for row in draws]
    yield "allocation, draws beside PLD-accounting", len(draws), "", None
    yield "allocation, largest gap between the two brackets", max(gaps), "", 0
    yield from _cyclic()
    yield from _bands()


def _cyclic() -> Iterator[Row]:
    import dp_accounting
    from dp_accounting import pld

    def theirs(row: dict[str, Any]) -> float:
        # what amplified_bandmf_event returns
        event = dp_accounting.SelfComposedDpEvent(
            dp_accounting.PoissonSampledDpEvent(
                row["sampling_probability"],
                dp_accounting.GaussianDpEvent(row["noise_multiplier"]),
            ),
            math.ceil(row["steps"] / row["groups"]),
        )
        accountant = pld.PLDAccountant()
        accountant.compose(event)
        return accountant.get_epsilon(row["delta"])

    rows = reference("jax-privacy 2.0.0")
    dp.account(cyclic(rows[0])).epsilon(1e-5)  # warm up: imports
    theirs(rows[0])
    off, ratios = 0.0, []
    for row in rows:
        found, seconds = cpu(lambda row=row: dp.account(cyclic(row)).epsilon(row["delta"]))
        same, other = cpu(lambda row=row: theirs(row))
        assert math.isclose(same, row["epsilon"], rel_tol=1e-9)
        off = max(off, abs(found / row["epsilon"] - 1))
        ratios.append(other / seconds)
    yield "cyclic Poisson, |ours / jax-privacy - 1|", off, "", 1e-4
    yield "cyclic Poisson, our CPU / theirs, median", 1 / float(np.median(ratios)), "", 1 / 50


def _bands() -> Iterator[Row]:
    choice, seconds = cpu(
        lambda: dp.choose_bands(1000, batch_size=500, records=50_000, epsilon=2, delta=1e-6)
    )
    yield "bands, the choice among 7: CPU", seconds, "s", 10
    yield (
        "bands, least error / that of independent noise",
        (choice.best.error / choice.rows[0].error),
        "",
        0.83,
    )
