"""Propensities, logs and encoders: what off-policy evaluation needs from a live agent."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bandits
from bandits.learning.exploration import DRAWS, Mixed, Noise, Thompson

PRIVATE = {"epsilon": 1.0, "delta": 1e-5}


def agent(kind=bandits.PrivateUCB, **options):
    algorithm = kind(dimension=3, rounds=4000, explore=0.2, first=50, **PRIVATE, **options)
    return algorithm.start(simulation=True, seed=0)


def rows(rng, count=4, d=3):
    x = rng.standard_normal((count, d))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", [bandits.PrivateUCB, bandits.PrivateThompson])
def test_propensities_are_the_frequencies_of_the_actions(kind):
    """Given everything before the last uniform, action a has the stated probability."""
    rng, running = np.random.default_rng(0), agent(kind)
    ratio, value, floor = [], [], []
    for _ in range(800):
        x = rows(rng)
        ticket = running.select(x)
        running.update(ticket, float(rng.random() < 0.5 + 0.4 * x[ticket.action, 0]))
        ratio.append(0.25 / ticket.propensity)  # the uniform policy
        value.append((0.5 + 0.4 * x[ticket.action, 0]) * ratio[-1] - (0.5 + 0.1 * x[:, 0].sum()))
        floor.append(ticket.propensity)
    assert min(floor) >= 0.2 / 4 - 1e-12
    for each, expected in ((ratio, 1.0), (value, 0.0)):
        error = np.std(each) / np.sqrt(len(each))
        assert np.mean(each) == pytest.approx(expected, abs=4 * error)


def test_mixed_probabilities_average_to_those_of_the_rule():
    rule, rng = Mixed(Thompson(1.0), 0.1), np.random.default_rng(1)
    x, mean, root = np.eye(2), np.array([1.0, 0.0]), np.eye(2)
    found = []
    for _ in range(200):
        noise = Noise(rng.standard_normal(2 * DRAWS), rng.random(2))
        each = rule.probabilities(x, mean, root, noise, 0, 1)
        assert each.sum() == pytest.approx(1)
        found.append(each[0])
        picked = rule.pick(x, mean, root, noise, 0, 1)
        assert picked == (noise.uniforms[0] >= each[0])
    exact = 0.05 + 0.9 * bandits.thompson_propensities(x, mean, root).value[0]
    assert np.mean(found) == pytest.approx(exact, abs=4 * np.std(found) / np.sqrt(200))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (bandits.PrivateThompson, {"explore": 0.3}),
        (bandits.PrivateUCB, {"explore": 0.3}),
        (bandits.AdaPrivateForced, {"frozen": True}),
        (bandits.AdaPrivateTS, {"frozen": True}),
        (bandits.AdaPrivateUCB, {"frozen": True, "explore": 0.3}),
    ],
)
def test_simulations_explore_as_live_agents_do(kind, options):
    algorithm = kind(dimension=4, rounds=200, **options, **PRIVATE)
    live = algorithm.learner(np.random.SeedSequence(5), np.random.default_rng(1))
    block = algorithm.learner([np.random.SeedSequence(5)], np.random.default_rng(1))
    arms = algorithm.prepared(np.eye(4)[None])
    single = []
    for _ in range(40):
        single.append(int(live.choose(arms[0])))
        live.observe(arms[0, single[-1]])
    offered = np.broadcast_to(np.arange(4), (1, 40, 4))
    assert block.play_block(arms, offered)[0].tolist() == single


@pytest.mark.parametrize("kind", [bandits.PrivateUCB, bandits.PrivateThompson])
def test_propensities_and_actions_depend_on_rewards_only_through_releases(kind):
    """Neighboring tables: equal transcripts until the release of the differing round's batch."""
    tables = np.zeros((2, 120))
    tables[1, 60] = 1.0
    seen, estimates = [], []
    for rewards in tables:
        running, rng, tickets = agent(kind, ratio=1.0), np.random.default_rng(0), []
        for reward in rewards:
            tickets.append(running.select(rows(rng)))
            running.update(tickets[-1], reward)
        estimates.append(running.estimate)
        seen.append([(ticket.action, ticket.propensity) for ticket in tickets])
    assert seen[0][:100] == seen[1][:100]  # the batch of round 60 ends with round 99
    assert (estimates[0] != estimates[1]).any()


