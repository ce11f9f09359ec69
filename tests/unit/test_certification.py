"""Proofs against mpmath: the neighboring floats on the two sides of every boundary."""

import functools
import math
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import flint
import mpmath as mp
import numpy as np
import pytest

from privacy import certification
from privacy.accounting import account, support_matrix
from privacy.certification import (
    NotCertified,
    _split,
    as_proven,
    can_prove,
    certified,
)
from privacy.guarantees import Guarantee
from privacy.mechanisms import (
    REGISTRY,
    AboveThreshold,
    ApproximateDP,
    Composed,
    CyclicPoisson,
    DiscreteLaplace,
    Epochs,
    ExponentialMechanism,
    FixedSizeSampled,
    Gaussian,
    GroupSampled,
    Laplace,
    Mechanism,
    Parallel,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    ZeroConcentratedDP,
    best_of,
    compose,
    mechanism_from_json,
    parallel,
    repeat,
)
from privacy.relations import NeighboringRelation
from tests.benchmarks.proofs import sampled_gaussian
from tests.proofs import proves, proves_guarantee
from tests.reference import oracles
from tests.reference.oracles import gaussian
from tests.reference.oracles import sampled_gaussian_divergence as by_binomials

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
ONE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL

Profile = Callable[[mp.mpf], mp.mpf]


def sampled(mechanism, q=0.1):
    return PoissonSampled(mechanism, sampling_probability=q)


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(100):
        yield


def boundary(profile: Profile, delta: float, low: float = 0.0, high: float = 1e4):
    """Return adjacent floats (unsafe, safe): profile(unsafe) > delta >= profile(safe)."""
    assert profile(mp.mpf(low)) > delta >= profile(mp.mpf(high))
    unsafe, safe = (struct.unpack("<q", struct.pack("<d", x))[0] for x in (low, high))
    while safe - unsafe > 1:
        middle = (unsafe + safe) // 2
        (x,) = struct.unpack("<d", struct.pack("<q", middle))
        unsafe, safe = (unsafe, middle) if profile(mp.mpf(x)) <= delta else (middle, safe)
    return tuple(struct.unpack("<d", struct.pack("<q", x))[0] for x in (unsafe, safe))


def assert_sharp(mechanism, profile, delta, *, relation=ADD, notion, high=1e4, **how):
    """The next float below the true epsilon is refused, the next one above proven."""
    unsafe, safe = boundary(profile, delta, high=high)
    ask = dict(relation=relation, notion=notion)
    assert can_prove(mechanism, **ask)
    assert not proves(mechanism, epsilon=unsafe, delta=delta, **ask, **how)
    assert proves(mechanism, epsilon=safe, delta=delta, **ask, **how)
    return safe


# -- Gaussian ---------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-12, 1e-30])
@pytest.mark.parametrize("sigma", [0.03, 0.7, 3.73, 1e3])
def test_gaussian_next_float_on_each_side(sigma, delta):
    profile = gaussian(1 / mp.mpf(sigma))
    if delta >= profile(mp.mpf(0)):
        assert proves(Gaussian(sigma), epsilon=0, delta=delta, relation=ADD, notion="gaussian")
    else:
        assert_sharp(Gaussian(sigma), profile, delta, notion="gaussian")


@pytest.mark.parametrize(
    ("sigma", "delta", "high"),
    [(1e-3, 1e-5, 1e7), (1e-3, 1e-30, 1e7), (1e9, 1e-10, 1.0), (1e9, 1e-30, 1.0)],
)
def test_gaussian_extreme_sigma(sigma, delta, high):
    assert_sharp(Gaussian(sigma), gaussian(1 / mp.mpf(sigma)), delta, notion="gaussian", high=high)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1.0, 100.0, 800.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-30])
def test_gaussian_next_sigma_on_each_side(epsilon, delta):
    # seen from the other end: neighboring noise multipliers at one target
    def meets(sigma):
        return gaussian(1 / sigma)(mp.mpf(epsilon))

    unsafe, safe = boundary(meets, delta, 1e-3, 1e12)
    for sigma, truth in ((unsafe, False), (safe, True)):
        mechanism = Gaussian(sigma)
        assert truth is proves(
            mechanism, epsilon=epsilon, delta=delta, relation=ADD, notion="gaussian"
        )


def test_gaussian_next_delta_on_each_side():
    exact = gaussian(1 / mp.mpf(2))(mp.mpf(1))
    near = float(exact)
    for delta in (math.nextafter(near, 0), near, math.nextafter(near, 1)):
        answer = proves(Gaussian(2.0), epsilon=1.0, delta=delta, relation=ADD, notion="gaussian")
        assert answer is (exact <= delta)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_gaussians_composed_are_one_gaussian(relation):
    plan = compose(
        repeat(Gaussian(10.0, replace_distance=1.5), 7),
        Gaussian(3.0),
        parallel(Gaussian(2.0), Gaussian(1.0), cells="by_public_index"),
    )
    d15, d2 = (mp.mpf("1.5"), 2) if relation is ONE else (1, 1)
    mu = mp.sqrt(7 * (d15 / 10) ** 2 + (d2 / mp.mpf(3)) ** 2 + d2**2)
    assert_sharp(plan, gaussian(mu), 1e-6, relation=relation, notion="gaussian")
    assert_sharp(plan, gaussian(mu), 1e-6, relation=relation, notion="approximate")


def test_a_replaced_record_that_moves_is_charged_in_the_two_worst_cells():
    near = dict(replace_distance=1.0)
    cells = parallel(Gaussian(3.0, **near), Gaussian(1.0, **near), Gaussian(2.0, **near))
    profile = gaussian(mp.sqrt(mp.mpf(5) / 4))
    assert_sharp(cells, profile, 1e-6, relation=ONE, notion="gaussian")
    assert_sharp(cells, profile, 1e-6, relation=ONE, notion="approximate")
    assert_sharp(cells, oracles.zcdp(mp.mpf(5) / 8), 1e-6, relation=ONE, notion="zcdp")
    twice = parallel(Gaussian(1.0, **near), Gaussian(1.0, **near))
    assert_sharp(twice, gaussian(mp.sqrt(2)), 1e-6, relation=ONE, notion="gaussian")


def test_random_gaussians_agree_with_mpmath():
    rng = random.Random(7)
    for _ in range(200):
        sigma, epsilon = 10 ** rng.uniform(-2, 4), 10 ** rng.uniform(-6, 2)
        exact = gaussian(1 / mp.mpf(sigma))(mp.mpf(epsilon))
        delta = float(exact)
        if not 1e-30 < delta < 0.5:
            continue
        delta = rng.choice([math.nextafter(delta, 0), delta, math.nextafter(delta, 1)])
        answer = proves(
            Gaussian(sigma), epsilon=epsilon, delta=delta, relation=ADD, notion="gaussian"
        )
        assert answer is (exact <= delta)


# -- one release ------------------------------------------------------------------------


