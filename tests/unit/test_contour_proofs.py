"""Proofs of compositions: against integrals in mpmath, closed forms, and changed code."""

import json
import math
import random
from dataclasses import replace
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from click.testing import CliRunner
from flint import acb, arb, ctx
from scipy.special import ndtr

from privacy import answers
from privacy.accounting import account
from privacy.certification import (
    NotCertified,
    Unproven,
    _contour,
    _laplace,
    _mixtures,
    _panels,
    _products,
    _split,
    can_prove,
)
from privacy.certification.certificates import _digest, certificate, verify
from privacy.cli import runs
from privacy.mechanisms import (
    ApproximateDP,
    CyclicPoisson,
    DiscreteLaplace,
    Epochs,
    FixedSizeSampled,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    compose,
    parallel,
    repeat,
    user_level,
)
from privacy.relations import NeighboringRelation
from tests.benchmarks.proofs import exact as exact_delta
from tests.benchmarks.proofs import sampled_gaussian
from tests.proofs import proves, proves_guarantee

ADD = NeighboringRelation.ADD_OR_REMOVE_ONE
ONE = NeighboringRelation.REPLACE_ONE
SPECIAL = NeighboringRelation.REPLACE_SPECIAL
WORK = 5_000_000


@pytest.fixture(autouse=True)
def _bits():
    with ctx.workprec(128):
        yield


def sampled(sigma, q, steps):
    return repeat(PoissonSampled(Gaussian(sigma), sampling_probability=q), steps)


def log_ratio(x, mu, q):
    return np.log(1 - q + q * np.exp(mu * x - mu * mu / 2))


def moment(t, mu, q, way):
    """The moment by the trapezoid rule in floats, on a grid far finer than that of the proof."""
    x, step = np.linspace(-16, 16 + 3 * mu * (1 + t.real), 40_001, retstep=True)
    power = {"remove": 1 + t, "add": -t, "replace": 1 + t}[way] * log_ratio(x, mu, q)
    if way == "replace":
        power = power - t * log_ratio(-x, mu, q)
    return complex(np.exp(power - x * x / 2).sum() * step / math.sqrt(2 * math.pi))


PAIRS = [(0.8, 0.3, 0.5), (2.0, 0.01, 0.3), (0.1, 0.5, 0.05)]


def bound(way, mu, q, other, epsilon, limit):
    part = sampled_gaussian(arb(mu) ** 2, q, way)
    total = _contour.Sum(((part, 1),), arb(other) ** 2)
    return _split.delta(total, arb(epsilon), arb(limit), WORK)


@pytest.mark.parametrize("way", ["remove", "add", "replace"])
@pytest.mark.parametrize(("mu", "q", "other"), PAIRS)
@pytest.mark.parametrize(("bits", "places"), [(128, 10), (192, 13)])
def test_a_bound_is_just_above_the_exact_delta(mu, q, other, way, bits, places):
    with mp.workdps(30), ctx.workprec(bits):
        epsilon = 1.5 * other
        exact = exact_delta(mp.mpf(epsilon), mu, q, other, f"gaussian {way}")
        # the limit is below every value that is proven from one real t
        found = mp.mpf(float(bound(way, mu, q, other, epsilon, float(exact))))
    assert exact * (1 - mp.mpf(10) ** -15) <= found <= exact * (1 + mp.mpf(10) ** -places)


def assert_nodes_enclose(part, c, edge, exact):
    """Check nodes of a good plan, and of one with too few, at frequencies up to `edge`."""
    plan = part.plan(c, edge, 30.0)
    for each in (plan, plan._replace(log_error=plan.log_error + 25)):
        nodes = part.nodes(c, edge, each)
        plain = sum(nodes.weights, arb(0))
        for w in (0.0, edge / 3, edge):
            pairs = zip(nodes.weights, nodes.losses, strict=True)
            found = sum((a * acb(0, b * w).exp() for a, b in pairs), acb(0))
            off = abs(complex(float(found.real), float(found.imag)) - exact(complex(c, w)))
            assert off <= float(nodes.error) + 1e-13 * float(plain)
    assert part.nodes(c, edge, plan).error < 1e-12 * plain


@pytest.mark.parametrize("way", ["remove", "add", "replace"])
@pytest.mark.parametrize(("mu", "q", "c"), [(0.8, 0.3, 3.5), (2.5, 1e-3, 6.0), (0.05, 0.4, 70.0)])
def test_nodes_enclose_the_moments_even_if_they_are_too_few(mu, q, c, way):
    part = sampled_gaussian(arb(mu) ** 2, q, way)
    edge = 8 * c
    assert_nodes_enclose(part, c, edge, lambda t: moment(t, mu, q, way))


