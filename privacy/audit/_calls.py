"""Calls of audited code, which convert what it raises to an error.

Otherwise SystemExit(0) would end a command as "not falsified", and ``pytest.skip`` skip the audit.
"""

from collections.abc import Callable
from typing import Any

REMEDY = "The audit is inconclusive: fix the exception and rerun."


class NotFinished(RuntimeError):
    """The audited code raised an exception, so the audit has no result."""


def called(what: str, code: Callable[..., Any], *arguments: Any) -> Any:
    """Return ``code(*arguments)``; raise `NotFinished` for exceptions except KeyboardInterrupt.

    Code that ends the process (``os._exit``, a signal) cannot be caught.
    """
    try:
        return code(*arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        message = f"Expected {what} to return; it raised {type(error).__name__}: {error}. {REMEDY}"
        raise NotFinished(message) from error
