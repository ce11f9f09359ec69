"""The worst pair of data sets of every mechanism, simulated, with exact log-likelihood ratios.

Written from the definitions alone: no rule, curve or profile of `privacy` is used here. Kinds go
by name, so that a patched copy of the package can be audited too.
"""

import itertools
import math

import numpy as np

HUGE = 1e3  # the score of an output that identifies the data set


def losses(mechanism, relation, rng, runs, weaker=1.0):
    """Return scores of `runs` outputs on either data set; noise is `weaker` times as large."""
    simulate = SIMULATED[type(mechanism).__name__]
    return simulate(mechanism, str(relation), rng, runs, weaker)


def shift(mechanism, relation):
    return mechanism.replace_distance if relation == "REPLACE_ONE" else 1.0


def normal(mu, rng, runs):
    return tuple(mu * rng.normal(mean, 1, runs) - mu * mu / 2 for mean in (0, mu))


def gaussian(mechanism, relation, rng, runs, weaker):
    return normal(shift(mechanism, relation) / (mechanism.noise_multiplier * weaker), rng, runs)


def laplace(mechanism, relation, rng, runs, weaker):
    apart = shift(mechanism, relation) / (mechanism.scale * weaker)
    both = (rng.laplace(0, 1, runs), rng.laplace(apart, 1, runs))
    return tuple(np.abs(x) - np.abs(x - apart) for x in both)


def discrete_laplace(mechanism, relation, rng, runs, weaker):
    """The difference of two geometric draws has the probabilities of the noise."""
    scale = mechanism.scale * weaker
    apart = mechanism.replace_sensitivity if relation == "REPLACE_ONE" else mechanism.sensitivity
    stop = -math.expm1(-1 / scale)
    noise = [rng.geometric(stop, runs) - rng.geometric(stop, runs) for _ in range(2)]
    both = (noise[0], noise[1] + apart)
    return tuple((np.abs(x) - np.abs(x - apart)) / scale for x in both)


def discrete_gaussian(mechanism, relation, rng, runs, weaker):
    """Draw from the probabilities, which are computed up to 40 sigma."""
    sigma = mechanism.sigma * weaker
    apart = mechanism.replace_sensitivity if relation == "REPLACE_ONE" else mechanism.sensitivity
    integers = np.arange(-math.ceil(40 * sigma), math.ceil(40 * sigma) + 1)
    weight = np.exp(-(integers**2) / (2 * sigma**2))
    noise = [rng.choice(integers, runs, p=weight / weight.sum()) for _ in range(2)]
    return tuple((x**2 - (x - apart) ** 2) / (2 * sigma**2) for x in (noise[0], noise[1] + apart))


def responses(epsilon, categories, rng, runs):
    """Data set 0 answers 0, data set 1 answers 1."""
    kept = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    found = []
    for truth in (0, 1):
        other = (truth + rng.integers(1, categories, runs)) % categories
        answer = np.where(rng.random(runs) < kept, truth, other)
        found.append(epsilon * ((answer == 1).astype(float) - (answer == 0)))
    return tuple(found)


def randomized_response(mechanism, relation, rng, runs, weaker):
    return responses(mechanism.epsilon / weaker, mechanism.categories, rng, runs)


def shuffled(mechanism, relation, rng, runs, weaker):
    """Shuffle a report of 0 or 1 with the uniform reports; all other reports are known."""
    epsilon, others = mechanism.epsilon / weaker, mechanism.reports - 1
    k = mechanism.categories or 2
    uniform = k / (math.exp(epsilon) + k - 1) if mechanism.categories else math.exp(-epsilon)
    odds = math.exp(epsilon) - 1
    found = []
    for truth in (1, 0):
        total = rng.binomial(others, uniform, runs)
        zeros = rng.binomial(total, 1 / k)
        ones = rng.binomial(total - zeros, 1 / (k - 1))
        kept = rng.random(runs) < odds / (odds + k)
        own = np.where(kept, truth, rng.integers(0, k, runs))
        zeros, ones = zeros + (own == 0), ones + (own == 1)
        found.append(np.log(total + 1 + odds * zeros) - np.log(total + 1 + odds * ones))
    return tuple(found)


def pure(mechanism, relation, rng, runs, weaker):
    return responses(mechanism.epsilon / weaker, 2, rng, runs)


def exponential(mechanism, relation, rng, runs, weaker):
    """Two candidates with odds e^(-epsilon / 2) on one data set, e^(epsilon / 2) on the other."""
    return responses(mechanism.epsilon / weaker / 2, 2, rng, runs)


