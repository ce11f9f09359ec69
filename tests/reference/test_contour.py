"""The contour integral against convolutions at many digits, and its own error terms."""

import math

import mpmath as mp
import numpy as np
import pytest

import privacy as dp
from privacy.losses.densities import complex_log_mixture
from privacy.losses.mixtures import AntipodalGaussian, SampledGaussian
from privacy.losses.panels import SampledLaplace
from privacy.notions import contour_integral
from privacy.notions.contour_integral import Line
from privacy.notions.loss_sums import LossSum
from tests.reference import oracles

ADD_OR_REMOVE_ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = dp.NeighboringRelation.REPLACE_ONE


def sampled(sigma, q):
    return dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)


def normal(z):
    return mp.exp(-z * z / 2) / mp.sqrt(2 * mp.pi)


def twice(sigma, q, epsilon, direction):
    """delta of two releases: E_P delta_1(epsilon - L), delta_1 in closed form on all reals."""
    mu, q, epsilon = 1 / mp.mpf(sigma), mp.mpf(q), mp.mpf(epsilon)
    inner = oracles.gaussian(mu)

    def ratio(z):
        return 1 - q + q * mp.exp(mu * z - mu * mu / 2)

    def removed(e):
        return q * inner(mp.log1p(mp.expm1(e) / q)) if mp.exp(e) > 1 - q else -mp.expm1(e)

    def added(e):  # Q > e^e ((1 - q) Q + q P)
        c = 1 - mp.exp(e) * (1 - q)
        return c * inner(mp.log(q * mp.exp(e) / c)) if c > 0 else mp.mpf(0)

    if direction == "remove":

        def integrand(z):
            return normal(z) * ratio(z) * removed(epsilon - mp.log(ratio(z)))
    else:

        def integrand(z):
            return normal(z) * added(epsilon + mp.log(ratio(z)))

    # the integrand has a kink where epsilon - L is the smallest loss of the other release
    sign = 1 if direction == "remove" else -1
    bend = (mp.exp(sign * epsilon) / (1 - q) - 1 + q) / q
    places = {mp.mpf(z) for z in range(-12, 13)} | {12 + mu, 12 + 2 * mu}
    if bend > 0:
        places.add(mp.log(bend) / mu + mu / 2)
    return mp.quad(integrand, sorted(places))


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon"),
    [(1.0, 0.1, 0.5), (0.8, 0.01, 1.0), (2.0, 0.3, 0.05), (0.6, 0.002, 0.7)],
)
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_two_sampled_gaussians(sigma, q, epsilon, direction):
    with mp.workdps(25):
        truth = twice(sigma, q, epsilon, direction)
    total = LossSum(((SampledGaussian(q, sigma), 2),), 0.0, direction)
    value, looseness, _ = contour_integral.log_delta(total, epsilon)
    if truth == 0:
        assert value == -math.inf
        return
    assert math.exp(value) >= truth * (1 - 1e-13)
    assert math.exp(value) <= truth * (1 + looseness + 1e-9)


@pytest.mark.parametrize("mu", [1e-3, 0.3, 5.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 2.0])
def test_a_gaussian_on_a_line_is_its_closed_form(mu, epsilon):
    truth = dp.account(dp.Gaussian(1 / mu)).delta(epsilon)
    value, looseness, _ = contour_integral.log_delta(LossSum((), mu * mu, "remove"), epsilon)
    if truth > 1e-300:
        assert math.exp(value) == pytest.approx(truth, rel=1e-9)
        assert looseness < 1e-9


MODELS = {
    "gaussian": (SampledGaussian(0.02, 0.9), 300),
    "rare": (SampledGaussian(0.001, 0.7), 200),
    "antipodal": (AntipodalGaussian(0.02, 1.5), 100),
    "laplace": (SampledLaplace(0.1, 1.0), 40),
}


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("name", MODELS)
def test_bounds_of_different_lines_agree(name, direction):
    """Every line's bound exceeds the exact value by at most its error bound, so all overlap."""
    total = LossSum((MODELS[name],), 0.0, direction)
    epsilon = 0.5 if direction == "remove" else 0.1
    saddle = total.saddle(epsilon, 1.0)
    above, below = [], []
    for place in (0.6, 0.8, 1.0, 1.25):
        for thrift in (0.25, 2.0):
            line = Line(total, place * saddle, epsilon, thrift)
            value, _ = line.log_delta(epsilon)
            if line.error < math.inf:
                above.append(value)
                below.append(value - math.log1p(line.error))
    assert len(above) >= 4
    assert max(below) <= min(above) + 1e-13
    assert max(above) - min(above) < 1e-4


def test_a_dummy_raises_delta_and_reports_it(monkeypatch):
    total = LossSum(((SampledGaussian(0.01, 1.0), 3),), 0.0, "remove")
    truth, looseness, saddle = contour_integral.log_delta(total, 0.5)
    assert looseness < 1e-6
    monkeypatch.setattr(contour_integral, "_MOST_NODES", 300)
    line = Line(total, saddle, 0.5)
    value, _ = line.log_delta(0.5)
    assert line.frequency.size < 310
    assert value > truth
    assert line.error > math.expm1(value - truth)


