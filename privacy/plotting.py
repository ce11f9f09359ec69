"""Plots with matplotlib (extra ``plot``), imported on first use.

Figures are not registered with pyplot: save one with ``figure.savefig(path)``.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from privacy import checks
from privacy.accounting import account
from privacy.mechanisms import brief, repeat
from privacy.relations import ADD_OR_REMOVE_ONE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privacy.accounting import Notion
    from privacy.budget.ledger import Ledger
    from privacy.curves import Curve
    from privacy.mechanisms import Mechanism
    from privacy.relations import NeighboringRelation
    from privacy.running_sums.factorizations import Factorization
    from privacy.running_sums.participation import Participation

_POINTS = 200
_LEAST_DELTA = 1e-10

_INK = "#808080"  # color of text and axes: legible on white and on black
# Okabe and Ito's colors without black and yellow, which one of both backgrounds hides
_COLORS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 3)), (0, (1, 1)))


def new_axes(across: str, up: str, *, title: str = "", size: tuple[float, float] = (7, 4.8)) -> Any:
    """Return the axes of a new figure, of `size` inches, for light and dark pages."""
    with checks.installed("plot"):
        from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    axes: Any = figure.add_subplot(facecolor="none")
    axes.set_prop_cycle(color=_COLORS)
    axes.set_xlabel(across, color=_INK)
    axes.set_ylabel(up, color=_INK)
    axes.set_title(title, color=_INK, fontsize="medium")
    axes.tick_params(which="both", colors=_INK)
    for edge, spine in axes.spines.items():
        spine.set_visible(edge in ("left", "bottom"))
        spine.set_color(_INK)
    axes.grid(color=_INK, alpha=0.2, linewidth=0.6)
    return axes


def style(number: int) -> dict[str, Any]:
    """Return the color and the line style of a curve; both differ, for color-blind readers."""
    color, line = _COLORS[number % len(_COLORS)], _STYLES[number % len(_STYLES)]
    return {"color": color, "linestyle": line, "linewidth": 1.8}


def finish(axes: Any) -> "Figure":
    """Place the legend below the axes, where it hides nothing, and return the figure."""
    figure: Figure = axes.figure
    if names := axes.get_legend_handles_labels()[1]:
        columns = max(1, min(len(names), 84 // (max(map(len, names)) + 8)))
        look: Any = {"loc": "outside lower center", "frameon": False, "labelcolor": _INK}
        figure.legend(ncols=columns, **look)
    return figure


def plot_privacy_profiles(
    curves: Mapping[str, "Curve"],
    *,
    epsilons: Iterable[float] | None = None,
    title: str | None = None,
) -> "Figure":
    """Plot privacy profiles: delta as a function of epsilon, on a log scale.

    The axis label has the relation and unit if all curves share them, else the legend has them.
    `curves` are by label, `epsilons` by default from 0 to where delta is 1e-10. The default title
    is the mechanism, if all curves have the same one.
    """
    given: object = curves
    if not isinstance(given, Mapping) or not curves:
        remedy = "Pass curves by label, such as {'one query': account(Gaussian(2.0))}."
        shown = type(curves).__name__
        raise ValueError(checks.expected("curves", shown, "a mapping of curves", remedy))
    if epsilons is None:
        ends = [curve.epsilon(_LEAST_DELTA) for curve in curves.values()]
        last = max([end for end in ends if 0 < end < math.inf], default=1.0)
        epsilons = np.linspace(0, last, _POINTS // 2).tolist()
    asked = list(epsilons)
    whose = {name: f"{curve.relation}, {curve.unit}" for name, curve in curves.items()}
    same = len(set(whose.values())) == 1
    up = f"delta ({next(iter(whose.values()))})" if same else "delta"
    axes = new_axes("epsilon", up, title=_title(title, curves.values()))
    for number, (name, curve) in enumerate(curves.items()):
        deltas = [curve.delta(epsilon) for epsilon in asked]
        label = name if same else f"{name} ({whose[name]})"
        axes.plot(asked, deltas, label=label, **style(number))
    axes.set_yscale("log")
    axes.set_ylim(_LEAST_DELTA, 1)
    axes.set_xlim(left=0)
    return finish(axes)


def plot_running_sums(
    factorizations: Iterable["Factorization"],
    *,
    participation: "Participation | None" = None,
    title: str | None = None,
) -> "Figure":
    """Plot the noise of each prefix sum, divided by that of one release at the same privacy.

    `participation` is as in `Factorization.sensitivity`. The default title has it, and K.
    """
    compared = tuple(factorizations)
    remedy = "Pass factorizations, such as [Factorization.square_root(100)]."
    checks.refuse_if(not compared, "factorizations", compared, "at least one", remedy)
    if title is None:
        releases = sorted({one.releases for one in compared})
        numbers = " or ".join(f"{number:,}" for number in releases)
        whose = "participation in one release" if participation is None else str(participation)
        title = f"{numbers} releases, {whose}"
    axes = new_axes("release k", "noise of the k-th sum / noise of one release", title=title)
    for number, factorization in enumerate(compared):
        noise = factorization.sensitivity(participation) * factorization.noise_std()
        at = range(1, factorization.releases + 1)
        axes.plot(at, noise, label=factorization.name, **style(number))
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    return finish(axes)


def plot_tradeoff(
    curves: "Curve | Mapping[str, Curve]",
    scores_0: ArrayLike | None = None,
    scores_1: ArrayLike | None = None,
    *,
    title: str | None = None,
) -> "Figure":
    """Plot the trade-off between both error rates, and the empirical trade-off of an attack.

    `curves` is a curve, or several by label. `scores_0` and `scores_1` are both or none:
    log-likelihood ratios of outputs on the two data sets, shape (runs,) each. The default title is
    as in `plot_privacy_profiles`, with the relation and unit.
    """
    from privacy.curves import Curve

    named = curves if isinstance(curves, Mapping) else {"claimed: no test below": curves}
    if not named or not all(isinstance(curve, Curve) for curve in named.values()):
        remedy = "Pass a curve, such as account(Gaussian(2.0)), or several by label."
        shown = type(curves).__name__
        raise ValueError(checks.expected("curves", shown, "a curve or a mapping of curves", remedy))
    seen = None
    if scores_0 is not None or scores_1 is not None:
        seen = _seen([] if scores_0 is None else scores_0, [] if scores_1 is None else scores_1)
    whose = dict.fromkeys(f"{curve.relation}, {curve.unit}" for curve in named.values())
    shown = _title(title, named.values(), *(whose if len(whose) == 1 else ()), width=54)
    axes = new_axes("false positive rate", "false negative rate", title=shown, size=(5, 5.6))
    axes.plot([0, 1], [1, 0], ":", color=_INK, label="no information")
    rates = np.concatenate([[0], np.geomspace(1e-4, 0.01, 20), np.linspace(0.01, 1, _POINTS)[1:]])
    for number, (name, curve) in enumerate(named.items()):
        axes.plot(rates, curve.tradeoff(rates), label=name, **style(number))
    if seen is not None:
        axes.plot(*seen, label="seen", **style(len(named)))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    return finish(axes)


def _seen(scores_0: ArrayLike, scores_1: ArrayLike) -> tuple[list[float], list[float]]:
    from privacy.audit.bounds import scores_of

    first, second = map(np.sort, scores_of(scores_0, scores_1))
    cuts = np.quantile(np.concatenate([first, second]), np.linspace(0, 1, _POINTS), method="lower")
    false_alarms = 1 - np.searchsorted(first, cuts, "right") / first.size
    misses = np.searchsorted(second, cuts, "right") / second.size
    # linear between two thresholds, as attained by a randomized choice between them
    return [1, *false_alarms, 0], [0, *misses, 1]


def plot_curve(found: Mapping[str, Any]) -> "Figure":
    """Plot a record of `privacy.answers.curve`, `budget_over_time` or ``dpcalib curve --json``."""
    given = found["given"]
    shown = {name: value for name, value in given.items() if name not in ("relation", "name")}
    if "sigma" in shown:  # the same noise, in two units
        shown.pop("noise_multiplier", None)
    numbers = {name: f"{x:g}" if isinstance(x, int | float) else x for name, x in shown.items()}
    parameters = [f"{_name(name)} = {value}" for name, value in numbers.items()]
    if "relation" in given:
        parameters.append(given["relation"])
    labels = (_LABELS.get(axis, _name(axis)) for axis in (found["across"], found["up"]))
    axes = new_axes(*labels, title=_joined(parameters))
    stepped = {"drawstyle": "steps-post", "marker": "o"} if found["kind"] == "plan" else {}
    for number, (name, values) in enumerate(found["series"].items()):
        finite = [math.nan if value in ("inf", None) else value for value in values]
        axes.plot(found["values"][: len(finite)], finite, label=name, **style(number), **stepped)
    if found["kind"].startswith("sigma_against"):
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter(NullFormatter())
    elif found["kind"] == "delta_against_epsilon":
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if found["kind"] == "plan":
        names = found.get("parts", found["values"])
        turned = {"rotation": 30, "ha": "right"} if "parts" in found else {}
        axes.set_xticks(found["values"], names, **turned)
    return finish(axes)


def plot_epsilon_against_steps(
    mechanisms: Mapping[str, "Mechanism"],
    steps: Iterable[int],
    *,
    delta: float,
    notion: "Notion" = "tightest",
    relation: "NeighboringRelation" = ADD_OR_REMOVE_ONE,
) -> "Figure":
    """Plot epsilon of n runs of each mechanism against n, for n in `steps`.

    `mechanisms` has one step of each run, by label; others are as in `Curve.epsilon` and `account`.
    """
    counts = list(steps)

    def epsilon(step: "Mechanism", n: int) -> float:
        return account(repeat(step, n), notion=notion, relation=relation).epsilon(delta)

    series = {name: [epsilon(step, n) for n in counts] for name, step in mechanisms.items()}
    given = {"delta": delta, "notion": notion, "relation": str(relation)}
    axes = {"kind": "epsilon_against_steps", "across": "steps", "up": "epsilon"}
    return plot_curve({**axes, "values": counts, "series": series, "given": given})


def plot_ledger(ledger: "Ledger") -> "Figure":
    """Plot the spent share of every `Budget` of a ledger over time."""
    axes = new_axes("time (UTC)", "share of the budget that was spent (%)")
    for number, (name, (times, shares)) in enumerate(ledger.history().items()):
        kept = sorted({*range(0, len(times), 1 + len(times) // 2000), len(times) - 1})
        across, up = ([each[k] for k in kept] for each in (times, shares))
        # a dollar sign would start mathematical text, and a leading underscore hides a label
        label = " " * name.startswith("_") + name.replace("$", r"\$")
        percent = [100 * y for y in up]
        axes.plot(across, percent, label=label, drawstyle="steps-post", **style(number))
    axes.set_ylim(0, 105)
    axes.figure.autofmt_xdate()
    return finish(axes)


def _title(title: str | None, curves: "Iterable[Curve]", *parameters: str, width: int = 74) -> str:
    if title is not None:
        return title
    mechanisms = {curve.mechanism for curve in curves}
    same = mechanisms.pop() if len(mechanisms) == 1 else None
    return _joined([*parameters, *([] if same is None else [brief(same)])], width)


def _joined(parameters: Iterable[str], width: int = 74) -> str:
    return textwrap.fill(", ".join(parameters), width)


def _name(name: str) -> str:
    return name.replace("_", " ")


_LABELS = {
    "steps": "steps (releases)",
    "sigma": "sigma (in the unit of the clip norm)",
    "noise_multiplier": "noise multiplier (sigma / clip norm)",
    "sampling_probability": "sampling probability q",
    "parts": "parts of the plan so far",
}
