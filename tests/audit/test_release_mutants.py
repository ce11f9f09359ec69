"""Each check of the release code fails on a mutant of its source, and passes on the source."""

import math
from fractions import Fraction

import numpy as np
import pytest

import privacy as dp
from tests.mutants import Patch, caught, package

SEEDED = dict(rng=5, simulation=True)
INSIDE = "bits -= shorter != 0"
SLACK = "    return (len(columns) + 16) * ULP"


CUMULATIVE = """np.diff(np.cumsum(np.r_[0.0, column[np.argsort(codes, kind="stable")]])[
        np.r_[0, np.cumsum(np.bincount(codes))]])"""


def refuses(call):
    """Return whether a call raises ValueError."""
    try:
        call()
    except ValueError:
        return True
    return False


def check_norms(load):
    """No exact norm of a clipped row is above the bound."""
    pick = np.random.default_rng(1)
    rows = pick.normal(size=(1000, 3)) * 10.0 ** pick.integers(-3, 4, (1000, 1))
    for norm, order, bound in (("l2", 2, 1.0), ("l1", 1, 0.1), ("l2", 2, 100 * 5e-324)):
        on_the_edge = rows / np.linalg.norm(rows, ord=order, axis=1)[:, None] * bound
        for row in load("clipping").clip_rows(np.r_[rows, on_the_edge], bound, norm).tolist():
            exact = [Fraction(abs(x)) for x in row]
            size = sum(x * x for x in exact) if norm == "l2" else sum(exact)
            assert size <= Fraction(bound) ** order
    tiny = load("clipping").clip_rows(np.array([[1.0] + 29 * [0.007]]), 100 * 5e-324, "l1")
    assert sum(Fraction(x) for x in tiny[0].tolist()) <= Fraction(100 * 5e-324)


def check_not_finite(load):
    """A NaN or an infinity contributes zero, and does not change the sums of others."""
    for data in ([[math.nan, 1.0]], [[math.inf, 1.0]], [[-math.inf, 0.5]]):
        with np.errstate(invalid="ignore"):
            assert not refuses(lambda d=data: load("clipping").clip_records(d, clip_norm=1.0))
        assert load("clipping").clip_records(data, clip_norm=1.0).values[0, 0] == 0


def check_other_users(load):
    """No bit of a user's sum depends on the rows of another user."""
    pick = np.random.default_rng(2)
    users, rows = pick.integers(0, 3, 4000), pick.normal(size=4000) ** 9
    clip_users = load("clipping").clip_users
    both = clip_users(rows, users, clip_norm=1e9).values
    alone = clip_users(rows[users != 0], users[users != 0], clip_norm=1e9).values
    assert both[1:].tobytes() == alone.tobytes()
    wide = pick.normal(size=(200, 33)) ** 9
    for norm in ("l1", "l2"):
        clip = load("clipping").clip_records
        table = clip(np.asfortranarray(wide), clip_norm=1.0, norm=norm).values
        for row in range(200):
            alone = clip(wide[row : row + 1], clip_norm=1.0, norm=norm).values
            assert alone.tobytes() == table[row].tobytes()


def check_identity(load):
    """Two different users are not bounded as one."""
    for users in (["ann", "ann\0"], [2**63, -1]):
        assert len(load("clipping").clip_users([1.0, 1.0], users, clip_norm=1.0).users) == 2
    assert refuses(lambda: load("clipping").clip_users([1.0, 1.0], [1, "1"], clip_norm=1.0))


def check_cap(load):
    """What a user contributes to all releases stays under the cap."""
    cap = load("lifetime").LifetimeCap(clip_norm=1.0)
    values = [cap.clip_users([[0.3, 0.4]], [1]).values[0] for _ in range(30)]
    assert sum(Fraction(x) ** 2 for row in values for x in row.tolist()) <= 1


def check_dimension(load):
    """The bound in another norm holds."""
    contributions = load("clipping").clip_records(np.ones((1, 9)), clip_norm=1.0)
    assert np.abs(contributions.values).sum() <= contributions.bound_in("l1")


def check_exact_sum(load):
    """A release is a whole number of steps: the exact sum of truncated rows, and the noise."""
    pick = np.random.default_rng(3)
    rows = pick.normal(size=2000) * 10.0 ** pick.integers(-12, 0, 2000)
    contributions = load("clipping").clip_records(rows, clip_norm=1.0)
    release = load("sums").release_sum(contributions, dp.Gaussian(0.5), **SEEDED)
    step = Fraction(release.step)
    noise = load("noise").rounded_gaussian(Fraction(1, 2) / step, (), **SEEDED)
    total = sum(math.trunc(Fraction(x) / step) for x in contributions.values.tolist())
    assert Fraction(float(release.values)) == (total + int(noise)) * step


def check_spread(load):
    """The noise has the scale that its mechanism states, for any contributions."""
    for value in (0.0, 9.0):
        contributions = load("clipping").clip_records(np.full((1, 4000), value), clip_norm=1.0)
        for mechanism, spread in ((dp.Gaussian(3.0), 3.0), (dp.Laplace(3.0), 4000 * 4.24)):
            if isinstance(mechanism, dp.Laplace):
                spread /= math.sqrt(4000)  # the L1 bound of a row that was clipped in L2
            release = load("sums").release_sum(contributions, mechanism, **SEEDED)
            assert abs(release.values.std() / spread - 1) < 0.1


