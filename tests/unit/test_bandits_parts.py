"""The parts of a bandit: factor, posterior, exploration, schedules, rewards."""

import itertools
import math

import numpy as np
import pytest

import bandits
import privacy as dp
from bandits.learning import linear_model, rewards, schedules
from bandits.learning.exploration import (
    Draws,
    Forced,
    Greedy,
    Noise,
    Thompson,
    UpperConfidence,
    prepared,
)
from bandits.learning.posterior import NoiseAware, Spectrum, most_likely_scale
from bandits.offline.environments import distinct


def unit(rng, *shape):
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("lead", [(), (3,)])
def test_square_root_update_follows_the_inverse(lead):
    rng = np.random.default_rng(1)
    root = np.zeros((*lead, 4, 4)) + np.eye(4)
    a = np.zeros((*lead, 4, 4)) + np.eye(4)
    for _ in range(50):
        x = unit(rng, *lead, 4)
        inverse_x, square = linear_model.add_round(root, x)
        expected = np.linalg.solve(a, x[..., None])[..., 0]
        np.testing.assert_allclose(inverse_x, expected, atol=1e-13)
        np.testing.assert_allclose(square, (x * expected).sum(-1), atol=1e-13)
        a += x[..., :, None] * x[..., None, :]
    np.testing.assert_allclose(root @ np.swapaxes(root, -1, -2), np.linalg.inv(a), atol=1e-13)


def test_factor_does_not_drift_in_100_000_rounds():
    rng = np.random.default_rng(2)
    d = 50
    root, a = np.eye(d), np.eye(d)
    features = unit(rng, 1000, d)
    for _ in range(100):
        for x in features:
            linear_model.add_round(root, x)
    a += 100 * features.T @ features
    drift = np.abs(root.T @ a @ root - np.eye(d)).max()
    assert drift <= 1e-12


def test_factor_survives_rank_deficient_and_huge_contexts():
    root = 1e8 * np.eye(3)  # ridge 1e-16
    for _ in range(10_000):
        linear_model.add_round(root, np.array([1.0, 0.0, 0.0]))
        linear_model.add_round(root, np.array([math.sqrt(0.5), math.sqrt(0.5), 0.0]))
    assert np.isfinite(root).all()
    assert root[2, 2] == 1e8
    assert (np.linalg.eigvalsh(root @ root.T) >= 0).all()


def test_the_inverse_root_exists_in_spite_of_rounding():
    rng = np.random.default_rng(6)
    x = unit(rng, 4, 30, 5)
    sound = np.eye(5) + np.swapaxes(x, -1, -2) @ x
    lost = np.eye(5) + 1e20 * x[:1, 0, :, None] * x[:1, 0, None, :]  # the identity is rounded off
    root = linear_model.inverse_root(np.concatenate((sound, lost)), 1.0)
    inverses = root @ np.swapaxes(root, -1, -2)
    np.testing.assert_allclose(inverses[:4], np.linalg.inv(sound), atol=1e-14)
    np.testing.assert_array_equal(root[1], linear_model.inverse_root(sound[1], 1.0))
    values = np.linalg.eigvalsh(inverses[4])
    assert values.min() >= -1e-15
    assert values.max() <= 1 + 1e-12  # no more than one over the floor


@pytest.mark.parametrize("frozen", [False, True])
def test_ridge_mean_solves_the_normal_equations(frozen):
    rng = np.random.default_rng(3)
    prior = np.array([0.5, -0.2, 0.1])
    model = linear_model.Ridge(3, ridge=2.0, frozen=frozen, prior_mean=prior)
    np.testing.assert_allclose(model.mean, prior)
    x = unit(rng, 40, 3)
    b = rng.standard_normal(3)
    for row in x[:20]:
        model.observe(row)
    model.close(x[:20], b)
    for row in x[20:]:
        model.observe(row)
    seen = x[:20] if frozen else x
    a = 2.0 * np.eye(3) + seen.T @ seen
    np.testing.assert_allclose(model.mean, np.linalg.solve(a, b + 2.0 * prior), atol=1e-12)
    np.testing.assert_allclose(model.root @ model.root.T, np.linalg.inv(a), atol=1e-12)


