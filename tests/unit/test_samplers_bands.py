"""Banded factorizations for cyclic Poisson sampling, and the choice of the number of bands."""

import numpy as np
import pytest

import privacy as dp
from privacy.running_sums import optimum

CYCLIC = dp.Participation.cyclic_poisson(sampling_probability=0.2, groups=4)


def mean_error(factorization):
    return factorization.sensitivity() * np.sqrt(np.square(factorization.noise_std()).mean())


def test_the_noise_of_optimized_bands_equals_that_of_jax_privacy():
    """The error of toeplitz.optimize_banded_toeplitz(n, bands), jax-privacy 2.0.0."""
    for releases, band, error in (
        (100, 4, 3.916143277602982),
        (100, 32, 2.423163351532815),
        (1000, 4, 11.431000889211266),
        (1000, 32, 4.9107216467281445),
    ):
        found = dp.Factorization.banded(releases, band=band, optimized=True)
        assert mean_error(found) == pytest.approx(error, rel=1e-9)


@pytest.mark.parametrize(("releases", "band"), [(1, 1), (5, 1), (5, 9), (60, 7), (300, 20)])
def test_optimized_bands_are_a_minimum(releases, band):
    best = dp.Factorization.banded(releases, band=band, optimized=True)
    start = dp.Factorization.banded(releases, band=band)
    assert best.band == start.band == min(band, releases)
    assert mean_error(best) <= mean_error(start) * (1 + 1e-12)
    rng = np.random.default_rng(4)
    for _ in range(5):
        moved = best.encoder() * np.exp(0.01 * rng.normal(size=(1, 1)))
        assert mean_error(dp.Factorization.from_encoder(moved)) >= mean_error(best) * (1 - 1e-9)
    for j in range(1, best.band):
        for change in (-1e-3, 1e-3):
            coefficients = np.array(best.coefficients)
            coefficients[j] += change
            lower = sum(np.diag(np.full(releases - i, c), -i) for i, c in enumerate(coefficients))
            assert mean_error(dp.Factorization.from_encoder(lower)) > mean_error(best)


def test_the_full_band_is_near_the_optimum_over_all_matrices():
    toeplitz = mean_error(dp.Factorization.banded(40, band=40, optimized=True))
    assert mean_error(dp.Factorization.optimized(40)) <= toeplitz
    assert toeplitz < 1.05 * mean_error(dp.Factorization.optimized(40))


def test_a_gradient_of_the_objective_is_that_of_differences():
    seen = []
    original = optimum._descend

    def spy(objective, x):
        seen.append((objective, x))
        return original(objective, x)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(optimum, "_descend", spy)
        optimum.banded(50, 6)
    objective, x = seen[0]
    _, slope = objective(x)
    for j in range(5):
        h = 1e-6 * np.eye(5)[j]
        difference = (objective(x + h)[0] - objective(x - h)[0]) / 2e-6
        assert slope[j] == pytest.approx(difference, rel=1e-5)


def running_sum(**changes):
    settings = {"noise_multiplier": 1.5, "shape": 2, "participation": CYCLIC}
    return dp.RunningSum(dp.Factorization.banded(30, band=4), **(settings | changes))


def test_a_running_sum_accounts_for_the_sampled_releases_of_one_group():
    sums = running_sum()
    assert sums.mechanism == dp.CyclicPoisson(dp.Gaussian(1.5), 0.2, 30, 4)
    once = running_sum(participation=dp.Participation.once())
    assert sums.sigma == once.sigma  # at the sensitivity of one release
    epsilon = dp.account(sums.mechanism).epsilon(1e-6)
    sampled = dp.PoissonSampled(dp.Gaussian(1.5), sampling_probability=0.2)
    assert epsilon == dp.account(dp.repeat(sampled, 8)).epsilon(1e-6)


def test_a_sampled_running_sum_is_saved_and_restored(tmp_path):
    sums = running_sum(path=tmp_path / "sums.npz")
    sums.step(sums.quantize([0.25, 0.5]))
    again = dp.RunningSum.restore(tmp_path / "sums.npz")
    assert again.participation == CYCLIC
    assert again.mechanism == sums.mechanism


def test_groups_need_as_many_as_the_bands_of_the_factorization():
    with pytest.raises(ValueError, match="groups=4 to be >= 5, the bands of C"):
        dp.RunningSum(
            dp.Factorization.banded(30, band=5),
            noise_multiplier=1.5,
            shape=2,
            participation=CYCLIC,
        )
    with pytest.raises(ValueError, match="groups=4 to be >= 30"):
        dp.Factorization.square_root(30).sensitivity(CYCLIC)
    assert dp.Factorization.banded(30, band=3).sensitivity(CYCLIC) > 1


def test_discrete_noise_is_not_amplified():
    with pytest.raises(ValueError, match="'rounded' with cyclic_poisson"):
        running_sum(noise="discrete")


def test_a_sampled_running_sum_starts_no_second_block():
    sums = running_sum(simulation=True, rng=1)
    for _ in range(30):
        sums.step([0.0, 0.0])
    with pytest.raises(ValueError, match="no new block can start"):
        sums.step([0.0, 0.0])


def test_the_choice_of_bands_meets_the_target_with_the_least_noise():
    choice = dp.choose_bands(64, batch_size=100, records=1600, epsilon=2, delta=1e-6)
    assert [row.bands for row in choice.rows] == [1, 2, 4, 8, 16]
    assert min(row.error for row in choice.rows) == choice.best.error
    for row in choice.rows:
        assert dp.account(row.mechanism).epsilon(1e-6) <= 2
        assert row.sampling_probability == pytest.approx(row.bands * 100 / 1600)
        sums = dp.RunningSum(
            row.factorization,
            noise_multiplier=row.noise_multiplier,
            shape=1,
            participation=row.participation,
            simulation=True,
        )
        assert sums.mechanism == row.mechanism
        variance = np.mean([sums.noise_variance(k + 1) for k in range(64)])
        assert row.error == pytest.approx(np.sqrt(variance), rel=1e-9)
    table = str(choice).splitlines()
    assert len(table) == 6
    assert [line for line in table if line.endswith("least")] == [table[2]]


def test_numbers_of_bands_are_checked():
    settings = {"batch_size": 100, "records": 1600, "epsilon": 2, "delta": 1e-6}
    with pytest.raises(ValueError, match="bands=17 to be <= 16"):
        dp.choose_bands(64, bands=(1, 17), **settings)
    with pytest.raises(ValueError, match="at least one number"):
        dp.choose_bands(64, bands=(), **settings)
    assert [row.bands for row in dp.choose_bands(6, bands=(5, 3), **settings).rows] == [3, 5]
