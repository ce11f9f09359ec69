"""Hypothesis strategies for plans, targets and relations, from ordinary to extreme."""

import math

from hypothesis import strategies as st

import privacy as dp

ADD_OR_REMOVE_ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE

relations = st.sampled_from(dp.NeighboringRelation)


def log_uniform(low, high):
    """Floats spread evenly over the orders of magnitude."""
    return st.floats(math.log(low), math.log(high)).map(
        lambda log: min(max(math.exp(log), low), high)
    )


noise_multipliers = log_uniform(0.3, 30)
sampling_probabilities = log_uniform(1e-4, 1)
steps = log_uniform(1, 1e4).map(round)
epsilons = log_uniform(1e-2, 30)
deltas = log_uniform(1e-12, 0.1)
orders = st.one_of(st.integers(2, 64).map(float), log_uniform(1e-3, 100).map(lambda t: 1 + t))

gaussians = noise_multipliers.map(dp.Gaussian)
laplaces = noise_multipliers.map(dp.Laplace)
responses = st.builds(dp.RandomizedResponse, log_uniform(1e-2, 5), st.integers(2, 9))
rhos = log_uniform(1e-4, 5)


def claims(relation=ADD_OR_REMOVE_ONE):
    """Claims proven elsewhere."""
    relation = st.just(relation)
    return st.one_of(
        st.builds(dp.PureDP, log_uniform(1e-2, 5), relation),
        st.builds(dp.ZeroConcentratedDP, rhos, relation),
    )


def sampled(inner):
    return st.builds(
        lambda mechanism, q: dp.PoissonSampled(mechanism, sampling_probability=q),
        inner,
        sampling_probabilities,
    )


sampled_gaussians = sampled(gaussians)
noise = st.one_of(gaussians, laplaces, sampled_gaussians)
parts = st.one_of(noise, sampled(laplaces), responses, claims())
"""One release; RDP answers each of them, in add-or-remove."""


def plans(part=parts, size=3):
    """Several releases, some of them repeated."""
    repeated = st.builds(dp.repeat, part, st.integers(1, 50))
    return st.lists(repeated, min_size=1, max_size=size).map(lambda those: dp.compose(*those))


def _grow(inner):
    several = st.lists(inner, min_size=1, max_size=3)
    cells = st.sampled_from(["by_record", "by_public_index"])
    return st.one_of(
        st.builds(dp.repeat, inner, st.integers(1, 10**12)),
        several.map(lambda those: dp.compose(*those)),
        st.builds(lambda those, how: dp.parallel(*those, cells=how), several, cells),
        sampled(inner),
    )


approximate = st.builds(
    dp.ApproximateDP, st.one_of(st.just(0.0), log_uniform(1e-6, 100)), deltas, relations
)
leaves = st.one_of(
    parts,
    relations.flatmap(claims),
    approximate,
    st.builds(dp.Gaussian, log_uniform(1e-300, 1e300), log_uniform(1e-3, 2)),
)
trees = st.recursive(leaves, _grow, max_leaves=8)
"""Any description that can be built, whether or not a notion answers it."""
