"""Factorizations of the running sum: noise and sensitivity."""

import itertools
import math

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import privacy as dp
from privacy.certification import sensitivity
from privacy.numerics import storage
from privacy.running_sums import optimum, series
from privacy.running_sums.factorizations import build

F, P = dp.Factorization, dp.Participation

MAKERS = {
    "independent": F.independent,
    "binary tree": F.binary_tree,
    "Honaker tree": F.honaker_tree,
    "Honaker prefixes": lambda releases: F.honaker_tree(releases, published="prefixes"),
    "square root": F.square_root,
    "column-normalized": F.column_normalized,
    "banded": lambda releases: F.banded(releases, band=3),
    "buffered": lambda releases: F.buffered(releases, buffers=6),
    "mean-square": F.optimized,
    "max": lambda releases: F.optimized(releases, objective="max"),
}
# Mean and largest noise over the releases, in units of the noise of one release.
COLUMNS = "independent", "binary tree", "Honaker tree", "square root", "column-normalized"
TABLE = {
    8: ((2.04, 2.83), (2.49, 3.46), (2.11, 2.99), (1.58, 1.72), (1.51, 1.57)),
    33: ((3.91, 5.74), (3.79, 5.48), (3.07, 4.44), (2.02, 2.18), (1.92, 2.01)),
    100: ((6.71, 10.0), (4.64, 6.48), (3.66, 5.15), (2.36, 2.53), (2.26, 2.35)),
    1000: ((21.1, 31.6), (6.93, 9.49), (5.28, 7.28), (3.10, 3.27), (2.98, 3.07)),
}
BEST = {8: (1.49, 1.64), 33: (1.90, 2.09), 100: (2.23, 2.45)}
each = pytest.mark.parametrize("name", MAKERS)


def noise(factorization):
    return factorization.sensitivity() * factorization.noise_std()


def to_three_digits(value):
    return float(f"{value:.3g}")


@pytest.mark.parametrize(
    ("releases", "name", "expected"),
    [
        (releases, name, pair)
        for releases, pairs in TABLE.items()
        for name, pair in (*zip(COLUMNS, pairs, strict=True), ("mean-square", BEST.get(releases)))
        if pair is not None
    ],
)
def test_noise_table(releases, name, expected):
    found = noise(MAKERS[name](releases))
    assert (to_three_digits(found.mean()), to_three_digits(found.max())) == expected


@each
@pytest.mark.parametrize("releases", [1, 2, 7, 16, 33, 100])
def test_the_factors_multiply_to_the_running_sum(name, releases):
    factorization = MAKERS[name](releases)
    encoder, decoder = factorization.encoder(), factorization.decoder()
    assert np.abs(decoder @ encoder - np.tri(releases)).max() < 1e-12
    assert not np.triu(encoder, 1).any()
    assert np.abs(np.triu(decoder, 1)).max(initial=0) < 1e-12
    rows = np.zeros_like(encoder)
    for k in range(releases):
        row = factorization.row(k)
        assert len(row) <= factorization.band
        rows[k, k + 1 - len(row) : k + 1] = row
    assert np.array_equal(rows, encoder)
    exact = np.sqrt(np.square(decoder).sum(axis=1))
    assert np.allclose(factorization.noise_std(), exact, rtol=1e-12)
    assert np.abs(encoder).sum(axis=1).max() <= factorization.row_sum()
    part = max(1, releases // 2)
    assert np.array_equal(factorization.encoder(part), encoder[:part, :part])
    assert np.allclose(factorization.decoder(part), decoder[:part, :part], atol=1e-12)


@each
@pytest.mark.parametrize("releases", [1, 5, 16])
def test_one_participation_by_brute_force(name, releases):
    """The largest move of C x over unit vectors at one release, in one and in two dimensions."""
    factorization = MAKERS[name](releases)
    encoder = factorization.encoder()
    moves = []
    for j, angle in itertools.product(range(releases), np.linspace(0, np.pi, 7)):
        x = np.zeros((releases, 2))
        x[j] = math.cos(angle), math.sin(angle)
        moves.append(np.linalg.norm(encoder @ x))
    claimed = factorization.sensitivity()
    assert max(moves) <= claimed
    if name != "Honaker tree":  # charged for nodes beside the prefixes
        assert claimed <= max(moves) * (1 + 1e-12)


def largest_move(factorization, patterns):
    """The largest |C x| over inputs of norm 1 in the releases of a pattern, over all signs."""
    encoder = factorization.encoder()
    return max(
        float(np.linalg.norm(encoder[:, list(pattern)] @ np.array(signs)))
        for pattern in patterns
        for signs in itertools.product((1.0, -1.0), repeat=len(pattern))
    )


@each
@pytest.mark.parametrize("count", [1, 2, 5])
def test_consecutive_participations_by_brute_force(name, count):
    factorization = MAKERS[name](9)
    windows = [range(start, start + count) for start in range(10 - count)]
    reached = largest_move(factorization, windows)
    claimed = factorization.sensitivity(P.consecutive(count))
    assert reached <= claimed
    if name != "Honaker tree":  # every C here has entries >= 0, so that the bound is reached
        assert claimed <= reached * (1 + 1e-10)


@each
@pytest.mark.parametrize(("count", "separation"), [(2, 1), (2, 4), (3, 3), (4, 2), (3, 8)])
def test_separated_participations_by_brute_force(name, count, separation):
    factorization = MAKERS[name](9)
    patterns = [
        pattern
        for size in range(1, count + 1)
        for pattern in itertools.combinations(range(9), size)
        if all(b - a >= separation for a, b in itertools.pairwise(pattern))
    ]
    reached = largest_move(factorization, patterns)
    claimed = factorization.sensitivity(P.separated(count, separation=separation))
    assert reached <= claimed
    if name in {"independent", "square root", "banded"}:
        assert claimed <= reached * (1 + 1e-12)


@pytest.mark.parametrize("entry", [1e-200, 3e-162, 1e200])
def test_a_sensitivity_whose_square_is_out_of_range_is_refused(entry):
    """The square of 1e-200 is 0: noise of 1e-200 would have cost nothing."""
    tiny = dp.Factorization.from_encoder([[entry]])
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="between 1e-150 and 1e150"):
        tiny.mechanism(entry)


