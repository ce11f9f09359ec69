"""Mechanisms from a table of privacy guarantees, or from distribution functions of the loss.

Both give a pair of probability mass functions, computed in exact fractions. Before they are rounded
to floats, every ratio p / q is moved away from 1 by more than all rounding errors (toward 1, for a
lower bound).
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, get_args

from privacy import checks
from privacy.losses.batches import MixedPair, ReplacedPair
from privacy.losses.discrete import Atoms, DiscretePair
from privacy.losses.pair import LossPair
from privacy.losses.profiles import MixedProfile, Profile
from privacy.mechanisms.finite import FiniteMechanism, FinitePair
from privacy.numerics.rounding import exp_up
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

if TYPE_CHECKING:
    from privacy.losses.quadrature import Array

Bound = Literal["upper", "lower"]

_MOST = 4000  # points of a table, or losses of a grid
_LARGEST_LOSS = 700.0  # e^loss is a float
_NEGLIGIBLE = -80.0  # log delta at that loss
_FIRST_POINTS = 500  # points of a table up to the first kink
_OUTWARD = Fraction(1, 2**50)  # 8 times the rounding error of a float
_TOLERANCE = Fraction(1, 10**9)  # tolerated error of a distribution function
# largest probabilities that a float may show as 0: of a tail, and of 1 minus a probability
_UNDERFLOW, _ABSORBED = Fraction(sys.float_info.min), Fraction(1, 2**53)
_Masses = list[tuple[Fraction, Fraction]]


def from_profile(
    points: Iterable[tuple[float, float]], *, relation: NeighboringRelation = ADD_OR_REMOVE_ONE
) -> FiniteMechanism:
    """Return the mechanism of the smallest dominating pair for several (epsilon, delta) guarantees.

    As a function of x = e^epsilon, the largest delta that `points` permit is the lower convex hull
    of (0, 1), all (x, delta) and all (1 / x, 1 - (1 - delta) / x), and constant beyond: delta is
    convex, and delta(1 / x) = 1 - 1 / x + delta'(x) / x for delta' of the other direction. Its
    kinks are the ratios of the pair (Zhu, Dong and Wang 2022, Proposition 8). `points` are pairs
    (epsilon, delta), epsilon in [0, 700], each proven under `relation`, in both directions.
    """
    found: dict[Fraction, Fraction] = {}
    remedy = "Pass pairs (epsilon, delta), such as [(0.5, 1e-3), (1.0, 1e-6)]."
    for epsilon, delta in _rows(points, remedy):
        checks.real("epsilon", epsilon, remedy, at_least=0, at_most=_LARGEST_LOSS)
        checks.real("delta", delta, remedy, at_least=0, at_most=1)
        ratio = Fraction(math.exp(epsilon))
        found[ratio] = min(found.get(ratio, Fraction(1)), Fraction(delta))
    least, one = min(found.values()), Fraction(1)
    mirrored = {one / x: one - (one - delta) / x for x, delta in found.items() if x > 1}
    hull = [(Fraction(0), Fraction(1))]
    for vertex in sorted((mirrored | found).items()):
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-1], vertex):
            hull.pop()
        hull.append(vertex)
        if vertex[1] == least:  # constant from here
            break
    slopes = [_slope(*ends) for ends in pairwise(hull)] + [Fraction(0)]
    masses = [(Fraction(0), 1 + slopes[0]), (least, Fraction(0))]
    for (x, _), (before, after) in zip(hull[1:], pairwise(slopes), strict=True):
        masses.append((x * (after - before), after - before))
    return _finite(masses, relation, 1)


def from_cdfs(
    p: Callable[["Array"], "Array"],
    q: Callable[["Array"], "Array"],
    losses: Sequence[float],
    *,
    p_above: Callable[["Array"], "Array"] | None = None,
    q_above: Callable[["Array"], "Array"] | None = None,
    bound: Bound = "upper",
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> FiniteMechanism:
    """Return a mechanism from the distribution functions of its privacy loss L = log P/Q.

    With `bound` ``"upper"``, the pair dominates (P, Q): the probability between two losses is
    divided between them, with sums under P and Q kept (Doroshenko et al. 2022, arXiv 2207.04380).
    The values are taken as exact, except that a float does not show the smallest probabilities:
    2^-53 (2^-1022 with `p_above`) is added to the probability of an infinite loss. With
    ``"lower"``, (P, Q) dominates the pair: the interval is one output, which is post-processing.
    `account` rounds up the epsilon of either pair; ``account(lower,
    notion="pld").bracket(epsilon)`` also bounds its delta from below. The error of either epsilon
    is of the order of the squared spacing of the grid.

    Parameters
    ----------
    p, q
        P(L <= x) with the record and Q(L <= x) without it, from an array of x. (P, Q) must dominate
        all pairs of neighboring data sets under `relation` (see `FiniteMechanism`).
    losses
        2 to 4000 increasing values of x in [-700, 700]. Of the probability above the last one, as
        little as possible becomes an infinite loss.
    p_above, q_above
        P(L > x) and Q(L > x); without them, the rounding errors of 1 - p and 1 - q matter below a
        delta near 1e-12.

    Examples
    --------
    Gaussian noise with mu = 1, whose loss is normal with mean +-1/2:

    >>> import numpy as np
    >>> from scipy.special import ndtr
    >>> import privacy as dp
    >>> noise = dp.from_cdfs(
    ...     lambda x: ndtr(x - 0.5), lambda x: ndtr(x + 0.5), np.linspace(-9, 9, 601),
    ...     p_above=lambda x: ndtr(0.5 - x), q_above=lambda x: ndtr(-0.5 - x),
    ... )
    >>> dp.account(noise).epsilon(1e-6) / dp.account(dp.Gaussian(1.0)).epsilon(1e-6) < 1.0001
    True
    """
    remedy = "Pass 'upper' for a guarantee, 'lower' to see how tight it is."
    checks.one_of("bound", bound, get_args(Bound), remedy)
    remedy = "Pass increasing losses, such as numpy.linspace(-20, 20, 1001)."
    places = [
        checks.real("losses", x, remedy, at_least=-_LARGEST_LOSS, at_most=_LARGEST_LOSS)
        for x in losses
    ]
    wrong = not 2 <= len(places) <= _MOST or any(b <= a for a, b in pairwise(places))
    rule = f"from 2 to {_MOST:,} increasing numbers"
    checks.refuse_if(wrong, "losses", f"{len(places)} values", rule, remedy)
    cells_p = _cells("p", p, p_above, places)
    cells_q = _cells("q", q, q_above, places)
    ratios = [Fraction(math.exp(x)) for x in places]
    _check_ratios(cells_p, cells_q, ratios, places)
    if bound == "lower":
        return _finite(list(zip(cells_p, cells_q, strict=True)), relation, -1)
    # P- and Q-mass of each ratio; first that of ratio 0, which P does not have
    under_q = [Fraction(0)] * len(ratios)
    extra: _Masses = []
    # a tail of 0 may be a rounded one
    beyond_p, beyond_q = _ABSORBED if p_above is None else _UNDERFLOW, _UNDERFLOW
    for k, (mass_p, mass_q) in enumerate(zip(cells_p, cells_q, strict=True)):
        low = ratios[k - 1] if k > 0 else Fraction(0)
        if k == len(ratios):
            under_q[-1] += min(mass_q, mass_p / low)
            beyond_p += max(mass_p - low * mass_q, Fraction(0))
            beyond_q += max(mass_q - mass_p / low, Fraction(0))
            continue
        up = (mass_p - low * mass_q) / (ratios[k] - low)
        if not 0 <= up <= mass_q:  # by rounding, the ratio is not in the cell
            extra.append((mass_p, mass_q))
            continue
        under_q[k] += up
        if k > 0:
            under_q[k - 1] += mass_q - up
        else:
            beyond_q += mass_q - up
    masses = [(ratio * mass, mass) for ratio, mass in zip(ratios, under_q, strict=True)]
    ends = [(Fraction(0), beyond_q), (beyond_p, Fraction(0))]
    return _finite([*masses, *extra, *ends], relation, 1)


@dataclass(frozen=True)
class TabulatedPair(DiscretePair):
    """A pair of which only the profile is known, composed by `from_profile` at many epsilons."""

    source: LossPair

    exact_model = False

    @property
    def profile(self) -> Profile:
        return self.source.profile

    @property
    def claim(self) -> tuple[float, float]:
        return self.source.claim if self.profile.supremum < math.inf else super().claim

    @cached_property
    def _table(self) -> FinitePair:
        profile, points = self.profile, [0.0]
        tops = {min(one.supremum, _LARGEST_LOSS) for one in _profiles(profile)}
        for k, top in enumerate(sorted(tops), 1):  # kinks of the profile, the later ones are rarer
            count = max(_FIRST_POINTS // k**2, 3)
            low = points[-1]
            points += [low + (top - low) * (i / count) for i in range(1, count)]
            points.append(top)
        deltas = (exp_up(profile.log_delta(x)) if x < profile.supremum else 0.0 for x in points)
        return from_profile(zip(points, deltas, strict=True)).loss(ADD_OR_REMOVE_ONE)

    def atoms(self) -> Atoms:
        return self._table.atoms()

    @property
    def mass_at_infinity(self) -> float:
        return self._table.mass_at_infinity


def composable(pair: LossPair) -> LossPair:
    """Return a `TabulatedPair` of a pair of batches without nodes, if its losses are bounded."""
    if not isinstance(pair, ReplacedPair | MixedPair) or pair.model is not None:
        return pair
    bounded = all(one.supremum < math.inf for one in _profiles(pair.profile))
    few = bounded and pair.profile.log_delta(_LARGEST_LOSS) < _NEGLIGIBLE
    return TabulatedPair(pair) if few else pair


def _profiles(profile: Profile) -> tuple[Profile, ...]:
    return profile.profiles if isinstance(profile, MixedProfile) else (profile,)


def _slope(one: tuple[Fraction, Fraction], other: tuple[Fraction, Fraction]) -> Fraction:
    return (other[1] - one[1]) / (other[0] - one[0])


def _rows(points: Any, remedy: str) -> list[tuple[float, float]]:
    rows = [
        tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,)
        for row in (points if isinstance(points, Iterable) else (points,))
    ]
    wrong = not 1 <= len(rows) <= _MOST or any(len(row) != 2 for row in rows)
    rule = f"from 1 to {_MOST:,} pairs"
    checks.refuse_if(wrong, "points", f"{len(rows)} values", rule, remedy)
    return [(row[0], row[1]) for row in rows]


def _cells(
    name: str,
    below: Callable[["Array"], "Array"],
    above: Callable[["Array"], "Array"] | None,
    places: list[float],
) -> list[Fraction]:
    """Return the probabilities between neighboring places, and beyond both ends."""
    import numpy as np

    def values(function: Callable[["Array"], "Array"], which: str) -> list[Fraction]:
        found = np.asarray(function(np.array(places)), dtype=float)
        remedy = "Return one probability for each loss, as a distribution function does."
        wrong = found.shape != (len(places),) or not ((found >= 0) & (found <= 1)).all()
        checks.refuse_if(wrong, which, "...", "probabilities", remedy)
        return [Fraction(value) for value in found.tolist()]

    low = values(below, name)
    whole = low
    if above is not None:
        high = values(above, f"{name}_above")
        wrong = any(abs(a + b - 1) > _TOLERANCE for a, b in zip(low, high, strict=True))
        remedy = f"Return 1 - {name} at each loss."
        checks.refuse_if(wrong, f"{name}_above", "...", f"1 - {name}", remedy)
        # the smaller tail keeps its digits
        whole = [a if a <= b else 1 - b for a, b in zip(low, high, strict=True)]
    ends, remedy = [Fraction(0)], "Return P(L <= x), which increases with x."
    for value in (*whole, Fraction(1)):
        falls = value < ends[-1] - _TOLERANCE * min(ends[-1], 1 - value)
        checks.refuse_if(falls, name, "...", "increasing", remedy)
        ends.append(max(value, ends[-1]))
    return [b - a for a, b in pairwise(ends)]


def _check_ratios(
    cells_p: list[Fraction], cells_q: list[Fraction], ratios: list[Fraction], places: list[float]
) -> None:
    """Raise unless the P- and Q-mass of every cell have a ratio in the cell, up to rounding."""
    left_p, left_q = Fraction(1), Fraction(1)
    for k, (mass_p, mass_q) in enumerate(zip(cells_p, cells_q, strict=True)):
        # rounding errors are relative to the smaller tails
        slack_p = _TOLERANCE * (mass_p + min(left_p, 1 - left_p + mass_p))
        slack_q = _TOLERANCE * (mass_q + min(left_q, 1 - left_q + mass_q))
        left_p, left_q = left_p - mass_p, left_q - mass_q
        too_low = k > 0 and mass_p < ratios[k - 1] * (mass_q - slack_q) - slack_p
        too_high = k < len(ratios) and mass_p > ratios[k] * (mass_q + slack_q) + slack_p
        if too_low or too_high:
            at = places[min(k, len(places) - 1)]
            remedy = "Return the distribution of log P/Q under P in p, and under Q in q."
            rule = f"to match: near {at:g}, their masses do not have the ratio e^loss"
            raise ValueError(f"Expected p and q {rule}. {remedy}")


def _finite(masses: _Masses, relation: NeighboringRelation, side: int) -> FiniteMechanism:
    """Round pairs of masses to floats, each ratio away from 1 (side 1) or toward 1 (side -1)."""
    kept = [(p, q) for p, q in masses if p or q]
    large, small = 1 - _OUTWARD * (side < 0), 1 - _OUTWARD * (side > 0)
    under_p = tuple(float(p * (large if p > q else small)) for p, q in kept)
    under_q = tuple(float(q * (large if q > p else small)) for p, q in kept)
    return FiniteMechanism(under_p, under_q, relation)
