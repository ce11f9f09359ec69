"""Conversion of agents saved by version 0.1.

Version 0.1 stored user ids as NumPy text: 7 became "7", and trailing zero bytes were lost. The
original ids cannot be recovered, so a restored agent converts new ids in the same way.
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
    """Return the arrays with user ids in the current format, and the type of the agent's ids.

    Two users may have shared an id. Where the guarantee does not cover that, it raises ValueError.
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
        # If two users share a cap, removing one's rewards changes what the other may add: the
        # sensitivity is 2 caps instead of 1. REPLACE_ONE is accounted with 2 caps, and
        # AdaPrivateGroup counts rounds whatever their rewards, so both stay valid.
        rule = "REPLACE_ONE, because older versions stored users 7 and '7' as one user"
        remedy = "Start a new agent; the two guarantees compose."
        raise ValueError(checks.expected("relation", str(REPLACE_SPECIAL), rule, remedy))
    return arrays, AS_TEXT
