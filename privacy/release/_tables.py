"""Rows and users from NumPy arrays and pandas or polars frames."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from privacy import checks

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
NotFinite = Literal["zero", "raise"]

_USERS = "Pass one user for every row, a whole number or a string, or the name of a frame's column."

_FLOAT_USERS = (
    "Drop the rows without a user, then convert the column to integers, such as "
    "users.astype('int64') in pandas: missing values turn integers into floats."
)


def rows_of(data: Any, columns: Sequence[str] | None, *, without: str | None = None) -> Floats:
    """Return an array, a series, or a frame's columns (default: all but `without`) as numbers."""
    remedy = "Pass numbers: an array of shape (n,) or (n, d), or a frame with numeric columns."
    if isinstance(columns, str):
        raise TypeError(checks.expected("columns", columns, "a list of names", "Pass a list."))
    frame = None
    if not _is_array(data):
        data = _native("data", data, remedy)
        if hasattr(data, "columns"):
            data = frame = data.select(_chosen(list(data.columns), columns, without))
            columns = None
        data = data.to_numpy()
    try:
        rows = np.asarray(data)
    except ValueError:
        shown = "<rows of several lengths>"
        raise ValueError(checks.expected("data", shown, "rows of numbers", remedy)) from None
    alone = "Pass an array with only these columns."
    checks.refuse_if(columns is not None, "columns", columns, "None for an array", alone)
    if rows.dtype.kind not in "biuf" or rows.ndim not in {1, 2} or 0 in rows.shape[1:]:
        schema = {} if frame is None else frame.schema
        words = [name for name, kind in schema.items() if not kind.is_numeric()]
        checks.refuse_if(words, "columns", words, "numeric", "Pass columns=[...] without them.")
        shown = _kind_of(rows)  # the data is private
        raise ValueError(checks.expected("data", shown, "rows of numbers", remedy))
    with np.errstate(over="ignore"):  # a wider float may overflow to infinity
        return rows.astype(np.float64, copy=False)


def _kind_of(array: npt.NDArray[Any]) -> str:
    """Return a description of an array without its number of rows, which is private."""
    sides = ", ".join(["n", *map(str, array.shape[1:])][: array.ndim])
    return f"<{array.dtype.type.__name__} of shape ({sides})>"


def _chosen(known: list[str], columns: Sequence[str] | None, without: str | None) -> list[str]:
    """Return the columns to sum. Column names are public and may be in errors."""
    remedy = f"Use names of its columns: {', '.join(map(str, known))}."
    if without is not None and without not in known:
        raise ValueError(checks.expected("users", without, "a column of the frame", remedy))
    if columns is None:
        return [name for name in known if name != without]
    unknown = [name for name in columns if name not in known]
    checks.refuse_if(unknown, "columns", unknown, "columns of the frame", remedy)
    return list(columns)


def finite(values: Floats, not_finite: NotFinite) -> Floats:
    remedy = "Pass 'zero' to replace NaN and infinities by 0, 'raise' for an error."
    checks.one_of("not_finite", not_finite, get_args(NotFinite), remedy)
    good = np.isfinite(values)
    if good.all():
        return values
    remedy = "Pass not_finite='zero'. Note: this error reveals that non-finite values exist."
    checks.refuse_if(not_finite == "raise", "data", "<some NaN or infinity>", "finite", remedy)
    return np.where(good, values, 0.0)


def users_of(data: Any, users: Any) -> tuple[Integers, list[Any]]:
    """Return a number 0 ... k - 1 for each row's user, from rows or a column, and the users."""
    if isinstance(users, str):
        frame = None if _is_array(data) else _native("data", data, _USERS)
        if frame is None or users not in getattr(frame, "columns", ()):
            raise ValueError(checks.expected("users", users, "a column of the frame", _USERS))
        users = frame[users]
    elif not _is_array(users):
        users = _native("users", users, _USERS)
    return _array_codes(_user_array(users)) if _is_array(users) else _series_codes(users)