def test_noisy_ridge_reads_its_statistics_back():
    rng = np.random.default_rng(4)
    x, r = unit(rng, 30, 3), rng.random(30)
    first, second = np.triu_indices(3)
    squares = x[:, first] * x[:, second] * np.where(first == second, 1, math.sqrt(2))
    rows = np.concatenate((squares, r[:, None] * x), axis=1)
    norms = np.square(rows).sum(1)
    np.testing.assert_allclose(norms, 1 + r**2)  # Frobenius norm of x x', and r x
    model = linear_model.NoisyRidge(3, ridge=1.5)
    model.close(np.zeros((0, 3)), rows.sum(0))
    a = 1.5 * np.eye(3) + x.T @ x
    np.testing.assert_allclose(model.mean, np.linalg.solve(a, r @ x), atol=1e-12)


def dense_posterior(grams, prefixes, noise, variance, prior):
    """The posterior by one big regression on all prefixes."""
    k, d = len(grams), grams[0].shape[0]
    sums = np.cumsum(grams, axis=0)
    design = sums.reshape(k * d, d)
    covariance = np.zeros((k * d, k * d))
    for i, j in itertools.product(range(k), repeat=2):
        block = variance * sums[min(i, j)] + noise[i, j] * np.eye(d)
        covariance[i * d : (i + 1) * d, j * d : (j + 1) * d] = block
    weight = np.linalg.inv(covariance)
    precision = design.T @ weight @ design + np.diag(1 / prior)
    mean = np.linalg.solve(precision, design.T @ weight @ np.concatenate(prefixes))
    return mean, np.linalg.inv(precision)


@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("bias", [None, 3.0])
@pytest.mark.parametrize("noise", ["independent", "column_normalized"])
def test_all_releases_give_the_dense_posterior(lead, bias, noise):
    rng = np.random.default_rng(5)
    d, releases = 3, 4
    decoder = getattr(dp.Factorization, noise)(releases).decoder()
    covariance = 2.0 * decoder @ decoder.T
    model = NoiseAware(
        d,
        lead,
        noise_covariance=covariance,
        prior_variance=0.3,
        estimator="all",
        bias_variance=bias,
    )
    features = unit(rng, releases, *lead, 6, d)
    prefixes = rng.standard_normal((releases, *lead, d))
    for x, prefix in zip(features, prefixes, strict=True):
        model.close(x, prefix)
    prior = np.full(d, 0.3)
    if bias:
        prior[-1] = bias
    for place in np.ndindex(lead):
        own = features[(slice(None), *place)]
        grams = np.swapaxes(own, -1, -2) @ own
        ends = prefixes[(slice(None), *place)]
        mean, cov = dense_posterior(grams, ends, covariance, 0.25, prior)
        np.testing.assert_allclose(model.mean[place], mean, atol=1e-11)
        np.testing.assert_allclose(model.root[place] @ model.root[place].T, cov, atol=1e-11)


def test_last_prefix_is_one_regression():
    rng = np.random.default_rng(6)
    model = NoiseAware(
        3,
        noise_covariance=np.array([[2.0, 1.0], [1.0, 3.0]]),
        prior_variance=0.3,
        prior_mean=0.1,
        estimator="prefix",
    )
    x = unit(rng, 2, 5, 3)
    for batch in x:
        prefix = rng.standard_normal(3)
        model.close(batch, prefix)
    gram = (np.swapaxes(x, 1, 2) @ x).sum(0)
    shift = np.full(3, 0.1)
    args = ([gram], [prefix - gram @ shift], np.array([[3.0]]), 0.25, np.full(3, 0.3))
    mean, cov = dense_posterior(*args)
    np.testing.assert_allclose(model.mean, shift + mean, atol=1e-12)
    np.testing.assert_allclose(model.root @ model.root.T, cov, atol=1e-12)


def test_empty_and_rank_deficient_batches_are_answered():
    for estimator in ("prefix", "all"):
        model = NoiseAware(3, noise_covariance=np.eye(3), estimator=estimator)
        for x in (np.zeros((0, 3)), np.eye(3)[[0] * 50], 0 * np.eye(3)):
            model.close(x, np.ones(3))
            assert np.isfinite(model.mean).all()
            assert np.isfinite(model.root).all()


