"""Competing methods: elimination on a core set, and published joint-DP constants."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bandits
import privacy as dp
from bandits.algorithms.elimination import Elimination, Phases, alive
from bandits.learning.exploration import Noise

COMMON = {"dimension": 3, "rounds": 700, "epsilon": 1.0, "delta": 1e-5}
NOTHING = Noise(np.zeros(0), np.zeros(0))


def unit(rng, *shape):
    x = rng.standard_normal(shape)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def phases(lead=(), **more):
    options = {"ridge": 2.0, "width": 1.5, "reward_variance": 0.25, "noise_variance": 9.0}
    return Phases(3, 3, lead, **(options | more))


@pytest.mark.parametrize("lead", [(), (2,)])
def test_a_phase_is_a_ridge_regression_on_its_own_sum(lead):
    rng = np.random.default_rng(1)
    prior = np.array([0.1, -0.2, 0.3])
    model = phases(lead, prior_mean=prior)
    x = unit(rng, 2, *lead, 40, 3)
    sums = rng.standard_normal((2, *lead, 3))
    for features, prefix in zip(x, sums.cumsum(0), strict=True):
        for i in range(40):
            model.observe(features[..., i, :])
        model.close(features, prefix)
    for place in np.ndindex(lead):
        for newest, phase in ((0, 1), (1, 0)):
            own = x[(phase, *place)]
            a = 2.0 * np.eye(3) + own.T @ own
            theta = np.linalg.solve(a, sums[(phase, *place)] + 2.0 * prior)
            inverse = np.linalg.inv(a)
            covariance = inverse @ (0.25 * a + 9.0 * np.eye(3)) @ inverse
            mean, root = model.mean[(*place, newest)], model.root[(*place, newest)]
            np.testing.assert_allclose(mean[:3], theta, atol=1e-12)
            np.testing.assert_allclose(root @ root.T, 1.5**2 * covariance, atol=1e-12)
            reach = 1.5 * np.sqrt(np.einsum("ni,ij,nj->n", own, covariance, own))
            assert mean[3] == pytest.approx((own @ theta - reach).max())
    # a phase to come eliminates nobody, and its design starts anew
    assert (model.mean[..., 2, 3] == -np.inf).all()
    start = np.broadcast_to(np.eye(3) / math.sqrt(2.0), (*lead, 3, 3))
    np.testing.assert_allclose(model.root[..., 3, :, :], start)


def test_noise_delays_elimination():
    x = np.eye(3)
    features, prefix = np.repeat(x, 100, axis=0), np.array([80.0, 40.0, 10.0])
    still = []
    for variance in (0.0, 400.0, 1e6):
        model = phases(noise_variance=variance)
        model.close(features, prefix)
        still.append(alive(x, model.mean, model.root).tolist())
    # deviations .05, .20 and 9.8 of estimates .78, .39 and .10, times 1.5
    assert still == [[True, False, False], [True, True, False], [True, True, True]]


def test_eliminated_arms_are_played_only_if_no_other_is_offered():
    model = phases(noise_variance=0.0)
    model.close(np.repeat(np.eye(3), 100, axis=0), np.array([80.0, 40.0, 10.0]))
    model.close(np.repeat(np.eye(3), 100, axis=0), np.array([80.0, 80.0, 70.0]))
    # each arm was eliminated in one phase, which is permanent
    assert not alive(np.eye(3), model.mean, model.root).any()
    last = Elimination().pick(np.eye(3), model.mean, model.root, NOTHING, 2, 1)
    assert last == 2  # the best estimate of the newest phase
    # only (1, 0, 1)/sqrt2 reaches every bound; the greedy pick would be the last one
    mixed = np.array([[0.0, 1.0, 0.0], [math.sqrt(0.5), 0.0, math.sqrt(0.5)], [0.0, 0.0, 1.0]])
    model.mean[..., -1] = [0.4, 0.5, -np.inf]
    assert alive(mixed, model.mean, model.root).tolist() == [False, True, False]
    assert Elimination().pick(mixed, model.mean, model.root, NOTHING, 2, 1) == 1


def test_the_least_explored_remaining_arm_is_played_and_ties_go_to_the_first():
    rng = np.random.default_rng(2)
    model = phases()
    x = unit(rng, 5, 3)
    pick = Elimination().pick
    assert pick(x, model.mean, model.root, NOTHING, 0, 1) == 0
    for row in (x[0], x[0], x[1]):
        model.observe(row)
    a = 2.0 * np.eye(3) + 2 * np.outer(x[0], x[0]) + np.outer(x[1], x[1])
    unknown = np.einsum("ni,ij,nj->n", x, np.linalg.inv(a), x)
    assert pick(x, model.mean, model.root, NOTHING, 0, 4) == unknown.argmax()


def test_the_design_comes_near_to_the_optimal_one():
    """Kiefer and Wolfowitz: the G-optimal design has max x'M^-1 x = d, and no design less."""
    rng = np.random.default_rng(3)
    arms = unit(rng, 30, 3) * rng.random((30, 1))
    model = phases(ridge=1e-3)
    played = []
    for t in range(1, 601):
        played.append(int(Elimination().pick(arms, model.mean, model.root, NOTHING, 0, t)))
        model.observe(arms[played[-1]])
    moment = arms[played].T @ arms[played] / 600
    worst = np.einsum("ni,ij,nj->n", arms, np.linalg.inv(moment), arms).max()
    assert 3 - 1e-9 <= worst <= 3.1
    assert len(np.unique(played[100:])) <= 6  # a core set, of at most d (d + 1) / 2 arms


