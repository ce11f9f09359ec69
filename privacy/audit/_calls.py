"""Calls of the code that is audited: they return, or there is an error that says why not.

What such code raises must not decide how the audit ends. SystemExit(0) would end a command as
"not falsified", and what skips a test would skip the audit.
"""

from collections.abc import Callable
from typing import Any


class NotFinished(RuntimeError):
    """The audited code raised something instead of returning, so that nothing was found out."""


def called(what: str, code: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``code(*arguments)``.

    Raises
    ------
    NotFinished
        For whatever it raises, SystemExit and what skips or ends a run of pytest among it. Only
        KeyboardInterrupt is passed on: it may be the auditor's own, and no program takes it for
        success. Code that ends the process (``os._exit``, a signal) cannot be caught.
    """
    try:
        return code(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise NotFinished(
            f"Expected {what} to return; it raised {type(error).__name__}: {error}. Nothing was "
            "found out. Let it return its output whatever happens, or mend it."
        ) from error
