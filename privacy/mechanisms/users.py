"""User-level privacy, tighter than `Curve.group`: all records of one user change together."""

from collections.abc import Iterable
from dataclasses import replace

from privacy import checks
from privacy.mechanisms.base import Mechanism, checked
from privacy.mechanisms.claims import PureDP, ZeroConcentratedDP
from privacy.mechanisms.combinators import Composed, Parallel, Repeated, compose, parallel, repeat
from privacy.mechanisms.noise import Gaussian
from privacy.mechanisms.selection import BestOf


def user_level(
    mechanism: Mechanism,
    *,
    max_contributions: int | None = None,
    spread: Iterable[int] | None = None,
) -> Mechanism:
    """Return `mechanism` with one user, who owns several records, as the unit of privacy.

    All records of the user are removed (or added), replaced, or zeroed together. Pass the result to
    `account` with ``unit="one user"``. With k records:

    - Gaussian, Laplace and trees: the noise is divided by k (Dong, Roth and Su 2022, Theorem 2.14).
    - Claims, `AboveThreshold`, `ExponentialMechanism` and `PermuteAndFlip`: epsilon becomes k
      epsilon; (epsilon, delta) becomes (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1))
      (Vadhan 2017, Lemma 2.2); rho becomes k^2 rho (Bun and Steinke 2016, Proposition 1.9).
    - Discrete noise: the sensitivity is multiplied by k. Randomized response: k reports.
    - Poisson-sampled Gaussian: a binomial number of the records is sampled (Ganesh 2024, arXiv
      2401.10294). Not under REPLACE_ONE.
    - Compositions, `parallel` and `best_of`: each part. Others raise `UnsupportedMechanism`.

    `max_contributions` is the contribution bound: the most records of one user, in any releases.
    `spread` has those per release: `mechanism` is ONE release, run ``len(spread)`` times with
    independent noise, and a user owns at most ``spread[b]`` records of release b.
    """
    mechanism = checked(mechanism, "mechanism")
    given, remedy = (max_contributions, spread), "Pass exactly one of the two."
    wrong = (max_contributions is None) == (spread is None)
    checks.refuse_if(wrong, "max_contributions, spread", given, "one value", remedy)
    if spread is None:
        count = checks.count("max_contributions", max_contributions, _CONTRIBUTIONS)
        return _for_user(mechanism, count)
    try:
        counts = [checks.count("spread", count, _CONTRIBUTIONS) for count in spread]
    except TypeError:
        counts = []
    rule = "counts of records, one per release"
    checks.refuse_if(not counts, "spread", spread, rule, "Pass a list, such as [3, 1].")
    return compose(*(_for_user(mechanism, count) for count in counts))


_CONTRIBUTIONS = "Pass the most records that one user owns, a whole number >= 1."


def _for_user(node: Mechanism, size: int) -> Mechanism:
    if size == 1:
        return node
    match node:
        case Repeated():
            return repeat(_for_user(node.mechanism, size), node.count)
        case Composed():
            return compose(*(_for_user(part, size) for part in node.parts))
        case BestOf():
            return replace(node, mechanism=_for_user(node.mechanism, size))
        case Parallel() if _only(node, Gaussian, ZeroConcentratedDP) or _only(node, PureDP):
            # With c_i records in cell i, the sum of c_i^2 rho_i (of c_i epsilon_i) is largest
            # if all records are in one cell.
            return parallel(*(_for_user(part, size) for part in node.parts), cells=node.cells)
    return node.for_group(size)


def _only(node: Mechanism, *kinds: type[Mechanism]) -> bool:
    if isinstance(node, Repeated):
        return _only(node.mechanism, *kinds)
    if isinstance(node, Composed | Parallel):
        return all(_only(part, *kinds) for part in node.parts)
    return isinstance(node, kinds)
