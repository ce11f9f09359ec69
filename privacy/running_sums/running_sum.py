"""Running sums with correlated noise."""

import math
import os
from collections.abc import Mapping
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from privacy import checks
from privacy.mechanisms import Gaussian, Mechanism
from privacy.numerics import storage
from privacy.numerics.exclusive import ReleaseLock
from privacy.relations import NeighboringRelation
from privacy.release import noise as safe_noise
from privacy.running_sums import state_file
from privacy.running_sums.factorizations import Factorization
from privacy.running_sums.lattice import Lattice, Rounded
from privacy.running_sums.memory import Array
from privacy.running_sums.participation import Participation
from privacy.running_sums.scales import scales

if TYPE_CHECKING:
    from privacy.budget.ledger import Ledger

Noise = Literal["rounded", "discrete"]
_LABEL = "running sum"


class RunningSum:
    """Running (prefix) sums of vectors with correlated noise, in blocks of K releases.

    Inputs may be adaptive (Denisov, McMahan, Rush, Smith and Thakurta 2022, Theorem 2.1). If each
    record participates once, a new block with fresh noise starts at the last sum after K releases.
    `releases` is the number of releases made, `sensitivity` that of C x to one record, in clip
    norms, and `sigma` the standard deviation of z: noise_multiplier * (clip_norm * sensitivity +
    step * sqrt(K d)). Rounding can move each of the K d coordinates of C x by one more step.

    Parameters
    ----------
    factorization
        Correlates the noise of the K releases; public.
    noise_multiplier, relation, replace_distance
        As in `Gaussian` and `account`. All releases together cost as much as ONE with this noise.
    shape
        That of the vectors, whose coordinates have independent noise; in a simulation, leading axes
        can be replicates.
    clip_norm, participation
        The L2 norm bound of one record's contribution to one release, and the releases that one
        record can take part in, by default one of them.
    noise
        ``"rounded"``: Gaussian noise, rounded exactly to the lattice, with the privacy profile of
        the Gaussian mechanism, under every relation. ``"discrete"``: discrete Gaussian noise,
        accounted by zCDP only, under `relation` only.
    step
        The lattice spacing, a power of two, about 2^-30 sigma by default. Values are whole
        multiples of it: see `quantize`. Coordinates beyond 2^42 steps are clamped.
    simulation, rng
        Float noise from the seed or generator `rng`, without a guarantee; by default, noise is from
        the operating system.
    path
        A new state file, written before a release is returned (:doc:`/running-sums`). It contains
        the raw sums of this block: keep it as safe as the data.
    ledger
        Charged for `mechanism`. With a `path`, a crash during the construction neither loses nor
        repeats the charge: construct or restore the sum again with the same path.
    """

    def __init__(
        self,
        factorization: Factorization,
        *,
        noise_multiplier: float,
        shape: int | tuple[int, ...],
        clip_norm: float = 1.0,
        participation: Participation | None = None,
        relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
        replace_distance: float = 2.0,
        noise: Noise = "rounded",
        step: float | None = None,
        simulation: bool = False,
        rng: Any = None,
        path: str | PathLike[str] | None = None,
        ledger: "Ledger | None" = None,
    ) -> None:
        if ledger is not None:
            checks.ledger(ledger, simulation=simulation)
        rule, remedy = "a Factorization", "Pass one, such as Factorization.square_root(100)."
        checks.instance("factorization", factorization, Factorization, rule, remedy)
        remedy = "Pass 'rounded' for the privacy profile of Gaussian noise."
        checks.one_of("noise", noise, get_args(Noise), remedy)
        gaussian = Gaussian(noise_multiplier, replace_distance)
        self.factorization = factorization
        self.noise_multiplier = gaussian.noise_multiplier
        self.replace_distance = gaussian.replace_distance
        self.participation = Participation.once() if participation is None else participation
        self.relation = checks.relation(relation)
        self.noise: Noise = noise
        self.simulation = simulation
        safe_noise.random_source(rng, simulation=simulation)  # refuses a seed outside a simulation
        self.shape = _shape(shape)
        size = math.prod(self.shape)
        used = factorization, self.participation, gaussian
        self._scales = scales(*used, clip_norm, size, step, simulation=simulation)
        if noise == "discrete" and self.participation.amplifies:
            remedy = "Use noise='rounded'; a zCDP claim of discrete noise is not amplified."
            rule = "'rounded' with cyclic_poisson"
            raise ValueError(checks.expected("noise", noise, rule, remedy))
        self.clip_norm, self.step_width = self._scales.clip_norm, self._scales.step
        self.sensitivity, self.sigma = self._scales.sensitivity, self._scales.sigma
        self._lattice: Lattice | None = None
        self.releases = 0
        self._generator = np.random.default_rng(rng) if simulation else None
        self._prefix = np.zeros(size)
        self._start_block()
        self._path: Path | None = None
        self._failed = False
        self._lock, self._process = ReleaseLock(), os.getpid()
        self._left: storage.Stamp | None = None
        self._parts: list[str] = []
        self._paid: Mapping[str, str] | None = None
        if ledger is not None and path is None:
            ledger.spend_release(self.mechanism, label=_LABEL)
        if path is not None:
            self._path = Path(path).resolve()
            remedy = "Continue from it with RunningSum.restore(path)."
            checks.refuse_if(self._path.exists(), "path", str(path), "a new file", remedy)
            if ledger is not None:  # counts as spent, whether the file is written or not
                self._paid = ledger.reserve_state(self.mechanism, self._path, label=_LABEL)
            self._write(self._path)
            if ledger is not None and self._paid is not None:
                ledger.commit_state(self._paid)

    def _start_block(self) -> None:
        size = math.prod(self.shape)
        if self.simulation:
            self._memory = self.factorization.memory(size)
            return
        self._lattice = Lattice(self.factorization, self.sigma, self.step_width, self.noise, size)
        self._memory = self._lattice.memory

    @property
    def prefix(self) -> Array:
        """The last release, or zeros before the first."""
        with self._lock:
            self._check_whole()
            return self._prefix.reshape(self.shape).copy()

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism to account for; it covers all releases together, whatever their number."""
        gaussian = Gaussian(self.noise_multiplier, self.replace_distance)
        if self.simulation or self.noise == "rounded":
            return self.participation.sampled(gaussian, self.factorization.releases)
        return self._scales.of_discrete_noise(gaussian, self.relation)

    def quantize(self, contributions: Any) -> Array:
        """Return contributions on the lattice, each coordinate rounded toward zero.

        Quantize each record's contribution before you sum: norms do not increase, and sums are
        exact up to 2^53 steps. In a simulation the values are unchanged.
        """
        values = _numbers("contributions", contributions)
        if self.simulation:
            return values
        with np.errstate(over="ignore"):
            moved = np.trunc(values / self.step_width) * self.step_width
        # a value whose quotient overflows is already on the lattice
        return np.where(np.isinf(moved), values, moved)

    def step(self, values: Any) -> Array:
        """Add `values` to the sum and return the noisy sum of all values so far.

        `values` is the sum of the contributions of this release's records, and may depend on
        earlier releases. Raises ValueError, and leaves the state unchanged, for another shape,
        values that are not finite or off the lattice, or if repeated participation allows no new
        block. Raises RuntimeError after an unsaved release, a change of the file or a fork.
        """
        flat = self._checked(values)
        with self._lock:  # one release at a time, including its write
            self._check_alone()
            return self._step(flat)

    def _step(self, values: Array) -> Array:
        k = self.releases % self.factorization.releases
        if k == 0 and self.releases:
            if self.participation != Participation.once():
                reason = "with repeated participation, no new block can start"
                remedy = f"Build the sum with more releases: {reason}."
                rule = f"< {self.factorization.releases} with {self.participation}"
                raise ValueError(checks.expected("releases", self.releases, rule, remedy))
            self._start_block()
        self._failed = True  # repeating an interrupted step would count its records twice
        if self._lattice is not None:
            increment = self._lattice.step(k, values)
        else:
            increment = values + self._correlated(k)
        self._prefix = self._prefix + increment
        self.releases += 1
        if self._path is not None:
            self._write(self._path)
        self._failed = False
        return self.prefix

    def _check_whole(self) -> None:
        if self._failed:
            raise RuntimeError(
                "A release was interrupted or could not be saved. Continue with "
                "RunningSum.restore(path); without a path, build a new sum."
            )

    def _check_alone(self) -> None:
        self._check_whole()
        if not self.simulation and os.getpid() != self._process:
            raise RuntimeError(
                "A forked process cannot use a RunningSum: a release would be drawn twice. "
                "Build or restore the sum in the process that uses it."
            )
        if self._path is not None:
            storage.check(self._path, self._left)

    def _checked(self, values: Any) -> Array:
        values = _numbers("values", values)
        remedy = "Clip records and replace missing values by zeros before you sum them."
        rule = f"of shape {self.shape}"
        checks.refuse_if(values.shape != self.shape, "values.shape", values.shape, rule, remedy)
        checks.refuse_if(not np.all(np.isfinite(values)), "values", "...", "finite", remedy)
        if self._lattice is not None and not self._lattice.holds(values):
            remedy = "Apply quantize() to each contribution before you sum them."
            rule = f"whole multiples of {self.step_width:g}"
            raise ValueError(checks.expected("values", "...", rule, remedy))
        return np.asarray(values.reshape(-1))

    def _correlated(self, k: int) -> Any:
        assert self._generator is not None
        fresh = self.sigma * self._generator.standard_normal(len(self._prefix))
        correlated = (fresh - self._memory.past(k)) / self.factorization.row(k)[-1]
        self._memory.push(correlated)
        return correlated

    def noise_variance(self, release: int) -> float:
        """Return the noise variance of one coordinate of release 1, 2, ...

        Outside a simulation it is that of C rounded to 2^-20, and rounding adds less than step^2.
        With discrete noise it is an upper bound.
        """
        release = checks.count("release", release, "Pass the release's number, from 1.")
        blocks, k = divmod(release - 1, self.factorization.releases)
        last = self._used.variance(self.factorization.releases - 1) if blocks else 0.0
        return self.sigma**2 * (blocks * last + self._used.variance(k))

    @cached_property
    def _used(self) -> Factorization:
        exact = self.factorization
        return exact if self.simulation else Rounded(exact.name, exact.releases, exact)

    def noise_covariance(self, releases: int) -> Array:
        """Return sigma^2 B B', the noise covariance of the first `releases` in one coordinate.

        C is rounded as in `noise_variance`. Coordinates and blocks have independent noise.
        """
        releases = checks.count("releases", releases, "Pass the number of releases.")
        most = self.factorization.releases
        decoder = self._used.decoder(min(releases, most))
        rows = np.zeros((releases, -(-releases // most) * len(decoder)))
        for start in range(0, releases, most):
            rows[start:, start : start + len(decoder)] = decoder[-1]
            part = decoder[: releases - start]
            rows[start : start + len(part), start : start + len(decoder)] = part
        return np.asarray(self.sigma**2 * (rows @ rows.T))

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not self.simulation:
            raise TypeError("A RunningSum that releases data cannot be copied. Use save(path).")
        return super().__reduce_ex__(protocol)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a new file, and keep it up to date from then on, as with `path`.

        It contains the raw sums of this block. A simulation writes a copy to any file instead.
        Raises ValueError if this sum has another file, since two sums would draw a release twice.
        """
        place = Path(path).resolve()
        with self._lock:
            self._check_alone()
            if not self.simulation and place != self._path:
                remedy = "To move a sum, stop it, move its file, and call RunningSum.restore(path)."
                rule = "a new file, or that of this sum"
                taken = self._left is not None or place.exists()
                checks.refuse_if(taken, "path", str(path), rule, remedy)
                self._path = place
            self._write(place)

    def _write(self, path: Path) -> None:
        own = path == self._path
        header, arrays = state_file.contents(self)
        parts, digests = state_file.seal(self, path, header, arrays, self._parts if own else [])
        goes_on = own and self._left is not None and len(digests) >= len(self._parts)
        kept = None if goes_on else digests
        written = storage.write(path, header, arrays, self._left if own else ..., parts, kept)
        if own:
            self._left, self._parts = written, digests

    @classmethod
    def restore(cls, path: str | PathLike[str], *, ledger: "Ledger | None" = None) -> "RunningSum":
        """Continue from a state file, to which later releases are saved.

        `prefix` is the last release, which may not have been used before a crash. `ledger` is that
        of the construction. Raises ValueError for a changed file or part, or another ledger.
        """
        return state_file.restored(cls, Path(path), ledger)


def _numbers(name: str, values: Any) -> Array:
    """Return a copy of private values as floats, without NumPy's error, which prints a value."""
    try:
        numbers: Array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        remedy = "Pass an array of numbers."
        raise TypeError(checks.expected(name, "...", "numbers", remedy)) from None
    return numbers


def _shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    sides = shape if isinstance(shape, tuple) else (shape,)
    remedy = "Pass the length of the vectors, or their shape."
    return tuple(checks.count("shape", side, remedy) for side in sides)
