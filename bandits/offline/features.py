"""Features of items from ratings: a truncated SVD, and a private one whose cost is accounted.

Features that were made from ratings tell about ratings. `svd_features` protects nobody;
`private_svd_features` releases the items' Gram matrix with noise once, and all that is made from
that is post-processing. A user whose ratings make the features and whose rewards teach the bandit
is in both releases: the two costs are composed, by `ItemFeatures.guarantee_with`.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.checks import Array
from bandits.learning.rewards import REPLACE_ONE, unprotected
from bandits.offline.datasets import Ratings

UNIT = "all ratings of one user"
_REPLACE_DISTANCE = math.nextafter(math.sqrt(2), 2)
"""||r r' - s s'||_F <= sqrt(2) for unit rows; the float may not be below the root."""
_LARGEST_GRAM = 20_000
"""Items whose Gram matrix is formed: 3 GB of floats."""
_STEPS_OF_ROW = 2**15
"""A clipped row in whole steps: the squares of fewer than 2^33 such rows, more than fit in memory,
add up without error as 64-bit integers. Neither the step nor a refusal may depend on how many users
there are, which is protected."""
_MOST_NOISE = 2**39


@dataclass(frozen=True)
class ItemFeatures:
    """One row of features for each item, in the unit ball, and what they cost.

    Attributes
    ----------
    values
        Shape (items, d); the longest row has norm 1.
    mechanism
        What to account for all ratings of one user; None where nothing is protected.
    relation
        For which it was calibrated.
    is_simulation
        The noise came from a seed: the features protect nobody.
    """

    values: Array = field(repr=False)
    mechanism: dp.Gaussian | None
    relation: str = REPLACE_ONE
    is_simulation: bool = False

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return what the features guarantee: an infinite epsilon where nothing is protected."""
        relation = dp.NeighboringRelation(self.relation)
        if self.is_simulation:
            return unprotected(delta, relation, "seeded noise protects nobody")
        if self.mechanism is None:
            return unprotected(delta, relation, "ratings are used as they are")
        answer = dp.account(self.mechanism, relation=relation).guarantee(delta=delta)
        return replace(answer, unit=UNIT)

    def guarantee_with(self, algorithm: Algorithm, delta: float) -> dp.Guarantee:
        """Return what the features and an algorithm that learns from the same users guarantee.

        Parameters
        ----------
        algorithm
            One that protects all rewards of a user, such as `AdaPrivateUser`, in this relation.
        delta
            In (0, 1), for both together.

        Raises
        ------
        ValueError
            The algorithm protects rounds, not users, or in another relation: the costs of two
            units do not add up.
        """
        rewards = getattr(algorithm, "mechanism", None)
        unit = getattr(algorithm, "unit", None)
        relation = getattr(algorithm, "relation", None)
        if unit != "all rewards of one user" or relation != self.relation:
            rule = f"one that protects all rewards of one user under {self.relation}"
            remedy = "Features protect users: compose them with AdaPrivateUser(...)."
            raise ValueError(checks.expected("algorithm", type(algorithm).__name__, rule, remedy))
        if self.mechanism is None or rewards is None or self.is_simulation:
            return self.guarantee(delta)
        both = dp.compose(self.mechanism, rewards)
        answer = dp.account(both, relation=dp.NeighboringRelation(self.relation))
        return replace(
            answer.guarantee(delta=delta), unit="all ratings and all rewards of one user"
        )


def svd_features(ratings: Ratings, dimension: int, *, seed: int = 0) -> ItemFeatures:
    """Return features from a truncated SVD of the ratings. They protect nobody.

    The matrix R holds ratings on [-1, 1], and 0 where there is none. With R = U S V', items get the
    first d columns of V S, all divided by the norm of the longest row.

    Parameters
    ----------
    ratings
        What was rated.
    dimension
        d >= 1, at most the number of items and of users.
    seed
        Of the randomized range finder (Halko, Martinsson and Tropp 2011, four power iterations),
        which serves matrices with more than 2,000 rows and columns. Smaller ones are exact.
    """
    dimension = _dimension(dimension, ratings)
    table = _table(ratings)
    if min(table.shape) <= 2000:
        if table.shape[1] <= table.shape[0]:
            return ItemFeatures(_top((table.T @ table).toarray(), dimension), None)
        small = (table @ table.T).toarray()
        _, left = _largest_eigenpairs(small, dimension)
        return ItemFeatures(_in_ball(table.T @ left), None)
    rng = np.random.default_rng(seed)
    basis = table @ rng.standard_normal((table.shape[1], dimension + 10))
    for _ in range(4):
        basis = table @ (table.T @ np.linalg.qr(basis)[0])
    projected = (table.T @ np.linalg.qr(basis)[0]).T  # (d + 10, items)
    _, values, right = np.linalg.svd(projected, full_matrices=False)
    return ItemFeatures(_in_ball(right[:dimension].T * values[:dimension]), None)


