"""Rows of a ledger as budgets, costs, entries and summaries, without the database."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from privacy import checks
from privacy.budget._measures import Cost, added, cost_from_json, cost_to_json, down, up
from privacy.budget.filter import Budget, BudgetExceeded
from privacy.budget.individual import IndividualBudget
from privacy.budget.odometer import Odometer
from privacy.budget.plan import Plan
from privacy.mechanisms import Mechanism

AnyBudget = Budget | Odometer | IndividualBudget
Row = Mapping[Any, Any]
_KINDS: dict[Any, type[Budget] | type[Odometer] | type[IndividualBudget]] = {
    "dpcalib.budget/1": Budget,
    "dpcalib.odometer/1": Odometer,
    "dpcalib.individual_budget/1": IndividualBudget,
}


class LedgerError(RuntimeError):
    """The database of a ledger cannot be used, is damaged, or was changed outside the ledger."""


@dataclass(frozen=True)
class LedgerEntry:
    """A spend or a reservation in a ledger.

    As a context manager it does nothing: the entry stays if the block fails. `sequence`, not the
    time, orders entries. `key` is the idempotency key, for a retry, `Ledger.commit` (which sets
    `is_committed`) and `Ledger.cancel`. `is_new` is False if an earlier call with the key made the
    entry. `sensitive_admitted` is the private mask of `IndividualBudget.spend`.
    """

    sequence: int
    key: str
    budget: str
    label: str
    spender: str
    time: str
    is_new: bool
    is_committed: bool = False
    sensitive_admitted: Any = field(default=None, repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Keep the spend, also after an error."""


@dataclass(frozen=True)
class Account:
    """The unchanging part of a budget's row."""

    name: str
    parent: str | None
    dataset: str
    opened: AnyBudget

    def at(self, spent: str) -> AnyBudget:
        """Return the budget with the running total of its row."""
        values = json.loads(spent)
        if isinstance(self.opened, IndividualBudget):
            import numpy as np

            return self.opened._with(_spent=np.array(values, dtype=float))
        return self.opened._with(_spent=cost_from_json("spent", values, len(self.opened._spent)))


@lru_cache(maxsize=1024)
def opened(form: str) -> AnyBudget:
    """Return the budget of a row as it was opened."""
    values = json.loads(form)
    kind = _KINDS.get(values.get("schema"))
    if kind is None:
        rule = f"one of {sorted(_KINDS)}"
        raise ValueError(checks.expected("schema", values.get("schema"), rule, "Update dpcalib."))
    return kind.from_json(values)


def account_of(row: Row) -> Account:
    """Return the unchanging part of a budget's row."""
    return Account(row["name"], row["parent"], row["dataset"], opened(row["form"]))


def spent_text(budget: AnyBudget) -> str:
    """Return the exact running total as JSON."""
    if isinstance(budget, IndividualBudget):
        return json.dumps(budget._spent.tolist())
    return json.dumps(cost_to_json(budget._spent))


def moved(text: str, cost: Cost, times: int) -> str:
    """Return the text of a sum after a cost was added, or subtracted (`times` = -1)."""
    total = cost_from_json("sum", json.loads(text), len(cost))
    return json.dumps(cost_to_json(added(total, cost, times)))


def costs_in(mechanism: Mechanism, chain: list[Account]) -> dict[str, Cost]:
    """Return the cost of a mechanism in each budget, by name."""
    return {
        each.name: each.opened.measure.cost(mechanism, each.opened.relation)
        for each in chain
        if not isinstance(each.opened, IndividualBudget)
    }


def costs_of(text: str) -> dict[str, Cost]:
    """Return the costs that `cost_text` wrote."""
    found = json.loads(text)
    return {name: cost_from_json("cost", form, len(form)) for name, form in found.items()}


def cost_text(costs: Mapping[str, Cost]) -> str:
    """Return the costs of an entry as JSON."""
    return json.dumps({name: cost_to_json(cost) for name, cost in costs.items()})


def mechanism_of(asked: Mechanism | Plan, account: Account) -> Mechanism:
    """Return what to charge; a plan must have the relation and unit of the budget."""
    if isinstance(asked, Mechanism):
        return asked
    remedy = "Pass what runs, such as Gaussian(20.0)."
    checks.instance("mechanism", asked, Plan, "a mechanism or a Plan", remedy)
    check_same(account.opened, relation=asked.relation, unit=asked.unit)
    return asked.mechanism