@pytest.mark.parametrize("relation", [ADD, SPECIAL])
@pytest.mark.parametrize(
    ("sigma", "q", "delta"),
    [
        (1.26, 0.1, 1e-5),
        (3.0, 0.7, 1e-5),
        (0.3, 0.01, 1e-9),
        (20.0, 0.999, 1e-30),
        (0.05, 1e-4, 1e-8),
    ],
)
def test_sampled_gaussian_release(sigma, q, delta, relation):
    mechanism = sampled(Gaussian(sigma), q)
    profile = oracles.sampled(gaussian(1 / mp.mpf(sigma)), q)
    assert_sharp(mechanism, profile, delta, relation=relation, notion="approximate")


def test_one_sample_of_a_repetition_is_one_larger_gaussian():
    mechanism = sampled(repeat(Gaussian(10.0), 100), 0.01)
    safe = assert_sharp(mechanism, oracles.sampled(gaussian(1), 0.01), 1e-6, notion="approximate")
    assert safe == pytest.approx(0.364, abs=5e-4)  # not the .0344 of 100 fresh samples


@pytest.mark.parametrize(
    ("sigma", "q", "delta"), [(1.26, 0.1, 1e-5), (2.0, 0.5, 1e-12), (0.5, 0.01, 1e-7)]
)
def test_sampled_gaussian_replaced(sigma, q, delta):
    mechanism = sampled(Gaussian(sigma), q)
    profile = oracles.antipodal(1 / mp.mpf(sigma), q)
    assert_sharp(mechanism, profile, delta, relation=ONE, notion="approximate", high=50)


def test_antipodal_pair_is_the_worst_replacement():
    mu, q, eps = mp.mpf(1), mp.mpf("0.3"), mp.mpf("0.5")
    worst = oracles.antipodal(mu, q)(eps)
    rng = random.Random(3)
    x = np.arange(-400, 400) / 50
    for _ in range(20):
        u, w = rng.uniform(-1, 1), rng.uniform(-1, 1)
        rest, p, r = (np.exp(-((x - y) ** 2) / 2) / math.sqrt(2 * math.pi) for y in (0, u, w))
        gap = (1 - float(q)) * rest * (1 - math.exp(eps)) + float(q) * (p - math.exp(eps) * r)
        assert np.maximum(gap, 0).sum() / 50 <= worst


@pytest.mark.parametrize(
    ("mechanism", "profile"),
    [
        (PureDP(1.5), lambda: oracles.response(1.5)),
        (RandomizedResponse(1.5), lambda: oracles.response(1.5)),
        (RandomizedResponse(0.1, 7), lambda: oracles.response(0.1, 7)),
        (Laplace(1.7), lambda: oracles.laplace(1 / mp.mpf(1.7))),
        (ApproximateDP(1.5, 1e-7), lambda: oracles.claims(1.5, 1, 1e-7)),
    ],
)
def test_pure_releases(mechanism, profile):
    assert_sharp(mechanism, profile(), 1e-3, notion="approximate")


def test_laplace_profile_is_its_hockey_stick():
    eps, loss = mp.mpf("0.2"), mp.mpf("0.8")

    def gap(x):
        return (mp.exp(-abs(x - loss)) - mp.exp(eps - abs(x))) / 2

    start = (loss + eps) / 2
    exact = mp.quad(gap, [start, loss, loss + 40, mp.inf])
    assert mp.almosteq(exact, 1 - mp.exp((eps - loss) / 2), 1e-30)


@pytest.mark.parametrize(
    ("mechanism", "epsilon", "relation"),
    [
        (PureDP(0.7), 0.7, ADD),
        (PureDP(0.7, ONE), 0.7, ONE),
        (Laplace(2.0), 0.5, ADD),
        (Laplace(2.0), 1.0, ONE),
        (Laplace(2.0, replace_distance=1.0), 0.5, ONE),
        (RandomizedResponse(3.0, 5), 3.0, SPECIAL),
    ],
)
def test_pure_releases_have_delta_zero_from_their_epsilon_on(mechanism, epsilon, relation):
    for value, truth in ((epsilon, True), (math.nextafter(epsilon, 0), False)):
        answer = proves(mechanism, epsilon=value, delta=0, relation=relation, notion="approximate")
        assert answer is truth


@pytest.mark.parametrize("delta", [0.0, 1e-7])
def test_sampled_pure_and_approximate(delta):
    inner = ApproximateDP(1.5, delta) if delta else PureDP(1.5)
    mechanism = sampled(inner, 0.25)
    true_epsilon, true_delta = mp.log(1 + (mp.exp(mp.mpf(1.5)) - 1) / 4), mp.mpf(delta) / 4

    def profile(eps):  # steps down at the true epsilon
        return true_delta if eps >= true_epsilon else mp.mpf(1)

    assert_sharp(mechanism, profile, delta / 4, notion="approximate")
    assert not proves(
        mechanism,
        epsilon=2.0,
        delta=math.nextafter(delta / 4, -1),
        relation=ADD,
        notion="approximate",
    )


def test_parallel_releases_take_the_worst_cell():
    weak = sampled(Gaussian(1.0))
    cells = parallel(weak, Laplace(5.0), Gaussian(9.0))
    assert_sharp(cells, oracles.sampled(gaussian(1), 0.1), 1e-5, notion="approximate")
    assert not can_prove(cells, relation=ONE, notion="approximate")


# -- zCDP -------------------------------------------------------------------------------


def conversion(divergence, order, eps):
    return mp.exp((order - 1) * (divergence - eps)) / (order - 1) * (1 - 1 / order) ** order


def laplace_rho(loss):
    """Kullback-Leibler divergence of two Laplace distributions, `loss` scales apart."""
    return loss - 1 + mp.exp(-loss)


@pytest.mark.parametrize(
    ("mechanism", "rho"),
    [
        (ZeroConcentratedDP(0.031), lambda: mp.mpf(0.031)),
        (ZeroConcentratedDP(1e-12), lambda: mp.mpf(1e-12)),
        (ZeroConcentratedDP(50.0), lambda: mp.mpf(50)),
        (
            compose(repeat(Gaussian(8.0), 5), Laplace(9.0), PureDP(0.1), RandomizedResponse(0.2)),
            lambda: (
                5 / mp.mpf(128)
                + laplace_rho(1 / mp.mpf(9))
                + sum(mp.mpf(x) * mp.tanh(mp.mpf(x) / 2) for x in (0.1, 0.2))
            ),
        ),
    ],
)
@pytest.mark.parametrize("delta", [1e-7, 1e-30])
def test_zcdp_at_the_best_order(mechanism, rho, delta):
    assert_sharp(mechanism, oracles.zcdp(rho()), delta, notion="zcdp")


@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_zcdp_relation(relation):
    plan = compose(
        Gaussian(5.0), Laplace(9.0, replace_distance=1.5), ZeroConcentratedDP(0.01, relation)
    )
    d, e = (2, mp.mpf(1.5)) if relation is ONE else (1, 1)
    rho = mp.mpf(d) ** 2 / 50 + laplace_rho(e / mp.mpf(9)) + mp.mpf(0.01)
    assert_sharp(plan, oracles.zcdp(rho), 1e-5, relation=relation, notion="zcdp")


# -- RDP --------------------------------------------------------------------------------


def trapezoid(integrand, low, high, step):
    return step * mp.fsum(integrand(x) for x in mp.arange(low, high, step))