def test_without_explore_there_is_no_propensity():
    running = bandits.PrivateUCB(dimension=3, rounds=9, **PRIVATE).start()
    assert running.select(np.eye(3)).propensity is None
    with pytest.raises(ValueError, match=r"^Expected explore=0\.0 to be > 0"):
        running.keep_log()
    with pytest.raises(ValueError, match=r"^Expected explore=1\.5"):
        bandits.PrivateUCB(dimension=3, rounds=9, explore=1.5, **PRIVATE)


def test_a_log_evaluates_another_policy():
    rng, running = np.random.default_rng(3), agent()
    with pytest.raises(RuntimeError, match="keep_log"):
        _ = running.log
    running.keep_log()
    for i in range(600):
        x = rows(rng)
        ticket = running.select(x)
        if i % 3:
            reward = float(rng.random() < 0.5 + 0.4 * x[ticket.action, 0])
            running.update(ticket, None if i % 5 == 0 else reward)
    log = running.log
    assert log.context.shape == (len(log.action), 4, 3)
    assert len(log.action) == sum(1 for i in range(600) if i % 3 and i % 5)
    best = log.context[..., 0].argmax(1)  # the optimal policy
    target = (np.arange(4) == best[:, None]).astype(float)
    own = target[np.arange(len(best)), log.action]
    truth = 0.5 + 0.4 * log.context[..., 0].max(1).mean()
    found = bandits.ips(log.reward, log.propensity, own, bandits.Options(largest_weight=20.0))
    assert found.interval[0] <= truth <= found.interval[1]
    from sklearn.linear_model import Ridge

    model = bandits.fit_rewards(Ridge(), log.context, log.action, log.reward, target)
    found = bandits.doubly_robust(log.reward, log.propensity, own, *model)
    assert found.value == pytest.approx(truth, abs=0.1)


COLUMNS = {"shown": ["b", "a", "b"], "click": [1, 0, 1], "p": [0.5, 0.25, 0.5], "age": [1, 2, 3]}


@pytest.mark.parametrize("frame", [dict, pd.DataFrame, pl.DataFrame])
def test_logs_of_data_frames(frame):
    names = {"action": "shown", "reward": "click", "propensity": "p", "context": ["age"]}
    log = bandits.BanditLog.from_frame(frame(COLUMNS), **names, arms=["a", "b", "c"])
    assert (log.action.tolist(), log.actions) == ([1, 0, 1], 3)
    assert log.context.tolist() == [[1.0], [2.0], [3.0]]
    assert bandits.ips(log.reward, log.propensity, np.full(3, 1 / 3)).rounds == 3
    with pytest.raises(ValueError, match=r"^Expected action='b' to be one of arms"):
        bandits.BanditLog.from_frame(frame(COLUMNS), **names, arms=["a"])
    with pytest.raises(ValueError, match=r"Log ticket\.propensity"):
        bandits.BanditLog.from_frame(frame(COLUMNS), **names | {"propensity": "missing"})
    with pytest.raises(TypeError, match=r"^Expected action=.*as arms=\.$"):
        bandits.BanditLog.from_frame(frame(COLUMNS), **names)
    with pytest.raises(ValueError, match=r"^Expected action=.* to be finite"):
        bandits.BanditLog.from_frame(frame(COLUMNS | {"shown": [0.0, np.nan, 1.0]}), **names)


def test_logs_of_vowpal_wabbit(tmp_path):
    line = {
        "_label_cost": -1.0,
        "_label_probability": 0.8,
        "_label_Action": 2,
        "_labelIndex": 1,
        "a": [2, 1, 3],
        "c": {"User": {"age": 0.5, "tags": ["x"]}, "_multi": [{"T": {"id": "a"}}] * 3},
        "p": [0.8, 0.1, 0.1],
    }
    path = tmp_path / "log.json"
    path.write_text(f"{json.dumps(line)}\n\n{json.dumps(line)}\n")
    columns = {"User.age": None, "User.tags": ["x", "y"]}
    encode = bandits.DeclaredFeatures(columns)
    log = bandits.BanditLog.from_json_lines(path, encode=encode)
    assert (log.action.tolist(), log.reward.tolist(), log.actions) == ([1, 1], [1, 1], 3)
    assert log.propensity.tolist() == [0.8, 0.8]
    assert log.context.tolist() == [[0.5, 1.0, 0.0]] * 2
    del line["_label_probability"]
    with pytest.raises(ValueError, match=r"Log ticket\.propensity"):
        bandits.BanditLog.from_json_lines([json.dumps(line)])
    with pytest.raises(ValueError, match=r"^Expected lines='\.\.\.' to be not empty"):
        bandits.BanditLog.from_json_lines([""])