def permute_and_flip(mechanism, relation, rng, runs, weaker):
    """Two candidates of equal scores; with the record, candidate 0 is better by a full gap."""
    epsilon, found = mechanism.epsilon / weaker, []
    for gap in (0.0, epsilon):
        worse = (rng.random(runs) < 0.5) & (rng.random(runs) < math.exp(-gap))
        found.append(np.where(worse, -epsilon, math.log(2 - math.exp(-epsilon))))
    return tuple(found)


def above_threshold(mechanism, relation, rng, runs, weaker):
    """Queries that are one lower with the record, then `max_positives` that are one higher.

    Scores are exact log-likelihood ratios of the answers, by a sum over the noisy threshold.
    """
    epsilon, most, below = mechanism.epsilon / weaker, mechanism.max_positives, 5
    first = epsilon / (1 + (2 * most) ** (2 / 3))
    scales = 1 / first, 2 * most / (epsilon - first)
    worlds = np.array([[1.0] * below + [0.0] * most, [0.0] * below + [1.0] * most])
    level = 0.5 * scales[1]
    noisy = level + np.linspace(-20, 20, 4001) * scales[0]
    weight = np.exp(-np.abs(noisy - level) / scales[0])
    over = [tail((noisy[:, None] - queries) / scales[1]) for queries in worlds]

    def ratio(answers):
        likely = [
            weight @ np.prod(np.select([answers > 0, answers < 0], [up, 1 - up], 1.0), axis=1)
            for up in over
        ]
        return math.log(likely[1] / likely[0])

    found = []
    for queries in worlds:
        line = level + rng.laplace(0, scales[0], (runs, 1))
        above = queries + rng.laplace(0, scales[1], (runs, queries.size)) >= line
        stopped = np.cumsum(above, axis=1) - above >= most
        seen, which = np.unique(np.where(stopped, 0, 2 * above - 1), axis=0, return_inverse=True)
        found.append(np.array([ratio(row) for row in seen])[which])
    return tuple(found)


def tail(x):
    """Return the probability that Laplace noise of scale 1 is above x."""
    return np.where(x > 0, np.exp(-np.abs(x)) / 2, 1 - np.exp(-np.abs(x)) / 2)


def approximate(mechanism, relation, rng, runs, weaker):
    zero, one = responses(mechanism.epsilon / weaker, 2, rng, runs)
    fails = [rng.random(runs) < mechanism.delta / weaker**8 for _ in range(2)]
    return np.where(fails[0], -HUGE, zero), np.where(fails[1], HUGE, one)


def finite(mechanism, relation, rng, runs, weaker):
    """Draw outputs from q and from p; a weaker mechanism releases 1 / weaker of them."""
    with np.errstate(divide="ignore"):
        ratio = np.clip(np.log(mechanism.p) - np.log(mechanism.q), -HUGE, HUGE)
    size = (round(1 / weaker), runs)
    outputs = (rng.choice(ratio.size, size, p=law) for law in (mechanism.q, mechanism.p))
    return tuple(ratio[output].sum(axis=0) for output in outputs)


def tree(mechanism, relation, rng, runs, weaker):
    """Add noise to every node, for the worst of all sets of steps."""
    starts = np.cumsum((0, *mechanism.steps))
    nodes = [
        [start + k * 2**level, start + (k + 1) * 2**level]
        for start, steps in zip(starts, mechanism.steps, strict=False)
        for level in range(steps.bit_length())
        for k in range(steps >> level)
    ]
    per_tree = itertools.chain.from_iterable(
        itertools.combinations(range(starts[-1]), size)
        for size in range(mechanism.participations + 1)
    )
    worst = np.zeros(len(nodes))
    for taken in per_tree:
        each = np.histogram(taken, starts)[0]
        moved = np.array([sum(low <= step < high for step in taken) for low, high in nodes])
        allowed = max(each, default=0) <= mechanism.participations_per_tree
        if allowed and moved @ moved > worst @ worst:
            worst = moved
    moved = shift(mechanism, relation) * worst / (mechanism.noise_multiplier * weaker)
    noise = rng.normal(0, 1, (2, runs, len(nodes))) + np.stack([0 * moved, moved])[:, None]
    return tuple(noise @ moved - moved @ moved / 2)


def concentrated(mechanism, relation, rng, runs, weaker):
    return normal(math.sqrt(2 * mechanism.rho) / weaker, rng, runs)


