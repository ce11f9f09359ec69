"""Lower bounds on the true delta of random small instances of every mechanism, in ball arithmetic.

Each instance is a pair of neighboring data sets and their outputs. For any set S of outputs,
P(S) - e^epsilon Q(S) is at most delta. No pair, curve or profile of `privacy` is used here.
"""

import itertools
import math

import numpy as np
from flint import arb, ctx

import privacy as dp
from privacy.accounting import NOTION_MODULES
from tests.reference.enumeration import tree_change

ADD, REPLACE, SPECIAL = dp.NeighboringRelation
BITS = 128  # of the balls
MOST = 700  # outputs of a composition
KINDS = {}


def kind(name):
    """Register a generator of instances (mechanism, relation, truth) of a mechanism."""

    def register(function):
        KINDS[name] = function
        return function

    return register


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(math.log(low), math.log(high))))


# -- the truth: a function of epsilon that returns a lower bound on delta -------------------


def enumerated(*worlds):
    """Return the truth of lists of (P, Q) of single outputs, one list a pair of data sets."""

    def truth(epsilon):
        grown = arb(epsilon).exp()
        found = arb(0)
        for outputs in worlds:
            for side in (outputs, [(q, p) for p, q in outputs]):
                gaps = (p - grown * q for p, q in side)
                total = sum((gap for gap in gaps if gap > 0), arb(0))
                found = max(found, total)
        return found.lower()

    return truth


def product(*parts):
    """Return the outputs of several independent releases."""
    found = [(arb(1), arb(1))]
    for part in parts:
        found = [(p * a, q * b) for p, q in found for a, b in part]
    return found


def normal(x):
    """Return P(N(0, 1) <= x)."""
    return (-x / arb(2).sqrt()).erfc() / 2


def double_exponential(x):
    """Return P(Laplace(1) <= x)."""
    return x.exp() / 2 if x < 0 else 1 - (-x).exp() / 2


def binned(p, q, edges):
    """Return the outputs of two distribution functions, cut into intervals."""
    sides = []
    for law in (p, q):
        values = [arb(0), *(law(arb(x)) for x in edges), arb(1)]
        sides.append([b - a for a, b in itertools.pairwise(values)])
    return list(zip(*sides, strict=True))


def mixture(centers, law, scale=1.0):
    """Return the distribution function of a mixture {center: weight} of noise."""
    return lambda x: sum((w * law((x - c) / scale) for c, w in centers.items()), arb(0))


LAWS = {
    normal: lambda x: np.exp(-x * x / 2),
    double_exponential: lambda x: np.exp(-np.abs(x)),
}


def shifted(first, second, law=normal, scale=1.0):
    """Return the truth of one number with additive noise around two mixtures of centers.

    Intervals of the better outputs are found in floats, and their probabilities in balls.
    """
    first, second = ({float(c): w for c, w in side.items()} for side in (first, second))
    every = [*first, *second]
    reach = 40 if law is double_exponential else 14
    x = np.linspace(min(every) - reach * scale, max(every) + reach * scale, 4001)
    x = np.union1d(x, every)

    def density(centers, at):
        return sum(float(w) * LAWS[law]((at - c) / scale) for c, w in centers.items())

    def truth(epsilon):
        found = arb(0)
        for one, other in ((first, second), (second, first)):

            def is_better(at, one=one, other=other):
                # more than the rounding of the densities, so that intervals are few
                return density(one, at) > math.exp(epsilon) * (1 + 1e-13) * density(other, at)

            inside = np.flatnonzero(np.diff(np.r_[0, is_better(x), 0]))
            p, q = mixture(one, law, scale), mixture(other, law, scale)
            total = arb(0)
            for start, end in inside.reshape(-1, 2):
                low, high = bisected(is_better, start - 1, start), bisected(is_better, end, end - 1)
                total += cut(p, low, high) - arb(epsilon).exp() * cut(q, low, high)
            found = max(found, total)
        return found.lower()

    def bisected(is_better, bad, good):
        """Return the end of an interval; None where the grid ends."""
        if bad in (-1, x.size):
            return None
        bad, good = float(x[bad]), float(x[good])
        while (middle := (bad + good) / 2) not in (bad, good):
            bad, good = (bad, middle) if is_better(middle) else (middle, good)
        return good

    def cut(cdf, low, high):
        top = arb(1) if high is None else cdf(arb(high))
        return top if low is None else top - cdf(arb(low))

    return truth


