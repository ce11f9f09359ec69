"""A live agent: one recommender, one round at a time.

``select`` shows candidates and returns a ticket; ``update`` hands in the ticket's reward, once,
whenever it comes. What protects the rewards is in the parts; what is here keeps the books, so that
each reward enters the sums once, in the batch of its round, or never.
"""

import os
import secrets
import threading
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
from bandits.learning.rewards import unprotected
from bandits.learning.users import AS_TEXT, User, as_text, user_of
from bandits.live import checkpoint
from bandits.live.tickets import Missed, Ticket, is_ticket

_MOST_LATE = 2**16
"""Rounds that may wait for a late reward, where late rewards count."""


class _Forked:
    """The lock of an agent in a fork of the process that started it: nobody gets it."""

    def acquire(self) -> bool:
        """Refuse."""
        raise RuntimeError(
            "A fork of an agent cannot go on: a batch would be released twice. Send the requests "
            "to the process that started or restored the agent."
        )

    __enter__ = acquire

    def release(self) -> None:
        """Do nothing: it was not acquired."""

    def __exit__(self, *_: object) -> None: ...


def _new_locks() -> None:
    """Replace all locks, in a fork: who held them is not there to release them."""
    for agent in list(_agents):
        agent._lock = threading.RLock() if agent.simulation else _Forked()


_agents: "WeakSet[Agent]" = WeakSet()
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_new_locks)


def _table(candidates: Any) -> Array:
    """Return a copy of candidates as floats: what is checked is what is used."""
    try:
        return np.array(candidates, dtype=np.float64)
    except (TypeError, ValueError):
        remedy = "Pass one row of real numbers for each candidate."
        shown = type(candidates).__name__
        message = checks.expected("candidates", shown, "rows of one length", remedy)
    raise ValueError(message)


