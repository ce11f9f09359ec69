"""Factorizations A = B C of the running sum, which correlate the noise of its releases.

A is the lower-triangular matrix of ones (docs/theory/running-sums.md). C is lower triangular, so
release k uses only inputs up to k. Privacy depends on C, the noise on the row norms of B.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from re import fullmatch
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
from scipy.linalg import solve_triangular

from privacy import checks
from privacy.mechanisms import Gaussian
from privacy.numerics.rounding import ULP, round_up
from privacy.running_sums import optimum, series, trees
from privacy.running_sums.memory import Array, History, Memory
from privacy.running_sums.participation import Participation

DENSE_LIMIT = 4096  # largest side of a dense matrix: 128 MB
_PROOF_LIMIT = 512  # largest side of a matrix of balls


@dataclass(frozen=True, eq=False)
class Factorization(ABC):
    """A factorization A = B C of the prefix sums. Use a method below.

    To define your own kind, write a frozen dataclass that subclasses this class and defines `row`,
    and decorate it with `register_factorization`. Its fields are floats or float64 arrays.
    `releases` is K, public and fixed before the first noise is drawn. `kind` is the public name and
    version of the class in state files, such as ``"toeplitz/1"``.
    """

    kind: ClassVar[str] = ""

    name: str
    releases: int

    @staticmethod
    def independent(releases: int) -> "Factorization":
        """Use C = I: independent noise on each increment, whose error grows as sqrt(k)."""
        return build("toeplitz/1", "independent", _size(releases), {"coefficients": np.ones(1)})

    @staticmethod
    def square_root(releases: int) -> "Factorization":
        """Use B = C, the square root of A (Fichtenberger, Henzinger and Upadhyay 2023).

        C is Toeplitz with f_0 = 1, f_i = f_(i-1) (1 - 1/(2i)). The noise is of order log K.
        """
        releases = _size(releases)
        coefficients = series.square_root(releases)
        return build("toeplitz/1", "square root", releases, {"coefficients": coefficients})

    @staticmethod
    def column_normalized(releases: int) -> "Factorization":
        """Divide each column of the square root's C by its norm: less noise at equal privacy."""
        releases = _size(releases)
        coefficients = series.square_root(releases)
        norms = np.sqrt(np.cumsum(coefficients**2))[::-1].copy()
        arrays = {"coefficients": coefficients, "scale": norms}
        return build("toeplitz/1", "column-normalized", releases, arrays)

    @staticmethod
    def banded(releases: int, *, band: int, optimized: bool = False) -> "Factorization":
        """Use a Toeplitz C with `band` diagonals (Kalinin and Lampert 2024).

        Stores `band` vectors instead of K. Releases at least `band` apart have orthogonal columns
        of C: less sensitivity for records with several participations. `optimized` minimizes the
        mean noise variance at sensitivity 1 over the coefficients (Choquette-Choo et al. 2023),
        within 1 s for K = 10,000 and 32 diagonals; by default, they are those of `square_root`.
        """
        releases = _size(releases)
        band = min(checks.count("band", band, "Pass the number of diagonals of C."), releases)
        coefficients = optimum.banded(releases, band) if optimized else series.square_root(band)
        return build("toeplitz/1", "banded", releases, {"coefficients": coefficients})

    @staticmethod
    def buffered(releases: int, *, buffers: int = 12) -> "Factorization":
        """Write the coefficients of C as a sum of `buffers` decaying exponentials ("BLT").

        A simulation stores `buffers` vectors instead of K (Dvijotham, McMahan, Pillutla, Steinke
        and Thakurta 2024). Exact integer noise needs all K. The error is near the square root's.
        """
        releases = _size(releases)
        buffers = checks.count("buffers", buffers, "Pass the number of buffers, such as 12.")
        weights, decays = series.exponentials(buffers, releases)
        coefficients = series.decaying(weights, decays, releases)
        arrays = {"coefficients": coefficients, "weights": weights, "decays": decays}
        return build("buffered/1", "buffered", releases, arrays)

    @staticmethod
    def from_encoder(matrix: Array, name: str = "explicit") -> "Factorization":
        """Use your own C: lower triangular with a positive diagonal, shape (K, K)."""
        matrix = np.array(matrix, dtype=np.float64, ndmin=1)
        return build("dense/1", name, _size(len(matrix), DENSE_LIMIT), {"matrix": matrix})

    @staticmethod
    def binary_tree(releases: int) -> "Factorization":
        """Add noise to the nodes of a binary tree; a record is in up to floor(log2 K) + 1 nodes."""
        releases = _size(releases, DENSE_LIMIT)
        ends = np.arange(1, releases + 1)
        starts = ends - (ends & -ends)
        inside = (starts[:, None] < ends) & (ends <= ends[:, None])
        return build("dense/1", "binary tree", releases, {"matrix": inside.astype(float)})

    @staticmethod
    def honaker_tree(
        releases: int, *, published: Literal["nodes", "prefixes"] = "nodes"
    ) -> "Factorization":
        """Estimate every node of a binary tree from all nodes below it (Honaker 2015).

        `published` is what you publish: ``"nodes"``, every tree node, as is usual, or
        ``"prefixes"``, only the prefix sums, which costs less.
        """
        remedy = "Pass 'nodes' if you publish tree nodes, 'prefixes' if only prefix sums."
        checks.one_of("published", published, ("nodes", "prefixes"), remedy)
        releases = _size(releases, DENSE_LIMIT // 4)
        matrix, rest = trees.honaker(releases)
        beside = {"beside": rest} if published == "nodes" else {}
        return build("dense/1", "Honaker tree", releases, {"matrix": matrix, **beside})

    @staticmethod
    def optimized(
        releases: int,
        *,
        objective: optimum.Objective = "mean-square",
        weights: Sequence[float] | None = None,
        cache: str | PathLike[str] | None = None,
    ) -> "Factorization":
        """Return the factorization with the least noise, for records that are in one release.

        Minimizes tr(A' W A G^-1) over G = C'C with diagonal <= 1 by the fixed point of Denisov,
        McMahan, Rush, Smith and Thakurta (2022), until a dual bound proves it optimal to 1e-6, in
        up to 5 s at K = 1000. The objective ``"mean-square"`` is the mean over releases of the
        noise variance, ``"max"`` its maximum. With the former, `weights` has a weight > 0 of each
        release's variance, within a factor of 10^6 of each other. `cache` is a folder that stores
        results. Raises ArithmeticError if the duality gap did not close or the optimum is singular.
        """
        releases = _size(releases, DENSE_LIMIT)
        matrix = optimum.encoder(releases, objective, weights, cache)
        return build("dense/1", "optimized", releases, {"matrix": matrix})

    @abstractmethod
    def row(self, k: int) -> Array:
        """Return row k of C (from 0), from its first nonzero entry to its diagonal."""

    def column_norms(self) -> Array:
        """Return the column norms of C: the sensitivity of C x to a record of each release."""
        return np.asarray(np.sqrt(self._added_up(np.square)))

    @property
    def band(self) -> int:
        """The largest number of entries of a row."""
        return self.releases

    def memory(self, size: int) -> Memory:
        """Return an empty memory of vectors of length `size`."""
        return History(self.row, self.band, size, self.releases)

    def encoder(self, releases: int | None = None) -> Array:
        """Return C, or its part for the first `releases` releases."""
        releases = part(releases, self.releases)
        matrix = np.zeros((releases, releases))
        for k in range(releases):
            row = self.row(k)
            matrix[k, k + 1 - len(row) : k + 1] = row
        return matrix

    def decoder(self, releases: int | None = None) -> Array:
        """Return B, whose row k combines the noise of release k, or its leading part."""
        matrix = self.encoder(releases)
        return np.asarray(solve_triangular(matrix, np.tri(len(matrix)).T, lower=True, trans="T").T)

    def noise_std(self) -> Array:
        """Return the noise standard deviation of each release, in units of that of z."""
        return np.asarray(np.sqrt(np.square(self.decoder()).sum(axis=1)))

    @cached_property
    def _variances(self) -> Array:
        return np.asarray(np.square(self.noise_std()))

    def variance(self, k: int) -> float:
        """Return the square of `noise_std` of release k (from 0)."""
        return float(self._variances[k])

    def sensitivity(self, participation: Participation | None = None) -> float:
        """Return an upper bound on the sensitivity of C x to one record, in clip norms.

        `participation` is the releases that one record can take part in, by default one of them.
        """
        rule, remedy = "a Participation", "Pass one, such as Participation.consecutive(10)."
        checks.instance("participation", participation, Participation | None, rule, remedy)
        found = (participation or Participation.once()).sensitivity(self)
        remedy = "Scale C (or the contributions) and the noise by the same factor."
        far, rule = not 1e-150 < found < 1e150, "between 1e-150 and 1e150"
        checks.refuse_if(far, "sensitivity", found, rule, remedy)
        return found

    def proves_sensitivity(
        self, sensitivity: float, participation: Participation | None = None
    ) -> bool:
        """Return whether interval arithmetic proves this bound on the sensitivity of C x.

        True for what `sensitivity` returns, unless K > 512: then it is False. Needs python-flint.
        """
        participation = participation or Participation.once()
        checks.real("sensitivity", sensitivity, "Pass a bound in clip norms.", above=0)
        self.sensitivity(participation)  # checks the participation
        if self.releases > _PROOF_LIMIT:
            return False
        from privacy.certification.sensitivity import proves  # which needs python-flint

        return proves(self._handed_out(), sensitivity, **participation.proof(self.releases))

    def mechanism(
        self,
        noise_multiplier: float,
        *,
        participation: Participation | None = None,
        replace_distance: float = 2.0,
    ) -> Gaussian:
        """Return the mechanism of all releases together, to account for a plan before it runs.

        `noise_multiplier` is the standard deviation of z / clip norm; that of a `RunningSum` is
        also divided by the sensitivity of C x. `participation` is as in `sensitivity`.
        """
        noise = Gaussian(noise_multiplier, replace_distance)
        ratio = noise.noise_multiplier / self.sensitivity(participation)
        return Gaussian(math.nextafter(ratio, 0.0), noise.replace_distance)

    def gram_bound(self) -> Array:
        """Return |C'C| entry by entry, with the rounding error of its sums added."""
        matrix = self._handed_out()
        norms = np.sqrt(np.square(matrix).sum(axis=0))
        rounding: Array = 2 * len(matrix) * ULP * np.multiply.outer(norms, norms)
        return np.asarray(np.abs(matrix.T @ matrix) + rounding)

    def _handed_out(self) -> Array:
        return self.encoder()

    def operator_norm(self) -> float:
        """Return an upper bound of |C|_2: exact to rounding for K <= 1024."""
        if self.releases <= DENSE_LIMIT // 4:
            return round_up(float(np.linalg.norm(self._handed_out(), 2)), 8 * self.releases * ULP)
        # |C|_2^2 <= (largest column sum) (largest row sum)
        largest = round_up(float(self.column_sums().max()), self.releases * ULP)
        return round_up(float(np.sqrt(largest * self.row_sum())), 2 * ULP)

    def diagonal(self) -> Array:
        """Return the diagonal of C."""
        return np.array([self.row(k)[-1] for k in range(self.releases)])

    def column_sums(self) -> Array:
        """Return the sums of absolute entries of the columns of C."""
        return self._added_up(np.abs)

    def _added_up(self, size: Callable[[Array], Array]) -> Array:
        sums = np.zeros(self.releases)
        for k in range(self.releases):
            row = self.row(k)
            sums[k + 1 - len(row) : k + 1] += size(row)
        return sums

    def row_sum(self) -> float:
        """Return an upper bound of the largest row sum of |C|."""
        largest = max(float(np.abs(self.row(k)).sum()) for k in range(self.releases))
        return round_up(largest, self.releases * ULP)

    def shifted_sum(self, count: int, separation: int) -> float | None:
        """Return the exact sensitivity of separated releases if a theorem gives it, else None."""
        return None

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that define this factorization, together with its name and K."""
        values = {field.name: getattr(self, field.name) for field in fields(self)[2:]}
        found = {name: np.asarray(value) for name, value in values.items() if value is not None}
        for name, array in found.items():
            if array.dtype != np.float64:  # the state file stores float64 only
                remedy = "Convert it to float64 in __post_init__."
                raise TypeError(checks.expected(name, values[name], "float64", remedy))
        return found


def _size(releases: Any, most: int = 2**31) -> int:
    count = checks.count("releases", releases, "Pass the number of releases K.")
    remedy = "Use square_root, column_normalized, banded or buffered."
    checks.refuse_if(count > most, "releases", count, f"<= {most}", remedy)
    return count


def part(releases: int | None, most: int) -> int:
    """Check a number of first releases; all by default."""
    releases = most if releases is None else releases
    limit = min(most, DENSE_LIMIT)
    remedy = "Use row(k), which needs no dense matrix."
    checks.refuse_if(releases > limit, "releases", releases, f"<= {limit}", remedy)
    return releases


def check_parts(name: str, *arrays: Array | None, good: bool) -> None:
    """Make a factorization's arrays read-only; raise unless all are finite and `good`."""
    for array in arrays:
        if array is not None:
            good = good and bool(np.all(np.isfinite(array)))
            array.flags.writeable = False
    remedy = "Pass a C that is lower triangular and finite, with a positive diagonal."
    checks.refuse_if(not good, name, "...", "values that give a valid C", remedy)


Kind = TypeVar("Kind", bound=type[Factorization])
KINDS: dict[str, type[Factorization]] = {}  # by their names in state files


def register_factorization(kind: Kind) -> Kind:
    """Register a kind of factorization by name, so that its state files can be read.

    Decorate a subclass of `Factorization` whose own attribute `kind` is a name and a version of its
    fields, such as ``"acme.decaying/1"``. Import its module before you restore a file.
    """
    own: Any = kind
    if not (isinstance(own, type) and issubclass(own, Factorization)):
        remedy = "Decorate the class itself."
        raise TypeError(checks.expected("kind", kind, "a subclass of Factorization", remedy))
    name = vars(kind).get("kind")
    if not (isinstance(name, str) and fullmatch(r"[a-z0-9][a-z0-9._-]*/[1-9][0-9]*", name)):
        rule = "a lower-case name and a version"
        remedy = 'Set the class attribute kind, such as kind = "acme.decaying/1".'
        raise ValueError(checks.expected("kind.kind", name, rule, remedy))
    if not _defines_again(kind, KINDS.get(name, kind)):
        raise ValueError(checks.expected("kind.kind", name, "an unused name", "Rename the kind."))
    KINDS[name] = kind
    return kind


def _defines_again(kind: type, known: type) -> bool:
    """Return whether two classes have one name and module, as after a notebook cell is rerun."""
    return (kind.__module__, kind.__qualname__) == (known.__module__, known.__qualname__)


def registered_kind(factorization: Factorization) -> str:
    """Return the registered name of the factorization's own class, or raise."""
    kind = type(factorization)
    if not _defines_again(kind, KINDS.get(kind.kind, object)):
        rule = "of a registered kind"
        remedy = "Decorate the class with register_factorization to save its state."
        raise ValueError(checks.expected("factorization", factorization.name, rule, remedy))
    return kind.kind


def build(kind: str, name: str, releases: int, arrays: dict[str, Array]) -> Factorization:
    """Return the factorization with the arrays that `Factorization.arrays` returned."""
    values = {key: array if array.ndim else array.item() for key, array in arrays.items()}
    return KINDS[kind](name, releases, **values)
