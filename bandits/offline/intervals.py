"""Options and confidence intervals of the off-policy estimators."""

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from bandits import checks
from bandits.checks import Array
from bandits.learning.rewards import RELATIONS, Range

_CHUNK = 1 << 22
_BISECTIONS = 30
_LONG = 30
"""Rounds per unit of the largest weight, from which the weights' mean of 1 is used."""


@dataclass(frozen=True)
class Privacy:
    """Privacy of an estimate, with the reward of one round as the unit of privacy.

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
        remedy = "Remove it: reproducible noise gives no privacy."
        wrong = self.seed is not None and not self.simulation
        checks.refuse_if(wrong, "seed", self.seed, "None unless simulation=True", remedy)
        remedy = "Rounds are public, so choose a relation that changes only a reward."
        checks.one_of("relation", self.relation, RELATIONS, remedy)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of the off-policy estimators: reward range, weight clipping, intervals, privacy.

    Parameters
    ----------
    low, high
        Public range of rewards. A reward outside raises an error. A private estimate instead clips
        it, and replaces NaN by the middle, because an error would reveal the reward.
    clip
        Upper limit to which weights are clipped, chosen without the log; None does not clip.
    largest_weight
        Upper bound on every weight: 1 / the logging policy's smallest probability of an action that
        the evaluated policy can play. It asserts that every such action could be logged, which
        makes `Estimate.interval` narrower. A private estimate needs it or `clip` for an interval.
    level
        Confidence level of the intervals, in (0, 1).
    resamples, seed
        Number of bootstrap resamples, and their random seed.
    private, privacy
        Whether the estimate is private, and its privacy target.
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


class Ratio(NamedTuple):
    """sum of (weight * reward + constant) / sum of divisor."""

    weight: Array
    constant: Array
    divisor: Array


def bootstrap(low: Array, high: Array, divisor: Array, options: Options) -> tuple[float, float]:
    """Return the percentiles of resampled ratios, from the sums of `low` and those of `high`."""
    n = len(low)
    rng = np.random.default_rng(options.seed)
    found: list[Array] = []
    for start in range(0, options.resamples, max(1, _CHUNK // n)):
        rows = min(max(1, _CHUNK // n), options.resamples - start)
        places = rng.integers(0, n, (rows, n))
        sums = divisor[places].sum(1)
        # a resample without any weight has no ratio and is dropped
        kept = np.stack([low[places].sum(1), high[places].sum(1)])[:, sums > 0]
        found.append(kept / sums[sums > 0])
    below, above = np.concatenate(found, axis=1)
    tail = (1 - options.level) / 2
    return float(np.quantile(below, tail)), float(np.quantile(above, 1 - tail))


def betting(
    weight: Array, reward: Array, model: tuple[Array, Array] | None, options: Options
) -> tuple[float, float]:
    """Return an interval of the policy's value that is valid at any number of rounds.

    docs/offline.md states the two bounds on the value that need no bound on the weights.

    If all weights are at most W and their mean is 1, the value is the mean of v + w (r - q) for any
    q and v of the form of a model and its baseline. Without a model, q = v is the weighted mean of
    the earlier rounds. This is used for logs so long that the bound on the bets, 1 / (2 (m + W)),
    is rarely active; the choice depends on no reward.
    """
    scaled = (reward - options.low) / (options.high - options.low)
    most, n = options.largest_weight, len(weight)
    alpha = (1 - options.level) / 2
    if most is not None and options.clip is None and n >= _LONG * most:
        if model is None:
            sums = np.cumsum([0.5, *(weight * scaled)[:-1]])
            predicted = baseline = sums / np.cumsum([1.0, *weight[:-1]])
            floors = baseline * (most - 1), (1 - baseline) * (most - 1)
        else:
            predicted, baseline = ((x - options.low) / (options.high - options.low) for x in model)
            floors = (np.full(n, most),) * 2
        terms = baseline + weight * (scaled - predicted)
        complement = 1 - terms
    else:
        floors = (np.zeros(n),) * 2
        terms, complement = weight * scaled, weight * (1 - scaled)
    low, high = lower_mean(terms, floors[0], alpha), 1 - lower_mean(complement, floors[1], alpha)
    if low > high:  # both bounds fail together with probability 1 - level at most
        low, high = 0.0, 1.0
    return (
        options.low + low * (options.high - options.low),
        options.low + high * (options.high - options.low),
    )


def lower_mean(terms: Array, floor: Array, alpha: float) -> float:
    """Return a lower confidence bound on the mean of terms >= -floor; 0 if none is higher.

    The terms have the same mean given the earlier ones. At that mean m, and for bets b <=
    1 / (2 (m + floor)) that depend on earlier terms, the product of 1 + b (term - m) has mean 1, so
    it reaches 1 / alpha with probability at most alpha (Waudby-Smith and Ramdas 2024). The product
    decreases in m: the bound is where it is 1 / alpha. The bets are the best ones for the variance
    of the earlier terms.
    """
    n = len(terms)
    counts = np.arange(2.0, n + 2)
    means = (0.5 + np.cumsum(terms)) / counts
    variances = (0.25 + np.cumsum(np.square(terms - means))) / counts
    log = -math.log(alpha)
    bets = np.sqrt(2 * log / (n * np.concatenate(([0.25], variances[:-1]))))

    def reached(mean: float) -> bool:
        limited = np.minimum(bets, 0.5 / (mean + floor))
        return float(np.log1p(limited * (terms - mean)).sum()) >= log

    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) else (low, middle)
    return low


def hoeffding(
    value: float, ratio: Ratio, sigma: float, options: Options
) -> tuple[float, float] | None:
    """Return Hoeffding's interval, with half the error probability each for rounds and noise.

    As in `betting`, the value is at least the mean of low + w (r - low) and at most that of
    high - w (high - r). The weights and the model are public.
    """
    bounds = [bound for bound in (options.clip, options.largest_weight) if bound is not None]
    if not bounds:
        return None
    share = float(ratio.divisor.mean())
    mean = value * share - float(ratio.constant.mean())  # the mean of w r
    missing = 1 - float(ratio.weight.mean())
    log = math.log(4 / (1 - options.level))
    reach = min(bounds) * (options.high - options.low)
    half = reach * math.sqrt(log / (2 * len(ratio.weight))) + sigma * share * math.sqrt(2 * log)
    low, high = mean + options.low * missing - half, mean + options.high * missing + half
    return (min(max(low, options.low), options.high), max(min(high, options.high), options.low))
