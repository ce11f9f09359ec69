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
    )
    from bandits.contexts import PrivateContexts
    from bandits.datasets import (
        BanditLog,
        DataUnavailable,
        Ratings,
        load_jester,
        load_movielens,
        load_open_bandit,
    )
    from bandits.elimination import CoreSetElimination
    from bandits.environments import Environment, RankDeficient, Replay, Synthetic
    from bandits.evaluation import (
        Estimate,
        doubly_robust,
        ips,
        replay,
        snips,
    )
    from bandits.features import ItemFeatures, private_svd_features, svd_features
    from bandits.intervals import Options, Privacy
    from bandits.live import Agent
    from bandits.propensities import Propensities, thompson_propensities
    from bandits.simulation import Simulation, simulate
    from bandits.tickets import Ticket

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
    "BanditLog",
    "CoreSetElimination",
    "DataUnavailable",
    "Environment",
    "Estimate",
    "ItemFeatures",
    "LinTS",
    "LinUCB",
    "Options",
    "Privacy",
    "PrivateContexts",
    "PrivateThompson",
    "PrivateUCB",
    "Propensities",
    "RankDeficient",
    "Ratings",
    "Replay",
    "Simulation",
    "Synthetic",
    "Ticket",
    "algorithm_from_json",
    "doubly_robust",
    "ips",
    "load_jester",
    "load_movielens",
    "load_open_bandit",
    "private_svd_features",
    "replay",
    "simulate",
    "snips",
    "svd_features",
    "thompson_propensities",
]

_HOMES = {
    "agents": "LinTS LinUCB PrivateThompson PrivateUCB algorithm_from_json",
    "algorithm": "Algorithm",
    "baselines": "AdaPrivateAdaptive AdaPrivateAmp AdaPrivateForced AdaPrivateGroup AdaPrivateTS "
    "AdaPrivateTuned AdaPrivateUCB AdaPrivateUser",
    "contexts": "PrivateContexts",
    "datasets": "BanditLog DataUnavailable Ratings load_jester load_movielens load_open_bandit",
    "elimination": "CoreSetElimination",
    "environments": "Environment RankDeficient Replay Synthetic",
    "evaluation": "Estimate doubly_robust ips replay snips",
    "features": "ItemFeatures private_svd_features svd_features",
    "intervals": "Options Privacy",
    "live": "Agent",
    "propensities": "Propensities thompson_propensities",
    "simulation": "Simulation simulate",
    "tickets": "Ticket",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        message = f"module 'bandits' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=import_module(__name__))
    value = getattr(import_module(f"bandits.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
