"""The delta of a mechanism at an exact epsilon, in ball arithmetic.

Functions return balls that contain the exact value, at the precision of `flint.ctx`. A ball that
could not be computed is NaN or infinite and proves nothing. Callers check `can_prove`.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import TYPE_CHECKING

from flint import arb, ctx

from privacy.certification._coverage import COVERS, Unproven, one_release, record_can_move, releases
from privacy.certification._normal import antipodal_delta, gaussian_delta
from privacy.mechanisms import (
    ApproximateDP,
    Composed,
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
)
from privacy.relations import ADD_OR_REMOVE_ONE, REPLACE_ONE, NeighboringRelation

if TYPE_CHECKING:
    from privacy.certification._contour import Atoms, Part, Sum

_NEAR = 1e-8
_MOST_TERMS, _PER_TERM = 50_000, 80  # of a finite sum, about 0.1 s; more with more work
_SHORT = 10_000_000  # products of an integral that is tried before a sum on a grid
_LARGEST_SUM = 20_000  # the order of a binomial sum
_DIGITS = 60.0  # nats of a moment whose power is taken
_SAMPLED = PoissonSampled | GroupSampled | TruncatedPoisson
_Loss = Callable[[Mechanism, NeighboringRelation], arb]


def at_most(bound: Callable[[arb], arb], delta: float, precisions: tuple[int, ...]) -> float:
    """Return a float between a bound and `delta`, else raise `Unproven`."""
    limit = arb(delta)
    for bits in precisions:
        with ctx.workprec(bits):
            ball = bound(limit)
            if ball <= limit:
                return min(math.nextafter(float(ball.upper()), 1.0), delta)
            # a contour integral has more digits at the second precision, no more after that
            if ball > limit * (1 + arb(_NEAR if bits == precisions[0] else 0)):
                found = f"{float(ball.upper()):.9g}"
                raise Unproven(f"delta is proven to be at most {found}, not {delta:.9g}")
    raise Unproven(f"the intervals are too wide at {precisions[-1]} bits of precision")


def delta_bound(
    notion: str,
    mechanism: Mechanism,
    epsilon: float,
    relation: NeighboringRelation,
    order: float | None,
    size: int,
    limit: arb,
    work: int,
) -> arb:
    """Return an upper bound on delta, tight only above `limit`; `work` limits an integral.

    `order` is the Rényi order of the conversion for ``"rdp"``, else None.
    """
    if notion == "gaussian":
        # Dong, Roth and Su 2022, Theorem 2.14
        return gaussian_delta(arb(epsilon), size * _mu_squared(mechanism, relation).sqrt())
    if size > 1 and notion != "zcdp":

        def one(each: float, share: arb) -> arb:
            return delta_bound(notion, mechanism, each, relation, order, 1, share, work)

        by_order = one if order is None else _by_order(mechanism, relation, order)
        chained = _chained(by_order, epsilon, size, limit)
        if order is not None and COVERS["zcdp"](mechanism, relation):
            # divergences linear in the order also have a group rho
            linear = delta_bound("zcdp", mechanism, epsilon, relation, None, size, limit, work)
            chained = chained.min(linear)
        return chained
    if order is not None:
        return _by_order(mechanism, relation, order)(epsilon, limit)
    if notion != "zcdp":
        if one_release(mechanism, relation):
            return _profile(mechanism, arb(epsilon), relation)
        return _composed_delta(mechanism, arb(epsilon), relation, limit, work)
    # Bun and Steinke 2016, Proposition 1.9
    rho = _total(mechanism, relation, _rho) * size**2
    excess = arb(_best_excess(float(rho), epsilon))
    return _delta_from_divergence((1 + excess) * rho, excess, arb(epsilon))


def _by_order(
    mechanism: Mechanism, relation: NeighboringRelation, order: float
) -> Callable[[float, arb], arb]:
    """Return delta as a function of epsilon (and of an unused limit), from one divergence."""
    divergence = _total(mechanism, relation, partial(_divergence, order))
    return lambda epsilon, _: _delta_from_divergence(divergence, arb(order) - 1, arb(epsilon))


def _chained(delta: Callable[[float, arb], arb], epsilon: float, size: int, limit: arb) -> arb:
    """Return the smallest delta(x) (1 + e^x + ... + e^((size - 1) x)) at some x <= epsilon / size.

    Vadhan 2017, Lemma 2.2, for a chain of `size` neighboring data sets.
    """
    bounds, failed = [], None
    for share in (1.0, 0.75, 0.5, 0.25, 0.0):
        each = share * (epsilon / size)
        if size * Fraction(each) > epsilon:
            each = math.nextafter(each, 0.0)
        gain = (size * arb(each)).expm1() / arb(each).expm1() if each else arb(size)
        try:
            bounds.append(delta(each, limit / gain) * gain)
        except Unproven as error:
            failed = failed or error
    if failed and not bounds:
        raise failed
    return reduce(arb.min, bounds)


def _total(mechanism: Mechanism, relation: NeighboringRelation, leaf: _Loss) -> arb:
    match mechanism:
        case Repeated() | Composed():
            parts = releases(mechanism).items()
            return sum((n * _total(part, relation, leaf) for part, n in parts), arb(0))
        case Parallel():
            return _worst_cell(mechanism, relation, leaf)
    return leaf(mechanism, relation)


def _worst_cell(cells: Parallel, relation: NeighboringRelation, leaf: _Loss) -> arb:
    """Return the loss of the worst cell, or of the worst two if a record can move."""
    parts = dict.fromkeys(cells.parts)
    worst = reduce(arb.max, (_total(part, relation, leaf) for part in parts))
    if not record_can_move(cells, relation):
        return worst
    once = {part: _total(part, ADD_OR_REMOVE_ONE, leaf) for part in parts}
    first = second = arb(0)
    for loss in map(once.__getitem__, cells.parts):
        first, second = first.max(loss), second.max(first.min(loss))
    return worst.max(first + second)


def _shift(mechanism: Gaussian | Laplace, relation: NeighboringRelation) -> arb:
    return arb(mechanism.replace_distance if relation is REPLACE_ONE else 1)


def _mu_squared(mechanism: Mechanism, relation: NeighboringRelation) -> arb:
    """Return mu^2 of the Gaussian that is equivalent to a tree; the worst cell has the largest."""
    return 2 * _total(mechanism, relation, _rho)


# -- privacy profiles: "gaussian" and "approximate" ------------------------------------


def _profile(mechanism: Mechanism, epsilon: arb, relation: NeighboringRelation) -> arb:
    """Return delta of a Gaussian tree or one release, in the worse direction ("One release")."""
    match mechanism:
        case Parallel() if not record_can_move(mechanism, relation):
            parts = dict.fromkeys(mechanism.parts)
            return reduce(arb.max, (_profile(part, epsilon, relation) for part in parts))
        case TruncatedPoisson() | PoissonSampled() | FixedSizeSampled():
            return _sampled_delta(mechanism, epsilon, relation)
        case Laplace():
            # Balle, Barthe and Gaboardi 2018, Theorem 3
            loss = _shift(mechanism, relation) / mechanism.scale
            return (-((epsilon - loss) / 2).expm1()).max(arb(0))
        case RandomizedResponse() | PureDP() | ApproximateDP():
            return _response_delta(epsilon, mechanism)
    return gaussian_delta(epsilon, _mu_squared(mechanism, relation).sqrt())


def _sampled_delta(
    node: TruncatedPoisson | PoissonSampled | FixedSizeSampled,
    epsilon: arb,
    relation: NeighboringRelation,
) -> arb:
    """Return delta of one sample (Balle, Barthe and Gaboardi 2018, Theorems 8 and 9)."""
    inner, level = node.mechanism, epsilon.expm1()
    if isinstance(node, FixedSizeSampled):
        q, mu_squared = _of_batch(node, relation)
        return q * gaussian_delta((level / q).log1p(), mu_squared.sqrt())
    q = arb(node.sampling_probability)
    if isinstance(node, TruncatedPoisson):
        rest, full, share = _truncation(node)
        exchanged = _exchanged(partial(_profile, inner, (level / share).log1p()), relation)
        added = PoissonSampled(inner, sampling_probability=node.sampling_probability)
        return full * share * exchanged + rest * _profile(added, epsilon, relation)
    if relation is REPLACE_ONE:
        return antipodal_delta(epsilon, q, _mu_squared(inner, ADD_OR_REMOVE_ONE))
    return q * _profile(inner, (level / q).log1p(), relation)


def _truncation(node: TruncatedPoisson) -> tuple[arb, arb, arb]:
    """Return P(|S| < B), P(|S| >= B) and q' (docs/theory/samplers.md)."""
    q, size, others = arb(node.sampling_probability), node.max_batch_size, node.records
    others -= size
    full, cut = (q.beta_lower(k, others, regularized=True) for k in (size, size + 1))
    rest = (1 - q).beta_lower(others, size, regularized=True)
    return rest, full, size * cut / (full * node.records)


