"""Plans: named parts and the budget that they must fit, read from TOML or JSON."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from os import PathLike
from pathlib import Path
from typing import Any

from privacy import checks, mechanisms
from privacy.accounting import Notion, account, check_notion
from privacy.budget._measures import Immutable
from privacy.guarantees import ONE_RECORD
from privacy.mechanisms import Mechanism, PoissonSampled, brief, compose, repeat, user_level
from privacy.numerics.display import html_table
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

SCHEMA = "dpcalib.plan/1"
_OPTIONAL = ("relation", "notion", "unit")
_NAME = 'Pass a name on one line, such as name = "histogram".'
_TITLE = 'Name the plan above its tables, such as name = "spring release".'
_BUDGET = "Write a [budget] table with a delta."
_OTHER_KEYS = {
    "sigma": "Write the noise_multiplier: sigma / clip norm.",
    "clip_norm": "Write the noise in clip norms: divide it by the clip norm.",
    "q": "Write sampling_probability.",
    "count": "Write steps.",
}
_LARGEST_FILE = 8_000_000  # bytes: about 100,000 parts, read in a few seconds
_MOST_VALUES = 100_000  # values per part, and parts per plan
_DEEPEST = 100
# tomllib takes quadratic time for a dotted key; this search, without backtracking, is linear
_DEEP_KEY = re.compile(
    rf"""(?<![\w.-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{_DEEPEST}}}"""
)
_FLAT = "Write the plan flat: [[part]] tables, and steps for repetitions."
_PARTS = "Write a [[part]] table with a name and a type for every mechanism."


@dataclass(frozen=True)
class Plan(Immutable):
    """Mechanisms to run on the same records, and the budget that they must fit.

    Parameters
    ----------
    parts
        A name, used once, and a mechanism for each part; `mechanism` is their composition.
    epsilon, delta
        The budget: delta in [0, 1), and optionally epsilon > 0.
    notion, relation, unit
        Any accounting method; the others are as in `Budget`.
    """

    name: str
    mechanism: Mechanism = field(init=False, repr=False)
    parts: tuple[tuple[str, Mechanism], ...]
    epsilon: float | None = field(default=None, kw_only=True)
    delta: float = field(kw_only=True)
    relation: NeighboringRelation = field(default=ADD_OR_REMOVE_ONE, kw_only=True)
    notion: Notion = field(default="tightest", kw_only=True)
    unit: str = field(default=ONE_RECORD, kw_only=True)

    def __post_init__(self) -> None:
        check_notion(self.notion)
        parts = tuple((_name(name), mechanism) for name, mechanism in self.parts)
        checks.refuse_if(not parts, "parts", parts, "at least one part", _PARTS)
        name, times = Counter(name for name, _ in parts).most_common(1)[0]
        remedy = "Give each part its own name."
        checks.refuse_if(times > 1, "name", name, "the name of one part", remedy)
        epsilon = None if self.epsilon is None else checks.epsilon(self.epsilon)
        mechanism = compose(*(mechanism for _, mechanism in parts))
        self._set(name=_name(self.name), parts=parts, mechanism=mechanism)
        self._set(epsilon=epsilon, delta=checks.query_delta(self.delta))
        self._set(relation=checks.relation(self.relation), unit=checks.unit(self.unit))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-compatible dict for `plan_from_json`."""
        head = {"schema": SCHEMA, "name": self.name, "relation": str(self.relation)}
        budget = {"epsilon": self.epsilon, "delta": self.delta}
        parts = [{"name": name, **mechanism.to_json()} for name, mechanism in self.parts]
        rest = {"notion": self.notion, "unit": self.unit, "budget": budget, "part": parts}
        return {**head, **rest}

    def _repr_html_(self) -> str:
        allowed = "" if self.epsilon is None else f"epsilon={self.epsilon:.15g}, "
        shown = {"plan": self.name, "budget": f"{allowed}delta={self.delta:.15g}"}
        shown |= {"unit": self.unit, "relation": str(self.relation)}
        parts = ((f"part {name!r}", brief(mechanism)) for name, mechanism in self.parts)
        return html_table([*shown.items(), *parts])

    def spending(self) -> Iterator[float]:
        """Yield epsilon of the first k parts at `delta`, for k = 1, 2, ..."""
        parts = [part for _, part in self.parts]
        for k in range(1, len(parts) + 1):
            curve = account(compose(*parts[:k]), relation=self.relation, notion=self.notion)
            yield curve.epsilon(self.delta)


def load_plan(path: str | PathLike[str]) -> Plan:
    """Read a plan from a TOML file, whose keys are in :doc:`/cli`.

    Raises OSError if the file cannot be read. Raises ValueError or TypeError if it is not a TOML
    plan; the message names the file and the part.
    """
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        rule = f"a file that can be read ({error.strerror or error})"
        raise type(error)(checks.expected("path", str(path), rule, "Pass a TOML file.")) from error
    rule = f"at most {_LARGEST_FILE} bytes long"
    remedy = "Write equal parts once, with steps."
    checks.refuse_if(len(content) > _LARGEST_FILE, "path", str(path), rule, remedy)
    try:
        text = content.decode("utf-8")
        form = None if _DEEP_KEY.search(text) else tomllib.loads(text)
    except ValueError as error:
        remedy = "Correct the line."
        raise ValueError(checks.expected("path", str(path), f"TOML ({error})", remedy)) from error
    except RecursionError:
        form = None
    if form is None:
        rule = f"nested at most {_DEEPEST} deep"
        raise ValueError(checks.expected("path", str(path), rule, _FLAT))
    try:
        return plan_from_json(form)
    except (ValueError, TypeError) as error:
        raise type(error)(f"In {path}: {error}") from error