def check_replaced(load):
    """A mechanism that charges less than 2 clip norms for a replaced record is refused."""
    contributions = load("clipping").clip_records([1.0, -1.0], clip_norm=1.0)
    mechanism = dp.Gaussian(1.0, replace_distance=1.0)
    assert refuses(lambda: load("sums").release_sum(contributions, mechanism))


def check_choice(load):
    """A score changes by at most the sensitivity used for its noise."""
    module, found = load("norm_choice"), []
    module.permute_and_flip = lambda scores, rate, _: found.append((scores, rate)) or 0
    for data in ([0.5, 1.5, 2.5], [0.5, 1.5, 0.5]):
        module.choose_clip_norm(
            data, candidates=[1, 2], epsilon=1.0, quantile=0.5, relation="REPLACE_ONE"
        )
    (here, rate), (there, _) = found
    moved = max(abs(a - b) for a, b in zip(here, there, strict=True))
    assert 2 * rate * moved <= 1


def check_seed(load):
    """A seed is refused for noise that is released."""
    assert refuses(lambda: load("noise").discrete_gaussian(3, 5, rng=1))


def check_refined(load):
    """If the first bits do not decide, the following bits do."""
    noise = load("_laws")
    law = noise.Law(Fraction(100), is_gaussian=True)
    block, offset = np.array([3]), np.array([5])
    look = noise.exp_bounds(law.gap(3, 5, law.offset_bits), 8)[0]
    for byte, kept in ((b"\x00", True), (b"\xff", False)):
        words = iter([bytes([look]), 8 * byte])
        assert noise._kept(law, block, offset, lambda _, w=words: next(w), 8)[0] == kept