@pytest.mark.parametrize("way", ["remove", "add", "replace"])
@pytest.mark.parametrize(("mu", "q", "c"), [(0.8, 0.3, 3.5), (2.5, 1e-2, 2.0)])
def test_decay_bounds_all_larger_frequencies(mu, q, c, way):
    part = sampled_gaussian(arb(mu) ** 2, q, way)
    for edge in (2.0 * c, 8.0 * c):
        (log_decay,), (shift,) = part.rough_decay(c, np.array([edge]), 3.0)
        plan = part.plan(c, edge, 30.0, shift)
        found = part.decay(c, edge, plan, shift)
        plain = sum(part.nodes(c, 0.0, plan).weights, arb(0))
        assert float((found / plain).log()) == pytest.approx(log_decay, abs=1e-3)
        for w in (edge, 1.5 * edge, 4 * edge):
            exact = abs(moment(complex(c, w), mu, q, way))
            assert exact <= float(found) + 1e-13 * float(plain)


def test_the_quadrature_bound_is_not_smaller_than_its_theorem(monkeypatch):
    # one panel: half * 64/15 * max |f| on the ellipse * r^(-2n) / (1 - r^-2), with many arcs
    monkeypatch.setattr(_panels, "_ARCS", (1000,))
    mu, q, c, w = 0.8, 0.3, 3.5, 10.0
    part = sampled_gaussian(arb(mu) ** 2, q, "remove")
    plan = part.plan(c, w, 20.0)
    scale, angle = math.sqrt(2 * math.pi), np.linspace(0, 2 * np.pi, 4001)
    for panel in plan.panels[1:-1]:
        alone = plan._replace(panels=[panel])
        nodes = part.nodes(c, w, alone)
        outside = part._outside([panel], c, 0.0, -math.inf, math.inf)
        half, r, n = (panel.high - panel.low) / 2, panel.ratio, len(nodes.weights)
        z = panel.low + half + half * (r * np.exp(1j * angle) + np.exp(-1j * angle) / r) / 2
        both = [((1 + c + sign * 1j * w) * log_ratio(z, mu, q)).real for sign in (1, -1)]
        most = np.exp(np.maximum(*both) - (z * z).real / 2).max() / scale
        theorem = half * 64 / 15 * most * r ** (-2 * n) / (1 - r**-2)
        found = float(nodes.error - outside / (2 * arb.pi()).sqrt())
        assert theorem * (1 - 1e-9) <= found <= 1.2 * theorem


def test_floats_that_choose_the_panels_cannot_make_a_proof_wrong():
    gaussian = sampled_gaussian(arb(1), 0.1, "remove")
    for part in (gaussian, _laplace.SampledLaplace(arb(1), arb(0.1), "remove")):
        plan = part.plan(3.0, 20.0, 30.0)
        assert part.nodes(3.0, 20.0, plan).error.is_finite()
        gap = plan._replace(panels=plan.panels[:1] + plan.panels[2:])
        assert not part.nodes(3.0, 20.0, gap).error.is_finite()
    for some in (plan.panels[1:], plan.panels[:-1]):
        assert not part.nodes(3.0, 20.0, plan._replace(panels=some)).error.is_finite()
    # the left end is minus the right one, beyond which the moment does not extend
    panels = [_panels.Panel(-4.0, 4.0, 1.4, 8)]
    left = float(gaussian._outside(panels, 3.0, 0.0, -math.inf, 4.0) / (2 * arb.pi()).sqrt())
    assert 0.9**4 * ndtr(-4.0) <= left <= 1.1 * ndtr(-4.0)


def test_a_wide_ball_is_no_tail_of_the_normal_distribution():
    for x in (arb(0, 20), arb(-10, 1e-3), arb(10, 1e-3), arb(-30, 1)):
        with ctx.workprec(128):
            for end in (x.lower(), x.upper()):
                assert _mixtures._normal(x).overlaps((-end / arb(2).sqrt()).erfc() / 2)


def test_smaller_balls_cover_an_ellipse_near_a_zero():
    part = sampled_gaussian(arb(1.9) ** 2, 0.01, "replace")
    total = _contour.Sum(((part, 1),), arb(0))
    one, other = total.log_moment(2.0), total.log_moment(-3.0)  # equal by symmetry
    assert float(one) == pytest.approx(float(other), rel=1e-10)


