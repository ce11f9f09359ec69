"""Log moments of sampled Laplace noise, and sums of unsampled releases, enclosed in balls.

With the loss l of the unsampled distributions at distance s and B(l) = 1 - q + q e^l, the moment is
E_Q B^(1 + t) if a record is removed, and E_Q B^-t if it is added (docs/theory/contour.md).
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from typing import Any

import numpy as np
from flint import acb, arb, arb_poly, ctx, fmpz_poly

from privacy.certification._coverage import Unproven
from privacy.certification._mixtures import Nodes, Plan
from privacy.certification._panels import Array, nodes_in, plan, rule, spread

_TURNS = 40.0  # radians of exp(i w loss) per panel
_PLACES = 400


@dataclass(frozen=True)
class SampledLaplace:
    """The loss of Laplace noise at the distance s, sampled with probability q (1: unsampled)."""

    distance: arb
    q: arb
    direction: str

    @property
    def _sign(self) -> int:
        return -1 if self.direction == "add" else 1

    def _exponent(self, c: float) -> arb:
        return -arb(c) if self.direction == "add" else 1 + arb(c)

    def _log_ratio(self, loss: arb) -> arb:
        return (self.q * loss.expm1()).log1p()

    def supremum(self) -> arb:
        return self._sign * self._log_ratio(self._sign * self.distance)

    def rough(self, c: float) -> tuple[Array, Array]:
        s, q, e = float(self.distance), float(self.q), float(self._exponent(c))
        u, step = np.linspace(-s, s, _PLACES, retstep=True)
        log_ratio = np.log1p(q * np.expm1(u))
        weight = 0.25 * np.exp(-0.5 * (s + u)) * step
        weight[0], weight[-1] = 0.5 + 0.5 * weight[0], 0.5 * math.exp(-s) + 0.5 * weight[-1]
        return weight * np.exp(e * log_ratio), self._sign * log_ratio

    def rough_decay(self, c: float, frequency: Array, depth: float) -> tuple[Array, Array]:
        atoms, ends = float(sum(self._atoms(c), arb(0))), float(self._ends(c))
        size = np.log((atoms + ends / frequency) / self.rough(c)[0].sum())
        return np.minimum(size, 0.0), np.zeros(frequency.size)

    def plan(self, c: float, frequency: float, digits: float, shift: float = 0.0) -> Plan:
        s, q, e = float(self.distance), float(self.q), float(self._exponent(c))
        u = np.linspace(-1.0, 1.0, _PLACES)
        slope = q * s * np.exp(s * u) / (1 + q * np.expm1(s * u))
        turns = frequency * float(slope.max())
        if turns > 1e6:
            raise Unproven("the quadrature needs too many nodes")

        def log_size(z: Any) -> Array:
            log_ratio = np.log(1 - q + q * np.exp(s * z))
            size = -0.5 * (s + s * z).real + e * log_ratio.real
            return np.asarray(size + frequency * np.abs(log_ratio.imag))

        log_error = math.log(4 * self.rough(c)[0].sum() / s) - digits
        edges = spread(0.5 + abs(e) * slope / 8 + frequency * slope / _TURNS, u)
        return Plan(plan(log_size, edges, log_error, math.pi / s), [], log_error)

    def size(self, plan: Plan) -> int:
        return nodes_in(plan.panels) + 2

    def _atoms(self, c: float) -> list[arb]:
        s, e = self.distance, self._exponent(c)
        pairs = (-s, arb(0.5)), (s, (-s).exp() / 2)
        return [p * (e * self._log_ratio(loss)).exp() for loss, p in pairs]

    def nodes(self, c: float, frequency: float, plan: Plan) -> Nodes:
        s, e, edge = self.distance, self._exponent(c), arb(frequency)

        def log_size(z: acb) -> arb:
            log_ratio = (1 - self.q + self.q * (s * z).exp()).log()
            return -(s + s * z).real / 2 + e * log_ratio.real + edge * abs(log_ratio.imag)

        whole = plan.panels[0].low == -1 and plan.panels[-1].high == 1
        if not (whole and all(panel.height() * s < arb.pi() for panel in plan.panels)):
            return Nodes([], [], arb("inf"))
        points, error = rule(plan.panels, log_size, plan.log_error)
        weights = self._atoms(c)
        losses = [self._sign * self._log_ratio(side * s) for side in (-1, 1)]
        for u, width in points:
            log_ratio = self._log_ratio(s * u)
            weights.append((-(s + s * u) / 2 + e * log_ratio).exp() * width * s / 4)
            losses.append(self._sign * log_ratio)
        return Nodes(weights, losses, error * s / 4)

    def _ends(self, c: float) -> arb:
        s, e = self.distance, self._exponent(c)
        ends = (-(s + x) / 2 - x + (e + 1) * self._log_ratio(x) for x in (-s, s))
        return sum((end.exp() for end in ends), arb(0)) / (2 * self.q)

    def decay(self, c: float, frequency: float, plan: Plan, shift: float) -> arb:
        whole = self.nodes(c, 0.0, plan).total()
        return whole.min(sum(self._atoms(c), self._ends(c) / arb(frequency)))


def delta(parts: Sequence[tuple[arb, int, bool]], epsilon: arb) -> arb:
    """Return delta of distances of noise or epsilons of responses, counts, and whether noise."""
    noises, scale, found = 0, 2 * (epsilon / 2).exp(), arb(0)
    for s, count, is_noise in parts:
        noises += count * is_noise
        scale *= ((-s / 2).exp() / 2 if is_noise else 1 / (2 * (s / 2).cosh())) ** count
    for falls in product(*(range(count + 1) for _, count, _ in parts)):
        ways, fallen, z = 1, 0, -epsilon
        for (s, count, is_noise), k in zip(parts, falls, strict=True):
            ways *= math.comb(count, k)
            fallen += k * is_noise
            z += (count - 2 * k) * s
        if not z < 0:
            found += ways * _kernel(noises, fallen, z.max(arb(0)) / 2)
    return scale * found


def _kernel(noises: int, fallen: int, w: arb) -> arb:
    """Return the inverse Laplace transform of (d + 1)^(n - m - 1) (d - 1)^(m - 1) / d^n at w."""
    if not noises:
        return w.sinh()
    if fallen == noises:
        return -_kernel(noises, 0, -w)
    residue = 0 if fallen else 2 ** (noises - 1) * w.exp()
    return residue + _polynomial(noises, fallen, ctx.prec)(w)


@lru_cache(maxsize=1024)
def _polynomial(noises: int, fallen: int, _bits: int) -> arb_poly:
    """Return the residue at d = 0."""
    if fallen:
        power = fmpz_poly([1, 1]) ** (noises - fallen - 1) * fmpz_poly([-1, 1]) ** (fallen - 1)
        series = [int(power[k]) for k in range(noises)]
    else:
        series = [-each for each in accumulate(math.comb(noises - 1, k) for k in range(noises))]
    factorials = accumulate(range(1, noises), operator.mul, initial=1)
    return arb_poly([arb(c) / f for c, f in zip(reversed(series), factorials, strict=True)])
