"""OpenDP: the mechanism of a measurement."""

import math
from collections.abc import Callable
from typing import Any

from opendp.mod import Measurement

from privacy import checks, mechanisms
from privacy.mechanisms import Mechanism, UnsupportedMechanism, compose, no_op
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

_EPSILONS = [0.0, *(2.0 ** (k / 32) for k in range(-256, 200))]  # read from a profile, up to 75


def from_measurement(
    measurement: Any, d_in: Any, *, relation: NeighboringRelation = ADD_OR_REMOVE_ONE
) -> Mechanism:
    """Return the mechanism that an OpenDP measurement runs.

    Integer Laplace and Gaussian noise and randomized response are recognized, also behind a
    transformation. Other measurements are the claim that their privacy map makes at `d_in`:
    epsilon, rho, (epsilon, delta), approximate zCDP (Bun and Steinke 2016, Definition 8.1) or a
    privacy profile. Raises `UnsupportedMechanism` if the output measure has no counterpart.
    `measurement` is an ``opendp.mod.Measurement``, and `d_in` the distance of neighboring data sets
    in its input metric, under the neighboring relation `relation`.
    """
    relation = checks.relation(relation)
    kind: Any = Measurement  # with types, in some environments
    remedy = "Pass a measurement, such as make_laplace(...)."
    checks.instance("measurement", measurement, kind, "a Measurement", remedy)
    known = _known(measurement, d_in) if relation is ADD_OR_REMOVE_ONE else None
    if known is not None:
        return known
    measure = str(measurement.output_measure)
    read = _MEASURES.get(measure)
    if read is None:
        raise UnsupportedMechanism(
            f"The output measure {measure} has no counterpart. "
            "Convert it with one of OpenDP's combinators."
        )
    return read(measurement.map(d_in), relation)


def _known(measurement: Any, d_in: Any) -> Mechanism | None:
    """Return a mechanism that is known more exactly than by its map, else None."""
    made = getattr(measurement, "__opendp_dict__", {})
    name, given = made.get("__function__"), made.get("__kwargs__", {})
    if name == "make_chain_mt":
        inner, before = given.get("measurement1"), given.get("transformation0")
        return None if inner is None or before is None else _known(inner, before.map(d_in))
    if name == "make_randomized_response":
        epsilon = measurement.map(d_in)
        known = d_in == 1 and 0 < epsilon < math.inf
        return mechanisms.RandomizedResponse(epsilon, len(given["categories"])) if known else None
    kind = _INTEGER_NOISE.get(str(name))
    number = str(measurement.input_domain).startswith("AtomDomain(T=i")
    scale, k = given.get("scale"), given.get("k")
    whole = number and k in (None, 0) and isinstance(d_in, int) and 1 <= d_in <= 10_000
    if kind is None or not whole or not scale:
        return None
    try:
        return kind(scale, d_in)
    except ValueError:  # the noise is outside the domain of this package
        return None


_INTEGER_NOISE: dict[str, Callable[[float, int], Mechanism]] = {
    "make_laplace": mechanisms.DiscreteLaplace,
    "make_geometric": mechanisms.DiscreteLaplace,
    "make_gaussian": mechanisms.DiscreteGaussian,
}


def _pure(epsilon: float, relation: NeighboringRelation) -> Mechanism:
    return mechanisms.PureDP(epsilon, relation) if epsilon else no_op()


def _zcdp(rho: float, relation: NeighboringRelation) -> Mechanism:
    return mechanisms.ZeroConcentratedDP(rho, relation) if rho else no_op()


def _profile(profile: Any, relation: NeighboringRelation) -> Mechanism:
    points = [(epsilon, min(profile.delta(epsilon), 1.0)) for epsilon in _EPSILONS]
    return mechanisms.from_profile(points, relation=relation)


_MEASURES: dict[str, Callable[[Any, NeighboringRelation], Mechanism]] = {
    "MaxDivergence": _pure,
    "ZeroConcentratedDivergence": _zcdp,
    "Approximate(MaxDivergence)": lambda d, relation: (
        mechanisms.ApproximateDP(d[0], d[1], relation) if d[1] else _pure(d[0], relation)
    ),
    "Approximate(ZeroConcentratedDivergence)": lambda d, relation: compose(
        _zcdp(d[0], relation),
        # the release of everything with probability delta
        mechanisms.ApproximateDP(0.0, d[1], relation) if d[1] else no_op(),
    ),
    "SmoothedMaxDivergence": _profile,
}