@pytest.mark.parametrize("bits", [128, 192])
def test_matrix_products_enclose_the_sums(bits):
    rng = random.Random(3)
    with ctx.workprec(bits):
        weights = [arb(rng.uniform(-40, 5)).exp() for _ in range(1500)]
        angles = [arb(rng.uniform(-3, 3)) for _ in weights]
        found = _products.sums(weights, [acb(0, x).exp() for x in angles], 60, 30.0)
    with ctx.workprec(256):
        for n in (0, 1, 31, 59):
            pairs = zip(weights, angles, strict=True)
            exact = sum((w * acb(0, n * x).exp() for w, x in pairs), acb(0))
            assert found[n].overlaps(exact)
    # error bound of the float products, in bits
    assert max(x.real.rad() for x in found) < 2.0**-50 * sum(weights, arb(0))


def test_the_headline_is_proven_in_every_relation():
    for relation, sigma in ((ADD, 1.41462), (SPECIAL, 1.41462), (ONE, 2.36441)):
        ask = dict(delta=1e-5, relation=relation, notion="contour")
        assert can_prove(sampled(sigma, 0.01, 1000), relation=relation, notion="contour")
        assert proves(sampled(sigma, 0.01, 1000), epsilon=1.0, **ask)
        assert not proves(sampled(sigma, 0.01, 1000), epsilon=1 - 1e-5, **ask)
        assert not proves(sampled(sigma * (1 - 1e-5), 0.01, 1000), epsilon=1.0, **ask)
        assert not proves(sampled(sigma, 0.01, 1001), epsilon=1.0, **ask)
        assert not proves(sampled(sigma, 0.01 * (1 + 1e-4), 1000), epsilon=1.0, **ask)
        assert not proves(sampled(sigma, 0.01, 1000), epsilon=1.0, size=2, **ask)
        assert not proves(sampled(sigma, 0.01, 1000), epsilon=1.0, **ask | {"delta": 9.999e-6})
    ask = dict(epsilon=1.0, delta=1e-5, notion="contour")
    assert not proves(sampled(1.41462, 0.01, 1000), relation=ONE, **ask)


def some_plans(count, seed):
    rng = random.Random(seed)
    while count:
        q, steps = 10 ** rng.uniform(-3, math.log10(0.5)), round(10 ** rng.uniform(0.5, 5))
        sigma, delta = 10 ** rng.uniform(0, math.log10(20)), 10 ** rng.uniform(-12, -3)
        plan = sampled(sigma, q, steps)
        found = account(plan, notion="contour").answer(delta=delta)
        if 0 < found.value < math.inf and found.error < 1e-8:
            count -= 1
            yield plan, found.value, delta


@pytest.mark.parametrize(("plan", "epsilon", "delta"), list(some_plans(6, 5)))
def test_random_plans_are_proven_and_smaller_epsilons_refused(plan, epsilon, delta):
    found = account(plan, notion="contour").guarantee(delta=delta, certify=True)
    assert found.certified
    assert epsilon <= found.epsilon <= epsilon * (1 + 1e-9)
    assert not proves_guarantee(replace(found, epsilon=epsilon * (1 - 1e-6)))


MIXED = compose(
    sampled(1.5, 0.02, 300),
    sampled(4.0, 0.1, 50),
    repeat(Gaussian(9.0), 5),
    repeat(PureDP(0.05), 3),
    ApproximateDP(0.1, 1e-7),
    RandomizedResponse(0.2, 4),
)


def test_a_heterogeneous_sum_is_proven():
    found = account(MIXED).guarantee(delta=1e-5, certify=True)
    assert (found.certified, found.notion) == (True, "contour")
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))
    assert not proves_guarantee(replace(found, delta=1e-7))  # the claim alone fails as often
    assert not can_prove(MIXED, relation=ONE, notion="contour")
    cells = repeat(parallel(sampled(2.0, 0.1, 1), Gaussian(1.0)), 2)
    assert not can_prove(cells, relation=ADD, notion="contour")


