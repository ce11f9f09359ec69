"""Replay of MovieLens 25M, which must be downloaded separately."""

from bandits.experiments.real_data import replayed, where
from bandits.experiments.tables import Setup, Table
from bandits.offline.datasets import load_movielens


def table(setup: Setup) -> Table:
    """Return the reward in percent of LinUCB's and the regret."""
    choice = (
        "MovieLens 25M, T = 60,000 as in the preprint, and no warm start (a prior from private "
        "ratings is a release)."
    )
    played = [load_movielens("25m", **where(setup))]
    return replayed(setup, "real-data-25m", "Replay of MovieLens 25M", played, 60_000, choice)