def divergence_by_quadrature(order, q, sigma, *, add=False):
    """Rényi divergence of the sampled Gaussian, by integrating densities over x.

    The trapezoid rule: its error decreases exponentially with 1 / step, in the standard deviation
    and in the distance of the complex zeros of the mixture.
    """
    q, sigma, order = mp.mpf(q), mp.mpf(sigma), mp.mpf(order)

    def integrand(x):
        base = mp.npdf(x, 0, sigma)
        mixture = (1 - q) * base + q * mp.npdf(x, 1, sigma)
        p, r = (base, mixture) if add else (mixture, base)
        return p**order * r ** (1 - order)

    low, high = -14 * sigma, (1 if add else order) + 14 * sigma
    step = min(sigma / 3, 2 * (mp.pi * sigma) ** 2 / (3 * mp.mp.dps))
    return mp.log(trapezoid(integrand, low, high, step)) / (order - 1)


def assert_sharp_rdp(mechanism, divergence, order, delta, *, relation=ADD, high=1e9):
    def profile(eps):
        return conversion(divergence, mp.mpf(order), eps)

    assert_sharp(mechanism, profile, delta, relation=relation, notion="rdp", order=order, high=high)


@pytest.mark.parametrize("relation", [ADD, SPECIAL])
@pytest.mark.parametrize(
    ("order", "q", "sigma", "steps", "delta"),
    [
        (64, 0.01, 4.0, 1000, 1e-5),
        (64, 0.001, 1.0, 1, 1e-30),
        (2, 0.5, 0.1, 3, 1e-5),
        (11, 1e-5, 0.5, 10**6, 1e-8),
        (3, 1e-9, 1e9, 10**12, 1e-2),
        (900, 0.01, 50.0, 1000, 1e-6),
        (5, 0.3, 1e-3, 1, 1e-5),
    ],
)
def test_sampled_gaussian_at_whole_orders(order, q, sigma, steps, delta, relation):
    mechanism = repeat(sampled(Gaussian(sigma), q), steps)
    divergence = steps * by_binomials(1 / mp.mpf(sigma), q)(order)
    assert_sharp_rdp(mechanism, divergence, float(order), delta, relation=relation)


@pytest.mark.parametrize(
    ("order", "q", "sigma", "steps", "delta"),
    [(12.7, 0.01, 1.5, 1000, 1e-5), (1.3, 0.2, 0.4, 10, 1e-9), (40.25, 0.6, 7.0, 5, 1e-30)],
)
def test_sampled_gaussian_at_fractional_orders(order, q, sigma, steps, delta):
    mechanism = repeat(sampled(Gaussian(sigma), q), steps)
    with mp.workdps(45):
        divergence = steps * divergence_by_quadrature(order, q, sigma)
    assert_sharp_rdp(mechanism, divergence, order, delta)


@pytest.mark.parametrize(
    ("order", "q", "sigma"), [(3.5, 0.1, 0.3), (1.2, 0.7, 1.0), (6.5, 0.5, 5.0)]
)
def test_removing_dominates_adding(order, q, sigma):
    with mp.workdps(25):
        remove = divergence_by_quadrature(order, q, sigma)
        assert divergence_by_quadrature(order, q, sigma, add=True) <= remove


@pytest.mark.parametrize("bits", [128, 256])
@pytest.mark.parametrize(
    ("order", "q", "mu"),
    [
        (2, 0.3, 1.0),
        (9, 0.01, 0.2),
        (17, 0.2, 3.0),
        (40, 0.9, 2.0),
    ],
)
def test_panels_and_binomials_contain_the_same_moment(order, q, mu, bits):
    with flint.ctx.workprec(bits):
        square, share = flint.arb(mu) * flint.arb(mu), flint.arb(q)
        # Mironov, Talwar and Zhang 2019, Section 3.3
        terms = (
            math.comb(order, k)
            * (1 - share) ** (order - k)
            * share**k
            * (square * k * (k - 1) / 2).exp()
            for k in range(order + 1)
        )
        exact = sum(terms, flint.arb(0))
        assert exact.rad() < exact * flint.arb(2) ** (20 - bits)
        bound = _split.moment(sampled_gaussian(square, q, "remove"), order - 1, 30.0)
        assert not bound < exact
        assert bound < exact * (1 + flint.arb(2) ** -35)


def test_tiny_noise_at_a_fractional_order_is_the_gaussian_part():
    # at sigma = 0.05 the moment is q^a times that of the Gaussian, up to e^-4000
    mechanism = sampled(Gaussian(0.05), 0.3)
    a = mp.mpf(5.5)
    divergence = a / (2 * mp.mpf(0.05) ** 2) + a / (a - 1) * mp.log(mp.mpf(0.3))
    assert_sharp_rdp(mechanism, divergence, 5.5, 1e-5)


def test_large_orders_are_proven_on_a_few_nodes():
    # q = 1 is no sampling: just below it the divergence approaches the Gaussian's from below
    mechanism = sampled(Gaussian(800.0), 1 - 1e-9)
    divergence = 28000.5 / (2 * 800.0**2)
    target = dict(delta=1e-6, relation=ADD, notion="rdp", order=28000.5)
    epsilon = float(mp.findroot(lambda e: mp.log(conversion(divergence, 28000.5, e) / 1e-6), 0.02))
    assert proves(mechanism, epsilon=epsilon * (1 + 1e-12), **target)
    assert not proves(mechanism, epsilon=epsilon * (1 - 1e-7), **target)


def test_rdp_parts_add_up():
    a = mp.mpf(3.5)
    plan = compose(
        repeat(PureDP(0.4), 3),
        RandomizedResponse(1.0, 5),
        Laplace(2.0),
        Gaussian(3.0),
        ZeroConcentratedDP(0.02),
    )

    def laplace(x):
        return mp.exp(-a * abs(x - 1) / 2 - (1 - a) * abs(x) / 2) / 4

    with mp.workdps(45):
        divergence = (
            3 * oracles.response_divergence(0.4)(a)
            + oracles.response_divergence(1, 5)(a)
            + mp.log(mp.quad(laplace, [-300, -50, -10, 0, 1, 10, 50, 300])) / (a - 1)
            + a / 18
            + a * mp.mpf(0.02)
        )
    assert_sharp_rdp(plan, divergence, 3.5, 1e-4)


def test_parallel_divergences_take_the_worst_cell():
    def cell(sigma):
        return repeat(sampled(Gaussian(sigma)), 10)

    divergence = 10 * by_binomials(0.5, 0.1)(8)
    assert_sharp_rdp(parallel(cell(2.0), cell(3.0), PureDP(0.01)), divergence, 8.0, 1e-5)


