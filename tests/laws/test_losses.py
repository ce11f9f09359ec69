"""Dominating pairs: closed forms equal the generic answer, and transforms equal brute force."""

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privacy as dp
from privacy.losses.claims import ClaimPair
from privacy.losses.discrete import DiscreteProfile, SampledDiscretePair
from privacy.losses.divergences import Linear, SampledNoise, largest_rho
from privacy.losses.gaussian import GaussianPair, SampledGaussianPair
from privacy.losses.laplace import LaplacePair
from privacy.losses.mixtures import SampledGaussian
from privacy.losses.quadrature import log_moment
from privacy.mechanisms import REGISTRY
from privacy.mechanisms.discrete_gaussian import DiscreteGaussianPair

losses = st.floats(0.01, 6.0)
probabilities = st.floats(0.001, 0.999)
epsilons = st.floats(0.0, 5.0)
ORDERS = np.array([1.001, 1.5, 2.0, 7.5, 32.0, 200.0])
CLOSE = 1e-9


def generic(pair):
    """Return the divergence that follows from the nodes of a pair alone."""
    return SampledNoise(pair.model, Linear(math.inf)).at(ORDERS)


def exact_delta(p, q, epsilon):
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q, strict=True))


# -- overrides against the generic answer --------------------------------------------------


@settings(max_examples=60)
@given(losses, st.sampled_from([2, 3, 50]), st.sampled_from([0.0, 1e-6, 0.1]), epsilons)
def test_the_profile_of_a_claim(loss, categories, mass, epsilon):
    pair = ClaimPair(loss, mass, categories)
    closed, found = pair.profile.log_delta(epsilon), DiscreteProfile(pair).log_delta(epsilon)
    assert found == pytest.approx(closed, rel=CLOSE, abs=CLOSE) or found == closed


@settings(max_examples=60)
@given(losses, st.sampled_from([2, 3, 50]))
def test_the_divergence_of_a_response(loss, categories):
    pair = ClaimPair(loss, categories=categories)
    assert pair.divergence.at(ORDERS) == pytest.approx(generic(pair).max(axis=0), rel=CLOSE)


@settings(max_examples=40)
@given(losses)
def test_the_divergence_of_laplace_noise(loss):
    pair = LaplacePair(loss)
    assert pair.divergence.at(ORDERS) == pytest.approx(generic(pair).max(axis=0), rel=CLOSE)


@settings(max_examples=40)
@given(st.floats(0.05, 4.0))
def test_the_divergence_of_gaussian_noise(mu):
    pair = GaussianPair(mu * mu)
    t = ORDERS[:4] - 1
    value, _ = log_moment(SampledGaussian(1.0, 1 / mu), t, "remove")
    assert pair.divergence.at(ORDERS[:4]) == pytest.approx(value / t, rel=CLOSE)


@settings(max_examples=40)
@given(st.floats(0.05, 3.0), probabilities)
def test_the_divergence_of_sampled_gaussian_noise(mu, q):
    pair = SampledGaussianPair(mu, q)
    whole = np.array([2.0, 5.0, 16.0])
    value, _ = log_moment(pair.model, whole - 1, "remove")
    assert pair.divergence.at(whole) == pytest.approx(value / (whole - 1), rel=CLOSE)


@settings(max_examples=40)
@given(losses)
def test_rho_is_the_supremum_over_orders(loss):
    for pair in (ClaimPair(loss), LaplacePair(loss)):
        searched = largest_rho(pair.divergence, loss)
        assert pair.rho == pytest.approx(searched, rel=1e-7)
        grid = 1 + np.geomspace(1e-6, 1e4, 400)
        assert (pair.divergence.at(grid) / grid <= pair.rho * (1 + 1e-12)).all()


@settings(max_examples=40)
@given(st.floats(0.05, 4.0), st.integers(3, 500))
def test_rho_of_many_categories(loss, categories):
    pair = ClaimPair(loss, categories=categories)
    grid = 1 + np.geomspace(1e-6, 1e4, 4000)
    found = (pair.divergence.at(grid) / grid).max()
    assert found <= pair.rho <= found * (1 + 1e-4)


def test_known_values_of_rho():
    assert dp.account(dp.Laplace(1.0), notion="zcdp").rho == pytest.approx(math.exp(-1), rel=1e-12)
    hundred = dp.account(dp.RandomizedResponse(0.5, 100), notion="zcdp").rho
    assert 0.0143 < hundred < 0.0145
    assert dp.account(dp.PureDP(0.1), notion="zcdp").rho == pytest.approx(0.1 * math.tanh(0.05))


