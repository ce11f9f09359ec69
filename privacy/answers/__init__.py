"""Questions as the command, a plan or a page asks them: plain data in, plain data out.

Each function takes a mapping of options as people write them (``{"epsilon": 1, "delta": 1e-5}``;
a relation or a notion by its name) and returns a JSON-able dict, the one that the command prints
with ``--json``. Infinity is the string ``"inf"``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from privacy.answers.conversions import convert
    from privacy.answers.plans import account_plan, check_plan
    from privacy.answers.runs import delta, epsilon, sampling_probability, sigma, steps
    from privacy.answers.statements import explain

__all__ = [
    "account_plan",
    "check_plan",
    "convert",
    "delta",
    "epsilon",
    "explain",
    "sampling_probability",
    "sigma",
    "steps",
]

_HOMES = {
    "conversions": "convert",
    "plans": "account_plan check_plan",
    "runs": "delta epsilon sampling_probability sigma steps",
    "statements": "explain",
}
_MODULE_OF = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    # a question that is not asked is not imported: the command starts faster
    if name not in _MODULE_OF:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=import_module(__name__))
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
