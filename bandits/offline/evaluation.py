"""Off-policy evaluation: estimates of a policy's mean reward from the log of another policy.

Every estimator is a ratio, sum of (w_i r_i + c_i) over sum of d_i, with weights w that do not
depend on rewards. So each has intervals, an effective sample size, and a private form: given the
weights, it is a linear query of the rewards. Intervals are of the policy's value: with clipped or
shrunk weights, the bias is bounded on both sides.

An estimate from raw rewards is printed as not private; ``private=True`` adds noise.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

import privacy as dp
from bandits import checks
from bandits.checks import Array, Indices
from bandits.learning.rewards import SIMULATION_ONLY, numbers, unprotected
from bandits.offline.intervals import Options, Privacy, Ratio, betting, bootstrap, hoeffding


@dataclass(frozen=True)
class Estimate:
    """Estimate of a policy's mean reward, with confidence intervals.

    Attributes
    ----------
    method
        ``"replay"``, ``"ips"``, ``"snips"`` or ``"dr"``.
    value
        The estimate.
    interval
        Confidence interval of the policy's value, valid at any fixed number of rounds: a betting
        interval (Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro 2022). A private estimate has
        Hoeffding's interval, noise included, or None without a bound on the weights. Both assume
        contexts drawn independently from one distribution; the logging policy may learn.
    bootstrap
        Percentile bootstrap interval of the policy's value: approximate, for independent rounds and
        policies that play only actions that could be logged. None for a private estimate.
    level
        Confidence level of both intervals, each two-sided.
    effective_sample_size
        (sum of w)^2 / sum of w^2.
    rounds
        Number of rounds in the log.
    clipped
        Fraction of rounds whose weight was clipped.
    removed
        Fraction of the total weight that clipping or shrinkage removed. For rewards >= 0 it biases
        ips downward.
    mechanism
        The mechanism to account under `relation`; None if the estimate is not private.
    is_simulation
        Whether the noise is reproducible and gives no privacy.
    """

    method: str
    value: float
    interval: tuple[float, float] | None
    bootstrap: tuple[float, float] | None
    level: float
    effective_sample_size: float
    rounds: int
    clipped: float = 0.0
    removed: float = 0.0
    mechanism: dp.Gaussian | None = None
    relation: str = "REPLACE_ONE"
    is_simulation: bool = False

    @property
    def private(self) -> bool:
        """Whether the estimate is differentially private."""
        return self.mechanism is not None and not self.is_simulation

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return the guarantee of publishing `value`; epsilon is infinite if it is not private."""
        relation = dp.NeighboringRelation(self.relation)
        if self.is_simulation:
            return unprotected(delta, relation, SIMULATION_ONLY)
        if self.mechanism is None:
            return unprotected(delta, relation, "rewards are used as they are")
        answer = dp.account(self.mechanism, relation=relation).guarantee(delta=delta)
        return replace(answer, unit="the reward of one round")

    def __str__(self) -> str:
        shown = ""
        if self.interval is not None:
            shown = f" [{self.interval[0]:.4g}, {self.interval[1]:.4g}]"
        removed = f"{100 * self.removed:.3g} % of the weight removed, " if self.removed else ""
        spent = "private (see guarantee)" if self.private else "not private"
        return (
            f"{self.method}: {self.value:.4g}{shown}, effective sample size "
            f"{self.effective_sample_size:.4g} of {self.rounds} rounds, {removed}{spent}"
        )


class _Weights(NamedTuple):
    used: Array
    """Weights of the estimate, clipped or shrunk; at most `base`."""
    base: Array
    """Weights of the interval, perhaps clipped."""
    clipped: float
    removed: float


def replay(
    action: Indices, chosen: Indices, reward: Array, options: Options | None = None
) -> Estimate:
    """Return the mean reward of the rounds in which the policy picks the logged action (Li 2011).

    Valid if the logging policy was uniform; for another one, use `ips`. `action` is the logged
    action, `chosen` the policy's pick, and `reward` that of the logged action, each of shape (n,).
    Of `options`, `clip` is not used.
    """
    options = options or Options()
    action, chosen = np.asarray(action), np.asarray(chosen)
    wrong = action.ndim != 1 or action.shape != chosen.shape
    rule, remedy = (
        f"(n,), the shape of action={action.shape}",
        "Pass one pick for each logged action.",
    )
    checks.refuse_if(wrong, "shape of chosen", chosen.shape, rule, remedy)
    match = action == chosen
    reward = numbers(reward)
    wrong, rule = reward.shape != match.shape, f"{match.shape}, with at least two matches"
    remedy = "Pass one reward for each logged action, and a longer log."
    checks.refuse_if(wrong or match.sum() < 2, "shape of reward", reward.shape, rule, remedy)
    one = np.ones(int(match.sum()))
    options = replace(options, clip=None, largest_weight=1.0)
    found = _estimated("replay", _Weights(one, one, 0.0, 0.0), reward[match], options)
    return replace(found, rounds=len(match))


