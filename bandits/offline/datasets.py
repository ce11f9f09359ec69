"""Loaders for the public data sets MovieLens, Jester and Open Bandit.

Each loader reads `path`, a zip or an extracted folder, or else the data folder, to which it
downloads missing files. Ratings must have the published numbers of users and ratings.
"""

import contextlib
import csv
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any, get_args

import numpy as np
import numpy.typing as npt

from bandits import checks
from bandits.checks import Array, Indices
from bandits.logs import BanditLog
from bandits.offline.downloads import Files, Location, announce, data_folder, fetch
from bandits.offline.sources import JESTER, MOVIELENS, OPEN_BANDIT, Campaign, Edition, Policy

_MOVIELENS_FACTS: dict[Edition, tuple[int, int]] = {
    "latest-small": (610, 100_836),
    "25m": (162_541, 25_000_095),
    "32m": (200_948, 32_000_204),
}
"""Numbers of users and ratings."""
_JESTER_FACTS = {1: (24_983, 1_810_455), 2: (23_500, 1_708_993), 3: (24_938, 616_912)}
_OPEN_BANDIT_ITEMS: dict[Campaign, int] = {"all": 80, "men": 34, "women": 46}
_SAMPLE_ROWS = 10_000


@dataclass(frozen=True)
class Ratings:
    """Ratings of items by users.

    Attributes
    ----------
    name
        Name of the data set.
    user, item
        User and item of each rating, as indices into `user_ids` and `item_ids`, shape (n,).
    rating
        Ratings in [low, high], shape (n,).
    low, high
        Public range of ratings.
    user_ids, item_ids
        Ids in the data set of the users and items with a rating.
    """

    name: str
    user: Indices = field(repr=False)
    item: Indices = field(repr=False)
    rating: Array = field(repr=False)
    low: float
    high: float
    user_ids: Indices = field(repr=False)
    item_ids: Indices = field(repr=False)

    def __post_init__(self) -> None:
        remedy = "Pass the public range of ratings."
        low = checks.real("low", self.low, remedy, at_least=-1e50, at_most=1e50)
        width = checks.real("high", self.high, remedy, above=low, at_most=1e50) - low
        checks.real("high - low", width, remedy, at_least=1e-50)
        # messages must not reveal the numbers of users and ratings: private releases protect both
        rating = np.asarray(self.rating)
        wrong, remedy = rating.shape != np.shape(self.user), "Pass one number for each rating."
        checks.refuse_if(wrong or rating.ndim != 1, "rating", "...", "as long as user", remedy)
        checks.finite("rating", rating, rating.shape, "Pass one number for each rating.")
        for name, ids in (("user", self.user_ids), ("item", self.item_ids)):
            numbers = np.asarray(getattr(self, name))
            whole = numbers.dtype.kind in "iu" and numbers.shape == rating.shape
            if not (whole and np.all((numbers >= 0) & (numbers < len(ids)))):
                rule = f"indices into {name}_ids, one for each rating"
                remedy = "Number them from 0."
                raise ValueError(checks.expected(name, "...", rule, remedy))

    @property
    def users(self) -> int:
        """Number of users with a rating."""
        return len(self.user_ids)

    @property
    def items(self) -> int:
        """Number of items with a rating."""
        return len(self.item_ids)

    @property
    def scaled(self) -> Array:
        """The ratings mapped from [low, high] to [0, 1]."""
        scaled: Array = (self.rating - self.low) / (self.high - self.low)
        return scaled

    def most_rated(self, items: int, *, users: int | None = None) -> "Ratings":
        """Return the ratings of the most rated items, and then of the most active users.

        The selection depends on who rated what. If that is not public, the selection is itself a
        release with a privacy cost.
        """
        items = checks.count("items", items, "Pass how many items to keep.", at_most=self.items)
        kept = self._of(np.isin(self.item, _largest(np.bincount(self.item), items)))
        if users is None:
            return kept
        users = checks.count("users", users, "Pass how many users to keep.", at_most=kept.users)
        return kept._of(np.isin(kept.user, _largest(np.bincount(kept.user), users)))

    def complete(self) -> "Ratings":
        """Return the ratings of the users who rated every item."""
        counts = np.bincount(self.user, minlength=self.users)
        return self._of(counts[self.user] == self.items)

    def _of(self, kept: npt.NDArray[np.bool_]) -> "Ratings":
        users, user = np.unique(self.user[kept], return_inverse=True)
        items, item = np.unique(self.item[kept], return_inverse=True)
        user_ids, item_ids = self.user_ids[users], self.item_ids[items]
        rating = self.rating[kept]
        return replace(
            self, user=user, item=item, rating=rating, user_ids=user_ids, item_ids=item_ids
        )