@pytest.mark.parametrize("coefficients", [[1.0, 2.0, 4.0], [1.0, -2.0, 3.0], [1.0, 0.5, 0.7]])
def test_the_sensitivity_formula_requires_nonincreasing_coefficients(coefficients):
    """The first columns are the worst ones only where the coefficients fall and stay >= 0."""
    factorization = build("toeplitz/1", "grows", 7, {"coefficients": np.array(coefficients)})
    for count, separation in ((2, 1), (3, 1), (2, 2)):
        patterns = [range(s, s + separation * count, separation) for s in range(3)]
        reached = largest_move(factorization, patterns)
        assert reached <= factorization.sensitivity(P.separated(count, separation=separation))
        if separation == 1:
            assert reached <= factorization.sensitivity(P.consecutive(count))


def test_releases_further_apart_than_the_band_share_no_noise():
    banded = F.banded(100, band=10)
    once = banded.sensitivity()
    apart = banded.sensitivity(P.separated(4, separation=10))
    assert apart == pytest.approx(2 * once, rel=1e-12)
    assert banded.sensitivity(P.separated(4, separation=9)) > 2.0001 * once


@pytest.mark.parametrize(("count", "expected"), [(1, 1.0), (5, 1.87), (10, 2.4248), (33, 3.34)])
def test_a_cap_shared_by_consecutive_releases(count, expected):
    """A record's contributions with squares that add up to 1, equal in consecutive releases."""
    factorization = F.column_normalized(33)
    share = 1 / math.sqrt(count)
    patterns = np.array([np.roll(np.arange(33) < count, s) for s in range(34 - count)]) * share
    found = factorization.sensitivity(P.explicit(patterns))
    assert found == pytest.approx(expected, abs=5e-5 if count == 10 else 5e-3)
    consecutive = factorization.sensitivity(P.consecutive(count))
    assert share * consecutive == pytest.approx(found, rel=1e-9)
    # where column norms alone would answer 1, for every count
    assert found <= factorization.sensitivity(P.lifetime_cap("l2"))
    assert factorization.sensitivity(P.lifetime_cap("l1")) == pytest.approx(1, abs=1e-12)


@each
def test_lifetime_caps_by_brute_force(name):
    factorization = MAKERS[name](12)
    encoder = factorization.encoder()
    _, values, right = np.linalg.svd(encoder)
    assert np.linalg.norm(encoder @ right[0]) == pytest.approx(values[0], rel=1e-12)
    assert values[0] <= factorization.sensitivity(P.lifetime_cap())
    draws = np.random.default_rng(5).standard_normal((200, 12))
    draws /= np.abs(draws).sum(axis=1, keepdims=True)
    reached = np.linalg.norm(encoder @ draws.T, axis=0).max()
    assert reached <= factorization.sensitivity(P.lifetime_cap("l1"))


