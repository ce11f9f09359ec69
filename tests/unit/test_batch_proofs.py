"""Proofs of compositions of batches: against closed forms in mpmath, and changed code."""

import math
from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
from flint import arb, ctx

from privacy.accounting import account
from privacy.certification import NotCertified, _contour, _mixtures
from privacy.certification._contour import Mixed, mirrored
from privacy.certification._mixtures import Half
from privacy.certification.certificates import _digest, certificate, verify
from privacy.mechanisms import (
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    TruncatedPoisson,
    compose,
    repeat,
)
from privacy.relations import NeighboringRelation
from tests.proofs import proves, proves_guarantee

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
ONE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
FIXED = FixedSizeSampled(Gaussian(2.0), batch_size=3, records=10)


def truncated(noise):
    return TruncatedPoisson(noise, sampling_probability=0.3, max_batch_size=3, records=8)


def gaussian(mu):
    return lambda e: mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)


def laplace(s):
    def profile(e):
        if e < 0:
            return 1 - mp.exp(e) + mp.exp(e) * profile(-e)
        return 1 - mp.exp((e - s) / 2) if e < s else mp.mpf(0)

    return profile


def swapped(profile):
    return lambda e: 1 - mp.exp(e) + mp.exp(e) * profile(-e)


def removed(profile, q):
    def found(e):
        level = (mp.exp(e) - 1 + q) / q
        return q * profile(mp.log(level)) if level > 0 else 1 - mp.exp(e)

    return found


def symmetric(profile, q):
    one = removed(profile, q)
    return lambda e: one(e) if e >= 0 else swapped(one)(e)


def antipodal(mu, q):
    def found(e):
        half = (1 - q) / q * mp.expm1(e) * mp.exp(mu * mu / 2) / 2
        cut = mp.log(half + mp.sqrt(half * half + mp.exp(e))) / mu
        replaced = mp.ncdf(mu - cut) - mp.exp(e) * mp.ncdf(-mu - cut)
        return q * replaced - (1 - q) * mp.expm1(e) * mp.ncdf(-cut)

    return found


def limited(relation, noise):
    """Return the profiles of `truncated(noise)` in both directions, from binomial sums."""
    q, size, others = mp.mpf(0.3), 3, 7
    law = [mp.binomial(others, k) * q**k * (1 - q) ** (others - k) for k in range(others + 1)]
    full = sum(law[size:])
    share = sum(p * q * size / (k + 1) for k, p in enumerate(law) if k >= size) / full
    near, far = (
        (laplace(mp.mpf(1) / 2), laplace(mp.mpf(1)))
        if isinstance(noise, Laplace)
        else (gaussian(mp.mpf(1) / 2), gaussian(mp.mpf(1)))
    )
    one, two = removed(near, q), removed(far, share)
    pairs = [(one, two), (swapped(one), swapped(two))]
    if relation is not ADD:
        both = symmetric(far, share)
        pairs = [(one, both), (swapped(one), both)]
    if relation is ONE:
        pairs = [(antipodal(mp.mpf(1) / 2, q), both)]
    return [lambda e, a=a, b=b: (1 - full) * a(e) + full * b(e) for a, b in pairs]


KINDS = {
    "fixed": (FIXED, ONE, lambda: [symmetric(gaussian(mp.mpf(1)), mp.mpf(3) / 10)]),
    "Laplace": (truncated(Laplace(2.0)), ADD, lambda: limited(ADD, Laplace(2.0))),
    "replaced": (truncated(Gaussian(2.0)), ONE, lambda: limited(ONE, Gaussian(2.0))),
    "special": (truncated(Gaussian(2.0)), SPECIAL, lambda: limited(SPECIAL, Gaussian(2.0))),
}


def levels(kind):
    """The levels at which the profiles of one release are not smooth."""
    if kind != "Laplace":
        return [mp.mpf(0)]
    law = [math.comb(7, k) * 0.3**k * 0.7 ** (7 - k) for k in range(8)]
    share = sum(p * 0.9 / (k + 1) for k, p in enumerate(law) if k >= 3) / sum(law[3:])
    ends = [
        math.log1p(q * math.expm1(s)) for q, s in ((0.3, 0.5), (0.3, -0.5), (share, 1), (share, -1))
    ]
    return [*ends, *(-end for end in ends)]


@pytest.mark.parametrize("kind", list(KINDS))
def test_a_batch_with_a_gaussian_is_proven_at_its_exact_delta(kind):
    """The Gaussian of mu = 1/2 has the loss N(mu^2 / 2, mu^2)."""
    mechanism, relation, profiles = KINDS[kind]
    both = compose(mechanism, Gaussian(4.0 if relation is ONE else 2.0))
    epsilon, mu = 0.5, mp.mpf(1) / 2
    top = epsilon - mu * mu / 2
    with mp.workdps(20):
        places = sorted([*range(-8, 10, 2), *((top - level) / mu for level in levels(kind))])
        exact = max(
            mp.quad(lambda z, p=p: mp.npdf(z) * p(top - mu * z), places) for p in profiles()
        )
    ask = dict(epsilon=epsilon, relation=relation, notion="contour")
    assert proves(both, delta=float(exact) * (1 + 1e-9), **ask)
    assert not proves(both, delta=float(exact) * (1 - 1e-9), **ask)


