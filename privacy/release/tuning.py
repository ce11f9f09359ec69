"""The best of a random number of runs, such as trainings with random hyperparameters."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from privacy import checks
from privacy.mechanisms.selection import BestOf
from privacy.release._laws import MORE, Source, more_bits
from privacy.release.noise import random_source

if TYPE_CHECKING:
    from flint import arb

_T = TypeVar("_T")


@dataclass(frozen=True)
class Tuned(Generic[_T]):
    """The best run's output and score (None and -inf without a run), and the mechanism of all runs.

    `is_simulation`: the number of runs is reproducible.
    """

    output: _T | None
    score: float
    mechanism: BestOf
    is_simulation: bool


def tune(
    run: Callable[[], tuple[float, _T]],
    mechanism: BestOf,
    *,
    rng: Any = None,
    simulation: bool = False,
) -> Tuned[_T]:
    """Call `run` a random number of times and return the result with the highest score.

    The number of calls is drawn exactly from the distribution of `mechanism`. It must stay secret,
    as must the outputs of the other calls and the running time: write no log. A score that is NaN
    counts as the lowest. Of equal scores the first is kept.

    `run` is one run: draw the hyperparameters at random from a public distribution, train, and
    return (score, output), independently of other calls. `mechanism` is from ``best_of(one_run,
    ...)``, where ``one_run`` describes one call, the score included. `rng` and `simulation` are as
    in `discrete_gaussian`, for the number of calls.
    """
    remedy = "Pass best_of(one_run, mean_runs=...)."
    checks.instance("mechanism", mechanism, BestOf, "the result of best_of()", remedy)
    if not callable(run):
        remedy = "Pass a function that returns (score, output)."
        raise TypeError(checks.expected("run", run, "a function", remedy))
    score, output = -math.inf, None
    for turn in range(draw_runs(mechanism, random_source(rng, simulation=simulation))):
        value, found = run()
        value = -math.inf if math.isnan(value) else float(value)
        if turn == 0 or value > score:
            score, output = value, found
    return Tuned(output, score, mechanism, simulation)


def draw_runs(mechanism: BestOf, source: Source) -> int:
    """Draw the number of runs, exactly: the first one whose cumulative probability exceeds u.

    The drawn bits confine the uniform number u to an interval, and the cumulative probabilities are
    intervals too. Where they overlap, more bits are drawn.
    """
    from flint import ctx

    uniform, bits = 0, 0
    while True:
        uniform, bits = uniform << MORE | more_bits(source), bits + MORE
        with ctx.workprec(2 * bits + 64):
            found = _inverse(mechanism, uniform, bits)
        if found is not None:
            return found


def _inverse(mechanism: BestOf, uniform: int, bits: int) -> int | None:
    """Return the number of runs for u in [uniform, uniform + 1) / 2^bits, None if undecided."""
    from flint import arb

    low, high, total = arb(uniform) / 2**bits, arb(uniform + 1) / 2**bits, arb(0)
    for count, probability in _law(mechanism):
        total += probability
        if total >= high:
            return count
        if not total <= low:
            return None
    raise AssertionError  # `_law` is infinite


def _law(mechanism: BestOf) -> "Iterator[tuple[int, arb]]":
    """Yield each number of runs and its probability (Papernot and Steinke 2022, Definition 1)."""
    from flint import arb

    if mechanism.shape is None:
        count, mean = 0, arb(mechanism.mean_runs)
        probability = (-mean).exp()
        while True:
            yield count, probability
            count += 1
            probability *= mean / count
    gamma, shape = arb(mechanism.gamma), arb(mechanism.shape)
    first = shape / ((-shape * gamma.log()).exp() - 1) if mechanism.shape else -1 / gamma.log()
    count, probability = 1, first * (1 - gamma)
    while True:
        yield count, probability
        probability *= (1 - gamma) * (count + shape) / (count + 1)
        count += 1
