"""Budgets in a database that processes, machines and restarts share."""

import getpass
import json
import secrets
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache, lru_cache
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from privacy import checks
from privacy.budget._measures import (
    Cost,
    Measure,
    added,
    cost_from_json,
    cost_to_json,
    down,
    up,
)
from privacy.budget.filter import Budget, BudgetExceeded
from privacy.budget.individual import IndividualBudget
from privacy.budget.odometer import Odometer
from privacy.budget.plan import Plan
from privacy.mechanisms import Mechanism, mechanism_from_json
from privacy.relations import NeighboringRelation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from privacy.budget._ledger_store import Writer

AnyBudget = Budget | Odometer | IndividualBudget
_OPENED = {
    "dpcalib.budget/1": Budget,
    "dpcalib.odometer/1": Odometer,
    "dpcalib.individual_budget/1": IndividualBudget,
}
_LABEL = 'Pass text on one line, such as label="weekly counts".'


class LedgerError(RuntimeError):
    """The database of a ledger cannot be used, is damaged, or was changed outside the ledger."""


@dataclass(frozen=True)
class LedgerEntry:
    """A spend or a reservation in a ledger.

    As a context manager it does nothing: what was spent before the block stays spent if the block
    fails.

    Attributes
    ----------
    sequence
        Number of the entry. Entries are ordered by it, not by their times.
    key
        The idempotency key, for a retry and for `Ledger.commit` and `Ledger.cancel`.
    is_new
        False if an earlier call with the same key made the entry.
    sensitive_admitted
        With an `IndividualBudget`: the users whose data may enter the release. Private.
    """

    sequence: int
    key: str
    budget: str
    label: str
    spender: str
    time: str
    is_new: bool
    sensitive_admitted: "NDArray[np.bool_] | None" = field(default=None, repr=False, compare=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Keep the spend, also after an error."""


@dataclass(frozen=True)
class _Account:
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

            return _with_spent(self.opened, np.array(values, dtype=float))
        return _with_spent(
            self.opened, cost_from_json("spent", values, len(self.opened._spent))
        )


class Ledger:
    """Budgets in a SQLite file or a PostgreSQL database, shared by processes.

    Each spend is one atomic transaction: concurrent processes never exceed a budget, and a process
    that is killed at any moment leaves a consistent ledger. Accounting is that of `Budget`,
    `Odometer` and `IndividualBudget`. Threads and forked processes can share a Ledger.

    Parameters
    ----------
    url
        A file, or a URL of PostgreSQL such as ``"postgresql://user@host/database"``. Create it with
        `Ledger.create`. SQLite requires a local disk; use PostgreSQL across machines.
    budget
        Name of the budget to spend from. Default: the only one.
    label, spender
        Defaults for entries: what is spent for, and by whom. The default spender is the login name.
    key
        Default idempotency key of one entry.
    timeout
        Seconds to wait for other writers.

    Attributes
    ----------
    id
        Identifier of the ledger, which its copies and backups share.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import privacy as dp
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = dp.Ledger.create(pathlib.Path(folder.name) / "budgets.db")
    >>> ledger.open("salaries", dp.Budget(epsilon=1, delta=1e-6), dataset="salaries-2026")
    >>> with ledger.spend(dp.Gaussian(20.0), label="mean by age"):
    ...     pass  # run the mechanism here
    >>> ledger.budget().spent
    (0.00125,)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        url: str | PathLike[str],
        *,
        budget: str | None = None,
        label: str | None = None,
        spender: str | None = None,
        key: str | None = None,
        timeout: float = 30.0,
    ) -> None:
        from privacy.budget._ledger_store import Store

        self._store = Store(url, timeout)
        self.id = self._store.open()
        self._accounts: dict[str | None, _Account] = {}
        self._set(budget=budget, label=label, spender=spender, key=key)

    @classmethod
    def create(cls, url: str | PathLike[str], *, timeout: float = 30.0) -> "Ledger":
        """Create an empty ledger; the file is readable by its owner only.

        Raises
        ------
        LedgerError
            There is a ledger already.
        """
        from privacy.budget._ledger_store import Store

        Store(url, timeout).create()
        return cls(url, timeout=timeout)

    def using(
        self,
        *,
        budget: str | None = None,
        label: str | None = None,
        spender: str | None = None,
        key: str | None = None,
    ) -> "Ledger":
        """Return the same ledger with other defaults, such as for one ``ledger=`` argument."""
        other = copy(self)
        other._set(
            budget=budget or self._budget,
            label=label or self._label,
            spender=spender or self._spender,
            key=key,
        )
        return other

    def _set(
        self, *, budget: str | None, label: str | None, spender: str | None, key: str | None
    ) -> None:
        self._budget, self._label, self._spender, self._key = budget, label, spender, key

    def __repr__(self) -> str:
        return f"<Ledger {str(self._store)!r}>"

    def __reduce__(self) -> Any:
        defaults = (self._budget, self._label, self._spender, self._key)
        url = self._store.url.render_as_string(hide_password=False)
        return _reopened, (url, self._store.timeout, *defaults)

    def open(
        self, name: str, budget: AnyBudget, *, dataset: str, parent: str | None = None
    ) -> None:
        """Add a budget.

        Parameters
        ----------
        name
            Name of the budget, such as a team or a quarter.
        budget
            A `Budget`, an `Odometer` or an `IndividualBudget`, with its relation and unit.
        dataset
            The data that the budget protects.
        parent
            A `Budget` of the same data, relation and unit, which every spend is charged to as well.
            Children of one parent may be given more than it has; a spend must fit all of them.

        Raises
        ------
        ValueError
            The name is in use, or the parent differs in its data, relation or unit.
        """
        name = checks.phrase("name", name, 'Pass a name on one line, such as "salaries".')
        dataset = checks.phrase("dataset", dataset, 'Pass the data set, such as "salaries-2026".')
        if not isinstance(budget, AnyBudget):
            rule = "a Budget, an Odometer or an IndividualBudget"
            remedy = "Pass one, such as Budget(epsilon=1, delta=1e-6)."
            raise TypeError(checks.expected("budget", budget, rule, remedy))
        form = json.dumps(budget.to_json())
        detail = json.dumps({"dataset": dataset, "parent": parent, "form": form})
        if parent is not None:
            self._check_parent(parent, budget, dataset)
        with self._store.writes() as writer:
            if writer.find_budget(name) is not None:
                remedy = "Choose another name."
                raise ValueError(checks.expected("name", name, "a new name", remedy))
            about = {"kind": "open", "budget": name, "label": name, "time": _now()}
            writer.append(**about, spender=self._spender_or(None), detail=detail)
            spent, nothing = _spent_text(budget), _nothing(budget)
            row = {"name": name, "parent": parent, "dataset": dataset, "form": form}
            writer.open(**row, spent=spent, reserved=nothing, entries=0)

    def _check_parent(self, parent: str, budget: AnyBudget, dataset: str) -> None:
        above = self._account(parent)
        remedy = "Open it without a parent."
        if not isinstance(above.opened, Budget):
            raise ValueError(checks.expected("parent", above.name, "a Budget", remedy))
        if isinstance(budget, IndividualBudget):
            raise ValueError(checks.expected("parent", above.name, "None", remedy))
        for what, own, needed in (
            ("dataset", dataset, above.dataset),
            ("relation", str(budget.relation), str(above.opened.relation)),
            ("unit", budget.unit, above.opened.unit),
        ):
            if own != needed:
                raise ValueError(checks.expected(what, own, f"{needed!r}, as its parent", remedy))
        if any(budget._spent):
            remedy = "Spend after opening: its parent must be charged too."
            raise ValueError(checks.expected("budget", budget, "unspent", remedy))

    def budget(self, name: str | None = None) -> AnyBudget:
        """Return a budget as it is now, to read. Another process may spend meanwhile."""
        account, row = self._read(name)
        return account.at(row["spent"])

    def fits(self, mechanism: Mechanism | Plan, *, budget: str | None = None) -> bool:
        """Return whether `spend` would accept a mechanism or a plan now."""
        account = self._account(budget)
        mechanism = _mechanism(mechanism, account)
        for each in self._chain(account):
            found = self.budget(each.name)
            if isinstance(found, IndividualBudget):
                remedy = "It admits users one by one: spend from it."
                raise TypeError(checks.expected("budget", each.name, "a Budget", remedy))
            if isinstance(found, Budget) and not found.fits(mechanism):
                return False
        return True

    def spend(
        self,
        mechanism: Mechanism | Plan,
        *,
        label: str | None = None,
        budget: str | None = None,
        key: str | None = None,
        shares: "ArrayLike | None" = None,
    ) -> LedgerEntry:
        """Spend a mechanism, which may depend on earlier outputs, and return the entry.

        Call it before the mechanism reads the data, and run the mechanism only if it returns. If
        the mechanism then fails, its cost stays spent.

        Parameters
        ----------
        mechanism
            A mechanism, or a `Plan` of the budget's relation and unit.
        label
            What it is spent for, one line of text. Default: that of the ledger or the plan.
        budget
            Name of the budget.
        key
            Idempotency key: a retry with the same key, mechanism and budget spends once. After
            a retry, run the mechanism only if no output of the first attempt is used.
        shares
            Only with an `IndividualBudget`: as in its `spend`.

        Raises
        ------
        BudgetExceeded
            The mechanism costs more than what is left of the budget or of a parent. Nothing was
            spent.
        LedgerError
            The database failed. A retry with the same key spends once.
        """
        return self._charge("spend", mechanism, label, budget, key, shares)

    def reserve(
        self,
        mechanism: Mechanism | Plan,
        *,
        label: str | None = None,
        budget: str | None = None,
        key: str | None = None,
    ) -> LedgerEntry:
        """Reserve a mechanism, which counts as spent; `commit` or `cancel` it by its key later.

        Parameters and errors are those of `spend`. There are no reservations from an
        `IndividualBudget`.
        """
        return self._charge("reserve", mechanism, label, budget, key, None)

    def _charge(
        self,
        kind: Literal["spend", "reserve"],
        mechanism: Mechanism | Plan,
        label: str | None,
        budget: str | None,
        key: str | None,
        shares: Any,
    ) -> LedgerEntry:
        account = self._account(budget)
        own = mechanism.name if isinstance(mechanism, Plan) else None
        label = checks.phrase("label", label or self._label or own, _LABEL)
        spender = self._spender_or(None)
        given = key or self._key
        key = given or secrets.token_hex(16)
        checks.phrase("key", key, "Pass text on one line, or leave it out.")
        mechanism = _mechanism(mechanism, account)
        # exact costs may take long to compute: before the lock
        chain = self._chain(account)
        individual = isinstance(account.opened, IndividualBudget)
        if individual and kind == "reserve":
            remedy = "Spend from it: it cannot give back."
            raise TypeError(checks.expected("budget", account.name, "a Budget", remedy))
        costs = {} if individual else _costs(mechanism, chain)
        if (shares is not None) != individual:
            rule = "given" if individual else "None"
            remedy = "Pass shares= with an IndividualBudget, and only there."
            raise TypeError(checks.expected("shares", "<shares>", rule, remedy))
        form = json.dumps(mechanism.to_json())
        with self._store.writes() as writer:
            if given and (found := writer.entry(key)) is not None:
                asked = {"kind": kind, "budget": account.name, "mechanism": form}
                return _repeated(found, writer, asked, shares)
            detail = None
            for each in chain:
                row = writer.budget(each.name)
                after, detail = _charged(
                    each, row["spent"], mechanism, costs.get(each.name), shares
                )
                reserved = row["reserved"]
                if kind == "reserve":
                    reserved = _moved(reserved, costs[each.name], 1)
                entries = row["entries"] + (each is account)
                writer.update(
                    each.name, spent=_spent_text(after), reserved=reserved, entries=entries
                )
            row = writer.append(
                kind=kind,
                budget=account.name,
                key=key,
                label=label,
                spender=spender,
                time=_now(),
                mechanism=form,
                cost=_cost_text(costs),
                detail=detail,
            )
        return _entry(row, is_new=True)

    def commit(self, key: str, *, holder: str | None = None) -> None:
        """Settle a reservation: it stays spent and cannot be canceled. Repeating it does nothing.

        Parameters
        ----------
        key
            The key of the reservation.
        holder
            Identifies the one who committed: another one is refused.

        Raises
        ------
        ValueError
            There is no such reservation, it was canceled, or another holder committed it.
        """
        with self._store.writes() as writer:
            reserved, settled = _reservation(writer, key)
            if settled is None:
                self._settle(writer, reserved, "commit", {"holder": holder})
                return
            if settled["kind"] == "cancel":
                remedy = "Reserve again with another key."
                raise ValueError(checks.expected("key", key, "not canceled", remedy))
            if json.loads(settled["detail"])["holder"] != holder:
                remedy = "Each release needs a payment of its own: reserve with another key."
                raise ValueError(checks.expected("key", key, "committed by this holder", remedy))

    def cancel(self, key: str, *, data_never_read: str) -> None:
        """Give back a reservation whose mechanism provably never read the data.

        After an error, a crash or a timeout the mechanism may have read the data: `commit` it.

        Parameters
        ----------
        key
            The key of the reservation. It cannot be used again.
        data_never_read
            Your statement of why the data were never read, which is recorded.

        Raises
        ------
        ValueError
            There is no such reservation, or it was committed.
        """
        remedy = 'State why, such as "the job was never scheduled".'
        statement = checks.phrase("data_never_read", data_never_read, remedy)
        with self._store.writes() as writer:
            reserved, settled = _reservation(writer, key)
            if settled is None:
                self._settle(writer, reserved, "cancel", {"data_never_read": statement})
            elif settled["kind"] == "commit":
                remedy = "What was committed stays spent."
                raise ValueError(checks.expected("key", key, "not committed", remedy))

    def _settle(
        self, writer: "Writer", reserved: Mapping[str, Any], kind: str, detail: Mapping[str, Any]
    ) -> None:
        costs = _costs_of(reserved["cost"])
        for name, cost in costs.items():
            row = writer.budget(name)
            spent = _moved(row["spent"], cost, -1) if kind == "cancel" else row["spent"]
            left = _moved(row["reserved"], cost, -1)
            writer.update(name, spent=spent, reserved=left, entries=row["entries"])
        writer.append(
            kind=kind,
            budget=reserved["budget"],
            settles=reserved["sequence"],
            label=reserved["label"],
            spender=self._spender_or(None),
            time=_now(),
            detail=json.dumps(dict(detail)),
        )

    def _claim(self, mechanism: Mechanism, key: str, label: str) -> dict[str, str]:
        """Reserve for a state file, which keeps the returned claim, before it is written.

        A retry after a crash finds the reservation. `_settle_claim` then commits it for the
        random holder in the file, so that one reservation pays for one state file only.
        """
        key = self._key or key
        entry = self.reserve(mechanism, label=self._label or label, key=key)
        with self._store.writes() as writer:
            _, settled = _reservation(writer, entry.key)
        if settled is not None:
            rule = f"unused, but a state file of the key {key!r} was paid for before"
            remedy = "Restore that file, or pass another key: ledger.using(key=...)."
            raise ValueError(checks.expected("key", key, rule, remedy))
        return {"ledger": self.id, "key": entry.key, "holder": secrets.token_hex(16)}

    def _settle_claim(self, claim: Mapping[str, str]) -> None:
        if claim["ledger"] != self.id:
            remedy = "Pass the ledger that paid for the state file."
            raise ValueError(checks.expected("ledger", self.id, repr(claim["ledger"]), remedy))
        self.commit(claim["key"], holder=claim["holder"])

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield all entries in order, with the data set, unit and relation of their budgets.

        Contributions of users (`IndividualBudget`) are left out.
        """
        budgets: dict[str, tuple[str, str, str]] = {}
        for row in self._store.rows():
            detail = json.loads(row["detail"]) if row["detail"] else {}
            if row["kind"] == "open":
                form = json.loads(detail.pop("form"))
                budgets[row["budget"]] = detail["dataset"], form["unit"], form["relation"]
            dataset, unit, relation = budgets[row["budget"]]
            shown = {name: value for name, value in detail.items() if "sensitive" not in name}
            yield {
                **{name: value for name, value in row.items() if name not in ("detail", "cost")},
                "mechanism": json.loads(row["mechanism"]) if row["mechanism"] else None,
                "dataset": dataset,
                "unit": unit,
                "relation": relation,
                **{name: shown.get(name) for name in ("parent", "data_never_read")},
            }

    def summary(self) -> list[dict[str, Any]]:
        """Return what was spent and what is left of each budget, one dict each.

        ``spent_epsilon`` and ``left_epsilon`` convert sums at the budget's delta. They are no
        guarantees: the guarantee is ``epsilon``, that of the whole budget, or the reading of an
        `Odometer`. Amounts of an `IndividualBudget` are private and left out.
        """
        return [_summary(_account_of(row), row) for row in self._store.budgets()]

    def verify(self, *, head: str | None = None) -> dict[str, Any]:
        """Recompute every sum and hash, and return the number of entries and the last hash.

        Parameters
        ----------
        head
            The last hash of an earlier call, kept elsewhere: whoever can write to the database can
            replace all entries by a consistent chain, but not one with this hash.

        Raises
        ------
        LedgerError
            The ledger is damaged or was changed.
        """
        from privacy.budget._ledger_verify import verify

        return verify(self._store, self.id, head)

    def _account(self, name: str | None) -> _Account:
        """Return a budget's unchanging part, which is read once."""
        name = name or self._budget
        if name not in self._accounts:
            self._accounts[name] = self._read(name)[0]
        return self._accounts[name]

    def _read(self, name: str | None) -> tuple[_Account, Mapping[str, Any]]:
        name = name or self._budget
        rows = self._store.budgets(name, most=2)
        if len(rows) != 1:
            names = [row["name"] for row in rows]
            rule = f"one of its budgets, such as {names}" if names else "an open budget"
            remedy = "Pass budget= with its name." if names else "Open it with open()."
            raise ValueError(checks.expected("budget", name, rule, remedy))
        return _account_of(rows[0]), rows[0]

    def _chain(self, account: _Account) -> list[_Account]:
        """Return a budget and its parents."""
        chain = [account]
        while chain[-1].parent is not None:
            chain.append(self._account(chain[-1].parent))
        return chain

    def _spender_or(self, spender: str | None) -> str:
        remedy = 'Pass who spends, such as spender="team a".'
        return checks.phrase("spender", spender or self._spender or _login(), remedy)


