"""Choice of the number of bands of C for cyclic Poisson sampling."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from privacy import checks
from privacy.calibration import calibrate
from privacy.mechanisms import CyclicPoisson, Gaussian
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation
from privacy.running_sums.factorizations import Factorization
from privacy.running_sums.participation import Participation


@dataclass(frozen=True)
class Banded:
    """One row of `BandChoice`: a number of bands, and the noise that it needs for the target."""

    mechanism: CyclicPoisson
    """All releases together."""
    error: float
    """Root mean square over the releases of the noise of a running sum, in clip norms."""

    @property
    def bands(self) -> int:
        """The number of bands of C and of groups of records."""
        return self.mechanism.groups

    @property
    def sampling_probability(self) -> float:
        """The sampling probability within a group."""
        return self.mechanism.sampling_probability

    @property
    def noise_multiplier(self) -> float:
        """The noise multiplier of `RunningSum`."""
        assert isinstance(self.mechanism.mechanism, Gaussian)
        return self.mechanism.mechanism.noise_multiplier

    @property
    def factorization(self) -> Factorization:
        """The optimized factorization."""
        return Factorization.banded(self.mechanism.steps, band=self.bands, optimized=True)

    @property
    def participation(self) -> Participation:
        """The participation of the records, for `RunningSum`."""
        q = self.sampling_probability
        return Participation.cyclic_poisson(sampling_probability=q, groups=self.bands)


@dataclass(frozen=True)
class BandChoice:
    """The result of `choose_bands`: the noise for each number of bands. ``print`` shows a table."""

    rows: tuple[Banded, ...]
    """In increasing order of the bands."""

    @property
    def best(self) -> Banded:
        """The one with the least noise."""
        return min(self.rows, key=lambda row: row.error)

    def __str__(self) -> str:
        lines = ["bands  sampling probability  noise multiplier  error"]
        for row in self.rows:
            mark = "  least" if row is self.best else ""
            lines.append(
                f"{row.bands:5}  {row.sampling_probability:20.6g}  "
                f"{row.noise_multiplier:16.4f}  {row.error:5.4g}{mark}"
            )
        return "\n".join(lines)


def choose_bands(
    releases: int,
    *,
    batch_size: float,
    records: int,
    epsilon: float,
    delta: float,
    bands: Iterable[int] | None = None,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> BandChoice:
    """Return the noise that running sums need for a target, for several numbers of bands.

    `releases` is K, the number of steps, `batch_size` the expected number of records in a batch,
    and `records` the public number of all. The target, `epsilon` and `delta` under `relation`, is
    for all releases together. `bands` <= min(K, records / batch_size) are powers of two by default.
    """
    releases = checks.count("releases", releases, "Pass the number of steps K.")
    records = checks.count("records", records, "Pass the number of records.")
    remedy = "Pass the expected number of records in a batch."
    batch_size = checks.real("batch_size", batch_size, remedy, above=0, at_most=records)
    most = int(min(releases, records / batch_size))
    numbers = [2**k for k in range(most.bit_length())] if bands is None else sorted(set(bands))
    rows = []
    for band in numbers:
        band = checks.count("bands", band, f"Pass whole numbers from 1 to {most}.")
        rule = f"<= {most}, the smaller of releases and records / batch_size"
        checks.refuse_if(band > most, "bands", band, rule, "Pass fewer bands.")
        q = min(1.0, band * (batch_size / records))
        rows.append(_banded(releases, band, q, epsilon, delta, relation))
    checks.refuse_if(not rows, "bands", (), "at least one number", "Leave bands out.")
    return BandChoice(tuple(rows))


def _banded(
    releases: int, band: int, q: float, epsilon: float, delta: float, relation: NeighboringRelation
) -> Banded:
    def make(noise_multiplier: float) -> CyclicPoisson:
        return CyclicPoisson(Gaussian(noise_multiplier), q, releases, band)

    sigma = calibrate(make, epsilon=epsilon, delta=delta, relation=relation)
    factorization = Factorization.banded(releases, band=band, optimized=True)
    variance = float(np.square(factorization.noise_std()).mean())
    return Banded(make(sigma), sigma * factorization.sensitivity() * variance**0.5)