def load_movielens(
    edition: Edition = "latest-small",
    *,
    path: Location | None = None,
    folder: Location | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
) -> Ratings:
    """Load the ratings of MovieLens, from 0.5 to 5 stars.

    Parameters
    ----------
    edition
        ``"latest-small"`` (610 users; a development set, not for reported results), ``"25m"`` or
        ``"32m"``.
    path
        A zip or an extracted folder; then nothing is downloaded.
    folder
        Data folder. None uses the variable DPCALIB_DATA_DIR or the user's cache folder.
    download_if_missing
        False raises `DataUnavailable` instead.
    progress
        Show a progress bar while downloading.

    Raises
    ------
    DataUnavailable
        The data are missing; the message gives the download addresses, the path and the hash.
    ValueError
        The contents are not this data set.
    """
    checks.one_of("edition", edition, get_args(Edition))
    source = MOVIELENS[edition]
    if path is None:
        extracted = data_folder(folder) / f"ml-{edition}"
        path = extracted if (extracted / "ratings.csv").exists() else None
    files = Files(
        path or fetch(source, folder, download_if_missing=download_if_missing, progress=progress)
    )
    with files.open("ratings.csv") as file:
        header = file.readline().strip()
        if header != b"userId,movieId,rating,timestamp":
            raise ValueError(_not_this(files, "the columns", header.decode("utf-8", "replace")))
        table = np.loadtxt(file, delimiter=",", usecols=(0, 1, 2))
    found = _ratings(f"MovieLens {edition}", table[:, 0], table[:, 1], table[:, 2], (0.5, 5.0))
    _assert_facts(files, found, *_MOVIELENS_FACTS[edition])
    announce(source.license, source.citation)
    return found


def load_jester(
    parts: Sequence[int] = (1,),
    *,
    path: Location | None = None,
    folder: Location | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
) -> Ratings:
    """Load Jester's first data set, ratings of 100 jokes from -10 to 10; requires xlrd.

    Parameters
    ----------
    parts
        Which of the three files to load: 1, 2, 3. ``load_jester().most_rated(40).complete()`` has
        the size of the set of Riquelme, Tucker and Snoek (2018): 19,181 users who rated 40 jokes.
    path
        A folder of the official zips or of their sheets, or one zip.
    folder, download_if_missing, progress
        As in `load_movielens`, which has the exceptions too.
    """
    remedy = "Pass the numbers of the files, such as (1,)."
    checks.refuse_if(not parts, "parts", parts, "nonempty", remedy)
    tables, options = [], {"download_if_missing": download_if_missing, "progress": progress}
    for part in parts:
        checks.one_of("parts", part, tuple(JESTER))
        source, name = JESTER[part], f"jester-data-{part}.xls"
        if path is not None:
            files, kept = Files(path).holding(name), None
        else:
            zipped = fetch(source, folder, **options)
            files, kept = Files(zipped), zipped.with_suffix(".npy")
        if kept is not None and kept.exists():  # reading a spreadsheet takes seconds
            sheet = np.load(kept, allow_pickle=False)
        else:
            with files.open(name) as file:
                sheet = _sheet(file.read())
            if kept is not None:
                _keep(kept, sheet)
        rated = sheet[:, 1:] != 99
        counts = sheet[:, 0].astype(np.int64)
        if (len(sheet), int(rated.sum())) != _JESTER_FACTS[part] or (rated.sum(1) != counts).any():
            raise ValueError(_not_this(files, "users and ratings", sheet.shape))
        tables.append(np.where(rated, sheet[:, 1:], np.nan))
        announce(source.license, source.citation)
    table = np.concatenate(tables)
    user, item = np.nonzero(~np.isnan(table))
    return _ratings("Jester 1", user, item, table[user, item], (-10.0, 10.0))


def _keep(path: Path, sheet: Array) -> None:
    """Store a sheet, unless the data folder is write-protected."""
    if not path.parent.stat().st_mode & 0o200:  # the superuser could write in spite of the mode
        return
    beside = path.with_suffix(f".{os.getpid()}.partial.npy")
    with contextlib.suppress(OSError):
        np.save(beside, sheet)
        beside.replace(path)


