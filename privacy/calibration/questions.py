"""The public calibration functions."""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, TypeVar, Unpack, overload

from privacy import checks
from privacy.accounting import Notion
from privacy.calibration.search import Family, Make, RateFamily, Seek
from privacy.calibration.targets import Target, family_for
from privacy.curves import several
from privacy.mechanisms import Gaussian, Mechanism, PoissonSampled, compose, repeat
from privacy.names import suggests_names
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privacy.calibration.starts import Unknown
    from privacy.tradeoffs import Array

_R_co = TypeVar("_R_co", bound=float, covariant=True)


class _How(TypedDict, total=False):
    notion: Notion
    relation: NeighboringRelation
    certify: bool


class _Number(Target, _How, total=False):
    noise_multiplier: float
    sampling_probability: float
    steps: int


class _Arrays(_How, total=False):
    epsilon: "ArrayLike"
    delta: "ArrayLike"
    noise_multiplier: "ArrayLike"
    sampling_probability: "ArrayLike"
    steps: "ArrayLike"


class _Elementwise(Protocol[_R_co]):
    @overload
    def __call__(self, **options: Unpack[_Number]) -> _R_co: ...
    @overload
    def __call__(self, **options: Unpack[_Arrays]) -> "Array": ...


def _elementwise(function: Callable[..., _R_co]) -> _Elementwise[_R_co]:
    """Make a function also take arrays for its numbers; equal cells are computed once."""
    numbers = _Arrays.__annotations__.keys() - _How.__annotations__.keys()

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        given = [(name, value) for name, value in options.items() if name in numbers]
        arrays = {name: value for name, value in given if several(value)}
        if args or not arrays:
            return function(*args, **options)
        import numpy as np

        try:
            columns = np.broadcast_arrays(*arrays.values())
        except ValueError:
            shapes = [np.shape(value) for value in arrays.values()]
            names, remedy = f"shapes of {', '.join(arrays)}", "Pass arrays of one shape."
            raise ValueError(checks.expected(names, shapes, "compatible", remedy)) from None
        cells = list(zip(*(column.ravel().tolist() for column in columns), strict=True))
        each = {cell: options | dict(zip(arrays, cell, strict=True)) for cell in cells}
        found = {cell: function(**one) for cell, one in each.items()}
        return np.array([found[cell] for cell in cells]).reshape(columns[0].shape)

    return call


class _Options(Target, _How, total=False):
    seek: Seek
    domain: tuple[float, float]


@overload
def calibrate(
    make: Callable[[int], Mechanism], *, integer: Literal[True], **options: Unpack[_Options]
) -> int: ...
@overload
def calibrate(
    make: Callable[[float], Mechanism],
    *,
    integer: Literal[False] = ...,
    **options: Unpack[_Options],
) -> float: ...
@suggests_names
def calibrate(
    make: Make,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    bayes_risk: float | None = None,
    prior: float | None = None,
    seek: Seek = "smallest",
    domain: tuple[float, float] = (0, math.inf),
    integer: bool = False,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    certify: bool = False,
) -> float:
    """Return the smallest (or largest) parameter whose mechanism meets a target.

    Raises `Infeasible` if no value in the domain meets the target, `NotCertified` if no proof was
    found, and ValueError if an argument is invalid or the family is not monotone.

    Parameters
    ----------
    make
        Maps the parameter to a mechanism; monotone in privacy.
    epsilon, delta
        The target, epsilon > 0 and delta in [0, 1), if none of the following is given.
    advantage
        The largest true positive rate minus false positive rate of an attack, in (0, 1).
    true_positive_rate, false_positive_rate
        The largest true positive rate of an attack at this false positive rate.
    bayes_risk, prior
        The least error probability of an attack if a record is present with probability `prior`.
    seek
        ``"smallest"`` for noise; ``"largest"`` if smaller parameters are more private.
    domain
        The search interval, 0 <= low < high, finite ends other than 0 included. If every value
        meets the target, the end is returned (1e-9 in place of 0).
    integer
        Whether the parameter is a whole number.
    notion, relation
        As in `account`.
    certify
        Verify the result with interval arithmetic (needs python-flint). It may be some ulps more
        private than without.

    Examples
    --------
    >>> import privacy as dp
    >>> round(dp.calibrate(dp.Gaussian, epsilon=1, delta=1e-5), 4)
    3.7306
    >>> round(dp.calibrate(dp.Gaussian, true_positive_rate=0.1, false_positive_rate=0.01), 4)
    0.9571
    """
    remedy = "Pass the search interval, such as (0, math.inf)."
    try:
        low, high = map(float, domain)
    except (TypeError, ValueError):
        raise TypeError(checks.expected("domain", domain, "two numbers", remedy)) from None
    checks.refuse_if(not 0 <= low < high, "domain", domain, "0 <= low < high", remedy)
    rates = (advantage, true_positive_rate, false_positive_rate, bayes_risk, prior)
    target = dict(zip(Target.__annotations__, (epsilon, delta, *rates), strict=True))
    family = family_for(make, target, seek, notion, relation)
    found = family.solve(low, high, None, integer=integer, certify=certify)
    family.probe(found, low, high, integer=integer)
    return found


