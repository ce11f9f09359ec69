"""The sparse vector technique: which of many queries exceed a threshold."""

from dataclasses import dataclass

from privacy import checks
from privacy.mechanisms.base import freeze, register_mechanism
from privacy.mechanisms.claims import PureDP
from privacy.names import suggests_field_names


@suggests_field_names
@dataclass(frozen=True)
class AboveThreshold(PureDP):
    """The sparse vector technique: compare queries with a noisy threshold until some are above it.

    With epsilon = e1 + e2 + e3, sensitivity D and c = `max_positives`, after which it stops: the
    threshold has Laplace noise of scale D / e1, drawn once; each query has fresh noise of scale 2 c
    D / e2, or c D / e2 if no two queries change in opposite directions; the value of a query above
    the threshold, if given, has fresh noise of scale c D / e3. Any number of queries may be below
    the threshold. Epsilon bounds all answers together; `relation` is that of the sensitivity.

    For less noise with many positive answers, ``repeat(AboveThreshold(epsilon), c)`` describes c
    runs that each draw a new threshold.

    Source: Lyu, Su and Li 2017, Algorithm 7, Theorems 4 and 5. Their Algorithms 3 to 6 were
    published by others and are not private.
    """

    max_positives: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        remedy = "Pass the number of positive answers after which to stop."
        freeze(self, max_positives=checks.count("max_positives", self.max_positives, remedy))


register_mechanism(AboveThreshold(0.75, max_positives=3))