def test_empirical_bayes_finds_the_scale():
    rng = np.random.default_rng(7)
    for scale in (1e-3, 1e-2, 1e-1):
        theta = math.sqrt(scale) * rng.standard_normal(200)
        information = 1e4 * np.eye(200)
        vector = 1e4 * theta + 1e2 * rng.standard_normal(200)
        assert most_likely_scale(Spectrum.of(information, vector)) == pytest.approx(scale, rel=0.4)


def test_explorations_pick_by_their_rule():
    candidates = np.array([[1.0, 0.0], [0.0, 1.0]])
    mean, root = np.array([1.0, 0.9]), np.diag([0.1, 1.0])
    noise = Noise(np.array([0.0, 1.0]), np.array([0.0, 0.9]))
    at = (candidates, mean, root, noise, 0, 1)
    assert Greedy().pick(*at) == 0
    assert UpperConfidence(0.05).pick(*at) == 0
    assert UpperConfidence(1.0).pick(*at) == 1
    assert Thompson(0.05).pick(*at) == 0
    assert Thompson(1.0).pick(*at) == 1
    assert Thompson(1.0, decay=0.5).pick(*at[:4], 10, 1) == 0
    assert Forced(Greedy(), gamma=1.0).pick(*at[:5], 1) == 0  # log 1 = 0: never
    assert Forced(Greedy(), gamma=1.0).pick(*at[:5], 2) == 1


@pytest.mark.parametrize("rule", [UpperConfidence(0.3), Thompson(0.5, decay=0.9)])
def test_prepared_picks_are_those_of_the_rule(rule):
    rng = np.random.default_rng(1)
    shared = np.empty((5, 3)), np.empty(3), np.empty((3, 3))
    pick, picks = prepared(rule, *shared, 4), []
    for _ in range(50):
        for array in shared:
            array[...] = rng.standard_normal(array.shape)
        noise = Noise(rng.standard_normal(3), np.zeros(0))
        picks.append(int(pick(noise)))
        assert picks[-1] == rule.pick(*shared, noise, 4, 1)
    assert set(picks) == set(range(5))
    assert prepared(Greedy(), *shared, 4) is None


@pytest.mark.parametrize("kind", [bandits.LinUCB, bandits.LinTS])
@pytest.mark.parametrize("candidates", [np.eye(4)[:, :2].T, np.eye(2, 4, dtype=int)])
def test_a_live_round_takes_candidates_of_any_order_and_type(kind, candidates):
    learner = kind(dimension=4, rounds=9).learner(np.random.SeedSequence(1), None)
    other = kind(dimension=4, rounds=9).learner(np.random.SeedSequence(1), None)
    for _ in range(4):
        pick = learner.choose(candidates)
        assert pick == other.choose(np.array(candidates, dtype=float, order="C"))
        learner.model.mean, other.model.mean = (np.eye(4)[1 - int(pick)] for _ in range(2))


def test_a_model_may_replace_its_arrays_in_any_round():
    learner = bandits.LinUCB(dimension=2, rounds=9).learner(np.random.SeedSequence(1), None)
    candidates = np.eye(2)  # the same array in all rounds, as in a live agent
    for i in range(6):
        learner.model.mean = 9 * candidates[i % 2]
        assert learner.choose(candidates) == i % 2


def test_draws_do_not_depend_on_the_block_size():
    base = Forced(Thompson())
    whole = Draws([np.random.SeedSequence(3)]).noise(base, 10, 4)
    live = Draws(np.random.SeedSequence(3))
    parts = [live.noise(base, n, 4) for n in (1, 2, 7)]
    np.testing.assert_array_equal(whole.normals[0], np.concatenate([p.normals for p in parts]))
    np.testing.assert_array_equal(whole.uniforms[0], np.concatenate([p.uniforms for p in parts]))


def test_thompson_draws_have_the_posterior_distribution():
    rng = np.random.default_rng(8)
    factor = rng.standard_normal((2, 2))
    normals = Draws(np.random.SeedSequence(1)).noise(Thompson(), 200_000, 2).normals
    cov = np.cov((normals @ factor.T).T)
    np.testing.assert_allclose(cov, factor @ factor.T, rtol=0.03, atol=0.02)


