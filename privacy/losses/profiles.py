"""Privacy profiles of ONE release in closed form: upper bounds, rounding errors included."""

import math
from dataclasses import dataclass

from privacy.numerics.normal import log_gaussian_delta, log_tail
from privacy.numerics.rounding import U


class Profile:
    """The privacy profile of one release, in the worse direction."""

    __slots__ = ()

    supremum = math.inf
    """The largest privacy loss; delta is 0 for epsilon >= supremum."""

    def log_delta(self, epsilon: float) -> float:
        """Return an upper bound on log delta at `epsilon` >= 0; -inf if delta is 0."""
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianProfile(Profile):
    """N(0, 1) against N(mu, 1) (Balle and Wang 2018, Theorem 8)."""

    mu: float

    def log_delta(self, epsilon: float) -> float:
        """Return the bound, which is 0 (delta = 1) for mu > 1e150."""
        if self.mu > 1e150:
            return 0.0
        log_delta, error = log_gaussian_delta(epsilon, self.mu)
        return min(0.0, log_delta + error)


@dataclass(frozen=True)
class LaplaceProfile(Profile):
    """Two Laplace distributions at `loss` scales: delta = 1 - exp((epsilon - loss) / 2)."""

    loss: float

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return self.loss

    def log_delta(self, epsilon: float) -> float:
        """Return the bound (Balle, Barthe and Gaboardi 2018, Theorem 3)."""
        if epsilon >= self.loss:
            return -math.inf
        return _log_up(-math.expm1(0.5 * (epsilon - self.loss)), U * self.loss)


@dataclass(frozen=True)
class RangeProfile(Profile):
    """Bounded range: delta = (e^(width/2) - e^(epsilon/2))^2 / (e^width - 1).

    The largest p - e^epsilon q with p = e^width q / (1 + (e^width - 1) q), reached at
    1 + (e^width - 1) q = e^((width - epsilon) / 2) (Dong, Durfee and Rogers 2020).
    """

    width: float

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return self.width

    def log_delta(self, epsilon: float) -> float:
        if epsilon >= self.width:
            return -math.inf
        gap = 0.5 * (self.width - epsilon) + U * self.width
        share = math.log(-math.expm1(-gap))
        return min(0.0, 2 * share - math.log(-math.expm1(-self.width)) + 16 * U * (1 - share))


@dataclass(frozen=True)
class ClaimProfile(Profile):
    """Randomized response that reveals its input with probability `mass`: see `ClaimPair`.

    delta = mass + (1 - mass) (e^loss - e^epsilon) / (e^loss + categories - 1) for epsilon < loss.
    """

    loss: float
    mass: float = 0.0
    categories: int = 2

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return math.inf if self.mass else self.loss

    def log_delta(self, epsilon: float) -> float:
        if epsilon >= self.loss:
            return math.log(self.mass) if self.mass else -math.inf
        rest = -math.expm1(epsilon - self.loss)
        rest = (rest + U * self.loss) / (1 + (self.categories - 1) * math.exp(-self.loss))
        return _log_up(self.mass + (1 - self.mass) * rest, 0.0)


@dataclass(frozen=True)
class SampledProfile(Profile):
    """A symmetric pair (P, Q) under Poisson sampling: (1 - q) Q + q P against Q, and reversed.

    Removing: q delta(log(1 + (e^epsilon - 1) / q)) (Balle, Barthe and Gaboardi 2018,
    Theorem 2). Adding, with c = q - (1 - q)(e^epsilon - 1) > 0: c delta(log(q e^epsilon / c)),
    and 0 for c <= 0. Both follow from the definition of the hockey-stick divergence.
    """

    inner: Profile
    q: float

    @property
    def supremum(self) -> float:  # type: ignore[override]
        """log(1 + q (e^loss - 1)), attained when removing."""
        loss, q = self.inner.supremum, self.q
        if loss < 700:
            return math.log1p(q * math.expm1(loss)) * (1 + 8 * U)
        return min(loss, (loss + math.log(q)) * (1 + 8 * U) + math.exp(-700.0) / q)

    def log_delta(self, epsilon: float) -> float:
        return max(self._removing(epsilon), self._adding(epsilon))

    def _removing(self, epsilon: float) -> float:
        if epsilon < 1:
            deep = math.log1p(math.expm1(epsilon) / self.q)
        else:
            deep = epsilon - math.log(self.q) + math.log1p(-(1 - self.q) * math.exp(-epsilon))
        return _add_log(self.inner.log_delta(deep * (1 - 8 * U)), math.log(self.q))

    def _adding(self, epsilon: float) -> float:
        if epsilon > 40:  # e^epsilon (1 - q) > 1 for every float q < 1
            return -math.inf
        weight = self.q - (1 - self.q) * math.expm1(epsilon)
        weight += 8 * U * (self.q + (1 - self.q) * math.expm1(epsilon))
        if weight <= 0:
            return -math.inf
        # log(q e^epsilon / weight), which must not be rounded up
        deep = math.log1p(max(0.0, (self.q * math.exp(epsilon) - weight) / weight))
        return _add_log(self.inner.log_delta(deep * (1 - 8 * U)), math.log(weight))