def test_the_norm_of_a_matrix_too_large_to_write_out_is_bounded():
    small, large = F.square_root(1024), F.square_root(1025)
    assert small.operator_norm() < large.operator_norm() < 2 * small.operator_norm()
    with pytest.raises(ValueError, match="Expected releases=10000"):
        F.column_normalized(10_000).sensitivity(P.consecutive(2))


@pytest.mark.parametrize("name", MAKERS)
def test_sums_of_columns_and_the_diagonal_are_those_of_the_matrix(name):
    factorization = MAKERS[name](7)
    matrix = factorization.encoder()
    assert factorization.diagonal() == pytest.approx(matrix.diagonal(), rel=1e-12)
    assert factorization.column_sums() == pytest.approx(np.abs(matrix).sum(axis=0), rel=1e-12)


def test_a_million_releases_need_no_loop_over_rows(monkeypatch):
    def row(*_):
        raise AssertionError("K rows of K entries take an hour")

    for make in (F.column_normalized, F.square_root):
        factorization = make(1_000_000)
        monkeypatch.setattr(type(factorization), "row", row)
        assert factorization.sensitivity(P.lifetime_cap()) > 1
        assert dp.RunningSum(factorization, noise_multiplier=1.0, shape=1).sensitivity > 1
        monkeypatch.undo()


def test_explicit_patterns_use_absolute_gram_entries():
    """Contributions of opposite direction could make a negative entry of C'C count."""
    factorization = F.from_encoder([[1.0, 0.0], [-1.0, 1.0]])
    assert factorization.sensitivity(P.explicit([[1.0, 1.0]])) == pytest.approx(math.sqrt(5))
    assert factorization.sensitivity(P.consecutive(2)) == pytest.approx(math.sqrt(5))
    assert factorization.sensitivity(P.separated(2, separation=1)) == pytest.approx(math.sqrt(5))


def test_prefixes_alone_cost_less_than_the_nodes_of_a_tree():
    nodes, prefixes = F.honaker_tree(33), F.honaker_tree(33, published="prefixes")
    assert np.allclose(nodes.noise_std(), prefixes.noise_std(), rtol=1e-12)
    assert nodes.sensitivity() == pytest.approx(math.sqrt(6), rel=1e-12)
    assert prefixes.sensitivity() == pytest.approx(2.2764072, rel=1e-7)


def test_the_honaker_tree_is_the_best_unbiased_estimate_of_its_prefixes():
    """Least squares over all nodes that are complete, by the normal equations."""
    releases = 11
    nodes = [
        (end - 2**level, end)
        for end in range(1, releases + 1)
        for level in range(4)
        if end % 2**level == 0
    ]
    best = []
    for k in range(1, releases + 1):
        tree = np.array([[s <= j < e for j in range(k)] for s, e in nodes if e <= k], dtype=float)
        sums = np.ones(k)
        best.append(math.sqrt(sums @ np.linalg.solve(tree.T @ tree, sums)))
    assert np.allclose(F.honaker_tree(releases).noise_std(), best, rtol=1e-12)


@pytest.mark.parametrize("releases", [2, 9, 33])
def test_the_optimum_beats_all_others_and_their_neighbors(releases):
    best = F.optimized(releases)
    flat = F.optimized(releases, objective="max")
    mean = np.square(noise(best)).mean()
    largest = noise(flat).max()
    assert best.sensitivity() == pytest.approx(1, abs=1e-12)
    others = [make(releases) for make in MAKERS.values()]
    draw = np.random.default_rng(releases)
    for factorization in (best, flat):
        for size in (1e-3, 1e-2):
            moved = factorization.encoder()
            moved *= 1 + size * np.tril(draw.standard_normal(moved.shape))
            others.append(F.from_encoder(moved))
    for other in others:
        assert mean <= np.square(noise(other)).mean() * (1 + 1e-6)
        assert largest <= noise(other).max() * (1 + 1e-6)


@pytest.mark.parametrize("releases", [1, 2, 128, 129, 700])
def test_the_noise_of_scaled_columns_is_that_of_the_rows_of_the_decoder(releases):
    """Through several levels of halves, and with scales and signs that no factorization has."""
    draw = np.random.default_rng(releases)
    parts = [(F.column_normalized(releases).coefficients, draw.uniform(0.5, 2, releases))]
    parts += [(np.r_[1.0, draw.uniform(-1, 1, 99) / 50][:releases], parts[0][1])]
    made = [build("toeplitz/1", "a", releases, dict(coefficients=c, scale=s)) for c, s in parts]
    for factorization in (F.column_normalized(releases), *made):
        rows = np.sqrt(np.square(factorization.decoder()).sum(axis=1))
        assert np.allclose(factorization.noise_std(), rows, rtol=1e-12, atol=0)


