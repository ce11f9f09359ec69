"""Mechanisms from their JSON form."""

from collections.abc import Mapping
from typing import Any

from privacy import checks
from privacy.mechanisms.base import REGISTRY, Mechanism


def mechanism_from_json(form: Mapping[str, Any]) -> Mechanism:
    """Build a mechanism from the output of `Mechanism.to_json`; every field is validated.

    `form` is a mapping of ``"type"`` (a class name) and the fields of that class, such as
    ``{"type": "Gaussian", "noise_multiplier": 1.0}``.
    """
    if not isinstance(form, Mapping):
        raise TypeError(checks.expected("mechanism", form, "an object", _FORM))
    values = dict(form)
    kind = values.pop("type", None)
    kind = "NoOp" if kind == "Nothing" else kind  # the old name, in saved files
    registered = REGISTRY.get(str(kind))
    if registered is None:
        like = [name for name in REGISTRY if name.lower() == str(kind).lower()]
        remedy = f"Did you mean {like[0]!r}?" if like else _FORM
        known = ", ".join(sorted(REGISTRY))
        raise ValueError(checks.expected("type", kind, f"one of {known}", remedy))
    if "mechanism" in values:
        values["mechanism"] = mechanism_from_json(values["mechanism"])
    parts = values.pop("parts", ())
    if not isinstance(parts, list | tuple):
        raise TypeError(checks.expected("parts", parts, "a list", _FORM))
    parts = [mechanism_from_json(part) for part in parts]
    try:
        return registered.build(*parts, **values)
    except TypeError as error:
        if "argument" not in str(error) and "keyword" not in str(error):
            raise
        raise ValueError(checks.expected("mechanism", dict(form), f"a {kind}", _FORM)) from error


_FORM = 'Pass {"type": ..., fields ...}, as returned by to_json().'