def _user_array(users: Any) -> npt.NDArray[Any]:
    """Return users as an array that keeps different users different.

    NumPy would merge users 1 and "1", True and 1, and strings that differ in trailing zero bytes.
    """
    if isinstance(users, np.ndarray):
        return users
    kinds = set(map(type, users))
    if kinds and all(issubclass(kind, str) for kind in kinds):
        # str.__str__ gives the characters, whatever a subclass prints: equal strings are one user
        return np.array(list(map(str.__str__, users)), dtype=object)
    whole = all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
    array = np.asarray(users) if whole else np.zeros(0)
    return array if array.dtype.kind in "iu" else np.array(users, dtype=object)


def _array_codes(users: npt.NDArray[Any]) -> tuple[Integers, list[Any]]:
    if users.size == 0:
        return np.zeros(0, dtype=np.int64), []
    kinds = {type(user) for user in users.tolist()} if users.dtype.kind == "O" else set()
    if users.ndim != 1 or not (users.dtype.kind in "iuU" or kinds in ({int}, {str})):
        shown = _kind_of(users)
        remedy = _FLOAT_USERS if users.dtype.kind == "f" or float in kinds else _USERS
        raise ValueError(checks.expected("users", shown, "one user for every row", remedy))
    if users.dtype.kind in "iu" and (codes := _near_codes(users)) is not None:
        return codes
    unique, places = np.unique(users, return_inverse=True)
    return places.astype(np.int64, copy=False), unique.tolist()


def _near_codes(users: npt.NDArray[Any]) -> tuple[Integers, list[int]] | None:
    """Return the codes of whole numbers in a small range, without sorting, or None."""
    wide = users.astype(np.int64 if users.dtype.kind == "i" else np.uint64, copy=False)
    first, last = int(wide.min()), int(wide.max())
    if last - first >= 4 * wide.size:
        return None
    places = (wide - wide.dtype.type(first)).astype(np.int64, copy=False)
    present = np.bincount(places) > 0
    ids = [first + place for place in np.flatnonzero(present).tolist()]
    return (np.cumsum(present) - 1)[places] if len(ids) < present.size else places, ids


def _series_codes(users: Any) -> tuple[Integers, list[Any]]:
    """Return the codes of a series; a join is faster than sorting unless the numbers are dense."""
    import narwhals as nw

    if not len(users):  # an empty series may have no type
        return np.zeros(0, dtype=np.int64), []
    shown, rule = f"<{users.dtype}>", "whole numbers or strings"
    checks.refuse_if(users.dtype.is_float(), "users", shown, rule, _FLOAT_USERS)
    checks.refuse_if(users.is_null().any(), "users", "<some null>", "without nulls", _USERS)
    if users.dtype.is_integer():
        near = _near_codes(users.to_numpy())
        if near is not None:
            return near
    elif isinstance(users.dtype, nw.Categorical | nw.Enum):
        _refuse_unless_strings(users.unique().to_list())  # a cast would turn 7 into "7"
        users = users.cast(nw.String)
    elif users.dtype != nw.String:
        shown = f"<{users.dtype}>"
        raise ValueError(checks.expected("users", shown, "whole numbers or strings", _USERS))
    column = users.alias("user").to_frame()
    known = column.unique()
    if users.dtype == nw.String:  # a pandas object column is typed by its first values only
        _refuse_unless_strings(known["user"].to_list())
    known = known.sort("user").with_row_index("code")
    joined = column.with_row_index("row").join(known, on="user", how="left")
    codes = np.empty(len(joined), dtype=np.int64)  # a join may change the order of the rows
    codes[joined["row"].to_numpy()] = joined["code"].to_numpy()
    return codes, known["user"].to_list()


def _refuse_unless_strings(users: list[Any]) -> None:
    if not all(isinstance(user, str) for user in users):
        shown = "<not all of them strings>"
        raise ValueError(checks.expected("users", shown, "of one kind", _USERS))


def _is_array(data: Any) -> bool:
    # np.asarray would drop the mask of a masked array
    return isinstance(data, np.ndarray | list | tuple) and not isinstance(data, np.ma.MaskedArray)


def _native(name: str, data: Any, remedy: str) -> Any:
    with checks.installed("frames"):
        import narwhals as nw
    try:
        return nw.from_native(data, eager_only=True, allow_series=True)
    except TypeError:
        shown = f"<{type(data).__name__}>"
        raise TypeError(checks.expected(name, shown, "an array or a frame", remedy)) from None
