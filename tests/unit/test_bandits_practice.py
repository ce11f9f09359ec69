"""Plain arms, which repeat the same candidates, and rewards that arrive late."""

import numpy as np
import pytest
from scipy.special import ndtr

import bandits
from bandits.learning.exploration import Challenging, Noise
from tests.one_hot_arms import OneHotArms

SAME = {"rounds": 2000, "epsilon": 1.0, "delta": 1e-5}


def test_the_default_explores_one_hot_arms():
    algorithms = {
        "declared": bandits.PrivateUCB(dimension=5, one_hot_arms=True, **SAME),
        "default": bandits.PrivateUCB(dimension=5, **SAME),
        "batches": bandits.AdaPrivateUCB(dimension=5, **SAME),
    }
    found = bandits.simulate(algorithms, OneHotArms(dimension=5), replicates=32, seed=3, points=1)
    regret = {name: mean for name, (mean, _) in found.final_regret().items()}
    assert max(regret["declared"], regret["default"]) < 80
    assert regret["batches"] > 160


def test_the_rounds_of_a_batch_are_divided_by_the_chance_to_be_better():
    rule = Challenging(horizon=2000, cost=5.0)
    mean, sd = np.array([0.4, 0.5, 0.45, 0.0]), np.array([0.1, 0.05, 0.02, 0.03])
    nothing, each = Noise(np.zeros(0), np.zeros(0)), np.arange(1, 2000)
    rows = np.broadcast_to(np.eye(4), (1, len(each), 4, 4))
    found = rule.pick(rows, mean[None, None], np.diag(sd)[None, None], nothing, 0, each)[0]
    apart = np.hypot(sd, sd[1])
    better = ndtr((mean - 0.5) / apart)
    weights = np.array([4 * better[0] ** 2, 1.0, 4 * better[2] ** 2, 0.0])
    shares = np.bincount(found[:1000], minlength=4) / 1000
    assert shares == pytest.approx(weights / weights.sum(), abs=0.005)
    # the expected gains of rows 0 and 2 per round, as integrals over the difference
    x = np.linspace(0, 2, 20_001)[:, None]
    density = np.exp(-np.square((x - mean + 0.5) / apart) / 2) / (apart * np.sqrt(2 * np.pi))
    gains = (x * density).sum(0)[[0, 2]] * 1e-4
    ends = [each[found == i].max() for i in (0, 2)]
    assert ends == pytest.approx(2000 - 5 / gains, abs=25)
    # no overflow if a difference of estimates has a standard deviation of 0
    equal = np.array([[1.0, 0.0], [1.0, -1.0]]), np.array([0.3, 0.2]), np.diag([1.0, 0.0])
    assert rule.pick(*equal, nothing, 0, 1) == 0
    live = [int(rule.pick(np.eye(4), mean, np.diag(sd), nothing, 0, t)) for t in range(1, 20)]
    assert live == found[:19].tolist()


def test_kept_weights_are_those_of_the_candidates_and_of_the_last_release():
    agent = bandits.PrivateUCB(dimension=4, one_hot_arms=True, **SAME).start(
        simulation=True, seed=1
    )
    learner, nothing = agent._learner, Noise(np.zeros(0), np.zeros(0))
    arms = np.eye(4), np.eye(4)[::-1].copy(), np.eye(4)[:3], np.eye(4)[[0, 0, 1, 1]]
    for t in range(400):
        offered = arms[t % 7 % 4]
        ticket = agent.select(offered)  # closes a batch that has ended before it picks
        mean, root = learner.model.mean, learner.model.root
        assert ticket.action == learner.exploration.pick(offered, mean, root, nothing, 0, t + 1)
        agent.update(ticket, float(offered[ticket.action, 0]))


