"""Budgets in a database that processes, machines and restarts share."""

import getpass
import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import UTC, datetime
from fractions import Fraction
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from privacy import checks
from privacy.budget import ledger_rows
from privacy.budget._measures import added, cost_to_json, up
from privacy.budget.filter import Budget
from privacy.budget.individual import IndividualBudget
from privacy.budget.ledger_rows import Account, AnyBudget, LedgerEntry, Row
from privacy.budget.odometer import Odometer
from privacy.budget.plan import Plan
from privacy.guarantees import ONE_RECORD
from privacy.mechanisms import Mechanism

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privacy.budget.ledger_store import Writer

StateReservation = Mapping[str, str]
ONE_USER = "one user"
_LABEL = 'Pass text on one line, such as label="weekly counts".'


class Ledger:
    """Budgets in a SQLite file or a PostgreSQL database, shared by processes.

    Each spend is one atomic transaction. Threads and forked processes can share a Ledger. Copies
    and backups have the same `id`.

    Parameters
    ----------
    url
        A file on a local disk, or a URL such as ``"postgresql://user@host/database"``.
    budget
        The name of the budget to spend from, by default the only one.
    label, spender, key
        Defaults for entries: the purpose, who spends (default: the login name), and the idempotency
        key of one entry.
    timeout
        Seconds to wait for other writers.
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
        from privacy.budget.ledger_store import Store

        self._store = Store(url, timeout)
        self.id = self._store.open()
        self._accounts: dict[str | None, Account] = {}
        self._budget, self._label, self._spender, self._key = budget, label, spender, key

    @classmethod
    def create(cls, url: str | PathLike[str], *, timeout: float = 30.0) -> "Ledger":
        """Create an empty ledger, readable by its owner only; `LedgerError` if there is one."""
        from privacy.budget.ledger_store import Store

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
        other._budget, other._label = budget or self._budget, label or self._label
        other._spender, other._key = spender or self._spender, key
        return other

    def __repr__(self) -> str:
        return f"<Ledger {str(self._store)!r}>"

    def __reduce__(self) -> Any:
        url = self._store.url.render_as_string(hide_password=False)
        names = {"budget": self._budget, "label": self._label, "spender": self._spender}
        return partial(Ledger, url, **names, key=self._key, timeout=self._store.timeout), ()

    def open(
        self, name: str, budget: AnyBudget, *, dataset: str, parent: str | None = None
    ) -> None:
        """Add a `Budget`, `Odometer` or `IndividualBudget` by name, such as a team or a quarter.

        `dataset` is the data that the budget protects. A data set has one budget without a parent
        per unit of privacy. `parent` is a `Budget` of the same data, relation and unit, to which
        every spend is charged too. The limits of its children may add up to more than its own.
        """
        name = checks.phrase("name", name, 'Pass a name on one line, such as "salaries".')
        dataset = checks.phrase("dataset", dataset, 'Pass the data set, such as "salaries-2026".')
        rule = "a Budget, an Odometer or an IndividualBudget"
        remedy = "Pass one, such as Budget(epsilon=1, delta=1e-6)."
        checks.instance("budget", budget, AnyBudget, rule, remedy)
        form = json.dumps(budget.to_json())
        detail = json.dumps({"dataset": dataset, "parent": parent, "form": form})
        if parent is not None:
            self._check_parent(parent, budget, dataset)
        with self._store.writes() as writer:
            if writer.find_budget(name) is not None:
                remedy = "Choose another name."
                raise ValueError(checks.expected("name", name, "a new name", remedy))
            if parent is None:
                _check_alone(writer.tops(dataset), budget, dataset)
            about = {"kind": "open", "budget": name, "label": name, "time": _now()}
            writer.append(**about, spender=self._spender_or(None), detail=detail)
            spent = ledger_rows.spent_text(budget)
            amounts = 0 if isinstance(budget, IndividualBudget) else len(budget._spent)
            nothing = json.dumps(cost_to_json((Fraction(0),) * amounts))
            row = {"name": name, "parent": parent, "dataset": dataset, "form": form}
            writer.open(**row, spent=spent, reserved=nothing, entries=0)

    def _check_parent(self, parent: str, budget: AnyBudget, dataset: str) -> None:
        above = self._account(parent)
        remedy = "Open it without a parent, or spend from the parent if it covers the same data."
        if not isinstance(above.opened, Budget):
            raise TypeError(checks.expected("parent", above.name, "a Budget", remedy))
        if isinstance(budget, IndividualBudget):
            rule = "None for an IndividualBudget"
            raise TypeError(checks.expected("parent", above.name, rule, remedy))
        for what, own, needed in (
            ("dataset", dataset, above.dataset),
            ("relation", str(budget.relation), str(above.opened.relation)),
            ("unit", budget.unit, above.opened.unit),
        ):
            checks.refuse_if(own != needed, what, own, f"the parent's {needed!r}", remedy)
        remedy = "Open it before you spend from it, so that its parent is charged too."
        checks.refuse_if(any(budget._spent), "budget", budget, "unspent", remedy)

    def budget(self, name: str | None = None) -> AnyBudget:
        """Return a copy of a budget as it is now."""
        account, row = self._read(name)
        return account.at(row["spent"])

    def fits(self, mechanism: Mechanism | Plan, *, budget: str | None = None) -> bool:
        """Return whether `spend` would accept a mechanism or a plan now."""
        return all(row["fits"] for row in self.check(mechanism, budget=budget))

    def check(
        self, mechanism: Mechanism | Plan, *, budget: str | None = None
    ) -> list[dict[str, Any]]:
        """Return what a mechanism or a plan would cost each budget, and whether it fits.

        A dict for the budget and each parent: ``asked``, ``left`` (None: no limit), in ``measure``.
        """
        account = self._account(budget)
        mechanism = ledger_rows.mechanism_of(mechanism, account)
        found = []
        for each in self._chain(account):
            now = self.budget(each.name)
            if isinstance(now, IndividualBudget):
                remedy = "Call spend(), which checks each user of an IndividualBudget."
                raise TypeError(checks.expected("budget", each.name, "a Budget", remedy))
            row: dict[str, Any] = {
                "budget": each.name,
                "measure": now.measure.name,
                "asked": list(map(up, now.measure.cost(mechanism, now.relation))),
            }
            if isinstance(now, Odometer):
                found.append(row | {"left": None, "fits": True})
            else:
                found.append(row | {"left": list(now.remaining), "fits": now.fits(mechanism)})
        return found

    def spend(
        self,
        mechanism: Mechanism | Plan,
        *,
        label: str | None = None,
        budget: str | None = None,
        key: str | None = None,
        shares: "ArrayLike | None" = None,
    ) -> LedgerEntry:
        """Spend a mechanism, as `Budget.spend`. Run it only if this returns the entry.

        `mechanism` may be a `Plan` of the budget's relation and unit. `label` is the purpose, by
        default that of the ledger or the name of the plan. A retry with the same `key`, mechanism
        and budget spends once; then run the mechanism only if no output of the first attempt is
        used. `shares` belongs to an `IndividualBudget`, as in its `spend`.

        Raises `BudgetExceeded`, and spends nothing, if the mechanism exceeds what is left of the
        budget or of a parent. Raises `LedgerError` if the database failed: retry with the same key.
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
        """Reserve a mechanism, as in `spend`. It counts as spent until you `cancel` it by its key.

        An `IndividualBudget` has no reservations.
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
        mechanism = ledger_rows.mechanism_of(mechanism, account)
        # exact costs may take long to compute: before the lock
        chain = self._chain(account)
        individual = isinstance(account.opened, IndividualBudget)
        if individual and kind == "reserve":
            remedy = "Call spend(): an IndividualBudget has no reservations."
            raise TypeError(checks.expected("budget", account.name, "a Budget", remedy))
        costs = {} if individual else ledger_rows.costs_in(mechanism, chain)
        if (shares is not None) != individual:
            rule = "given" if individual else "None"
            remedy = "Pass shares= with an IndividualBudget, and only there."
            raise TypeError(checks.expected("shares", "<shares>", rule, remedy))
        asked = {"kind": kind, "budget": account.name, "mechanism": json.dumps(mechanism.to_json())}
        with self._store.writes() as writer:
            if given and (found := writer.entry(key)) is not None:
                settled = writer.settlement(found["sequence"])
                return ledger_rows.repeated(found, settled, asked, shares)
            detail = None
            for each in chain:
                row = writer.budget(each.name)
                spent, cost, reserved = row["spent"], costs.get(each.name), row["reserved"]
                after, detail = ledger_rows.charged(each, spent, mechanism, cost, shares)
                if kind == "reserve":
                    reserved = ledger_rows.moved(reserved, costs[each.name], 1)
                entries = row["entries"] + (each is account)
                spent = ledger_rows.spent_text(after)
                writer.update(each.name, spent=spent, reserved=reserved, entries=entries)
            about = {"label": label, "spender": spender, "time": _now(), "detail": detail}
            row = writer.append(**asked, **about, key=key, cost=ledger_rows.cost_text(costs))
        return ledger_rows.entry_of(row, is_new=True)

    def commit(self, key: str, *, holder: str | None = None) -> None:
        """Make a reservation final: it cannot be canceled. Repeating the call does nothing.

        Raises ValueError if there is none, it was canceled, or another `holder` committed it.
        """
        with self._store.writes() as writer:
            reserved, settled = _reservation(writer, key)
            if settled is None:
                self._close(writer, reserved, "commit", {"holder": holder})
                return
            remedy = "Reserve again with another key."
            checks.refuse_if(settled["kind"] == "cancel", "key", key, "not canceled", remedy)
            if json.loads(settled["detail"])["holder"] != holder:
                remedy = "Reserve with another key: each release needs its own reservation."
                rule = "not committed for another release"
                raise ValueError(checks.expected("key", key, rule, remedy))

    def cancel(self, key: str, *, data_never_read: str) -> None:
        """Give back a reservation whose mechanism provably never read the data.

        After an error, a crash or a timeout the mechanism may have read the data: `commit` it. The
        key cannot be used again. `data_never_read`, why they were never read, is recorded. Raises
        ValueError if there is no such reservation, or it was committed.
        """
        remedy = 'State why, such as "the job was never scheduled".'
        statement = checks.phrase("data_never_read", data_never_read, remedy)
        with self._store.writes() as writer:
            reserved, settled = _reservation(writer, key)
            if settled is None:
                self._close(writer, reserved, "cancel", {"data_never_read": statement})
            elif settled["kind"] == "commit":
                remedy = "Leave it spent: a commit is final."
                raise ValueError(checks.expected("key", key, "not committed", remedy))

    def _close(self, writer: "Writer", reserved: Row, kind: str, detail: Row) -> None:
        for name, cost in ledger_rows.costs_of(reserved["cost"]).items():
            row = writer.budget(name)
            spent = ledger_rows.moved(row["spent"], cost, -1) if kind == "cancel" else row["spent"]
            left = ledger_rows.moved(row["reserved"], cost, -1)
            writer.update(name, spent=spent, reserved=left, entries=row["entries"])
        about = {name: reserved[name] for name in ("budget", "label")} | {"time": _now()}
        about |= {"spender": self._spender_or(None), "detail": json.dumps(dict(detail))}
        writer.append(**about, kind=kind, settles=reserved["sequence"])

    def spend_release(self, mechanism: Mechanism, *, label: str, unit: str | None = None) -> None:
        """Spend for a function with an argument ``ledger=`` that leaves no state file.

        The ledger's own label takes precedence. With `unit` ``"one record"`` or ``"one user"``, a
        budget of the other is refused: clipped sums of users do not bound what one record changes.
        Raises ValueError if the default key was charged for another release.
        """
        budget = self._account(None).opened
        if {budget.unit, unit} == {ONE_RECORD, ONE_USER}:
            ledger_rows.check_same(budget, unit=unit)
        entry = self.spend(mechanism, label=self._label or label)
        remedy = "Pass another key: this one was charged for a release."
        checks.refuse_if(not entry.is_new, "key", entry.key, "new", remedy)

    def reserve_state(
        self, mechanism: Mechanism, place: str | PathLike[str], *, label: str
    ) -> StateReservation:
        """Reserve for a state file, which must store the result before `commit_state`.

        The key is the ledger's, or derived from the path `place`, so a retry after a crash is
        charged once. The result names a random holder: one reservation covers one state, even if
        its file was moved. Raises ValueError if a state at this place was charged before.
        """
        of_place = hashlib.sha256(str(Path(place).resolve()).encode()).hexdigest()[:32]
        key = self._key or f"{label} {of_place}"
        entry = self.reserve(mechanism, label=self._label or label, key=key)
        rule = "unused: it was charged for a saved state"
        remedy = "Restore that state, or pass another key with ledger.using(key=...)."
        checks.refuse_if(entry.is_committed, "key", entry.key, rule, remedy)
        return {"ledger": self.id, "key": entry.key, "holder": secrets.token_hex(16)}

    def commit_state(self, reserved: StateReservation) -> None:
        """Commit a reservation before the first release of its state, and at every restore.

        Raises ValueError if it is in another ledger, or was canceled or used for another state.
        """
        if reserved["ledger"] != self.id:
            remedy = "Pass the ledger that this state was charged to."
            raise ValueError(checks.expected("ledger", self.id, repr(reserved["ledger"]), remedy))
        self.commit(reserved["key"], holder=reserved["holder"])

    def entries(self) -> Iterator[dict[str, Any]]:
        """Yield all entries with data set, unit and relation, but without users' contributions."""
        budgets: dict[str, tuple[str, str, str]] = {}
        for row in self._store.rows():
            detail = json.loads(row["detail"]) if row["detail"] else {}
            if row["kind"] == "open":
                form = json.loads(detail.pop("form"))
                budgets[row["budget"]] = detail["dataset"], form["unit"], form["relation"]
            yield {
                **{name: value for name, value in row.items() if name not in ("detail", "cost")},
                "mechanism": json.loads(row["mechanism"]) if row["mechanism"] else None,
                **dict(zip(("dataset", "unit", "relation"), budgets[row["budget"]], strict=True)),
                **{name: detail.get(name) for name in ("parent", "data_never_read")},
            }

    def history(self) -> dict[str, tuple[list[datetime], list[float]]]:
        """Return the times of each `Budget`'s entries and the share that was spent after each.

        A time is at least that of all earlier entries, even if a spender's clock was set back.
        """
        limits, sums, held = {}, {}, {}
        found: dict[str, tuple[list[datetime], list[float]]] = {}
        latest = datetime.min.replace(tzinfo=UTC)
        for row in self._store.rows():
            latest = max(latest, datetime.fromisoformat(row["time"]))
            if row["kind"] == "open":
                budget = ledger_rows.opened(json.loads(row["detail"])["form"])
                if isinstance(budget, Budget):
                    limits[row["budget"]], sums[row["budget"]] = budget._limit, budget._spent
                    name = row["budget"]
                    found[name] = [latest], [ledger_rows.share(sums[name], limits[name])]
            elif row["kind"] != "commit":
                costs, times = ledger_rows.costs_of(row["cost"] or "{}"), 1
                if row["kind"] == "reserve":
                    held[row["sequence"]] = costs
                elif row["kind"] == "cancel":
                    costs, times = held.pop(row["settles"]), -1
                for name in costs.keys() & limits.keys():
                    sums[name] = added(sums[name], costs[name], times)
                    found[name][0].append(latest)
                    found[name][1].append(ledger_rows.share(sums[name], limits[name]))
        return found

    def summary(self) -> list[dict[str, Any]]:
        """Return what was spent and what is left of each budget, one dict each.

        ``spent_epsilon`` and ``left_epsilon`` convert sums at the budget's delta. The guarantee is
        ``epsilon`` of the whole budget, or the reading of an `Odometer`. The amounts of an
        `IndividualBudget`, which are private, are left out.
        """
        return list(map(ledger_rows.summary_of, self._store.budgets()))

    def verify(self, *, head: str | None = None) -> dict[str, Any]:
        """Recompute every sum and hash, and return the number of entries and the last hash.

        With `head`, the last hash of an earlier call, kept elsewhere, it detects a chain that
        replaced all entries. Raises `LedgerError` if the ledger is damaged or was changed.
        """
        from privacy.budget.ledger_verify import verify

        return verify(self._store, self.id, head)

    def _account(self, name: str | None) -> Account:
        name = name or self._budget
        if name not in self._accounts:
            self._accounts[name] = self._read(name)[0]
        return self._accounts[name]

    def _read(self, name: str | None) -> tuple[Account, Row]:
        name = name or self._budget
        rows = self._store.budgets(name, most=2)
        names = [row["name"] for row in rows]
        rule = f"a budget of this ledger, such as {names}" if names else "an open budget"
        remedy = "Pass budget= with its name." if names else "Open it with open()."
        checks.refuse_if(len(rows) != 1, "budget", name, rule, remedy)
        return ledger_rows.account_of(rows[0]), rows[0]

    def _chain(self, account: Account) -> list[Account]:
        chain = [account]
        while chain[-1].parent is not None:
            chain.append(self._account(chain[-1].parent))
        return chain

    def _spender_or(self, spender: str | None) -> str:
        remedy = 'Pass who spends, such as spender="team a".'
        return checks.phrase("spender", spender or self._spender or _login(), remedy)


@cache
def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "unknown"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _check_alone(tops: list[Row], budget: AnyBudget, dataset: str) -> None:
    """Raise if another budget without a parent covers the same data: their spends add up."""
    for top in map(ledger_rows.account_of, tops):
        rule = f"a data set without a budget for {budget.unit!r}"
        remedy = f"Open the budget with parent={top.name!r}, or spend from {top.name!r}."
        checks.refuse_if(top.opened.unit == budget.unit, "dataset", dataset, rule, remedy)


def _reservation(writer: "Writer", key: str) -> tuple[Row, Row | None]:
    found = writer.entry(key)
    if found is None or found["kind"] != "reserve":
        remedy = "Pass the key of an entry that reserve() returned."
        raise ValueError(checks.expected("key", key, "that of a reservation", remedy))
    return found, writer.settlement(found["sequence"])
