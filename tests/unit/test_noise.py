"""The samplers against the exact distributions, with narrow words for frequent refinement."""

import math
import random
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.special import gammaincc, kolmogorov, ndtr

import privacy as dp
from privacy.release._laws import (
    Law,
    _refined_block,
    _refined_kept,
    bernoulli_exp,
    block_bounds,
    block_table,
    draw,
    exp_bounds,
    uniform_below,
)
from privacy.release.noise import random_source

LAWS = [
    Law(Fraction(3, 10), is_gaussian=True),
    Law(Fraction(10), is_gaussian=True),
    Law(Fraction(35, 2), is_gaussian=True),  # blocks of two
    Law(Fraction(100), is_gaussian=True),
    Law(Fraction(3, 2), is_gaussian=False),
    Law(Fraction(20), is_gaussian=False),
    Law(Fraction(1), is_gaussian=True, is_rounded=True),
    Law(Fraction(10), is_gaussian=True, is_rounded=True),
    Law(Fraction(3, 2), is_gaussian=False, is_rounded=True),
    Law(Fraction(20), is_gaussian=False, is_rounded=True),
]


def named(law):
    kind = "gaussian" if law.is_gaussian else "laplace"
    return f"{'rounded' if law.is_rounded else 'discrete'}-{kind}-{float(law.scale):g}"


def tail(law, x):
    """Return P(X > x) of the law's real variable, x >= 0."""
    return ndtr(-x) if law.is_gaussian else np.exp(-x) / 2


def probabilities(law, integers):
    """Return the exact law from its formula."""
    scale, size = float(law.scale), np.abs(integers)
    if law.is_rounded:
        inner = np.where(size == 0, 1 - tail(law, 0.5 / scale), tail(law, (size - 0.5) / scale))
        return inner - tail(law, (size + 0.5) / scale)
    weights = np.exp(-((size / scale) ** 2) / 2 if law.is_gaussian else -size / scale)
    return weights / weights.sum()


def chi_square(law, drawn):
    """Return the p-value of the chi-square test."""
    most = int(45 * law.scale) + 5
    integers = np.arange(-most, most + 1)
    expected = probabilities(law, integers) * drawn.size
    assert expected.sum() == pytest.approx(drawn.size, rel=1e-9)
    seen = np.bincount(np.clip(drawn, -most, most) + most, minlength=integers.size)
    often = expected > 10
    seen = np.append(seen[often], seen[~often].sum())
    expected = np.append(expected[often], max(expected[~often].sum(), 1e-9))
    statistic = ((seen - expected) ** 2 / expected).sum()
    return gammaincc((seen.size - 1) / 2, statistic / 2)


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_a_million_draws_fit_the_distribution(law):
    drawn = draw(law, 1_000_000, random_source(11, simulation=True))
    assert chi_square(law, drawn) > 1e-4


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_narrow_first_words_give_the_same_distribution(law):
    assert (block_table(law, 8) < 0).mean() > 0.003
    drawn = draw(law, 60_000, random_source(12, simulation=True), width=8)
    assert chi_square(law, drawn) > 1e-4


def laplace_cdf(x):
    return np.where(x < 0, 0, 1) - np.sign(x) * np.exp(-np.abs(x)) / 2


@pytest.mark.parametrize(
    ("sampler", "cdf"),
    [
        (dp.discrete_gaussian, ndtr),
        (dp.rounded_gaussian, ndtr),
        (dp.discrete_laplace, laplace_cdf),
        (dp.rounded_laplace, laplace_cdf),
    ],
)
def test_kolmogorov_smirnov_of_a_fine_lattice(sampler, cdf):
    drawn = np.sort(sampler(2.0**30, 1_000_000, rng=13, simulation=True)) / 2.0**30
    steps = np.arange(drawn.size + 1) / drawn.size
    below = cdf(drawn)
    distance = max((steps[1:] - below).max(), (below - steps[:-1]).max())
    assert kolmogorov(math.sqrt(drawn.size) * distance) > 1e-4


