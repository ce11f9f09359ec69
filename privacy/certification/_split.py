"""Bounds on delta of a sum of losses: by a real t, one contour integral, or a split sum.

docs/theory/contour.md ("Few steps") derives the three terms of the split sum, from windows X <= X'
without lower ends on the noise of each sampled Gaussian.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from flint import arb
from scipy.special import log_ndtr

from privacy.certification._contour import Line, Sum, digits, upper
from privacy.certification._coverage import Unproven
from privacy.certification._mixtures import Mixture
from privacy.certification._panels import Array
from privacy.losses.densities import log_sum

_EASY, _GOOD = 3_000_000, 10_000_000  # products below which no split, and no other width, is tried
_LOOSE = 1e-9
_WIDTHS = 0.07, 0.15
_MOST_PLACES = 10_000
_FAR = 10.5  # widths beyond the end at which a window is negligible
# multiples of epsilon: the ends of windows, and the reciprocals of t of their bounds
_SHARES = 2.0 ** np.arange(-7.0, 7.0, 0.25)
_ORDERS = 2.0 ** np.arange(0.0, 11.0, 2.0)


def delta(total: Sum, epsilon: arb, least: arb, work: int) -> arb:
    """Return an upper bound on delta, tight only above `least`, from at most `work` products."""
    if total.mu_squared == 0 and total.supremum() <= epsilon:
        return arb(0)
    with _finite():
        return _delta(total, epsilon, least, work)


def moment(part: Any, t: float, digits: float) -> arb:
    """Return an upper bound on the moment of a `Part` at a real t."""
    with _finite():
        return arb(part.nodes(t, 0.0, part.plan(t, 0.0, digits)).total())


@contextmanager
def _finite() -> Iterator[None]:
    try:
        with np.errstate(all="ignore"):
            yield
    except (OverflowError, ValueError, ZeroDivisionError, IndexError) as error:
        raise Unproven("the parameters of the integral overflow floats") from error


def _delta(total: Sum, epsilon: arb, least: arb, work: int) -> arb:
    log_least = float(least.log().mid())
    line = Line(total, float(epsilon.mid()), log_least)
    if line.log_bound < log_least - 1e-9:
        bound = total.at_real(line.best, epsilon)
        if bound <= least:
            return bound
    try:
        plain = float(line.place())
    except Unproven:
        plain = math.inf
    # a dummy Gaussian adds about this share to delta
    loose = plain < math.inf and line.dummy * (1 + line.c) ** 2 > _LOOSE
    if plain <= work and ((plain <= _EASY and not loose) or work < _EASY):
        return line.delta(epsilon)
    split = Split(total, float(epsilon.mid()), log_least, tried=work >= _EASY)
    if loose and split.products <= work:
        plain = math.inf
    products = min(plain, split.products)
    if products > work:
        raise Unproven(f"the contour integral needs {products:.2g} products, more than {work:.2g}")
    if plain <= products:
        return line.delta(epsilon)
    bound = split.delta(epsilon)
    # float estimates of the split can be far off
    return bound.min(line.delta(epsilon)) if bound > 2 * least and plain <= work else bound


class Split:
    """The sum `total` without the outcomes in which all losses are small, or one is large."""

    def __init__(self, total: Sum, epsilon: float, log_delta: float, *, tried: bool = True) -> None:
        self.total, self.epsilon = total, epsilon
        self.products = math.inf
        self._cut = [
            part if isinstance(part, Mixture) and part.direction != "add" else None
            for part, _ in total.parts
        ]
        for width in _WIDTHS if tried and any(self._cut) else ():
            try:
                self._try(width, log_delta)
            except (Unproven, ArithmeticError, ValueError, IndexError):
                continue
            if self.products <= _GOOD:
                break

    def _try(self, width: float, log_delta: float) -> None:
        """Choose windows of this width; keep them if they need fewer products."""
        epsilon, goal = self.epsilon, log_delta - digits()
        losses = epsilon * _SHARES
        ends = [_places_of(cut, losses) if cut else losses for cut in self._cut]
        best, above = losses.size, 0.0
        for t in _ORDERS / epsilon:
            bound = (1 + t) * epsilon + self._rough_large(-1 - t, ends, width)
            enough = np.flatnonzero(bound + t * math.log(t) - (1 + t) * math.log1p(t) <= goal)
            if enough.size and enough[0] < best:
                best, above = int(enough[0]), float(t)
        high = [float(each[best]) if best < losses.size else math.inf for each in ends]
        worst, below = -1, 0.0
        for t in _ORDERS / epsilon:
            bound = self._rough_small(t, ends, width) - t * epsilon
            enough = np.flatnonzero(bound + t * math.log(t) - (1 + t) * math.log1p(t) <= goal)
            if enough.size and enough[-1] > worst:
                worst, below = int(enough[-1]), float(t)
        if worst < 0 or worst >= best:
            return
        parts, small = [], []
        for (part, count), each, top, cut in zip(
            self.total.parts, ends, high, self._cut, strict=True
        ):
            parts.append((cut.within(-math.inf, top, width) if cut else part, count))
            low = min(float(each[worst]), top)  # X <= X'
            pair = (cut.within(-math.inf, low, width), cut.within(low, top, width)) if cut else None
            small.append(pair)
        inner = Sum(tuple(parts), self.total.mu_squared, tuple(small))
        line = Line(inner, epsilon, log_delta)
        products = float(line.place())
        if products < self.products:
            self.products, self.line, self.inner = products, line, inner
            self._below, self._above = below, above

    def _rough_small(self, t: float, ends: list[Array], width: float) -> Array:
        """Return the log moment at t of small losses, for each of the ends."""
        total = self._rough_gaussian(t)
        for (part, count), each, cut in zip(self.total.parts, ends, self._cut, strict=True):
            if cut:
                x = np.linspace(-12.0, max(each[-1] + _FAR * width, 12.0), 400)
                beyond = np.subtract.outer(each, x) / width
                log_kept = np.where(beyond > -_FAR, log_ndtr(beyond), -np.inf)
                total += count * log_sum(cut.log_weights(x, t) + log_kept)
            else:
                total += count * math.log(part.rough(t)[0].sum())
        return total

    def _rough_large(self, t: float, ends: list[Array], width: float) -> Array:
        """Return the log moment at t of outcomes with a large loss, for each of the ends."""
        total, large = self._rough_gaussian(t), np.full(_SHARES.size, -math.inf)
        for (part, count), each, cut in zip(self.total.parts, ends, self._cut, strict=True):
            if cut:
                x = cut.places(t)
                if x.size > _MOST_PLACES:
                    return np.full(_SHARES.size, math.inf)
                log_weight = cut.log_weights(x, t)
                log_all = log_sum(log_weight[None, :])
                log_kept = log_ndtr(np.subtract.outer(-each, -x) / width)
                total += count * log_all
                log_share = log_sum(log_weight + log_kept) - log_all
                large = np.logaddexp(large, math.log(count) + log_share)
            else:
                total += count * math.log(part.rough(t)[0].sum())
        return np.asarray(total + large)

    def _rough_gaussian(self, t: float) -> Array:
        return np.full(_SHARES.size, 0.5 * float(self.total.mu_squared.mid()) * t * (t + 1))

    def delta(self, epsilon: arb) -> arb:
        total = self._small(epsilon) + self.line.delta(epsilon)
        return upper(total + self._certain(epsilon) if self._above else total)

    def _small(self, epsilon: arb) -> arb:
        """Bound delta of the outcomes in which all losses are small."""
        t = arb(self._below)
        log_size = (self.inner.mu_squared + arb(self.line.dummy)) * t * (t + 1) / 2 - t * epsilon
        log_size += t * t.log() - (t + 1) * t.log1p()
        spilled = arb(0)
        for (part, count), pair in zip(self.inner.parts, self.inner.small, strict=True):
            if not pair:
                log_size += Sum(((part, count),), arb(0)).log_moment(self._below)
            else:
                small = pair[0]
                end = small.window.high + _FAR * small.window.width
                plan = small.plan(self._below, 0.0, _ROUGH + math.log(count), end=end)
                log_size += count * small.nodes(self._below, 0.0, plan, end=end).total().log()
                spilled += count * small.spilled(end)
        return spilled + log_size.exp()

    def _certain(self, epsilon: arb) -> arb:
        """Bound the share of outcomes with a large loss."""
        kept, other, large = arb(1), arb(1), arb(0)
        at = -1 - self._above
        t = -1 - arb(at)  # exactly, as the float `at` is rounded
        log_size = self.total.mu_squared * t * (t + 1) / 2
        log_size += (1 + t) * epsilon + t * t.log() - (1 + t) * t.log1p()
        for (part, count), (inner, _) in zip(self.total.parts, self.inner.parts, strict=True):
            whole = Sum(((part, 1),), arb(0)).log_moment(at)
            log_size += count * whole
            if inner != part:
                assert isinstance(inner, Mixture)
                one, two = inner.kept()
                kept, other = kept * one**count, other * two**count
                beyond = inner.within(inner.window.high, math.inf, inner.window.width)
                nodes = beyond.nodes(at, 0.0, beyond.plan(at, 0.0, _ROUGH + math.log(count)))
                large += count * nodes.total() / whole.exp()
        return (1 - kept) - epsilon.exp() * (1 - other) + large * log_size.exp()


_ROUGH = 16.0  # nats of accuracy of a negligible moment


def _places_of(part: Mixture, losses: Array) -> Array:
    """Return approximately the places of increasing losses."""
    x = np.linspace(-40.0, 40.0, 2001)
    return np.interp(losses, part.rough_at(x, 0.0)[1], x)
