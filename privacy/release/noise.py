"""Noise on the integers whose law is exactly the stated one, from the system's random bytes.

Float noise has holes: which doubles a float sum plus float noise can reach depends on the sum, so
one output may prove which of two data sets was there (Mironov 2012). Noise on a lattice has no
holes, and everything here is decided on integers.

Why the laws are exact. Let t = 2^k and let E be the energy, x^2 / (2 sigma^2) or x / scale for
x >= 0; E is convex and E(0) = 0. Every law below has weight exp(-E(|x|)).

1. A block v = 0, 1, ... is drawn with probability proportional to exp(-E(t v)), by comparing one
   uniform number with the cumulative sums.
2. A place x in the block, t v <= x < t (v + 1), is drawn uniformly: k random bits for an integer,
   and ever more bits for a real number.
3. x is kept with probability exp(-(E(x) - E(t v))) <= 1, by comparing another uniform number. What
   is kept has weight exp(-E(t v)) exp(-(E(x) - E(t v))) = exp(-E(x)).
4. A fair sign is drawn. On the integers, the negative zero is thrown away, or zero would count
   twice. A real number is rounded to the nearest integer.

A uniform number is an endless sequence of bits of which the first `width` are looked at. They
leave it in an interval, and the number that it is compared with lies in another, certified one.
Where the two overlap more bits are drawn and the bounds are computed again, to more bits, on
Python's integers; it ends with probability 1. Only which branch decides depends on the width,
never the law.

The one statement about floats: in step 3 of the vectorised branch ``numpy.exp`` and the seven
operations before it, whose result is below 520, are trusted to a relative 2^-40 in all, more than
twice what they can add up to; what is nearer than that to the edge is decided on integers.
"""

import os
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from privacy import _checks

Source = Callable[[int], bytes]
"""Returns so many fresh random bytes: ``os.urandom``, or a seeded generator's in a simulation."""
Integers = npt.NDArray[np.int64]
Size = int | tuple[int, ...]

LARGEST_SCALE = 2**40
_BLOCKS = 8  # a scale is 8 to 16 blocks long, so that step 3 keeps nine of ten
_FRACTION_BITS = 10  # of a real number, in the first look
_LANES = 1 << 15  # at a time, so that they stay in the cache
_WIDTH = 16
_MORE = 64  # bits added by a refinement
_TRUST = 2.0**-40


def random_source(rng: Any, *, simulation: bool) -> Source:
    """Return where noise takes its bytes from: the system, or `rng` in a simulation.

    Raises
    ------
    ValueError, TypeError
        A seed or generator was given for noise that is to be released.
    """
    if not isinstance(simulation, bool):
        remedy = "Say True only for numbers that protect nobody."
        raise TypeError(_checks.expected("simulation", simulation, "True or False", remedy))
    if simulation:
        return np.random.default_rng(rng).bytes
    if rng is not None:
        remedy = (
            "Whoever knows the seed can take the noise off again. Leave rng out, or pass "
            "simulation=True for numbers that protect nobody."
        )
        raise ValueError(_checks.expected("rng", rng, "None for noise that is released", remedy))
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
    sigma = _checks.real("sigma", sigma, "Pass the standard deviation of the noise.", at_least=0)
    return np.random.default_rng(rng).normal(0.0, sigma, size)


def _exact(name: str, value: Any, *, at_least: float | None = None) -> Fraction:
    remedy = "Pass it in units of the lattice; a coarser lattice makes it smaller."
    _checks.real(name, value, remedy, above=0, at_least=at_least, at_most=LARGEST_SCALE)
    if not isinstance(value, Rational):
        return Fraction(float(value))
    # NumPy's integers overflow inside a fraction
    return Fraction(int(value.numerator), int(value.denominator))


