"""Live agents: tickets, late rewards, checkpoints, what is refused."""

import copy
import json
import math
import os
import pickle
import signal
import sys
import threading
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner

import bandits
import privacy as dp
from bandits.algorithms.registry import ALGORITHMS
from bandits.cli import bandit
from bandits.live.candidates import Candidates
from bandits.offline.simulation import play

# AdaPrivateAmp warns of the noise of sampled sums, which has a test of its own
pytestmark = pytest.mark.filterwarnings("ignore:At the same guarantee, sampling")

PRIVATE = {"epsilon": 1.0, "delta": 1e-5}
COMMON = {"dimension": 3, "rounds": 60}


def build(name, **more):
    kind = ALGORITHMS[name]
    options = COMMON | more
    if not name.startswith("Lin"):
        options = PRIVATE | options
    if name.startswith("AdaPrivate") or name == "PrivateContexts":
        options = {"batch": 13} | options
        if name == "AdaPrivateAmp":
            options = {"sampling_probability": 0.5} | options
    elif not name.startswith("Lin"):
        options = {"first": 10} | options
    return kind(**options)


def candidates(i, count=4, d=3):
    x = np.random.default_rng(i).standard_normal((count, d))
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def run(agent, rounds, user=0, first=0):
    actions = []
    for i in range(first, first + rounds):
        extra = {"user": f"u{i % 4}"} if user else {}
        ticket = agent.select(candidates(i), **extra)
        agent.update(ticket, (i * 7 % 10) / 10)
        actions.append(ticket.action)
    return actions


def by_user(name):
    return name in ("AdaPrivateUser", "AdaPrivateGroup")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_plays_with_noise_from_the_system(name):
    agent = build(name).start()
    before = agent.guarantee(1e-5)
    run(agent, 60, by_user(name))
    agent.finish(release=True)
    assert agent.releases > 1
    assert agent.guarantee(1e-5) == before
    assert np.isfinite(agent.estimate).all()


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_json_form_reads_back(name):
    algorithm = build(name, prior_mean=[0.1, 0.2, 0.3])
    assert bandits.algorithm_from_json(json.loads(json.dumps(algorithm.to_json()))) == algorithm


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"LinTS", "LinUCB"}))
def test_epsilon_is_just_below_the_target(name):
    algorithm = build(name)
    guarantee = algorithm.guarantee(1e-5)
    assert guarantee.epsilon <= 1
    # the printed conversion is loose: its true epsilon is .742
    assert guarantee.epsilon >= (0.74 if algorithm.calibration == "printed" else 0.99999)
    assert guarantee.delta == 1e-5
    assert "one round" in guarantee.unit or "one user" in guarantee.unit


def test_non_private_guarantees_are_printed_as_such():
    assert build("LinUCB").guarantee(1e-5).epsilon == math.inf


def test_exact_amplified_noise():
    for q, sigma in {0.1: 1.26, 0.3: 1.94, 0.5: 2.50, 0.7: 3.00}.items():
        ratio = {0.1: "3.37", 0.3: "1.74", 0.5: "1.34", 0.7: "1.15"}[q]
        with pytest.warns(UserWarning, match=f"by {ratio} "):
            algorithm = build("AdaPrivateAmp", sampling_probability=q)
        assert algorithm.noise_multiplier * algorithm.clip_norm == pytest.approx(sigma, abs=0.005)


def test_a_delta_that_is_not_small_is_warned_of():
    with pytest.warns(UserWarning, match=r"rounds \* delta = 10"):
        build("PrivateUCB", rounds=10**6)


def test_noise_of_the_paper_and_ours():
    paper = build("AdaPrivateTS")
    assert paper.noise_multiplier * paper.clip_norm == pytest.approx(4.901, abs=5e-4)
    ours = build("PrivateUCB")  # a centered reward moves by the same distance when replaced
    assert ours.noise_multiplier * ours.clip_norm == pytest.approx(3.731, abs=5e-4)
    missing = build("PrivateUCB", relation="REPLACE_SPECIAL")
    assert missing.noise_multiplier * missing.clip_norm == pytest.approx(3.731 / 2, abs=5e-4)


def test_a_ticket_takes_one_reward():
    agent = build("PrivateUCB").start()
    ticket = agent.select(candidates(0))
    agent.update(ticket, 1.0)
    with pytest.raises(ValueError, match="an open ticket"):
        agent.update(ticket, 1.0)
    other = build("PrivateUCB").start().select(candidates(0))
    second = agent.select(candidates(1))
    with pytest.raises(ValueError, match="an open ticket"):
        agent.update(other, 1.0)
    with pytest.raises(ValueError, match="an open ticket"):
        agent.update(second._replace(key="0"), 1.0)
    agent.update(second, 0.0)


SECRET = ["0.123", b"0.123", 0.123j, [0.123], np.array([0.123]), Decimal("sNaN123"), object()]


@pytest.mark.parametrize("bad", SECRET, ids=[type(bad).__name__ for bad in SECRET])
def test_a_reward_that_is_no_number_is_not_shown_and_leaves_the_ticket_open(bad):
    agent = build("PrivateUCB").start()
    ticket = agent.select(candidates(0))
    with pytest.raises(TypeError, match=r"^Expected type of reward") as caught:
        agent.update(ticket, bad)
    assert "123" not in str(caught.value)
    agent.update(ticket, 0.5)


@pytest.mark.parametrize(
    ("reward", "counted"),
    [
        (10**400, 0.5),
        (-(10**400), -0.5),
        (math.inf, 0.5),
        (-math.inf, -0.5),
        (-0.0, -0.5),
        (True, 0.5),
        (Fraction(10**400, 3), 0.5),
        (Decimal("1e400"), 0.5),
        (np.float32(0.25), -0.25),
        (np.array(0.25), -0.25),
        (None, 0.0),
        (math.nan, 0.0),
        (Decimal("nan"), 0.0),
    ],
)
def test_numbers_of_any_type_are_rewards(reward, counted):
    agent = build("PrivateUCB").start()
    agent.update(agent.select(candidates(0)), reward)
    assert agent._rewards[0] == counted