def test_too_much_work_is_answered_by_one_real_point(monkeypatch):
    total = LossSum(((SampledGaussian(0.01, 1.0), 100),), 0.0, "remove")
    delta, epsilon = contour_integral.log_delta(total, 0.5), contour_integral.epsilon(total, -10.0)

    def unresolved(*_, **__):
        raise ArithmeticError

    monkeypatch.setattr(contour_integral, "_line", unresolved)
    monkeypatch.setattr(contour_integral, "Line", unresolved)
    loose_delta, loose_epsilon = (
        contour_integral.log_delta(total, 0.5),
        contour_integral.epsilon(total, -10.0),
    )
    assert loose_delta.error == loose_epsilon.error == math.inf
    assert delta.value < loose_delta.value < delta.value + 5
    assert epsilon.value < loose_epsilon.value < 2 * epsilon.value


@pytest.mark.parametrize(("count", "q"), [(10, 1e-5), (30, 1e-5), (10_000, 1e-4)])
def test_an_epsilon_where_log_delta_is_far_from_concave(count, q):
    """Newton's method from the saddle point diverged, and epsilon was ten times too large."""
    curve = dp.account(dp.repeat(sampled(1.0, q), count), notion="contour")
    epsilon = curve.epsilon(1e-6)
    assert curve.delta(0.98 * epsilon) > 1e-6
    assert curve.delta(epsilon * (1 + 1e-6)) <= 1e-6 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("sigma", "q", "count", "delta", "relation"),
    [
        (0.93, 1e-3, 1000, 1e-6, ADD_OR_REMOVE_ONE),  # solved on the line of a poor guess
        (2.3, 3.4e-4, 7, 3e-5, REPLACE_ONE),  # whose line's slope throws Newton's method far off
        (0.15, 0.02, 20, 0.2, ADD_OR_REMOVE_ONE),
    ],
)
def test_where_rare_losses_dominate_the_epsilon_gives_its_delta(sigma, q, count, delta, relation):
    mechanism = dp.repeat(sampled(sigma, q), count)
    curve = dp.account(mechanism, notion="contour", relation=relation)
    assert curve.delta(curve.epsilon(delta)) == pytest.approx(delta, rel=1e-7)


@pytest.mark.parametrize(("q", "count"), [(0.001, 1000), (0.01, 1000), (0.3, 20), (0.5, 3)])
def test_a_direction_is_skipped_only_if_the_other_has_more_loss(q, count):
    """A bound without an integration line first decides which direction is worse."""
    model = SampledGaussian(q, 1.0)
    removed, added = (LossSum(((model, count),), 0.0, way) for way in ("remove", "add"))
    for one, other in ((removed, added), (added, removed)):
        for delta in (1e-3, 1e-6, 1e-9):
            log_delta = math.log(delta)
            bounds = [contour_integral.epsilon(total, log_delta) for total in (one, other)]
            each = [bound.value for bound in bounds]
            least = contour_integral.epsilon(other, log_delta, bounds[0]).value
            assert max(each[0], least) == pytest.approx(max(each), rel=1e-7)
            both = [contour_integral.log_delta(total, each[0]).value for total in (one, other)]
            passed = contour_integral.log_delta(other, each[0], least=both[0]).value
            assert max(both[0], passed) == pytest.approx(max(both), rel=1e-7)


@pytest.mark.parametrize(
    "model", [SampledGaussian(0.01, 1.0), SampledGaussian(0.3, 2.0), SampledLaplace(0.5, 1.0)]
)
def test_a_line_bounds_the_delta_of_the_other_direction(model):
    """The bound on adding from a line for removing is near the tight one at small epsilons."""
    epsilons = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 10.0, 100.0, 800.0])
    sums = [LossSum(((model, 50),), 0.0, way) for way in ("remove", "add")]
    for one, other in (sums, sums[::-1]):
        lines = contour_integral.Lines()
        contour_integral.log_deltas(one, np.array([0.3]), lines)
        found = contour_integral._reversed(epsilons, 0.0, lines)
        tight, error = contour_integral.log_deltas(other, epsilons, contour_integral.Lines())
        assert (found >= tight - error - 1e-14).all()
        if one is sums[0]:
            assert np.exp(found[:3]) == pytest.approx(np.exp(tight[:3]), rel=1e-7, abs=1e-10)


def test_a_large_delta_has_an_epsilon():
    curve = dp.account(dp.repeat(sampled(0.15, 0.02), 20), notion="contour")
    for delta in (0.2, 0.5, 0.9):
        epsilon, error, *_ = curve.answer(delta=delta)
        if error < 1e-6:
            assert curve.delta(epsilon) <= delta * (1 + 1e-6)
            assert epsilon == 0 or curve.delta(0.99 * epsilon) > delta
        assert 0 <= epsilon < 200


