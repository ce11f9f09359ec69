"""The `dpcalib` group, which finds its commands through package metadata."""

import functools
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click

from privacy.cli.help import like

COMMANDS = "dpcalib.commands"
"""Entry-point group: each name is a command, each value a `click.Command`."""


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
    epilog="Exit codes: 0 ok, 2 usage or bad input, 3 target not met, 4 not certified.",
)
@click.version_option(package_name="dpcalib")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Calibrate and account for differentially private noise.

    \b
    The noise for epsilon = 1 at delta = 1e-5 over 1000 sampled steps:
      dpcalib sigma --epsilon 1 --delta 1e-5 -q 0.01 --steps 1000
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
