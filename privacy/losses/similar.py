"""Pairs of one kind, ordered by their parameters: which dominate, and fewer instead of many."""

import math
from collections.abc import Hashable, Iterable
from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from privacy.losses.claims import ClaimPair
from privacy.losses.gaussian import AntipodalPair, SampledGaussianPair
from privacy.losses.laplace import LaplacePair
from privacy.losses.pair import LossPair
from privacy.losses.quadrature import Array, Index
from privacy.numerics.rounding import U

Parts = tuple[tuple[LossPair, int], ...]
"""Pairs and their numbers of releases."""

_INCREASING: dict[Any, tuple[str, ...]] = {
    AntipodalPair: ("mu", "q"),
    ClaimPair: ("epsilon",),
    LaplacePair: ("distance", "q"),
    SampledGaussianPair: ("mu", "q"),
}
"""The fields with which the privacy loss increases: a pair with smaller ones is a postprocessing.

Postprocessing (added Gaussian noise, a mixture for Laplace noise, another response) reduces the
distance. A smaller sampling probability mixes the pair with a pair of equal distributions, and
hockey-stick divergences are jointly convex.
"""
_STEP, _FEWEST = 0.015, 32  # log of the ratio of two nodes of a mixture; fewest nodes
_FIXED = {
    kind: tuple(field.name for field in fields(kind) if field.name not in names)
    for kind, names in _INCREASING.items()
}


def dominates(one: LossPair, other: LossPair) -> bool:
    """Return whether the profile of `one` is known to be at least that of `other` everywhere."""
    names = _INCREASING.get(type(one), ())
    if _kind(one) != _kind(other):
        return False
    return all(getattr(one, name) >= getattr(other, name) for name in names)


def _kind(pair: LossPair) -> Any:
    """Return a key that pairs share if they differ only in the fields of `_INCREASING`.

    Laplace noise has another key with sampling than without: only without, it is symmetric.
    """
    fixed = _FIXED.get(type(pair))
    if fixed is None:
        return pair
    return (type(pair), pair.symmetric, *(getattr(pair, name) for name in fixed))


class Blend(NamedTuple):
    """Pairs of one kind that differ in one parameter, bounded by mixtures of few."""

    nodes: tuple[LossPair, ...]  # with increasing parameters
    cell: Index  # for each pair, the index of the first of two successive nodes
    share: Array  # the probability with which a public choice takes the second one
    times: Array  # the number of releases
    ratio: float  # the largest ratio of the total variation distances of two successive nodes


def blended(parts: Parts, most: int) -> tuple[Parts, tuple[Blend, ...]]:
    """Return the parts that are left, and mixtures of at most about `most` pairs for the others.

    Let delta_x be the profile of the pair with parameter x. In all these families,
    (delta_x - delta_a) / (delta_b - delta_a) for a < x < b is largest at epsilon = 0: delta_x is
    linear in a function of x for epsilon <= the loss of a, and smaller for epsilon above (claims,
    Laplace noise); d delta / d mu = phi(epsilon / mu - mu / 2) (normal noise). A sampled profile is
    convex in q, and linear in that of the unsampled pair. So, the pair of x is dominated by a
    public choice of b with this ratio of total variation distances as its probability, else a.
    """
    left: list[tuple[LossPair, int]] = []
    blends: list[Blend] = []
    for several in _kinds(parts):
        kind = type(several[0][0])
        names = () if kind is AntipodalPair else _INCREASING.get(kind, ())
        columns = [np.array([getattr(pair, name) for pair, _ in several]) for name in names]
        varying = [column for column in columns if np.ptp(column) > 0]
        if len(several) <= _FEWEST or len(varying) != 1 or not np.isfinite(varying[0]).all():
            left += several
            continue
        (value,) = varying
        order = np.argsort(value, kind="stable")
        width = float(np.ptp(np.log(np.clip(value, 1e-300, 1e300))))
        cells = min(most, max(math.ceil(width / _STEP), _FEWEST))
        starts = np.diff(_cells(value[order][:, None], cells), prepend=-1)
        chosen = order[np.union1d(np.flatnonzero(starts), order.size - 1)]
        distance = np.array([math.exp(pair.profile.log_delta(0.0)) for pair, _ in several])
        ends = distance[chosen]
        cell = np.searchsorted(value[chosen], value, side="right") - 1
        cell = np.clip(cell, 0, chosen.size - 2)
        # the rounding of a distance; one that may have underflowed gives a share of 1
        off = 64 * U * ends[cell + 1] * (1 - np.log(np.maximum(ends[cell + 1], 1e-300))) + 1e-300
        gap = np.maximum(np.diff(ends)[cell] - off, 1e-300)
        share = np.clip((distance - ends[cell] + off) / gap, 0.0, 1.0)
        times = np.array([float(count) for _, count in several])
        ratio = float((ends[1:] / np.maximum(ends[:-1], 1e-300)).max())
        nodes = tuple(several[i][0] for i in chosen)
        blends.append(Blend(nodes, cell, share, times, ratio))
    return tuple(left), tuple(blends)


def _kinds(parts: Parts) -> Iterable[list[tuple[LossPair, int]]]:
    kinds: dict[Hashable, list[tuple[LossPair, int]]] = {}
    for pair, count in parts:
        kinds.setdefault(_kind(pair), []).append((pair, count))
    return kinds.values()


def fewer_parts(parts: Parts, most: int, *, upper: bool = True) -> tuple[Parts, float]:
    """Return fewer parts of at least (at most) the same loss, at most about `most` of a kind.

    Similar parts are replaced by one with the largest (smallest) parameters among them. The second
    value is the largest relative change of a parameter.
    """
    if len(parts) <= most:
        return parts, 0.0
    found: list[tuple[LossPair, int]] = []
    change = 0.0
    for several in _kinds(parts):
        names = _INCREASING.get(type(several[0][0]), ())
        if len(several) <= most or not names:
            found += several
            continue
        columns = ([getattr(pair, name) for pair, _ in several] for name in names)
        values = np.array(list(columns)).T
        cell = _cells(values, most)
        order = np.argsort(cell, kind="stable")
        starts = np.flatnonzero(np.diff(cell[order], prepend=-1))
        each = np.array([count for _, count in several], dtype=object)  # sums may exceed 2^63
        counts = np.add.reduceat(each[order], starts)
        low, high = (way.reduceat(values[order], starts) for way in (np.minimum, np.maximum))
        with np.errstate(divide="ignore", over="ignore"):
            ratio = np.divide(high, low, out=np.ones_like(high), where=high > low)
        change = max(change, float(ratio.max()) - 1)
        one = several[0][0]
        for level, count in zip((high if upper else low).tolist(), counts.tolist(), strict=True):
            found.append((replace(one, **dict(zip(names, level, strict=True))), count))  # type: ignore[type-var]
    return tuple(found), change


def _cells(values: Array, most: int) -> Index:
    """Return the cell of each row, by the logs of its columns and their ranks.

    With n cells on an axis, each has at most 2 / n of the range and of the rows on it.
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
