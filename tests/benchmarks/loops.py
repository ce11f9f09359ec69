"""CPU times of accountants in training loops, factorizations, and rounds of agents."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import dp_accounting
import numpy as np

import bandits
import privacy as dp
from privacy.interop.dp_accounting import DpAccountant

Row = tuple[str, float, str, float | None]

AGENTS = ("PrivateUCB", "PrivateThompson", "AdaPrivateTS", "AdaPrivateUCB")
DELTA = 1e-5


def step(noise_multiplier: float = 1.0, q: float = 0.01) -> Any:
    """Return the event of one step of DP-SGD."""
    return dp_accounting.PoissonSampledDpEvent(q, dp_accounting.GaussianDpEvent(noise_multiplier))


def equal_steps(count: int, *, every: int) -> DpAccountant:
    """Return an accountant after equal steps, asked for epsilon after every few."""
    accountant = DpAccountant()
    for done in range(1, count + 1):
        accountant.compose(step())
        if done % every == 0:
            accountant.get_epsilon(DELTA)
    return accountant


def different_steps(count: int) -> float:
    """Return epsilon after steps whose noise and sampling probability change."""
    accountant = DpAccountant()
    for i in range(count):
        accountant.compose(step(1 + i / count, 0.01 * (1 + i / count)))
    return accountant.get_epsilon(DELTA)


def optimized(steps: int) -> dp.Factorization:
    """Return the factorization of prefix sums with the smallest mean square error."""
    return dp.Factorization.optimized(steps)


def unit_features(rounds: int, dimension: int) -> Any:
    """Return 5 candidates of norm 1 in each round."""
    x = np.random.default_rng(1).standard_normal((rounds, 5, dimension))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def algorithm(kind: str, dimension: int = 20, rounds: int = 10_000, **more: Any) -> Any:
    """Return an algorithm, for (1, 1e-5)-DP if it is private."""
    target = {} if kind.startswith("Lin") else {"epsilon": 1.0, "delta": DELTA}
    return getattr(bandits, kind)(dimension=dimension, rounds=rounds, **target, **more)


def live_rounds(agent: bandits.Agent, features: Any) -> None:
    """Play rounds of an agent, with cryptographically secure noise."""
    for candidates in features:
        agent.update(agent.select(candidates), 1.0)


def live() -> Iterator[Row]:
    """Yield the times of live rounds, with releases."""
    rounds = 12_000
    for dimension, most in ((20, 1e6 / 60_000), (50, 1e6 / 45_000)):
        features = unit_features(rounds, dimension)
        for kind in (*AGENTS, "LinTS"):
            played = algorithm(kind, dimension, rounds)
            times = [seconds(partial(live_rounds, played.start(), features))[0] for _ in range(5)]
            best = 1e6 * min(times) / rounds
            name = f"{kind}, d={dimension}: per round ({1e6 / best:,.0f} per second)"
            yield name, best, "us", None if kind == "LinTS" else most


def simulated_rounds(played: Any, replicates: int = 96) -> None:
    """Play one algorithm in many replicates of the synthetic environment."""
    bandits.simulate({"it": played}, bandits.Synthetic(), replicates=replicates, seed=1)


SIMULATED: dict[str, tuple[Any, float | None]] = {
    "AdaPrivateTS, exact": (algorithm("AdaPrivateTS"), 1 / 0.3),
    "AdaPrivateUCB, exact": (algorithm("AdaPrivateUCB"), 1 / 0.3),
    "PrivateUCB, last prefix": (algorithm("PrivateUCB", center=0.5, estimator="prefix"), 0.5),
    "PrivateUCB, all releases": (algorithm("PrivateUCB", center=0.5), 0.5),
    "AdaPrivateTS, frozen": (algorithm("AdaPrivateTS", frozen=True), 0.5),
    "AdaPrivateUCB, frozen": (algorithm("AdaPrivateUCB", frozen=True), 0.5),
}


def simulated() -> Iterator[Row]:
    """Yield the times of simulated rounds, including the environment."""
    for name, (played, limit) in SIMULATED.items():
        times = [seconds(partial(simulated_rounds, played))[0] for _ in range(3)]
        best = 1e6 * min(times) / (96 * played.rounds)
        yield f"{name} ({1e6 / best:,.0f} per second)", best, "us", limit


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and its result."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def figures() -> Iterator[Row]:
    """Yield all figures: name, value, unit, limit."""
    taken, accountant = seconds(partial(equal_steps, 1_000_000, every=1000))
    yield "1,000,000 equal steps, epsilon every 1,000", taken, "s", 5
    once = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
    whole = dp.account(dp.repeat(once, 1_000_000)).epsilon(DELTA)
    yield "  their epsilon less that of the whole run", accountant.get_epsilon(DELTA) - whole, "", 0
    tracemalloc.start()
    for _ in range(10_000):
        accountant.compose(step())
    yield "  memory of 10,000 more steps", tracemalloc.get_traced_memory()[0] / 1024, "kB", 16
    tracemalloc.stop()
    taken, _ = seconds(partial(different_steps, 100_000))
    yield "100,000 different steps, and one epsilon", taken, "s", 10
    for size, limit in ((1000, 3), (4000, 120)):
        taken, found = seconds(partial(optimized, size))
        yield f"optimized factorization, K={size}", taken, "s", limit
        noise = found.sensitivity() * found.noise_std()
        yield f"  its mean noise, K={size}", noise.mean(), "", None
    taken, _ = seconds(partial(dp.Factorization.buffered, 100_000))
    yield "buffered factorization, K=100,000", taken, "s", 5
    yield from live()
    yield from simulated()