def test_schedules_cover_the_rounds():
    assert schedules.Fixed(300).batches(10_000, 20, 1.0) == 34
    geometric = schedules.Geometric(100, 1.15)
    lengths = [geometric.length(k) for k in range(4)]
    assert lengths == [100, 115, 132, 152]
    assert geometric.batches(10_000, 20, 1.0) == 20
    assert sum(geometric.length(k) for k in range(20)) >= 10_000
    assert geometric.length(10**6) == 2**52
    assert schedules.Geometric(7, 1.0).length(50) == 7
    assert schedules.Geometric(1, 1.0).batches(10_000, 20, 1.0) == 10_000  # a release a round
    for lead, most in ((0, 20), (20, 20), (15, 20), (3, 500)):
        growing = schedules.Geometric(5, 1.3, most, lead)
        for rounds in (1, 3, 20, 21, 500):
            ends = itertools.accumulate(growing.length(batch) for batch in range(rounds))
            batches = 1 + sum(end < rounds for end in ends)
            assert growing.batches(rounds, 1, 1.0) == batches


def test_determinant_schedule_ends_by_features_alone():
    schedule = schedules.Determinant(1.0)
    assert not schedule.ends(0, 10**6, 0.69)
    assert schedule.ends(0, 1, math.log(2))
    # never more batches than promised, for features of any kind
    rng = np.random.default_rng(9)
    for features in (unit(rng, 3000, 3), np.tile(np.eye(3), (1000, 1))):
        root, growth, batches = np.eye(3), 0.0, 0
        for x in features:
            growth += math.log1p(linear_model.add_round(root, x)[1])
            if schedule.ends(batches, 1, growth):
                growth, batches = 0.0, batches + 1
        assert batches + 1 <= schedule.batches(3000, 3, 1.0)


@pytest.mark.parametrize(
    ("reward", "centered"),
    [
        (0.7, 0.2),
        (5.0, 0.5),
        (-3, -0.5),
        (math.nan, 0.0),
        (None, 0.0),
        (math.inf, 0.5),
        (-math.inf, -0.5),
        (True, 0.5),
    ],
)
def test_rewards_are_clipped_then_centered_then_missing_is_zero(reward, centered):
    span = rewards.Range(0.0, 1.0, 0.5)
    assert span.read(reward)[0] == pytest.approx(centered, abs=1e-15)
    if reward is not None:
        found = span.centered_all(np.array([reward], dtype=float))
        assert found[0] == pytest.approx(centered, abs=1e-15)


def test_missing_is_zero_after_centering_even_when_zero_is_outside_the_range():
    span = rewards.Range(1.0, 5.0, 3.0)
    assert span.read(math.nan)[0] == 0.0
    assert span.clip_norm == 2.0
    assert span.replace_distance == 2.0
    assert rewards.Range(1.0, 5.0, 1.0).replace_distance == 1.0


def test_a_rounded_middle_of_the_range_is_the_middle():
    for low, high in itertools.combinations(range(-25, 46), 2):
        span = rewards.Range(low / 10, high / 10, (low + high) / 20)
        assert span.replace_distance == 2.0
        assert not span.is_end
        for end in (low / 10, high / 10):
            assert rewards.Range(low / 10, high / 10, end).replace_distance == 1.0
            assert rewards.Range(low / 10, high / 10, end).is_end
        beside = rewards.Range(low / 10, high / 10, (low + high) / 20 + 1e-12)
        assert beside.replace_distance < 2.0
        assert not rewards.Range(low / 10, high / 10, math.nextafter(low / 10, 9.0)).is_end


def test_lifetime_cap_holds_over_all_batches():
    rng = np.random.default_rng(10)
    algorithm = bandits.AdaPrivateUser(
        dimension=3, rounds=60, batch=20, epsilon=1, delta=1e-5, cap=1.5, per_batch=1.2
    )
    channel = algorithm.channel((), np.random.default_rng(0))
    total = 0.0
    for _ in range(3):
        before = np.zeros(3)
        x, r = unit(rng, 20, 3), rng.random(20)
        values = channel._values(x, r, ["a"] * 20) - before
        assert np.linalg.norm(values) <= 1.2 * (1 + 1e-12)
        total += np.square(values).sum()
    assert total <= 1.5**2 * (1 + 1e-12)
    assert total == pytest.approx(1.5**2)  # and is used up
    other = channel._values(x, r, ["b"] * 20)
    assert np.linalg.norm(other) == pytest.approx(1.2)


