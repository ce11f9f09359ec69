"""The base class of mechanisms, their registry and JSON form, and `UnsupportedMechanism`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar

from privacy import checks
from privacy.losses.pair import Loss
from privacy.names import suggests_field_names
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_SPECIAL, NeighboringRelation


class UnsupportedMechanism(NotImplementedError):
    """No proven bound exists for this mechanism, accounting method and relation.

    `mechanism` is the part without a proven bound, `notion` the accounting method, if known, and
    `alternatives` the methods with a proven bound for the whole mechanism.
    """

    def __init__(
        self,
        message: str,
        *,
        mechanism: "Mechanism | None" = None,
        notion: str | None = None,
        alternatives: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.mechanism = mechanism
        self.notion = notion
        self.alternatives = tuple(alternatives)


class Mechanism:
    """Base class of all mechanisms.

    A subclass is a frozen dataclass that validates its fields and defines the `loss` of ONE
    application and, optionally, `for_group`. `register_mechanism` lets its JSON form be read.
    """

    __slots__ = ()

    null_is_absent: ClassVar[bool] = False
    """Whether a null record gives the same output distribution as an absent one.

    True for noise on a sum. Poisson sampling then amplifies under REPLACE_SPECIAL too.
    """

    fixed_count: ClassVar[bool] = False
    """Whether the bound is proven only for a fixed, public number of records."""

    largest_count: ClassVar[bool] = False
    """Whether the number of records is that of the larger of two neighboring data sets.

    The bound then does not hold for neighbors with fewer records, as in a group that is added.
    """

    def loss(self, relation: NeighboringRelation) -> Loss:
        """Return the dominating pair of one application, or bounds on its moments.

        Raises `UnsupportedMechanism` if no bound is proven under `relation`.
        """
        message = f"{type(self).__name__} has no dominating pair. Define loss(relation)."
        raise UnsupportedMechanism(message, mechanism=self)

    def sampled_loss(self, sampling_probability: float, relation: NeighboringRelation) -> Loss:
        """Return the loss of one application to a Poisson sample.

        The pair (P, Q) becomes ((1 - q) Q + q P, Q) if a record is removed, and
        (P, (1 - q) P + q Q) if one is added (Zhu, Dong and Wang 2022, Theorem 11).
        """
        null_is_absent = relation is REPLACE_SPECIAL and self.null_is_absent
        if not (relation is ADD_OR_REMOVE_ONE or null_is_absent):
            reason = "Poisson samples are supported under ADD_OR_REMOVE_ONE. Pass that relation."
            raise unproven(self, relation, reason, sampled=True)
        found = self.loss(relation).sampled(sampling_probability)
        if found is None:
            reason = "Account for it without sampling: that guarantee holds for a sample too."
            raise unproven(self, relation, reason, sampled=True)
        return found

    def expanded(self, relation: NeighboringRelation) -> "Mechanism":
        """Return the composition that this describes; the mechanism itself for one application.

        Raises `UnsupportedMechanism` if the composition is not proven under `relation`.
        """
        return self

    def for_group(self, size: int) -> "Mechanism":
        """Return the mechanism whose "one record" is a group of `size` >= 2 records."""
        raise UnsupportedMechanism(
            f"No proven bound for {size} records of one user in {brief(self)}. "
            "Try account(mechanism).group(size).",
            mechanism=self,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-serializable dict that `mechanism_from_json` reads back."""
        out: dict[str, Any] = {"type": type(self).__name__}
        for field in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            out[field.name] = _to_json(getattr(self, field.name))
        return out


class OfParts(Mechanism):
    """A mechanism that runs the mechanisms in its fields on sums, samples or cells of records."""

    __slots__ = ()

    @property
    def null_is_absent(self) -> bool:  # type: ignore[override]
        """Whether this is true for all parts."""
        return all(part.null_is_absent for part in parts_of(self))


def parts_of(mechanism: Mechanism) -> Iterator[Mechanism]:
    """Yield the mechanisms in the fields of a mechanism."""
    for name in _names(type(mechanism)):  # type: ignore[arg-type]
        value = getattr(mechanism, name)
        if isinstance(value, Mechanism):
            yield value
        elif isinstance(value, tuple):
            yield from (part for part in value if isinstance(part, Mechanism))


