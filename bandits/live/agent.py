"""Live agents: ``select`` picks an action and returns a ticket, ``update`` records its reward.

The reward channels provide the privacy. This module ensures that each reward enters the sums at
most once, in the batch of its round.
"""

import os
import secrets
import threading
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.checks import Array
from bandits.learning.learner import Learner
from bandits.learning.rewards import SIMULATION_ONLY, unprotected
from bandits.learning.users import AS_TEXT, User, as_text, user_of
from bandits.live import checkpoint
from bandits.live.candidates import Candidates, table
from bandits.live.journal import Journal
from bandits.live.tickets import Missed, Ticket, round_of
from bandits.logs import BanditLog

_MOST_LATE = 2**16
"""Number of the latest rounds that can still get a late reward."""


class _Forked:
    """The lock of an agent in a forked process: `acquire` always raises."""

    def acquire(self) -> bool:
        raise RuntimeError(
            "A forked process cannot use an agent: a batch would be released twice. Send requests "
            "to the process that started or restored the agent."
        )

    __enter__ = acquire

    def release(self) -> None:
        """Do nothing, because the lock is never acquired."""

    def __exit__(self, *_: object) -> None: ...


def _new_locks() -> None:
    """Replace all locks after a fork, because the threads that held them do not exist there."""
    for agent in list(_agents):
        agent._lock = threading.RLock() if agent.simulation else _Forked()
        agent._journal = None  # the file belongs to the process that opened it


_agents: "WeakSet[Agent]" = WeakSet()
if hasattr(os, "register_at_fork"):  # absent on Windows
    os.register_at_fork(after_in_child=_new_locks)


