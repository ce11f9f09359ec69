"""Sums of independent privacy losses in one direction, and their saddle points."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from privacy.losses.quadrature import (
    Array,
    Direction,
    LossModel,
    LossNodes,
    log_moment,
    nodes_up_to,
    reach,
    stacked_nodes,
)
from privacy.numerics.rounding import ULP, sum_up
from privacy.numerics.solve import descend

_DEPTHS = 2.0 ** np.arange(-4.0, 2.0)
NOTHING = -900.0
"""A log delta below that of every positive float; delta <= exp(K(t) - t epsilon)."""


class Unresolved(ArithmeticError):
    """The integral has no useful bound with the permitted number of nodes."""


class Stack(NamedTuple):
    """One model, or several that are evaluated together, with a row each."""

    model: LossModel
    times: Any  # the number of runs, or one in each row
    nodes: LossNodes | None = None  # of several models

    @property
    def size(self) -> int:
        return 1 if self.nodes is None else self.times.size

    def sum(self, each: Any) -> Any:
        """Return the sum of a quantity of the models over all runs."""
        return self.times * each if self.nodes is None else self.times @ each


Cumulants = list[tuple[Stack, tuple[Any, Any, Any]]]
"""K, K' and K'' of one run of each model at some t > 0."""


class Saddles:
    """A sum of losses. Its saddle point is that of `fewer`, a similar sum, if there is one."""

    fewer: "Saddles | None" = None

    def cumulants(self, t: float) -> tuple[float, float, float]:
        """Return K, K' and K'' at t > 0."""
        raise NotImplementedError

    def saddle(self, epsilon: float, start: float) -> float:
        """Return t > 0 near the minimum of K(t) - t epsilon - log t - log(1 + t).

        Or a t that already proves delta to be below every positive float.
        """
        cumulants = (self.fewer or self).cumulants

        def step(t: float) -> tuple[float, float]:
            value, mean, variance = cumulants(t)
            if value - t * epsilon < NOTHING - 1:
                return 0.0, 0.0
            if not mean > 0:
                raise Unresolved("the mean loss is below its rounding error")
            return toward_saddle(t, epsilon, mean, variance)

        return descend(step, start)

    def saddle_of_delta(self, log_delta: float, rho: float = 0.0) -> tuple[float, float]:
        """Return a saddle point t and its epsilon, approximately where delta is reached.

        `rho`, if known, is K(1) / 2.
        """
        epsilon, cumulants = math.inf, (self.fewer or self).cumulants

        def step(t: float) -> tuple[float, float]:
            nonlocal epsilon
            value, mean, variance = cumulants(t)
            bend = variance + t**-2 + (1 + t) ** -2
            epsilon = mean - 1 / t - 1 / (1 + t)
            size = value - t * epsilon - math.log(t * (1 + t)) - 0.5 * math.log(2 * math.pi * bend)
            miss = log_delta - size  # d size / d log t = -t^2 bend, ignoring the change of bend
            if size < -1:  # here size is nearly proportional to -t^2
                return miss, math.log(log_delta / size) * -size / (t * t * bend)
            return miss, -miss / (t * t * bend)

        rho = max(rho or 0.5 * cumulants(1.0)[0], 1e-300)
        t = descend(step, min(math.sqrt(-log_delta / rho), 16.0))
        if not math.isfinite(epsilon):
            raise Unresolved("delta is larger than at every saddle point")
        return t, max(epsilon, 0.0)


