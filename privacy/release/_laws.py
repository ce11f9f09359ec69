"""Exact sampling of integer noise; docs/theory/exact-noise.md has the algorithm and its proof."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

Source = Callable[[int], bytes]
"""Returns that many random bytes: ``os.urandom``, or a seeded generator in a simulation."""
Integers = npt.NDArray[np.int64]
Size = int | tuple[int, ...]

_BLOCKS = 8  # a scale is 8 to 16 blocks long, so that step 3 accepts about 90 %
_FRACTION_BITS = 10  # bits of a real number that are drawn first
_LANES = 1 << 15  # trials at a time, which fit in the cache
_WIDTH = 16
MORE = 64  # bits added by a refinement
_TRUST = 2.0**-40


@dataclass(frozen=True)
class Law:
    """The distribution of |x|: its energy, and its division into blocks."""

    scale: Fraction
    is_gaussian: bool
    is_rounded: bool = False

    @cached_property
    def block_bits(self) -> int:
        bits = int(16 * self.scale / _BLOCKS).bit_length() - 5  # floor(log2(scale / 8))
        return bits if self.is_rounded else max(bits, 0)

    @property
    def offset_bits(self) -> int:
        """Return the number of bits first drawn for the position in the block."""
        return self.block_bits + _FRACTION_BITS if self.is_rounded else self.block_bits

    def energy(self, x: Fraction) -> Fraction:
        return x * x / (2 * self.scale**2) if self.is_gaussian else x / self.scale

    def gap(self, block: int, offset: int, bits: int) -> Fraction:
        length = Fraction(2) ** self.block_bits
        start = block * length
        return self.energy(start + Fraction(offset, 2**bits) * length) - self.energy(start)

    def gaps(self, block: Integers, offset: Integers) -> tuple[Any, Any]:
        """Return `gap` in floats, and its largest increase from the bits not yet drawn."""
        unit = 2.0 ** (self.block_bits - self.offset_bits)
        x, unseen = offset * unit, unit if self.is_rounded else 0.0
        if not self.is_gaussian:
            return x / float(self.scale), unseen / float(self.scale)
        start, twice = block * 2.0**self.block_bits, float(2 * self.scale**2)
        return x * (2 * start + x) / twice, unseen * (2 * (start + x) + unseen) / twice


def exp_bounds(energy: Fraction, bits: int) -> tuple[int, int]:
    """Return integers below and above 2^bits exp(-energy), energy >= 0.

    The series of exp(z) at z = energy / 2^j <= 1/2 has positive terms: rounding each down (up)
    bounds it, and the remainder after a term is less than that term. j squarings and one division
    follow, each rounded in its direction.
    """
    if energy > bits:  # e > 2
        return 0, 1
    halvings = (int(energy) + 1).bit_length() + 1
    point = bits + halvings + 32
    z = energy * 2 ** (point - halvings)
    low, high = (_exp(s * (s * z.numerator // z.denominator), point, s) for s in (1, -1))
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

    The list ends where the weight falls below 2^-bits. By convexity, each further weight is at most
    exp(-E/v) times the one before, so the rest together is at most v / E times the last.
    """
    weights: list[tuple[int, int]] = []
    precision, v = bits + 16, 0
    while not weights or weights[-1][1] > 1:
        weights.append(exp_bounds(law.energy(v * Fraction(2) ** law.block_bits), precision))
        v += 1
    rest_low, rest_high = 0, int((v - 1) / law.energy((v - 1) * Fraction(2) ** law.block_bits)) + 1
    sums = []
    for low, high in reversed(weights):
        sums.append((rest_low, rest_high))  # sums of the later weights
        rest_low, rest_high = rest_low + low, rest_high + high
    below, above, seen_low, seen_high = [], [], 0, 0
    for (low, high), (rest_low, rest_high) in zip(weights, reversed(sums), strict=True):
        seen_low, seen_high = seen_low + low, seen_high + high
        below.append((seen_low << bits) // (seen_low + rest_high))
        above.append(-((-seen_high << bits) // (seen_high + rest_low)))
    return below, above


@lru_cache(maxsize=64)
def block_table(law: Law, width: int) -> npt.NDArray[np.int16]:
    """Return, for each first `width` bits of a uniform number, the block they decide, or -1."""
    extra = 32
    below, above = block_bounds(law, width + extra)
    table = np.full(1 << width, -1, dtype=np.int16)
    start = 0
    for v, (low, high) in enumerate(zip(below, above, strict=True)):
        table[start : low >> extra] = v
        start = -(-high >> extra)
    return table


def draw(law: Law, size: Size, source: Source, width: int = _WIDTH) -> Integers:
    """Draw from a distribution; `width` (8 or 16) is the number of bits drawn first."""
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
        drawn = int(block[lane]), int(offset[lane]), int(look[lane])
        kept[lane] = _refined_kept(law, *drawn, width, source)
    return kept


def more_bits(source: Source) -> int:
    """Return the bits of a refinement."""
    return int.from_bytes(source(MORE // 8), "little")


def _refined_block(law: Law, uniform: int, bits: int, source: Source) -> int:
    while True:
        uniform, bits = uniform << MORE | more_bits(source), bits + MORE
        below, above = block_bounds(law, bits)
        v = bisect_left(below, uniform + 1)  # below[v - 1] <= uniform < below[v]
        if v < len(below) and (v == 0 or above[v - 1] <= uniform):
            if v >= 1 << 15:
                raise OverflowError("The noise does not fit in 64 bits. Reduce its scale.")
            return v


def _refined_kept(
    law: Law, block: int, offset: int, uniform: int, bits: int, source: Source
) -> bool:
    offset_bits, open_end = law.offset_bits, int(law.is_rounded)
    while True:
        uniform, bits = uniform << MORE | more_bits(source), bits + MORE
        if law.is_rounded:
            offset, offset_bits = offset << MORE | more_bits(source), offset_bits + MORE
        if uniform + 1 <= exp_bounds(law.gap(block, offset + open_end, offset_bits), bits)[0]:
            return True
        if uniform >= exp_bounds(law.gap(block, offset, offset_bits), bits)[1]:
            return False


def bernoulli_exp(energy: Fraction, source: Source) -> bool:
    uniform, bits = 0, 0
    while True:
        uniform, bits = uniform << MORE | more_bits(source), bits + MORE
        low, high = exp_bounds(energy, bits)
        if uniform + 1 <= low:
            return True
        if uniform >= high:
            return False


def uniform_below(count: int, source: Source) -> int:
    bits = (count - 1).bit_length()
    while True:
        number = int.from_bytes(source(bits // 8 + 1), "little") & (1 << bits) - 1
        if number < count:
            return number
