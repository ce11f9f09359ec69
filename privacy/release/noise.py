"""Noise on the integers whose law is exactly the stated one, from the system's random bytes.

Float noise has holes: which doubles a float sum plus float noise can reach depends on the sum, so
one output may prove which of two data sets was there (Mironov 2012). Noise on a lattice has no
holes, and everything here is decided on integers.

Why the laws are exact stands in `privacy.release._laws`, which draws from them.
"""

import os
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy import checks
from privacy.release._laws import Integers, Law, Size, Source, draw

LARGEST_SCALE = 2**40


def random_source(rng: Any, *, simulation: bool) -> Source:
    """Return where noise takes its bytes from: the system, or `rng` in a simulation.

    Raises
    ------
    ValueError, TypeError
        A seed or generator was given for noise that is to be released.
    """
    if not isinstance(simulation, bool):
        remedy = "Say True only for numbers that protect nobody."
        raise TypeError(checks.expected("simulation", simulation, "True or False", remedy))
    if simulation:
        return np.random.default_rng(rng).bytes
    if rng is not None:
        remedy = (
            "Whoever knows the seed can take the noise off again. Leave rng out, or pass "
            "simulation=True for numbers that protect nobody."
        )
        raise ValueError(checks.expected("rng", rng, "None for noise that is released", remedy))
    return os.urandom


def discrete_gaussian(
    sigma: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    r"""Draw from the discrete Gaussian: P(x) proportional to exp(-x^2 / (2 sigma^2)) on integers.

    Added to a vector of integers whose L2 sensitivity is D it is (D^2 / (2 sigma^2))-zCDP (Canonne,
    Kamath and Steinke 2020): account it as ``ZeroConcentratedDP``. The profile of the continuous
    Gaussian does NOT hold for it, and the sum of several draws is not a discrete Gaussian: noise
    that parties add one by one has another law and needs its own accounting. `rounded_gaussian`
    has the continuous profile.

    Parameters
    ----------
    sigma
        Parameter, in units of the lattice, in (0, 2^40]. A float means the number that it is,
        exactly; a fraction is taken as it is. For small sigma the standard deviation is less.
    size
        Shape of the result.
    rng
        A seed or ``numpy.random.Generator``, in a simulation alone.
    simulation
        Say True to use `rng`; the result must then protect nobody.

    Returns
    -------
    ndarray of int64

    Raises
    ------
    ValueError, TypeError
        A value is outside its domain, or `rng` was given without ``simulation=True``.

    Examples
    --------
    >>> from privacy.release.noise import discrete_gaussian
    >>> discrete_gaussian(10, 5, rng=1, simulation=True).dtype
    dtype('int64')
    """
    law = Law(_exact("sigma", sigma), is_gaussian=True)
    return draw(law, size, random_source(rng, simulation=simulation))


def discrete_laplace(
    scale: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    """Draw from the discrete Laplace law: P(x) proportional to exp(-abs(x) / scale).

    Added to a vector of integers whose L1 sensitivity is D it is (D / scale)-DP: account it as
    ``PureDP``. The profile of the continuous Laplace mechanism does NOT hold for it.

    Parameters
    ----------
    scale
        Parameter, in units of the lattice, in (0, 2^40]; a float means the number that it is.
    size, rng, simulation
        As in `discrete_gaussian`.

    Returns
    -------
    ndarray of int64
    """
    law = Law(_exact("scale", scale), is_gaussian=False)
    return draw(law, size, random_source(rng, simulation=simulation))


def rounded_gaussian(
    sigma: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    """Draw the nearest integer to a Gaussian N(0, sigma^2) of the real numbers, exactly.

    An integer plus this noise is the rounded sum of that integer and Gaussian noise, so it is
    post-processing of the Gaussian mechanism: its whole profile holds, and ``Gaussian`` accounts
    it.

    Parameters
    ----------
    sigma
        Standard deviation before the rounding, in units of the lattice, in [1, 2^40].
    size, rng, simulation
        As in `discrete_gaussian`.

    Returns
    -------
    ndarray of int64
    """
    law = Law(_exact("sigma", sigma, at_least=1), is_gaussian=True, is_rounded=True)
    return draw(law, size, random_source(rng, simulation=simulation))


def rounded_laplace(
    scale: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    """Draw the nearest integer to a Laplace variable of the real numbers, exactly.

    Post-processing of the Laplace mechanism, as `rounded_gaussian` is of the Gaussian one:
    ``Laplace`` accounts it.

    Parameters
    ----------
    scale
        Scale before the rounding, in units of the lattice, in [1, 2^40].
    size, rng, simulation
        As in `discrete_gaussian`.

    Returns
    -------
    ndarray of int64
    """
    law = Law(_exact("scale", scale, at_least=1), is_gaussian=False, is_rounded=True)
    return draw(law, size, random_source(rng, simulation=simulation))


def float_gaussian_for_simulation(
    sigma: float, size: Size, rng: Any = None
) -> npt.NDArray[np.float64]:
    """Draw from a Gaussian in floats, for experiments on data that need no protection.

    Its low bits tell which sum it was added to (Mironov 2012): never release it.

    Parameters
    ----------
    sigma
        Standard deviation >= 0, in the data's unit.
    size
        Shape of the result.
    rng
        A seed or ``numpy.random.Generator``.

    Returns
    -------
    ndarray of float64
    """
    sigma = checks.real("sigma", sigma, "Pass the standard deviation of the noise.", at_least=0)
    return np.random.default_rng(rng).normal(0.0, sigma, size)


def _exact(name: str, value: Any, *, at_least: float | None = None) -> Fraction:
    remedy = "Pass it in units of the lattice; a coarser lattice makes it smaller."
    checks.real(name, value, remedy, above=0, at_least=at_least, at_most=LARGEST_SCALE)
    if not isinstance(value, Rational):
        return Fraction(float(value))
    # NumPy's integers overflow inside a fraction
    return Fraction(int(value.numerator), int(value.denominator))
