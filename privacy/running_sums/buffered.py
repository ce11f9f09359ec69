"""Toeplitz matrices C whose diagonals are sums of a few decaying exponentials."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from privacy.running_sums import series
from privacy.running_sums.factorizations import check_parts, register_factorization
from privacy.running_sums.memory import Array, Buffers, Memory
from privacy.running_sums.toeplitz import Toeplitz


@register_factorization
@dataclass(frozen=True, eq=False, kw_only=True)
class Buffered(Toeplitz):
    """Toeplitz with coefficients sum_i weights_i decays_i^(n - 1), n >= 1, and 1 at n = 0."""

    kind: ClassVar[str] = "buffered/1"

    weights: Array
    decays: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        good = bool(np.all(abs(self.decays) < 1))
        if good:
            sums = series.decaying(self.weights, self.decays, self.releases)
            good = np.allclose(self.coefficients, sums, rtol=1e-9, atol=0)
        check_parts("weights, decays", self.weights, self.decays, good=good)

    def memory(self, size: int) -> Memory:
        """Return a memory with one vector per exponential."""
        return Buffers(self.weights, self.decays, size)
