"""Log moments of a mixture of Gaussians against a Gaussian, enclosed in balls.

docs/theory/contour.md ("Proof in interval arithmetic") defines B(z), its powers f_t, and R. With
l(z) the loss, at t = c + iw, |f_t(z)| = |f_c(z)| exp(-w Im l(z)), which is at most
|f_c(z)| exp(W |Im l(z)|) for all |w| <= W. That bound is symmetric in Im z, as the panels need.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from flint import acb, arb, ctx
from scipy.special import log_ndtr

from privacy.certification._coverage import Unproven
from privacy.certification._panels import Array, Panel, nodes_in, plan, rule, spread
from privacy.losses.densities import log_sum

_MOST_PLACES = 200_000
_MARGIN = 3.0  # nats by which the ends of the panels are smaller than the error
_TURNS = 300.0  # radians of exp(i w l) per panel
_DEPTHS = 2.0 ** np.arange(-4.0, 2.0)
_CERTAIN, _NEARLY_NONE = 10.0, arb(0, 1e-22)  # Phi(-10) < 1e-22
_SPARED = 48  # bits that the factors X do not need
_FAR = 20.0  # length bounded on cells beyond the panels; also in widths of a window
_CELLS = 16  # fewest cells of an interval beyond the panels; a longer one has two per unit


class Nodes(NamedTuple):
    """Weights and losses whose sum is a moment, and a bound on its error."""

    weights: list[arb]
    losses: list[arb]
    error: arb

    def total(self) -> arb:
        """Return an upper bound on the moment at w = 0."""
        return sum(self.weights, self.error)


@dataclass(frozen=True)
class Window:
    """A smooth indicator X(z) = Phi((z - low) / width) - Phi((z - high) / width) of [low, high].

    0 <= X <= 1 on the real axis. It is entire, and |X(x + iy)| <= exp((y / width)^2 / 2) X(x).
    """

    low: float = -math.inf
    high: float = math.inf
    width: float = math.inf

    @cached_property
    def ends(self) -> tuple[tuple[float, int], ...]:
        """The finite ends, and the direction from each of them into the window."""
        both = (self.low, 1), (self.high, -1)
        return tuple((end, side) for end, side in both if math.isfinite(end))

    def rough_log(self, z: Any) -> Array:
        """Return approximately `log_bound`."""
        size = np.full(z.shape, -np.inf)
        side = np.where(z.real < 0.5 * (self.low + self.high), 1, -1)
        v = z.imag / self.width
        for end, _ in self.ends:
            u = side * (z.real - end) / self.width
            tail = 0.5 * (v * v - u * u) - math.log(2)
            size = np.logaddexp(size, np.where(u < 0, tail, np.logaddexp(0, tail)))
        return size if self.ends else np.zeros(z.shape)

    def rough_real(self, x: Array) -> Array:
        """Return approximately log X."""
        size = np.zeros(x.size)
        for end, side in self.ends:
            size = np.minimum(size, log_ndtr(side * (x - end) / self.width))
        return size

    def at(self, x: arb) -> arb:
        """Return X."""
        side = 1 if float(x) < 0.5 * (self.low + self.high) else -1
        tails = [_normal(side * (x - end) / self.width) for end, _ in self.ends[::side]]
        return tails[0] - tails[1] if len(tails) == 2 else tails[0] if tails else arb(1)

    def log_bound(self, z: acb) -> arb:
        """Bound log |X|.

        |Phi(u + iv)| is at most a = exp((v^2 - u^2) / 2) / 2 if u < 0, and 1 + a if not: for
        Re s >= 0, erfc(s) exp(s^2) is 2 / sqrt(pi) times the integral of exp(-r^2 - 2 s r), r > 0.
        """
        side = 1 if float(z.real.mid()) < 0.5 * (self.low + self.high) else -1
        size, v = arb(0), z.imag / self.width
        for end, _ in self.ends:
            u = side * (z.real - end) / self.width
            tail = ((v * v - u * u) / 2).exp() / 2
            size += tail if u < 0 else 1 + tail
        return size.upper().log() if self.ends else size


def _normal(x: arb) -> arb:
    if x > _CERTAIN:
        return 1 + _NEARLY_NONE
    if x < -_CERTAIN:
        return (-x * x / 2).exp() * arb(0.25, 0.25)
    return (-x * arb(0.5).sqrt()).erfc() / 2


EVERYWHERE = Window()


class Plan(NamedTuple):
    """Panels for the moments and for the decay, and the log of the error of each panel."""

    panels: list[Panel]
    decay: list[Panel]
    log_error: float


class _Factor(NamedTuple):
    """A power B(side * x)^(offset + slope * t) of the mixture's likelihood ratio B."""

    side: int
    offset: int
    slope: int


