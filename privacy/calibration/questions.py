"""The public calibration functions."""

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, overload

from privacy import checks
from privacy.accounting import Notion
from privacy.calibration.search import Family, Make, Seek
from privacy.mechanisms import Gaussian, Mechanism, PoissonSampled, compose, repeat
from privacy.names import suggests_names
from privacy.numerics.normal import log_gaussian_delta
from privacy.numerics.solve import safe_root
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation


@overload
def calibrate(
    make: Callable[[int], Mechanism],
    *,
    epsilon: float,
    delta: float,
    integer: Literal[True],
    seek: Seek = ...,
    domain: tuple[float, float] = ...,
    notion: Notion = ...,
    relation: NeighboringRelation = ...,
    certify: bool = ...,
) -> int: ...
@overload
def calibrate(
    make: Callable[[float], Mechanism],
    *,
    epsilon: float,
    delta: float,
    integer: Literal[False] = ...,
    seek: Seek = ...,
    domain: tuple[float, float] = ...,
    notion: Notion = ...,
    relation: NeighboringRelation = ...,
    certify: bool = ...,
) -> float: ...
@suggests_names
def calibrate(
    make: Make,
    *,
    epsilon: float,
    delta: float,
    seek: Seek = "smallest",
    domain: tuple[float, float] = (0, math.inf),
    integer: bool = False,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    certify: bool = False,
) -> float:
    """Return the smallest (or largest) parameter whose mechanism meets (epsilon, delta).

    Parameters
    ----------
    make
        Function from the parameter to a mechanism, monotone in privacy.
    epsilon
        Target epsilon, > 0.
    delta
        Target delta in [0, 1).
    seek
        ``"smallest"`` if larger parameters are more private (noise), ``"largest"`` if smaller
        ones are (sampling probability, steps).
    domain
        Search interval, 0 <= low < high. A finite end other than 0 may be returned. If every
        value meets the target, the end is returned (1e-9 in place of 0).
    integer
        Whether the parameter is a whole number.
    notion, relation
        As in `account`.
    certify
        Verify the result with interval arithmetic (needs python-flint), making it more private by
        a few units in the last place if needed.

    Returns
    -------
    float or int
        A parameter that was evaluated and meets the target.

    Raises
    ------
    Infeasible
        No value in the domain meets the target.
    NotCertified
        ``certify=True``, and no proof exists or was found.
    ValueError
        The family is not monotone, or an argument is outside its domain.

    Examples
    --------
    >>> import privacy as dp
    >>> round(dp.calibrate(dp.Gaussian, epsilon=1, delta=1e-5), 4)
    3.7306
    >>> round(dp.calibrate(dp.Laplace, epsilon=0.5, delta=0), 12)
    2.0
    """
    remedy = "Pass the search interval, such as (0, math.inf)."
    try:
        low, high = map(float, domain)
    except (TypeError, ValueError):
        raise TypeError(checks.expected("domain", domain, "two numbers", remedy)) from None
    if not 0 <= low < high:
        raise ValueError(checks.expected("domain", domain, "0 <= low < high", remedy))
    family = Family(make, epsilon, delta, seek, notion, relation)
    found = family.solve(low, high, None, integer=integer, certify=certify)
    family.probe(found, low, high, integer=integer)
    return found


def _sampled(noise_multiplier: float, sampling_probability: float) -> Mechanism:
    return PoissonSampled(Gaussian(noise_multiplier), sampling_probability=sampling_probability)