def test_declared_arms_have_the_guarantee_and_no_more_than_its_sensitivity():
    declared = bandits.PrivateUCB(dimension=30, one_hot_arms=True, **SAME)
    other = bandits.PrivateUCB(dimension=30, **SAME)
    assert declared.guarantee(1e-5) == other.guarantee(1e-5)
    assert declared.factorization.column_norms().max() <= 1 + 1e-12
    lengths = [declared.schedule.length(batch) for batch in range(3)]
    assert lengths == [300, 100, 115]
    # the first release has less noise than without the declaration, the last one more
    first, last = declared.factorization.noise_std()[[0, -1]]
    assert first < other.factorization.noise_std()[0]
    assert last > other.factorization.noise_std()[-1]
    assert bandits.algorithm_from_json(declared.to_json()) == declared
    with pytest.raises(TypeError, match="Expected one_hot_arms=1 to be True or False"):
        bandits.PrivateUCB(dimension=3, one_hot_arms=1, **SAME)


def test_the_old_name_of_an_option_is_read():
    algorithm = bandits.PrivateUCB(dimension=3, one_hot_arms=True, **SAME)
    form = algorithm.to_json()
    form["plain_arms"] = form.pop("one_hot_arms")
    assert bandits.algorithm_from_json(form) == algorithm


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


@pytest.mark.parametrize("more", [{}, {"one_hot_arms": True, "explore": 0.3}])
def test_a_restored_agent_continues_with_the_same_choices(tmp_path, more):
    options = {"rounds": 400, "epsilon": 1.0, "delta": 1e-5, "first": 30}
    algorithm = bandits.PrivateUCB(dimension=3, **options, **more)
    agent = algorithm.start(simulation=True, seed=0)
    for _ in range(35):  # the second batch is being compared
        agent.update(agent.select(np.eye(3)), 1.0)
    agent.save(tmp_path / "agent")
    agent.select(np.eye(3))
    again = bandits.Algorithm.restore(tmp_path / "agent")
    tickets = [(agent.select(np.eye(3)), again.select(np.eye(3))) for _ in range(20)]
    for one, other in tickets:
        assert (one.action, one.propensity) == (other.action, other.propensity)
        if more:  # the division of a batch is deterministic
            assert min(abs(one.propensity - p) for p in (0.1, 0.8)) < 1e-12


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


def small(**options):
    """An agent with batches of 10 rounds and negligible noise."""
    settings = {"epsilon": 1e6, "delta": 1e-5, "first": 10, "ratio": 1.0, "center": 0.0}
    return bandits.PrivateUCB(dimension=1, rounds=60, **settings | options)


def total(agent):
    """Return the released sum of rewards."""
    return float(agent._learner.channel.prefix[0])


ONE = np.eye(1)


@pytest.mark.parametrize(("late", "expected"), [("drop", [9, 18]), ("next", [9, 19])])
def test_a_late_reward_joins_the_batch_open_at_its_arrival(late, expected):
    agent = small(late=late).start(simulation=True, seed=0)
    tickets = [agent.select(ONE) for _ in range(10)]
    for ticket in tickets[1:]:
        agent.update(ticket, 1.0)
    following = [agent.select(ONE) for _ in range(10)]
    assert total(agent) == pytest.approx(expected[0], abs=0.1)
    agent.update(tickets[0], 1.0)
    for ticket in following[1:]:
        agent.update(ticket, 1.0)
    agent.select(ONE)
    assert total(agent) == pytest.approx(expected[1], abs=0.1)
    with pytest.raises(ValueError, match=r"ticket\.round"):
        agent.update(tickets[0], 1.0)


def test_a_batch_is_released_after_its_grace_period():
    agent = small(grace=15).start(simulation=True, seed=0)
    tickets = [agent.select(ONE) for _ in range(25)]
    assert agent.releases == 0
    for ticket in tickets[:10]:  # all arrive late, but within the grace period
        agent.update(ticket, 1.0)
    agent.select(ONE)
    assert (agent.releases, agent._learner.batch) == (1, 2)
    assert total(agent) == pytest.approx(10, abs=0.1)
    for ticket in tickets[10:]:
        agent.update(ticket, 0.5)
    agent.finish(release=True)
    assert agent.releases == 3
    assert total(agent) == pytest.approx(10 + 15 * 0.5, abs=0.1)


