"""The values of `dpcalib curve`: one quantity against another, by one or several methods."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import privacy as dp
from privacy import checks
from privacy.answers.batches import flags, run_of
from privacy.answers.options import Asked, Values, named
from privacy.answers.records import Record, record
from privacy.answers.runs import NOISE
from privacy.numerics.display import rounded
from privacy.numerics.rounding import product_up

Track = Callable[[Sequence[float]], Iterable[float]]
"""Yields the given values, and may show how many are done."""

_RUN = ("sampling_probability", "steps", "clip_norm", "relation")
KINDS = {
    "epsilon_against_steps": Asked(NOISE, ("delta",), _RUN),
    "delta_against_epsilon": Asked(NOISE, (), ("epsilon", *_RUN)),
    "sigma_against_epsilon": Asked((), ("delta",), ("epsilon", *_RUN)),
    "sigma_against_sampling_probability": Asked((), ("epsilon", "delta"), _RUN),
    "tradeoff": Asked(NOISE, (), _RUN),
}
"""The options of each kind, which names its axes."""
NAMES = tuple(dict.fromkeys(name for asked in KINDS.values() for name in asked.names))
_ENDS = {"steps": 1000, "epsilon": 10.0, "sampling_probability": 1.0}
_LEAST_DELTA = 1e-10


def curve(options: Mapping[str, Any], *, track: Track = iter) -> Record:
    """Compute one quantity against another.

    The result has the ``values`` of the horizontal axis, and ``series`` of bounds by accounting
    method. `options` has ``kind``, one of ``"epsilon_against_steps"``, ``"delta_against_epsilon"``,
    ``"sigma_against_epsilon"``, ``"sigma_against_sampling_probability"`` and ``"tradeoff"``;
    ``notions``, a list of accounting methods (``["tightest"]``); ``points``, the number of values
    (30); and the options of a run, as in `privacy.answers.sigma`, where that of the horizontal axis
    is the largest value. `track` wraps the values of that axis, for example to show progress.
    Raises `UnsupportedMechanism` if an accounting method has no proven bound.
    """
    given = dict(named(options, ("kind", "notions", "points", *NAMES)))
    kind, points = given.pop("kind", None), given.pop("points", None)
    notions = given.pop("notions", None) or ["tightest"]
    remedy = "Pass the curve to compute."
    checks.refuse_if(kind not in KINDS, "kind", kind, f"one of {', '.join(KINDS)}", remedy)
    asked = KINDS[kind]
    up, _, across = kind.partition("_against_")
    if kind == "tradeoff":
        up, across = "false_negative_rate", "false_positive_rate"
    if unused := [n for n, v in given.items() if v is not None and n not in asked.names]:
        raise ValueError(f"Remove {flags(unused)}: it has no effect on this curve.")
    count = checks.count("points", 30 if points is None else points, "Pass at least 2 points.")
    checks.refuse_if(count < 2, "points", count, ">= 2", "Pass at least 2 points.")
    values = asked.settled({name: given.get(name) for name in asked.names})
    from privacy.accounting import check_notion

    for notion in notions:
        check_notion(notion)
    at = _values(kind, across, values, given_end=given.get(across) is not None, count=count)
    series: dict[str, list[float]] = {notion: [] for notion in notions}
    for value in track(at):
        for notion, found in series.items():
            found.append(_ask(kind, values | {"notion": notion}, across, value))
    given = {name: value for name, value in values.items() if name != across}
    given["relation"] = str(given["relation"])
    axes = {"kind": kind, "across": across, "up": up}
    return record("curve", {**axes, "values": at, "series": series, "given": given})


def _values(kind: str, across: str, values: Values, *, given_end: bool, count: int) -> list[float]:
    import numpy as np

    if kind == "tradeoff":
        return list(np.linspace(0, 1, count).tolist())
    end = values[across] if given_end else _ENDS[across]
    if across == "steps":
        return sorted({int(value) for value in np.linspace(1, end, count).round()})
    if kind == "delta_against_epsilon":
        if not given_end:
            reach = _account(values).epsilon(_LEAST_DELTA)
            end = reach if 0 < reach < 700 else end
        return list(np.linspace(0, end, count).tolist())
    low = end / 100 if across == "epsilon" else end / 1000
    return [*np.geomspace(low, end, count)[:-1].tolist(), end]


def _account(values: Values) -> dp.Curve:
    notion = values.get("notion", "tightest")
    return dp.account(run_of(values), notion=notion, relation=values["relation"])


def _ask(kind: str, values: Values, across: str, x: float) -> float:
    if kind.startswith("sigma"):
        names = ("epsilon", "delta", "sampling_probability", "steps", "notion", "relation")
        given = values | {across: x}
        noise = dp.noise_multiplier(**{name: given[name] for name in names})
        return product_up(noise, values["clip_norm"])
    if kind == "epsilon_against_steps":
        return _account(values | {"steps": x}).epsilon(values["delta"])
    return _account(values).tradeoff(x) if kind == "tradeoff" else _account(values).delta(x)


def budget_over_time(*plans: Mapping[str, Any] | dp.Plan, track: Track = iter) -> Record:
    """Compute epsilon of the first k parts of a plan, for every k.

    `plans` are plans, or mappings that `privacy.plan_from_json` reads. The result, and `track`, are
    as in `curve`. ``parts`` has the names of the parts if all plans share them. Several plans have
    a series each, with None at the end. Raises `UnsupportedMechanism` as `curve` does.
    """
    checks.refuse_if(not plans, "plans", plans, "at least one plan", "Pass a plan.")
    read = [plan if isinstance(plan, dp.Plan) else dp.plan_from_json(plan) for plan in plans]
    longest = max(len(plan.parts) for plan in read)
    numbers = list(range(1, longest + 1))
    spending = [plan.spending() for plan in read]
    spent: list[list[float | None]] = [[] for _ in read]
    for _ in track(numbers):
        for each, found in zip(spending, spent, strict=True):
            found.append(next(each, None))
    given: dict[str, set[Any]] = {
        "delta": {plan.delta for plan in read},
        "relation": {str(plan.relation) for plan in read},
        "unit": {plan.unit for plan in read},
        "name": {plan.name for plan in read},
    }
    shared = {name: values.pop() for name, values in given.items() if len(values) == 1}
    series: dict[str, Any] = {}
    for number, (plan, found) in enumerate(zip(read, spent, strict=True), 1):
        several = len(read) > 1
        series[f"{number}: {_described(plan, shared)}" if several else plan.notion] = found
        if plan.epsilon is not None:
            series[f"{number}: budget" if several else "budget"] = [plan.epsilon] * longest
    answer: Record = {"kind": "plan", "across": "parts", "up": "epsilon", "values": numbers}
    answer |= {"series": series, "given": shared}
    parts = {tuple(name for name, _ in plan.parts) for plan in read}
    if len(parts) == 1:
        answer["parts"] = list(parts.pop())
    return record("curve", answer)


def _described(plan: dp.Plan, shared: Mapping[str, Any]) -> str:
    """Return the name of a plan, and what it does not share with the others."""
    delta = f"delta = {rounded(plan.delta)}"
    own = {"delta": delta, "relation": str(plan.relation), "unit": plan.unit}
    differs = [text for name, text in own.items() if name not in shared]
    return f"{plan.name} ({', '.join(differs)})" if differs else plan.name
