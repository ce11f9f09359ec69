"""Adaptive inputs: the privacy loss of the transcript has the claimed distribution."""

import math

import numpy as np
import pytest
from scipy.special import ndtr

import privacy as dp

F, P = dp.Factorization, dp.Participation
K, D, REPLICATES = 6, 2, 20_000
NOISE = 1.3


def kolmogorov(losses, mu):
    """Return sqrt(n) times the distance to N(mu^2 / 2, mu^2), the law of a Gaussian's loss."""
    z = np.sort((losses - mu**2 / 2) / mu)
    n = len(z)
    grid = np.arange(n + 1) / n
    law = ndtr(z)
    return math.sqrt(n) * max(np.abs(law - grid[:-1]).max(), np.abs(law - grid[1:]).max())


def adversary(releases, k):
    """Return the other records' sum and a unit direction for the record, from what was released.

    Not linear in the releases, and different for every transcript.
    """
    last = releases[-1] if releases else np.zeros((REPLICATES, D))
    angle = np.sin(3 * last[:, 0] + k) * 2 + last[:, 1] ** 2
    direction = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    return np.tanh(last) * 5 + np.where(last > 1, 3.0, 0.0), direction


def transcript_losses(factorization, takes_part, participation=None, *, turn=True):
    """Play an adversary that looks at every release, with the record in; return log p / q.

    The releases are mapped back to y = C (x + C^-1 z). Given earlier releases y_k is Gaussian
    around row k of C x, for the data with the record and without: the loss is a closed form.
    With `turn` the record's direction is chosen afresh in each of its releases.
    """
    sums = dp.RunningSum(
        factorization,
        noise_multiplier=NOISE,
        shape=(REPLICATES, D),
        participation=participation,
        simulation=True,
        rng=20,
    )
    releases, without, with_record, chosen = [], [], [], None
    for k in range(K):
        rest, direction = adversary(releases, k)
        if k in takes_part and (turn or chosen is None):
            chosen = direction
        record = chosen if k in takes_part else 0.0
        without.append(rest)
        with_record.append(rest + record)
        releases.append(sums.step(with_record[-1]))
    increments = np.diff(releases, axis=0, prepend=0.0)
    encoder = factorization.encoder()
    y, p, q = (np.tensordot(encoder, part, 1) for part in (increments, with_record, without))
    distances = np.square(y - q) - np.square(y - p)
    losses = distances.sum(axis=(0, 2)) / (2 * sums.sigma**2)
    moves = np.sqrt(np.square(p - q).sum(axis=(0, 2))) / sums.sigma
    return losses, moves


FACTORIZATIONS = {
    "column-normalized": F.column_normalized(K),
    "optimized": F.optimized(K, objective="max"),
    "independent": F.independent(K),
}
each = pytest.mark.parametrize("name", FACTORIZATIONS)
ROUGH = 2.2  # a Kolmogorov statistic beyond it has probability 1e-4


@each
@pytest.mark.parametrize("release", [0, 2, K - 1])
def test_one_participation_has_the_loss_of_one_gaussian(name, release):
    """Every column has norm 1, so that the claim is reached whenever the record comes."""
    losses, moves = transcript_losses(FACTORIZATIONS[name], {release})
    assert moves == pytest.approx(1 / NOISE, rel=1e-9)
    assert kolmogorov(losses, 1 / NOISE) < ROUGH
    assert kolmogorov(losses, 1.1 / NOISE) > 2 * ROUGH  # the test detects a mu that is 10 % larger


@pytest.mark.parametrize("name", ["column-normalized", "optimized"])
def test_three_participations_reach_the_quadratic_form(name):
    """The same direction each time is the worst case."""
    factorization = FACTORIZATIONS[name]
    window = P.consecutive(3)
    encoder = factorization.encoder()
    worst = max(range(K - 2), key=lambda s: np.linalg.norm(encoder[:, s : s + 3].sum(axis=1)))
    taken = set(range(worst, worst + 3))
    losses, moves = transcript_losses(factorization, taken, window, turn=False)
    assert moves == pytest.approx(1 / NOISE, rel=1e-9)
    assert kolmogorov(losses, 1 / NOISE) < ROUGH
    # charged by column norms alone, its true mu is sqrt(9 w) / NOISE with w up to 1
    losses, moves = transcript_losses(factorization, taken, turn=False)
    assert moves.min() > 1.9 / NOISE
    assert kolmogorov(losses, 1 / NOISE) > 10 * ROUGH


@each
def test_adaptive_directions_have_the_same_sensitivity(name):
    """A direction chosen afresh after each release, on every single transcript."""
    losses, moves = transcript_losses(FACTORIZATIONS[name], {1, 2, 3}, P.consecutive(3))
    assert moves.max() <= (1 + 1e-9) / NOISE
    # the profile of the claim dominates: E (1 - e^(epsilon - L))_+ within its sampling error
    for epsilon in (0.0, 0.5, 1.0):
        excess = np.maximum(-np.expm1(epsilon - losses), 0)
        claimed = dp.account(dp.Gaussian(NOISE)).delta(epsilon)
        assert excess.mean() <= claimed + 5 * excess.std() / math.sqrt(REPLICATES)
