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

_TABLES = {
    "synthetic": "ts-vs-ucb amplification user-level baselines ablation robustness horizon forced"
    " curves",
    "real_data": "real-data real-data-25m synthetic-25m",
    "off_policy": "off-policy off-policy-jester",
    "svd_features": "svd-features",
}
_MODULES = {name: module for module, names in _TABLES.items() for name in names.split()}
NAMES = tuple(_MODULES)
"""The tables, in the order of a full run."""


def table(name: str, setup: "Setup") -> "Table":
    """Return the table `name`, one of `NAMES`, for a size of the runs and locations of data."""
    from bandits.experiments.printed import judged
    from bandits.experiments.tables import Table

    module = import_module(f"bandits.experiments.{_MODULES[name]}")
    with warnings.catch_warnings():
        # warnings about sampling and the printed bound, which the tables evaluate
        warnings.simplefilter("ignore", UserWarning)
        rows: list[Row] = getattr(module, name.replace("-", "_"))(setup)
    with Path(__file__).with_name("tables.toml").open("rb") as file:
        words = tomllib.load(file)[name]
    return Table(name, words["title"], tuple(words["choices"]), judged(name, rows, setup))
