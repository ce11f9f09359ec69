"""Options of the commands that write tables."""

from pathlib import Path

import click

from bandits.experiments import NAMES

_FOLDER = click.Path(file_okay=False, path_type=Path)
OPTIONS: list[click.Parameter] = [
    click.Option(["--quick"], is_flag=True, help="Fewer and shorter runs: seconds per table."),
    click.Option(
        ["--data-dir", "data"], type=_FOLDER, help="Folder of data sets, also for downloads."
    ),
    click.Option(["--download"], is_flag=True, help="Download missing data."),
    click.Option(["--cache"], type=_FOLDER, help="Folder to cache simulations in (joblib)."),
    click.Option(["--jobs"], type=int, default=1, show_default=True, help="Number of processes."),
    click.Option(["--out"], type=_FOLDER, help="Folder for NAME.csv."),
]
"""Shared by the commands for one table and for all tables."""
TABLES = "\b\nNAME is one of:\n" + "\n".join(f"  {name}" for name in NAMES)
