"""Pairs of one kind, ordered by their parameters: which dominate, and fewer instead of many."""

from dataclasses import replace

import numpy as np

from privacy.losses.claims import ClaimPair
from privacy.losses.gaussian import AntipodalPair, SampledGaussianPair
from privacy.losses.laplace import LaplacePair, SampledLaplacePair
from privacy.losses.pair import LossPair
from privacy.losses.quadrature import Array, Index

Parts = tuple[tuple[LossPair, int], ...]
"""Pairs and their numbers of releases."""

_INCREASING: dict[type[LossPair], tuple[str, ...]] = {
    AntipodalPair: ("mu", "q"),
    ClaimPair: ("epsilon",),
    LaplacePair: ("distance",),
    SampledGaussianPair: ("mu", "q"),
    SampledLaplacePair: ("distance", "q"),
}
"""The fields with which the privacy loss increases: a pair with less is a postprocessing.

Postprocessing (added Gaussian noise, a mixture for Laplace noise, another response) reduces the
distance. A smaller sampling probability mixes the pair with a pair of equal distributions, and
hockey-stick divergences are jointly convex.
"""


def dominates(one: LossPair, other: LossPair) -> bool:
    """Return whether the profile of `one` is known to be at least that of `other` everywhere."""
    names = _INCREASING.get(type(one), ())
    if type(one) is not type(other) or _kind(one) != _kind(other):
        return False
    return all(getattr(one, name) >= getattr(other, name) for name in names)


def _kind(pair: LossPair) -> LossPair:
    """Return the pair without the fields that `fewer_parts` changes."""
    names = _INCREASING.get(type(pair))
    return replace(pair, **dict.fromkeys(names, 0.0)) if names else pair  # type: ignore[type-var]


def fewer_parts(parts: Parts, most: int, *, upper: bool = True) -> Parts:
    """Return fewer parts of at least (at most) the same loss, at most about `most` of a kind.

    Similar parts become equal to one with the largest (smallest) parameters among them.
    """
    return parts if len(parts) <= most else _merged(parts, most, upper=upper)[0]


def widest(parts: Parts, most: int) -> float:
    """Return the largest relative change of a parameter by `fewer_parts`."""
    return 0.0 if len(parts) <= most else _merged(parts, most, upper=True)[1]


def _merged(parts: Parts, most: int, *, upper: bool) -> tuple[Parts, float]:
    kinds: dict[LossPair, list[tuple[LossPair, int]]] = {}
    for pair, count in parts:
        kinds.setdefault(_kind(pair), []).append((pair, count))
    found: list[tuple[LossPair, int]] = []
    change = 0.0
    for kind, several in kinds.items():
        names = _INCREASING.get(type(kind), ())
        if len(several) <= most or not names:
            found += several
            continue
        values = np.array([[getattr(pair, name) for name in names] for pair, _ in several])
        cell = _cells(values, most)
        order = np.argsort(cell, kind="stable")
        starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
        each = np.array([count for _, count in several], dtype=object)  # sums may exceed 2^63
        counts = np.add.reduceat(each[order], starts)
        low, high = (way.reduceat(values[order], starts) for way in (np.minimum, np.maximum))
        with np.errstate(divide="ignore", over="ignore"):
            ratio = np.divide(high, low, out=np.ones_like(high), where=high > low)
        change = max(change, float(ratio.max()) - 1)
        for level, count in zip((high if upper else low).tolist(), counts.tolist(), strict=True):
            found.append((replace(kind, **dict(zip(names, level, strict=True))), count))  # type: ignore[type-var]
    return tuple(found), change


def _cells(values: Array, most: int) -> Index:
    """Return the cell of each row, by the logs of its columns and their ranks.

    A cell covers at most twice its share of the range and of the rows, on each axis.
    """
    logs = np.log(np.clip(values, 1e-300, 1e300))
    varying = np.flatnonzero(np.ptp(logs, axis=0) > 0)
    count = int(most ** (1 / max(varying.size, 1)))
    cell = np.zeros(len(values), dtype=np.intp)
    for axis in varying:
        column = logs[:, axis]
        place = (column - column.min()) / np.ptp(column)
        rank = np.unique(column, return_inverse=True)[1] / len(column)
        cell = cell * count + np.minimum(0.5 * (place + rank) * count, count - 1).astype(np.intp)
    return cell
