"""Random allocation of records to steps, and cyclic Poisson sampling."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import privacy as dp
from privacy.losses import allocation
from privacy.losses.gaussian import AllocationPair
from privacy.losses.lattice import GridSum, choose_tilt
from privacy.losses.profiles import GaussianProfile
from privacy.mechanisms import repeat

REMOVE, REPLACE, ZERO = dp.NeighboringRelation


def hockey_stick(p, q, epsilon):
    """Return the sum of (P - e^epsilon Q)+ over the outcomes of P."""
    return sum(max(p[x] - epsilon * q.get(x, 0), 0) for x in p)


def bracket(mu, steps, count, epsilon):
    """Return lower and upper bounds on the delta of `count` allocations, by direction."""
    pair, found, step = AllocationPair(mu, steps), [], allocation.ratios(mu, steps).spacing / 8
    for way in ("remove", "add"):
        upper = pair.on_grid(way, step, upper=True)
        tilt = choose_tilt([(upper, count)], epsilon)
        lower = pair.on_grid(way, step, upper=False)
        both = (GridSum([(one, count)], tilt).log_delta(epsilon) for one in (lower, upper))
        found.append([math.exp(value) for value in both])
    return found


@pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 4.0, 19.0])
def test_one_step_is_the_gaussian(mu):
    law = allocation.ratios(mu, 1)
    for epsilon in (0.1 * mu, mu * mu / 2, mu * mu / 2 + 3 * mu):
        exact = GaussianProfile(mu).log_delta(epsilon)
        found = allocation.AllocationProfile(mu, 1).log_delta(epsilon)
        assert exact - 1e-12 <= found <= exact + 2e-3
    assert law.mass.sum() == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.5])
def test_two_steps_agree_with_quadrature_over_the_plane(mu):
    z = np.linspace(-7, 7 + mu, 1201)
    weight = np.exp(-z * z / 2) / math.sqrt(2 * math.pi) * (z[1] - z[0])
    factor = np.exp(mu * z - mu * mu / 2)
    ratio = (factor[:, None] + factor) / 2
    measure = weight[:, None] * weight
    for epsilon in (0.2, 1.0):
        limit = math.exp(epsilon)
        exact = [
            float((measure * np.maximum(ratio - limit, 0)).sum()),
            float((measure * np.maximum(1 - limit * ratio, 0)).sum()),
        ]
        for truth, (low, high) in zip(exact, bracket(mu, 2, 1, epsilon), strict=True):
            assert low * (1 - 2e-4) <= truth <= high * (1 + 2e-4)
            assert high <= 1.02 * low + 1e-12
        worst = math.exp(allocation.AllocationProfile(mu, 2).log_delta(epsilon))
        assert worst == pytest.approx(max(exact), rel=1e-2)


def test_monte_carlo_lies_in_the_bracket():
    rng, runs, steps, mu, epochs = np.random.default_rng(20), 100_000, 10, 1.0, 2
    total = np.zeros((2, runs))
    for _ in range(epochs):
        for there in (0, 1):
            x = rng.standard_normal((steps, runs))
            x[0] += mu * there
            total[there] += np.log(np.exp(mu * x - mu * mu / 2).mean(axis=0))
    for epsilon in (0.2, 0.8):
        for sample, (low, high) in zip(
            (total[1], -total[0]), bracket(mu, steps, epochs, epsilon), strict=True
        ):
            value = np.maximum(-np.expm1(epsilon - sample), 0)
            spread = 5 * value.std() / math.sqrt(runs)
            assert value.mean() - spread <= high
            assert low <= value.mean() + spread
            assert high < 1.03 * low


@pytest.mark.parametrize("mu", [0.01, 0.7, 3.0])
@pytest.mark.parametrize("steps", [1, 2, 3, 7, 64, 1000])
def test_the_distribution_has_the_moments_of_a_ratio(mu, steps):
    law = allocation.ratios(mu, steps)
    found = [law.mass.sum() + law.empty, law.lost + (law.mass * np.exp(law.losses)).sum()]
    # the masses are upper bounds, the lower labels are nearly all of them
    assert all(1 - 1e-12 <= value <= 1 + 1e-7 for value in found)
    labels = allocation.labels(mu, steps)
    assert labels.without.sum() == pytest.approx(1, abs=1e-9)
    assert labels.present.sum() == pytest.approx(1, abs=1e-9)


def test_a_finer_grid_is_tighter_from_both_sides():
    delta = {}
    for cells in (128, 512):
        law = allocation.ratios(1.0, 20, cells)
        delta[cells] = float(law.mass @ np.maximum(np.exp(law.losses) - math.e, 0))
        found = allocation.labels(1.0, 20, cells)
        delta[-cells] = float(np.maximum(found.present - math.e * found.without, 0).sum())
    assert delta[-128] < delta[-512] < delta[512] < delta[128] < 1.5 * delta[-128]


# Enumeration: a table of a noise on the integers mod 5; a record shifts the output of its step.
NOISE = [Fraction(n, 31) for n in (15, 6, 5, 3, 2)]


def output(shifts):
    """Return the distribution of the outputs of the steps, each with its own shift."""
    size = len(NOISE)
    found = {}
    for drawn in itertools.product(range(size), repeat=len(shifts)):
        at = tuple((x + s) % size for x, s in zip(drawn, shifts, strict=True))
        found[at] = math.prod(NOISE[x] for x in drawn)
    return found


def mixed(parts):
    parts, total = list(parts), {}
    for part in parts:
        for x, p in part.items():
            total[x] = total.get(x, 0) + Fraction(p, len(parts))
    return total


def allocated(steps, participations, others=()):
    """Return the outputs with one record, and other records with known shares in the steps."""
    sets = itertools.combinations(range(steps), participations)
    return mixed(output([(i in chosen) + sum(o[i] for o in others) for i in range(steps)])
                 for chosen in sets)  # fmt: skip


def product(one, other):
    return {(x, y): p * q for x, p in one.items() for y, q in other.items()}


@pytest.mark.parametrize("limit", [Fraction(1), Fraction(3, 2), Fraction(3)])
@pytest.mark.parametrize(("steps", "participations"), [(2, 2), (3, 2), (4, 2), (4, 3)])
def test_blocks_dominate_several_participations_of_a_table(steps, participations, limit):
    exact = allocated(steps, participations), output([0] * steps)
    size, longer = divmod(steps, participations)
    sizes = [size] * (participations - longer) + [size + 1] * longer
    blocks = ({(): Fraction(1)}, {(): Fraction(1)})
    for block in sizes:
        pair = allocated(block, 1), output([0] * block)
        blocks = tuple(map(product, blocks, pair))
    for way in (1, -1):
        truth = hockey_stick(*exact[::way], limit)
        bound = hockey_stick(*blocks[::way], limit)
        assert truth <= bound
        if steps == participations:
            assert truth == bound


@pytest.mark.parametrize("limit", [Fraction(1), Fraction(2)])
def test_other_records_that_draw_their_own_steps_do_not_add_to_a_table(limit):
    steps = 3
    alone = allocated(steps, 1), output([0] * steps)
    unit = [tuple(int(i == j) for i in range(steps)) for j in range(steps)]
    with_other = mixed(allocated(steps, 1, [u]) for u in unit), mixed(output(u) for u in unit)
    two = list(itertools.product(unit, repeat=2))
    with_two = (
        mixed(allocated(steps, 1, both) for both in two),
        mixed(output([a + b for a, b in zip(*both, strict=True)]) for both in two),
    )
    for way in (1, -1):
        bound = hockey_stick(*alone[::way], limit)
        for pair in (with_other, with_two):
            assert hockey_stick(*pair[::way], limit) <= bound


def test_the_parts_of_a_pass_are_blocks_of_nearly_equal_size():
    gaussian = dp.Gaussian(2.0)
    run = dp.RandomAllocation(gaussian, steps=11, participations=3, epochs=5)
    blocks = (dp.RandomAllocation(gaussian, steps=n) for n in (3, 4))
    one, two = blocks
    assert run.expanded(REMOVE) == dp.compose(repeat(one, 5), repeat(two, 10))
    everywhere = dp.RandomAllocation(gaussian, steps=4, participations=4, epochs=3)
    assert everywhere.expanded(REMOVE) == repeat(gaussian, 12)
    # without a block of several steps, replaced records are supported as well
    for relation in dp.NeighboringRelation:
        curve = dp.account(everywhere, relation=relation)
        same = dp.account(repeat(gaussian, 12), relation=relation)
        assert curve.epsilon(1e-5) == same.epsilon(1e-5)


def test_several_gaussians_on_one_batch_are_one_gaussian():
    joint = dp.RandomAllocation(repeat(dp.Gaussian(2.0), 4), steps=10)
    one = dp.RandomAllocation(dp.Gaussian(1.0), steps=10)
    assert dp.account(joint).epsilon(1e-5) == pytest.approx(dp.account(one).epsilon(1e-5))


def test_moments_are_those_of_known_steps():
    run = dp.RandomAllocation(dp.Gaussian(2.0), steps=10, participations=2, epochs=3)
    known = repeat(dp.Gaussian(2.0), 6)
    for notion in ("zcdp", "rdp"):
        found = dp.account(run, notion=notion).epsilon(1e-5)
        assert found == pytest.approx(dp.account(known, notion=notion).epsilon(1e-5), rel=1e-9)
    # bounds from moments are finite where the grid gives none
    assert dp.account(run).epsilon(1e-200) < math.inf
    assert dp.account(run).epsilon(1e-5) < dp.account(known).epsilon(1e-5)


def test_the_noise_below_which_nothing_is_amplified():
    known = dp.account(dp.Gaussian(1 / 19.9)).epsilon(1e-5)
    run = dp.RandomAllocation(dp.Gaussian(1 / 19.9), steps=3)
    # the output nearly reveals the step; the likelihood ratio is 1/3 of that of a known step
    assert dp.account(run).epsilon(1e-5) == pytest.approx(known - math.log(3), rel=1e-3)


def test_very_little_noise_is_not_amplified():
    run = dp.RandomAllocation(dp.Gaussian(0.01), steps=1000)
    assert dp.account(run).epsilon(1e-5) == dp.account(dp.Gaussian(0.01)).epsilon(1e-5)


def test_ten_passes_of_a_hundred_steps():
    """Lower and upper bounds of the code of Feldman and Shenfeld (2026): 1.664 and 1.740."""
    run = dp.RandomAllocation(dp.Gaussian(1.0), steps=100, epochs=10)
    answer = dp.account(run).answer(delta=1e-5)
    assert answer.notion == "pld"
    assert 1.7015 < answer.value < 1.7035
    assert 0 < answer.error < 0.1
    # more passes, more participations and fewer steps are less private
    for worse in ({"epochs": 11}, {"participations": 2}, {"steps": 90}):
        other = dp.RandomAllocation(dp.Gaussian(1.0), **({"steps": 100, "epochs": 10} | worse))
        assert dp.account(other).epsilon(1e-5) > answer.value


def test_allocation_composes_with_other_parts():
    run = dp.RandomAllocation(dp.Gaussian(2.0), steps=30, epochs=3)
    alone = dp.account(run).epsilon(1e-5)
    sampled = dp.repeat(dp.PoissonSampled(dp.Laplace(4.0), sampling_probability=0.1), 5)
    for other in (dp.Gaussian(8.0), sampled):
        both = dp.account(dp.compose(run, other)).epsilon(1e-5)
        assert alone < both < alone + dp.account(other).epsilon(1e-5)
    two = dp.compose(run, run)
    whole = dp.RandomAllocation(dp.Gaussian(2.0), steps=30, epochs=6)
    assert dp.account(two).epsilon(1e-5) == dp.account(whole).epsilon(1e-5)


def test_the_noise_of_an_allocation_is_calibrated():
    def make(sigma):
        return dp.RandomAllocation(dp.Gaussian(sigma), steps=2)

    sigma = dp.calibrate(make, epsilon=1, delta=1e-5)
    assert 0.9999 < dp.account(make(sigma)).epsilon(1e-5) <= 1


def test_other_mechanisms_and_replaced_records_are_refused_with_the_reason():
    both = dp.compose(dp.Gaussian(2.0), dp.Laplace(2.0))
    for inner in (dp.Laplace(2.0), both, dp.ZeroConcentratedDP(0.1)):
        with pytest.raises(dp.UnsupportedMechanism, match="to be Gaussian noise"):
            dp.RandomAllocation(inner, steps=10)
    with pytest.raises(dp.UnsupportedMechanism, match="ADD_OR_REMOVE_ONE or REPLACE_SPECIAL"):
        dp.account(dp.RandomAllocation(dp.Gaussian(2.0), steps=10), relation=REPLACE)
    run = dp.RandomAllocation(dp.Gaussian(2.0), steps=10, epochs=2)
    with pytest.raises(dp.UnsupportedMechanism, match="several steps on one sample"):
        dp.account(dp.PoissonSampled(run, sampling_probability=0.5))
    with pytest.raises(ValueError, match="participations=5 to be <= steps=4"):
        dp.RandomAllocation(dp.Gaussian(2.0), steps=4, participations=5)
    with pytest.raises(TypeError, match="Pass steps"):
        dp.RandomAllocation(dp.Gaussian(2.0), num_steps=4)


def test_zeroed_and_removed_records_have_the_same_bound():
    run = dp.RandomAllocation(dp.Gaussian(1.0), steps=20)
    assert dp.account(run).epsilon(1e-5) == dp.account(run, relation=ZERO).epsilon(1e-5)


@pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
def test_cyclic_poisson_is_the_sampled_releases_of_one_group(relation):
    run = dp.CyclicPoisson(dp.Gaussian(1.1), sampling_probability=0.2, steps=101, groups=10)
    one = dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=0.2)
    same = dp.account(repeat(one, 11), relation=relation)
    assert dp.account(run, relation=relation).epsilon(1e-5) == same.epsilon(1e-5)


def test_cyclic_poisson_is_proven_for_gaussians_alone():
    with pytest.raises(dp.UnsupportedMechanism, match="to be Gaussian noise"):
        dp.CyclicPoisson(dp.Laplace(2.0), 0.1, 10, 2)
    run = dp.CyclicPoisson(dp.Gaussian(2.0), 0.1, 10, 2)
    with pytest.raises(dp.UnsupportedMechanism, match="several steps on one sample"):
        dp.account(dp.PoissonSampled(run, sampling_probability=0.5))


def test_the_loss_of_a_banded_running_sum_splits_into_sampled_gaussians():
    """Enumerate the participations of a record; the noise is N(0, I) on the rows of C x."""
    q, sigma, releases, groups = 0.3, 1.3, 7, 3
    factorization = dp.Factorization.banded(releases, band=groups, optimized=True)
    encoder = factorization.encoder() / factorization.sensitivity()
    rng = np.random.default_rng(3)
    for group in range(groups):
        steps = range(group, releases, groups)
        for y in rng.normal(0, 2, (5, releases)):
            terms = []
            for taken in itertools.product((0, 1), repeat=len(steps)):
                mean = sum(t * encoder[:, j] for t, j in zip(taken, steps, strict=True))
                log_ratio = (mean @ y - mean @ mean / 2) / sigma**2
                n = sum(taken)
                terms.append(q**n * (1 - q) ** (len(steps) - n) * math.exp(log_ratio))
            losses = []
            for j in steps:
                norm = np.linalg.norm(encoder[:, j])
                assert norm <= 1 + 1e-12
                mu, z = norm / sigma, encoder[:, j] @ y / norm / sigma
                losses.append(math.log1p(q * math.expm1(mu * z - mu * mu / 2)))
            assert math.log(sum(terms)) == pytest.approx(sum(losses), abs=1e-12)
