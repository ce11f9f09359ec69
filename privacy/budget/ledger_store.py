"""Tables of a ledger on SQLite or PostgreSQL: transactions, hash chain and schema versions.

Writers take turns: each first locks the row of heads. An entry's hash covers the hash before it.
"""

import hashlib
import json
import os
import sqlite3
import uuid
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from stat import S_ISREG
from typing import Any

from privacy import checks
from privacy.budget.ledger_rows import LedgerError, Row
from privacy.numerics import storage

with checks.installed("ledger"):
    import sqlalchemy as sa

VERSION = 1
"""Version of the tables. A change needs a migration and a file of the old version in the tests."""
MIGRATIONS: dict[int, Callable[[sa.Connection], None]] = {}
"""Functions that change the tables of each older version to the next one."""
_Statement = sa.Select[Any] | sa.Insert | sa.Update
_CHUNK = 1000
_RETRY = "Retry with the same key: a retry spends once."

_tables = sa.MetaData()
_text_column = partial(sa.Column, type_=sa.Text, nullable=False)
HEAD = sa.Table(
    "dpcalib_head",
    _tables,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    _text_column("id"),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    _text_column("hash"),
)
BUDGETS = sa.Table(
    "dpcalib_budgets",
    _tables,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("parent", sa.Text),
    # the form is to_json() at the opening
    *map(_text_column, ("dataset", "form", "spent", "reserved")),
    sa.Column("entries", sa.BigInteger, nullable=False),
)
ENTRIES = sa.Table(
    "dpcalib_entries",
    _tables,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    *map(_text_column, ("kind", "budget")),
    sa.Column("settles", sa.BigInteger, unique=True),
    sa.Column("key", sa.Text, unique=True),
    *map(_text_column, ("label", "spender", "time")),
    # the cost is exact, for the budget and each of its parents
    *(sa.Column(name, sa.Text) for name in ("mechanism", "cost", "detail")),
    _text_column("hash"),
)
HASHED = tuple(ENTRIES.columns.keys())[:-1]
"""The columns that a hash covers, in this order."""
_APPEND_ONLY = {
    "sqlite": [
        f"CREATE TRIGGER dpcalib_no_{verb} BEFORE {verb} ON dpcalib_entries "
        "BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END"
        for verb in ("update", "delete")
    ],
    "postgresql": [
        """CREATE FUNCTION dpcalib_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'entries are append-only'; END $$""",
        """CREATE TRIGGER dpcalib_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON
        dpcalib_entries EXECUTE FUNCTION dpcalib_append_only()""",
    ],
}
_REASONS = {
    "SQLITE_BUSY": f"Another process held its lock for too long. {_RETRY}",
    "SQLITE_FULL": "The disk is full: nothing was spent. Free some space.",
    "SQLITE_READONLY": "It is read-only: nothing was spent. Allow writing to it and its folder.",
    "SQLITE_CANTOPEN": "It cannot be opened. Allow reading and writing in its folder.",
    "SQLITE_NOTADB": "It is not a ledger, or it is damaged. Restore it from a backup.",
    "SQLITE_CORRUPT": "It is damaged. Restore it from a backup.",
    "55P03": f"Another process held its lock for too long. {_RETRY}",
    "53100": "The disk of the server is full: nothing was spent. Free some space.",
    "25006": "The server is read-only: nothing was spent. Connect to the primary server.",
    "42501": "Your role may not do this: nothing was spent. Ask for a role that may write.",
}


