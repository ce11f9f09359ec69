"""Plots with matplotlib (extra ``plot``), imported on first use."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from privacy import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privacy.curves import Curve
    from privacy.running_sums.factorizations import Factorization
    from privacy.running_sums.participation import Participation

_POINTS = 200
_LEAST_DELTA = 1e-10


def plot_privacy_profiles(
    curves: Mapping[str, "Curve"], *, epsilons: Iterable[float] | None = None
) -> "Figure":
    """Plot privacy profiles: delta as a function of epsilon, on a log scale.

    Parameters
    ----------
    curves
        The curves to compare, by label.
    epsilons
        Values of epsilon, each >= 0. By default from 0 to where delta is 1e-10.

    Returns
    -------
    matplotlib.figure.Figure
        Not registered with pyplot; save it with ``figure.savefig(path)``. The relation and unit
        are in the axis label if all curves share them, else in the legend.
    """
    from matplotlib.figure import Figure

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
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes: Any = figure.add_subplot()
    for name, curve in curves.items():
        deltas = [curve.delta(epsilon) for epsilon in asked]
        axes.plot(asked, deltas, label=name if same else f"{name} ({whose[name]})")
    axes.set_yscale("log")
    axes.set_ylim(_LEAST_DELTA, 1)
    axes.set_xlim(left=0)
    axes.set_xlabel("epsilon")
    axes.set_ylabel(f"delta ({next(iter(whose.values()))})" if same else "delta")
    axes.legend()
    return figure


def plot_running_sums(
    factorizations: Iterable["Factorization"], *, participation: "Participation | None" = None
) -> "Figure":
    """Plot the noise of each prefix sum, divided by that of one release at the same privacy.

    Parameters
    ----------
    factorizations
        The factorizations to compare, labeled by their names.
    participation
        The releases in which a record participates; by default one of them.

    Returns
    -------
    matplotlib.figure.Figure
        As in `plot_privacy_profiles`.
    """
    from matplotlib.figure import Figure

    compared = tuple(factorizations)
    if not compared:
        remedy = "Pass factorizations, such as [Factorization.square_root(100)]."
        raise ValueError(checks.expected("factorizations", compared, "at least one", remedy))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes: Any = figure.add_subplot()
    for factorization in compared:
        noise = factorization.sensitivity(participation) * factorization.noise_std()
        axes.plot(range(1, factorization.releases + 1), noise, label=factorization.name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("release k")
    axes.set_ylabel("noise of the k-th sum / noise of one release")
    axes.legend()
    return figure


def plot_tradeoff(curve: "Curve", scores_0: ArrayLike, scores_1: ArrayLike) -> "Figure":
    """Plot the empirical trade-off between both error rates and the claimed lower bound.

    Parameters
    ----------
    curve
        The claim. It implies the trade-off function f(a) = max over epsilon of
        1 - delta(epsilon) - e^epsilon a and its mirror image (Dong, Roth and Su 2022): no test
        lies below.
    scores_0, scores_1
        Shape (runs,) each: log-likelihood ratios of outputs on the two data sets.

    Returns
    -------
    matplotlib.figure.Figure
        As in `plot_privacy_profiles`.
    """
    from matplotlib.figure import Figure

    from privacy.audit.bounds import scores_of

    first, second = map(np.sort, scores_of(scores_0, scores_1))
    cuts = np.quantile(np.concatenate([first, second]), np.linspace(0, 1, _POINTS), method="lower")
    false_alarms = 1 - np.searchsorted(first, cuts, "right") / first.size
    misses = np.searchsorted(second, cuts, "right") / second.size
    rates = np.linspace(0, 1, _POINTS + 1)
    figure = Figure(figsize=(5, 5), layout="constrained")
    axes: Any = figure.add_subplot()
    axes.plot([0, 1], [1, 0], ":", color="0.6", label="no information")
    axes.plot(rates, claimed_tradeoff(curve, rates), label="claimed: no test below")
    # linear between two thresholds, as attained by a randomized choice between them
    axes.plot([1, *false_alarms, 0], [0, *misses, 1], label="seen")
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("false negative rate")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend()
    return figure


def claimed_tradeoff(curve: "Curve", false_alarms: ArrayLike) -> Any:
    """Return the smallest false negative rate that a claim allows, by false positive rate.

    A lower bound on it: the maximum is taken over finitely many epsilons.
    """
    rates = np.asarray(false_alarms, dtype=float)
    largest = min(curve.epsilon(1e-6), 50.0)
    epsilons = np.concatenate([[0.0], np.geomspace(1e-3, max(largest, 2e-3), 40)])
    found = np.zeros_like(rates)
    for epsilon in epsilons:
        room = 1 - curve.delta(float(epsilon))
        found = np.maximum(found, room - np.exp(epsilon) * rates)
        found = np.maximum(found, np.exp(-epsilon) * (room - rates))
    return found