def check_same(budget: AnyBudget, **given: Any) -> None:
    """Check that a guarantee of this relation and unit may be charged to a budget."""
    for name, own in given.items():
        needed = str(getattr(budget, name))
        if own is not None and str(own) != needed:
            remedy = f"Spend from a budget of this {name}."
            raise ValueError(checks.expected(name, str(own), f"the budget's {needed!r}", remedy))


def charged(
    account: Account, spent: str, mechanism: Mechanism, cost: Cost | None, shares: Any
) -> tuple[AnyBudget, str | None]:
    """Return the budget of a row after a mechanism, and what else the entry must record."""
    budget = account.at(spent)
    if isinstance(budget, IndividualBudget):
        after, admitted = budget.spend(mechanism, shares)
        detail = {"sensitive_shares": _numbers(shares), "sensitive_admitted": admitted.tolist()}
        return after, json.dumps(detail)
    assert cost is not None
    try:
        return budget._spend(mechanism, cost), None
    except BudgetExceeded as error:
        message = f"Budget {account.name!r}: {error}"
        raise BudgetExceeded(message, error.asked, error.spent, error.remaining) from None


def _numbers(shares: Any) -> list[float]:
    import numpy as np

    found: list[float] = np.asarray(shares, dtype=float).tolist()
    return found


def entry_of(row: Row, *, is_new: bool, is_committed: bool = False) -> LedgerEntry:
    """Return the row of a spend or a reservation as an entry."""
    values = {name: row[name] for name in ("sequence", "key", "budget", "label", "spender", "time")}
    if row["detail"]:
        import numpy as np

        admitted = json.loads(row["detail"])["sensitive_admitted"]
        values["sensitive_admitted"] = np.array(admitted, dtype=bool)
    return LedgerEntry(**values, is_new=is_new, is_committed=is_committed)


def repeated(found: Row, settled: Row | None, asked: Row, shares: Any) -> LedgerEntry:
    """Return the entry of an earlier call with the same key, which must have asked for the same."""
    differs = [f"another {name}" for name, value in asked.items() if found[name] != value]
    if shares is not None and not differs:
        before = json.loads(found["detail"])["sensitive_shares"]
        differs += ["other shares"] * (before != _numbers(shares))
    canceled = settled is not None and settled["kind"] == "cancel"
    rule = f"unused: an entry of {differs[0]} has it" if differs else "not canceled"
    checks.refuse_if(differs or canceled, "key", found["key"], rule, "Pass another key.")
    return entry_of(found, is_new=False, is_committed=settled is not None)


def summary_of(row: Row) -> dict[str, Any]:
    """Return one dict of `Ledger.summary`."""
    account = account_of(row)
    budget = account.at(row["spent"])
    values: dict[str, Any] = {"budget": account.name, "parent": account.parent}
    values |= {"dataset": account.dataset, "unit": budget.unit, "relation": str(budget.relation)}
    values["kind"] = type(budget).__name__
    values["notion"] = "zcdp" if isinstance(budget, IndividualBudget) else budget.notion
    values["epsilon"] = None if isinstance(budget, Odometer) else budget.epsilon
    values |= {"delta": budget.delta, "entries": row["entries"]}
    if isinstance(budget, IndividualBudget):
        return values
    spent, measure = budget._spent, budget.measure
    reserved = cost_from_json("reserved", json.loads(row["reserved"]), len(spent))
    values |= {"measure": measure.name, "spent": list(map(up, spent))}
    values["reserved"] = list(map(up, reserved))
    if isinstance(budget, Odometer):
        return values | {"spent_epsilon": budget.epsilon}
    left = budget._left_of(budget._limit)
    values |= {"limit": list(map(down, budget._limit)), "left": list(map(down, left))}
    values["spent_share"] = share(spent, budget._limit)
    for name, cost in (("spent_epsilon", spent), ("left_epsilon", left)):
        values[name] = measure.epsilon(cost, budget.delta) if cost[0] else 0.0
    return values


def share(spent: Cost, limit: Cost) -> float:
    """Return the share of a limit that was spent, rounded up."""
    parts = zip(spent, limit, strict=True)
    return max(up(amount / most) if most else 0.0 for amount, most in parts)