@pytest.mark.parametrize("bits", [8, 64, 300])
def test_exp_bounds_hold_and_are_near(bits):
    pick = random.Random(14)
    with mpmath.workprec(3 * bits + 200):
        for _ in range(100):
            scale = 10 ** pick.randint(-12, 3)
            energy = Fraction(pick.randint(0, 10**6), 10**6) * Fraction(scale)
            low, high = exp_bounds(energy, bits)
            exact = mpmath.exp(-mpmath.mpf(energy.numerator) / energy.denominator) * 2**bits
            assert low <= exact <= high
            assert high - low <= 2


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_block_bounds_hold_and_are_near(law):
    bits = 80
    with mpmath.workprec(200):
        length = Fraction(2) ** law.block_bits

        def weight(v):
            energy = law.energy(v * length)
            return mpmath.exp(-mpmath.mpf(energy.numerator) / energy.denominator)

        total = mpmath.nsum(lambda v: weight(int(v)), [0, 3000], method="d")
        seen = mpmath.mpf(0)
        for v, (low, high) in enumerate(zip(*block_bounds(law, bits), strict=True)):
            seen += weight(v)
            assert low <= seen / total * 2**bits <= high
            assert high - low <= 2


def scripted(data):
    """Return a source that gives bytes of one big number, from its top."""
    words = iter([data[i : i + 8][::-1] for i in range(0, len(data), 8)])
    return lambda _: next(words)


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_a_refined_block_is_the_inverse_of_the_exact_sums(law):
    pick = random.Random(15)
    below, _ = block_bounds(law, 600)
    for look in [*range(0, 256, 9), 255]:
        data = pick.randbytes(64)
        uniform = (look << 512 | int.from_bytes(data)) << 80
        found = _refined_block(law, look, 8, scripted(data))
        assert below[found] > uniform
        assert found == 0 or below[found - 1] <= uniform


def test_undecided_blocks_draw_more_bits():
    law = Law(Fraction(10), is_gaussian=True)
    below, above = block_bounds(law, 400)
    for v in (0, 3, 17):
        for edge, answer in ((below[v] - 1, v), (above[v] + 1, v + 1)):
            uniform = edge >> 8  # 392 bits, which agree with the edge in all but the last
            uniform = uniform - 1 if answer == v else uniform + 1
            data = (uniform & (1 << 384) - 1).to_bytes(48)
            assert _refined_block(law, uniform >> 384, 8, scripted(data)) == answer


@pytest.mark.parametrize(("count", "below"), [(1, {0}), (5, set(range(5))), (256, set(range(256)))])
def test_uniform_below_reaches_all_and_no_more(count, below):
    source = random_source(16, simulation=True)
    seen = [uniform_below(count, source) for _ in range(5000)]
    assert set(seen) == below


def test_bernoulli_of_zero_and_of_huge_energy():
    source = random_source(17, simulation=True)
    assert bernoulli_exp(Fraction(0), source)
    assert not bernoulli_exp(Fraction(10**9), source)
    heads = sum(bernoulli_exp(Fraction(1, 2), source) for _ in range(20_000))
    assert abs(heads / 20_000 - math.exp(-0.5)) < 0.015


def test_acceptance_by_floats_agrees_with_acceptance_by_integers():
    # numpy.exp is trusted to 2^-40: where it decides, exact arithmetic says the same
    from privacy.release._laws import _TRUST

    law = Law(Fraction(2**30), is_gaussian=True)
    pick = np.random.default_rng(18)
    block, offset = pick.integers(0, 200, 2000), pick.integers(0, 1 << law.block_bits, 2000)
    gap, _ = law.gaps(block, offset)
    for v, u, near in zip(block.tolist(), offset.tolist(), np.exp(-gap).tolist(), strict=True):
        low, high = exp_bounds(law.gap(v, u, law.offset_bits), 200)
        assert Fraction(low, 2**200) * (1 - Fraction(_TRUST) / 1000) <= Fraction(near)
        assert Fraction(near) <= Fraction(high, 2**200) * (1 + Fraction(_TRUST) / 1000)


def test_a_kept_lane_agrees_with_the_exact_probability():
    law = Law(Fraction(100), is_gaussian=True)
    pick = random.Random(19)
    for _ in range(300):
        block, offset = pick.randrange(30), pick.randrange(8)
        data = pick.randbytes(32)
        low, _ = exp_bounds(law.gap(block, offset, 3), 264)
        look = low >> 256  # first bits equal to those of the bound, so that later bits decide
        uniform = look << 256 | int.from_bytes(data)
        assert _refined_kept(law, block, offset, look, 8, scripted(data)) == (uniform < low)


