"""Tickets, which identify the rounds whose rewards an agent still accepts."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from bandits import checks
from bandits.checks import Indices


class Ticket(NamedTuple):
    """The result of `Agent.select`: the action, and the identity of its round.

    Store its attributes, which are plain values, and rebuild it with ``Ticket(*values)``.

    Attributes
    ----------
    action
        Row of the selected candidate.
    round
        Number of the round, from 0.
    key
        Identifies the run of the agent. After a crash, unsaved rounds are played again under the
        same numbers; the key lets the agent reject their old tickets.
    propensity
        Probability of the action, exact given all random numbers but the last one; None without
        ``explore=``. It depends on rewards only through releases.
    """

    action: int
    round: int
    key: str
    propensity: float | None = None


def round_of(ticket: Any) -> int:
    """Return the round of a ticket, checked to be one with a whole round number."""
    if isinstance(ticket, Ticket) and isinstance(ticket.round, int | np.integer):
        return int(ticket.round)
    remedy = "Rebuild stored tickets with Ticket(*values)."
    shown = type(ticket).__name__
    raise TypeError(checks.expected("ticket", shown, "a Ticket of select()", remedy))


class Missed:
    """Open tickets of closed batches, one bit per round.

    Most rounds of a recommender never get a reward, so each must take little memory. All rounds of
    one run of the agent share a key.
    """

    def __init__(self) -> None:
        self._bits = bytearray()
        self._starts: list[int] = []  # first round of each run
        self._keys: list[str] = []

    def begin(self, start: int, key: str) -> None:
        """Record that rounds from `start` until the next run have this key."""
        self._starts.append(start)
        self._keys.append(key)

    def add(self, numbers: Iterable[int], rounds: int) -> None:
        self._bits.extend(bytes(rounds // 8 + 1 - len(self._bits)))
        for number in numbers:
            self._bits[number >> 3] |= 1 << (number & 7)

    @property
    def key(self) -> str:
        """The key of the last run."""
        return self._keys[-1]

    def has(self, number: int, key: str) -> bool:
        if not 0 <= number < 8 * len(self._bits):
            return False
        known = self._keys[bisect_right(self._starts, number) - 1]
        return known == key and bool(self._bits[number >> 3] & 1 << (number & 7))

    def take(self, number: int) -> None:
        """Close an open ticket."""
        self._bits[number >> 3] ^= 1 << (number & 7)

    def state(self) -> dict[str, Any]:
        return {
            "missed": np.frombuffer(bytes(self._bits), dtype=np.uint8),
            "run_starts": np.array(self._starts, dtype=np.int64),
            "run_keys": np.array(self._keys, dtype=str),
        }

    def load(self, missed: "np.ndarray[Any, Any]", starts: Indices, keys: Any) -> None:
        self._bits = bytearray(missed.tobytes())
        self._starts, self._keys = starts.tolist(), keys.tolist()
