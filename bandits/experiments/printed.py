"""Numbers that the preprint prints, the verdicts on them, and their coverage by our tables."""

import csv
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

from bandits.experiments.tables import Row, Setup

_SIGMAS = 2.0
ORDER = ("reproduced", "sign only", "not reproduced", "contradicts", "too short")
"""Verdicts, the most favorable to the preprint first."""
_REPRODUCED, _SIGN_ONLY, _NOT_REPRODUCED, _CONTRADICTS, _TOO_SHORT = ORDER


@dataclass(frozen=True)
class Printed:
    """One printed number, and the rows of ours to compare it with.

    Attributes
    ----------
    place, says
        Table, row and column or section of the preprint, and the meaning of the number.
    value, error
        As printed. The error of a gain is that of both methods, ``a|b``, or a p-value, ``p<0.01``;
        it is empty if none is printed.
    seeds
        Number of seeds of the preprint's mean.
    kind
        ``"number"`` agrees within two standard errors; so does ``"gain"``, which has a sign too.
        ``"p"`` is the p-value of a positive difference, ``"least"`` and ``"most"`` bound our
        number, ``"epsilon"`` bounds the true epsilon, and ``"digits"`` is a computed number, which
        agrees if it rounds to the printed digits.
    table, setting, subject, measure
        Our rows; ``|`` separates readings of the preprint, and the most favorable verdict counts.
    reason
        Why there is no row, if there is none.
    """

    place: str
    says: str
    value: str
    error: str
    seeds: str
    kind: str
    table: str
    setting: str
    subject: str
    measure: str
    reason: str

    @property
    def keys(self) -> list[tuple[str, str, str]]:
        """Keys of the rows, one for each reading."""
        readings = (text.split("|") for text in (self.setting, self.subject, self.measure))
        return [(setting, subject, measure) for setting, subject, measure in product(*readings)]

    @property
    def shown(self) -> str:
        if "p" in self.error or not self.error:
            return f"{self.value} ({self.error})" if self.error else self.value
        return f"{self.value} ± {self.error.replace('|', ', ')}"

    def rank(self, row: Row) -> tuple[int, float]:
        """Return the rank of a row among the readings: by verdict, then by distance."""
        return ORDER.index(self.verdict(row)), abs(row.ours - float(self.value))

    def standard_error(self, row: Row) -> float:
        """Return the printed number's standard error, else ours for its number of seeds."""
        from scipy.special import stdtrit

        seeds = int(self.seeds or 12)
        if not self.error:
            return row.error * math.sqrt(row.replicates / seeds)
        if "p" in self.error:
            reach, p = abs(float(self.value)), float(self.error[2:])
        else:
            reach, p = math.hypot(*map(float, self.error.split("|"))), 0.05
        return float(reach / stdtrit(seeds - 1, 1 - p / 2))

    def verdict(self, row: Row) -> str:
        """Return the verdict on this number from a row."""
        value, ours, reach = float(self.value), row.ours, _SIGMAS * row.error
        both = _SIGMAS * math.hypot(row.error, self.standard_error(row))
        gain = math.copysign(1, value) * ours
        agrees, fails = abs(ours - value) <= both, _CONTRADICTS
        match self.kind:
            case "epsilon":
                true = ours if row.true_epsilon is None else row.true_epsilon
                good = true <= value * (1 + 1e-9)
            case "least":
                good = ours >= value - both
            case "most":
                good = ours <= value + both
            case "gain":
                if gain > reach and not agrees:
                    return _SIGN_ONLY
                good = agrees and gain >= -reach
                fails = _NOT_REPRODUCED if agrees or gain >= -reach else _CONTRADICTS
            case "p":
                good = ours > 0 and p_value(row) <= value
                fails = _NOT_REPRODUCED if ours >= -reach else _CONTRADICTS
            case "digits":
                decimals = len(self.value.partition(".")[2])
                good = math.isfinite(ours) and round(ours, decimals) == value
                fails = _NOT_REPRODUCED
            case _:
                good, fails = agrees, _NOT_REPRODUCED
        return _REPRODUCED if good else fails


def p_value(row: Row) -> float:
    """Return the two-sided p-value of a paired difference, by the t-test."""
    from scipy.special import stdtr

    t = abs(row.ours) / row.error if row.error else math.inf
    return float(2 * stdtr(row.replicates - 1, -t))


@cache
def printed() -> tuple[Printed, ...]:
    """Return the numbers listed in ``printed.csv``."""
    with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        return tuple(Printed(**line) for line in csv.DictReader(file))


def judged(table: str, rows: Iterable[Row], setup: Setup) -> tuple[Row, ...]:
    """Return the rows with the preprint's numbers and the verdicts; quick runs are too short."""
    # if several lines have one key, the first is kept
    lines = {key: line for line in printed()[::-1] if line.table == table for key in line.keys}

    def with_verdict(row: Row) -> Row:
        line = lines.get(row.key)
        if line is None:
            return row
        short = setup.quick and row.replicates > 0 and line.kind != "epsilon"
        return replace(row, paper=line.shown, verdict=_TOO_SHORT if short else line.verdict(row))

    return tuple(map(with_verdict, rows))


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a table's CSV file."""
    with path.open(newline="", encoding="utf-8") as file:
        _, *lines = csv.reader(text for text in file if not text.startswith("#"))
    rows = []
    for setting, subject, measure, ours, error, count, claimed, true, *_ in lines:
        numbers = float(ours), float(error or 0), int(count or 0)
        epsilons = float(claimed) if claimed else None, float(true) if true else None
        rows.append(Row(setting, subject, measure, *numbers, *epsilons))
    return rows


def coverage(folder: Path) -> list[tuple[Printed, Row | None, str]]:
    """Return each printed number with our row and the verdict, or no row and the reason.

    Of several readings, the row is that of the most favorable verdict. Raises ValueError if a
    number has neither a row in `folder` nor a reason.
    """
    paths = folder.glob("*.csv")
    rows = {(path.stem, *row.key): row for path in paths for row in read_rows(path)}
    found: list[tuple[Printed, Row | None, str]] = []
    missing = []
    for line in printed():
        read = [rows[line.table, *key] for key in line.keys if (line.table, *key) in rows]
        if read:
            best = min(read, key=line.rank)
            found.append((line, best, line.verdict(best)))
        elif line.reason:
            found.append((line, None, line.reason))
        else:
            missing.append(f"{line.place}: {line.shown} ({line.says})")
    if missing:
        remedy = "Add them for:\n" + "\n".join(missing)
        raise ValueError(f"Expected a row or a reason for each number. {remedy}")
    return found


def counted(found: list[tuple[Printed, Row | None, str]]) -> str:
    """Return the counts of a coverage as text."""
    verdicts = Counter(verdict for _, row, verdict in found if row is not None)
    shown = ", ".join(f"{verdicts[name]} {name}" for name in ORDER if verdicts[name])
    without = len(found) - verdicts.total()
    return f"{len(found)} printed numbers: {shown}; {without} without a verdict"