_FACTORS = {
    "remove": (_Factor(1, 1, 1),),
    "add": (_Factor(1, 0, -1),),
    "replace": (_Factor(1, 1, 1), _Factor(-1, 0, -1)),
}


@dataclass(frozen=True)
class Mixture:
    """The loss of a release with Gaussian noise that contains j records with probability p_j.

    `mu_squared` is that of one record, `shares` are p_0, ..., p_k, `direction` is "remove", "add"
    or "replace", and `window` a factor X of both measures.
    """

    mu_squared: arb
    shares: tuple[arb, ...]
    direction: str
    window: Window = EVERYWHERE

    @cached_property
    def mu(self) -> float:
        return float(self.mu_squared.sqrt().mid())

    @cached_property
    def _means(self) -> list[arb]:
        root = self.mu_squared.sqrt()
        return [j * root for j in range(len(self.shares))]

    @property
    def steepest(self) -> float:
        """The largest slope of log B."""
        return self.mu * (len(self.shares) - 1)

    @property
    def factors(self) -> tuple[_Factor, ...]:
        return _FACTORS[self.direction]

    @property
    def _turn(self) -> int:
        """The side of the real axis on which Im l >= 0."""
        return self.factors[0].slope

    def within(self, low: float, high: float, width: float) -> "Mixture":
        return replace(self, window=Window(low, high, width))

    def supremum(self) -> arb:
        return -self.shares[0].log() if self.direction == "add" else arb("inf")

    def _exponents(self, c: float) -> list[tuple[int, float]]:
        return [(f.side, f.offset + f.slope * c) for f in self.factors]

    # -- hints in floats

    @cached_property
    def _rough_terms(self) -> tuple[Array, Array]:
        mean = self.mu * np.arange(float(len(self.shares)))
        log_share = np.array([math.log(float(p)) for p in self.shares])
        return log_share - 0.5 * mean * mean, mean

    def _rough_log_ratio(self, z: Any) -> Any:
        size, mean = self._rough_terms
        terms = [a + b * z for a, b in zip(size[1:], mean[1:], strict=True)]
        top = np.maximum(size[0], np.maximum.reduce([term.real for term in terms]))
        total = np.exp(size[0] - top) + sum(np.exp(term - top) for term in terms)
        return np.asarray(top + np.log(total))

    def _rough_log(self, z: Any, c: float, shift: float) -> tuple[Array, Array]:
        """Return approximately the log of the integrand (of `decay` if shifted), and its fall."""
        size = self.window.rough_log(z) - 0.5 * (z * z).real
        turn = np.zeros(z.shape)
        for side, offset, slope in self.factors:
            one = self._rough_log_ratio(side * (z + 1j * shift))
            other = self._rough_log_ratio(side * (z - 1j * shift)) if shift else one
            size += (offset + slope * c) * 0.5 * (one.real + other.real)
            turn += slope * (0.5 * (one.imag - other.imag) if shift else one.imag)
        if shift:
            size += 0.5 * (1 + self.window.width**-2) * shift**2
        return size, turn if shift else -np.abs(turn)

    def rough_at(self, x: Array, c: float) -> tuple[Array, Array]:
        """Return log X phi f_c without its constant, and the losses."""
        log_weight, loss = self.window.rough_real(x) - 0.5 * x * x, np.zeros(x.size)
        for side, offset, slope in self.factors:
            log_ratio = self._rough_log_ratio(side * x)
            log_weight += (offset + slope * c) * log_ratio
            loss += slope * log_ratio
        return log_weight, loss

    def places(self, c: float) -> Array:
        """Return a grid that contains nearly all of phi f_c."""
        low, high = -12.0, 12.0
        for side, exponent in self._exponents(c):
            if exponent > 0:
                far = exponent * self.steepest
                low, high = (low, high + far) if side > 0 else (low - far, high)
            else:
                far = exponent * self.steepest * (1 - float(self.shares[0]))
                low, high = (low + far, high) if side > 0 else (low, high - far)
        width = self.window.width
        tilt = sum(abs(exponent) for _, exponent in self._exponents(c)) * self.steepest
        reach = width**2 * tilt + 10 * width if width < math.inf else 0.0
        for end, side in self.window.ends:
            low, high = (max(low, end - reach), high) if side > 0 else (low, min(high, end + reach))
        low, high = min(low, high), max(low, high)  # no outcome may be left
        count = int((high - low) / min(0.25, 0.5 / self.steepest, 0.3 * width)) + 2
        if count > _MOST_PLACES:
            raise Unproven("the loss spreads too widely")
        return np.linspace(low, high, count)

    def rough(self, c: float) -> tuple[Array, Array]:
        x = self.places(c)
        log_weight, loss = self.rough_at(x, c)
        return np.exp(log_weight) * (x[1] - x[0]) / math.sqrt(2 * math.pi), loss

    def log_weights(self, x: Array, t: float) -> Array:
        """Return approximately the logs of weights for the moment at t, for a uniform grid x."""
        scale = (x[1] - x[0]) / math.sqrt(2 * math.pi)
        return self.rough_at(x, t)[0] + math.log(scale)

    def rough_decay(self, c: float, frequency: Array, depth: float) -> tuple[Array, Array]:
        x = self.places(c)
        log_weight = self.rough_at(x, c)[0]
        plain = log_sum(log_weight)
        x = x[log_weight > plain - 20 - 2 * depth**2]
        best, shift = np.zeros(frequency.size), np.zeros(frequency.size)
        depth /= math.sqrt(1 + self.window.width**-2)
        for b in np.minimum(depth * _DEPTHS, 0.9 * math.pi / self.steepest):
            still, turn = self._rough_log(x + 0j, c, self._turn * float(b))
            size = np.minimum(still - np.multiply.outer(frequency, turn), 1e3)
            log_size = log_sum(size) - plain
            shift = np.where(log_size < best, self._turn * b, shift)
            best = np.minimum(best, log_size)
        return best, shift

    def plan(
        self,
        c: float,
        frequency: float,
        digits: float,
        shift: float = 0.0,
        start: float = -math.inf,
        end: float = math.inf,
    ) -> Plan:
        x = self.places(c)
        if end < math.inf:
            x = np.append(x[x < end], end)
        if start > -math.inf:
            x = np.append(start, x[x > start])
        log_weight, loss = self.rough_at(x, c)
        log_scale = math.log(x[1] - x[0])
        log_error = float(log_sum(log_weight)) + log_scale - digits
        growth = 0.5 * (1 + self.window.width**-2) * shift**2
        kept = np.flatnonzero(log_weight > log_error - log_scale - growth - _MARGIN)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, x.size - 1)
        if start > -math.inf:
            first = 0
        if end < math.inf:
            last = x.size - 1
        x, slope = x[first : last + 1], np.abs(np.gradient(loss, x))[first : last + 1]
        density = 0.3 + self.steepest / 4 + 0 * x
        for place, _ in self.window.ends:
            density += np.where(abs(x - place) < 5 * self.window.width, 0.3 / self.window.width, 0)
        if frequency * np.ptp(loss) > 1e6:
            raise Unproven("the quadrature needs too many nodes")

        def panels(shift: float) -> list[Panel]:
            edges = spread(density + (0.0 if shift else frequency * slope / _TURNS), x)
            highest = math.pi / self.steepest - abs(shift)

            def log_size(z: Any) -> Array:
                size, turn = self._rough_log(z, c, shift)
                return np.asarray(size - frequency * turn)

            return plan(log_size, edges, log_error, highest)

        return Plan(panels(0.0), panels(shift) if shift else [], log_error)

    def size(self, plan: Plan) -> int:
        return nodes_in(plan.panels)

    # -- enclosures

    @cached_property
    def _scaled(self) -> list[arb]:
        pairs = zip(self.shares, self._means, strict=True)
        return [p * (-mean * mean / 2).exp() for p, mean in pairs]

    @cached_property
    def _terms(self) -> list[tuple[arb, arb, arb]]:
        pairs = zip(self.shares[1:], self._means[1:], strict=True)
        return [(p, mean, mean * mean / 2) for p, mean in pairs]

    def _log_ratio(self, x: arb) -> arb:
        total = arb(0)
        for p, mean, half in self._terms:
            total += p * (mean * x - half).expm1()
        return total.log1p()

    def _log_ratio_at(self, z: acb) -> acb:
        """Return log B, with a larger error near 0."""
        largest, *rest = reversed(self._scaled)
        total, growth = acb(largest), (z * self._means[1]).exp()
        for scaled in rest:
            total = total * growth + scaled
        return total.log()

    def _in_strip(self, panels: list[Panel], shift: float) -> bool:
        highest = arb.pi() / self._means[-1]
        return all(panel.height() + abs(shift) < highest for panel in panels)

    def _growth(self, shift: float) -> arb:
        """Return a bound on the log of |phi X|(x + i shift) / (phi X)(x)."""
        return (1 + 1 / arb(self.window.width) ** 2) * arb(shift) ** 2 / 2

    def nodes(
        self,
        c: float,
        frequency: float,
        plan: Plan,
        start: float = -math.inf,
        end: float = math.inf,
    ) -> Nodes:
        """Return nodes for E X exp((c + iw) l) on `start` <= z <= `end`, |w| <= frequency."""
        exponents = [(f.side, f.offset + f.slope * arb(c), f.slope) for f in self.factors]
        edge = arb(frequency)

        def log_size(z: acb) -> arb:
            size, turn = self.window.log_bound(z) - (z * z).real / 2, arb(0)
            for side, exponent, slope in exponents:
                log_ratio = self._log_ratio_at(side * z)
                size += exponent * log_ratio.real
                turn += slope * log_ratio.imag
            return size + edge * abs(turn)

        if not self._in_strip(plan.panels, 0.0):
            return Nodes([], [], arb("inf"))
        points, error = rule(plan.panels, log_size, plan.log_error)
        scale, weights, losses = (2 * arb.pi()).sqrt(), [], []
        with ctx.workprec(ctx.prec - _SPARED):
            kept = [self.window.at(x) for x, _ in points]
        for (x, width), factor in zip(points, kept, strict=True):
            log_weight, loss = -x * x / 2, arb(0)
            for side, exponent, slope in exponents:
                log_ratio = self._log_ratio(side * x)
                log_weight += exponent * log_ratio
                loss += slope * log_ratio
            weights.append(log_weight.exp() * factor * width / scale)
            losses.append(loss)
        error += self._outside(plan.panels, c, 0.0, start, end)
        return Nodes(weights, losses, error / scale)

    def decay(self, c: float, frequency: float, plan: Plan, shift: float) -> arb:
        """Return a bound on E X |exp((c + iw) l)| for all w >= frequency."""
        if not shift:
            return self.nodes(c, 0.0, plan).total()
        w, b = arb(frequency), acb(0, shift)
        exponents = [
            (f.side, (f.offset + f.slope * arb(c)) / 2, f.slope * w / 2) for f in self.factors
        ]

        def log_size(z: acb) -> arb:
            size = self.window.log_bound(z) - (z * z).real / 2
            for side, exponent, turn in exponents:
                one, two = (self._log_ratio_at(side * each) for each in (z + b, z - b))
                size += exponent * (one + two).real - turn * (one - two).imag
            return size

        if not self._in_strip(plan.decay, shift) or self._turn * shift < 0:
            return arb("inf")
        growth = self._growth(shift)
        points, total = rule(plan.decay, log_size, plan.log_error - float(growth))
        for x, width in points:
            log_weight = -x * x / 2
            for side, exponent, turn in exponents:
                log_ratio = self._log_ratio_at(side * (x + b))
                log_weight += 2 * (exponent * log_ratio.real - turn * log_ratio.imag)
            total += log_weight.exp() * self.window.at(x) * width
        total += self._outside(plan.decay, c, shift, -math.inf, math.inf)
        return total * growth.exp() / (2 * arb.pi()).sqrt()

    def _log_least(self, x: arb, turn: arb) -> arb:
        """Return a lower bound on log |B(x + ib)|, turn = k mu |b| < pi, that increases with x."""
        # terms are within turn / 2 of one direction; Re B >= p_0 + (B(x) - p_0) cos(turn)
        ratio, cos = self._log_ratio(x), turn.cos()
        bound = ratio + (turn / 2).cos().log()
        if cos > 0:
            rest = (self.shares[0] + (ratio.exp() - self.shares[0]) * cos).log()
            bound = bound.max(rest)
        return bound

    def _outside(
        self, panels: list[Panel], c: float, shift: float, start: float, end: float
    ) -> arb:
        """Bound the integral beyond the panels by chords of log B, tangents of other logs."""
        turn = self._means[-1] * abs(shift)
        if not panels or not turn < arb.pi():
            return arb("inf")
        return sum(
            (
                self._beyond(edge, outward, c, turn)
                for edge, outward in ((panels[0].low, -1), (panels[-1].high, 1))
                if edge not in (start, end)
            ),
            arb(0),
        )

    def _beyond(self, edge: float, outward: int, c: float, turn: arb) -> arb:
        """Bound the integral of `_outside` beyond one edge: on cells, then up to infinity."""
        exponents = [(f.side, f.offset + f.slope * arb(c)) for f in self.factors]

        def log_size(e: arb, x: arb) -> arb:
            return e * (self._log_ratio(x) if e > 0 else self._log_least(x, turn))

        ends = [place for place, side in self.window.ends if side != outward]
        rising = sum(max(0.0, float(e)) for s, e in exponents if s == outward) * self.steepest
        falling = [e for side, e in exponents if side != outward and not e > 0]
        far = _flat(rising, outward, ends, self.window.width)
        if falling:
            far = max(far, outward * edge + _FAR)
        total, x, fall, size = arb(0), arb(edge), arb(0), arb(0)
        length = max(far - outward * edge, 0.0)
        cells = max(_CELLS, math.ceil(2 * min(length, 1e3)))
        for share in np.linspace(0.0, 1.0, cells + 1) ** 2:
            place = arb(outward * (outward * edge + share * length))
            if share:
                # the chord of log B, and the tangents, from the last place to this one
                fall = fall * abs(place - x)
                for side, e in exponents:
                    rise = log_size(e, side * place) - log_size(e, side * x)
                    if side != outward:
                        size += rise.max(arb(0))
                    elif e > 0:
                        fall -= rise
                total += abs(place - x) * size.exp() * (-fall).exp().max(arb(1))
            x, fall = place, outward * place
            size = sum((log_size(e, side * x) for side, e in exponents), -x * x / 2)
            for cut in ends:
                u = outward * (x - cut) / self.window.width
                # the log of Phi(-u) falls at least as fast as -u^2 / 2, u > 0
                size += ((u / arb(2).sqrt()).erfc() / 2).log()
                fall += u.max(arb(0)) / self.window.width
        least = (self.shares[0] * (1 if turn.cos() > 0 else (turn / 2).cos())).log()
        size += sum((e * (least - self._log_least(-outward * x, turn)) for e in falling), arb(0))
        fall -= sum((e * self._means[-1] for s, e in exponents if e > 0 and s == outward), arb(0))
        return total + size.exp() / fall if fall > 0 else arb("inf")

    def kept(self) -> tuple[arb, arb]:
        """Return E X under P and under Q, for a window without a lower end."""
        scale = (2 * (1 + arb(self.window.width) ** 2)).sqrt()

        def mixed(side: int) -> arb:
            pairs = zip(self.shares, self._means, strict=True)
            tails = (p * ((side * m - self.window.high) / scale).erfc() / 2 for p, m in pairs)
            return sum(tails, arb(0))

        plain = (-self.window.high / scale).erfc() / 2
        return mixed(1), mixed(-1) if self.direction == "replace" else plain

    def spilled(self, end: float) -> arb:
        """Bound E_P X on z >= `end`, for a window without a lower end."""
        half = arb(0.5).sqrt()
        pairs = zip(self.shares, self._means, strict=True)
        beyond = sum((p * ((end - mean) * half).erfc() / 2 for p, mean in pairs), arb(0))
        return self.window.at(arb(end)) * beyond


