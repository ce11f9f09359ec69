"""Usage lines, file arguments, and hints for option and command names of other tools."""

import textwrap
from pathlib import Path

import click

from privacy.names import BATCHES, ELSEWHERE

FILE = click.Path(dir_okay=False, path_type=Path)
READ = click.Path(exists=True, dir_okay=False, path_type=Path)
GLUE = "\0"
"""Non-breaking space in a usage line."""

_NOISE = "Pass --noise-multiplier (sigma / clip norm), or --sigma with --clip-norm."
_BATCH = (
    "Pass --batch-size, --records and --epochs, and --sampler if batches are not Poisson samples."
)
_REMEDIES = {"noise_multiplier": _NOISE, "sampling_probability": "Pass -q."}
_OTHER_OPTIONS = {
    f"{dash}{name.replace('_', '-')}": remedy
    for remedy, names in (
        *(
            (_REMEDIES.get(ours, f"Pass --{ours.replace('_', '-')}."), ELSEWHERE[ours])
            for ours in ELSEWHERE.keys() - {"count", "orders", "scale"}
        ),
        (_BATCH, BATCHES),
    )
    for name in names
    for dash in ("-", "--")
}
_OTHER_COMMANDS = {
    "calibrate": "sigma",
    "experiment": "bandit experiment",
    "noise": "sigma",
    "noise-multiplier": "sigma",
    "plan": "account",
    "simulate": "bandit simulate",
}


class Command(click.Command):
    """A command of dpcalib."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        start = f"Usage: {ctx.command_path} "
        pieces = " ".join(self.collect_usage_pieces(ctx))
        if len(start) + max(map(len, pieces.split(" "))) > formatter.width:
            formatter.write(start.rstrip() + "\n")
            start = " " * 4
        filled = textwrap.fill(
            pieces,
            formatter.width,
            initial_indent=start,
            subsequent_indent=" " * len(start),
            break_on_hyphens=False,
            break_long_words=False,
        )
        formatter.write(filled.replace(GLUE, " ") + "\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            remedy = _OTHER_OPTIONS.get(error.option_name)
            if remedy is None:
                raise
            raise click.UsageError(f"No such option {error.option_name!r}. {remedy}", ctx) from None


def like(name: str, known: list[str]) -> str:
    """Return " Did you mean ...?" with the closest command, or an empty string."""
    from difflib import get_close_matches

    meant = [_OTHER_COMMANDS.get(name), *get_close_matches(name, known, 1)]
    return next((f" Did you mean {word!r}?" for word in meant if word), "")