def test_only_tickets_are_accepted():
    agent = build("PrivateUCB").start()
    ticket = agent.select(candidates(0))
    for bad in (None, 0, tuple(ticket), ticket._replace(round=0.0), ticket._replace(round=[0])):
        with pytest.raises(TypeError, match=r"^Expected ticket="):
            agent.update(bad, 1.0)
    for bad in (ticket._replace(round=1, key=None), ticket._replace(round=-1)):
        with pytest.raises(ValueError, match="an open ticket"):
            agent.update(bad, 1.0)
    agent.update(ticket._replace(round=np.int64(0)), 1.0)


def test_unanswered_tickets_take_one_bit_each():
    agent = build("AdaPrivateTS", rounds=10**4, batch=5).start(simulation=True, seed=1)
    tickets = [agent.select(candidates(i)) for i in range(4000)]
    assert len(agent._pending) <= 5
    assert len(agent._missed._bits) <= 4000 // 8 + 1
    for ticket in tickets:
        agent.update(ticket, 1.0)
        with pytest.raises(ValueError, match="an open ticket"):
            agent.update(ticket, 1.0)
    agent = build("LinUCB", rounds=10**4).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bandits.live.agent._MOST_LATE", 50)
        tickets = [agent.select(np.eye(3)[:1]) for _ in range(200)]
        assert len(agent._late) == 50
        agent.update(tickets[0], 1.0)  # forgotten
        agent.update(tickets[-10], 1.0)  # one of the last 50
        agent.select(np.eye(3)[:1])
    assert agent.estimate[0] == pytest.approx(1 / 202)


def test_a_batch_of_many_rounds_is_summed_whole():
    for algorithm in (
        build("AdaPrivateTS", rounds=10**6, batch=10**6, delta=1e-9),
        build("PrivateUCB", rounds=10**6, first=10**6, delta=1e-9, low=-1.0, center=-1.0),
        build("AdaPrivateUser", rounds=10**6, growth=1e9, cap=1e6, delta=1e-9),
    ):
        channel = algorithm.channel((), None)
        x = np.zeros((10**6, algorithm.features))
        x[:, 0] = 1.0
        reward = algorithm.reward_range.read(1.0)[0]
        channel.release(x, np.full(10**6, reward), ["u"] * 10**6)
        error = channel.prefix - [reward * 1e6, 0, 0]
        assert np.abs(error).max() < 10 * channel.sums.sigma


def test_the_lattice_of_short_batches_stays_fine():
    own = {name for name in ALGORITHMS if name in bandits.__all__}
    for name in sorted(own - {"LinTS", "LinUCB"}):
        sums = build(name).channel((), None).sums
        assert sums.step_width <= sums.sigma * 2**-30


def test_an_agent_that_releases_cannot_be_copied():
    agent = build("PrivateUCB").start()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(agent)


@pytest.mark.parametrize(
    "at", [lambda learner: (learner, "choose"), lambda learner: (learner.model, "observe")]
)
def test_an_interrupted_round_does_not_shift_users(at, monkeypatch):
    """The next round replaces it, with its own features, user and ticket."""
    agent = build("AdaPrivateUser", batch=50).start(simulation=True, seed=1)
    agent.select(np.eye(3)[:1], user="first")
    learner = agent._learner

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(*at(learner), interrupt)
        with pytest.raises(KeyboardInterrupt):
            agent.select(np.eye(3)[1:2], user="lost")
    ticket = agent.select(np.eye(3)[2:], user="second")
    agent.update(ticket, 1.0)
    features, rewards = agent._open_rounds()
    np.testing.assert_array_equal(features, np.eye(3)[[0, 2]])
    np.testing.assert_array_equal(rewards, [0.0, 1.0])
    assert agent._users == ["first", "second"]


class Hidden(str):
    __slots__ = ()

    def __str__(self):
        return "somebody"


@pytest.mark.parametrize("user", [1.0, True, math.nan, b"1", ("a",), np.timedelta64(1, "D")])
def test_a_user_is_a_string_or_a_whole_number(user):
    agent = build("AdaPrivateUser").start(simulation=True, seed=1)
    with pytest.raises(TypeError, match=r"Expected user=.* to be a string or a whole number\."):
        agent.select(np.eye(3), user=user)
    with pytest.raises(ValueError, match=r"Expected user=.* of at most 1000 bits\."):
        agent.select(np.eye(3), user=10**5000)
    assert agent.rounds == 0
    agent.select(np.eye(3), user=np.int64(1))
    agent.select(np.eye(3), user=1)
    assert set(agent._users) == {1}


def test_a_second_kind_of_user_is_refused(tmp_path):
    for first, second in ((7, "7"), ("7", 7)):
        agent = build("AdaPrivateUser").start()
        agent.save(tmp_path / str(type(first)))
        for _ in range(14):  # the first batch of 13 is released with the last
            agent.select(np.eye(3), user=first)
        for each in (agent, bandits.Algorithm.restore(tmp_path / str(type(first)))):
            with pytest.raises(TypeError, match="of the type used before") as caught:
                each.select(np.eye(3), user=second)
            assert "7" not in str(caught.value)
            each.select(np.eye(3), user=first)


USERS = ["a", "a\0", "a\0\0", "", "\0", "\ud83d\ude00", "\U0001f600", Hidden("b"), Hidden("c")]


@pytest.mark.parametrize("name", ["AdaPrivateUser", "AdaPrivateGroup"])
def test_users_who_differ_have_a_cap_each_before_and_after_a_restart(name, tmp_path):
    users, count = [str.__str__(user) for user in USERS], len(USERS)
    options = {"cap": 1.0} if name == "AdaPrivateUser" else {"rounds_per_user": 1}
    agent = build(name, batch=count, **options).start()
    agent.save(tmp_path / "state")
    x = np.eye(3)[:1]
    for i, user in enumerate([*USERS, *USERS, *USERS[:5]]):
        agent.update(agent.select(x, user=user), 1.0)
        if i in (4, count + 4):
            agent.save(tmp_path / "state")
            agent = bandits.Algorithm.restore(tmp_path / "state")
    channel = agent._learner.channel
    ledger = channel.spent if name == "AdaPrivateUser" else channel.seen
    assert list(ledger) == [(0, user) for user in users]
    assert all(type(user) is str for _, user in ledger)
    used = 1.0 if name == "AdaPrivateUser" else 2
    assert list(ledger.values()) == pytest.approx([used] * count)
    fresh = agent.algorithm.channel((), np.random.default_rng(0))
    batch = x.repeat(count, axis=0), np.ones(count), users
    assert fresh._values(*batch)[0] == pytest.approx(count)
    assert fresh._values(*batch)[0] == 0.0