@dataclass(frozen=True)
class Half:
    """The loss of a `Mixture` of one record, "remove" or "add", on the outcomes z >= `start`."""

    whole: Mixture
    start: float

    def supremum(self) -> arb:
        return arb("inf")

    def rough(self, c: float) -> tuple[Array, Array]:
        x, width = self._places(c)
        log_weight, loss = self.whole.rough_at(x, c)
        return np.exp(log_weight) * width, loss

    def _places(self, c: float) -> tuple[Array, Array]:
        """Return nodes of the noise, and their weights."""
        edges = self._edges(self.whole.places(c)[-1] - self.start)
        x, width = np.polynomial.legendre.leggauss(10)
        step = 0.5 * (edges[1] - edges[0])
        each = self.start + edges[:-1, None] + step * (1 + x)
        return each.ravel(), np.tile(step * width / math.sqrt(2 * math.pi), edges.size - 1)

    def _edges(self, end: float) -> Array:
        return np.linspace(0.0, end, 2 + int(end * (0.5 + self.whole.steepest / 4)))

    def _rough_path(self, r: Any, c: float, b: float) -> tuple[Array, Array]:
        """Return approximately the log of the integrand of `decay`, and its fall."""
        ((_, offset, slope),) = self.whole.factors
        aside = 1j * slope * b * -np.expm1(-r)
        one, two = (self.whole._rough_log_ratio(self.start + r + way * aside) for way in (1, -1))
        size = 0.5 * (-((self.start + r) ** 2) - aside**2).real
        size += np.log(np.abs(1 + 0.5 * b * b * np.exp(-2 * r)))
        size += 0.5 * (offset + slope * c) * (one + two).real
        outside = np.abs(aside.imag) + np.abs(r.imag) >= 0.95 * math.pi / self.whole.steepest
        return np.where(outside, np.inf, size), np.asarray(0.5 * slope * (one - two).imag)

    def rough_decay(self, c: float, frequency: Array, depth: float) -> tuple[Array, Array]:
        plain, best, shift = self.rough(c)[0].sum(), 0 * frequency, 0 * frequency
        x, width = self._places(c)
        for b in np.minimum(depth * _DEPTHS, 0.9 * math.pi / self.whole.steepest):
            size, fall = self._rough_path(x - self.start, c, float(b))
            log_size = log_sum(size + np.log(width / plain) - np.multiply.outer(frequency, fall))
            shift, best = np.where(log_size < best, b, shift), np.minimum(best, log_size)
        return best, shift

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> Plan:
        found = self.whole.plan(c, frequency, digits, start=self.start)
        if not shift:
            return found

        def log_size(r: Any) -> Array:
            size, fall = self._rough_path(r, c, shift)
            return np.asarray(size - frequency * fall)

        edges = self._edges(found.panels[-1].high - self.start)
        panels = plan(log_size, edges, found.log_error, math.pi / self.whole.steepest)
        return found._replace(decay=panels)

    def size(self, plan: Plan) -> int:
        return self.whole.size(plan)

    def nodes(self, c: float, frequency: float, plan: Plan) -> Nodes:
        return self.whole.nodes(c, frequency, plan, start=self.start)

    def decay(self, c: float, frequency: float, plan: Plan, shift: float) -> arb:
        """Bound |M(c + iw)|, w >= frequency, on the path z = start + r +- ib (1 - e^-r)."""
        if not shift:
            return self.nodes(c, 0.0, plan).total()
        ((_, offset, slope),) = self.whole.factors
        exponent, w, b = (offset + slope * arb(c)) / 2, arb(frequency), arb(shift)
        highest = arb.pi() / self.whole._means[-1]

        def log_size(r: acb) -> arb:
            x, aside = self.start + r, slope * b * (1 - (-r).exp())
            one, two = x + acb(0, 1) * aside, x - acb(0, 1) * aside
            if not (abs(one.imag) < highest and abs(two.imag) < highest):
                return arb("inf")
            # |dz / dr| <= 1 + (b e^-r)^2 / 2
            size = abs(1 + b * b / 2 * (-2 * r).exp()).upper().log()
            first, other = self.whole._log_ratio_at(one), self.whole._log_ratio_at(two)
            size += ((aside * aside - x * x) / 2).real + exponent * (first + other).real
            return size - slope * w / 2 * (first - other).imag

        panels = plan.decay
        if not (panels and panels[0].low == 0 and 0 < b < highest):
            return arb("inf")
        points, total = rule(panels, log_size, plan.log_error)
        total = sum((log_size(acb(r)).exp() * width for r, width in points), total)
        edge = math.nextafter(self.start + panels[-1].high, -math.inf)
        beyond = self.whole._beyond(edge, 1, c, self.whole._means[-1] * b)
        return (total + beyond * (b * b / 2).exp() * (1 + b * b / 2)) / (2 * arb.pi()).sqrt()


def _flat(rising: float, outward: int, ends: list[float], width: float) -> float:
    """Return outward * x from which on phi X exp(rising * outward * x) decreases."""
    steep, least = 1.0, 1.01 * rising + 1
    for end in ends:
        steep, least = steep + width**-2, least + outward * end * width**-2
    return max([least / steep, *(outward * end + _FAR * width for end in ends)])
