"""Proofs of truncated Poisson samples, random allocations and Laplace noise, and mutants."""

import json
import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from privacy.accounting import account
from privacy.certification import (
    NotCertified,
    _bounds,
    _contour,
    _laplace,
    _lattice,
)
from privacy.certification.certificates import _digest, certificate, verify
from privacy.mechanisms import (
    Gaussian,
    Laplace,
    PoissonSampled,
    RandomAllocation,
    TruncatedPoisson,
    compose,
    repeat,
)
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_SPECIAL
from tests.benchmarks.proofs import gaussian_delta, sampled_gaussian
from tests.proofs import proves, proves_guarantee

WORK = 100_000_000


@pytest.fixture(autouse=True)
def _bits():
    with ctx.workprec(128):
        yield


# -- truncated Poisson samples ----------------------------------------------------------------


def cut(steps, size=7, noise=1.4):
    step = TruncatedPoisson(
        Gaussian(noise), sampling_probability=0.2, max_batch_size=size, records=20
    )
    return repeat(step, steps)


@pytest.mark.parametrize(("size", "records"), [(1, 2), (7, 20), (19, 20), (30, 900)])
def test_probabilities_of_a_full_batch_are_binomial_sums(size, records):
    node = TruncatedPoisson(
        Gaussian(1.0), sampling_probability=0.2, max_batch_size=size, records=records
    )
    rest, full, share = _bounds._truncation(node)
    q, others = mp.mpf(0.2), records - 1
    with mp.workdps(40):
        p = [mp.binomial(others, s) * q**s * (1 - q) ** (others - s) for s in range(records)]
        exact = mp.fsum(p[size:])
        exchanged = mp.fsum(p[s] * q * size / (s + 1) for s in range(size, records)) / exact
        for found, value in ((rest, mp.fsum(p[:size])), (full, exact), (share, exchanged)):
            assert abs(mp.mpf(found.str(36, radius=False)) / value - 1) < mp.mpf(10) ** -28


def test_a_mixed_loss_is_enclosed_at_every_frequency():
    c, edge, t = 3.5, 20.0, 1 + 3.5
    parts = sampled_gaussian(arb(0.64), 0.3, "remove"), sampled_gaussian(arb(2), 0.2, "remove")
    mixed = _contour.Mixed((arb(0.7), arb(0.3)), parts)
    (log_decay,), (shift,) = mixed.rough_decay(c, np.array([edge]), 2.0)
    plan = mixed.plan(c, edge, 30.0, shift)
    nodes = mixed.nodes(c, edge, plan)
    x, step = np.linspace(-16, 40, 40_001, retstep=True)

    def exact(w):
        total = 0
        for weight, mu, q in ((0.7, 0.8, 0.3), (0.3, math.sqrt(2), 0.2)):
            log_ratio = np.log(1 - q + q * np.exp(mu * x - mu * mu / 2))
            total += weight * np.exp((t + 1j * w) * log_ratio - x * x / 2).sum()
        return total * step / math.sqrt(2 * math.pi)

    plain = float(nodes.total())
    for w in (0.0, 7.0, edge):
        turns = np.exp(1j * w * np.array([float(loss) for loss in nodes.losses]))
        found = np.array([float(weight) for weight in nodes.weights]) @ turns
        assert abs(found - exact(w)) <= float(nodes.error) + 1e-12 * plain
    decay = float(mixed.decay(c, edge, plan, shift))
    assert math.log(decay / plain) == pytest.approx(log_decay, abs=1e-3)
    assert all(abs(exact(w)) <= decay * (1 + 1e-12) for w in (edge, 2 * edge))


@pytest.mark.parametrize("steps", [1, 20])
@pytest.mark.parametrize("notion", [None, "rdp"])
def test_cut_samples_are_proven_and_smaller_claims_refused(steps, notion):
    curve = account(cut(steps)) if notion is None else account(cut(steps), notion=notion)
    found = curve.guarantee(delta=1e-6, certify=True)
    false = [
        replace(found, epsilon=found.epsilon * (1 - 1e-6)),
        replace(found, mechanism=cut(steps, size=6)),
        replace(found, mechanism=cut(steps + 1)),
        replace(found, relation="REPLACE_ONE"),
    ]
    assert not any(map(proves_guarantee, false))