def test_logs_of_obp():
    feedback = {
        "n_rounds": 2,
        "n_actions": 3,
        "context": np.zeros((2, 5)),
        "action": np.array([0, 2]),
        "position": None,
        "reward": np.array([1, 0]),
        "pscore": np.array([0.5, 0.5]),
    }
    log = bandits.BanditLog.from_obp(feedback)
    assert (log.action.tolist(), log.context.shape) == ([0, 2], (2, 5))
    for name, bad in (("pscore", None), ("pscore", [0, 1]), ("action", [0, 3]), ("reward", [1])):
        with pytest.raises(ValueError, match=r"^Expected"):
            bandits.BanditLog.from_obp(feedback | {name: bad})


CONTEXT = {"device": "web", "age": 0.5, "tags": ["a", "b"], "home": {"city": "x"}}


def test_hashed_features_know_new_categories_and_depend_on_nothing_else():
    encode = bandits.HashedFeatures(256)
    first = encode(CONTEXT)
    encode({"device": "watch"})
    np.testing.assert_array_equal(bandits.HashedFeatures(256)(CONTEXT), first)
    np.testing.assert_array_equal(encode(dict(reversed(CONTEXT.items()))), first)
    assert np.count_nonzero(first) == 5
    known = encode.candidates(CONTEXT, ["item 1", 2, {"genre": "pop", "price": 0.1}])
    assert known.shape == (3, 256)
    assert np.linalg.matrix_rank(known) == 3
    assert np.count_nonzero(known[0]) == 6


def test_declared_features_ignore_what_is_not_declared():
    encode = bandits.DeclaredFeatures({"device": ["phone", "web"], "age": None}, arms=["i", "j"])
    assert encode.dimension == 8
    found = encode.candidates(CONTEXT, ["i", "j", "k"])
    assert found.tolist() == [[0, 1, 0.5, 0, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0.5, 0, 1], [0] * 8]
    with pytest.raises(ValueError, match="distinct names"):
        bandits.DeclaredFeatures({"device": ["web", "web"]})
    assert bandits.DeclaredFeatures({"device": [], "age": None}).dimension == 1
    with pytest.raises(TypeError, match=r"^Expected columns\['device'\]='web' to be a list"):
        bandits.DeclaredFeatures({"device": "web"})
    with pytest.raises(TypeError, match=r"^Expected home\.at='<object>' to be a number"):
        encode({"home": {"at": object()}})
    with pytest.raises(ValueError, match=r"^Expected actions='\[\]' to be not empty"):
        encode.candidates(CONTEXT, [])
    with pytest.raises(ValueError, match="Pass the ids as arms="):
        bandits.DeclaredFeatures({"age": None}).candidates(CONTEXT, ["i"])


def test_encoded_contexts_teach_an_agent():
    encode = bandits.HashedFeatures(32)
    algorithm = bandits.PrivateUCB(dimension=32, rounds=4000, first=50, epsilon=20.0, delta=1e-6)
    running, rng, right = algorithm.start(simulation=True, seed=1), np.random.default_rng(0), []
    for _ in range(1200):
        device = ["phone", "web"][rng.integers(2)]
        ticket = running.select(encode.candidates({"device": device}, ["news", "game"]))
        good = ticket.action == (device == "phone")
        running.update(ticket, float(rng.random() < (0.9 if good else 0.1)))
        right.append(good)
    assert np.mean(right[-400:]) > 0.9


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_rows_of_data_frames_are_encoded(frame):
    from bandits.encoders import rows as rows_of

    encode = bandits.DeclaredFeatures({"device": ["phone", "web"], "age": None})
    found = [encode(row) for row in rows_of(frame({"device": ["web", "tv"], "age": [1, 2]}))]
    assert np.stack(found).tolist() == [[0, 1, 1], [0, 0, 2]]