def test_simulations_observe_the_grace_period():
    algorithm = bandits.PrivateUCB(dimension=3, grace=60, first=50, **SAME)
    learner = algorithm.learner(np.random.SeedSequence(0), None)
    learner.turn()
    assert (learner.due, learner.learned, learner.left) == (False, 0, 58)  # 50 * 1.15
    kept = bandits.simulate(
        {"a": algorithm}, OneHotArms(dimension=3), replicates=4, seed=1, points=1
    )
    plain = bandits.PrivateUCB(dimension=3, first=50, **SAME)
    other = bandits.simulate({"a": plain}, OneHotArms(dimension=3), replicates=4, seed=1, points=1)
    assert (kept.regret["a"] != other.regret["a"]).any()


def test_a_restored_agent_keeps_waiting_batches_and_joined_rewards(tmp_path):
    agent = small(grace=12, late="next").start()
    tickets = [agent.select(ONE) for _ in range(45)]
    for ticket in tickets[5:]:
        agent.update(ticket, 1.0)
    agent.update(tickets[0], 1.0)
    agent.update(tickets[1], 7.0)
    agent.update(tickets[2], None)
    agent.save(tmp_path / "agent")
    again = bandits.Algorithm.restore(tmp_path / "agent")
    assert again.sensitive_counts == {"late": 28, "missing": 1, "clipped": 1}
    again.update(tickets[3], 1.0)
    again.finish(release=True)
    assert again.releases == 5
    assert total(again) == pytest.approx(43, abs=0.5)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_crash_at_a_release_keeps_each_reward_once(tmp_path, monkeypatch, ahead):
    agent = small(grace=12, late="next").start()
    agent.save(tmp_path / "agent")
    tickets = [agent.select(ONE) for _ in range(32)]
    for ticket in tickets[5:]:
        agent.update(ticket, 1.0)
    agent.update(tickets[0], 1.0)  # joins batch 3

    def crash(*_):
        raise KeyboardInterrupt

    place = (agent._learner.model, "close") if ahead else (agent._learner.channel, "release")
    monkeypatch.setattr(*place, crash)
    with pytest.raises(KeyboardInterrupt):
        agent.select(ONE)
    again = bandits.Algorithm.restore(tmp_path / "agent")
    assert again.releases == 1 + ahead
    again.finish(release=True)
    assert again.releases == 4
    assert total(again) == pytest.approx(28, abs=0.5)


