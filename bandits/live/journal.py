"""Journal of an agent's folder: the rounds and rewards since the last save.

`restore` repeats them, so that a crash loses none. Every save starts a new journal and deletes the
old one. Each entry has a length and a checksum, so an entry that a crash cut off is ignored.
"""

import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from bandits import checks
from bandits.checks import Array
from bandits.learning.users import User, packed, unpacked

if TYPE_CHECKING:
    from bandits.live.agent import Agent

_FRAME = Struct("<II")
_ENTRY = Struct("<BQd")
_KINDS = (None, "clipped", "missing")
_SELECTED = len(_KINDS)
_BOTH = 2 * (_FRAME.size + _ENTRY.size) + 16
"""Size of the entries of a round and its reward, without features and user."""
_MOST = 2**24
"""Size in bytes after which the agent is saved."""


class Entry(NamedTuple):
    """An entry: the start of a round, or its reward."""

    kind: int
    number: int
    value: float
    """The centered reward; for the start of a round, the number that `Repeats` compares."""
    rest: bytes
    """The ticket's key; for the start of a round, the features and the user."""


class Journal:
    """A new journal, readable by its owner only; with `fsync`, each entry survives a power loss."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._path = path
        self._file = os.open(path, flags, 0o600)
        self.close = weakref.finalize(self, os.close, self._file)
        """Close the file, which otherwise happens with the end of this object."""
        self._fsync = fsync
        self._size = 0
        self.whole = True
        """Whether the file has all rounds and rewards since the save."""

    @property
    def long(self) -> bool:
        """Whether to save the agent before the next round.

        It depends on the rounds alone, because the write count is public and arrivals are not.
        """
        return self._size >= _MOST

    def select(self, number: int, compared: float, features: Array, user: User | None) -> None:
        """Add the start of a round."""
        owner = b"" if user is None else packed([user]).tobytes()
        rest = features.tobytes() + owner
        self._append(Entry(_SELECTED, number, compared, rest))
        self._size += len(rest) + _BOTH

    def update(self, number: int, key: str, value: float, kind: str | None) -> None:
        """Add a reward; `kind` is that of `Range.read`."""
        self._append(Entry(_KINDS.index(kind), number, value, key.encode()))

    def _append(self, entry: Entry) -> None:
        self.whole = False
        body = _ENTRY.pack(*entry[:3]) + entry.rest
        frame = _FRAME.pack(len(body), crc32(body)) + body
        written = os.write(self._file, frame)
        if written != len(frame):
            remedy = f"The disk of {str(self._path)!r} is full. Free some space, and retry."
            raise OSError(checks.expected("bytes written", written, str(len(frame)), remedy))
        if self._fsync:
            os.fsync(self._file)
        self.whole = True


def read(path: Path) -> Iterator[Entry]:
    """Yield the complete entries of a journal; none if it does not exist."""
    content = path.read_bytes() if path.exists() else b""
    start = _FRAME.size
    while start <= len(content):
        size, checksum = _FRAME.unpack_from(content, start - _FRAME.size)
        body = content[start : start + size]
        if len(body) != size or size < _ENTRY.size or crc32(body) != checksum:
            return
        kind, number, value = _ENTRY.unpack_from(body)
        yield Entry(kind, number, value, body[_ENTRY.size :])
        start += size + _FRAME.size


def repeat(agent: "Agent", entries: Iterator[Entry]) -> None:
    """Repeat the entries of a journal, up to the first that does not follow from the state."""
    learner, size = agent._learner, 8 * agent.algorithm.features
    for kind, number, value, rest in entries:
        if kind < _SELECTED:
            key = rest.decode()
            waits = number in agent._pending and agent._pending[number] == key
            if waits or agent._missed.has(number, key):
                agent._answer(number, value, _KINDS[kind], late=not waits)
            continue
        if learner.ended:
            learner.turn()
        if learner.due and learner.channel.private:
            return
        agent._close_due()
        if number != agent._first + learner.unreleased:
            return
        owner = unpacked(np.frombuffer(rest[size:], np.uint8))[0] if len(rest) > size else None
        if owner is not None:
            agent._check_kind(owner)
        learner.repeat(value)
        agent._begin_round(number, np.frombuffer(rest[:size]), owner, agent._missed.key)
