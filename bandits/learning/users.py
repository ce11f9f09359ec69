"""User ids, compared by value and type, and stored as JSON.

NumPy's fixed-width strings would drop trailing zero bytes, and not distinguish 7 from "7".
"""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from bandits import checks
from bandits.checks import Indices

User = int | str
_MOST_BITS = 1000
AS_TEXT = "text of version 0.1"
"""Type of the ids of an agent that version 0.1 saved."""


def user_of(user: Any) -> User:
    """Return a user id as a plain str or int, ignoring conversions that a subclass overrides."""
    remedy = "Pass one id per user: a user with two ids has two caps."
    if isinstance(user, str):
        return str.__str__(user)
    # durations are excluded: those of different units can have the same number
    whole = isinstance(user, int | np.integer) and not isinstance(user, bool | np.timedelta64)
    if not whole:
        shown, rule = f"<{type(user).__name__}>", "a string or a whole number"
        raise TypeError(checks.expected("user", shown, rule, remedy))
    number = int.__int__(user) if isinstance(user, int) else int(user)
    if number.bit_length() > _MOST_BITS:
        rule = f"a whole number of at most {_MOST_BITS} bits"
        raise ValueError(checks.expected("user", "<a longer int>", rule, "Pass a smaller id."))
    return number


def as_text(user: User) -> str:
    """Return a user id as version 0.1 stored it."""
    return str(user).rstrip("\0")


def coded(users: Any) -> tuple[list[User], Indices]:
    """Return the distinct users, and for each round the index of its user among them."""
    known: dict[User, int] = {}
    each = users.tolist() if isinstance(users, np.ndarray) else users
    places = [known.setdefault(user, len(known)) for user in each]
    return list(known), np.array(places, dtype=np.int64)


def packed(users: Iterable[User]) -> npt.NDArray[np.uint8]:
    """Return user ids as bytes for a file; `unpacked` reads them."""
    # JSON escapes would join two lone surrogates into one character
    text = json.dumps(list(users), ensure_ascii=False)
    return np.frombuffer(text.encode("utf-8", "surrogatepass"), dtype=np.uint8)


def unpacked(array: npt.NDArray[np.uint8]) -> list[User]:
    """Return the user ids that `packed` wrote."""
    found: list[User] = json.loads(array.tobytes().decode("utf-8", "surrogatepass"))
    return found
