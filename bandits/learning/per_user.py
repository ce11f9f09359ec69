"""Channels with user-level privacy, which cap a user's contributions or drop later rewards."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import privacy as dp
from bandits.checks import Array
from bandits.learning.rewards import MARGIN, Released
from bandits.learning.users import User, coded, packed, unpacked

_Ledger = dict[tuple[int, User], float]
"""One number per replicate and user."""


def _arrays(name: str, ledger: Mapping[tuple[int, User], float]) -> dict[str, Any]:
    return {
        "replicates": np.array([key[0] for key in ledger], dtype=np.int64),
        "users": packed(key[1] for key in ledger),
        name: np.array(list(ledger.values()), dtype=float),
    }


def _ledger(name: str, state: Mapping[str, Any]) -> _Ledger:
    keys = zip(state["replicates"].tolist(), unpacked(state["users"]), strict=True)
    return dict(zip(keys, state[name].tolist(), strict=True))


class Capped(Released):
    """Bounds the contribution of each user over all batches by a lifetime cap.

    A user's contribution to a batch is u = sum of (r - center) x over the user's rounds in it. It
    is scaled down to at most `per_batch`, and so that over all batches sum |u|^2 <= cap^2
    (``"l2"``) or sum |u| <= cap (``"l1"``), the norm of the sums' ``Participation.lifetime_cap``;
    later rounds add nothing. A user's remaining cap depends on rewards, so it is sensitive and
    never published.
    """

    by_user = True

    def __init__(self, sums: dp.RunningSum, *, cap: float, per_batch: float, norm: str) -> None:
        super().__init__(sums)
        self.cap, self.per_batch = cap, min(per_batch, cap)
        self.power = 2.0 if norm == "l2" else 1.0
        self.spent: _Ledger = {}

    def _values(self, features: Array, rewards: Array, users: Any) -> Array:
        if rewards.ndim == 1:
            return self._one(0, features, rewards, users)
        each = enumerate(zip(features, rewards, users, strict=True))
        return np.stack([self._one(replicate, *batch) for replicate, batch in each])

    def _one(self, replicate: int, features: Array, rewards: Array, users: Any) -> Array:
        names, places = coded(users)
        total = np.zeros((len(names), features.shape[-1]))
        np.add.at(total, places, rewards[:, None] * features)
        norms = np.sqrt(np.square(total).sum(-1))
        for i, name in enumerate(names):
            key = (replicate, name)
            spent = self.spent.get(key, 0.0)
            left = max(self.cap**self.power - spent, 0.0) ** (1 / self.power)
            most = min(left, self.per_batch)
            if norms[i] > most:
                total[i] *= most / norms[i]
            used = min(float(norms[i]), most) ** self.power
            # round up, because amounts much smaller than `spent` would otherwise add nothing
            self.spent[key] = math.nextafter(spent + used * MARGIN, math.inf) if used else spent
        values: Array = self.sums.quantize(total).sum(0)
        return values

    def state(self) -> dict[str, Any]:
        return _arrays("spent", self.spent)

    def load(self, state: Mapping[str, Any]) -> None:
        self.spent = _ledger("spent", state)


class Limited(Released):
    """Protects up to k rewards of each user as a group and drops the later ones.

    The user of each round is public, so the counts are public too.
    """

    by_user = True

    def __init__(self, sums: dp.RunningSum, *, rounds_per_user: int) -> None:
        super().__init__(sums)
        self.rounds_per_user = rounds_per_user
        self.seen: dict[tuple[int, User], int] = {}

    def _values(self, features: Array, rewards: Array, users: Any) -> Array:
        kept = np.atleast_2d(rewards).copy()
        for replicate, batch in enumerate([users] if rewards.ndim == 1 else users):
            names, places = coded(batch)
            for i, place in enumerate(places.tolist()):
                key = (replicate, names[place])
                self.seen[key] = self.seen.get(key, 0) + 1
                if self.seen[key] > self.rounds_per_user:
                    kept[replicate, i] = 0.0
        return super()._values(features, kept.reshape(rewards.shape), users)

    def state(self) -> dict[str, Any]:
        return _arrays("seen", self.seen)

    def load(self, state: Mapping[str, Any]) -> None:
        self.seen = {key: int(count) for key, count in _ledger("seen", state).items()}
