"""Tickets: the right to hand in the reward of one round, once."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bandits.checks import Indices


class Ticket(NamedTuple):
    """What `Agent.select` returns: the action, and the right to hand in one reward.

    Attributes
    ----------
    action
        The picked candidate's row.
    round
        The number of the round, from 0.
    key
        Of the agent's run that made it: after a crash, rounds that were not saved are played again
        under the same numbers, and their old tickets are refused.

    Three plain values: keep them with the round, and rebuild the ticket by ``Ticket(*values)``.
    """

    action: int
    round: int
    key: str


_WHOLE = (int, np.integer)  # made once: a union takes longer than the test


def is_ticket(value: Any) -> bool:
    """Return whether a value is a ticket and its round a whole number."""
    return isinstance(value, Ticket) and isinstance(value.round, _WHOLE)


class Missed:
    """Tickets of closed batches that were not handed in yet: one bit a round.

    Most rounds of a recommender never see a reward, so that what is kept of each must be small.
    All rounds of a run of the agent have one key, and there are as many runs as restarts.
    """

    def __init__(self) -> None:
        self._bits = bytearray()
        self._starts: list[int] = []  # first round of each run
        self._keys: list[str] = []

    def begin(self, start: int, key: str) -> None:
        """Note that the rounds from `start` on, until the next run, have this key."""
        self._starts.append(start)
        self._keys.append(key)

    def add(self, numbers: Iterable[int], rounds: int) -> None:
        """Add tickets whose batch was closed after so many rounds."""
        self._bits.extend(bytes(rounds // 8 + 1 - len(self._bits)))
        for number in numbers:
            self._bits[number >> 3] |= 1 << (number & 7)

    def take(self, number: int, key: str) -> bool:
        """Use a ticket up; return whether it was still there."""
        if not 0 <= number < 8 * len(self._bits):
            return False
        bit = 1 << (number & 7)
        known = self._keys[bisect_right(self._starts, number) - 1]
        if known != key or not self._bits[number >> 3] & bit:
            return False
        self._bits[number >> 3] ^= bit
        return True

    def state(self) -> dict[str, Any]:
        """Return the arrays that a checkpoint keeps."""
        return {
            "missed": np.frombuffer(bytes(self._bits), dtype=np.uint8),
            "run_starts": np.array(self._starts, dtype=np.int64),
            "run_keys": np.array(self._keys, dtype=str),
        }

    def load(self, missed: "np.ndarray[Any, Any]", starts: Indices, keys: Any) -> None:
        """Put them back."""
        self._bits = bytearray(missed.tobytes())
        self._starts, self._keys = starts.tolist(), keys.tolist()
