"""Mechanisms with finitely many outputs, described by two probability mass functions."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from privacy import checks
from privacy.losses.discrete import Atoms, DiscretePair, log_mixture, rounded_out
from privacy.mechanisms.base import Mechanism, check_relation, freeze, register_mechanism
from privacy.numerics.rounding import U
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

if TYPE_CHECKING:
    from privacy.losses.quadrature import Direction, LossModel

_MOST = 10_000  # outputs
_LEAST = 1e-15  # smallest upper bound on a loss; covers the rounding of probabilities
_NEAR_ONE = 1e-9  # tolerated rounding error of a sum of probabilities


@dataclass(frozen=True)
class FiniteMechanism(Mechanism):
    """A mechanism with finitely many outputs, from a dominating pair of distributions.

    `p` and `q` are the probability of each output with and without the record. Both directions are
    accounted for. An output of probability 0 under only one of the two adds its other probability
    to delta at every epsilon, in that direction only.

    The guarantee holds only if (p, q) dominates every pair of neighboring data sets under
    `relation`: its privacy profile must be the largest in both directions (Zhu, Dong and Wang
    2022, Definition 7). Probabilities are divided by their sum, which may differ from 1 by 1e-9.
    """

    p: tuple[float, ...]
    q: tuple[float, ...]
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        p, q = _probabilities("p", self.p), _probabilities("q", self.q)
        remedy = "Pass one probability for each output in both p and q."
        checks.refuse_if(len(p) != len(q), "q", f"{len(q)} values", f"{len(p)} values", remedy)
        apart = not any(a and b for a, b in zip(p, q, strict=True))
        rule = "positive for some output with p > 0"
        remedy = "Add the outputs that both data sets can produce."
        checks.refuse_if(apart, "q", f"{len(q)} values", rule, remedy)
        freeze(self, p=p, q=q, relation=checks.relation(self.relation))

    def loss(self, relation: NeighboringRelation) -> "FinitePair":
        check_relation(self, relation)
        return FinitePair(self.p, self.q)


def from_pmfs(
    p: Iterable[float], q: Iterable[float], *, relation: NeighboringRelation = ADD_OR_REMOVE_ONE
) -> FiniteMechanism:
    """Return the `FiniteMechanism` of two probability mass functions, a dominating pair.

    Examples
    --------
    >>> import privacy as dp
    >>> coin = dp.from_pmfs([0.75, 0.25], [0.25, 0.75])
    >>> round(dp.account(dp.repeat(coin, 10)).epsilon(1e-6), 4)
    10.9861
    """
    return FiniteMechanism(tuple(p), tuple(q), relation)


def _probabilities(name: str, given: Any) -> tuple[float, ...]:
    """Return probabilities that sum to 1, up to rounding."""
    remedy = "Pass a list of probabilities, one for each output."
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(checks.expected(name, given, "a list of probabilities", remedy))
    values = tuple(checks.real(name, value, remedy, at_least=0, at_most=1) for value in given)
    rule = f"from 1 to {_MOST:,} values"
    checks.refuse_if(not 1 <= len(values) <= _MOST, name, f"{len(values)} values", rule, remedy)
    total = math.fsum(values)
    remedy = "Divide by its sum, or add the missing outputs."
    checks.refuse_if(not abs(total - 1) <= _NEAR_ONE, f"sum({name})", total, "1", remedy)
    return values


@dataclass(frozen=True)
class FinitePair(DiscretePair):
    """(1 - share) Q + share P against Q, for probability mass functions P and Q."""

    p: tuple[float, ...]
    q: tuple[float, ...]
    share: float = 1.0

    def atoms(self) -> Atoms:
        return self.directed("remove")

    def directed(self, direction: "Direction") -> Atoms:
        """Return the finite losses and their probabilities under P, given that they are finite."""
        log_p, losses = [], []
        whole_p, whole_q = math.fsum(self.p), math.fsum(self.q)
        log_finite = math.log1p(-min(self.infinite(direction), 1 - U))
        for p, q in zip(self.p, self.q, strict=True):
            if q == 0 or (p == 0 and self.share == 1):
                continue
            loss = _log_ratio(p / whole_p, q / whole_q)
            if self.share < 1:
                mixed = math.log1p(-self.share) if p == 0 else log_mixture(loss, self.share)
                loss = rounded_out(mixed, mixed)
            log_q = math.log(q) - math.log(whole_q)
            removing = direction == "remove"
            log_p.append((log_q + loss if removing else log_q) - log_finite)
            losses.append(loss if removing else -loss)
        top = losses.index(max(losses))
        rounded = losses[top] + 4 * U * abs(losses[top])
        losses[top] = max(math.nextafter(rounded, math.inf), _LEAST)
        return Atoms(tuple(log_p), tuple(losses))

    def infinite(self, direction: "Direction") -> float:
        """Return the probability under P of outputs that Q does not have, rounded up."""
        if direction == "remove":
            mass = math.fsum(p for p, q in zip(self.p, self.q, strict=True) if q == 0)
            mass *= self.share / math.fsum(self.p)
        elif self.share < 1:  # the mixture has every output of Q
            return 0.0
        else:
            mass = math.fsum(q for p, q in zip(self.p, self.q, strict=True) if p == 0)
            mass /= math.fsum(self.q)
        return min(mass * (1 + 4 * U), 1.0)

    @property
    def mass_at_infinity(self) -> float:
        """The larger one of both directions."""
        return max(self.infinite("remove"), self.infinite("add"))

    @property
    def model(self) -> "LossModel | None":
        """The atoms as nodes, if both directions have the same mass at infinity."""
        equal = self.infinite("remove") == self.infinite("add")
        return super().model if equal else None

    def sampled(self, sampling_probability: float) -> "FinitePair":
        """Return the pair on a Poisson sample, with both probabilities multiplied."""
        share = self.share * sampling_probability
        rounded = share if 1.0 in (self.share, sampling_probability) else math.nextafter(share, 1.0)
        return replace(self, share=rounded)


def _log_ratio(p: float, q: float) -> float:
    """Return log(p / q), relatively accurate if p and q are near."""
    if p == 0:
        return -math.inf
    near = 0.5 * q < p < 2 * q
    return math.log1p((p - q) / q) if near else math.log(p) - math.log(q)


register_mechanism(FiniteMechanism((0.5, 0.3, 0.2), (0.2, 0.3, 0.5)))