def test_the_noise_of_very_many_releases():
    """Not computed from all pairs of releases, which would take half a minute."""
    factorization = F.column_normalized(100_000)
    noise = factorization.noise_std()
    inverse = series.inverse(factorization.coefficients, 100_000)
    for k in (0, 999, 50_000, 99_999):
        row = series.product(factorization.scale[k::-1], inverse[: k + 1], k + 1)
        assert noise[k] == pytest.approx(np.linalg.norm(row), rel=1e-10)


@pytest.mark.parametrize(("releases", "alone"), [(6, True), (8, False)])
def test_small_matrices_run_on_one_thread(monkeypatch, releases, alone):
    monkeypatch.setattr(optimum, "_SMALL", 7)
    limits, real = [], optimum.threadpool_limits

    def limited(threads, *, user_api):
        limits.append((threads, user_api))
        return real(threads, user_api=user_api)

    def eigh(matrix, eigh=optimum.eigh):
        pools = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert not alone or set(pools) == {1}
        return eigh(matrix)

    monkeypatch.setattr(optimum, "threadpool_limits", limited)
    monkeypatch.setattr(optimum, "eigh", eigh)
    F.optimized(releases, objective="max")
    assert limits == [(1 if alone else None, "blas")]


def test_a_larger_weight_reduces_the_noise_of_a_release():
    late = F.optimized(10, weights=[1e-3] * 9 + [1.0])
    even = F.optimized(10)
    assert noise(late)[-1] < noise(even)[-1] < noise(even)[0] * 2
    assert noise(late)[0] > noise(even)[0]


@pytest.mark.parametrize("small", [1e-300, 1e-16, 0.9e-6])
def test_too_unequal_weights_are_refused(small):
    with pytest.raises(ValueError, match=r"^Expected weights=.* to be within a factor of 1e\+06"):
        F.optimized(3, weights=[small, 1.0, 1.0])


def test_weights_of_any_size_count_by_their_ratios():
    even = F.optimized(5).encoder()
    for size in (5e-324, 1e-300, 1e308):
        assert np.allclose(F.optimized(5, weights=[size] * 5).encoder(), even, atol=1e-12)
    for place in (0, 20, 39):
        weights = np.ones(40)
        weights[place] = 1e-6
        assert F.optimized(40, weights=weights).sensitivity() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "instead"),
    [("_ITERATIONS", 1), ("_optimum", lambda counts, move: np.ones(2 * counts.shape))],  # singular
)
def test_an_optimum_that_is_not_found_raises_the_documented_error(monkeypatch, name, instead):
    monkeypatch.setattr(optimum, name, instead)
    with pytest.raises(ArithmeticError, match="has a relative gap"):
        F.optimized(9)


@pytest.mark.parametrize(("objective", "most"), [("mean-square", 3), ("max", 16)])
def test_the_search_at_the_last_side_starts_near_the_optimum(monkeypatch, objective, most):
    sides, eigh = [], optimum.eigh
    monkeypatch.setattr(optimum, "eigh", lambda matrix: sides.append(len(matrix)) or eigh(matrix))
    F.optimized(250, objective=objective)
    assert sides.count(250) <= most


def test_the_search_restarts_where_the_mixing_fails(monkeypatch):
    sides, eigh = [], optimum.eigh
    monkeypatch.setattr(optimum, "eigh", lambda matrix: sides.append(len(matrix)) or eigh(matrix))
    weights = np.full(83, 1e-6)
    weights[[1, 7, 9, 12, 16, 18, 41, 47, 48, 50, 59, 71, 72, 74, 76]] = 1.0
    F.optimized(83, weights=weights)
    assert len(sides) <= 250


