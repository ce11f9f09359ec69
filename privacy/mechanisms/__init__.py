"""Mechanisms: frozen, hashable, validated descriptions of what ran, and their combinators."""

# fmt: off
# isort: off
from privacy.mechanisms.allocation import CyclicPoisson, RandomAllocation
from privacy.mechanisms.base import (
    REGISTRY, Mechanism, UnsupportedMechanism, brief, check_relation, checked, mechanism_from_json,
    needs_largest_count, parts_of, register_mechanism,
)
from privacy.mechanisms.choice import ExponentialMechanism, PermuteAndFlip
from privacy.mechanisms.claims import ApproximateDP, PureDP, RandomizedResponse, ZeroConcentratedDP
from privacy.mechanisms.combinators import (
    Cells, Composed, NoOp, Parallel, Repeated, compose, no_op, parallel, repeat,
)
from privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from privacy.mechanisms.discrete_laplace import DiscreteLaplace
from privacy.mechanisms.finite import FiniteMechanism, from_pmfs
from privacy.mechanisms.noise import Gaussian, Laplace
from privacy.mechanisms.samplers import Epochs, FixedSizeSampled, TruncatedPoisson
from privacy.mechanisms.sampling import GroupSampled, PoissonSampled
from privacy.mechanisms.selection import BestOf, best_of
from privacy.mechanisms.shuffling import ShuffledReports
from privacy.mechanisms.sparse_vector import AboveThreshold
from privacy.mechanisms.tables import from_cdfs, from_profile
from privacy.mechanisms.trees import TreeAggregation
from privacy.mechanisms.users import user_level
# isort: on

__all__ = [
    "REGISTRY", "AboveThreshold", "ApproximateDP", "BestOf", "Cells", "Composed", "CyclicPoisson",
    "DiscreteGaussian", "DiscreteLaplace", "Epochs", "ExponentialMechanism", "FiniteMechanism",
    "FixedSizeSampled", "Gaussian", "GroupSampled", "Laplace", "Mechanism", "NoOp", "Parallel",
    "PermuteAndFlip", "PoissonSampled", "PureDP", "RandomAllocation", "RandomizedResponse",
    "Repeated", "ShuffledReports", "TreeAggregation", "TruncatedPoisson", "UnsupportedMechanism",
    "ZeroConcentratedDP", "best_of", "brief", "check_relation", "checked", "compose", "from_cdfs",
    "from_pmfs", "from_profile", "mechanism_from_json", "needs_largest_count", "no_op",
    "parallel", "parts_of", "register_mechanism", "repeat", "user_level",
]
# fmt: on
