"""The JSON Schema of plan files, from the fields of the registered mechanisms."""

import inspect
import types
from collections.abc import Sequence
from dataclasses import MISSING, fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from privacy.accounting import Notion
from privacy.budget.plan import _RUN, SCHEMA
from privacy.mechanisms import REGISTRY, Mechanism
from privacy.mechanisms.base import Registered
from privacy.relations import NeighboringRelation

_DRAFT = "http://json-schema.org/draft-07/schema#"
_MECHANISM = {"$ref": "#/definitions/mechanism"}
_PHRASE = {"type": "string", "minLength": 1}
_RELATION = {"enum": [str(relation) for relation in NeighboringRelation]}
_WHOLE = {"type": "integer", "minimum": 1}
_KEYS = {
    "steps": {**_WHOLE, "description": "Number of runs."},
    "max_contributions": {
        **_WHOLE,
        "description": "Largest number of records of one user; the unit is then one user.",
    },
    "sampling_probability": {
        "type": "number",
        "exclusiveMinimum": 0,
        "maximum": 1,
        "description": "Probability that a record is in the Poisson sample of a run.",
    },
}
assert _KEYS.keys() == set(_RUN)


def plan_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 7) of a plan file, also as ``dpcalib schema``.

    It has every registered mechanism, and names and types for an editor; `load_plan` checks all.
    """
    kinds = {name: _mechanism(registered) for name, registered in sorted(REGISTRY.items())}
    budget = {
        "epsilon": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "delta": {"type": "number", "minimum": 0, "exclusiveMaximum": 1},
    }
    parts = {"oneOf": [_part(form) for form in kinds.values()]}
    keys = {"schema": {"const": SCHEMA}, "name": _PHRASE, "relation": _RELATION}
    keys |= {"notion": {"enum": [*get_args(Notion), "prv", "fft"]}, "unit": _PHRASE}
    keys["budget"] = _table(budget, ["delta"])
    keys["part"] = {"type": "array", "minItems": 1, "items": parts}
    any_kind = {"oneOf": [{"$ref": f"#/definitions/{name}"} for name in kinds]}
    return {
        "$schema": _DRAFT,
        "title": "dpcalib plan",
        **_table(keys, ["schema", "name", "budget", "part"]),
        "definitions": {"mechanism": any_kind, **kinds},
    }


def _table(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _part(form: dict[str, Any]) -> dict[str, Any]:
    """Return a mechanism with a name and the keys of a run; its own fields come first."""
    properties = {"name": _PHRASE, **_KEYS, **form["properties"]}
    return {**form, **_table(properties, ["name", *form["required"]])}


def _mechanism(registered: Registered) -> dict[str, Any]:
    kind, build = registered.kind, registered.build
    if inspect.isfunction(build):
        hints, given = get_type_hints(build), inspect.signature(build).parameters.values()
        # `*mechanisms` are the parts
        several = {one.name for one in given if one.kind is one.VAR_POSITIONAL}
        typed = {
            "parts" if name in several else name: _many(_MECHANISM)
            if name in several
            else _typed(hints[name])
            for name in (one.name for one in given)
        }
        optional = {one.name for one in given if one.default is not one.empty}
    else:
        hints, own = get_type_hints(kind), fields(kind)  # type: ignore[arg-type]  # a dataclass
        typed = {one.name: _typed(hints[one.name]) for one in own}
        optional = {one.name for one in own if one.default is not MISSING}
    return {
        "description": (inspect.getdoc(kind) or "").split("\n")[0],
        **_table(
            {"type": {"const": kind.__name__}, **typed},
            ["type", *(name for name in typed if name not in optional)],
        ),
    }


def _many(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _typed(hint: Any) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return {"anyOf": [_typed(one) for one in inner]}
    if origin is Literal:
        return {"enum": list(inner)}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _many(_typed(inner[0]))
    if isinstance(hint, type) and issubclass(hint, NeighboringRelation):
        return _RELATION
    if isinstance(hint, type) and issubclass(hint, Mechanism):
        return _MECHANISM
    return _SIMPLE[hint]


_SIMPLE: dict[Any, dict[str, Any]] = {
    float: {"type": "number"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    str: {"type": "string"},
    type(None): {"type": "null"},
}
