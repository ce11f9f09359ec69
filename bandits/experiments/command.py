"""The command ``python -m bandits.experiments``."""

import inspect
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click

from bandits.experiments import NAMES, table
from bandits.experiments.options import OPTIONS, TABLES
from bandits.experiments.printed import counted, coverage
from bandits.experiments.tables import Setup
from bandits.offline.downloads import DataUnavailable


def show(name: str, out: Path | None, **options: Any) -> None:
    """Print a table, and write it to the folder `out` if given; `options` are those of `Setup`."""
    setup = Setup(**options)
    found = table(name, setup)
    click.echo(f"{found}\n")
    if out is not None:
        # quick tables are compared byte for byte, over commits
        found.write(out, "" if setup.quick else origin())


@cache
def origin() -> str:
    """Return the commit, in a checkout, and the versions that tables are computed with."""
    root, commit = Path(__file__).parents[2], "unknown commit"
    if (root / ".git").exists() and shutil.which("git"):
        call = ["git", "-C", str(root), "describe", "--always", "--abbrev=40", "--exclude=*"]
        done = subprocess.run([*call, "--dirty"], capture_output=True, check=True)  # noqa: S603
        commit = f"commit {done.stdout.decode().strip()}"
    versions = [f"{name} {version(name)}" for name in ("dpcalib", "numpy", "scipy")]
    return ", ".join([commit, f"Python {platform.python_version()}", *versions])


def _main(
    *, names: tuple[str, ...], out: Path | None, check_coverage: bool, **options: Any
) -> None:
    """Reproduce tables of the preprint in docs/results/quick or docs/results/full."""
    folder = out or Path("docs") / "results" / ("quick" if options["quick"] else "full")
    if check_coverage:
        try:
            click.echo(counted(coverage(folder)))
        except (OSError, ValueError) as error:
            raise click.ClickException(str(error)) from error
        return
    left_out = []
    for name in names or NAMES:
        try:
            show(name, folder, **options)
        except DataUnavailable as error:
            if names:
                raise click.ClickException(str(error)) from error
            left_out.append(f"{name}: {error}")
    for reason in left_out:  # tables of an earlier run stay unchanged
        sys.stderr.write(f"SKIPPED {reason}\n")


_COVERAGE = "Only check that each printed number has a verdict, or a reason to have none."
main = click.Command(
    "bandits.experiments",
    callback=_main,
    help=f"{inspect.getdoc(_main)} The default is all tables.\n\n{TABLES}",
    context_settings={"help_option_names": ["-h", "--help"]},
    params=[
        click.Argument(["names"], metavar="[NAME]...", nargs=-1, type=click.Choice(NAMES)),
        click.Option(["--check-coverage"], is_flag=True, help=_COVERAGE),
        *OPTIONS,
    ],
)
