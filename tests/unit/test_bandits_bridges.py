"""Bridges, against the real packages where they are installed, and an example service."""

import importlib.util
import sys
import types

import numpy as np
import pytest

import bandits

PRIVATE = {"epsilon": 10.0, "delta": 1e-6}


class Names(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Names(name, (), {})


class Absent(types.ModuleType):
    """A module whose names are empty classes."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Names(name, (), {})


def build(dimension):
    return bandits.PrivateUCB(dimension=dimension, rounds=5000, first=50, **PRIVATE)


def test_a_learner_of_coba_learns_in_its_experiments():
    coba = pytest.importorskip("coba")
    algorithm = bandits.PrivateUCB(
        dimension=16, rounds=2000, first=50, explore=0.1, epsilon=50.0, delta=1e-6
    )
    environment = coba.Environments.from_linear_synthetic(
        1500, n_actions=3, n_context_features=2, n_action_features=0, seed=1
    )
    learners = [bandits.CobaLearner(algorithm), coba.RandomLearner()]
    result = coba.Experiment(environment, learners).run(quiet=True)
    rewards = {0: [], 1: []}
    for row in result.interactions.to_dicts():
        rewards[row["learner_id"]].append(row["reward"])
    assert len(rewards[0]) == 1500
    assert np.mean(rewards[0][-500:]) > np.mean(rewards[1]) + 0.02
    assert learners[0].params["family"] == "PrivateUCB"


def test_a_learner_of_coba_has_no_reward_before_a_prediction():
    learner = bandits.CobaLearner(build(4))
    with pytest.raises(RuntimeError, match=r"Call predict\(\) before learn"):
        learner.learn(None, "a", 1.0, 1.0, bandits.Ticket(0, 0, ""))


def test_integer_actions_of_coba_are_ids_and_not_numbers():
    learner = bandits.CobaLearner(build(16))
    for _ in range(300):
        action, probability, kwargs = learner.predict(None, [0, 1, 2])
        learner.learn(None, action, float(action == 1), probability, **kwargs)
    later = [learner.predict(None, [0, 1, 2])[0] for _ in range(100)]
    assert np.mean(np.array(later) == 1) > 0.8  # linear in a number, the middle is never the best


def test_a_policy_runs_in_the_simulator_of_obp(monkeypatch):
    if importlib.util.find_spec("torch") is None:  # obp imports it for its offline learner only
        for name in ("torch", "torch.nn", "torch.optim"):
            monkeypatch.setitem(sys.modules, name, Absent(name))
        sys.modules["torch"].nn, sys.modules["torch"].optim = Absent("nn"), Absent("optim")
    simulator = pytest.importorskip("obp.simulator", reason="needs obp", exc_type=ImportError)
    rng = np.random.default_rng(0)
    n = 3000
    context, action = rng.standard_normal((n, 2)), rng.integers(0, 2, n)
    means = np.where(action == (context[:, 0] > 0), 0.9, 0.1)
    feedback = {
        "n_rounds": n,
        "n_actions": 2,
        "context": context,
        "action": action,
        "position": None,
        "reward": (rng.random(n) < means).astype(int),
        "pscore": np.full(n, 0.5),
    }
    policy = bandits.ObpPolicy(2, build)
    chosen = simulator.run_bandit_simulation(feedback, policy)[:, 1, 0]
    assert np.mean(chosen[-1000:] == (context[-1000:, 0] > 0)) > 0.85
    assert policy.agent.guarantee(1e-6).epsilon <= 10


def test_an_obp_policy_takes_the_reward_of_its_last_action():
    policy = bandits.ObpPolicy(2, build)
    (action,) = policy.select_action(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="last selected"):
        policy.update_params(1 - action, 1.0, np.zeros((1, 2)))
    policy.update_params(action, 1.0, np.zeros((1, 2)))
    with pytest.raises(ValueError, match="last selected"):
        policy.update_params(action, 1.0, np.zeros((1, 2)))


def test_fit_partial_fit_and_predict():
    rng = np.random.default_rng(0)
    contexts = rng.standard_normal((1500, 2))
    decisions = rng.choice(["news", "game", "shop"], 1500)
    best = np.where(contexts[:, 0] > 0, "news", "game")
    rewards = (rng.random(1500) < np.where(decisions == best, 0.9, 0.2)).astype(float)
    policy = bandits.ArmPolicy(["news", "game", "shop"], build)
    policy.fit(decisions[:1000], rewards[:1000], contexts[:1000])
    policy.partial_fit(decisions[1000:], rewards[1000:], contexts[1000:])
    assert policy.agent.rounds == 1500
    right = np.array(policy.predict(contexts)) == best
    assert right.mean() > 0.85
    found = policy.predict_expectations([[2.0, 0.0]])[0]
    assert list(found) == ["news", "game", "shop"]
    assert found["news"] == pytest.approx(0.9, abs=0.3)
    policy.fit(["shop"], [1.0])
    assert policy.agent.rounds == 1
    assert policy.predict_expectations() == [dict.fromkeys(["news", "game", "shop"], 0.5)]
    with pytest.raises(ValueError, match=r"^Expected decision='cars' to be one of arms"):
        policy.partial_fit(["shop", "cars"], [1.0, 1.0])
    with pytest.raises(ValueError, match=r"^Expected number of rewards=1 to be 2\."):
        policy.partial_fit(["shop", "game"], [1.0])
    with pytest.raises(ValueError, match=r"^Expected number of contexts=1 to be 2\."):
        policy.partial_fit(["shop", "game"], [1.0, 0.0], [[]])
    assert policy.agent.rounds == 1
    with pytest.raises(ValueError, match="distinct"):
        bandits.ArmPolicy(["a", "a"], build)


def test_expected_rewards_of_eliminated_phases():
    for kind in (bandits.CoreSetElimination, bandits.LinUCB):
        private = {} if kind is bandits.LinUCB else {**PRIVATE, "first": 50}
        agent = kind(dimension=2, rounds=500, center=0.5, **private).start()
        for _ in range(200):
            ticket = agent.select(np.eye(2))
            agent.update(ticket, float(ticket.action == 0))
        assert agent.predict(np.eye(2))[0] == pytest.approx(1, abs=0.3)
        for wrong in (np.eye(3), np.zeros((0, 2)), [1.0, 2.0]):
            with pytest.raises(ValueError, match=r"^Expected shape of candidates=\(.* \(n, 2\)"):
                agent.predict(wrong)
