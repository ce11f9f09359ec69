"""Crash tests of saved states: `python tests/benchmarks/acceptance.py kills`.

A forked child resumes from a folder and is killed at a random time. The parent then restores the
folder and compares it with the published outputs of all children. Each row is (name, value, unit,
limit).
"""

import contextlib
import itertools
import os
import random
import signal
import struct
import tempfile
import time
from pathlib import Path

import numpy as np

import bandits
import privacy as dp
from privacy.running_sums import state_file

SUMS, AGENTS = 1000, 300
STEPS, LONGEST = 12, 0.01
"""The largest number of steps before a kill, and the longest delay after them in seconds."""
MEMORY = Path("/dev/shm")
"""A file system in memory. On a disk, most kills would hit a process that waits for a flush."""
BLOCK, BATCH, DIMENSION = 64, 4, 3
FAULTS = (
    "noise drawn twice for one release",
    "records lost or duplicated",
    "unusable folders",
    "leftover files",
)


def figures():
    """Yield every row."""
    state_file._PART = 10 * DIMENSION  # small, so that kills also interrupt writing parts
    for name, kind, kills in (("running sum", Sum, SUMS), ("agent", Agent, AGENTS)):
        found = killed(kind, kills)
        yield f"{name}: kills", -found.pop("kills"), "", -kills
        for fault in FAULTS:
            yield f"{name}: {fault}", found.pop(fault), "", 0
        for rest, value in found.items():
            yield f"{name}: {rest}", value, "", None


def killed(kind, kills):
    """Kill children and return how often each fault occurred."""
    draw = random.Random(2026)
    found = dict.fromkeys(
        ("kills", *FAULTS, "kills during a write", "kills before the first state"), 0
    ) | {"outputs compared": 0}
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as parent:
        warm_up(kind(Path(parent) / "warm"))
        case = None
        while found["kills"] < kills:
            if case is None or draw.random() < 0.05:  # kills also interrupt first states
                found["outputs compared"] += len(case.released) if case else 0
                case = kind(Path(parent) / f"{found['kills']}")
            case.die(draw.randrange(STEPS) if case.children else 0, draw.uniform(0, LONGEST))
            found["kills"] += 1
            found["kills during a write"] += any(case.folder.glob("*.partial"))
            try:
                case.check(found)
            except (ValueError, RuntimeError, OSError) as error:
                print(f"unusable: {error}")
                found["unusable folders"] += 1
                case = None
        found["outputs compared"] += len(case.released) if case else 0
    return found


def warm_up(case):
    """Import in this process the modules that the children use."""
    for _ in range(2):
        told = itertools.count()
        with contextlib.suppress(StopIteration):
            case.go_on(lambda *_, told=told: next(told) < 20 or next(iter(())))


