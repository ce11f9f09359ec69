"""Locks for one thread at a time, and permissions that can be used once."""

import os
import threading
from typing import Any


class ReleaseLock:
    """A lock for one release, reentrant for signal handlers; copies and forks get a new one."""

    def __init__(self) -> None:
        self._process, self._lock = os.getpid(), threading.RLock()

    def __enter__(self) -> None:
        if os.getpid() != self._process:  # a fork does not copy the thread that holds the lock
            self._process, self._lock = os.getpid(), threading.RLock()
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> Any:
        return ReleaseLock, ()


class Right:
    """A permission that can be used once, in the process that created it."""

    def __init__(self) -> None:
        self._process, self._used = os.getpid(), threading.Lock()

    def __bool__(self) -> bool:
        return not self._used.locked() and self._process == os.getpid()

    def use(self) -> bool:
        return self._used.acquire(blocking=False) and self._process == os.getpid()
