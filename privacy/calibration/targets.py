"""The targets of a calibration: (epsilon, delta), or a bound on what an attacker achieves."""

import math
from collections.abc import Mapping
from typing import Any, TypedDict

from privacy import checks
from privacy.accounting import Notion
from privacy.calibration.search import Family, Make, RateFamily, Seek
from privacy.relations import NeighboringRelation
from privacy.risk import bayes_target


class Target(TypedDict, total=False):
    """The keywords of a target: give one pair, or ``advantage`` alone."""

    epsilon: float
    delta: float
    advantage: float
    true_positive_rate: float
    false_positive_rate: float
    bayes_risk: float
    prior: float


KINDS = (
    ("epsilon", "delta"),
    ("advantage",),
    ("true_positive_rate", "false_positive_rate"),
    ("bayes_risk", "prior"),
)


def family_for(
    make: Make,
    target: Mapping[str, float | None],
    seek: Seek,
    notion: Notion,
    relation: NeighboringRelation,
) -> Family:
    """Return the family with its target, checked."""
    given: dict[str, Any] = {name: value for name, value in target.items() if value is not None}
    if not any(given.keys() == set(kind) for kind in KINDS):
        for kind in KINDS:
            missing = [name for name in kind if name not in given]
            if given and given.keys() <= set(kind):
                rule = f"given with {' and '.join(given)}"
                raise TypeError(checks.expected(missing[0], None, rule, "Pass both."))
        kinds = "; ".join(" and ".join(kind) for kind in KINDS)
        remedy = f"Pass one of: {kinds}."
        raise TypeError(checks.expected("target", sorted(given), "one target", remedy))
    if "epsilon" in given:
        pair = checks.epsilon(given["epsilon"]), checks.query_delta(given["delta"])
    elif "advantage" in given:
        remedy = "Pass the largest true positive rate minus false positive rate, such as 0.1."
        pair = 0.0, checks.real("advantage", given["advantage"], remedy, above=0, below=1)
    elif "bayes_risk" in given:
        pair = bayes_target(given["bayes_risk"], given["prior"])
    else:
        low, high = "false_positive_rate", "true_positive_rate"
        rare = checks.real(low, given[low], "Pass a rate, such as 0.01.", above=0, below=1)
        remedy = "Pass a rate above the false positive rate."
        rate = checks.real(high, given[high], remedy, above=rare, below=1)
        return RateFamily(make, math.nan, rate, seek, notion, relation, rare)
    return Family(make, *pair, seek, notion, relation)