def nested(mechanism: Mechanism) -> Iterator[Mechanism]:
    """Yield a mechanism and all mechanisms inside it."""
    yield mechanism
    for part in parts_of(mechanism):
        yield from nested(part)


def needs_largest_count(mechanism: Mechanism) -> bool:
    """Return whether a part needs the number of records of the larger data set."""
    return any(part.largest_count for part in nested(mechanism))


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _to_json(value: Any) -> Any:
    if isinstance(value, Mechanism):
        return value.to_json()
    if isinstance(value, tuple):
        return [_to_json(part) for part in value]
    return str(value) if isinstance(value, NeighboringRelation) else value


_LONGEST = 120


def brief(mechanism: Mechanism) -> str:
    """Return a mechanism as text, shortened for error messages."""
    text = _written(mechanism, 2)
    return text if len(text) <= _LONGEST else f"{type(mechanism).__name__}(...)"


def _written(mechanism: Mechanism, levels: int) -> str:
    given = []
    for field in fields(mechanism):  # type: ignore[arg-type]  # every subclass is a dataclass
        value = getattr(mechanism, field.name)
        if isinstance(value, Mechanism):
            given.append(_written(value, levels - 1) if levels else "...")
        elif isinstance(value, tuple):
            parts = bool(value) and isinstance(value[0], Mechanism)
            given.append(f"{len(value)} parts" if parts else f"{field.name}={len(value)} values")
        elif value != field.default:
            given.append(f"{field.name}={value}")
    return f"{type(mechanism).__name__}({', '.join(given)})"


def unproven(
    mechanism: Mechanism, relation: NeighboringRelation, reason: str, *, sampled: bool = False
) -> UnsupportedMechanism:
    """Return the error for a mechanism (on a Poisson sample) without a proven bound."""
    where = " on a Poisson sample" if sampled else ""
    message = f"No proven bound for {brief(mechanism)}{where} under {relation}. {reason}"
    return UnsupportedMechanism(message, mechanism=mechanism)


def check_relation(claim: "Mechanism", relation: NeighboringRelation) -> None:
    """Raise if a claim, which has a field `relation`, was proven for another relation."""
    proven = getattr(claim, "relation", relation)
    if proven is not relation:
        reason = f"Its guarantee was proven for {proven}. Pass that relation."
        raise unproven(claim, relation, reason)


@dataclass(frozen=True)
class Registered:
    """A registered mechanism class, and `build`, which makes it from the fields of its JSON form.

    `example` is an instance; None for the composition nodes that `account` handles.
    """

    kind: type[Mechanism]
    build: Callable[..., Mechanism]
    example: Mechanism | None


REGISTRY: dict[str, Registered] = {}
"""Mechanism classes by their name in JSON, in the order of registration."""


def register_mechanism(example: Mechanism) -> None:
    """Register a mechanism class by name, for JSON, plans and `support_matrix`.

    `example` is an instance of the class, a frozen dataclass.
    """
    example = checked(example, "example")
    kind: Any = type(example)
    add_to_registry(kind, kind, example)
    made = getattr(vars(kind).get("__dataclass_params__"), "init", False)
    if made and not hasattr(kind.__init__, "__wrapped__"):
        suggests_field_names(kind)


def add_to_registry(
    kind: type[Mechanism], build: Callable[..., Mechanism], example: Mechanism | None = None
) -> None:
    """Register a class; raise if another class has its name."""
    name = kind.__name__
    known = REGISTRY.get(name)
    if known is not None and known.kind is not kind:
        remedy = "Rename the class."
        raise ValueError(checks.expected("example", name, "an unused class name", remedy))
    REGISTRY[name] = Registered(kind, build, example)


def checked(value: object, where: str) -> Mechanism:
    """Return `value` if it is a mechanism, else raise; the error names it `where`."""
    if not isinstance(value, Mechanism):
        remedy = "Pass a mechanism, such as Gaussian(1.0)."
        if isinstance(value, list | tuple) and where == "mechanisms":
            remedy = "Unpack the list: compose(*mechanisms)."
        raise TypeError(checks.expected(where, value, "a mechanism", remedy))
    return value


def freeze(node: Mechanism, **values: object) -> None:
    """Set the fields of a frozen node during its construction."""
    for name, value in values.items():
        object.__setattr__(node, name, value)


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