def test_decay_of_a_half_line_bounds_all_larger_frequencies():
    mu, q, c = 0.8, 0.3, 3.5
    x, step = np.linspace(mu / 2, 25, 200_001, retstep=True)
    log_ratio = np.log1p(q * np.expm1(mu * x - mu * mu / 2))
    ends = np.full(x.size, step / math.sqrt(2 * math.pi))
    ends[[0, -1]] /= 2
    for way in ("remove", "add"):
        with ctx.workprec(128), np.errstate(all="ignore"):
            part = Half(_mixtures.Mixture(arb(mu) ** 2, (1 - arb(q), arb(q)), way), mu / 2)
            for edge in (2 * c, 8 * c):
                _, (shift,) = part.rough_decay(c, np.array([edge]), 3.0)
                plan = part.plan(c, edge, 30.0, shift)
                found = float(part.decay(c, edge, plan, shift))
                assert shift > 0
                assert not part.decay(c, edge, plan, -shift).is_finite()
                power = 1 + c if way == "remove" else -c
                sign = 1 if way == "remove" else -1
                exact = [
                    abs(np.exp((power + sign * 1j * w) * log_ratio - x * x / 2) @ ends)
                    for w in (edge, 1.5 * edge, 4 * edge)
                ]
                assert max(exact) <= found
                assert found < part.nodes(c, 0.0, plan).total()


STEPS = repeat(FixedSizeSampled(Gaussian(2.0), batch_size=10, records=100), 50)
PLANS = [
    (STEPS, ONE, "contour"),
    (compose(repeat(truncated(Laplace(4.0)), 20), Gaussian(3.0)), ADD, "contour"),
    (repeat(truncated(Gaussian(4.0)), 50), ONE, "contour"),
    (repeat(truncated(Gaussian(4.0)), 50), SPECIAL, "contour"),
    (repeat(truncated(Gaussian(4.0)), 50), SPECIAL, "rdp"),
]


@pytest.mark.parametrize(("plan", "relation", "notion"), PLANS)
def test_a_certificate_is_verified_and_refused_when_changed(plan, relation, notion):
    found = account(plan, notion=notion, relation=relation).guarantee(delta=1e-6, certify=True)
    form = certificate(found)
    assert verify(form).certified
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-4)))
    claim = form["claim"] | {"mechanism": compose(plan, Gaussian(2.0)).to_json()}
    changed = form | {"claim": claim}
    with pytest.raises(NotCertified):
        verify(changed | {"digest": _digest(changed)})


@pytest.mark.parametrize(
    ("mutant", "notion"),
    [
        ("no mirror image", "contour"),
        ("no loss of 0", "contour"),
        ("later start", "contour"),
        ("no mirror image", "rdp"),
        ("wrong side", "rdp"),
    ],
)
def test_a_batch_without_a_part_is_rejected(monkeypatch, mutant, notion):
    epsilon = account(STEPS, notion=notion, relation=ONE, orders=ORDERS[notion]).epsilon(1e-6)
    false = dict(epsilon=epsilon * (1 - 1e-3), delta=1e-6, relation=ONE, notion=notion)
    false |= {"order": ORDERS[notion][0]} if ORDERS[notion] else {}
    assert not proves(STEPS, **false)

    def less(mu_squared, q, way):
        up, down, none = mirrored(mu_squared, q, way).parts
        parts = {
            "no mirror image": (up, none),
            "no loss of 0": (up, down),
            "wrong side": (down, down, none),
            "later start": (*(replace(half, start=half.start + 0.1) for half in (up, down)), none),
        }[mutant]
        return Mixed((arb(1),) * len(parts), parts)

    monkeypatch.setattr(_contour, "mirrored", less)
    assert proves(STEPS, **false)


ORDERS = {"contour": None, "rdp": [6.0]}


@pytest.mark.parametrize(
    "plan", [truncated(Gaussian(2.0)), PoissonSampled(Gaussian(2.0), sampling_probability=0.1)]
)
def test_the_relation_of_a_guarantee_may_be_its_name(plan):
    added = account(plan, notion="contour").guarantee(delta=1e-6)
    assert proves_guarantee(added)
    assert not proves_guarantee(replace(added, relation="REPLACE_ONE"))
    replaced = account(plan, notion="contour", relation=ONE).guarantee(delta=1e-6)
    assert proves_guarantee(replace(replaced, relation="REPLACE_ONE"))