def test_all_rewards_of_a_user_move_the_sum_by_the_cap():
    """Users "a" and "a\\0" once shared one cap: without the rewards of "a" the sum moved by 2."""
    options = {"dimension": 1, "rounds": 40, "batch": 40, "cap": 1.0, "center": 0.5}
    algorithm = build("AdaPrivateUser", relation="REPLACE_SPECIAL", calibration="exact", **options)
    sums = []
    for reward in (1.0, None):
        agent = algorithm.start()
        values = []
        agent._learner.channel.sums.step = values.append
        for user, given in [("a", reward)] * 30 + [("a\0", 0.0)] * 10:
            agent.update(agent.select([[1.0]], user=user), given)
        agent._learner.channel.release(*agent._open_rounds(), agent._users)
        sums.append(values[0][0])
    assert abs(sums[0] - sums[1]) == pytest.approx(1.0)
    assert abs(sums[0] - sums[1]) <= 1.0


def test_a_long_id_is_kept_once(tmp_path):
    agent = build("AdaPrivateUser", rounds=300, batch=150).start()
    agent.save(tmp_path / "state")
    tracemalloc.start()
    for i in range(151):
        user = "x" * 300_000 if i % 2 else f"u{i}"  # another object each time
        agent.select(np.eye(3), user=user)
    agent.save(tmp_path / "state")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
    bandits.Algorithm.restore(tmp_path / "state").select(np.eye(3), user="x" * 300_000)
    size = sum(path.stat().st_size for path in (tmp_path / "state").iterdir())
    assert size < 1e6


