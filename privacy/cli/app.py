"""The `dpcalib` group, which finds its commands through package metadata."""

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


@functools.cache
def found() -> dict[str, EntryPoint]:
    """Return the entry points of all commands by name; nothing is imported."""
    # Ours come last, so that no other package can take the name of one of them.
    found = sorted(
        entry_points(group=COMMANDS), key=lambda entry: entry.module.startswith(__package__)
    )
    return {entry.name: entry for entry in found}


class _Discovered(click.Group):
    """Lists the names in the metadata; imports the module of a command when it is used."""

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command; an answer that cannot be written is an error without a traceback."""
        try:
            return super().main(*args, **extra)
        except OSError as failure:
            with suppress(OSError):
                output.error(f"Reading or writing failed: {failure.strerror or failure}.")
            _discard_unwritten()
            sys.exit(NOT_WRITTEN)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; its errors fit the terminal, and Ctrl-C has its own exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\nInterrupted.", err=True)
            ctx.exit(INTERRUPTED)
        except click.exceptions.NoArgsIsHelpError:
            raise
        except click.UsageError as error:
            where = error.ctx or ctx
            hint = f"Try '{where.command_path} --help' for help.\n"
            click.echo(f"{where.get_usage()}\n{hint}", err=True)
            output.error(error.format_message())
            ctx.exit(error.exit_code)
        except click.ClickException as error:
            output.error(error.format_message())
            ctx.exit(error.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        if not found():
            raise click.ClickException(
                "The commands are listed in the metadata of the installed package, and it is not "
                "installed here. Run: pip install dpcalib (in a checkout: pip install -e .)"
            )
        return sorted(found())

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
    """Point the standard streams to nowhere, where Python's last flush cannot fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
            continue
        with suppress(AttributeError, OSError, ValueError):
            os.dup2(nowhere, stream.fileno())


def _unavailable(name: str, why: str) -> click.Command:
    """Return a stand-in, so that one broken command leaves `--help` and the others alone."""

    def fail(**_: Any) -> None:
        extras = found()[name].extras
        remedy = f" Run: pip install 'dpcalib[{','.join(extras)}]'" if extras else ""
        raise click.ClickException(why + remedy)

    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    return click.Command(name, context_settings=settings, callback=fail, short_help=why)


@click.group(
    cls=_Discovered,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 ok, 1 not written, 2 usage or bad input, 3 target not met, "
    "4 not certified, 130 interrupted.",
)
@click.version_option(package_name="dpcalib")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Calibrate and account for differentially private noise.

    The noise for epsilon = 1 at delta = 1e-5 over 500 sampled steps:

    \b
    dpcalib sigma --epsilon 1 --delta 1e-5 -q 0.01 --steps 500
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
