"""Local reports that a trusted shuffler permutes."""

from dataclasses import dataclass
from typing import ClassVar

from privacy import checks, losses
from privacy.losses.pair import LossPair
from privacy.mechanisms.base import Mechanism, freeze, register_mechanism
from privacy.relations import NeighboringRelation


@dataclass(frozen=True)
class ShuffledReports(Mechanism):
    """One report of each of n users, randomized locally and then shuffled by a trusted party.

    All users apply the same epsilon-DP randomizer. If the randomizers differ or depend on earlier
    reports, shuffle the records before they are randomized. The guarantee holds under every
    relation if an absent or null record is also reported, so that n is public. In cells of
    `parallel`, n is public only with ``cells="by_public_index"``.

    The pair for any randomizer is that of Feldman, McMillan and Talwar 2021 (arXiv 2012.12803),
    Theorem 3.1; for randomized response, that of the privacy blanket (Balle, Bell, Gascon and
    Nissim 2019, arXiv 1903.02837): a report is uniform with probability k / (e^epsilon + k - 1).

    `epsilon` in (0, 100] is the local one of a report; `reports` is the number n of them, which the
    shuffler guarantees, up to 10^9. `categories` is k, if the randomizer is k-ary
    `RandomizedResponse`, and None for any epsilon-DP randomizer.
    """

    epsilon: float
    reports: int
    categories: int | None = None

    def __post_init__(self) -> None:
        remedy = "Pass the local epsilon; above 100, use PureDP."
        epsilon = checks.real("epsilon", self.epsilon, remedy, above=0, at_most=100)
        remedy = "Pass the number of reports that the shuffler waits for."
        reports = checks.count("reports", self.reports, remedy)
        checks.real("reports", reports, remedy, at_most=10**9)
        categories = self.categories
        if categories is not None:
            remedy = "Pass the number of answers of randomized response, or leave it out."
            categories = checks.count("categories", categories, remedy)
            checks.real("categories", categories, remedy, at_least=2)
        freeze(self, epsilon=epsilon, reports=reports, categories=categories)

    fixed_count: ClassVar[bool] = True

    def loss(self, relation: NeighboringRelation) -> LossPair:
        """Return the shuffled reports for two values of one user's record."""
        return losses.shuffled.ShuffledPair(self.epsilon, self.reports, self.categories)


register_mechanism(ShuffledReports(1.0, 1000, 4))
