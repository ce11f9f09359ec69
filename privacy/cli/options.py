"""The options that the commands share: how each is spelled, checked, and told when wrong.

A value comes from a default, the file of ``--config``, the command line, or a
line of ``--batch``, the later winning, and is checked in one place whichever it
was: the names here are the names of the public functions' parameters.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import click

from privacy import checks
from privacy.cli.units import noise_multiplier_from_sigma
from privacy.relations import NeighboringRelation

Values = dict[str, Any]


def _read_number(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Read a number; its domain is checked later, with that of all other sources."""
    if value is None:
        return None
    top, slash, bottom = value.partition("/")
    for read in (int, float):
        try:
            return read(top) / read(bottom) if slash else read(value)
        except (ValueError, ArithmeticError):
            pass
    raise click.BadParameter(f"{value!r} is not a number.{_number_remedy(value)}", ctx, param)


def _number_remedy(text: str) -> str:
    try:
        if text.endswith("%"):
            return f" For {text} pass {float(text[:-1]) / 100:g}."
        return f" Write a decimal point: {float(text.replace(',', '.')):g}."
    except ValueError:
        return ""


def relation_names() -> list[str]:
    """Return the relations as they are written on the command line."""
    return [str(relation).lower().replace("_", "-") for relation in NeighboringRelation]


def notion_names() -> tuple[str, ...]:
    """Return the notions that `privacy.account` knows."""
    from privacy.accounting import NOTION_MODULES

    return ("tightest", *NOTION_MODULES)


CONVERSIONS = ("optimal", "classic", "gaussian")


def _number_option(*flags: str, text: str) -> click.Option:
    return click.Option(flags, metavar="NUMBER", callback=_read_number, help=text)


def _word_option(flag: str, words: Callable[[], Iterable[str]], text: str) -> click.Option:
    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        return [word for word in words() if word.startswith(incomplete)]

    return click.Option([flag], metavar="NAME", shell_complete=complete, help=text)


OPTIONS: dict[str, click.Option] = {
    "epsilon": _number_option("--epsilon", text="Privacy loss bound, such as 1."),
    "delta": _number_option("--delta", text="Failure probability, such as 1e-5."),
    "rho": _number_option("--rho", text="zCDP loss bound."),
    "mu": _number_option("--mu", text="Gaussian-DP loss bound."),
    "noise_multiplier": _number_option(
        "--noise-multiplier", text="Noise standard deviation / clip norm (no unit)."
    ),
    "sigma": _number_option(
        "--sigma", text="Noise standard deviation, in the unit of --clip-norm."
    ),
    "sampling_probability": _number_option(
        "-q",
        "--sampling-probability",
        text="Poisson probability that a record takes part in a step.  [default: 1]",
    ),
    "steps": _number_option("--steps", text="Number of noisy releases.  [default: 1]"),
    "epochs": _number_option(
        "--epochs",
        text="Most steps one record takes part in when batches are not Poisson samples.  "
        "[default: the steps]",
    ),
    "clip_norm": _number_option(
        "--clip-norm", text="L2 norm bound of one record's contribution.  [default: 1]"
    ),
    "relation": _word_option(
        "--relation",
        relation_names,
        text="add-or-remove-one (default), replace-one, or replace-special.",
    ),
    "notion": _word_option(
        "--notion",
        notion_names,
        text="How to account: tightest (default), or one notion by name.",
    ),
    "conversion": _word_option(
        "--conversion",
        lambda: CONVERSIONS,
        text="Between epsilon and rho: optimal (default) or classic, for any zCDP mechanism; "
        "gaussian, exact, for Gaussian noise alone.",
    ),
    "certify": click.Option(
        ["--certify/--no-certify"],
        default=None,
        help="Prove the numbers by interval arithmetic, or exit with 4.  "
        "[default: where a proof exists]",
    ),
}


def _sampling_probability(value: Any) -> float:
    number = _number(value)
    if 0 < number < sys.float_info.min:
        remedy = "A smaller number has no full precision. Pass a larger one."
        rule = f">= {sys.float_info.min:g}"
        raise ValueError(checks.expected("sampling_probability", value, rule, remedy))
    if number > 1 and number.is_integer():
        remedy = f"If {value:g} is the batch size, pass batch size / number of records"
        remedy += f"; if it is a percentage, pass {value / 100:g}." if value <= 100 else "."
        raise ValueError(checks.expected("sampling_probability", value, "> 0 and <= 1", remedy))
    return checks.probability(value)


def _delta(value: Any) -> float:
    number = _number(value)
    if number >= 1:
        remedy = "Pass a probability well below 1 / (number of records), such as 1e-5."
        if 1 < number <= 40 and number.is_integer():
            remedy += f" If you meant 10 to the power of -{value:g}, pass 1e-{value:g}."
        raise ValueError(checks.expected("delta", value, "> 0 and < 1", remedy))
    return checks.delta(value)


def _epsilon(value: Any) -> float:
    if _number(value) == 0:
        remedy = "No finite noise gives epsilon=0. Pass the loss that you accept, such as 1."
        raise ValueError(checks.expected("epsilon", value, "> 0", remedy))
    return checks.epsilon(value)


def _steps(value: Any) -> int:
    remedy = "Pass the number of noisy releases; a single one is steps=1."
    if 0 < _number(value) < 1:
        remedy += f" If {value:g} is the sampling probability, pass -q {value:g}."
    return checks.count("steps", value, remedy)


