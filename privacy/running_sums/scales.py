"""The noise scale of a running sum, from the sensitivity of C x and the effect of rounding."""

import math
from dataclasses import dataclass

from privacy import checks
from privacy.mechanisms import Gaussian, ZeroConcentratedDP
from privacy.numerics.rounding import ULP, round_up
from privacy.relations import NeighboringRelation
from privacy.running_sums.factorizations import Factorization
from privacy.running_sums.lattice import Lattice
from privacy.running_sums.participation import Participation


@dataclass(frozen=True)
class Scales:
    """The scales that, with its `Gaussian`, determine the guarantee of a running sum."""

    clip_norm: float
    sensitivity: float
    step: float  # 0 in a simulation
    rounding: float  # upper bound on the increase by rounding of the distance between two C x
    sigma: float

    def of_discrete_noise(
        self, gaussian: Gaussian, relation: NeighboringRelation
    ) -> ZeroConcentratedDP:
        replaced = relation is NeighboringRelation.REPLACE_ONE
        distance = gaussian.replace_distance if replaced else 1.0
        moved = round_up(distance * self.clip_norm * self.sensitivity + self.rounding, 4 * ULP)
        return ZeroConcentratedDP(round_up(0.5 * (moved / self.sigma) ** 2, 4 * ULP), relation)


def scales(
    factorization: Factorization,
    participation: Participation,
    gaussian: Gaussian,
    clip_norm: float,
    size: int,
    step: float | None,
    *,
    simulation: bool,
) -> Scales:
    """Return the scales of a running sum of vectors of length `size`."""
    remedy = "Pass the norm bound of one record's contribution."
    clip_norm = checks.real("clip_norm", clip_norm, remedy, above=0)
    sensitivity = factorization.sensitivity(participation)
    if not simulation:
        sensitivity += Lattice.widening(factorization, participation)
    base = gaussian.noise_multiplier * clip_norm * sensitivity
    remedy = "Choose a unit in which the noise is between 1e-150 and 1e150."
    checks.refuse_if(not 1e-150 < base < 1e150, "clip_norm", clip_norm, "in range", remedy)
    width = 0.0 if simulation else _width(step, base)
    distance = gaussian.replace_distance
    rounding = width * _steps_of_rounding(factorization, participation, distance, size)
    # REPLACE_ONE multiplies the sensitivity of C x by replace_distance, but not the rounding
    charged = clip_norm * sensitivity + rounding / min(1.0, distance)
    sigma = round_up(gaussian.noise_multiplier * charged, 4 * ULP)
    return Scales(clip_norm, sensitivity, width, rounding, sigma)


def _width(step: float | None, sigma: float) -> float:
    if step is None:
        return math.ldexp(1.0, math.frexp(sigma)[1] - 31)
    remedy = "Pass a power of two much smaller than the noise, or leave step out."
    step = checks.real("step", step, remedy, above=0, at_most=sigma)
    checks.refuse_if(math.frexp(step)[0] != 0.5, "step", step, "a power of two", remedy)
    return step


def _steps_of_rounding(
    factorization: Factorization, participation: Participation, distance: float, size: int
) -> float:
    releases = factorization.releases
    steps = math.sqrt(releases * size)  # a step for each coordinate of each row
    if distance < 2:
        # rounding toward zero keeps two records in their ball, but can increase their distance
        times = 1 if participation == Participation.once() else releases
        steps += times * float(factorization.column_norms().max()) * (1 + 1e-9) * math.sqrt(size)
    return steps
