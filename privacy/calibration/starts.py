"""Estimates to start the search for a parameter of a sampled Gaussian; not bounds."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import erfcx

from privacy.losses.characteristic import log1p
from privacy.losses.quadrature import Complex
from privacy.notions.loss_sums import toward_saddle
from privacy.numerics.solve import descend, safe_root

_GRID = np.geomspace(0.05, 4000.0, 128)  # orders - 1 of the initial grid
_MOST_STEPS, _MOST_NODES = 30, 10_000
_MOST_PRODUCTS = 2**21  # frequencies times nodes
# the largest frequency times epsilon, and the width of the factor there
_MOST_EPSILONS, _KEPT = 140.0, 1.55
_PERIOD, _DIGITS = 20.0, 21.0  # standard deviations between aliases; log of the omitted tail
# multiples of the saddle point at which aliases are bounded; an integral may be at the first ones
_BESIDE, _PLACES = np.array([0.2, 0.3, 0.4, 0.55, 0.7, 1.0, 1.15]), 5
_ACCURATE = 13.0  # log of the ratio of known aliases to delta, for one step
_NORMAL = 0.15  # correction of a saddle-point approximation above which it is not used
_OMITTED = 1e-8  # fraction of delta that is cut off
# steps up to which frequencies are kept, and after which Newton's method is near `_ERROR`
_CLOSE, _EXACT, _ERROR = 0.02, 5e-6, 3e-10

Unknown = Literal["noise", "q", "steps"]


class Run(NamedTuple):
    """Poisson-sampled Gaussian releases."""

    noise: float
    q: float
    steps: float

    def log_delta(self, epsilon: float) -> float:
        """Return the log of the sum of two estimates of delta that are usually too small.

        The central limit theorem, mu^2 = q^2 T (e^(1/s^2) - 1) (Bu, Dong, Long and Su 2020, Theorem
        5), and T times the delta of one release, which is exact for one.
        """
        growth = self.noise**-2
        if self.q < 1:
            growth += math.log(-math.expm1(-growth))
        else:
            growth = math.log(growth)
        mu = math.exp(min(math.log(self.q) + 0.5 * (math.log(self.steps) + growth), 25.0))
        larger = math.log1p(math.expm1(epsilon) / self.q) if epsilon < 600 else epsilon
        one = _log_profile(larger, 1 / self.noise) + math.log(self.q * self.steps)
        if self.steps == 1:
            return one
        return min(float(np.logaddexp(_log_profile(epsilon, mu), one)), 0.0)

    def saddle(self, epsilon: float) -> float:
        """Return about the saddle point, from two terms of the moment."""
        t, a, squared, log_q = _GRID, _GRID + 1, self.noise**-2, math.log(self.q)
        pairs = 0.5 * t * a
        second = np.log(pairs) + 2 * log_q + squared + math.log(-math.expm1(-squared))
        one = np.logaddexp(np.logaddexp(second, a * log_q + pairs * squared), 0.0)
        return float(t[(self.steps * one - t * epsilon - np.log(pairs)).argmin()])


def _log_profile(epsilon: float, mu: float) -> float:
    """Return log delta of mu-GDP to some digits: phi(a) (R(a) - R(a + mu)), R Mills' ratio."""
    a = epsilon / mu - 0.5 * mu
    if a < -30:
        return 0.0
    x = a * math.sqrt(0.5)
    if mu < 1e-5:
        gap = mu * max(math.sqrt(2 / math.pi) - a * float(erfcx(x)), 1e-300)
    else:
        gap = float(erfcx(x) - erfcx(x + mu * math.sqrt(0.5)))
    return math.log(max(0.5 * gap, 1e-300)) - x * x


