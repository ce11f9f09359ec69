"""Recompute the hashes and the sums of a ledger."""

import json
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import sqlalchemy as sa

from privacy.budget import ledger_rows
from privacy.budget._measures import Cost, added, cost_to_json
from privacy.budget.filter import Budget
from privacy.budget.individual import IndividualBudget
from privacy.budget.ledger_rows import Account, LedgerError, Row
from privacy.budget.ledger_store import BUDGETS, ENTRIES, HEAD, Store, chained
from privacy.mechanisms import mechanism_from_json


class _Sums:
    def __init__(self, account: Account) -> None:
        self.account, self.budget, self.entries = account, account.opened, 0
        length = 0 if self.individual else len(account.opened._spent)
        self.reserved: Cost = (Fraction(0),) * length

    @property
    def individual(self) -> bool:
        return isinstance(self.budget, IndividualBudget)

    def move(self, cost: Cost, times: int) -> None:
        assert not isinstance(self.budget, IndividualBudget)
        self.budget = self.budget._with(_spent=added(self.budget._spent, cost, times))

    def hold(self, cost: Cost, times: int) -> None:
        self.reserved = added(self.reserved, cost, times)


def verify(store: Store, id_: str, head: str | None) -> dict[str, Any]:
    """Return the number of entries and the last hash, or raise `LedgerError`."""
    with store.reads() as connection:
        if store.path is not None:
            found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
            if found != "ok":
                raise _changed(store, f"the file is damaged ({found})")
        top = connection.execute(sa.select(HEAD)).mappings().one()
        budgets = {row["name"]: row for row in connection.execute(sa.select(BUDGETS)).mappings()}
        query = sa.select(ENTRIES).order_by(ENTRIES.c.sequence)
        rows = connection.execution_options(yield_per=1000).execute(query).mappings()
        check = _Check(store, id_, head)
        for row in rows:
            check.add(row)
        check.finish(top, budgets)
    return {"entries": check.sequence, "head": check.last}


class _Check:
    def __init__(self, store: Store, id_: str, head: str | None) -> None:
        self.store, self.head = store, head
        self.seen = head in (None, id_)
        self.sequence, self.last = 0, id_
        self.sums: dict[str, _Sums] = {}
        self.open: dict[int, dict[str, Cost]] = {}  # costs of unsettled reservations
        self.known: dict[tuple[str, str, str], dict[str, Cost]] = {}

    def add(self, row: Row) -> None:
        self.sequence += 1
        if row["sequence"] != self.sequence:
            raise _changed(self.store, f"entry {self.sequence} is missing")
        self.last = chained(self.last, row)
        if row["hash"] != self.last:
            raise _changed(self.store, f"entry {self.sequence} was changed")
        self.seen = self.seen or self.last == self.head
        try:
            getattr(self, f"_{row['kind']}")(row)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise _changed(self.store, f"entry {self.sequence} is not valid ({error})") from error

    def _open(self, row: Row) -> None:
        detail = json.loads(row["detail"])
        form = ledger_rows.opened(detail["form"])
        if row["budget"] in self.sums:
            raise ValueError("the budget was opened twice")
        account = Account(row["budget"], detail["parent"], detail["dataset"], form)
        self.sums[row["budget"]] = _Sums(account)

    def _spend(self, row: Row) -> None:
        sums = self.sums[row["budget"]]
        sums.entries += 1
        if sums.individual:
            self._admit(sums, row)
            return
        for name, cost in self._costs(row).items():
            self.sums[name].move(cost, 1)
            budget = self.sums[name].budget
            if isinstance(budget, Budget) and not budget._allows(budget._spent):
                raise ValueError(f"the budget {name!r} is exceeded")

    def _admit(self, sums: _Sums, row: Row) -> None:
        detail = json.loads(row["detail"])
        mechanism = mechanism_from_json(json.loads(row["mechanism"]))
        assert isinstance(sums.budget, IndividualBudget)
        sums.budget, admitted = sums.budget.spend(mechanism, detail["sensitive_shares"])
        if admitted.tolist() != detail["sensitive_admitted"]:
            raise ValueError("the admitted users are not those whose budgets suffice")

    def _costs(self, row: Row) -> dict[str, Cost]:
        """Return the costs in an entry, which must be at least those of its mechanism."""
        key = row["budget"], row["mechanism"], row["cost"]
        if key not in self.known:
            if len(self.known) > 100_000:
                self.known.clear()
            costs = ledger_rows.costs_of(row["cost"])
            chain = [self.sums[row["budget"]].account]
            while chain[-1].parent is not None:
                chain.append(self.sums[chain[-1].parent].account)
            needed = ledger_rows.costs_in(mechanism_from_json(json.loads(row["mechanism"])), chain)
            for name, cost in needed.items():
                if any(a < b for a, b in zip(costs[name], cost, strict=True)):
                    raise ValueError(f"the budget {name!r} was charged too little")
            self.known[key] = {name: costs[name] for name in needed}
        return self.known[key]

    def _reserve(self, row: Row) -> None:
        self._spend(row)
        self.open[row["sequence"]] = self._costs(row)
        for name, cost in self._costs(row).items():
            self.sums[name].hold(cost, 1)

    def _commit(self, row: Row) -> None:
        for name, cost in self.open.pop(row["settles"]).items():
            self.sums[name].hold(cost, -1)

    def _cancel(self, row: Row) -> None:
        costs = self.open[row["settles"]]
        self._commit(row)
        for name, cost in costs.items():
            self.sums[name].move(cost, -1)

    def finish(self, top: Row, budgets: Mapping[Any, Row]) -> None:
        if (top["sequence"], top["hash"]) != (self.sequence, self.last):
            raise _changed(self.store, "the last entries are missing")
        if not self.seen:
            raise _changed(self.store, f"no entry has the hash {self.head!r}")
        if budgets.keys() != self.sums.keys():
            raise _changed(self.store, "the budgets differ from their entries")
        for name, sums in self.sums.items():
            row, account = budgets[name], sums.account
            expected = {
                "parent": account.parent,
                "dataset": account.dataset,
                "spent": ledger_rows.spent_text(sums.budget),
                "entries": sums.entries,
                "form": json.dumps(account.opened.to_json()),
            }
            if not sums.individual:
                expected["reserved"] = json.dumps(cost_to_json(sums.reserved))
            for column, value in expected.items():
                if row[column] != value:
                    raise _changed(self.store, f"{column} of the budget {name!r} was changed")


def _changed(store: Store, what: str) -> LedgerError:
    return LedgerError(f"Ledger {str(store)!r}: {what}. Restore it from a backup.")
