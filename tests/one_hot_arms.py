"""An environment of one-hot arms: every round offers the same one-hot rows."""

from dataclasses import dataclass

import numpy as np

import bandits


@dataclass(frozen=True, kw_only=True)
class OneHotArms(bandits.Environment):
    """Every round offers all arms, as one-hot rows, with uniform means."""

    dimension: int

    def world(self, seeds):
        return OneHotWorld(self.dimension, seeds)


class OneHotWorld(bandits.World):
    def __init__(self, arms, seeds):
        self.generators = [np.random.default_rng(seed) for seed in seeds]
        self.features = np.eye(arms)[None]
        self.means = np.stack([rng.random(arms) for rng in self.generators])

    def block(self, count):
        draws = np.stack([rng.random(count) for rng in self.generators])
        shape = (*draws.shape, self.means.shape[1])
        candidates = np.broadcast_to(np.arange(shape[-1]), shape)
        means = np.broadcast_to(self.means[:, None], shape)
        return bandits.Block(candidates, means, draws, np.zeros(draws.shape, dtype=int))

    def rewards(self, means, draws):
        return (draws < means).astype(float)
