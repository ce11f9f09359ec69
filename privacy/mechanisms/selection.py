"""The best of a random number of runs, as in hyperparameter tuning."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from privacy import checks
from privacy.mechanisms.base import Mechanism, OfParts, add_to_registry, checked
from privacy.names import suggests_names
from privacy.numerics.rounding import round_up

Distribution = Literal["geometric", "logarithmic", "poisson"] | float
_SHAPES = {"geometric": 1.0, "logarithmic": 0.0}
_LARGEST = 1e6  # mean number of runs


@dataclass(frozen=True)
class BestOf(OfParts):
    """The best output of a random number of runs of `mechanism`. Built by `best_of`."""

    mechanism: Mechanism
    mean_runs: float
    distribution: float | Literal["poisson"] = 1.0

    @property
    def shape(self) -> float | None:
        """The shape of the truncated negative binomial distribution; None for Poisson."""
        return None if isinstance(self.distribution, str) else self.distribution

    @property
    def gamma(self) -> float:
        """The parameter of the truncated negative binomial distribution, rounded down."""
        assert self.shape is not None
        return gamma_of(self.mean_runs, self.shape)

    @property
    def log_mean(self) -> float:
        """An upper bound on the log of the mean number of runs."""
        mean = self.mean_runs
        if self.shape is not None:
            mean = max(mean, mean_of(self.gamma, self.shape))
        return round_up(math.log(mean), 1e-14) + 1e-14


def mean_of(gamma: float, shape: float) -> float:
    """Return the mean shape (1 - gamma) / (gamma (1 - gamma^shape)); the limit for shape 0."""
    log_gamma = math.log1p(gamma - 1) if gamma > 0.5 else math.log(gamma)
    kept = -math.expm1(shape * log_gamma) / shape if shape else -log_gamma
    return (1 - gamma) / (gamma * kept)


@lru_cache(maxsize=256)
def gamma_of(mean: float, shape: float) -> float:
    """Return the largest float found whose mean is at least `mean`, by bisection."""
    low, high = 1e-300, 1 - 2.0**-50
    while True:
        middle = math.sqrt(low * high) if high > 2 * low else 0.5 * (low + high)
        if not low < middle < high:
            return low
        low, high = (middle, high) if mean_of(middle, shape) >= mean else (low, middle)


@suggests_names
def best_of(
    mechanism: Mechanism, *, mean_runs: float, distribution: Distribution = "geometric"
) -> Mechanism:
    """Return the mechanism that runs `mechanism` a random number of times and keeps the best.

    It outputs the best output alone, by any total order (such as a score in the output); ties go to
    the first. The number of runs and all other outputs stay secret. `tune` runs it. ``"rdp"`` uses
    Papernot and Steinke 2022, Theorems 2 (truncated negative binomial) and 6 (Poisson), and
    ``"contour"``, not in compositions, Koskela, Redberg and Wang 2024 (:doc:`/tuning`).

    Parameters
    ----------
    mechanism
        ONE run, with the cost of its score if that is computed from private data.
    mean_runs
        The mean number of runs, in (1, 1e6].
    distribution
        ``"geometric"``, ``"logarithmic"``, ``"poisson"`` (which can be 0: no output), or the shape
        > -1 (at most 1000) of a truncated negative binomial distribution, of which the first two
        are the shapes 1 and 0. A smaller shape costs less and makes few runs more likely.
    """
    mechanism = checked(mechanism, "mechanism")
    remedy = "Pass the mean number of runs, such as 10."
    mean = checks.real("mean_runs", mean_runs, remedy, above=1, at_most=_LARGEST)
    if distribution == "poisson":
        return BestOf(mechanism, mean, "poisson")
    remedy = "Pass 'geometric', 'logarithmic', 'poisson' or a shape > -1."
    if isinstance(distribution, str):
        rule = "a distribution of the number of runs"
        checks.refuse_if(distribution not in _SHAPES, "distribution", distribution, rule, remedy)
        distribution = _SHAPES[distribution]
    shape = checks.real("distribution", distribution, remedy, above=-1, at_most=1000)
    return BestOf(mechanism, mean, shape)


add_to_registry(BestOf, best_of)