def contour_start(
    epsilon: float, log_delta: float, run: Run, unknown: Unknown
) -> tuple[float, float, float | None]:
    """Return the parameter of `run` that meets log delta, and d log delta / d log parameter.

    The third value is the saddle point there, if it is known. Newton's method, on an expansion at
    the saddle point and then on the contour integral without error bounds, gives nine digits, or
    fewer if the characteristic function decays slowly.
    """

    def at(log_x: float) -> Run:
        return run._replace(**{unknown: math.exp(min(max(log_x, low), high))})

    def excess(log_x: float) -> float:  # log(-log delta) is nearly linear in log_x
        return math.log(log_delta / min(at(log_x).log_delta(epsilon), -1e-9))

    def rough_slope(log_x: float) -> float:
        return -log_delta * (excess(log_x + 0.01) - excess(log_x - 0.01)) / 0.02

    grows = unknown == "noise"
    low, high = (-6.0, 60.0) if grows else (-60.0, 0.0) if unknown == "q" else (0.0, 60.0)
    safe, unsafe, reach = (high, low, 0.3) if grows else (low, high, 1.0)
    if excess(unsafe) <= 0:
        return math.exp(unsafe), 0.0, None
    alone = run.steps == 1 and unknown != "steps"
    log_x = safe_root(excess, safe, unsafe, atol=1e-9 if alone else 1e-3, rtol=0.0)
    if alone:
        return math.exp(log_x), rough_slope(log_x), None
    slope, found = 0.0, None
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            log_x, t, lean = _expanded(epsilon, log_delta, at, log_x, unknown)
            move = 1.0
            for turn in range(12):
                if abs(move) > _CLOSE:
                    line = _line(epsilon, log_delta, at(log_x), unknown, t)
                value, slope = line(at(log_x))
                last, move = move, math.log(log_delta / value) * value / slope
                error = (move / last) ** 2  # Newton's error is quadratic; relative to the step
                step = min(max(move * (1 + min(error, 1e-4)), -reach), reach)
                log_x, t = log_x + step, t * math.exp(min(max(lean * step, -0.5), 0.5))
                done = abs(move) < _EXACT or (turn and error * abs(move) < _ERROR)
                if done or (turn > 1 and 0.5 * abs(last) < abs(move) < 0.01):
                    found = t
                    break
    except (ArithmeticError, ValueError):
        pass
    return getattr(at(log_x), unknown), slope or rough_slope(log_x), found


def _expanded(
    epsilon: float, log_delta: float, at: Callable[[float], Run], log_x: float, unknown: Unknown
) -> tuple[float, float, float]:
    """Return log_x, or a better one by an expansion at the saddle point t; t; d log t / d log_x."""
    run, known = at(log_x), dict[float, _Tilted]()

    def distance(t: float) -> tuple[float, float]:
        near = known[t] = _Tilted(1 / run.noise, t, run.q, unknown)
        return toward_saddle(t, epsilon, run.steps * near.mean, run.steps * near.variance)

    t, lean = descend(distance, run.saddle(epsilon)), 0.0
    for _ in range(_MOST_STEPS):
        near = known.pop(t, None) or _Tilted(1 / run.noise, t, run.q, unknown)
        steps, order = run.steps, t + 1
        second = steps * near.variance + t**-2 + order**-2
        if unknown == "steps":
            falls, tilts = steps * near.log_moment, steps * near.mean
        else:
            falls = steps * order * near.score
            tilts = steps * (near.score + order * near.mixed)
        lean = -tilts / (second * t)
        third, fourth = (steps * k for k in near.higher())
        third -= 2 * (t**-3 + order**-3)
        fourth += 6 * (t**-4 + order**-4)
        correction = fourth / (8 * second**2) - 5 * third**2 / (24 * second**3)
        slope = steps * near.mean - epsilon - 1 / t - 1 / order
        value = steps * near.log_moment - t * epsilon - math.log(t * order)
        value -= 0.5 * (slope**2 / second + math.log(2 * math.pi * second))
        move = math.inf
        if abs(correction) < _NORMAL and value < -_NORMAL:
            value += math.log1p(correction)
            move = math.log(log_delta / value) * value / falls
        move = move if abs(move) < 0.7 else 0.0
        turn = min(max(lean * move - slope / (second * t), -0.7), 0.7)
        log_x, t, run = log_x + move, t * math.exp(turn), at(log_x + move)
        if abs(move) < 3e-3 and abs(turn) < 0.1:
            break
    return log_x, t, lean


