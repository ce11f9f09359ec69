"""Clip records and users to exact norm bounds, which bound the sensitivity of a sum.

A user's contribution is a function of that user's rows and of public values only, to the last bit.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from privacy import checks
from privacy.numerics.exclusive import Right
from privacy.numerics.rounding import ULP, round_up
from privacy.release import _tables
from privacy.release._tables import Floats, Integers, NotFinite

Norm = Literal["l1", "l2", "linf"]  # from the largest norm to the smallest


@dataclass(frozen=True)
class Contributions:
    """Clipped rows, one for each record or user, and a bound on the norm of each.

    Build it with `clip_records`, `clip_users` or `LifetimeCap.clip_users`; by hand, only the norms
    are checked. It contains the data and is not private.

    `values` has shape (n,) or (n, d), read-only. `bound` is the clip norm C, at least the exact
    norm of each row: the sum changes by at most C if a row is added, removed or zeroed, and by 2C
    if one is replaced. `norm` is ``"l1"``, ``"l2"`` or ``"linf"``. `unit`, the unit of privacy, is
    ``"record"`` or ``"user"``, one per row. `users` has the user of each row, for the latter.
    """

    values: Floats = field(repr=False)
    bound: float
    norm: Norm
    unit: Literal["record", "user"]
    users: tuple[Any, ...] = field(default=(), repr=False)
    _life: Right | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        bound, norm = clip_norm_of(self.bound), norm_of(self.norm)
        # a copy: another view of the memory could change the values after the check
        values = np.array(_tables.rows_of(self.values, None))
        fraction, exponent = math.frexp(bound)
        for part in _blocks(values):
            with np.errstate(over="ignore"):
                sizes = norms(np.ldexp(columns_of(values[part]), -exponent), norm)
            if not (sizes <= fraction).all():  # refuses NaN too
                remedy = "Clip them: clip_records(data, clip_norm=...) or clip_users(...)."
                raise ValueError(checks.expected("values", "<some row>", "within bound", remedy))
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def __reduce__(self) -> Any:
        return Contributions, (self.values, self.bound, self.norm, self.unit, self.users)

    @property
    def has_cap_right(self) -> bool:
        """Whether a `LifetimeCap` bounds a user's L2 norm in all releases together by `bound`.

        It covers one release: False once released, and in copies, pickles, forks and ``replace``.
        """
        return bool(self._life)

    def with_cap_right(self) -> "Contributions":
        """Return self with the right to one release under a `LifetimeCap`."""
        object.__setattr__(self, "_life", Right())
        return self

    def use_cap_right(self) -> bool:
        """Return `has_cap_right` and set it to False: the cap covers one release."""
        return self._life is not None and self._life.use()

    def bound_in(self, norm: Norm) -> float:
        """Return the bound of a row in another norm (times up to sqrt(d) or d), rounded up."""
        dimension = self.values.shape[1] if self.values.ndim == 2 else 1
        # linf <= l2 <= l1, and l2 <= sqrt(d) linf, l1 <= sqrt(d) l2
        roots = get_args(Norm).index(self.norm) - get_args(Norm).index(norm_of(norm))
        if roots <= 0 or dimension == 1:
            return self.bound
        return round_up(self.bound * round_up(math.sqrt(dimension) ** roots))


def clip_records(
    data: Any,
    *,
    clip_norm: float,
    norm: Norm = "l2",
    columns: Sequence[str] | None = None,
    not_finite: NotFinite = "zero",
) -> Contributions:
    """Clip every record: x * min(1, C / ||x||), or coordinate by coordinate for ``"linf"``.

    The exact norm of each row of floats is at most C.

    Parameters
    ----------
    data, columns
        An array of shape (n,) or (n, d), or a pandas or polars frame and its columns to use, by
        default all. A row is a record.
    clip_norm
        The public bound C > 0, in the data's unit. `choose_clip_norm` chooses one privately.
    norm
        ``"l2"`` for Gaussian noise, ``"l1"`` for Laplace noise. With another norm the noise may
        grow with the dimension (see `Contributions.bound_in`).
    not_finite
        With ``"zero"``, a NaN or an infinity contributes 0. ``"raise"`` raises an error, which is
        an output that depends on the data.
    """
    bound = clip_norm_of(clip_norm)
    rows = _tables.rows_of(data, columns)
    return Contributions(clip_rows(rows, bound, norm, not_finite), bound, norm, "record")


def clip_users(
    data: Any,
    users: Any,
    *,
    clip_norm: float,
    norm: Norm = "l2",
    columns: Sequence[str] | None = None,
    not_finite: NotFinite = "zero",
) -> Contributions:
    """Sum each user's rows and clip the sum: c_u * min(1, C / ||c_u||).

    The result has one row per user, which depends only on that user's rows and their order. A
    user's releases compose, unless a `LifetimeCap` bounds them together. `users` is an array of n
    whole numbers or strings, one for each row, or the name of a frame's column. The others are as
    in `clip_records`; a user's sum that overflows counts as not finite.
    """
    bound = clip_norm_of(clip_norm)
    sums, ids = sums_by_user(data, users, columns, not_finite)
    return Contributions(clip_rows(sums, bound, norm), bound, norm, "user", tuple(ids))


def limit_contributions(
    users: Any, *, max_contributions: int, seed: int | None = None
) -> npt.NDArray[np.bool_]:
    """Return which rows to keep, shape (n,), so that no user has more than `max_contributions`.

    With records clipped to C, a user contributes at most max_contributions * C: account for
    ``user_level(mechanism, max_contributions=...)``. `users` is an array or a series of n users,
    one for each row. A `seed` of None keeps each user's first rows. A whole number, which may be
    public, keeps pseudorandom ones: a function of the seed, the user and the row's index among the
    user's rows.
    """
    remedy = "Pass the largest number of rows per user."
    most = checks.count("max_contributions", max_contributions, remedy)
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
        remedy = "Leave seed out to keep each user's first rows."
        raise TypeError(checks.expected("seed", seed, "a whole number", remedy))
    codes, ids = _tables.users_of(None, users)
    rank = _ranks(codes, np.argsort(codes, kind="stable"))
    if seed is not None:
        keys = np.array([_key(seed, user) for user in ids], dtype=np.uint64)
        by_key = np.argsort(_mixed(keys[codes] + rank.astype(np.uint64)), kind="stable")
        rank = _ranks(codes, by_key[np.argsort(codes[by_key], kind="stable")])
    return np.asarray(rank < most)


def _ranks(codes: Integers, by_user: npt.NDArray[np.intp]) -> Integers:
    counts = np.bincount(codes)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    ranks = np.empty(codes.size, dtype=np.int64)
    ranks[by_user] = np.arange(codes.size) - starts
    return ranks


def _key(seed: int, user: int | str) -> int:
    return int.from_bytes(blake2b(f"{seed!r} {user!r}".encode(), digest_size=8).digest(), "little")


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return the finalizer of splitmix64 (Steele, Lea and Flood 2014), a bijection."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def sums_by_user(
    data: Any, users: Any, columns: Sequence[str] | None, not_finite: NotFinite
) -> tuple[Floats, list[Any]]:
    """Return each user's sum, added in the order of the user's rows, and the users."""
    rows = _tables.rows_of(data, columns, without=users if isinstance(users, str) else None)
    rows = _tables.finite(rows, not_finite)
    codes, ids = _tables.users_of(data, users)
    shown, remedy = "<another number of them>", "Pass one user for each row."  # private
    checks.refuse_if(len(codes) != len(rows), "users", shown, "one for every row", remedy)
    # bincount adds the rows in sequence. The rounding of a pairwise or parallel sum would depend
    # on the rows' positions in the table, and so on the rows of other users.
    sums: list[Any] = [np.bincount(codes, column, len(ids)) for column in np.atleast_2d(rows.T)]
    total = sums[0] if rows.ndim == 1 else np.stack(sums, axis=1)
    return _tables.finite(total, not_finite), ids


def clip_rows(
    rows: Floats, bound: float | Floats, norm: Norm, not_finite: NotFinite = "zero"
) -> Floats:
    """Return rows whose exact norm is at most `bound` (one for all, or one for each row).

    With m the largest |coordinate| and y = x / m in floats, ||y|| is in [1, d]: nothing overflows
    or underflows. Its value, raised by more than all rounding errors, is an upper bound. Each y_i
    times a rounded-down factor, moved one float toward zero, is at most the product.
    """
    norm_of(norm)
    bounds = np.broadcast_to(bound, len(rows))
    clipped = np.empty(rows.shape[::-1])  # contiguous columns
    for part in _blocks(rows):
        columns = columns_of(_tables.finite(rows[part], not_finite))
        if norm == "linf" or len(columns) == 1:
            columns = np.clip(columns, -bounds[part], bounds[part])
        else:
            columns = _shortened(columns, bounds[part], norm)
        clipped.T[part] = columns.T if rows.ndim == 2 else columns[0]
    return clipped.T


def _shortened(columns: Floats, bounds: Floats, norm: Norm) -> Floats:
    largest = np.abs(columns).max(axis=0)
    largest[largest == 0] = 1.0
    scaled = columns / largest
    # twice the slack, so that the upper bounds that `norms` returns for the result pass the check
    sizes = norms(scaled, norm) * (1 + 2 * _slack(columns))
    with np.errstate(over="ignore"):
        outside = np.flatnonzero(sizes > np.nextafter(bounds / largest, 0.0))
    shorter = scaled[:, outside] * np.nextafter(bounds[outside] / sizes[outside], 0.0)
    # the next float toward zero; faster than np.nextafter
    bits = shorter.view(np.int64)
    bits -= shorter != 0
    columns = columns.copy()
    columns[:, outside] = shorter
    return columns


def _blocks(rows: Floats) -> Iterator[slice]:
    count = max(2**11, 2**13 // max(1, rows[:1].size))
    yield from (slice(start, start + count) for start in range(0, len(rows), count))


def columns_of(rows: Floats) -> Floats:
    """Return the columns of rows of shape (n,) or (n, d) as a contiguous (d, n) array."""
    return np.ascontiguousarray(np.atleast_2d(rows.T))


def norms(columns: Floats, norm: Norm) -> Floats:
    """Return upper bounds of the norms of rows, of relative error (d + 16) 2^-52."""
    size = np.abs(columns)
    if norm == "linf" or len(columns) == 1:
        return np.asarray(size.max(axis=0))
    total = np.sqrt(sums_of_rows(columns * columns)) if norm == "l2" else sums_of_rows(size)
    return np.asarray(total * (1 + _slack(columns)))


def _slack(columns: Floats) -> float:
    return (len(columns) + 16) * ULP


def sums_of_rows(columns: Floats) -> Floats:
    """Return each row's sum by columns: NumPy's order of summation depends on other rows."""
    total = np.zeros(columns.shape[1])
    for column in columns:
        total += column
    return total


def clip_norm_of(value: Any) -> float:
    """Check a clip norm."""
    remedy = "Pass the largest contribution of one record (user), in the data's unit."
    return checks.real("clip_norm", value, remedy, above=0)


def norm_of(value: Any) -> Norm:
    """Check the name of a norm."""
    remedy = "Pass 'l2' for Gaussian noise, 'l1' for Laplace noise."
    checks.one_of("norm", value, get_args(Norm), remedy)
    checked: Norm = value
    return checked