@dataclass(frozen=True)
class Law:
    """The law of |x|: its energy, and how it is cut into blocks."""

    scale: Fraction
    is_gaussian: bool
    is_rounded: bool = False

    @property
    def block_bits(self) -> int:
        """Return k: a block has length 2^k."""
        bits = int(16 * self.scale / _BLOCKS).bit_length() - 5  # floor(log2(scale / 8))
        return bits if self.is_rounded else max(bits, 0)

    @property
    def offset_bits(self) -> int:
        """Return how many bits say where in its block a number is, in the first look."""
        return self.block_bits + _FRACTION_BITS if self.is_rounded else self.block_bits

    def energy(self, x: Fraction) -> Fraction:
        """Return E(x), x >= 0."""
        return x * x / (2 * self.scale**2) if self.is_gaussian else x / self.scale

    def gap(self, block: int, offset: int, bits: int) -> Fraction:
        """Return E(x) - E(start of the block), x being `offset` 2^-bits of the block further."""
        length = Fraction(2) ** self.block_bits
        start = block * length
        return self.energy(start + Fraction(offset, 2**bits) * length) - self.energy(start)

    def gaps(self, block: Integers, offset: Integers) -> tuple[Any, Any]:
        """Return `gap` in floats, and how much it can grow with the bits not yet seen."""
        unit = 2.0 ** (self.block_bits - self.offset_bits)
        x, unseen = offset * unit, unit if self.is_rounded else 0.0
        if not self.is_gaussian:
            return x / float(self.scale), unseen / float(self.scale)
        start, twice = block * 2.0**self.block_bits, float(2 * self.scale**2)
        return x * (2 * start + x) / twice, unseen * (2 * (start + x) + unseen) / twice