def test_a_run_plays_no_eliminated_arm_while_others_remain():
    algorithm = bandits.CoreSetElimination(first=50, **(COMMON | {"epsilon": 20.0}))
    agent = algorithm.start(simulation=True, seed=4)
    rng = np.random.default_rng(4)
    arms = unit(rng, 12, 3)
    theta = np.array([0.5, 0.3, -0.1])
    dead = fallen = 0
    for _ in range(700):
        offered = arms[rng.choice(12, 3, replace=False)]
        ticket = agent.select(offered)
        model = agent._learner.model
        # `select` closes a full batch first, so that these are the bounds it picked by
        still = alive(offered, model.mean, model.root)
        dead += (~still).sum()
        assert still[ticket.action] or not still.any()
        if not still.any():
            fallen += 1
            assert ticket.action == (offered @ agent.estimate).argmax()
        agent.update(ticket, 0.5 + offered[ticket.action] @ theta)
    assert dead > 100
    assert fallen > 10


def test_privacy_noise_increases_the_regret_of_elimination():
    world = bandits.Synthetic(dimension=3, arms=20)
    weak, strong = (
        bandits.CoreSetElimination(first=50, **(COMMON | {"epsilon": epsilon}))
        for epsilon in (20.0, 0.05)
    )
    found = bandits.simulate({"weak": weak, "strong": strong}, world, replicates=48, seed=1)
    assert found.final_regret()["weak"][0] < 0.7 * found.final_regret()["strong"][0]


def test_one_reward_enters_one_phase_and_is_charged_once():
    algorithm = bandits.CoreSetElimination(**COMMON)
    assert algorithm.batches == 2  # 300 + 600
    one = dp.account(dp.Gaussian(algorithm.noise_multiplier, 1.0), relation="REPLACE_ONE")
    assert algorithm.guarantee(1e-5).epsilon == one.guarantee(delta=1e-5).epsilon <= 1


@pytest.mark.parametrize(
    ("kind", "options", "word"),
    [
        ("CoreSetElimination", {"noise": "binary_tree"}, "noise='binary_tree'"),
        ("CoreSetElimination", {"width": -1.0}, "width"),
        ("CoreSetElimination", {"width": math.inf}, "width"),
        ("CoreSetElimination", {"first": 0}, "rounds of the first batch"),
        ("CoreSetElimination", {"ratio": math.nan}, "ratio"),
        ("PrivateContexts", {"calibration": "published"}, "noise='column_normalized'"),
        ("published", {"ridge": 1.0}, "ridge"),
        ("published", {"epsilon": 0.0}, "epsilon"),
        ("published", {"epsilon": math.nan}, "epsilon"),
        ("published", {"epsilon": 1e-308}, "noise_multiplier"),
        ("published", {"delta": 1.0}, "delta"),
        ("published", {"failure_probability": 0.0}, "failure_probability"),
        ("published", {"failure_probability": math.nan}, "failure_probability"),
        ("published", {"batch": 1, "rounds": 5000}, "batches=5000"),
    ],
)
def test_bad_options_are_refused_when_the_algorithm_is_made(kind, options, word):
    build = published if kind == "published" else getattr(bandits, kind)
    with pytest.raises((ValueError, TypeError), match="Expected ") as caught:
        build(**(COMMON | options))
    assert word in str(caught.value)


def published(**options):
    same = {"noise": "binary_tree", "batch": 7, "calibration": "published"}
    return bandits.PrivateContexts(**(COMMON | same | options))


def test_published_constants_by_their_formula():
    algorithm = published()  # K = 100 leaves, m = 8
    sigma = math.sqrt(16 * 8 * 2**2 * math.log(4 / 1e-5) ** 2)  # L~ = sqrt(1 + 1)
    assert algorithm.batches == 100
    assert algorithm.published_sigma == pytest.approx(sigma, rel=1e-12)
    upsilon = sigma * math.sqrt(16) * (4 * math.sqrt(3) + 2 * math.log(2 * 100 / 0.05))
    assert algorithm.published_upsilon == pytest.approx(upsilon, rel=1e-12)
    root = algorithm.model(()).root
    np.testing.assert_allclose(root @ root.T, np.eye(3) / (2 * upsilon), rtol=1e-12)
    halved = published(center=0.5, epsilon=4.0)  # L~^2 = 1.25
    ratio = 1.25 / 2 / 4
    assert halved.published_sigma == pytest.approx(ratio * sigma, rel=1e-12)


