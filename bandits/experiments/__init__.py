"""Reproduction of the AdaPrivate-TS preprint (2026), one module per table.

``python -m bandits.experiments [--quick] [NAME ...]`` writes the tables,
``dpcalib bandit experiment NAME`` prints one. Tables list our choices where the preprint is not
specific.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandits.experiments.tables import Setup, Table

__all__ = ["NAMES", "table"]

NAMES = (
    "ts-vs-ucb",
    "amplification",
    "user-level",
    "real-data",
    "real-data-25m",
    "off-policy",
    "svd-features",
    "baselines",
    "ablation",
    "robustness",
    "horizon",
    "forced",
    "curves",
)
"""The tables, in the order of a full run."""


def table(name: str, setup: "Setup") -> "Table":
    """Return the table `name`, one of `NAMES`, for a size of the runs and locations of data."""
    module = import_module(f"bandits.experiments.{name.replace('-', '_')}")
    found: Table = module.table(setup)
    return found
