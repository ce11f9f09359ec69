"""Files of public data sets: found where the user keeps them, or downloaded and verified.

A file counts only when its hash is right. Nothing is made up where data are missing: an error
says what was looked for, where, and with which hash.
"""

import os
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

from bandits import checks

FOLDER_VARIABLE = "DPCALIB_DATA_DIR"
Location = str | os.PathLike[str]


class DataUnavailable(OSError):
    """A data set is not on this machine and could not be downloaded."""


@dataclass(frozen=True)
class Source:
    """A published file: its name, its hash, where it is, and on which terms.

    Parameters
    ----------
    file
        Name of the file, or path below the folder of data.
    hash
        ``"sha256:..."``, or ``"md5:..."`` where the publisher tells no other.
    addresses
        Tried in turn.
    licence, citation
        Printed when the data are used.
    """

    file: str
    hash: str
    addresses: tuple[str, ...]
    licence: str
    citation: str


def data_folder(folder: Location | None = None) -> Path:
    """Return where data are kept: `folder`, DPCALIB_DATA_DIR, or the user's cache folder."""
    chosen = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return Path(_pooch().os_cache("dpcalib"))


@cache
def announce(licence: str, citation: str) -> None:
    """Print a licence and a citation to the standard error, once in a process."""
    sys.stderr.write(f"Licence: {licence}\nPlease cite: {citation}\n")


def fetch(
    source: Source, folder: Location | None, *, download_if_missing: bool, progress: bool
) -> Path:
    """Return the path of a verified file, downloading it if need be.

    Raises
    ------
    DataUnavailable
        It is not there and may not be, or could not be, downloaded.
    ValueError
        A file of that name is there, with another hash.
    """
    home = data_folder(folder)
    target = home / source.file
    if target.exists():
        _verify(target, source)
        return target
    if not download_if_missing:
        raise DataUnavailable(_missing(source, target, ["download_if_missing=False"]))
    pooch = _pooch()
    failures = []
    for address in source.addresses:
        try:
            pooch.retrieve(
                address,
                known_hash=source.hash,
                fname=target.name,
                path=target.parent,
                downloader=pooch.HTTPDownloader(progressbar=progress, timeout=30),
            )
        except (OSError, ValueError) as error:  # no connection, no such file; another hash
            failures.append(f"{address}: {error}")
        else:
            return target
    raise DataUnavailable(_missing(source, target, failures))


def _missing(source: Source, target: Path, failures: Sequence[str]) -> str:
    addresses = " or ".join(source.addresses)
    tried = "\n  ".join(failures)
    return (
        f"Expected {target} to hold the data ({source.hash}); it is missing.\n  {tried}\n"
        f"Download {addresses} to {target}, or pass path= with a zip or an extracted folder."
    )


def _verify(path: Path, source: Source) -> None:
    algorithm, _, known = source.hash.partition(":")
    found = _pooch().file_hash(str(path), alg=algorithm)
    if found != known:
        remedy = f"Delete it and download {' or '.join(source.addresses)} again."
        raise ValueError(checks.expected(f"{algorithm} of {path}", found, known, remedy))


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "Downloading and verifying data needs pooch and tqdm: pip install 'dpcalib[data]'. "
            "A local copy needs neither: pass path=."
        ) from error
    pooch.get_logger().setLevel("WARNING")
    return pooch


class Files:
    """The files of a zip or of an extracted folder, found by the end of their path."""

    def __init__(self, path: Location) -> None:
        self.path = Path(path).expanduser()
        if not self.path.exists():
            raise DataUnavailable(
                checks.expected("path", str(path), "a zip or a folder", "It does not exist.")
            )
        if self.path.is_dir():
            found = (p for p in self.path.rglob("*") if p.is_file())
            self.names = sorted(p.relative_to(self.path).as_posix() for p in found)
        elif zipfile.is_zipfile(self.path):
            with zipfile.ZipFile(self.path) as archive:
                self.names = sorted(archive.namelist())
        else:
            rule = "a zip or a folder"
            raise ValueError(checks.expected("path", str(path), rule, "It is neither."))

    def has(self, ending: str) -> bool:
        """Return whether a file's path ends with these parts."""
        return bool(self._matches(ending))

    def _matches(self, ending: str) -> list[str]:
        parts = PurePosixPath(ending).parts
        return [name for name in self.names if PurePosixPath(name).parts[-len(parts) :] == parts]

    def one(self, ending: str) -> str:
        """Return the path inside, of the one file that ends with these parts."""
        matches = self._matches(ending)
        if len(matches) != 1:
            raise DataUnavailable(
                f"Expected {self.path} to hold one {ending}, and it holds "
                f"{matches or 'none'}. Pass the zip or folder of this data set alone."
            )
        return matches[0]

    @contextmanager
    def open(self, ending: str) -> Iterator[IO[bytes]]:
        """Open the one file whose path ends with these parts."""
        name = self.one(ending)
        if self.path.is_dir():
            with (self.path / name).open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                yield file
