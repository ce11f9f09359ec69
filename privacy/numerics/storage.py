"""Files that are either whole or not there: arrays and a JSON header, no pickle."""

import glob
import hashlib
import json
import os
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Stamp = tuple[int, int]
Part = tuple[Path, dict[str, Any], Arrays]
_PART = "part-"
_VERSION = 2
DAMAGES = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,  # a length that is a lie
    RuntimeError,  # an encrypted member, a compression of the future, JSON that is too deep
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


class Overtaken(RuntimeError):
    """A file is no longer as the one who wants to write it left it."""


def write(
    path: Path,
    header: dict[str, Any],
    arrays: Arrays,
    over: Stamp | EllipsisType | None = ...,
    parts: Sequence[Part] = (),
    kept: Sequence[str] | None = None,
) -> Stamp | None:
    """Write a file that other processes see whole or not at all, and that survives a crash.

    Written beside its place, flushed to the disk, then renamed. Only the owner can read it.

    Parameters
    ----------
    path, header, arrays
        Where, and what.
    over
        The stamp of the file that this one may replace, None for none at all; `...` for any. Of
        two that write over one stamp at the same time one is refused.
    parts
        Files that this one needs, written before it.
    kept
        Digests of all parts that it needs; others are removed. None removes nothing.

    Returns
    -------
    tuple
        The stamp of what was written.

    Raises
    ------
    Overtaken
        Another file is there; nothing was written.
    """
    with alone_in(path.parent):
        found = stamp(path)
        if over is not ...:
            check(path, over)
        for part in parts:
            _put(*part)
        _put(path, header, arrays, found)
        if kept is not None:
            clean(path, kept)
        return stamp(path)


def _put(path: Path, header: dict[str, Any], arrays: Arrays, found: Stamp | None = None) -> None:
    members: dict[str, Any] = {"header": np.array(_text(header)), **arrays}
    members["digest"] = np.array(digest(header, arrays))
    beside = _beside(path)  # one name: what a crash leaves is overwritten by the next writing
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        handle = os.open(beside, flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        _make_younger(beside, found)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def check(path: Path, left: Stamp | None) -> None:
    """Raise `Overtaken` unless the file at `path` is the one with the stamp `left`, once."""
    if stamp(path) != left:
        raise Overtaken(
            f"Another object went on from {str(path)!r}, or it was moved: a second noise for one "
            "release. Restore the file to go on."
        )
    if left is not None and (problem := linked(path)):
        raise Overtaken(problem)


def linked(path: Path) -> str:
    """Return what is wrong with a file that has several names, or nothing.

    Each name would keep a state of its own, from which a second noise could be drawn.
    """
    links = path.stat().st_nlink
    if links <= 1:
        return ""
    return (
        f"Expected number of names of {str(path)!r}={links} to be 1: another name keeps an old "
        "state. Remove the other hard links."
    )


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.partial")


def part_of(path: Path, kept: str) -> Path:
    """Return where the part of a file with the digest `kept` is."""
    return path.with_name(f"{path.name}.{_PART}{kept[:32]}")


def clean(path: Path, kept: Iterable[str]) -> None:
    """Remove what interrupted writings of `path` left, and all parts but those with these digests.

    Call it where no other writes in the folder.
    """
    needed = {part_of(path, digest) for digest in kept}
    _beside(path).unlink(missing_ok=True)
    name = glob.escape(path.name)
    for left in path.parent.glob(f".{name}.{_PART}*.partial"):
        left.unlink()
    for part in path.parent.glob(f"{name}.{_PART}*"):
        if part not in needed:
            part.unlink()


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Wait until no other writes in a folder.

    The lock ends with the process that holds it. Windows and some network file systems have none
    for folders; two that write within the same milliseconds may both do so there.
    """
    if sys.platform == "win32":
        yield
        return
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with suppress(OSError):  # by name: a fork may have a copy of the handle
                fcntl.flock(handle, fcntl.LOCK_UN)
    finally:
        os.close(handle)


def _make_younger(path: Path, than: Stamp | None) -> None:
    """Give a file a later time than the one it replaces, so that no stamp comes twice.

    Clocks of file systems tick some hundred times a second, and numbers of files are used again.
    """
    if than is not None and path.stat().st_mtime_ns <= than[1]:
        os.utime(path, ns=(than[1] + 1, than[1] + 1))


def _flush_folder(folder: Path) -> None:
    # without it a crash can bring back the name of the older file; Windows has no such call
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def stamp(path: Path) -> Stamp | None:
    """Return what tells one writing of a file from another, None if there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns


def encoded(header: dict[str, Any]) -> str:
    """Return a header as the text that is in the file."""
    return json.dumps(header, default=np.ndarray.tolist)


def _text(header: dict[str, Any]) -> str:
    return encoded({"version": _VERSION} | header)


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """Return a digest of all that is in a file: it is one writing, and not put together of two."""
    found = hashlib.sha256(_text(header).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file.

    Raises
    ------
    ValueError
        The file is damaged or was changed, or was written by another version.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        text = str(arrays.pop("header"))
        header = json.loads(text)
        version = header.pop("version", None)
        kept = arrays.pop("digest", None)
        whole = str(kept) == digest(header, arrays) and text == _text(header)
    except DAMAGES as error:
        raise _damaged(path) from error
    if version != _VERSION:
        raise ValueError(
            f"Expected path={str(path)!r} to be of version {_VERSION}, not "
            f"{version!r}. Read it with the version that wrote it."
        )
    if not whole:
        raise _damaged(path)
    return header, arrays


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"Expected path={str(path)!r} to be a whole file of this library. Restore a copy."
    )
