"""No reported number is below the true delta of random small instances of every mechanism."""

import dataclasses

import pytest

from privacy.mechanisms import REGISTRY
from tests.reference import truths


def test_every_mechanism_has_instances():
    assert REGISTRY.keys() <= truths.KINDS.keys()


@pytest.mark.parametrize("kind", truths.KINDS)
def test_no_number_is_below_the_truth(kind):
    """1,008 instances: `python tests/benchmarks/acceptance.py mechanisms`."""
    assert truths.attack(kind, 0) == []


def test_a_number_below_the_truth_is_found(monkeypatch):
    real = truths.dp.account

    def smaller(mechanism, **options):
        return real(truths.dp.Gaussian(1.001 * mechanism.noise_multiplier), **options)

    monkeypatch.setattr(truths.dp, "account", smaller)
    monkeypatch.setitem(
        truths.KINDS,
        "Gaussian",
        lambda _: (truths.dp.Gaussian(2.0), truths.ADD, truths.gaussians(truths.arb(0.5))),
    )
    assert truths.attack("Gaussian", 0)


def test_an_epsilon_below_the_largest_loss_is_found(monkeypatch):
    real = truths.dp.account

    def smaller(mechanism, **options):
        return real(dataclasses.replace(mechanism, epsilon=0.95 * mechanism.epsilon), **options)

    monkeypatch.setattr(truths.dp, "account", smaller)
    assert truths.attack("AboveThreshold", 2)