def _reopened(url: str, timeout: float, *defaults: str | None) -> Ledger:
    budget, label, spender, key = defaults
    return Ledger(
        url, budget=budget, label=label, spender=spender, key=key, timeout=timeout
    )


@cache
def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "unknown"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@lru_cache(maxsize=1024)
def _opened(form: str) -> AnyBudget:
    values = json.loads(form)
    kind = _OPENED.get(values.get("schema"))
    if kind is None:
        rule = f"one of {sorted(_OPENED)}"
        raise ValueError(checks.expected("schema", values.get("schema"), rule, "Update dpcalib."))
    return kind.from_json(values)


def _account_of(row: Mapping[str, Any]) -> _Account:
    return _Account(row["name"], row["parent"], row["dataset"], _opened(row["form"]))


def _with_spent(budget: AnyBudget, spent: Any) -> AnyBudget:
    after = copy(budget)
    object.__setattr__(after, "_spent", spent)
    return after


def _spent_text(budget: AnyBudget) -> str:
    if isinstance(budget, IndividualBudget):
        return json.dumps(budget._spent.tolist())
    return json.dumps(cost_to_json(budget._spent))


def _nothing(budget: AnyBudget) -> str:
    """Return the text of zero reserved."""
    if isinstance(budget, IndividualBudget):
        return "[]"
    return json.dumps(cost_to_json((Fraction(0),) * len(budget._spent)))


