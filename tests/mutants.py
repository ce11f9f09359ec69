"""Mutants: a copy of the package with one patched line, which a check must detect.

`package` imports the modules of a package anew, one of them patched, and restores the real ones
afterward. `caught` returns whether a check that passes on the real modules fails on the patched
ones.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any

Load = Callable[[str], Any]
Check = Callable[[Load], None]


@dataclass(frozen=True)
class Patch:
    """One textual change: `before`, which `module` holds exactly once, becomes `after`."""

    module: str
    before: str
    after: str


@contextmanager
def package(name: str, patch: Patch | None = None) -> Iterator[Load]:
    """Yield a function that imports modules of a package, fresh and patched, by their last name."""
    real = {
        known: module
        for known, module in sys.modules.items()
        if known == name or known.startswith(name + ".")
    }
    for known in real:
        del sys.modules[known]
    parent = importlib.import_module(name)
    try:
        if patch is not None:
            full = f"{name}.{patch.module}"
            spec = find_spec(full)
            assert spec is not None
            assert spec.origin is not None
            source = Path(spec.origin).read_text(encoding="utf-8")
            assert source.count(patch.before) == 1, f"{patch} fits {source.count(patch.before)}x"
            module = module_from_spec(spec)
            sys.modules[full] = module
            setattr(parent, patch.module, module)
            code = compile(source.replace(patch.before, patch.after), spec.origin, "exec")
            exec(code, module.__dict__)
        yield lambda last: importlib.import_module(f"{name}.{last}")
    finally:
        for known in [k for k in sys.modules if k == name or k.startswith(name + ".")]:
            del sys.modules[known]
        sys.modules.update(real)
        if name in real:
            outer, _, last = name.rpartition(".")
            setattr(sys.modules[outer], last, real[name])


@cache
def passes(name: str, check: Check) -> None:
    """Run a check on the real package, once for all patches; raise if it fails."""
    with package(name) as load:
        check(load)


def caught(name: str, patch: Patch, check: Check) -> bool:
    """Return whether `check` fails on the patched package; it must pass on the real one."""
    passes(name, check)
    with package(name, patch) as load:
        try:
            check(load)
        except AssertionError:
            return True
    return False