def _sampled(noise_multiplier: float, sampling_probability: float) -> Mechanism:
    return PoissonSampled(Gaussian(noise_multiplier), sampling_probability=sampling_probability)


@_elementwise
@suggests_names
def noise_multiplier(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    true_positive_rate: float | None = None,
    false_positive_rate: float | None = None,
    bayes_risk: float | None = None,
    prior: float | None = None,
    sampling_probability: float = 1,
    steps: int = 1,
    notion: Notion = "tightest",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    certify: bool = False,
) -> float:
    """Return the smallest noise multiplier of a (sampled, repeated) Gaussian that meets a target.

    Arrays or lists of epsilon, delta, q and steps broadcast to an array of results.

    Parameters
    ----------
    epsilon, delta, advantage, true_positive_rate, false_positive_rate, bayes_risk, prior
        The target, as in `calibrate`; delta > 0.
    sampling_probability
        The q in (0, 1] of Poisson sampling.
    steps
        The number of releases, each with a new sample.
    notion, relation, certify
        As in `calibrate`.
    """
    rates = (advantage, true_positive_rate, false_positive_rate, bayes_risk, prior)
    target = dict(zip(Target.__annotations__, (epsilon, delta, *rates), strict=True))
    return solved_noise(sampling_probability, steps, notion, relation, certify, **target)[0]


def solved_noise(
    sampling_probability: float,
    steps: int,
    notion: Notion,
    relation: NeighboringRelation,
    certify: bool,  # noqa: FBT001
    **target: float | None,
) -> tuple[float, Family]:
    """Return the result of `noise_multiplier`, and the family that was searched."""
    q = checks.probability(sampling_probability)
    steps = checks.count("steps", steps, "Pass the number of releases, at least 1.")
    if target["delta"] is not None:
        checks.delta(target["delta"])
    family = family_for(
        lambda value: repeat(_sampled(value, q), steps), target, "smallest", notion, relation
    )
    rate = family.rate if isinstance(family, RateFamily) else 0.0
    sampled = -math.expm1(steps * math.log1p(-q)) if q < 1 else 1.0
    if sampled <= family.delta - rate and family.notion in ("tightest", "contour", "pld"):
        name = next(name for name in _LIMITS if target[name] is not None)
        stricter = "larger" if name == "bayes_risk" else "smaller"
        remedy = f"Pass a {stricter} {name}: any noise meets this target, because the probability "
        remedy += f"that a record is sampled at all is {sampled:.5g}."
        raise ValueError(checks.expected(name, target[name], "a target that needs noise", remedy))
    start, slope = None, 0.0
    if isinstance(family, RateFamily):
        start = _noise_of_mu(family.mu, q, steps)
    elif q < 1 and (found := _by_contour(family, "noise", q=q, steps=steps)):
        start, slope = found
    elif notion == "rdp" and q < 1 and family.epsilon > 0 and relation is not REPLACE_ONE:
        from privacy.calibration.starts import sampled_gaussian_start

        near = family.epsilon, family.aim(1.1e-9)
        with suppress(ArithmeticError):  # without this start the search is only slower
            start, family.order = sampled_gaussian_start(*near, q, steps)
    if start is None:  # about the mu with this Gaussian delta, and a central limit theorem
        size = math.sqrt(-2 * math.log(family.delta))
        mu = 2 * family.epsilon / (size + math.sqrt(size**2 + 2 * family.epsilon))
        start = _noise_of_mu(max(mu, 2.5 * family.delta), q, steps)
    return family.solve(0, math.inf, start, slope, integer=False, certify=certify), family