@pytest.fixture
def busy_switching():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_threads_share_an_agent(busy_switching, tmp_path):
    """Every round is in one batch, with its features, user and reward, or none if it was late."""
    each, threads = 100, 8
    rounds = each * threads
    agent = build("AdaPrivateUser", rounds=rounds, batch=13, delta=1e-9).start()
    agent.save(tmp_path / "state")
    channel, seen, tickets, failures = agent._learner.channel, [], [], []
    release = channel.release

    def spy(features, rewards, users):
        seen.extend(zip(features[:, 0].tolist(), rewards.tolist(), users, strict=True))
        release(features, rewards, users)

    channel.release = spy

    def play(first):
        try:
            for i in range(first, first + each):
                ticket = agent.select([[i / rounds, 0.0, 0.0]], user=i)
                tickets.append(ticket)
                agent.update(ticket, i / rounds)
        except Exception as error:  # noqa: BLE001
            failures.append(error)

    workers = [threading.Thread(target=play, args=(each * i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    agent.finish(release=True)
    assert failures == []
    assert sorted(ticket.round for ticket in tickets) == list(range(rounds))
    assert sorted(user for _, _, user in seen) == list(range(rounds))
    assert all(x == user / rounds and reward in (0.0, x) for x, reward, user in seen)
    assert agent.releases == channel.releases == -(-rounds // 13)
    for ticket in tickets:
        with pytest.raises(ValueError, match="an open ticket"):
            agent.update(ticket, 1.0)


def test_candidates_that_change_after_their_check_are_not_used(monkeypatch):
    """Another thread may write into the caller's array; a longer feature would cost more."""
    agent = build("AdaPrivateTS").start(simulation=True, seed=1)
    rows = np.eye(3)
    choose = agent._learner.choose

    def changed(features):
        rows[:] *= 1e6
        return choose(features)

    monkeypatch.setattr(agent._learner, "choose", changed)
    agent.select(rows)
    assert np.linalg.norm(agent._open_rounds()[0]) == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_of_an_agent_is_refused_whichever_thread_held_its_lock():
    agent = build("PrivateUCB").start()
    simulated = build("PrivateUCB").start(simulation=True, seed=1)
    read, write = os.pipe()
    held, done = threading.Event(), threading.Event()

    def hold():
        with agent._lock, simulated._lock:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    child = os.fork()
    if not child:
        signal.alarm(30)  # ends a child that waits for a lock
        try:
            said = []
            for call in (lambda: agent.select(np.eye(3)), lambda: agent.finish(release=True)):
                try:
                    call()
                except RuntimeError as error:
                    said.append(str(error).partition(":")[0])
            said.append(str(simulated.select(np.eye(3)).round))
            os.write(write, "|".join(said).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    done.set()
    holder.join()
    refused = "A forked process cannot use an agent"
    assert os.read(read, 1000).decode() == f"{refused}|{refused}|0"
    os.close(read)
    agent.select(np.eye(3))


def test_a_copied_simulation_has_its_own_lock():
    agent = build("AdaPrivateTS").start(simulation=True, seed=1)
    run(agent, 5)
    copies = copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))
    expected = run(agent, 20, first=5)
    for copied in copies:
        assert copied._lock is not agent._lock
        assert run(copied, 20, first=5) == expected
        np.testing.assert_array_equal(copied._learner.model.root, agent._learner.model.root)


@pytest.mark.parametrize("call", ["channel.release", "learn"])
def test_a_call_from_within_a_release_makes_no_second_one(call, monkeypatch, tmp_path):
    agent = build("AdaPrivateTS").start(simulation=True, seed=1)
    owner = agent._learner.channel if call == "channel.release" else agent._learner
    name = call.split(".")[-1]
    original, refused = getattr(owner, name), []

    def handled(*values):
        original(*values)
        for inner, *given in (
            (agent.select, np.eye(3)),
            (agent.save, tmp_path),
            (partial(agent.finish, release=False),),
        ):
            with pytest.raises(RuntimeError, match="from within a release"):
                inner(*given)
            refused.append(inner)

    monkeypatch.setattr(owner, name, handled)
    run(agent, 60)
    assert len(refused) == 3 * agent.releases > 0
    assert agent._learner.channel.releases == agent.releases


def test_a_simulation_guarantees_nothing():
    agent = build("PrivateUCB").start(simulation=True, seed=1)
    assert agent.guarantee(1e-5).epsilon == math.inf
    assert agent.algorithm.guarantee(1e-5).epsilon <= 1
    learner = agent.algorithm.learner(np.random.SeedSequence(1), np.random.default_rng(1))
    denied = bandits.Agent(agent.algorithm, learner, simulation=False)
    assert denied.guarantee(1e-5).epsilon == math.inf


def test_late_rewards_add_nothing_and_close_the_ticket():
    agents = [build("AdaPrivateTS").start(simulation=True, seed=5) for _ in range(2)]
    late = [agent.select(candidates(0)) for agent in agents]
    for agent in agents:
        run(agent, 13, first=1)  # 13 a batch: the first one is closed now
    assert agents[0].releases == 1
    agents[0].update(late[0], 1.0)
    with pytest.raises(ValueError, match="an open ticket"):
        agents[0].update(late[0], 1.0)
    assert run(agents[0], 40, first=14) == run(agents[1], 40, first=14)
    np.testing.assert_array_equal(agents[0].estimate, agents[1].estimate)


def test_without_privacy_late_rewards_count():
    on_time, late = (build("LinUCB").start(simulation=True, seed=1) for _ in range(2))
    same = np.eye(3)[:1]
    for agent in (on_time, late):
        tickets = [agent.select(same) for _ in range(3)]
        if agent is late:
            for ticket in tickets:
                agent.update(ticket, 1.0)
    extra = late.select(same)
    late.update(extra, 0.0)
    late.select(same)
    assert late.estimate[0] == pytest.approx(3 / 6)


def test_missing_rewards_count_as_rounds():
    agent = build("AdaPrivateTS").start(simulation=True, seed=5)
    for i in range(27):
        ticket = agent.select(candidates(i))
        if i % 3 == 0:
            agent.update(ticket, math.nan)
        elif i % 3 == 1:
            agent.update(ticket, None)
    assert agent.releases == 2  # boundaries do not move


def test_features_of_any_length_are_scaled():
    algorithm = build("PrivateUCB", center=0.5)
    x = np.array([[3e200, 4e200, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0], [0.0, 1e-200, 0.0]])
    shortened = [[0.6, 0.8, 0.0], [0.3, 0.4, 0.0], [0.0, 0.0, 0.0], [0.0, 1e-200, 0.0]]
    np.testing.assert_allclose(algorithm.prepared(x), shortened, rtol=1e-15)
    rng = np.random.default_rng(3)
    long = rng.standard_normal((1000, 3)) * 10.0 ** rng.integers(-3, 9, (1000, 1))
    assert np.linalg.norm(algorithm.prepared(long), axis=1).max() <= 1 + 1e-15
    with_bias = build("PrivateUCB", bias=0.25).prepared(long)
    assert with_bias.shape == (1000, 4)
    assert np.linalg.norm(with_bias, axis=1).max() <= 1 + 1e-15


def test_candidate_sets_may_change_in_size_and_long_features_are_scaled():
    agent = build("PrivateThompson").start(simulation=True, seed=2)
    for i, count in enumerate((1, 7, 2, 100)):
        ticket = agent.select(candidates(i, count))
        assert 0 <= ticket.action < count
    pair = [build("PrivateThompson").start(simulation=True, seed=2) for _ in range(2)]
    for scale, agent in zip((1.0, 1e6), pair, strict=True):
        for i in range(40):
            agent.update(agent.select(scale * candidates(i)), i % 2)
    np.testing.assert_allclose(pair[0].estimate, pair[1].estimate, rtol=1e-9)


@pytest.mark.parametrize(
    "bad",
    [
        np.ones(3),
        np.ones((2, 4)),
        np.ones((0, 3)),
        [[math.nan, 0, 0]],
        [[math.inf, 0, 0]],
        [[0, 0, 1], [0, math.nan, 0]],
    ],
)
def test_bad_candidates_are_refused_and_change_nothing(bad):
    agent = build("AdaPrivateTS").start()
    with pytest.raises(ValueError, match="Expected "):
        agent.select(bad)
    assert agent.rounds == 0


def test_user_level_algorithms_require_user():
    with pytest.raises(ValueError, match="user"):
        build("AdaPrivateUser").start().select(candidates(0))
    with pytest.raises(ValueError, match="user"):
        build("AdaPrivateTS").start().select(candidates(0), user="a")


def test_a_center_that_is_not_given_is_learned():
    assert build("PrivateUCB").constant == 0.25
    assert build("PrivateUCB", center=0.5).constant is None
    assert build("PrivateUCB", center=0.5, bias=0.1).constant == 0.1
    assert build("AdaPrivateTS").constant is None
    world = bandits.Synthetic(dimension=3, arms=20, base=-2.0)
    learned = build("PrivateUCB", rounds=3000, first=100)
    trusted = build("PrivateUCB", rounds=3000, first=100, center=0.5)
    found = bandits.simulate(
        {"a": learned, "b": trusted}, world, replicates=48, seed=1
    ).final_regret()
    assert found["a"][0] < 0.6 * found["b"][0]


def test_rounds_beyond_the_horizon_are_refused():
    agent = build("PrivateUCB").start()
    run(agent, 60)
    with pytest.raises(RuntimeError, match="rounds=60"):
        agent.select(candidates(0))


@pytest.mark.parametrize("release", [True, False])
def test_finish_releases_or_drops_the_last_partial_batch(release):
    agent = build("AdaPrivateTS").start(simulation=True, seed=1)
    run(agent, 20)
    before = agent.releases
    agent.finish(release=release)
    agent.finish(release=release)
    assert agent.releases == before + release
    with pytest.raises(RuntimeError, match=r"finish\(\)"):
        agent.select(candidates(0))


def test_a_change_within_a_batch_holds_from_the_next_round_on(tmp_path, monkeypatch):
    agent = build("AdaPrivateTS").start()
    run(agent, 5)
    with pytest.raises(ValueError, match="user"):
        agent.select(candidates(5), user="a")
    agent.save(tmp_path / "state")
    run(agent, 2, first=5)
    assert bandits.Algorithm.restore(tmp_path / "state").rounds == 7
    agent = build("AdaPrivateTS").start(simulation=True, seed=1)
    run(agent, 5)

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(agent._learner, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            agent.finish(release=True)
    run(agent, 1, first=5)
    assert agent.releases == 1


def test_a_seed_requires_simulation():
    with pytest.raises(ValueError, match="Expected seed=1"):
        build("PrivateUCB").start(seed=1)


def test_noise_of_the_operating_system_differs_between_agents():
    one, other = (build("PrivateUCB").start() for _ in range(2))
    for agent in (one, other):
        run(agent, 60)
        agent.finish(release=True)
    assert not np.array_equal(one.estimate, other.estimate)


def test_warm_start_from_a_public_prior():
    prior = [0.0, 5.0, 0.0]
    for name in ("LinUCB", "AdaPrivateUCB", "PrivateUCB"):
        agent = build(name, prior_mean=prior).start()
        np.testing.assert_allclose(agent.estimate, prior, rtol=1e-15)
        assert agent.select(np.eye(3)).action == 1


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
@pytest.mark.parametrize("stop", [5, 13, 31])
def test_a_restored_checkpoint_continues_bit_for_bit(name, stop, tmp_path):
    users = by_user(name)
    whole, part = (build(name).start(simulation=True, seed=3) for _ in range(2))
    open_ticket = [
        agent.select(candidates(99), **({"user": "u1"} if users else {})) for agent in (whole, part)
    ]
    actions = run(whole, 59, users)
    played = run(part, stop, users)
    part.save(tmp_path / "state")
    played += run(part, 3, users, first=stop)  # lost if a release did not save them
    part.save(tmp_path / "state")
    restored = bandits.Algorithm.restore(tmp_path / "state")
    played += run(restored, 56 - stop, users, first=stop + 3)
    assert played == actions
    for agent, ticket in zip((whole, restored), open_ticket, strict=True):
        agent.update(ticket, 1.0)
        agent.finish(release=True)
    np.testing.assert_array_equal(whole.estimate, restored.estimate)


@pytest.mark.parametrize("name", ["PrivateUCB", "AdaPrivateUser", "PrivateContexts"])
def test_a_crash_after_a_saved_release_draws_no_second_noise(name, tmp_path, monkeypatch):
    users = by_user(name)
    agent = build(name).start()
    agent.save(tmp_path / "state")
    run(agent, 10 if name == "PrivateUCB" else 13, users)
    seen = []

    def crash(features, prefix):
        seen.append(prefix)
        raise KeyboardInterrupt

    monkeypatch.setattr(agent._learner, "learn", crash)
    with pytest.raises(KeyboardInterrupt):
        run(agent, 1, users)
    restored = bandits.Algorithm.restore(tmp_path / "state")
    assert restored.releases == 1
    np.testing.assert_array_equal(restored._learner.channel.prefix, seen[0])
    assert restored._learner.channel.sums.releases == 1
    if users:
        assert restored._learner.channel.spent.keys() == {(0, f"u{i}") for i in range(4)}
    run(restored, 20, users)


def test_an_interruption_after_a_release_makes_no_second_one(monkeypatch):
    agent, plain = (build("AdaPrivateTS").start(simulation=True, seed=1) for _ in range(2))
    run(plain, 27)
    run(agent, 13)
    learn = agent._learner.learn

    def interrupted(features, prefix):
        raise KeyboardInterrupt

    monkeypatch.setattr(agent._learner, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(agent, 1, first=13)
    monkeypatch.setattr(agent._learner, "learn", learn)
    run(agent, 14, first=13)
    assert agent._learner.channel.sums.releases == agent.releases == 2
    np.testing.assert_array_equal(agent.estimate, plain.estimate)


@pytest.mark.parametrize("where", ["learned", "forgotten", "next"])
def test_an_interruption_does_not_move_rewards_to_the_next_batch(where, monkeypatch):
    """Batches of one public feature: rewards of 1 in the first, none after it."""
    agent = build("AdaPrivateUser", batch=4, cap=100.0).start(simulation=True, seed=1)
    x = np.eye(3)[:1]
    for i in range(4):
        agent.update(agent.select(x, user=f"u{i}"), 1.0)
    seen = []
    release = agent._learner.channel.release

    def spy(features, rewards, users):
        seen.append((len(features), rewards.sum(), len(users)))
        release(features, rewards, users)

    agent._learner.channel.release = spy
    victim, name = {
        "learned": (agent._learner.model, "close"),
        "forgotten": (agent, "_forget"),
        "next": (agent, "_next_batch"),
    }[where]
    interrupted = getattr(victim, name)

    def after(*values):
        interrupted(*values)
        raise KeyboardInterrupt

    def before(*values):
        raise KeyboardInterrupt

    monkeypatch.setattr(victim, name, before if where == "next" else after)
    with pytest.raises(KeyboardInterrupt):
        agent.select(x, user="u0")
    monkeypatch.undo()
    for _ in range(4):
        agent.select(x, user="u0")
    agent.finish(release=True)
    assert seen[0] == (4, 4.0, 4)
    assert all(rewards == 0 for _, rewards, _ in seen[1:])


def test_an_unsaved_release_is_not_used(tmp_path, monkeypatch):
    agent = build("AdaPrivateTS").start()
    agent.save(tmp_path / "state")
    run(agent, 13)
    before = agent.estimate

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(agent._learner.channel.sums, "_write", full)
    with pytest.raises(OSError, match="No space"):
        agent.select(candidates(13))
    for _ in range(3):
        with pytest.raises(RuntimeError, match="restore"):
            agent.select(candidates(13))
    np.testing.assert_array_equal(agent.estimate, before)
    restored = bandits.Algorithm.restore(tmp_path / "state")
    run(restored, 20, first=13)
    assert restored.releases == 2


def test_only_the_agent_restored_last_can_release(tmp_path):
    first = build("AdaPrivateTS").start()
    first.save(tmp_path / "state")
    run(first, 13)
    second = bandits.Algorithm.restore(tmp_path / "state")
    with pytest.raises(RuntimeError, match="Another agent"):
        first.select(candidates(13))  # would release the first batch
    third = bandits.Algorithm.restore(tmp_path / "state")
    for agent in (first, second):
        with pytest.raises(RuntimeError, match="Another agent"):
            agent.select(candidates(13))
        with pytest.raises(RuntimeError, match="Another agent"):
            agent.finish(release=True)
        assert agent.releases == 0
    run(third, 7)
    assert third.releases == 1


def test_the_folder_does_not_depend_on_the_working_directory(tmp_path, monkeypatch):
    agent = build("AdaPrivateTS").start()
    monkeypatch.chdir(tmp_path)
    agent.save("state")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    run(agent, 20)
    with pytest.raises(ValueError, match="the folder of this agent"):
        agent.save("state")
    agent.save(tmp_path / "state")
    assert list((tmp_path / "other").iterdir()) == []
    monkeypatch.chdir(tmp_path)
    restored = bandits.Algorithm.restore("state")
    monkeypatch.chdir(tmp_path / "other")
    run(restored, 20, first=20)
    assert list((tmp_path / "other").iterdir()) == []


def test_sums_of_another_agent_are_refused(tmp_path):
    build("AdaPrivateTS").start().save(tmp_path / "state")
    for number, options in enumerate(({"epsilon": 8.0}, {"high": 2.0}, {"dimension": 4})):
        build("AdaPrivateTS", **options).start().save(tmp_path / f"{number}")
        (tmp_path / "state" / "sums.npz").write_bytes(
            (tmp_path / f"{number}" / "sums.npz").read_bytes()
        )
        with pytest.raises(ValueError, match="two agents"):
            bandits.Algorithm.restore(tmp_path / "state")


@pytest.mark.parametrize("damage", ["none", "header", "public", "sensitive", "sums", "edited"])
def test_a_damaged_folder_is_one_clear_error(damage, tmp_path):
    folder = tmp_path / "state"
    build("AdaPrivateTS").start().save(folder)
    files = {"header": "agent.json", "public": "public-1.npz", "sensitive": "sensitive-1.npz"}
    if damage == "none":
        folder = tmp_path / "nothing"
    elif damage == "edited":
        text = (folder / "agent.json").read_text()
        (folder / "agent.json").write_text(text.replace('"epsilon": 1.0', '"epsilon": -1.0'))
    else:
        (folder / files.get(damage, "sums.npz")).write_bytes(b"not a file of ours")
    with pytest.raises(ValueError, match=r"^Expected "):
        bandits.Algorithm.restore(folder)


def test_late_tickets_survive_a_checkpoint(tmp_path):
    agent = build("AdaPrivateTS").start()
    late = agent.select(candidates(0))
    run(agent, 13, first=1)
    agent.save(tmp_path / "state")
    restored = bandits.Algorithm.restore(tmp_path / "state")
    forged = late._replace(key=restored._key)
    with pytest.raises(ValueError, match="an open ticket"):
        restored.update(forged, 1.0)
    restored.update(late, 1.0)
    with pytest.raises(ValueError, match="an open ticket"):
        restored.update(late, 1.0)


def test_the_guarantee_is_of_the_noise_in_the_file(tmp_path, monkeypatch):
    """Another machine may calibrate to other last digits."""
    agent = build("PrivateUCB").start()
    agent.save(tmp_path / "state")
    used = agent.algorithm.noise_multiplier
    monkeypatch.setattr(dp, "calibrate", lambda *_, **__: used * (1 + 5e-13))
    again = bandits.Algorithm.restore(tmp_path / "state")
    assert again.algorithm.noise_multiplier == used
    assert again.guarantee(1e-5) == agent.guarantee(1e-5)


def test_an_old_running_sum_is_refused(tmp_path):
    agent = build("PrivateUCB").start()
    agent.save(tmp_path / "state")
    old = (tmp_path / "state" / "sums.npz").read_bytes()
    run(agent, 30)
    (tmp_path / "state" / "sums.npz").write_bytes(old)
    with pytest.raises(ValueError, match="different saves"):
        bandits.Algorithm.restore(tmp_path / "state")


def test_tickets_of_lost_rounds_are_refused(tmp_path):
    agent = build("PrivateUCB").start()
    agent.save(tmp_path / "state")
    lost = agent.select(candidates(0))
    next((tmp_path / "state").glob("journal*")).unlink()
    restored = bandits.Algorithm.restore(tmp_path / "state")
    again = restored.select(candidates(1))
    assert again.round == lost.round
    with pytest.raises(ValueError, match="an open ticket"):
        restored.update(lost, 1.0)
    restored.update(again, 1.0)


def test_only_sensitive_files_contain_raw_rewards(tmp_path):
    agent = build("AdaPrivateUser").start()
    run(agent, 5, users := True)
    assert users
    agent.save(tmp_path / "state")
    names = {path.name.partition("-")[0]: path for path in (tmp_path / "state").iterdir()}
    files = {"agent.json", "public", "sensitive", "journal", "sums.npz"}
    assert set(names) - {".dpcalib.lock"} == files
    with np.load(names["public"]) as public, np.load(names["sensitive"]) as sensitive:
        assert not set(public) & set(sensitive)
        assert "rewards" in sensitive
        assert "channel_spent" in sensitive
    assert "u1" not in names["agent.json"].read_text()
    assert all(path.stat().st_mode & 0o077 == 0 for path in names.values())


def test_a_folder_of_another_agent_is_not_overwritten(tmp_path):
    build("PrivateUCB").start().save(tmp_path / "state")
    with pytest.raises(ValueError, match="empty or new"):
        build("PrivateUCB").start().save(tmp_path / "state")


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_the_live_agent_is_one_replicate_of_the_simulation(name):
    """Same parts, same seeds: the picks are the same, round by round."""
    environment = bandits.Synthetic(dimension=3, arms=10, candidates=4, users=4)
    # a prior, since a tie would be broken by rounding
    algorithm = build(name, rounds=300, prior_mean=[0.01, 0.02, -0.03])
    marks = np.arange(1, 301)
    _, reward = play(algorithm, environment, 9, range(1), marks)
    streams = np.random.SeedSequence(9, spawn_key=(0,)).spawn(3)
    world = environment.world([streams[0]])
    learner = algorithm.learner(streams[1], np.random.default_rng(streams[2]))
    agent = bandits.Agent(algorithm, learner, simulation=True)
    means = []
    for start in range(0, 300, 128):
        block = world.block(min(128, 300 - start))
        for i in range(block.draws.shape[1]):
            extra = {"user": int(block.users[0, i])} if by_user(name) else {}
            ticket = agent.select(world.features[0, block.candidates[0, i]], **extra)
            mean = block.means[0, i, ticket.action]
            agent.update(ticket, world.rewards(mean, block.draws[0, i]))
            means.append(mean)
    np.testing.assert_allclose(np.cumsum(means), reward[0], rtol=1e-12)


def test_numbers_of_other_types_can_be_saved(tmp_path):
    numbers = {"rounds": np.int64(60), "low": Fraction(-1, 2), "high": np.float32(1.0)}
    agent = build("PrivateUCB", **numbers).start()
    run(agent, 12)
    agent.save(tmp_path / "state")
    restored = bandits.Algorithm.restore(tmp_path / "state")
    assert restored.algorithm == agent.algorithm == build("PrivateUCB", low=-0.5)


@pytest.mark.parametrize("options", [{"growth": 1e-320}, {"growth": 1.0, "ridge": 1e-50}])
def test_a_tiny_growth_ends_several_batches(options):
    agent = build("AdaPrivateTS", **options).start(simulation=True, seed=1)
    run(agent, 20)
    assert agent.releases >= 3


def test_rewards_of_huge_and_tiny_units(tmp_path):
    for unit in (1e-50, 1e50):
        for name in ("PrivateUCB", "AdaPrivateTS", "LinUCB"):
            agent = build(name, high=unit).start(simulation=True, seed=1)
            for i in range(40):
                agent.update(agent.select(candidates(i)), unit * (i % 2))
            assert np.isfinite(agent.estimate).all()


SIZES = [
    ("LinTS", "scale"),
    ("PrivateThompson", "scale"),
    ("AdaPrivateTS", "scale"),
    ("LinUCB", "width"),
    ("PrivateUCB", "width"),
    ("CoreSetElimination", "width"),
    ("AdaPrivateForced", "gamma"),
    ("AdaPrivateUser", "cap"),
    ("AdaPrivateUser", "per_batch"),
]


@pytest.mark.parametrize(("name", "option"), SIZES)
def test_options_at_their_limits_do_not_overflow(name, option):
    for size in (1e-50, 1e50):
        agent = build(name, **{option: size}).start(simulation=True, seed=1)
        run(agent, 40, by_user(name))
        assert np.isfinite(agent.estimate).all()
    for size in (1e51, 1e308, math.inf, math.nan, *([1e-51, 0.0] if option != "width" else [-1.0])):
        with pytest.raises(ValueError, match=f"^Expected {option}="):
            build(name, **{option: size})


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"dimension": 0}, "dimension"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 2.5}, "rounds"),
        ({"low": 1.0, "high": 1.0}, "high"),
        ({"center": 2.0}, "center"),
        ({"bias": 1.0}, "bias"),
        ({"prior_mean": [1.0]}, "prior_mean"),
        ({"prior_mean": [1.0, math.nan, 0.0]}, "prior_mean"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"relation": "ADD_OR_REMOVE_ONE"}, "relation"),
        ({"noise": "white"}, "noise"),
        ({"estimator": "best"}, "estimator"),
        ({"first": 0}, "rounds of the first batch"),
        ({"ratio": 0.5}, "ratio"),
        ({"first": 1, "ratio": 1.0, "rounds": 2000}, "batches=2000"),
        (
            {"first": 1, "ratio": 1.0, "rounds": 4000, "dimension": 9, "noise": "square_root"},
            "batches * features",
        ),
        ({"width": -1.0}, "width"),
        ({"low": -(10**400)}, "low"),
        ({"low": -(10**5000)}, "too long to print"),
        ({"low": -1e308, "high": 1e308}, "high - low"),
        ({"high": 1e-320}, "high - low"),
        ({"bias": 1e-320}, "bias"),
        ({"prior_mean": [1e308, 0.0, 0.0]}, "prior_mean"),
        ({"prior_mean": "abc"}, "prior_mean"),
        ({"prior_variance": 1e-320}, "prior_variance"),
        ({"reward_variance": 1e308}, "reward_variance"),
        ({"ridge": 1e-300}, "ridge"),
        ({"rounds": 10**15, "ratio": 1.0, "delta": 1e-20}, "batches"),
        ({"prior_variance": 0.0}, "prior_variance"),
    ],
)
def test_bad_options_are_refused_when_the_algorithm_is_made(options, word):
    with pytest.raises((ValueError, TypeError), match="Expected ") as caught:
        build("PrivateUCB", **options)
    assert word in str(caught.value)


