"""The sequential audit."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import betainc, betaln

import privacy as dp
from privacy.audit import SequentialAudit, audit_until_falsified
from tests.audit.worst_cases import losses

ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE


def wealth(right, pairs, claim=None):
    """Return the wealth after `pairs` pairs of runs, `right` guesses of them right."""
    watch = SequentialAudit(claim or dp.Gaussian(2.0))
    guesses = np.array([1.0] * right + [-1.0] * (2 * pairs - right))
    watch.update(-guesses[:pairs], guesses[pairs:])
    return math.exp(watch.log_wealth)


@pytest.mark.parametrize("pairs", [1, 2, 5, 12])
def test_wealth_is_a_supermartingale_under_a_true_claim(pairs):
    """By enumeration, for every split of the claimed average between the two data sets."""
    most = (1 + dp.account(dp.Gaussian(2.0)).delta(0.0)) / 2
    values = np.array([wealth(right, pairs) for right in range(2 * pairs + 1)])
    for average, gap in product((most, 0.55, 0.5), np.linspace(0, 0.4, 9)):
        rates = average - gap, average + gap
        law = [
            [math.comb(pairs, k) * p**k * (1 - p) ** (pairs - k) for k in range(pairs + 1)]
            for p in rates
        ]
        assert np.convolve(*law) @ values <= 1 + 1e-9


def test_wealth_is_the_integral_of_all_bets():
    most = (1 + dp.account(dp.Gaussian(2.0)).delta(0.0)) / 2
    bets = most + (1 - most) * (np.arange(20_000) + 0.5) / 20_000
    won = (bets / most) ** 30 * ((1 - bets) / (1 - most)) ** 10
    assert wealth(30, 20) == pytest.approx(won.mean(), rel=1e-6)
    assert betainc(1, 1, most) == pytest.approx(most)
    assert betaln(1, 1) == 0


def test_false_positives_of_a_sequential_audit_are_rare():
    """Tested after every batch, at 5 %: at most about 15 false positives in 300 audits."""
    alarms = 0
    for seed in np.random.SeedSequence(2026).spawn(300):
        watch = SequentialAudit(dp.Gaussian(1.0), significance=0.05)
        zero, one = losses(dp.Gaussian(1.0), ONE, np.random.default_rng(seed), 500)
        for at in range(0, 500, 10):
            watch.update(zero[at : at + 10], one[at : at + 10])
        alarms += watch.falsified
    assert alarms <= 30


def test_the_audit_stops_when_the_claim_is_falsified():
    def half(data, rng, size):
        return len(data) + rng.normal(0, 0.5, size)

    pair = ([1], [1, 2])
    finding = audit_until_falsified(half, pair, dp.Gaussian(1.0), significance=1e-6)
    assert finding.falsified
    assert finding.runs < 2000
    enough = audit_until_falsified(half, pair, dp.Gaussian(0.5), max_runs=3000)
    assert not enough.falsified
    assert enough.runs == 3000


def test_falsified_stays_true():
    watch = SequentialAudit(dp.Gaussian(2.0), significance=0.05)
    watch.update([-1.0] * 20, [1.0] * 20)
    assert watch.falsified
    before = watch.p_value
    watch.update([1.0] * 200, [-1.0] * 200)
    assert watch.falsified
    assert watch.p_value == before
    assert watch.log_wealth == -math.inf or watch.log_wealth < 0
    assert "largest wealth" in watch.result().evidence


def test_bad_arguments():
    with pytest.raises(ValueError, match="Expected significance"):
        SequentialAudit(dp.Gaussian(1.0), significance=0)
    with pytest.raises(ValueError, match="Expected max_runs"):
        audit_until_falsified(len, ([], [1]), dp.Gaussian(1.0), max_runs=0)
    with pytest.raises(ValueError, match="Expected scores_0"):
        SequentialAudit(dp.Gaussian(1.0)).update([math.nan], [0.0])


def test_a_claim_that_allows_everything_is_never_falsified():
    watch = SequentialAudit(dp.PureDP(1e6))
    watch.update([-1.0] * 50, [1.0] * 50)
    assert watch.p_value == 1