def _positive(name: str, remedy: str) -> Callable[[Any], float]:
    return lambda value: checks.real(name, value, remedy, above=0)


def _choice(name: str, names: Callable[[], Iterable[str]], remedy: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        known = list(names())
        word = str(value).lower().replace("_", "-")
        if word not in known:
            raise ValueError(checks.expected(name, value, f"one of {', '.join(known)}", remedy))
        return word

    return check


_relation_name = _choice("relation", relation_names, "Say which data sets count as neighbours.")


def _relation(value: Any) -> NeighboringRelation:
    return NeighboringRelation(_relation_name(value).upper().replace("-", "_"))


def _notion(value: Any) -> str:
    from privacy.accounting import check_notion

    word = str(value).lower()
    check_notion(word)
    return word


def _certify(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(checks.expected("certify", value, "true or false", "Leave it out else."))
    return value


RULES: dict[str, Callable[[Any], Any]] = {
    "epsilon": _epsilon,
    "delta": _delta,
    "rho": _positive("rho", "Pass the zCDP loss bound, such as rho=0.1."),
    "mu": _positive("mu", "Pass the Gaussian-DP loss bound, such as mu=1."),
    "noise_multiplier": _positive(
        "noise_multiplier", "Pass the standard deviation of the noise divided by the clip norm."
    ),
    "sigma": _positive("sigma", "Pass the standard deviation of the noise."),
    "sampling_probability": _sampling_probability,
    "steps": _steps,
    "epochs": lambda value: checks.count("epochs", value, "Pass the most steps of one record."),
    "clip_norm": _positive("clip_norm", "Pass the L2 norm bound of one record's contribution."),
    "relation": _relation,
    "notion": _notion,
    "conversion": _choice("conversion", lambda: CONVERSIONS, "Leave it out for the optimal one."),
    "certify": _certify,
}

DEFAULTS: Values = {
    "sampling_probability": 1.0,
    "steps": 1,
    "epochs": None,
    "clip_norm": 1.0,
    "relation": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "notion": "tightest",
    "conversion": "optimal",
    "certify": None,
}


def settle(
    layers: Iterable[Mapping[str, Any]],
    defaults: Mapping[str, Any],
    *,
    needs: Iterable[str],
    one_of: tuple[str, ...],
) -> Values:
    """Merge the sources of values, later ones winning, and check the result.

    Parameters
    ----------
    layers
        Values by parameter name; None means not given.
    defaults
        Values of what no layer gives.
    needs
        Names that must be given.
    one_of
        Names of which exactly one must be given. A layer that gives one
        replaces whichever an earlier layer gave.

    Raises
    ------
    ValueError, TypeError
        A value is missing, given twice, or outside its domain.
    """
    values: Values = {}
    for layer in layers:
        given = {name: value for name, value in layer.items() if value is not None}
        if any(name in given for name in one_of):
            values = {name: value for name, value in values.items() if name not in one_of}
        values |= given
    _refuse_swapped(values)
    _refuse_missing(values, needs, one_of)
    values = {name: value for name, value in defaults.items() if value is not None} | values
    checked = {name: RULES[name](value) for name, value in values.items()}
    if "sigma" in checked:
        noise = noise_multiplier_from_sigma(checked["sigma"], checked["clip_norm"])
        checked["noise_multiplier"] = RULES["noise_multiplier"](noise)
    return checked


def _refuse_missing(values: Values, needs: Iterable[str], one_of: tuple[str, ...]) -> None:
    """Raise unless all that is needed is given; what is missing is named together."""
    missing = [name for name in needs if name not in values]
    if _number(values.get("epochs")) > 1 and "steps" not in values:
        missing.append("steps")
    chosen = [name for name in one_of if name in values]
    wanted = [flags([name]) for name in missing]
    if one_of and not chosen:
        wanted.append(f"one of {flags(one_of)}")
    if wanted:
        *first, last = wanted
        told = f"Missing {' and '.join([', '.join(first), last] if first else [last])}."
        texts = {name: str(OPTIONS[name].help).partition("  [")[0] for name in missing}
        hints = (f"{flags([name])}: {text}" for name, text in texts.items())
        raise ValueError(" ".join([told, *hints]))
    if len(chosen) > 1:
        found = flags(chosen, " and ")
        raise ValueError(f"Expected exactly one of {flags(one_of)}; {found} were given.")


def flags(names: Iterable[str], joint: str = ", ") -> str:
    """Return the long spelling of options, joined."""
    return joint.join(f"--{name.replace('_', '-')}" for name in names)


def _refuse_swapped(values: Values) -> None:
    """Raise where two values make sense only the other way round."""
    epsilon, delta = _number(values.get("epsilon")), _number(values.get("delta"))
    if 0 < epsilon < 1e-3 and delta >= 0.01:
        raise ValueError(
            f"epsilon={epsilon:g} and delta={delta:g} look swapped. "
            f"Pass --epsilon {delta:g} --delta {epsilon:g}."
        )
    q, steps = _number(values.get("sampling_probability")), _number(values.get("steps"))
    if q > 1 and 0 < steps < 1:
        raise ValueError(
            f"sampling_probability={q:g} and steps={steps:g} look swapped. "
            f"Pass --sampling-probability {steps:g} --steps {q:g}."
        )


def _number(value: Any) -> float:
    """Return a real number as a float and anything else as NaN, which fails every comparison."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
