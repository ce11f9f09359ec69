"""The user as the unit of privacy: one person's records change together.

`user_level` rewrites a mechanism that was described record by record. What comes out is an
ordinary mechanism whose "one record" is all that a user owns, so that every notion, calibration
and budget serves it. (`Curve.group` asks for less structure, and answers with more loss.)
"""

from collections.abc import Iterable

from privacy import checks
from privacy.mechanisms.base import Mechanism, checked
from privacy.mechanisms.claims import PureDP, ZeroConcentratedDP
from privacy.mechanisms.combinators import Composed, Parallel, Repeated, compose, parallel, repeat
from privacy.mechanisms.noise import Gaussian


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
        raise ValueError(checks.expected("max_contributions, spread", given, "one value", remedy))
    if spread is None:
        return _for_user(
            mechanism, checks.count("max_contributions", max_contributions, _CONTRIBUTIONS)
        )
    try:
        counts = [checks.count("spread", count, _CONTRIBUTIONS) for count in spread]
    except TypeError:
        counts = []
    if not counts:
        rule = "counts of records, one a release"
        raise ValueError(checks.expected("spread", spread, rule, _CONTRIBUTIONS))
    return compose(*(_for_user(mechanism, count) for count in counts))


_CONTRIBUTIONS = "Pass the most records that one user owns, a whole number >= 1."


def _for_user(node: Mechanism, size: int) -> Mechanism:
    """Return the mechanism as `size` records that change together see it."""
    if size == 1:
        return node
    match node:
        case Repeated():
            return repeat(_for_user(node.mechanism, size), node.count)
        case Composed():
            return compose(*(_for_user(part, size) for part in node.parts))
        case Parallel() if _only(node, Gaussian, ZeroConcentratedDP) or _only(node, PureDP):
            # However the records fall into cells, the sum of c_i^2 rho_i (of c_i epsilon_i) is
            # largest with all of them in one cell.
            return parallel(*(_for_user(part, size) for part in node.parts), cells=node.cells)
    return node.for_group(size)


def _only(node: Mechanism, *kinds: type[Mechanism]) -> bool:
    """Return whether all leaves are of these kinds, and none is sampled."""
    if isinstance(node, Repeated):
        return _only(node.mechanism, *kinds)
    if isinstance(node, Composed | Parallel):
        return all(_only(part, *kinds) for part in node.parts)
    return isinstance(node, kinds)
