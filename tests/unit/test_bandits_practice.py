"""Plain arms: rounds that repeat the same candidates."""

import numpy as np
import pytest

import bandits
from tests.plain_arms import PlainArms

SAME = {"rounds": 2000, "epsilon": 1.0, "delta": 1e-5}


def test_the_default_explores_plain_arms():
    algorithms = {
        "default": bandits.PrivateUCB(dimension=5, **SAME),
        "batches": bandits.AdaPrivateUCB(dimension=5, **SAME),
    }
    found = bandits.simulate(algorithms, PlainArms(dimension=5), replicates=32, seed=3, points=1)
    regret = {name: mean for name, (mean, _) in found.last().items()}
    assert regret["default"] < 90
    assert regret["default"] < regret["batches"]


@pytest.mark.parametrize("kind", [bandits.PrivateUCB, bandits.PrivateThompson])
def test_a_batch_of_repeated_candidates_plays_several_arms(kind):
    algorithm = kind(dimension=5, **SAME)
    agent = algorithm.start(simulation=True, seed=0)
    played = [agent.select(np.eye(5)).action for _ in range(300)]
    assert min(np.bincount(played[:100], minlength=5)) >= 10
    assert len(set(played[115:215])) >= 3


@pytest.mark.parametrize("kind", [bandits.PrivateUCB, bandits.PrivateThompson])
def test_changing_candidates_end_the_sampling_and_order_does_not_matter(kind):
    rng = np.random.default_rng(0)
    algorithm = kind(dimension=3, **SAME)
    agent = algorithm.start(simulation=True, seed=0)
    for sampling, draw in (
        (True, lambda: rng.permutation(np.eye(3))),
        (False, lambda: rng.standard_normal((4, 3))),
        (True, lambda: np.eye(3)),
    ):
        batch = agent.releases
        while agent.releases <= batch + 1:
            agent.update(agent.select(draw()), 1.0)
        assert agent._learner._repeats.sampling == sampling


def test_live_agents_and_simulations_choose_the_same_among_repeated_candidates():
    algorithm = bandits.PrivateUCB(dimension=4, rounds=400, epsilon=1.0, delta=1e-5, first=50)
    seed = np.random.SeedSequence(5)
    live = algorithm.learner(seed, np.random.default_rng(1))
    block = algorithm.learner([np.random.SeedSequence(5)], np.random.default_rng(1))
    arms = algorithm.prepared(np.eye(4)[None])
    for rounds in (50, 57):
        features = np.empty((rounds, live.dimension))
        single = []
        for i in range(rounds):
            single.append(int(live.choose(arms[0])))
            features[i] = arms[0, single[-1]]
            live.observe(features[i])
        offered = np.broadcast_to(np.arange(4), (1, rounds, 4))
        parts = [block.play_block(arms, offered[:, :7]), block.play_block(arms, offered[:, 7:])]
        assert np.concatenate(parts, axis=1)[0].tolist() == single
        rewards = np.linspace(0, 1, rounds)
        live.close(features, rewards)
        block.close(features[None], rewards[None])


def test_a_restored_agent_continues_with_the_same_choices(tmp_path):
    algorithm = bandits.PrivateUCB(dimension=3, rounds=400, epsilon=1.0, delta=1e-5, first=30)
    agent = algorithm.start(simulation=True, seed=0)
    for _ in range(35):  # the second batch is being compared
        agent.update(agent.select(np.eye(3)), 1.0)
    agent.save(tmp_path / "agent")
    expected = [agent.select(np.eye(3)).action for _ in range(20)]
    again = bandits.Algorithm.restore(tmp_path / "agent")
    assert [again.select(np.eye(3)).action for _ in range(20)] == expected


def test_replicates_with_and_without_repeated_candidates_use_their_own_rule():
    algorithm = bandits.PrivateUCB(dimension=4, rounds=400, epsilon=1.0, delta=1e-5, first=40)
    learner = algorithm.learner([np.random.SeedSequence(i) for i in range(2)], None)
    arms = algorithm.prepared(np.random.default_rng(0).standard_normal((1, 8, 4)))
    rng = np.random.default_rng(1)
    same = np.broadcast_to([0, 1, 2], (40, 3))
    other = np.stack([rng.permutation(8)[:3] for _ in range(40)])
    offered = np.stack([same, other])
    learner.play_block(arms, offered)
    learner.close(np.zeros((2, 40, learner.dimension)), np.zeros((2, 40)))
    assert learner._repeats.sampling.tolist() == [True, False]
    picks = learner.play_block(arms, offered)
    scores = learner._base.scores(arms, learner.model.mean, learner.model.root)
    assert (picks[1] == scores[1][other].argmax(-1)).all()
    assert len(set(picks[0].tolist())) > 1


def test_algorithms_with_other_rules_are_unchanged():
    learner = bandits.AdaPrivateUCB(dimension=2, **SAME).learner(np.random.SeedSequence(0), None)
    assert learner._sampling is None
