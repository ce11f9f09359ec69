"""The integral on a line that bends to the right, for rare large losses."""

import math

import mpmath
import pytest

from privacy.losses.mixtures import SampledGaussian
from privacy.notions import contour_integral
from privacy.notions.bent_lines import BentLine, Run
from privacy.notions.contour_integral import Line
from privacy.notions.loss_sums import LossSum, Unresolved


def _sum(*parts):
    models = tuple((SampledGaussian(part.q, part.noise), part.steps) for part in parts)
    return LossSum(models, 0.0, "remove")


@pytest.mark.parametrize(
    ("parts", "epsilon"),
    [
        ([Run(0.6757, 1e-4, 1000)], 0.1),
        ([Run(0.5103, 1e-4, 1000)], 1.0),
        ([Run(0.3941, 1e-4, 100_000)], 8.0),
        ([Run(1.2, 2e-3, 700)], 0.2),
        ([Run(0.7, 0.05, 20)], 3.0),
        ([Run(0.6, 1e-3, 300), Run(0.9, 3e-3, 200)], 1.0),
    ],
)
def test_bent_and_straight_lines_agree_within_their_error_bounds(parts, epsilon):
    total = _sum(*parts)
    saddle = total.saddle(epsilon, 1.0)
    straight, bent = Line(total, saddle, epsilon, near=-14.0), BentLine(parts, saddle, epsilon, -14)
    for asked in (epsilon, 1.02 * epsilon):
        value, slope = straight.log_delta(asked)
        found, fall = bent.log_delta(asked)
        assert max(straight.error, bent.error) < 1e-8
        assert -bent.error - 1e-14 < value - found < straight.error + 1e-14
        assert fall == pytest.approx(slope, rel=1e-6)


def _two_releases(first, second, epsilon):
    """Return delta of one release with the loss epsilon - L, averaged over the loss L of another.

    Both integrals are over the noise, at 30 digits.
    """
    mpmath.mp.dps = 30

    def tail(z):
        return mpmath.erfc(z / mpmath.sqrt(2)) / 2

    def place(run, loss):
        return run.noise * mpmath.log((mpmath.expm1(loss) + run.q) / run.q) + 0.5 / run.noise

    def share(z):
        loss = mpmath.log(1 - first.q + first.q * mpmath.exp(z / first.noise - mu * mu / 2))
        rest = mpmath.mpf(epsilon) - loss
        density = (1 - first.q) * mpmath.npdf(z) + first.q * mpmath.npdf(z - mu)
        if mpmath.expm1(rest) <= -second.q:
            return density * -mpmath.expm1(rest)
        at = place(second, rest)
        above = second.q * tail(at - 1 / mpmath.mpf(second.noise)) + (1 - second.q) * tail(at)
        return density * (above - mpmath.exp(rest) * tail(at))

    first, second = (Run(mpmath.mpf(r.noise), mpmath.mpf(r.q), 1) for r in (first, second))
    mu = 1 / first.noise
    bends = [place(first, mpmath.mpf(epsilon) - mpmath.log(1 - second.q)), place(first, epsilon)]
    around = [bend + step for bend in bends for step in (-0.2, -0.02, 0, 0.02, 0.2)]
    return mpmath.quad(share, sorted([*range(-14, int(mu) + 26, 4), *around]))


@pytest.mark.parametrize(
    ("first", "second", "epsilon"),
    [
        (Run(0.5, 1e-3, 1), Run(0.5, 1e-3, 1), 3.0),
        (Run(0.4, 2e-4, 1), Run(0.9, 1e-2, 1), 1.0),
    ],
)
def test_two_releases_are_never_below_their_exact_delta(first, second, epsilon):
    exact = float(mpmath.log(_two_releases(first, second, epsilon)))
    parts = [first._replace(steps=2)] if first == second else [first, second]
    saddle = _sum(*parts).saddle(epsilon, 1.0)
    line = BentLine(parts, saddle, epsilon, exact)
    found, _ = line.log_delta(epsilon)
    assert line.error < 1e-8
    assert exact < found < exact + 0.6 * line.error + 1e-14


@pytest.mark.parametrize("unknown", ["noise", "q", "steps"])
def test_an_estimate_has_the_derivative_of_its_unknown(unknown):
    run, step = Run(0.7, 1e-3, 1000.0), 1e-5

    def estimate(factor):
        moved = run._replace(**{unknown: getattr(run, unknown) * math.exp(factor)})
        return BentLine([moved], 5.4, 1.0, -14.0, digits=14.0, unknown=unknown).estimate(1.0)

    slope = (estimate(step)[0] - estimate(-step)[0]) / (2 * step)
    assert estimate(0.0)[1] == pytest.approx(slope, rel=1e-6)
    exact = contour_integral.log_delta(_sum(run._replace(steps=1000)), 1.0)
    assert estimate(0.0)[0] == pytest.approx(exact.value, abs=1e-8)


def test_a_smaller_spacing_is_needed_for_a_smaller_delta():
    """The bound on the error includes the sides of the strip, whatever delta is expected."""
    run = Run(0.5103, 1e-4, 1000)
    exact = BentLine([run], 3.9, 1.0, -13.8).log_delta(1.0)[0]
    for about in (-13.8, 0.0, 5.0, 12.0):
        line = BentLine([run], 3.9, 1.0, about)
        found, _ = line.log_delta(1.0)
        assert found > exact - 1e-9
    assert line.error > 1e-3


@pytest.mark.parametrize("right", [8.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_a_line_far_from_the_saddle_point_is_refused(epsilon, right):
    """Its integrand is so large that an error bound of 1e-6 was stated for log delta = 0."""
    with pytest.raises(Unresolved, match="far from the saddle point"):
        BentLine([Run(0.5103, 1e-4, 1000)], right, epsilon, -20.0)


def test_a_line_is_refused_at_an_epsilon_far_from_its_own():
    run = Run(1.2, 1e-2, 1000)
    line = BentLine([run], _sum(run).saddle(4.0, 1.0), 4.0, -100.0)
    assert line.log_delta(4.0)[0] < -20
    with pytest.raises(Unresolved, match="far from the saddle point"):
        line.log_delta(-40.0)


@pytest.mark.parametrize(("epsilon", "right"), [(0.0, 3.0), (-1.0, 3.0), (1e-300, 3.0), (1.0, 1e5)])
def test_other_cells_are_left_to_the_straight_line(epsilon, right):
    with pytest.raises(Unresolved):
        BentLine([Run(0.5, 1e-4, 1000)], right, epsilon, -14.0)


@pytest.mark.parametrize("run", [Run(1.4, 1e-4, 9), Run(0.05, 1e-4, 9), Run(0.5, 0.6, 9)])
def test_much_or_little_noise_does_not_bend(run):
    assert not run.bends