def test_a_node_gets_the_published_noise():
    algorithm = published()
    covariance = algorithm.sums((1,), np.random.default_rng(0)).noise_covariance(3)
    # the first release is one node, the second another one, the third both of 1-2 and 3
    nodes = np.array([[1, 0, 0], [0, 1, 1], [0, 1, 2]])
    np.testing.assert_allclose(covariance, 2 * algorithm.published_sigma**2 * nodes, rtol=1e-9)
    # read back: sigma off the diagonal and in b, sqrt2 sigma on the diagonal
    lead = (4000,)
    channel = algorithm.channel(lead, np.random.default_rng(5))
    channel.release(np.zeros((*lead, 1, 3)), np.zeros((*lead, 1)), None)
    first, second = np.triu_indices(3)
    noise = channel.prefix / algorithm.published_sigma
    noise[..., :6] /= np.where(first == second, 1, math.sqrt(2))
    noise[..., 6:] /= algorithm.reward_weight
    expected = [math.sqrt(2) if i == j else 1.0 for i, j in zip(first, second, strict=True)]
    np.testing.assert_allclose(noise.std(0), [*expected, 1, 1, 1], rtol=0.05)


def test_published_constants_spend_far_less_than_they_claim():
    """mu^2 = levels |v v'|^2 / (2 sigma^2), without the corner that is not released."""
    algorithm = published()
    mu = math.sqrt(7 * 3 / 2) / algorithm.published_sigma  # 7 nodes, 1 + 2 |x|^2 r^2 <= 3
    one = dp.account(dp.Gaussian(1 / mu), relation="REPLACE_SPECIAL")
    found = algorithm.guarantee(1e-5)
    assert found.epsilon == pytest.approx(one.guarantee(delta=1e-5).epsilon, rel=1e-6)
    assert "joint DP" in found.unit
    replaced = replace(algorithm, relation="REPLACE_ONE").guarantee(1e-5)
    assert 0.02 < found.epsilon < replaced.epsilon < 0.1


def test_no_round_moves_the_sums_further_than_is_charged():
    rng = np.random.default_rng(6)
    for algorithm in (published(), published(center=0.3), bandits.PrivateContexts(**COMMON)):
        channel = algorithm.channel((), np.random.default_rng(0))
        x = unit(rng, 300, 3) * rng.choice([1.0, 0.5], (300, 1))
        span = algorithm.reward_range
        r = span.centered_all(rng.choice([0.0, 1.0, 0.4], 300))
        moves = np.array(
            [channel._values(a[None], b[None], None) for a, b in zip(x, r, strict=True)]
        )
        norms = np.linalg.norm(moves, axis=1)
        assert 0.999 * algorithm.clip_norm < norms.max() <= algorithm.clip_norm * (1 + 1e-12)
        apart = np.linalg.norm(moves[:, None] - moves, axis=-1).max()
        assert apart <= algorithm.replace_distance * algorithm.clip_norm


def test_the_published_upsilon_is_added_once_and_keeps_a_positive():
    algorithm = published()
    upsilon = algorithm.published_upsilon
    model = algorithm.model(())
    released = np.zeros(9)
    released[0] = -3 * upsilon  # noise beyond its bound, on the first diagonal entry
    released[5] = -0.5 * upsilon
    released[6:] = algorithm.reward_weight * np.array([1.0, 2.0, 3.0])
    model.close(np.zeros((0, 3)), released)
    a = np.array([upsilon, 2 * upsilon, 1.5 * upsilon])
    np.testing.assert_allclose(model.root @ model.root.T, np.diag(1 / a), rtol=1e-12)
    np.testing.assert_allclose(model.mean, np.array([1.0, 2.0, 3.0]) / a, rtol=1e-12)


def test_published_constants_run_live_and_continue_from_a_checkpoint(tmp_path):
    algorithm = published(rounds=60)
    agent = algorithm.start()
    rng = np.random.default_rng(7)
    for _ in range(30):
        agent.update(agent.select(unit(rng, 4, 3)), 1.0)
    agent.save(tmp_path / "state")
    restored = bandits.Algorithm.restore(tmp_path / "state")
    assert restored.algorithm == algorithm
    np.testing.assert_array_equal(restored.estimate, agent.estimate)
    assert restored.releases == 4
    assert np.isfinite(restored.estimate).all()