class Store:
    """A database with the tables of one ledger."""

    def __init__(self, url: str | os.PathLike[str], timeout: float) -> None:
        self.url = _url(url)
        self.timeout = checks.real("timeout", timeout, "Pass seconds, such as 30.", above=0)
        self._engine: sa.Engine | None = None
        self._process = 0
        self._file: tuple[int, int] | None = None

    @property
    def path(self) -> Path | None:
        return Path(self.url.database or "") if self.url.drivername == "sqlite" else None

    def __str__(self) -> str:
        return str(self.path or self.url)  # without a password

    @property
    def engine(self) -> sa.Engine:
        """The connections of this process; a fork opens its own."""
        if self._engine is None or self._process != os.getpid():
            if self._engine is not None:
                self._engine.dispose(close=False)
            self._engine, self._process = self._connected(), os.getpid()
            weakref.finalize(self, _closed, self._engine, self._process)
        return self._engine

    def _connected(self) -> sa.Engine:
        if self.path is None:
            wait = f"-c lock_timeout={round(1000 * self.timeout)} -c synchronous_commit=on"
            options = {"options": wait, "connect_timeout": max(1, round(self.timeout))}
            with checks.installed("ledger"):
                return sa.create_engine(self.url, connect_args=options, max_overflow=-1)
        # named parameters, as those of psycopg, for the statements of `Writer`
        engine = sa.create_engine(
            self.url, connect_args={"timeout": self.timeout}, max_overflow=-1, paramstyle="named"
        )

        @sa.event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # `begin` opens the transactions
            connection.execute("PRAGMA synchronous=FULL")

        @sa.event.listens_for(engine, "begin")
        def begin(connection: sa.Connection) -> None:
            reads = connection.get_execution_options().get("ledger_reads")
            connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

        return engine

    def _check_file(self) -> None:
        """Raise if the path leads to another file: SQLite would go on writing to the old one."""
        if self.path is None:
            return
        if problem := storage.linked(self.path):
            raise LedgerError(problem)
        if _identity(self.path) != self._file:
            raise LedgerError(
                f"Ledger {str(self)!r}: its file was deleted, moved or replaced. Nothing was "
                "spent. Stop all programs that use it, and open the ledger again."
            )

    @contextmanager
    def _clear(self) -> Iterator[None]:
        """Replace errors of the database by a `LedgerError` that names the remedy."""
        try:
            yield
        except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
            raise LedgerError(f"Ledger {str(self)!r}: {_reason(error)}") from error

    def create(self) -> None:
        """Create the file and the tables of a new ledger."""
        if self.path is not None:
            _create_file(self.path)
        with self._clear():
            if self.path is not None:
                raw = self.engine.raw_connection()
                raw.cursor().execute("PRAGMA journal_mode=WAL")  # stays in the file
                raw.close()
            with self.engine.begin() as connection:
                if sa.inspect(connection).has_table(HEAD.name):
                    remedy = "Open it with Ledger(url)."
                    raise LedgerError(checks.expected("url", str(self), "new", remedy))
                _tables.create_all(connection)
                for statement in _APPEND_ONLY[self.engine.dialect.name]:
                    connection.exec_driver_sql(statement)
                own = str(uuid.uuid4())
                first = {"one": 1, "version": VERSION, "id": own, "sequence": 0, "hash": own}
                connection.execute(HEAD.insert().values(first))

    def open(self) -> str:
        """Check the version of the tables, migrate them if they are older, and return the id."""
        remedy = "Create it with Ledger.create(url) or dpcalib ledger init."
        none = LedgerError(checks.expected("url", str(self), "a ledger", remedy))
        if self.path is not None:
            self._file = _identity(self.path)
            if self._file is None:
                raise none
        with self._clear():
            with self.reads() as connection:
                if not sa.inspect(connection).has_table(HEAD.name):
                    raise none
                found = connection.execute(sa.select(HEAD)).one()
            if found.version > VERSION:
                raise LedgerError(
                    f"Ledger {str(self)!r} has version {found.version} of the tables; this release "
                    f"reads versions up to {VERSION}. Update dpcalib."
                )
            if found.version < VERSION:
                self._migrate()
        return str(found.id)

    def _migrate(self) -> None:
        with self.engine.begin() as connection:
            row = sa.select(HEAD.c.version).with_for_update()
            for version in range(connection.execute(row).scalar_one(), VERSION):
                MIGRATIONS[version](connection)
            connection.execute(HEAD.update().values(version=VERSION))

    @contextmanager
    def reads(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees one state of the ledger."""
        options: dict[str, Any] = {"ledger_reads": True}
        if self.path is None:
            options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        self._check_file()
        with self._clear(), self.engine.connect().execution_options(**options) as connection:
            yield connection

    @contextmanager
    def writes(self) -> Iterator["Writer"]:
        """Yield the only writer of the ledger; its rows are kept if the block succeeds."""
        self._check_file()
        with self._clear(), self.engine.begin() as connection:
            writer = Writer(connection)
            if self.path is None:  # SQLite has locked the file
                writer.first(_LOCK)
            head = writer.first(_HEAD)
            if head is None or (head["sequence"] and head["last"] != head["hash"]):
                raise LedgerError(
                    f"Ledger {str(self)!r}: its last entry was changed. Restore it from a backup."
                )
            writer.sequence, writer.last = head["sequence"], head["hash"]
            yield writer
            self._check_file()  # again: it may have been replaced during the wait for the lock

    def budgets(self, name: str | None = None, *, most: int | None = None) -> list[Row]:
        query = sa.select(BUDGETS).order_by(BUDGETS.c.name).limit(most)
        if name is not None:
            query = query.where(BUDGETS.c.name == name)
        with self.reads() as connection:
            return list(connection.execute(query).mappings())

    def rows(self) -> Iterator[Row]:
        query = sa.select(ENTRIES).order_by(ENTRIES.c.sequence)
        with self.reads() as connection:
            yield from connection.execution_options(yield_per=_CHUNK).execute(query).mappings()


class Writer:
    """The one transaction that may append to a ledger at a time."""

    sequence: int
    last: str

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def _run(self, statement: _Statement, values: dict[str, Any]) -> sa.CursorResult[Any]:
        return self._connection.exec_driver_sql(_text(statement, self._connection.dialect), values)

    def first(self, statement: _Statement, **values: Any) -> Row | None:
        return self._run(statement, values).mappings().first()

    def append(self, **values: Any) -> Row:
        """Append an entry, and return it with its number and hash."""
        self.sequence += 1
        row: dict[str, Any] = dict.fromkeys(HASHED) | values | {"sequence": self.sequence}
        self.last = row["hash"] = chained(self.last, row)
        self._run(_APPEND, row)
        self._run(_ADVANCE, {"sequence": self.sequence, "hash": self.last})
        return row

    def entry(self, key: str) -> Row | None:
        return self.first(_BY_KEY, wanted=key)

    def settlement(self, sequence: int) -> Row | None:
        return self.first(_BY_SETTLED, wanted=sequence)

    def find_budget(self, name: str) -> Row | None:
        return self.first(_BY_NAME, wanted=name)

    def tops(self, dataset: str) -> list[Row]:
        """Return the rows of a data set's budgets without a parent."""
        return list(self._run(_TOPS, {"wanted": dataset}).mappings())

    def budget(self, name: str) -> Row:
        if (found := self.find_budget(name)) is None:
            raise LedgerError(f"The budget {name!r} was removed. Restore the ledger from a backup.")
        return found

    def open(self, **values: Any) -> None:
        self._run(_OPEN, values)

    def update(self, name: str, **values: Any) -> None:
        self._run(_UPDATE, {"wanted": name, **values})


def _values(*names: str) -> dict[str, sa.BindParameter[Any]]:
    return {name: sa.bindparam(name) for name in names}


_WANTED: sa.BindParameter[Any] = sa.bindparam("wanted")
_LOCK = sa.select(HEAD.c.one).with_for_update()
_HEAD = sa.select(HEAD.c.sequence, HEAD.c.hash, ENTRIES.c.hash.label("last")).select_from(
    HEAD.outerjoin(ENTRIES, HEAD.c.sequence == ENTRIES.c.sequence)
)
_BY_KEY = sa.select(ENTRIES).where(ENTRIES.c.key == _WANTED)
_BY_SETTLED = sa.select(ENTRIES).where(ENTRIES.c.settles == _WANTED)
_BY_NAME = sa.select(BUDGETS).where(BUDGETS.c.name == _WANTED)
_TOPS = sa.select(BUDGETS).where(BUDGETS.c.dataset == _WANTED, BUDGETS.c.parent.is_(None))
_APPEND = ENTRIES.insert().values(_values(*HASHED, "hash"))
_ADVANCE = HEAD.update().values(_values("sequence", "hash"))
_OPEN = BUDGETS.insert().values(_values(*BUDGETS.c.keys()))
_TOTALS = _values("spent", "reserved", "entries")
_UPDATE = BUDGETS.update().where(BUDGETS.c.name == _WANTED).values(_TOTALS)


@cache
def _text(statement: _Statement, dialect: sa.Dialect) -> str:
    """Return a statement as text: compiling it again would take most of the time of a spend."""
    return str(statement.compile(dialect=dialect))


def chained(last: str, row: Row) -> str:
    """Return the hash of an entry after the entry with the hash `last`."""
    text = json.dumps([last, *(row[name] for name in HASHED)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _identity(path: Path) -> tuple[int, int] | None:
    with suppress(OSError):
        found = path.stat()
        return (found.st_dev, found.st_ino) if S_ISREG(found.st_mode) else None
    return None


def _closed(engine: sa.Engine, process: int) -> None:
    """Close the connections of an unused ledger, except in a fork, where the parent uses them."""
    if process == os.getpid():
        engine.dispose()


def _url(url: Any) -> sa.URL:
    remedy = "Pass a file, or a URL such as postgresql://user@host/database."
    if isinstance(url, os.PathLike) or (isinstance(url, str) and "://" not in url):
        found = sa.URL.create("sqlite", database=os.fspath(url))
    else:
        try:
            found = sa.make_url(url)
        except (sa.exc.ArgumentError, AttributeError, ValueError):
            # the value may contain a password
            raise ValueError(checks.expected("url", "...", "a URL of a database", remedy)) from None
    kind = found.get_backend_name()
    if kind == "sqlite":
        if found.database in (None, "", ":memory:") or found.query:
            raise ValueError(checks.expected("url", str(found), "a file", remedy))
        return sa.URL.create("sqlite", database=str(Path(str(found.database)).absolute()))
    if kind not in ("postgresql", "postgres"):
        raise ValueError(checks.expected("url", str(found), "of SQLite or PostgreSQL", remedy))
    return found.set(drivername="postgresql+psycopg")


def _create_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass  # without tables, if a crash interrupted its creation
    except OSError as error:
        rule = f"a file that can be created ({error.strerror or error})"
        remedy = "Pass a new file in a folder that you may write to."
        raise LedgerError(checks.expected("url", str(path), rule, remedy)) from error


def _reason(error: Exception) -> str:
    own = getattr(error, "orig", None) or error
    code = getattr(own, "sqlite_errorname", None) or getattr(own, "sqlstate", None) or ""
    for known, reason in _REASONS.items():
        if code.startswith(known):
            return reason
    said = str(own).strip().partition("\n")[0]
    return f"The database failed: {said}. {_RETRY}"