_LIMITS = ("delta", "advantage", "true_positive_rate", "bayes_risk")


def _by_contour(family: Family, unknown: "Unknown", **given: float) -> tuple[float, float] | None:
    """Return an estimate of a parameter and of the slope of log delta; set the family's order."""
    fits = family.notion in ("tightest", "contour") and family.relation is not REPLACE_ONE
    if not fits or given.get("q") == 1:  # a closed form needs no numpy
        return None
    from privacy.calibration.starts import Run, contour_start

    run = Run(**{unknown: 1.0, **given})
    with suppress(ArithmeticError, ValueError):  # too extreme for an estimate
        value, slope, t = contour_start(family.epsilon, family.aim(1e-9) - 1.5e-8, run, unknown)
        family.order = None if t is None else t + 1
        return value, slope
    return None


def _noise_of_mu(mu: float, q: float, steps: int) -> float:
    """Invert mu^2 = q^2 T (e^(1/s^2) - 1) (Bu, Dong, Long and Su 2020, Theorem 5)."""
    ratio = mu / q / math.sqrt(steps)
    return ratio**-1 if q == 1 else math.log1p(min(ratio, 1e100) ** 2) ** -0.5


@_elementwise
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

    Raises `Infeasible` if one release already exceeds the target.

    Parameters
    ----------
    epsilon, delta, noise_multiplier, sampling_probability, notion, relation, certify
        As in `Gaussian` and `privacy.noise_multiplier`, or arrays of them.
    """
    one = _sampled(noise_multiplier, sampling_probability)
    target = checks.epsilon(epsilon), checks.delta(delta)
    family = Family(lambda steps: repeat(one, int(steps)), *target, "largest", notion, relation)
    given = {"noise": float(noise_multiplier), "q": float(sampling_probability)}
    near = _by_contour(family, "steps", **given) or (None, 0.0)
    return int(family.solve(1, math.inf, *near, integer=True, certify=certify))


@_elementwise
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
    epsilon, delta, noise_multiplier, steps, notion, relation, certify
        As in `Gaussian` and `privacy.noise_multiplier`, or arrays of them.
    """
    steps = checks.count("steps", steps, "Pass the number of releases, at least 1.")
    target = checks.epsilon(epsilon), checks.delta(delta)

    def make(q: float) -> Mechanism:
        return repeat(_sampled(noise_multiplier, q), steps)

    family = Family(make, *target, "largest", notion, relation)
    make(1.0)  # checks the noise
    given = {"noise": float(noise_multiplier), "steps": steps}
    near = _by_contour(family, "q", **given) or (None, 0.0)
    return family.solve(0, 1, *near, integer=False, certify=certify)


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

    Raises `Infeasible` if `done` leaves too little budget.

    Parameters
    ----------
    done
        The mechanism that has run.
    rest
        Maps the parameter to the mechanism that is still to run. If you choose this function by
        outputs of `done`, use a privacy filter (`Budget`) instead.
    epsilon, delta
        The target for both together.
    seek, domain, notion, relation
        As in `calibrate`.
    """
    options: _Options = {"epsilon": epsilon, "delta": delta, "seek": seek, "domain": domain}
    options |= {"notion": notion, "relation": relation}
    return calibrate(lambda value: compose(done, rest(value)), **options)
