"""Mechanisms given as tables, and brute force over the batches and steps of small data sets."""

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

import privacy as dp

NULL = 0
ADD, REPLACE, SPECIAL = dp.NeighboringRelation


def hockey(alpha, p, q):
    """Return the hockey-stick divergence of order alpha > 0."""
    return np.maximum(p - np.multiply.outer(alpha, q), 0).sum(axis=-1)


@dataclass(frozen=True)
class TabledPair(dp.DiscretePair):
    """The tightest pair for several pairs of distributions without zeros."""

    log_p: tuple
    losses: tuple
    both: bool = False

    def atoms(self):
        return dp.Atoms(self.log_p, self.losses)

    @property
    def symmetric(self):
        return self.both


def dominating(pairs, *, both=False):
    """Return the pair whose divergence is the maximum at every order.

    The maximum is convex and linear between its corners; a corner is an atom.
    """
    if both:
        pairs = [*pairs, *((q, p) for p, q in pairs)]
    p, q = (np.array(side) for side in zip(*pairs, strict=True))
    ratios = np.unique((p / q).ravel())
    corners = [ratios]
    for low, high in itertools.pairwise(ratios):
        middle = (low + high) / 2
        above = (p > middle * q).astype(float)
        at, slope = (above * p).sum(axis=1), (above * q).sum(axis=1)
        apart = slope[:, None] - slope[None, :]
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = ((at[:, None] - at[None, :]) / apart).ravel()
        corners.append(cross[(cross > low) & (cross < high)])
    alpha = np.concatenate([[0.0], np.unique(np.concatenate(corners).round(15))])
    value = np.array([hockey(one, p, q).max() for one in alpha])
    slopes = np.append(np.diff(value) / np.diff(alpha), 0.0)
    mass = np.diff(slopes)
    kept = mass > 1e-13
    log_q, loss = np.log(mass[kept]), np.log(alpha[1:][kept])
    loss[np.abs(loss) < 1e-13] = 0.0
    return TabledPair(tuple((log_q + loss).tolist()), tuple(loss.tolist()), both)


@dataclass(frozen=True)
class Table(dp.Mechanism):
    """A distribution for every batch; null records contribute nothing."""

    rows: tuple = field(repr=False)
    values: tuple
    copies: int = 1

    null_is_absent = True

    @cached_property
    def known(self):
        return {batch: np.array(row) for batch, row in self.rows}

    def of(self, batch):
        return self.known[_key(batch)]

    def loss(self, relation):
        batches = list(self.known)
        if relation is ADD:
            pairs = [
                (self.of((*one, value)), self.of(one))
                for one in batches
                for value in self.values
                if _key((*one, value)) in self.known
            ]
            return dominating(pairs)
        pairs = [
            (self.of(one), self.of(other))
            for one in batches
            for other in batches
            if _apart(one, other) <= self.copies
        ]
        return dominating(pairs, both=True)

    def for_group(self, size):
        return Table(self.rows, self.values, size)


def _key(batch):
    return tuple(sorted(value for value in batch if value != NULL))


def _apart(one, other):
    """Return how many records differ, if null records fill up the smaller batch."""
    one, other = Counter(one), Counter(other)
    return max((one - other).total(), (other - one).total())


def table(values, largest, outputs, rng):
    """Return a random table for batches of at most `largest` of the non-null `values`."""
    rows = []
    for size in range(largest + 1):
        for batch in itertools.combinations_with_replacement(values, size):
            row = rng.dirichlet(np.full(outputs, 0.7)) + 0.05
            rows.append((batch, tuple((row / row.sum()).tolist())))
    return Table(tuple(rows), tuple(values))


def any_of(values, largest, odds):
    """Return randomized response to whether the batch has a record other than the null one."""
    rows = []
    for size in range(largest + 1):
        for batch in itertools.combinations_with_replacement(values, size):
            there = np.array([1.0, odds] if batch else [odds, 1.0]) / (1 + odds)
            rows.append((batch, tuple(there.tolist())))
    return Table(tuple(rows), tuple(values))


def fixed_size(mechanism, records, size):
    return np.mean([mechanism.of(b) for b in itertools.combinations(records, size)], axis=0)


def with_replacement(mechanism, records, size):
    return np.mean([mechanism.of(b) for b in itertools.product(records, repeat=size)], axis=0)


def truncated(mechanism, records, q, most):
    total = 0.0
    for size in range(len(records) + 1):
        weight = q**size * (1 - q) ** (len(records) - size)
        for sample in itertools.combinations(records, size):
            total += weight * fixed_size(mechanism, sample, min(size, most))
    return total


def shuffled(mechanism, records, size):
    """Return the distribution of the outputs of all batches of one epoch."""
    total = 0.0
    for order in itertools.permutations(records):
        total += in_order(mechanism, order, size)
    return total / math.factorial(len(records))


def in_order(mechanism, records, size):
    joint = np.ones(1)
    for start in range(0, len(records), size):
        joint = np.outer(joint, mechanism.of(records[start : start + size])).ravel()
    return joint


def neighbors(values, count, relation):
    """Yield every pair of neighboring data sets of at most `count` records."""
    everything = (NULL, *values)
    for rest in itertools.combinations_with_replacement(everything, count - 1):
        for value in everything if relation is REPLACE else values:
            if relation is ADD:
                yield (*rest, value), rest
            elif relation is SPECIAL:
                yield (*rest, value), (*rest, NULL)
            else:
                yield from (((*rest, value), (*rest, other)) for other in everything)


def divergence_of(pair, alpha):
    """Return the hockey-stick divergence of a discrete pair in direction "remove"."""
    log_p, loss = map(np.array, pair.atoms())
    return hockey(alpha, np.exp(log_p), np.exp(log_p - loss))


def tree_change(trees, participations, per_tree, separation):
    """Return the largest squared change of all nodes, by enumeration of the steps of a record."""
    starts = list(itertools.accumulate((0, *trees)))
    nodes = [
        range(start + k * 2**level, start + (k + 1) * 2**level)
        for start, steps in zip(starts, trees, strict=False)
        for level in range(steps.bit_length())
        for k in range(steps >> level)
    ]
    tree_of = [tree for tree, steps in enumerate(trees) for _ in range(steps)]
    found = 0
    for size in range(1, participations + 1):
        for taken in itertools.combinations(range(starts[-1]), size):
            counts = [sum(tree_of[step] == tree for step in taken) for tree in range(len(trees))]
            near = any(
                tree_of[a] == tree_of[b] and b - a < separation
                for a, b in itertools.pairwise(taken)
            )
            if max(counts) <= per_tree and not near:
                found = max(found, sum(len(set(taken) & set(node)) ** 2 for node in nodes))
    return found