def _line(
    epsilon: float, log_delta: float, run: Run, unknown: Unknown, saddle: float
) -> Callable[[Run], tuple[float, float]]:
    """Return log delta and its derivative as a function of runs near `run`.

    Where the integrand decays slowly, since most losses are near 0, a smooth factor cuts it off: it
    changes the contribution of losses near epsilon by derivatives of high order only.
    """

    def tilted(one: Run, t: float) -> _Tilted:
        lift = min(0.45 * math.pi * one.noise, 2.0)
        return _Tilted(1 / one.noise, t, one.q, unknown, lift=lift)

    start, steps, c, alias = tilted(run, saddle), run.steps, saddle, 0.0
    variance, most = steps * start.variance, _MOST_EPSILONS / max(epsilon, 1e-300)
    first = min(math.sqrt(2 * _DIGITS / variance), most)
    level = 0.03 * _OMITTED * math.exp(log_delta + c * epsilon - steps * start.log_moment)
    for many in (1, 18):  # mostly the first suffices
        trial = np.minimum(first * 1.5 ** np.arange(many), most)
        decay = np.abs(np.exp(1j * np.multiply.outer(trial, start.loss)) @ start.weight) ** steps
        enough = trial[(decay < level * trial) | (trial == most)]
        if enough.size:
            break
    last = float(enough[0]) if enough.size else math.inf
    period = _PERIOD * math.sqrt(variance + c**-2 + (1 + c) ** -2)
    if last > first:  # the losses are far from normal
        c, period, alias = _left(start, steps, epsilon, log_delta, 0.01 * _OMITTED)
    step = 2 * math.pi / period
    if last / step > _MOST_PRODUCTS / start.loss.size:
        raise ArithmeticError("too many frequencies for an estimate")
    w = step * np.arange(math.ceil(last / step) + 1)
    s = c + 1j * w
    factor = 1 / (s * (s + 1))
    factor[0] *= 0.5
    if last == most:
        factor *= np.exp(-((_KEPT / most * w) ** 8))

    def integral(one: Run) -> tuple[float, float]:
        near, steps = start if (one, c) == (run, saddle) else tilted(one, c), one.steps
        low, high = _growth(1j * step * (near.loss - near.mean), w.size)
        whole = high + 1

        def sums(weight: Complex) -> Complex:  # of the weights times exp(i w loss) - 1
            total = (whole * weight) @ low.T + (high @ weight)[:, None]
            return total.ravel()[: w.size]

        excess = sums(near.weight)
        log_moment = log1p(excess)  # np.log is slow for numbers near 1
        terms = np.exp(steps * log_moment + 1j * (steps * near.mean - epsilon) * w) * factor
        unit = steps * near.log_moment - c * epsilon + math.log(step / math.pi)
        total = float(terms.real.sum()) - alias * math.exp(-unit)
        if unknown == "steps":
            change = log_moment + near.log_moment + 1j * near.mean * w
        else:
            weight = near.weight * near.scores
            change = (sums(weight) + weight.sum()) * (s + 1) / (1 + excess)
        return math.log(total) + unit, steps * float((terms * change).real.sum()) / total

    return integral


def _growth(base: Complex, count: int) -> tuple[Complex, Complex]:
    """Return exp(k base) - 1 for k < size, about sqrt(count), and for its multiples up to count."""
    size = math.isqrt(count - 1) + 1
    top = np.expm1(np.multiply.outer([1, size], base))
    rows = np.zeros((1, *top.shape), dtype=complex)
    while len(rows) < size:  # doubling keeps the digits near 0
        rows = np.concatenate([rows, rows + top + rows * top])
        top = top * (2 + top)
    return rows[:size, 0], rows[:size, 1]


def _left(
    near: "_Tilted", steps: float, epsilon: float, log_delta: float, tail: float
) -> tuple[float, float, float]:
    """Return a c left of the saddle point, an alias period, and the sum of the known aliases.

    The aliases delta(epsilon + n period) exp(c n period) with n > 0 are a fraction `tail` of delta
    at most. Those with n < 0 are known, since there delta is nearly 1 - exp(epsilon + n period).
    """
    t = near.t * _BESIDE
    growth = np.abs(np.exp(np.multiply.outer(t - near.t, near.loss)) @ near.weight)
    size = steps * (np.log(growth) + near.log_moment) - t * epsilon
    excess = size + t * np.log(t) - (1 + t) * np.log1p(t) - log_delta - math.log(tail)
    apart = t - t[:_PLACES, None]
    with np.errstate(divide="ignore"):
        periods = np.where(apart > 0, excess / np.abs(apart), np.inf).min(axis=1)
    # the rounding of K, times the steps, is relative to the known aliases
    most = math.log(steps) - log_delta - _ACCURATE
    periods = np.maximum(np.maximum(periods, 2 * epsilon + 15 / near.t), most / t[:_PLACES])
    k = int((np.log(periods) + 0.25 * size[:_PLACES]).argmin())
    c, period = float(t[k]), float(periods[k])
    alias = sum(
        sign * math.exp(shift - s * period) / -math.expm1(-s * period)
        for sign, s, shift in ((1, c, 0.0), (-1, c + 1, epsilon))
    )
    return c, period, alias


