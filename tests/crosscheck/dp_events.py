"""Random events of dp-accounting, and their epsilon there and here."""

import math

import numpy as np
from dp_accounting import NeighboringRelation, pld, rdp
from dp_accounting import dp_event as events

from privacy.interop.dp_accounting import DpAccountant


def random_leaf(rng, relation):
    """Return an event of one release that their accountants support under the relation."""
    sigma, q = float(np.exp(rng.uniform(-0.7, 2))), float(10 ** rng.uniform(-3, -0.3))
    sensitivity = int(rng.integers(1, 6))
    noise = {
        "gaussian": events.GaussianDpEvent(sigma),
        "laplace": events.LaplaceDpEvent(sigma),
        "discrete": events.DiscreteLaplaceDpEvent(1 / (sigma * sensitivity), sensitivity),
        "response": events.RandomizedResponseDpEvent(
            float(rng.uniform(0.2, 0.9)), int(rng.integers(2, 8))
        ),
        "tree": events.SingleEpochTreeAggregationDpEvent(
            3 * sigma, [int(n) for n in rng.integers(1, 300, int(rng.integers(1, 4)))]
        ),
        "concentrated": events.ZCDpEvent(0.5 / sigma**2),
    }
    kinds = {
        "ADD_OR_REMOVE_ONE": ["gaussian", "laplace", "discrete", "concentrated"],
        "REPLACE_ONE": ["response"],
        "REPLACE_SPECIAL": ["tree", "gaussian", "concentrated"],
    }
    kind = rng.choice(kinds[relation])
    sampled = relation == "ADD_OR_REMOVE_ONE" and kind in ("gaussian", "laplace")
    if sampled and rng.random() < 0.6:
        return events.PoissonSampledDpEvent(q, noise[kind])
    return noise[kind]


def random_case(rng):
    """Return a random composition, a relation, and their smallest epsilon at delta 1e-5."""
    while True:
        relations = ["ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"]
        relation = str(rng.choice(relations, p=[0.55, 0.05, 0.4]))
        parts = []
        for _ in range(rng.integers(1, 4)):
            event = random_leaf(rng, relation)
            count = int(np.exp(rng.uniform(0, 5))) if rng.random() < 0.5 else 1
            if relation == "REPLACE_ONE":  # their accountant ignores the count of responses
                parts += [event] * min(count, 6)
            else:
                parts.append(events.SelfComposedDpEvent(event, count) if count > 1 else event)
        whole = events.ComposedDpEvent(parts) if len(parts) > 1 else parts[0]
        theirs = their_epsilon(whole, relation)
        if theirs < math.inf:  # else neither accountant supports the whole
            return whole, relation, theirs


def their_epsilon(event, relation, delta=1e-5):
    """Return the smallest epsilon of their accountants that support an event, else infinity."""
    found = [math.inf]
    for kind in (pld.PLDAccountant, rdp.RdpAccountant):
        # their RDP of noise under REPLACE_ONE is that of REPLACE_SPECIAL
        if kind is rdp.RdpAccountant and relation == "REPLACE_ONE":
            continue
        accountant = kind(neighboring_relation=NeighboringRelation[relation])
        if accountant.supports(event):
            found.append(float(accountant.compose(event).get_epsilon(delta)))
    return min(found)


def excess(rng):
    """Return by which fraction our epsilon exceeds theirs in a random case, and the case."""
    event, relation, theirs = random_case(rng)
    found = DpAccountant(relation).compose(event).get_epsilon(1e-5)
    if found == theirs == 0:
        return 0.0, event
    return (found - theirs) / theirs if theirs else math.inf, event