@pytest.mark.parametrize("order", [1.5, 4.0])
@pytest.mark.parametrize("kind", ["user", "Laplace", "replaced", "response"])
def test_divergences_of_more_sampled_noise(kind, order):
    """Integrals of both densities; proofs have 60 nats, not every digit."""
    q, a = mp.mpf(0.2), mp.mpf(order)
    rest = 1 - q

    def total(integrand):
        """Return the integral: smooth, or of two exponentials outside of [0, 1]."""
        if kind != "Laplace":
            return trapezoid(integrand, mp.mpf(-60), 60, mp.mpf(0.25))
        tails = mp.mpf(1.5) * (integrand(0) + integrand(1))
        return tails + mp.quad(integrand, [0, 1])

    if kind == "user":
        mechanism, relation = GroupSampled(Gaussian(2.0), 0.2, 2), ADD
        shares = [rest**2, 2 * q * rest, q**2]
        pair = (
            lambda x: sum(p * mp.npdf(x, j, 2) for j, p in enumerate(shares)),
            lambda x: mp.npdf(x, 0, 2),
        )
    elif kind == "replaced":
        mechanism, relation = sampled(Gaussian(1.5), 0.2), ONE
        pair = tuple(
            lambda x, at=at: rest * mp.npdf(x, 0, 1.5) + q * mp.npdf(x, at, 1.5) for at in (1, -1)
        )
    else:
        mechanism, relation = sampled(Laplace(1.5), 0.2), ADD

        def one(x, at):
            return mp.exp(-abs(x - at) / mp.mpf(1.5)) / 3

        pair = (lambda x: rest * one(x, 0) + q * one(x, 1), lambda x: one(x, 0))
    if kind == "response":
        mechanism = sampled(RandomizedResponse(1.0, 3), 0.2)
        r = [x / (mp.e + 2) for x in (1, mp.e, 1)]
        p = [rest * x + q * y for x, y in zip(r, [r[1], r[0], r[2]], strict=True)]
        powers = [
            sum(x**a * y ** (1 - a) for x, y in zip(*both, strict=True))
            for both in ((p, r), (r, p))
        ]
    else:
        with mp.workdps(30):
            powers = [
                total(lambda x, f=f, g=g: f(x) ** a * g(x) ** (1 - a))
                for f, g in (pair, pair[::-1])
            ]
    divergence = mp.log(max(powers)) / (a - 1)
    ask = dict(delta=1e-5, relation=relation, notion="rdp", order=order)
    epsilon = float(mp.findroot(lambda e: mp.log(conversion(divergence, a, e) / 1e-5), 5))
    assert proves(mechanism, epsilon=epsilon * (1 + 1e-12), **ask)
    assert not proves(mechanism, epsilon=epsilon * (1 - 1e-12), **ask)


# -- other samplers --------------------------------------------------------------------------


def test_a_batch_of_fixed_size_costs_what_its_worst_data_sets_cost():
    """One of four records with values in [-1, 1], the other three equal to the replacement."""
    batch = FixedSizeSampled(Gaussian(1.5), batch_size=1, records=4)

    def profile(eps):
        def excess(x):
            there, other = mp.npdf(x, 1, 1.5), mp.npdf(x, -1, 1.5)
            return there / 4 + 3 * other / 4 - mp.exp(eps) * other

        cut = mp.findroot(excess, 1.0)
        return mp.quad(excess, [cut, cut + 2, cut + 5, cut + 15, 40])

    with mp.workdps(30):
        for eps in (0.3, 1.0):
            delta = float(profile(eps))
            for notion in ("approximate", "contour"):
                ask = dict(epsilon=eps, relation=ONE, notion=notion)
                assert proves(batch, delta=delta * (1 + 1e-12), **ask)
                assert not proves(batch, delta=delta * (1 - 1e-12), **ask)


def batch_epsilon(q, mu, order, steps, delta):
    """Return epsilon at one order of `steps` batches, from the densities of the worst outputs.

    The pair puts sup(0, P - Q) + q-mixtures on both sides: losses above 0 of the mixture against
    N(0, 1), the same with both data sets exchanged, and the rest of the mass without a loss.
    """
    a, half = mp.mpf(order), mp.mpf(mu) / 2

    def ratio(z):
        return 1 - q + q * mp.exp(mu * z - mp.mpf(mu) ** 2 / 2)

    places = mp.linspace(half, half + 1.5 * a * mu + 14, 30)
    there = mp.quad(lambda z: mp.npdf(z) * ratio(z), places)
    other = mp.quad(mp.npdf, places)
    power = mp.quad(lambda z: mp.npdf(z) * (ratio(z) ** a + ratio(z) ** (1 - a)), places)
    divergence = steps * mp.log(power + 1 - there - other) / (a - 1)
    return divergence + mp.log(1 - 1 / a) - (mp.log(delta) + mp.log(a)) / (a - 1)


BATCHES = [
    (Gaussian(2.0), 10, 100, 50, 3.6495491608737725, ONE, 1.0),
    (Gaussian(1.0), 1, 100, 300, 2.3, ONE, 2.0),
    (Gaussian(5.0, replace_distance=0.5), 50, 100, 100, 8.0, SPECIAL, 0.2),
    (Gaussian(5.0), 7, 7, 3, 4.0, ONE, 0.4),
]


@pytest.mark.parametrize(("noise", "size", "records", "steps", "order", "relation", "mu"), BATCHES)
def test_batches_of_fixed_size_at_the_boundary(noise, size, records, steps, order, relation, mu):
    batches = repeat(FixedSizeSampled(noise, batch_size=size, records=records), steps)
    ask = dict(delta=1e-5, relation=relation, notion="rdp", order=order)
    with mp.workdps(30):
        epsilon = float(batch_epsilon(mp.mpf(size) / records, mu, order, steps, mp.mpf(1e-5)))
    assert proves(batches, epsilon=epsilon * (1 + 1e-12), **ask)
    assert not proves(batches, epsilon=epsilon * (1 - 1e-12), **ask)
    reported = account(batches, notion="rdp", relation=relation).guarantee(delta=1e-5)
    assert as_proven(reported)
    assert not as_proven(replace(reported, epsilon=reported.epsilon * (1 - 1e-9)))


def test_epochs_and_groups_of_records_cost_their_own_releases():
    found = account(Epochs(Gaussian(3.0), passes=4), relation=ONE).guarantee(delta=1e-6)
    assert as_proven(found)
    for passes, proven in ((4, True), (5, False)):
        run = replace(found, mechanism=repeat(Gaussian(3.0), passes))
        assert (as_proven(run) is not None) == proven
    cyclic = CyclicPoisson(Gaussian(2.0), 0.05, 9, 4)
    found = account(cyclic, notion="contour").guarantee(delta=1e-6, certify=True)
    once = sampled(Gaussian(2.0), 0.05)
    assert as_proven(replace(found, mechanism=repeat(once, 3)))
    assert not as_proven(replace(found, mechanism=repeat(once, 4)))
    assert not as_proven(replace(found, mechanism=CyclicPoisson(Gaussian(2.0), 0.05, 13, 4)))


