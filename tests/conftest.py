"""Settings for all tests."""

import os

import pytest
from hypothesis import settings

NUMBERS = ("laws", "reference", "crosscheck")  # folders whose tests only check computed numbers

# Without COLUMNS, messages are not wrapped.
os.environ.pop("COLUMNS", None)

# The workers use all cores; more BLAS threads take twice the CPU time of matrices. This comes
# before the first import of numpy.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Reproducible failures: the same draws on every machine, and no time limit.
settings.register_profile("dpcalib", deadline=None, derandomize=True)
settings.load_profile("dpcalib")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests that need not run again where only the installation differs."""
    for item in items:
        if item.path.parent.name in NUMBERS or item.path.name == "test_mutants.py":
            item.add_marker("slow")
