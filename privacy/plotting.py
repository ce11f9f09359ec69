"""Pictures, on matplotlib (extra ``plot``), which is imported when one is drawn."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from privacy import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privacy.curves import Curve
    from privacy.running_sums.factorisations import Factorisation
    from privacy.running_sums.participation import Participation

_POINTS = 200
_LEAST_DELTA = 1e-10


def plot_privacy_profiles(
    curves: Mapping[str, "Curve"], *, epsilons: Iterable[float] | None = None
) -> "Figure":
    """Draw privacy profiles: delta as a function of epsilon, on a log scale.

    Parameters
    ----------
    curves
        What to compare, each a line under its name.
    epsilons
        Where the curves are asked, each >= 0; unless said, from 0 to where delta is 1e-10.

    Returns
    -------
    matplotlib.figure.Figure
        Not shown, and not part of pyplot's state: ``figure.savefig(path)``. Where all curves have
        one relation and one unit the axis names them, else the legend does.

    Raises
    ------
    ValueError, TypeError
        There is no curve, or an epsilon is outside its domain.
    """
    from matplotlib.figure import Figure

    given: object = curves
    if not isinstance(given, Mapping) or not curves:
        remedy = "Pass some, such as {'one query': account(Gaussian(2.0))}."
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
    factorisations: Iterable["Factorisation"], *, participation: "Participation | None" = None
) -> "Figure":
    """Draw the noise of every release, in units of the noise of one release at the same privacy.

    Parameters
    ----------
    factorisations
        What to compare, each a line under its name.
    participation
        In which releases a record takes part; one of them unless said.

    Returns
    -------
    matplotlib.figure.Figure
        Not shown, and not part of pyplot's state: ``figure.savefig(path)``.
    """
    from matplotlib.figure import Figure

    compared = tuple(factorisations)
    if not compared:
        remedy = "Pass some, such as [Factorisation.square_root(100)]."
        raise ValueError(checks.expected("factorisations", compared, "at least one", remedy))
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes: Any = figure.add_subplot()
    for factorisation in compared:
        noise = factorisation.sensitivity(participation) * factorisation.noise_std()
        axes.plot(range(1, factorisation.releases + 1), noise, label=factorisation.name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("release k")
    axes.set_ylabel("noise of the k-th sum / noise of one release")
    axes.legend()
    return figure


def plot_tradeoff(curve: "Curve", scores_0: ArrayLike, scores_1: ArrayLike) -> "Figure":
    """Draw the empirical trade-off between both kinds of error against the claimed one.

    Parameters
    ----------
    curve
        The claim. Its region is f(a) = max over epsilon of 1 - delta(epsilon) - e^epsilon a and
        its mirror image (Dong, Roth and Su 2022): no test may fall below.
    scores_0, scores_1
        Shape (runs,) each: log-likelihood ratios of outputs on either data set.

    Returns
    -------
    matplotlib.figure.Figure
        Not shown, and not part of pyplot's state: ``figure.savefig(path)``.

    Raises
    ------
    ValueError
        The scores are not two arrays of one shape, or hold NaN.
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
    # straight between two thresholds: that is what a coin's choice between them would give
    axes.plot([1, *false_alarms, 0], [0, *misses, 1], label="seen")
    axes.set_xlabel("false positive rate")
    axes.set_ylabel("false negative rate")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.legend()
    return figure


def claimed_tradeoff(curve: "Curve", false_alarms: ArrayLike) -> Any:
    """Return the smallest false negative rate that a claim allows, by false positive rate.

    A lower bound of it: the maximum over some epsilons is not above that over all.
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