def _moved(text: str, cost: Cost, times: int) -> str:
    """Return the text of a sum after a cost was added, or subtracted (`times` = -1)."""
    total = cost_from_json("sum", json.loads(text), len(cost))
    return json.dumps(cost_to_json(added(total, tuple(times * part for part in cost))))


def _costs(mechanism: Mechanism, chain: list[_Account]) -> dict[str, Cost]:
    return {
        each.name: each.opened.measure.cost(mechanism, each.opened.relation)
        for each in chain
        if not isinstance(each.opened, IndividualBudget)
    }


def _costs_of(text: str) -> dict[str, Cost]:
    found = json.loads(text)
    return {name: cost_from_json("cost", form, len(form)) for name, form in found.items()}


def _cost_text(costs: Mapping[str, Cost]) -> str:
    return json.dumps({name: cost_to_json(cost) for name, cost in costs.items()})


def _mechanism(asked: Mechanism | Plan, account: _Account) -> Mechanism:
    """Return what to charge; a plan must have the relation and the unit of its budget."""
    if isinstance(asked, Mechanism):
        return asked
    if not isinstance(asked, Plan):
        remedy = "Pass what runs, such as Gaussian(20.0)."
        raise TypeError(checks.expected("mechanism", asked, "a mechanism or a Plan", remedy))
    check_same(account.opened, relation=asked.relation, unit=asked.unit)
    return asked.mechanism


