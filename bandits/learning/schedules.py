"""When a batch ends. Only public things decide: the number of rounds, or the features in A.

A boundary that a reward can move (``close after c clicks``) shows that reward to everybody: none
of the schedules sees one.
"""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from bandits import checks


class Schedule(Protocol):
    """Decides the length of each batch."""

    lockstep: bool
    """Whether all replicates end their batches together."""

    def length(self, batch: int) -> int | None:
        """Return the rounds of batch 0, 1, ...; None where the features decide."""

    def ends(self, batch: int, rounds: int, growth: float) -> bool:
        """Return whether a batch of so many rounds, with so much growth of log det A, is over."""

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        """Return the most batches that `rounds` rounds can fill, a partial last one included."""


_MOST_BATCHES = 2**20
"""Of growing batches: more would take seconds to count."""


class _ByCount:
    lockstep = True

    def length(self, batch: int) -> int:
        raise NotImplementedError

    def ends(self, batch: int, rounds: int, growth: float) -> bool:
        return rounds >= self.length(batch)


@dataclass(frozen=True)
class Fixed(_ByCount):
    """Batches of one length."""

    rounds: int

    def __post_init__(self) -> None:
        checks.count("rounds", self.rounds, "Pass the rounds of a batch.")

    def length(self, batch: int) -> int:
        """Return the length of any batch."""
        return self.rounds

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        """Return the batches that `rounds` rounds fill."""
        return -(-rounds // self.rounds)


@dataclass(frozen=True)
class Geometric(_ByCount):
    """Batches that grow: the k-th has ``round(first * ratio**k)`` rounds, k = 0, 1, ..."""

    first: int = 100
    ratio: float = 1.15

    def __post_init__(self) -> None:
        checks.count("first", self.first, "Pass the rounds of the first batch.")
        checks.real("ratio", self.ratio, "Pass how much longer each batch is.", at_least=1)

    def length(self, batch: int) -> int:
        """Return the length of batch 0, 1, ..."""
        exponent = math.log(self.first) + batch * math.log(self.ratio)
        return round(math.exp(exponent)) if exponent < 36 else 2**52

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        """Return the batches that `rounds` rounds fill, or raise where they are too many."""
        covered = accumulate(map(self.length, range(_MOST_BATCHES)))
        for batch, reached in enumerate(covered):
            if reached >= rounds:
                return batch + 1
        remedy = f"Pass a larger first or ratio: {rounds} rounds may fill {_MOST_BATCHES} batches."
        raise ValueError(checks.expected("ratio", self.ratio, "larger", remedy))


@dataclass(frozen=True)
class Determinant:
    """A batch ends when det A has grown by the factor 1 + growth since it began.

    A holds public features alone, so that this says nothing about rewards; an agent with private
    contexts refuses it. The replicates of a simulation end their batches at different rounds.
    """

    growth: float = 1.0
    lockstep = False

    def __post_init__(self) -> None:
        checks.real("growth", self.growth, "Pass the growth of det A, such as 1.", above=0)

    def length(self, batch: int) -> None:
        """Return None: the features decide."""
        return

    def ends(self, batch: int, rounds: int, growth: float) -> bool:
        """Return whether det A has grown enough."""
        return growth >= math.log1p(self.growth)

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        """Return the bound from log det A <= d log(ridge + rounds / d) for features in the ball."""
        most = dimension * math.log1p(rounds / (dimension * ridge)) / math.log1p(self.growth)
        return rounds if most >= rounds else 1 + math.ceil(most)
