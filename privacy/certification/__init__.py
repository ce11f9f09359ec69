"""Proofs of reported numbers by interval arithmetic (`arb` of python-flint).

A float solver ends a few units in the last place from the truth, on either side
of it, and no fixed margin is a proof. Here the reported floats are taken exactly
and the theorem behind them is evaluated anew, in balls that hold the true value
whatever was rounded, by formulas that share nothing with the float code. The
precision rises until the balls decide the inequality.

python-flint is imported by the first proof, not by this module.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from privacy import checks
from privacy.certification._coverage import COVERS
from privacy.guarantees import Guarantee, NotCertified
from privacy.mechanisms import Mechanism
from privacy.relations import NeighboringRelation

__all__ = ["NotCertified", "can_prove", "certified", "nudges", "proves", "proves_guarantee"]

_ORDER = "Pass the Rényi order at which the pair was found."


def can_prove(mechanism: Mechanism, *, relation: NeighboringRelation | str, notion: str) -> bool:
    """Return whether `proves` has a formula for this mechanism.

    Parameters
    ----------
    mechanism
        What ran.
    relation
        Neighbouring relation of the guarantee.
    notion
        ``"gaussian"``: Gaussians. ``"approximate"``: one release, sampled or not.
        ``"zcdp"``: Gaussian, Laplace, RandomizedResponse, PureDP and ZeroConcentratedDP
        parts. ``"rdp"``: the same and sampled Gaussians.

    Returns
    -------
    bool
        Looks at the tree alone. False too for a part that was proven under another
        relation, and for sampling under REPLACE_ONE, except of one release of Gaussians
        at replace_distance 2.
    """
    covers = COVERS.get(notion)
    return covers is not None and covers(mechanism, checks.relation(relation))


def proves(
    mechanism: Mechanism,
    *,
    epsilon: float,
    delta: float,
    relation: NeighboringRelation | str,
    notion: str,
    order: float | None = None,
) -> bool:
    """Return whether `mechanism` is proven (epsilon, delta)-DP by the notion's theorem.

    Parameters
    ----------
    mechanism, relation, notion
        As in `can_prove`.
    epsilon, delta
        The reported pair, epsilon >= 0 and delta in [0, 1], both read as the exact
        binary numbers that they are.
    order
        Rényi order > 1 of the conversion to (epsilon, delta). ``"rdp"`` needs it,
        ``"zcdp"`` finds the best one if none is given, the others ignore it.

    Returns
    -------
    bool
        True only if proven. False if the theorem does not give the pair, if 1024 bits
        do not decide, if the pair is outside its domain (an infinite epsilon, say), or
        if `can_prove` is False.

    Raises
    ------
    ValueError, TypeError
        The order is missing or not > 1.
    ImportError
        python-flint is not installed.

    Examples
    --------
    >>> from privacy.mechanisms import Gaussian
    >>> claim = dict(delta=1e-5, relation="ADD_OR_REMOVE_ONE", notion="gaussian")
    >>> proves(Gaussian(2.0), epsilon=1.9930, **claim)
    False
    >>> proves(Gaussian(2.0), epsilon=1.9931, **claim)
    True
    """
    relation = checks.relation(relation)
    if not can_prove(mechanism, relation=relation, notion=notion):
        return False
    if order is not None:
        order = checks.real("order", order, _ORDER, above=1)
    elif notion == "rdp":
        raise ValueError(checks.expected("order", order, "> 1 for notion 'rdp'", _ORDER))
    epsilon, delta = float(epsilon), float(delta)
    if not (0 <= epsilon < math.inf and 0 <= delta <= 1):
        return False
    try:
        from privacy.certification import _bounds
    except ImportError as error:
        raise ImportError(
            "A proof needs interval arithmetic. Install it with 'pip install python-flint'."
        ) from error
    return _bounds.at_most(
        lambda: _bounds.delta_bound(notion, mechanism, epsilon, relation, order), delta
    )


def proves_guarantee(guarantee: Guarantee) -> bool:
    """Return whether the pair of a guarantee is proven for its own mechanism and notion."""
    if guarantee.mechanism is None:
        return False
    return proves(
        guarantee.mechanism,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
        relation=guarantee.relation,
        notion=guarantee.notion,
        # zCDP finds the best order anew; its float order can round to 1
        order=guarantee.order if guarantee.notion == "rdp" else None,
    )


def nudges() -> Iterator[float]:
    """Yield relative steps to the safe side: none, an ulp, and four times more each, to 1e-9."""
    yield 0.0
    step = 2.0**-52
    while step < 1e-9:
        yield step
        step *= 4


def certified(guarantee: Guarantee, move: Literal["epsilon", "delta"]) -> Guarantee:
    """Return the guarantee with a proof, `move` raised by as little as that takes.

    Raises
    ------
    NotCertified
        No formula covers it, or none proves it within 1e-9 relative.
    """
    for step in nudges():
        value = getattr(guarantee, move) * (1 + step)
        candidate = replace(guarantee, **{move: min(value, 1.0) if move == "delta" else value})
        if proves_guarantee(candidate):
            return replace(candidate, certified=True)
        if guarantee.mechanism is None or not can_prove(
            guarantee.mechanism, relation=guarantee.relation, notion=guarantee.notion
        ):
            break
    raise NotCertified(
        f"No proof of {guarantee} for {guarantee.mechanism!r}. Account the whole mechanism in "
        f"{_provable(guarantee)}, or leave certify out to take the float result."
    )


def _provable(guarantee: Guarantee) -> str:
    """Return which other notions have a formula for the mechanism, in words."""
    mechanism, relation = guarantee.mechanism, guarantee.relation
    others = [
        f"notion={notion!r}"
        for notion in COVERS
        if notion != guarantee.notion
        and mechanism is not None
        and can_prove(mechanism, relation=relation, notion=notion)
    ]
    return " or ".join(others) if others else "a notion with a proof"