def test_a_group_with_one_step_too_few_is_rejected(monkeypatch):
    cyclic = CyclicPoisson(Gaussian(2.0), 0.05, 9, 4)
    once = sampled(Gaussian(2.0), 0.05)
    less = account(repeat(once, 2), notion="contour").guarantee(delta=1e-6)
    claim = replace(less, mechanism=cyclic)
    assert not as_proven(claim)
    monkeypatch.setattr(certification, "plain", lambda *_: Repeated(once, 9 // 4))
    assert as_proven(claim)


# -- brute force: small discrete mechanisms against the claims they meet -------------------


def discrete_delta(p, r, epsilon):
    """Return the larger of both directions of two laws on the same outputs."""
    u = math.exp(epsilon)
    both = ((p, r), (r, p))
    return max(sum(max(0.0, x - u * y) for x, y in zip(a, b, strict=True)) for a, b in both)


def is_pure(p, r, epsilon):
    return discrete_delta(p, r, epsilon + 1e-12) == 0.0


def meeting(claims, rng):
    """Return the laws of one mechanism without a record, with it, and with a null record.

    Each pair in `claims` is epsilon-DP; an index that no claim names is drawn freely.
    """
    while True:
        laws = [[rng.choice([0.0, 0.0, 1.0, 2.0, 5.0]) for _ in range(3)] for _ in range(3)]
        if min(map(sum, laws)) == 0:
            continue
        laws = [[x / sum(law) for x in law] for law in laws]
        if all(is_pure(laws[i], laws[j], epsilon) for i, j, epsilon in claims):
            return laws


PAIRS = {ADD: (0, 1), SPECIAL: (2, 1), ONE: (1, 2)}  # absent, record, null (or another record)


@pytest.mark.parametrize("relation", list(NeighboringRelation))
@pytest.mark.parametrize("asked", list(NeighboringRelation))
@pytest.mark.parametrize("q", [0.1, 0.7])
def test_a_sampled_claim_is_proven_only_if_every_mechanism_that_meets_it_agrees(q, relation, asked):
    claim = 2.0
    mechanism = sampled(PureDP(claim, relation), q)
    rng, worst = random.Random(11), 0.0
    epsilon = math.nextafter(math.log1p(q * math.expm1(claim)), 9.0)
    for _ in range(100):
        laws = meeting([(*PAIRS[relation], claim)], rng)
        mixed = [[(1 - q) * n + q * x for n, x in zip(laws[0], law, strict=True)] for law in laws]
        worst = max(worst, discrete_delta(*(mixed[i] for i in PAIRS[asked]), epsilon))
    answer = proves(mechanism, epsilon=epsilon, delta=0.0, relation=asked, notion="approximate")
    assert answer is (relation is asked is ADD)
    assert (worst <= 1e-12) is answer


def test_a_sampled_zero_out_claim_fails_by_randomized_response_without_an_absent_record():
    # without the record "a"; with it, or its null, e^1-randomized response on {b, c}
    q, claim = 0.1, 1.0
    kept = math.e / (1 + math.e)
    laws = [[1 - q, q * kept, q * (1 - kept)], [1 - q, q * (1 - kept), q * kept]]
    epsilon = 0.1585650788989942
    assert discrete_delta(*laws, epsilon) == pytest.approx(0.04159, abs=5e-6)
    mechanism = sampled(PureDP(claim, SPECIAL), q)
    for delta in (0.0, 0.0415):
        ask = dict(epsilon=epsilon, delta=delta, relation=SPECIAL, notion="approximate")
        assert not proves(mechanism, **ask)


@pytest.mark.parametrize("absent", [1, 2])
def test_a_sampled_response_is_proven_under_add_or_remove_alone(absent):
    """Composed, three different answers lose more than the sampled pair of two."""
    q, epsilon, k, count, at = 0.1, 2.0, 3, 5, 0.7410430620662684
    step = sampled(RandomizedResponse(epsilon, k), q)
    law = [
        [math.exp(epsilon * (a == b)) / (math.exp(epsilon) + k - 1) for b in range(k)]
        for a in range(k)
    ]
    there, zeroed = (
        [(1 - q) * n + q * x for n, x in zip(law[absent], law[answer], strict=True)]
        for answer in (0, 1)
    )
    laws = [
        [math.prod(one[x] for x in outputs) for outputs in product(range(k), repeat=count)]
        for one in (there, zeroed)
    ]
    truth = max(discrete_delta(*laws, at), discrete_delta(*reversed(laws), at))
    added = account(repeat(step, count)).delta(at)
    assert (truth > 1.5 * added) is (absent == 2)
    assert not can_prove(step, relation=SPECIAL, notion="approximate")
    with pytest.raises(NotImplementedError, match="supported under ADD_OR_REMOVE_ONE"):
        account(step, relation=SPECIAL)


# -- groups -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 1000])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_group_of_gaussians_is_one_gaussian(size, relation):
    plan = compose(repeat(Gaussian(40.0), 3), Gaussian(900.0, replace_distance=1.0))
    d, e = (2, 1) if relation is ONE else (1, 1)
    mu = size * mp.sqrt(3 * (d / mp.mpf(40)) ** 2 + (e / mp.mpf(900)) ** 2)
    how = dict(relation=relation, notion="gaussian", size=size, high=1e6)
    assert_sharp(plan, gaussian(mu), 1e-5, **how)


def test_a_group_costs_size_squared_rho_under_zcdp():
    plan = compose(ZeroConcentratedDP(0.01), Laplace(20.0))
    rho = 9 * (mp.mpf(0.01) + laplace_rho(1 / mp.mpf(20)))
    assert_sharp(plan, oracles.zcdp(rho), 1e-5, notion="zcdp", size=3)


@pytest.mark.parametrize("claim", [PureDP(0.7), Laplace(1 / 0.7), RandomizedResponse(0.7, 3)])
def test_a_group_costs_size_times_epsilon_under_pure_dp(claim):
    ask = dict(delta=0.0, relation=ADD, notion="approximate", size=3)
    assert proves(claim, epsilon=2.1 * (1 + 1e-12), **ask)
    assert not proves(claim, epsilon=2.1 * (1 - 1e-12), **ask)


def test_a_group_is_not_proven_by_a_rounded_share():
    # a float just below size * claim, whose division by size rounds up to the claim
    rng, seen = random.Random(4), 0
    while seen < 20:
        claim, size = rng.uniform(0.1, 3.0), rng.choice([3, 5, 7, 1000])
        exact = size * Fraction(claim)
        below = float(exact)
        below = below if below < exact else math.nextafter(below, 0)
        if below / size != claim:
            continue
        seen += 1
        ask = dict(delta=0.0, relation=ADD, notion="approximate", size=size)
        assert not proves(PureDP(claim), epsilon=below, **ask)
        assert proves(PureDP(claim), epsilon=math.nextafter(below, 9e9), **ask)


def test_a_group_of_an_approximate_claim_costs_the_chain_bound():
    claim, size = ApproximateDP(0.5, 1e-7), 3
    gain = sum(mp.exp(mp.mpf(0.5) * j) for j in range(size))
    delta = float(mp.mpf(1e-7) * gain)
    ask = dict(epsilon=1.5, relation=ADD, notion="approximate", size=size)
    assert proves(claim, delta=delta * (1 + 1e-12), **ask)
    assert not proves(claim, delta=delta * (1 - 1e-12), **ask)


def test_a_group_certificate_is_about_the_group():
    curve = account(Gaussian(4.0)).group(3)
    found = curve.guarantee(delta=1e-5, certify=True)
    assert found.certified
    assert not proves_guarantee(replace(found, epsilon=1.0))
    alone = account(Gaussian(4.0)).guarantee(delta=1e-5, certify=True)
    assert alone.epsilon < 1.0
    for unit in (
        "2 records",
        "3 times one user",
        "2 times 3 records",
        "\uff13 records",
        " 2 Records",
    ):
        assert not proves_guarantee(replace(alone, unit=unit))
    for unit in ("0 records", "0 times one user", "9" * 5000 + " records", "9" * 20 + " records"):
        assert not proves_guarantee(replace(alone, epsilon=1e6, unit=unit))
    nested = (
        account(Gaussian(4.0), unit="one user", notion="gaussian")
        .group(2)
        .group(3)
        .guarantee(delta=1e-5)
    )
    assert proves_guarantee(replace(nested, epsilon=nested.epsilon * (1 + 1e-12)))
    assert not proves_guarantee(replace(nested, epsilon=nested.epsilon * (1 - 1e-9)))


def test_a_group_of_subsampled_runs_is_proven_by_a_chain_of_profiles():
    run = repeat(sampled(Gaussian(3.0), 0.2), 10)
    with pytest.raises(NotCertified):
        account(run, notion="rdp").group(2).guarantee(delta=1e-5, certify=True)
    found = account(run).group(2).guarantee(delta=1e-5, certify=True)
    assert (found.certified, found.unit) == (True, "2 records")
    assert not proves_guarantee(replace(found, unit="3 records"))


@pytest.mark.parametrize(
    "mechanism",
    [
        compose(Gaussian(5.0), ZeroConcentratedDP(0.01)),
        ZeroConcentratedDP(0.1),
    ],
)
@pytest.mark.parametrize("notion", ["tightest", "zcdp", "rdp"])
def test_a_group_whose_divergence_is_linear_is_proven_by_its_rho(mechanism, notion):
    curve = account(mechanism, notion=notion).group(3)
    found = curve.guarantee(delta=1e-5, certify=True)
    assert found.certified
    assert found.epsilon <= curve.epsilon(1e-5) * (1 + 1e-9)
    assert found.order is not None
    lower = replace(found, epsilon=found.epsilon * (1 - 1e-6))
    assert not proves_guarantee(lower)
    assert not proves_guarantee(replace(found, unit="4 records"))


def test_a_group_is_answered_by_the_method_that_is_best_for_groups():
    """Optimal composition is exact for one record; its chain of neighbors is not for several."""
    run = repeat(PureDP(0.1), 100)
    assert account(run).guarantee(delta=1e-5).notion == "approximate"
    found = account(run).group(3)
    each = [
        account(run, notion=notion).group(3).epsilon(1e-5)
        for notion in ("approximate", "zcdp", "rdp")
    ]
    assert found.epsilon(1e-5) == min(each) < each[0]


# -- certificates: every kind of mechanism, every notion, every relation -------------------


def kinds(relation):
    """Return at least one tree of every kind of mechanism, its claims under `relation`."""
    q, noise = 0.2, Gaussian(1.5)
    leaves = [
        noise,
        Laplace(1.2),
        DiscreteLaplace(2.0, sensitivity=2),
        RandomizedResponse(0.8, 3),
        PureDP(0.7, relation),
        ExponentialMechanism(0.7, relation),
        PermuteAndFlip(0.7, relation),
        AboveThreshold(0.7, relation, 3),
        ApproximateDP(0.7, 1e-6, relation),
        ZeroConcentratedDP(0.05, relation),
    ]
    mixed = [sampled(leaf, q) for leaf in leaves]
    trees = [
        GroupSampled(noise, q, 3),
        repeat(noise, 4),
        best_of(noise, mean_runs=5),
        repeat(mixed[0], 4),
        compose(noise, Laplace(3.0), mixed[0]),
        compose(noise, ZeroConcentratedDP(0.05, relation)),
        sampled(repeat(noise, 3), q),
        *(parallel(leaf, Gaussian(3.0)) for leaf in leaves),
        *(parallel(leaf, Gaussian(3.0), cells="by_public_index") for leaf in (*leaves, *mixed)),
    ]
    found = [*leaves, *mixed, *trees]
    seen = {type(tree).__name__ for tree in found}
    return found + [
        known.example
        for name, known in REGISTRY.items()
        if known.example is not None and name not in seen
    ]


def test_the_registry_walk_covers_every_kind():
    known = {type(tree).__name__ for tree in kinds(ADD)}
    assert known == set(support_matrix()) | {"Repeated", "Composed", "Parallel", "BestOf"}


DELTA = 1e-4


@functools.cache
def bound(tree, relation, notion, size):
    """Return the reported epsilon, infinite where there is none."""
    try:
        return account(tree, notion=notion, relation=relation).group(size).epsilon(DELTA)
    except NotImplementedError:
        return math.inf


def linear(tree):
    """Return whether all leaves are Gaussians or zCDP claims: divergence = order * rho."""
    alone = isinstance(tree, Repeated | Epochs)
    inside = [tree.mechanism] if alone else getattr(tree, "parts", None)
    if inside is None:
        return isinstance(tree, Gaussian | ZeroConcentratedDP | RandomAllocation)
    return all(map(linear, inside))


@pytest.mark.parametrize("notion", ["gaussian", "approximate", "zcdp", "rdp"])
@pytest.mark.parametrize("relation", list(NeighboringRelation))
def test_a_certificate_holds_for_its_own_claim_alone(relation, notion):
    seen = set()
    for tree, size in product(kinds(relation), (1, 3)):
        chain = notion == "rdp" and size == 3 and not linear(tree)
        if chain and relation is not ADD and "Gaussian" in repr(tree):
            continue  # slow: chains of sampled Gaussians are tried under ADD alone
        orders = (2.0,) if chain else None  # the search for the best one is slow
        try:
            curve = account(tree, notion=notion, relation=relation, orders=orders).group(size)
            found = curve.guarantee(delta=DELTA, certify=True)
        except (NotImplementedError, NotCertified):
            continue
        seen.add((tree, size))
        assert found.certified
        assert proves_guarantee(found)
        false = [
            replace(found, epsilon=found.epsilon * (1 - 1e-2)),
            replace(found, delta=DELTA / 2),
            replace(found, unit=f"{size + 1} records"),
            replace(found, mechanism=repeat(tree, 2)),
        ]
        for other in NeighboringRelation:
            swapped = replace(found, relation=other)
            assert swapped.certified is False
            if bound(tree, other, notion, size) > found.epsilon * (1 + 1e-9):
                false.append(swapped)
        for claim in false:
            assert not claim.certified
            assert not proves_guarantee(claim), claim
        assert proves_guarantee(replace(found, mechanism=mechanism_from_json(tree.to_json())))
    assert {size for _, size in seen} == {1, 3}
    if notion == "rdp":
        # other divergences of a group are bounded by the chain of orders, which is not proven
        for tree in {tree for tree, size in seen if size == 3}:
            assert linear(tree), tree
    assert len(seen) >= 8


@pytest.mark.parametrize("asked", list(NeighboringRelation))
def test_the_prover_covers_nothing_that_accounting_refuses(asked):
    for relation in NeighboringRelation:
        for tree in kinds(relation):
            notions = ("gaussian", "approximate", "zcdp", "rdp")
            if any(can_prove(tree, relation=asked, notion=notion) for notion in notions):
                account(tree, relation=asked)


def test_certified_is_set_only_by_a_proof():
    with pytest.raises(TypeError):
        Guarantee(1.0, 1e-5, ADD, "gaussian", certified=True)  # type: ignore[call-arg]
    with pytest.raises((TypeError, ValueError), match="init=False"):  # TypeError since Python 3.13
        replace(account(Gaussian(1.0)).guarantee(delta=1e-5), certified=True)
    nothing = Guarantee(0.1, 1e-9, ADD, "gaussian", mechanism=Gaussian(1.0))
    with pytest.raises(NotCertified):
        certified(nothing, "epsilon")


# -- refusals ---------------------------------------------------------------------------

SAMPLED = sampled(Gaussian(1.0))


@pytest.mark.parametrize(
    ("mechanism", "notion", "relation"),
    [
        (PureDP(1.0), "zcdp", ONE),
        (PureDP(1.0, ONE), "zcdp", ADD),
        (PureDP(1.0), "approximate", SPECIAL),
        (ApproximateDP(1.0, 1e-6), "approximate", ONE),
        (ZeroConcentratedDP(1.0), "zcdp", SPECIAL),
        (compose(Gaussian(1.0), ZeroConcentratedDP(1.0)), "rdp", ONE),
        (sampled(PureDP(1.0, ONE)), "approximate", ONE),
        (sampled(PureDP(1.0)), "approximate", SPECIAL),
        (sampled(Gaussian(1.0, replace_distance=1.0)), "rdp", ONE),
        (sampled(Gaussian(1.0, replace_distance=1.0)), "approximate", ONE),
        # the null record is not an absent one: sampled or alone in its cell, it may be told apart
        (sampled(PureDP(1.0, SPECIAL)), "approximate", SPECIAL),
        (sampled(ApproximateDP(1.0, 0.1, SPECIAL)), "approximate", SPECIAL),
        (
            sampled(parallel(Laplace(1.0), PureDP(1.0, SPECIAL), cells="by_public_index")),
            "approximate",
            SPECIAL,
        ),
        (parallel(Gaussian(9.0), sampled(PureDP(1.0, SPECIAL))), "approximate", SPECIAL),
        (parallel(PureDP(1.0, SPECIAL), Gaussian(2.0)), "approximate", SPECIAL),
        (parallel(PureDP(1.0, SPECIAL), Gaussian(2.0)), "zcdp", SPECIAL),
        (parallel(ZeroConcentratedDP(1.0, SPECIAL), Gaussian(2.0)), "rdp", SPECIAL),
        (sampled(Laplace(1.0)), "approximate", ONE),
        (sampled(Laplace(1.0)), "rdp", ONE),
        (sampled(ApproximateDP(1.0, 1e-6)), "rdp", ADD),
        (Epochs(Gaussian(1.0)), "gaussian", ADD),
        (FixedSizeSampled(Gaussian(1.0), batch_size=3, records=9), "approximate", ADD),
        (repeat(FixedSizeSampled(Gaussian(1.0), batch_size=3, records=9), 2), "contour", ADD),
        (
            FixedSizeSampled(Gaussian(1.0), batch_size=3, records=9, replacement=True),
            "approximate",
            ONE,
        ),
        (FixedSizeSampled(Gaussian(1.0), batch_size=3, records=9), "rdp", ADD),
        (FixedSizeSampled(Gaussian(1.0), batch_size=3, records=9, replacement=True), "rdp", ONE),
        (SAMPLED, "zcdp", ADD),
        (SAMPLED, "gaussian", ADD),
        (repeat(SAMPLED, 2), "approximate", ADD),
        (compose(PureDP(1.0), Laplace(1.0)), "approximate", ADD),
        (compose(Laplace(1.0), Gaussian(1.0)), "gaussian", ADD),
        (ApproximateDP(1.0, 1e-6), "rdp", ADD),
        (ApproximateDP(1.0, 1e-6), "zcdp", ADD),
        (ZeroConcentratedDP(1.0), "gaussian", ADD),
        (ZeroConcentratedDP(1.0), "approximate", ADD),
        (parallel(Gaussian(1.0), SAMPLED), "approximate", ONE),
        (parallel(PureDP(1.0, ONE), Gaussian(2.0)), "zcdp", ONE),
        (parallel(ZeroConcentratedDP(1.0, ONE), Gaussian(2.0)), "zcdp", ONE),
        (repeat(PureDP(1.0, ONE), 2), "contour", ADD),
        (repeat(sampled(PureDP(1.0)), 2), "contour", SPECIAL),
        (repeat(sampled(PureDP(1.0, ONE)), 2), "contour", ADD),
        (repeat(sampled(Laplace(1.0)), 2), "contour", ONE),
        (compose(SAMPLED, ZeroConcentratedDP(0.1)), "contour", ADD),
        (repeat(parallel(SAMPLED, Gaussian(9.0)), 2), "contour", ADD),
        (compose(SAMPLED, PureDP(0.1, SPECIAL)), "contour", ADD),
        (repeat(sampled(Gaussian(1.0, replace_distance=1.0)), 2), "contour", ONE),
        (Gaussian(1.0), "tightest", ADD),
    ],
)
def test_no_proof_without_a_rule(mechanism: Mechanism, notion, relation):
    assert not can_prove(mechanism, relation=relation, notion=notion)
    assert not proves(
        mechanism, epsilon=500.0, delta=0.9, relation=relation, notion=notion, order=2.0
    )


@pytest.mark.parametrize(
    "mechanism",
    [
        Repeated(Gaussian(1.0), 0),
        Repeated(Gaussian(1.0), -1),
        Repeated(Gaussian(1.0), 0.01),  # type: ignore[arg-type]
        Composed(()),
        Parallel(()),
        Parallel((Gaussian(1.0), Gaussian(1.0)), "by-record"),  # type: ignore[arg-type]
        type("Quiet", (Gaussian,), {"noise_multiplier": 9.0})(1.0),
    ],
)
def test_no_proof_of_a_tree_that_no_builder_makes(mechanism):
    for notion in ("gaussian", "approximate", "zcdp", "rdp"):
        assert not can_prove(mechanism, relation=ONE, notion=notion)
        ask = dict(relation=ONE, notion=notion, order=2.0)
        assert not proves(mechanism, epsilon=500.0, delta=0.9, **ask)


def test_no_proof_of_fields_changed_after_the_checks():
    mechanism = Gaussian(1.0)
    object.__setattr__(mechanism, "noise_multiplier", math.inf)
    assert not proves(mechanism, epsilon=5.0, delta=0.9, relation=ADD, notion="gaussian")


def test_no_proof_of_a_number_between_floats():
    # rounded to a float, the number would be another claim: a weaker one half the time
    ask = dict(delta=1e-5, relation=ADD, notion="gaussian")
    _, safe = boundary(gaussian(mp.mpf(1) / 2), 1e-5)
    assert proves(Gaussian(2.0), epsilon=Fraction(safe), **ask)
    for epsilon in (Fraction(safe) - Fraction(1, 10**40), mp.mpf(safe) - mp.mpf(10) ** -60, "2.0"):
        assert not proves(Gaussian(2.0), epsilon=epsilon, **ask)
    ask |= dict(epsilon=safe, delta=Fraction(1e-5) - Fraction(1, 10**60))
    assert not proves(Gaussian(2.0), **ask)


@pytest.mark.parametrize("asked", [{"epsilon": Fraction(1, 3)}, {"delta": Fraction(1, 10**5)}])
def test_a_certificate_holds_floats(asked):
    found = account(Gaussian(4.0)).guarantee(certify=True, **asked)
    assert (type(found.epsilon), type(found.delta)) == (float, float)
    for name, value in asked.items():
        assert getattr(found, name) == float(value)


@pytest.mark.parametrize("curve", [lambda a, b: a + b, lambda a, _: 2 * a, lambda a, b: a.moved(b)])
def test_no_proof_for_sums_of_curves(curve):
    # a sum of curves has no mechanism; a proof for that of one part would be wrong
    a, b = (account(Gaussian(noise), notion="gaussian") for noise in (4.0, 5.0))
    for one, other in ((a, b), (a.group(2), b.group(2))):
        with pytest.raises(NotCertified):
            curve(one, other).guarantee(delta=1e-5, certify=True)


def laplace_rays(centers, weights):
    """Return the laws of a mixture of unit Laplace distributions on a fine grid's cells."""
    edges = [-math.inf, *(-12 + 0.01 * k for k in range(2500)), math.inf]

    def below(x, center):
        gap = x - center
        return 0.5 * math.exp(gap) if gap < 0 else 1 - 0.5 * math.exp(-gap)

    total = [
        sum(w * below(x, center) for center, w in zip(centers, weights, strict=True)) for x in edges
    ]
    return [high - low for low, high in pairwise(total)]


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.9])
@pytest.mark.parametrize("shift", [1.0, -1.0, 0.3])
def test_no_direction_of_sampled_laplace_noise_is_worse_than_proven(q, epsilon, shift):
    record, none = laplace_rays((0.0, shift), (1 - q, q)), laplace_rays((0.0,), (1.0,))
    seen = discrete_delta(record, none, epsilon)
    # two samplings in a row, the inner one hidden in a cell, are one with the product
    inner = parallel(
        sampled(Laplace(1.0), 0.5),
        Laplace(9.0),
        cells="by_public_index",
    )
    halves = laplace_rays((0.0, shift), (1 - q / 2, q / 2))
    for tree, worst in (
        (sampled(Laplace(1.0), q), seen),
        (sampled(inner, q), discrete_delta(halves, none, epsilon)),
    ):
        for relation in (ADD, SPECIAL):
            ask = dict(epsilon=epsilon, relation=relation, notion="approximate")
            assert not worst or not proves(tree, delta=worst * (1 - 1e-9), **ask)


