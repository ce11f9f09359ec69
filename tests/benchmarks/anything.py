"""Plans of every kind: two methods and another library against each other, and stated limits."""

import functools
import math
import random
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as losses

import privacy as dp
from privacy.notions.privacy_loss import LossCurve

_THEIR_STEP = 1e-3  # of the other library's grid
_ROUNDING = 1e-9  # relative, of a delta
_Row = tuple[str, float] | tuple[str, float, str] | tuple[str, float, str, float]


def random_plan(rng: random.Random) -> dp.Mechanism:
    """Return one to four kinds of releases, each up to 100 times."""
    parts = [
        dp.repeat(rng.choice(KINDS)(rng), round(math.exp(rng.uniform(0, math.log(100)))))
        for _ in range(rng.randint(1, 4))
    ]
    return dp.compose(*parts) if len(parts) > 1 else parts[0]


def spread(rng: random.Random, low: float, high: float) -> float:
    """Return a number that is even in its log."""
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def thinned(mechanism: dp.Mechanism, rng: random.Random) -> dp.Mechanism:
    return dp.PoissonSampled(mechanism, sampling_probability=spread(rng, 1e-3, 0.5))


def random_pmfs(rng: random.Random) -> dp.Mechanism:
    """Return two mass functions of three to six outputs, some of them with zeros."""
    size = rng.randint(3, 6)
    p, q = ([rng.random() + 0.3 for _ in range(size)] for _ in range(2))
    if rng.random() < 0.5:
        q[0] = 0.0
        p[0] = spread(rng, 1e-9, 1e-3)
    return dp.from_pmfs([x / math.fsum(p) for x in p], [x / math.fsum(q) for x in q])


KINDS = (
    lambda rng: dp.Gaussian(spread(rng, 0.8, 30)),
    lambda rng: thinned(dp.Gaussian(spread(rng, 0.6, 10)), rng),
    lambda rng: dp.Laplace(spread(rng, 0.8, 30)),
    lambda rng: thinned(dp.Laplace(spread(rng, 0.5, 10)), rng),
    lambda rng: dp.DiscreteLaplace(spread(rng, 1, 30), sensitivity=rng.randint(1, 4)),
    lambda rng: dp.RandomizedResponse(spread(rng, 0.02, 2), rng.randint(2, 20)),
    lambda rng: dp.PureDP(spread(rng, 0.02, 1)),
    lambda rng: dp.ApproximateDP(spread(rng, 0.02, 1), spread(rng, 1e-12, 1e-8)),
    lambda rng: thinned(dp.PureDP(spread(rng, 0.02, 2)), rng),
    lambda rng: dp.user_level(thinned(dp.Gaussian(spread(rng, 1, 10)), rng), max_contributions=3),
    random_pmfs,
)


class Comparison(NamedTuple):
    """The largest violations over some plans; all are to be <= 0 but the last.

    Attributes
    ----------
    outside
        Relative distance of the contour's delta from the bracket of "pld", at its epsilon.
    under
        By how much an epsilon is below the optimistic one of the other library.
    over
        By how much an epsilon is above its pessimistic one.
    width
        The largest relative width of a bracket.
    """

    outside: float = -math.inf
    under: float = -math.inf
    over: float = -math.inf
    width: float = 0.0

    def and_(self, other: "Comparison") -> "Comparison":
        return Comparison(*map(max, self, other))


def compare(plan: dp.Mechanism, delta: float, *, peers: bool) -> Comparison:
    """Compare the methods on one plan; `peers` includes the other library."""
    curve = dp.account(plan, notion="pld")
    assert isinstance(curve, LossCurve)
    epsilon = curve.epsilon(delta)
    outside, width = -math.inf, 0.0
    if 0 < epsilon < math.inf and curve._closed_form is None:
        lower, upper = map(math.exp, curve.bracket(epsilon))
        width = upper / lower - 1 if lower else math.inf
        try:
            found = dp.account(plan, notion="contour").answer(epsilon=epsilon)
        except dp.UnsupportedMechanism:
            pass
        else:
            least = found.value / (1 + found.error)
            outside = max(lower / found.value, least / upper, least / delta) - 1 - _ROUNDING
    if not peers:
        return Comparison(outside, width=width)
    ours = dp.account(plan).epsilon(delta)
    low, high = (
        theirs(plan, pessimistic=way).get_epsilon_for_delta(delta) for way in (False, True)
    )
    return Comparison(outside, low - min(ours, epsilon), max(ours, epsilon) - high, width)


