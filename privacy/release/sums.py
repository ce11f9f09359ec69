"""Release of a noisy sum with its sensitivity and the mechanism to account for."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from privacy import checks
from privacy.guarantees import ONE_RECORD
from privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privacy.release._laws import Law, draw
from privacy.release.clipping import Contributions
from privacy.release.noise import LARGEST_SCALE, random_source

if TYPE_CHECKING:
    from privacy.budget.ledger import Ledger

_LARGEST_INTEGER = 2**62
Noise = Gaussian | Laplace | DiscreteGaussian | DiscreteLaplace


@dataclass(frozen=True)
class Release:
    """A noisy sum that you may publish, and its privacy cost.

    `values` is the noisy sum, of shape () or (d,); multiples of `step`. `contribution_bound` is the
    sensitivity of the sum to adding, removing or zeroing one record or user, in the norm of the
    noise; up to twice this to replacing one. Account for `mechanism`, which is valid in every
    relation, at every release, also of the same contributions; but only once if `charged_once`: it
    then covers ALL releases under one `LifetimeCap` with noise of this scale. `unit` is the unit of
    privacy, ``"record"`` or ``"user"``. `scale` is the standard deviation of Gaussian noise, or the
    scale of Laplace noise, and `step` the spacing of the lattice, a power of two, both in the
    data's unit. `is_simulation`: the noise is reproducible and gives no privacy.
    """

    values: npt.NDArray[np.float64]
    contribution_bound: float
    mechanism: Noise
    charged_once: bool
    unit: str
    scale: float
    step: float
    is_simulation: bool


def release_sum(
    contributions: Contributions,
    mechanism: Noise,
    *,
    resolution: float = 2.0**30,
    rng: Any = None,
    simulation: bool = False,
    ledger: "Ledger | None" = None,
) -> Release:
    """Release the sum of clipped contributions with exactly drawn noise.

    Contributions are rounded toward zero to a lattice, where the release is post-processing of the
    Gaussian (Laplace) mechanism: the same guarantee holds in every relation and composition. With
    ``DiscreteGaussian`` and ``DiscreteLaplace`` the sum is one integer, and the noise is discrete.

    `contributions` are from `clip_records`, `clip_users` or `LifetimeCap.clip_users`. `mechanism`
    is ``Gaussian(noise_multiplier)``, scaled to the L2 bound, or ``Laplace(scale)``, scaled to the
    L1 bound, with `replace_distance` 2. Or ``DiscreteGaussian`` or ``DiscreteLaplace``, in the
    data's unit, with a `sensitivity` of at least the contribution bound rounded down, and twice
    that for a replaced record. `resolution` is a lower bound of the noise's scale in lattice steps,
    in [1, 2^39]: each coordinate of a contribution loses less than a step to rounding. It does not
    affect privacy or discrete noise. `rng` and `simulation` are as in `discrete_gaussian`.

    The mechanism is spent from a `ledger` before noise is drawn. Every call spends, also under one
    `LifetimeCap`. A key of ``ledger.using(key=...)`` must be new, so that no charge covers two.
    """
    bound, scale = _noise(contributions, mechanism)
    remedy = "Pass the lattice steps per standard deviation, such as 2**30."
    resolution = checks.real(
        "resolution", resolution, remedy, at_least=1, at_most=LARGEST_SCALE / 2
    )
    source = random_source(rng, simulation=simulation)
    is_discrete = isinstance(mechanism, DiscreteGaussian | DiscreteLaplace)
    exponent = 0 if is_discrete else _floor_log2(scale / Fraction(resolution))
    step = Fraction(2) ** exponent
    remedy = "Rescale the data: the noise's lattice step is too small for a float."
    checks.refuse_if(not float(step), "mechanism", mechanism, "of a larger scale", remedy)
    remedy = f"Pass a smaller one: {float(bound / step):.3g} steps per contribution are too many."
    checks.refuse_if(bound / step >= _LARGEST_INTEGER, "resolution", resolution, "smaller", remedy)
    is_gaussian = isinstance(mechanism, Gaussian | DiscreteGaussian)
    law = Law(scale / step, is_gaussian, is_rounded=not is_discrete)
    if ledger is not None:
        unit = "one user" if contributions.unit == "user" else ONE_RECORD
        checks.ledger(ledger, simulation=simulation).spend_release(
            mechanism, label="release_sum", unit=unit
        )
    # before noise is drawn: a retry after an error is a second release
    has_cap_right = contributions.has_cap_right if simulation else contributions.use_cap_right()
    rows: npt.NDArray[Any] = quantized(contributions.values, exponent)
    if len(rows) * math.ceil(bound / step) >= _LARGEST_INTEGER:
        rows = rows.astype(object)
    total = np.asarray(rows.sum(axis=0), dtype=rows.dtype)
    noisy = np.asarray(total + draw(law, total.shape, source).astype(total.dtype))
    with np.errstate(over="ignore"):  # a sum too large for a float becomes infinite
        values = np.asarray(np.ldexp(noisy.astype(np.float64), exponent))
    once, scales = has_cap_right and isinstance(mechanism, Gaussian), (float(scale), float(step))
    return Release(values, float(bound), mechanism, once, contributions.unit, *scales, simulation)


def quantized(values: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.int64]:
    """Return values as integer multiples of 2^exponent, rounded toward zero."""
    return np.trunc(np.ldexp(values, -exponent)).astype(np.int64)


def _noise(contributions: Any, mechanism: Any) -> tuple[Fraction, Fraction]:
    if not isinstance(contributions, Contributions):
        remedy = "Clip them first: clip_records(data, clip_norm=...) or clip_users(...)."
        shown = f"<{type(contributions).__name__}>"
        raise TypeError(checks.expected("contributions", shown, "Contributions", remedy))
    if isinstance(mechanism, DiscreteGaussian | DiscreteLaplace):
        return _integer_noise(contributions, mechanism)
    remedy = "Pass Gaussian(noise_multiplier) or Laplace(scale)."
    rule = "a mechanism that adds noise"
    checks.instance("mechanism", mechanism, Gaussian | Laplace, rule, remedy)
    remedy = "Leave replace_distance out: under REPLACE_ONE the sensitivity is 2 clip norms."
    distance = mechanism.replace_distance
    checks.refuse_if(distance != 2, "replace_distance", distance, "2", remedy)
    if isinstance(mechanism, Gaussian):
        bound, multiplier = contributions.bound_in("l2"), mechanism.noise_multiplier
    else:
        bound, multiplier = contributions.bound_in("l1"), mechanism.scale
    if not math.isfinite(bound * multiplier):
        remedy = "Rescale the data: the noise's scale is too large for a float."
        raise ValueError(checks.expected("mechanism", mechanism, "of a smaller scale", remedy))
    return Fraction(bound), Fraction(bound) * Fraction(multiplier)


def _integer_noise(
    contributions: Contributions, mechanism: DiscreteGaussian | DiscreteLaplace
) -> tuple[Fraction, Fraction]:
    """Return the bound on an integer contribution, and the noise's scale."""
    if math.prod(contributions.values.shape[1:]) != 1:
        remedy = "Release each coordinate alone, or pass Gaussian or Laplace noise."
        shown = f"values of shape {contributions.values.shape[1:]}"
        raise ValueError(checks.expected("contributions", shown, "one number each", remedy))
    bound = math.floor(contributions.bound_in("l1"))
    assert mechanism.replace_sensitivity is not None
    if mechanism.sensitivity < bound or mechanism.replace_sensitivity < 2 * bound:
        remedy = f"Pass sensitivity={bound} and leave replace_sensitivity out."
        rule = f"of sensitivity >= {bound} and replace_sensitivity >= {2 * bound}"
        raise ValueError(checks.expected("mechanism", mechanism, rule, remedy))
    if isinstance(mechanism, DiscreteGaussian):
        return Fraction(bound), Fraction(mechanism.sigma)
    return Fraction(bound), Fraction(mechanism.scale)


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1
