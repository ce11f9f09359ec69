"""Private choice of a clip norm."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privacy import checks
from privacy.mechanisms import Mechanism, PureDP
from privacy.relations import NeighboringRelation
from privacy.release import _tables
from privacy.release.choice import permute_and_flip
from privacy.release.clipping import Norm, columns_of, norm_of, norms, sums_by_user
from privacy.release.noise import random_source


@dataclass(frozen=True)
class ChosenNorm:
    """The chosen candidate, and the mechanism to account for, ``PureDP(epsilon, relation)``."""

    clip_norm: float
    mechanism: Mechanism


def choose_clip_norm(
    data: Any,
    users: Any = None,
    *,
    candidates: Sequence[float],
    epsilon: float,
    quantile: float = 0.9,
    norm: Norm = "l2",
    columns: Sequence[str] | None = None,
    relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
    rng: Any = None,
    simulation: bool = False,
) -> ChosenNorm:
    """Choose a public candidate norm privately, close to the `quantile` of the rows' norms.

    By `PermuteAndFlip`, which is epsilon-DP, with exact probabilities. The score of a candidate is
    -abs(number of rows inside it - quantile * number of rows). Its sensitivity is max(quantile, 1 -
    quantile) if a row is added or removed and 1 if a row is replaced.

    `data`, `users` and `columns` are as in `clip_users`; without users, a row is a record. NaN and
    infinities count as zero. `candidates` are public norms > 0, such as powers of two; those that
    contain equally many rows are equally likely, so omit norms far above all rows. `epsilon` > 0 is
    the privacy cost, `quantile` is in (0, 1), and `relation` the neighboring relation. `norm` is as
    in `clip_records`, `rng` and `simulation` as in `discrete_gaussian`.
    """
    remedy = "Pass public norms to choose from, such as powers of two."
    checks.instance("candidates", candidates, Iterable, "several norms", remedy)
    grid = sorted(checks.real("candidates", value, remedy, above=0) for value in candidates)
    checks.refuse_if(not grid, "candidates", (), "at least one norm", remedy)
    remedy = "Pass a fraction, such as 0.9."
    share = Fraction(checks.real("quantile", quantile, remedy, above=0, below=1))
    mechanism = PureDP(epsilon, relation)
    source = random_source(rng, simulation=simulation)
    if users is None:
        rows = _tables.finite(_tables.rows_of(data, columns), "zero")
    else:
        rows, _ = sums_by_user(data, users, columns, "zero")
    with np.errstate(over="ignore"):
        sizes = np.sort(norms(columns_of(rows), norm_of(norm)))
    inside = np.searchsorted(sizes, grid, side="right").tolist()
    scores = [-abs(count - share * len(sizes)) for count in inside]
    comes_or_goes = mechanism.relation is NeighboringRelation.ADD_OR_REMOVE_ONE
    sensitivity = max(share, 1 - share) if comes_or_goes else Fraction(1)
    chosen = permute_and_flip(scores, Fraction(mechanism.epsilon) / (2 * sensitivity), source)
    return ChosenNorm(grid[chosen], mechanism)
