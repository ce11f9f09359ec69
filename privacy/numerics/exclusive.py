"""Claims: one thread at a time, in the process that made the object, and each right once."""

import os
import threading
from types import TracebackType
from typing import Any


class Claim:
    """A lock for one release. Copies, pickles and forks get a lock of their own.

    The thread that holds it may take it again: a signal handler then meets the half-made release
    instead of waiting for itself.
    """

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.RLock()

    def __enter__(self) -> None:
        if os.getpid() != self._process:  # the thread that holds the lock was not forked with it
            self._process, self._lock = os.getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return Claim, ()


class Right:
    """A right that is used once, in the process that gave it."""

    def __init__(self) -> None:
        self._process, self._unused = os.getpid(), [True]

    def __bool__(self) -> bool:
        return bool(self._unused) and self._process == os.getpid()

    def use(self) -> bool:
        """Return whether there was a right. Of several threads, one gets True."""
        try:
            return self._unused.pop() and self._process == os.getpid()
        except IndexError:
            return False