def test_an_interruption_after_learning_does_not_shift_waiting_rounds(monkeypatch):
    agent = small(grace=12).start(simulation=True, seed=0)
    tickets = [agent.select(ONE) for _ in range(22)]
    for i, ticket in enumerate(tickets):
        agent.update(ticket, float(i < 10))
    next_batch = agent._next_batch

    def crash(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(agent, "_next_batch", crash)
        with pytest.raises(KeyboardInterrupt):
            agent.select(ONE)
    assert agent._next_batch == next_batch
    for _ in range(10):
        agent.update(agent.select(ONE), 1.0)
    agent.finish(release=True)
    assert total(agent) == pytest.approx(20, abs=0.1)


def test_a_late_reward_that_may_move_is_charged_for_two_batches():
    """Replacing a reward and its arrival moves two sums; brute force over all pairs of batches."""
    for center, noise in ((0.0, "optimized"), (0.5, "optimized"), (0.2, "square_root")):
        options = {"epsilon": 1.0, "center": center, "noise": noise}
        drop = small(**options)
        public = small(late="next", public_arrivals=True, **options)
        private = small(late="next", **options)
        assert public.noise_multiplier == drop.noise_multiplier
        assert private.replace_distance == 2
        assert private.guarantee(1e-5).epsilon <= 1
        covariance = private._noise_covariance
        # whitened releases: moving s x from batch j to s' x in batch k
        root = np.linalg.inv(np.linalg.cholesky(covariance)) @ np.tril(np.ones_like(covariance))
        ends = np.array([-center, 1 - center])
        moves = [
            np.linalg.norm(after * root[:, k] - before * root[:, j])
            for j in range(len(root))
            for k in range(len(root))
            for before in ends
            for after in ends
        ]
        allowed = 2 / private.noise_multiplier
        assert max(moves) <= allowed * (1 + 1e-9)
        if center == 0:
            assert max(moves) > 1.3 / private.noise_multiplier  # one batch: 1
    special = small(late="next", relation="REPLACE_SPECIAL", epsilon=1.0)
    assert (
        special.noise_multiplier == small(relation="REPLACE_SPECIAL", epsilon=1.0).noise_multiplier
    )


def test_a_late_reward_does_not_depend_on_other_arrivals(monkeypatch):
    monkeypatch.setattr("bandits.live.agent._MOST_LATE", 15)
    sums = []
    for answered in (False, True):
        agent = small(late="next").start(simulation=True, seed=0)
        tickets = [agent.select(ONE) for _ in range(21)]
        for ticket in tickets[1:20]:
            if answered:
                agent.update(ticket, 0.0)
        agent.update(tickets[0], 1.0)  # too old
        agent.update(tickets[10], None) if not answered else None
        for _ in range(10):
            agent.select(ONE)
        sums.append(total(agent))
    assert sums == pytest.approx([0, 0], abs=0.1)


def test_bad_values_for_late_rewards_are_refused():
    for name, value in (("grace", -1), ("late", "keep")):
        with pytest.raises(ValueError, match=f"^Expected {name}"):
            small(**{name: value})
    with pytest.raises(TypeError, match=r"^Expected public_arrivals"):
        small(public_arrivals=1)


def test_an_infinite_epsilon_names_the_algorithms_without_privacy():
    with pytest.raises(ValueError, match=r"^Expected epsilon=inf to be finite\. Use LinUCB"):
        small(epsilon=float("inf"))


def test_old_batches_count_half_after_the_half_life():
    """One feature, exact sums: the estimate is the discounted mean."""
    agent = small(half_life=40, prior_variance=1e6).start(simulation=True, seed=0)
    for i in range(51):
        agent.update(agent.select(ONE), float(i < 20))
    weights = 0.5 ** (np.arange(4, -1, -1) * 10 / 40)
    expected = (weights * [1, 1, 0, 0, 0]).sum() / weights.sum()
    assert agent.estimate[0] == pytest.approx(expected, abs=1e-3)


def test_forgetting_is_post_processing_of_independent_releases():
    settings = {"dimension": 3, "rounds": 5000, "epsilon": 1.0, "delta": 1e-5}
    plain = bandits.PrivateUCB(noise="independent", **settings)
    short = bandits.PrivateUCB(half_life=400, **settings)
    assert short.mechanism == plain.mechanism
    assert bandits.algorithm_from_json(short.to_json()) == short
    lengths = [short.schedule.length(batch) for batch in range(short.batches)]
    assert max(lengths) == 100
    assert sum(lengths[:-1]) < 5000 <= sum(lengths)
    with pytest.raises(ValueError, match=r"^Expected half_life=3"):
        bandits.PrivateUCB(half_life=3, **settings)


def test_a_forgetting_agent_continues_from_its_folder(tmp_path):
    agent = small(half_life=40).start(simulation=True, seed=0)
    kept = small(half_life=40).start(simulation=True, seed=0, folder=tmp_path / "agent")
    for i in range(35):
        for each in (agent, kept):
            each.update(each.select(ONE), i % 2)
    again = bandits.Algorithm.restore(tmp_path / "agent")
    for _ in range(20):
        for each in (agent, again):
            each.update(each.select(ONE), 1.0)
    np.testing.assert_array_equal(agent.estimate, again.estimate)


def test_arms_may_come_and_go_between_batches():
    """A better arm that appears later is found, and a retired one is not needed."""
    algorithm = bandits.PrivateUCB(dimension=6, rounds=6000, epsilon=5.0, delta=1e-5)
    agent, rng, played = algorithm.start(simulation=True, seed=2), np.random.default_rng(0), []
    means = np.array([0.2, 0.4, 0.3, 0.9, 0.1, 0.2])
    for i in range(6000):
        offered = [0, 1, 2] if i < 2000 else [0, 2, 3, 4, 5]
        ticket = agent.select(np.eye(6)[offered])
        arm = offered[ticket.action]
        agent.update(ticket, float(rng.random() < means[arm]))
        played.append(arm)
    assert np.mean(np.array(played[1000:2000]) == 1) > 0.6
    assert np.mean(np.array(played[-1000:]) == 3) > 0.8
