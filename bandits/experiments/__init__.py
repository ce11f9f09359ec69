"""Reproduction of the AdaPrivate-TS preprint (2026).

``python -m bandits.experiments [--quick] [NAME ...]`` writes the tables,
``dpcalib bandit experiment NAME`` prints one. Tables list our choices where the preprint is not
specific.
"""

import tomllib
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandits.experiments.tables import Row, Setup, Table

__all__ = ["NAMES", "table"]

NAMES = (
    "ts-vs-ucb",
    "amplification",
    "user-level",
    "real-data",
    "real-data-25m",
    "synthetic-25m",
    "off-policy",
    "off-policy-jester",
    "svd-features",
    "baselines",
    "ablation",
    "robustness",
    "horizon",
    "forced",
    "curves",
)
"""The tables, in the order of a full run."""
_MODULES = {
    "real-data": "real_data",
    "real-data-25m": "real_data",
    "synthetic-25m": "real_data",
    "off-policy": "off_policy",
    "off-policy-jester": "off_policy",
    "svd-features": "svd_features",
}
"""Modules of the tables that are not in `synthetic`."""


def table(name: str, setup: "Setup") -> "Table":
    """Return the table `name`, one of `NAMES`, for a size of the runs and locations of data."""
    from bandits.experiments.printed import judged
    from bandits.experiments.tables import Table

    module = import_module(f"bandits.experiments.{_MODULES.get(name, 'synthetic')}")
    with warnings.catch_warnings():
        # from sampling and the printed bound, which the tables evaluate
        warnings.simplefilter("ignore", UserWarning)
        rows: list[Row] = getattr(module, name.replace("-", "_"))(setup)
    with Path(__file__).with_name("tables.toml").open("rb") as file:
        words = tomllib.load(file)[name]
    return Table(name, words["title"], tuple(words["choices"]), judged(name, rows, setup))