def theirs(plan: dp.Mechanism, *, pessimistic: bool) -> Any:
    """Return the other library's distribution of the privacy loss of a plan."""
    parts = getattr(plan, "parts", (plan,))
    counted = [
        (getattr(p, "mechanism", p), p.count) if hasattr(p, "count") else (p, 1) for p in parts
    ]
    each = []
    for part, count in counted:
        one = their_part(part, pessimistic=pessimistic)
        each.append(one.self_compose(count) if count > 1 else one)
    return functools.reduce(lambda one, other: one.compose(other), each)


def their_part(part: Any, *, pessimistic: bool) -> Any:
    options = {
        "pessimistic_estimate": pessimistic,
        "value_discretization_interval": _THEIR_STEP,
        "use_connect_dots": pessimistic,
    }
    atoms = {key: options[key] for key in list(options)[:2]}
    q, inner = 1.0, part
    if isinstance(part, dp.PoissonSampled):
        q, inner = part.sampling_probability, part.mechanism
    match inner:
        case dp.Gaussian():
            return losses.from_gaussian_mechanism(
                inner.noise_multiplier, sampling_prob=q, **options
            )
        case dp.Laplace():
            return losses.from_laplace_mechanism(inner.scale, sampling_prob=q, **options)
        case dp.DiscreteLaplace():
            return losses.from_discrete_laplace_mechanism(
                1 / inner.scale, inner.sensitivity, **options
            )
    if type(part).__name__ == "GroupSampled":
        j = range(part.size + 1)
        weight = [
            math.comb(part.size, k)
            * part.sampling_probability**k
            * (1 - part.sampling_probability) ** (part.size - k)
            for k in j
        ]
        return losses.from_mixture_gaussian_mechanism(
            part.mechanism.noise_multiplier, list(j), weight, **options
        )
    p, r = mass_functions(inner)
    mixed = (1 - q) * r + q * p
    upper, lower = (
        {k: math.log(x) for k, x in enumerate(law.tolist()) if x > 0} for law in (mixed, r)
    )
    remove = losses.from_two_probability_mass_functions(lower, upper, **atoms)
    add = losses.from_two_probability_mass_functions(upper, lower, **atoms)
    return losses.PrivacyLossDistribution(remove._pmf_remove, add._pmf_remove)


def mass_functions(part: Any) -> tuple[Any, Any]:
    """Return the output probabilities with and without the record, by definition."""
    match part:
        case dp.FiniteMechanism():
            return np.array(part.p), np.array(part.q)
        case dp.RandomizedResponse():
            law = np.ones(part.categories)
            law[0] = math.exp(part.epsilon)
            return law / law.sum(), np.roll(law, 1) / law.sum()
        case dp.PureDP():
            law = np.array([math.exp(part.epsilon), 1.0]) / (1 + math.exp(part.epsilon))
            return law, law[::-1]
        case dp.ApproximateDP():
            law = np.array([math.exp(part.epsilon), 1.0]) / (1 + math.exp(part.epsilon))
            law = np.array([part.delta, 0, *((1 - part.delta) * law)])
            return law, np.array([0, part.delta, law[3], law[2]])
    raise NotImplementedError(part)


def _run(steps: int = 3516) -> dp.Mechanism:
    step = dp.PoissonSampled(dp.Gaussian(1.1), sampling_probability=256 / 60000)
    return dp.repeat(step, steps)


def _responses_and_noise() -> dp.Mechanism:
    return dp.compose(dp.repeat(dp.RandomizedResponse(1.0), 20), dp.repeat(dp.Gaussian(3.0), 20))