@pytest.mark.parametrize("way", ["remove", "add"])
def test_moments_of_several_sampled_records_are_enclosed(way):
    mu, q, size, c, edge = 0.5, 0.2, 3, 3.0, 20.0
    shares = tuple(
        arb(math.comb(size, j)) * arb(q) ** j * (1 - arb(q)) ** (size - j) for j in range(4)
    )
    part = _mixtures.Mixture(arb(mu) ** 2, shares, way)
    x, step = np.linspace(-16, 30, 40_001, retstep=True)
    density = sum(float(p) * np.exp(j * mu * x - (j * mu) ** 2 / 2) for j, p in enumerate(shares))
    _, (shift,) = part.rough_decay(c, np.array([edge]), 2.0)
    plan = part.plan(c, edge, 30.0, shift)

    def exact(t):
        power = (1 + t if way == "remove" else -t) * np.log(density)
        return (np.exp(power - x * x / 2)).sum() * step / math.sqrt(2 * math.pi)

    assert_nodes_enclose(part, c, edge, exact)
    bound = float(part.decay(c, edge, plan, shift))
    assert max(abs(exact(complex(c, w))) for w in (edge, 2 * edge)) <= bound + 1e-13


def test_several_records_of_a_user_are_proven():
    many = user_level(sampled(2.0, 0.01, 500), max_contributions=3)
    for relation in (ADD, SPECIAL):
        found = account(many, relation=relation).guarantee(delta=1e-6, certify=True)
        assert (found.certified, found.notion) == (True, "contour")
        assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))
        fewer = user_level(sampled(2.0, 0.01, 500), max_contributions=2)
        assert proves_guarantee(replace(found, mechanism=fewer))
        more = user_level(sampled(2.0, 0.01, 500), max_contributions=4)
        assert not proves_guarantee(replace(found, mechanism=more))
    assert not can_prove(many, relation=ONE, notion="contour")


@pytest.mark.parametrize("way", ["remove", "add"])
@pytest.mark.parametrize(
    ("distance", "q", "c"), [(0.5, 0.1, 3.0), (2.0, 1.0, 1.5), (1.3, 0.7, 0.4)]
)
def test_moments_of_laplace_noise_are_enclosed(distance, q, c, way):
    part = _laplace.SampledLaplace(arb(distance), arb(q), way)

    x, weight = np.polynomial.legendre.leggauss(400)
    x, weight = distance / 2 * (1 + x), distance / 2 * weight

    def exact(t):
        """An integral over the noise itself, with Q at 0 and P at `distance`."""

        def at(x):
            loss = np.abs(x) - np.abs(x - distance)
            power = 1 + t if way == "remove" else -t
            return np.exp(power * np.log(1 - q + q * np.exp(loss)) - np.abs(x)) / 2

        return at(0.0) + at(distance) + weight @ at(x)

    for edge in (5.0, 60.0):
        assert_nodes_enclose(part, c, edge, exact)
        plan = part.plan(c, edge, 30.0)
        bound = float(part.decay(c, edge, plan, 0.0))
        assert max(abs(exact(complex(c, w))) for w in (edge, 1.7 * edge, 5 * edge)) <= bound
        assert 0 < bound < float(part.decay(c, 0.01, plan, 0.0)) * (1 + 1e-9)


MORE = {
    "sampled Laplace": repeat(PoissonSampled(Laplace(2.0), sampling_probability=0.1), 1000),
    "Laplace": compose(repeat(Laplace(8.0), 20), Gaussian(2.0)),
    "sampled claims": compose(
        repeat(PoissonSampled(RandomizedResponse(1.0, 3), sampling_probability=0.2), 50),
        repeat(PoissonSampled(PureDP(0.5), sampling_probability=0.1), 30),
        Gaussian(3.0),
    ),
    "sampled claims that fail": compose(
        repeat(PoissonSampled(ApproximateDP(0.5, 1e-8), sampling_probability=0.2), 30),
        Gaussian(3.0),
    ),
}


@pytest.mark.parametrize("name", list(MORE))
def test_more_parts_are_proven_and_smaller_epsilons_refused(name):
    found = account(MORE[name], notion="contour").guarantee(delta=1e-6, certify=True)
    assert found.certified
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))
    assert not proves_guarantee(replace(found, mechanism=compose(MORE[name], Laplace(100.0))))
    sampled_claim = can_prove(MORE[name], relation=SPECIAL, notion="contour")
    assert sampled_claim == (name == "Laplace")


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.8, 1.5])
def test_sampled_claims_that_fail_cover_all_outcomes_of_two_runs(epsilon):
    """By enumeration of the worst mechanism of the claim: both failures are different outputs."""
    q, claim, failed = 0.3, 1.0, 0.05
    truth = (1 - failed) / (1 + math.exp(-claim))
    lie = 1 - failed - truth
    without = [0.0, failed, truth, lie]
    mixed = [q * a + (1 - q) * b for a, b in zip([failed, 0.0, lie, truth], without, strict=True)]
    worst = 0.0
    for p, r in ((mixed, without), (without, mixed)):
        pairs = product(zip(p, r, strict=True), repeat=2)
        worst = max(
            worst, sum(max(0.0, a * c - math.exp(epsilon) * b * d) for (a, b), (c, d) in pairs)
        )
    runs = repeat(PoissonSampled(ApproximateDP(claim, failed), sampling_probability=q), 2)
    ask = dict(epsilon=epsilon, relation=ADD, notion="contour")
    assert not proves(runs, delta=worst * (1 - 1e-9), **ask)
    assert proves(runs, delta=worst * 1.5 + 1e-9, **ask)


