"""Draw the pictures of the documentation: ``python docs/draw.py``."""

from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

import privacy as dp
from privacy.plotting import plot_running_sums

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FOLDER = Path(__file__).parent / "pictures"


def running_sums(releases: int = 100) -> "Figure":
    """Return every way to correlate the noise of 100 releases, one participation."""
    kinds = dp.Factorisation
    return plot_running_sums(
        [
            kinds.independent(releases),
            kinds.binary_tree(releases),
            kinds.honaker_tree(releases),
            kinds.banded(releases, band=10),
            kinds.square_root(releases),
            kinds.buffered(releases),
            kinds.column_normalised(releases),
            kinds.optimised(releases),
        ]
    )


def main() -> None:
    """Write every picture, the same bytes each time."""
    FOLDER.mkdir(exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "dpcalib"}):
        running_sums().savefig(FOLDER / "running-sums.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
