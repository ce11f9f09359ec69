"""State files of running sums: their contents, and the consistency checks on restoring."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privacy import checks
from privacy.numerics import storage
from privacy.running_sums.factorizations import KINDS, build, registered_kind
from privacy.running_sums.memory import History
from privacy.running_sums.participation import Participation, from_json, to_json

if TYPE_CHECKING:
    from privacy.budget.ledger import Ledger
    from privacy.running_sums.running_sum import RunningSum

_KIND = "running-sum"
_SETTINGS = ("noise_multiplier", "clip_norm", "relation", "replace_distance", "noise", "simulation")
_COMPUTED = ("sigma", "sensitivity")  # from the other fields, with which they must agree
_HISTORIES = {"memory", "high", "low"}
_OLD = "Buffered Dense Toeplitz Once Consecutive Separated Explicit LifetimeCap"
_OLD_NAMES = {f"_{name}": f"{name.lower()}/1" for name in _OLD.split()}  # written by version 0.1
_OLD_NAMES["_LifetimeCap"] = "lifetime-cap/1"
_OLD_SPELLING = {
    "factorisation": "factorization",  # old spelling
    "column-normalised": "column-normalized",  # old spelling
    "optimised": "optimized",  # old spelling
}
"""Spellings that version 0.1 wrote, of a header field and of names of factorizations."""
_PART = 2**15  # numbers in each array of a part
_CLOSE = 1e-9  # float sums differ between machines by rounding


def contents(sums: "RunningSum") -> tuple[dict[str, Any], storage.Arrays]:
    """Return the header and the arrays of the whole state."""
    header = {
        "kind": _KIND,
        "factorization": registered_kind(sums.factorization),
        "name": sums.factorization.name,
        "K": sums.factorization.releases,
        "participation": to_json(sums.participation),
        "shape": sums.shape,
        "step": sums.step_width or None,
        "settings": {name: getattr(sums, name) for name in _SETTINGS},
        "computed": {name: getattr(sums, name) for name in _COMPUTED},
        "releases": sums.releases,
        "generator": sums._generator and sums._generator.bit_generator.state,
    }
    if sums._paid is not None:
        header["paid"] = sums._paid
    matrices = sums.factorization.arrays().items()
    arrays: storage.Arrays = {f"C_{name}": array for name, array in matrices}
    arrays |= {"prefix": sums._prefix, "memory": sums._memory.state()}
    if sums._lattice is not None:
        arrays |= sums._lattice.state()
    return header, arrays


def seal(
    sums: "RunningSum", path: Path, header: dict[str, Any], arrays: storage.Arrays, known: list[str]
) -> tuple[list[storage.Part], list[str]]:
    """Move full parts of a long history out of the file that every release rewrites.

    Return the parts to write, and the digests of all parts, of which `known` are on disk. `arrays`
    keeps the last rows, `header` gets the digests. A part is named by its digest, and the file of
    the previous release still has its rows: a crash between the two writes loses nothing.
    """
    banded = sums.factorization.band < sums.factorization.releases
    if banded or not isinstance(sums._memory, History):
        return [], []  # a banded history is short
    length = max(1, _PART // math.prod(sums.shape))
    count = max(0, len(arrays["memory"]) - 1) // length
    names = sorted(_HISTORIES & arrays.keys())
    parts, digests = [], known[:count]
    for i in range(len(known), count):
        rows = {name: arrays[name][i * length : (i + 1) * length] for name in names}
        about = {"kind": _KIND + " part"}
        digests.append(storage.digest(about, rows))
        parts.append((storage.part_of(path, digests[-1]), about, rows))
    if digests:
        header["parts"] = digests
        arrays |= {name: arrays[name][count * length :] for name in names}
    return parts, digests


def _join(path: Path, digests: list[str], arrays: storage.Arrays) -> None:
    found = []
    for kept in digests:
        part = storage.read(storage.part_of(path, kept))
        if storage.digest(*part) != kept:
            raise ValueError("A part differs from the one that was written.")
        found.append(part[1])
    if found:
        for name in _HISTORIES & arrays.keys():
            arrays[name] = np.concatenate([*(part[name] for part in found), arrays[name]])


def restored(own: "type[RunningSum]", path: Path, ledger: "Ledger | None") -> "RunningSum":
    """Return the running sum of a state file, which continues with that file."""
    path = path.resolve()  # later releases replace the file itself, not a link to it
    with storage.alone_in(path.parent):
        left = storage.stamp(path)
        header, arrays = storage.read(path)
        if problem := storage.linked(path):
            raise ValueError(problem)
        remedy = "Pass a file that save() wrote."
        checks.refuse_if(header.get("kind") != _KIND, "path", str(path), "of a running sum", remedy)
        header = _respelled(header)
        kind = header.get("factorization")
        if isinstance(kind, str) and _OLD_NAMES.get(kind, kind) not in KINDS:
            remedy = "Import the module that registers this kind."
            rule = f"of a registered kind of factorization, not {kind!r}"
            raise ValueError(checks.expected("path", str(path), rule, remedy))
        try:
            for fields, name in ((header, "factorization"), (header["participation"], "kind")):
                fields[name] = _OLD_NAMES.get(fields[name], fields[name])
            parts = header.pop("parts", [])
            _join(path, parts, arrays)
            sums = _rebuilt(own, header, arrays)
            _check_the_same(sums, header, arrays)
        except (*storage.DAMAGES, OSError) as error:
            remedy = f"Restore it from a backup. {type(error).__name__}: {error}"
            rule = "an undamaged running sum"
            raise ValueError(checks.expected("path", str(path), rule, remedy)) from error
        storage.clean(path, parts)
    if sums._paid is not None or ledger is not None:
        checks.paid(ledger, sums._paid).commit_state(sums._paid)
    sums._path, sums._left, sums._parts = path, left, parts
    return sums


def _respelled(header: dict[str, Any]) -> dict[str, Any]:
    """Return the header with the spellings of version 0.1 replaced, in the same order."""
    new = {_OLD_SPELLING.get(field, field): value for field, value in header.items()}
    if isinstance(name := header.get("name"), str):
        new["name"] = _OLD_SPELLING.get(name, name)
    return new if len(new) == len(header) else header


def _rebuilt(
    own: "type[RunningSum]", header: dict[str, Any], arrays: storage.Arrays
) -> "RunningSum":
    factors = {name[2:]: array for name, array in arrays.items() if name.startswith("C_")}
    sums = own(
        build(header["factorization"], header["name"], header["K"], factors),
        participation=from_json(header["participation"]),
        shape=tuple(header["shape"]),
        step=header["step"],
        **{name: header["settings"][name] for name in _SETTINGS},
    )
    if sums._generator is not None:
        sums._generator = _generator(header["generator"])
    releases, most = header["releases"], sums.factorization.releases
    if releases != 0:
        releases = checks.count("releases", releases, "It was changed.")
    if releases > most and sums.participation != Participation.once():
        rule = "With repeated participation, no new block can start"
        raise ValueError(f"{rule}: {releases} > {most} releases.")
    sums.releases = releases
    sums._paid = header.get("paid")
    in_block = (releases - 1) % most + 1 if releases else 0
    sums._prefix = arrays["prefix"]
    sums._memory.restore(arrays["memory"], in_block)
    if sums._lattice is not None:
        sums._lattice.restore(arrays, in_block)
    return sums


def _check_the_same(sums: "RunningSum", header: dict[str, Any], arrays: storage.Arrays) -> None:
    """Check that a running sum would write exactly the file that it was read from."""
    for name in _COMPUTED:
        kept, found = header["computed"].pop(name), getattr(sums, name)
        if not abs(kept - found) <= _CLOSE * found:
            raise ValueError(f"Its guarantee was changed: {name} is {kept!r}, not {found!r}.")
    again, state = contents(sums)
    again["computed"] = {}
    if storage.encoded(again) != storage.encoded(header):
        raise ValueError("The header has unexpected fields or values.")
    if state.keys() != arrays.keys():
        raise ValueError(f"Expected the arrays {sorted(state)}, not {sorted(arrays)}.")
    for name, array in arrays.items():
        fits = array.dtype == np.float64 and array.shape == state[name].shape
        if not (fits and np.isfinite(array).all() and np.array_equal(array, state[name])):
            raise ValueError(f"The array {name} is not finite floats of {state[name].shape}.")
    if sums._prefix.shape != (math.prod(sums.shape),):
        raise ValueError(f"The last sum does not have the shape {sums.shape}.")


def _generator(state: dict[str, Any]) -> np.random.Generator:
    kind: Callable[[], np.random.BitGenerator] = getattr(np.random, state["bit_generator"])
    if not (isinstance(kind, type) and issubclass(kind, np.random.BitGenerator)):
        raise TypeError(f"Expected a bit generator, not {state['bit_generator']!r}.")
    bits = kind()
    bits.state = state
    return np.random.Generator(bits)