@pytest.mark.parametrize("law", LAWS, ids=named)
def test_neighboring_sums_reach_the_same_outputs(law):
    source = random_source(20, simulation=True)
    reach = int(2.5 * law.scale) + 1
    outputs = [set((total + draw(law, 40_000, source, width=8)).tolist()) for total in (0, 1)]
    everything = set(range(-reach + 1, reach + 1))
    assert everything <= outputs[0]
    assert everything <= outputs[1]


def test_rounded_noise_keeps_the_whole_profile_and_discrete_noise_does_not():
    for sigma in (1.0, 3.73, 37.0):
        integers = np.arange(-int(40 * sigma), int(40 * sigma) + 1)
        curve = dp.account(dp.Gaussian(sigma))
        for rounded in (True, False):
            law = Law(Fraction(sigma), is_gaussian=True, is_rounded=rounded)
            here = probabilities(law, integers)
            there = probabilities(law, integers - 1)
            ratios = [
                np.maximum(here - math.exp(epsilon) * there, 0).sum() / curve.delta(epsilon)
                for epsilon in np.linspace(0.01, 6 / sigma, 200)
            ]
            if rounded:
                assert max(ratios) <= 1 + 1e-9
            elif sigma == 1:
                assert max(ratios) > 2


def test_shapes_and_types():
    for sampler in (dp.discrete_gaussian, dp.discrete_laplace):
        drawn = sampler(Fraction(7, 3), (3, 4))
        assert drawn.shape == (3, 4)
        assert drawn.dtype == np.int64
    assert dp.rounded_gaussian(5, 0).shape == (0,)
    assert dp.rounded_laplace(5, ()).shape == ()
    # so small that it is always zero
    assert not dp.discrete_gaussian(1e-300, 1000).any()
    assert not dp.discrete_laplace(5e-324, 1000).any()


@pytest.mark.parametrize(
    "scale", [np.uint8(200), np.int32(2**20), np.int64(2**35), np.float32(1.5), np.longdouble(3)]
)
def test_numpy_numbers_are_accepted(scale):
    for sampler in (dp.discrete_gaussian, dp.discrete_laplace, dp.rounded_gaussian):
        block_bounds.cache_clear()
        block_table.cache_clear()
        drawn = sampler(scale, 1000, rng=1, simulation=True)
        exact = Fraction(int(scale)) if isinstance(scale, np.integer) else Fraction(float(scale))
        assert (drawn == sampler(exact, 1000, rng=1, simulation=True)).all()


def test_system_noise_differs_and_seeded_noise_repeats():
    assert (dp.discrete_gaussian(2**30, 100) != dp.discrete_gaussian(2**30, 100)).any()
    one, two = (dp.discrete_gaussian(2**30, 100, rng=1, simulation=True) for _ in range(2))
    assert (one == two).all()
    generator = np.random.default_rng(1)
    three = dp.discrete_gaussian(2**30, 100, rng=generator, simulation=True)
    four = dp.discrete_gaussian(2**30, 100, rng=generator, simulation=True)
    assert (three == one).all()
    assert (four != one).any()


@pytest.mark.parametrize(
    "sampler",
    [dp.discrete_gaussian, dp.discrete_laplace, dp.rounded_gaussian, dp.rounded_laplace],
)
def test_bad_input_is_refused(sampler):
    for scale in (0, -1, math.nan, math.inf, 2.0**41):
        with pytest.raises(ValueError, match=r"Expected (sigma|scale)="):
            sampler(scale, 3)
    for scale in ("1", None, True):
        with pytest.raises(TypeError, match=r"Expected (sigma|scale)="):
            sampler(scale, 3)
    with pytest.raises(TypeError, match="Expected simulation='False' to be True or False"):
        sampler(3, 3, simulation="False")
    for rng in (7, np.random.default_rng(7)):
        with pytest.raises(ValueError, match="simulation=True"):
            sampler(3, 3, rng=rng)


def test_rounded_noise_needs_a_lattice_finer_than_the_noise():
    with pytest.raises(ValueError, match=">= 1"):
        dp.rounded_gaussian(0.5, 3)


def test_float_noise_is_named_for_simulation():
    drawn = dp.float_gaussian_for_simulation(2.0, 100_000, rng=1)
    assert drawn.std() == pytest.approx(2.0, rel=0.02)
    assert (drawn == dp.float_gaussian_for_simulation(2.0, 100_000, rng=1)).all()
    with pytest.raises(ValueError, match="Expected sigma=-1"):
        dp.float_gaussian_for_simulation(-1, 3)
