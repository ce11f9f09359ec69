"""Item features: the SVD, and the noise and guarantee of the private one."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.linalg import svds

import bandits
import privacy as dp
from bandits.offline import features
from bandits.offline.datasets import Ratings


def made(users=60, items=12, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((users, rank)) @ rng.standard_normal((rank, items))
    table = np.clip(table / np.abs(table).max(), -1, 1)
    user, item = np.indices(table.shape).reshape(2, -1)
    ids = np.arange(users), np.arange(items)
    return Ratings("made", user, item, table.ravel(), -1.0, 1.0, *ids), table


@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_svd_features_have_the_gram_matrix_of_the_best_approximation(shape):
    ratings, table = made(*shape)
    found = bandits.svd_features(ratings, 3).values
    _, values, right = np.linalg.svd(table)
    expected = right[:3].T * values[:3]
    expected /= np.linalg.norm(expected, axis=1).max()
    assert np.allclose(found @ found.T, expected @ expected.T)
    assert np.linalg.norm(found, axis=1).max() == pytest.approx(1)


def test_the_randomized_svd_of_a_large_matrix():
    rng = np.random.default_rng(1)
    users, items, each = 2100, 2050, 40
    left, right = rng.random((users, 2)), rng.random((items, 2))
    user = np.repeat(np.arange(users), each)
    item = np.concatenate([rng.permutation(items)[:each] for _ in range(users)])
    rating = (left[user] * right[item]).sum(1) / 2
    ratings = Ratings("made", user, item, rating, 0.0, 1.0, np.arange(users), np.arange(items))
    found = bandits.svd_features(ratings, 5).values
    values = np.sort(svds(features._table(ratings), 5, random_state=0)[1])[::-1]
    # only the first singular value is far above those due to missing ratings; the randomized SVD
    # underestimates the others a little
    norms = np.linalg.norm(found, axis=0)
    shares = norms / norms[0] / (values / values[0])
    assert shares[0] == pytest.approx(1)
    assert (shares <= 1 + 1e-6).all()
    assert (shares >= 0.93).all()
    assert (bandits.svd_features(ratings, 5).values == found).all()


@pytest.mark.parametrize(
    ("relation", "distance"),
    [("REPLACE_ONE", math.sqrt(2)), ("ADD_OR_REMOVE_ONE", 1.0), ("REPLACE_SPECIAL", 1.0)],
)
def test_the_noise_is_that_of_the_relation(relation, distance):
    ratings, _ = made()
    found = bandits.private_svd_features(ratings, 3, epsilon=1, delta=1e-5, relation=relation)
    reference = distance * dp.noise_multiplier(epsilon=1, delta=1e-5)
    assert found.mechanism.noise_multiplier == pytest.approx(reference, rel=1e-9)
    assert found.guarantee(1e-5).epsilon <= 1
    assert found.guarantee(1e-5).relation == relation


def test_the_replace_distance_sqrt_two_is_tight():
    one, other = np.eye(2)
    assert np.linalg.norm(np.outer(one, one) - np.outer(other, other)) == pytest.approx(
        math.sqrt(2)
    )
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((500, 2, 4))
    rows /= np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1)
    outer = rows[..., :, None] * rows[..., None, :]
    assert np.linalg.norm(outer[:, 0] - outer[:, 1], axis=(-2, -1)).max() <= math.sqrt(2)


def test_whole_rows_keep_the_bound_exactly():
    ratings, table = made()
    whole = features._whole_rows(ratings, 0.5, 2**20).toarray()
    assert whole.dtype == np.int64
    squares = (whole.astype(object) ** 2).sum(1)
    assert max(squares) <= 2**40
    clipped = table * np.minimum(1, 0.5 / np.linalg.norm(table, axis=1, keepdims=True))
    assert whole / 2**21 == pytest.approx(clipped, abs=2**-20)


def test_ratings_given_twice_are_clipped_together():
    ids = np.arange(1), np.arange(2)
    twice = Ratings("made", np.zeros(4, int), np.array([0, 0, 0, 1]), np.ones(4), -1.0, 1.0, *ids)
    whole = features._whole_rows(twice, 1.0, 2**20).toarray()
    assert np.square(whole).sum() <= 2**40


def test_the_released_matrix_is_symmetric_with_the_stated_variance(monkeypatch):
    ratings, _ = made(users=20, items=80)
    seen = []
    monkeypatch.setattr(features, "_top", lambda gram, _: seen.append(gram) or gram)
    found = bandits.private_svd_features(ratings, 3, epsilon=1, delta=1e-5, simulation=True, seed=3)
    whole = features._whole_rows(ratings, 1.0, 2**15)
    noise = (seen[0] - (whole.T @ whole).toarray()) / 4.0**15
    assert (noise == noise.T).all()
    sigma = found.mechanism.noise_multiplier
    beside = noise[np.triu_indices(80, 1)]
    assert beside.std() == pytest.approx(sigma / math.sqrt(2), rel=0.05)
    assert np.diag(noise).std() == pytest.approx(sigma, rel=0.35)


def test_much_budget_gives_the_features_without_privacy():
    ratings, _ = made()
    plain = bandits.svd_features(ratings, 3).values
    private = bandits.private_svd_features(
        ratings, 3, epsilon=1e6, delta=1e-5, clip_norm=2.0
    ).values
    assert np.allclose(plain @ plain.T, private @ private.T, atol=2e-2)


def test_costs_of_users_are_composed_and_of_rounds_refused():
    ratings, _ = made()
    found = bandits.private_svd_features(ratings, 3, epsilon=1, delta=1e-5)
    same = {"dimension": 3, "rounds": 1000, "epsilon": 1.0, "delta": 1e-5}
    users = bandits.AdaPrivateUser(cap=1.0, calibration="exact", **same)
    both = found.guarantee_with(users, 1e-5)
    # two Gaussian mechanisms: mu^2 adds
    mu = math.hypot(math.sqrt(2) / found.mechanism.noise_multiplier, 2 / users.noise_multiplier)
    exact = dp.account(dp.Gaussian(1 / mu)).epsilon(1e-5)
    assert both.epsilon == pytest.approx(exact, rel=1e-9)
    assert 1 < both.epsilon < 2
    with pytest.raises(ValueError, match="protects all rewards of one user"):
        found.guarantee_with(bandits.PrivateUCB(**same), 1e-5)
    with pytest.raises(ValueError, match="under REPLACE_ONE"):
        found.guarantee_with(
            bandits.AdaPrivateUser(cap=1.0, relation="REPLACE_SPECIAL", **same), 1e-5
        )
    assert bandits.svd_features(ratings, 3).guarantee_with(users, 1e-5).epsilon == math.inf


@pytest.mark.parametrize("epsilon", [1.0, 0.01, 1e-4])
def test_the_step_does_not_reveal_the_number_of_users(epsilon, monkeypatch):
    steps = []
    whole_rows = features._whole_rows
    monkeypatch.setattr(
        features, "_whole_rows", lambda *given: steps.append(given[-1]) or whole_rows(*given)
    )
    for users in (3, 3000):
        ratings, _ = made(users=users, items=2, rank=2)
        bandits.private_svd_features(ratings, 2, epsilon=epsilon, delta=1e-5)
    assert steps[0] == steps[1]


def test_errors_do_not_reveal_the_number_of_users():
    ratings, _ = made(users=3)
    assert bandits.private_svd_features(ratings, 5, epsilon=1, delta=1e-5).values.shape == (12, 5)


@pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
def test_an_empty_data_set_is_valid(relation):
    """Without users the release is noise; shapes and guarantees are those for one user."""
    options = {"epsilon": 1.0, "delta": 1e-5, "relation": relation}
    both = [
        bandits.private_svd_features(replaced, 3, **options) for replaced in (nobody(), made(1)[0])
    ]
    assert both[0].values.shape == both[1].values.shape == (12, 3)
    assert both[0].mechanism == both[1].mechanism
    assert both[0].guarantee(1e-5) == both[1].guarantee(1e-5)


def nobody():
    none = np.zeros(0, dtype=np.int64)
    return Ratings("made", none, none, np.zeros(0), -1.0, 1.0, none, np.arange(12))


def test_a_user_beyond_four_million_is_no_error():
    """2^22 users were accepted and one more was refused, which revealed that user."""
    ratings, _ = made(users=1)
    many = replace(ratings, user_ids=np.arange(2**22 + 1))
    assert bandits.private_svd_features(many, 3, epsilon=1, delta=1e-5).values.shape == (12, 3)


def test_errors_do_not_count_users_or_ratings():
    ratings, _ = made(users=57)
    for broken in (
        {"user": ratings.user + 1},
        {"user": ratings.user[1:]},
        {"item": ratings.item[1:]},
        {"rating": ratings.rating[1:]},
    ):
        with pytest.raises(ValueError, match=r"^Expected ") as caught:
            replace(ratings, **broken)
        assert "57" not in str(caught.value)
        assert "68" not in str(caught.value)  # 684 = 57 * 12 ratings, or one less


def test_seeded_noise_guarantees_nothing():
    ratings, _ = made()
    found = bandits.private_svd_features(ratings, 2, epsilon=1, delta=1e-5, simulation=True, seed=1)
    user = {"dimension": 2, "rounds": 10, "epsilon": 1.0, "delta": 1e-5}
    assert found.guarantee(1e-5).epsilon == math.inf
    assert found.guarantee_with(bandits.AdaPrivateUser(**user), 1e-5).epsilon == math.inf


def test_bad_input_is_refused():
    ratings, _ = made()
    with pytest.raises(ValueError, match="dimension=13"):
        bandits.svd_features(ratings, 13)
    for name, value in (("clip_norm", 0), ("epsilon", 0), ("clip_norm", math.nan)):
        with pytest.raises(ValueError, match=name):
            bandits.private_svd_features(ratings, 2, **{"epsilon": 1, "delta": 1e-5, name: value})
    for broken in (
        {"rating": np.where(ratings.rating > 0, math.nan, 0.123)},
        {"low": 1.0},
        {"high": 1e308},
        {"item": ratings.item + 1},
        {"user": ratings.user - 1},
        {"user": ratings.user[1:]},
        {"item": ratings.item * 1.0},
    ):
        with pytest.raises(ValueError, match=r"^Expected ") as caught:
            replace(ratings, **broken)
        assert "0.123" not in str(caught.value)
    for name, options in (
        ("noise_multiplier", {"epsilon": 1e-13, "delta": 1e-20}),
        ("relation", {"relation": "NOBODY"}),
        ("dimension", {"dimension": 13}),
    ):
        with pytest.raises(ValueError, match=f"^Expected {name}="):
            bandits.private_svd_features(
                ratings, **({"dimension": 2, "epsilon": 1, "delta": 1e-5} | options)
            )
    with pytest.raises(ValueError, match="Expected rng=1"):
        bandits.private_svd_features(ratings, 2, epsilon=1, delta=1e-5, seed=1)
