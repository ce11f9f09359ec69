"""Private choice of candidates by their scores, with exact probabilities."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from privacy import checks, mechanisms
from privacy.mechanisms import Gaussian, Laplace, Mechanism, PermuteAndFlip, PureDP, repeat
from privacy.numerics.rounding import ratio_up
from privacy.release._laws import Law, Source, bernoulli_exp, draw, uniform_below
from privacy.release.noise import LARGEST_SCALE, exact, random_source

_RESOLUTION = 30  # log2 of the scale of the noise in lattice steps, unless the scale is larger


@dataclass(frozen=True)
class Choice:
    """The candidates that were chosen, and the mechanism to account for.

    `indices` are their positions in `scores`, in the order of choice; you may publish them.
    `mechanism` is for all together. `is_simulation`: the choice is reproducible and not private.
    """

    indices: tuple[int, ...]
    mechanism: Mechanism
    is_simulation: bool

    @property
    def index(self) -> int:
        """Position of the first chosen candidate."""
        return self.indices[0]


def choose(
    scores: Sequence[float] | Any,
    mechanism: mechanisms.ExponentialMechanism | PermuteAndFlip | Laplace | Gaussian,
    *,
    sensitivity: float | Fraction = 1,
    monotonic: bool = False,
    count: int = 1,
    rng: Any = None,
    simulation: bool = False,
) -> Choice:
    """Choose `count` of several candidates privately, preferring high scores.

    - `ExponentialMechanism`: with probability proportional to exp(rate * score), as with Gumbel
      noise. Account for `mechanism`, once per chosen candidate.
    - `PermuteAndFlip`: in random order, accepted with probability exp(rate * (score - best score)).
      Account for `mechanism`, once per chosen candidate.
    - ``Laplace(scale)``: the largest score with noise of `scale` * `sensitivity`. Account for
      ``PureDP(2 / scale)``, once per chosen candidate. `PermuteAndFlip` is more accurate.
    - ``Gaussian(z)``: the largest scores with noise of z * `sensitivity`, where `sensitivity` is
      the L2 sensitivity of ALL scores. Account for `mechanism` once.

    The rate is epsilon / (2 * sensitivity). If `monotonic`, it is epsilon / sensitivity, and
    Laplace noise costs ``PureDP(1 / scale)``. Candidates are chosen in sequence, without
    replacement (Durfee and Rogers 2019). Every probability is exact: scores are read as exact
    numbers, and noise is added to integers (Dwork and Roth 2014, Claim 3.9).

    `scores` has one finite number per public candidate: integers, fractions or floats. `mechanism`
    is how to choose; `Laplace` is accounted for under ``ADD_OR_REMOVE_ONE`` only. `sensitivity` is
    the largest change of ONE score under its relation; for `Gaussian` the largest L2 norm of the
    change of all scores. It must hold for the numbers passed, rounding errors included.
    `monotonic`: two neighboring data sets never change two scores in opposite directions, as with
    counts when a record is added, but not when one is replaced. `count` is the number of candidates
    to choose; `rng` and `simulation` are as in `discrete_gaussian`.
    """
    found = _exact_scores(scores)
    size = checked_sensitivity(sensitivity)
    checks.flag("monotonic", monotonic, "Pass True if no two scores change in opposite directions.")
    count = checks.count("count", count, "Pass the number of candidates to choose.")
    remedy = "Pass at most the number of candidates."
    checks.refuse_if(count > len(found), "count", count, f"<= {len(found)}", remedy)
    if isinstance(mechanism, Gaussian):
        remedy = "Leave it out: Gaussian noise uses the L2 sensitivity of all scores."
        checks.refuse_if(monotonic, "monotonic", monotonic, "False", remedy)
        noise = _lattice(mechanism.noise_multiplier, len(found))
        source = random_source(rng, simulation=simulation)
        noisy = _noisy(found, size, noise, source)
        best = sorted(range(len(found)), key=lambda i: (-noisy[i], i))[:count]
        return Choice(tuple(best), mechanism, simulation)
    factor = 1 if monotonic else 2
    pick: Callable[[list[Fraction], Source], int]
    if isinstance(mechanism, Laplace):
        noise = _lattice(mechanism.scale, 0)
        one: Mechanism = PureDP(ratio_up(float(factor), mechanism.scale))

        def pick(left: list[Fraction], source: Source) -> int:
            noisy = _noisy(left, size, noise, source)
            return noisy.index(max(noisy))
    elif isinstance(mechanism, mechanisms.ExponentialMechanism | PermuteAndFlip):
        one = mechanism
        rate = Fraction(mechanism.epsilon) / (factor * size)
        chooser = permute_and_flip if isinstance(mechanism, PermuteAndFlip) else exponential

        def pick(left: list[Fraction], source: Source) -> int:
            return chooser(left, rate, source)
    else:
        rule = "ExponentialMechanism, PermuteAndFlip, Laplace or Gaussian"
        remedy = "Pass ExponentialMechanism(epsilon)."
        raise TypeError(checks.expected("mechanism", mechanism, rule, remedy))
    source = random_source(rng, simulation=simulation)
    left = list(range(len(found)))
    chosen = (left.pop(pick([found[i] for i in left], source)) for _ in range(count))
    return Choice(tuple(chosen), repeat(one, count), simulation)


def exponential(scores: list[Fraction], rate: Fraction, source: Source) -> int:
    """Return i with probability proportional to exp(rate * scores[i]), exactly."""
    best = max(scores)
    while True:  # rejection of uniform candidates; the best one is always accepted
        tried = uniform_below(len(scores), source)
        if bernoulli_exp(rate * (best - scores[tried]), source):
            return tried


def permute_and_flip(scores: list[Fraction], rate: Fraction, source: Source) -> int:
    """Visit the candidates in random order; accept i with probability exp(rate * (its gap))."""
    left, best = list(range(len(scores))), max(scores)
    while True:  # ends: the best candidate is accepted with probability 1
        tried = left.pop(uniform_below(len(left), source))
        if bernoulli_exp(rate * (best - scores[tried]), source):
            return tried


@dataclass(frozen=True)
class _Lattice:
    """Noise in lattice steps, 2^bits of which are one sensitivity."""

    law: Law
    bits: int


def _lattice(scale: float, coordinates: int) -> _Lattice:
    """Return the lattice of noise of `scale` sensitivities.

    Rounding down moves a coordinate by less than one step. It increases an L2 norm by at most
    sqrt(coordinates) steps; coordinates = 0, for Laplace noise, if differences are whole numbers of
    steps, which rounding does not change.
    """
    bits = min(max(_RESOLUTION - math.ceil(math.log2(scale)), 0), 4 * _RESOLUTION)
    root = math.isqrt(coordinates - 1) + 1 if coordinates else 0
    steps = Fraction(scale) * (2**bits + root)
    remedy = "Reduce the noise: it does not fit in 64 bits."
    checks.refuse_if(steps > LARGEST_SCALE, "mechanism", scale, f"<= {LARGEST_SCALE:g}", remedy)
    is_gaussian = coordinates > 0
    return _Lattice(Law(steps, is_gaussian, is_rounded=is_gaussian), bits)


def _noisy(
    scores: list[Fraction], sensitivity: Fraction, lattice: _Lattice, source: Source
) -> list[int]:
    noise = draw(lattice.law, len(scores), source).tolist()
    rounded = (math.floor(score * 2**lattice.bits / sensitivity) for score in scores)
    return [a + b for a, b in zip(rounded, noise, strict=True)]


def _exact_scores(scores: Any) -> list[Fraction]:
    remedy = "Pass one finite number for each candidate."
    given = scores.tolist() if isinstance(scores, np.ndarray) else scores
    try:
        found = [exact(score) for score in given]
    except TypeError:
        found = []
    known = [score for score in found if score is not None]
    if not found or len(known) < len(found):
        # the scores are private
        raise ValueError(checks.expected("scores", "<scores>", "finite numbers", remedy))
    return known


def checked_sensitivity(value: Any) -> Fraction:
    """Return a sensitivity > 0 as a fraction, or raise."""
    remedy = "Pass the largest change of one score between neighboring data sets."
    checks.real("sensitivity", value, remedy, above=0)
    found = exact(value)
    assert found is not None
    return found