def test_an_optimum_is_kept_in_a_folder(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    first = F.optimized(6, cache=folder)
    (file,) = folder.glob("*.npz")
    monkeypatch.setattr("privacy.running_sums.optimum._optimum", None)  # cannot be called
    assert np.array_equal(F.optimized(6, cache=folder).encoder(), first.encoder())
    monkeypatch.undo()
    file.write_bytes(file.read_bytes()[:100])
    assert np.array_equal(F.optimized(6, cache=folder).encoder(), first.encoder())
    storage.write(file, {}, {"matrix": np.ones((6, 6))})  # not lower triangular
    assert np.array_equal(F.optimized(6, cache=folder).encoder(), first.encoder())
    F.optimized(6, objective="max", cache=folder)
    F.optimized(6, weights=range(1, 7), cache=folder)
    assert len(list(folder.glob("*.npz"))) == 3


def test_buffers_come_close_to_the_square_root():
    for releases in (100, 10_000):
        root, buffered = F.square_root(releases), F.buffered(releases)
        assert noise(buffered).mean() < 1.001 * noise(root).mean()
        assert noise(buffered).max() < 1.005 * noise(root).max()


@each
def test_a_factorization_is_rebuilt_from_its_arrays(name):
    factorization = MAKERS[name](9)
    again = build(factorization.kind, name, 9, factorization.arrays())
    assert np.array_equal(again.encoder(), factorization.encoder())
    assert again.sensitivity() == factorization.sensitivity()
    for array in factorization.arrays().values():
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


@pytest.mark.parametrize(
    "matrix",
    [[[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 0.0]], [[math.nan]], [[1.0, 0.0]], [[math.inf]]],
)
def test_an_invalid_encoder_is_refused(matrix):
    with pytest.raises(ValueError, match=r"^Expected matrix=.* lower triangular"):
        F.from_encoder(matrix)


PARTICIPATIONS = {
    "once": P.once(),
    "consecutive": P.consecutive(4),
    "separated": P.separated(3, separation=2),
    "explicit": P.explicit([[0.5, 1, 0, 2, 0, 0, 1, 1], [1, 0, 0, 0, 0, 0, 0, 3]]),
    "l2": P.lifetime_cap(),
    "l1": P.lifetime_cap("l1"),
    "cyclic": P.cyclic_poisson(sampling_probability=0.1, groups=8),
}


def patterns(kind, releases=8):
    """Return all patterns of a participation, entrywise maximal or not."""
    if kind == "explicit":
        return PARTICIPATIONS[kind].patterns
    if kind == "consecutive":
        return [np.eye(releases)[k : k + 4].sum(0) for k in range(releases - 3)]
    if kind != "separated":
        return np.eye(releases)
    every = itertools.combinations(range(releases), 3)
    return [np.eye(releases)[[*each]].sum(0) for each in every if min(np.diff(each)) >= 2]


@each
@pytest.mark.parametrize("kind", PARTICIPATIONS)
def test_a_sensitivity_is_proven_and_a_smaller_one_refused(name, kind):
    factorization, participation = MAKERS[name](8), PARTICIPATIONS[kind]
    bound = factorization.sensitivity(participation)
    assert factorization.proves_sensitivity(bound, participation)
    matrix = factorization._handed_out()
    least = np.linalg.norm(matrix, 2)
    if kind != "l2":
        gram = np.abs(matrix.T @ matrix)
        least = max(np.sqrt(w @ gram @ w) for w in np.array(patterns(kind)))
    assert not factorization.proves_sensitivity(least * (1 - 1e-9), participation)


@pytest.mark.parametrize("kind", ["consecutive", "explicit"])
def test_a_proof_without_absolute_values_is_found_to_be_wrong(monkeypatch, kind):
    matrix = np.tril(np.random.default_rng(3).standard_normal((8, 8)))
    matrix[np.diag_indices(8)] = np.abs(matrix.diagonal())
    signed = F.from_encoder(matrix)
    w = np.array(patterns(kind))
    least = max(np.sqrt(w @ np.abs(matrix.T @ matrix) @ w) for w in w) * (1 - 1e-9)
    assert not signed.proves_sensitivity(least, PARTICIPATIONS[kind])
    monkeypatch.setattr(sensitivity, "_sizes", lambda gram: gram.tolist())
    assert signed.proves_sensitivity(least, PARTICIPATIONS[kind])


def test_a_proof_with_too_few_terms_is_found_to_be_wrong(monkeypatch):
    factorization = F.square_root(8)
    bound = factorization.sensitivity(P.separated(2, separation=2))
    assert not factorization.proves_sensitivity(bound, P.separated(3, separation=2))
    monkeypatch.setattr(PARTICIPATIONS["separated"].__class__, "_most", lambda *_: 2)
    assert factorization.proves_sensitivity(bound, P.separated(3, separation=2))


def test_the_largest_eigenvalue_needs_no_exact_eigenvectors(monkeypatch):
    matrix = F.square_root(8).encoder()
    true = np.linalg.norm(matrix, 2)
    exact = np.linalg.eigh
    turned = lambda gram: (0, exact(gram)[1] + 1e-3)  # noqa: E731
    monkeypatch.setattr(np.linalg, "eigh", turned)
    assert not sensitivity.proves(matrix, true * (1 - 1e-9))
    assert sensitivity.proves(matrix, true * 1.1)


def test_a_sensitivity_of_very_many_releases_is_not_proven():
    assert not F.square_root(513).proves_sensitivity(1e9)
