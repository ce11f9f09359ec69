"""Private selection of the keys of a table, such as words or cities, whose set is not public."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privacy import checks
from privacy.mechanisms import ApproximateDP, Gaussian, Laplace, Mechanism, compose, repeat
from privacy.numerics.normal import quantile
from privacy.numerics.rounding import round_up
from privacy.release import _tables
from privacy.release._laws import Law, Source, draw, exp_bounds
from privacy.release.clipping import limit_contributions
from privacy.release.noise import LARGEST_SCALE, random_source

_BITS = 192  # probabilities are multiples of 2^-192
_RESOLUTION = 30  # log2 of the scale of the noise in lattice steps, unless the scale is larger


@dataclass(frozen=True)
class SelectedKeys:
    """Keys that you may publish, sorted; the mechanism to account for has one user as the unit.

    `counts` are the noisy numbers of users of the keys; None if only keys were selected.
    `is_simulation`: the selection is reproducible and gives no privacy.
    """

    keys: tuple[int | str, ...]
    counts: tuple[float, ...] | None
    mechanism: Mechanism
    is_simulation: bool


def select_keys(
    users: Any,
    keys: Any,
    mechanism: ApproximateDP | Gaussian | Laplace,
    *,
    max_keys: int = 1,
    delta: float | None = None,
    seed: int | None = None,
    rng: Any = None,
    simulation: bool = False,
) -> SelectedKeys:
    """Select the keys that many users have, if the set of all keys is not public.

    A user counts once per key, for at most `max_keys` keys, the contribution bound. A key that no
    user has is never selected. The result holds under ``ADD_OR_REMOVE_ONE``.

    - ``ApproximateDP(epsilon, delta)``, for one key: a key of n users is selected with probability
      p_n, the largest possible: p_0 = 0, p_n = min(e^epsilon p_(n-1) + delta, 1 - e^-epsilon (1 -
      p_(n-1) - delta), 1) (Desfontaines, Voss, Gipson and Mandayam 2022). The returned mechanism
      repeats it `max_keys` times.
    - ``Gaussian(z)`` or ``Laplace(b)`` with `delta`: noise of standard deviation z *
      sqrt(max_keys), or of scale b * max_keys, is added to the number of users of each key, and
      keys with a noisy number >= a threshold are selected, together with that number. The
      returned mechanism composes `mechanism` with ``ApproximateDP(0, delta)``: account for it
      alone. For each user, delta bounds the probability that any key of only this user is selected.

    `users` and `keys` are n user ids and n keys, one of each per row: whole numbers or strings.
    `seed` is as in `limit_contributions` (None keeps each user's first keys), `rng` and
    `simulation` as in `discrete_gaussian`.
    """
    most = checks.count("max_keys", max_keys, "Pass the largest number of different keys per user.")
    remedy = "Pass ApproximateDP(epsilon, delta), or noise: Gaussian(z), Laplace(b)."
    rule = "ApproximateDP, Gaussian or Laplace"
    checks.instance("mechanism", mechanism, ApproximateDP | Gaussian | Laplace, rule, remedy)
    if isinstance(mechanism, ApproximateDP):
        if mechanism.relation != "ADD_OR_REMOVE_ONE":
            remedy = "Pass ApproximateDP(epsilon, delta)."
            rule = "under ADD_OR_REMOVE_ONE"
            raise ValueError(checks.expected("mechanism", mechanism, rule, remedy))
        remedy = "Leave it out: ApproximateDP has its own delta."
        checks.refuse_if(delta is not None, "delta", delta, "None", remedy)
        source = random_source(rng, simulation=simulation)
        names, counts = _counts(users, keys, most, seed)
        chance = keep_probabilities(mechanism, max(counts, default=0))
        chances = [chance[min(count, len(chance) - 1)] for count in counts]
        kept = (name for name, p in zip(names, chances, strict=True) if _uniform(source) < p)
        return SelectedKeys(tuple(kept), None, repeat(mechanism, most), simulation)
    remedy = "Pass the largest probability of selecting any key that only one user has."
    checks.refuse_if(delta is None, "delta", delta, "a probability", remedy)
    delta = checks.delta(delta)
    lattice = _Threshold.of(mechanism, most, delta)
    source = random_source(rng, simulation=simulation)
    names, counts = _counts(users, keys, most, seed)
    noise = draw(lattice.law, len(counts), source).tolist()
    noisy = [(n << lattice.bits) + x for n, x in zip(counts, noise, strict=True)]
    known = zip(names, noisy, strict=True)
    found = {name: value / 2**lattice.bits for name, value in known if value >= lattice.least}
    whole = compose(mechanism, ApproximateDP(0.0, delta))
    return SelectedKeys(tuple(found), tuple(found.values()), whole, simulation)


def keep_probabilities(mechanism: ApproximateDP, most: int) -> list[int]:
    """Return 2^192 p_n for n = 0 .. `most`, or up to the first p_n = 1, rounded down.

    A smaller p_n satisfies both inequalities too, as long as it is at least p_(n-1).
    """
    one = 1 << _BITS
    low, high = exp_bounds(Fraction(mechanism.epsilon), _BITS)  # of e^-epsilon
    delta = math.floor(Fraction(mechanism.delta) * one)
    found = [0]
    while len(found) <= most and found[-1] < one:
        last = found[-1]
        grown = (last << _BITS) // high + delta
        left = max(one - last - delta, 0)
        found.append(max(last, min(grown, one - -(-left * high >> _BITS), one)))
    assert low <= high
    return found


def _uniform(source: Source) -> int:
    return int.from_bytes(source(_BITS // 8), "little")


@dataclass(frozen=True)
class _Threshold:
    """Noise in lattice steps, 2^bits of which are one user, and the least selected number."""

    law: Law
    bits: int
    least: int

    @classmethod
    def of(cls, mechanism: Gaussian | Laplace, most: int, delta: float) -> "_Threshold":
        # the probability of each of `most` keys, so that 1 - (1 - p)^most <= delta
        each = -math.expm1(math.log1p(-delta) / most) * (1 - 1e-14)
        if isinstance(mechanism, Gaussian):
            root = math.isqrt(most)
            spread = root if root * root == most else round_up(math.sqrt(most), 1e-15)
            scale = Fraction(mechanism.noise_multiplier) * Fraction(spread)
        else:
            scale = Fraction(mechanism.scale) * most
        gaussian = isinstance(mechanism, Gaussian)
        bits = max(_RESOLUTION - math.ceil(math.log2(scale)), 0)
        if not 1 <= scale * 2**bits <= LARGEST_SCALE:
            remedy = "Reduce the noise: it does not fit in 64 bits."
            raise ValueError(checks.expected("mechanism", mechanism, "less noisy", remedy))
        # noise exceeds x scales with probability at most `each`
        x = max(-quantile(each) if gaussian else -math.log(2 * each), 0.0)
        x = (x + 1e-12) * (1 + 1e-12)
        # one more step covers the rounding of the noise to the nearest step
        least = math.ceil(Fraction(2**bits) * (1 + scale * Fraction(x))) + 1
        return cls(Law(scale * 2**bits, gaussian, is_rounded=True), bits, least)


def _counts(
    users: Any, keys: Any, most: int, seed: int | None
) -> tuple[list[int | str], list[int]]:
    """Return the keys that users have, sorted, and the number of users of each."""
    codes, ids = _tables.users_of(None, users)
    names, places = _key_codes(keys)
    remedy = "Pass one key for each row of users."
    checks.refuse_if(len(places) != len(codes), "keys", "<keys>", "as long as users", remedy)
    pairs = codes.astype(np.int64) * max(len(names), 1) + places
    first = np.sort(np.unique(pairs, return_index=True)[1])
    owners = [ids[code] for code in codes[first]]
    # codes depend on other users, so rows are limited by user ids
    if owners:
        first = first[limit_contributions(owners, max_contributions=most, seed=seed)]
    counts = np.bincount(places[first], minlength=len(names)).tolist()
    found = sorted((name, n) for name, n in zip(names, counts, strict=True) if n)
    return [name for name, _ in found], [n for _, n in found]


def _key_codes(keys: Any) -> tuple[list[Any], Any]:
    """Return the different keys, and the position of each row's key among them."""
    remedy = "Pass keys that are all whole numbers or all strings."
    rows: Sequence[Any] = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    if {type(key) for key in rows} not in (set(), {int}, {str}):
        raise TypeError(checks.expected("keys", "<keys>", "whole numbers or strings", remedy))
    place: dict[Any, int] = {}
    codes = [place.setdefault(key, len(place)) for key in rows]
    return list(place), np.array(codes, dtype=np.int64)