def check_first_look(load):
    """If the first bits decide, exact arithmetic agrees for all continuations."""
    noise, left_open = load("_laws"), []
    noise._refined_kept = lambda law, block, offset, look, *_: left_open.append(look)
    for scale in (1, 10, 2**30 + Fraction(1, 3), 2**40):
        for is_gaussian, is_rounded in ((True, True), (False, True), (True, False)):
            law = noise.Law(Fraction(scale), is_gaussian, is_rounded)
            bits = law.offset_bits
            for block in (0, 1, 7, 40) if bits else ():
                for offset in (0, 1, (1 << bits) // 3, (1 << bits) - 1):
                    left_open.clear()
                    every = bytes(range(256))
                    places = np.full(256, block), np.full(256, offset)
                    kept = noise._kept(law, *places, lambda _, words=every: words, 8)
                    most = noise.exp_bounds(law.gap(block, offset, bits), 200)[1]
                    least = noise.exp_bounds(law.gap(block, offset + is_rounded, bits), 200)[0]
                    for look in set(range(256)) - set(left_open):
                        if kept[look]:
                            assert look + 1 << 192 <= least
                        else:
                            assert look << 192 >= most


def check_open_end(load):
    """Bits of a real number that are not yet drawn are not treated as zeros."""
    noise = load("_laws")
    law = noise.Law(Fraction(1), is_gaussian=True, is_rounded=True)
    pick, seen = np.random.default_rng(6), 0
    for offset in pick.integers(0, 1 << law.offset_bits, 60).tolist():
        first = int(pick.integers(0, 1 << 62))
        place, bits = offset << 64 | first, law.offset_bits + 64
        near, far = (noise.exp_bounds(law.gap(9, place + k, bits), 72)[0] for k in (0, 1))
        if near == far:
            continue
        seen += 1  # u is just below the weight at k = 0, but the later bits are nearly k = 1
        words = iter([near - 1 & (1 << 64) - 1, first, (1 << 64) - 1, (1 << 64) - 1])
        source = lambda _, w=words: next(w).to_bytes(8, "little")  # noqa: E731
        assert not noise._refined_kept(law, 9, offset, near - 1 >> 64, 8, source)
    assert seen > 3


def check_laws(load):
    """The samplers match their distributions with narrow words, where refinement is frequent."""
    noise = load("_laws")
    x = np.arange(-400, 401)
    for scale, is_gaussian, is_rounded in (
        (2, True, False),
        (40, True, False),
        (5, False, False),
        (1, True, True),
    ):
        law = noise.Law(Fraction(scale), is_gaussian, is_rounded)
        drawn = noise.draw(law, 200_000, np.random.default_rng(4).bytes, width=8)
        if is_rounded:
            cdf = np.array([math.erfc(-(k + 0.5) / math.sqrt(2)) / 2 for k in range(-401, 401)])
            expected = np.diff(cdf)
        else:
            expected = np.exp(-((x / scale) ** 2) / 2 if is_gaussian else -np.abs(x) / scale)
            expected /= expected.sum()
        expected *= drawn.size
        seen = np.bincount(np.clip(drawn, -400, 400) + 400, minlength=x.size)
        often = expected > 20
        statistic = ((seen - expected)[often] ** 2 / expected[often]).sum()
        free = often.sum()
        assert statistic < free + 5 * math.sqrt(2 * free)
        assert seen[~often].sum() < expected[~often].sum() + 60


MUTANTS = [
    ("clip by float rounding", check_norms, "clipping", INSIDE, "pass"),
    ("norm by float rounding", check_norms, "clipping", SLACK, "    return 0.0"),
    (
        "naive clip",
        check_norms,
        "clipping",
        "columns[:, outside] = shorter",
        "columns = columns * np.minimum(1, bounds / np.linalg.norm(columns, axis=0))",
    ),
    ("NaN through", check_not_finite, "_tables", "np.isfinite(values)", "~np.isinf(values)"),
    ("inf through", check_not_finite, "_tables", "np.isfinite(values)", "~np.isnan(values)"),
    (
        "sums of all users in one",
        check_other_users,
        "clipping",
        "np.bincount(codes, column, len(ids))",
        CUMULATIVE,
    ),
    (
        "NumPy's own sum",
        check_other_users,
        "clipping",
        "    for column in columns:\n        total += column",
        "    total = columns.sum(axis=0)",
    ),
    (
        "two users as one",
        check_identity,
        "_tables",
        "_array_codes(_user_array(users))",
        "_array_codes(np.asarray(users))",
    ),
    ("cap forgets", check_cap, "lifetime", "self._spent.update(", "dict().update("),
    ("cap spends roots", check_cap, "lifetime", "shares * shares)", "shares * shares) ** 2"),
    ("dimension forgotten", check_dimension, "clipping", "roots <= 0 or", "roots <= 5 or"),
    (
        "float sum",
        check_exact_sum,
        "sums",
        "quantized(contributions.values, exponent)",
        "quantized(contributions.values.sum(axis=0, keepdims=True), exponent)",
    ),
    ("rounded to nearest", check_exact_sum, "sums", "np.trunc(np.ldexp(", "np.rint(np.ldexp("),
    (
        "noise before clipping",
        check_spread,
        "sums",
        "values = np.asarray(np.ldexp(noisy.astype(np.float64), exponent))",
        "values = np.clip(np.ldexp(noisy.astype(np.float64), exponent), -bound, bound)",
    ),
    (
        "noise for another norm",
        check_spread,
        "sums",
        'bound_in("l1"), mechanism.scale',
        'bound_in("l2"), mechanism.scale',
    ),
    (
        "wrong relation",
        check_replaced,
        "sums",
        'distance != 2, "replace_distance"',
        'distance > 2, "replace_distance"',
    ),
    (
        "wrong relation of a choice",
        check_choice,
        "norm_choice",
        "if comes_or_goes else Fraction(1)",
        "if True else comes_or_goes",
    ),
    (
        "seed accepted",
        check_seed,
        "noise",
        'if checks.flag("simulation", simulation, remedy):',
        "if simulation or rng is not None:",
    ),
    ("zero twice", check_laws, "_laws", "kept &= ~(negative & (size == 0))", "pass"),
    ("block edge", check_laws, "_laws", "start = -(-high >> extra)", "start = low >> extra"),
    (
        "undecided lanes guessed",
        check_laws,
        "_laws",
        "block[lane] = _refined_block(law, int(look[lane]), width, source)",
        "block[lane] = 0",
    ),
    (
        "undecided lanes kept",
        check_refined,
        "_laws",
        "kept[lane] = _refined_kept(",
        "kept[lane] = (",
    ),
    (
        "unseen bits forgotten",
        check_first_look,
        "_laws",
        "(1 - growth - _TRUST)",
        "(1 - 0 * growth - _TRUST)",
    ),
    ("too much trust", check_first_look, "_laws", "_TRUST = 2.0**-40", "_TRUST = -(2.0**-6)"),
    ("open end", check_open_end, "_laws", "offset + open_end, offset_bits", "offset, offset_bits"),
    ("rounded down", check_laws, "_laws", "size + (1 << _FRACTION_BITS - 1)", "size"),
    (
        "every place kept",
        check_laws,
        "_laws",
        "_kept(law, block, offset, source, width) if bits else",
        "np.ones(count, dtype=bool) if bits else",
    ),
]


@pytest.mark.parametrize(
    ("check", "patch"),
    [pytest.param(check, Patch(*where), id=name) for name, check, *where in MUTANTS],
)
def test_a_mutant_is_caught(check, patch):
    assert caught("privacy.release", patch, check)


def test_a_patch_that_changes_nothing_survives():
    same = Patch("clipping", INSIDE, f"{INSIDE}; pass")
    assert not caught("privacy.release", same, check_norms)


def test_original_modules_are_restored():
    from privacy.release import clipping

    with package("privacy.release", Patch("clipping", INSIDE, "pass")) as load:
        assert load("clipping") is not clipping
    from privacy.release import clipping as again

    assert again is clipping
    assert dp.clip_records([3.0], clip_norm=1.0).values.tolist() == [1.0]
