"""The options of `privacy.answers`: names, domains and defaults; errors name command-line flags."""

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from privacy import checks
from privacy.answers.batches import SAMPLERS, WITHOUT_STEPS, by_batches, flags, steps_are_known
from privacy.calibration.targets import KINDS
from privacy.numerics.rounding import product_up, ratio_down
from privacy.relations import NeighboringRelation

Values = dict[str, Any]

TEXTS = {
    "epsilon": "epsilon of (epsilon, delta)-DP, such as 1.",
    "delta": "delta of (epsilon, delta)-DP, such as 1e-5.",
    "steps": "Number of noisy releases.",
}
"""Descriptions of the options that can be required."""


@dataclass(frozen=True)
class Asked:
    """The options of one function."""

    one_of: tuple[str, ...] = ()
    """Options of which exactly one must be given."""
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    participations: bool = False
    """Whether ``epochs`` also bounds the participations of a record."""
    risks: bool = False
    """Whether a target for attacks can replace epsilon and delta."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.one_of, *self.needs, *self.takes, *(RISKS if self.risks else ()))

    def settled(self, options: Mapping[str, Any]) -> Values:
        """Return the validated options with defaults filled in; None means not given."""
        values = named(options, self.names)
        values = {name: value for name, value in values.items() if value is not None}
        _refuse_swapped(values)
        needs = _kind_of_target(values) if values.keys() & RISKS else self.needs
        _refuse_missing(values, needs, self.one_of)
        checked = {name: RULES[name](value) for name, value in values.items()}
        defaults = {name: DEFAULTS[name] for name in self.takes if name in DEFAULTS}
        checked = defaults | by_batches(checked, self.takes, participations=self.participations)
        if checked.get("epsilon") == 0 and "delta" in self.names:
            remedy = "Pass a larger epsilon, such as 1."
            raise ValueError(checks.expected("epsilon", 0, "> 0", remedy))
        if "sigma" in checked:
            noise = ratio_down(checked["sigma"], checked["clip_norm"])
            checked["noise_multiplier"] = RULES["noise_multiplier"](noise)
        return checked


def named(values: Mapping[str, Any], names: Iterable[str]) -> Values:
    """Return the values with underscores for hyphens in their names; refuse unknown names."""
    spelled = {name.replace("-", "_"): value for name, value in values.items()}
    if unknown := [name for name in spelled if name not in names]:
        raise ValueError(f"Unknown option {', '.join(unknown)}. Use one of {', '.join(names)}.")
    return spelled


def _kind_of_target(values: Values) -> tuple[str, ...]:
    given = values.keys() & {*RISKS, "epsilon", "delta"}
    kind = next((kind for kind in KINDS if given == set(kind)), None)
    if kind is None:
        kinds = "; ".join(map(flags, KINDS))
        raise ValueError(f"Expected one kind of target. Pass the options of one: {kinds}.")
    return kind


def sigma_of(values: Mapping[str, Any]) -> float:
    """Return the given sigma, or noise_multiplier * clip_norm rounded up."""
    if "sigma" in values:
        return float(values["sigma"])
    return product_up(values["noise_multiplier"], values["clip_norm"])


def relation_names() -> list[str]:
    """Return the command-line names of the neighboring relations."""
    return [str(relation).lower().replace("_", "-") for relation in NeighboringRelation]


def notion_names() -> tuple[str, ...]:
    """Return the names of the accounting methods that `privacy.account` accepts."""
    from privacy.accounting import NOTION_MODULES

    return ("tightest", *NOTION_MODULES)


CONVERSIONS = ("optimal", "classic", "gaussian")


def _sampling_probability(value: Any) -> float:
    number = _number(value)
    remedy = "Smaller floats lose precision. Pass a larger probability."
    rule = f">= {sys.float_info.min:g}"
    checks.refuse_if(0 < number < sys.float_info.min, "sampling_probability", value, rule, remedy)
    if number > 1 and number.is_integer():
        remedy = f"If {value:g} is the batch size, pass batch size / number of records"
        remedy += f"; if it is a percentage, pass {value / 100:g}." if value <= 100 else "."
        raise ValueError(checks.expected("sampling_probability", value, "> 0 and <= 1", remedy))
    return checks.probability(value)


def _delta(value: Any) -> float:
    number = _number(value)
    remedy = "Pass a probability well below 1 / (number of records), such as 1e-5."
    if 1 < number <= 40 and number.is_integer():
        remedy += f" If you meant 10 to the power of -{value:g}, pass 1e-{value:g}."
    checks.refuse_if(number >= 1, "delta", value, "> 0 and < 1", remedy)
    return checks.delta(value)


def _epsilon(value: Any) -> float:
    return 0.0 if _number(value) == 0 else checks.epsilon(value)


def _steps(value: Any) -> int:
    remedy = "Pass the number of noisy releases; for a single release, pass steps=1."
    if 0 < _number(value) < 1:
        remedy += f" If {value:g} is the sampling probability, pass -q {value:g}."
    return checks.count("steps", value, remedy)


def _positive(name: str, remedy: str) -> Callable[[Any], float]:
    return lambda value: checks.real(name, value, remedy, above=0)


def _count(name: str, remedy: str) -> Callable[[Any], int]:
    return lambda value: checks.count(name, value, remedy)


def _choice(name: str, names: Callable[[], Iterable[str]], remedy: str) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        known = list(names())
        word = str(value).lower().replace("_", "-")
        checks.refuse_if(word not in known, name, value, f"one of {', '.join(known)}", remedy)
        return word

    return check


_relation_name = _choice(
    "relation", relation_names, "Pass the neighboring relation of the guarantee."
)


def _relation(value: Any) -> NeighboringRelation:
    return NeighboringRelation(_relation_name(value).upper().replace("-", "_"))


def _notion(value: Any) -> str:
    from privacy.accounting import check_notion

    word = str(value).lower()
    check_notion(word)
    return word


RISKS = tuple(name for kind in KINDS[1:] for name in kind)
"""The options of a target for attacks."""


def _rate(name: str) -> Callable[[Any], float]:
    remedy = "Pass a probability, such as 0.1."
    return lambda value: checks.real(name, value, remedy, above=0, below=1)


RULES: dict[str, Callable[[Any], Any]] = {
    "epsilon": _epsilon,
    "delta": _delta,
    "rho": _positive("rho", "Pass the rho of zCDP, such as rho=0.1."),
    "mu": _positive("mu", "Pass the mu of Gaussian DP, such as mu=1."),
    "noise_multiplier": _positive(
        "noise_multiplier", "Pass the standard deviation of the noise divided by the clip norm."
    ),
    "sigma": _positive("sigma", "Pass the standard deviation of the noise."),
    "sampling_probability": _sampling_probability,
    "steps": _steps,
    "sampler": _choice("sampler", lambda: SAMPLERS, "Pass how your data loader draws batches."),
    "batch_size": _count("batch_size", "Pass the (expected) number of records in a batch."),
    "max_batch_size": _count("max_batch_size", "Pass the largest number of records in a batch."),
    "records": _count("records", "Pass the number of records of the data set."),
    "epochs": _count("epochs", "Pass the number of passes over the data set."),
    "clip_norm": _positive("clip_norm", "Pass the L2 norm bound of one record's contribution."),
    "relation": _relation,
    "notion": _notion,
    "conversion": _choice("conversion", lambda: CONVERSIONS, "Omit it for the optimal conversion."),
    "certify": lambda value: checks.flag("certify", value, "Omit it for the default."),
    **{name: _rate(name) for name in RISKS},
}

DEFAULTS: Values = {
    "sampling_probability": 1.0,
    "steps": 1,
    "clip_norm": 1.0,
    "relation": NeighboringRelation.ADD_OR_REMOVE_ONE,
    "notion": "tightest",
    "conversion": "optimal",
}


def _refuse_missing(values: Values, needs: Iterable[str], one_of: tuple[str, ...]) -> None:
    missing = [name for name in needs if name not in values]
    several = _number(values.get("epochs")) > 1 or "sampling_probability" in values
    by_epochs = "epochs" in values and several and not steps_are_known(values)
    if by_epochs:
        missing.append("steps")
    chosen = [name for name in one_of if name in values]
    told = [f"Pass {flags([name])}: {TEXTS[name]}" for name in missing]
    told += [WITHOUT_STEPS] * by_epochs
    if one_of and not chosen:
        told.append(f"Pass one of {flags(one_of)}.")
    if told:
        raise ValueError(" ".join(told))
    if len(chosen) > 1:
        found = flags(chosen, " and ")
        raise ValueError(f"Expected exactly one of {flags(one_of)}. Remove all but one of {found}.")


def _refuse_swapped(values: Values) -> None:
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
    """Return a real number as a float, and anything else as NaN, so that comparisons are False."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
