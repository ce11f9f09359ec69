"""The profile of the best of a random number of runs, from one run's (docs/tuning.md)."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from privacy.curves import NO_HINT, Answer, Curve, Hint, LastCurve
from privacy.mechanisms import BestOf, UnsupportedMechanism
from privacy.numerics.rounding import exp_up, round_up
from privacy.numerics.solve import golden

_STEPS = 12  # deltas of one run that are tried for k


@dataclass(frozen=True, eq=False, repr=False)
class BestOfCurve(LastCurve):
    """The privacy profile of the best of a random number of runs, from the curve of one run."""

    theorem: ClassVar[str] = "Koskela, Redberg and Wang 2024, on the profile of one run"
    closed_form: ClassVar[bool] = False
    one: Curve
    runs: BestOf

    @property
    def resolution(self) -> float:  # type: ignore[override]
        return max(self.one.resolution, 1e-9)

    @property
    def notion(self) -> str:  # type: ignore[override]
        return self.one.notion

    @cached_property
    def _shift(self) -> float:
        """Return k, rounded up."""
        if self.runs.shape is None:
            return round_up(self.runs.mean_runs * self.one.delta(0.0), 1e-14)
        gamma, power = self.runs.gamma, 1 + self.runs.shape
        odds = (1 - gamma) / gamma

        def logarithm(log_delta: float) -> float:
            """Return log(e^e1 + odds delta) at the e1 of a delta, rounded up."""
            delta = exp_up(log_delta)
            epsilon = self.one.epsilon(delta)
            if math.isinf(epsilon):
                return epsilon
            value = epsilon + math.log1p(odds * delta * math.exp(-epsilon))
            return round_up(value, 1e-14) + 1e-15

        found = [self.one.epsilon(0.0), logarithm(math.log(gamma) - 40)]

        def tried(log_delta: float) -> float:
            found.append(logarithm(log_delta))
            return found[-1]

        golden(tried, math.log(gamma) - 25, -1e-9, _STEPS)  # every delta is valid
        return round_up(power * min(found), 1e-15)

    def _at_epsilon(self, epsilon: float, hint: Hint = NO_HINT) -> Answer:
        left = epsilon - self._shift
        if not left >= 0:
            return self._answer(0.0)
        found = self.one._at_epsilon(math.nextafter(left, 0.0), hint)
        value = found.value + self.runs.log_mean + 1e-15 * (1 + abs(found.value))
        return self._answer(min(0.0, value), found.error)._replace(hint=found.hint)

    def _at_delta(self, delta: float) -> Answer:
        each = math.nextafter(delta * math.exp(-self.runs.log_mean) * (1 - 1e-14), 0.0)
        found = self.one._at_delta(max(each, 0.0))
        value = math.nextafter(found.value + self._shift, math.inf)
        return self._answer(value, found.error)

    def _least_delta(self) -> float:
        return self.one._least_delta()

    def last(self) -> UnsupportedMechanism:
        return UnsupportedMechanism(
            f"Accounting method {self.notion!r} does not compose the best of several runs.",
            mechanism=self.runs,
            notion=self.notion,
        )