@pytest.mark.parametrize("mutant", ["no exchange", "a smaller share", "smaller moments"])
def test_mutants_of_the_exchange_are_rejected(monkeypatch, mutant):
    found = account(cut(20)).guarantee(delta=1e-6)
    false = replace(found, epsilon=found.epsilon * (1 - 1e-5))
    assert proves_guarantee(found)
    assert not proves_guarantee(false)
    rest, full, share = _bounds._truncation(cut(1))
    if mutant == "no exchange":
        monkeypatch.setattr(_bounds, "_truncation", lambda _: (rest, arb(1e-30), share))
    if mutant == "a smaller share":
        monkeypatch.setattr(_bounds, "_truncation", lambda _: (rest, full, share * 0.999))
    if mutant == "smaller moments":
        true = _contour.Mixed.nodes

        def fewer(part, c, edge, plan):
            nodes = true(part, c, edge, plan)
            return nodes._replace(weights=[weight * (1 - 1e-5) for weight in nodes.weights])

        monkeypatch.setattr(_contour.Mixed, "nodes", fewer)
    assert proves_guarantee(false)


# -- random allocation ------------------------------------------------------------------


def two_steps(mu, epsilon):
    """Return delta of one record in one of two steps, both directions, by option prices."""
    u = mp.exp(epsilon)

    def call(level):
        """E (e^(mu z - mu^2 / 2) - level)+, level > 0."""
        return gaussian_delta(mp.log(level), mu) if level > 0 else 1 - level

    def removed(z):
        one = mp.exp(mu * z - mu * mu / 2)
        return mp.npdf(z) * call(2 * u - one) / 2

    def added(z):
        level = 2 / u - mp.exp(mu * z - mu * mu / 2)
        return mp.npdf(z) * u / 2 * (call(level) - 1 + level) if level > 0 else mp.mpf(0)

    edge = (mp.log(2 * u) + mu * mu / 2) / mu
    end = (mp.log(2 / u) + mu * mu / 2) / mu
    return (
        mp.quad(removed, [-12, -4, 0, 2, edge, edge + 2, edge + 6, edge + 14]),
        mp.quad(added, [-14, -8, -4, -2, end]),
    )


@pytest.mark.parametrize(("mu", "epsilon"), [(0.5, 0.7), (1.3, 2.0)])
def test_an_allocation_to_two_steps_is_just_above_its_exact_delta(mu, epsilon):
    with mp.workdps(25):
        removed, added = map(float, two_steps(mp.mpf(mu), mp.mpf(epsilon)))
    law = _lattice.allocated(arb(mu) ** 2, 2, WORK)
    found = float(_lattice.delta([(law, 1)], arb(epsilon), WORK))
    assert max(removed, added) <= found <= max(removed, added) * (1 + 1e-4)
    ratios = np.exp(float(law.start) + float(law.step) * np.arange(law.mass.size))
    for total, rest in ((law.mass.sum(), law.empty), (law.mass @ ratios, law.lost)):
        assert 1 - 1e-12 <= total + float(rest) <= 1 + 1e-6


@pytest.mark.parametrize("mechanism", [RandomAllocation(Gaussian(2.0), 5, 2, 2)])
@pytest.mark.parametrize("relation", [ADD_OR_REMOVE_ONE, REPLACE_SPECIAL])
def test_allocations_are_proven_and_claims_below_the_lower_bound_refused(mechanism, relation):
    found = account(mechanism, relation=relation).guarantee(delta=1e-5, certify=True)
    error = account(mechanism, relation=relation).answer(delta=1e-5).error
    less = found.epsilon * (1 - error) * (1 - 1e-6)
    assert not proves_guarantee(replace(found, epsilon=less))
    assert not proves_guarantee(replace(found, mechanism=replace(mechanism, epochs=3)))
    assert not proves_guarantee(replace(found, mechanism=replace(mechanism, steps=4)))
    claim = dict(epsilon=found.epsilon, delta=1e-5, notion="pld")
    assert not proves(mechanism, relation="REPLACE_ONE", **claim)
    # other parts have no distribution on a grid
    other = compose(mechanism, PoissonSampled(Gaussian(9.0), sampling_probability=0.1))
    assert not proves(other, relation=relation, **claim | {"epsilon": 9.0})


