"""A budget shared by threads: spends are serialized, and none is lost."""

import os
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from privacy import checks
from privacy.budget.filter import Budget
from privacy.budget.individual import IndividualBudget
from privacy.budget.odometer import Odometer
from privacy.mechanisms import Mechanism

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_B = TypeVar("_B", Budget, Odometer, IndividualBudget)
_ONE_PROCESS = "Spend in one process only."


class SharedBudget(Generic[_B]):
    """A `Budget`, `Odometer` or `IndividualBudget` that the threads of one process share.

    It replaces the budget under a lock. Copies, pickles and forks are refused: each would spend the
    whole budget. Do not spend from the given `budget` elsewhere.
    """

    def __init__(self, budget: _B) -> None:
        rule = "a Budget, an Odometer or an IndividualBudget"
        remedy = "Pass the one to share, such as Budget(epsilon=1, delta=1e-6)."
        checks.instance("budget", budget, Budget | Odometer | IndividualBudget, rule, remedy)
        self._budget: Any = budget
        self._process = os.getpid()
        self._lock = Lock()

    @property
    def budget(self) -> _B:
        """The current budget, to read, split or save. Another thread may spend meanwhile."""
        budget: _B = self._budget
        return budget

    @overload
    def spend(
        self: "SharedBudget[IndividualBudget]", mechanism: Mechanism, shares: "ArrayLike"
    ) -> "tuple[IndividualBudget, NDArray[np.bool_]]": ...

    @overload
    def spend(self: "SharedBudget[Budget]", mechanism: Mechanism) -> Budget: ...

    @overload
    def spend(self: "SharedBudget[Odometer]", mechanism: Mechanism) -> Odometer: ...

    def spend(self, mechanism: Mechanism, shares: Any = None) -> Any:
        """Spend a mechanism, with the result and the exceptions of the budget's `spend`."""
        if os.getpid() != self._process:  # before the lock: a fork may inherit it locked
            rule = f"{self._process}, the process that created the budget"
            raise RuntimeError(checks.expected("process", os.getpid(), rule, _ONE_PROCESS))
        with self._lock:
            if shares is None:
                self._budget = after = self._budget.spend(mechanism)
            else:
                after = self._budget.spend(mechanism, shares)
                self._budget = after[0]
        return after

    def __reduce__(self) -> NoReturn:
        raise TypeError(checks.expected("budget", self, "neither copied nor pickled", _ONE_PROCESS))