def sampled_gaussian_start(
    epsilon: float, log_delta: float, q: float, steps: int
) -> tuple[float, float]:
    """Return the smallest noise over all orders, and its order, to about nine digits.

    Newton's method for two equations: log delta meets the target, and its derivative in the order
    is zero. It raises ArithmeticError if the numbers are too extreme for it.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        log_noise, log_t = _first(epsilon, log_delta, q, steps)
        reach, last = 0.4, 0.0
        for _ in range(_MOST_STEPS):
            near = _Tilted(math.exp(-log_noise), math.exp(log_t), q)
            order, t = near.t + 1, near.t
            gain = math.log1p(-1 / order)
            allowed = t * (epsilon - gain) + math.log(order) + log_delta
            miss = steps * near.log_moment - allowed
            slope = steps * near.mean - epsilon + gain
            bend = steps * near.variance + 1 / (order * t)
            falls, tilts = steps * order * near.score, steps * (near.score + order * near.mixed)
            if abs(miss) > 1 and allowed > 0 and near.log_moment > 0:
                # far from the root: Newton's method for log(log moment), and half a step in order
                move = -math.log(steps * near.log_moment / allowed)
                move *= near.log_moment / (order * near.score)
                turn = min(max(-0.5 * slope / (bend * t), -0.25), 0.25)
            else:
                determinant = (falls * bend - slope * tilts) * t
                move = -(miss * bend - slope * slope) * t / determinant
                turn = -(falls * slope - tilts * miss) / determinant
            if abs(move) < 1e-8 and abs(turn) < 1e-5:
                noise = math.exp(log_noise + move)
                # the total variation bound may be smaller than that of any order
                nearest = steps * math.log1p(q * q * math.expm1(noise**-2))
                if nearest < 100 * math.exp(2 * log_delta):
                    break
                return noise, 1 + math.exp(log_t + turn)
            # steps oscillate where the last term of the moment becomes dominant: damp them
            reach = reach / 3 if move * last < 0 else min(1.5 * reach, 0.4)
            damped = min(1.0, reach / max(abs(move), 0.4 * abs(turn), 1e-300))
            last = move
            log_noise, log_t = log_noise + damped * move, log_t + damped * turn
    raise ArithmeticError("no start found")


def _first(epsilon: float, log_delta: float, q: float, steps: int) -> tuple[float, float]:
    """Return log noise and log(order - 1), estimated from two terms of the moment.

    M(a) - 1 is about C(a, 2) q^2 (e^(mu^2) - 1) + q^a e^(a (a - 1) mu^2 / 2).
    """
    t, a = _GRID, _GRID + 1
    budget = (t * (epsilon - np.log1p(-1 / a)) + np.log(a) + log_delta) / steps
    t, a, budget = t[budget > 0], a[budget > 0], budget[budget > 0]
    if not t.size:
        raise ArithmeticError("the best order is too large for an estimate")
    pairs = 0.5 * a * t
    log_budget = budget + np.log(-np.expm1(-budget))
    second = np.logaddexp(0.0, log_budget - np.log(pairs) - 2 * math.log(q))
    last = (log_budget - a * math.log(q)) / pairs
    mu_squared = np.minimum(second, last)
    best = int(mu_squared.argmax())
    if mu_squared[best] <= 0:
        raise ArithmeticError("the best order is too large for an estimate")
    return -0.5 * math.log(mu_squared[best]), math.log(t[best])


class _Tilted:
    """Moments of l = log P/Q under Q (P/Q)^order, and derivatives of l in log noise (or log q).

    The nodes are on the line Im z = `lift`, on which they serve all frequencies >= 0.
    """

    def __init__(
        self, mu: float, t: float, q: float, unknown: Unknown = "noise", *, lift: float = 0.0
    ) -> None:
        order = t + 1
        h = min(0.5, 0.4 / mu, 0.25 * lift or math.inf)
        if 18 + order * mu > _MOST_NODES * h:
            raise ArithmeticError("too many nodes for an estimate")
        z = np.arange(-9.0, 9.0 + order * mu, h) + (1j * lift if lift else 0.0)
        sampled = mu * z - 0.5 * mu * mu
        sampled = q * np.exp(sampled if lift else np.minimum(sampled, 700.0))
        ratio = sampled + (1 - q)
        # log1p squares its argument
        loss = log1p(sampled - q) if lift and abs(sampled[-1]) < 1e100 else np.log(ratio)
        exponent = order * loss - 0.5 * z * z
        top = float(exponent.real.max())
        weight = np.exp(exponent - top)
        total = weight.sum()
        weight /= total
        score = (sampled / ratio) * (mu - z) * mu if unknown == "noise" else (sampled - q) / ratio
        self.loss, self.weight, self.scores = loss, weight, score
        by_loss = weight * loss
        self.t = t
        self.log_moment = top + math.log(abs(total) * h / math.sqrt(2 * math.pi))
        self.mean, self.score = float(by_loss.sum().real), float((weight @ score).real)
        self.variance = float((by_loss @ loss).real) - self.mean**2
        self.mixed = float((by_loss @ score).real) - self.mean * self.score

    def higher(self) -> tuple[float, float]:
        """Return the third and the fourth cumulant of the loss."""
        x = self.loss - self.mean
        square = x * x
        each = self.weight * square
        return float((each @ x).real), float((each @ square).real) - 3 * self.variance**2
