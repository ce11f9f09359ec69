"""Audit a noisy sum, and falsify the same claim for a sum without clipping."""

import numpy as np

import privacy as dp
from privacy.audit import assert_spends, audit, falsify_noise

CLIP_NORM, NOISE_MULTIPLIER = 1.0, 2.0
claim = dp.Gaussian(NOISE_MULTIPLIER)
pair = ([0.2, 0.5], [0.2, 0.5, 3.0])  # the added record exceeds the clip norm


def noisy_sum(data: list[float], rng: np.random.Generator) -> float:
    """Return the noisy sum of the clipped records."""
    clipped = np.clip(np.asarray(data, dtype=float), -CLIP_NORM, CLIP_NORM)
    return float(clipped.sum() + rng.normal(0, NOISE_MULTIPLIER * CLIP_NORM))


def unclipped_sum(data: list[float], rng: np.random.Generator) -> float:
    """Return the noisy sum without clipping; the audit falsifies its claim."""
    return sum(data) + rng.normal(0, NOISE_MULTIPLIER * CLIP_NORM)


if __name__ == "__main__":
    assert_spends(noisy_sum, pair, claim)
    rng = np.random.default_rng(1)
    print(falsify_noise(claim, [noisy_sum([], rng) for _ in range(1000)]))
    print(audit(noisy_sum, pair, claim, runs=2000))
    print(audit(unclipped_sum, pair, claim, runs=2000))
