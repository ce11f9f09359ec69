"""Integer noise with an exact distribution, drawn and proven in `privacy.release._laws`."""

import math
import os
from fractions import Fraction
from numbers import Rational, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy import checks
from privacy.release._laws import Integers, Law, Size, Source, draw

LARGEST_SCALE = 2**40


def random_source(rng: Any, *, simulation: bool) -> Source:
    """Return the source of random bytes: the operating system, or `rng` in a simulation."""
    remedy = "Pass True for a simulation, whose noise gives no privacy."
    if checks.flag("simulation", simulation, remedy):
        return np.random.default_rng(rng).bytes
    remedy = "Remove it: reproducible noise gives no privacy."
    checks.refuse_if(rng is not None, "rng", rng, "None unless simulation=True", remedy)
    return os.urandom


def discrete_gaussian(
    sigma: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    r"""Draw from the discrete Gaussian: P(x) proportional to exp(-x^2 / (2 sigma^2)) on integers.

    Added to a vector of integers of L2 sensitivity D, it gives (D^2 / (2 sigma^2))-zCDP (Canonne,
    Kamath and Steinke 2020): account for it as ``ZeroConcentratedDP``. The continuous
    Gaussian's profile does NOT hold for it. A sum of draws is not discrete Gaussian.

    `sigma`, in lattice steps, is in (0, 2^40] and taken exactly; for small sigma the standard
    deviation is less than sigma. `size` is the shape of the result. `rng`, a seed or a
    ``numpy.random.Generator``, needs ``simulation=True``: this noise gives no privacy.
    """
    law = Law(_exact("sigma", sigma), is_gaussian=True)
    return draw(law, size, random_source(rng, simulation=simulation))


def discrete_laplace(
    scale: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    """Draw from the discrete Laplace distribution: P(x) proportional to exp(-abs(x) / scale).

    Added to a vector of integers of L1 sensitivity D, it gives (D / scale)-DP: account for it as
    ``PureDP``. The profile of the continuous Laplace mechanism does NOT hold for it.
    Parameters are those of `discrete_gaussian`.
    """
    law = Law(_exact("scale", scale), is_gaussian=False)
    return draw(law, size, random_source(rng, simulation=simulation))


def rounded_gaussian(
    sigma: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    """Draw from a real Gaussian N(0, sigma^2) rounded to the nearest integer, exactly.

    An integer plus this noise is the rounded sum of the integer and Gaussian noise: post-processing
    of the Gaussian mechanism, with its whole privacy profile. Account for it as ``Gaussian``.
    `sigma`, in lattice steps, is in [1, 2^40]; the others are as in `discrete_gaussian`.
    """
    law = Law(_exact("sigma", sigma, at_least=1), is_gaussian=True, is_rounded=True)
    return draw(law, size, random_source(rng, simulation=simulation))


def rounded_laplace(
    scale: float | Fraction, size: Size, *, rng: Any = None, simulation: bool = False
) -> Integers:
    """Draw from a real Laplace distribution rounded to the nearest integer, exactly.

    Post-processing of the Laplace mechanism: account for it as ``Laplace``. `scale`, in lattice
    steps, is in [1, 2^40]; the others are as in `discrete_gaussian`.
    """
    law = Law(_exact("scale", scale, at_least=1), is_gaussian=False, is_rounded=True)
    return draw(law, size, random_source(rng, simulation=simulation))


def float_gaussian_for_simulation(
    sigma: float, size: Size, rng: Any = None
) -> npt.NDArray[np.float64]:
    """Draw Gaussian noise of standard deviation `sigma` >= 0 in floats. Never release it.

    One output may reveal which data set was used (Mironov 2012). `rng` is a seed or generator.
    """
    sigma = checks.real("sigma", sigma, "Pass the standard deviation of the noise.", at_least=0)
    return np.random.default_rng(rng).normal(0.0, sigma, size)


def _exact(name: str, value: Any, *, at_least: float | None = None) -> Fraction:
    remedy = "Rescale the data to bring it into this range."
    checks.real(name, value, remedy, above=0, at_least=at_least, at_most=LARGEST_SCALE)
    found = exact(value)
    assert found is not None
    return found


def exact(value: Any) -> Fraction | None:
    """Return a finite real number as a fraction, else None."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, Rational):  # NumPy integers overflow in Fraction arithmetic
        return Fraction(int(value.numerator), int(value.denominator))
    number = float(value)
    return Fraction(number) if math.isfinite(number) else None