def test_a_dropped_atom_of_laplace_noise_is_rejected(monkeypatch):
    found = account(MORE["Laplace"], notion="contour").guarantee(delta=1e-6)
    smaller = replace(found, epsilon=found.epsilon * (1 - 1e-3))
    assert not proves_guarantee(smaller)
    atoms = _laplace.SampledLaplace._atoms
    monkeypatch.setattr(
        _laplace.SampledLaplace, "_atoms", lambda self, c: [atoms(self, c)[0], arb(0)]
    )
    assert proves_guarantee(smaller)


def laplace_delta(epsilon, scales):
    """Return delta of composed Laplace noise, by one integral over each loss but the last."""
    s, *rest = (1 / mp.mpf(scale) for scale in scales)
    if not rest:
        return max(-mp.expm1((epsilon - s) / 2 if epsilon > -s else epsilon), mp.mpf(0))

    def other(loss):
        return laplace_delta(epsilon - loss, scales[1:])

    cuts = {-s, s, *(epsilon + sum(signs) for signs in product(*((-r, r) for r in rest)))}
    between = mp.quad(
        lambda loss: mp.exp((loss - s) / 2) / 4 * other(loss),
        sorted(cut for cut in cuts if -s <= cut <= s),
    )
    return other(s) / 2 + mp.exp(-s) / 2 * other(-s) + between


def test_few_laplace_releases_are_proven(monkeypatch):
    kernel = _laplace._kernel
    with mp.workdps(20):
        for scales, epsilon in (((5.0, 5.0, 5.0), 0.2), ((2.0, 3.0), 0.6), ((2.0, 0.5), 0.1)):
            delta = float(laplace_delta(mp.mpf(epsilon), scales))
            ask = dict(epsilon=epsilon, relation=ADD, notion="pld")
            plan = compose(*map(Laplace, scales))
            assert proves(plan, delta=delta * (1 + 1e-12), **ask)
            assert not proves(plan, delta=delta * (1 - 1e-12), **ask)
            with monkeypatch.context() as changed:  # without the largest sum of losses
                changed.setattr(_laplace, "_kernel", lambda n, m, w: kernel(n, m, w) if m else w)
                assert proves(plan, delta=delta * (1 - 1e-12), **ask)
    for plan in (repeat(Laplace(100.0), 150), compose(repeat(PureDP(0.1), 9), Laplace(2.0))):
        found = account(plan, notion="pld").guarantee(delta=1e-6, certify=True)
        assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-5)))


@pytest.mark.parametrize("claim", [PureDP(0.1), ApproximateDP(0.1, 1e-8), RandomizedResponse(0.1)])
def test_composed_claims_are_proven_and_tight(claim):
    found = account(repeat(claim, 10)).guarantee(delta=1e-4, certify=True)
    assert found.notion == "approximate"
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-9)))


def test_basic_composition_proves_a_total_variation():
    plan = sampled(0.6, 1e-4, 5)
    ask = dict(relation=ADD, notion="contour")
    assert proves(plan, epsilon=0.0, delta=5 * 1e-4, **ask)
    assert not proves(plan, epsilon=0.0, delta=1e-4, **ask)


def test_an_epsilon_above_every_loss_has_no_delta_in_that_direction():
    total = _contour.Sum(((sampled_gaussian(arb(1), 0.1, "add"), 10),), arb(0))
    largest = -10 * math.log1p(-0.1)
    assert _split.delta(total, arb(largest + 1e-9), arb(0), WORK) == 0
    with pytest.raises(Unproven):
        _split.delta(total, arb(largest - 1e-9), arb(0), WORK)


# -- changed code must not prove --------------------------------------------------------


def proof_of_the_headline():
    # the exact delta is 1e-5 (1 + 6e-6), so that only wrong code proves 1e-5
    return proves(
        sampled(1.41461, 0.01, 1000), epsilon=1.0, delta=1e-5, relation=ADD, notion="contour"
    )


