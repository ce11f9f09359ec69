"""Reproduction of the AdaPrivate-TS preprint (2026), one module per table.

``python -m bandits.experiments [--quick] [NAME ...]`` writes the tables, and
``dpcalib bandit experiment NAME`` prints one. Each table lists our choices where the preprint does
not specify the experiment.
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
    """Return one table.

    Parameters
    ----------
    name
        One of `NAMES`.
    setup
        Size of the runs, and locations of data.

    Raises
    ------
    DataUnavailable
        The table requires data that are missing.
    """
    module = import_module(f"bandits.experiments.{name.replace('-', '_')}")
    found: Table = module.table(setup)
    return found