@suggests_names
def noise_multiplier(
    *,
    epsilon: float,
    delta: float,
    sampling_probability: float = 1,
    steps: int = 1,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    certify: bool = False,
) -> float:
    """Return the smallest noise multiplier of a (sampled, repeated) Gaussian that meets a target.

    Parameters
    ----------
    epsilon, delta
        The target, epsilon > 0 and 0 < delta < 1.
    sampling_probability
        Poisson sampling probability q in (0, 1].
    steps
        Number of releases T >= 1, each with a new sample.
    notion, relation, certify
        As in `calibrate`.

    Returns
    -------
    float
        Standard deviation of the noise / clip norm of one record; it meets the target.

    Examples
    --------
    >>> import privacy as dp
    >>> sigma = dp.noise_multiplier(epsilon=1, delta=1e-5, sampling_probability=0.01, steps=1000)
    """
    q = checks.probability(sampling_probability)
    steps = checks.count("steps", steps, "Pass the number of releases, at least 1.")
    family = Family(
        lambda value: repeat(_sampled(value, q), steps),
        checks.epsilon(epsilon),
        checks.delta(delta),
        notion=notion,
        relation=relation,
    )
    start = None
    if notion == "rdp" and q < 1 and relation is not REPLACE_ONE:
        from privacy.calibration.starts import sampled_gaussian_start

        with suppress(ArithmeticError):  # without a start the search is only slower
            start, family.order = sampled_gaussian_start(
                family.epsilon, family.aim(1.1e-9), q, steps
            )
    if start is None:
        start = _rough_noise_multiplier(family.epsilon, family.delta, q, steps)
    return family.solve(0, math.inf, start, integer=False, certify=certify)


def _rough_noise_multiplier(epsilon: float, delta: float, q: float, steps: int) -> float:
    """Return an estimate to start the search: 1 / sqrt(log(1 + mu^2 / (q^2 T))).

    By the central limit theorem for sampled releases, mu^2 = q^2 T (e^(1/s^2) - 1) (Bu, Dong,
    Long and Su 2020, Theorem 5). The estimate is accurate to some percent.
    """

    def excess(log_mu: float) -> float:
        return log_gaussian_delta(epsilon, math.exp(log_mu))[0] - math.log(delta)

    log_mu = safe_root(excess, -20.0 + math.log(epsilon), 25.0, rtol=1e-3)
    ratio = math.exp(log_mu) / q / math.sqrt(steps)
    return ratio**-1 if q == 1 else math.log1p(min(ratio, 1e100) ** 2) ** -0.5


@suggests_names
def max_steps(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    sampling_probability: float = 1,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    certify: bool = False,
) -> int:
    """Return the largest number of sampled Gaussian releases that meets the target.

    Parameters
    ----------
    epsilon, delta
        The target.
    noise_multiplier
        As in `Gaussian`.
    sampling_probability
        Poisson sampling probability q in (0, 1].
    notion, relation, certify
        As in `calibrate`.

    Raises
    ------
    Infeasible
        One release already exceeds the target.
    """
    one = _sampled(noise_multiplier, sampling_probability)
    family = Family(
        lambda steps: repeat(one, int(steps)),
        epsilon,
        checks.delta(delta),
        "largest",
        notion,
        relation,
    )
    return int(family.solve(1, math.inf, None, integer=True, certify=certify))


@suggests_names
def max_sampling_probability(
    *,
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    steps: int = 1,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    certify: bool = False,
) -> float:
    """Return the largest Poisson sampling probability in (0, 1] that meets the target.

    Parameters
    ----------
    epsilon, delta
        The target.
    noise_multiplier
        As in `Gaussian`.
    steps
        Number of releases T >= 1, each with a new sample.
    notion, relation, certify
        As in `calibrate`.
    """
    steps = checks.count("steps", steps, "Pass the number of releases, at least 1.")
    family = Family(
        lambda q: repeat(_sampled(noise_multiplier, q), steps),
        epsilon,
        checks.delta(delta),
        "largest",
        notion,
        relation,
    )
    return family.solve(0, 1, None, integer=False, certify=certify)


@suggests_names
def recalibrate(
    done: Mechanism,
    rest: Callable[[float], Mechanism],
    *,
    epsilon: float,
    delta: float,
    seek: Seek = "smallest",
    domain: tuple[float, float] = (0, math.inf),
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> float:
    """Return the noise (or another parameter) for the rest of a partly executed plan.

    Choose `rest` independently of the outputs of `done`. If it depends on them, use a privacy
    filter (`Budget`).

    Parameters
    ----------
    done
        The mechanism that has run.
    rest
        Function from the parameter to the mechanism that is still to run.
    epsilon, delta
        The target for both together.
    seek, domain, notion, relation
        As in `calibrate`.

    Raises
    ------
    Infeasible
        `done` leaves too little remaining budget.
    """
    return calibrate(
        lambda value: compose(done, rest(value)),
        epsilon=epsilon,
        delta=delta,
        seek=seek,
        domain=domain,
        notion=notion,
        relation=relation,
    )
