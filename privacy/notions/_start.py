"""Where the search for the noise of a sampled Gaussian under RDP starts: not a bound."""

import math
from functools import lru_cache

import numpy as np

from privacy.notions._divergences import FRACTIONAL, counts, log_binomials
from privacy.notions._moments import Array
from privacy.notions.zcdp import rho_from_epsilon

_LAST = 4096


def sampled_gaussian_start(
    epsilon: float, delta: float, q: float, steps: int
) -> tuple[float, float]:
    """Return the smallest noise over the orders, and the order, both to about nine digits.

    At a fixed order the target fixes the divergence, so that the noise is the root of one
    equation; it is then smallest at some order, which is walked to from the one that would be
    best if the sampled Gaussian were zCDP.

    Raises
    ------
    ArithmeticError, ValueError
        The numbers are too extreme for a guess.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        return _walk(epsilon, delta, q, steps)


def _walk(epsilon: float, delta: float, q: float, steps: int) -> tuple[float, float]:
    rho = rho_from_epsilon(epsilon, delta)
    noise = math.log1p(2 * rho / (q * q * steps)) ** -0.5
    target = _Target(epsilon, math.log(delta), q, steps, noise)
    best = float(min(max(2, round(1 + math.sqrt(-math.log(delta) / rho))), _LAST))
    step = 0.25
    while True:
        wide = max(1, round(step * best))
        around = (max(2.0, best - wide), best, min(best + wide, float(_LAST)))
        found = min(around, key=target.noise)
        if found == best and wide == 1:
            break
        if found == best:
            step = min(step, wide / best) / 3
        best = found
    return target.between(best) if best < FRACTIONAL else (target.noise(best), best)


class _Target:
    def __init__(
        self, epsilon: float, log_delta: float, q: float, steps: int, noise: float
    ) -> None:
        self.epsilon, self.log_delta, self.q, self.steps = epsilon, log_delta, q, steps
        self.near = noise
        self.known: dict[float, float] = {}

    def between(self, best: float) -> tuple[float, float]:
        """Return the smallest noise over real orders round the best integer."""
        low, middle, high = math.log(max(best - 2, 0.02)), math.log(best - 1), math.log(best)
        for _ in range(14):
            sides = [self.noise(1 + math.exp(v)) for v in (low, middle, high)]
            left = (sides[1] - sides[0]) / (middle - low)
            right = (sides[2] - sides[1]) / (high - middle)
            if math.isfinite(right - left) and right > left:
                guess = 0.5 * (low + middle - left * (high - low) / (right - left))
            else:
                guess = 0.5 * (middle + (low if middle - low > high - middle else high))
            if abs(guess - middle) < 1e-4:
                break
            if self.noise(1 + math.exp(guess)) > sides[1]:
                low, high = (guess, high) if guess < middle else (low, guess)
            elif guess < middle:
                high, middle = middle, guess
            else:
                low, middle = middle, guess
        order = 1 + math.exp(middle)
        return self.noise(order), order

    def noise(self, order: float) -> float:
        """Return the noise at which `order` just meets the target, infinite where none does."""
        if order not in self.known:
            self.known[order] = self._solve(order)
        return self.known[order]

    def _solve(self, order: float) -> float:
        t = order - 1
        budget = t * (self.epsilon - math.log1p(-1 / order)) + math.log(order) + self.log_delta
        budget /= self.steps  # the log moment that one release may have
        if budget <= 0:
            return math.inf
        moment_of = self._by_sum if order.is_integer() else self._by_nodes
        noise, low, high = self.near, 0.0, math.inf
        for _ in range(60):
            moment, slope = moment_of(order, noise)
            move = math.log(moment / budget) * moment / slope
            if move > 0:
                low = noise
            else:
                high = noise
            # the moment jumps where a far term takes over: Newton's method alone would circle
            following = noise * math.exp(min(max(move, -1.0), 1.0))
            noise = following if low < following < high else math.sqrt(low * high)
            if abs(move) < 1e-4 or high - low < 1e-8 * high:
                break
        self.near = noise
        return noise * (1 + 5e-10)

    def _by_sum(self, order: float, noise: float) -> tuple[float, float]:
        """Return the log moment and minus its derivative in log noise, at an integer order."""
        x = _pairs(order) * (0.5 / noise**2)
        back = -np.expm1(-x)
        terms = _base(order, self.q) + x + np.log(back)
        top = float(terms.max())
        weights = np.exp(terms - top)
        total = float(weights.sum())
        log_sum = top + math.log(total)
        moment = math.log1p(math.exp(log_sum)) if log_sum < 700 else log_sum
        share = 1 / (1 + math.exp(min(-log_sum, 700.0)))
        return moment, 2 * share * float(weights @ (x / back)) / total

    def _by_nodes(self, order: float, noise: float) -> tuple[float, float]:
        """Return the same at any order, by the trapezoid rule in the noise."""
        m = 1 / noise
        h = min(0.5, 0.4 * noise)
        if (18 + order * m) / h > 1e5:
            raise OverflowError("too many nodes for a guess")
        z = np.arange(-9.0, 9.0 + order * m, h)
        lift = np.exp(np.minimum(m * z - 0.5 * m * m, 700 / order))
        ratio = 1 + self.q * (lift - 1)
        weights = np.exp(order * np.log(ratio) - 0.5 * z * z)
        total = float(weights.sum()) * h / math.sqrt(2 * math.pi)
        inner = float(weights @ (lift / ratio * (z - m))) * h / math.sqrt(2 * math.pi)
        return max(math.log(total), 1e-300), max(m * order * self.q * inner / total, 1e-300)


@lru_cache(maxsize=64)
def _pairs(order: float) -> Array:
    k = counts(int(order))
    return k * (k - 1)


@lru_cache(maxsize=64)
def _base(order: float, q: float) -> Array:
    """Return log C(a, k) q^k (1 - q)^(a - k) for k = 2 .. a."""
    k = counts(int(order))
    base: Array = log_binomials((order,))[0, 2:] + k * math.log(q) + (order - k) * math.log1p(-q)
    return base
