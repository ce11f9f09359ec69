"""What the commands that write tables can be told."""

from pathlib import Path

import click

from bandits.experiments import NAMES

_FOLDER = click.Path(file_okay=False, path_type=Path)
OPTIONS: list[click.Parameter] = [
    click.Option(["--quick"], is_flag=True, help="Few and short runs: minutes for all tables."),
    click.Option(["--data-dir"], type=_FOLDER, help="Where data sets are, or are downloaded to."),
    click.Option(["--download"], is_flag=True, help="Download data that are missing."),
    click.Option(["--cache"], type=_FOLDER, help="Keep results there, by configuration."),
    click.Option(["--jobs"], type=int, default=1, show_default=True, help="Processes."),
    click.Option(["--out"], type=_FOLDER, help="Write NAME.csv there."),
]
"""Of one table and of all."""
TABLES = "\b\nNAME is one of:\n" + "\n".join(f"  {name}" for name in NAMES)