@dataclass(frozen=True)
class AntipodalProfile(Profile):
    """(1 - q) N(0, 1) + q N(mu, 1) against (1 - q) N(0, 1) + q N(-mu, 1).

    See `PoissonSampled.loss`. The loss increases with x: delta is P(X > x) - e^epsilon Q(X > x) at
    the x where it is epsilon.
    """

    mu: float
    q: float

    def log_delta(self, epsilon: float) -> float:
        """Return the bound; delta is stationary in x, so that x needs no error bound."""
        mu, q = self.mu, self.q
        if q == 0:
            return -math.inf
        most = math.log(q) + 4 * U * (1 - math.log(q))  # the rest of both mixtures is equal
        if mu > 1e100:
            return most
        # y = e^(mu x) solves k y^2 - (1 - q)(e^epsilon - 1) y - e^epsilon k = 0
        log_k = math.log(q) - 0.5 * mu * mu
        b = (1 - q) * -math.expm1(-epsilon)
        root = b + math.hypot(b, 2 * math.exp(log_k - 0.5 * epsilon))
        x = (epsilon + math.log(0.5 * root) - log_k) / mu if epsilon > 0 and root > 0 else 0.0
        if x > 1e6:  # x^2 is rounded too much; P(X > x) alone bounds delta
            return min(most, log_tail((x - mu) * (1 - 16 * U)))
        ours = math.log(q) + log_tail(x - mu)
        theirs = math.log(q) + epsilon + log_tail(x + mu)
        common = -math.inf
        if epsilon > 0:
            log_expm1 = epsilon + math.log(-math.expm1(-epsilon))
            common = math.log1p(-q) + log_expm1 + log_tail(x)
        rounding = U * (32 + 8 * (abs(x) + mu) ** 2 + 16 * epsilon + 8 * abs(log_k))
        share = 1 - math.exp(min(0.0, theirs - ours)) - math.exp(min(0.0, common - ours))
        return min(most, ours + math.log(max(share, 0.0) + 3 * rounding))


@dataclass(frozen=True)
class MixedProfile(Profile):
    """The weighted sum of profiles, and a mass at infinity."""

    profiles: tuple[Profile, ...]
    weights: tuple[float, ...]
    lost: float = 0.0

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return math.inf if self.lost else max(profile.supremum for profile in self.profiles)

    def log_delta(self, epsilon: float) -> float:
        each = [profile.log_delta(epsilon) for profile in self.profiles]
        terms = [
            math.log(weight) + log_delta
            for weight, log_delta in zip(self.weights, each, strict=True)
            if log_delta > -math.inf
        ]
        if self.lost:
            terms.append(math.log(self.lost))
        if not terms:
            return -math.inf
        top = max(terms)
        total = top + math.log(math.fsum(math.exp(term - top) for term in terms))
        return min(0.0, total + U * (16 + 8 * max(map(abs, terms))))


def _log_up(value: float, error: float) -> float:
    return min(0.0, math.log(value + error) + 8 * U * (1 + abs(math.log(value + error))))


def _add_log(log_value: float, log_factor: float) -> float:
    total = log_value + log_factor
    return total + 8 * U * (abs(log_value) + abs(log_factor)) if math.isfinite(total) else total