def sampled(mechanism, relation, rng, runs, weaker):
    """Return log((1 - q) + q e^loss) of the inner loss, the record kept with probability q."""
    q, inner = mechanism.sampling_probability, mechanism.mechanism
    if relation == "REPLACE_ONE":
        return antipodal(mechanism, rng, runs, weaker)
    out, kept = losses(inner, relation, rng, runs, weaker)
    absent, _ = losses(inner, relation, rng, runs, weaker)
    there = np.where(rng.random(runs) < q, kept, absent)
    ratios = [np.log1p(q * np.expm1(loss)) for loss in (out, there)]
    return tuple(ratios)


def antipodal(mechanism, rng, runs, weaker):
    q, mu = mechanism.sampling_probability, 1 / (mechanism.mechanism.noise_multiplier * weaker)

    def ratio(x):
        up, down = (np.log1p(q * np.expm1(s * mu * x - mu * mu / 2)) for s in (1, -1))
        return up - down

    return tuple(
        ratio(rng.normal(0, 1, runs) + sign * mu * (rng.random(runs) < q)) for sign in (-1, 1)
    )


def group(mechanism, relation, rng, runs, weaker):
    """Return the losses of a user whose records are each sampled independently."""
    mu = 1 / (mechanism.mechanism.noise_multiplier * weaker)
    k, q = mechanism.size, mechanism.sampling_probability
    weight = [math.comb(k, j) * q**j * (1 - q) ** (k - j) for j in range(k + 1)]

    def ratio(x):
        terms = (w * np.exp(j * mu * x - (j * mu) ** 2 / 2) for j, w in enumerate(weight))
        return np.log(sum(terms))

    kept = rng.binomial(k, q, runs)
    return tuple(ratio(rng.normal(0, 1, runs) + mu * there * kept) for there in (0, 1))


def mixtures(first, second, noise, rng, runs):
    """Return the log ratio of outputs of two mixtures {center: weight} of normals."""

    def log_density(x, mixture):
        terms = [w * np.exp(-(((x - c) / noise) ** 2) / 2) for c, w in mixture.items()]
        return np.log(sum(terms))

    found = []
    for mixture in (first, second):
        centers = rng.choice(list(mixture), size=runs, p=list(mixture.values()))
        x = rng.normal(centers, noise)
        found.append(log_density(x, second) - log_density(x, first))
    return tuple(found)


def binomial(count, q):
    return [math.comb(count, j) * q**j * (1 - q) ** (count - j) for j in range(count + 1)]


def fixed_size(mechanism, relation, rng, runs, weaker):
    """All other records are alike; the record becomes as far from them as it may."""
    inner, size, records = mechanism.mechanism, mechanism.batch_size, mechanism.records
    weights = [1 - size / records, size / records]
    if mechanism.replacement:
        weights = binomial(size, 1 / records)
    away = {j * inner.replace_distance: weight for j, weight in enumerate(weights)}
    return mixtures({0.0: 1.0}, away, inner.noise_multiplier * weaker, rng, runs)


def truncated(mechanism, relation, rng, runs, weaker):
    """All other records are -1, the additional one is +1."""
    q, most = mechanism.sampling_probability, mechanism.max_batch_size
    without, having = {}, {}
    for others, weight in enumerate(binomial(mechanism.records - 1, q)):
        center = -min(others, most)
        without[center] = without.get(center, 0) + weight
        chosen = q * min(1, most / (others + 1))
        there = 1 - min(others, most - 1)
        having[center] = having.get(center, 0) + weight * (1 - chosen)
        having[there] = having.get(there, 0) + weight * chosen
    noise = mechanism.mechanism.noise_multiplier * weaker
    return mixtures(without, having, noise, rng, runs)


def epochs(mechanism, relation, rng, runs, weaker):
    """One batch contains the record."""
    return losses(mechanism.mechanism, relation, rng, runs, weaker)


def allocated(mechanism, relation, rng, runs, weaker):
    """Return the losses of a record that draws k of t steps in each pass.

    The likelihood ratio of a pass is the mean over all sets of k steps of the products of theirs.
    """
    k, steps = mechanism.participations, mechanism.steps

    def one_pass():
        kept = np.argsort(rng.random((steps, runs)), axis=0) < k
        ratios = []
        for there in (False, True):
            sums = np.zeros((k + 1, runs))  # of the products over all sets of j steps so far
            sums[0] = 1
            for step in range(steps):
                out, inside = losses(mechanism.mechanism, relation, rng, runs, weaker)
                ratio = np.exp(np.where(there & kept[step], inside, out))
                sums[1:] += sums[:-1] * ratio
            ratios.append(np.log(sums[k] / math.comb(steps, k)))
        return tuple(ratios)

    return summed(one_pass() for _ in range(mechanism.epochs))


