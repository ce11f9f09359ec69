"""Mechanisms: frozen, hashable, validated descriptions of what ran.

`noise` and `claims` describe single releases, `sampling` the records that they ran on, and
`combinators` their composition. `privacy.accounting` computes the privacy curve.
"""

from privacy.mechanisms.base import (
    REGISTRY,
    Mechanism,
    UnsupportedMechanism,
    checked,
    register_mechanism,
)
from privacy.mechanisms.claims import (
    ApproximateDP,
    PureDP,
    RandomizedResponse,
    ZeroConcentratedDP,
)
from privacy.mechanisms.combinators import (
    Cells,
    Composed,
    Parallel,
    Repeated,
    compose,
    parallel,
    repeat,
)
from privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from privacy.mechanisms.discrete_laplace import DiscreteLaplace
from privacy.mechanisms.finite import FiniteMechanism, from_pmfs
from privacy.mechanisms.noise import Gaussian, Laplace
from privacy.mechanisms.sampling import GroupSampled, PoissonSampled
from privacy.mechanisms.serialization import mechanism_from_json
from privacy.mechanisms.shuffling import ShuffledReports
from privacy.mechanisms.tables import from_cdfs, from_profile
from privacy.mechanisms.trees import TreeAggregation
from privacy.mechanisms.users import user_level

__all__ = [
    "REGISTRY",
    "ApproximateDP",
    "Cells",
    "Composed",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FiniteMechanism",
    "Gaussian",
    "GroupSampled",
    "Laplace",
    "Mechanism",
    "Parallel",
    "PoissonSampled",
    "PureDP",
    "RandomizedResponse",
    "Repeated",
    "ShuffledReports",
    "TreeAggregation",
    "UnsupportedMechanism",
    "ZeroConcentratedDP",
    "checked",
    "compose",
    "from_cdfs",
    "from_pmfs",
    "from_profile",
    "mechanism_from_json",
    "parallel",
    "register_mechanism",
    "repeat",
    "user_level",
]