def gaussians(mu):
    """Return the truth of N(mu, 1) against N(0, 1)."""
    mu = arb(mu)

    def truth(epsilon):
        low, high = epsilon / mu - mu / 2, epsilon / mu + mu / 2
        return (normal(-low) - arb(epsilon).exp() * normal(-high)).lower()

    return truth


# -- outputs of single releases ------------------------------------------------------------


def responses(epsilon, categories=2, delta=0.0):
    """Return randomized response to two records, which fails with probability `delta`."""
    kept, other = arb(epsilon).exp(), arb(1)
    rest = (1 - arb(delta)) / (kept + categories - 1)
    outputs = [(kept * rest, other * rest), (other * rest, kept * rest)]
    outputs += [(rest, rest)] * (categories - 2)
    return [*outputs, (arb(delta), arb(0)), (arb(0), arb(delta))] if delta else outputs


def integers(energy, distance, reach, whole=None):
    """Return integer noise around `distance` and around 0; the outputs beyond are left out."""
    weight = {x: (-energy(abs(x))).exp() for x in range(-reach - distance, reach + distance + 1)}
    whole = sum(weight.values(), arb(0)) if whole is None else whole
    return [
        (weight[x - distance] / whole, weight[x] / whole)
        for x in range(-reach, reach + distance + 1)
    ]


def laplace_integers(scale, distance):
    ratio = (-1 / arb(scale)).exp()
    outputs = [
        (ratio ** abs(x - distance), ratio ** abs(x)) for x in range(1, distance)
    ]  # all outputs beyond have the ratio of the ends
    high, low = 1 / (1 - ratio), ratio**distance / (1 - ratio)
    outputs += [(high, low), (low, high)]
    return [(p * (1 - ratio) / (1 + ratio), q * (1 - ratio) / (1 + ratio)) for p, q in outputs]


def gaussian_integers(sigma, distance):
    energy = lambda x: arb(x) ** 2 / (2 * arb(sigma) ** 2)  # noqa: E731
    return integers(energy, distance, math.ceil(14 * sigma) + 2)


def random_table(rng):
    """Return two random probability mass functions of floats."""
    size = int(rng.integers(3, 6))
    p, q = rng.dirichlet(np.full(size, 0.7), 2) + 1e-3
    if rng.random() < 0.3:
        p[0] = 0
        q[-1] = rng.choice([0.0, q[-1]])
    return [side / side.sum() for side in (p, q)]


def balls(p, q):
    """Return the outputs of two float tables, divided by their sums."""
    sides = [
        [arb(x) / sum(map(arb, side.tolist()), arb(0)) for x in side.tolist()] for side in (p, q)
    ]
    return list(zip(*sides, strict=True))


def sampled(outputs, q):
    """Return the outputs with the record kept with probability q, and without the record."""
    q = arb(q)
    return [(q * p + (1 - q) * r, r) for p, r in outputs]


def random_finite(rng):
    """Return a mechanism with few outputs that noise on a sum has, and its outputs."""
    match int(rng.integers(5)):
        case 0:
            epsilon, categories = log_uniform(rng, 0.01, 4), int(rng.integers(2, 5))
            return dp.RandomizedResponse(epsilon, categories), responses(epsilon, categories)
        case 1:
            scale, distance = log_uniform(rng, 0.2, 5), int(rng.integers(1, 4))
            mechanism = dp.DiscreteLaplace(scale, sensitivity=distance)
            return mechanism, laplace_integers(scale, distance)
        case 2:
            epsilon, delta = log_uniform(rng, 0.01, 3), log_uniform(rng, 1e-9, 0.1)
            return dp.ApproximateDP(epsilon, delta), responses(epsilon, 2, delta)
        case 3:
            p, q = random_table(rng)
            return dp.from_pmfs(p, q), balls(p, q)
    sigma, distance = log_uniform(rng, 0.3, 0.6), int(rng.integers(1, 3))
    return dp.DiscreteGaussian(sigma, sensitivity=distance), gaussian_integers(sigma, distance)


# -- the instances -------------------------------------------------------------------------


@kind("NoOp")
def draw_nothing(rng):
    return dp.no_op(), ADD, enumerated([(arb(1), arb(1))])


