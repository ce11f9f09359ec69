"""An upper bound on delta of a sum of losses, by a contour integral in ball arithmetic.

docs/theory/contour.md ("Proof in interval arithmetic") has the bound. M(c + iw) of a part is a sum
of weights times exp(i w L) at the nodes of a `Part`, plus an error of at most the `error` of the
nodes, for all |w| <= W. Floats choose parameters that affect only the tightness: `rough` weights
with a sum near M(c) and losses, `rough_decay` logs of `decay` / M(c) and best shifts, `plan`
parameters for errors of exp(-digits). `decay` is a bound on |M(c + iw)|, w >= frequency.
"""

import math
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from flint import acb, arb, ctx

from privacy.certification._coverage import Unproven
from privacy.certification._laplace import SampledLaplace
from privacy.certification._mixtures import Half, Mixture, Nodes
from privacy.certification._panels import Array
from privacy.certification._products import sums
from privacy.numerics.solve import descend, newton_step

# nats: relative size of the alias terms, of the tail and of the node errors
_DIGITS, _MORE_DIGITS, _BITS = 24.0, 34.0, 160
_MOST_FREQUENCIES = 20_000
# multiples of the saddle point at which delta is bounded by a real t, to place the line
_BESIDE = np.concatenate(
    [[0.1, 0.25, 0.5, 1.0], 1 - 2.0 ** -np.arange(2, 10), 1 + 2.0 ** -np.arange(-3.0, 10.0)]
)
_STRETCH = 1.15 ** np.arange(0.0, 60.0)


def digits() -> float:
    """Return the nats of accuracy at the current precision."""
    return _DIGITS if ctx.prec < _BITS else _MORE_DIGITS


@dataclass(frozen=True)
class Atoms:
    """A loss with finitely many values: probabilities under P, and the losses."""

    probabilities: tuple[arb, ...]
    losses: tuple[arb, ...]

    def supremum(self) -> arb:
        return reduce(arb.max, self.losses)

    def rough(self, c: float) -> tuple[Array, Array]:
        losses = np.array([float(loss) for loss in self.losses])
        return np.array([float(p) for p in self.probabilities]) * np.exp(c * losses), losses

    def rough_decay(self, c: float, frequency: Array, depth: float) -> tuple[Array, Array]:
        return np.zeros(frequency.size), np.zeros(frequency.size)

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> Any:
        return None

    def size(self, plan: Any) -> int:
        return len(self.losses)

    def nodes(self, c: float, frequency: float, plan: Any) -> Nodes:
        pairs = zip(self.probabilities, self.losses, strict=True)
        weights = [p * (loss * arb(c)).exp() for p, loss in pairs]
        return Nodes(weights, list(self.losses), arb(0))

    def decay(self, c: float, frequency: float, plan: Any, shift: float) -> arb:
        return sum(self.nodes(c, frequency, plan).weights, arb(0))


@dataclass(frozen=True)
class Mixed:
    """A weighted sum of measures of losses. The `shift` is the depth of each."""

    weights: tuple[arb, ...]
    parts: tuple["Part", ...]

    def supremum(self) -> arb:
        return reduce(arb.max, (part.supremum() for part in self.parts))

    def rough(self, c: float) -> tuple[Array, Array]:
        each = [part.rough(c) for part in self.parts]
        weights = [float(p) * one for p, (one, _) in zip(self.weights, each, strict=True)]
        return np.concatenate(weights), np.concatenate([loss for _, loss in each])

    def rough_decay(self, c: float, frequency: Array, depth: float) -> tuple[Array, Array]:
        total = 0 * frequency
        for p, part in zip(self.weights, self.parts, strict=True):
            size = float(p) * part.rough(c)[0].sum()
            total += size * np.exp(part.rough_decay(c, frequency, depth)[0])
        return np.log(total / self.rough(c)[0].sum()), depth + 0 * frequency

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> Any:
        places = np.array([frequency])
        own = (shift and float(part.rough_decay(c, places, shift)[1][0]) for part in self.parts)
        pairs = zip(self.parts, own, strict=True)
        return [(part.plan(c, frequency, digits, b), b) for part, b in pairs]

    def size(self, plan: Any) -> int:
        return sum(part.size(own) for part, (own, _) in zip(self.parts, plan, strict=True))

    def nodes(self, c: float, frequency: float, plan: Any) -> Nodes:
        found = Nodes([], [], arb(0))
        for p, part, (own, _) in zip(self.weights, self.parts, plan, strict=True):
            one = part.nodes(c, frequency, own)
            weights = found.weights + [p * weight for weight in one.weights]
            found = Nodes(weights, found.losses + one.losses, found.error + p * one.error)
        return found

    def decay(self, c: float, frequency: float, plan: Any, shift: float) -> arb:
        each = zip(self.weights, self.parts, plan, strict=True)
        return sum((p * part.decay(c, frequency, *own) for p, part, own in each), arb(0))


