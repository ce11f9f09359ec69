"""Settings that every test shares."""

import os

from hypothesis import settings

# Messages are whole lines where nothing says how wide they are shown.
os.environ.pop("COLUMNS", None)

# The same draws on every machine and no wall-clock limit: a failure here is a failure everywhere.
settings.register_profile("dpcalib", deadline=None, derandomize=True)
settings.load_profile("dpcalib")
