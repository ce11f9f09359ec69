"""The ends of the domains give a bound, infinity, or the smallest float."""

import math

import pytest

import privacy as dp


@pytest.mark.parametrize("sigma", [1e-300, 1e300, 5e-324, 1.7e308])
@pytest.mark.parametrize("relation", dp.NeighboringRelation)
@pytest.mark.parametrize("steps", [1, 10**12])
@pytest.mark.parametrize("q", [1, 0.5, 1e-8])
def test_extreme_noise(sigma, relation, steps, q):
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    curve = dp.account(dp.repeat(step, steps), relation=relation)
    epsilon, delta = curve.epsilon(1e-12), curve.delta(1.0)
    if sigma < 1:
        assert epsilon == math.inf
        lost = -math.expm1(steps * math.log1p(-q)) if q < 1 else 1.0
        assert delta >= lost * (1 - 1e-12)
    else:
        assert 0 <= epsilon < 1e-3
        assert 0 < delta < 1e-12


@pytest.mark.parametrize("notion", ["tightest", "zcdp", "rdp", "gaussian", "approximate"])
@pytest.mark.parametrize("sigma", [1e-300, 1e300])
def test_extreme_noise_in_each_notion(notion, sigma):
    curve = dp.account(dp.Gaussian(sigma), notion=notion)
    assert (curve.epsilon(1e-5) == math.inf) == (sigma < 1)
    assert (curve.delta(1.0) == 1) == (sigma < 1)
    assert curve.delta(1.0) > 0
    assert curve.epsilon(0) == math.inf


@pytest.mark.parametrize("epsilon", [1e9, 1e17, 1e150, 1e300, 1.7e308])
@pytest.mark.parametrize("sigma", [1e-9, 0.3, 1.0, 1e9])
def test_delta_at_a_huge_epsilon_is_tiny_and_not_zero(epsilon, sigma):
    for notion in ("tightest", "zcdp", "rdp"):
        delta = dp.account(dp.Gaussian(sigma), notion=notion).delta(epsilon)
        if epsilon > 2 / sigma**2:
            assert 0 < delta < 1e-100
        else:
            assert 0 < delta <= 1


@pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-3, 1e300])
@pytest.mark.parametrize("kind", [dp.Gaussian, dp.Laplace])
def test_several_extreme_releases_at_once(kind, scale):
    """Computed together, they fall back one by one."""
    noise = [kind(scale * factor) for factor in (1.0, 1.01, 1.02)]
    steps = [dp.PoissonSampled(one, sampling_probability=0.1) for one in noise]
    for parts in (noise, steps):
        whole = dp.account(dp.compose(*parts), notion="rdp").divergences([1.5, 2.0, 1e6])
        each = [dp.account(one, notion="rdp").divergences([1.5, 2.0, 1e6]) for one in parts]
        assert whole == pytest.approx(sum(each), rel=1e-12)
        assert (whole > 0).all()


@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("q", [1, 0.1])
def test_no_laplace_noise_at_all(q, steps):
    step = dp.PoissonSampled(dp.Laplace(1e-310), sampling_probability=q)
    plan = dp.repeat(step, steps)
    assert dp.account(plan).epsilon(1e-6) == math.inf
    assert dp.account(plan, notion="rdp").epsilon(1e-6) == math.inf
    with pytest.raises(dp.UnsupportedMechanism, match="scale"):
        dp.account(plan, notion="contour")


@pytest.mark.parametrize("notion", ["approximate", "tightest"])
def test_claims_whose_sum_is_not_a_float_have_infinite_epsilon(notion):
    claims = dp.repeat(dp.PureDP(1e308), 3)
    curve = dp.account(claims, notion=notion)
    assert curve.epsilon(1e-5) == math.inf
    assert curve.delta(1.0) == 1.0


@pytest.mark.parametrize(
    ("notion", "sigma", "q", "steps", "epsilon", "delta"),
    [
        ("contour", 0.00589757313144239, 0.9999999999920105, 2, 0.02, 1e-4),
        ("pld", 0.04143013298164231, 2.6645411248118268e-61, 1099330321538759, 1e-300, 2e-111),
        ("rdp", 20.23299166522246, 4.7502167979062515e-185, 1, 1e-300, 2.9e-228),
        ("tightest", 0.03355521476963676, 9.8592468286854e-238, 9, 1e-300, 2e-10),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rare_and_sure_samples_have_a_bound(notion, sigma, q, steps, epsilon, delta):
    """Each of these left a quadrature without nodes."""
    step = dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q)
    curve = dp.account(dp.repeat(step, steps), notion=notion)
    one_step = q * math.erf(1 / (math.sqrt(8) * sigma))  # delta of one step at epsilon 0
    assert curve.delta(epsilon) >= one_step * (1 - 1e-12)
    exact = dp.account(step, notion="approximate")
    assert curve.epsilon(delta) >= exact.epsilon(delta) * (1 - 1e-12)


def test_little_noise_on_a_batch_reveals_the_record_if_it_is_drawn():
    """Then delta is the probability that the record is in a batch, at any moderate epsilon."""
    batch = dp.FixedSizeSampled(dp.Gaussian(1e-4), batch_size=2, records=50)
    found = dp.account(dp.repeat(batch, 5), relation="REPLACE_ONE").delta(1.0)
    assert found >= (1 - 0.96**5) * (1 - 1e-15)
    assert found == pytest.approx(1 - 0.96**5, rel=1e-9)