def _sheet(content: bytes) -> Array:
    with checks.installed("data"):
        import xlrd
    sheet = xlrd.open_workbook(file_contents=content).sheet_by_index(0)
    return np.array([sheet.row_values(row) for row in range(sheet.nrows)], dtype=float)


def load_open_bandit(
    policy: Policy = "random",
    campaign: Campaign = "all",
    *,
    path: Location | None = None,
    folder: Location | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
) -> BanditLog:
    """Load Open Bandit clicks on fashion items: the small sample, or the full data from `path`.

    Parameters
    ----------
    policy
        Logging policy: ``"random"``, or ``"bts"``, Bernoulli Thompson sampling.
    campaign
        ``"all"`` (80 items), ``"men"`` (34) or ``"women"`` (46).
    path
        A zip or an extracted folder. Download the full data (26 million rows) yourself from
        https://research.zozo.com/data.html; we know of no published hash to verify them.
    folder, download_if_missing, progress
        As in `load_movielens`, which has the exceptions too.
    """
    checks.one_of("policy", policy, get_args(Policy))
    checks.one_of("campaign", campaign, get_args(Campaign))
    place = f"{policy}/{campaign}/{campaign}.csv"
    source = OPEN_BANDIT[policy, campaign]
    if path is None:
        zipped = data_folder(folder) / "open-bandit-small" / "obd_small.zip"
        path = zipped if zipped.exists() else None
    if path is not None:
        files = Files(path).holding(place)
    else:
        fetched = fetch(source, folder, download_if_missing=download_if_missing, progress=progress)
        files = Files(fetched.parents[2])
    with files.open(place) as file:
        log = _bandit_log(files, file, campaign, f"Open Bandit {policy}/{campaign}")
    announce(source.license, source.citation)
    return log


def _bandit_log(files: Files, file: IO[bytes], campaign: Campaign, name: str) -> BanditLog:
    rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8"))
    header = next(rows)
    numbers = ("item_id", "position", "click", "propensity_score")
    features = [f"user_feature_{i}" for i in range(4)]
    missing = {*numbers, *features} - set(header)
    if missing:
        raise ValueError(_not_this(files, "the columns", sorted(missing)))
    places = [header.index(column) for column in (*numbers, *features)]
    kept = [[row[place] for place in places] for row in rows]
    item, position, click, propensity = np.array([row[:4] for row in kept], dtype=float).T
    texts = np.array([row[4:] for row in kept], dtype=object)
    users = np.stack([np.unique(column, return_inverse=True)[1] for column in texts.T], axis=1)
    actions = _OPEN_BANDIT_ITEMS[campaign]
    whole = len(kept) >= _SAMPLE_ROWS and set(np.unique(item)) == set(range(actions))
    if not (whole and np.isin(click, (0, 1)).all() and (propensity > 0).all()):
        raise ValueError(_not_this(files, "rows and items", (len(kept), len(np.unique(item)))))
    return BanditLog(
        name=name,
        action=item,
        reward=click,
        propensity=propensity,
        actions=actions,
        position=position.astype(np.int64) - int(position.min()),
        users=users,
    )


def _ratings(
    name: str, user: Any, item: Any, rating: Array, low_high: tuple[float, float]
) -> Ratings:
    users, numbered_user = np.unique(np.asarray(user, dtype=np.int64), return_inverse=True)
    items, numbered_item = np.unique(np.asarray(item, dtype=np.int64), return_inverse=True)
    return Ratings(name, numbered_user, numbered_item, rating, *low_high, users, items)


def _assert_facts(files: Files, found: Ratings, users: int, ratings: int) -> None:
    shown, pairs = (found.users, len(found.rating)), found.user * found.items + found.item
    right = shown == (users, ratings) and len(np.unique(pairs)) == ratings
    if not (right and np.isin(2 * found.rating, np.arange(1, 11)).all()):
        raise ValueError(_not_this(files, f"the {users} users and {ratings} ratings", shown))


def _largest(counts: Indices, size: int) -> Indices:
    return np.argsort(-counts, kind="stable")[:size]


def _not_this(files: Files, facts: str, found: object) -> str:
    remedy = "Pass the complete, unchanged data set."
    rule = f"the published data set, with {facts}"
    return checks.expected(f"contents of {files.path}", found, rule, remedy)
