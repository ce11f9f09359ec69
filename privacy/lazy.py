"""Packages whose public names are imported on first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    package: str, homes: Mapping[str, str], *, modules: tuple[str, ...] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package.

    `homes` has the names in each module of the package, separated by spaces; `modules` are its
    public modules, whose names it does not reexport.
    """
    module_of = {name: module for module, names in homes.items() for name in names.split()}
    own = sys.modules[package]

    def find(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in module_of:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=own)
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(own, name, value)
        return value

    return find, lambda: sorted({*vars(own), *module_of, *modules})
