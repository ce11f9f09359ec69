"""Deterministic audits: exact comparisons, and privacy parameters from recorded noise."""

import math
from fractions import Fraction

import numpy as np
import pytest

import privacy as dp
from privacy.audit import (
    NoiseTape,
    Violation,
    assert_contribution,
    assert_norm,
    assert_spends,
    privacy_parameter,
)

REPLACE = dp.NeighboringRelation.REPLACE_ONE
PAIR = ([1.0, 0.5], [1.0, 0.5, 1.0])


@pytest.mark.parametrize("norm", [1, 2, math.inf])
def test_one_ulp_is_a_violation(norm):
    assert_norm(0.3, 0.3, norm=norm)
    assert_norm([0.0, -0.3], 0.3, norm=norm)
    with pytest.raises(Violation, match="exceeds"):
        assert_norm(math.nextafter(0.3, 1), 0.3, norm=norm)


def test_norms_are_not_rounded():
    """A vector whose float norm is 1 may have a larger exact norm."""
    x = [0.6, math.nextafter(0.8, 1)]
    assert math.hypot(0.6, 0.8) == 1
    exact = sum(Fraction(one) ** 2 for one in x)
    assert (exact > 1) is True
    with pytest.raises(Violation):
        assert_norm(x, 1.0)
    with pytest.raises(Violation):
        assert_norm([0.5, 0.5, 1e-300], 1.0, norm=1)
    assert_norm([0.5, 0.5, 1e-300], 1.0, norm=math.inf)
    assert_norm([1e308, 1e308], 1.7e308)
    with pytest.raises(Violation):
        assert_norm([5e-324], 0.0)


@pytest.mark.parametrize("wild", [math.nan, math.inf, -math.inf])
def test_a_non_finite_value_is_a_violation(wild):
    with pytest.raises(Violation, match="not a finite number"):
        assert_norm([0.0, wild], 1e308)
    with pytest.raises(Violation, match="not a finite number"):
        assert_contribution(lambda data: wild, PAIR, 1.0)


def test_contributions():
    assert_contribution(len, PAIR, 1)
    assert_contribution(lambda data: {"n": len(data), "k": 0}, PAIR, 1.0)
    with pytest.raises(Violation, match="exceeds"):
        assert_contribution(lambda data: [len(data), len(data)], PAIR, 1.0)
    big = 2**60
    assert_contribution(lambda data: big + len(data), PAIR, 1.0)  # integers are exact
    with pytest.raises(Violation):
        assert_contribution(lambda data: float(big) * len(data), PAIR, 1.0)


def test_whole_numbers_beside_floats_are_exact():
    def count(data):
        return {"count": 2**53 + len(data), "mean": np.float32(0.5), "one": np.int8(1)}

    assert_contribution(count, ([], [1.0]), 1)
    with pytest.raises(Violation):
        assert_contribution(count, ([], [1.0]), 0.5)


def test_keys_that_depend_on_the_data_are_a_violation():
    pair = (["a", "a"], ["a", "a", "b"])
    with pytest.raises(Violation, match="shapes"):
        assert_contribution(lambda data: {one: data.count(one) for one in data}, pair, 9.0)
    with pytest.raises(Violation, match="shapes"):
        assert_contribution(lambda data: sorted(map(ord, set(data))), pair, 9.0)


def test_the_privacy_parameter_is_mu_or_epsilon():
    for release, expected in (
        (lambda data, rng: len(data) + rng.normal(0, 4.0), ("normal", 0.25)),
        (lambda data, rng: len(data) + 4.0 * rng.standard_normal(), ("normal", 0.25)),
        (lambda data, rng: rng.laplace(len(data), 4.0), ("laplace", 0.25)),
        (lambda data, rng: rng.normal(0, 1.0), ("normal", 0.0)),
    ):
        assert privacy_parameter(release, PAIR) == expected

    def both(data, rng):
        return np.array([len(data), 2 * len(data)]) + rng.laplace(0, [1.0, 4.0])

    assert privacy_parameter(both, PAIR)[1] == pytest.approx(1.5)


def test_correlated_noise_is_counted_exactly():
    """Prefix sums with B (C x + z): a record in one step costs its column of C."""
    b = np.tril(np.ones((4, 4))) @ np.linalg.inv(np.tril(np.ones((4, 4)) * 0.5 + np.eye(4)))
    c = np.tril(np.ones((4, 4)) * 0.5 + np.eye(4))

    def prefixes(steps, rng):
        return b @ (c @ np.asarray(steps) + rng.normal(0, 2.0, 4))

    for at in range(4):
        other = np.zeros(4)
        other[at] = 1.0
        _, mu = privacy_parameter(prefixes, (np.zeros(4), other))
        assert mu == pytest.approx(np.linalg.norm(c[:, at]) / 2.0)
    # the same record in all four steps
    _, mu = privacy_parameter(prefixes, (np.zeros(4), np.ones(4)))
    assert mu == pytest.approx(np.linalg.norm(c @ np.ones(4)) / 2.0)


