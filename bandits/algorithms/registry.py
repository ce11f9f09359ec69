"""Registry of algorithms by class name, for JSON, saved agents and the command line.

Names are written to files, so they must not change.
"""

from collections.abc import Mapping
from inspect import isabstract
from typing import Any, TypeVar

from bandits import checks
from bandits.algorithms import baselines, contexts, elimination, named
from bandits.algorithms.algorithm import Algorithm

ALGORITHMS: dict[str, type[Algorithm]] = {
    name: kind
    for module in (named, baselines, contexts, elimination)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and kind.__module__ == module.__name__
    if issubclass(kind, Algorithm) and not name.startswith("_")
}
"""Built-in and registered algorithms."""
_OLD_SPELLING = {
    "centre": "center",  # old spelling
    "column_normalised": "column_normalized",  # old spelling
    "optimised": "optimized",  # old spelling
    "plain_arms": "one_hot_arms",  # old name
}
"""Names that version 0.1 wrote, of options and of values of `noise`."""

_Kind = TypeVar("_Kind", bound=type[Algorithm])


def register_algorithm(kind: _Kind) -> _Kind:
    """Register a class of algorithms under its name, so that its agents can be saved and restored.

    `kind` is a subclass of `Algorithm`, itself a ``@dataclass(frozen=True, kw_only=True)`` whose
    fields are JSON values. It is returned, for use as a decorator. To restore an agent, first
    import the module that registers its class.
    """
    given: object = kind
    if not (isinstance(given, type) and issubclass(given, Algorithm)):
        remedy = "Pass the class, not an instance."
        raise TypeError(checks.expected("kind", given, "a subclass of Algorithm", remedy))
    name = kind.__name__
    if "__dataclass_fields__" not in vars(kind):  # inherited ones would omit the class's own fields
        remedy = "Decorate the class with @dataclass(frozen=True, kw_only=True)."
        raise TypeError(checks.expected("kind", name, "a frozen dataclass itself", remedy))
    if isabstract(kind):
        missing = sorted(kind.__abstractmethods__)
        remedy = f"Define {', '.join(missing)}."
        raise TypeError(checks.expected("kind", name, "without abstract methods", remedy))
    known = ALGORITHMS.get(name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(checks.expected("kind", name, "an unused class name", "Rename the class."))
    ALGORITHMS[name] = kind  # replaces the old class when a module is reloaded
    return kind


def check_registered(algorithm: Algorithm) -> None:
    """Raise ValueError if an algorithm's class is not the one registered under its name."""
    name = type(algorithm).__name__
    remedy = f"Call bandits.register_algorithm({name}), so that saved agents can be restored."
    known = ALGORITHMS.get(name)
    checks.refuse_if(known is not type(algorithm), "algorithm", name, "registered", remedy)


def algorithm_from_json(form: Mapping[str, Any]) -> Algorithm:
    """Build an algorithm from the output of `Algorithm.to_json`, with full validation."""
    values = dict(form)
    kind = values.pop("type", None)
    remedy = "If it is your own algorithm, import the module that registers it."
    checks.one_of("type", kind, sorted(ALGORITHMS), remedy)
    for field, new in _OLD_SPELLING.items():
        if field in values and new not in values:
            values[new] = values.pop(field)
        if values.get("noise") == field:
            values["noise"] = new
    return ALGORITHMS[kind](**values)