@kind("Gaussian")
def draw_gaussian(rng):
    noise, distance = log_uniform(rng, 0.05, 200), float(rng.uniform(0.3, 2))
    mechanism = dp.Gaussian(noise, replace_distance=distance)
    relation = rng.choice([ADD, REPLACE])
    return mechanism, relation, gaussians(arb(distance if relation == REPLACE else 1) / arb(noise))


@kind("Laplace")
def draw_laplace(rng):
    scale = log_uniform(rng, 0.05, 200)
    return dp.Laplace(scale), ADD, shifted({1 / scale: 1}, {0: 1}, double_exponential)


@kind("DiscreteGaussian")
def draw_discrete_gaussian(rng):
    sigma, distance = log_uniform(rng, 0.1, 8), int(rng.integers(1, 6))
    mechanism = dp.DiscreteGaussian(sigma, sensitivity=distance)
    return mechanism, SPECIAL, enumerated(gaussian_integers(sigma, distance))


@kind("DiscreteLaplace")
def draw_discrete_laplace(rng):
    scale, distance = log_uniform(rng, 0.05, 50), int(rng.integers(1, 9))
    mechanism = dp.DiscreteLaplace(scale, sensitivity=distance)
    return mechanism, REPLACE, enumerated(laplace_integers(scale, 2 * distance))


@kind("RandomizedResponse")
def draw_randomized_response(rng):
    epsilon, categories = log_uniform(rng, 1e-4, 20), int(rng.integers(2, 30))
    mechanism = dp.RandomizedResponse(epsilon, categories)
    return mechanism, ADD, enumerated(responses(epsilon, categories))


@kind("PureDP")
def draw_pure_dp(rng):
    """Also report noisy max with integer Laplace noise."""
    if rng.random() < 0.3:
        epsilon = log_uniform(rng, 1e-4, 20)
        return dp.PureDP(epsilon), ADD, enumerated(responses(epsilon))
    scale, steps = log_uniform(rng, 0.5, 3), int(rng.integers(1, 4))  # steps are one sensitivity
    scores = rng.integers(0, 4, 3) * steps
    moved = scores + rng.integers(-1, 2, 3) * steps
    claim = dp.choose([0], dp.Laplace(scale)).mechanism
    here, there = (noisy_max(side.tolist(), scale * steps) for side in (scores, moved))
    return claim, ADD, enumerated(list(zip(here, there, strict=True)))


def noisy_max(scores, scale):
    """Return the probability of each first largest score; at most 2e-17 too small."""
    ratio = (-1 / arb(scale)).exp()

    def at_most(x):
        low = ratio ** (abs(x) + (x >= 0)) / (1 + ratio)
        return 1 - low if x >= 0 else low

    reach = math.ceil(40 * scale)
    found = []
    for i, score in enumerate(scores):
        total = arb(0)
        for x in range(-reach, reach + 1):
            term = ratio ** abs(x) * (1 - ratio) / (1 + ratio)
            for j, other in enumerate(scores):
                if j != i:
                    term *= at_most(score + x - other - (j < i))
            total += term
        found.append(total + arb(0, 2e-17))
    return found


@kind("ApproximateDP")
def draw_approximate_dp(rng):
    epsilon, delta = log_uniform(rng, 1e-3, 8), log_uniform(rng, 1e-12, 0.9)
    return dp.ApproximateDP(epsilon, delta), ADD, enumerated(responses(epsilon, 2, delta))


@kind("ZeroConcentratedDP")
def draw_zero_concentrated_dp(rng):
    rho = log_uniform(rng, 1e-5, 20)
    return dp.ZeroConcentratedDP(rho), ADD, gaussians((2 * arb(rho)).sqrt())


def weights(scores, rate):
    """Return the probabilities of the exponential mechanism."""
    each = [(rate * score).exp() for score in scores]
    whole = sum(each, arb(0))
    return [one / whole for one in each]


def random_scores(rng, monotonic):
    count = int(rng.integers(2, 5))
    scores = rng.integers(0, 5, count)
    return scores.tolist(), (scores + rng.integers(0 if monotonic else -1, 2, count)).tolist()


