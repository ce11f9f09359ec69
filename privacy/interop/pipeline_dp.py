"""PipelineDP: a budget accountant that calibrates all aggregations of a pipeline together."""

import math
from typing import Any

from pipeline_dp.aggregate_params import MechanismType
from pipeline_dp.budget_accounting import BudgetAccountant, MechanismSpec, MechanismSpecInternal

from privacy import checks
from privacy.accounting import account
from privacy.calibration import calibrate
from privacy.curves import Curve
from privacy.mechanisms import ApproximateDP, Gaussian, Laplace, Mechanism, PureDP, compose, repeat
from privacy.numerics.rounding import round_down

_CLAIMED = 0.5
"""Share of the total delta that selections and thresholds claim, if there are any."""


class CalibratedBudgetAccountant(BudgetAccountant):  # type: ignore[misc]  # no types
    """Use in place of ``NaiveBudgetAccountant``: the noise of the whole pipeline is calibrated.

    Each aggregation gets noise in inverse proportion to its weight. All together have the total
    epsilon and delta for one privacy id that is added or removed, by the tightest method. Partition
    selection and thresholds are (epsilon_i, delta_i) claims: epsilon_i is that of Laplace noise of
    the same weight; the delta_i add up to half the total. The budget is `total_epsilon`,
    `total_delta`; others are as in ``NaiveBudgetAccountant``.
    """

    def __init__(
        self,
        total_epsilon: float,
        total_delta: float,
        num_aggregations: int | None = None,
        aggregation_weights: list[float] | None = None,
    ) -> None:
        super().__init__(total_epsilon, total_delta, num_aggregations, aggregation_weights)
        self._noise = math.nan

    def request_budget(
        self,
        mechanism_type: MechanismType,
        sensitivity: float = 1,
        weight: float = 1,
        count: int = 1,
        noise_standard_deviation: float | None = None,
        name: str = "",
    ) -> Any:
        """Register an aggregation; its noise is known after `compute_budgets`."""
        if self._finalized:
            message = "The budget was already computed. Make all requests before compute_budgets()."
            raise RuntimeError(message)
        if noise_standard_deviation is not None:
            message = "noise_standard_deviation is not supported. Pass a weight instead."
            raise NotImplementedError(message)
        if sensitivity != 1:  # some noise of PipelineDP would be scaled twice, some once
            remedy = "Leave it out: the noise is that of a query of sensitivity 1."
            raise ValueError(checks.expected("sensitivity", sensitivity, "1", remedy))
        if self._total_delta == 0 and mechanism_type is not MechanismType.LAPLACE:
            raise ValueError(f"{mechanism_type.value} needs a delta. Pass total_delta > 0.")
        spec = MechanismSpec(mechanism_type=mechanism_type, name=name, _count=count)
        self._register_mechanism(MechanismSpecInternal(sensitivity, weight, spec))
        return spec

    def compute_budgets(self) -> None:
        """Calibrate the noise of all aggregations that were requested."""
        self._check_aggregation_restrictions()
        if self._scopes_stack:
            raise RuntimeError("A budget scope is open. Leave it, then call compute_budgets().")
        self._finalize()
        if not self._mechanisms:
            return
        target = {"epsilon": self._total_epsilon, "delta": self._total_delta}
        self._noise = calibrate(self._mechanism, **target)
        for one in self._mechanisms:
            spec, (epsilon, delta) = one.mechanism_spec, self._claim(one, self._noise)
            if _is_noise(one):
                spec.set_noise_standard_deviation(self._deviation(one, self._noise))
            else:
                spec.set_eps_delta(epsilon, delta)

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism of the whole pipeline, after `compute_budgets`."""
        return self._mechanism(self._noise)

    def curve(self) -> Curve:
        """Return the privacy curve of the pipeline, for more questions."""
        return account(self.mechanism)

    def _mechanism(self, noise: float) -> Mechanism:
        counts = ((m, m.mechanism_spec.count) for m in self._mechanisms)
        return compose(*(repeat(self._one(m, noise), count) for m, count in counts))

    def _one(self, one: Any, noise: float) -> Mechanism:
        kind = one.mechanism_spec.mechanism_type
        deviation = self._deviation(one, noise)
        if kind is MechanismType.GAUSSIAN:
            return Gaussian(deviation)
        if kind is MechanismType.LAPLACE:
            return Laplace(round_down(deviation / math.sqrt(2), 1e-15))
        epsilon, delta = self._claim(one, noise)
        return ApproximateDP(epsilon, delta) if delta else PureDP(epsilon)

    def _deviation(self, one: Any, noise: float) -> float:
        return noise / float(one.weight)

    def _claim(self, one: Any, noise: float) -> tuple[float, float]:
        claims = [m for m in self._mechanisms if not _is_noise(m)]
        weights = sum(m.weight * m.mechanism_spec.count for m in claims)
        delta = _CLAIMED * self._total_delta * one.weight / weights if claims else 0.0
        return math.sqrt(2) / self._deviation(one, noise), delta


def _is_noise(one: Any) -> bool:
    return one.mechanism_spec.mechanism_type in (MechanismType.GAUSSIAN, MechanismType.LAPLACE)
