"""Tree aggregation: Gaussian noise on the nodes of binary trees over the steps of a run."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from privacy import checks
from privacy.losses.gaussian import GaussianPair
from privacy.mechanisms.base import freeze, register_mechanism
from privacy.mechanisms.noise import Noise, check_replace_distance
from privacy.numerics.rounding import U
from privacy.relations import NeighboringRelation

_MOST = 500  # participations; the search is quadratic
_MOST_TREES = 1000


@dataclass(frozen=True)
class TreeAggregation(Noise):
    """Every node of a binary tree sums the steps below it and adds independent Gaussian noise.

    All nodes of all trees may be published. After a restart, a fresh tree starts at the next step.
    The steps of a record must not depend on the values of records. A record in c_v steps below the
    node v moves the sums of all nodes together by at most clip_norm * sqrt(sum over v of c_v^2);
    the largest such sum over the permitted steps is found by dynamic programming.
    Sources: Kairouz et al. 2021 (arXiv 2103.00039), Appendix D; adaptive inputs: Denisov, McMahan,
    Rush, Smith and Thakurta 2022, Theorem 2.1.

    `noise_multiplier` is the standard deviation of the noise of a node / clip norm of one record's
    contribution to one step, and `steps` the number of steps of the tree, or of each tree in a run
    with restarts. One record takes part in at most `participations` steps over all trees, in
    [1, 500], and `participations_per_tree` in one tree (default: `participations`), at least
    `separation` steps apart in one tree. `replace_distance` is as in `Gaussian`.
    """

    noise_multiplier: float
    steps: int | Sequence[int]
    participations: int = 1
    participations_per_tree: int | None = None
    separation: int = 1
    replace_distance: float = 2.0

    def __post_init__(self) -> None:
        remedy = "Pass the standard deviation of a node's noise divided by the clip norm."
        noise = checks.real("noise_multiplier", self.noise_multiplier, remedy, above=0)
        remedy = "Pass the largest number of steps that one record takes part in."
        total = checks.count("participations", self.participations, remedy)
        checks.real("participations", total, remedy, at_most=_MOST)
        each = total
        if self.participations_per_tree is not None:
            each = checks.count("participations_per_tree", self.participations_per_tree, remedy)
            checks.real("participations_per_tree", each, remedy, at_most=total)
        remedy = "Pass the least number of steps between two participations."
        separation = checks.count("separation", self.separation, remedy)
        distance, steps = check_replace_distance(self.replace_distance), _steps(self.steps)
        freeze(self, noise_multiplier=noise, steps=steps, replace_distance=distance)
        counts = {"participations": total, "participations_per_tree": each}
        freeze(self, **counts, separation=separation)

    @property
    def sensitivity_squared(self) -> int:
        """Squared L2 sensitivity of all nodes, in squared clip norms."""
        assert self.participations_per_tree is not None  # set when validated
        assert isinstance(self.steps, tuple)
        per_tree, apart = self.participations_per_tree, self.separation
        best = [0]
        for tree in self.steps:
            best = _join(best, _forest(tree, per_tree, apart), self.participations)
        return max(best)

    def loss(self, relation: NeighboringRelation) -> GaussianPair:
        """Return N(mu, 1) against N(0, 1), mu = sensitivity / noise_multiplier."""
        ratio = self.shift(relation) / min(self.noise_multiplier, 1e150)
        square = ratio * ratio if ratio < 1e140 else math.inf
        return GaussianPair(square * self.sensitivity_squared * (1 + 8 * U))


def _steps(given: Any) -> tuple[int, ...]:
    remedy = "Pass the number of steps of each tree, such as 1000 or (400, 400, 200)."
    trees = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
    rule = f"from 1 to {_MOST_TREES:,} trees"
    wrong = not 1 <= len(trees) <= _MOST_TREES
    checks.refuse_if(wrong, "steps", f"{len(trees)} trees", rule, remedy)
    counts = tuple(checks.count("steps", tree, remedy) for tree in trees)
    checks.real("steps", max(counts), remedy, at_most=2**40)
    return counts


def _join(first: list[int], second: list[int], most: int) -> list[int]:
    """Return the largest sum for each number of participations, divided between two parts."""
    size = min(len(first) + len(second) - 2, most)

    def best(count: int) -> int:
        split = range(max(0, count - len(second) + 1), min(count, len(first) - 1) + 1)
        return max(first[a] + second[count - a] for a in split)

    return [best(count) for count in range(size + 1)]


@lru_cache(maxsize=1024)
def _complete(level: int, most: int, apart: int) -> list[int]:
    """Return the largest sum of c_v^2 in a tree of 2^level steps, for 0, 1, ... participations."""
    if level == 0:
        return [0, 1]
    half = _complete(level - 1, most, apart)
    joined = _join(half, half, min(most, -(-(2**level) // apart)))
    return [below + count * count for count, below in enumerate(joined)]


@lru_cache(maxsize=1024)
def _forest(steps: int, most: int, apart: int) -> list[int]:
    """Return the same for the complete nodes of a tree that ends after `steps` steps."""
    most = min(most, -(-steps // apart))
    best = [0]
    for level in range(steps.bit_length()):
        if steps >> level & 1:
            best = _join(best, _complete(level, most, apart), most)
    return best


register_mechanism(TreeAggregation(8.0, (16, 10), participations=2, participations_per_tree=1))