def test_a_wrong_direction_is_rejected(monkeypatch):
    assert not proof_of_the_headline()
    swapped = {"remove": _mixtures._FACTORS["add"], "add": _mixtures._FACTORS["add"]}
    monkeypatch.setattr(_mixtures, "_FACTORS", swapped)
    assert proof_of_the_headline()


def test_a_dropped_tail_is_rejected(monkeypatch):
    # few frequencies, and no dummy Gaussian: the tail is most of the bound
    part = _mixtures.Mixture
    monkeypatch.setattr(
        part, "rough_decay", lambda _, c, w, depth: (np.full(w.size, -1e3), np.full(w.size, 0.5))
    )
    mu, q, other = PAIRS[0]
    with mp.workdps(30):
        exact = exact_delta(mp.mpf(1), mu, q, other, "gaussian remove")

    def with_frequencies(count):
        monkeypatch.setattr(_contour.Line, "_last", lambda self, *_: (count - 2) * self.step)
        return float(bound("remove", mu, q, other, 1.0, float(exact)))

    assert exact <= min(map(with_frequencies, range(3, 12)))
    monkeypatch.setattr(part, "decay", lambda *_: arb(0))
    assert min(map(with_frequencies, range(3, 12))) < exact


def test_the_sign_of_the_alias_terms_is_tested(monkeypatch):
    # nodes in the middle of the steps give alias terms of alternating sign
    monkeypatch.setattr(_contour, "_DIGITS", 3.0)
    mu, q, other = PAIRS[0]
    with mp.workdps(30):
        exact = exact_delta(mp.mpf(1), mu, q, other, "gaussian remove")
    ask = ("remove", mu, q, other, 1.0, float(exact))
    assert exact <= float(bound(*ask))
    part = sampled_gaussian(arb(mu) ** 2, q, "remove")
    total = _contour.Sum(((part, 1),), arb(other) ** 2)
    line = _contour.Line(total, 1.0, math.log(float(exact)))
    line.place()

    def rule(first):
        total = 0.0
        for n in range(400):
            t = complex(line.c, line.step * (n + first))
            size = moment(t, mu, q, "remove") * np.exp(other**2 * t * (t + 1) / 2 - t)
            total += (size / (t * (t + 1))).real * (0.5 if n + first == 0 else 1)
            if abs(size) < 1e-20:
                break
        return total * line.step / math.pi

    assert rule(0.5) < exact < rule(0)


# -- few steps: without the outcomes in which all losses are small, or one is large ----------


def losses(x, mu, q, way):
    return log_ratio(x, mu, q) - (log_ratio(-x, mu, q) if way == "replace" else 0.0)


def two_steps(epsilon, mu, q, way):
    """delta of two releases: one integral over the closed profile of the other release."""
    x = np.linspace(-14.0, 16.0, 60_001)
    loss, shift = losses(x, mu, q, way), mu if way == "replace" else 0.0
    e = epsilon - loss
    low, high = np.full(x.size, -40.0), np.full(x.size, 40.0)
    for _ in range(60):
        z = 0.5 * (low + high)
        above = losses(z, mu, q, way) > e
        low, high = np.where(above, low, z), np.where(above, z, high)
    upper = (1 - q) * ndtr(-z) + q * ndtr(mu - z)
    other = (1 - q) * ndtr(-z) + q * ndtr(-mu - z) if shift else ndtr(-z)
    size = np.exp(log_ratio(x, mu, q) - x * x / 2) / math.sqrt(2 * math.pi)
    return float((size * (upper - np.exp(e) * other)).sum() * (x[1] - x[0]))


FEW = [
    (1.9, 0.01, 4.0, "remove"),
    (1.9, 0.01, 4.0, "replace"),
    (0.6, 0.01, 0.4, "remove"),
    (1.5, 0.2, 3.0, "remove"),
    (1.5, 0.2, 3.0, "replace"),
]


def split_of(mu, q, epsilon, way, delta):
    total = _contour.Sum(((sampled_gaussian(arb(mu) ** 2, q, way), 2),), arb(0))
    with np.errstate(all="ignore"):
        return _split.Split(total, epsilon, math.log(delta))


@pytest.mark.parametrize(("mu", "q", "epsilon", "way"), FEW)
def test_a_split_is_just_above_the_exact_delta(mu, q, epsilon, way, monkeypatch):
    exact = two_steps(epsilon, mu, q, way)
    split = split_of(mu, q, epsilon, way, exact)
    with np.errstate(all="ignore"):
        found = float(split.delta(arb(epsilon)))
        assert exact * (1 - 1e-8) <= found <= exact * (1 + 1e-8)
        monkeypatch.setattr(_split.Split, "_certain", lambda *_: arb(0))
        assert float(split.delta(arb(epsilon))) < exact * (1 - 1e-7)


