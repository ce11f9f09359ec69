"""The search for the parameter of a family of mechanisms that just meets a target."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from privacy import checks
from privacy.accounting import Notion, account
from privacy.curves import Answer, Curve, Hint
from privacy.guarantees import NotCertified
from privacy.mechanisms import Mechanism
from privacy.numerics.display import rounded
from privacy.numerics.rounding import ULP
from privacy.numerics.solve import safe_root
from privacy.relations import NeighboringRelation

Seek = Literal["smallest", "largest"]
Make = Callable[[float], Mechanism] | Callable[[int], Mechanism]

_NOISE = 1e-3  # increase of log delta above which a family is not monotone
_LARGE_EPSILON = 1e-3  # for a smaller one, epsilon is sensitive to rounding of delta
_MOST_STEPS = 12  # secant steps before the parameter is bracketed
_INEXACT = 1e-6  # relative error above which a hint is not compared to an answer without one
_COARSE = 1e-10  # resolution above which a query is an integral, not a closed form
_LEAST_NOISE, _LOWEST, _HIGHEST = 1e-9, 1e-200, 1e200  # limits of an unbounded search


class Infeasible(ValueError):
    """No value meets the target; `best_epsilon` is the smallest epsilon at the target delta."""

    def __init__(self, message: str, best_epsilon: float) -> None:
        super().__init__(message)
        self.best_epsilon = best_epsilon


def _unreachable(target: str, best: float, value: float, name: str) -> str:
    where = f"the smallest {name} is {rounded(best)}, at the parameter value {value:g}"
    return f"Expected {target} to be reachable: {where}. Pass a larger {name}."


@dataclass(eq=False)
class Family:
    """A one-parameter family of mechanisms with a target (epsilon, delta), both checked."""

    make: Make
    epsilon: float
    delta: float
    seek: Seek
    notion: Notion
    relation: NeighboringRelation

    def __post_init__(self) -> None:
        remedy = "Pass 'smallest' for noise, 'largest' for a number of steps."
        checks.one_of("seek", self.seek, get_args(Seek), remedy)
        if not callable(self.make):
            remedy = "Pass a class or a lambda, such as lambda sigma: Gaussian(sigma)."
            rule = "a function from the parameter to a mechanism"
            raise TypeError(checks.expected("make", self.make, rule, remedy))
        self.grows = self.seek == "smallest"  # privacy grows with the parameter
        self.tried: list[tuple[float, float]] = []
        self.sure: list[tuple[float, float]] = []  # the values of `tried` with a tight bound
        self.order: float | None = None
        self.guided = False
        self.hints = True
        self._asked: dict[float, tuple[Curve, Answer]] = {}

    def aim(self, resolution: float) -> float:
        """Return the target log delta, lowered in case a later query uses a worse order or line."""
        log_delta = math.log(self.delta)
        return log_delta - resolution * (1 - log_delta)

    def account(self, value: float) -> Curve:
        mechanism = self.make(value)  # type: ignore[arg-type]  # an int where integer=True
        return account(mechanism, notion=self.notion, relation=self.relation)

    def asked(self, value: float) -> tuple[Curve, Answer]:
        if value not in self._asked:
            curve = self.account(value)
            if self.delta > 0:
                order = self.order if self.hints else None
                # before the first answer, the order is that of the start
                hint = Hint(order, self.aim(curve.resolution), self.guided, not self.tried)
                answer = curve._at_epsilon(self.epsilon, hint)
            else:
                answer = curve._at_delta(0.0)
            self._asked[value] = curve, answer
        return self._asked[value]

    def excess(self, value: float) -> float:
        """Return the excess over the target, on a log scale; <= 0 if the target is met."""
        curve, answer = self.asked(value)
        if self.delta > 0:
            excess = answer.value - self.aim(curve.resolution)
            self.order = answer.hint
        else:
            excess = math.log(answer.value / self.epsilon) if answer.value > 0 else -math.inf
        # far below the target, differences are rounding errors
        self.tried.append((value if self.grows else -value, max(excess, -50.0)))
        if answer.error < _NOISE:
            self.sure.append(self.tried[-1])
        return excess

    def solve(
        self,
        low: float,
        high: float,
        start: float | None,
        slope: float = 0.0,
        *,
        integer: bool,
        certify: bool,
    ) -> float:
        """Return the last value in [low, high] that meets the target, evaluated there.

        `slope`, if not 0, is that of the excess in the log of the parameter near `start`.
        """
        # an RDP query near a known order is the faster one, and needs no check
        secants = self.delta > 0 and type(self) is Family and self.notion != "rdp"
        if integer:
            found: float | None = self._whole(low, high, start, slope)
        elif secants and (found := self._secants(low, high, start, slope)):
            pass
        else:
            self.guided, self.hints = True, True
            found = self._real(low, high, start)
            self.guided = False
            if found is not None and self.asked(found)[1].error > 0:
                self._asked, self.hints = {}, False  # a hint may change the integration line
                if self.excess(found) > 0:
                    found = self._real(low, high, found)
        if found is None:
            self._check_monotone()
            raise self._infeasible()
        if certify:
            return self._certified(found, integer=integer)
        found = self._rechecked(found, integer=integer)
        if not low <= found <= high:  # the bound at the end of the domain was loose
            raise self._infeasible()
        return found

    def probe(self, value: float, low: float, high: float, *, integer: bool) -> None:
        coarse = self.asked(value)[0].resolution >= _COARSE
        for factor in (1.1, 2.2) if coarse else (1.03, 1.1, 1.2, 1.35, 1.6, 2.2, 5.0):
            beyond = value * factor if self.grows else value / factor
            if low < beyond < high and beyond >= 1 - (not integer):
                self.excess(int(beyond) if integer else beyond)
        self._check_monotone()

    def _rechecked(self, value: float, *, integer: bool) -> float:
        """Return the value, made more private until `Curve.epsilon` meets the target too.

        `Curve.epsilon` rounds once more than `Curve.delta`, may use another integration line, and
        amplifies errors where delta hardly depends on epsilon.
        """
        curve, answer = self.asked(value)
        step = max(ULP, curve.resolution)
        if curve.resolution > 1e-12 and self.epsilon >= _LARGE_EPSILON and self.delta > 0:
            room = math.log(self.delta) - self.aim(curve.resolution)
            if answer.error < 0.25 * room:  # more room than both queries need
                return value
        while value >= 1e-300 and (miss := self._miss(value)) > 0:
            step = min(max(step, 2 * miss), max(step, 0.05))
            value *= 1 + step if self.grows else 1 - step
            if integer:
                value = math.ceil(value) if self.grows else math.floor(value)
                if value < 1:
                    raise self._infeasible()
            step = min(4 * step, 0.5)
        return value

    def _miss(self, value: float) -> float:
        """Return the relative excess of epsilon without hints; 0 if epsilon and delta are met."""
        known = None if self.hints or not self.delta else self._asked.get(value)
        curve = known[0] if known else self.account(value)
        if self.epsilon == 0:  # a target for the advantage; epsilon has no scale
            return max(curve.delta(0.0) / self.delta - 1, 0.0)
        miss = curve.epsilon(self.delta) / self.epsilon - 1
        delta = curve._delta(known[1].value) if known else curve.delta(self.epsilon)
        if miss <= 0 and delta <= self.delta:
            return 0.0
        return max(miss, ULP)

    def _secants(self, low: float, high: float, start: float | None, slope: float) -> float | None:
        """Return a value that just meets the target, or None if that needs a bracket.

        log(-log delta) is nearly linear in the log of the parameter. Near the target, the queries
        are without hints, as those of a user.
        """
        sign = 1 if self.grows else -1
        at, ends = math.log(start or _middle(*self._ends(low, high))), [-math.inf, math.inf]
        rate = slope / self.aim(1e-9) if slope else 1.5 * sign
        last = (math.nan, math.nan)
        self.guided = not slope
        self.hints = self.guided or self.order is not None
        for _ in range(_MOST_STEPS):
            value = math.exp(at)
            if not low < value <= high:
                return None
            excess, resolution = self.excess(value), self.asked(value)[0].resolution
            aim = self.aim(resolution)
            if resolution < _COARSE:
                return None
            if -30 * resolution <= excess <= 0:
                if not self.guided:
                    return value
                del self._asked[value]
                self.guided = self.hints = False
                continue
            ends[(excess > 0) != self.grows] = at
            change = 1.4 * sign  # while delta is near 1
            if (log_delta := aim + excess) < -0.1:
                size = math.log(-log_delta)
                if math.isfinite(last[0]):
                    rate = (size - last[1]) / (at - last[0])
                if not 0.05 < rate * sign < math.inf:
                    return None
                change = (math.log(15 * resolution - aim) - size) / rate
                # of two lines, that of the hint and another, loose bounds differ too much
                inexact = self.hints and self.asked(value)[1].error > _INEXACT
                last = last if inexact else (at, size)
            self.guided = self.hints = self.guided and abs(excess) > 0.01
            at += min(max(change, -1.5), 1.5)
            if not ends[0] < at < ends[1]:
                at = 0.5 * (ends[0] + ends[1])
        return None

    def _ends(self, low: float, high: float) -> tuple[float, float]:
        return max(low, _LEAST_NOISE if self.grows else _LOWEST), min(high, _HIGHEST)

    def _real(self, low: float, high: float, start: float | None) -> float | None:
        """Bracket by growing factors from `start`, then solve on a log scale."""
        low, high = self._ends(low, high)
        if start is None or not low < start <= high:
            start = _middle(low, high)
        point, at_point = start, self.excess(start)
        atol = 30 * self.asked(start)[0].resolution
        upward = (at_point > 0) == self.grows
        # usually d log(-log delta) / d log noise is about 2
        away = abs(at_point) / max(1.0, -math.log(self.delta)) if self.delta > 0 else 0.2
        step = min(max(0.5 * away, 1e-9), 0.3)  # change of the log parameter toward the root
        while not -atol <= at_point <= 0:  # log delta falls faster than log noise grows
            factor = math.exp(step)
            beyond = min(point * factor, high) if upward else max(point / factor, low)
            if beyond == point:  # end of the domain reached without a change of sign
                return point if at_point <= 0 or self._miss(point) == 0 else None
            at_beyond = self.excess(beyond)
            if (at_beyond <= 0) != (at_point <= 0):
                break
            # secant step, if the excess shrinks, and a little more
            falls = math.isfinite(at_point) and abs(at_beyond) < abs(at_point)
            aim = step * at_beyond / (at_point - at_beyond) + 0.5 * atol if falls else math.inf
            point, at_point, step = beyond, at_beyond, min(aim, 8 * min(step, 16.0))
        else:
            return point
        (at_safe, safe), (at_unsafe, unsafe) = sorted(((at_point, point), (at_beyond, beyond)))
        ends, known = (math.log(safe), math.log(unsafe)), {"at_safe": at_safe, "atol": atol}
        log_safe = safe_root(
            lambda log_value: self.excess(math.exp(log_value)), *ends, at_unsafe=at_unsafe, **known
        )
        return safe if log_safe == math.log(safe) else math.exp(log_safe)

    def _whole(self, low: float, high: float, start: float | None, slope: float) -> int | None:
        """Search exponentially from `start`, or the lower end, for a change of sign; bisect."""
        first, last = max(1, math.ceil(low)), int(min(high, 2**53))
        rule = "an interval with a whole number >= 1"
        remedy = "Widen the domain, or omit integer."
        checks.refuse_if(first > last, "domain", (low, high), rule, remedy)
        point, width = min(max(int(start or first), first), last), 1
        excess = self.excess(point)
        met = excess <= 0
        if slope and abs(excess) < abs(slope):
            width = max(1, math.ceil(abs(point * math.expm1(-excess / slope))))
        toward = width if met != self.grows else -width
        while (beyond := min(max(point + toward, first), last)) != point:
            at_beyond = self.excess(beyond)
            if (at_beyond <= 0) != met:
                break
            rate = (at_beyond - excess) / math.log(beyond / point)  # to extrapolate, at most e^4
            log_jump = min(abs(at_beyond / rate), 4.0) if math.isfinite(rate) and rate else 0.0
            jump = 4 * abs(toward) + int(beyond * (math.expm1(log_jump) if toward > 0 else 0.0))
            point, excess, toward = beyond, at_beyond, int(math.copysign(jump, toward))
        else:
            return point if met else None
        for turn in range(200):
            if abs(beyond - point) < 2:
                break
            # points on both sides of the secant's root; after 6 turns, every other one bisects
            share = excess / (excess - at_beyond) if turn < 6 or turn % 2 else 0.5
            middle = point * (beyond / point) ** (share if math.isfinite(share) else 0.5)
            low, high = sorted((point, beyond))
            middle = min(max(math.floor(middle) + turn % 2, low + 1), high - 1)
            at_middle = self.excess(middle)
            if (at_middle <= 0) == met:
                point, excess = middle, at_middle
            else:
                beyond, at_beyond = middle, at_middle
        return point if met else beyond

    def _check_monotone(self) -> None:
        ordered = sorted(self.sure)
        for (lower, before), (higher, after) in pairwise(ordered):
            if _rises(before, after) and _rises(self._afresh(lower), self._afresh(higher)):
                other = "largest" if self.grows else "smallest"
                remedy = f"If privacy {'decreases' if self.grows else 'increases'} with the "
                remedy += f"parameter, pass seek={other!r}."
                raise ValueError(checks.expected("make", self.make, "monotone", remedy))

    def _afresh(self, value: float) -> float:
        curve = self.account(abs(value))
        if self.delta > 0:
            log_delta = curve._at_epsilon(self.epsilon).value
            return max(log_delta - self.aim(curve.resolution), -50.0)
        loss = curve.epsilon(0)
        return max(math.log(loss / self.epsilon), -50.0) if loss > 0 else -50.0

    def _infeasible(self) -> Infeasible:
        value = abs(max(self.tried)[0])
        curve = self.asked(value)[0]
        best = curve.epsilon(self.delta)
        if self.epsilon == 0:
            found = (f"advantage={self.delta:g}", curve.advantage(), value, "advantage")
        else:
            found = (f"epsilon={self.epsilon:g} at delta={self.delta:g}", best, value, "epsilon")
        return Infeasible(_unreachable(*found), best)

    def _certified(self, value: float, *, integer: bool) -> float:
        """Make `value` more private until interval arithmetic verifies it."""
        from privacy.certification import THOROUGH, Unproven, nudges, proven_delta

        away = 1 if self.grows else -1
        for step in nudges():
            moved = value + away * bool(step) if integer else value * (1 + away * step)
            curve = self.account(moved)
            answer = curve._at_epsilon(self.epsilon)
            found = curve._guarantee(self.epsilon, self.delta, answer)
            try:
                proven_delta(found, THOROUGH)
            except Unproven as error:
                reason = error
            else:
                return moved
        raise NotCertified(
            f"No proof found near {value!r} for {curve.mechanism!r} with notion={found.notion!r}: "
            f"{reason}. Omit certify to get the float result."
        )


@dataclass(eq=False)
class RateFamily(Family):
    """A family whose attacks have at most true positive rate `delta` at false positive `rate`."""

    rate: float

    @property
    def mu(self) -> float:
        """The mu of the Gaussian trade-off through both rates; 1 if there is none."""
        from scipy.special import ndtri

        return float(ndtri(self.delta) - ndtri(self.rate)) if self.rate > 0 else 1.0

    def asked(self, value: float) -> tuple[Curve, Answer]:
        """Return the curve at a value and the log of its true positive rate, cached."""
        if value not in self._asked:
            curve = self.account(value)
            log_rate = math.log(max(curve.true_positive_rate(self.rate), math.ulp(0.0)))
            self._asked[value] = curve, Answer(log_rate)
        return self._asked[value]

    def aim(self, resolution: float) -> float:
        """Return the log of the largest true positive rate, lowered by a margin."""
        return math.log(self.delta) - resolution

    def _miss(self, value: float) -> float:
        rate = self.asked(value)[0].true_positive_rate(self.rate)
        return max(rate / self.delta - 1, 0.0)

    def _afresh(self, value: float) -> float:
        return max(self.asked(abs(value))[1].value - math.log(self.delta), -50.0)

    def _infeasible(self) -> Infeasible:
        value = abs(max(self.tried)[0])
        best = math.exp(self.asked(value)[1].value)
        target = f"true_positive_rate={self.delta:g} at false_positive_rate={self.rate:g}"
        told = _unreachable(target, best, value, "true_positive_rate")
        return Infeasible(told, math.inf)

    def _certified(self, value: float, *, integer: bool) -> float:
        raise NotCertified("A true positive rate cannot be certified. Omit certify.")


def _middle(low: float, high: float) -> float:
    return 1.0 if low < 1 < high else max(math.sqrt(low) * math.sqrt(high), high / 100)


def _rises(before: float, after: float) -> bool:
    return after > before + _NOISE * (1 + abs(before))
