"""The ledger: budgets in a database that processes share."""

import csv
import io
import itertools
import json
import os
import pickle
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from click.testing import CliRunner

import bandits
import privacy as dp
from privacy.budget import ledger as ledger_module
from privacy.budget import ledger_rows, ledger_store
from privacy.cli.ledger import ledger as command
from privacy.cli.plans import check as check_command
from tests.benchmarks import ledger as benchmark

HERE = Path(__file__).parent
NOISE, TINY = dp.Gaussian(20.0), dp.Gaussian(1000.0)
BUDGETS = {
    "zcdp": dp.Budget(epsilon=1, delta=1e-6),
    "gaussian": dp.Budget(mu=0.3, delta=1e-6),
    "rdp": dp.Budget(epsilon=1, delta=1e-6, notion="rdp", order=30),
    "approximate": dp.Budget(epsilon=1, delta=1e-6, notion="approximate"),
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budgets.db"


@pytest.fixture
def ledger(path):
    return whole_ledger(path)


def whole_ledger(path):
    made = dp.Ledger.create(path)
    made.open("all", dp.Budget(rho=0.01, delta=1e-6), dataset="salaries")
    return made


@pytest.fixture
def memory():
    """A folder in memory, where a flush takes no time."""
    parent = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=parent if parent.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    with benchmark.server(tmp_path_factory.mktemp("postgres") / "server") as make:
        yield make


def spent(ledger, name=None):
    return ledger.budget(name)._spent


def change(path, *statements):
    """Change the database of a ledger directly."""
    with sqlite3.connect(path) as connection:
        for name in ("update", "delete"):
            connection.execute(f"DROP TRIGGER IF EXISTS dpcalib_no_{name}")
        for statement in statements:
            connection.execute(statement)
    connection.close()


# Spending


@pytest.mark.parametrize("notion", BUDGETS)
def test_a_ledger_spends_exactly_what_a_budget_spends(path, notion):
    draw = random.Random(notion)
    ledger, budget = dp.Ledger.create(path), BUDGETS[notion]
    ledger.open(notion, budget, dataset="d")
    refused = 0
    for _ in range(40):
        scale = draw.uniform(8, 30)
        mechanism = (
            dp.PureDP(round(1 / scale, 3)) if notion == "approximate" else dp.Gaussian(scale)
        )
        try:
            budget = budget.spend(mechanism)
        except dp.BudgetExceeded as refusal:
            with pytest.raises(dp.BudgetExceeded) as caught:
                ledger.spend(mechanism, label="x")
            assert caught.value.remaining == refusal.remaining
            refused += 1
        else:
            ledger.spend(mechanism, label="x")
        assert ledger.budget() == budget
        assert spent(ledger) == budget._spent
    assert refused
    ledger.verify()


def test_another_ledger_object_continues_where_this_one_ended(ledger, path):
    ledger.spend(NOISE, label="x")
    other = dp.Ledger(path)
    assert spent(other) == dp.Budget(rho=1, delta=1e-6).spend(NOISE)._spent
    assert spent(pickle.loads(pickle.dumps(other.using(budget="all")))) == spent(ledger)


def test_a_spend_from_a_child_counts_in_its_parents(ledger):
    big = dp.Budget(rho=1, delta=1e-6)
    ledger.open("team", big, dataset="salaries", parent="all")
    ledger.open("quarter", big, dataset="salaries", parent="team")
    ledger.spend(NOISE, label="x", budget="quarter")
    assert spent(ledger, "quarter") == spent(ledger, "team") == spent(ledger, "all")
    before = spent(ledger, "quarter")
    with pytest.raises(dp.BudgetExceeded, match="Budget 'all': Expected Gaussian"):
        ledger.spend(dp.Gaussian(2.0), label="too much for the top", budget="quarter")
    assert spent(ledger, "quarter") == spent(ledger, "team") == spent(ledger, "all") == before
    assert not ledger.fits(dp.Gaussian(2.0), budget="quarter")
    assert ledger.fits(NOISE, budget="quarter")
    ledger.verify()


@pytest.mark.parametrize(
    ("budget", "dataset", "names"),
    [
        (dp.Budget(rho=1, delta=1e-6), "other", "dataset='other'"),
        (dp.Budget(rho=1, delta=1e-6, unit="one user"), "salaries", "unit='one user'"),
        (dp.Budget(rho=1, delta=1e-6, relation="REPLACE_ONE"), "salaries", "relation="),
        (dp.Budget(rho=1, delta=1e-6).spend(NOISE), "salaries", "to be unspent"),
    ],
)
def test_a_parent_protects_the_same_data(ledger, budget, dataset, names):
    with pytest.raises(ValueError, match=names):
        ledger.open("child", budget, dataset=dataset, parent="all")
    assert len(ledger.summary()) == 1


def test_a_data_set_has_one_budget_without_a_parent_per_unit(ledger):
    budget = dp.Budget(rho=1, delta=1e-6)
    for other in (budget, dp.Odometer(delta=1e-6)):
        with pytest.raises(ValueError, match="parent='all', or spend from 'all'"):
            ledger.open("second", other, dataset="salaries")
    other = dp.Budget(rho=1, delta=1e-6, relation="REPLACE_ONE")
    with pytest.raises(ValueError, match="or spend from the parent if it covers the same data"):
        ledger.open("second", other, dataset="salaries", parent="all")
    ledger.open("users", dp.Budget(rho=1, delta=1e-6, unit="one user"), dataset="salaries")
    ledger.open("team", budget, dataset="salaries", parent="all")


def test_the_name_of_the_budget_is_needed_among_several(ledger, path):
    ledger.open("more", dp.Budget(rho=1, delta=1e-6), dataset="d")
    with pytest.raises(ValueError, match="a budget of this ledger, such as"):
        dp.Ledger(path).spend(NOISE, label="x")
    with pytest.raises(ValueError, match="budget='none' to be an open budget"):
        ledger.spend(NOISE, label="x", budget="none")
    with pytest.raises(ValueError, match="name='more' to be a new name"):
        ledger.open("more", dp.Budget(rho=1, delta=1e-6), dataset="d")


def test_what_fails_in_the_block_stays_spent(ledger):
    with pytest.raises(ZeroDivisionError), ledger.spend(NOISE, label="x"):
        raise ZeroDivisionError
    assert spent(ledger)[0] > 0


def test_a_retry_with_the_same_key_spends_once(ledger):
    first, again = (ledger.spend(NOISE, label="x", key="k") for _ in range(2))
    assert (first.is_new, again.is_new) == (True, False)
    assert first.sequence == again.sequence
    assert spent(ledger) == dp.Budget(rho=1, delta=1e-6).spend(NOISE)._spent
    with pytest.raises(ValueError, match="an entry of another mechanism has it"):
        ledger.spend(dp.Gaussian(30.0), label="x", key="k")
    with pytest.raises(ValueError, match="an entry of another kind has it"):
        ledger.reserve(NOISE, label="x", key="k")


def test_a_plan_is_spent_whole(ledger):
    plan = dp.Plan("spring", (("a", NOISE), ("b", dp.Gaussian(40.0))), delta=1e-6)
    assert ledger.spend(plan).label == "spring"
    both = dp.compose(NOISE, dp.Gaussian(40.0))
    assert spent(ledger) == dp.Budget(rho=1, delta=1e-6).spend(both)._spent
    with pytest.raises(ValueError, match="unit='one user' to be the budget's 'one record'"):
        ledger.spend(dp.Plan("other", (("a", NOISE),), delta=1e-6, unit="one user"))


# Reservations


def test_a_reservation_counts_until_it_is_canceled(ledger):
    kept, given_back = (ledger.reserve(NOISE, label="x").key for _ in range(2))
    twice = spent(ledger)
    ledger.cancel(given_back, data_never_read="the job was never scheduled")
    ledger.cancel(given_back, data_never_read="again")  # does nothing
    ledger.commit(kept)
    ledger.commit(kept)
    assert spent(ledger) == (twice[0] / 2,)
    assert ledger.summary()[0]["reserved"] == [0.0]
    *_, row = (row for row in ledger.entries() if row["kind"] == "cancel")
    assert row["data_never_read"] == "the job was never scheduled"
    ledger.verify()
    with pytest.raises(ValueError, match="to be not canceled"):
        ledger.commit(given_back)
    with pytest.raises(ValueError, match="to be not canceled"):
        ledger.reserve(NOISE, label="x", key=given_back)
    with pytest.raises(ValueError, match="to be not committed"):
        ledger.cancel(kept, data_never_read="too late")
    with pytest.raises(ValueError, match="that of a reservation"):
        ledger.cancel(ledger.spend(NOISE, label="x").key, data_never_read="spent")


@pytest.mark.parametrize("statement", ["", " ", "two\nlines", None])
def test_canceling_needs_a_statement(ledger, statement):
    key = ledger.reserve(NOISE, label="x").key
    with pytest.raises((ValueError, TypeError), match="data_never_read="):
        ledger.cancel(key, data_never_read=statement)
    assert spent(ledger)[0] > 0


# Odometers and individual budgets


def test_an_odometer_has_rows(path):
    ledger = dp.Ledger.create(path)
    ledger.open("reading", dp.Odometer(delta=1e-6), dataset="d")
    reading = dp.Odometer(delta=1e-6)
    for _ in range(3):
        ledger.spend(NOISE, label="x")
        reading = reading.spend(NOISE)
    assert ledger.budget().epsilon == reading.epsilon
    assert ledger.summary()[0]["spent_epsilon"] == reading.epsilon
    key = ledger.reserve(NOISE, label="x").key
    ledger.cancel(key, data_never_read="never ran")
    assert ledger.budget()._spent == reading._spent
    ledger.verify()


def test_an_individual_budget_has_rows_and_shows_no_users(path):
    ledger, budget = dp.Ledger.create(path), dp.IndividualBudget(epsilon=1, delta=1e-6, users=3)
    ledger.open("each", budget, dataset="d")
    shares = [1.0, 0.3125, 0.0]  # no time in milliseconds contains it
    for turn in range(20):
        entry = ledger.spend(NOISE, label="x", shares=shares, key=f"k{turn}")
        budget, admitted = budget.spend(NOISE, shares)
        np.testing.assert_array_equal(entry.sensitive_admitted, admitted)
    again = ledger.spend(NOISE, label="x", shares=shares, key="k19")
    np.testing.assert_array_equal(again.sensitive_admitted, admitted)
    np.testing.assert_array_equal(ledger.budget().sensitive_spent, budget.sensitive_spent)
    ledger.verify()
    told = repr((ledger.summary(), list(ledger.entries()), entry))
    assert not any(word in told for word in ("sensitive", "0.3125", "spent_epsilon"))
    with pytest.raises(ValueError, match="other shares"):
        ledger.spend(NOISE, label="x", shares=[1, 1, 1], key="k19")
    ledger.open("all", dp.Budget(epsilon=1, delta=1e-6), dataset="d")
    ledger.spend(NOISE, label="x", budget="all", key="k")
    with pytest.raises(ValueError, match="another budget"):
        ledger.spend(NOISE, label="x", budget="each", shares=shares, key="k")
    ledger = ledger.using(budget="each")
    with pytest.raises(TypeError, match="has no reservations"):
        ledger.reserve(NOISE, label="x")
    with pytest.raises(TypeError, match=r"to be given\. Pass shares="):
        ledger.spend(NOISE, label="x")


# The file


def test_only_the_owner_can_read_the_file(ledger, path):
    ledger.spend(NOISE, label="x")
    assert {oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {"0o600"}


def test_there_is_one_ledger_in_a_file(ledger, path):
    with pytest.raises(dp.LedgerError, match="to be new"):
        dp.Ledger.create(path)
    assert len(ledger.summary()) == 1
    with pytest.raises(dp.LedgerError, match="to be a ledger"):
        dp.Ledger(path.with_name("none.db"))
    os.link(path, path.with_name("other.db"))
    with pytest.raises(dp.LedgerError, match="number of hard links"):
        dp.Ledger(path)


@pytest.mark.parametrize("how", ["deleted", "replaced", "linked"])
def test_a_deleted_ledger_is_refused(ledger, path, how):
    """SQLite would write to the old file, and the spend would be missing in the ledger."""
    ledger.spend(NOISE, label="x")
    if how == "linked":
        os.link(path, path.with_name("other.db"))
    else:
        path.rename(path.with_name("backup.db"))
        if how == "replaced":
            dp.Ledger.create(path).open("all", dp.Budget(rho=1, delta=1e-6), dataset="d")
    for call in (lambda: ledger.spend(NOISE, label="x"), ledger.summary):
        with pytest.raises(dp.LedgerError, match=r"links|deleted, moved or replaced"):
            call()
    assert path.exists() == (how != "deleted")


def test_a_ledger_deleted_during_a_spend_is_refused(ledger, path):
    with pytest.raises(dp.LedgerError, match="deleted, moved or replaced"), ledger._store.writes():
        path.unlink()


@pytest.mark.parametrize("count", range(1, 6))
def test_a_ledger_deleted_during_a_check_is_refused(ledger, path, count, monkeypatch):
    """Every look at the file can be the first that misses it."""
    stat, looks = Path.stat, itertools.count(1)

    def look(self, **options):
        if self == path and next(looks) == count:
            path.unlink(missing_ok=True)
        return stat(self, **options)

    monkeypatch.setattr(Path, "stat", look)
    with pytest.raises(dp.LedgerError, match=r"deleted, moved or replaced|cannot be opened"):
        [ledger.spend(TINY, label="x") for _ in range(5)]


def test_an_interrupted_creation_can_be_repeated(path):
    path.touch()
    dp.Ledger.create(path).open("all", dp.Budget(rho=1, delta=1e-6), dataset="d")
    dp.Ledger(path).verify()


@pytest.mark.parametrize("url", [":memory:", "sqlite://", "mysql://u:hidden@h/d", "://", 7])
def test_other_urls_are_refused(url):
    with pytest.raises(ValueError, match="Expected url=") as caught:
        dp.Ledger(url)
    assert "hidden" not in str(caught.value)


def test_a_file_of_something_else_is_refused(path):
    path.write_bytes(b"no database" * 1000)
    for opened in (dp.Ledger, dp.Ledger.create):
        with pytest.raises(dp.LedgerError, match="It is not a ledger, or it is damaged"):
            opened(path)


FAKE = "'{}'".format(json.dumps(["0/1"]))
TAMPERED = {
    "a lower sum": f"UPDATE dpcalib_budgets SET spent = {FAKE} WHERE name = 'all'",
    "a larger limit": "UPDATE dpcalib_budgets SET form = replace(form, '1e-06', '2e-06')",
    "another count": "UPDATE dpcalib_budgets SET entries = 1",
    "a reservation": f"UPDATE dpcalib_budgets SET reserved = {FAKE}",
    "another parent": "UPDATE dpcalib_budgets SET parent = NULL",
    "another mechanism": "UPDATE dpcalib_entries SET mechanism = replace(mechanism, '20', '30')",
    "another cost": "UPDATE dpcalib_entries SET cost = replace(cost, '1/', '2/')",
    "another label": "UPDATE dpcalib_entries SET label = 'y' WHERE sequence = 3",
    "a missing entry": "DELETE FROM dpcalib_entries WHERE sequence = 3",
    "a missing end": "DELETE FROM dpcalib_entries WHERE sequence = 5",
    "another budget": "INSERT INTO dpcalib_budgets SELECT 'b', parent, dataset, form, spent, "
    "reserved, entries FROM dpcalib_budgets WHERE name = 'all'",
}


@pytest.mark.parametrize("how", TAMPERED)
def test_verification_detects_a_change(ledger, path, how):
    ledger.open("team", dp.Budget(rho=1, delta=1e-6), dataset="salaries", parent="all")
    for kind in (ledger.spend, ledger.spend, ledger.reserve):
        kind(NOISE, label="x", budget="team")
    ledger.verify()
    change(path, TAMPERED[how])
    with pytest.raises(dp.LedgerError, match="Restore it from a backup"):
        ledger.verify()


def test_verification_recomputes_costs(ledger, path, monkeypatch):
    """A consistent chain that charges too little is refused."""
    (cost,) = dp.Budget(rho=1, delta=1e-6).measure.cost(NOISE, dp.NeighboringRelation(RELATION))
    with monkeypatch.context() as patch:
        patch.setattr(ledger_rows, "costs_in", lambda *_: {"all": (cost / 2,)})
        ledger.spend(NOISE, label="x")
    with pytest.raises(dp.LedgerError, match="charged too little"):
        ledger.verify()


RELATION = "ADD_OR_REMOVE_ONE"


def test_a_noted_hash_detects_a_replaced_ledger(ledger, tmp_path):
    ledger.spend(NOISE, label="x")
    noted = ledger.verify()["head"]
    ledger.spend(NOISE, label="y")
    assert ledger.verify(head=noted)["entries"] == 3
    other = dp.Ledger.create(tmp_path / "other.db")
    other.open("all", dp.Budget(rho=1, delta=1e-6), dataset="salaries")
    with pytest.raises(dp.LedgerError, match="no entry has the hash"):
        other.verify(head=noted)


def test_entries_are_append_only(ledger, path):
    with sqlite3.connect(path) as connection:
        for statement in ("UPDATE dpcalib_entries SET label = 'y'", "DELETE FROM dpcalib_entries"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
    connection.close()
    ledger.verify()


def test_a_lost_end_is_noticed_by_the_next_spend(ledger, path):
    ledger.spend(NOISE, label="x")
    change(path, "DELETE FROM dpcalib_entries WHERE sequence = 2")
    with pytest.raises(dp.LedgerError, match="its last entry was changed"):
        ledger.spend(NOISE, label="x")


# Versions


def version_1(path):
    with sqlite3.connect(path) as connection:
        connection.executescript((HERE / "state_files" / "ledger_1.sql").read_text())
    connection.close()


def test_version_1_is_read(path):
    version_1(path)
    ledger = dp.Ledger(path)
    assert ledger.verify()["entries"] == 7
    assert spent(ledger, "team") == dp.Budget(rho=1, delta=1e-6).spend(dp.repeat(NOISE, 2))._spent
    ledger.spend(NOISE, label="x", budget="team")
    ledger.verify()


def test_an_older_version_is_migrated_once(path, monkeypatch):
    """The step of a version runs in one transaction with the new number."""
    version_1(path)
    monkeypatch.setattr(ledger_store, "VERSION", 2)
    steps = []

    def broken(connection):
        connection.exec_driver_sql("ALTER TABLE dpcalib_head ADD COLUMN extra TEXT")
        steps.append("broken")
        raise ZeroDivisionError

    monkeypatch.setitem(ledger_store.MIGRATIONS, 1, broken)
    with pytest.raises(ZeroDivisionError):
        dp.Ledger(path)

    def step(connection):
        connection.exec_driver_sql("ALTER TABLE dpcalib_head ADD COLUMN extra TEXT")
        steps.append("done")

    monkeypatch.setitem(ledger_store.MIGRATIONS, 1, step)
    for _ in range(2):
        dp.Ledger(path).verify()
    assert steps == ["broken", "done"]


def test_every_older_version_has_a_migration_and_a_file():
    older = set(range(1, ledger_store.VERSION))
    assert set(ledger_store.MIGRATIONS) == older
    for version in (*older, ledger_store.VERSION):
        assert (HERE / "state_files" / f"ledger_{version}.sql").is_file()


def test_a_newer_version_is_refused(ledger, path):
    change(path, "UPDATE dpcalib_head SET version = 2")
    with pytest.raises(dp.LedgerError, match=r"has version 2 .* Update dpcalib"):
        dp.Ledger(path)


# Failures


def test_a_lock_that_is_held_too_long(ledger, path):
    blocked = dp.Ledger(path, timeout=0.01)
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(dp.LedgerError, match=r"held its lock for too long\. Retry"):
            blocked.spend(NOISE, label="x", key="k")
        assert blocked.summary()[0]["entries"] == 0  # readers do not wait
        connection.execute("ROLLBACK")
    connection.close()
    blocked.spend(NOISE, label="x", key="k")
    ledger.verify()


def test_a_full_disk_spends_nothing(ledger):
    def no_space(connection, _record):
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count={pages}")

    engine = ledger._store.engine
    engine.dispose()
    sa.event.listen(engine, "connect", no_space)
    with pytest.raises(dp.LedgerError, match="The disk is full: nothing was spent"):
        fill(ledger)
    sa.event.remove(engine, "connect", no_space)
    engine.dispose()
    ledger.verify()
    once = dp.Budget(rho=1, delta=1e-6).spend(TINY)._spent
    assert spent(ledger) == (ledger.summary()[0]["entries"] * once[0],)


def fill(ledger):
    for _ in range(1000):
        ledger.spend(TINY, label="x" * 500)


def test_a_read_only_file_spends_nothing(ledger, path):
    def read_only(connection, _record):
        connection.execute("PRAGMA query_only=ON")  # root may write to any file

    engine = ledger._store.engine
    engine.dispose()
    sa.event.listen(engine, "connect", read_only)
    with pytest.raises(dp.LedgerError, match="It is read-only: nothing was spent"):
        ledger.spend(NOISE, label="x")
    assert ledger.summary()[0]["entries"] == 0


def test_a_clock_that_jumps_changes_no_order(ledger, monkeypatch):
    for year in (2030, 2020, 2025):
        jumped = datetime(year, 1, 1, tzinfo=UTC).isoformat()
        monkeypatch.setattr(ledger_module, "_now", lambda jumped=jumped: jumped)
        ledger.spend(NOISE, label=str(year))
    rows = list(ledger.entries())
    assert [row["label"] for row in rows] == ["all", "2030", "2020", "2025"]
    times, shares = ledger.history()["all"]
    assert times == sorted(times)
    assert shares == sorted(shares)
    ledger.verify()


@pytest.mark.parametrize("label", ["two\nlines", "\x1b[31mred", "\u202eright", "", None, 7])
def test_labels_with_control_characters_are_refused(ledger, label):
    with pytest.raises((ValueError, TypeError), match="Expected label="):
        ledger.spend(NOISE, label=label)
    assert spent(ledger) == (0,)


# Processes


def test_concurrent_writers_of_a_file(tmp_path):
    check_contended(tmp_path / "a.db")


def test_concurrent_writers_of_a_server(database):
    check_contended(database("contended"))


def check_contended(url):
    found = benchmark.contended(url, writers=4, spends=20)
    assert found.pop("rate") > 0
    assert not any(found.values()), found


def test_kills_lose_and_repeat_nothing(memory):
    found = benchmark.killed(memory / "k.db", 30)
    assert found.pop("kills") == 30
    assert not any(found.values()), found


def killed_everywhere(work):
    """Call `work(n)` in children that die before their n-th write, until one does not.

    Yield n after each death.
    """

    def doomed(n):
        told = itertools.count()

        def count(*_, **__):
            if next(told) == n:
                os.kill(os.getpid(), signal.SIGKILL)

        for name in ("before_cursor_execute", "commit"):
            sa.event.listen(sa.Engine, name, count)
        real = Path.replace
        Path.replace = lambda *a: (count(), real(*a))[1]
        work(n)

    for n in itertools.count():
        child = benchmark.forked(lambda n=n: doomed(n))
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0
            assert n > 5
            return
        yield n


def test_a_kill_before_any_statement_spends_all_or_nothing(memory):
    path = memory / "budgets.db"
    ledger = whole_ledger(path)
    for n in killed_everywhere(lambda n: dp.Ledger(path).spend(TINY, label="x", key=f"k{n}")):
        ledger.verify()
        dp.Ledger(path).spend(TINY, label="x", key=f"k{n}")
        once = dp.Budget(rho=1, delta=1e-6).spend(TINY)._spent
        assert spent(ledger) == ((n + 1) * once[0],)


def running_sum(ledger, path):
    if path.exists():
        return dp.RunningSum.restore(path, ledger=ledger)
    factorization = dp.Factorization.square_root(4)
    return dp.RunningSum(factorization, noise_multiplier=99.0, shape=1, path=path, ledger=ledger)


def test_a_killed_running_sum_is_charged_once(memory):
    ledger = whole_ledger(memory / "budgets.db")

    def work(n):
        running_sum(dp.Ledger(memory / "budgets.db"), memory / f"{n}.npz").step([0.0])

    for n in killed_everywhere(work):
        check_charged_once(ledger, n, lambda n=n: running_sum(ledger, memory / f"{n}.npz"))


def agent(ledger, folder):
    algorithm = bandits.PrivateUCB(dimension=2, rounds=9, epsilon=0.01, delta=1e-6)
    if (folder / "agent.json").exists():
        return algorithm.restore(folder, ledger=ledger)
    return algorithm.start(ledger=ledger, folder=folder)


def test_a_killed_agent_is_charged_once(memory):
    ledger = reward_ledger(memory / "budgets.db")

    def work(n):
        agent(dp.Ledger(memory / "budgets.db"), memory / f"{n}").select([[1.0, 0.0]])

    for n in killed_everywhere(work):
        check_charged_once(ledger, n, lambda n=n: agent(ledger, memory / f"{n}"))


def reward_ledger(path):
    ledger = dp.Ledger.create(path)
    unit = "the reward of one round"
    budget = dp.Budget(epsilon=1, delta=1e-6, relation="REPLACE_ONE", unit=unit)
    ledger.open("rewards", budget, dataset="clicks")
    return ledger


def check_charged_once(ledger, n, go_on):
    """After a kill, continuing is charged exactly once, and commits."""
    go_on()
    kinds = [row["kind"] for row in ledger.entries()]
    assert kinds == ["open", *["reserve", "commit"] * (n + 1)]
    ledger.verify()


# Releases


def test_release_sum_spends_before_noise_is_drawn(ledger):
    clipped = dp.clip_records([0.5, 9.0], clip_norm=2.0)
    dp.release_sum(clipped, NOISE, ledger=ledger)
    assert spent(ledger) == dp.Budget(rho=1, delta=1e-6).spend(NOISE)._spent
    with pytest.raises(dp.BudgetExceeded):
        dp.release_sum(clipped, dp.Gaussian(1.0), ledger=ledger)
    keyed = ledger.using(key="once", label="weekly sum")
    dp.release_sum(clipped, NOISE, ledger=keyed)
    with pytest.raises(ValueError, match="key='once' to be new"):
        dp.release_sum(clipped, NOISE, ledger=keyed)
    assert [row["label"] for row in ledger.entries()] == ["all", "release_sum", "weekly sum"]
    with pytest.raises(ValueError, match="None with simulation=True"):
        dp.release_sum(clipped, NOISE, ledger=ledger, simulation=True, rng=1)
    with pytest.raises(TypeError, match="to be a Ledger"):
        dp.release_sum(clipped, NOISE, ledger="budgets.db")
    users = dp.clip_users([0.5, 9.0], ["a", "b"], clip_norm=2.0)
    with pytest.raises(ValueError, match="unit='one user' to be the budget's 'one record'"):
        dp.release_sum(users, NOISE, ledger=ledger)


def test_a_running_sum_is_restored_with_the_ledger_it_was_charged_to(ledger, tmp_path):
    path = tmp_path / "sum.npz"
    running_sum(ledger, path).step([0.0])
    with pytest.raises(ValueError, match="ledger=None to be the ledger that this state"):
        dp.RunningSum.restore(path)
    other = dp.Ledger.create(tmp_path / "other.db")
    with pytest.raises(ValueError, match="Pass the ledger that this state was charged to"):
        dp.RunningSum.restore(path, ledger=other)
    assert dp.RunningSum.restore(path, ledger=ledger).releases == 1
    unpaid = dp.RunningSum(dp.Factorization.square_root(4), noise_multiplier=9.0, shape=1)
    unpaid.save(tmp_path / "free.npz")
    with pytest.raises(ValueError, match="was not charged to a ledger"):
        dp.RunningSum.restore(tmp_path / "free.npz", ledger=ledger)
    path.rename(tmp_path / "moved.npz")
    with pytest.raises(ValueError, match="it was charged for a saved state"):
        running_sum(ledger, path)
    assert running_sum(ledger.using(key="second"), path).releases == 0
    assert len([row for row in ledger.entries() if row["kind"] == "commit"]) == 2


def test_one_reservation_covers_one_state(ledger, tmp_path, monkeypatch):
    """A state that was moved before its commit is refused after another one took its place."""
    path, commit_state = tmp_path / "sum.npz", dp.Ledger.commit_state

    def crash(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(dp.Ledger, "commit_state", crash)
    with pytest.raises(ZeroDivisionError):
        running_sum(ledger, path)
    monkeypatch.setattr(dp.Ledger, "commit_state", commit_state)
    path.rename(tmp_path / "moved.npz")
    running_sum(ledger, path).step([0.0])
    with pytest.raises(ValueError, match="to be not committed for another release"):
        dp.RunningSum.restore(tmp_path / "moved.npz", ledger=ledger)


def test_agents_need_a_budget_of_their_relation_and_unit(ledger, path, tmp_path):
    with pytest.raises(ValueError, match="Open a budget with relation='REPLACE_ONE'"):
        agent(ledger, tmp_path / "a")
    rewards = reward_ledger(path.with_name("rewards.db"))
    started = agent(rewards, tmp_path / "a")
    with pytest.raises(ValueError, match="to be the ledger of the start"):
        bandits.Agent.restore(tmp_path / "a")
    assert bandits.Agent.restore(tmp_path / "a", ledger=rewards).rounds == started.rounds
    before = spent(rewards)
    started.algorithm.start(ledger=rewards)
    assert spent(rewards) == (2 * before[0],)
    for free in (bandits.LinUCB(dimension=2, rounds=9), started.algorithm):
        with pytest.raises(ValueError, match="spends nothing"):
            free.start(ledger=rewards, simulation=True)


@pytest.mark.filterwarnings("ignore:At the same guarantee, sampling")
def test_sampled_rewards_without_a_proven_pair_of_the_budget_are_refused(path):
    # The agent's own account uses the pair of ADD_OR_REMOVE_ONE, which a budget does not know.
    sampled = bandits.AdaPrivateAmp(
        dimension=2, rounds=9, epsilon=1, delta=1e-6, sampling_probability=0.5
    )
    made = dp.Ledger.create(path)
    budget = dp.Budget(
        epsilon=9, delta=1e-5, notion="rdp", order=8, relation="REPLACE_ONE", unit=sampled.unit
    )
    made.open("rewards", budget, dataset="rewards")
    with pytest.raises(dp.UnsupportedMechanism, match="No proven bound"):
        sampled.start(ledger=made)
    assert spent(made) == (0,)


# PostgreSQL


def test_a_server_keeps_the_same_ledger(database):
    url = database("same")
    ledger = dp.Ledger.create(url)
    ledger.open("all", dp.Budget(rho=0.01, delta=1e-6), dataset="d")
    with pytest.raises(dp.LedgerError, match="to be new"):
        dp.Ledger.create(url)
    ledger.spend(NOISE, label="x", key="k")
    assert not ledger.spend(NOISE, label="x", key="k").is_new
    key = ledger.reserve(NOISE, label="x").key
    ledger.cancel(key, data_never_read="never ran")
    assert spent(dp.Ledger(url)) == dp.Budget(rho=1, delta=1e-6).spend(NOISE)._spent
    assert ledger.verify()["entries"] == 4
    with sa.create_engine(ledger._store.url, poolclass=sa.NullPool).connect() as connection:
        connection.exec_driver_sql("SELECT 1 FROM dpcalib_head FOR UPDATE")
        with pytest.raises(dp.LedgerError, match="held its lock for too long"):
            dp.Ledger(url, timeout=0.05).spend(NOISE, label="x")
        with pytest.raises(sa.exc.DatabaseError, match="append-only"):
            connection.exec_driver_sql("DELETE FROM dpcalib_entries")


def test_a_reading_role_cannot_spend(database):
    url = database("roles")
    ledger = dp.Ledger.create(url)
    ledger.open("all", dp.Budget(rho=0.01, delta=1e-6), dataset="d")
    with sa.create_engine(ledger._store.url, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql("CREATE ROLE auditor LOGIN")
        connection.exec_driver_sql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO auditor")
    reader = dp.Ledger(ledger._store.url.set(username="auditor").render_as_string())
    assert reader.verify()["entries"] == 1
    assert reader.summary() == ledger.summary()
    with pytest.raises(dp.LedgerError, match="Your role may not do this: nothing was spent"):
        reader.spend(NOISE, label="x")


# The command


def run(*words, code=0, command=command):
    done = CliRunner().invoke(command, [str(word) for word in words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout or done.stderr


def test_the_commands_keep_a_ledger(path, tmp_path):
    sizes = ("--dataset", "d", "--epsilon", 1, "--delta", 1e-6)
    assert "(1, 1e-06)-DP" in run("init", path, "all", *sizes)
    run("init", path, "team", *sizes, "--parent", "all")
    where = (path, "--budget", "team", "--label")
    assert "entry 3 of team" in run("spend", *where, "=weekly", "--noise-multiplier", 20)
    mechanism = json.dumps(dp.Gaussian(30.0).to_json())
    answer = json.loads(run("spend", *where, "b", "--mechanism", mechanism, "--json"))
    assert (answer["sequence"], answer["schema"]) == (4, "dpcalib.ledger.spend/1")
    assert "costs" in run("spend", *where, "c", "--noise-multiplier", 0.1, code=3)
    run("reserve", *where, "d", "--noise-multiplier", 20, "--key", "k")
    run("cancel", path, "k", "--data-never-read", "never ran")
    run("reserve", *where, "d", "--noise-multiplier", 20, "--key", "m")
    assert run("commit", path, "m") == "Committed m\n"
    table = run("show", path)
    assert "- team" in table
    rows = json.loads(run("show", path, "--json"))["budgets"]
    assert [row["budget"] for row in rows] == ["all", "team"]
    assert rows[0]["spent"] == rows[1]["spent"] == list(dp.Ledger(path).budget("all").spent)
    found = list(csv.DictReader(io.StringIO(run("export", path))))
    assert [row["kind"] for row in found].count("spend") == 2
    assert found[2]["label"] == "'=weekly"  # no formula in a spreadsheet
    lines = run("export", path, "--format", "json").splitlines()
    assert json.loads(lines[2])["mechanism"]["noise_multiplier"] == 20
    head = run("verify", path).split()[-1]
    assert "Verified" in run("verify", path, "--head", head)
    run("plot", path, tmp_path / "a.svg")
    assert "share of the budget" in (tmp_path / "a.svg").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("show", "none.db"),
        ("spend", "none.db", "--label", "x", "--noise-multiplier", "1"),
        ("spend", "none.db", "--label", "x"),
        ("spend", "none.db", "--label", "x", "--mechanism", "{"),
        ("commit", "none.db", "k"),
        ("init", "none.db", "all", "--dataset", "d", "--epsilon", "-1", "--delta", "1e-6"),
        ("plot", "none.db", "a.txt"),
    ],
)
def test_bad_input_exits_with_2(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert not done.stdout


def test_a_plan_is_checked_against_a_ledger(ledger, path, tmp_path):
    text = 'schema = "dpcalib.plan/1"\nname = "p"\n[budget]\ndelta = 1e-6\n[[part]]\nname = "a"\n'
    for noise, code, word in ((20, 0, "Within"), (1, 3, "Over")):
        plan = tmp_path / f"{noise}.toml"
        plan.write_text(text + f'type = "Gaussian"\nnoise_multiplier = {noise}\n')
        told = run(plan, "--ledger", path, code=code, command=check_command)
        assert told.startswith(f"{word} budget:\n- all: costs rho ")
    assert "Expected url=" in run(
        plan, "--ledger", tmp_path / "none.db", code=2, command=check_command
    )
    assert spent(ledger) == (0,)


def test_a_changed_database_prints_no_control_characters(ledger, path):
    change(path, "UPDATE dpcalib_budgets SET dataset = '[red]' || char(27) || '[2J'")
    assert "[red]\\x1b[2J" in run("show", path)


def test_import_loads_no_database_and_names_the_extra(tmp_path):
    program = """
import sys
import privacy as dp
dp.Ledger, dp.release_sum, dp.RunningSum
assert "sqlalchemy" not in sys.modules
sys.modules["sqlalchemy"] = None
try:
    dp.Ledger("a.db")
except ModuleNotFoundError as error:
    assert "pip install '.[ledger]'" in str(error), error
else:
    raise SystemExit("opened")
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
