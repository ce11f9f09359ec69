"""Participation patterns of a record, and the sensitivity of C x that they imply.

The sensitivity is the root of the largest sum_bb' |G_bb'| |d_b| |d_b'|, G = C'C, with d_b what a
record changes in the input of release b (docs/theory/running-sums.md, "Adaptive inputs").
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from privacy import checks
from privacy.mechanisms import CyclicPoisson, Gaussian, Mechanism
from privacy.numerics.rounding import ULP, round_up

if TYPE_CHECKING:
    from privacy.running_sums.factorizations import Factorization

Cap = Literal["l1", "l2"]


class Participation(ABC):
    """The releases that one record can take part in. Build it with one of the methods below.

    They depend on the record's public index, such as its round. If a replacement can move a record
    to another release, count two participations.
    """

    __slots__ = ()

    kind: ClassVar[str]
    amplifies: ClassVar[bool] = False
    """Whether releases use secret samples of the records."""

    @staticmethod
    def once() -> "Participation":
        """Each record is in one release: the sensitivity is the largest column norm of C."""
        return _Once()

    @staticmethod
    def consecutive(count: int) -> "Participation":
        """Each record is in some or all of `count` consecutive releases."""
        return _Consecutive(_whole("count", count))

    @staticmethod
    def separated(count: int, *, separation: int) -> "Participation":
        """Each record is in at most `count` releases, any two at least `separation` apart."""
        return _Separated(_whole("count", count), _whole("separation", separation))

    @staticmethod
    def explicit(patterns: Iterable[Sequence[float]]) -> "Participation":
        """Each record follows one of `patterns`, or an entrywise smaller one.

        A pattern has the record's largest contribution to each release, in clip norms, possibly 0.
        """
        remedy = "Pass one weight per release: the largest contribution to it, in clip norms."
        rows = tuple(
            tuple(checks.real("patterns", weight, remedy, at_least=0) for weight in pattern)
            for pattern in patterns
        )
        if not rows or len({len(row) for row in rows}) != 1 or not any(map(any, rows)):
            rule = "patterns of one length, not all 0"
            raise ValueError(checks.expected("patterns", rows, rule, remedy))
        return _Explicit(rows)

    @staticmethod
    def lifetime_cap(norm: Cap = "l2") -> "Participation":
        """Each record can be in all releases; its contributions are bounded together.

        With ``"l2"``, their squared norms add up to at most clip_norm^2, and the sensitivity is the
        operator norm of C; with ``"l1"``, their norms to clip_norm, and it is that of one release.
        """
        remedy = "Pass 'l1' to bound a record's sum of norms, 'l2' for its sum of squared norms."
        checks.one_of("norm", norm, get_args(Cap), remedy)
        return _LifetimeCap(norm)

    @staticmethod
    def cyclic_poisson(*, sampling_probability: float, groups: int) -> "Participation":
        """Each record is in one group; release k takes a Poisson sample of group k mod `groups`.

        See `CyclicPoisson` for the parameters. C has at most `groups` bands. The sensitivity is
        that of one release; the record's other releases count as further samples.
        """
        q = checks.probability(sampling_probability)
        return _CyclicPoisson(q, checks.count("groups", groups, "Pass the number of groups."))

    def sampled(self, gaussian: Gaussian, releases: int) -> Mechanism:
        """Return the mechanism of all releases, whose noise is scaled to the sensitivity."""
        return gaussian

    @abstractmethod
    def sensitivity(self, factorization: "Factorization") -> float:
        """Return an upper bound on the sensitivity of C x to one record, in clip norms."""

    @abstractmethod
    def total(self, releases: int) -> float:
        """Return the largest sum_b |d_b|, in clip norms."""

    @abstractmethod
    def proof(self, releases: int) -> dict[str, Any]:
        """Return the participation as arguments of `privacy.certification.sensitivity.proves`."""


def _whole(name: str, value: int) -> int:
    return checks.count(name, value, "Pass a number of releases.")


def _root(square: float, terms: int) -> float:
    """Return the square root of a sum of `terms` terms >= 0, with all rounding errors added."""
    return round_up(math.sqrt(square), 2 * terms * ULP)


@dataclass(frozen=True)
class _Once(Participation):
    kind: ClassVar[str] = "once/1"

    def sensitivity(self, factorization: "Factorization") -> float:
        return round_up(float(factorization.column_norms().max()), factorization.releases * ULP)

    def total(self, releases: int) -> float:
        return 1.0

    def proof(self, releases: int) -> dict[str, Any]:
        return {"separated": (1, 1)}


@dataclass(frozen=True)
class _Consecutive(Participation):
    kind: ClassVar[str] = "consecutive/1"
    count: int

    def sensitivity(self, factorization: "Factorization") -> float:
        count = min(self.count, factorization.releases)
        monotone = factorization.shifted_sum(count, 1)
        if monotone is not None:
            return monotone
        sums = np.zeros((factorization.releases + 1,) * 2)
        sums[1:, 1:] = factorization.gram_bound().cumsum(0).cumsum(1)
        ends = np.arange(count, factorization.releases + 1)
        starts = ends - count
        windows = sums[ends, ends] - 2 * sums[starts, ends] + sums[starts, starts]
        # the differences cancel, so the error bound is relative to the largest sum
        error = 8 * factorization.releases * ULP * float(sums[-1, -1])
        return _root(float(windows.max()) + error, 1)

    def total(self, releases: int) -> float:
        return float(min(self.count, releases))

    def proof(self, releases: int) -> dict[str, Any]:
        count = min(self.count, releases)
        after = np.arange(releases) - np.arange(releases + 1 - count)[:, None]
        return {"patterns": ((after >= 0) & (after < count)).astype(float)}


@dataclass(frozen=True)
class _Separated(Participation):
    kind: ClassVar[str] = "separated/1"
    count: int
    separation: int

    def _most(self, releases: int) -> int:
        return min(self.count, -(-releases // self.separation))

    def sensitivity(self, factorization: "Factorization") -> float:
        count, apart = self._most(factorization.releases), self.separation
        monotone = factorization.shifted_sum(count, apart)
        if monotone is not None:
            return monotone
        # The p-th release has index >= p * apart, the q-th comes at least (q - p) * apart later:
        # the largest |G| of each such pair bounds the quadratic form.
        gram = factorization.gram_bound()
        later = np.maximum.accumulate(gram[:, ::-1], axis=1)[:, ::-1]
        square = 0.0
        for gap in range(count):
            pairs = later.diagonal(gap * apart) if gap else gram.diagonal()
            largest = np.maximum.accumulate(pairs[::-1])[::-1][::apart][: count - gap]
            square += (1 if gap == 0 else 2) * float(largest.sum())
        return _root(square, count)

    def total(self, releases: int) -> float:
        return float(self._most(releases))

    def proof(self, releases: int) -> dict[str, Any]:
        return {"separated": (self._most(releases), self.separation)}


@dataclass(frozen=True)
class _Explicit(Participation):
    kind: ClassVar[str] = "explicit/1"
    patterns: tuple[tuple[float, ...], ...]

    def sensitivity(self, factorization: "Factorization") -> float:
        weights = np.array(self.patterns)
        if weights.shape[1] != factorization.releases:
            remedy = f"Pass one weight for each of the {factorization.releases} releases."
            rule = f"of length {factorization.releases}"
            raise ValueError(checks.expected("patterns", weights.shape[1], rule, remedy))
        squares = ((weights @ factorization.gram_bound()) * weights).sum(axis=1)
        return _root(float(squares.max()), 2 * factorization.releases)

    def total(self, releases: int) -> float:
        return max(math.fsum(pattern) for pattern in self.patterns)

    def proof(self, releases: int) -> dict[str, Any]:
        return {"patterns": np.array(self.patterns)}


@dataclass(frozen=True)
class _LifetimeCap(Participation):
    kind: ClassVar[str] = "lifetime-cap/1"
    norm: Cap

    def sensitivity(self, factorization: "Factorization") -> float:
        if self.norm == "l1":  # a convex form on a simplex is largest at a vertex: one release
            return _Once().sensitivity(factorization)
        return factorization.operator_norm()

    def total(self, releases: int) -> float:
        return 1.0 if self.norm == "l1" else math.sqrt(releases)

    def proof(self, releases: int) -> dict[str, Any]:
        return {} if self.norm == "l2" else _Once().proof(releases)


@dataclass(frozen=True)
class _CyclicPoisson(_Once):  # in the rows that one participation changes
    kind: ClassVar[str] = "cyclic-poisson/1"
    amplifies: ClassVar[bool] = True

    sampling_probability: float
    groups: int

    def sampled(self, gaussian: Gaussian, releases: int) -> Mechanism:
        return CyclicPoisson(gaussian, self.sampling_probability, releases, self.groups)

    def sensitivity(self, factorization: "Factorization") -> float:
        remedy = "Use Factorization.banded with at most as many bands as groups."
        rule = f">= {factorization.band}, the bands of C"
        checks.refuse_if(factorization.band > self.groups, "groups", self.groups, rule, remedy)
        return super().sensitivity(factorization)


_ALL = (_Once, _Consecutive, _Separated, _Explicit, _LifetimeCap, _CyclicPoisson)
_KINDS = {kind.kind: kind for kind in _ALL}  # by their names in state files


def to_json(participation: Participation) -> dict[str, Any]:
    """Return a JSON-compatible dict for `from_json`."""
    return {"kind": participation.kind} | vars(participation)


def from_json(form: dict[str, Any]) -> Participation:
    """Build the participation that `to_json` wrote."""
    values = dict(form)
    kind = _KINDS[values.pop("kind")]
    return Participation.explicit(values["patterns"]) if kind is _Explicit else kind(**values)