@kind("ExponentialMechanism")
def draw_exponential_mechanism(rng):
    """One to three of different scores, and the best two of one draw of scores."""
    epsilon, monotonic = log_uniform(rng, 0.01, 8), bool(rng.random() < 0.5)
    rate = arb(epsilon) / (1 if monotonic else 2)
    if rng.random() < 0.2:
        one, other = random_scores(rng, monotonic)
        tops = [[], []]
        for top, scores in zip(tops, (one, other), strict=True):
            for i, first in enumerate(weights(scores, rate)):
                left = weights(scores[:i] + scores[i + 1 :], rate)
                top += [first * second for second in left]
        two = dp.repeat(dp.ExponentialMechanism(epsilon), 2)
        return two, ADD, enumerated(list(zip(*tops, strict=True)))
    count = int(rng.integers(1, 4))
    parts = []
    for _ in range(count):
        one, other = random_scores(rng, monotonic)
        parts.append(list(zip(weights(one, rate), weights(other, rate), strict=True)))
    mechanism = dp.repeat(dp.ExponentialMechanism(epsilon), count)
    return mechanism, ADD, enumerated(product(*parts))


def permuted(scores, rate):
    """Return the probabilities of permute-and-flip, over all orders."""
    found = [arb(0)] * len(scores)
    for order in itertools.permutations(range(len(scores))):
        left = arb(1)
        for i in order:
            taken = (rate * (scores[i] - max(scores))).exp()
            found[i] += left * taken
            left *= 1 - taken
    return [one / math.factorial(len(scores)) for one in found]


@kind("PermuteAndFlip")
def draw_permute_and_flip(rng):
    epsilon, monotonic = log_uniform(rng, 0.01, 8), bool(rng.random() < 0.5)
    rate = arb(epsilon) / (1 if monotonic else 2)
    sides = (permuted(scores, rate) for scores in random_scores(rng, monotonic))
    return dp.PermuteAndFlip(epsilon), ADD, enumerated(list(zip(*sides, strict=True)))


@kind("AboveThreshold")
def draw_above_threshold(rng):
    """Three random queries, or four that reveal a high threshold, by the laws of the release."""
    epsilon, most = log_uniform(rng, 0.3, 8), int(rng.integers(1, 3))
    monotonic = bool(rng.random() < 0.5)
    mechanism = dp.AboveThreshold(epsilon, max_positives=most)
    steps = 2 if rng.random() < 0.5 else 1  # of one sensitivity
    share = float(rng.uniform(0.2, 0.8))
    scales = [
        arb(steps) / (arb(epsilon) * share),
        arb(steps * most * (1 if monotonic else 2)) / (arb(epsilon) * (1 - arb(share))),
    ]
    if rng.random() < 0.5:
        queries = rng.integers(-2, 3, 3) * steps
        changed = queries + rng.integers(0 if monotonic else -1, 2, 3) * steps
    else:  # the losses of the threshold and of `most` positive answers nearly add up
        high = math.ceil(rng.uniform(1, 10) * float(scales[0]))
        queries = np.array([high] * (4 - most) + [0] * most)
        changed = queries + steps * np.array([1] * (4 - most) + [monotonic - 1] * most)
    here, there = (answers(side.tolist(), scales, most) for side in (queries, changed))
    return mechanism, ADD, enumerated([(here[key], there[key]) for key in here])


def answers(queries, scales, most):
    """Return the probability of every sequence of answers; the threshold is 0."""
    first, second = ((-1 / scale).exp() for scale in scales)
    reach = math.ceil(40 * float(scales[0]))
    law = {}
    for taken in itertools.product((False, True), repeat=len(queries)):
        positive = [i for i, yes in enumerate(taken) if yes]
        law[taken[: positive[most - 1] + 1] if len(positive) >= most else taken] = arb(0)
    for z in range(-reach, reach + 1):
        line = first ** abs(z) * (1 - first) / (1 + first)
        over = []
        for query in queries:
            x = z - query
            over.append(second**x / (1 + second) if x > 0 else 1 - second ** (1 - x) / (1 + second))
        for taken in law:
            term = line
            for up, yes in zip(over, taken, strict=False):
                term *= up if yes else 1 - up
            law[taken] += term
    return {taken: value + arb(0, 2e-17) for taken, value in law.items()}


def generating(runs, x):
    """Return E x^K for the number of runs K (Papernot and Steinke 2022, Definition 1)."""
    if runs.shape is None:
        return (arb(runs.mean_runs) * (x - 1)).exp()
    gamma, shape = arb(runs.gamma), arb(runs.shape)
    inner = 1 - (1 - gamma) * x
    if runs.shape == 0:
        return inner.log() / gamma.log()
    return ((-shape * inner.log()).exp() - 1) / ((-shape * gamma.log()).exp() - 1)


