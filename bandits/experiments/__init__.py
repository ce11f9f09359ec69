"""The AdaPrivate-TS preprint (2026) re-run: one file a table, its number beside ours.

``python -m bandits.experiments [--quick] [NAME ...]`` writes the tables, and
``dpcalib bandit experiment NAME`` prints one. Where the preprint does not say how, the choice is
part of the table.
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
        How much to run, and where data are.

    Raises
    ------
    DataUnavailable
        The table needs data that are not there.
    """
    module = import_module(f"bandits.experiments.{name.replace('-', '_')}")
    found: Table = module.table(setup)
    return found
