"""Assertions for tests: a falsified claim fails, with its counterexample."""

import zlib
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from privacy import checks
from privacy.audit.results import AuditResult
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from privacy.curves import Curve
    from privacy.mechanisms import Mechanism

_DEFAULT = 1e-6


class Falsified(AssertionError):
    """A claim was falsified. The attribute `result` is the `AuditResult`."""

    def __init__(self, message: str, result: AuditResult) -> None:
        super().__init__(message)
        self.result = result


@dataclass
class Share:
    """Claim, significance level and seed of a test marked ``dp_claim``."""

    claim: "Mechanism | Curve"
    significance: float
    seed: int
    results: list[AuditResult] = field(default_factory=list)

    def next_significance(self) -> float:
        count = len(self.results) + 1
        return self.significance / (count * (count + 1))


CURRENT: ContextVar[Share | None] = ContextVar("dp_claim", default=None)
"""The share of the running test; the pytest plugin sets it."""


def assert_not_falsified(
    release: Callable[..., Any],
    pair: Any,
    claim: "Mechanism | Curve | None" = None,
    significance: float | None = None,
    *,
    runs: int = 20_000,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
    score: "Callable[[Any], ArrayLike] | None" = None,
    seed: int | None = None,
) -> AuditResult:
    """Assert that the outputs of a release do not falsify its claim; else raise `Falsified`.

    `claim` is a mechanism or its curve, by default that of the test's ``dp_claim`` mark. The
    default significance level is a share of the level in the mark, which all marked tests of a
    session together keep; without a mark, it is 1e-6. The default seed is derived from the name of
    the marked test. The others are as in `privacy.audit.audit`.
    """
    from privacy.audit.claims import audit

    share = CURRENT.get()
    if claim is None:
        if share is None:
            remedy = "Pass the claim, or mark the test with @pytest.mark.dp_claim(mechanism)."
            raise ValueError(checks.expected("claim", claim, "a mechanism", remedy))
        claim = share.claim
    if significance is None:
        significance = _DEFAULT if share is None else share.next_significance()
    if seed is None:
        seed = 0 if share is None else share.seed + len(share.results)
    how: dict[str, Any] = {"runs": runs, "relation": relation, "score": score, "seed": seed}
    result = audit(release, pair, claim, significance=significance, **how)
    if share is not None:
        share.results.append(result)
    if result.falsified:
        first, second = pair
        raise Falsified(f"{result}\nCounterexample: {first!r} against {second!r}", result)
    return result


def seed_of(name: str) -> int:
    """Return a seed derived from a test's name, the same on every machine."""
    return zlib.crc32(name.encode())