@kind("BestOf")
def draw_best_of(rng):
    """The best of several runs, by a random order of the outputs; also of Gaussians."""
    shapes = ["geometric", "logarithmic", "poisson", float(rng.uniform(-0.9, 4))]
    options = {
        "mean_runs": log_uniform(rng, 1.05, 300),
        "distribution": shapes[int(rng.integers(4))],
    }
    if rng.random() < 0.3:
        mu, sign = log_uniform(rng, 0.05, 2), int(rng.choice([-1, 1]))
        base, edges = dp.Gaussian(1 / mu), np.linspace(-7, 9, 300).tolist()
        mu = 1 / arb(base.noise_multiplier)
        outputs = binned(lambda x: normal(x - sign * mu), normal, edges)
    else:
        base, outputs = random_finite(rng)
        while 0 in getattr(base, "p", ()) + getattr(base, "q", ()):  # not supported
            base, outputs = random_finite(rng)
        outputs = [outputs[i] for i in rng.permutation(len(outputs))]
    mechanism = dp.best_of(base, **options)
    sides = []
    for side in zip(*outputs, strict=True):
        below = [
            generating(mechanism, x.min(arb(1)))  # rounded probabilities may add up to more
            for x in itertools.accumulate(side)
        ]
        sides.append(
            [b - a for a, b in itertools.pairwise([generating(mechanism, arb(0)), *below])]
        )
    return mechanism, ADD, enumerated(list(zip(*sides, strict=True)))


def histograms(laws):
    """Return the probability of every histogram of independent reports."""
    found = {(0,) * len(laws[0]): arb(1)}
    for law in laws:
        after = {}
        for counts, chance in found.items():
            for output, p in enumerate(law):
                key = (*counts[:output], counts[output] + 1, *counts[output + 1 :])
                after[key] = after.get(key, arb(0)) + chance * p
        found = after
    return found


@kind("ShuffledReports")
def draw_shuffled_reports(rng):
    reports, size = int(rng.integers(1, 7)), int(rng.integers(2, 5))
    epsilon = log_uniform(rng, 0.05, 4)
    if rng.random() < 0.5:
        kept = arb(epsilon).exp()
        table = [
            [(kept if i == j else arb(1)) / (kept + size - 1) for j in range(size)]
            for i in range(size)
        ]
        mechanism = dp.ShuffledReports(epsilon, reports, size)
    else:
        raw = np.exp(epsilon * rng.integers(0, 2, (3, size))) * np.exp(rng.uniform(0, 0.3, size))
        raw /= raw.sum(axis=1, keepdims=True)
        table = [[arb(x) / sum(map(arb, row), arb(0)) for x in row] for row in raw.tolist()]
        pairs = itertools.permutations(range(3), 2)
        local = max(
            (table[i][k] / table[j][k]).log().upper() for i, j in pairs for k in range(size)
        )
        mechanism = dp.ShuffledReports(max(math.nextafter(float(local), 9), 1e-9), reports)
    others = [table[i] for i in rng.integers(0, len(table), reports - 1)]
    one, other = (histograms([*others, table[own]]) for own in (0, 1))
    return mechanism, REPLACE, enumerated([(one[key], other[key]) for key in one])


@kind("TreeAggregation")
def draw_tree_aggregation(rng):
    trees = tuple(rng.integers(1, 8, int(rng.integers(1, 3))).tolist())
    count, noise = int(rng.integers(1, 4)), log_uniform(rng, 0.5, 30)
    each, apart = int(rng.integers(1, count + 1)), int(rng.integers(1, 4))
    mechanism = dp.TreeAggregation(
        noise, trees, participations=count, participations_per_tree=each, separation=apart
    )
    return (
        mechanism,
        ADD,
        gaussians(arb(tree_change(trees, count, each, apart)).sqrt() / arb(noise)),
    )


