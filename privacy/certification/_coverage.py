"""Which mechanism trees have a formula in `privacy.certification._bounds`."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from privacy.mechanisms import (
    ApproximateDP,
    Composed,
    CyclicPoisson,
    Epochs,
    FixedSizeSampled,
    Gaussian,
    GroupSampled,
    Laplace,
    Mechanism,
    Parallel,
    PoissonSampled,
    PureDP,
    RandomAllocation,
    RandomizedResponse,
    Repeated,
    TruncatedPoisson,
    ZeroConcentratedDP,
    needs_largest_count,
)
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation


class Unproven(ArithmeticError):
    """Why there is no proof, in words."""


_LARGEST_GROUP = 64  # records, the number of terms of each density
Covers = Callable[[Mechanism, NeighboringRelation], bool]


def plain(mechanism: Mechanism, relation: NeighboringRelation) -> Mechanism:
    """Return the tree with plain nodes for samplers that cost as much.

    The other batches of an epoch do not depend on the record. Several participations are one in
    each of several blocks of steps (joint convexity).
    """
    match mechanism:
        case Repeated():
            return replace(mechanism, mechanism=plain(mechanism.mechanism, relation))
        case Composed():
            return replace(mechanism, parts=tuple(plain(p, relation) for p in mechanism.parts))
        case Epochs(mechanism=Gaussian() | Laplace() | PoissonSampled() as inner):
            return mechanism if relation is ADD_OR_REMOVE_ONE else inner
        case FixedSizeSampled(batch_size=size, replacement=False) if size == mechanism.records:
            mechanism = mechanism if relation is ADD_OR_REMOVE_ONE else mechanism.mechanism
        case CyclicPoisson() if _gaussian(mechanism.mechanism, relation):
            q = mechanism.sampling_probability
            once = PoissonSampled(mechanism.mechanism, sampling_probability=q)
            return Repeated(once, -(-mechanism.steps // mechanism.groups))
        case RandomAllocation(mechanism=inner, participations=k) if _gaussian(inner, relation):
            size, longer = divmod(mechanism.steps, k)
            found = []
            for steps, n in ((size, k - longer), (size + 1, longer)):
                one = RandomAllocation(inner, steps) if steps > 1 else inner
                found += [Repeated(one, n * mechanism.epochs)] if n else []
            return Composed(tuple(found))
    return mechanism


def record_can_move(cells: Parallel, relation: NeighboringRelation) -> bool:
    return relation is REPLACE_ONE and cells.cells == "by_record"


def _relations_inside(
    node: Parallel | PoissonSampled, relation: NeighboringRelation
) -> set[NeighboringRelation]:
    """Return the relations under which the parts must be private.

    A zeroed or replaced record may leave a cell that depends on it, or may not be sampled. Then
    the parts run with and without the record, which a claim for another relation does not cover.
    """
    alone = isinstance(node, Parallel) and node.cells != "by_record"
    return {relation} if alone else {relation, ADD_OR_REMOVE_ONE}


def _trees_of(covers: Covers) -> Covers:
    """Return a test that every leaf of a tree is covered, under every relation that it needs."""

    def every(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
        match mechanism:
            case Repeated() | Composed():
                return all(every(part, relation) for part in releases(mechanism))
            case Parallel():
                if record_can_move(mechanism, relation) and needs_largest_count(mechanism):
                    return False
                used = _relations_inside(mechanism, relation)
                return all(every(part, each) for part in mechanism.parts for each in used)
        return covers(mechanism, relation)

    return every


@_trees_of
def _gaussian(mechanism: Mechanism, _: NeighboringRelation) -> bool:
    return isinstance(mechanism, Gaussian)


@_trees_of
def _at_most_gaussian(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    """Return whether every leaf is a Gaussian, at most so if the steps of a record are known."""
    known = isinstance(mechanism, RandomAllocation) and relation is not REPLACE_ONE
    return known or isinstance(mechanism, Gaussian)


@_trees_of
def _antipodal(mechanism: Mechanism, _: NeighboringRelation) -> bool:
    return isinstance(mechanism, Gaussian) and mechanism.replace_distance == 2


def _is_concentrated(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    match mechanism:
        case Gaussian() | Laplace() | RandomizedResponse(categories=2):
            return True
        case RandomAllocation():
            return relation is not REPLACE_ONE
        case PureDP() | ZeroConcentratedDP():
            return mechanism.relation is relation
    return False


def _has_divergence(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    match mechanism:
        case PoissonSampled(mechanism=ApproximateDP()):
            return False
        case PoissonSampled() | GroupSampled() | TruncatedPoisson() | FixedSizeSampled():
            return _composed(mechanism, relation)
        case RandomizedResponse():
            return True
    return _is_concentrated(mechanism, relation)


def one_release(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    match mechanism:
        case PoissonSampled() if relation is REPLACE_ONE:
            return _antipodal(mechanism.mechanism, relation)
        case FixedSizeSampled():
            known = relation is not ADD_OR_REMOVE_ONE and not mechanism.replacement
            return known and _gaussian(mechanism.mechanism, relation)
        case PoissonSampled():
            used = _relations_inside(mechanism, relation)
            sampled = relation is ADD_OR_REMOVE_ONE or mechanism.mechanism.null_is_absent
            return sampled and all(one_release(mechanism.mechanism, each) for each in used)
        case Parallel() if not record_can_move(mechanism, relation):
            used = _relations_inside(mechanism, relation)
            return all(one_release(part, each) for part in mechanism.parts for each in used)
        case Laplace() | RandomizedResponse() | PureDP() | ApproximateDP():
            return getattr(mechanism, "relation", relation) is relation
    return _gaussian(mechanism, relation)


def _sampled(inner: Mechanism, relation: NeighboringRelation) -> bool:
    """Return whether the moments of `inner` on a Poisson sample are in `_contour`."""
    known = Laplace | RandomizedResponse | PureDP | ApproximateDP
    if relation is ADD_OR_REMOVE_ONE and isinstance(inner, known):
        return getattr(inner, "relation", relation) is relation
    return _antipodal(inner, relation) if relation is REPLACE_ONE else _gaussian(inner, relation)


def releases(mechanism: Mechanism) -> Counter[Mechanism]:
    """Return the releases of a composition and their numbers."""
    found: Counter[Mechanism] = Counter()
    match mechanism:
        case Repeated():
            for part, n in releases(mechanism.mechanism).items():
                found[part] = n * mechanism.count
        case Composed():
            for part in mechanism.parts:
                found.update(releases(part))
        case _:
            found[mechanism] = 1
    return found


def _composed(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    """Return whether every part has moments in `_contour`, or all are at most Gaussians."""
    return _at_most_gaussian(mechanism, relation) or all(
        _has_moments(part, relation) for part in releases(mechanism)
    )


def _has_moments(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    match mechanism:
        case TruncatedPoisson():
            claims = RandomizedResponse | PureDP | ApproximateDP
            inner = mechanism.mechanism
            return not isinstance(inner, claims) and _sampled(inner, relation)
        case FixedSizeSampled():
            return one_release(mechanism, relation)
        case PoissonSampled():
            return _sampled(mechanism.mechanism, relation)
        case GroupSampled():
            reached = mechanism.size <= _LARGEST_GROUP and relation is not REPLACE_ONE
            return reached and _gaussian(mechanism.mechanism, relation)
        case Laplace() | RandomizedResponse() | PureDP() | ApproximateDP():
            return getattr(mechanism, "relation", relation) is relation
    return _gaussian(mechanism, relation)


def _approximate(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    kinds = PureDP | ApproximateDP | RandomizedResponse | RandomAllocation | TruncatedPoisson
    claims = all(isinstance(part, kinds) for part in releases(mechanism))
    return one_release(mechanism, relation) or (claims and _composed(mechanism, relation))


def _contour(mechanism: Mechanism, relation: NeighboringRelation) -> bool:
    return one_release(mechanism, relation) or _composed(mechanism, relation)


COVERS: dict[str, Covers] = {
    "approximate": _approximate,
    "contour": _contour,
    "gaussian": _at_most_gaussian,
    "pld": _contour,
    "rdp": _trees_of(_has_divergence),
    "zcdp": _trees_of(_is_concentrated),
}
