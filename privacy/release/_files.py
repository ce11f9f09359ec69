"""Files that are either whole or not there: arrays and a JSON header, no pickle."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Stamp = tuple[int, int]
_VERSION = 1
_DAMAGES = (zipfile.BadZipFile, ValueError, KeyError, EOFError, TypeError, AttributeError)


def write(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a file that other processes see whole or not at all, and that survives a crash.

    Written beside its place, flushed to the disk, then renamed. Only the owner can read it.
    """
    text = json.dumps({"version": _VERSION} | header, default=np.ndarray.tolist)
    members: dict[str, Any] = {"header": np.array(text)} | arrays
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        handle = os.open(beside, flags, 0o600)
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _flush_folder(path.parent)


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


def read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file.

    Raises
    ------
    ValueError
        The file is damaged, or was written by another version.
    """
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
            arrays = {name: members[name] for name in members.files}
        header = json.loads(str(arrays.pop("header")))
        version = header.get("version")
    except _DAMAGES as error:
        raise ValueError(
            f"Expected path={str(path)!r} to be a whole file of this library. Restore a copy."
        ) from error
    if version != _VERSION:
        raise ValueError(
            f"Expected path={str(path)!r} to be of version {_VERSION}, not "
            f"{version!r}. Read it with the version that wrote it."
        )
    return header, arrays
