"""Releasing a noisy sum: the values, the bound on a contribution, and the mechanism to account."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy import checks
from privacy.mechanisms import Gaussian, Laplace
from privacy.release._laws import Law, draw
from privacy.release.clipping import Contributions
from privacy.release.noise import LARGEST_SCALE, random_source

_LARGEST_INTEGER = 2**62


@dataclass(frozen=True)
class Release:
    """A noisy sum that may be published, and what it cost.

    Parameters
    ----------
    values
        The sum with its noise, of shape () or (d,), on multiples of `step`.
    contribution_bound
        How far one record or user moves the sum when added, removed or zeroed, in the norm that
        the noise is for; replacing one moves it by up to twice that.
    mechanism
        What to account, in any relation: its whole profile holds.
    charged_once
        True where `mechanism` covers ALL releases under one `LifetimeCap` with noise of this scale:
        account for it once. False: account for it at every release, such as a second one of the
        same contributions.
    unit
        Whom that protects: ``"record"`` or ``"user"``.
    scale
        Standard deviation of Gaussian noise (sigma), or scale of Laplace noise, in the data's unit.
    step
        Distance of the lattice, a power of two.
    is_simulation
        The noise came from a generator that can be run again: the values protect nobody.
    """

    values: npt.NDArray[np.float64]
    contribution_bound: float
    mechanism: Gaussian | Laplace
    charged_once: bool
    unit: str
    scale: float
    step: float
    is_simulation: bool


def release_sum(
    contributions: Contributions,
    mechanism: Gaussian | Laplace,
    *,
    resolution: float = 2.0**30,
    rng: Any = None,
    simulation: bool = False,
) -> Release:
    """Release the sum of clipped contributions under a mechanism that was calibrated before.

    Every contribution is rounded toward zero to a lattice, which lengthens no norm; the integers
    are added without error; and the nearest integers to real Gaussian (Laplace) noise are added to
    them. An integer plus the rounded noise is the rounding of that integer plus the noise: this is
    post-processing of the Gaussian (Laplace) mechanism, and all that is known about that one holds
    for this, in every relation and composition. No term is added for the lattice.

    Parameters
    ----------
    contributions
        From `clip_records`, `clip_users` or `LifetimeCap.clip_users`.
    mechanism
        ``Gaussian(noise_multiplier)``, noise for the L2 bound, or ``Laplace(scale)``, noise for the
        L1 bound. A `replace_distance` below 2 is refused: nothing keeps two clipped records nearer
        than that.
    resolution
        At least how many steps of the lattice the noise's scale has, in [1, 2^39]. It decides how
        finely contributions are rounded (each loses less than a step), not how private the sum is.
    rng, simulation
        A seed or generator for a simulation; the release then protects nobody.

    Returns
    -------
    Release

    Raises
    ------
    ValueError, TypeError
        A value is outside its domain, or `rng` was given without ``simulation=True``.

    Examples
    --------
    >>> import privacy as dp
    >>> noise = dp.Gaussian(dp.noise_multiplier(epsilon=1, delta=1e-6))
    >>> release = dp.release_sum(dp.clip_records([0.5, 9.0, -1.0], clip_norm=2.0), noise)
    >>> dp.account(release.mechanism).epsilon(1e-6) <= 1
    True
    >>> release.contribution_bound
    2.0
    """
    bound, scale = _noise(contributions, mechanism)
    remedy = "Pass how many steps of the lattice one standard deviation has, such as 2**30."
    resolution = checks.real(
        "resolution", resolution, remedy, at_least=1, at_most=LARGEST_SCALE / 2
    )
    source = random_source(rng, simulation=simulation)
    exponent = _floor_log2(scale / Fraction(resolution))
    step = Fraction(2) ** exponent
    if not float(step):
        remedy = "Its noise on these contributions is too small for a float: rescale the data."
        raise ValueError(checks.expected("mechanism", mechanism, "larger", remedy))
    if bound / step >= _LARGEST_INTEGER:
        remedy = f"One contribution has {float(bound / step):.3g} steps: pass a smaller resolution."
        raise ValueError(checks.expected("resolution", resolution, "smaller", remedy))
    law = Law(scale / step, isinstance(mechanism, Gaussian), is_rounded=True)
    # before there is noise: whoever tries again after an error makes a second release
    for_life = contributions.for_life if simulation else contributions.take_life()
    total = _sum(quantised(contributions.values, exponent), math.ceil(bound / step))
    noisy = np.asarray(total + draw(law, np.shape(total), source).astype(np.asarray(total).dtype))
    with np.errstate(over="ignore"):  # a sum too large for a float is infinite
        values = np.asarray(np.ldexp(noisy.astype(np.float64), exponent))
    return Release(
        values,
        float(bound),
        mechanism,
        for_life and law.is_gaussian,
        contributions.unit,
        float(scale),
        float(step),
        is_simulation=simulation,
    )


def quantised(values: npt.NDArray[np.float64], exponent: int) -> npt.NDArray[np.int64]:
    """Return values as whole multiples of 2^exponent, rounded toward zero."""
    return np.trunc(np.ldexp(values, -exponent)).astype(np.int64)


def _sum(rows: npt.NDArray[np.int64], largest: int) -> Any:
    """Return the exact sum of the rows, whose coordinates are at most `largest`."""
    if len(rows) * largest < _LARGEST_INTEGER:
        return rows.sum(axis=0)
    return np.asarray(rows.astype(object).sum(axis=0), dtype=object)


def _noise(contributions: Any, mechanism: Any) -> tuple[Fraction, Fraction]:
    """Return the bound in the norm that the noise is for, and the noise's scale."""
    if not isinstance(contributions, Contributions):
        remedy = "Bound them first: clip_records(data, clip_norm=...) or clip_users(...)."
        shown = f"<{type(contributions).__name__}>"
        raise TypeError(checks.expected("contributions", shown, "Contributions", remedy))
    if not isinstance(mechanism, Gaussian | Laplace):
        remedy = "Pass the noise: Gaussian(noise_multiplier) or Laplace(scale)."
        raise TypeError(checks.expected("mechanism", mechanism, "Gaussian or Laplace", remedy))
    if mechanism.replace_distance != 2:
        remedy = "A clipped record that is replaced moves a sum by up to 2 clip norms."
        raise ValueError(checks.expected("replace_distance", mechanism, "2", remedy))
    if isinstance(mechanism, Gaussian):
        bound, multiplier = contributions.bound_in("l2"), mechanism.noise_multiplier
    else:
        bound, multiplier = contributions.bound_in("l1"), mechanism.scale
    if not math.isfinite(bound * multiplier):
        remedy = "Its noise on these contributions is too large for a float: rescale the data."
        raise ValueError(checks.expected("mechanism", mechanism, "smaller", remedy))
    return Fraction(bound), Fraction(bound) * Fraction(multiplier)


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1
