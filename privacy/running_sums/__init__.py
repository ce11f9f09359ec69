"""Running sums: releases that share noise, and the factorisations that say how they share it.

Importing the room registers its own kinds of factorisations, as `register_factorisation` does with
those of others: the base class knows none of them.
"""

from privacy.running_sums import buffered, dense, toeplitz

__all__ = ["buffered", "dense", "toeplitz"]