def private_svd_features(
    ratings: Ratings,
    dimension: int,
    *,
    epsilon: float,
    delta: float,
    relation: str = "REPLACE_ONE",
    clip_norm: float = 1.0,
    simulation: bool = False,
    seed: int | None = None,
) -> ItemFeatures:
    r"""Return features from a noisy Gram matrix of the ratings, released once.

    The matrix R is that of `svd_features`, each user's row clipped to norm C. Released is
    R'R + (N + N')/2, N of independent N(0, sigma^2); its part that is positive semidefinite gives
    the features, as post-processing. One user moves R'R by r r' - s s', of Frobenius norm at most
    C^2 when added, removed or zeroed, and sqrt(2) C^2 when replaced; nothing is divided by the
    number of users. The symmetrised noise has the density of independent noise in the Frobenius
    norm: one Gaussian mechanism, whose whole profile holds.

    Parameters
    ----------
    ratings
        Which items there are is public; who rated what, and how, is protected.
    dimension
        d >= 1.
    epsilon, delta
        The target for all ratings of a user.
    relation
        ``"REPLACE_ONE"``, ``"ADD_OR_REMOVE_ONE"`` or ``"REPLACE_SPECIAL"``.
    clip_norm
        C > 0, on ratings scaled to [-1, 1]; public.
    simulation, seed
        Say True to use a seed; what comes out must then protect nobody.

    Raises
    ------
    ValueError, TypeError
        A value is outside its domain, or there are more than 20,000 items. How many users there are
        is protected: none at all get features too.

    Notes
    -----
    Rows are rounded toward zero to whole multiples of a step, which lengthens none. Their Gram
    matrix is added without error in 64-bit integers, and the noise is rounded on the same lattice.
    No rounding is left that the guarantee would have to pay for.
    """
    remedy = "Pass how many features, at most as many as there are items."
    dimension = checks.count("dimension", dimension, remedy, at_most=ratings.items)
    if relation not in list(dp.NeighboringRelation):
        rule = f"one of {[str(known) for known in dp.NeighboringRelation]}"
        raise ValueError(checks.expected("relation", relation, rule, "Say what a neighbour is."))
    clip_norm = checks.real("clip_norm", clip_norm, "Pass the norm bound of a row.", above=0)
    if ratings.items > _LARGEST_GRAM:
        remedy = "Keep fewer: ratings.most_rated(items)."
        raise ValueError(
            checks.expected("ratings.items", ratings.items, f"<= {_LARGEST_GRAM}", remedy)
        )
    multiplier = dp.calibrate(
        lambda sigma: dp.Gaussian(sigma, _REPLACE_DISTANCE),
        epsilon=epsilon,
        delta=delta,
        relation=dp.NeighboringRelation(relation),
    )
    if multiplier > _MOST_NOISE:
        remedy = "Pass a larger epsilon: nothing would be left of the ratings."
        rule = f"<= {_MOST_NOISE}"
        raise ValueError(checks.expected("noise_multiplier", multiplier, rule, remedy))
    steps = _STEPS_OF_ROW
    while multiplier * steps**2 > _MOST_NOISE:  # what the exact sampler reaches
        steps //= 2
    whole = _whole_rows(ratings, clip_norm, steps)
    gram = (whole.T @ whole).toarray()
    sigma = multiplier * steps**2  # in squares of the step
    first, second = np.triu_indices(ratings.items, k=1)
    rng = np.random.default_rng(seed) if simulation else seed
    # (N + N')/2 has variance sigma^2 on the diagonal and sigma^2 / 2 beside it
    beside = math.nextafter(sigma / math.sqrt(2), math.inf)
    noise = dp.rounded_gaussian(beside, len(first), rng=rng, simulation=simulation)
    gram[first, second] += noise
    gram[second, first] += noise
    own = dp.rounded_gaussian(sigma, ratings.items, rng=rng, simulation=simulation)
    gram[np.diag_indices(ratings.items)] += own
    mechanism = dp.Gaussian(multiplier, _REPLACE_DISTANCE)
    values = _top(gram.astype(np.float64), dimension)
    return ItemFeatures(values, mechanism, str(relation), simulation)


def _table(ratings: Ratings) -> Any:
    """Return the ratings on [-1, 1], users by items, as a sparse matrix."""
    from scipy import sparse

    places = (ratings.user, ratings.item)
    return sparse.csr_matrix((2 * ratings.scaled - 1, places), (ratings.users, ratings.items))


def _whole_rows(ratings: Ratings, clip_norm: float, steps: int) -> Any:
    """Return the clipped rows in whole steps of clip_norm / steps, as a sparse matrix of int64."""
    table = _table(ratings)
    norms = np.sqrt(np.asarray(table.multiply(table).sum(1)).ravel())
    # a margin above rounding, so that the norm of the whole numbers is at most `steps`
    scale = (1 - 1e-11) * steps / np.maximum(norms, clip_norm)
    table.data = (table.data * np.repeat(scale, np.diff(table.indptr))).astype(np.int64)
    return table


def _dimension(dimension: int, ratings: Ratings) -> int:
    remedy = "Pass how many features, at most as many as there are items and users."
    most = min(ratings.items, ratings.users)
    return checks.count("dimension", dimension, remedy, at_most=most)


def _largest_eigenpairs(matrix: Array, count: int) -> tuple[Array, Array]:
    from scipy.linalg import eigh

    size = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(size - count, size - 1))
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _top(gram: Array, dimension: int) -> Array:
    """Return V S of the d largest eigenvalues S^2 of a Gram matrix, negative ones as zero."""
    values, vectors = _largest_eigenpairs(gram, dimension)
    return _in_ball(vectors * np.sqrt(values))


def _in_ball(rows: Array) -> Array:
    longest = np.sqrt(np.square(rows).sum(1)).max()
    scaled: Array = rows / longest if longest > 0 else rows
    return scaled
