"""Settings for all tests."""

import os

from hypothesis import settings

# Without COLUMNS, messages are not wrapped.
os.environ.pop("COLUMNS", None)

# Reproducible failures: the same draws on every machine, and no time limit.
settings.register_profile("dpcalib", deadline=None, derandomize=True)
settings.load_profile("dpcalib")
