"""Private choice of one of several candidates by their scores."""

from dataclasses import dataclass, replace

from privacy import checks
from privacy.losses.ranges import RangePair
from privacy.mechanisms.base import Mechanism, check_relation, freeze, register_mechanism
from privacy.mechanisms.claims import PureDP, scaled
from privacy.names import suggests_field_names
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation


@suggests_field_names
@dataclass(frozen=True)
class ExponentialMechanism(Mechanism):
    """The exponential mechanism, or any mechanism with losses in an interval of length `epsilon`.

    Its privacy loss lies in an interval of length epsilon. Candidates are chosen with a probability
    proportional to exp(epsilon * score / (2 * sensitivity)), or exp(epsilon * score / sensitivity)
    if adding a record decreases no score (or increases none). Report noisy max with Gumbel noise is
    the same mechanism.

    Compositions may be adaptive and of different epsilons: the dominating pair and the Rényi
    divergence of one application hold for every mechanism of this range, and both compose
    adaptively (Zhu, Dong and Wang 2022, Theorem 10; Mironov 2017, Proposition 1). The tighter
    composition of Dong, Durfee and Rogers for mechanisms that are fixed in advance is not used.

    Parameters
    ----------
    epsilon
        The range, > 0. The mechanism is also epsilon-DP.
    relation
        The neighboring relation of the sensitivity.

    References
    ----------
    McSherry and Talwar 2007; Durfee and Rogers 2019; Dong, Durfee and Rogers 2020, section 4;
    Cesar and Rogers 2021 (zCDP with rho = epsilon^2 / 8).
    """

    epsilon: float
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        freeze(
            self,
            epsilon=checks.epsilon(self.epsilon),
            relation=checks.relation(self.relation),
        )

    def loss(self, relation: NeighboringRelation) -> RangePair:
        """Return two logistic distributions at distance epsilon."""
        check_relation(self, relation)
        return RangePair(self.epsilon)

    def for_group(self, size: int) -> "ExponentialMechanism":
        """Return size * epsilon: the ranges of a chain of data sets add up."""
        return replace(self, epsilon=scaled(self.epsilon, size))


@suggests_field_names
@dataclass(frozen=True)
class PermuteAndFlip(PureDP):
    """Permute-and-flip, which is epsilon-DP; also report noisy max with exponential noise.

    Candidates are visited in random order. Each is chosen with probability exp(epsilon * (score -
    best score) / (2 * sensitivity)), or without the factor 2 if adding a record decreases no score
    (or increases none). The expected score is never below that of the exponential mechanism.

    Parameters
    ----------
    epsilon
        The privacy loss bound, > 0.
    relation
        The neighboring relation of the sensitivity.

    References
    ----------
    McKenna and Sheldon 2020; Ding, Kifer, Sayed M., Steinke, Wang, Xiao and Zhang 2021
    (the same as report noisy max with exponential noise).
    """


register_mechanism(ExponentialMechanism(0.75))
register_mechanism(PermuteAndFlip(0.75))
