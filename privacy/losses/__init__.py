"""Dominating pairs of one application; modules that need numpy are imported on first use."""

from typing import TYPE_CHECKING

from privacy.lazy import lazy

# fmt: off
# isort: off
if TYPE_CHECKING:
    from privacy.losses import (
        allocation, atoms, divergences, groups, halves, lattice, mixtures, panels, quadrature,
        shuffled,
    )

__all__ = [
    "allocation", "atoms", "divergences", "groups", "halves", "lattice", "mixtures", "panels",
    "quadrature", "shuffled",
]
# fmt: on
__getattr__, __dir__ = lazy(__name__, {}, modules=tuple(__all__))
