"""Private contextual bandits, assembled from the mechanisms of `privacy`.

Every public name is imported on first use. This package imports the public names of `privacy`
and nothing below them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bandits.agents import (
        LinTS,
        LinUCB,
        PrivateThompson,
        PrivateUCB,
        algorithm_from_json,
    )
    from bandits.algorithm import Algorithm
    from bandits.baselines import (
        AdaPrivateAdaptive,
        AdaPrivateAmp,
        AdaPrivateForced,
        AdaPrivateGroup,
        AdaPrivateTS,
        AdaPrivateTuned,
        AdaPrivateUCB,
        AdaPrivateUser,
        PrivateContexts,
    )
    from bandits.environments import Environment, RankDeficient, Replay, Synthetic
    from bandits.live import Agent, Ticket
    from bandits.simulation import Simulation, simulate

__all__ = [
    "AdaPrivateAdaptive",
    "AdaPrivateAmp",
    "AdaPrivateForced",
    "AdaPrivateGroup",
    "AdaPrivateTS",
    "AdaPrivateTuned",
    "AdaPrivateUCB",
    "AdaPrivateUser",
    "Agent",
    "Algorithm",
    "Environment",
    "LinTS",
    "LinUCB",
    "PrivateContexts",
    "PrivateThompson",
    "PrivateUCB",
    "RankDeficient",
    "Replay",
    "Simulation",
    "Synthetic",
    "Ticket",
    "algorithm_from_json",
    "simulate",
]

_HOMES = {
    "agents": "LinTS LinUCB PrivateThompson PrivateUCB algorithm_from_json",
    "algorithm": "Algorithm",
    "baselines": "AdaPrivateAdaptive AdaPrivateAmp AdaPrivateForced AdaPrivateGroup AdaPrivateTS "
    "AdaPrivateTuned AdaPrivateUCB AdaPrivateUser PrivateContexts",
    "environments": "Environment RankDeficient Replay Synthetic",
    "live": "Agent Ticket",
    "simulation": "Simulation simulate",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bandits' has no attribute {name!r}")
    value = getattr(import_module(f"bandits.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