class Agent:
    """A running algorithm, created by ``algorithm.start()``.

    Threads can share an agent, because each call holds a lock. Processes cannot, nor may a signal
    handler or finalizer call it.

    The attributes `algorithm` and `fsync` are those of the start. `simulation`: whether the
    noise is seeded float noise, which gives no privacy.
    """

    def __init__(self, algorithm: Algorithm, learner: Learner, *, simulation: bool) -> None:
        self.algorithm = algorithm
        sums = getattr(learner.channel, "sums", None)
        self.simulation = simulation or (sums is not None and sums.simulation)
        self._lock: Any = threading.RLock()  # reentrant, because finish() calls save()
        _agents.add(self)
        self._learner = learner
        self._range = algorithm.reward_range
        self._by_user = learner.channel.by_user
        self._joins = algorithm.waits.joins
        self._late_counts = self._joins or not learner.channel.private
        self._key = secrets.token_hex(8)
        self._pending: dict[int, str] = {}  # tickets of the open batch
        self._missed = Missed()
        self._missed.begin(0, self._key)
        self._first = 0  # number of the first round whose batch was not released
        self._start = self._until = 0  # see `_ready`
        self._candidates = Candidates(algorithm)
        self._features = np.zeros((16, algorithm.features))
        self._rewards = np.zeros(16)
        self._users: list[User] = []
        self._same: dict[User, User] = {}  # shares one object among a user's rounds in the batch
        self._user_kind: str | None = None
        self._late: dict[int, Array] = {}  # features of past rounds that wait for a reward
        self._closing: tuple[int, int] | None = None  # batch being released, and its rounds
        self._releasing = False  # the lock does not stop a signal handler of the same thread
        self._joined: list[tuple[int, Array, float]] = []  # late rewards, by batch joined
        self._counts = {"late": 0, "missing": 0, "clipped": 0}
        self._finished = False
        self.fsync = False
        self._folder: Path | None = None
        self._journal: Journal | None = None
        self._logged: dict[int, list[Any]] | None = None
        self._paid: Mapping[str, str] | None = None  # the reservation in a ledger
        self._turn = 0  # write count of the folder at this agent's last save

    @classmethod
    def start(
        cls,
        algorithm: Algorithm,
        *,
        simulation: bool = False,
        seed: int | None = None,
        folder: str | PathLike[str] | None = None,
        ledger: dp.Ledger | None = None,
        fsync: bool = False,
    ) -> "Agent":
        """Return a new agent; see `Algorithm.start`."""
        if seed is not None and not simulation:
            remedy = "Remove it: reproducible noise gives no privacy."
            raise ValueError(checks.expected("seed", seed, "None unless simulation=True", remedy))
        explore, noise = np.random.SeedSequence(seed).spawn(2)
        rng = np.random.default_rng(noise) if simulation else None
        agent = cls(algorithm, algorithm.learner(explore, rng), simulation=simulation)
        agent.fsync = fsync
        checkpoint.begin(agent, folder, ledger)
        return agent

    @classmethod
    def restore(cls, folder: str | PathLike[str], *, ledger: dp.Ledger | None = None) -> "Agent":
        """Return the agent that `save` wrote to a folder, with the ledger of its start."""
        return checkpoint.restore(cls, folder, ledger)

    def __repr__(self) -> str:
        kind = type(self.algorithm).__name__
        played = f"{self.rounds} of {self.algorithm.rounds} rounds, {self.releases} releases"
        end = ", finished" if self._finished else ""
        where = "no folder" if self._folder is None else f"folder {str(self._folder)!r}"
        return f"<agent of {kind}: {played}{end}, {where}>"

    @property
    def rounds(self) -> int:
        """Number of rounds that `select` has started."""
        return self._learner.rounds

    @property
    def releases(self) -> int:
        """Number of released batches."""
        return self._learner.learned

    @property
    def sensitive_counts(self) -> dict[str, int]:
        """The numbers of ``"late"``, ``"missing"`` and ``"clipped"`` rewards, for the operator.

        They are as sensitive as the rewards, because the guarantee does not cover them. A late
        reward arrived after the release of its batch, and a missing one is None or NaN.
        """
        with self._lock:
            return dict(self._counts)

    def keep_log(self) -> None:
        """Keep the rounds from now on in memory, for `log`; requires ``explore=``."""
        if not self.algorithm.explore:
            remedy = "Pass explore= to the algorithm, so that every action has a propensity."
            raise ValueError(checks.expected("explore", self.algorithm.explore, "> 0", remedy))
        with self._lock:
            self._logged = {} if self._logged is None else self._logged

    @property
    def log(self) -> BanditLog:
        """The rounds since `keep_log` whose reward arrived, for off-policy evaluation.

        It contains raw rewards, which the guarantee does not cover: it is as sensitive as the data.
        `restore` does not restore it. Contexts are the candidates, with NaN for absent ones.
        """
        with self._lock:
            if self._logged is None:
                raise RuntimeError("Call keep_log() first: the log has the rounds after that call.")
            kept = [each for each in self._logged.values() if each[-1] is not None]
        if not kept:
            raise RuntimeError("Record a reward first: the log is empty.")
        candidates, action, propensity, reward = zip(*kept, strict=True)
        most = max(map(len, candidates))
        context = np.full((len(kept), most, self.algorithm.dimension), np.nan)
        for row, each in zip(context, candidates, strict=True):
            row[: len(each)] = each
        return BanditLog(
            name=type(self.algorithm).__name__,
            action=np.array(action),
            reward=np.array(reward),
            propensity=np.array(propensity),
            actions=most,
            context=context,
        )

    @property
    def estimate(self) -> Array:
        """Mean of theta, shape (d,). It depends only on released sums, so you can publish it."""
        with self._lock:
            algorithm = self.algorithm
            return algorithm.theta(algorithm.coefficients(self._learner.model.mean)).copy()

    def predict(self, candidates: Any) -> Array:
        """Estimated mean rewards of candidates (n, d), shape (n,); like `estimate`, public."""
        algorithm = self.algorithm
        features = algorithm.prepared(table(candidates, algorithm.dimension))
        with self._lock:
            values: Array = features @ algorithm.coefficients(self._learner.model.mean)
        return values + self._range.center

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return the guarantee at `delta` for all outputs of the agent, including later ones.

        Choose delta well below 1 / rounds. In a simulation epsilon is infinite;
        `algorithm.guarantee` has the guarantee with real noise.
        """
        found = self.algorithm.guarantee(delta)
        if self.simulation:
            return unprotected(delta, found.relation, SIMULATION_ONLY)
        return found

    def select(self, candidates: Any, *, user: str | int | None = None) -> Ticket:
        """Select one of the candidates (n, d), n >= 1, whose norms above 1 are scaled to 1.

        `user` is that of the round, required with user-level privacy, and only then. Raises
        RuntimeError if all rounds were played, or the agent was finished.
        """
        lock, learner = self._lock, self._learner
        lock.acquire()  # `with` adds 1 % to a round of 10 us
        try:
            if self._logged is not None:
                candidates = table(candidates, self.algorithm.dimension)
            features = self._candidates.features(candidates)
            owner = None
            if learner.rounds >= self._until or user is not None:
                owner = self._ready(user)
            action = int(learner.choose(features))
            number, key, x = self._start + learner.in_batch, self._key, features[action]
            self._begin_round(number, x, owner, key)
            if self._logged is not None:
                self._logged[number] = [candidates, action, learner.propensity, None]
            if self._journal is not None:
                self._journal.select(number, learner.compared, x, owner)
            # the constructor of a named tuple takes twice the time
            return tuple.__new__(Ticket, (action, number, key, learner.propensity))
        finally:
            lock.release()

    def _ready(self, user: Any) -> User | None:
        """Check that a round can start, and release the batches that are due.

        With users or a journal, call it before every round; else only once `_until` rounds have
        started. `_start` is the number of the open batch's first round.
        """
        learner = self._learner
        owner = None if user is None and not self._by_user else self._owner(user)
        if self._finished or learner.rounds >= self.algorithm.rounds:
            raise RuntimeError(
                f"Expected at most rounds={self.algorithm.rounds} rounds and none after "
                "finish(). Start another agent; the two guarantees compose."
            )
        if owner is not None:
            self._check_kind(owner)
        if learner.ended:
            learner.turn()
        self._close_due()
        self._start = self._first + learner.unreleased - learner.in_batch
        if self._journal is not None:
            journal = self._usable(self._journal, renew=self._journal.long)
            journal.whole = False  # until the round is in it
        elif not self._by_user:
            self._until = min(learner.rounds + (learner.left or 0), self.algorithm.rounds)
        return owner

    def _check_no_release(self) -> None:
        if self._releasing:
            raise RuntimeError(
                "Expected no call from within a release. Call the agent from a thread, not from a "
                "signal handler or finalizer."
            )

    def _close_due(self, *, everything: bool = False) -> None:
        """Release the batches that are due, or all and the open one."""
        self._check_no_release()
        self._releasing = True
        try:
            if everything and self._learner.in_batch:
                self._learner.turn()
            while self._learner.due or (everything and self._learner.waiting):
                self._close()
            if self._closing is not None:
                self._settle()
        finally:
            self._releasing = False

    def _begin_round(self, number: int, x: Array, owner: User | None, key: str) -> None:
        place = number - self._first
        if place == len(self._rewards):
            self._reserve(2 * place)
        # if interrupted before `observe`, the next round overwrites this place
        self._features[place] = x
        if owner is not None:
            self._users[place:] = (self._same.setdefault(owner, owner),)
        self._learner.observe(x)
        self._pending[number] = key

    def _usable(self, journal: Journal, *, renew: bool = False) -> Journal:
        """Save the agent if its journal is incomplete, or to renew it; return the one to use."""
        if (renew or not journal.whole) and self._folder is not None:
            self.save(self._folder)
        return self._journal or journal

    def _owner(self, user: Any) -> User:
        if user is None or not self._by_user:
            remedy = "Pass user= with user-level privacy, and only then."
            rule = "a user" if self._by_user else "None"
            shown = None if user is None else f"<{type(user).__name__}>"
            raise ValueError(checks.expected("user", shown, rule, remedy))
        owner = user_of(user)
        return as_text(owner) if self._user_kind == AS_TEXT else owner

    def _check_kind(self, owner: User) -> None:
        """Reject a second type of id: the user 7 and "7" would have two caps."""
        kind = AS_TEXT if self._user_kind == AS_TEXT else type(owner).__name__
        if self._user_kind is None:
            self._user_kind = kind
        elif kind != self._user_kind:
            remedy = "Use one type for all user ids."
            rule = f"of the type used before, <{self._user_kind}>"
            raise TypeError(checks.expected("user", f"<{kind}>", rule, remedy))

    def _reserve(self, rounds: int) -> None:
        more = max(rounds - len(self._rewards), 0)
        self._features = np.concatenate((self._features, np.zeros((more, self._features.shape[1]))))
        self._rewards = np.concatenate((self._rewards, np.zeros(more)))

    def update(self, ticket: Ticket, reward: float | None) -> None:
        """Record the reward of a round; each ticket is accepted once.

        Rewards outside the range are clipped; None and NaN count as missing. A reward after the
        release of its batch adds nothing, except with ``late="next"`` or without privacy: then it
        is added if its round is one of the last 65,536.

        Raises ValueError if the ticket was used before or is another agent's, and TypeError if it
        is no `Ticket` or the reward is no number; the ticket then stays open.
        """
        if type(ticket) is Ticket and type(ticket[1]) is int:  # faster than `round_of`
            _, number, key, _ = ticket
        else:
            number, key = round_of(ticket), ticket.key
        value, kind = self._range.read(reward)
        lock = self._lock
        lock.acquire()
        try:
            open_now = number in self._pending and self._pending[number] == key
            if open_now or self._missed.has(number, key):
                if self._journal is not None:
                    self._usable(self._journal).update(number, key, value, kind)
                if open_now and kind is None and self._logged is None:  # most rewards
                    del self._pending[number]
                    self._rewards[number - self._first] = value
                else:
                    self._answer(number, value, kind, late=not open_now)
                return
        finally:
            lock.release()
        remedy = "Pass one reward per ticket, to the agent that returned it (also after a restore)."
        rule = "that of an open ticket of this agent"
        raise ValueError(checks.expected("ticket.round", number, rule, remedy))

    def _answer(self, number: int, value: float, kind: str | None, *, late: bool) -> None:
        """Record the reward of an open ticket."""
        if self._logged is not None and number in self._logged and kind != "missing":
            self._logged[number][-1] = value + self._range.center
        if not late:
            del self._pending[number]
            self._rewards[number - self._first] = value
        else:
            self._missed.take(number)
            self._counts["late"] += 1
            features = self._late.pop(number, None)
            if features is not None and self._joins:
                self._joined.append((self._learner.batch, features, value))
            elif features is not None:
                self._learner.channel.add(value * features)
        if kind is not None:
            self._counts[kind] += 1

    def finish(self, *, release: bool) -> None:
        """End the agent, and release (``release=True``) or drop the last, partial batch.

        The time of this call must not depend on rewards.
        """
        with self._lock:
            self._check_no_release()
            self._until = 0
            if not self._finished:
                if release:
                    self._close_due(everything=True)
                self._finished = True
                self._missed.add(self._pending, self._learner.rounds)
                self._pending, self._joined = {}, []
                self._rewards[:] = 0.0
                self._next_batch(0)
            # also in a second call, because the first one may have failed to save
            if self._folder is not None:
                self.save(self._folder)

    def _close(self) -> None:
        """Release the oldest batch that ended, saving the release to disk before it is used.

        After an interruption, an existing release is used again, so a batch is released once.
        """
        learner = self._learner
        self._settle()
        count = learner.waiting[0][0]
        features, rewards = self._features[:count], self._rewards[:count]
        if learner.channel.releases == learner.learned:
            self._autosave()
            joined = [each for each in self._joined if each[0] == learner.learned]
            rows = np.concatenate([features, *(x[None] for _, x, _ in joined)])
            values = np.append(rewards, [value for _, _, value in joined])
            learner.channel.release(rows, values, self._users[:count])
        self._keep_late(count)
        # before the batch ends, so that an interruption cannot add rewards twice
        self._forget(count)
        self._closing = learner.learned, count
        learner.learn(features, learner.channel.prefix)
        self._settle()

    def _forget(self, count: int) -> None:
        self._rewards[:count] = 0.0
        self._joined = [each for each in self._joined if each[0] > self._learner.learned]

    def _settle(self) -> None:
        """Drop the rounds of a batch that the model has learned, also after an interruption."""
        if self._closing is not None and self._learner.learned > self._closing[0]:
            self._next_batch(self._closing[1])

    def _open_rounds(self) -> tuple[Array, Array]:
        """Return the features and rewards of all rounds whose batch was not released."""
        count = self._learner.unreleased
        return self._features[:count], self._rewards[:count]

    def _keep_late(self, count: int) -> None:
        if not self._late_counts:
            return
        for number in self._pending:
            if number - self._first < count:
                self._late[number] = self._features[number - self._first].copy()
        # by round, because the number of waiting rounds depends on the arrivals of other rewards
        least = self._learner.rounds - _MOST_LATE
        for number in [number for number in self._late if number < least]:
            del self._late[number]

    def _next_batch(self, released: int) -> None:
        """Drop the rounds of released batches from the arrays of open rounds."""
        rounds, left = self._learner.rounds, self._learner.unreleased
        # an interrupted `select` leaves its round without a place, so rounds may exceed the places
        first = self._first + released if left else rounds
        self._missed.add((n for n in self._pending if n < first), rounds)
        self._pending = {n: key for n, key in self._pending.items() if n >= first}
        for array in (self._features, self._rewards):
            array[:left] = array[released : released + left].copy()
        self._rewards[left:] = 0.0
        self._users = self._users[released:]
        if not left:
            self._users, self._same = [], {}
        self._first, self._closing = first, None
        self._autosave()

    def _autosave(self) -> None:
        if self._folder is not None and self._learner.channel.private:
            checkpoint.save(self, self._folder)

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.simulation:
            raise TypeError("An agent cannot be copied outside simulations. Use save(folder).")
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"} | {
                "_journal": None
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())
        _agents.add(self)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the whole state to a folder, and keep the folder up to date from then on.

        The agent saves again at every release, and adds each round and reward in between to a
        journal. ``agent.json`` and ``public-N.npz`` are public. ``sensitive-N.npz``,
        ``journal-N.bin`` and ``sums.npz`` contain raw rewards and noise, and are as sensitive as
        the data. Never continue from an old copy of the folder: a batch would be released twice.

        Raises ValueError if the folder is not empty or the agent has another one, and RuntimeError
        if another agent was restored from it.
        """
        with self._lock:
            self._check_no_release()
            checkpoint.save(self, Path(folder))
