"""Arrays of queries: the values of single queries, from shared integration lines."""

import numpy as np
import pytest

import privacy as dp

RUN = dp.account(dp.repeat(dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01), 1000))
PLAIN = dp.account(dp.Laplace(2.0), notion="rdp")


@pytest.mark.parametrize("curve", [RUN, PLAIN], ids=["contour", "rdp"])
def test_an_array_has_the_values_of_single_queries_rounded_up(curve):
    epsilons, deltas = np.linspace(0, 4, 40).reshape(4, 10), np.geomspace(1e-12, 0.3, 40)
    each = [curve.delta(epsilon) for epsilon in epsilons.ravel().tolist()]
    found = curve.delta(epsilons)
    assert found.shape == (4, 10)
    assert found.ravel() == pytest.approx(each, rel=1e-8)
    each = [curve.epsilon(delta) for delta in deltas.tolist()]
    found = curve.epsilon(deltas)
    assert found == pytest.approx(each, rel=1e-8)
    for epsilon, delta in zip(found.tolist(), deltas.tolist(), strict=True):
        assert curve.delta(epsilon) <= delta * (1 + 1e-9)


def test_epsilons_at_the_ends_of_the_domain():
    found = RUN.epsilon([0.0, *np.geomspace(1e-300, 1e-3, 20), 0.9])
    assert (found[0], found[-1]) == (np.inf, 0)
    assert (np.diff(found) < 0).all()
    assert RUN.delta([]).shape == (0,)


@pytest.mark.parametrize("bad", [[0.1] * 20 + [1.0], [np.nan, 0.1], [-0.1, *np.arange(20) / 40]])
def test_bad_deltas_are_refused(bad):
    with pytest.raises(ValueError, match="Expected delta="):
        RUN.epsilon(bad)


@pytest.mark.parametrize("bad", [["1"], [True], [None]])
def test_other_types_are_refused(bad):
    with pytest.raises(TypeError, match="Expected epsilon="):
        RUN.delta(bad)
