"""Rényi divergences for a group of records, by a chain of neighboring data sets.

docs/budgets.md ("Groups") has the bound; p is searched at each split in halves. For a Gaussian,
p = 2 - 1/a attains it. k^2 times a divergence is not a bound in general.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privacy.losses.divergences import Divergence
from privacy.losses.quadrature import Array
from privacy.numerics.rounding import U

_NEAR = 1 + np.exp(np.linspace(np.log(1e-3), np.log(15.0), 200))
# the sum at a whole order is faster than quadrature
_FAR = np.rint(np.exp(np.linspace(np.log(16.0), np.log(2.0**13), 120)))
_ORDERS = np.unique(np.concatenate([_NEAR, _FAR]))
_SHARES = 4.0 ** np.linspace(-1, 1, 25)


@dataclass(frozen=True)
class GroupDivergence(Divergence):
    """The divergence for `size` records, each changed in either direction."""

    parts: tuple[tuple[Divergence, int], ...]  # for one record, and their numbers of releases
    size: int  # number of records k >= 2

    def at(self, orders: Array) -> Array:
        """Return the bound, infinite if it needs orders above 2^13."""
        if self.size > _ORDERS[-1]:  # even near order 1, the last record needs order `size`
            return np.full(orders.size, np.inf)
        return _cut(_table(self, self.size - self.size // 2), self.size, orders, self)

    def of_one(self) -> Array:
        none = np.zeros(_ORDERS.size)
        total = sum((count * part.at(_ORDERS) for part, count in self.parts), start=none)
        worst: Array = total if total.ndim == 1 else total.max(axis=0)
        return worst * (1 + 2 * len(self.parts) * U)


@lru_cache(maxsize=64)
def _table(group: GroupDivergence, size: int) -> Array:
    if size == 1:
        return group.of_one()
    return _cut(_table(group, size - size // 2), size, _ORDERS, group)


def _cut(longer: Array, size: int, orders: Array, group: GroupDivergence) -> Array:
    """Return the bound for a chain from those of its halves, the smallest over several p."""
    half = size // 2
    a, above = orders[:, None], orders[:, None] - 1
    # for a Gaussian the best x = p - 1 is half (a - 1) / ((size - half) a); a - 1 is exact and
    # all other terms are sums of positive numbers, so that orders near 1 are accurate
    x = half * above / ((size - half) * a) * _SHARES
    gain = above + x * a
    first = gain / ((1 + x) * above) * _between(longer, gain)
    second = _between(_table(group, half), above / x * (1 + x))
    return np.asarray((first + second).min(axis=1) * (1 + 16 * U))


def _between(values: Array, above: Array) -> Array:
    """Return a bound at orders 1 + above, by chords (van Erven and Harremoës 2014, Corollary 2)."""
    x = np.concatenate([[0.0], _ORDERS - 1])
    y = np.concatenate([[0.0], (_ORDERS - 1) * values])
    with np.errstate(invalid="ignore"):
        chord = np.interp(above, x, y, right=np.inf) / above
    return np.asarray(np.where(np.isnan(chord), np.inf, chord) * (1 + 16 * U))