@pytest.mark.parametrize(("low", "high"), [(-math.inf, 2.5), (1.0, 3.0), (1.5, math.inf)])
@pytest.mark.parametrize("way", ["remove", "add", "replace"])
def test_windows_are_enclosed_even_with_too_few_nodes(low, high, way):
    mu, q, c, edge = 0.8, 0.05, 3.5, 20.0
    part = sampled_gaussian(arb(mu) ** 2, q, way).within(low, high, 0.3)
    x, step = np.linspace(-16, 20, 40_001, retstep=True)
    window = ndtr((x - low) / 0.3) - ndtr((x - high) / 0.3)

    def exact(t):
        power = {"remove": 1 + t, "add": -t, "replace": 1 + t}[way] * log_ratio(x, mu, q)
        power = power - (t * log_ratio(-x, mu, q) if way == "replace" else 0.0)
        return (np.exp(power - x * x / 2) * window).sum() * step / math.sqrt(2 * math.pi)

    assert_nodes_enclose(part, c, edge, exact)
    _, (shift,) = part.rough_decay(c, np.array([edge]), 1.0)
    plan = part.plan(c, edge, 30.0, shift)
    bound = float(part.decay(c, edge, plan, shift))
    assert max(abs(exact(complex(c, w))) for w in (edge, 2 * edge)) <= bound + 1e-13


def test_few_steps_are_proven_and_smaller_epsilons_refused():
    found = account(sampled(0.434, 0.00152, 131), notion="contour").guarantee(delta=2e-10)
    assert proves_guarantee(found)
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))
    assert not proves_guarantee(replace(found, delta=found.delta * (1 - 1e-6)))


@pytest.mark.parametrize(
    ("sigma", "q", "steps", "delta"),
    [(0.594, 0.00729, 2, 7.8e-4), (1.58, 0.0021, 4, 3.9e-11), (3.08, 1.23e-4, 234, 2.4e-12)],
)
def test_epsilons_of_rare_samples_are_proven_and_tight(sigma, q, steps, delta):
    found = account(sampled(sigma, q, steps), notion="contour").guarantee(delta=delta)
    assert proves_guarantee(found)
    assert not proves_guarantee(replace(found, epsilon=found.epsilon * (1 - 1e-6)))


def test_a_missing_proof_states_the_reason():
    found = account(sampled(2.0, 0.1, 10), notion="contour").guarantee(delta=1e-5)
    with pytest.raises(NotCertified, match=r"delta is proven to be at most 1\.\d+e-05, not 1e-05"):
        certificate(replace(found, epsilon=found.epsilon * 0.99))
    laplace = repeat(DiscreteLaplace(2.0), 10)
    with pytest.raises(NotCertified, match="has no proof for the mechanism under ADD_OR_REMOVE"):
        account(laplace, notion="pld").guarantee(delta=1e-5, certify=True)


# -- certificates -----------------------------------------------------------------------


HEADLINE = ["--epsilon", "1", "--delta", "1e-5", "-q", "0.01", "--steps", "1000"]