@dataclass(frozen=True)
class LossSum(Saddles):
    """A sum of independent privacy losses in one direction.

    `parts` has the models and their numbers of runs, `mu_squared` is the sum of mu^2 over the
    unsampled Gaussians, whose K is mu^2 t (t + 1) / 2, and `direction` tells which distribution of
    each pair is P. `fewer` is a similar sum of fewer parts of at least the same loss.
    """

    parts: tuple[tuple[LossModel, int], ...]
    mu_squared: float
    direction: Direction
    fewer: "LossSum | None" = None

    @cached_property
    def supremum(self) -> float:
        """The largest possible loss, rounded up."""
        if self.mu_squared > 0:
            return math.inf
        each = (count * model.supremum(self.direction) for model, count in self.parts)
        return sum_up(each) * (1 + 16 * ULP)

    @cached_property
    def lost(self) -> float:
        """1 - prod (1 - mass at infinity), rounded up."""
        kept = math.fsum(n * math.log1p(-model.lost(self.direction)) for model, n in self.parts)
        return min(-math.expm1(kept) * (1 + 16 * ULP), 1.0)

    def log_moment(self, t: Array, *, rough: bool = False) -> tuple[Array, Array]:
        """Return K and an error bound at real t > 0."""
        value = 0.5 * self.mu_squared * t * (t + 1)
        error = 4 * ULP * value
        for stack in self.stacks(float(t.max())):
            if (nodes := stack.nodes) is None:
                one, off = log_moment(stack.model, t, self.direction, rough=rough)
            else:
                one, off = nodes.rough_log_moment(t) if rough else nodes.log_moment(t)
            value = value + stack.sum(one)
            error += stack.sum(off) + (1 + stack.size) * ULP * value
        return value, error

    def stacks(self, t: float) -> list[Stack]:
        """Return the models, several of which are together if they share nodes for (0, t]."""
        level = reach(t)
        if level not in self._stacks:
            models = [model for model, _ in self.parts]
            times = np.array([float(count) for _, count in self.parts])
            found: list[Stack] = []
            for rows, nodes in stacked_nodes(models, t, self.direction):
                if nodes and (several := models[rows[0]].several([models[row] for row in rows])):
                    found.append(Stack(several, times[rows], nodes))
                else:
                    found += [Stack(models[row], float(times[row])) for row in rows]
            self._stacks[level] = found
        return self._stacks[level]

    @cached_property
    def _stacks(self) -> dict[float, list[Stack]]:
        return {}

    def cumulants(self, t: float) -> tuple[float, float, float]:
        return self.summed(t, self.each(t))

    def each(self, t: float) -> Cumulants:
        """Return K, K' and K'' of one run of each part at t > 0."""
        at, found = self._latest[0]
        if at != t:
            found = [(stack, self.nodes(stack, t).cumulants(t)) for stack in self.stacks(t)]
            self._latest[0] = t, found
        return found

    @cached_property
    def _latest(self) -> list[tuple[float, Cumulants]]:
        """The last result of `each`: a line starts where the search for its saddle point ended."""
        return [(math.nan, [])]

    def summed(self, t: float, each: Cumulants) -> tuple[float, float, float]:
        """Return K, K' and K'' at t > 0 from those of the parts."""
        half = 0.5 * self.mu_squared
        total = [half * t * (t + 1), half * (2 * t + 1), 2 * half]
        for stack, one in each:
            for k, value in enumerate(one):
                total[k] += float(stack.sum(value))
        return total[0], total[1], total[2]

    def nodes(self, stack: Stack, t: float) -> LossNodes:
        """Return the nodes of a stack for K(t)."""
        shared = stack.nodes or nodes_up_to(stack.model, t, self.direction)
        return stack.model.nodes(self.direction, t) if shared is None else shared

    def decay(self, c: float, each: Cumulants, frequency: Array, digits: float) -> Array:
        """Bound log |exp(K(c + i w) - K(c))| for w >= frequency; `each` is ``self.each(c)``."""
        total = -0.5 * self.mu_squared * frequency**2
        for stack, (here, _, _) in each:
            depth = np.multiply.outer(_DEPTHS, np.sqrt(2 * digits / stack.times))
            one = stack.model.decay(self.direction, c, frequency, here, depth)
            # the frequencies are on the first axis
            total = total + stack.sum(np.minimum(one + 64 * ULP * (1 + np.abs(here)), 0.0).T)
        return total


def toward_saddle(t: float, epsilon: float, mean: float, variance: float) -> tuple[float, float]:
    """Return the distance to the saddle point, in standard deviations, and the step of log t."""
    bend = variance + t**-2 + (1 + t) ** -2
    pull = epsilon + 1 / t + 1 / (1 + t)
    slope = t * variance / mean + (1 / t + t / (1 + t) ** 2) / pull
    return (mean - pull) / math.sqrt(bend), -math.log(mean / pull) / slope
