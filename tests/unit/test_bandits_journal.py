"""Rounds and rewards since the last save survive a crash, at every moment of one."""

import contextlib
import gc
import os
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import bandits
import privacy as dp
from bandits.live import journal

ROUNDS = 11


class Killed(BaseException):
    pass


def start(**options):
    """An agent with batches of 4 rounds and negligible noise."""
    algorithm = bandits.AdaPrivateUser(
        dimension=1, rounds=ROUNDS, batch=4, cap=100.0, epsilon=1e9, delta=1e-9
    )
    return algorithm.start(**options)


def play(agent, seen):
    """Play all rounds, and answer two of three."""
    while len(seen) < agent.algorithm.rounds:
        i = len(seen)
        seen.append([agent.select(np.eye(1), user=f"u{i % 3}"), False])
        if i % 3:
            answer(agent, seen[i])


def answer(agent, entry):
    if not entry[1]:
        agent.update(entry[0], 1.0)
        entry[1] = True


def total(agent):
    return float(agent._learner.channel.prefix[0])


def check(folder, seen, **options):
    """Every call that returned is in the folder, and each reward counts at most once."""
    agent = bandits.Algorithm.restore(folder, **options)
    assert len(seen) <= agent.rounds <= len(seen) + 1
    for ticket, answered in seen:
        if answered:
            with pytest.raises(ValueError, match="an open ticket"):
                agent.update(ticket, 1.0)
    before = sum(answered for _, answered in seen)
    open_batch = float(agent._rewards.sum())
    assert before - 0.1 <= total(agent) + open_batch <= before + 1.1
    while agent.rounds < ROUNDS:
        agent.select(np.eye(1), user="u0")
    agent.finish(release=True)
    assert before - 0.1 <= total(agent) <= before + 1.1
    assert not [path for path in Path(folder).glob("journal*") if path.stat().st_size]


def kill_at(monkeypatch, moment):
    """Let the process end at the `moment`-th file operation; a write is cut in the middle."""
    left = [moment]

    def counted(call):
        def once(*arguments, **settings):
            if not left[0]:
                if call is write:
                    call(arguments[0], arguments[1][:-5])
                raise Killed
            left[0] -= 1
            return call(*arguments, **settings)

        return once

    write = os.write
    for owner, name in ((os, "open"), (os, "write"), (Path, "replace"), (Path, "unlink")):
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    return left


def test_a_kill_at_any_moment_loses_no_finished_call(tmp_path, monkeypatch):
    for moment in range(1, 1000, 4):
        folder, seen = tmp_path / str(moment), []
        agent = start(folder=folder)
        left = kill_at(monkeypatch, moment)
        with contextlib.suppress(Killed):
            play(agent, seen)
        monkeypatch.undo()
        if left[0]:
            break
        check(folder, seen)
    assert moment > 50


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize(("rounds", "fsync"), [(3, False), (6, True), (10, False)])
def test_a_killed_process_loses_no_finished_call(tmp_path, rounds, fsync):
    ledger = dp.Ledger.create(tmp_path / "ledger.db")
    relation, unit = dp.NeighboringRelation.REPLACE_ONE, "all rewards of one user"
    budget = dp.Budget(epsilon=2e9, delta=1e-6, relation=relation, unit=unit)
    ledger.open("clicks", budget, dataset="clicks")
    ledger = ledger.using(budget="clicks")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            agent = start(folder=tmp_path / "agent", fsync=fsync, ledger=ledger)
            for _ in range(rounds):
                ticket = agent.select(np.eye(1), user="u")
                agent.update(ticket, 1.0)
                os.write(writer, f"{ticket.round} {ticket.key}\n".encode())
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader) as lines:
        told = [line.split() for line in lines]
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert len(told) == rounds
    seen = [[bandits.Ticket(0, int(number), key), True] for number, key in told]
    check(tmp_path / "agent", seen, ledger=ledger)
    assert len(list(ledger.entries())) <= 4  # charged once