@pytest.fixture(scope="module")
def headline(tmp_path_factory):
    path = tmp_path_factory.mktemp("proof") / "proof.json"
    ran = CliRunner().invoke(runs.sigma, [*HEADLINE, "--certificate", str(path), "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output)["certified"] is True
    return json.loads(path.read_text())


def verified(form, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(json.dumps(form))
    return CliRunner().invoke(runs.verify, [str(path)])


def test_a_certificate_is_verified_from_the_file_alone(headline, tmp_path):
    ran = verified(headline, tmp_path)
    assert ran.exit_code == 0, ran.output
    assert "certified" in ran.output
    assert answers.verify(headline)["mechanism"] == headline["claim"]["mechanism"]


OTHERS = [
    (
        repeat(PoissonSampled(ApproximateDP(0.5, 1e-8), sampling_probability=0.1), 20),
        ADD,
        "contour",
    ),
    (CyclicPoisson(Gaussian(2.0), 0.02, 40, 4), ADD, "rdp"),
    (Epochs(Gaussian(3.0), passes=3), ONE, "gaussian"),
    (FixedSizeSampled(Gaussian(2.0), batch_size=3, records=60), SPECIAL, "approximate"),
    (repeat(PoissonSampled(Laplace(3.0), sampling_probability=0.1), 5), ADD, "rdp"),
]


@pytest.mark.parametrize(("mechanism", "relation", "notion"), OTHERS)
def test_certificates_of_other_kinds_are_verified_and_tampering_refused(
    mechanism, relation, notion
):
    curve = account(mechanism, notion=notion, relation=relation)
    form = certificate(curve.guarantee(delta=1e-6, certify=True))
    claim = form["claim"]
    assert verify(form).certified
    for path, value in (
        ("epsilon", claim["epsilon"] * (1 - 1e-8)),
        ("delta", claim["delta"] * (1 - 1e-6)),
        ("mechanism", compose(mechanism, mechanism).to_json()),
        ("relation", "ADD_OR_REMOVE_ONE" if relation is not ADD else "REPLACE_ONE"),
    ):
        with pytest.raises((NotCertified, ValueError)):
            verify(changed(form, ("claim", path), value))


def changed(form, path, value):
    """Return the certificate with one value changed and a digest that matches."""
    new = json.loads(json.dumps(form))
    *parents, last = path
    place = new
    for name in parents:
        place = place[name]
    place[last] = value
    return {**new, "digest": _digest(new)}


STEP = ("claim", "mechanism", "mechanism")


def test_every_changed_digit_is_refused(headline, tmp_path):
    for path in (("claim", "epsilon"), (*STEP, "mechanism", "noise_multiplier")):
        place = headline
        for name in path:
            place = place[name]
        digits = repr(place)
        for k, digit in enumerate(digits):
            if digit in "0.":
                continue
            smaller = float(digits[:k] + str(int(digit) - 1) + digits[k + 1 :])
            if smaller == place:  # a last digit below the spacing of floats
                continue
            new = changed(headline, path, smaller)
            # an old digest refuses all; a new one those that make the claim false
            assert verified({**new, "digest": headline["digest"]}, tmp_path).exit_code == 2
            if smaller < place * (1 - 1e-6):
                assert verified(new, tmp_path).exit_code == 4


def test_changes_in_the_unsafe_direction_are_refused(headline, tmp_path):
    for path, value in (
        (("claim", "delta"), 9.9999e-6),
        (("claim", "relation"), "REPLACE_ONE"),
        (("claim", "unit"), "2 records"),
        (("claim", "mechanism", "count"), 1001),
        ((*STEP, "sampling_probability"), 0.010001),
        (("proof", "delta_at_most"), 9.9999e-6),
        (("proof", "delta_at_most"), 1.1e-5),
    ):
        assert verified(changed(headline, path, value), tmp_path).exit_code == 4, path
    # another method does not fit the stated theorem
    assert verified(changed(headline, ("claim", "notion"), "gaussian"), tmp_path).exit_code == 2


@pytest.mark.parametrize(
    "form", [[], {}, {"schema": "other"}, {"claim": 1, "schema": 2, "theorem": 3, "proof": 4}]
)
def test_other_files_are_not_certificates(form, tmp_path):
    ran = verified(form, tmp_path)
    assert ran.exit_code == 2
    assert "certificate" in ran.output


def test_a_claim_that_is_not_proven_has_no_certificate(tmp_path):
    guarantee = account(sampled(2.0, 0.1, 10), notion="contour").guarantee(delta=1e-5)
    assert verify(certificate(guarantee)).certified
    with pytest.raises(NotCertified):
        certificate(replace(guarantee, epsilon=guarantee.epsilon * 0.99))
    path = tmp_path / "proof.json"
    for other in ("--batch", "--no-certify"):
        ran = CliRunner().invoke(runs.sigma, [*HEADLINE, "--certificate", str(path), other])
        assert ran.exit_code == 2
        assert not path.exists()


def test_plans_are_certified_by_default():
    found = answers.epsilon(
        {"noise_multiplier": 2.0, "delta": 1e-6, "sampling_probability": 0.05, "steps": 200}
    )
    assert found["certified"] is True
    assert found["notion"] == "contour"


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("claim", "unit", "a group of 5 records"),
        ("claim", "order", "zz"),
        ("claim", "epsilon", 10**400),
        (None, "theorem", "another theorem"),
    ],
)
def test_a_certificate_states_only_what_is_proven(headline, place, name, value):
    form = {name: dict(part) if isinstance(part, dict) else part for name, part in headline.items()}
    (form if place is None else form[place])[name] = value
    form["digest"] = _digest(form)
    with pytest.raises(ValueError, match=f"Expected .*{name}"):
        verify(form)