def ips(
    reward: Array, propensity: Array, target: Array, options: Options | None = None
) -> Estimate:
    """Return inverse propensity scoring: the mean of w r, w = target / propensity.

    `propensity` and `target` are the probabilities of the logged action under the logging policy
    and under the evaluated policy, and `reward` its reward, each of shape (n,).
    """
    options = options or Options()
    return _estimated("ips", _weights(propensity, target, options), reward, options)


def snips(
    reward: Array, propensity: Array, target: Array, options: Options | None = None
) -> Estimate:
    """Return self-normalized inverse propensity scoring: sum of w r / sum of w; see `ips`."""
    options = options or Options()
    return _estimated("snips", _weights(propensity, target, options), reward, options)


def doubly_robust(
    reward: Array,
    propensity: Array,
    target: Array,
    predicted: Array,
    baseline: Array,
    options: Options | None = None,
    *,
    shrinkage: float | Literal["auto"] | None = None,
) -> Estimate:
    """Return the doubly robust estimate: the mean of baseline + w (r - predicted).

    Parameters
    ----------
    reward, propensity, target, options
        As in `ips`.
    predicted
        A model's prediction of the reward of the logged action, shape (n,), in the range of
        rewards, fitted to other data or to earlier rounds; `fit_rewards` does the latter.
    baseline
        The model's mean reward under the evaluated policy, sum over a of target(a) times
        predicted(a), shape (n,). A private estimate treats both as public.
    shrinkage
        l > 0 replaces w by l w / (w^2 + l) in the estimate (Su, Dimakopoulou, Krishnamurthy and
        Dudik 2020). ``"auto"`` selects the l with the smallest estimated mean square error. The
        interval uses the weights without shrinkage.
    """
    options = options or Options()
    weights = _weights(propensity, target, options)
    shape = weights.base.shape
    remedy = "Pass one prediction for each round."
    predicted = checks.finite("predicted", predicted, shape, remedy)
    baseline = checks.finite("baseline", baseline, shape, remedy)
    for name, model in (("predicted", predicted), ("baseline", baseline)):
        if model.min() < options.low or model.max() > options.high:
            rule = f"in [{options.low:g}, {options.high:g}]"
            remedy = "Clip the model's predictions before averaging."
            raise ValueError(checks.expected(name, "...", rule, remedy))
    if shrinkage is not None:
        if shrinkage == "auto":
            remedy = "Pass a number: choosing it from the rewards is not private."
            checks.refuse_if(options.private, "shrinkage", shrinkage, "a number", remedy)
            rewards = _checked(reward, shape, options)
            shrinkage = _best_shrinkage(weights.base, rewards - predicted, baseline)
        checks.real(
            "shrinkage", shrinkage, "Pass a positive number, such as 100, or 'auto'.", above=0
        )
        used = _shrunk(weights.base, shrinkage)
        removed = 1 - (1 - weights.removed) * float(used.sum()) / float(weights.base.sum())
        weights = weights._replace(used=used, removed=removed)
    return _estimated("dr", weights, reward, options, (predicted, baseline))


def _shrunk(weight: Array, shrinkage: float) -> Array:
    used: Array = weight / (1 + np.square(weight) / shrinkage)
    return used


def _best_shrinkage(weight: Array, residual: Array, baseline: Array) -> float:
    """Return the shrinkage with the smallest estimated variance + squared bias."""

    def error(shrinkage: float) -> float:
        used = _shrunk(weight, shrinkage)
        bias = float(((weight - used) * residual).mean())
        return float((baseline + used * residual).var(ddof=1)) / len(weight) + bias**2

    grid = float(weight.max()) ** 2 * np.geomspace(1e-4, 1e6, 41)
    return min(map(float, grid), key=error)


