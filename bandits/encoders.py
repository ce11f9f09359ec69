"""Features from dictionaries, categories, ids and data frames.

The vocabulary is hashed or declared, and so public. A vocabulary learned from rows would reveal
them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bandits import checks
from bandits.checks import Array

Row = Mapping[str, Any]


def rows(frame: Any) -> list[dict[str, Any]]:
    """Return the rows of a pandas or polars data frame as dictionaries."""
    if hasattr(frame, "to_dicts"):
        found: list[dict[str, Any]] = frame.to_dicts()
    else:
        found = frame.to_dict("records")
    return found


def _flat(row: Row, prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _flat(value, f"{name}.")
        elif isinstance(value, list | tuple | set):
            yield from ((f"{name}={each}", 1.0) for each in value)
        elif isinstance(value, str | bool) or value is None:
            yield f"{name}={value}", 1.0
        else:
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                rule = "a number, string, boolean, list or dictionary"
                shown = f"<{type(value).__name__}>"
                message = checks.expected(name, shown, rule, "Convert it.")
                raise TypeError(message) from None
            yield name, number


class _Encoder:
    def __call__(self, row: Row) -> Array:
        """Return the features of one row, shape (d,)."""
        raise NotImplementedError

    def candidates(self, context: Row, actions: Iterable[Row | str | int]) -> Array:
        """Return the rows of features for `Agent.select`, shape (n, d).

        An action is a dictionary of its own features, or an id. Its row has the action's features
        and their products with those of the context.
        """
        shared, found = list(_flat(context)), []
        for action in actions:
            own = dict(_flat(action if isinstance(action, Mapping) else {"id": str(action)}))
            both = ((f"{a}*{b}", x * y) for a, x in own.items() for b, y in shared)
            found.append(self(own | dict(both)))
        remedy = "Pass one dictionary or id for each candidate."
        checks.refuse_if(not found, "actions", "[]", "not empty", remedy)
        return np.stack(found)


@dataclass(frozen=True)
class HashedFeatures(_Encoder):
    """Encodes dictionaries by feature hashing; requires scikit-learn.

    Strings, booleans and elements of lists are categories, numbers are values; nested dictionaries
    are flattened. New categories need no declaration; colliding names share one of d features.
    """

    dimension: int

    def __post_init__(self) -> None:
        checks.count("dimension", self.dimension, "Pass the number of features.", at_most=2**24)

    def __call__(self, row: Row) -> Array:
        with checks.installed("bridges"):
            from sklearn.feature_extraction import FeatureHasher

        hasher = FeatureHasher(n_features=self.dimension, input_type="pair")
        found: Array = hasher.transform([list(_flat(row))]).toarray()[0]
        return found


@dataclass(frozen=True)
class DeclaredFeatures(_Encoder):
    """Encodes dictionaries by a declared vocabulary: one feature per number or category.

    Parameters
    ----------
    columns
        For each key, its categories, or None for a number; other keys and values add nothing.
    arms
        Action ids for `candidates`: each has its own block of context features, and other ids give
        zeros. So does a context that is encoded without `candidates`.

    Examples
    --------
    >>> from bandits import DeclaredFeatures
    >>> encode = DeclaredFeatures({"device": ["phone", "web"], "age": None})
    >>> encode({"device": "web", "age": 0.3})
    array([0. , 1. , 0.3])
    """

    columns: Mapping[str, Sequence[str] | None]
    arms: Sequence[str | int] = ()
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own = []
        for key, categories in self.columns.items():
            if isinstance(categories, str):
                rule, remedy = "a list of categories or None", "Pass a list."
                raise TypeError(checks.expected(f"columns[{key!r}]", categories, rule, remedy))
            own += [key] if categories is None else [f"{key}={each}" for each in categories]
        blocks = [f"id={arm}" for arm in self.arms]
        names = [f"{arm}*{name}" for arm in blocks for name in own] + blocks if blocks else own
        if len(set(names)) < len(names) or not names:
            remedy = "Declare each key, category and arm once."
            raise ValueError(checks.expected("columns", self.columns, "distinct names", remedy))
        object.__setattr__(self, "_places", {name: place for place, name in enumerate(names)})

    @property
    def dimension(self) -> int:
        """Number of features d."""
        return len(self._places)

    def candidates(self, context: Row, actions: Iterable[Row | str | int]) -> Array:
        """Return the rows of features; ids need `arms`."""
        actions = list(actions)
        if not self.arms and not all(isinstance(action, Mapping) for action in actions):
            remedy = "Pass the ids as arms=."
            raise ValueError(checks.expected("arms", self.arms, "the ids of the actions", remedy))
        return super().candidates(context, actions)

    def __call__(self, row: Row) -> Array:
        out = np.zeros(self.dimension)
        for name, value in _flat(row):
            if name in self._places:
                out[self._places[name]] = value
        return out
