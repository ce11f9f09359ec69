"""Tables of our results, the preprint's numbers and computed verdicts."""

import csv
import io
import math
from dataclasses import dataclass, fields
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from bandits.offline.downloads import Location


@dataclass(frozen=True)
class Setup:
    """Size of the runs, and folders.

    `quick` has fewer and shorter runs: all tables take minutes, too short to judge the preprint's
    numbers. `jobs` is the number of processes, which does not affect results. `data` is the folder
    of data sets, and `download` downloads missing ones. `cache` is the folder for simulation
    results; None disables caching.
    """

    quick: bool = False
    jobs: int = 1
    data: Location | None = None
    download: bool = False
    cache: Location | None = None

    @property
    def rounds(self) -> int:
        """Rounds per run; in a full run the preprint's 10,000."""
        return 2_000 if self.quick else 10_000

    @property
    def replicates(self) -> int:
        return 16 if self.quick else 48

    @property
    def epsilons(self) -> tuple[float, ...]:
        """Values of epsilon; in a full run those of the preprint."""
        return (1.0,) if self.quick else (0.5, 1.0, 2.0, 5.0)


@dataclass(frozen=True)
class Row:
    """One result.

    Attributes
    ----------
    setting, subject, measure
        Conditions, subject and name of the measured quantity.
    ours, error, replicates
        Our number, its standard error and the number of replicates; 0 for a computed number.
    claimed_epsilon, true_epsilon
        Claimed and true epsilon at the table's delta.
    paper, verdict
        The preprint's number and the verdict on it; `printed` sets both.
    """

    setting: str
    subject: str
    measure: str
    ours: float
    error: float = 0.0
    replicates: int = 0
    claimed_epsilon: float | None = None
    true_epsilon: float | None = None
    paper: str = ""
    verdict: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.setting, self.subject, self.measure


@dataclass(frozen=True)
class Table:
    """Rows, and the choices made to compute them."""

    name: str
    title: str
    choices: tuple[str, ...]
    rows: tuple[Row, ...]

    def to_csv(self) -> str:
        """Return the rows as CSV, with numbers to four digits (epsilons rounded up)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        for row in self.rows:
            writer.writerow(_cells(row))
        return out.getvalue()

    def write(self, folder: Path, about: str = "") -> None:
        """Write ``NAME.csv``, with a first line about its origin if given."""
        folder.mkdir(parents=True, exist_ok=True)
        text = f"# {about}\n" * bool(about) + self.to_csv()
        (folder / f"{self.name}.csv").write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        epsilons = ["eps claimed", "eps true"]
        head = ["", "subject", "measure", "ours", "s.e.", "worlds", *epsilons, "paper", ""]
        rows = [_cells(row) for row in self.rows]
        widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
        # omit empty columns, so that the others fit on the screen
        told = [i for i in range(1, len(head)) if any(row[i] for row in rows)]

        def line(cells: list[str]) -> str:
            return "  ".join(cells[i].ljust(widths[i]) for i in told).rstrip()

        shown = [line(head)]
        for setting, same in groupby(rows, key=itemgetter(0)):
            shown += ["", setting, *map(line, same)]
        return "\n".join([self.title, "", *shown, "", *(f"- {choice}" for choice in self.choices)])


def _cells(row: Row) -> list[str]:
    return [
        row.setting,
        row.subject,
        row.measure,
        up(row.ours) if row.ours == row.true_epsilon else f"{row.ours:.4g}",
        f"{row.error:.2g}" if row.error else "",
        str(row.replicates or ""),
        "" if row.claimed_epsilon is None else f"{row.claimed_epsilon:.4g}",
        "" if row.true_epsilon is None else up(row.true_epsilon),
        row.paper,
        row.verdict,
    ]


def up(value: float) -> str:
    """Return an epsilon to four digits, rounded up."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.4g}"
