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
    Nothing,
    Parallel,
    Repeated,
    compose,
    nothing,
    parallel,
    repeat,
)
from privacy.mechanisms.discrete_laplace import DiscreteLaplace
from privacy.mechanisms.noise import Gaussian, Laplace
from privacy.mechanisms.sampling import GroupSampled, PoissonSampled
from privacy.mechanisms.serialization import mechanism_from_json
from privacy.mechanisms.users import user_level

__all__ = [
    "REGISTRY",
    "ApproximateDP",
    "Cells",
    "Composed",
    "DiscreteLaplace",
    "Gaussian",
    "GroupSampled",
    "Laplace",
    "Mechanism",
    "Nothing",
    "Parallel",
    "PoissonSampled",
    "PureDP",
    "RandomizedResponse",
    "Repeated",
    "UnsupportedMechanism",
    "ZeroConcentratedDP",
    "checked",
    "compose",
    "mechanism_from_json",
    "nothing",
    "parallel",
    "register_mechanism",
    "repeat",
    "user_level",
]
