"""The privacy map of an OpenDP measurement against our number for its mechanism."""

import math

import pytest

import privacy as dp

od = pytest.importorskip("opendp.prelude")
from privacy.interop.opendp import from_measurement  # noqa: E402

INTEGER = od.atom_domain(T=int), od.absolute_distance(T=int)
FLOAT = od.atom_domain(T=float, nan=False), od.absolute_distance(T=float)
ONE = dp.NeighboringRelation.REPLACE_ONE


@pytest.fixture(autouse=True)
def features():
    od.enable_features("contrib")


@pytest.mark.parametrize("scale", [0.7, 2.0, 30.0])
@pytest.mark.parametrize("d_in", [1, 3])
def test_integer_laplace(scale, d_in):
    measurement = od.m.make_laplace(*INTEGER, scale=scale)
    found = from_measurement(measurement, d_in)
    assert found == dp.DiscreteLaplace(scale, sensitivity=d_in)
    epsilon = dp.account(found).epsilon(0)
    assert epsilon == pytest.approx(measurement.map(d_in), rel=1e-12)
    assert dp.account(found).epsilon(0.01) < epsilon


@pytest.mark.parametrize("scale", [0.7, 4.0, 30.0])
def test_integer_gaussian(scale):
    measurement = od.m.make_gaussian(*INTEGER, scale=scale)
    found = from_measurement(measurement, 1)
    assert found == dp.DiscreteGaussian(scale, sensitivity=1)
    rho = measurement.map(1)
    assert dp.account(found, notion="zcdp").rho == pytest.approx(rho, rel=1e-12)
    assert dp.account(found).epsilon(1e-6) < dp.epsilon_from_rho(rho, 1e-6)


def test_float_noise_is_the_claim_of_its_map():
    laplace = od.m.make_laplace(*FLOAT, scale=2.0)
    assert from_measurement(laplace, 1.0) == dp.PureDP(laplace.map(1.0))
    gaussian = od.m.make_gaussian(*FLOAT, scale=2.0)
    found = from_measurement(gaussian, 1.0)
    assert found == dp.ZeroConcentratedDP(gaussian.map(1.0))
    assert dp.account(found).epsilon(1e-6) >= dp.account(dp.Gaussian(2.0)).epsilon(1e-6)


def test_vectors_are_the_claim_of_their_map():
    space = od.vector_domain(od.atom_domain(T=int)), od.l1_distance(T=int)
    laplace = od.m.make_laplace(*space, scale=2.0)
    assert from_measurement(laplace, 3) == dp.PureDP(laplace.map(3))


@pytest.mark.parametrize("threshold", [10, 30])
def test_laplace_threshold(threshold):
    domain = od.map_domain(od.atom_domain(T=str), od.atom_domain(T=int))
    measurement = od.m.make_laplace_threshold(
        domain, od.l01inf_distance(od.absolute_distance(T=int)), scale=2.0, threshold=threshold
    )
    epsilon, delta = measurement.map((1, 1, 1))
    found = from_measurement(measurement, (1, 1, 1))
    assert found == dp.ApproximateDP(epsilon, delta)
    assert dp.account(found).delta(epsilon) == pytest.approx(delta, rel=1e-12)


def test_gaussian_threshold():
    domain = od.map_domain(od.atom_domain(T=str), od.atom_domain(T=int))
    measurement = od.m.make_gaussian_threshold(
        domain, od.l02inf_distance(od.absolute_distance(T=int)), scale=2.0, threshold=12
    )
    rho, delta = measurement.map((1, 1, 1))
    curve = dp.account(from_measurement(measurement, (1, 1, 1)))
    for extra in (1e-6, 1e-3):
        # (epsilon, extra + delta) by basic composition
        bound = dp.epsilon_from_rho(rho, extra)
        assert curve.epsilon(extra + delta) <= bound * (1 + 1e-9)
        assert curve.epsilon(extra + delta) >= dp.account(dp.Gaussian(2.0)).epsilon(extra + delta)
    assert curve.epsilon(delta / 2) == math.inf


def test_randomized_response_is_exact():
    measurement = od.m.make_randomized_response(["a", "b", "c"], prob=0.6)
    found = from_measurement(measurement, 1)
    assert found == dp.RandomizedResponse(measurement.map(1), 3)
    assert found.epsilon == pytest.approx(math.log(0.6 / 0.2), rel=1e-12)


def test_a_profile_is_an_upper_bound():
    zcdp = od.m.make_gaussian(*FLOAT, scale=2.0)
    measurement = od.c.make_zCDP_to_approxDP(zcdp)
    profile = measurement.map(1.0)
    found = dp.account(from_measurement(measurement, 1.0))
    for epsilon in (0.5, 1.0, 3.0):
        assert profile.delta(epsilon) <= found.delta(epsilon) <= 1.5 * profile.delta(epsilon)
        assert dp.account(dp.Gaussian(2.0)).delta(epsilon) <= found.delta(epsilon)


def test_transformations_before_the_noise_are_included():
    count = od.t.make_count(od.vector_domain(od.atom_domain(T=int)), od.symmetric_distance())
    measurement = count >> od.m.then_laplace(scale=2.0)
    assert from_measurement(measurement, 1) == dp.DiscreteLaplace(2.0)
    assert from_measurement(measurement, 2) == dp.DiscreteLaplace(2.0, sensitivity=2)


def test_a_measurement_under_another_relation_is_a_claim():
    measurement = od.m.make_laplace(*INTEGER, scale=2.0)
    assert from_measurement(measurement, 1, relation="REPLACE_ONE") == dp.PureDP(0.5, ONE)


def test_unsupported_measurements_are_refused():
    with pytest.raises(TypeError, match="Measurement"):
        from_measurement(dp.Gaussian(1.0), 1)
    od.enable_features("honest-but-curious")
    renyi = od.m.make_user_measurement(
        *INTEGER, od.renyi_divergence(), lambda _: 0, lambda _: lambda order: 0.1 * order
    )
    with pytest.raises(dp.UnsupportedMechanism, match="Renyi"):
        from_measurement(renyi, 1)
