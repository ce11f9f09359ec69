"""rho, mu, noise multiplier, epsilon: each round trip is conservative and close."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import privacy as dp
from tests.laws.strategies import deltas, epsilons, log_uniform

CLOSE = 1e-14
positive = log_uniform(1e-140, 1e140)
conversions = st.sampled_from(["optimal", "classic", "gaussian"])


@given(positive)
@example(1.0)
def test_rho_to_noise_and_back(rho):
    sigma = Fraction(dp.noise_multiplier_from_rho(rho))
    assert 1 / (2 * sigma**2) <= Fraction(rho)
    assert dp.rho_from_noise_multiplier(float(sigma)) == pytest.approx(rho, rel=CLOSE)


@given(positive)
@example(1.0)
def test_noise_to_rho_and_back(sigma):
    rho = Fraction(dp.rho_from_noise_multiplier(sigma))
    assert 1 / (2 * Fraction(sigma) ** 2) <= rho
    assert dp.noise_multiplier_from_rho(float(rho)) == pytest.approx(sigma, rel=CLOSE)


@given(positive)
@example(1.0)
def test_mu_to_noise_and_back(mu):
    sigma = dp.noise_multiplier_from_mu(mu)
    assert 1 / Fraction(sigma) <= Fraction(mu)
    assert dp.mu_from_noise_multiplier(sigma) == pytest.approx(mu, rel=CLOSE)


@given(positive)
@example(1.0)
def test_noise_to_mu_and_back(sigma):
    mu = dp.mu_from_noise_multiplier(sigma)
    assert Fraction(mu) >= 1 / Fraction(sigma)
    assert dp.noise_multiplier_from_mu(mu) == pytest.approx(sigma, rel=CLOSE)


@given(positive)
@example(0.5)
def test_rho_to_mu_and_back(rho):
    mu = Fraction(dp.mu_from_rho(rho))
    assert mu**2 / 2 <= Fraction(rho)
    assert dp.rho_from_mu(float(mu)) == pytest.approx(rho, rel=CLOSE)


@given(positive)
@example(1.0)
def test_mu_to_rho_and_back(mu):
    rho = Fraction(dp.rho_from_mu(mu))
    assert rho >= Fraction(mu) ** 2 / 2
    assert dp.mu_from_rho(float(rho)) == pytest.approx(mu, rel=CLOSE)


@given(epsilons, deltas, conversions)
def test_epsilon_to_rho_and_back(epsilon, delta, conversion):
    rho = dp.rho_from_epsilon(epsilon, delta, conversion=conversion)
    again = dp.epsilon_from_rho(rho, delta, conversion=conversion)
    assert again <= epsilon * (1 + 4e-16)
    assert again == pytest.approx(epsilon, rel=1e-9)


@given(log_uniform(1e-6, 100), deltas, conversions)
def test_rho_to_epsilon_and_back(rho, delta, conversion):
    epsilon = dp.epsilon_from_rho(rho, delta, conversion=conversion)
    if epsilon > 1e-6:
        again = dp.rho_from_epsilon(epsilon, delta, conversion=conversion)
        assert again == pytest.approx(rho, rel=1e-9)


@given(log_uniform(1e-6, 100), deltas, conversions)
def test_delta_at_the_epsilon_of_a_rho(rho, delta, conversion):
    epsilon = dp.epsilon_from_rho(rho, delta, conversion=conversion)
    again = dp.delta_from_rho(rho, epsilon, conversion=conversion)
    assert again <= delta * (1 + 1e-10)
    if epsilon > 1e-6:
        assert again == pytest.approx(delta, rel=1e-8)


@given(log_uniform(1e-6, 1e6), deltas)
def test_the_optimal_conversion_is_never_worse_than_the_classic_one(rho, delta):
    best = dp.epsilon_from_rho(rho, delta)
    assert best <= dp.epsilon_from_rho(rho, delta, conversion="classic")
    epsilon = rho + 1
    best = dp.delta_from_rho(rho, epsilon)
    assert best <= dp.delta_from_rho(rho, epsilon, conversion="classic") * (1 + 1e-12)


@pytest.mark.parametrize("rho", [1e-308, 5e-324, 1e300, 1e308, 1.7e308])
def test_conversions_are_conservative_at_the_float_limits(rho):
    sigma = Fraction(dp.noise_multiplier_from_rho(rho))
    assert 1 / (2 * sigma**2) <= Fraction(rho)
    assert Fraction(dp.mu_from_rho(rho)) ** 2 / 2 <= Fraction(rho)
