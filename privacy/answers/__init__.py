"""The functions behind the `dpcalib` commands.

Each takes a mapping of plain values, such as ``{"epsilon": 1, "delta": 1e-5}``, with relations and
accounting methods by name. It returns the JSON-able dict that its command prints with ``--json``,
with infinity as ``"inf"``, and raises ValueError or TypeError for an option that is missing,
unknown, given twice or outside its domain.
"""

from typing import TYPE_CHECKING

from privacy.lazy import lazy

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from privacy.answers.conversions import convert
    from privacy.answers.curves import budget_over_time, curve
    from privacy.answers.plans import account_plan, check_plan
    from privacy.answers.runs import (
        certificate, delta, epsilon, sampling_probability, sigma, steps, verify,
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

__getattr__, __dir__ = lazy(__name__, _HOMES)
