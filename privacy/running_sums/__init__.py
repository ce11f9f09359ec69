"""Running sums with correlated noise, and the factorizations that correlate it.

Importing the package registers its own kinds of factorizations with `register_factorization`.
"""

from privacy.running_sums import buffered, dense, toeplitz

__all__ = ["buffered", "dense", "toeplitz"]
