"""The integral on a line that bends to the right, for rare large losses."""

import mpmath
import pytest

import privacy as dp
from privacy.losses.halves import HalfGaussian
from privacy.losses.mixtures import SampledGaussian
from privacy.notions import contour_integral
from privacy.notions.bent_lines import BentLine
from privacy.notions.contour_integral import Line
from privacy.notions.loss_sums import LossSum, Unresolved
from tests.benchmarks.speed import sampled

CELL = SampledGaussian(1e-4, 0.5103)


def _sum(model, steps):
    return LossSum(((model, steps),), 0.0, "remove")


@pytest.mark.parametrize(
    ("q", "noise", "steps", "epsilon"),
    [
        (1e-4, 0.6757, 1000, 0.1),
        (1e-4, 0.5103, 1000, 1.0),
        (1e-4, 0.3941, 100_000, 8.0),
        (2e-3, 1.2, 700, 0.2),
        (0.05, 0.7, 20, 3.0),
    ],
)
def test_bent_and_straight_lines_agree_within_their_error_bounds(q, noise, steps, epsilon):
    model = SampledGaussian(q, noise)
    total = _sum(model, steps)
    saddle = total.saddle(epsilon, 1.0)
    straight = Line(total, saddle, epsilon, near=-14.0)
    bent = BentLine(model, steps, saddle, epsilon, -14)
    for asked in (epsilon, 1.02 * epsilon):
        value, slope = straight.log_delta(asked)
        found, fall = bent.log_delta(asked)
        assert max(straight.error, bent.error) < 1e-8
        assert -bent.error - 1e-14 < value - found < straight.error + 1e-14
        assert fall == pytest.approx(slope, rel=1e-6)


def _two_releases(q, noise, epsilon):
    """Return delta of one release with the loss epsilon - L, averaged over the loss L of another.

    Both integrals are over the noise, at 30 digits.
    """
    mpmath.mp.dps = 30
    q, noise, epsilon = mpmath.mpf(q), mpmath.mpf(noise), mpmath.mpf(epsilon)
    mu = 1 / noise

    def tail(z):
        return mpmath.erfc(z / mpmath.sqrt(2)) / 2

    def place(loss):
        return noise * mpmath.log((mpmath.expm1(loss) + q) / q) + mu / 2

    def share(z):
        rest = epsilon - mpmath.log(1 - q + q * mpmath.exp(z * mu - mu * mu / 2))
        density = (1 - q) * mpmath.npdf(z) + q * mpmath.npdf(z - mu)
        if mpmath.expm1(rest) <= -q:
            return density * -mpmath.expm1(rest)
        at = place(rest)
        above = q * tail(at - mu) + (1 - q) * tail(at)
        return density * (above - mpmath.exp(rest) * tail(at))

    bends = [place(epsilon - mpmath.log(1 - q)), place(epsilon)]
    around = [bend + step for bend in bends for step in (-0.2, -0.02, 0, 0.02, 0.2)]
    return mpmath.quad(share, sorted([*range(-14, int(mu) + 26, 4), *around]))


@pytest.mark.parametrize(("q", "noise", "epsilon"), [(1e-3, 0.5, 3.0), (2e-4, 0.4, 1.0)])
def test_two_releases_are_never_below_their_exact_delta(q, noise, epsilon):
    exact, model = float(mpmath.log(_two_releases(q, noise, epsilon))), SampledGaussian(q, noise)
    line = BentLine(model, 2, _sum(model, 2).saddle(epsilon, 1.0), epsilon, exact)
    found, _ = line.log_delta(epsilon)
    assert line.error < 1e-8
    assert exact < found < exact + 0.6 * line.error + 1e-14


def test_a_smaller_spacing_is_needed_for_a_smaller_delta():
    """The bound on the error includes the sides of the strip, whatever delta is expected."""
    exact = BentLine(CELL, 1000, 3.9, 1.0, -13.8).log_delta(1.0)[0]
    for about in (-13.8, 0.0, 3.0, 5.0):
        line = BentLine(CELL, 1000, 3.9, 1.0, about)
        found, _ = line.log_delta(1.0)
        assert found > exact - 1e-9
    assert line.error > 1e-3
    with pytest.raises(Unresolved, match="no useful bound"):
        BentLine(CELL, 1000, 3.9, 1.0, 12.0).log_delta(1.0)


@pytest.mark.parametrize("right", [8.0, 12.0])
@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_a_line_far_from_the_saddle_point_is_refused(epsilon, right):
    with pytest.raises(Unresolved, match="far from the saddle point"):
        BentLine(CELL, 1000, right, epsilon, -20.0)


def test_a_line_is_refused_at_an_epsilon_far_from_its_own():
    model = SampledGaussian(1e-2, 1.2)
    line = BentLine(model, 1000, _sum(model, 1000).saddle(4.0, 1.0), 4.0, -100.0)
    assert line.log_delta(4.0)[0] < -20
    with pytest.raises(Unresolved, match="far from the saddle point"):
        line.log_delta(-40.0)


@pytest.mark.parametrize(("epsilon", "right"), [(0.0, 3.0), (-1.0, 3.0), (1e-300, 3.0), (1.0, 1e5)])
def test_other_cells_are_left_to_the_straight_line(epsilon, right):
    with pytest.raises(Unresolved):
        BentLine(CELL, 1000, right, epsilon, -14.0)


def test_a_refused_line_leaves_the_answer_of_the_straight_one(monkeypatch):
    def ask():
        curve = dp.account(sampled(0.5103, 1e-4, 1000), notion="contour")
        return curve.epsilon(1e-6), curve.delta(1.0)

    with monkeypatch.context() as patch:
        patch.setattr(contour_integral, "_line", None)
        bent = ask()
    monkeypatch.setattr(contour_integral, "_BENT", 0.0)
    assert ask() == pytest.approx(bent, rel=1e-8)


@pytest.mark.parametrize(("q", "steps"), [(1e-8, 10**9), (1e-8, 10**12)])
def test_many_rare_releases_are_summed_on_a_straight_line(q, steps):
    """Their losses are nearly normal; RDP is larger by half or more."""
    tight, loose = (dp.account(sampled(1.0, q, steps), notion=n) for n in ("contour", "rdp"))
    assert tight.epsilon(1e-6) < 0.8 * loose.epsilon(1e-6)


@pytest.mark.parametrize(("noise", "q"), [(1.4, 1e-4), (0.05, 1e-4), (0.5, 0.1)])
def test_much_or_little_noise_or_many_samples_do_not_bend(noise, q):
    model = SampledGaussian(q, noise)
    total = _sum(model, 9)
    assert contour_integral._bent(total, total.saddle(1.0, 1.0), 1.0, -14.0) is None


def test_half_of_the_losses_do_not_bend():
    """Their model is a subclass, with other losses."""
    for model, bends in ((CELL, True), (HalfGaussian(1e-4, 0.5103), False)):
        found = contour_integral._bent(_sum(model, 1000), 3.9, 1.0, -14.0)
        assert (found is not None) == bends
