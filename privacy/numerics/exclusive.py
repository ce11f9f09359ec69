"""Locks for one thread at a time, and permissions that can be used once."""

import os
import threading
from types import TracebackType
from typing import Any


class Claim:
    """A lock for one release. Copies, pickles and forked processes get a new lock.

    It is reentrant, so that a signal handler in the thread that holds it does not deadlock.
    """

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.RLock()

    def __enter__(self) -> None:
        if os.getpid() != self._process:  # a fork does not copy the thread that holds the lock
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
    """A permission that can be used once, in the process that created it."""

    def __init__(self) -> None:
        self._process, self._unused = os.getpid(), [True]

    def __bool__(self) -> bool:
        return bool(self._unused) and self._process == os.getpid()

    def use(self) -> bool:
        try:
            return self._unused.pop() and self._process == os.getpid()
        except IndexError:
            return False