def test_sampling_refuses_centers_without_a_proven_pair():
    with pytest.raises(ValueError, match="center"):
        build("AdaPrivateAmp", center=0.3)
    with pytest.raises(ValueError, match="center"):
        build("AdaPrivateAmp", center=1e-17)  # not an end: a reward may lie below it
    # a replaced reward can fall on the other side of the center, unless it is not sampled
    with pytest.warns(UserWarning, match=r"noise of a sum by 0\.992 \(after division"):
        middle = build("AdaPrivateAmp", center=0.5, sampling_probability=0.5)
    assert middle.guarantee(1e-5).epsilon == pytest.approx(1.0, abs=1e-6)
    rounded = build("AdaPrivateAmp", low=0.1, high=0.7, center=0.4)  # .4 - .1 > .7 - .4 in floats
    assert rounded.noise_multiplier == middle.noise_multiplier
    assert rounded.guarantee(1e-5) == middle.guarantee(1e-5)


def test_a_missing_reward_has_one_pair_for_every_center():
    at_end = build("AdaPrivateAmp", relation="REPLACE_SPECIAL")
    for center in (0.3, 0.5, 0.9):
        algorithm = build("AdaPrivateAmp", relation="REPLACE_SPECIAL", center=center)
        assert algorithm.noise_multiplier == pytest.approx(at_end.noise_multiplier, rel=1e-12)
        assert 0.99999 <= algorithm.guarantee(1e-5).epsilon <= 1