def test_noise_used_twice_does_not_hide_a_difference():
    def twice(data, rng):
        noise = rng.normal(0, 3.0)
        return [sum(data) + noise, len(data) ** 2 + noise]

    assert privacy_parameter(twice, PAIR) == ("normal", math.inf)
    with pytest.raises(Violation, match="spends mu=inf"):
        assert_spends(twice, PAIR, dp.Gaussian(3.0))


def test_a_budget_that_is_spent_twice():
    """The second release draws noise of its own, so that its cost adds up: mu is sqrt 2 larger."""

    def double(data, rng):
        return [len(data) + rng.normal(0, 2.0), sum(data) + rng.normal(0, 2.0)]

    assert_spends(double, PAIR, dp.repeat(dp.Gaussian(2.0), 2))
    with pytest.raises(Violation, match=r"spends mu=0\.70710\d; Gaussian"):
        assert_spends(double, PAIR, dp.Gaussian(2.0))


def test_claims_are_checked_under_their_relation():
    def total(data, rng):
        return sum(data) + rng.normal(0, 2.0)

    pair = ([1.0], [-1.0])
    assert_spends(total, pair, dp.Gaussian(2.0), relation=REPLACE)
    with pytest.raises(Violation):
        assert_spends(total, pair, dp.Gaussian(2.0))
    with pytest.raises(Violation):
        assert_spends(total, pair, dp.Gaussian(2.0, replace_distance=1.0), relation=REPLACE)

    def laplace(data, rng):
        return sum(data) + rng.laplace(0, 2.0)

    assert_spends(laplace, pair, dp.Laplace(2.0), relation=REPLACE)
    with pytest.raises(Violation, match="epsilon=1"):
        assert_spends(laplace, pair, dp.Laplace(2.0))


@pytest.mark.parametrize(
    ("release", "told"),
    [
        (lambda data, rng: rng.normal(0, 1.0 + len(data)), "depend on the data"),
        (lambda data, rng: rng.normal(0, 1.0, len(data)), "depend on the data"),
        (lambda data, rng: (5.0 + len(data)) * rng.normal(), "use of the noise depends"),
        (lambda data, rng: [*data, rng.normal()], "have sizes"),
        (lambda data, rng: sum(data), "no noise"),
        (lambda data, rng: math.nan + rng.normal(), "not a finite"),
    ],
)
def test_a_difference_between_the_data_sets_is_a_violation(release, told):
    with pytest.raises(Violation, match=told):
        privacy_parameter(release, PAIR)


def test_noise_in_another_order_is_the_same_noise():
    def shuffled(data, rng):
        return len(data) + rng.normal(0, 2.0, 2)[:: (-1) ** len(data)]

    assert privacy_parameter(shuffled, PAIR) == ("normal", pytest.approx(math.sqrt(0.5)))


def test_mixed_and_surplus_noise_is_refused():
    with pytest.raises(ValueError, match="of one kind"):
        privacy_parameter(lambda data, rng: [rng.laplace(), len(data) + rng.normal()], PAIR)
    with pytest.raises(ValueError, match="one draw per output"):
        privacy_parameter(lambda data, rng: len(data) + rng.laplace() + rng.laplace(), PAIR)
    with pytest.raises(dp.UnsupportedMechanism):
        assert_spends(lambda data, rng: len(data) + rng.normal(), PAIR, dp.PureDP(1.0))
    with pytest.raises(ValueError, match="Expected norm"):
        assert_norm([1.0], 1.0, norm=3)


@pytest.mark.parametrize("bend", [np.sinh, np.tanh, lambda x: np.clip(x, -9, 9), np.exp])
def test_noise_changed_after_drawing_is_refused(bend):
    with np.errstate(over="ignore"), pytest.raises((ValueError, Violation)):
        privacy_parameter(lambda data, rng: bend(len(data) + rng.normal(0, 1e-4)), PAIR)


def test_noise_tape_records_and_returns_noise():
    tape = NoiseTape(unit=2.0, at=1)
    assert tape.normal(5.0, 3.0) == 5.0
    assert tape.normal([1.0, 1.0], 3.0).tolist() == [7.0, 1.0]
    assert tape.draws == [("normal", 3.0)] * 3
    again = NoiseTape()
    assert tape.integers(10**9) == again.integers(10**9)
    with pytest.raises(AttributeError):
        tape.no_such_draw()
