"""Item features from ratings: a truncated SVD, and a private one.

Features reveal information about the ratings. `svd_features` is not private. `private_svd_features`
releases the items' noisy Gram matrix once; the features are post-processing. If the same users
contribute ratings and rewards, compose the guarantees with `ItemFeatures.guarantee_with`.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.checks import Array
from bandits.learning.rewards import REPLACE_ONE, SIMULATION_ONLY, unprotected
from bandits.offline.datasets import Ratings

UNIT = "all ratings of one user"
_REPLACE_DISTANCE = math.nextafter(math.sqrt(2), 2)
"""||r r' - s s'||_F <= sqrt(2) for unit rows; rounded up, so that it is an upper bound."""
_LARGEST_GRAM = 20_000
"""Maximum number of items; their Gram matrix has 3 GB of floats."""
_STEPS_OF_ROW = 2**15
"""Norm of a clipped row in steps. The squares of fewer than 2^33 such rows sum exactly in 64-bit
integers; more rows do not fit in memory. Neither the step nor an error may depend on the number of
users, which is protected."""
_MOST_NOISE = 2**39


@dataclass(frozen=True)
class ItemFeatures:
    """Item features in the unit ball, with their privacy guarantee.

    Attributes
    ----------
    values
        One row per item, shape (items, d); the longest row has norm 1.
    mechanism
        The mechanism to account for all ratings of one user; None if the features are not private.
    relation
        Neighboring relation of the calibration.
    is_simulation
        Whether the noise is reproducible and gives no privacy.
    """

    values: Array = field(repr=False)
    mechanism: dp.Gaussian | None
    relation: str = REPLACE_ONE
    is_simulation: bool = False

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return the guarantee of the features; epsilon is infinite if they are not private."""
        relation = dp.NeighboringRelation(self.relation)
        if self.is_simulation:
            return unprotected(delta, relation, SIMULATION_ONLY)
        if self.mechanism is None:
            return unprotected(delta, relation, "ratings are used as they are")
        answer = dp.account(self.mechanism, relation=relation).guarantee(delta=delta)
        return replace(answer, unit=UNIT)

    def guarantee_with(self, algorithm: Algorithm, delta: float) -> dp.Guarantee:
        """Return the joint guarantee of the features and an algorithm that learns from their users.

        `algorithm` has user-level privacy and the same relation, such as `AdaPrivateUser`, because
        guarantees for different units do not compose. `delta` is for both together.
        """
        rewards = getattr(algorithm, "mechanism", None)
        unit = getattr(algorithm, "unit", None)
        relation = getattr(algorithm, "relation", None)
        if unit != "all rewards of one user" or relation != self.relation:
            rule = f"one that protects all rewards of one user under {self.relation}"
            remedy = "Pass AdaPrivateUser(...), because features protect users."
            raise ValueError(checks.expected("algorithm", type(algorithm).__name__, rule, remedy))
        if self.mechanism is None or rewards is None or self.is_simulation:
            return self.guarantee(delta)
        both = dp.compose(self.mechanism, rewards)
        answer = dp.account(both, relation=dp.NeighboringRelation(self.relation))
        return replace(
            answer.guarantee(delta=delta), unit="all ratings and all rewards of one user"
        )


