"""Pictures, on matplotlib (extra ``plot``), which is imported when one is drawn."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from privacy.release.factorisations import Factorisation
    from privacy.release.participation import Participation


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

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes: Any = figure.add_subplot()
    for factorisation in factorisations:
        noise = factorisation.sensitivity(participation) * factorisation.noise_std()
        axes.plot(range(1, factorisation.releases + 1), noise, label=factorisation.name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("release k")
    axes.set_ylabel("noise of the k-th sum / noise of one release")
    axes.legend()
    return figure
