"""CPU times of accountants in training loops, factorizations, and rounds of agents."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
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


def algorithm(kind: str, dimension: int, rounds: int, **more: Any) -> Any:
    """Return a private algorithm for (1, 1e-5)-DP."""
    options = {"dimension": dimension, "rounds": rounds, "epsilon": 1.0, "delta": DELTA, **more}
    return getattr(bandits, kind)(**options)


def live_rounds(kind: str, features: Any) -> None:
    """Play one life of an agent, with cryptographically secure noise."""
    agent = algorithm(kind, features.shape[-1], len(features)).start()
    for candidates in features:
        agent.update(agent.select(candidates), 1.0)


def simulated_rounds(kind: str, rounds: int, replicates: int = 96) -> None:
    """Play one algorithm in many replicates of the synthetic environment."""
    played = {kind: algorithm(kind, 20, rounds)}
    bandits.simulate(played, bandits.Synthetic(), replicates=replicates, seed=1)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the CPU seconds of a call, and its result."""
    start = time.process_time()
    found = call()
    return time.process_time() - start, found


def figures() -> Iterator[Row]:
    """Yield all figures: name, value, unit, limit."""
    taken, accountant = seconds(lambda: equal_steps(1_000_000, every=1000))
    yield "1,000,000 equal steps, epsilon every 1,000", taken, "s", 5
    once = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
    whole = dp.account(dp.repeat(once, 1_000_000)).epsilon(DELTA)
    yield "  their epsilon less that of the whole run", accountant.get_epsilon(DELTA) - whole, "", 0
    tracemalloc.start()
    for _ in range(10_000):
        accountant.compose(step())
    yield "  memory of 10,000 more steps", tracemalloc.get_traced_memory()[0] / 1024, "kB", 16
    tracemalloc.stop()
    taken, _ = seconds(lambda: different_steps(100_000))
    yield "100,000 different steps, and one epsilon", taken, "s", 10
    for size, limit in ((1000, 3), (4000, 120)):
        taken, found = seconds(lambda size=size: optimized(size))  # type: ignore[misc]
        yield f"optimized factorization, K={size}", taken, "s", limit
        noise = found.sensitivity() * found.noise_std()
        yield f"  its mean noise, K={size}", noise.mean(), "", None
    taken, _ = seconds(lambda: dp.Factorization.buffered(100_000))
    yield "buffered factorization, K=100,000", taken, "s", 5