# values by a 40-digit contour integral, of cases that were once wrong
@pytest.mark.parametrize(
    ("sigma", "q", "epsilon", "truth"),
    [
        (0.3270161900596908, 0.9999996240272195, 0.0, 0.999984695979),
        (3.369418597615854, 3.854731697300541e-5, 3.775199224546546e-5, 1.96458189531e-6),
    ],
)
def test_two_replaced_records(sigma, q, epsilon, truth):
    curve = dp.account(dp.repeat(sampled(sigma, q), 2), relation="REPLACE_ONE")
    assert curve.delta(epsilon) == pytest.approx(truth, rel=1e-8)


@pytest.mark.parametrize(
    ("sigma", "q", "epsilon"), [(0.16, 1 - 2**-51, 3.5), (0.0875, 1 - 2**-47, 1.25)]
)
def test_a_mixture_with_nearly_no_weight_at_zero(sigma, q, epsilon):
    """1 - q is a few ulp: q + q (e^y - 1) would lose q e^y."""
    mu, y = 1 / mp.mpf(sigma), -32.0
    one, turn = mp.mpf(q), mp.expj(1)
    ratio = mp.log1p(-one) + mp.log1p(one * mp.exp(y) * turn / (1 - one))
    (found,) = complex_log_mixture(np.array([y]), 1.0, q)
    assert complex(found) == pytest.approx(complex(ratio), rel=1e-13)
    # Q - e^epsilon ((1 - q) Q + q P) = c (Q - e^deep P)
    c = one - (1 - one) * mp.expm1(epsilon)
    exact = mp.log(c * oracles.gaussian(mu)(mp.log(one * mp.exp(epsilon) / c)))
    total = LossSum(((SampledGaussian(q, sigma), 1),), 0.0, "add")
    assert contour_integral.log_delta(total, epsilon).value >= exact


@pytest.mark.parametrize(("q", "sigma", "t"), [(4.0621e-4, 0.48349, 2.7313), (0.3, 9.0, 80.0)])
def test_a_mean_loss_is_within_its_error_bound(q, sigma, t):
    """Where the log of a density is about -100, the relative error is about 3e-14."""
    found, error = SampledGaussian(q, sigma).nodes("remove", t).mean(t)
    with mp.workdps(40):
        mu = 1 / mp.mpf(sigma)

        def moment(power):
            def integrand(x):
                ratio = 1 - mp.mpf(q) + q * mp.exp(mu * (x - mu / 2))
                return mp.npdf(x) * ratio ** (mp.mpf(t) + 1) * mp.log(ratio) ** power

            return mp.quad(integrand, mp.linspace(-14, 14 + (t + 1) * mu, 30))

        exact = moment(1) / moment(0)
        assert abs(mp.mpf(float(found)) - exact) <= error <= 1e-12 * exact


@pytest.mark.parametrize("sigma", [0.2, 0.23])
def test_similar_parts_with_little_noise(sigma):
    def epsilon(*parts):
        return dp.account(dp.compose(*parts), notion="contour").epsilon(1e-6)

    parts = [sampled(sigma * (1 + k / 1e4), 0.3 * (1 + k / 1e4)) for k in range(3)]
    least = epsilon(dp.repeat(sampled(sigma * 1.0002, 0.3), 3))
    most = epsilon(dp.repeat(sampled(sigma, 0.30006), 3))
    assert least < epsilon(*parts) < most


@pytest.mark.parametrize(
    ("sigma", "q", "response", "count", "delta"),
    [
        (5.155723796702749, 0.99, 2.2428105032021777, 2, 1e-12),
        (0.5528010705281353, 0.002856612080964417, 1.4506059598464052, 5, 1e-8),
    ],
)
def test_a_characteristic_function_below_its_rounding_error(sigma, q, response, count, delta):
    """That of the noise, at the last frequencies; the exact delta is a sum over responses."""
    responses = dp.repeat(dp.RandomizedResponse(response), count)
    plan = dp.compose(sampled(sigma, q), responses)
    epsilon = dp.account(plan, notion="contour", relation=REPLACE_ONE).epsilon(delta)
    one = dp.account(sampled(sigma, q), notion="contour", relation=REPLACE_ONE)
    truth = 0.0
    for wrong in range(count + 1):
        probability = math.comb(count, wrong) * math.exp(-wrong * response)
        truth += probability * one.delta(epsilon - (count - 2 * wrong) * response)
    truth /= (1 + math.exp(-response)) ** count
    assert delta / (1 + 1e-8) < truth <= delta * (1 + 1e-13)


def test_too_extreme_inputs_raise_a_named_error():
    mechanism = sampled(1e-13, 0.1)
    with pytest.raises(dp.UnsupportedMechanism, match="noise_multiplier"):
        dp.account(dp.repeat(mechanism, 2), notion="contour")
    assert dp.account(dp.repeat(mechanism, 2)).delta(1.0) <= 1


def test_no_numpy_warnings_at_extremes():
    with np.errstate(all="raise", under="ignore"):
        for sigma, q, count in ((0.05, 0.5, 10), (50.0, 1e-6, 10**9), (0.3, 1e-8, 10**4)):
            curve = dp.account(dp.repeat(sampled(sigma, q), count), notion="contour")
            for epsilon in (1e-6, 1.0, 500.0):
                assert 0 <= curve.delta(epsilon) <= 1