def test_denormal_numbers_are_read_exactly():
    tiny = math.ulp(0.0)
    ask = dict(relation=ADD, notion="approximate")
    for claim in (PureDP(tiny), RandomizedResponse(tiny, 3)):
        assert proves(claim, epsilon=tiny, delta=0.0, **ask)
        assert not proves(claim, epsilon=0.0, delta=0.0, **ask)
        assert proves(claim, epsilon=2 * tiny, delta=0.0, size=2, **ask)
        assert not proves(claim, epsilon=tiny, delta=0.0, size=2, **ask)
    assert not proves(ApproximateDP(0.0, tiny), epsilon=1.0, delta=tiny, size=2, **ask)
    assert not proves(ApproximateDP(1.0, 3 * tiny), epsilon=1.0, delta=2 * tiny, **ask)
    assert not proves(Gaussian(tiny), epsilon=1e308, delta=0.5, relation=ADD, notion="gaussian")
    near = Gaussian(1.0, replace_distance=tiny)
    assert not proves(near, epsilon=0.0, delta=0.0, relation=ONE, notion="gaussian")
    moved = parallel(near, near)  # a record that leaves its cell moves both by 1
    assert not proves(moved, epsilon=0.1, delta=0.1, relation=ONE, notion="gaussian")


def test_relation_may_be_its_name():
    assert can_prove(PureDP(1.0), relation="ADD_OR_REMOVE_ONE", notion="zcdp")
    assert proves(
        Gaussian(4.0), epsilon=1, delta=1e-5, relation="REPLACE_SPECIAL", notion="gaussian"
    )
    with pytest.raises(ValueError, match="REPLACE_TWO"):
        can_prove(PureDP(1.0), relation="REPLACE_TWO", notion="zcdp")


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(math.inf, 0.5), (math.nan, 0.5), (-1.0, 0.5), (1.0, math.nan), (1.0, -0.1), (1.0, 1.5)],
)
def test_a_pair_outside_its_domain_is_not_proven(epsilon, delta):
    assert not proves(Gaussian(9.0), epsilon=epsilon, delta=delta, relation=ADD, notion="gaussian")