@pytest.mark.parametrize("notion", ["rdp", "zcdp"])
def test_divergences_of_allocations_are_those_of_known_steps(notion):
    run = RandomAllocation(Gaussian(2.0), 50, 3, 2)
    found = account(run, notion=notion).guarantee(delta=1e-5, certify=True)
    assert proves_guarantee(replace(found, mechanism=repeat(Gaussian(2.0), 6)))
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))


@pytest.mark.parametrize("mutant", ["a spread down", "no infinite loss", "one direction"])
def test_mutants_of_the_grid_are_rejected(monkeypatch, mutant):
    mu, epsilon = 1.3, 2.0
    with mp.workdps(25):
        exact = max(map(float, two_steps(mp.mpf(mu), mp.mpf(epsilon))))
    monkeypatch.setattr(_lattice, "_allocated", _lattice._allocated.__wrapped__)
    if mutant == "a spread down":

        def down(without, present, start, step):
            return np.append([float(p) for p in without], 0.0)

        monkeypatch.setattr(_lattice, "_spread", down)
    if mutant == "no infinite loss":
        monkeypatch.setattr(_lattice, "_HIGH", 1.0)
        true_factor = _lattice._factor
        monkeypatch.setattr(_lattice, "_factor", lambda mu: true_factor(mu)._replace(lost=arb(0)))
    if mutant == "one direction":
        true_factor = _lattice._factor

        def lower(mu):
            law = true_factor(mu)
            losses = float(law.start) + float(law.step) * np.arange(law.mass.size)
            return law._replace(mass=np.where(losses < 0, law.mass, 0.0), lost=arb(0))

        monkeypatch.setattr(_lattice, "_factor", lower)
    law = _lattice.allocated(arb(mu) ** 2, 2, WORK)
    assert float(_lattice.delta([(law, 1)], arb(epsilon), WORK)) < exact * (1 - 1e-6)


# -- Laplace noise ----------------------------------------------------------------------


def test_a_grid_of_unsampled_laplace_noise_is_just_above_the_finite_sum(monkeypatch):
    monkeypatch.setattr(_lattice, "_SHARED", 2**12)
    for epsilon in (0.5, 1.6):
        exact = _laplace.delta([(arb(0.4), 5, True)], arb(epsilon))
        noise = _laplace.SampledLaplace(arb(0.4), arb(1), "remove")
        law = _lattice.laplace(noise, 5, WORK)
        found = _lattice.delta([(law, 5)], arb(epsilon), WORK)
        assert exact < found < exact * (1 + arb(1e-5))
        without = law._replace(mass=law.mass * (law.mass < 0.3))  # no atoms
        assert _lattice.delta([(without, 5)], arb(epsilon), WORK) < exact


def test_few_sampled_laplace_releases_are_proven():
    run = repeat(PoissonSampled(Laplace(5.0), sampling_probability=0.5), 20)
    found = account(run).guarantee(delta=1e-5, certify=True)
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-5)))


def test_many_laplace_releases_are_proven_by_their_finite_sum():
    found = account(repeat(Laplace(100.0), 250)).guarantee(delta=1e-5, certify=True)
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))
    assert not proves_guarantee(replace(found, mechanism=repeat(Laplace(100.0), 251)))


# -- certificates -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "field", "smaller"),
    [
        (cut(20), "epsilon", 1 - 1e-6),
        (RandomAllocation(Gaussian(2.0), 4), "epsilon", 0.95),
        (repeat(Laplace(100.0), 230), "epsilon", 1 - 1e-5),
    ],
)
def test_certificates_are_verified_and_changed_digits_refused(mechanism, field, smaller):
    form = certificate(account(mechanism).guarantee(delta=1e-5, certify=True))
    assert verify(json.loads(json.dumps(form))).certified
    new = json.loads(json.dumps(form))
    new["claim"][field] *= smaller
    with pytest.raises(ValueError, match="digest"):
        verify(new)
    with pytest.raises(NotCertified):
        verify({**new, "digest": _digest(new)})
    less = json.loads(json.dumps(form))
    less["proof"]["delta_at_most"] *= 1 - 1e-6
    with pytest.raises(NotCertified):
        verify({**less, "digest": _digest(less)})