@kind("FiniteMechanism")
def draw_finite_mechanism(rng):
    """By probabilities, by a table of guarantees, and by distribution functions."""
    p, q = random_table(rng)
    outputs, count = balls(p, q), int(rng.integers(1, 4))
    match int(rng.integers(3)):
        case 0:
            one = dp.from_pmfs(p, q)
        case 1:
            truth, levels = enumerated(outputs), np.sort(rng.uniform(0, 5, 4)).tolist()
            # floats above the proven deltas
            deltas = (float(truth(level)) * (1 + 1e-14) + 1e-30 for level in levels)
            one = dp.from_profile([*zip(levels, deltas, strict=True)])
        case _:
            mu = log_uniform(rng, 0.1, 3)
            losses = np.linspace(-9 * mu, 9 * mu, int(rng.integers(20, 400)))

            def law(sign, center):
                def values(x):
                    return np.array(
                        [float(normal(arb(sign * (y - center) / mu))) for y in x.tolist()]
                    )

                return values

            center = mu * mu / 2
            one = dp.from_cdfs(
                law(1, center),
                law(1, -center),
                losses,
                p_above=law(-1, center),
                q_above=law(-1, -center),
            )
            return dp.repeat(one, count), ADD, gaussians(arb(mu) * arb(count).sqrt())
    return dp.repeat(one, count), ADD, enumerated(product(*[outputs] * count))


@kind("PoissonSampled")
def draw_poisson_sampled(rng):
    q = log_uniform(rng, 1e-3, 0.95)
    choice = int(rng.integers(4))
    if choice == 0:
        mechanism, outputs = random_finite(rng)
        count = int(rng.integers(1, 4)) if len(outputs) ** 3 <= MOST else 1
        plan = dp.repeat(dp.PoissonSampled(mechanism, sampling_probability=q), count)
        return plan, ADD, enumerated(product(*[sampled(outputs, q)] * count))
    if choice == 1:
        scale = log_uniform(rng, 0.1, 10)
        mechanism = dp.PoissonSampled(dp.Laplace(scale), sampling_probability=q)
        first = {1 / scale: arb(q), 0: 1 - arb(q)}
        return mechanism, ADD, shifted(first, {0: 1}, double_exponential)
    noise = log_uniform(rng, 0.2, 10)
    mechanism = dp.PoissonSampled(dp.Gaussian(noise), sampling_probability=q)
    q = arb(q)
    if choice == 2:
        return mechanism, ADD, shifted({1: q, 0: 1 - q}, {0: 1}, scale=noise)
    return mechanism, REPLACE, shifted({1: q, 0: 1 - q}, {-1: q, 0: 1 - q}, scale=noise)


def binomial(count, q):
    q = arb(q)
    return {j: math.comb(count, j) * q**j * (1 - q) ** (count - j) for j in range(count + 1)}


@kind("GroupSampled")
def draw_group_sampled(rng):
    noise, q, size = log_uniform(rng, 0.3, 10), log_uniform(rng, 1e-3, 0.9), int(rng.integers(2, 7))
    one = dp.PoissonSampled(dp.Gaussian(noise), sampling_probability=q)
    return (
        dp.user_level(one, max_contributions=size),
        ADD,
        shifted(binomial(size, q), {0: 1}, scale=noise),
    )


@kind("FixedSizeSampled")
def draw_fixed_size_sampled(rng):
    """All other records contribute nothing."""
    noise, records = log_uniform(rng, 0.3, 10), int(rng.integers(2, 40))
    replacement = bool(rng.random() < 0.5)
    size = int(rng.integers(1, records + 1))
    mechanism = dp.FixedSizeSampled(
        dp.Gaussian(noise), batch_size=size, records=records, replacement=replacement
    )
    q = arb(size) / records
    drawn = binomial(size, arb(1) / records) if replacement else {0: 1 - q, 1: q}
    if rng.random() < 0.5:  # the others are alike, the record is the opposite
        return (
            mechanism,
            REPLACE,
            shifted({2 * j: w for j, w in drawn.items()}, {0: 1}, scale=noise),
        )
    opposite = {-j: w for j, w in drawn.items()}
    return mechanism, REPLACE, shifted(drawn, opposite, scale=noise)


@kind("TruncatedPoisson")
def draw_truncated_poisson(rng):
    """All other records are alike."""
    noise, q = log_uniform(rng, 0.3, 10), log_uniform(rng, 1e-2, 0.95)
    records = int(rng.integers(2, 12))
    most = int(rng.integers(1, records))
    mechanism = dp.TruncatedPoisson(
        dp.Gaussian(noise), sampling_probability=q, max_batch_size=most, records=records
    )
    alike = int(rng.integers(-1, 2))
    relation = rng.choice([ADD, REPLACE, SPECIAL])

    def centers(own):
        found = {}
        for others, weight in binomial(records - 1, q).items():
            chosen = arb(0) if own is None else arb(q) * min(arb(1), arb(most) / (others + 1))
            for center, chance in (
                (alike * min(others, most), 1 - chosen),
                (alike * min(others, most - 1) + (own or 0), chosen),
            ):
                found[center] = found.get(center, arb(0)) + weight * chance
        return found

    other = {ADD: None, REPLACE: -1, SPECIAL: 0}[relation]
    return mechanism, relation, shifted(centers(1), centers(other), scale=noise)