@pytest.mark.parametrize("sigma", [1e-300, 1e300])
@pytest.mark.parametrize("mechanism", [lambda g: g, lambda g: sampled(g, 0.3)])
@pytest.mark.parametrize("order", [2.0, 2.5])
def test_extreme_noise_is_bounded_conservatively(sigma, mechanism, order):
    tree = mechanism(Gaussian(sigma))
    for notion in ("gaussian", "approximate", "zcdp", "rdp"):
        answer = proves(tree, epsilon=1.0, delta=1e-5, relation=ADD, notion=notion, order=order)
        assert answer <= (sigma > 1)
    assert proves(Gaussian(1e300), epsilon=1.0, delta=1e-5, relation=ADD, notion="gaussian")


def test_delta_zero_and_one():
    ask = dict(epsilon=1.0, relation=ADD, order=2.0)
    for notion in ("gaussian", "approximate", "zcdp", "rdp"):
        assert not proves(Gaussian(5.0), delta=0.0, notion=notion, **ask)
        assert proves(Gaussian(5.0), delta=1.0, notion=notion, **ask)


def test_rdp_needs_an_order():
    ask = dict(epsilon=1.0, delta=1e-5, relation=ADD, notion="rdp")
    assert not proves(SAMPLED, **ask)
    with pytest.raises(ValueError, match="order=1"):
        proves(SAMPLED, order=1, **ask)


def test_the_precision_of_the_caller_is_unchanged():
    with flint.ctx.workprec(77):
        proves(SAMPLED, epsilon=1.0, delta=1e-5, relation=ADD, notion="rdp", order=2.5)
        assert flint.ctx.prec == 77


def test_not_certified_is_a_value_error():
    assert issubclass(NotCertified, ValueError)


def test_flint_is_imported_by_the_first_proof():
    program = """
import sys
from privacy.certification import THOROUGH, can_prove, proven_delta
from privacy.guarantees import Guarantee
from privacy.mechanisms import Gaussian
assert can_prove(Gaussian(1.0), relation="ADD_OR_REMOVE_ONE", notion="gaussian")
assert not {"flint", "numpy", "scipy"} & set(sys.modules)
sys.modules["flint"] = None
try:
    claim = Guarantee(1.0, 0.1, "ADD_OR_REMOVE_ONE", "gaussian", mechanism=Gaussian(1.0))
    proven_delta(claim, THOROUGH)
except ImportError as error:
    assert "python-flint" in str(error)
else:
    raise AssertionError("proved without interval arithmetic")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
