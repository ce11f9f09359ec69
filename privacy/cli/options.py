"""The options that the commands share, as click options; `privacy.answers` checks the values."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from privacy.answers.batches import SAMPLERS
from privacy.answers.options import CONVERSIONS, TEXTS, Values, notion_names, relation_names


def number(text: str) -> float:
    """Parse a number or a fraction; `privacy.answers` checks its domain."""
    top, slash, bottom = text.partition("/")
    for read in (int, float):
        try:
            return read(top) / read(bottom) if slash else read(text)
        except (ValueError, ArithmeticError):
            pass
    raise ValueError(f"{text!r} is not a number.{_number_remedy(text)}")


def _read_number(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    try:
        return None if value is None else number(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def _number_remedy(text: str) -> str:
    try:
        if text.endswith("%"):
            return f" For {text} pass {float(text[:-1]) / 100:g}."
        return f" Use a decimal point: {float(text.replace(',', '.')):g}."
    except ValueError:
        return ""


def _number_option(name: str, text: str) -> click.Option:
    spelled = ["-q"] * (name == "sampling_probability") + ["--" + name.replace("_", "-")]
    return click.Option(spelled, metavar="NUMBER", callback=_read_number, help=text)


def _word_option(flag: str, words: Callable[[], Iterable[str]], text: str) -> click.Option:
    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return click.Option([flag], metavar="NAME", shell_complete=complete, help=text)


_NUMBERS = {
    "advantage": "Largest true positive rate minus false positive rate of an attack.",
    "true_positive_rate": "Largest true positive rate of an attack at --false-positive-rate.",
    "false_positive_rate": "False positive rate of an attack.",
    "bayes_risk": "Least error probability of an attack at --prior.",
    "prior": "Probability that the record is present.",
    "epsilon": TEXTS["epsilon"],
    "delta": TEXTS["delta"],
    "rho": "rho of zCDP.",
    "mu": "mu of Gaussian DP.",
    "noise_multiplier": "Noise standard deviation / clip norm (no unit).",
    "sigma": "Noise standard deviation, in the unit of --clip-norm.",
    "sampling_probability": "Poisson sampling probability of each record in a step.  [default: 1]",
    "steps": TEXTS["steps"] + "  [default: 1]",
    "batch_size": "(Expected) records per batch; with --records, replaces -q.",
    "max_batch_size": "Largest batch of --sampler truncated-poisson.",
    "records": "Number of records of the data set (public).",
    "epochs": "Passes over the data set; with --batch-size and --records, replaces --steps.",
    "clip_norm": "L2 norm bound of one record's contribution.  [default: 1]",
}
_SAMPLER = """How batches are drawn: poisson (default), fixed-size or truncated-poisson; with \
--epochs, also random-allocation or shuffle."""
_RELATION = "add-or-remove-one (default), replace-one, or replace-special."
_CONVERSION = """Between epsilon and rho: optimal (default) or classic, for any zCDP mechanism; \
gaussian (exact), for Gaussian noise only."""
_CERTIFY = """Prove the answer by interval arithmetic, or exit with 4.  \
[default: prove if fast]"""

OPTIONS: dict[str, click.Option] = {
    **{name: _number_option(name, text) for name, text in _NUMBERS.items()},
    "sampler": _word_option("--sampler", lambda: SAMPLERS, _SAMPLER),
    "relation": _word_option("--relation", relation_names, _RELATION),
    "notion": _word_option(
        "--notion", notion_names, "Accounting method: tightest (default), or a method by name."
    ),
    "conversion": _word_option("--conversion", lambda: CONVERSIONS, _CONVERSION),
    "certify": click.Option(["--certify/--no-certify"], default=None, help=_CERTIFY),
}


def merged(layers: Iterable[Mapping[str, Any]], one_of: tuple[str, ...]) -> Values:
    """Return the values of all sources: the config file, the command line, and a batch line.

    Later layers override earlier ones, and all of `one_of` if they give one. None: not given.
    """
    values: Values = {}
    for layer in layers:
        given = {name: value for name, value in layer.items() if value is not None}
        if any(name in given for name in one_of):
            values = {name: value for name, value in values.items() if name not in one_of}
        values |= given
    return values
