"""Atomic files of arrays and a JSON header, without pickle."""

import glob
import hashlib
import json
import os
import struct
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
_VALUES = (ArithmeticError, AttributeError, EOFError, LookupError, TypeError, ValueError)
_PACKED = (struct.error, zipfile.BadZipFile, zlib.error)
# MemoryError: a corrupt length; RuntimeError: encryption, unknown compression, deeply nested JSON
DAMAGES = (*_VALUES, *_PACKED, MemoryError, RuntimeError)


class Overtaken(RuntimeError):
    """The file was changed by another writer."""


def write(
    path: Path,
    header: dict[str, Any],
    arrays: Arrays,
    over: Stamp | EllipsisType | None = ...,
    parts: Sequence[Part] = (),
    kept: Sequence[str] | None = None,
) -> Stamp | None:
    """Write a file atomically and durably, readable by its owner only, and return its stamp.

    `over` is the stamp of the file that may be replaced, None if there must be none, `...` for any;
    else `Overtaken` is raised. `parts` are files that this one needs, written before it. `kept` has
    the digests of all parts that it needs; other parts are removed. None removes nothing.
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
    # a fixed name, so that the next write overwrites what a crash leaves
    beside = path.with_name(f".{path.name}.partial")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        handle = os.open(beside, flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        # newer than the file that it replaces: clocks are coarse, and inode numbers reused
        if found is not None and beside.stat().st_mtime_ns <= found[1]:
            os.utime(beside, ns=(found[1] + 1, found[1] + 1))
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


def check(path: Path, left: Stamp | None) -> None:
    """Raise `Overtaken` unless the file at `path` has the stamp `left` and one hard link."""
    if left is not None and (problem := linked(path)):
        raise Overtaken(problem)
    if stamp(path) != left:
        raise Overtaken(
            f"The file {str(path)!r} was moved or written by another object. Restore from it: "
            "this object would draw a release again, with different noise."
        )


def linked(path: Path) -> str:
    """Return an error message if a file has several hard links, else an empty string.

    An old state could be read under another name, and noise drawn again for the same release.
    """
    links = 0
    with suppress(FileNotFoundError, NotADirectoryError):  # `stamp` reports a missing file
        links = path.stat().st_nlink
    if links <= 1:
        return ""
    return (
        f"Expected number of hard links to {str(path)!r}={links} to be 1. "
        "Remove the other hard links."
    )


def part_of(path: Path, kept: str) -> Path:
    """Return the path of the part with the digest `kept`."""
    return path.with_name(f"{path.name}.{_PART}{kept[:32]}")


def clean(path: Path, kept: Iterable[str]) -> None:
    """Remove files of interrupted writes and parts not in `kept`, under the lock of `alone_in`."""
    needed = {part_of(path, digest) for digest in kept}
    name = glob.escape(path.name)
    for pattern in (f".{name}.partial", f".{name}.{_PART}*.partial"):
        for left in path.parent.glob(pattern):
            left.unlink(missing_ok=True)
    for part in path.parent.glob(f"{name}.{_PART}*"):
        if part not in needed:
            part.unlink()


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the state files of a folder, released when the process ends.

    On a file system without locks, two writers within milliseconds may both succeed.
    """
    from filelock import FileLock

    # a new object for each use, so that threads exclude each other too
    lock = FileLock(folder / ".dpcalib.lock", mode=0o600)
    with suppress(NotImplementedError):
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _flush_folder(folder: Path) -> None:
    if hasattr(os, "O_DIRECTORY"):  # not on Windows; without it, a crash may undo the rename
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def stamp(path: Path) -> Stamp | None:
    """Return an identifier of the written version of a file, None if there is no file."""
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_ino, found.st_mtime_ns


def encoded(header: dict[str, Any]) -> str:
    """Return a header as the text in the file."""
    return json.dumps(header, default=np.ndarray.tolist)


def _text(header: dict[str, Any]) -> str:
    return encoded({"version": _VERSION} | header)


def digest(header: dict[str, Any], arrays: Arrays) -> str:
    """Return a digest of the whole contents, which detects a mix of two versions."""
    found = hashlib.sha256(_text(header).encode())
    for name, array in sorted(arrays.items()):
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.hexdigest()


def read(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Return the header and the arrays of a file; damaged or changed files are refused."""
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
            f"Expected path={str(path)!r} to have format version {_VERSION}, not "
            f"{version!r}. Read it with the version that wrote it."
        )
    if not whole:
        raise _damaged(path)
    return header, arrays


def _damaged(path: Path) -> ValueError:
    return ValueError(
        f"Expected path={str(path)!r} to be an undamaged dpcalib file. Restore it from a backup."
    )
