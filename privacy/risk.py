"""What an attacker can achieve against a mechanism: error rates, advantage, Bayes risk.

docs/risk.md defines the attack. All results are conservative: no attack does better than reported.
"""

import math
from typing import TYPE_CHECKING, ClassVar, NamedTuple, overload

from privacy import checks
from privacy.numerics.rounding import U, round_up

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privacy.tradeoffs import Array, Interval, LogDeltas

_PRIOR = "Pass the probability that the record is present, such as 0.5."
_RATE = "Pass rates, such as 0.01 or numpy.linspace(0, 1, 101)."
_REMAINDER = "Pass a negligible probability, such as 1e-10."


class GaussianBound(NamedTuple):
    """A Gaussian bound on a trade-off function f: f(a) >= G_mu(a) - remainder for every a.

    G_mu(a) = Phi(Phi^-1(1 - a) - mu) is the trade-off function of mu-GDP. `regret` is the smallest
    k with f(a + k) - k <= G_mu(a) for every a: how much looser G_mu is. `remainder` is the
    probability of outputs for which the bound need not hold.
    """

    mu: float
    regret: float
    remainder: float


class Risk:
    """The methods of `Curve` about attacks, computed from its privacy profile."""

    if TYPE_CHECKING:
        vectorized: ClassVar[bool]

        @property
        def exact(self) -> bool: ...
        def delta(self, epsilon: float) -> float: ...
        def epsilon(self, delta: float) -> float: ...
        def _profile(self) -> LogDeltas: ...
        def _least_delta(self) -> float: ...

    @overload
    def tradeoff(self, false_positive_rate: float) -> float: ...
    @overload
    def tradeoff(self, false_positive_rate: "ArrayLike") -> "Array": ...
    def tradeoff(self, false_positive_rate: "ArrayLike") -> "Array | float":
        """Return the least false negative rate of any attack, by false positive rate.

        f(a) = max over epsilon >= 0 of 1 - delta(epsilon) - e^epsilon a and
        e^-epsilon (1 - delta(epsilon) - a) (Dong, Roth and Su 2022, Prop. 2.5).
        `false_positive_rate` has any shape and values in [0, 1]; others raise ValueError.
        The result is a lower bound of the same shape; `tradeoff_interval` also gives an upper one.
        """
        return self.tradeoff_interval(false_positive_rate)[0]

    def tradeoff_interval(self, false_positive_rate: "ArrayLike") -> "Interval":
        """Return lower and upper bounds on `tradeoff`, of the same shape as the rates.

        They contain f of the exact profile. Unless the curve is `exact`, the upper bound is 1 - a.
        """
        import numpy as np

        from privacy.tradeoffs import shaped

        rates = rates_of("false_positive_rate", false_positive_rate)
        low, high = self._true_positive_rates(rates.ravel())
        if not self.exact:
            low = rates.ravel()
        least = np.maximum(np.nextafter(1 - high, -1.0), 0.0)
        return shaped(least, np.maximum(np.nextafter(1 - low, 2.0), least), rates)

    @overload
    def true_positive_rate(self, false_positive_rate: float) -> float: ...
    @overload
    def true_positive_rate(self, false_positive_rate: "ArrayLike") -> "Array": ...
    def true_positive_rate(self, false_positive_rate: "ArrayLike") -> "Array | float":
        """Return an upper bound on the true positive rate of any attack: 1 minus `tradeoff`.

        It also bounds the probability of reconstructing a record, if `false_positive_rate` is that
        probability without the output (Hayes, Mahloujifar and Balle 2023; Kulynych et al. 2025).
        """
        if isinstance(false_positive_rate, int | float) and 0 <= false_positive_rate <= 1:
            alone = self._rate_alone(false_positive_rate)
            if alone is not None:
                return alone
        rates = rates_of("false_positive_rate", false_positive_rate)
        found = self._true_positive_rates(rates.ravel())[1].reshape(rates.shape)
        return float(found) if found.ndim == 0 else found

    def _rate_alone(self, rate: float) -> float | None:
        """Return an upper bound on 1 - f at one rate from a closed form without numpy, or None."""
        return None

    def _true_positive_rates(self, rates: "Array") -> "tuple[Array, Array]":
        """Return bounds on 1 - f at rates of shape (n,); the lower ones for an exact profile."""
        from privacy.tradeoffs import true_positive_rates

        supremum = math.inf if self._least_delta() else self.epsilon(0.0)
        return true_positive_rates(self._profile(), rates, fast=self.vectorized, supremum=supremum)

    def advantage(self) -> float:
        """Return the largest difference of true and false positive rate: delta(0).

        Also the total variation distance between both distributions of the output.
        """
        return self.delta(0.0)

    def bayes_risk(self, prior: float) -> float:
        """Return the least error probability of an attack, given the prior probability `prior`.

        ``min(p, 1 - p) (1 - delta(abs(log(p / (1 - p)))))``, rounded down, where p = `prior` is the
        probability, in [0, 1], that the record is present.
        """
        rare, epsilon = _odds(prior)
        return 0.0 if rare == 0 else max(rare * (1 - self.delta(epsilon)) * (1 - 8 * U), 0.0)

    def positive_predictive_value(
        self, prior: float, false_positive_rate: "ArrayLike"
    ) -> "Array | float":
        """Return the largest probability that a record is present where an attack says so.

        p TPR / (p TPR + (1 - p) FPR), with the largest true positive rate (TPR). `prior` is the
        probability p in [0, 1] that the record is present. `false_positive_rate` is as in
        `tradeoff`; at 0, the limit e^s p / (e^s p + 1 - p) with s the supremum of the privacy loss.
        """
        import numpy as np

        p = checks.real("prior", prior, _PRIOR, at_least=0, at_most=1)
        rates = rates_of("false_positive_rate", false_positive_rate)
        hits = np.asarray(self.true_positive_rate(rates))
        with np.errstate(all="ignore"):
            ratio = np.where(rates > 0, hits / rates, math.inf)
            largest = self.epsilon(0.0)
            ratio = np.minimum(ratio, math.exp(largest) if largest < 700 else math.inf)
            found = p / (p + (1 - p) / ratio) if p > 0 else np.zeros_like(ratio)
        found = np.minimum(found * (1 + 8 * U), 1.0)
        return float(found) if found.ndim == 0 else found

    def gaussian_bound(self, remainder: float = 1e-10) -> GaussianBound:
        """Return the smallest mu-GDP that this curve implies, and how loose it is.

        `remainder` is the probability in (0, 1) of outputs that the bound may leave out. At 0,
        mu of a sampled mechanism would be that of the unsampled one. ValueError if delta exceeds
        `remainder` for every epsilon. The regret is that of Gomez et al. 2025.
        """
        from privacy.tradeoffs import dominating_gaussian

        rest = remainder_of(remainder)
        end = self.epsilon(rest)
        remedy = "Pass a remainder above the smallest delta of the mechanism."
        rule = "larger than delta(epsilon) for some epsilon"
        checks.refuse_if(not math.isfinite(end), "remainder", remainder, rule, remedy)
        mu, regret = dominating_gaussian(self._profile(), end, rest)
        return GaussianBound(mu, regret, rest)