@pytest.mark.parametrize("kind", ["PrivateUCB", "LinUCB", "AdaPrivateTS"])
def test_a_cut_journal_repeats_its_complete_entries(tmp_path, kind):
    private = {} if kind == "LinUCB" else {"epsilon": 1.0, "delta": 1e-5}
    algorithm = getattr(bandits, kind)(dimension=3, rounds=300, **private)
    agent = algorithm.start(simulation=True, seed=1, folder=tmp_path / "agent")
    rng = np.random.default_rng(0)
    sizes, actions = [], []
    (path,) = (tmp_path / "agent").glob("journal*")
    for i in range(12):
        ticket = agent.select(rng.standard_normal((5, 3)))
        actions.append(ticket.action)
        agent.update(ticket, [0.25, None, 7.0][i % 3])
        sizes.append(path.stat().st_size)
    content = path.read_bytes()
    assert path.stat().st_mode & 0o077 == 0
    for cut, rounds in ((sizes[4], 5), (sizes[4] - 1, 5), (sizes[4] + 20, 5), (sizes[-1], 12)):
        folder = tmp_path / str(cut)
        shutil.copytree(tmp_path / "agent", folder)
        (folder / path.name).write_bytes(content[:cut])
        again = bandits.Algorithm.restore(folder)
        assert again.rounds == rounds
    assert again.sensitive_counts == agent.sensitive_counts
    for _ in range(150):  # beyond the next release
        x = rng.standard_normal((5, 3))
        tickets = agent.select(x), again.select(x)
        assert tickets[0].action == tickets[1].action
        agent.update(tickets[0], 1.0)
        again.update(tickets[1], 1.0)
    np.testing.assert_array_equal(agent.estimate, again.estimate)


def test_a_full_disk_loses_no_round_before_or_after_it(tmp_path, monkeypatch):
    agent, seen = start(folder=tmp_path / "agent"), []
    seen.append([agent.select(np.eye(1), user="u"), False])
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda *_: 3)
        with pytest.raises(OSError, match=r"^Expected bytes written=3 to be .*journal.* is full"):
            answer(agent, seen[0])
        with pytest.raises(OSError, match="is full"):
            agent.select(np.eye(1), user="u")
    answer(agent, seen[0])
    seen.append([agent.select(np.eye(1), user="u"), False])
    again = bandits.Algorithm.restore(tmp_path / "agent")
    assert again.rounds == 3
    again.update(seen[1][0], 1.0)
    with pytest.raises(ValueError, match="an open ticket"):
        again.update(seen[0][0], 1.0)


def test_a_long_journal_is_replaced_by_a_save(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_MOST", 500)
    algorithm = bandits.LinUCB(dimension=1, rounds=100)
    agent = algorithm.start(folder=tmp_path / "agent")
    for _ in range(50):
        agent.update(agent.select(np.eye(1)), 1.0)
    assert sum(path.stat().st_size for path in (tmp_path / "agent").glob("journal*")) < 600
    again = bandits.Algorithm.restore(tmp_path / "agent")
    assert again.rounds == 50
    again.select(np.eye(1))
    assert again.estimate[0] == pytest.approx(50 / 52)


def test_no_call_returns_unsaved_after_an_interrupted_save(tmp_path, monkeypatch):
    agent = start(folder=tmp_path / "agent")
    agent.select(np.eye(1), user="u")
    replace = Path.replace

    def interrupted(path, target):
        replace(path, target)
        if target.name == "agent.json":
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", interrupted)
        with pytest.raises(Killed):
            agent.save(tmp_path / "agent")
    with pytest.raises(RuntimeError, match="Another agent"):
        agent.select(np.eye(1), user="u")
    assert bandits.Algorithm.restore(tmp_path / "agent").rounds == 1


def test_a_second_finish_saves_what_the_first_could_not(tmp_path, monkeypatch):
    agent = start(folder=tmp_path / "agent")
    agent.update(agent.select(np.eye(1), user="u"), 1.0)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda *_: Path("/absent/file").stat())
        with pytest.raises(OSError, match="No such file"):
            agent.finish(release=False)
    agent.finish(release=False)
    again = bandits.Algorithm.restore(tmp_path / "agent")
    with pytest.raises(RuntimeError, match="none after finish"):
        again.select(np.eye(1), user="u")
    again.finish(release=True)
    assert again.releases == 0


def test_an_agent_that_ends_closes_its_journal(tmp_path):
    agent = start(folder=tmp_path / "agent")
    file = agent._journal._file
    os.fstat(file)
    del agent
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)


def test_the_public_write_count_does_not_depend_on_arrivals(tmp_path, monkeypatch):
    monkeypatch.setattr(journal, "_MOST", 500)
    turns = []
    for every in (1, 3, 100):
        algorithm = bandits.PrivateUCB(dimension=1, rounds=100, epsilon=1.0, delta=1e-5)
        agent = algorithm.start(folder=tmp_path / str(every))
        turns.append([])
        for i in range(50):
            ticket = agent.select(np.eye(1))
            if i % every == 0:
                agent.update(ticket, 1.0)
            turns[-1].append(agent._turn)
    assert turns[0] == turns[1] == turns[2]
    assert turns[0][-1] > 5
