"""Off-policy evaluation: what a policy would have earned, from the log of another one.

Every estimator is a ratio: sum of (w_i r_i + c_i) over sum of d_i, with weights w that look at no
reward. So each has a bootstrap interval, an empirical-Bernstein interval, an effective sample size,
and a private form: given the weights, it is a linear query of rewards.

Reading raw rewards is a release. A result says "not private" unless ``private=True`` charged it.
"""

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

import privacy as dp
from bandits import _checks
from bandits._checks import Array, Indices
from bandits.rewards import RELATIONS, Range

_CHUNK = 1 << 22
_GRID = 2048


@dataclass(frozen=True)
class Privacy:
    """How an estimate is made private: each round's reward is protected.

    Rounds, contexts, actions, propensities and the evaluated policy are public: a policy that was
    learnt from these rewards must itself have been released privately.

    Parameters
    ----------
    epsilon, delta
        The target of this one estimate.
    relation
        ``"REPLACE_ONE"``: a reward is any other in the range; ``"REPLACE_SPECIAL"``: it is missing.
    simulation, seed
        Say True to use a seed; the estimate then protects nobody, and says so.
    """

    epsilon: float
    delta: float
    relation: str = "REPLACE_ONE"
    simulation: bool = False
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.seed is not None and not self.simulation:
            remedy = "Leave it out, or pass simulation=True for numbers that protect nobody."
            raise ValueError(
                _checks.expected("seed", self.seed, "None for noise that is released", remedy)
            )
        if self.relation not in RELATIONS:
            rule = f"one of {[str(known) for known in RELATIONS]}"
            remedy = "Rounds are public: a reward can be replaced, or missing."
            raise ValueError(_checks.expected("relation", self.relation, rule, remedy))