def exact(number):
    """Return the vector of a record; every lattice used here represents it exactly."""
    return np.array([1.0, (number % 16) / 16, (number // 16 % 16) / 16]) / 2


class Case:
    """A folder and its published outputs.

    Attributes
    ----------
    released
        Every published output, by its release number.
    kept
        The number of records that the folder must contain after a restore.
    """

    row = struct.Struct(f"<qq{DIMENSION}d")

    def __init__(self, folder):
        self.folder, self.released = folder, {}
        self.children = self.kept = self.twice = 0

    def die(self, steps, seconds):
        """Run a child, kill it `seconds` after `steps` outputs, and read its outputs."""
        self.children += 1
        output, handle = os.pipe()
        child = os.fork()
        if not child:
            try:
                self.go_on(lambda *row: os.write(handle, self.row.pack(*row)))
            finally:
                os._exit(1)  # only an error gets here: a working child runs until it is killed
        os.close(handle)
        with os.fdopen(output, "rb") as told:
            first = told.read(steps * self.row.size)
            time.sleep(seconds)
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            rows = first + told.read()
        for release, kept, *values in self.row.iter_unpack(rows):
            self.hand_out(release, values)
            self.kept = max(self.kept, kept)
        if not os.WIFSIGNALED(status):
            raise SystemExit("A child exited before it was killed.")

    def hand_out(self, release, values):
        if release and self.released.setdefault(release, list(values)) != list(values):
            self.twice += 1

    def check(self, found):
        """Restore the folder for the next child, and count the faults."""
        found["records lost or duplicated"] += self.wrong_records(found)
        found["noise drawn twice for one release"] += self.twice
        self.twice = 0

    def raw(self, sums):
        """Return the raw inputs of a restored sum's block."""
        lattice = sums._lattice
        return (lattice._high.state() * 2.0**21 + lattice._low.state()) * sums.step_width

    def left_over(self, sums, count):
        """Return the number of files in excess of `count` and the parts of a restored sum."""
        return len(list(self.folder.iterdir())) - count - len(sums._parts)


class Sum(Case):
    """A running sum; record k is the input of release k."""

    def __init__(self, folder):
        super().__init__(folder)
        folder.mkdir()
        self.path = folder / "sums.npz"

    def go_on(self, tell):
        if self.path.exists():
            sums = dp.RunningSum.restore(self.path)
        else:
            sums = dp.RunningSum(
                dp.Factorization.square_root(BLOCK),
                noise_multiplier=1.0,
                shape=DIMENSION,
                path=self.path,
            )
        tell(sums.releases, sums.releases, *sums.prefix)
        while True:
            release = sums.step(exact(sums.releases))
            tell(sums.releases, sums.releases, *release)

    def wrong_records(self, found):
        if not self.path.exists():
            found["kills before the first state"] += 1
            return self.kept
        sums = dp.RunningSum.restore(self.path)
        self.hand_out(sums.releases, sums.prefix.tolist())
        found["leftover files"] += self.left_over(sums, 1)
        lost, raw = max(0, self.kept - sums.releases), self.raw(sums)
        start = (max(sums.releases, 1) - 1) // BLOCK * BLOCK
        expected = [exact(k) for k in range(start, sums.releases)]
        return lost + sum(not np.array_equal(*pair) for pair in zip(raw, expected, strict=True))


class Agent(Case):
    """An agent; record k is the reward of round k."""

    def algorithm(self):
        return bandits.AdaPrivateUCB(
            dimension=DIMENSION,
            rounds=4000,
            batch=BATCH,
            epsilon=1.0,
            delta=1e-5,
            noise="square_root",
        )

    def go_on(self, tell):
        if (self.folder / "agent.json").exists():
            agent = self.algorithm().restore(self.folder)
        else:
            agent = self.algorithm().start()
            agent.save(self.folder)
        while True:
            # with rounds % 7 == 1, the agent was saved by the line below or restored
            tell(moment(agent), agent.rounds if agent.rounds % 7 == 1 else 0, *agent.estimate)
            ticket = agent.select([exact(agent.rounds)])
            agent.update(ticket, reward(ticket.round))
            if ticket.round % 7 == 0:
                agent.save(self.folder)

    def wrong_records(self, found):
        if not (self.folder / "agent.json").exists():
            found["kills before the first state"] += 1
            self.algorithm().start().save(self.folder)
            return self.kept
        agent = self.algorithm().restore(self.folder)
        self.hand_out(moment(agent), agent.estimate.tolist())
        sums = agent._learner.channel.sums
        found["leftover files"] += self.left_over(sums, 4)
        wrong = max(0, self.kept - agent.rounds)
        features, rewards = agent._open_rounds()
        first = agent.rounds - len(rewards)
        for place, (x, r) in enumerate(zip(features, rewards, strict=True)):
            record = exact(first + place), reward(first + place)
            wrong += not (np.array_equal(x, record[0]) and r == record[1])
        raw = self.raw(sums)
        wrong += BATCH * (abs(len(raw) - agent.releases) + abs(sums.releases - agent.releases))
        for batch, units in enumerate(raw):
            rounds = range(BATCH * batch, BATCH * (batch + 1))
            wrong += not np.array_equal(units, sum(reward(k) * exact(k) for k in rounds))
        return wrong


def moment(agent):
    """Return a key that determines the estimate: the numbers of releases and rounds."""
    return agent.releases * 10**6 + agent.rounds


def reward(number):
    return (number % 5) / 4
