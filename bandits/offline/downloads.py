"""Search, download and verification of files of public data sets.

Files in the data folder are used only if their hash matches.
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
    """A published file.

    Parameters
    ----------
    file
        Path in the data folder.
    hash
        ``"sha256:..."``, or ``"md5:..."`` if no other is known.
    addresses
        Download addresses, tried in order.
    license, citation
        Printed when the data are loaded.
    """

    file: str
    hash: str
    addresses: tuple[str, ...]
    license: str
    citation: str


def data_folder(folder: Location | None = None) -> Path:
    """Return the data folder: `folder`, DPCALIB_DATA_DIR, or the user's cache folder."""
    chosen = folder if folder is not None else os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return Path(_pooch().os_cache("dpcalib"))


@cache
def announce(terms: str, citation: str) -> None:
    """Print a license and a citation to standard error, once per process."""
    sys.stderr.write(f"License: {terms}\nPlease cite: {citation}\n")


def fetch(
    source: Source, folder: Location | None, *, download_if_missing: bool, progress: bool
) -> Path:
    """Return the path of a file with the published hash, downloading it if necessary."""
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
        except (OSError, ValueError) as error:  # no connection or no such file; wrong hash
            failures.append(f"{address}: {error}")
        else:
            return target
    raise DataUnavailable(_missing(source, target, failures))


def _missing(source: Source, target: Path, failures: Sequence[str]) -> str:
    addresses = " or ".join(source.addresses)
    tried = "\n  ".join(failures)
    return (
        f"Expected {target} to hold the data ({source.hash}), but it is missing.\n  {tried}\n"
        f"Download {addresses} to {target}, or pass path= with a zip or an extracted folder."
    )


def _verify(path: Path, source: Source) -> None:
    algorithm, _, known = source.hash.partition(":")
    found = _pooch().file_hash(str(path), alg=algorithm)
    remedy = f"Delete it and download {' or '.join(source.addresses)} again."
    checks.refuse_if(found != known, f"{algorithm} of {path}", found, known, remedy)


def _pooch() -> Any:
    with checks.installed("data"):
        import pooch
    pooch.get_logger().setLevel("WARNING")
    return pooch


class Files:
    """The files of a zip or an extracted folder, searched by the end of their path."""

    def __init__(self, path: Location) -> None:
        self.path = Path(path).expanduser()
        if not self.path.exists():
            raise DataUnavailable(
                checks.expected("path", str(path), "a zip or a folder", "This path does not exist.")
            )
        if self.path.is_dir():
            found = (p for p in self.path.rglob("*") if p.is_file())
            self.names = sorted(p.relative_to(self.path).as_posix() for p in found)
        elif zipfile.is_zipfile(self.path):
            with zipfile.ZipFile(self.path) as archive:
                self.names = sorted(archive.namelist())
        else:
            rule = "a zip or a folder"
            remedy = "Extract the archive and pass the folder."
            raise ValueError(checks.expected("path", str(path), rule, remedy))

    def holding(self, ending: str) -> "Files":
        """Return the files of a zip in this folder that holds the file, else these files."""
        if self.path.is_dir() and not self._matches(ending):
            for name in self.names:
                if name.endswith(".zip") and (zipped := Files(self.path / name))._matches(ending):
                    return zipped
        return self

    def _matches(self, ending: str) -> list[str]:
        parts = PurePosixPath(ending).parts
        return [name for name in self.names if PurePosixPath(name).parts[-len(parts) :] == parts]

    def one(self, ending: str) -> str:
        """Return the path of the only file whose path ends with these parts."""
        matches = self._matches(ending)
        if len(matches) != 1:
            raise DataUnavailable(
                f"Expected {self.path} to contain one {ending}, but it contains "
                f"{matches or 'none'}. Pass a zip or folder with only this data set."
            )
        return matches[0]

    @contextmanager
    def open(self, ending: str) -> Iterator[IO[bytes]]:
        """Open the only file whose path ends with these parts."""
        name = self.one(ending)
        if self.path.is_dir():
            with (self.path / name).open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(name) as file:
                yield file
