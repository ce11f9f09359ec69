"""Differentially private contextual bandits, built on the public names of `privacy`.

Public names are imported on first use. The subpackages, each of which imports only earlier ones:
`learning` (components), `algorithms` (descriptions built from them), `live` (agents in production),
`offline` (simulation and evaluation), `bridges` (to other frameworks), `experiments` (tables of the
preprint).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bandits.algorithms.runner import run_by as _run_by

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from bandits.algorithms.algorithm import Algorithm
    from bandits.algorithms.baselines import (
        AdaPrivateAdaptive, AdaPrivateAmp, AdaPrivateForced, AdaPrivateGroup, AdaPrivateTS,
        AdaPrivateTuned, AdaPrivateUCB, AdaPrivateUser,
    )
    from bandits.algorithms.bases import NonPrivate, Private
    from bandits.algorithms.contexts import PrivateContexts
    from bandits.algorithms.elimination import CoreSetElimination
    from bandits.algorithms.named import LinTS, LinUCB, PrivateThompson, PrivateUCB
    from bandits.algorithms.registry import algorithm_from_json, register_algorithm
    from bandits.bridges.arms import ArmPolicy, ObpPolicy
    from bandits.bridges.coba import CobaLearner
    from bandits.encoders import DeclaredFeatures, HashedFeatures
    from bandits.live.agent import Agent
    from bandits.live.tickets import Ticket
    from bandits.logs import BanditLog
    from bandits.offline.datasets import Ratings, load_jester, load_movielens, load_open_bandit
    from bandits.offline.downloads import DataUnavailable
    from bandits.offline.environments import (
        Block, Environment, RankDeficient, Replay, Synthetic, World,
    )
    from bandits.offline.evaluation import Estimate, doubly_robust, ips, replay, snips
    from bandits.offline.features import ItemFeatures, private_svd_features, svd_features
    from bandits.offline.intervals import Options, Privacy
    from bandits.offline.propensities import Propensities, thompson_propensities
    from bandits.offline.reward_models import FittedRewards, fit_rewards
    from bandits.offline.simulation import Simulation, simulate
    # isort: on
    # fmt: on

# fmt: off
__all__ = [
    "AdaPrivateAdaptive", "AdaPrivateAmp", "AdaPrivateForced", "AdaPrivateGroup", "AdaPrivateTS",
    "AdaPrivateTuned", "AdaPrivateUCB", "AdaPrivateUser", "Agent", "Algorithm", "ArmPolicy",
    "BanditLog", "Block", "CobaLearner", "CoreSetElimination", "DataUnavailable",
    "DeclaredFeatures", "Environment", "Estimate", "FittedRewards", "HashedFeatures",
    "ItemFeatures", "LinTS", "LinUCB", "NonPrivate", "ObpPolicy", "Options", "Privacy", "Private",
    "PrivateContexts", "PrivateThompson", "PrivateUCB", "Propensities", "RankDeficient", "Ratings",
    "Replay", "Simulation", "Synthetic", "Ticket", "World", "algorithm_from_json", "doubly_robust",
    "fit_rewards", "ips", "load_jester", "load_movielens", "load_open_bandit",
    "private_svd_features", "register_algorithm", "replay", "simulate", "snips", "svd_features",
    "thompson_propensities",
]
# fmt: on
_HOMES = {
    "algorithms.algorithm": "Algorithm",
    "algorithms.baselines": "AdaPrivateAdaptive AdaPrivateAmp AdaPrivateForced AdaPrivateGroup "
    "AdaPrivateTS AdaPrivateTuned AdaPrivateUCB AdaPrivateUser",
    "algorithms.bases": "NonPrivate Private",
    "algorithms.contexts": "PrivateContexts",
    "algorithms.elimination": "CoreSetElimination",
    "algorithms.named": "LinTS LinUCB PrivateThompson PrivateUCB",
    "algorithms.registry": "algorithm_from_json register_algorithm",
    "bridges.arms": "ArmPolicy ObpPolicy",
    "bridges.coba": "CobaLearner",
    "encoders": "DeclaredFeatures HashedFeatures",
    "live.agent": "Agent",
    "live.tickets": "Ticket",
    "logs": "BanditLog",
    "offline.datasets": "Ratings load_jester load_movielens load_open_bandit",
    "offline.downloads": "DataUnavailable",
    "offline.environments": "Block Environment RankDeficient Replay Synthetic World",
    "offline.evaluation": "Estimate doubly_robust ips replay snips",
    "offline.features": "ItemFeatures private_svd_features svd_features",
    "offline.intervals": "Options Privacy",
    "offline.propensities": "Propensities thompson_propensities",
    "offline.reward_models": "FittedRewards fit_rewards",
    "offline.simulation": "Simulation simulate",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name == "encoders":  # a public module
        return import_module("bandits.encoders")
    if name not in _MODULE_OF:
        message = f"module 'bandits' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=import_module(__name__))
    value = getattr(import_module(f"bandits.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_run_by(lambda: __getattr__("Agent"))
