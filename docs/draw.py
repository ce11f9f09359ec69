"""Draw the figures of the documentation: ``python docs/draw.py``."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import bandits
import privacy as dp
from privacy.plotting import (
    finish,
    new_axes,
    plot_curve,
    plot_privacy_profiles,
    plot_running_sums,
    plot_tradeoff,
    style,
)

FOLDER = Path(__file__).parent / "pictures"
INK, MARK = "#808080", "#E69F00"  # both legible on white and on black


def trade_offs() -> Figure:
    """Return the trade-off functions of a DP-SGD run at several noise levels."""
    return plot_tradeoff(
        {
            f"sigma = {sigma:g}": dp.account(
                dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=0.01), 1000)
            )
            for sigma in (0.6, 0.8, 1.0, 2.0)
        },
        title="DP-SGD: q = 0.01, 1,000 steps, ADD_OR_REMOVE_ONE",
    )


def front() -> Figure:
    """Return epsilon against the steps of a training run, by the default method and by RDP."""
    step = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
    steps = [1, 5, 10, 20, *range(50, 1001, 50)]

    def epsilons(notion: Any) -> list[float]:
        return [dp.account(dp.repeat(step, n), notion=notion).epsilon(1e-5) for n in steps]

    title = "DP-SGD: noise multiplier 1, sampling probability 0.01, delta 1e-5"
    axes = new_axes("training steps", "epsilon", title=title, size=(7, 3.6))
    default, renyi = epsilons("tightest"), epsilons("rdp")
    axes.fill_between(steps, default, renyi, color=INK, alpha=0.15, linewidth=0)
    axes.plot(steps, renyi, label="Rényi DP", **style(1))
    axes.plot(steps, default, label="dpcalib's default", **style(0))
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, 1000)
    return finish(axes)


def privacy_profiles() -> Figure:
    """Return the privacy profiles of a DP-SGD run by several accounting methods."""
    step = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
    run = dp.repeat(step, 1000)
    return plot_privacy_profiles(
        {
            "contour": dp.account(run, notion="contour"),
            "rdp": dp.account(run, notion="rdp"),
            "contour, half the steps": dp.account(dp.repeat(step, 500), notion="contour"),
        },
        title="DP-SGD: sigma = 1, q = 0.01, 1,000 steps",
    )


def running_sums(releases: int = 100) -> Figure:
    """Return the noise of 100 releases under each factorization, with one participation."""
    kinds = dp.Factorization
    drawn = [
        kinds.independent(releases),
        kinds.binary_tree(releases),
        kinds.honaker_tree(releases),
        kinds.banded(releases, band=10),
        kinds.square_root(releases),
        kinds.buffered(releases),
        kinds.column_normalized(releases),
        kinds.optimized(releases),
    ]
    # the legend has the order of the curves at the last release
    last = {one.name: -one.sensitivity() * one.noise_std()[-1] for one in drawn}
    return plot_running_sums(sorted(drawn, key=lambda one: last[one.name]))


def flow() -> Figure:
    """Return the diagram from a mechanism to a guarantee."""
    read = {
        "mu": "gaussian",
        "profile": "approximate",
        "supremum over orders": "zcdp",
        "nodes": "contour",
        "grid of losses": "pld",
        "divergences": "rdp",
    }
    heights = range(6, 0, -1)
    middle = 3.5
    columns = [
        [("Mechanism\n(what ran)", middle)],
        [("Dominating pair\n(one application)", middle)],
        list(zip(read, heights, strict=True)),
        [(f"{name} curve", height) for name, height in zip(read.values(), heights, strict=True)],
        [("Answer", middle)],
        [("Guarantee", middle)],
    ]
    figure = Figure(figsize=(10, 4.2), layout="constrained", facecolor="none")
    axes: Any = figure.add_subplot()
    axes.set_axis_off()
    axes.set_xlim(-0.6, 10.6)
    axes.set_ylim(0.4, 6.6)
    box = {"boxstyle": "round,pad=0.4", "facecolor": "none", "edgecolor": INK}
    boxes = [
        [
            axes.text(
                2 * k, height, text, ha="center", va="center", fontsize=8, color=INK, bbox=box
            )
            for text, height in column
        ]
        for k, column in enumerate(columns)
    ]
    for left, right in pairwise(boxes):
        several = len(left) == len(right)
        for start, end in zip(left, right, strict=True) if several else product(left, right):
            axes.annotate(
                "",
                xy=(0, 0.5),
                xycoords=end.get_bbox_patch(),
                xytext=(1, 0.5),
                textcoords=start.get_bbox_patch(),
                arrowprops={"arrowstyle": "->", "color": INK},
            )
    return figure


def calibration() -> Figure:
    """Return the noise of a training run against epsilon, by two methods."""
    asked = {"kind": "sigma_against_epsilon", "epsilon": 8, "delta": 1e-6, "points": 12}
    asked |= {"sampling_probability": 0.01, "steps": 1000, "notions": ["tightest", "rdp"]}
    return plot_curve(dp.answers.curve(asked))


def plans() -> Figure:
    """Return what two plans spend, and their budget."""
    examples = FOLDER.parents[1] / "examples"
    named = {"plan.toml": "plan", "over_budget.toml": "over budget"}
    read = (replace(dp.load_plan(examples / file), name=name) for file, name in named.items())
    return plot_curve(dp.answers.budget_over_time(*read))


def spending() -> Figure:
    """Return the share of a budget that each entry of a ledger uses."""
    budget = dp.Budget(epsilon=1, delta=1e-6)
    shares = [0.0]
    for noise in (20.0, 20.0, 12.0, 25.0, 15.0):
        budget = budget.spend(dp.Gaussian(noise))
        shares.append(100 * budget.spent[0] / budget.limit[0])
    axes = new_axes("entry", "spent (% of the budget)")
    axes.plot(range(len(shares)), shares, drawstyle="steps-post", **style(0))
    axes.axhline(100, **style(3))
    axes.set_ylim(0, 110)
    return finish(axes)


def panels(rows: int, size: tuple[float, float], titles: Iterable[str]) -> tuple[Figure, list[Any]]:
    """Return a figure with three panels per row, without axes, and the panels in reading order."""
    figure = Figure(figsize=size, layout="constrained", facecolor="none")
    found: Any = figure.subplots(rows, 3, squeeze=False)
    for axes, title in zip(found.flat, titles, strict=True):
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.set_title(title, color=INK, fontsize=9)
    return figure, list(found.flat)


def cell(axes: Any, x: float, y: float, look: str = "plain", text: str = "") -> None:
    """Draw a square: plain, marked, or null with a dotted edge."""
    face = MARK if look == "marked" else "none"
    edge = {"linewidth": 0.8, "linestyle": ":" if look == "null" else "-"}
    axes.add_patch(Rectangle((x, y), 0.8, 0.8, facecolor=face, edgecolor=INK, **edge))
    ink = "black" if look == "marked" else INK
    axes.text(x + 0.4, y + 0.38, text, ha="center", va="center", fontsize=8, color=ink)
    axes.autoscale_view()


def relations() -> Figure:
    """Return two neighboring data sets under each relation."""
    others = [(x, "plain", text) for x, text in enumerate("abcd")]
    drawn = {
        "ADD_OR_REMOVE_ONE": ([], [(4, "marked", "e")]),
        "REPLACE_ONE": ([(4, "marked", "e")], [(4, "marked", "f")]),
        "REPLACE_SPECIAL": ([(4, "null", "0")], [(4, "marked", "e")]),
    }
    figure, found = panels(1, (7.2, 1.5), drawn)
    for axes, pair in zip(found, drawn.values(), strict=True):
        for y, row in enumerate(pair):
            for x, look, text in [*others, *row]:
                cell(axes, x, 1.3 * (1 - y), look, text)
        axes.set_xlim(-0.2, 5)
    return figure


def units() -> Figure:
    """Return the rows that change together, by unit of privacy."""
    whose = ["ann", "bob", "ann", "cy", "bob", "ann"]
    drawn = {
        "one record": {2},
        "one user (ann)": {k for k, name in enumerate(whose) if name == "ann"},
        "a group of 2 records": {2, 4},
    }
    figure, found = panels(1, (7.2, 1.3), drawn)
    for axes, changed in zip(found, drawn.values(), strict=True):
        for x, name in enumerate(whose):
            cell(axes, x, 0, "marked" if x in changed else "plain", name)
        axes.set_xlim(-0.2, 6)
    return figure


def samplers(records: int = 12, size: int = 3, epochs: int = 3) -> Figure:
    """Return the records in each step, for each sampler: rows are records, columns are steps."""
    rng = np.random.default_rng(4)
    per_epoch = records // size
    steps = epochs * per_epoch
    poisson = rng.random((records, steps)) < size / records
    fixed, shuffled, allocated = (np.zeros((records, steps), dtype=bool) for _ in range(3))
    for step in range(steps):
        fixed[rng.choice(records, size, replace=False), step] = True
    for epoch in range(epochs):
        order = rng.permutation(records)
        for place, record in enumerate(order):
            shuffled[record, epoch * per_epoch + place // size] = True
            allocated[record, epoch * per_epoch + rng.integers(per_epoch)] = True
    truncated = poisson.copy()
    for step in range(steps):
        chosen = np.flatnonzero(poisson[:, step])
        truncated[rng.permutation(chosen)[size + 1 :], step] = False
    groups = np.arange(records) % per_epoch
    turn = groups[:, None] == np.arange(steps)[None, :] % per_epoch
    cyclic = turn & (rng.random((records, steps)) < 0.7)
    drawn = {
        "PoissonSampled": poisson,
        "TruncatedPoisson (at most 4)": truncated,
        "FixedSizeSampled": fixed,
        "Epochs (shuffled)": shuffled,
        "RandomAllocation": allocated,
        "CyclicPoisson (4 groups)": cyclic,
    }
    figure, found = panels(2, (7.2, 5.8), drawn)
    for axes, (title, batches) in zip(found, drawn.items(), strict=True):
        axes.hlines(np.arange(records) + 1.4, -0.1, steps - 0.1, color=INK, linewidth=0.5)
        record, step = np.nonzero(batches)
        axes.plot(step + 0.4, records - record + 0.4, "s", color="#0072B2", markersize=7)
        for step, count in enumerate(batches.sum(axis=0)):
            axes.text(step + 0.4, 0.2, count, ha="center", va="center", fontsize=7, color=INK)
        if title.startswith(("Epochs", "RandomA")):
            for epoch in range(1, epochs):
                axes.axvline(epoch * per_epoch - 0.1, color=MARK, linewidth=1.2)
        axes.set_xlim(-0.2, steps)
    return figure


def bandit_growth(replicates: int = 48) -> Figure:
    """Return the excess regret over LinUCB at epsilon = 1 against the number of rounds."""
    lengths = [2500, 5000, 10_000, 20_000, 40_000]
    costs: dict[str, list[tuple[float, float]]] = {}
    for rounds in lengths:
        same: dict[str, Any] = {"dimension": 20, "rounds": rounds}
        private = same | {"epsilon": 1.0, "delta": 1e-5}
        found = bandits.simulate(
            {
                "LinUCB": bandits.LinUCB(center=0.5, width=0.1, **same),
                "AdaPrivate-TS": bandits.AdaPrivateTS(frozen=True, **private),
                "AdaPrivate-TS, centered, v = 0.1": bandits.AdaPrivateTS(
                    frozen=True, center=0.5, scale=0.1, **private
                ),
                "PrivateUCB": bandits.PrivateUCB(**private),
            },
            bandits.Synthetic(),
            replicates=replicates,
            seed=2026,
            points=1,
        )
        plain = found.regret.pop("LinUCB")
        for name, regret in found.regret.items():
            excess = (regret - plain)[:, 0]
            error = excess.std(ddof=1) / replicates**0.5
            costs.setdefault(name, []).append((excess.mean(), 2 * error))
    title = f"d = 20, epsilon = 1, delta = 1e-5, {replicates} replicates, mean ± 2 s.e."
    axes = new_axes("rounds T", "regret minus that of LinUCB", title=title)
    for number, (name, points) in enumerate(costs.items()):
        means, errors = zip(*points, strict=True)
        axes.errorbar(
            lengths, means, yerr=errors, label=name, marker="o", capsize=3, **style(number)
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{rounds:,}" for rounds in lengths])
    axes.minorticks_off()
    return finish(axes)


def main() -> None:
    """Write every figure. The files are reproducible byte for byte."""
    FOLDER.mkdir(exist_ok=True)
    with mpl.rc_context(fname=FOLDER / "pictures.mplstyle"):
        for draw in (
            flow,
            front,
            relations,
            units,
            samplers,
            calibration,
            plans,
            spending,
            privacy_profiles,
            trade_offs,
            running_sums,
            bandit_growth,
        ):
            name = draw.__name__.replace("_", "-")
            draw().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
