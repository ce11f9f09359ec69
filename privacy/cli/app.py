"""The `dpcalib` command group. Commands are entry points, so other packages can add some."""

import functools
import os
import sys
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from privacy.cli import output
from privacy.cli.help import like

COMMANDS = "dpcalib.commands"
"""Entry-point group: each name is a command, each value a `click.Command`."""
NOT_WRITTEN, INTERRUPTED = 1, 130
_SECTIONS = {
    "Runs": ("sigma", "epsilon", "delta", "steps", "sampling-probability", "curve", "convert"),
    "Plans and budgets": ("account", "check", "ledger", "schema"),
    "Evidence": ("explain", "verify", "audit"),
}
"""Sections of the help text; commands in none of them come last."""


@functools.cache
def found() -> dict[str, EntryPoint]:
    """Return the entry points of all commands by name, without importing their modules."""
    # dpcalib's own entries come last, so that no other package can override them.
    own = ("privacy", "bandits")
    found = sorted(entry_points(group=COMMANDS), key=lambda e: e.module.partition(".")[0] in own)
    return {entry.name: entry for entry in found}


class _Discovered(click.Group):
    """A group that lists commands from metadata and imports a command when it is used."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **extra)
        except OSError as failure:
            with suppress(OSError):
                output.error(f"Reading or writing failed: {failure.strerror or failure}.")
            _discard_unwritten()
            sys.exit(NOT_WRITTEN)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; wrap errors to the terminal width and exit with 130 on Ctrl-C."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.ClickException as error:
            if isinstance(error, click.UsageError):
                where = error.ctx or ctx
                hint = f"Try '{where.command_path} --help' for help.\n"
                click.echo(f"{where.get_usage()}\n{hint}", err=True)
            output.error(error.format_message())
            ctx.exit(error.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        if not found():
            raise click.ClickException(
                "No commands found: the dpcalib package is not installed. "
                "In the clone of dpcalib, run: pip install ."
            )
        return sorted(found())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        placed = [name for section in _SECTIONS.values() for name in section]
        others = [name for name in names if name not in placed]
        width = max(map(len, names))
        room = formatter.width - 6 - width
        for title, section in {**_SECTIONS, "Other commands": others}.items():
            rows = [
                (name.ljust(width), command.get_short_help_str(room))
                for name in section
                if (command := self.get_command(ctx, name)) and not command.hidden
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not name.startswith("-") and name not in (known := self.list_commands(ctx)):
            ctx.fail(f"No such command {name!r}.{like(name, known)}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        try:
            command = found()[cmd_name].load()
        except ImportError as error:
            return _unavailable(cmd_name, f"{cmd_name} could not be loaded: {error}.")
        assert isinstance(command, click.Command)
        return command


def _discard_unwritten() -> None:
    """Redirect failed standard streams to os.devnull, so that Python's final flush succeeds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
            continue
        with suppress(AttributeError, OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


def _unavailable(name: str, why: str) -> click.Command:
    """Return a placeholder command that fails, so that `--help` and other commands still work."""

    def fail(**_: Any) -> None:
        entry = found()[name]
        source = "." if entry.dist is None or entry.dist.name == "dpcalib" else entry.dist.name
        extras = f"'{source}[{','.join(entry.extras)}]'"
        where = "In the clone of dpcalib, run" if source == "." else "Run"
        remedy = f" {where}: pip install {extras}" if entry.extras else ""
        raise click.ClickException(why + remedy)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, context_settings=settings, callback=fail, short_help=why)


@click.group(
    cls=_Discovered,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 success, 1 output not written, 2 usage error or bad input, "
    "3 target not met, 4 not certified, 130 interrupted.",
)
@click.version_option(package_name="dpcalib")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Calibrate and account for differentially private noise.

    For example, find the noise for epsilon = 1 at delta = 1e-5 over 500
    Poisson-sampled steps:

    \b
    dpcalib sigma --epsilon 1 --delta 1e-5 -q 0.01 --steps 500
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