class Agent:
    """A running algorithm. Build it with ``algorithm.start()``.

    Threads may share an agent: each call is one step under a lock. Processes may not.

    Attributes
    ----------
    algorithm
        What it runs.
    simulation
        Whether noise is seeded float noise, for experiments alone.
    """

    def __init__(self, algorithm: Algorithm, learner: Learner, *, simulation: bool) -> None:
        self.algorithm = algorithm
        sums = getattr(learner.channel, "sums", None)
        self.simulation = simulation or (sums is not None and sums.simulation)
        self._lock: Any = threading.RLock()  # save() is called on its own and by a release
        _agents.add(self)
        self._learner = learner
        self._range = algorithm.reward_range
        self._by_user = learner.channel.by_user
        self._late_counts = not learner.channel.private
        self._key = secrets.token_hex(8)
        self._pending: dict[int, str] = {}  # tickets of the open batch
        self._missed = Missed()
        self._missed.begin(0, self._key)
        self._first = 0  # number of the open batch's first round
        self._features = np.zeros((16, algorithm.features))
        self._rewards = np.zeros(16)
        self._users: list[User] = []
        self._same: dict[User, User] = {}  # one object for all rounds of a user in the batch
        self._user_kind: str | None = None
        self._late: dict[int, Array] = {}  # features of past rounds, where late rewards count
        self._finished = False
        self._folder: Path | None = None
        self._turn = 0  # of the folder, when this agent wrote it last

    @classmethod
    def start(
        cls, algorithm: Algorithm, *, simulation: bool = False, seed: int | None = None
    ) -> "Agent":
        """Return a fresh agent; see `Algorithm.start`."""
        if seed is not None and not simulation:
            remedy = "Leave it out, or pass simulation=True for numbers that protect nobody."
            raise ValueError(
                checks.expected("seed", seed, "None for noise that is released", remedy)
            )
        explore, noise = np.random.SeedSequence(seed).spawn(2)
        rng = np.random.default_rng(noise) if simulation else None
        return cls(algorithm, algorithm.learner(explore, rng), simulation=simulation)

    @classmethod
    def restore(cls, folder: str | PathLike[str]) -> "Agent":
        """Return the agent that `save` wrote to a folder; see `Algorithm.restore`."""
        return checkpoint.restore(cls, folder)

    def __repr__(self) -> str:
        kind = type(self.algorithm).__name__
        played = f"{self.rounds} of {self.algorithm.rounds} rounds, {self.releases} releases"
        end = ", finished" if self._finished else ""
        where = "no folder" if self._folder is None else f"folder {str(self._folder)!r}"
        return f"<agent of {kind}: {played}{end}, {where}>"

    @property
    def rounds(self) -> int:
        """How many rounds were selected."""
        return self._learner.rounds

    @property
    def releases(self) -> int:
        """How many batches were released."""
        return self._learner.batch

    @property
    def estimate(self) -> Array:
        """The mean of theta, shape (d,). It comes from released sums and may be shown."""
        with self._lock:
            return self.algorithm.theta(self._learner.model.mean).copy()

    def guarantee(self, delta: float) -> dp.Guarantee:
        """Return what holds for everything that the agent shows, now and at any later time.

        A simulation protects nobody: its epsilon is infinite. `algorithm.guarantee` says what the
        same algorithm guarantees outside of one.

        Parameters
        ----------
        delta
            In (0, 1), well below 1 / rounds.
        """
        found = self.algorithm.guarantee(delta)
        if self.simulation:
            return unprotected(delta, found.relation, "seeded noise protects nobody")
        return found

    def select(self, candidates: Any, *, user: str | int | None = None) -> Ticket:
        """Pick one of some candidates.

        Parameters
        ----------
        candidates
            Features, shape (n, d) with any n >= 1; scaled to norm 1 where they are longer.
        user
            Whose round it is, where users are protected.

        Returns
        -------
        Ticket

        Raises
        ------
        ValueError
            The features have another shape or are not finite, or the user is missing.
        RuntimeError
            All rounds were played, or the agent was finished.
        """
        features = _table(candidates)
        if features.ndim != 2 or features.shape[1] != self.algorithm.dimension or not len(features):
            rule = f"(n, {self.algorithm.dimension}) with n >= 1"
            remedy = "Pass one row of features for each candidate."
            raise ValueError(checks.expected("shape of candidates", features.shape, rule, remedy))
        features = self.algorithm.prepared(features)
        owner = None if user is None and not self._by_user else self._owner(user)
        lock, learner = self._lock, self._learner
        lock.acquire()  # in a round of 20 us, `with` takes 1 % more
        try:
            if self._finished or learner.rounds >= self.algorithm.rounds:
                raise RuntimeError(
                    f"Expected at most rounds={self.algorithm.rounds} rounds and none after "
                    "finish(). Start another agent; its guarantee adds to this one's."
                )
            if owner is not None:
                self._check_kind(owner)
            if learner.ended:
                self._close()
            action = int(learner.choose(features))
            place = learner.in_batch
            if place == len(self._rewards):
                self._reserve(2 * place)
            # what is interrupted before `observe` leaves a place that the next round takes over
            self._features[place] = x = features[action]
            if owner is not None:
                self._users[place:] = (self._same.setdefault(owner, owner),)
            learner.observe(x)
            number = self._first + place
            self._pending[number] = self._key
        finally:
            lock.release()
        return Ticket(action, number, self._key)

    def _owner(self, user: Any) -> User:
        """Return a round's user as the ledgers know it."""
        if user is None or not self._by_user:
            remedy = "Pass user= where users are protected, and only there."
            rule = "a user" if self._by_user else "None"
            shown = None if user is None else f"<{type(user).__name__}>"
            raise ValueError(checks.expected("user", shown, rule, remedy))
        owner = user_of(user)
        return as_text(owner) if self._user_kind == AS_TEXT else owner

    def _check_kind(self, owner: User) -> None:
        """Refuse a second kind of id: 7 and "7" would have a cap each."""
        kind = AS_TEXT if self._user_kind == AS_TEXT else type(owner).__name__
        if self._user_kind is None:
            self._user_kind = kind
        elif kind != self._user_kind:
            remedy = "Name users as before, or they are taken for other people."
            rule = f"of the kind known before, <{self._user_kind}>"
            raise TypeError(checks.expected("user", f"<{kind}>", rule, remedy))

    def _reserve(self, rounds: int) -> None:
        """Make room for an open batch of so many rounds."""
        more = max(rounds - len(self._rewards), 0)
        self._features = np.concatenate((self._features, np.zeros((more, self._features.shape[1]))))
        self._rewards = np.concatenate((self._rewards, np.zeros(more)))

    def update(self, ticket: Ticket, reward: float | None) -> None:
        """Hand in the reward of a round, once.

        A reward outside the range is clipped; None and NaN count as missing. A reward that comes
        after its batch was closed adds nothing (without privacy it is added late, if its round is
        one of the last 65,536 that wait).

        Raises
        ------
        ValueError
            The ticket was used already, or is not one of this agent.
        TypeError
            The ticket is no `Ticket`, or the reward no number; the ticket stays open.
        """
        if not is_ticket(ticket):
            remedy = "Rebuild a ticket that was stored by Ticket(*values)."
            shown = type(ticket).__name__
            raise TypeError(checks.expected("ticket", shown, "a Ticket of select()", remedy))
        value = self._range.centred(reward)
        number = int(ticket.round)
        key, lock = ticket.key, self._lock
        lock.acquire()
        try:
            if number in self._pending and self._pending[number] == key:
                del self._pending[number]
                self._rewards[number - self._first] = value
                return
            if self._missed.take(number, key):
                if number in self._late:
                    self._learner.channel.add(value * self._late.pop(number))
                return
        finally:
            lock.release()
        remedy = "Each ticket takes one reward, and a restored agent knows what was saved."
        rule = "that of an open ticket of this agent"
        raise ValueError(checks.expected("ticket.round", number, rule, remedy))

    def finish(self, *, release: bool) -> None:
        """End the agent: release the last, partial batch, or drop it.

        Parameters
        ----------
        release
            True releases the rewards that came until now, False forgets them. When this is called
            must not depend on rewards.
        """
        with self._lock:
            if self._finished:
                return
            if release and self._learner.in_batch:
                self._close()
            self._finished = True
            self._next_batch()

    def _close(self) -> None:
        """Release the open batch: on disk first, then in use.

        What was interrupted after its release goes on from that release: it makes no second one.
        """
        learner = self._learner
        features, rewards = self._open_batch()
        if learner.channel.releases == learner.batch:
            self._autosave()
            learner.channel.release(features, rewards, self._users)
        self._keep_late(features)
        self._forget()  # before the batch ends: whatever is interrupted, they enter one sum
        learner.learn(features, learner.channel.prefix)
        self._next_batch()

    def _open_batch(self) -> tuple[Array, Array]:
        count = self._learner.in_batch
        return self._features[:count], self._rewards[:count]

    def _keep_late(self, features: Array) -> None:
        if not self._late_counts:
            return
        for number in self._pending:
            self._late[number] = features[number - self._first].copy()
        while len(self._late) > _MOST_LATE:
            del self._late[next(iter(self._late))]  # the oldest

    def _next_batch(self) -> None:
        self._missed.add(self._pending, self._learner.rounds)
        self._pending = {}
        self._first = self._learner.rounds
        self._forget()
        self._autosave()

    def _forget(self) -> None:
        self._rewards[:] = 0.0
        self._users, self._same = [], {}

    def _autosave(self) -> None:
        if self._folder is not None and self._learner.channel.private:
            self.save(self._folder)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies and pickles: two of them would release one batch twice."""
        if not self.simulation:
            raise TypeError("An agent that releases data cannot be copied. Use save(folder).")
        return super().__reduce_ex__(protocol)

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.RLock())
        _agents.add(self)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the whole state to a folder, and keep it up to date at every release from now on.

        ``agent.json`` and ``public.npz`` hold public things; ``sensitive.npz`` and ``sums.npz``
        hold raw rewards and the noise, and are as secret as the data. Never go on from an old
        copy: a batch would be released twice.

        Raises
        ------
        ValueError
            The folder is not empty, or the agent has another one already.
        RuntimeError
            Another agent was restored from the folder since: this one may not go on.
        """
        with self._lock:
            checkpoint.save(self, Path(folder))
