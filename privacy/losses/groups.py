"""The sampled Gaussian for a group of sampled records (docs/theory/contour.md)."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeVar

import numpy as np

from privacy.losses.densities import log_sum, refuse_beyond
from privacy.losses.mixtures import AgainstNormal
from privacy.losses.profiles import Profile
from privacy.losses.quadrature import Array, Complex, Direction
from privacy.numerics.normal import log_tail
from privacy.numerics.rounding import U
from privacy.numerics.solve import safe_root

_LEAST = 1e-60  # total probability of the numbers of records that `likely` omits
_ENTRIES, _MOST_ENTRIES = 2**20, 2**23  # nodes times centers: per block, in total
_A = TypeVar("_A", Array, Complex)


@dataclass(frozen=True)
class GroupSampledGaussian(AgainstNormal):
    """sum over j of Bin(j; k, q) N(j, s^2) against N(0, s^2): k independently sampled records.

    `most` is the largest j in the mixture, by default k. `lost` accounts for the mass beyond if the
    mixture is P; if it is Q, omitting it only increases delta.
    """

    sampling_probability: float
    noise_multiplier: float
    size: int
    most: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", self.most or self.size)

    def likely(self) -> "GroupSampledGaussian":
        """Return the model without the largest numbers of records, of total probability 1e-60."""
        return replace(self, most=_likely(self.size, self.sampling_probability))

    def lost(self, direction: Direction) -> float:
        """Return an upper bound on P(j > most) if the mixture is P, else 0."""
        if direction == "add" or self.most == self.size:
            return 0.0
        return _LEAST

    @property
    def _ulps(self) -> float:  # type: ignore[override]
        return 64.0 + 8 * self.most

    @property
    def _reach(self) -> float:
        return math.pi / self._span

    @property
    def _span(self) -> float:
        return self.most * self.shift

    def stack_key(self, t: float) -> Hashable:
        return self

    def _rounded_probability(self, t: float) -> float:
        """Return the probability itself, for which the weights are cached."""
        return self.sampling_probability

    def supremum(self, direction: Direction) -> float:
        """Return k log(1 / (1 - q)) when adding, for an output with no sampled record."""
        q = self.sampling_probability
        return math.inf if direction == "remove" else self.size * -math.log1p(-q)

    def centers(self) -> tuple[Array, Array]:
        place, weight, _ = self._centers()
        return place, weight

    def _centers(self) -> tuple[Array, Array, Array]:
        kept = slice(self.most + 1)
        j, weight, log_weight = _binomial(self.size, self.sampling_probability)
        return j[kept] * self.shift, weight[kept], log_weight[kept]

    def _exponents(self, z: Array) -> tuple[Array, Array, Array, Array]:
        place, weight, log_weight = self._centers()
        return place, weight, log_weight, np.multiply.outer(z, place) - 0.5 * place * place

    def pull(self, z: float) -> float:
        place, _, log_weight, exponent = self._exponents(np.array(z))
        tilted = np.exp(log_weight + exponent - (log_weight + exponent).max())
        return float(tilted @ place / tilted.sum())

    def log_ratio(self, z: Array) -> Array:
        return self._in_blocks(self._log_ratio, z, 1)

    def _log_ratio(self, z: Array) -> Array:
        _, weight, log_weight, exponent = self._exponents(z)
        excess = np.expm1(np.minimum(exponent, 700.0)) @ weight
        far = log_sum(log_weight + exponent)
        return np.where(np.abs(excess) < 0.5, np.log1p(np.clip(excess, -0.5, 0.5)), far)

    def _log_mixture(self, z: Array) -> Array:
        place, _, log_weight = self._centers()

        def block(some: Array) -> Array:
            return log_sum(log_weight - 0.5 * np.subtract.outer(some, place) ** 2)

        return self._in_blocks(block, z, 1)

    def _line_ratio(self, x: Array, y: Array | float) -> Complex:
        return self._in_blocks(lambda some: self._ratio_at(some, y), x, np.size(y))

    def _in_blocks(self, function: Callable[[Array], _A], x: Array, depths: int) -> _A:
        """Return f(x) in blocks of limited size; OverflowError if the whole table is too large."""
        entries = x.size * depths * (self.most + 1)
        refuse_beyond(_MOST_ENTRIES, entries)
        blocks = np.array_split(x, math.ceil(entries / _ENTRIES) or 1)
        return np.concatenate([function(block) for block in blocks], axis=-1)

    def _ratio_at(self, x: Array, y: Array | float) -> Complex:
        place, weight, log_weight, exponent = self._exponents(x)
        turn = np.multiply.outer(np.asarray(y), place)
        real = log_weight + exponent
        top = real.max(axis=-1, keepdims=True)
        out: Complex = np.log((np.exp(real - top) * np.exp(1j * turn)).sum(axis=-1)) + top[..., 0]
        # if the ratio is near 1, log |ratio| is computed from the sum minus 1
        near = np.exp(np.minimum(exponent, 300.0))
        excess = (np.expm1(np.minimum(exponent, 300.0)) - near * 2 * np.sin(turn / 2) ** 2) @ weight
        square = 2 * excess + excess**2 + ((near * np.sin(turn)) @ weight) ** 2
        small = np.abs(square) < 0.5
        out.real = np.where(small, 0.5 * np.log1p(np.where(small, square, 0.0)), out.real)
        return out


@lru_cache(maxsize=64)
def _binomial(size: int, q: float) -> tuple[Array, Array, Array]:
    """Return j = 0 .. size, Bin(j; size, q) accurate to an ulp, and its log."""
    numerators, bits = _numerators(size, q)
    # the leading 64 bits of each, and a power of 2 that may exceed the float range
    powers = [max(n.bit_length() - 64, 0) for n in numerators]
    digits = [n >> power for n, power in zip(numerators, powers, strict=True)]
    scales = [power - bits for power in powers]
    weight = [math.ldexp(d, scale) for d, scale in zip(digits, scales, strict=True)]
    log_weight = [
        math.log(w) if w > 1e-300 else math.log(d) + scale * math.log(2)
        for w, d, scale in zip(weight, digits, scales, strict=True)
    ]
    return np.arange(size + 1.0), np.array(weight), np.array(log_weight)


@lru_cache(maxsize=64)
def _likely(size: int, q: float) -> int:
    numerators, bits = _numerators(size, q)
    above, below = _LEAST.as_integer_ratio()
    allowed, most = (above << bits) // below - numerators[size], size
    while allowed >= 0:
        most -= 1
        allowed -= numerators[most]
    return most


def _numerators(size: int, q: float) -> tuple[list[int], int]:
    kept, whole = q.as_integer_ratio()
    dropped = whole - kept
    numerators = [dropped**size]
    for j in range(size):
        numerators.append(numerators[-1] * ((size - j) * kept) // ((j + 1) * dropped))
    return numerators, size * (whole.bit_length() - 1)


@lru_cache(maxsize=64)
def _sampled(size: int, q: float) -> float:
    return float(1 - (1 - Fraction(q)) ** size)


@dataclass(frozen=True)
class GroupSampledProfile(Profile):
    """The profile of one release of `GroupSampledGaussian`, in the worse direction.

    The loss L increases with x. Removing: R(X > x) - e^epsilon N(X > x) at L(x) = epsilon.
    Adding: N(X < x) - e^epsilon R(X < x) at L(x) = -epsilon. Both are stationary in x, so that x
    needs no error bound. If there is no such x, delta is 0. The center that R and N share is
    removed from both before subtraction, for relative accuracy at small q.
    """

    mu: float
    q: float
    size: int

    def log_delta(self, epsilon: float) -> float:
        return max(self._removing(epsilon), self._adding(epsilon))

    def _removing(self, epsilon: float) -> float:
        # R - e^epsilon N is the part of the other centers minus (e^epsilon - w_0) N
        rest = -math.expm1(-epsilon) + self._some * math.exp(-epsilon)
        level = math.log(rest) + epsilon
        x = self._place(level)
        return self._share(self._log_mass(x), level + log_tail(x), x, epsilon)

    def _adding(self, epsilon: float) -> float:
        _, weight, _ = _binomial(self.size, self.q)
        kept, none = math.exp(-epsilon), float(weight[0])
        some, drop = self._some, -math.expm1(-epsilon)
        # e^-epsilon - w_0, rounded up, which increases delta
        gap = min(kept - none + 4 * U * (kept + none), some - drop + 4 * U * (some + drop))
        if gap <= 0:
            return -math.inf
        x = self._place(math.log(gap))
        ours = math.log(gap) + epsilon + log_tail(-x)
        return self._share(ours, epsilon + self._log_mass(x, below=True), x, epsilon)

    @property
    def _some(self) -> float:
        return _sampled(self.size, self.q)

    def _log_mass(self, x: float, *, below: bool = False) -> float:
        j, _, log_weight = _binomial(self.size, self.q)
        side = -1 if below else 1
        tails = [log_tail(side * (x - center)) for center in (j[1:] * self.mu).tolist()]
        return float(log_sum(log_weight[1:] + np.array(tails)))

    def _place(self, level: float) -> float:
        """Return the x at which the part of dR/dN from centers other than 0 has log `level`.

        The part is at most P(some are sampled) e^(mu x), x <= 0, at least its last term.
        """
        j, _, log_weight = _binomial(self.size, self.q)
        place = j[1:] * self.mu
        base = log_weight[1:] - 0.5 * place * place
        low = min(0.0, (level - math.log(self._some)) / self.mu)
        high = (level - float(base[-1])) / float(place[-1])
        return safe_root(lambda x: float(log_sum(base + place * x)) - level, low, high)

    def _share(self, ours: float, theirs: float, x: float, epsilon: float) -> float:
        reach = abs(x) + self.size * self.mu
        rounding = U * (64 + 8 * self.size + 8 * reach * reach + 16 * (epsilon + abs(ours)))
        return min(0.0, ours + math.log(max(-math.expm1(theirs - ours), 0.0) + 3 * rounding))