@pytest.mark.parametrize("relation", ["REPLACE_ONE", "REPLACE_SPECIAL"])
@pytest.mark.parametrize("center", [0.0, 0.3, 0.5, 1.0])
def test_sampling_probability_one_allows_every_center(relation, center):
    options = {"relation": relation, "center": center, "calibration": "exact"}
    algorithm = build("AdaPrivateAmp", sampling_probability=1.0, **options)
    plain = build("AdaPrivateTS", **options)
    assert algorithm.noise_multiplier == pytest.approx(plain.noise_multiplier, rel=1e-12)
    assert algorithm.guarantee(1e-5).epsilon == pytest.approx(1.0, abs=1e-6)
    assert algorithm.guarantee(1e-5).epsilon <= 1


@pytest.mark.parametrize(
    ("options", "saved"),
    [({}, 0.25), ({"center": 0.5}, 0.288), ({"high": 0.01}, 0.2929), ({"high": 3.0}, 0.051)],
)
def test_a_replaced_context_moves_the_sums_by_less_than_two_clip_norms(options, saved):
    replaced = build("PrivateContexts", relation="REPLACE_ONE", **options)
    missing = build("PrivateContexts", relation="REPLACE_SPECIAL", **options)
    ratio = replaced.noise_multiplier / (2 * missing.noise_multiplier)
    assert 1 - ratio == pytest.approx(saved, abs=5e-4)
    assert 0.99999 <= replaced.guarantee(1e-5).epsilon <= 1


