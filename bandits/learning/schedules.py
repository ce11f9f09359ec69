"""Schedules, which determine the end of each batch from public data: rounds, or features in A.

Schedules get no rewards, because a batch boundary that depends on a reward reveals it.
"""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Protocol

from bandits import checks


class Schedule(Protocol):
    """Rule for the lengths of batches."""

    lockstep: bool
    """Whether all replicates end their batches together."""

    def length(self, batch: int) -> int | None:
        """Return the rounds of batch 0, 1, ...; None if they depend on the features."""

    def ends(self, batch: int, rounds: int, growth: float) -> bool:
        """Return whether a batch ends after `rounds` rounds and this growth of log det A."""

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        """Return the maximum number of batches in `rounds` rounds, with a partial last one."""


_MOST_BATCHES = 2**20
"""Limit for growing batches, because counting more would take seconds."""


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
        checks.count("rounds", self.rounds, "Pass the number of rounds per batch.")

    def length(self, batch: int) -> int:
        return self.rounds

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        return -(-rounds // self.rounds)


@dataclass(frozen=True)
class Geometric(_ByCount):
    """Growing batches: batch k has ``min(round(first * ratio**k), most)`` rounds.

    If `lead` > 0, they start with one more batch of `lead` rounds.
    """

    first: int = 100
    ratio: float = 1.15
    most: int = 2**52
    lead: int = 0

    def __post_init__(self) -> None:
        checks.count("first", self.first, "Pass the number of rounds of the first batch.")
        checks.real("ratio", self.ratio, "Pass the ratio of successive batch lengths.", at_least=1)

    def length(self, batch: int) -> int:
        if self.lead and batch == 0:
            return self.lead
        exponent = math.log(self.first) + (batch - (self.lead > 0)) * math.log(self.ratio)
        return min(round(math.exp(exponent)), self.most) if exponent < 36 else self.most

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        covered = accumulate(map(self.length, range(_MOST_BATCHES)))
        for batch, reached in enumerate(covered):
            if reached >= rounds or self.length(batch + 1) == self.most:
                return batch + 1 + max(-((reached - rounds) // self.most), 0)
        remedy = f"Pass a larger first or ratio: the limit is {_MOST_BATCHES} batches."
        raise ValueError(checks.expected("ratio", self.ratio, "larger", remedy))


@dataclass(frozen=True)
class Determinant:
    """A batch ends when det A has grown by the factor 1 + growth since its start.

    A contains only public features, so the boundaries reveal no more about rewards than the
    releases do. Do not use this schedule with private contexts. The replicates of a simulation end
    their batches at different rounds.
    """

    growth: float = 1.0
    lockstep = False

    def __post_init__(self) -> None:
        checks.real("growth", self.growth, "Pass the relative growth of det A, such as 1.", above=0)

    def length(self, batch: int) -> None:
        return

    def ends(self, batch: int, rounds: int, growth: float) -> bool:
        return growth >= math.log1p(self.growth)

    def batches(self, rounds: int, dimension: int, ridge: float) -> int:
        """Return an upper bound, by log det A <= d log(ridge + rounds / d) in the unit ball."""
        most = dimension * math.log1p(rounds / (dimension * ridge)) / math.log1p(self.growth)
        return rounds if most >= rounds else 1 + math.ceil(most)
