"""A proven bound on the sensitivity of C x, a quadratic form in ball arithmetic.

A record that changes the input of release b by d_b moves C x by sum_b C_:b d_b, of squared norm at
most w' |G| w, with G = C'C and w_b = |d_b|. The entries of C are exact floats.
"""

from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from flint import arb, arb_mat, ctx

Array = npt.NDArray[np.float64]
_BITS = 128


def proves(
    matrix: Array,
    bound: float,
    *,
    patterns: Array | None = None,
    separated: tuple[int, int] | None = None,
) -> bool:
    """Return whether `bound` is proven for w in `patterns`, or with a squared norm of at most 1.

    `separated` is a largest number of releases, each with w_b = 1, and their least distance.
    """
    with ctx.workprec(_BITS):
        form = arb_mat(matrix.tolist())
        gram = form.transpose() * form
        if separated is not None:
            square = _of_separated(_sizes(gram), *separated)
        elif patterns is not None:
            square = _of_patterns(_sizes(gram), patterns)
        else:
            square = _largest_eigenvalue(gram, matrix)
        return bool(square <= arb(bound) ** 2)


def _sizes(gram: Any) -> list[list[arb]]:
    return [[abs(each).upper() for each in row] for row in gram.tolist()]


def _of_patterns(gram: list[list[arb]], patterns: Array) -> arb:
    weights = arb_mat(patterns.tolist())
    moved = (weights * arb_mat(gram)).tolist()
    return _row_sum(
        [a * b for a, b in zip(*rows, strict=True)]
        for rows in zip(moved, weights.tolist(), strict=True)
    )


def _of_separated(gram: list[list[arb]], count: int, apart: int) -> arb:
    """Return the sum over p of the largest terms of a p-th participation.

    It is in a release i >= p * apart; the q-th participation after it is at i + q * apart or later.
    """
    terms: list[list[arb]] = []  # of a participation with n later ones, n = 0, 1, ..
    for i, row in enumerate(gram):
        last = list(row)
        for j in range(len(row) - 2, i, -1):
            last[j] = last[j].max(last[j + 1])
        sums = [row[i]]
        for largest in last[i + apart :: apart]:
            sums.append(sums[-1] + 2 * largest)
        terms.append(sums)
    total = arb(0)
    for p in range(min(count, -(-len(gram) // apart))):
        among = (sums[min(count - 1 - p, len(sums) - 1)] for sums in terms[p * apart :])
        total += reduce(arb.max, among)
    return total


def _largest_eigenvalue(gram: Any, matrix: Array) -> arb:
    """Return a bound for G = C'C from approximate eigenvectors V.

    For x = V y, x'Gx <= |V'GV| |y|^2 and |y|^2 (1 - |V'V - I|) <= |x|^2, with largest row sums as
    norms of symmetric matrices; V is invertible if |V'V - I| < 1.
    """
    _, vectors = np.linalg.eigh(matrix.T @ matrix)
    v = arb_mat(vectors.tolist())
    product = v.transpose() * v
    for i in range(len(vectors)):
        product[i, i] -= 1
    off = _row_sum(product.tolist())
    return _row_sum((v.transpose() * gram * v).tolist()) / (1 - off) if off < 1 else arb("inf")


def _row_sum(rows: Any) -> arb:
    return reduce(arb.max, (sum(map(abs, row), arb(0)) for row in rows))