def _of_batch(node: FixedSizeSampled, relation: NeighboringRelation) -> tuple[arb, arb]:
    """Return q and mu^2 of the worst record in the batch."""
    worst = _exchanged(partial(_mu_squared, node.mechanism), relation)
    return arb(node.batch_size) / node.records, worst


def _exchanged(loss: Callable[[NeighboringRelation], arb], relation: NeighboringRelation) -> arb:
    """Return the worst of a record and one that may take its place in a batch."""
    return reduce(arb.max, map(loss, {REPLACE_ONE, relation} - {ADD_OR_REMOVE_ONE}))


def _composed_delta(
    mechanism: Mechanism, epsilon: arb, relation: NeighboringRelation, limit: arb, work: int
) -> arb:
    """Return a bound for a composition, in the worse direction; `kept`: that no claim fails."""
    counts = releases(mechanism)
    if any(isinstance(part, RandomAllocation) for part in counts):
        return _allocated_delta(mechanism, epsilon, relation, limit, work)
    whole = sum(counts.values())
    share = (epsilon / whole).lower()
    basic = arb("inf")
    if not any(isinstance(part, GroupSampled) for part in counts):
        basic = sum((n * _profile(part, share, relation) for part, n in counts.items()), arb(0))
    if basic <= limit or (whole == 1 and basic.is_finite()):
        return basic
    from privacy.certification import _contour, _laplace  # they import numpy

    kept, squared, parts, simple = arb(1), arb(0), [], []
    for part, n in counts.items():
        if isinstance(part, Gaussian | Parallel):
            squared += n * _mu_squared(part, relation)
        else:
            parts.append((_losses(part, relation), n))
        kept *= (1 - _failure(part)) ** n
        match part:
            case Laplace():
                simple.append((_shift(part, relation) / part.scale, n, True))
            case PureDP() | ApproximateDP() | RandomizedResponse(categories=2):
                simple.append((arb(part.epsilon), n, False))
    terms = whole * math.prod(n + 1 for n in counts.values())
    if len(simple) == len(counts) and terms <= max(_MOST_TERMS, work // _PER_TERM):
        return (1 - kept + kept * _laplace.delta(simple, epsilon)).min(basic)
    least = (limit - (1 - kept)) / kept
    if not least > 0:
        raise Unproven("the composed deltas of the claims exceed delta")
    both = any(isinstance(part, _SAMPLED) for part in counts)
    sums = [
        _contour.Sum(tuple((losses(way), n) for losses, n in parts), squared)
        for way in _ways(relation)[: None if both else 1]
    ]
    return (1 - kept + kept * _worst(sums, epsilon, least, work)).min(basic)


def _worst(sums: "Sequence[Sum]", epsilon: arb, least: arb, work: int) -> arb:
    """Return delta in the worst direction; on a grid if too much Laplace noise has atoms."""
    from privacy.certification import _laplace, _lattice, _split

    parts = sums[0].parts
    noise = [(one, n) for one, n in parts if isinstance(one, _laplace.SampledLaplace)]
    alone = len(noise) == len(parts) and sums[0].mu_squared == 0
    most = min(work, _SHORT) if alone else work
    try:
        return reduce(arb.max, (_split.delta(each, epsilon, least, most) for each in sums))
    except Unproven:
        if not alone:
            raise
    return _lattice.delta([(_lattice.laplace(one, n, work), n) for one, n in noise], epsilon, work)


def _allocated_delta(
    mechanism: Mechanism, epsilon: arb, relation: NeighboringRelation, limit: arb, work: int
) -> arb:
    """Return a bound for random allocations and Gaussians: of known steps, or on a grid."""
    known = gaussian_delta(epsilon, _mu_squared(mechanism, relation).sqrt())
    if known <= limit:
        return known
    from privacy.certification import _lattice

    parts = [
        (_lattice.allocated(_mu_squared(part, relation), getattr(part, "steps", 1), work), n)
        for part, n in releases(mechanism).items()
    ]
    return _lattice.delta(parts, epsilon, work)


def _failure(part: Mechanism) -> arb:
    """Return the probability that a claim fails (docs/theory/contour.md, "Claims")."""
    if isinstance(part, PoissonSampled):
        return arb(part.sampling_probability) * _failure(part.mechanism)
    return arb(part.delta if isinstance(part, ApproximateDP) else 0)


def _ways(relation: NeighboringRelation) -> tuple[str, ...]:
    return ("replace",) if relation is REPLACE_ONE else ("remove", "add")


def _losses(part: Mechanism, relation: NeighboringRelation) -> "Callable[[str], Part]":
    """Return the loss of a part, other than a Gaussian, as a function of the direction."""
    from privacy.certification import _contour, _laplace, _mixtures

    match part:
        case PoissonSampled(mechanism=Laplace() as inner) | (Laplace() as inner):
            q = arb(part.sampling_probability if isinstance(part, PoissonSampled) else 1)
            return partial(_laplace.SampledLaplace, _shift(inner, relation) / inner.scale, q)
        case RandomizedResponse() | PureDP() | ApproximateDP():
            return partial(_atoms, part, arb(1))
        case PoissonSampled(mechanism=RandomizedResponse() | PureDP() | ApproximateDP() as inner):
            return partial(_atoms, inner, arb(part.sampling_probability))
        case FixedSizeSampled():
            q, mu_squared = _of_batch(part, relation)
            return partial(_contour.mirrored, mu_squared, q)
        case TruncatedPoisson():
            return _truncated(part, relation)
        case PoissonSampled() | GroupSampled():
            # a replaced record moves the antipodal pair's means by 1, as an added one does
            once = ADD_OR_REMOVE_ONE if relation is REPLACE_ONE else relation
            size = part.size if isinstance(part, GroupSampled) else 1
            shares = _binomial(part.sampling_probability, size)
            return partial(_mixtures.Mixture, _mu_squared(part.mechanism, once), shares)
    raise TypeError(f"{part!r} has no moments.")  # `can_prove` refuses it


def _truncated(node: TruncatedPoisson, relation: NeighboringRelation) -> "Callable[[str], Part]":
    """Return the loss of an added or an exchanged record (docs/theory/samplers.md)."""
    from privacy.certification import _contour, _laplace, _mixtures

    moved: Callable[[str], Part]
    inner, chance = node.mechanism, node.sampling_probability
    rest, full, share = _truncation(node)
    if isinstance(inner, Laplace):
        moved = partial(_laplace.SampledLaplace, _shift(inner, REPLACE_ONE) / inner.scale, share)
    else:
        mu_squared = _exchanged(partial(_mu_squared, inner), relation)
        moved = partial(_contour.mirrored, mu_squared, share)
        if relation is ADD_OR_REMOVE_ONE:
            moved = partial(_mixtures.Mixture, mu_squared, (1 - share, share))
    if chance == 1:
        return moved
    added = _losses(PoissonSampled(inner, sampling_probability=chance), relation)
    return lambda way: _contour.Mixed((rest, full), (added(way), moved(way)))


def _binomial(q: float, size: int) -> tuple[arb, ...]:
    rest = 1 - arb(q)
    return tuple(math.comb(size, j) * arb(q) ** j * rest ** (size - j) for j in range(size + 1))


def _atoms(claim: RandomizedResponse | PureDP | ApproximateDP, q: arb, way: str) -> "Atoms":
    """Return randomized response on a Poisson sample; it dominates the claim unless that fails."""
    from privacy.certification._contour import Atoms

    odds, others = arb(claim.epsilon), _categories(claim) - 1
    truth = 1 / (1 + others * (-odds).exp())
    lie = truth * (-odds).exp()
    pairs = [(truth, odds), (lie, -odds), ((others - 1) * lie, arb(0))]
    found = []
    for p, loss in pairs:
        if p > 0:
            without = p * (-loss).exp()
            mixed = (q * loss.expm1()).log1p()
            removed = way != "add"
            found.append((without * mixed.exp(), mixed) if removed else (without, -mixed))
    return Atoms(*zip(*found, strict=True))


def _response_delta(epsilon: arb, mechanism: RandomizedResponse | PureDP | ApproximateDP) -> arb:
    """Return d + (1 - d) (e^c - e^epsilon) / (e^c + k - 1) if epsilon < c, else d.

    c is the epsilon of the mechanism, d its delta, and k its number of categories, 2 for a claim
    (Kairouz, Oh and Viswanath 2015; docs/theory/contour.md).
    """
    claim = arb(mechanism.epsilon)
    failed = _failure(mechanism)
    truth = 1 / (1 + (_categories(mechanism) - 1) * (-claim).exp())
    return failed + (1 - failed) * (-truth * (epsilon - claim).expm1()).max(arb(0))


def _categories(mechanism: RandomizedResponse | PureDP | ApproximateDP) -> int:
    return mechanism.categories if isinstance(mechanism, RandomizedResponse) else 2


# -- moments: "zcdp" and "rdp" ----------------------------------------------------------


def _delta_from_divergence(divergence: arb, excess: arb, epsilon: arb) -> arb:
    """Return the delta of Canonne, Kamath and Steinke 2020, Proposition 12; excess = a - 1."""
    order = 1 + excess
    return (excess * (divergence - epsilon) + excess * excess.log() - order * order.log()).exp()


def _best_excess(rho: float, epsilon: float) -> float:
    """Return nearly the best a - 1: the root of (2a - 1) rho - epsilon + log(1 - 1/a)."""
    low, high = 1e-300, 1e300
    for _ in range(80):
        middle = math.sqrt(low) * math.sqrt(high)
        if (2 * middle + 1) * rho - math.log1p(1 / middle) < epsilon:
            low = middle
        else:
            high = middle
    return high


def _rho(mechanism: Mechanism, relation: NeighboringRelation) -> arb:
    """Return rho of one release: the supremum over orders of its divergence / order.

    For a Gaussian mu^2 / 2 (Bun and Steinke 2016, Proposition 1.6). For a pure claim and Laplace
    noise the Kullback-Leibler divergence: epsilon tanh(epsilon / 2), and d - 1 + e^-d at d scales.
    """
    match mechanism:
        case RandomAllocation(mechanism=inner):
            return _total(inner, relation, _rho)  # of known steps (joint convexity)
        case ZeroConcentratedDP():
            return arb(mechanism.rho)
        case Gaussian():
            mu = _shift(mechanism, relation) / mechanism.noise_multiplier
            return mu * mu / 2
        case Laplace():
            loss = _shift(mechanism, relation) / mechanism.scale
            return loss + (-loss).expm1()
        case PureDP() | RandomizedResponse():
            claim = arb(mechanism.epsilon)
            return claim * (claim / 2).tanh()
    raise TypeError(f"{mechanism!r} has no rho.")  # `can_prove` refuses it


def _divergence(order: float, mechanism: Mechanism, relation: NeighboringRelation) -> arb:
    """Return the Rényi divergence of one release at `order`, in the worse direction.

    Sampled Gaussians at whole orders: Mironov, Talwar and Zhang 2019, Section 3.3.
    Laplace, and responses with two categories: Mironov 2017, Propositions 5 and 6.
    """
    a = arb(order)
    match mechanism:
        case Gaussian() | ZeroConcentratedDP() | RandomAllocation():
            return a * _rho(mechanism, relation)
        case PoissonSampled(mechanism=inner, sampling_probability=q) if (
            order.is_integer() and order <= _LARGEST_SUM and _removing_is_worse(mechanism, relation)
        ):
            power = _binomial_moment(int(order), arb(q), _mu_squared(inner, relation))
        case PoissonSampled() | GroupSampled() | TruncatedPoisson() | FixedSizeSampled():
            from privacy.certification._split import moment as largest

            ways = _ways(relation)[: 1 if _removing_is_worse(mechanism, relation) else 2]
            parts = map(_losses(mechanism, relation), ways)
            power = reduce(arb.max, (largest(part, order - 1, _DIGITS) for part in parts))
        case Laplace():
            loss = _shift(mechanism, relation) / mechanism.scale
            power = (a * ((a - 1) * loss).exp() + (a - 1) * (-a * loss).exp()) / (2 * a - 1)
        case PureDP() | RandomizedResponse():
            k, odds = _categories(mechanism), arb(mechanism.epsilon)
            power = ((a * odds).exp() + ((1 - a) * odds).exp() + (k - 2)) / (odds.exp() + (k - 1))
    return power.log() / (a - 1)


def _removing_is_worse(sample: Mechanism, relation: NeighboringRelation) -> bool:
    """Return whether it is sampled Gaussians (Mironov, Talwar and Zhang 2019, Theorem 5)."""
    if not isinstance(sample, PoissonSampled) or relation is REPLACE_ONE:
        return False
    return COVERS["gaussian"](sample.mechanism, relation)


def _binomial_moment(order: int, q: arb, mu_squared: arb) -> arb:
    """Return sum_k C(a, k) (1 - q)^(a - k) q^k e^(k (k - 1) mu^2 / 2), a = order."""
    ratio, growth, term = q / (1 - q), mu_squared.exp(), (1 - q) ** order
    total = term
    for k in range(order):
        term *= ratio * (order - k) / (k + 1)
        total, ratio = total + term, ratio * growth
    return total