def mirrored(mu_squared: arb, q: arb, _way: str) -> Mixed:
    """Return the loss of a batch that contains the replaced record with probability q.

    docs/theory/samplers.md has the pair, whose directions are equal. Outcomes just below mu / 2
    count too: more outcomes only add to delta.
    """
    start = math.nextafter(float((mu_squared.sqrt() / 2).lower()), -math.inf)
    halves = (Half(Mixture(mu_squared, (1 - q, q), way), start) for way in ("remove", "add"))
    none = Atoms(((1 - q) * (mu_squared / 8).sqrt().erf(),), (arb(0),))
    return Mixed((arb(1),) * 3, (*halves, none))


Part = Atoms | Half | Mixed | Mixture | SampledLaplace


@dataclass(frozen=True)
class Sum:
    """Independent losses in one direction: parts with counts, and one Gaussian.

    With `small`, the sum has the product of all measures minus the product of the small ones.
    For each part, `small` has a measure <= that of the part and their difference, or None.
    """

    parts: tuple[tuple[Part, int], ...]
    mu_squared: arb
    small: tuple[tuple[Mixture, Mixture] | None, ...] = ()

    def supremum(self) -> arb:
        return sum((count * part.supremum() for part, count in self.parts), arb(0))

    def at_real(self, t: float, epsilon: arb) -> arb:
        """Return the bound of Canonne, Kamath and Steinke 2020, Proposition 12."""
        ball = arb(t)
        log_size = self.log_moment(t) + ball * ball.log() - (ball + 1) * ball.log1p()
        return upper((log_size - ball * epsilon).exp())

    def log_moment(self, t: float) -> arb:
        total = self.mu_squared * arb(t) * (arb(t) + 1) / 2
        for part, count in self.parts:
            nodes = part.nodes(t, 0.0, part.plan(t, 0.0, digits() + math.log(count)))
            total += count * nodes.total().log()
        return total


def upper(ball: arb) -> arb:
    """Return the upper end of a ball; infinity for a NaN."""
    end = ball.upper()
    return arb("inf") if end.is_nan() else end


def _moments(nodes: Nodes, step: float, count: int, digits: float) -> list[acb]:
    """Return the sums of weight * exp(i n step loss) for n < count, with the error added."""
    turns = [acb(0, loss * step).exp() for loss in nodes.losses]
    radius = upper(nodes.error)
    off = acb(arb(0, radius), arb(0, radius))
    return [value + off for value in sums(nodes.weights, turns, count, digits)]


