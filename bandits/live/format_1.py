"""Agents that version 0.1 saved: their files in the form of today.

Version 0.1 kept ids of users as NumPy text: 7 was "7", and zero bytes at the end were lost. What a
user gave is not in the file, so that the agent goes on with ids as version 0.1 took them.
"""

from collections.abc import Mapping
from typing import Any

from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.learning.per_user import Capped
from bandits.learning.rewards import REPLACE_SPECIAL, Released
from bandits.learning.users import AS_TEXT, coded, packed

KIND = "bandit-agent 1"


def upgraded(
    algorithm: Algorithm, channel: object, found: Mapping[str, Any]
) -> tuple[dict[str, Any], str | None]:
    """Return the arrays with users as they are kept today, and how the agent takes ids.

    Raises
    ------
    ValueError
        Two users may have been one, and their guarantee does not allow it.
    """
    arrays = dict(found)
    if not (isinstance(channel, Released) and channel.by_user):
        arrays["users"], arrays["user_places"] = packed([]), coded([])[1]
        return arrays, None
    users, arrays["user_places"] = coded(found["users"])
    arrays["users"] = packed(users)
    ledger = found["channel_users"].tolist()
    arrays["channel_users"] = packed(ledger)
    special = getattr(algorithm, "relation", None) == REPLACE_SPECIAL
    if isinstance(channel, Capped) and special and (users or ledger):
        # without the rewards of one, what the other may add is another: 2 caps, where 1 is claimed.
        # REPLACE_ONE is accounted with 2, and rounds of a group are counted, whatever their rewards
        rule = "REPLACE_ONE where version 0.1 saved users, who may share a cap (7 and '7')"
        remedy = "Start a new agent; its guarantee adds to that of this one."
        raise ValueError(checks.expected("relation", str(REPLACE_SPECIAL), rule, remedy))
    return arrays, AS_TEXT
