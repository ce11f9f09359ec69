"""Algorithms by name: in JSON, in saved agents and on the command line.

A name is that of the class. It is written to files, so that it stays what it is.
"""

from collections.abc import Mapping
from inspect import isabstract
from typing import Any, TypeVar

from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.algorithms.baselines import (
    AdaPrivateAdaptive,
    AdaPrivateAmp,
    AdaPrivateForced,
    AdaPrivateGroup,
    AdaPrivateTS,
    AdaPrivateTuned,
    AdaPrivateUCB,
    AdaPrivateUser,
)
from bandits.algorithms.contexts import PrivateContexts
from bandits.algorithms.elimination import CoreSetElimination
from bandits.algorithms.named import LinTS, LinUCB, PrivateThompson, PrivateUCB

ALGORITHMS: dict[str, type[Algorithm]] = {
    kind.__name__: kind
    for kind in (
        LinUCB,
        LinTS,
        AdaPrivateUCB,
        AdaPrivateTS,
        AdaPrivateAdaptive,
        AdaPrivateTuned,
        AdaPrivateForced,
        AdaPrivateAmp,
        AdaPrivateUser,
        AdaPrivateGroup,
        PrivateContexts,
        CoreSetElimination,
        PrivateUCB,
        PrivateThompson,
    )
}
"""The algorithms that have a name, and whatever was registered since."""

_Kind = TypeVar("_Kind", bound=type[Algorithm])


def register_algorithm(kind: _Kind) -> _Kind:
    """Make a class of algorithms known by its name, so that its agents can be saved and restored.

    Parameters
    ----------
    kind
        A subclass of `Algorithm`, itself a ``@dataclass(frozen=True, kw_only=True)`` whose fields
        are JSON values. Whoever restores an agent imports the module that registers it.

    Returns
    -------
    type
        The class, so that this can be its decorator.

    Raises
    ------
    TypeError
        It is no such class, or something in it is still abstract.
    ValueError
        Another class has the name.
    """
    given: object = kind
    if not (isinstance(given, type) and issubclass(given, Algorithm)):
        remedy = "Pass the class, not an algorithm."
        raise TypeError(checks.expected("kind", given, "a subclass of Algorithm", remedy))
    name = kind.__name__
    if "__dataclass_fields__" not in vars(kind):  # its own: fields of a plain class are lost
        remedy = "Decorate the class with @dataclass(frozen=True, kw_only=True)."
        raise TypeError(checks.expected("kind", name, "a frozen dataclass itself", remedy))
    if isabstract(kind):
        missing = sorted(kind.__abstractmethods__)
        remedy = f"Define {', '.join(missing)}."
        raise TypeError(checks.expected("kind", name, "without abstract methods", remedy))
    known = ALGORITHMS.get(name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(checks.expected("kind", name, "an unused class name", "Rename the class."))
    ALGORITHMS[name] = kind  # the newer one, where a module was loaded again
    return kind


def check_registered(algorithm: Algorithm) -> None:
    """Refuse an algorithm whose name in a file would stand for no class, or for another one."""
    name = type(algorithm).__name__
    if ALGORITHMS.get(name) is not type(algorithm):
        remedy = (
            f"Call bandits.register_algorithm({name}), or no saved agent of it can be restored."
        )
        raise ValueError(checks.expected("algorithm", name, "registered", remedy))


def algorithm_from_json(form: Mapping[str, Any]) -> Algorithm:
    """Build the algorithm that `Algorithm.to_json` wrote, with every check.

    Raises
    ------
    ValueError, TypeError
        The type or an option is not known, missing, or outside its domain.
    """
    values = dict(form)
    kind = values.pop("type", None)
    if not isinstance(kind, str) or kind not in ALGORITHMS:
        remedy = "Pass the name of an algorithm, and import the module that registers it."
        known = ", ".join(sorted(ALGORITHMS))
        raise ValueError(checks.expected("type", kind, f"one of {known}", remedy))
    return ALGORITHMS[kind](**values)