def cyclic(mechanism, relation, rng, runs, weaker):
    """Return the losses of a record of the first group, which has the most steps."""
    count = len(range(0, mechanism.steps, mechanism.groups))
    return summed(sampled(mechanism, relation, rng, runs, weaker) for _ in range(count))


def summed(parts):
    return tuple(sum(column) for column in zip(*parts, strict=True))


def repeated(mechanism, relation, rng, runs, weaker):
    return summed(
        losses(mechanism.mechanism, relation, rng, runs, weaker) for _ in range(mechanism.count)
    )


def best_of(mechanism, relation, rng, runs, weaker):
    """Randomized response whose answer 1 is better than 0; geometric number of runs."""
    epsilon, stop = mechanism.mechanism.epsilon / weaker, mechanism.gamma
    counts = [rng.geometric(stop, runs) for _ in range(2)]
    zero = [1 / (1 + math.exp(side * epsilon)) for side in (-1, 1)]  # P(one answer is 0)
    never = [stop * p / (1 - (1 - stop) * p) for p in zero]
    return tuple(
        np.where(
            rng.random(runs) < p**count,
            math.log(never[1] / never[0]),
            math.log((1 - never[1]) / (1 - never[0])),
        )
        for p, count in zip(zero, counts, strict=True)
    )


def composed(mechanism, relation, rng, runs, weaker):
    return summed(losses(part, relation, rng, runs, weaker) for part in mechanism.parts)


def parallel(mechanism, relation, rng, runs, weaker):
    """Return the losses of a record in the last cell or, if it can move, that moves there."""
    if relation == "REPLACE_ONE" and mechanism.cells == "by_record":
        *_, old, new = mechanism.parts
        leaves = losses(old, "ADD_OR_REMOVE_ONE", rng, runs, weaker)
        enters = losses(new, "ADD_OR_REMOVE_ONE", rng, runs, weaker)
        return summed([leaves, (-enters[1], -enters[0])])
    return losses(mechanism.parts[-1], relation, rng, runs, weaker)


def nothing(mechanism, relation, rng, runs, weaker):
    """Release nothing, or, if weaker, the record."""
    leak = float(weaker < 1)
    return np.full(runs, -leak), np.full(runs, leak)


SIMULATED = {
    "NoOp": nothing,
    "Gaussian": gaussian,
    "Laplace": laplace,
    "DiscreteLaplace": discrete_laplace,
    "DiscreteGaussian": discrete_gaussian,
    "FiniteMechanism": finite,
    "RandomizedResponse": randomized_response,
    "PureDP": pure,
    "ExponentialMechanism": exponential,
    "PermuteAndFlip": permute_and_flip,
    "AboveThreshold": above_threshold,
    "ApproximateDP": approximate,
    "ShuffledReports": shuffled,
    "TreeAggregation": tree,
    "ZeroConcentratedDP": concentrated,
    "PoissonSampled": sampled,
    "GroupSampled": group,
    "FixedSizeSampled": fixed_size,
    "TruncatedPoisson": truncated,
    "Epochs": epochs,
    "RandomAllocation": allocated,
    "CyclicPoisson": cyclic,
    "BestOf": best_of,
    "Repeated": repeated,
    "Composed": composed,
    "Parallel": parallel,
}