def exp_bounds(energy: Fraction, bits: int) -> tuple[int, int]:
    """Return integers on both sides of 2^bits exp(-energy), energy >= 0.

    The series of exp(z) at z = energy / 2^j <= 1/2 has positive terms, so rounding each of them
    down (up) bounds it from below (above); what follows a term is less than that term. Then j
    squarings and one division, each rounded to its side.
    """
    if energy > bits:  # e > 2
        return 0, 1
    halvings = (int(energy) + 1).bit_length() + 1
    point = bits + halvings + 32
    z = energy * 2 ** (point - halvings)
    low, high = (
        _exp(side * (side * z.numerator // z.denominator), point, side) for side in (1, -1)
    )
    for _ in range(halvings):
        low, high = low * low >> point, -(-high * high >> point)
    return (1 << bits + point) // high, -((-1 << bits + point) // low)


def _exp(z: int, point: int, side: int) -> int:
    """Return exp of a fixed-point number in [0, 1/2], rounded down (side 1) or up (side -1)."""
    total = term = 1 << point
    n = 0
    while term > 1:
        n += 1
        term = side * (side * term * z // (n << point))
        total += term
    return total if side == 1 else total + 1


@lru_cache(maxsize=64)
def block_bounds(law: Law, bits: int) -> tuple[list[int], list[int]]:
    """Return integers below and above 2^bits P(block <= v), for v = 0, 1, ...

    The list ends where the weight falls below 2^-bits. By convexity the weights fall at least by
    exp(-E/v) a block from there, so all that follow together weigh at most v / E as much as the
    last.
    """
    weights: list[tuple[int, int]] = []
    precision, v = bits + 16, 0
    while not weights or weights[-1][1] > 1:
        weights.append(exp_bounds(law.energy(v * Fraction(2) ** law.block_bits), precision))
        v += 1
    last = law.energy((v - 1) * Fraction(2) ** law.block_bits)
    rest_low, rest_high = 0, int((v - 1) / last) + 1
    sums = []
    for low, high in reversed(weights):
        sums.append((rest_low, rest_high))  # of what follows
        rest_low, rest_high = rest_low + low, rest_high + high
    below, above, seen_low, seen_high = [], [], 0, 0
    for (low, high), (rest_low, rest_high) in zip(weights, reversed(sums), strict=True):
        seen_low, seen_high = seen_low + low, seen_high + high
        below.append((seen_low << bits) // (seen_low + rest_high))
        above.append(-((-seen_high << bits) // (seen_high + rest_low)))
    return below, above


@lru_cache(maxsize=64)
def block_table(law: Law, width: int) -> npt.NDArray[np.int16]:
    """Return, for each first look at a uniform number, the block that it decides on, or -1."""
    extra = 32
    below, above = block_bounds(law, width + extra)
    table = np.full(1 << width, -1, dtype=np.int16)
    start = 0
    for v, (low, high) in enumerate(zip(below, above, strict=True)):
        table[start : low >> extra] = v
        start = -(-high >> extra)
    return table


def draw(law: Law, size: Size, source: Source, width: int = _WIDTH) -> Integers:
    """Draw from a law; `width` (8 or 16) is how many bits are looked at first."""
    result = np.empty(size, dtype=np.int64)
    flat = result.reshape(-1)
    filled = 0
    while filled < flat.size:
        missing = flat.size - filled
        lanes = _lanes(law, min(_LANES, missing + missing // 8 + 8), source, width)[:missing]
        flat[filled : filled + lanes.size] = lanes
        filled += lanes.size
    return result


def _words(source: Source, count: int, bits: int) -> npt.NDArray[Any]:
    dtype = np.min_scalar_type((1 << bits) - 1)
    return np.frombuffer(source(count * dtype.itemsize), dtype=dtype)


def _lanes(law: Law, count: int, source: Source, width: int) -> Integers:
    """Return what is kept of `count` tries."""
    look = _words(source, count, width)
    block = block_table(law, width)[look].astype(np.int64)
    for lane in np.flatnonzero(block < 0):
        block[lane] = _refined_block(law, int(look[lane]), width, source)
    bits = law.offset_bits
    word = _words(source, count, bits + 1).astype(np.int64)
    negative, offset = (word & 1).astype(bool), word >> 1 & (1 << bits) - 1
    kept = _kept(law, block, offset, source, width) if bits else np.ones(count, dtype=bool)
    size = (block << bits) + offset
    if law.is_rounded:
        size = (size + (1 << _FRACTION_BITS - 1)) >> _FRACTION_BITS
    else:
        kept &= ~(negative & (size == 0))
    noise: Integers = np.where(negative, -size, size)
    return noise[kept]


def _kept(
    law: Law, block: Integers, offset: Integers, source: Source, width: int
) -> npt.NDArray[np.bool_]:
    look = _words(source, block.size, width)
    gap, growth = law.gaps(block, offset)
    most = np.exp(-gap) * 2.0**width
    kept: npt.NDArray[np.bool_] = look + 1.0 <= most * (1 - growth - _TRUST)
    for lane in np.flatnonzero(~kept & (look < most * (1 + _TRUST))):
        kept[lane] = _refined_kept(
            law, int(block[lane]), int(offset[lane]), int(look[lane]), width, source
        )
    return kept


def _more(source: Source) -> int:
    return int.from_bytes(source(_MORE // 8), "little")


def _refined_block(law: Law, uniform: int, bits: int, source: Source) -> int:
    while True:
        uniform, bits = uniform << _MORE | _more(source), bits + _MORE
        below, above = block_bounds(law, bits)
        v = bisect_left(below, uniform + 1)  # below[v - 1] <= uniform < below[v]
        if v < len(below) and (v == 0 or above[v - 1] <= uniform):
            if v >= 1 << 15:
                raise OverflowError("The noise does not fit in 64 bits.")
            return v


def _refined_kept(
    law: Law, block: int, offset: int, uniform: int, bits: int, source: Source
) -> bool:
    offset_bits, open_end = law.offset_bits, int(law.is_rounded)
    while True:
        uniform, bits = uniform << _MORE | _more(source), bits + _MORE
        if law.is_rounded:
            offset, offset_bits = offset << _MORE | _more(source), offset_bits + _MORE
        if uniform + 1 <= exp_bounds(law.gap(block, offset + open_end, offset_bits), bits)[0]:
            return True
        if uniform >= exp_bounds(law.gap(block, offset, offset_bits), bits)[1]:
            return False


def bernoulli_exp(energy: Fraction, source: Source) -> bool:
    """Return True with probability exp(-energy), exactly; energy >= 0."""
    uniform, bits = 0, 0
    while True:
        uniform, bits = uniform << _MORE | _more(source), bits + _MORE
        low, high = exp_bounds(energy, bits)
        if uniform + 1 <= low:
            return True
        if uniform >= high:
            return False


def uniform_below(count: int, source: Source) -> int:
    """Return one of 0 ... count - 1, each exactly as likely."""
    bits = (count - 1).bit_length()
    while True:
        number = int.from_bytes(source(bits // 8 + 1), "little") & (1 << bits) - 1
        if number < count:
            return number