def _weights(propensity: Array, target: Array, options: Options) -> _Weights:
    remedy = "Pass probabilities, one for each round."
    for name, value in (("propensity", propensity), ("target", target)):
        checks.refuse_if(np.ndim(value) != 1, f"shape of {name}", np.shape(value), "(n,)", remedy)
    shape = (len(propensity),)
    propensity = checks.finite("propensity", propensity, shape, remedy)
    target = checks.finite("target", target, shape, remedy)
    if not ((propensity > 0) & (propensity <= 1)).all():
        remedy = "Estimate the probabilities of the logged actions with more draws."
        raise ValueError(checks.expected("propensity", "...", "> 0 and <= 1", remedy))
    if not ((target >= 0) & (target <= 1)).all():
        raise ValueError(checks.expected("target", "...", "in [0, 1]", remedy))
    with np.errstate(over="ignore"):
        weight: Array = target / propensity
    if not np.isfinite(weight).all() and options.clip is None:
        remedy = "Pass clip= to bound the weights."
        raise ValueError(checks.expected("propensity", "...", "large enough for floats", remedy))
    largest = float(weight.max())
    remedy = "Pass a log with actions that the evaluated policy can play."
    checks.refuse_if(largest < 1e-100, "largest weight", largest, ">= 1e-100", remedy)
    bound = options.largest_weight
    used = weight if options.clip is None else np.minimum(weight, options.clip)
    if bound is not None:
        remedy = "Pass an upper bound on the weights."
        rule = f">= the largest weight, {largest:.6g}"
        checks.refuse_if(largest > bound * (1 + 1e-9), "largest_weight", bound, rule, remedy)
        # if no weight exceeds the bound and their mean is 1, the mean of n is below this with
        # probability at most 1e-6 (Bernstein's bound for the lower tail of nonnegative terms)
        least = 1 - math.sqrt(2 * bound * math.log(1e6) / len(weight))
        remedy = "Omit largest_weight: the policy plays actions that were not logged."
        rule = f">= {least:.6g}, as largest_weight={bound:g} implies"
        checks.refuse_if(weight.mean() < least, "mean weight", float(weight.mean()), rule, remedy)
    # a clipped total of an infinite weight is a fraction 0 of it
    removed = 1 - float(used.sum() / weight.sum()) if (used < weight).any() else 0.0
    return _Weights(used, used, float((used < weight).mean()), removed)


def _checked(reward: Array, shape: tuple[int, ...], options: Options) -> Array:
    """Return rewards as floats. Errors do not show them."""
    rewards = numbers(reward)
    wrong = rewards.shape != shape or rewards.size < 2
    rule, remedy = f"{shape}, for at least two rounds", "Pass one reward per round."
    checks.refuse_if(wrong, "shape of reward", rewards.shape, rule, remedy)
    if not options.private and not ((rewards >= options.low) & (rewards <= options.high)).all():
        remedy = "Pass low= and high=, or clip the rewards and drop missing ones."
        rule = f"in [{options.low:g}, {options.high:g}]"
        raise ValueError(checks.expected("reward", "...", rule, remedy))
    return rewards


def _estimated(
    method: str,
    weights: _Weights,
    reward: Array,
    options: Options,
    model: tuple[Array, Array] | None = None,
) -> Estimate:
    weight, n = weights.used, len(weights.used)
    constant = np.zeros(n) if model is None else model[1] - weight * model[0]
    ratio = Ratio(weight, constant, weight if method == "snips" else np.ones(n))
    rewards = _checked(reward, weight.shape, options)
    shares = weight / weight.max()
    sample = float(shares.sum() ** 2 / np.square(shares).sum())
    known = Estimate(
        method, math.nan, None, None, options.level, sample, n, weights.clipped, weights.removed
    )
    if options.privacy is not None:
        return _private(known, ratio, rewards, options, options.privacy)
    terms = weight * rewards + constant
    low, high, divisor = terms, terms, ratio.divisor
    if options.clip is not None or weights.removed:
        # as in `betting`; the residuals of a model reach one range to each side
        reach = options.high - options.low
        ends = (options.low, options.high) if model is None else (-reach, reach)
        low, high = (terms + end * (1 - weight) for end in ends)
        divisor = np.ones(n)
    return replace(
        known,
        value=float(terms.sum() / ratio.divisor.sum()),
        interval=betting(weights.base, rewards, model, options),
        bootstrap=bootstrap(low, high, divisor, options),
    )


def _private(
    known: Estimate, ratio: Ratio, reward: Array, options: Options, privacy: Privacy
) -> Estimate:
    """Return the estimate with noise; given the weights, it is a linear query of the rewards."""
    weight, constant, divisor = ratio
    total = float(divisor.sum())
    multiples = weight / total
    # |multiple * (r - center)| <= the largest multiple times half the range
    clip_norm = float(multiples.max()) * options._range.clip_norm * (1 + 1e-12)
    relation = dp.NeighboringRelation(privacy.relation)
    multiplier = dp.noise_multiplier(
        epsilon=privacy.epsilon, delta=privacy.delta, relation=relation
    )
    centered = options._range.centered_all(reward)
    release = dp.release_sum(
        dp.clip_records(multiples * centered, clip_norm=clip_norm),
        dp.Gaussian(multiplier),
        rng=privacy.seed,
        simulation=privacy.simulation,
    )
    public = float((weight * options._range.center + constant).sum()) / total
    return replace(
        known,
        value=public + float(release.values),
        interval=hoeffding(public + float(release.values), ratio, release.scale, options),
        mechanism=dp.Gaussian(multiplier),
        relation=str(relation),
        is_simulation=privacy.simulation,
    )
