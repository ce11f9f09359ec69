"""The plain data that a question is answered with."""

import math
from collections.abc import Mapping
from typing import Any

import privacy

Record = dict[str, Any]


def record(name: str, values: Mapping[str, Any]) -> Record:
    """Return the object that a question is answered with, its schema and version first."""
    return {"schema": f"dpcalib.{name}/1", "version": privacy.__version__, **plain(values)}


def plain(value: Any) -> Any:
    """Return the same data with ``"inf"`` for infinity, which JSON does not have."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return str(value) if isinstance(value, float) and math.isinf(value) else value
