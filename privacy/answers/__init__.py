"""The functions behind the `dpcalib` commands.

Each takes a mapping of plain values, such as ``{"epsilon": 1, "delta": 1e-5}``, with relations and
accounting methods by name. It returns the JSON-able dict that its command prints with ``--json``,
in which infinity is the string ``"inf"``. It raises ValueError or TypeError for an option that is
missing, unknown, given twice or outside its domain.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privacy.answers.conversions import convert
    from privacy.answers.curves import budget_over_time, curve
    from privacy.answers.plans import account_plan, check_plan
    from privacy.answers.runs import (
        certificate,
        delta,
        epsilon,
        sampling_probability,
        sigma,
        steps,
        verify,
    )
    from privacy.answers.statements import explain

__all__ = [
    "account_plan",
    "budget_over_time",
    "certificate",
    "check_plan",
    "convert",
    "curve",
    "delta",
    "epsilon",
    "explain",
    "sampling_probability",
    "sigma",
    "steps",
    "verify",
]

_HOMES = {
    "conversions": "convert",
    "curves": "budget_over_time curve",
    "plans": "account_plan check_plan",
    "runs": "certificate delta epsilon sampling_probability sigma steps verify",
    "statements": "explain",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    # Importing only the module in use makes the command start faster.
    if name not in _MODULE_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=import_module(__name__))
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