@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("center", [0.0, 0.3, 0.5])
@pytest.mark.parametrize("high", [1.0, 1.4142, 6.0])
def test_the_replace_distance_of_contexts_is_tight(high, center, published):
    options = {"calibration": "published", "noise": "binary_tree"} if published else {}
    algorithm = build("PrivateContexts", high=high, center=center * high, **options)
    channel = algorithm.channel((), np.random.default_rng(0))
    most = algorithm.replace_distance * algorithm.clip_norm
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 4000, 3))
    x /= np.maximum(np.linalg.norm(x, axis=1), 1)[:, None]
    y /= np.maximum(np.linalg.norm(y, axis=1), 1)[:, None]
    span = algorithm.reward_range
    far = span.high - span.center  # the far end of the range, for these centers
    v = (algorithm.reward_weight * far) ** 2
    cosine = max(-v / 2, -1.0)
    r, s = span.centered_all(rng.choice([0.0, high], (2, 4000)))
    x[0], y[0] = [1.0, 0.0, 0.0], [cosine, math.sqrt(1 - cosine**2), 0.0]
    r[0] = s[0] = far
    moved = [
        channel._values(a[None], b[None], None) - channel._values(c[None], d[None], None)
        for a, b, c, d in zip(x, r, y, s, strict=True)
    ]
    distances = np.linalg.norm(moved, axis=1)
    assert distances.max() <= most
    assert distances[0] >= most * (1 - 1e-12)