@kind("Epochs")
def draw_epochs(rng):
    noise, passes = log_uniform(rng, 0.3, 20), int(rng.integers(1, 9))
    mechanism = dp.Epochs(dp.Gaussian(noise), passes=passes)
    return mechanism, REPLACE, gaussians(2 * arb(passes).sqrt() / arb(noise))


@kind("RandomAllocation")
def draw_random_allocation(rng):
    steps, noise = int(rng.integers(2, 4)), log_uniform(rng, 0.4, 5)
    count = int(rng.integers(1, steps + 1))
    epochs = 2 if steps == 2 and rng.random() < 0.3 else 1
    mechanism = dp.RandomAllocation(dp.Gaussian(noise), steps, count, epochs)
    size = {2: 30, 3: 11}[steps] if epochs == 1 else 6
    edges = np.linspace(-3 * noise, 3 * noise + 1, size).tolist()
    cells = binned(lambda x: normal((x - 1) / arb(noise)), lambda x: normal(x / arb(noise)), edges)
    one = []
    for point in itertools.product(cells, repeat=steps):
        absent = math.prod((q for _, q in point), start=arb(1))
        there = arb(0)
        for taken in itertools.combinations(range(steps), count):
            there += math.prod(
                (p if i in taken else q for i, (p, q) in enumerate(point)), start=arb(1)
            )
        one.append((there / math.comb(steps, count), absent))
    return mechanism, ADD, enumerated(product(*[one] * epochs))


