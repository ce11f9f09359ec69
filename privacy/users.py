"""The user as the unit of privacy: one person's records change together.

`user_level` rewrites a mechanism that was described record by record. What comes out is an
ordinary mechanism whose "one record" is all that a user owns, so that every notion, calibration
and budget serves it. (`Curve.group` asks for less structure, and answers with more loss.)
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

from privacy import _checks
from privacy.mechanisms import (
    ApproximateDP,
    Composed,
    Gaussian,
    GroupSampled,
    Laplace,
    Mechanism,
    Parallel,
    PoissonSampled,
    PureDP,
    RandomizedResponse,
    Repeated,
    UnsupportedMechanism,
    ZeroConcentratedDP,
    checked,
    compose,
    parallel,
    repeat,
)


def user_level(
    mechanism: Mechanism,
    *,
    max_contributions: int | None = None,
    spread: Iterable[int] | None = None,
) -> Mechanism:
    """Describe `mechanism` with one user, who owns several records, as the unit of privacy.

    Whatever the relation, all the user's records change together: all are removed (or added),
    all replaced, or all zeroed. With k records of one user

    - Gaussian and Laplace noise hides them like noise 1 / k as large (Dong, Roth and Su 2022,
      Theorem 2.14);
    - a pure claim costs k epsilon, an (epsilon, delta) one (k epsilon,
      delta (e^(k epsilon) - 1) / (e^epsilon - 1)) (Vadhan 2017, Lemma 2.2), a zCDP one k^2 rho
      (Bun and Steinke 2016, Proposition 1.9), a randomized response k reports;
    - Gaussian noise on a Poisson sample of the records sees a binomial number of them (Ganesh
      2024, arXiv 2401.10294); not under REPLACE_ONE.

    Parameters
    ----------
    mechanism
        What runs, described for one record.
    max_contributions
        Most records of one user, whichever releases they enter.
    spread
        Most records of one user in each of several releases: `mechanism` is ONE release, run
        ``len(spread)`` times with independent noise, and the user owns ``spread[b]`` of the
        records of release b. For Gaussian noise the cost is rho * sum of squares.

    Returns
    -------
    Mechanism
        What to account, with ``unit="one user"``. One record a user gives `mechanism`.

    Raises
    ------
    UnsupportedMechanism
        A part of the mechanism has no theorem for several records.

    Examples
    --------
    >>> user_level(Gaussian(30.0), max_contributions=3)
    Gaussian(noise_multiplier=10.0, replace_distance=2.0)
    >>> user_level(Gaussian(30.0), spread=(1, 1, 1))
    Repeated(mechanism=Gaussian(noise_multiplier=30.0, replace_distance=2.0), count=3)
    """
    mechanism = checked(mechanism, "mechanism")
    if (max_contributions is None) == (spread is None):
        given, remedy = (max_contributions, spread), "Pass exactly one of the two."
        raise ValueError(_checks.expected("max_contributions, spread", given, "one value", remedy))
    if spread is None:
        return _for_user(
            mechanism, _checks.count("max_contributions", max_contributions, _CONTRIBUTIONS)
        )
    try:
        counts = [_checks.count("spread", count, _CONTRIBUTIONS) for count in spread]
    except TypeError:
        counts = []
    if not counts:
        rule = "counts of records, one a release"
        raise ValueError(_checks.expected("spread", spread, rule, _CONTRIBUTIONS))
    return compose(*(_for_user(mechanism, count) for count in counts))


_CONTRIBUTIONS = "Pass the most records that one user owns, a whole number >= 1."


def _for_user(node: Mechanism, size: int) -> Mechanism:
    """Return the mechanism as `size` records that change together see it."""
    if size == 1:
        return node
    leaf = _LEAVES.get(type(node))
    if leaf is not None:
        return leaf(node, size)
    match node:
        case PoissonSampled() if _only(node.mechanism, Gaussian):
            return GroupSampled(node.mechanism, node.sampling_probability, size)
        case Repeated():
            return repeat(_for_user(node.mechanism, size), node.count)
        case Composed():
            return compose(*(_for_user(part, size) for part in node.parts))
        case Parallel() if _only(node, Gaussian, ZeroConcentratedDP) or _only(node, PureDP):
            # However the records fall into cells, the sum of c_i^2 rho_i (of c_i epsilon_i) is
            # largest with all of them in one cell.
            return parallel(*(_for_user(part, size) for part in node.parts), cells=node.cells)
    raise UnsupportedMechanism(
        f"No proven bound for {size} records of one user in {node!r}. Gaussians (sampled by "
        "record or not), Laplace noise and claims have one; in parallel, Gaussians or pure "
        "claims. account(mechanism).group(size) may answer."
    )


def _only(node: Mechanism, *kinds: type[Mechanism]) -> bool:
    """Return whether all leaves are of these kinds, and none is sampled."""
    if isinstance(node, Repeated):
        return _only(node.mechanism, *kinds)
    if isinstance(node, Composed | Parallel):
        return all(_only(part, *kinds) for part in node.parts)
    return isinstance(node, kinds)


def _divided(value: float, size: int) -> float:
    """Return value / size, rounded down: less noise than there is."""
    ratio = value / size
    return ratio if Fraction(ratio) * size <= Fraction(value) else math.nextafter(ratio, 0.0)


def _scaled(value: float, size: int) -> float:
    """Return value * size, rounded up: both as floats and, as a budget reads them, as written."""
    product = size * value if size < 2**1000 else math.inf
    least = size * max(Fraction(value), Fraction(repr(value)))
    while math.isfinite(product) and min(Fraction(product), Fraction(repr(product))) < least:
        product = math.nextafter(product, math.inf)
    return product


def _group_claim(claim: ApproximateDP, size: int) -> ApproximateDP:
    """Return (k epsilon, delta (1 + e^epsilon + ... + e^((k-1) epsilon))), rounded up."""
    last = (size - 1) * claim.epsilon
    log_gain = math.log(size)
    if claim.epsilon > 0:
        steps = -math.expm1(-size * claim.epsilon) / -math.expm1(-claim.epsilon)
        log_gain = last + math.log(steps)
    log_delta = math.log(claim.delta) + log_gain
    log_delta += 1e-15 * (4 + last + abs(math.log(claim.delta)) + log_gain)
    if log_delta >= 0:
        raise UnsupportedMechanism(
            f"{size} records of one user under {claim!r} have a delta of 1 or more. "
            "Bound the records of a user, or prove the claim for a smaller delta."
        )
    return replace(claim, epsilon=_scaled(claim.epsilon, size), delta=math.exp(log_delta))


_LEAVES: dict[type[Mechanism], Callable[[Any, int], Mechanism]] = {
    Gaussian: lambda leaf, k: replace(leaf, noise_multiplier=_divided(leaf.noise_multiplier, k)),
    Laplace: lambda leaf, k: replace(leaf, scale=_divided(leaf.scale, k)),
    RandomizedResponse: repeat,  # at worst each of the records sends a report
    PureDP: lambda leaf, k: replace(leaf, epsilon=_scaled(leaf.epsilon, k)),
    ApproximateDP: _group_claim,
    ZeroConcentratedDP: lambda leaf, k: replace(leaf, rho=_scaled(leaf.rho, k * k)),
}
