"""Private choice of one of several candidates by their scores."""

from dataclasses import dataclass

from privacy.losses.ranges import RangePair
from privacy.mechanisms.base import check_relation, register_mechanism
from privacy.mechanisms.claims import EpsilonClaim, PureDP
from privacy.relations import NeighboringRelation


@dataclass(frozen=True)
class ExponentialMechanism(EpsilonClaim):
    """The exponential mechanism, or any mechanism with losses in an interval of length `epsilon`.

    Candidates are chosen with a probability proportional to exp(epsilon * score / (2 *
    sensitivity)), or exp(epsilon * score / sensitivity) if adding a record decreases no score (or
    increases none). It is also epsilon-DP. `relation` is that of the sensitivity.

    Compositions may be adaptive and of different epsilons (Zhu, Dong and Wang 2022, Theorem 10;
    Mironov 2017, Proposition 1).
    Sources: McSherry and Talwar 2007; Durfee and Rogers 2019; Dong, Durfee and Rogers 2020, section
    4; Cesar and Rogers 2021 (zCDP with rho at most epsilon^2 / 8).
    """

    def loss(self, relation: NeighboringRelation) -> RangePair:
        """Return two logistic distributions at distance epsilon."""
        check_relation(self, relation)
        return RangePair(self.epsilon)


@dataclass(frozen=True)
class PermuteAndFlip(PureDP):
    """Permute-and-flip (report noisy max with exponential noise), which is epsilon-DP.

    Candidates are visited in random order. Each is chosen with probability exp(epsilon * (score -
    best score) / (2 * sensitivity)), or without the factor 2 if adding a record decreases no score
    (or increases none). `relation` is that of the sensitivity.
    Sources: McKenna and Sheldon 2020; Ding, Kifer, Sayed M., Steinke, Wang, Xiao and Zhang 2021
    (the same as report noisy max with exponential noise).
    """


register_mechanism(ExponentialMechanism(0.75))
register_mechanism(PermuteAndFlip(0.75))