def stated_plans() -> Iterator[tuple[str, dp.Mechanism, float, float]]:
    """Yield a name, a plan, a delta, and the largest epsilon that is accepted."""
    rare = dp.PoissonSampled(dp.Gaussian(0.498), sampling_probability=0.0262)
    ten = dp.repeat(dp.RandomizedResponse(1.0, categories=10), 20)
    claim = dp.ApproximateDP(0.1, 1e-7)
    readme = dp.compose(dp.repeat(dp.Gaussian(10.0), 3), dp.PureDP(0.1))
    yield "plan of the README", readme, 1e-6, 0.7895
    yield "pure claim and training run", dp.compose(dp.PureDP(0.1), _run()), 1e-5, 1.1878
    yield "approximate claim and noise", dp.compose(claim, dp.Gaussian(5.0)), 1e-5, 0.7939
    yield "approximate claim and run", dp.compose(claim, _run()), 1e-5, 1.1886
    yield "20 responses and 20 Gaussians", _responses_and_noise(), 1e-5, 24.40
    many = dp.repeat(dp.RandomizedResponse(0.5, categories=100), 30)
    yield "30 responses of 100 categories", many, 1e-6, 2.8565
    yield "noise and ten-category responses", dp.compose(dp.Gaussian(3.0), ten), 1e-6, 14.112
    yield "pure claim and a rare sample", dp.compose(dp.PureDP(0.46), rare), 1e-3, 1.7002


def distinct_parts(count: int) -> Iterator[tuple[str, dp.Mechanism]]:
    """Yield plans of `count` different parts."""
    scale = [1 + k / count for k in range(count)]
    yield "pure claims", dp.compose(*(dp.PureDP(0.01 * x) for x in scale))
    noise = [dp.Gaussian(20.0)]
    yield "pure claims and noise", dp.compose(*noise, *(dp.PureDP(0.01 * x) for x in scale))
    yield "Laplace", dp.compose(*(dp.Laplace(50 * x) for x in scale))


def stated_figures() -> Iterator[_Row]:
    """Yield epsilon, CPU time and memory of the plans with a stated limit."""
    for name, plan, delta, limit in stated_plans():
        dp.account(plan).epsilon(delta * 1.01)  # imports
        start = time.process_time()
        found = dp.account(plan).epsilon(delta)
        spent = 1e3 * (time.process_time() - start)
        yield f"{name}, epsilon", found, "", limit
        yield f"{name}, by pld", dp.account(plan, notion="pld").epsilon(delta), "", limit
        yield f"{name}, time", spent, "ms", 20.0
    for notion in ("contour", "pld"):
        found = dp.account(_responses_and_noise(), notion=notion).epsilon(1e-6)
        yield f"20 responses and 20 Gaussians at 1e-6, by {notion}", found
    for name, plan in distinct_parts(10_000):
        start = time.process_time()
        found = dp.account(plan).epsilon(1e-6)
        spent = time.process_time() - start
        tracemalloc.start()  # slows down many times
        dp.account(plan).epsilon(1.01e-6)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield f"10,000 {name}, epsilon", found
        yield f"10,000 {name}, time", spent, "s", 2.0
        yield f"10,000 {name}, memory", peak / 1e6, "MB", 200.0


def random_figures(plans: int, peers: int, seed: int) -> Iterator[_Row]:
    """Yield the largest violations over random plans; the first `peers` with the other library."""
    rng = random.Random(seed)
    worst = Comparison()
    for turn in range(plans):
        plan, delta = random_plan(rng), 10 ** rng.uniform(-8, -3)
        worst = worst.and_(compare(plan, delta, peers=turn < peers))
    yield f"contour outside of the bracket, {plans} plans", worst.outside, "", 0.0
    yield f"below the optimistic epsilon, {peers} plans", worst.under, "", 1e-9
    yield f"above the pessimistic epsilon, {peers} plans", worst.over, "", 1e-4
    yield "largest relative width of a bracket", worst.width


def figures(plans: int = 1000, peers: int = 100, seed: int = 2026) -> Iterator[_Row]:
    """Yield all figures."""
    yield from stated_figures()
    yield from random_figures(plans, peers, seed)
