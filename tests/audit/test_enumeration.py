"""The output distributions of releases, by enumeration of all draws, on neighboring data sets."""

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from scipy.special import ndtr

import privacy as dp
from tests.mutants import Patch, caught, package

LEAST = 1e-7  # paths of less probability are left out
SEEDED = {"rng": 1, "simulation": True}


class Unlikely(Exception):
    """The path has too little probability."""


class Paths:
    """Runs a release once for every sequence of results of its draws."""

    def __init__(self):
        self.taken, self.options, self.at, self.chance = [], [], 0, 1.0

    def pick(self, chances):
        """Return the next result on this path, 0, 1, ..., of the given probabilities."""
        if self.at == len(self.taken):
            self.taken.append(0)
            self.options.append(len(chances))
        found = self.taken[self.at]
        self.at += 1
        self.chance *= chances[found]
        if self.chance < LEAST:
            raise Unlikely
        return found

    def law(self, release):
        """Return the probability of every output of `release`."""
        found = {}
        while True:
            self.at, self.chance = 0, 1.0
            try:
                output = release()
            except Unlikely:
                pass
            else:
                found[output] = found.get(output, 0.0) + self.chance
            while self.taken and self.taken[-1] + 1 == self.options[-1]:
                self.taken.pop()
                self.options.pop()
            if not self.taken:
                return found
            self.taken[-1] += 1


class Uniform:
    """A uniform number of 192 bits that is only compared."""

    def __init__(self, paths):
        self.paths = paths

    def __lt__(self, chance):
        return bool(self.paths.pick((1 - chance / 2**192, chance / 2**192)))


@lru_cache
def noise_law(law):
    """Return the probabilities of noise of -n .. n lattice steps, most of the mass."""
    scale = float(law.scale)
    x = np.arange(-200, 201)
    if law.is_rounded:
        found = ndtr((x + 0.5) / scale) - ndtr((x - 0.5) / scale)
    else:
        found = np.exp([-float(law.energy(Fraction(abs(int(step))))) for step in x])
        found /= found.sum()
    reach = math.ceil((3.5 if law.is_gaussian else 7) * scale)
    return found[200 - reach : 201 + reach].tolist()


def follow(module, paths):
    """Let the draws of a module follow `paths`, with noise on a lattice of few steps."""
    module._RESOLUTION = -9

    def noise(law, size, _):
        chances = noise_law(law)
        drawn = [paths.pick(chances) - len(chances) // 2 for _ in range(size or 1)]
        return np.array(drawn if size != () else drawn[0])

    for name, drawn in {
        "bernoulli_exp": lambda energy, _: bool(
            paths.pick((1 - math.exp(-energy), math.exp(-energy)))
        ),
        "uniform_below": lambda count, _: paths.pick([1 / count] * count),
        "_uniform": lambda _: Uniform(paths),
        "draw": noise,
    }.items():
        if hasattr(module, name):
            setattr(module, name, drawn)
    return module


def check_laws(laws, claim):
    """Check that two laws, of which paths are missing, are as private as the claim."""
    curve = dp.account(claim)
    missing = [1 - sum(law.values()) for law in laws]
    assert -1e-12 < max(missing) < 2e-3
    for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0, 6.0):
        for (one, other), left in zip((laws, laws[::-1]), missing[::-1], strict=True):
            grown = math.exp(epsilon)
            gaps = (p - grown * (other.get(key, 0.0) + left) for key, p in one.items())
            assert sum(max(gap, 0.0) for gap in gaps) <= curve.delta(epsilon) + 1e-12


def compare(paths, release, data_sets):
    """Check a release, which returns its output and its mechanism, on two data sets."""
    claims = []

    def run(data):
        output, claim = release(data)
        claims.append(claim)
        return output

    check_laws([paths.law(lambda data=data: run(data)) for data in data_sets], claims[-1])


def check_choice(load):
    """The best one of two, and the best two of three, on votes that one record changes."""
    paths = Paths()
    module = follow(load("choice"), paths)
    for kind, monotonic, count, votes in (
        (dp.ExponentialMechanism(2.0), False, 1, [(1, 1), (2, 0)]),
        (dp.ExponentialMechanism(2.0), True, 1, [(1, 1), (2, 1)]),
        (dp.PermuteAndFlip(2.0), False, 1, [(1, 1), (2, 0)]),
        (dp.PermuteAndFlip(2.0), True, 2, [(1, 0, 1), (2, 0, 2)]),
        (dp.Laplace(0.5), False, 1, [(1, 1, 0), (0, 2, 0)]),
    ):

        def release(scores, kind=kind, options={"monotonic": monotonic, "count": count}):  # noqa: B006
            chosen = module.choose(scores, kind, **options, **SEEDED)
            return chosen.indices, chosen.mechanism

        compare(paths, release, votes)