def test_naive_group_drops_rewards_after_the_limit():
    algorithm = bandits.AdaPrivateGroup(
        dimension=2, rounds=40, batch=10, epsilon=1, delta=1e-5, rounds_per_user=3
    )
    channel = algorithm.channel((), np.random.default_rng(0))
    x, r = np.tile([1.0, 0.0], (10, 1)), np.ones(10)
    assert channel._values(x, r, ["a"] * 10)[0] == 3
    assert channel._values(x, r, ["a"] * 5 + ["b"] * 5)[0] == 3


def test_sampling_keeps_a_share_and_rescales_after_the_noise():
    with pytest.warns(UserWarning, match="sampling multiplies the noise"):
        algorithm = bandits.AdaPrivateAmp(
            dimension=1,
            rounds=10_000,
            batch=10_000,
            epsilon=1,
            delta=1e-5,
            sampling_probability=0.3,
        )
    channel = algorithm.channel((), np.random.default_rng(0))
    x, r = np.ones((10_000, 1)), np.ones(10_000)
    assert channel._values(x, r, None)[0] == pytest.approx(3000, abs=200)
    channel.release(x, r, None)
    assert channel.prefix[0] == pytest.approx(10_000, abs=600)
    secret = algorithm.channel((), None)
    assert secret._values(x, r, None)[0] == pytest.approx(3000, abs=250)


def test_distinct_numbers_are_uniform_sets():
    rng = np.random.default_rng(11)
    found = np.sort(distinct(rng.random((30_000, 2)), 4), axis=-1)
    assert (found[:, 0] < found[:, 1]).all()
    counts = np.unique(found, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert abs(counts - 5000).max() < 350


def test_bernoulli_probability_is_at_most_q(monkeypatch):
    """The smallest uniform, 0, has probability 2^-53: far too large for q = 1e-20."""
    size = {"dimension": 2, "rounds": 4, "epsilon": 1.0, "delta": 1e-25}
    with pytest.warns(UserWarning, match="sampling multiplies the noise"):
        algorithm = bandits.AdaPrivateAmp(sampling_probability=1e-20, **size)
    channel = algorithm.channel((), None)
    sums = []
    monkeypatch.setattr(channel.sums, "step", sums.append)
    monkeypatch.setattr("os.urandom", bytes)
    channel.release(np.eye(2), np.ones(2), None)
    assert not sums[0].any()


def test_small_contributions_are_charged_too():
    size = {"dimension": 2, "rounds": 10, "epsilon": 1.0, "delta": 1e-5}
    channel = bandits.AdaPrivateUser(**size, batch=5, cap=1.0).channel((), np.random.default_rng(0))
    channel.release(np.eye(2)[:1], np.array([0.9]), ["u"])
    before = channel.spent[0, "u"]
    channel.release(np.eye(2)[:1], np.array([1e-9]), ["u"])
    assert channel.spent[0, "u"] > before


def test_the_unit_of_rewards_changes_nothing():
    """Rewards in [-64, 64] give 128 times the estimate of the same rewards in [0, 1]."""
    options = {"dimension": 3, "rounds": 400, "epsilon": 5.0, "delta": 1e-5}
    x = unit(np.random.default_rng(11), 400, 3, 3)
    estimates = []
    for low, high in ((0.0, 1.0), (-64.0, 64.0)):
        agent = bandits.PrivateUCB(low=low, high=high, **options).start(simulation=True, seed=1)
        for candidates in x:
            ticket = agent.select(candidates)
            share = 0.5 + 0.4 * candidates[ticket.action, 0]
            agent.update(ticket, low + share * (high - low))
        estimates.append(agent.estimate / (high - low))
    np.testing.assert_allclose(estimates[0], estimates[1], rtol=1e-12)
    assert 0.1 < estimates[0][0] < 0.5
