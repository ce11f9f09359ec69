"""Times of the benchmarks for airspeed velocity, which compares two commits."""

import sys
from pathlib import Path
from typing import Any

# Last, so that `privacy` and `bandits` are those of the commit that asv installed.
sys.path.append(str(Path(__file__).parents[4]))

from tests.benchmarks import loops, speed


class Accounting:
    """Single queries and a calibration; `fresh` defeats caches."""

    number = 1

    def setup(self) -> None:
        self.fresh = 1.0
        speed.tight_epsilon(0.77)

    def _next(self) -> float:
        self.fresh += 1e-6
        return self.fresh

    def time_epsilon(self) -> None:
        speed.tight_epsilon(self._next())

    def time_delta(self) -> None:
        speed.tight_delta(self._next())

    def time_sigma(self) -> None:
        speed.calibrated(0.01, 1000, 1.0)(self._next())


class Steps:
    """Accountants in training loops."""

    def time_equal_steps(self) -> None:
        loops.equal_steps(10_000, every=1000)

    def time_different_steps(self) -> None:
        loops.different_steps(1000)


class Live:
    """1,000 live rounds of the private agents at d = 20."""

    params = (loops.AGENTS,)
    number = 1  # an agent plays once

    def setup(self, kind: str) -> None:
        self.agent = loops.algorithm(kind).start()
        self.features: Any = loops.unit_features(1000, 20)

    def time_rounds(self, kind: str) -> None:
        loops.live_rounds(self.agent, self.features)


class Simulated:
    """10,000 rounds of 8 replicates."""

    params = (tuple(loops.SIMULATED),)

    def time_rounds(self, name: str) -> None:
        loops.simulated_rounds(loops.SIMULATED[name][0], replicates=8)


def time_factorization() -> None:
    """The factorization of 300 releases with the smallest mean square error."""
    loops.optimized(300)
