"""The JSON-able dicts that `privacy.answers` returns."""

import math
from collections.abc import Mapping
from typing import Any

import privacy

Record = dict[str, Any]


def record(name: str, values: Mapping[str, Any]) -> Record:
    """Return the values as plain data, after the schema and the version of dpcalib."""
    return {"schema": f"dpcalib.{name}/1", "version": privacy.__version__, **plain(values)}


def plain(value: Any) -> Any:
    """Return the same data with infinity, which JSON lacks, as ``"inf"``."""
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    return str(value) if isinstance(value, float) and math.isinf(value) else value
