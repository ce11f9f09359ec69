"""Quadrature nodes of discrete pairs: their atoms."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from privacy.losses.discrete import ROUNDING, DiscretePair, directed
from privacy.losses.quadrature import Array, Direction, LineNodes, LossModel, LossNodes


@dataclass(frozen=True)
class DiscreteModel(LossModel):
    """The atoms of a pair as exact nodes; their transform need not decay."""

    pair: DiscretePair

    def supremum(self, direction: Direction) -> float:
        return max(directed(self.pair, direction).loss)

    def lost(self, direction: Direction) -> float:
        return self.pair.infinite(direction)

    def nodes(self, direction: Direction, t: float) -> LossNodes:
        return _nodes(self.pair, direction)

    def line_nodes(self, direction: Direction, t: float, w: float, log_moment: float) -> LineNodes:
        nodes = _nodes(self.pair, direction)
        weight = np.exp(nodes.log_weight + t * nodes.loss - log_moment)
        rounding = ROUNDING * (1 + np.abs(nodes.log_weight) + t * np.abs(nodes.loss))
        return LineNodes(weight, nodes.loss, rounding + abs(log_moment), 0.0)

    def decay(
        self, direction: Direction, t: float, frequency: Array, log_moment: float, depth: Array
    ) -> Array:
        """Return 0: the transform of atoms need not decay."""
        return np.zeros_like(frequency)


@lru_cache(maxsize=256)
def _nodes(pair: DiscretePair, direction: Direction) -> LossNodes:
    log_probability, loss = map(np.array, directed(pair, direction))
    return LossNodes(log_probability, loss, 2.0 * ROUNDING)
