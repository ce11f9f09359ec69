"""Tables of our results, the preprint's numbers and computed verdicts."""

import csv
import io
import math
from dataclasses import dataclass, fields
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from bandits.offline.downloads import Location

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEEDS = 12
"""Number of seeds in the preprint, which prints no standard errors."""
_SIGMAS = 2.0


@dataclass(frozen=True)
class Setup:
    """Size of the runs, and folders.

    Parameters
    ----------
    quick
        Fewer and shorter runs, all tables in minutes; too short to judge the preprint's numbers.
    jobs
        Number of processes; it does not affect results.
    data, download
        Folder of data sets, and whether missing ones are downloaded.
    cache
        Folder for simulation results; None disables caching.
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
        return 16 if self.quick else 96

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
    ours, error
        Our number and its standard error over replicates, 0 for a computed number.
    paper
        The preprint's number, or None if we know of none.
    claimed_epsilon, true_epsilon
        Claimed and true epsilon at the table's delta.
    verdict
        ``"reproduced"``, ``"not reproduced"``, ``"contradicts"``, or empty.
    """

    setting: str
    subject: str
    measure: str
    ours: float
    error: float = 0.0
    paper: float | None = None
    claimed_epsilon: float | None = None
    true_epsilon: float | None = None
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """Rows, and the choices made to compute them."""

    name: str
    title: str
    choices: tuple[str, ...]
    rows: tuple[Row, ...]
    figure: "Figure | None" = None

    def to_csv(self) -> str:
        """Return the rows as CSV, with numbers to four digits (epsilons rounded up)."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([field.name for field in fields(Row)])
        for row in self.rows:
            writer.writerow(_cells(row))
        return out.getvalue()

    def write(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.csv").write_text(self.to_csv(), encoding="utf-8")
        if self.figure is not None:
            self.figure.savefig(folder / f"{self.name}.svg", metadata={"Date": None})

    def __str__(self) -> str:
        epsilons = ["eps claimed", "eps true"]
        head = ["", "subject", "measure", "ours", "s.e.", "paper", *epsilons, ""]
        rows = [_cells(row) for row in self.rows]
        widths = [max(len(line[i]) for line in (head, *rows)) for i in range(len(head))]
        # omit empty columns, so that the others fit on the screen
        told = [i for i in range(1, len(head)) if any(row[i] for row in rows)]

        def line(cells: list[str]) -> str:
            return "  ".join(cells[i].ljust(widths[i]) for i in told).rstrip()

        shown = [line(head)]
        for setting, same in groupby(rows, key=itemgetter(0)):
            shown += ["", setting, *map(line, same)]
        notes = [f"- {choice}" for choice in self.choices]
        return "\n".join([self.title, "", *shown, "", *notes])


def _cells(row: Row) -> list[str]:
    return [
        row.setting,
        row.subject,
        row.measure,
        up(row.ours) if row.ours == row.true_epsilon else f"{row.ours:.4g}",
        f"{row.error:.2g}" if row.error else "",
        "" if row.paper is None else f"{row.paper:.4g}",
        "" if row.claimed_epsilon is None else f"{row.claimed_epsilon:.4g}",
        "" if row.true_epsilon is None else up(row.true_epsilon),
        row.verdict,
    ]


def up(value: float) -> str:
    """Return an epsilon to four digits, rounded up."""
    if not math.isfinite(value) or value == 0:
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 3)
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.4g}"


def reproduced(ours: float, error: float, replicates: int, paper: float) -> str:
    """Return whether two numbers agree within two standard errors of their difference.

    The preprint's standard error is assumed to be that of 12 seeds with our variance per replicate.
    """
    theirs = error * math.sqrt(replicates / SEEDS)
    close = abs(ours - paper) <= _SIGMAS * math.hypot(error, theirs)
    return "reproduced" if close else "not reproduced"


def claimed(difference: float, error: float) -> str:
    """Return whether the results support the claim that a difference is above 0."""
    if difference > _SIGMAS * error:
        return "reproduced"
    return "contradicts" if difference < -_SIGMAS * error else "not reproduced"


def spent(claimed_epsilon: float, true_epsilon: float) -> str:
    """Return whether a claimed epsilon is at least the true one."""
    return "reproduced" if true_epsilon <= claimed_epsilon * (1 + 1e-9) else "contradicts"