def _odds(prior: float) -> tuple[float, float]:
    """Return min(p, 1 - p) and |log(p / (1 - p))|, rounded down."""
    p = checks.real("prior", prior, _PRIOR, at_least=0, at_most=1)
    rare = min(p, 1 - p)
    if rare == 0:
        return 0.0, math.inf
    return rare, max(0.0, (math.log1p(-rare) - math.log(rare)) * (1 - 8 * U) - 4 * U)


def bayes_target(bayes_risk: float, prior: float) -> tuple[float, float]:
    """Return the (epsilon, delta) that is equivalent to a least Bayes risk."""
    rare, epsilon = _odds(prior)
    remedy = "Pass an error probability below min(prior, 1 - prior)."
    risk = checks.real("bayes_risk", bayes_risk, remedy, above=0, below=rare or math.ulp(0.0))
    delta = 1 - round_up(risk / rare, 8 * U)
    rule = f"< {rare} by more than a rounding error"
    checks.refuse_if(delta <= 0, "bayes_risk", bayes_risk, rule, remedy)
    return epsilon, delta


def remainder_of(remainder: float) -> float:
    """Return a valid remainder, or raise."""
    return checks.real("remainder", remainder, _REMAINDER, above=0, below=1)


def rates_of(name: str, value: "ArrayLike") -> "Array":
    """Return rates in [0, 1] as an array, or raise."""
    import numpy as np

    try:
        rates = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(checks.expected(name, value, "numbers in [0, 1]", _RATE)) from None
    bad = ~((rates >= 0) & (rates <= 1))
    if bad.any():
        raise ValueError(checks.expected(name, float(rates[bad][0]), "in [0, 1]", _RATE))
    return rates