def cases():
    """Return (mechanism, relation) for every mechanism and combinator, in every relation."""
    import privacy as dp

    one, replace, special = dp.NeighboringRelation
    gaussian, laplace = dp.Gaussian(1.5), dp.Laplace(1.2)

    def thinned(mechanism, q):
        return dp.PoissonSampled(mechanism, sampling_probability=q)

    everywhere = [gaussian, dp.Gaussian(1.0, replace_distance=1.0), laplace]
    everywhere += [dp.RandomizedResponse(0.8), dp.RandomizedResponse(1.5, 5)]
    found = [(mechanism, relation) for mechanism in everywhere for relation in (one, replace)]
    found += [
        (gaussian, special),
        (dp.no_op(), special),
        (dp.DiscreteLaplace(2.0, sensitivity=3), one),
        (dp.DiscreteLaplace(3.0, sensitivity=2, replace_sensitivity=3), replace),
        (dp.DiscreteGaussian(2.0, sensitivity=3), one),
        (dp.DiscreteGaussian(3.0, sensitivity=2, replace_sensitivity=3), replace),
        (thinned(dp.DiscreteGaussian(0.7), 0.4), one),
        (dp.repeat(thinned(dp.DiscreteLaplace(1.0, sensitivity=2), 0.5), 3), special),
        (dp.from_pmfs([0.7, 0.2, 0.1], [0.3, 0.2, 0.5]), one),
        (dp.from_pmfs([0.6, 0.35, 0.05, 0.0], [0.5, 0.3, 0.0, 0.2], relation=replace), replace),
        (dp.TreeAggregation(3.0, 6), one),
        (dp.TreeAggregation(6.0, (4, 3), participations=3, participations_per_tree=2), replace),
        (dp.ShuffledReports(2.0, 20), replace),
        (dp.ShuffledReports(2.0, 12, 3), one),
        (dp.PureDP(0.7), one),
        (dp.ExponentialMechanism(1.2), one),
        (dp.ExponentialMechanism(1.2, relation=replace), replace),
        (dp.repeat(dp.ExponentialMechanism(0.3), 12), one),
        (dp.repeat(thinned(dp.ExponentialMechanism(2.0), 0.4), 3), one),
        (dp.PermuteAndFlip(0.7), one),
        (dp.AboveThreshold(1.0), one),
        (dp.AboveThreshold(3.0, max_positives=2), one),
        (dp.ApproximateDP(0.7, 0.01, relation=special), special),
        (dp.ZeroConcentratedDP(0.1), one),
        (thinned(dp.Gaussian(0.5), 0.3), one),
        (thinned(dp.Gaussian(0.5), 0.4), replace),
        (thinned(laplace, 0.6), one),
        (thinned(dp.PureDP(2.0), 0.4), one),
        (thinned(dp.repeat(gaussian, 6), 0.5), one),
        (thinned(thinned(dp.Gaussian(0.5), 0.8), 0.6), one),
        (dp.user_level(thinned(dp.Gaussian(0.8), 0.3), max_contributions=3), one),
        (dp.repeat(dp.user_level(thinned(gaussian, 0.2), max_contributions=2), 5), special),
        (dp.FixedSizeSampled(dp.Gaussian(1.0), batch_size=3, records=10), replace),
        (dp.FixedSizeSampled(dp.Gaussian(2.0), batch_size=3, records=6, replacement=True), replace),
        (dp.repeat(dp.FixedSizeSampled(gaussian, batch_size=1, records=4), 5), replace),
        (
            dp.TruncatedPoisson(
                dp.Gaussian(0.5), sampling_probability=0.4, max_batch_size=1, records=3
            ),
            one,
        ),
        (dp.Epochs(gaussian), special),
        (dp.Epochs(dp.Gaussian(2.0), passes=2), replace),
        (dp.RandomAllocation(dp.Gaussian(0.8), steps=5), one),
        (dp.RandomAllocation(dp.Gaussian(1.0), steps=4, epochs=3), special),
        (dp.RandomAllocation(dp.Gaussian(1.0), steps=5, participations=2, epochs=2), one),
        (dp.CyclicPoisson(dp.Gaussian(0.8), sampling_probability=0.3, steps=10, groups=4), one),
        (dp.CyclicPoisson(dp.Gaussian(1.0), sampling_probability=0.4, steps=4, groups=2), replace),
        (dp.repeat(gaussian, 4), one),
        (dp.best_of(dp.RandomizedResponse(1.0), mean_runs=30), one),
        (dp.repeat(dp.PureDP(0.3), 5), one),
        (dp.repeat(dp.ZeroConcentratedDP(0.1), 3), one),
        (dp.repeat(thinned(dp.Gaussian(0.8), 0.2), 20), one),
        (dp.compose(gaussian, dp.Gaussian(0.9), dp.Gaussian(2.5)), one),
        (dp.compose(laplace, dp.repeat(gaussian, 2)), one),
        (dp.compose(dp.PureDP(0.5), dp.RandomizedResponse(0.9)), one),
        (dp.parallel(gaussian, dp.Gaussian(1.0)), one),
        (dp.parallel(gaussian, dp.Gaussian(1.0)), replace),
        (dp.parallel(*(dp.Gaussian(noise, replace_distance=1.0) for noise in (1, 1.1))), replace),
        (dp.parallel(laplace, dp.Laplace(0.8), cells="by_public_index"), replace),
    ]
    return found