@dataclass(frozen=True)
class Estimate:
    """A policy's mean reward, and how sure that is.

    Attributes
    ----------
    method
        ``"replay"``, ``"ips"``, ``"snips"`` or ``"dr"``.
    value
        The estimate.
    bootstrap
        Percentile bootstrap interval; None for a private estimate, which may not resample rewards.
    bernstein
        Interval that holds at any sample size for independent rounds: empirical Bernstein (Maurer
        and Pontil 2009), or Hoeffding's with the noise where the estimate is private. None where
        nothing bounds the weights.
    level
        Of both, each two-sided.
    effective_sample_size
        (sum of w)^2 / sum of w^2.
    rounds
        Of the log.
    clipped
        Share of the rounds whose weight was clipped; then the clipped weights' mean is estimated,
        which for rewards >= 0 is at most the policy's.
    mechanism
        What to account, under `relation`, for the rewards that were read; None: not private.
    is_simulation
        The noise came from a seed: the value protects nobody.
    """

    method: str
    value: float
    bootstrap: tuple[float, float] | None
    bernstein: tuple[float, float] | None
    level: float
    effective_sample_size: float
    rounds: int
    clipped: float = 0.0
    mechanism: dp.Gaussian | None = None
    relation: str = "REPLACE_ONE"
    is_simulation: bool = False

    @property
    def private(self) -> bool:
        """Whether the rewards are protected."""
        return self.mechanism is not None and not self.is_simulation

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return what publishing `value` guarantees: an infinite epsilon where not private."""
        relation = dp.NeighboringRelation(self.relation)
        if self.mechanism is None:
            return dp.Guarantee(
                math.inf, delta, relation, "none", theorem="rewards are used as they are"
            )
        answer = dp.account(self.mechanism, relation=relation).guarantee(delta=delta)
        return replace(answer, unit="the reward of one round")

    def __str__(self) -> str:
        interval = self.bernstein if self.bootstrap is None else self.bootstrap
        shown = "" if interval is None else f" [{interval[0]:.4g}, {interval[1]:.4g}]"
        spent = "private" if self.private else "not private"
        return (
            f"{self.method}: {self.value:.4g}{shown}, effective sample size "
            f"{self.effective_sample_size:.4g} of {self.rounds} rounds, {spent}"
        )


@dataclass(frozen=True, kw_only=True)
class Options:
    """What all estimators share.

    Parameters
    ----------
    low, high
        Public range of rewards; what lies outside is clipped, and NaN counts as the middle.
    clip
        Weights above it become it; None clips none.
    largest_weight
        A bound that no weight can exceed (1 / the logging policy's smallest probability), for the
        Bernstein interval. `clip` is one.
    level
        Of the intervals, in (0, 1).
    resamples
        Of the bootstrap.
    seed
        Of the bootstrap.
    private
        True charges the estimate, `privacy` says how much; False says "not private".
    privacy
        The target of a private estimate.
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
                remedy = "Pass a bound of the weights, or None."
                _checks.real(name, getattr(self, name), remedy, above=0)
        _checks.real("level", self.level, "Pass a level such as 0.95.", above=0, below=1)
        _checks.count("resamples", self.resamples, "Pass how many resamples to draw.")
        if self.private != (self.privacy is not None):
            remedy = (
                "Pass privacy=Privacy(epsilon=..., delta=...) with private=True, and only there."
            )
            rule = "given exactly where private=True"
            raise ValueError(_checks.expected("privacy", self.privacy, rule, remedy))
        object.__setattr__(self, "_range", Range(self.low, self.high, (self.low + self.high) / 2))

    @property
    def bound(self) -> float | None:
        """What no weight exceeds, where that is known."""
        bounds = [bound for bound in (self.clip, self.largest_weight) if bound is not None]
        return min(bounds, default=None)


def replay(
    action: Indices, chosen: Indices, reward: Array, options: Options | None = None
) -> Estimate:
    """Return the mean reward of the rounds in which the policy picks what was logged (Li 2011).

    Right where the logging policy was uniform, or independent of the context.

    Parameters
    ----------
    action, chosen
        What was shown, and what the policy picks, shape (n,).
    reward
        Shape (n,).
    options
        See `Options`; `clip` is not used.
    """
    options = options or Options()
    action, chosen = np.asarray(action), np.asarray(chosen)
    if action.shape != chosen.shape:
        remedy = "Pass one pick for each logged action."
        raise ValueError(_checks.expected("shape of chosen", chosen.shape, "action's", remedy))
    match = (action == chosen).astype(float)
    ratio = _Ratio(match, np.zeros(len(match)), match)
    return _estimated("replay", ratio, reward, replace(options, clip=None, largest_weight=1.0), 0.0)


def ips(
    reward: Array, propensity: Array, target: Array, options: Options | None = None
) -> Estimate:
    """Return inverse propensity scoring: the mean of w r, w = target / propensity.

    Parameters
    ----------
    reward, propensity, target
        Reward, probability of the logged action under the logging policy, and under the policy
        that is evaluated, shape (n,).
    options
        See `Options`.

    Examples
    --------
    >>> import numpy as np
    >>> from bandits import ips
    >>> print(ips(np.array([1.0, 0.0, 1.0, 0.0]), np.full(4, 0.5), np.array([1.0, 0.0, 1.0, 0.0])))
    ips: 1 [0, 2], effective sample size 2 of 4 rounds, not private
    """
    options = options or Options()
    weight, clipped = _weights(propensity, target, options)
    ratio = _Ratio(weight, np.zeros(len(weight)), np.ones(len(weight)))
    return _estimated("ips", ratio, reward, options, clipped)


def snips(
    reward: Array, propensity: Array, target: Array, options: Options | None = None
) -> Estimate:
    """Return self-normalised inverse propensity scoring: sum of w r / sum of w.

    Parameters
    ----------
    reward, propensity, target, options
        As in `ips`.
    """
    options = options or Options()
    weight, clipped = _weights(propensity, target, options)
    ratio = _Ratio(weight, np.zeros(len(weight)), weight)
    return _estimated("snips", ratio, reward, options, clipped)


def doubly_robust(
    reward: Array,
    propensity: Array,
    target: Array,
    predicted: Array,
    baseline: Array,
    options: Options | None = None,
) -> Estimate:
    """Return the doubly robust estimate: the mean of baseline + w (r - predicted).

    Parameters
    ----------
    reward, propensity, target, options
        As in `ips`.
    predicted
        A model's reward of the logged action, shape (n,), made from other data. It and `baseline`
        are clipped to the range of rewards.
    baseline
        Its mean reward under the evaluated policy, sum over a of target(a) times predicted(a),
        shape (n,). A private estimate takes both as public.
    """
    options = options or Options()
    weight, clipped = _weights(propensity, target, options)
    shape = weight.shape
    remedy = "Pass one prediction for each round."
    predicted = _checks.finite("predicted", predicted, shape, remedy)
    baseline = _checks.finite("baseline", baseline, shape, remedy)
    predicted, baseline = (
        np.clip(model, options.low, options.high) for model in (predicted, baseline)
    )
    ratio = _Ratio(weight, baseline - weight * predicted, np.ones(len(weight)))
    return _estimated("dr", ratio, reward, options, clipped)


def _weights(propensity: Array, target: Array, options: Options) -> tuple[Array, float]:
    shape = np.shape(propensity)
    remedy = "Pass probabilities, one for each round."
    propensity = _checks.finite("propensity", propensity, shape, remedy)
    target = _checks.finite("target", target, shape, remedy)
    if not ((propensity > 0) & (propensity <= 1)).all():
        remedy = "What was logged had a probability above 0: estimate it with more draws."
        raise ValueError(_checks.expected("propensity", "...", "> 0 and <= 1", remedy))
    if not ((target >= 0) & (target <= 1)).all():
        raise ValueError(_checks.expected("target", "...", "in [0, 1]", remedy))
    weight: Array = target / propensity
    if options.clip is None:
        return weight, 0.0
    return np.minimum(weight, options.clip), float((weight > options.clip).mean())


class _Ratio(NamedTuple):
    """sum of (weight * reward + constant) / sum of divisor."""

    weight: Array
    constant: Array
    divisor: Array

    def reach(self, options: "Options") -> float | None:
        """Return the length of an interval that holds every term minus v divisor, v any value.

        Self-normalised: w (r - v). Plain: w r, to which a model adds its own reach.
        """
        bound, low, high = options.bound, options.low, options.high
        if bound is None:
            return None
        if self.divisor is self.weight:
            return bound * (high - low)
        if self.constant.any():
            return (1 + 2 * bound) * (high - low)
        return bound * (max(high, 0.0) - min(low, 0.0))


def _estimated(
    method: str, ratio: _Ratio, reward: Array, options: Options, clipped: float
) -> Estimate:
    weight, constant, divisor = ratio
    n = len(weight)
    reward = np.asarray(reward, dtype=float)
    if reward.shape != weight.shape or n < 2:
        rule = f"{weight.shape}, two rounds at least"
        raise ValueError(
            _checks.expected("shape of reward", reward.shape, rule, "Pass one reward a round.")
        )
    total = float(divisor.sum())
    if weight.max() <= 0:
        remedy = "The policy never plays what was logged."
        raise ValueError(_checks.expected("largest weight", 0, "> 0", remedy))
    if options.bound is not None and weight.max() > options.bound * (1 + 1e-9):
        remedy = "It is no bound of the weights."
        rule = f">= the largest weight, {weight.max():.6g}"
        raise ValueError(_checks.expected("largest_weight", options.bound, rule, remedy))
    rewards = options._range.centred_all(reward) + options._range.centre
    sample = float(weight.sum() ** 2 / np.square(weight).sum())
    known = Estimate(method, math.nan, None, None, options.level, sample, n, clipped)
    if options.privacy is not None:
        return _private(known, ratio, reward, options, options.privacy)
    terms = weight * rewards + constant
    return replace(
        known,
        value=float(terms.sum()) / total,
        bootstrap=_bootstrap(terms, divisor, options),
        bernstein=_bernstein(ratio, terms, options),
    )


def _bootstrap(terms: Array, divisor: Array, options: Options) -> tuple[float, float]:
    """Return the percentile interval of resampled ratios."""
    n = len(terms)
    rng = np.random.default_rng(options.seed)
    found = []
    for start in range(0, options.resamples, max(1, _CHUNK // n)):
        rows = min(max(1, _CHUNK // n), options.resamples - start)
        places = rng.integers(0, n, (rows, n))
        sums = divisor[places].sum(1)
        # a resample without any weight says nothing; the value of the others stands
        found.append(terms[places].sum(1)[sums > 0] / sums[sums > 0])
    tail = (1 - options.level) / 2
    low, high = np.quantile(np.concatenate(found), (tail, 1 - tail))
    return float(low), float(high)


def _bernstein(ratio: _Ratio, terms: Array, options: Options) -> tuple[float, float] | None:
    """Return all values v for which the mean of terms - v divisor may be 0.

    At the true v these have mean 0 in each independent round, and a range that is known. By Maurer
    and Pontil (2009, theorem 4), on both sides, |mean| <= sqrt(2 V L / n) + 7 range L / (3 (n - 1))
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
    """Return what the mean may be; of clipped weights, whose mean is below 1, down to 0 too."""
    return np.linspace(min(options.low, 0.0), max(options.high, 0.0), _GRID + 1)


def _where(values: Array, inside: Array) -> tuple[float, float]:
    """Return the interval of the values inside, one step of the grid wider on either side."""
    places = np.flatnonzero(inside)
    if not len(places):  # no value in the range of rewards fits: say the range
        return float(values[0]), float(values[-1])
    first, last = max(places[0] - 1, 0), min(places[-1] + 1, len(values) - 1)
    return float(values[first]), float(values[last])


def _private(
    known: Estimate, ratio: _Ratio, reward: Array, options: Options, privacy: Privacy
) -> Estimate:
    """Return the estimate with noise: given weights, a sum of public multiples of rewards."""
    weight, constant, divisor = ratio
    total = float(divisor.sum())
    multiples = weight / total
    # |multiple * (r - centre)| <= the largest multiple times half the range
    clip_norm = float(multiples.max()) * options._range.clip_norm * (1 + 1e-12)
    relation = dp.NeighboringRelation(privacy.relation)
    multiplier = dp.noise_multiplier(
        epsilon=privacy.epsilon, delta=privacy.delta, relation=relation
    )
    centred = options._range.centred_all(reward)
    release = dp.release_sum(
        dp.clip_records(multiples * centred, clip_norm=clip_norm),
        dp.Gaussian(multiplier),
        rng=privacy.seed,
        simulation=privacy.simulation,
    )
    public = float((weight * options._range.centre + constant).sum()) / total
    return replace(
        known,
        value=public + float(release.values),
        bernstein=_hoeffding(public + float(release.values), ratio, release.scale, options),
        mechanism=dp.Gaussian(multiplier),
        relation=str(relation),
        is_simulation=privacy.simulation,
    )


def _hoeffding(
    value: float, ratio: _Ratio, sigma: float, options: Options
) -> tuple[float, float] | None:
    """Return Hoeffding's interval, half the error for the rounds and half for the noise."""
    reach = ratio.reach(options)
    if reach is None:
        return None
    n, mean = len(ratio.weight), float(ratio.divisor.mean())
    log = math.log(4 / (1 - options.level))
    half = reach * math.sqrt(log / (2 * n)) / mean + sigma * math.sqrt(2 * log)
    candidates = _candidates(options)
    return max(value - half, float(candidates[0])), min(value + half, float(candidates[-1]))