# -- transforms against brute force --------------------------------------------------------


def distributions(pair):
    log_p, loss = pair.atoms()
    p = [math.exp(x) for x in log_p]
    return p, [a * math.exp(-x) for a, x in zip(p, loss, strict=True)]


@settings(max_examples=60)
@given(losses, st.sampled_from([2, 5]), probabilities, epsilons)
def test_sampling_mixes_the_two_distributions(loss, categories, q, epsilon):
    inner = ClaimPair(loss, categories=categories)
    p, null = distributions(inner)
    mixed = [(1 - q) * b + q * a for a, b in zip(p, null, strict=True)]
    truth = max(exact_delta(mixed, null, epsilon), exact_delta(null, mixed, epsilon))
    found = SampledDiscretePair(inner, q).profile.log_delta(epsilon)
    assert truth - 1e-15 <= math.exp(found) <= truth * (1 + 1e-9) + 1e-13


@settings(max_examples=30)
@given(st.floats(0.3, 10.0), st.integers(1, 6), epsilons)
def test_discrete_laplace_by_enumeration(scale, distance, epsilon):
    reach = math.ceil(60 * scale) + distance
    c = math.tanh(0.5 / scale)
    p = [c * math.exp(-abs(x - distance) / scale) for x in range(-reach, reach + 1)]
    q = [c * math.exp(-abs(x) / scale) for x in range(-reach, reach + 1)]
    found = dp.account(dp.DiscreteLaplace(scale, sensitivity=distance)).delta(epsilon)
    truth = exact_delta(p, q, epsilon)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-9) + 1e-13


@settings(max_examples=30)
@given(st.floats(0.3, 10.0), st.integers(1, 6), epsilons)
def test_discrete_gaussian_by_enumeration(sigma, distance, epsilon):
    reach = math.ceil(40 * sigma) + distance
    weight = {x: math.exp(-x * x / (2 * sigma**2)) for x in range(-reach - distance, reach + 1)}
    whole = math.fsum(weight.values())
    q = [weight[x] / whole for x in range(-reach, reach + 1)]
    p = [weight[x - distance] / whole for x in range(-reach, reach + 1)]
    found = dp.account(dp.DiscreteGaussian(sigma, sensitivity=distance)).delta(epsilon)
    truth = exact_delta(p, q, epsilon)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize(("sigma", "distance"), [(300.0, 20), (100.0, 400), (4000.0, 7000)])
