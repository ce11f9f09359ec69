"""White-box audits of noise."""

import math

import numpy as np
import pytest
from scipy.special import gammaincinv

import privacy as dp
from privacy.audit import falsify_noise

CLAIMS = {"normal": dp.Gaussian(2.0), "laplace": dp.Laplace(2.0)}
rng_of = np.random.default_rng


@pytest.mark.parametrize("kind", CLAIMS)
@pytest.mark.parametrize("aspect", ["all", "scale", "shape", "repeats"])
def test_false_alarms_are_rare(kind, aspect):
    """At 5 %, 400 true claims give at most about 20 alarms; 38 would be 4 standard errors more."""
    alarms = sum(
        falsify_noise(
            CLAIMS[kind], getattr(rng_of(seed), kind)(0, 6.0, 50), clip_norm=3.0, aspect=aspect
        ).falsified
        for seed in np.random.SeedSequence(2026).spawn(400)
    )
    assert alarms <= 38
    if aspect == "scale":  # an exact test uses its significance up
        assert alarms >= 4


@pytest.mark.parametrize("kind", CLAIMS)
@pytest.mark.parametrize("factor", [0.5, 0.7])
def test_too_little_noise_is_detected(kind, factor):
    noise = getattr(rng_of(1), kind)(0, 2.0 * factor, 400)
    finding = falsify_noise(CLAIMS[kind], noise, significance=1e-6)
    assert finding.falsified
    assert "times the claimed one" in finding.evidence
    assert not falsify_noise(CLAIMS[kind], noise, aspect="repeats").falsified


def test_the_scale_test_is_exact():
    """390 residuals, a tenth too small: power 0.9 at 5 %."""
    n, claim = 390, dp.Gaussian(1.0)
    limit = 2 * gammaincinv(n / 2, 0.05)
    for share, falsified in ((1 - 1e-9, True), (1 + 1e-9, False)):
        x = rng_of(2).normal(size=n)
        x *= math.sqrt(share * limit / (x @ x))
        assert falsify_noise(claim, x, aspect="scale").falsified is falsified


def test_a_wrong_noise_distribution_is_detected():
    rng = rng_of(3)
    wide = rng.uniform(-1, 1, 5000) * 2.0 * math.sqrt(3)  # the variance is right
    finding = falsify_noise(CLAIMS["normal"], wide, significance=1e-6)
    assert finding.falsified
    assert "distribution functions" in finding.evidence
    shifted = rng.normal(0.5, 2.0, 5000)
    assert falsify_noise(CLAIMS["normal"], shifted, significance=1e-6, aspect="shape").falsified


def test_noise_that_is_used_twice_is_caught():
    noise = rng_of(4).normal(0, 2, 100)
    finding = falsify_noise(CLAIMS["normal"], [*noise, *noise[:3]], significance=1e-6)
    assert finding.falsified
    assert "3 of 103 residuals repeat" in finding.evidence


@pytest.mark.parametrize("kind", CLAIMS)
def test_repeats_of_lattice_noise_are_expected(kind):
    sampler = {"normal": dp.rounded_gaussian, "laplace": dp.rounded_laplace}[kind]
    alarms = repeats = 0
    for seed in range(20):
        noise = 2.0**-29 * sampler(2.0**30, 60_000, rng=seed, simulation=True)
        repeats += noise.size - np.unique(noise).size
        alarms += falsify_noise(CLAIMS[kind], noise, aspect="repeats", significance=0.05).falsified
    assert repeats > 2
    assert alarms <= 4  # more by chance with probability 0.003


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_nan_noise_is_detected(wild):
    assert falsify_noise(CLAIMS["normal"], [0.1, wild]).p_value == 0


def test_huge_noise_emits_no_warning():
    assert falsify_noise(CLAIMS["normal"], [1e300, -1e300], aspect="scale").p_value == 1


def test_bad_arguments():
    with pytest.raises(TypeError, match="Expected claim"):
        falsify_noise(dp.PureDP(1.0), [0.0])
    with pytest.raises(ValueError, match="Expected residuals"):
        falsify_noise(dp.Gaussian(1.0), [])
    with pytest.raises(ValueError, match="Expected clip_norm"):
        falsify_noise(dp.Gaussian(1.0), [0.0], clip_norm=0)
    with pytest.raises(ValueError, match="Expected aspect"):
        falsify_noise(dp.Gaussian(1.0), [0.0], aspect="color")