def check_same(
    budget: AnyBudget, *, relation: NeighboringRelation | str | None = None, unit: str | None = None
) -> None:
    """Check that a guarantee of this relation and unit may be charged to a budget."""
    for name, own, needed in (
        ("relation", relation, str(budget.relation)),
        ("unit", unit, budget.unit),
    ):
        if own is not None and str(own) != needed:
            remedy = f"Spend from a budget of this {name}."
            raise ValueError(checks.expected(name, str(own), f"{needed!r}, as its budget", remedy))


def _charged(
    account: _Account, spent: str, mechanism: Mechanism, cost: Cost | None, shares: Any
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
        told = f"Budget {account.name!r}: {error}"
        raise BudgetExceeded(told, error.asked, error.spent, error.remaining) from None


def _numbers(shares: Any) -> list[float]:
    import numpy as np

    found: list[float] = np.asarray(shares, dtype=float).tolist()
    return found


def _entry(row: Mapping[str, Any], *, is_new: bool) -> LedgerEntry:
    names = ("sequence", "key", "budget", "label", "spender", "time")
    admitted = None
    if row["detail"]:
        import numpy as np

        admitted = np.array(json.loads(row["detail"])["sensitive_admitted"], dtype=bool)
    return LedgerEntry(
        **{name: row[name] for name in names}, is_new=is_new, sensitive_admitted=admitted
    )


def _repeated(
    found: Mapping[str, Any], writer: "Writer", asked: Mapping[str, Any], shares: Any
) -> LedgerEntry:
    """Return the entry of an earlier call with the same key, which must have asked for the same."""
    key = found["key"]
    for name, value in asked.items():
        if found[name] != value:
            rule = f"unused: an entry of another {name} has it"
            raise ValueError(checks.expected("key", key, rule, "Pass another key."))
    if shares is not None and json.loads(found["detail"])["sensitive_shares"] != _numbers(shares):
        rule = "unused: an entry of other shares has it"
        raise ValueError(checks.expected("key", key, rule, "Pass another key."))
    settled = writer.settlement(found["sequence"])
    if settled is not None and settled["kind"] == "cancel":
        raise ValueError(checks.expected("key", key, "not canceled", "Pass another key."))
    return _entry(found, is_new=False)


def _reservation(
    writer: "Writer", key: str
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    found = writer.entry(key)
    if found is None or found["kind"] != "reserve":
        remedy = "Pass the key of an entry of reserve()."
        raise ValueError(checks.expected("key", key, "that of a reservation", remedy))
    return found, writer.settlement(found["sequence"])


def _summary(account: _Account, row: Mapping[str, Any]) -> dict[str, Any]:
    budget = account.at(row["spent"])
    values: dict[str, Any] = {
        "budget": account.name,
        "parent": account.parent,
        "dataset": account.dataset,
        "unit": budget.unit,
        "relation": str(budget.relation),
        "kind": type(budget).__name__,
        "notion": "zcdp" if isinstance(budget, IndividualBudget) else budget.notion,
        "epsilon": None if isinstance(budget, Odometer) else budget.epsilon,
        "delta": budget.delta,
        "entries": row["entries"],
    }
    if isinstance(budget, IndividualBudget):
        return values
    reserved = cost_from_json("reserved", json.loads(row["reserved"]), len(budget._spent))
    values |= {
        "measure": budget.measure.name,
        "spent": list(map(up, budget._spent)),
        "reserved": list(map(up, reserved)),
    }
    if isinstance(budget, Odometer):
        return values | {"spent_epsilon": budget.epsilon}
    left = budget._left_of(budget._limit)
    parts = zip(budget._spent, budget._limit, strict=True)
    values |= {
        "limit": list(map(down, budget._limit)),
        "left": list(map(down, left)),
        "spent_share": max(up(spent / limit) if limit else 0.0 for spent, limit in parts),
        "spent_epsilon": _converted(budget.measure, budget._spent, budget.delta),
        "left_epsilon": _converted(budget.measure, left, budget.delta),
    }
    return values


def _converted(measure: Measure, cost: Cost, delta: float) -> float:
    return measure.epsilon(cost, delta) if cost[0] else 0.0
