"""The released sum against the claim of its mechanism, by experiment on neighboring inputs."""

import math

import numpy as np
import pytest
from scipy.special import betaincinv

import privacy as dp

RUNS = 1200


def outputs(rows, mechanism, generator):
    contributions = dp.clip_records(rows, clip_norm=1.0)
    return np.array(
        [
            float(
                dp.release_sum(contributions, mechanism, rng=generator, simulation=True).values[0]
            )
            for _ in range(RUNS)
        ]
    )


def lowest_delta(here, there, epsilon):
    """Return a lower bound of delta(epsilon), wrong with probability at most 1e-4."""
    best = 0.0
    thresholds = np.linspace(-2, 4, 13)
    tail = 1e-4 / (2 * thresholds.size)
    for threshold in thresholds:
        hits, misses = int((here > threshold).sum()), int((there > threshold).sum())
        often = betaincinv(hits, RUNS - hits + 1, tail) if hits else 0.0
        rarely = betaincinv(misses + 1, RUNS - misses, 1 - tail) if misses < RUNS else 1.0
        best = max(best, often - math.exp(epsilon) * rarely)
    return best


@pytest.mark.parametrize(
    ("relation", "here", "there"),
    [
        ("ADD_OR_REMOVE_ONE", [[9.0], [0.25]], [[0.25]]),
        ("REPLACE_ONE", [[9.0], [0.25]], [[-9.0], [0.25]]),
    ],
)
def test_the_claim_is_not_falsified_and_half_the_noise_is(relation, here, there):
    for mechanism, half in (
        (dp.Gaussian(0.75), dp.Gaussian(0.375)),
        (dp.Laplace(0.75), dp.Laplace(0.375)),
    ):
        claim = dp.account(mechanism, relation=relation)
        pick = np.random.default_rng(21)
        seen = lowest_delta(outputs(here, mechanism, pick), outputs(there, mechanism, pick), 0.5)
        assert 0.5 * claim.delta(0.5) < seen <= claim.delta(0.5)
        broken = lowest_delta(outputs(here, half, pick), outputs(there, half, pick), 0.5)
        assert broken > claim.delta(0.5)


@pytest.mark.parametrize("mechanism", [dp.Gaussian(0.75), dp.Laplace(0.75)])
def test_a_null_record_is_released_as_an_absent_one(mechanism):
    """The audit of a record that is removed is one of a record that becomes null."""
    null, absent = (dp.clip_records(rows, clip_norm=1.0) for rows in ([[0.0], [0.25]], [[0.25]]))
    for seed in range(50):
        one, other = (
            dp.release_sum(each, mechanism, rng=seed, simulation=True) for each in (null, absent)
        )
        assert one.values.tolist() == other.values.tolist()
    whole, part = (
        dp.account(mechanism, relation=r) for r in ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL")
    )
    assert whole.delta(0.5) == part.delta(0.5)


def test_both_data_sets_have_the_same_possible_outputs():
    # a coarse lattice, so that every output is seen on both sides
    drawn = [
        {
            float(value)
            for value in dp.release_sum(
                dp.clip_records(np.full((1, 60_000), total), clip_norm=600.0, norm="linf"),
                dp.Gaussian(3 / 600 / math.sqrt(60_000)),
                resolution=2,
                rng=22 + int(total),
                simulation=True,
            ).values
        }
        for total in (0.0, 1.0)
    ]
    near = {value for value in drawn[0] | drawn[1] if -6 <= value <= 7}
    assert len(near) > 8
    assert near <= drawn[0]
    assert near <= drawn[1]
