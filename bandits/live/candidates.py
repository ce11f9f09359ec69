"""Features of the candidates of a round."""

from functools import partial
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.linalg.blas import dcopy, dscal, dsyrk

from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.checks import Array
from bandits.learning.exploration import FEW
from bandits.learning.rewards import MARGIN

_DOUBLE = np.dtype(np.float64)


def table(candidates: Any, dimension: int) -> Array:
    """Return a float copy of candidates, so that they cannot change after the checks."""
    remedy = "Pass one row of real numbers for each candidate."
    try:
        found = np.array(candidates, dtype=np.float64)
    except (TypeError, ValueError):
        shown = type(candidates).__name__
        message = checks.expected("candidates", shown, "rows of one length", remedy)
    else:
        if found.ndim == 2 and found.shape[1] == dimension and len(found):
            return found
        rule = f"(n, {dimension}) with n >= 1"
        message = checks.expected("shape of candidates", found.shape, rule, remedy)
    raise ValueError(message)


class Candidates:
    """Computes features by `Algorithm.prepared`, or in arrays that all rounds share.

    The latter takes a third of the time.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self._shared: dict[tuple[int, ...], tuple[Any, ...]] = {}

    def __reduce__(self) -> tuple[type["Candidates"], tuple[Algorithm]]:
        return Candidates, (self._algorithm,)

    def features(self, candidates: Any) -> Array:
        """Return the features of candidates, valid until the next call."""
        if type(candidates) is ndarray and candidates.dtype is _DOUBLE:
            shared = self._shared.get(candidates.shape)
            if shared is not None:
                found: Array
                found, given, copied, scaled, multiplied, item, argmax = shared
                given[...] = candidates
                if scaled is not None:
                    copied()
                    scaled()
                # the largest product of two rows is a square (Cauchy-Schwarz)
                multiplied()
                if item(argmax()) <= MARGIN:
                    return found
        found = table(candidates, self._algorithm.dimension)
        # of few candidates, all pairwise products take less time than the squares alone
        few = len(found) <= FEW and type(self._algorithm).prepared is Algorithm.prepared
        if few and found.shape not in self._shared:
            self._shared[found.shape] = self._arrays(len(found))
        return self._algorithm.prepared(found)

    def _arrays(self, count: int) -> tuple[Any, ...]:
        algorithm, constant = self._algorithm, self._algorithm.constant
        rows = unscaled = np.empty((count, algorithm.features))
        copied = scaled = None
        if constant is not None:
            unscaled[:, -1], rows = constant / algorithm.shrink, np.empty_like(unscaled)
            copied = partial(dcopy, unscaled.ravel(), rows.ravel())
            scaled = partial(dscal, algorithm.shrink, rows.ravel())
        given, products = unscaled[:, : algorithm.dimension], np.zeros((count, count))
        # dsyrk, unlike NumPy, emits no overflow warning; the last arguments are trans, lower and
        # overwrite_c, by place because names take as long as the product
        multiplied = partial(dsyrk, 1.0, rows.T, 0.0, products.T, 1, 0, 1)
        each = products.ravel()  # argmax of a Fortran-ordered array makes a copy of it
        return rows, given, copied, scaled, multiplied, each.item, each.argmax
