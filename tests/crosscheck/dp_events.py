"""The events of dp-accounting as our mechanisms, and random cases of them."""

import math

import numpy as np
from dp_accounting import NeighboringRelation, pld, rdp
from dp_accounting import dp_event as events
from scipy.special import ndtr

import privacy as dp


def mixture(event):
    """Return the pair of a mixture of Gaussians, by the distribution of its loss on a grid."""
    sigma = event.standard_deviation
    shifts, weights = np.array(event.sensitivities), np.array(event.sampling_probs)
    x = np.linspace(-9 * sigma, 9 * sigma + shifts.max(), 600)[:, None]
    loss = np.log((weights * np.exp(shifts * (2 * x - shifts) / (2 * sigma**2))).sum(axis=1))
    kept = np.flatnonzero(np.diff(loss, prepend=-np.inf) > 1e-12)
    x, loss = x[kept], loss[kept]
    laws = [
        (weights * ndtr(side * (x - center) / sigma)).sum(axis=1)
        for side in (1, -1)
        for center in (shifts, 0)
    ]
    return dp.from_cdfs(
        lambda _: laws[0],
        lambda _: laws[1],
        loss,
        p_above=lambda _: laws[2],
        q_above=lambda _: laws[3],
    )


def randomized_response(event):
    """Return the response; an answer is uniform with probability `noise_parameter`."""
    k, p = event.num_buckets, event.noise_parameter
    return dp.RandomizedResponse(math.log1p(k * (1 - p) / p), k)


def fixed_size(event, relation, **options):
    """Return the noise on a batch of fixed size."""
    return dp.FixedSizeSampled(
        ours(event.event, relation),
        batch_size=event.sample_size,
        records=event.source_dataset_size,
        **options,
    )


OURS = {
    events.GaussianDpEvent: lambda e, _: dp.Gaussian(e.noise_multiplier),
    events.LaplaceDpEvent: lambda e, _: dp.Laplace(e.noise_multiplier),
    events.DiscreteLaplaceDpEvent: lambda e, _: dp.DiscreteLaplace(
        1 / e.noise_parameter, sensitivity=e.sensitivity
    ),
    events.RandomizedResponseDpEvent: lambda e, _: randomized_response(e),
    events.SelfComposedDpEvent: lambda e, relation: dp.repeat(ours(e.event, relation), e.count),
    events.ComposedDpEvent: lambda e, relation: dp.compose(
        *(ours(part, relation) for part in e.events)
    ),
    events.PoissonSampledDpEvent: lambda e, relation: dp.PoissonSampled(
        ours(e.event, relation), sampling_probability=e.sampling_probability
    ),
    events.SingleEpochTreeAggregationDpEvent: lambda e, _: dp.TreeAggregation(
        e.noise_multiplier, e.step_counts
    ),
    events.MixtureOfGaussiansDpEvent: lambda e, _: mixture(e),
    events.ZCDpEvent: lambda e, relation: dp.ZeroConcentratedDP(e.rho, relation),
    events.SampledWithoutReplacementDpEvent: fixed_size,
    events.SampledWithReplacementDpEvent: lambda e, relation: fixed_size(
        e, relation, replacement=True
    ),
    events.RepeatAndSelectDpEvent: lambda e, relation: dp.best_of(
        ours(e.event, relation),
        mean_runs=e.mean,
        distribution="poisson" if e.shape == math.inf else e.shape,
    ),
    events.TruncatedSubsampledGaussianDpEvent: lambda e, _: dp.TruncatedPoisson(
        dp.Gaussian(e.noise_multiplier),
        sampling_probability=e.sampling_probability,
        max_batch_size=e.truncated_batch_size,
        records=e.dataset_size,
    ),
    events.NoOpDpEvent: lambda e, _: dp.nothing(),
}
"""How each event is written with our constructors, under a relation."""

NO_MEANING = {
    events.NonPrivateDpEvent: "no guarantee",
    events.UnsupportedDpEvent: "no description",
}
"""Events that describe no mechanism."""


def ours(event, relation="ADD_OR_REMOVE_ONE"):
    """Return our mechanism of an event."""
    return OURS[type(event)](event, relation)


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
    found = dp.account(ours(event, relation), relation=relation).epsilon(1e-5)
    if found == theirs == 0:
        return 0.0, event
    return (found - theirs) / theirs if theirs else math.inf, event
