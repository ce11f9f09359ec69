"""CPU times of accounting, and what they consist of: evaluations, nodes and frequencies."""

import functools
import io
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import privacy as dp
from privacy.calibration import search
from privacy.notions import bent_lines, both_lines, contour_integral
from privacy.notions.loss_sums import LossSum

Row = tuple[str, float, str, float | None]

QS, STEPS, EPSILONS, DELTA = (1e-4, 1e-3, 0.01, 0.1, 0.5), (1, 1000, 100_000), (0.1, 1, 8), 1e-6


@dataclass
class Counts:
    """Work of the contour method.

    Attributes
    ----------
    curves
        Accounted mechanisms.
    lines
        Integrals, one per direction.
    moments
        Evaluations of cumulants in searches for saddle points.
    frequencies
        Values of the characteristic function, over all lines.
    products
        Frequencies times quadrature nodes, over all lines.
    """

    curves: int = 0
    lines: int = 0
    moments: int = 0
    frequencies: int = 0
    products: int = 0


@contextmanager
def counted() -> Iterator[Counts]:
    """Count the work inside the block. The counts do not depend on the machine or on caches."""
    counts = Counts()
    line, cumulants = contour_integral.Line._evaluate, LossSum.cumulants
    both, near = both_lines.BothLines._evaluate, both_lines.BothLines.cumulants
    bent = bent_lines.BentLine._evaluate
    transform, fold = contour_integral.centered_characteristic, dp.account
    small = both_lines._characteristic

    def evaluate(self: Any, total: LossSum, count: int) -> int:
        counts.lines += 1
        return line(self, total, count)

    def evaluate_both(self: Any) -> None:
        counts.lines += len(self._orders)
        both(self)

    def evaluate_bent(self: Any, *args: Any) -> None:
        counts.lines += 1
        nodes: list[int] = []
        find = self._nodes
        self._nodes = lambda *at: nodes.append(find(*at).size) or find(*at)
        bent(self, *args)
        counts.frequencies += self._t.size
        counts.products += self._t.size * nodes[0]

    def moments(self: LossSum, t: float) -> tuple[float, float, float]:
        counts.moments += 1
        return cumulants(self, t)

    def nearly(self: Any, t: float) -> tuple[float, float, float]:
        counts.moments += 1
        return near(self, t)

    def transformed_both(weight: Any, x: Any, count: int) -> Any:
        counts.frequencies += count * len(x)
        counts.products += count * x.size
        return small(weight, x, count)

    def transformed(weight: Any, loss: Any, step: float, count: int) -> Any:
        counts.frequencies += count * (loss.size // loss.shape[-1])
        counts.products += count * loss.size
        return transform(weight, loss, step, count)

    def accounted(*args: Any, **options: Any) -> Any:
        counts.curves += 1
        return fold(*args, **options)

    with (
        mock.patch.object(contour_integral.Line, "_evaluate", evaluate),
        mock.patch.object(both_lines.BothLines, "_evaluate", evaluate_both),
        mock.patch.object(bent_lines.BentLine, "_evaluate", evaluate_bent),
        mock.patch.object(LossSum, "cumulants", moments),
        mock.patch.object(both_lines.BothLines, "cumulants", nearly),
        mock.patch.object(both_lines, "_characteristic", transformed_both),
        mock.patch.object(contour_integral, "centered_characteristic", transformed),
        mock.patch.object(search, "account", accounted),
    ):
        yield counts


def sampled(noise_multiplier: float, q: float, steps: int) -> dp.Mechanism:
    """Return `steps` Poisson-sampled Gaussian mechanisms."""
    step = dp.PoissonSampled(dp.Gaussian(noise_multiplier), sampling_probability=q)
    return dp.repeat(step, steps)


def median_ms(call: Callable[[float], object], repeats: int = 15) -> float:
    """Return the median CPU milliseconds of a call, with a new argument in each repetition."""
    call(0.77)  # imports and shared tables
    times = []
    for turn in range(repeats):
        start = time.process_time_ns()
        call(1 + 1e-3 * (turn + 1) / repeats)
        times.append((time.process_time_ns() - start) * 1e-6)
    return statistics.median(times)


def calibrated(q: float, steps: int, epsilon: float) -> Callable[[float], float]:
    """Return a calibration of one cell, as a function of a factor of q and epsilon."""
    return lambda x: dp.noise_multiplier(
        epsilon=epsilon * x, delta=DELTA, sampling_probability=q * x, steps=steps
    )


def accounting() -> Iterator[Row]:
    """Yield the figures of single queries, calibration and arrays."""
    yield "epsilon, 1000 steps", median_ms(tight_epsilon, 41), "ms", 1.5
    yield "delta, 1000 steps", median_ms(tight_delta, 41), "ms", 1.0
    for cell in itertools.product(QS, STEPS, EPSILONS):
        call = calibrated(*cell)
        with counted() as work:
            call(1.0007)
        q, steps, epsilon = cell
        name = f"sigma: q={q:g}, T={steps}, epsilon={epsilon:g}"
        yield name, median_ms(call, 3), "ms", 5
        if work.lines:
            yield f"  curves ({work.lines} lines)", work.curves, "", 4
            yield "  moments of saddle points", work.moments, "", None
            yield "  frequencies per line", work.frequencies / work.lines, "", None
            yield "  nodes per line", work.products / max(work.frequencies, 1), "", None
    yield from others()
    yield from arrays()


def others() -> Iterator[Row]:
    """Yield the evaluations and times of calibrations of other parameters."""
    for name, call in OTHERS.items():
        with counted() as work:
            call(1.0007)
        yield f"{name}: evaluations of the curve", work.curves, "", 8
        yield f"{name}: time", median_ms(call, 5), "ms", None


def arrays() -> Iterator[Row]:
    """Yield the times of many queries at once."""
    rng = np.random.default_rng(5)
    cells = [
        {
            "epsilon": float(rng.uniform(0.5, 8)),
            "delta": 1e-6,
            "sampling_probability": float(rng.uniform(0.002, 0.1)),
            "steps": int(rng.integers(500, 20_000)),
        }
        for _ in range(1000)
    ]
    start = time.process_time()
    for cell in cells:
        dp.noise_multiplier(**cell)  # type: ignore[arg-type]
    yield "1,000 different calibrations", time.process_time() - start, "s", 3
    curve, deltas = dp.account(sampled(1.0, 0.01, 1000)), np.geomspace(1e-12, 1e-2, 1000)
    yield "1,000 epsilons of one curve", median_ms(lambda x: curve.epsilon(x * deltas), 9), "ms", 20
    epsilons = np.linspace(0, 10, 1000)
    yield "1,000 deltas of one curve", median_ms(lambda x: curve.delta(x * epsilons), 9), "ms", 20
    yield "1,000 lines of dpcalib sigma --batch --no-certify", _batch(cells), "s", 3


def _batch(cells: list[dict[str, Any]]) -> float:
    from privacy.cli.app import main

    lines = "\n".join(map(json.dumps, cells)).encode()
    stdin = io.TextIOWrapper(io.BytesIO(lines))
    start = time.process_time()
    with mock.patch.object(sys, "stdin", stdin), redirect_stdout(io.StringIO()):
        main(["sigma", "--batch", "--no-certify"], standalone_mode=False)
    return time.process_time() - start


def tight_epsilon(x: float) -> float:
    return dp.account(sampled(x, 0.01, 1000)).epsilon(1e-5)


def tight_delta(x: float) -> float:
    return dp.account(sampled(x, 0.01, 1000)).delta(1.0)


_RUN: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-6}
OTHERS: dict[str, Callable[[float], object]] = {
    "max_steps": lambda x: dp.max_steps(
        **_RUN, noise_multiplier=1.1 * x, sampling_probability=0.01
    ),
    "max_sampling_probability": lambda x: dp.max_sampling_probability(
        **_RUN, noise_multiplier=1.1 * x, steps=1000
    ),
    "calibrate over a factory": lambda x: dp.calibrate(
        lambda s: dp.compose(sampled(s * x, 0.01, 1000), dp.Gaussian(10 * s)), **_RUN
    ),
    "calibrate over a factory, REPLACE_ONE": lambda x: dp.calibrate(
        functools.partial(sampled, q=0.01 * x, steps=1000), relation="REPLACE_ONE", **_RUN
    ),
}


def figures() -> Iterator[Row]:
    """Yield all figures: name, value, unit, limit."""
    yield from accounting()
