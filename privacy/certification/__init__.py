"""Proofs of reported numbers by interval arithmetic (`arb` of python-flint).

The reported floats are exact, and code independent of the float code evaluates their theorem in
balls that contain the exact value, with growing precision until the balls decide.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

from privacy import checks
from privacy.certification._coverage import COVERS, Unproven, plain
from privacy.guarantees import Guarantee, NotCertified, records_in
from privacy.mechanisms import Mechanism, brief, mechanism_from_json, needs_largest_count
from privacy.numerics.rounding import ULP
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

# fmt: off
__all__ = [
    "NotCertified", "Unproven", "as_proven", "can_prove", "certified", "nudges", "proven_delta",
]
# fmt: on

_ORDER = "Pass the Rényi order of the pair."
_LARGEST_SIZE = 2**53


class Effort(NamedTuple):
    """How much a proof may cost."""

    precisions: tuple[int, ...]  # bits, increased until the balls decide
    work: int  # most frequencies times nodes of a contour integral; a million take about 0.1 s


THOROUGH = Effort((128, 256, 512, 1024), 100_000_000)
QUICK = THOROUGH._replace(work=1_000_000)  # the default of the command
AGAIN = Effort((192, 384, 768, 1536), 200_000_000)  # to verify a certificate


def can_prove(mechanism: Mechanism, *, relation: NeighboringRelation | str, notion: str) -> bool:
    """Return whether `proven_delta` has a formula for this mechanism, without evaluating one.

    `relation` is that of the guarantee. docs/theory/contour.md lists what has no proof.
    """
    return _covered(mechanism, checks.relation(relation), notion) is not None


def _covered(mechanism: Mechanism, relation: NeighboringRelation, notion: str) -> Mechanism | None:
    """Return the mechanism, rebuilt because node classes do not validate, if it has a formula."""
    covers = COVERS.get(notion)
    if covers is None:
        return None
    try:
        checked = plain(mechanism_from_json(mechanism.to_json()), relation)
        return checked if covers(checked, relation) else None
    except (TypeError, ValueError):
        return None


def proven_delta(guarantee: Guarantee, effort: Effort) -> float:
    """Return an upper bound on delta, at most that of the guarantee, or raise `Unproven`.

    Unproven if the theorem does not give the pair, the balls are too wide at the last precision,
    the pair is not of floats in its domain, or `can_prove` is False. Raises ImportError without
    python-flint. A unit "3 records" or "3 times one user" is a group: 3 mu of Gaussians, 9 rho of
    zCDP, otherwise Vadhan 2017, Lemma 2.2.
    """
    size, relation = records_in(guarantee.unit), checks.relation(guarantee.relation)
    mechanism, notion = guarantee.mechanism, guarantee.notion
    if mechanism is None:
        raise Unproven("the guarantee states no mechanism")
    if not 1 <= size <= _LARGEST_SIZE:
        raise Unproven(f"the unit {guarantee.unit!r} does not have 1 to 2^53 records")
    order = None  # for zCDP the best order is computed again; the float order may round to 1
    if notion == "rdp":
        if guarantee.order is None:
            raise Unproven("the guarantee states no Rényi order")
        order = checks.real("order", guarantee.order, _ORDER, above=1)
    covered = _covered(mechanism, relation, notion)
    if covered is None:
        raise Unproven(f"notion={notion!r} has no proof for the mechanism under {relation}")
    if size > 1 and relation is ADD_OR_REMOVE_ONE and needs_largest_count(mechanism):
        raise Unproven("the intermediate data sets of a group have fewer records")
    epsilon, delta = float(guarantee.epsilon), float(guarantee.delta)
    exact = (epsilon, delta) == (guarantee.epsilon, guarantee.delta)
    if not (exact and 0 <= epsilon < math.inf and 0 <= delta <= 1):
        raise Unproven("epsilon or delta is not a finite float in its domain")
    try:
        from privacy.certification import _bounds
    except ImportError as error:
        raise ImportError(
            "Certification needs python-flint. Install it with 'pip install python-flint'."
        ) from error
    asked = notion, covered, epsilon, relation, order, int(size)
    bound = partial(_bounds.delta_bound, *asked, work=effort.work)
    return _bounds.at_most(bound, delta, effort.precisions)


def as_proven(guarantee: Guarantee) -> Guarantee | None:
    """Return the guarantee marked as certified if it is proven, else None."""
    try:
        proven_delta(guarantee, THOROUGH)
    except Unproven:
        return None
    return _marked(guarantee)


def _marked(guarantee: Guarantee) -> Guarantee:
    marked = replace(guarantee)
    object.__setattr__(marked, "certified", True)
    return marked


def nudges() -> Iterator[float]:
    """Yield relative steps 0, one ulp, 4 ulps, 16 ulps, ... below 1e-9."""
    yield 0.0
    step = ULP
    while step < 1e-9:
        yield step
        step *= 4


def certified(guarantee: Guarantee, move: Literal["epsilon", "delta"]) -> Guarantee:
    """Return it proven, `move` increased by at most 1e-9 relative, or raise `NotCertified`."""
    for step in nudges():
        value = getattr(guarantee, move) * (1 + step)
        candidate = replace(guarantee, **{move: min(value, 1.0) if move == "delta" else value})
        try:
            proven_delta(candidate, THOROUGH)
        except Unproven as error:
            reason = error
        else:
            return _marked(candidate)
        if guarantee.mechanism is None or not can_prove(
            guarantee.mechanism, relation=guarantee.relation, notion=guarantee.notion
        ):
            break
    of = "" if guarantee.mechanism is None else f" for {brief(guarantee.mechanism)}"
    remedy = "Omit certify to get the float result."
    others = " or ".join(
        f"notion={notion!r}"
        for notion, covers in COVERS.items()
        if covers is not COVERS.get(guarantee.notion)
        and guarantee.mechanism is not None
        and can_prove(guarantee.mechanism, relation=guarantee.relation, notion=notion)
    )
    if others:
        remedy = f"Account for the whole mechanism with {others}."
    raise NotCertified(f"No proof of {guarantee}{of}: {reason}. {remedy}")
