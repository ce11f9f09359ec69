"""Options and confidence intervals of the off-policy estimators."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bandits import checks
from bandits.checks import Array
from bandits.learning.rewards import RELATIONS, Range

_CHUNK = 1 << 22
_GRID = 2048


@dataclass(frozen=True)
class Privacy:
    """Privacy of an estimate, with the reward of one round as the privacy unit.

    Rounds, contexts, actions, propensities and the evaluated policy are public. A policy learned
    from these rewards must itself have been released privately.

    Parameters
    ----------
    epsilon, delta
        Privacy target of this one estimate.
    relation
        ``"REPLACE_ONE"``: the reward takes any other value in the range. ``"REPLACE_SPECIAL"``: it
        is missing.
    simulation, seed
        As in `Algorithm.start`.
    """

    epsilon: float
    delta: float
    relation: str = "REPLACE_ONE"
    simulation: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        checks.real("epsilon", self.epsilon, "Pass the privacy target, such as 1.", above=0)
        remedy = "Pass a small probability, such as 1e-5."
        checks.real("delta", self.delta, remedy, above=0, below=1)
        if self.seed is not None and not self.simulation:
            remedy = "Remove it: reproducible noise gives no privacy."
            raise ValueError(
                checks.expected("seed", self.seed, "None unless simulation=True", remedy)
            )
        if self.relation not in RELATIONS:
            rule = f"one of {[str(known) for known in RELATIONS]}"
            remedy = "Rounds are public, so choose a relation that changes only a reward."
            raise ValueError(checks.expected("relation", self.relation, rule, remedy))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the off-policy estimators: reward range, weight clipping, intervals, privacy.

    Parameters
    ----------
    low, high
        Public range of rewards; rewards outside are clipped, and NaN counts as the middle.
    clip
        Upper limit to which weights are clipped; None does not clip.
    largest_weight
        Upper bound on every weight (1 / the logging policy's smallest probability), for the
        Bernstein interval. `clip` is such a bound too.
    level
        Confidence level of the intervals, in (0, 1).
    resamples
        Number of bootstrap resamples.
    seed
        Random seed of the bootstrap.
    private
        Whether the estimate is private; requires `privacy`.
    privacy
        Privacy target of a private estimate.
    """

    low: float = 0.0
    high: float = 1.0
    clip: float | None = None
    largest_weight: float | None = None
    level: float = 0.95
    resamples: int = 1000
    seed: int = 0
    private: bool = False
    privacy: Privacy | None = None
    _range: Range = field(init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("clip", "largest_weight"):
            if getattr(self, name) is not None:
                remedy = "Pass a bound on the weights, or None."
                checks.real(name, getattr(self, name), remedy, above=0)
        checks.real("level", self.level, "Pass a level such as 0.95.", above=0, below=1)
        remedy = "Pass the number of bootstrap resamples."
        checks.count("resamples", self.resamples, remedy, at_most=10**6)
        checks.count("seed", self.seed, "Pass a whole number.", at_least=0)
        given = self.privacy is not None
        if self.private != given or (given and not isinstance(self.privacy, Privacy)):
            remedy = (
                "Pass privacy=Privacy(epsilon=..., delta=...) with private=True, and only then."
            )
            rule = "given if and only if private=True"
            raise ValueError(checks.expected("privacy", self.privacy, rule, remedy))
        object.__setattr__(self, "_range", Range.centered_on_middle(self.low, self.high))

    @property
    def bound(self) -> float | None:
        """The smallest known upper bound on the weights, or None."""
        bounds = [bound for bound in (self.clip, self.largest_weight) if bound is not None]
        return min(bounds, default=None)


class Ratio(NamedTuple):
    """sum of (weight * reward + constant) / sum of divisor."""

    weight: Array
    constant: Array
    divisor: Array

    def reach(self, options: "Options") -> float | None:
        """Return the length of an interval that contains every term - v divisor, for any value v.

        The terms are w (r - v) for a self-normalized estimator, and w r otherwise, to which a model
        adds its own range.
        """
        bound, low, high = options.bound, options.low, options.high
        if bound is None:
            return None
        if self.divisor is self.weight:
            return bound * (high - low)
        if self.constant.any():
            return (1 + 2 * bound) * (high - low)
        return bound * (max(high, 0.0) - min(low, 0.0))


def bootstrap(terms: Array, divisor: Array, options: Options) -> tuple[float, float]:
    """Return the percentile interval of resampled ratios."""
    n = len(terms)
    rng = np.random.default_rng(options.seed)
    found = []
    for start in range(0, options.resamples, max(1, _CHUNK // n)):
        rows = min(max(1, _CHUNK // n), options.resamples - start)
        places = rng.integers(0, n, (rows, n))
        sums = divisor[places].sum(1)
        # a resample without any weight has no ratio and is dropped
        found.append(terms[places].sum(1)[sums > 0] / sums[sums > 0])
    tail = (1 - options.level) / 2
    low, high = np.quantile(np.concatenate(found), (tail, 1 - tail))
    return float(low), float(high)


def bernstein(ratio: Ratio, terms: Array, options: Options) -> tuple[float, float] | None:
    """Return the values v for which the mean of terms - v divisor may be 0.

    At the true v the terms have mean 0 in each independent round, and a known range. By Maurer and
    Pontil (2009, theorem 4), on both sides, |mean| <= sqrt(2 V L / n) + 7 range L / (3 (n - 1))
    with probability `level`, L = log(4 / (1 - level)).
    """
    reach = ratio.reach(options)
    if reach is None:
        return None
    n = len(terms)
    log = math.log(4 / (1 - options.level))
    values = _candidates(options)
    mean = terms.mean() - values * ratio.divisor.mean()
    (var_t, cov), (_, var_d) = np.cov(terms, ratio.divisor)
    variance = np.maximum(var_t - 2 * values * cov + values**2 * var_d, 0.0)
    return _where(
        values, np.abs(mean) <= np.sqrt(2 * variance * log / n) + 7 * reach * log / (3 * (n - 1))
    )


def _candidates(options: Options) -> Array:
    """Return a grid of possible means; it includes 0, because clipped weights have mean below 1."""
    return np.linspace(min(options.low, 0.0), max(options.high, 0.0), _GRID + 1)


def _where(values: Array, inside: Array) -> tuple[float, float]:
    """Return the interval of the values inside, widened by one grid step on each side."""
    places = np.flatnonzero(inside)
    if not len(places):  # no value fits: return the whole range
        return float(values[0]), float(values[-1])
    first, last = max(places[0] - 1, 0), min(places[-1] + 1, len(values) - 1)
    return float(values[first]), float(values[last])


def hoeffding(
    value: float, ratio: Ratio, sigma: float, options: Options
) -> tuple[float, float] | None:
    """Return Hoeffding's interval, with half the error probability each for rounds and noise."""
    reach = ratio.reach(options)
    if reach is None:
        return None
    n, mean = len(ratio.weight), float(ratio.divisor.mean())
    log = math.log(4 / (1 - options.level))
    half = reach * math.sqrt(log / (2 * n)) / mean + sigma * math.sqrt(2 * log)
    candidates = _candidates(options)
    return max(value - half, float(candidates[0])), min(value + half, float(candidates[-1]))
