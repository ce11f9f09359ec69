"""Replay of MovieLens 25M, which each user of this table has to get."""

from bandits.experiments.real_data import replayed, where
from bandits.experiments.tables import Setup, Table
from bandits.offline.datasets import load_movielens


def table(setup: Setup) -> Table:
    """Return percent of LinUCB's reward and regret."""
    choice = (
        "MovieLens 25M, T = 60,000 as in the preprint, and no warm start (a prior from private "
        "ratings is a release)."
    )
    played = [load_movielens("25m", **where(setup))]
    return replayed(setup, "real-data-25m", "Replay of MovieLens 25M", played, 60_000, choice)
