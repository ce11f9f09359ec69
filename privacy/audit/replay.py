"""Deterministic audits: run a release on recorded noise and check how it uses the noise.

Contributions are compared as exact fractions; a release's privacy parameter is computed.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy import checks
from privacy.accounting import account
from privacy.audit._calls import called
from privacy.audit.claims import two
from privacy.mechanisms import Mechanism
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

Floats = NDArray[np.float64]
Norm = float
_ROUNDING = 1e-9
_LINEAR = 1e-6


class Violation(AssertionError):
    """A release on a pair of data sets violates its claim."""


def assert_norm(value: Any, bound: float, *, norm: Norm = 2) -> None:
    """Assert that a clipped record's norm is at most the bound, exactly; else raise `Violation`.

    `value` is a number, an array, or a mapping of numbers. One that is not finite is a violation,
    and so is an ulp above the bound. The norm is 1, 2, or inf.
    """
    _within(_flat(value), bound, norm, f"{value!r}")


def assert_contribution(
    query: Callable[[Any], Any], pair: Any, bound: float, *, norm: Norm = 2
) -> None:
    """Assert that a query differs by at most `bound` between two data sets, exactly.

    `query` is a function of the data, without noise, and `pair` two neighboring data sets. `bound`
    and `norm` are as in `assert_norm`. Float sums round: sum integers, or add the rounding error to
    the bound. Raises `Violation` also if a value is not finite, or the answers differ in shape or
    keys, and RuntimeError if the query raised any exception.
    """
    sides = two(pair)
    answers = [called("query", query, data) for data in sides]
    where = f"the query on {sides[0]!r} against {sides[1]!r}"
    labels = [_labels(answer) for answer in answers]
    if labels[0] != labels[1]:
        raise Violation(f"{where}: the answers have shapes {labels[0]} and {labels[1]}.")
    first, second = (_flat(answer) for answer in answers)
    _finite([*first, *second], where)
    gaps = [Fraction(b) - Fraction(a) for a, b in zip(first, second, strict=True)]
    _within(gaps, bound, norm, where)


def _labels(answer: Any) -> Any:
    return sorted(map(repr, answer)) if isinstance(answer, Mapping) else np.shape(answer)


def _flat(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = [value[key] for key in sorted(value, key=repr)]
    # dtype object: in a float array, NumPy would round integers beyond 2^53
    found = np.asarray(value, dtype=object).ravel().tolist()
    return [one.item() if isinstance(one, np.generic) else one for one in found]


def _finite(values: list[Any], where: str) -> None:
    wild = [value for value in values if not math.isfinite(value)]
    if wild:
        raise Violation(f"{where}: {wild[0]!r} is not a finite number.")


def _within(values: list[Any], bound: float, norm: Norm, where: str) -> None:
    checks.refuse_if(norm not in (1, 2, math.inf), "norm", norm, "1, 2 or inf", "Pass one of them.")
    limit = Fraction(checks.real("bound", bound, "Pass the claimed bound.", at_least=0))
    _finite(values, where)
    sizes = [abs(Fraction(value)) for value in values]
    if norm == 2:
        total, limit = sum((size * size for size in sizes), Fraction(0)), limit * limit
    elif norm == 1:
        total = sum(sizes, Fraction(0))
    else:
        total = max(sizes, default=Fraction(0))
    if total > limit:
        excess = float(total / limit - 1) if limit else math.inf
        what = "its square is larger" if norm == 2 else "it is larger"
        what = f"the norm exceeds the bound {bound!r}; {what} by {excess:.3g} (relative)"
        raise Violation(f"{where}: {what}.")


@dataclass
class NoiseTape:
    """A substitute for `numpy.random.Generator` that records draws and returns prescribed noise.

    Normal and Laplace draws are zero, except for one draw of `unit` standard units. Other methods
    use a generator with a fixed seed. `draws` has the kind and the scale of every number drawn.
    """

    unit: float = 0.0
    at: int = -1

    def __post_init__(self) -> None:
        self.draws: list[tuple[str, float]] = []
        self._other = np.random.default_rng(0)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return prescribed Gaussian noise, and record the draw."""
        return self._noise("normal", loc, scale, size)

    def standard_normal(self, size: Any = None) -> Any:
        """Return prescribed Gaussian noise of scale 1, and record the draw."""
        return self._noise("normal", 0.0, 1.0, size)

    def laplace(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Return prescribed Laplace noise, and record the draw."""
        return self._noise("laplace", loc, scale, size)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._other, name)

    def _noise(self, kind: str, loc: Any, scale: Any, size: Any) -> Any:
        shape = np.broadcast_shapes(np.shape(loc), np.shape(scale)) if size is None else size
        scales = np.broadcast_to(np.asarray(scale, dtype=np.float64), shape)
        values = np.zeros(scales.size)
        here = self.at - len(self.draws)
        if 0 <= here < values.size:
            values[here] = self.unit
        self.draws += [(kind, float(one)) for one in scales.ravel()]
        found = np.asarray(loc) + scales * values.reshape(scales.shape)
        return found if found.shape else float(found)


def privacy_parameter(release: Callable[[Any, Any], Any], pair: Any) -> tuple[str, float]:
    """Return the privacy parameter, mu or epsilon, that a release spends on two data sets.

    The outputs are query + J z for noise z, with J J' the same on both data sets. If the query
    moves by D, the cost is mu = the L2 norm of the shortest z with J z = D (Gaussian noise: exact,
    correlated noise included), or epsilon = its L1 norm (Laplace noise, J invertible).
    ``release(data, rng)`` adds noise from ``rng.normal``, ``rng.standard_normal`` or
    ``rng.laplace`` to the query; later steps must be linear. `pair` is two neighboring data sets.
    Return ``("normal", mu)`` or ``("laplace", epsilon)``; infinite if no noise covers the
    difference. Raises `Violation` if the draws, their effect on the output, or its shape depend on
    the data, an output is not a finite number, or no noise was drawn. Raises ValueError if the
    release mixes Gaussian and Laplace noise, does not draw one Laplace variable per output, or is
    not linear in the noise; RuntimeError if it raises.
    """
    sides = two(pair)
    tapes = [NoiseTape(), NoiseTape()]
    plain = [_output(release, data, tape) for data, tape in zip(sides, tapes, strict=True)]
    where = f"the release on {sides[0]!r} against {sides[1]!r}"
    if tapes[0].draws != tapes[1].draws:
        raise Violation(f"{where}: the noise draws depend on the data.")
    if plain[0].shape != plain[1].shape:
        raise Violation(f"{where}: the outputs have sizes {plain[0].size} and {plain[1].size}.")
    _finite([*plain[0].tolist(), *plain[1].tolist()], where)
    draws = tapes[0].draws
    kinds = {kind for kind, _ in draws}
    if not kinds:
        raise Violation(f"{where}: no noise was drawn.")
    remedy = "Audit each part separately."
    checks.refuse_if(len(kinds) > 1, "noise", sorted(kinds), "of one kind", remedy)
    # a large unit, so that the rounding of query + noise is small relative to the noise
    unit = 2.0**20 * max(1.0, *(float(np.abs(one).max(initial=0)) for one in plain))
    columns: tuple[list[Floats], list[Floats]] = ([], [])
    for at in range(len(draws)):
        up, down, other = (
            (_output(release, sides[side], NoiseTape(size, at)) - plain[side]) / size
            for side, size in ((0, unit), (0, -unit / 2), (1, unit))
        )
        bent = float(np.abs(up - down).max(initial=0)) > _LINEAR * float(np.abs(up).max(initial=0))
        if bent or not np.isfinite(up).all():
            remedy = "Audit the release before its nonlinear step."
            raise ValueError(checks.expected("release", release, "linear in its noise", remedy))
        columns[0].append(up)
        columns[1].append(other)
    spread, others = (np.stack(side, axis=1) for side in columns)
    covariance = spread @ spread.T
    size = np.sqrt(covariance.diagonal())
    if not (np.abs(others @ others.T - covariance) <= _LINEAR * np.outer(size, size)).all():
        raise Violation(f"{where}: the use of the noise depends on the data.")
    return kinds.pop(), _loss("laplace" in dict(draws), spread, plain[1] - plain[0])


def _output(release: Callable[[Any, Any], Any], data: Any, tape: NoiseTape) -> Floats:
    return np.asarray(called("release", release, data, tape), dtype=np.float64).ravel()


def _loss(laplace: bool, spread: Floats, moved: Floats) -> float:  # noqa: FBT001
    if not moved.any():
        return 0.0
    shortest, _, rank, _ = np.linalg.lstsq(spread, moved, rcond=1e-10)
    if float(np.abs(spread @ shortest - moved).max()) > _ROUNDING * float(np.abs(moved).max()):
        return math.inf
    if laplace and rank < spread.shape[1]:
        remedy = "Audit the outputs instead."
        raise ValueError(checks.expected("noise", spread.shape, "one draw per output", remedy))
    return float(np.abs(shortest).sum() if laplace else np.linalg.norm(shortest))


def assert_spends(
    release: Callable[[Any, Any], Any],
    pair: Any,
    claim: Mechanism,
    *,
    relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
) -> None:
    """Assert that a release spends no more on a pair of data sets than is claimed.

    Raises `Violation` as `privacy_parameter` does, or if the release spends over 1e-9 (relative,
    for float rounding) more than the claim. Raises `UnsupportedMechanism` unless
    ``notion="gaussian"`` supports the claim of Gaussian noise; Laplace claims need a bounded loss.
    """
    kind, loss = privacy_parameter(release, pair)
    if kind == "normal":
        from privacy.audit.bounds import mu_of

        claimed = mu_of(account(claim, notion="gaussian", relation=relation))
        assert claimed is not None
        name = "mu"
    else:
        claimed, name = account(claim, relation=relation).epsilon(0), "epsilon"
    if not loss <= claimed * (1 + _ROUNDING):
        first, second = two(pair)
        raise Violation(
            f"The release on {first!r} against {second!r} spends {name}={loss:.6g}; {claim!r} "
            f"under {relation} allows {claimed:.6g}."
        )