@kind("CyclicPoisson")
def draw_cyclic_poisson(rng):
    noise, q = log_uniform(rng, 0.4, 5), log_uniform(rng, 1e-2, 0.9)
    groups = int(rng.integers(1, 4))
    steps = int(rng.integers(1, 2 * groups + 1))
    mechanism = dp.CyclicPoisson(dp.Gaussian(noise), q, steps, groups)
    edges = np.linspace(-4 * noise, 4 * noise + 1, 30).tolist()
    cells = binned(lambda x: normal((x - 1) / arb(noise)), lambda x: normal(x / arb(noise)), edges)
    return mechanism, ADD, enumerated(product(*[sampled(cells, q)] * -(-steps // groups)))


@kind("Parallel")
def draw_parallel(rng):
    """A record stays in one of two cells, or moves to the other one."""
    (one, first), (other, second) = (random_finite(rng) for _ in range(2))
    while len(first) * len(second) > MOST:
        other, second = random_finite(rng)
    cells = str(rng.choice(["by_record", "by_public_index"]))
    moves = [(p * b, q * a) for p, q in first for a, b in second]
    replace = rng.random() < 0.5 and not any(
        hasattr(part, "relation") or hasattr(part, "replace_sensitivity") for part in (one, other)
    )
    worlds = [first, second, moves] if replace and cells == "by_record" else [first, second]
    return dp.parallel(one, other, cells=cells), REPLACE if replace else ADD, enumerated(*worlds)


@kind("Composed")
def draw_composed(rng):
    parts, outputs = zip(*(random_finite(rng) for _ in range(int(rng.integers(2, 4)))), strict=True)
    while math.prod(map(len, outputs)) > MOST:
        parts, outputs = parts[:-1], outputs[:-1]
    return dp.compose(*parts), ADD, enumerated(product(*outputs))


@kind("Repeated")
def draw_repeated(rng):
    mechanism, outputs = random_finite(rng)
    count = max(n for n in (1, 2, 3, 4) if n == 1 or len(outputs) ** n <= MOST)
    return dp.repeat(mechanism, count), ADD, enumerated(product(*[outputs] * count))


@kind("user_level")
def draw_user_level(rng):
    """All records of one user change together."""
    size = int(rng.integers(2, 5))
    match int(rng.integers(4)):
        case 0:
            epsilon, categories = log_uniform(rng, 0.05, 2), int(rng.integers(2, 4))
            one = dp.RandomizedResponse(epsilon, categories)
            outputs = product(*[responses(epsilon, categories)] * size)
        case 1:
            scale = log_uniform(rng, 0.3, 9)
            one, outputs = dp.DiscreteLaplace(scale), laplace_integers(scale, size)
        case 2:
            sigma = log_uniform(rng, 0.5, 4)
            one, outputs = dp.DiscreteGaussian(sigma), gaussian_integers(sigma, size)
        case _:
            epsilon, delta = log_uniform(rng, 0.01, 1), log_uniform(rng, 1e-9, 1e-3)
            one = dp.ApproximateDP(epsilon, delta)
            outputs = product(*[responses(epsilon, 2, delta)] * size)
    return dp.user_level(one, max_contributions=size), ADD, enumerated(outputs)


@kind("select_keys")
def draw_select_keys(rng):
    """One user with keys that others have too, or that nobody else has."""
    most = int(rng.integers(1, 4))
    if rng.random() < 0.6:
        from privacy.release.partitions import keep_probabilities

        claim = dp.ApproximateDP(log_uniform(rng, 0.01, 3), log_uniform(rng, 1e-9, 0.1))
        counts = rng.integers(1, 12, most).tolist()
        chance = keep_probabilities(claim, 12)
        parts = []
        for count in counts:
            near = (min(n, len(chance) - 1) for n in (count, count - 1))
            here, there = (arb(chance[n]) / 2**192 for n in near)
            parts.append([(here, there), (1 - here, 1 - there)])
        return dp.repeat(claim, most), ADD, enumerated(product(*parts))
    delta, noise = log_uniform(rng, 1e-9, 0.1), log_uniform(rng, 0.5, 5)
    from privacy.release.partitions import _Threshold

    is_gaussian = bool(rng.random() < 0.5)
    mechanism = (dp.Gaussian if is_gaussian else dp.Laplace)(noise)
    found = _Threshold.of(mechanism, most, delta)
    scale, step = (
        arb(found.law.scale.numerator) / found.law.scale.denominator,
        arb(2) ** -found.bits,
    )
    law = normal if is_gaussian else double_exponential
    # rounded noise is at least `least` if the real one is half a step less
    alone = law(-((found.least - arb(0.5)) - 2**found.bits) / scale)
    unique = int(rng.integers(0, most + 1))
    parts = [[(alone, arb(0)), (1 - alone, arb(1))]] * unique
    if unique < most:  # the noisy counts of keys that are always selected
        shared, moved = most - unique, 1 / (scale * step)
        if is_gaussian:  # the sum of the shared counts
            mu = arb(shared).sqrt() * moved
            edges = np.linspace(-6, 6 + shared / noise, 120).tolist()
            parts.append(binned(lambda x: normal(x - mu), normal, edges))
        else:  # outside of the edges, the loss is constant
            edges = np.linspace(0, float(moved), 8).tolist()
            parts += [binned(lambda x: law(x - moved), law, edges)] * shared
    return dp.compose(mechanism, dp.ApproximateDP(0.0, delta)), ADD, enumerated(product(*parts))


def attack(name, seed):
    """Return the reported numbers below the truth in one instance: method, query, both numbers."""
    ctx.prec = BITS
    rng = np.random.default_rng([sum(name.encode()), seed])
    mechanism, relation, truth = KINDS[name](rng)
    relation = dp.NeighboringRelation(str(relation))
    levels = [0.0, *np.exp(rng.uniform(math.log(1e-3), math.log(8), 3)).tolist()]
    least = [truth(level) for level in levels]
    wrong, asked = [], 0
    for notion in ("tightest", *NOTION_MODULES):
        try:
            curve = dp.account(mechanism, notion=notion, relation=relation)
        except dp.UnsupportedMechanism:
            continue
        for level, delta in zip(levels, least, strict=True):
            asked += 1
            if delta > arb(reported := curve.delta(level)):
                wrong.append((notion, f"delta({level})", reported, float(delta)))
        for delta in (0.0, max(float(least[1]) * (1 - 1e-13), 0.0)):  # 0: the largest loss
            reported = curve.epsilon(delta)
            if math.isfinite(reported) and truth(reported) > arb(delta):
                wrong.append((notion, f"epsilon({delta})", reported, levels[1]))
    assert asked
    return wrong
