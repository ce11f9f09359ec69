"""The sparse vector technique: which of many queries exceed a threshold."""

from dataclasses import dataclass

from privacy import checks
from privacy.mechanisms.base import freeze, register_mechanism
from privacy.mechanisms.claims import PureDP


@dataclass(frozen=True)
class AboveThreshold(PureDP):
    """The sparse vector technique: compare queries with a noisy threshold until some are above it.

    It stops after c = `max_positives` positive answers; any number of answers may be negative.
    Epsilon = e1 + e2 + e3 bounds all answers together. With sensitivity D (under `relation`), the
    scale of the Laplace noise is D / e1 on the threshold, drawn once; 2 c D / e2 on each query, or
    c D / e2 if no two queries change in opposite directions; and c D / e3 on the value of a query
    above the threshold, if that is published. For less noise with many positive answers,
    ``repeat(AboveThreshold(epsilon), c)`` describes c runs that each draw a new threshold.
    Source: Lyu, Su and Li 2017, Algorithm 7, Theorems 4 and 5.
    """

    max_positives: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "Pass the number of positive answers after which to stop."
        freeze(self, max_positives=checks.count("max_positives", self.max_positives, remedy))


register_mechanism(AboveThreshold(0.75, max_positives=3))