def test_merged_atoms_of_discrete_gaussians_bound_the_enumeration(sigma, distance):
    """Above 4,096 outputs, neighboring ones are merged."""
    pair = DiscreteGaussianPair(sigma, distance)
    p, null = distributions(pair)
    assert len(p) <= 4200
    assert math.fsum(p) == pytest.approx(1, abs=1e-12)
    assert math.fsum(null) == pytest.approx(1, abs=1e-12)
    assert p == pytest.approx(null[::-1], rel=1e-10)
    x = np.arange(-int(40 * sigma), int(40 * sigma) + distance + 1)
    q, p = (np.exp(-((x - shift) ** 2) / (2 * sigma**2)) for shift in (0, distance))
    for epsilon in (0.0, 0.01, 0.3, 1.0, 4.0):
        truth = math.fsum(np.maximum(p - math.exp(epsilon) * q, 0.0)) / math.fsum(q)
        found = math.exp(pair.profile.log_delta(epsilon))
        assert truth * (1 - 1e-12) <= found <= truth * (1 + 2e-3) + 1e-30


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("q", [1.0, 0.3])
def test_composition_of_discrete_pairs_by_enumeration(count, q):
    noise = dp.DiscreteLaplace(1.5, sensitivity=2)
    step = dp.PoissonSampled(noise, sampling_probability=q)
    pair = step.loss(dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
    p, null = distributions(pair)
    curve = dp.account(dp.repeat(step, count), notion="contour")
    for epsilon in (0.0, 0.4, 1.1):
        truth = max(
            math.fsum(
                max(
                    0.0,
                    math.prod(a for a, _ in chosen)
                    - math.exp(epsilon) * math.prod(b for _, b in chosen),
                )
                for chosen in product(list(zip(*pair_of, strict=True)), repeat=count)
            )
            for pair_of in ((p, null), (null, p))
        )
        found, error, *_ = curve.answer(epsilon=epsilon)
        assert error < 5e-3
        assert truth * (1 - 1e-10) <= found <= truth * (1 + error + 1e-10)


@settings(max_examples=30)
@given(losses, st.floats(1e-8, 0.05), epsilons)
def test_a_mass_at_infinity_is_composed_apart(loss, mass, epsilon):
    """delta = 1 - (1 - m)^2 + (1 - m)^2 delta of the finite parts."""
    finite = dp.compose(dp.repeat(dp.PureDP(loss), 2), dp.Gaussian(2.0))
    whole = dp.compose(dp.repeat(dp.ApproximateDP(loss, mass), 2), dp.Gaussian(2.0))
    rest = dp.account(finite, notion="contour").delta(epsilon)
    lost = 1 - (1 - mass) ** 2
    found = dp.account(whole, notion="contour").delta(epsilon)
    assert found == pytest.approx(lost + (1 - lost) * rest, rel=1e-7)


def test_masses_that_add_up_to_one():
    plan = dp.compose(dp.repeat(dp.ApproximateDP(0.1, 0.5), 100), dp.Gaussian(1.0))
    assert dp.account(plan).delta(1.0) == 1.0
    assert dp.account(plan).epsilon(0.9) == math.inf


def test_a_mass_at_infinity_with_an_asymmetric_pair_is_tight():
    """The finite part of the second direction is compared with the rest of the first's delta."""
    rare = dp.PoissonSampled(dp.DiscreteLaplace(243.0), sampling_probability=0.128)
    plan = dp.compose(dp.ApproximateDP(0.3286, 0.3174), rare)
    p, null = distributions(rare.loss(dp.NeighboringRelation.ADD_OR_REMOVE_ONE))
    claim = distributions(ClaimPair(0.3286))
    both = [math.prod(pair) for pair in product(p, claim[0])]
    none = [math.prod(pair) for pair in product(null, claim[1])]
    finite = max(exact_delta(both, none, 0.0), exact_delta(none, both, 0.0))
    truth = 0.3174 + (1 - 0.3174) * finite
    found, error, *_ = dp.account(plan, notion="contour").answer(epsilon=0.0)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + error + 1e-9)
    assert error < 1e-3


def test_the_error_bound_holds_at_the_kink_of_two_laplace_losses():
    """delta(0) of two releases at distance d is an integral over the loss of the second."""
    curve = dp.account(dp.repeat(dp.Laplace(100.0), 2), notion="contour")
    found, error, *_ = curve.answer(epsilon=0.0)
    truth = 0.0049999171
    assert truth * (1 - 1e-7) <= found <= truth * (1 + error)


# -- curves are immutable --------------------------------------------------------------------


def test_every_kind_names_a_loss():
    for known in REGISTRY.values():
        if known.example is not None:
            relation = getattr(known.example, "relation", dp.NeighboringRelation.ADD_OR_REMOVE_ONE)
            if known.example.expanded(relation) is known.example:
                assert known.example.loss(relation) is not None


def test_threads_can_share_a_curve():
    run = dp.repeat(dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01), 300)
    plan = dp.compose(run, dp.PureDP(0.2), dp.ApproximateDP(0.1, 1e-8))
    questions = [10.0**-k for k in range(2, 10)]
    alone = [dp.account(plan).epsilon(delta) for delta in questions]
    shared = dp.account(plan)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(shared.epsilon, questions * 2)) == alone * 2


@pytest.mark.parametrize("notion", ["tightest", "contour", "rdp", "approximate", "zcdp"])
def test_queries_do_not_depend_on_earlier_queries(notion):
    mechanism = dp.repeat(dp.RandomizedResponse(0.3, 4), 20)
    curve = dp.account(mechanism, notion=notion)
    first = curve.answer(delta=1e-5), curve.answer(epsilon=0.7)
    curve.epsilon(1e-12), curve.delta(3.0), curve.epsilon(0.2)
    assert (curve.answer(delta=1e-5), curve.answer(epsilon=0.7)) == first


def test_a_curve_cannot_be_changed():
    curve = dp.account(dp.Gaussian(1.0))
    with pytest.raises(AttributeError):
        curve.unit = "one user"


def test_an_answer_names_method_and_theorem():
    run = dp.repeat(dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01), 300)
    found = dp.account(run).answer(delta=1e-5)
    assert (found.notion, found.order) == ("contour", None)
    assert 0 <= found.error < 1e-6
    by_rdp = dp.account(run, notion="rdp").answer(delta=1e-5)
    assert by_rdp.order > 1
    assert by_rdp.value > found.value
    assert "Proposition 12" in by_rdp.theorem
