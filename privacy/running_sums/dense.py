"""Dense matrices C."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy.running_sums import factorizations
from privacy.running_sums.factorizations import Factorization
from privacy.running_sums.memory import Array


@factorizations.register_factorization
@dataclass(frozen=True, eq=False)
class Dense(Factorization):
    """A dense C. `beside`: rows that are published too, in the same unit of noise."""

    kind: ClassVar[str] = "dense/1"

    matrix: Array
    beside: Array | None = None

    def __post_init__(self) -> None:
        shape = (self.releases, self.releases)
        lower = self.matrix.shape == shape and not np.triu(self.matrix, 1).any()
        good = lower and bool(np.all(self.matrix.diagonal() > 0))
        factorizations.check_parts("matrix", self.matrix, self.beside, good=good)

    def row(self, k: int) -> Array:
        return self.matrix[k, : k + 1]

    def column_norms(self) -> Array:
        return np.asarray(np.sqrt(np.square(self._handed_out()).sum(axis=0)))

    def _handed_out(self) -> Array:
        return self.matrix if self.beside is None else np.vstack((self.matrix, self.beside))

    def encoder(self, releases: int | None = None) -> Array:
        releases = factorizations.part(releases, self.releases)
        return self.matrix[:releases, :releases].copy()
