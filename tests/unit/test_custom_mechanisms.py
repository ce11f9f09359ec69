"""A user-defined mechanism: it supports everything that the package's own mechanisms support."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

import privacy as dp
from privacy.mechanisms import REGISTRY


@dataclass(frozen=True)
class TruncatedCoin(dp.Mechanism):
    """Report of one bit that is right with probability `right`, else silent."""

    right: float

    def loss(self, relation):
        return CoinPair(self.right)


@dataclass(frozen=True)
class CoinPair(dp.DiscretePair):
    """Bernoulli(right) against Bernoulli(1 - right)."""

    right: float

    def atoms(self):
        log_p = (math.log(self.right), math.log1p(-self.right))
        odds = math.log(self.right / (1 - self.right))
        return dp.Atoms(log_p, (math.nextafter(odds, math.inf), -odds))


@pytest.fixture(autouse=True)
def registered():
    dp.register_mechanism(TruncatedCoin(0.6))
    yield
    REGISTRY.pop("TruncatedCoin", None)


def exact_delta(right, count, epsilon):
    """Sum over all outcomes of `count` reports."""
    odds = math.log(right / (1 - right))
    return math.fsum(
        math.comb(count, k)
        * max(
            0.0,
            right**k * (1 - right) ** (count - k)
            - math.exp(epsilon) * (1 - right) ** k * right ** (count - k),
        )
        for k in range(count + 1)
        if (2 * k - count) * odds > epsilon
    )


@pytest.mark.parametrize("notion", ["tightest", "approximate", "contour", "pld", "rdp", "zcdp"])
@pytest.mark.parametrize("count", [1, 12])
def test_a_custom_mechanism_is_accounted(notion, count):
    run = dp.repeat(TruncatedCoin(0.6), count)
    found = dp.account(run, notion=notion).delta(0.5)
    truth = exact_delta(0.6, count, 0.5)
    assert found >= truth * (1 - 1e-12)
    if notion in ("tightest", "contour", "pld"):
        assert found <= truth * (1 + 1e-5)


def test_a_custom_mechanism_composes_with_noise_and_sampling():
    sampled = dp.PoissonSampled(TruncatedCoin(0.8), sampling_probability=0.3)
    alone = dp.account(dp.repeat(sampled, 10)).epsilon(1e-6)
    both = dp.account(dp.compose(dp.repeat(sampled, 10), dp.Gaussian(3.0))).epsilon(1e-6)
    assert 0 < alone < both < alone + dp.account(dp.Gaussian(3.0)).epsilon(1e-7)


def test_a_custom_mechanism_is_calibrated():
    right = dp.calibrate(TruncatedCoin, epsilon=0.5, delta=0, seek="largest", domain=(0.5, 1))
    assert right == pytest.approx(1 / (1 + math.exp(-0.5)), rel=1e-9)


def test_a_custom_mechanism_in_json_and_plans():
    run = dp.repeat(TruncatedCoin(0.6), 3)
    again = dp.mechanism_from_json(json.loads(json.dumps(run.to_json())))
    assert again == run
    head = {"schema": "dpcalib.plan/1", "name": "bits", "budget": {"delta": 1e-6}}
    plan = dp.plan_from_json(head | {"part": [{"name": "coin", **run.to_json()}]})
    assert dict(plan.parts)["coin"] == run
    assert dp.support_matrix()["TruncatedCoin"] == ("approximate", "contour", "pld", "zcdp", "rdp")


def test_a_custom_mechanism_in_a_budget():
    budget = dp.Budget(epsilon=5, delta=1e-6, notion="rdp", order=8)
    assert budget.spend(TruncatedCoin(0.6)).remaining < budget.remaining


def test_a_custom_mechanism_is_audited():
    def release(data, rng):
        right = rng.random() < 0.6
        return float(data[0] if right else 1 - data[0])

    pair = (np.array([0.0]), np.array([1.0]))
    assert not dp.audit.audit(release, pair, TruncatedCoin(0.6), runs=4000).falsified
    assert dp.audit.audit(release, pair, TruncatedCoin(0.52), runs=4000).falsified


def test_a_custom_mechanism_is_not_certified():
    with pytest.raises(dp.NotCertified):
        dp.account(TruncatedCoin(0.6)).guarantee(delta=1e-6, certify=True)


def test_two_classes_of_one_name_are_refused():
    def define():
        @dataclass(frozen=True)
        class Gaussian(dp.Mechanism):
            width: float

        return Gaussian(1.0)

    with pytest.raises(ValueError, match="Expected example='Gaussian' to be an unused class name"):
        dp.register_mechanism(define())


def test_a_mechanism_without_a_loss_is_refused():
    @dataclass(frozen=True)
    class Nameless(dp.Mechanism):
        width: float

    with pytest.raises(dp.UnsupportedMechanism, match=r"Define loss\(relation\)") as refusal:
        dp.account(Nameless(1.0))
    assert refusal.value.mechanism == Nameless(1.0)


def test_a_registered_mechanism_suggests_its_field():
    @dataclass(frozen=True)
    class Claimed(dp.PureDP):
        pass

    try:
        for _ in range(2):  # as when a notebook cell is run again
            dp.register_mechanism(Claimed(0.5))
            assert Claimed(epsilon=0.5) == Claimed(0.5)
            with pytest.raises(TypeError, match=r"Expected keyword='eps' .*Pass epsilon\."):
                Claimed(eps=0.5)
    finally:
        REGISTRY.pop("Claimed", None)