class Line:
    """The parameters of the integral, from floats."""

    def __init__(self, total: Sum, epsilon: float, log_delta: float) -> None:
        self.total, self.epsilon, self.log_delta = total, epsilon, log_delta
        self.gaussian = float(total.mu_squared.mid())
        self.saddle = self._saddle()
        t = self.saddle * _BESIDE
        bound = np.array([self._cumulants(float(each))[0] for each in t])
        bound += t * np.log(t) - (t + 1) * np.log1p(t) - t * epsilon
        bound[np.isnan(bound)] = np.inf
        self.best, self.log_bound = float(t[bound.argmin()]), float(bound.min())
        self._beside, self._log_bound = np.append(t, 0.0), np.append(bound, 0.0)

    def _cumulants(self, t: float) -> tuple[float, float, float]:
        half = 0.5 * self.gaussian
        value, mean, variance = half * t * (t + 1), half * (2 * t + 1), 2 * half
        for part, count in self.total.parts:
            weight, loss = part.rough(t)
            one = float(weight.sum())
            first = float(weight @ loss) / one
            value += count * math.log(one)
            mean += count * first
            variance += count * float(weight @ (loss - first) ** 2) / one
        return value, mean, variance

    def _saddle(self) -> float:
        """Return t near the minimum of K(t) - t epsilon - log t - log(1 + t)."""

        def step(t: float) -> tuple[float, float]:
            try:
                _, mean, variance = self._cumulants(t)
            except Unproven as error:
                raise OverflowError from error
            slope = mean - self.epsilon - 1 / t - 1 / (1 + t)
            if not math.isfinite(slope):
                raise OverflowError
            return newton_step(t, slope, variance + t**-2 + (1 + t) ** -2)

        try:
            return descend(step, 1.0)
        except ArithmeticError as error:
            raise Unproven("no saddle point was found") from error

    def place(self) -> int:
        """Choose all parameters; return the number of products of frequencies and nodes."""
        total = self.total
        self.c, period = self._spacing()
        # few bits: multiples of the step are exact floats
        self.step = float(np.float32(2 * math.pi / period))
        value, _, variance = self._cumulants(self.c)
        excess = value - self.c * self.epsilon - self.log_delta
        self._depth = max(digits() + excess - math.log(self.c), 10.0)
        last = self._last(excess, math.sqrt(2 * self._depth / variance))
        self.count = math.ceil(last / self.step) + 2
        edge = self.step * (self.count - 1)
        (decay,), shifts = self._decay(np.array([edge]))
        self.shifts = [float(shift) for (shift,) in shifts]
        missing = float(decay) - math.log(math.pi * edge) + excess + digits()
        self.dummy = 2 * max(missing, 0.0) / edge**2
        lost = digits() + excess - math.log(2 * self.c)
        self.plans, self._fine = [], []
        for k, (part, count) in enumerate(total.parts):
            fine = max(lost + math.log(count), 16.0)
            self._fine.append(fine)
            if pair := total.small[k] if total.small else None:
                first = pair[0].plan(self.c, edge, fine + 1)
                self.plans.append([first, pair[1].plan(self.c, edge, fine + 1, self.shifts[k])])
            else:
                self.plans.append([part.plan(self.c, edge, fine, self.shifts[k])])
        sizes = (
            part.size(plan)
            for (part, _), plans in zip(total.parts, self.plans, strict=True)
            for plan in plans
        )
        return sum(sizes) * self.count

    def _spacing(self) -> tuple[float, float]:
        """Return c and the period 2 pi / h; a c left of the saddle point may need fewer terms."""
        t, excess = self._beside, self._log_bound - self.log_delta + digits()
        among = (0.4 * self.saddle < t) & (t <= self.saddle)
        apart = t - t[among][:, None]
        with np.errstate(divide="ignore"):
            needed = excess / np.abs(apart)
        left = np.where(apart < 0, needed, np.inf).min(axis=1)
        right = np.where(apart > 0, needed, np.inf).min(axis=1)
        period = np.maximum(left, right)
        k = int((np.log(period) + 0.25 * excess[among]).argmin())
        return float(np.float32(t[among][k])), float(period[k])

    def _decay(self, frequency: Array) -> tuple[Array, list[Array]]:
        """Return approximate logs of the size of the integrand, and the shift of each part."""
        total, shifts = -0.5 * self.gaussian * frequency**2, []
        if not self.total.small:
            for part, count in self.total.parts:
                depth = math.sqrt(2 * self._depth / count)
                one, shift = part.rough_decay(self.c, frequency, depth)
                total += count * one
                shifts.append(shift)
            return total, shifts
        most = np.full(frequency.size, -math.inf)
        for (part, count), pair in zip(self.total.parts, self.total.small, strict=True):
            shift = np.zeros(frequency.size)
            if pair:
                one, shift = pair[1].rough_decay(self.c, frequency, math.sqrt(2 * self._depth))
                share = pair[1].rough(self.c)[0].sum() / part.rough(self.c)[0].sum()
                most = np.maximum(most, one + math.log(count * share))
            shifts.append(shift)
        return total + most, shifts

    def _last(self, excess: float, first: float) -> float:
        """Return a frequency beyond which the integrand is negligible, or the largest one."""
        most = _MOST_FREQUENCIES * self.step
        frequency = np.minimum(first * _STRETCH, most)
        size = self._decay(frequency)[0] - np.log(math.pi * frequency)
        negligible = np.flatnonzero(size + excess + digits() <= 0)
        return float(frequency[negligible[0]]) if negligible.size else most

    def delta(self, epsilon: arb) -> arb:
        """Return an upper bound on delta, with the parameters that `place` chose."""
        total = self.total
        c, h, count = arb(self.c), arb(self.step), self.count
        gaussian = total.mu_squared + arb(self.dummy)
        edge = self.step * (count - 1)
        whole, rest = [acb(1)] * count, [acb(1)] * count
        plain, sizes = arb(1), arb(0)
        for k, (part, times) in enumerate(total.parts):
            pair, fine = total.small[k] if total.small else None, self._fine[k]
            if not pair:
                (plan,) = self.plans[k]
                nodes = part.nodes(self.c, edge, plan)
                moments = [each**times for each in _moments(nodes, self.step, count, fine)]
                if total.small:
                    rest = [a * b for a, b in zip(rest, moments, strict=True)]
                    plain *= nodes.total() ** times
                else:
                    plain *= part.decay(self.c, edge, plan, self.shifts[k]) ** times
            else:
                plans = zip(pair, self.plans[k], strict=True)
                one, two = (measure.nodes(self.c, edge, plan) for measure, plan in plans)
                fewer, more = (_moments(each, self.step, count, fine) for each in (one, two))
                moments = [(a + b) ** times for a, b in zip(fewer, more, strict=True)]
                rest = [a * b**times for a, b in zip(rest, fewer, strict=True)]
                largest = one.total() + two.total()
                plain *= largest**times
                tail = pair[1].decay(self.c, edge, self.plans[k][1], self.shifts[k])
                sizes += times * tail / largest
            whole = [a * b for a, b in zip(whole, moments, strict=True)]
        if total.small:
            # |a^n - b^n| <= n |a - b| max(|a|, |b|)^(n - 1)
            plain *= sizes
            whole = [a - b for a, b in zip(whole, rest, strict=True)]
        found = arb(0)
        for n, value in enumerate(whole):
            t = acb(c, h * n)
            term = (((gaussian * (t + 1) / 2 - epsilon) * t).exp() / (t * (t + 1)) * value).real
            found += term if n else term / 2
        size = plain * (gaussian * (c * (c + 1) - arb(edge) ** 2) / 2 - c * epsilon).exp()
        return upper(found * h / arb.pi() + size / (arb.pi() * edge))