def test_an_agent_reports_its_rounds_and_releases(tmp_path):
    agent = bandits.PrivateUCB(dimension=3, rounds=200, epsilon=1, delta=1e-5).start()
    agent.select(np.eye(3))
    assert repr(agent) == ("<agent of PrivateUCB: 1 of 200 rounds, 0 releases, no folder>")
    agent.save(tmp_path)
    agent.finish(release=False)
    assert repr(agent).endswith(f", finished, folder {str(tmp_path)!r}>")


def test_a_list_of_algorithms_has_no_names():
    for algorithms in ([bandits.LinUCB(dimension=20, rounds=9)], "LinUCB", None):
        with pytest.raises(TypeError, match=r"to be a mapping. Pass algorithms by name, such as"):
            bandits.simulate(algorithms, bandits.Synthetic(), replicates=1, seed=1)


def test_the_regret_table_states_the_meaning_of_epsilon():
    run = ["simulate", "--rounds", "60", "--replicates", "2"]
    names = ["-a", "LinUCB", "-a", "AdaPrivateUser", "-a", "PrivateContexts"]
    told = CliRunner().invoke(bandit, [*run, *names]).output
    head, open_, user, contexts, _, foot = told.splitlines()
    assert head.split() == ["algorithm", "regret", "s.e.", "epsilon", "relation", "unit"]
    assert open_.split()[-3:] == ["inf", "none", "none"]
    assert user.endswith("REPLACE_ONE      all rewards of one user")
    assert "REPLACE_SPECIAL  one round, all outputs but its own action" in contexts
    assert foot.endswith("epsilon is an upper bound at delta=1e-05; the target was 1.")
    held = bandits.AdaPrivateUser(dimension=20, rounds=60, epsilon=1, delta=1e-5).guarantee(1e-5)
    assert held.epsilon <= float(user.split()[3]) < held.epsilon + 1e-4  # rounded up
    rows = json.loads(CliRunner().invoke(bandit, [*run, *names, "--json"]).output)["algorithms"]
    assert [row["unit"] for row in rows][:2] == [None, "all rewards of one user"]
    assert [row["relation"] for row in rows] == [None, "REPLACE_ONE", "REPLACE_SPECIAL"]


def test_only_one_of_two_concurrently_restored_agents_releases(tmp_path, monkeypatch):
    """Both checks pass; the running sum lets only one of them release."""
    agent = build("AdaPrivateTS").start()
    agent.save(tmp_path / "state")
    run(agent, 13)
    agent.save(tmp_path / "state")
    both = [bandits.Algorithm.restore(tmp_path / "state") for _ in range(2)]
    both[0]._turn = both[1]._turn  # as if both had looked before either wrote
    assert both[0].select(candidates(13)).action >= 0
    assert both[0].releases == 1
    both[1]._turn = both[0]._turn
    with pytest.raises(RuntimeError, match="written by another object"):
        both[1].select(candidates(13))
    assert both[1].releases == 0


@pytest.mark.parametrize(
    ("kind", "most"),
    [("PrivateUCB", 24), ("PrivateThompson", 27), ("AdaPrivateTS", 32), ("AdaPrivateUCB", 29)],
)
def test_a_round_takes_few_calls(kind, most):
    """Counts calls of Python and C functions, which take most of a round's time."""
    agent = ALGORITHMS[kind](dimension=3, rounds=1000, **PRIVATE).start(simulation=True, seed=0)
    x = np.random.default_rng(0).standard_normal((200, 5, 3))
    x /= 2 * np.linalg.norm(x, axis=-1, keepdims=True)
    calls = []

    def count(frame, event, argument):
        calls[-1] += event in {"call", "c_call"}

    for candidates in x:
        calls.append(-1)  # for the call that ends the count
        sys.setprofile(count)
        ticket = agent.select(candidates)
        agent.update(ticket, 1.0)
        sys.setprofile(None)
    assert max(calls[-20:]) <= most  # in the middle of a batch


@pytest.mark.parametrize("bias", [None, 0.25])
def test_shared_arrays_have_the_features_of_single_rounds(bias):
    given = ALGORITHMS["AdaPrivateUCB"](dimension=3, rounds=10, bias=bias, **PRIVATE)
    shared, rng = Candidates(given), np.random.default_rng(1)
    x = rng.standard_normal((5, 3))
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    shared.features(x)
    rows = shared.features(x)
    for factor in (0.5, 1.0, 1 + 1e-9, 3.0, 1e200):
        found = shared.features(factor * x)
        np.testing.assert_allclose(found, given.prepared(factor * x), rtol=1e-15)
        assert np.linalg.norm(found, axis=-1).max() <= 1 + 1e-12
    for wrong in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^Expected candidates=.* to be finite"):
            shared.features(np.where(np.arange(3) == 1, wrong, x))
    shared.features(x.tolist())
    assert shared.features(x / 2) is rows  # neither errors nor lists end the use of the arrays
    np.testing.assert_allclose(rows, given.prepared(x / 2), rtol=1e-15)