def check_sparse_vector(load):
    """The answers to two queries that one record changes, and the value of a positive one."""
    paths = Paths()
    module = follow(load("sparse_vector"), paths)
    for most, monotonic, share, data in (
        (1, False, 0.0, [(1, 0), (0, 1)]),
        (2, True, 0.0, [(0, 0), (1, 1)]),
        (1, True, 0.3, [(0, 0), (1, 1)]),
    ):
        claim = dp.AboveThreshold(6.0, max_positives=most)

        def release(queries, claim=claim, monotonic=monotonic, share=share):
            search = module.SparseVector(
                claim, threshold=0, monotonic=monotonic, answer_share=share, **SEEDED
            )
            return tuple(search.ask(x) for x in queries if not search.finished), claim

        compare(paths, release, data)


def check_keys(load):
    """The keys of one user among others, by optimal probabilities and by thresholds."""
    paths = Paths()
    module = follow(load("partitions"), paths)
    others = [(1, "a"), (2, "a")]
    own = [(9, "a"), (9, "c"), (9, "d"), (9, "a")]
    for noise, options in ((dp.ApproximateDP(1.0, 0.2), {}), (dp.Gaussian(0.8), {"delta": 0.1})):

        def release(rows, noise=noise, options=options):
            users, keys = zip(*rows, strict=True)
            found = module.select_keys(users, keys, noise, max_keys=2, **options, **SEEDED)
            return (found.keys, found.counts), found.mechanism

        compare(paths, release, (others, others + own))


def check_tuning(load):
    """The best of several randomized responses, of which 1 is better."""
    module, paths = load("tuning"), Paths()
    kept = math.e / (1 + math.e)
    for distribution in ("geometric", "poisson"):
        claim = dp.best_of(dp.RandomizedResponse(1.0), mean_runs=1.2, distribution=distribution)
        counts, chances = zip(*itertools.islice(module._law(claim), 9), strict=True)
        drawn = counts, [float(chance) for chance in chances]
        module.draw_runs = lambda *_, drawn=drawn: drawn[0][paths.pick(drawn[1])]

        def release(record, claim=claim):
            def run():
                answer = paths.pick((kept, 1 - kept) if record == 0 else (1 - kept, kept))
                return float(answer), answer

            found = module.tune(run, claim, **SEEDED)
            return found.output, found.mechanism

        compare(paths, release, (0, 1))


def check_sums(load):
    """The sum of integers with discrete noise, with and without a record."""
    paths = Paths()
    module = follow(load("sums"), paths)
    for noise in (dp.DiscreteGaussian(1.5, sensitivity=2), dp.DiscreteLaplace(1.0, sensitivity=2)):

        def release(data, noise=noise):
            clipped = load("clipping").clip_records(data, clip_norm=2.0, norm="l1")
            found = module.release_sum(clipped, noise, **SEEDED)
            return float(found.values), found.mechanism

        compare(paths, release, ([1.0], [1.0, 9.0]))


CHECKS = (check_choice, check_sparse_vector, check_keys, check_tuning, check_sums)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_neighboring_data_sets(check):
    with package("privacy.release") as load:
        check(load)


MUTANTS = [
    ("a rate for monotonic scores", check_choice, "choice", "1 if monotonic else 2", "1"),
    (
        "a query without noise",
        check_sparse_vector,
        "sparse_vector",
        "steps + self._noise(self._query) >=",
        "steps >=",
    ),
    (
        "a threshold two too low",
        check_keys,
        "partitions",
        "scale * Fraction(x))) + 1",
        "scale * Fraction(x))) - 1",
    ),
    (
        "one run more",
        check_tuning,
        "tuning",
        "simulation=simulation))):",
        "simulation=simulation)) + 1):",
    ),
    ("noise of half the scale", check_sums, "sums", "Law(scale / step,", "Law(scale / 2 / step,"),
]


@pytest.mark.parametrize(
    ("check", "patch"),
    [pytest.param(check, Patch(*where), id=name) for name, check, *where in MUTANTS],
)
def test_a_mutant_is_caught(check, patch):
    assert caught("privacy.release", patch, check)
