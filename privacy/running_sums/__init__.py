"""Running sums with correlated noise; the import registers the package's factorizations."""

from privacy.running_sums import buffered, dense, toeplitz

__all__ = ["buffered", "dense", "toeplitz"]