def svd_features(ratings: Ratings, dimension: int, *, seed: int = 0) -> ItemFeatures:
    """Return features from a truncated SVD of the ratings, without privacy.

    The matrix R contains the ratings scaled to [-1, 1], and 0 for missing ones. With R = U S V',
    the features are the first d columns of V S, divided by the norm of the longest row. The
    `dimension` d >= 1 is at most the number of items and of users. If both dimensions of R exceed
    2,000, `seed` is that of the randomized range finder (Halko, Martinsson and Tropp 2011, four
    power iterations). Otherwise the SVD is exact.
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

    R is the matrix of `svd_features` with each user's row clipped to norm C. The release is
    R'R + (N + N')/2, with independent entries N(0, sigma^2) in N; the features are post-processing
    of its positive semidefinite part. In Frobenius norm, R'R changes by at most sqrt(2) C^2 if a
    user is replaced (r r' - s s'), else by at most C^2. The symmetrized noise has the density of
    independent noise in that norm, so this is one Gaussian mechanism.

    Parameters
    ----------
    ratings
        The ratings. The set of items is public; the ratings of each user are protected.
    dimension
        d >= 1.
    epsilon, delta
        Privacy target for all ratings of a user.
    relation
        ``"REPLACE_ONE"``, ``"ADD_OR_REMOVE_ONE"`` or ``"REPLACE_SPECIAL"``.
    clip_norm
        C > 0, on ratings scaled to [-1, 1]; public.
    simulation, seed
        As in `Algorithm.start`.

    Raises
    ------
    ValueError
        There are more than 20,000 items. No error depends on the protected number of users.
    """
    remedy = "Pass at most the number of items."
    dimension = checks.count("dimension", dimension, remedy, at_most=ratings.items)
    checks.one_of("relation", relation, dp.NeighboringRelation)
    clip_norm = checks.real("clip_norm", clip_norm, "Pass the norm bound of a row.", above=0)
    remedy = "Keep fewer items with ratings.most_rated(items)."
    rule, wrong = f"<= {_LARGEST_GRAM}", ratings.items > _LARGEST_GRAM
    checks.refuse_if(wrong, "ratings.items", ratings.items, rule, remedy)
    multiplier = dp.calibrate(
        lambda sigma: dp.Gaussian(sigma, _REPLACE_DISTANCE),
        epsilon=epsilon,
        delta=delta,
        relation=dp.NeighboringRelation(relation),
    )
    remedy = "Pass a larger epsilon."
    rule = f"<= {_MOST_NOISE}"
    checks.refuse_if(multiplier > _MOST_NOISE, "noise_multiplier", multiplier, rule, remedy)
    steps = _STEPS_OF_ROW
    while multiplier * steps**2 > _MOST_NOISE:  # the limit of the exact sampler
        steps //= 2
    whole = _whole_rows(ratings, clip_norm, steps)
    gram = (whole.T @ whole).toarray()
    sigma = multiplier * steps**2  # in squares of the step
    first, second = np.triu_indices(ratings.items, k=1)
    rng = np.random.default_rng(seed) if simulation else seed
    # (N + N')/2 has variance sigma^2 on the diagonal and sigma^2 / 2 off it
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
    from scipy import sparse

    places = (ratings.user, ratings.item)
    return sparse.csr_matrix((2 * ratings.scaled - 1, places), (ratings.users, ratings.items))


def _whole_rows(ratings: Ratings, clip_norm: float, steps: int) -> Any:
    """Return the clipped rows in units of clip_norm / steps, as a sparse matrix of int64."""
    table = _table(ratings)
    norms = np.sqrt(np.asarray(table.multiply(table).sum(1)).ravel())
    # the factor 1 - 1e-11 covers float rounding, so that the integer norms are at most `steps`
    scale = (1 - 1e-11) * steps / np.maximum(norms, clip_norm)
    table.data = (table.data * np.repeat(scale, np.diff(table.indptr))).astype(np.int64)
    return table


def _dimension(dimension: int, ratings: Ratings) -> int:
    remedy = "Pass at most the number of items and of users."
    most = min(ratings.items, ratings.users)
    return checks.count("dimension", dimension, remedy, at_most=most)


def _largest_eigenpairs(matrix: Array, count: int) -> tuple[Array, Array]:
    from scipy.linalg import eigh

    size = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(size - count, size - 1))
    return np.maximum(values[::-1], 0.0), vectors[:, ::-1]


def _top(gram: Array, dimension: int) -> Array:
    """Return V S for the d largest eigenvalues S^2 of a Gram matrix; negative ones count as 0."""
    values, vectors = _largest_eigenpairs(gram, dimension)
    return _in_ball(vectors * np.sqrt(values))


def _in_ball(rows: Array) -> Array:
    longest = np.sqrt(np.square(rows).sum(1)).max()
    scaled: Array = rows / longest if longest > 0 else rows
    return scaled
