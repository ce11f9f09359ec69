"""Off-policy evaluation: estimates of a policy's mean reward from the log of another policy.

Every estimator is a ratio, sum of (w_i r_i + c_i) over sum of d_i, with weights w that do not
depend on rewards. Each therefore has a bootstrap interval, an empirical Bernstein interval, an
effective sample size, and a private form: given the weights, it is a linear query of the rewards.

An estimate from raw rewards is not private, and says so when printed; ``private=True`` adds noise.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

import privacy as dp
from bandits import checks
from bandits.checks import Array, Indices
from bandits.learning.rewards import SIMULATION_ONLY, numbers, unprotected
from bandits.offline.intervals import Options, Privacy, Ratio, bernstein, bootstrap, hoeffding


@dataclass(frozen=True)
class Estimate:
    """Estimate of a policy's mean reward, with confidence intervals.

    Attributes
    ----------
    method
        ``"replay"``, ``"ips"``, ``"snips"`` or ``"dr"``.
    value
        The estimate.
    bootstrap
        Percentile bootstrap interval; None for a private estimate, because resampling rewards would
        not be private.
    bernstein
        Interval that is valid at any sample size for independent rounds: empirical Bernstein
        (Maurer and Pontil 2009), or Hoeffding including the noise for a private estimate. None if
        no bound on the weights is known.
    level
        Confidence level of both intervals, each two-sided.
    effective_sample_size
        (sum of w)^2 / sum of w^2.
    rounds
        Number of rounds in the log.
    clipped
        Fraction of rounds whose weight was clipped. With clipping the estimand is the mean under
        clipped weights, which for rewards >= 0 is at most the policy's mean reward.
    mechanism
        The mechanism to account under `relation`; None if the estimate is not private.
    is_simulation
        Whether the noise is reproducible and gives no privacy.
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
        interval = self.bernstein if self.bootstrap is None else self.bootstrap
        shown = "" if interval is None else f" [{interval[0]:.4g}, {interval[1]:.4g}]"
        spent = "private (see guarantee)" if self.private else "not private"
        return (
            f"{self.method}: {self.value:.4g}{shown}, effective sample size "
            f"{self.effective_sample_size:.4g} of {self.rounds} rounds, {spent}"
        )


def replay(
    action: Indices, chosen: Indices, reward: Array, options: Options | None = None
) -> Estimate:
    """Return the mean reward of the rounds in which the policy picks the logged action (Li 2011).

    Valid if the logging policy was uniform, or independent of the context.

    Parameters
    ----------
    action, chosen
        Logged action, and the policy's pick, shape (n,).
    reward
        Reward of the logged action, shape (n,).
    options
        See `Options`; `clip` is not used.
    """
    options = options or Options()
    action, chosen = np.asarray(action), np.asarray(chosen)
    if action.ndim != 1 or action.shape != chosen.shape:
        remedy = "Pass one pick for each logged action."
        rule = f"(n,), as action's {action.shape}"
        raise ValueError(checks.expected("shape of chosen", chosen.shape, rule, remedy))
    match = (action == chosen).astype(float)
    ratio = Ratio(match, np.zeros(len(match)), match)
    return _estimated("replay", ratio, reward, replace(options, clip=None, largest_weight=1.0), 0.0)


def ips(
    reward: Array, propensity: Array, target: Array, options: Options | None = None
) -> Estimate:
    """Return inverse propensity scoring: the mean of w r, w = target / propensity.

    Parameters
    ----------
    reward, propensity, target
        Reward, and probability of the logged action under the logging policy and under the
        evaluated policy, shape (n,).
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
    ratio = Ratio(weight, np.zeros(len(weight)), np.ones(len(weight)))
    return _estimated("ips", ratio, reward, options, clipped)


def snips(
    reward: Array, propensity: Array, target: Array, options: Options | None = None
) -> Estimate:
    """Return self-normalized inverse propensity scoring: sum of w r / sum of w.

    Parameters
    ----------
    reward, propensity, target, options
        As in `ips`.
    """
    options = options or Options()
    weight, clipped = _weights(propensity, target, options)
    ratio = Ratio(weight, np.zeros(len(weight)), weight)
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
        A model's prediction of the reward of the logged action, shape (n,), fitted to other data
        and clipped to the range of rewards.
    baseline
        The model's mean reward under the evaluated policy, sum over a of target(a) times
        predicted(a), shape (n,). A private estimate treats both as public.
    """
    options = options or Options()
    weight, clipped = _weights(propensity, target, options)
    shape = weight.shape
    remedy = "Pass one prediction for each round."
    predicted = checks.finite("predicted", predicted, shape, remedy)
    baseline = checks.finite("baseline", baseline, shape, remedy)
    for name, model in (("predicted", predicted), ("baseline", baseline)):
        if model.min() < options.low or model.max() > options.high:
            rule = f"in [{options.low:g}, {options.high:g}]"
            remedy = "Clip the model's predictions before averaging."
            raise ValueError(checks.expected(name, "...", rule, remedy))
    ratio = Ratio(weight, baseline - weight * predicted, np.ones(len(weight)))
    return _estimated("dr", ratio, reward, options, clipped)


def _weights(propensity: Array, target: Array, options: Options) -> tuple[Array, float]:
    remedy = "Pass probabilities, one for each round."
    for name, value in (("propensity", propensity), ("target", target)):
        if np.ndim(value) != 1:
            raise ValueError(checks.expected(f"shape of {name}", np.shape(value), "(n,)", remedy))
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
    if options.clip is None:
        return weight, 0.0
    return np.minimum(weight, options.clip), float((weight > options.clip).mean())


def _estimated(
    method: str, ratio: Ratio, reward: Array, options: Options, clipped: float
) -> Estimate:
    weight, constant, divisor = ratio
    n = len(weight)
    reward = numbers(reward)
    if reward.shape != weight.shape or n < 2:
        rule = f"{weight.shape}, two rounds at least"
        raise ValueError(
            checks.expected("shape of reward", reward.shape, rule, "Pass one reward per round.")
        )
    total = float(divisor.sum())
    largest = float(weight.max())
    if largest < 1e-100:
        remedy = "Pass a log in which the policy could have played some of the actions."
        raise ValueError(checks.expected("largest weight", largest, ">= 1e-100", remedy))
    if options.bound is not None and largest > options.bound * (1 + 1e-9):
        remedy = "Pass an upper bound on the weights."
        rule = f">= the largest weight, {largest:.6g}"
        raise ValueError(checks.expected("largest_weight", options.bound, rule, remedy))
    rewards = options._range.centered_all(reward) + options._range.center
    shares = weight / largest
    sample = float(shares.sum() ** 2 / np.square(shares).sum())
    known = Estimate(method, math.nan, None, None, options.level, sample, n, clipped)
    if options.privacy is not None:
        return _private(known, ratio, reward, options, options.privacy)
    terms = weight * rewards + constant
    return replace(
        known,
        value=float(terms.sum()) / total,
        bootstrap=bootstrap(terms, divisor, options),
        bernstein=bernstein(ratio, terms, options),
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
        bernstein=hoeffding(public + float(release.values), ratio, release.scale, options),
        mechanism=dp.Gaussian(multiplier),
        relation=str(relation),
        is_simulation=privacy.simulation,
    )
