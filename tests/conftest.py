"""Settings that every test shares."""

from hypothesis import settings

# The same draws on every machine and no wall-clock limit: a failure here is a failure everywhere.
settings.register_profile("dpcalib", deadline=None, derandomize=True)
settings.load_profile("dpcalib")