def plan_from_json(form: Mapping[str, Any]) -> Plan:
    """Build a plan from the output of `Plan.to_json`, or from the parsed content of a TOML plan."""
    form = _table("plan", form, "Pass what Plan.to_json() wrote.")
    # check the schema first: other schemas may have other keys
    _check_present("the plan", "schema", form, f'Write schema = "{SCHEMA}".')
    remedy = f'Write schema = "{SCHEMA}", the only one that this version reads.'
    checks.refuse_if(form["schema"] != SCHEMA, "schema", form["schema"], repr(SCHEMA), remedy)
    needed = {"name": _TITLE, "budget": _BUDGET, "part": _PARTS}
    _check_keys(form, "the plan", needed, needed, ("schema", "name", *_OPTIONAL, "budget", "part"))
    budget, parts = _table("budget", form["budget"], _BUDGET), form["part"]
    needed = {"delta": "Pass a delta, such as 1e-6: an epsilon needs one."}
    _check_keys(budget, "the [budget] table", needed, needed, ("epsilon", "delta"), "budget.")
    checks.instance("part", parts, list | tuple, "a list of tables", _PARTS)
    rule = f"at most {_MOST_VALUES}"
    remedy = "Write equal parts once, with steps."
    checks.refuse_if(len(parts) > _MOST_VALUES, "number of parts", len(parts), rule, remedy)
    return Plan(
        form["name"],
        tuple(_part(number, part) for number, part in enumerate(parts, 1)),
        epsilon=budget.get("epsilon"),
        delta=budget["delta"],
        **{key: form[key] for key in _OPTIONAL if form.get(key) is not None},
    )


def _part(number: int, form: Any) -> tuple[str, Mechanism]:
    """Read one part; an error names it, by number if it has no name."""
    where = f"part {number}"
    try:
        values = _table("part", form, _PARTS)
        _check_present("the part", "name", values, _NAME)
        name = _name(values.pop("name"))
        where = f"part {name!r}"
        _check_size(values)
        return name, _part_mechanism(values)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{where}: {error}") from error


def _check_size(values: Mapping[str, Any]) -> None:
    level: list[Any] = [values]
    depth = seen = 0
    while level:
        depth, seen = depth + 1, seen + len(level)
        if depth > _DEEPEST or seen > _MOST_VALUES:
            rule = f"nested at most {_DEEPEST} deep and to hold at most {_MOST_VALUES} values"
            raise ValueError(checks.expected("type", values.get("type"), rule, _FLAT))
        inner = (node.values() if isinstance(node, Mapping) else node for node in level)
        values_in = (value for several in inner for value in several)
        level = [value for value in values_in if isinstance(value, Mapping | list | tuple)]


def _table(name: str, form: Any, remedy: str) -> dict[str, Any]:
    checks.instance(name, form, Mapping, "a table", remedy)
    return dict(form)


_RUN = ("steps", "max_contributions", "sampling_probability")
"""Keys of every part, unless its mechanism has a field of that name."""


def _part_mechanism(values: dict[str, Any]) -> Mechanism:
    kind: Any = getattr(mechanisms, str(values.get("type")), None)
    is_known = isinstance(kind, type) and issubclass(kind, Mechanism) and kind is not Mechanism
    own = fields(kind) if is_known else ()
    taken = {one.name for one in own}  # such as the steps of a RandomAllocation
    run = {key: 1 if key in taken else values.pop(key, 1) for key in _RUN}
    if is_known:
        needs = [one.name for one in own if one.default is MISSING]
        knows = ["type", *(one.name for one in own), *_RUN]
        hints = _OTHER_KEYS | {one.name: f"{kind.__name__} needs it." for one in own}
        _check_keys(values, "the part", needs, hints, knows)
    once: Mechanism = PoissonSampled(
        mechanisms.mechanism_from_json(values), sampling_probability=run["sampling_probability"]
    )
    once = user_level(once, max_contributions=run["max_contributions"])
    remedy = "Pass the number of runs, such as steps = 1."
    return repeat(once, checks.count("steps", run["steps"], remedy))


def _name(value: object) -> str:
    return checks.phrase("name", value, _NAME)


def _check_keys(
    form: Mapping[str, Any],
    owner: str,
    needs: Iterable[str],
    hints: Mapping[str, str],
    knows: Iterable[str],
    prefix: str = "",
) -> None:
    known = list(dict.fromkeys(knows))
    for key in form:
        rule = f"one of {', '.join(known)}"
        remedy = hints.get(key, "Correct the key.")
        checks.refuse_if(key not in known, "key", f"{prefix}{key}", rule, remedy)
    for key in needs:
        _check_present(owner, key, form, hints[key])


def _check_present(owner: str, key: str, form: Mapping[str, Any], remedy: str) -> None:
    if form.get(key) is None:
        raise ValueError(f"Expected {owner} to have the key {key!r}. {remedy}")
