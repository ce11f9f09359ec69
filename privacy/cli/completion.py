"""`dpcalib completion`: print a shell completion script."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash, in ~/.bashrc:     eval "$(dpcalib completion bash)"
    zsh, in ~/.zshrc:       eval "$(dpcalib completion zsh)"
    fish, in config.fish:   dpcalib completion fish | source
    """
    script = get_completion_class(shell)
    assert script is not None  # click supports all three shells
    click.echo(script(ctx.find_root().command, {}, "dpcalib", "_DPCALIB_COMPLETE").source())
