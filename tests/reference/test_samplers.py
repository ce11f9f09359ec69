"""Every sampler is held against brute force over all batches of all small data sets."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import fftconvolve

import privacy as dp
from privacy.certification import as_proven, can_prove
from tests.reference.enumeration import (
    ADD,
    NULL,
    REPLACE,
    SPECIAL,
    any_of,
    divergence_of,
    fixed_size,
    hockey,
    in_order,
    neighbors,
    shuffled,
    table,
    truncated,
    with_replacement,
)

ALPHA = np.exp(np.linspace(-3, 3, 241))
VALUES = (1, 2)
SEEDS = range(3)


def largest(run, count, relation, values=VALUES):
    """Return the largest divergence of a data set with the record from one without it."""
    worst = np.zeros(ALPHA.size)
    for one, other in neighbors(values, count, relation):
        worst = np.maximum(worst, hockey(ALPHA, run(one), run(other)))
    return worst


def bound(mechanism, relation):
    return divergence_of(mechanism.loss(relation), ALPHA)


def holds(truth, bound):
    return np.all(truth <= bound + 1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("size", "count"), [(1, 3), (2, 3), (2, 5), (3, 4)])
def test_sampler_of_fixed_size(seed, size, count):
    inner = table(VALUES, size, 3, np.random.default_rng(seed))
    sampled = dp.FixedSizeSampled(inner, batch_size=size, records=count)
    for relation in (REPLACE, SPECIAL):
        truth = largest(lambda data: fixed_size(inner, data, size), count, relation)
        assert holds(truth, bound(sampled, relation))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("size", "count"), [(1, 3), (2, 2), (2, 4)])
def test_sampler_with_replacement(seed, size, count):
    inner = table(VALUES, size, 3, np.random.default_rng(seed))
    sampled = dp.FixedSizeSampled(inner, batch_size=size, records=count, replacement=True)
    for relation in (REPLACE, SPECIAL):
        truth = largest(lambda data: with_replacement(inner, data, size), count, relation)
        assert holds(truth, bound(sampled, relation))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("q", "most", "count"), [(0.3, 1, 2), (0.6, 2, 4), (0.2, 1, 5), (1, 2, 3)])
def test_sampler_of_limited_size(seed, q, most, count):
    inner = table(VALUES, most, 3, np.random.default_rng(seed))
    sampled = dp.TruncatedPoisson(inner, sampling_probability=q, max_batch_size=most, records=count)
    for relation in (ADD, SPECIAL):
        truth = largest(lambda data: truncated(inner, data, q, most), count, relation)
        assert holds(truth, bound(sampled, relation))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("size", "count"), [(1, 3), (2, 4), (2, 3)])
def test_sampler_of_shuffled_epochs(seed, size, count):
    inner = table(VALUES, size, 2, np.random.default_rng(seed))
    epoch = dp.Epochs(inner)
    for run in (shuffled, in_order):
        for relation in (REPLACE, SPECIAL):
            truth = largest(lambda data, run=run: run(inner, data, size), count, relation)
            assert holds(truth, bound(epoch, relation))


class TestAttained:
    """Data sets whose divergence is the bound."""

    inner = any_of((1,), 3, odds=5.0)

    def test_sampler_of_fixed_size(self):
        sampled = dp.FixedSizeSampled(self.inner, batch_size=2, records=5)
        truth = largest(lambda data: fixed_size(self.inner, data, 2), 5, REPLACE, (1,))
        np.testing.assert_allclose(truth, bound(sampled, REPLACE), rtol=1e-12, atol=1e-15)

    def test_sampler_with_replacement(self):
        sampled = dp.FixedSizeSampled(self.inner, batch_size=3, records=4, replacement=True)
        truth = largest(lambda data: with_replacement(self.inner, data, 3), 4, REPLACE, (1,))
        np.testing.assert_allclose(truth, bound(sampled, REPLACE), rtol=1e-12, atol=1e-15)

    def test_sampler_of_shuffled_epochs(self):
        truth = largest(lambda data: in_order(self.inner, data, 2), 4, REPLACE, (1,))
        np.testing.assert_allclose(
            truth, bound(dp.Epochs(self.inner), REPLACE), rtol=1e-12, atol=1e-15
        )

    def test_sampler_of_limited_size(self):
        """The pair reveals whether the batch was cut; near order 1 that changes nothing."""
        q, most, count = 0.4, 1, 3
        sampled = dp.TruncatedPoisson(
            self.inner, sampling_probability=q, max_batch_size=most, records=count
        )
        truth = largest(lambda data: truncated(self.inner, data, q, most), count, ADD, (1,))
        upper = bound(sampled, ADD)
        near = np.abs(np.log(ALPHA)) < 0.1
        np.testing.assert_allclose(truth[near], upper[near], rtol=1e-12)
        assert holds(truth, upper)
        assert 1e-3 < (upper - truth).max() < 0.04


@pytest.mark.parametrize("relation", [REPLACE, SPECIAL])
@pytest.mark.parametrize("steps", [2, 3])
def test_sampler_bounds_compose(relation, steps):
    inner = any_of((1,), 2, odds=3.0)
    runs = {
        dp.FixedSizeSampled(inner, batch_size=2, records=4): lambda d: fixed_size(inner, d, 2),
        dp.TruncatedPoisson(
            inner, sampling_probability=0.4, max_batch_size=2, records=4
        ): lambda d: truncated(inner, d, 0.4, 2),
        dp.Epochs(inner): lambda d: in_order(inner, d, 2),
    }
    for sampled, run in runs.items():
        if isinstance(sampled, dp.TruncatedPoisson) and relation is REPLACE:
            continue
        curve = dp.account(dp.repeat(sampled, steps), relation=relation)
        alpha, truth = np.exp([0.0, 0.2, 0.5]), np.zeros(3)
        for one, other in neighbors((1,), 4, relation):
            p = q = np.ones(1)
            for _ in range(steps):
                p, q = np.outer(p, run(one)).ravel(), np.outer(q, run(other)).ravel()
            truth = np.maximum(truth, np.maximum(hockey(alpha, p, q), hockey(alpha, q, p)))
        bounds = [curve.delta(float(epsilon)) for epsilon in np.log(alpha)]
        assert np.all(truth <= np.array(bounds) * (1 + 1e-9) + 1e-15)
        assert truth[0] > 0.8 * bounds[0]


def test_sampler_of_shuffled_epochs_is_refused_if_a_record_is_added():
    """One record more at the front moves all others, which changes every batch."""
    inner = any_of((1,), 1, odds=2.0)
    one, other = (1, NULL, 1, NULL), (NULL, 1, NULL, 1, NULL)
    p, q = in_order(inner, one, 1), in_order(inner, other[:4], 1)
    assert math.isclose(np.log(p / q).max(), 4 * math.log(2.0))
    assert dp.account(dp.Epochs(inner), relation=REPLACE).epsilon(0) <= math.log(2.0) + 1e-9
    with pytest.raises(dp.UnsupportedMechanism, match="displaces others"):
        dp.account(dp.Epochs(inner), relation=ADD)


def test_sampler_of_fixed_size_is_refused_if_a_record_is_added():
    """A batch of one of two records against the only record: the new one may displace it."""
    inner = any_of((1,), 1, odds=9.0)
    p, q = fixed_size(inner, (1, NULL), 1), fixed_size(inner, (NULL,), 1)
    assert hockey(np.array([1.0]), p, q)[0] > 0.39
    with pytest.raises(dp.UnsupportedMechanism, match="displaces others"):
        dp.account(dp.FixedSizeSampled(inner, batch_size=1, records=2), relation=ADD)


class TestGaussianNoise:
    """One release of Gaussian noise, by integration over all data sets of -1, 0 and 1."""

    sigma, count = 0.8, 3
    x = np.linspace(-9.0, 9.0, 6001)
    epsilons = (0.0, 0.3, 1.0, 2.5)

    def release(self, batch):
        """Return the density of a noisy sum; null records contribute 0."""
        z = (self.x - sum(batch)) / self.sigma
        return np.exp(-z * z / 2) / (self.sigma * math.sqrt(2 * math.pi))

    of = release

    def largest(self, run, relation):
        found = np.zeros(len(self.epsilons))
        for one, other in neighbors((-1, 1), self.count, relation):
            for p, q in ((run(one), run(other)), (run(other), run(one))):
                above = np.maximum(p - np.multiply.outer(np.exp(self.epsilons), q), 0)
                found = np.maximum(found, np.trapezoid(above, self.x, axis=-1))
        return found

    def bounds(self, sampled, relation):
        curve = dp.account(sampled, relation=relation)
        return np.array([curve.delta(epsilon) for epsilon in self.epsilons])

    @pytest.mark.parametrize("size", [1, 2])
    @pytest.mark.parametrize("relation", [REPLACE, SPECIAL])
    def test_sampler_of_fixed_size(self, size, relation):
        sampled = dp.FixedSizeSampled(dp.Gaussian(self.sigma), batch_size=size, records=self.count)
        truth = self.largest(lambda data: fixed_size(self, data, size), relation)
        upper = self.bounds(sampled, relation)
        assert np.all(truth <= upper + 1e-6)
        if relation is REPLACE:
            np.testing.assert_allclose(truth, upper, atol=1e-6)

    @pytest.mark.parametrize("relation", [REPLACE, SPECIAL])
    def test_sampler_with_replacement(self, relation):
        sampled = dp.FixedSizeSampled(
            dp.Gaussian(self.sigma), batch_size=2, records=self.count, replacement=True
        )
        truth = self.largest(lambda data: with_replacement(self, data, 2), relation)
        upper = self.bounds(sampled, relation)
        assert np.all(truth <= upper + 1e-6)
        if relation is REPLACE:
            assert np.all(upper - truth < 0.03)

    @pytest.mark.parametrize("relation", [ADD, REPLACE, SPECIAL])
    def test_sampler_of_limited_size(self, relation):
        for most, q in ((1, 0.3), (2, 0.7)):
            sampled = dp.TruncatedPoisson(
                dp.Gaussian(self.sigma),
                sampling_probability=q,
                max_batch_size=most,
                records=self.count,
            )
            truth = self.largest(
                lambda data, q=q, most=most: truncated(self, data, q, most), relation
            )
            upper = self.bounds(sampled, relation)
            assert np.all(truth <= upper + 1e-6)
            # an output does not reveal whether the batch was cut
            assert np.all(upper - truth < 0.12)


@pytest.mark.parametrize("steps", [1, 30, 3000])
@pytest.mark.parametrize("sigma", [0.7, 2.0, 30.0])
def test_sampler_of_fixed_size_costs_at_least_one_direction(steps, sigma):
    """Removing a record from a Poisson sample is a replacement between two data sets."""
    inner = dp.Gaussian(sigma, replace_distance=1.0)
    fixed = dp.repeat(dp.FixedSizeSampled(inner, batch_size=3, records=200), steps)
    poisson = dp.repeat(dp.PoissonSampled(inner, sampling_probability=3 / 200), steps)
    for delta in (1e-3, 1e-9):
        lower = dp.account(poisson).epsilon(delta)
        upper = dp.account(fixed, relation=REPLACE)
        assert lower <= upper.epsilon(delta) * (1 + 1e-8) + 1e-12
        assert upper.epsilon(delta) <= dp.account(fixed, relation=REPLACE, notion="rdp").epsilon(
            delta
        )


def test_sampler_that_cuts_nothing_is_poisson():
    inner = dp.Gaussian(1.0)
    same = dp.TruncatedPoisson(inner, sampling_probability=0.1, max_batch_size=9, records=9)
    assert same == dp.PoissonSampled(inner, sampling_probability=0.1)
    rare = dp.TruncatedPoisson(inner, sampling_probability=0.001, max_batch_size=90, records=900)
    poisson = dp.PoissonSampled(inner, sampling_probability=0.001)
    for relation in (ADD, REPLACE, SPECIAL):
        found = dp.account(dp.repeat(rare, 100), relation=relation).epsilon(1e-6)
        wanted = dp.account(dp.repeat(poisson, 100), relation=relation).epsilon(1e-6)
        assert math.isclose(found, wanted, rel_tol=1e-6)


def test_sampler_of_all_records_is_the_mechanism():
    whole = dp.FixedSizeSampled(dp.Gaussian(1.0), batch_size=9, records=9)
    assert whole.loss(REPLACE) == dp.Gaussian(1.0).loss(REPLACE)


def of_replaced_laplace(terms, steps, epsilon, cells=2**13):
    """Return bounds on delta of the pairs (weight, q, distance), one of which is drawn publicly.

    The tails of a sampled pair's loss x > 0 are those of y = log(1 + (e^x - 1) / q) of Laplace
    noise; the law is symmetric, with the rest at 0. Its cells are rounded down and up.
    """
    width = max(math.log1p(q * math.expm1(d)) for _, q, d in terms) / cells
    x, p, q_tail = np.arange(cells + 1) * width, 0.0, 0.0
    for weight, q, d in terms:
        y = np.log1p(np.expm1(x) / q)
        above, under_q = 1 - 0.5 * np.exp((y - d) / 2), 0.5 * np.exp(-(y + d) / 2)
        p = p + weight * (y < d) * ((1 - q) * under_q + q * above)
        q_tail = q_tail + weight * (y < d) * under_q
    p[-1] = q_tail[-1] = 0.0
    low, high = np.zeros((2, 2 * cells + 1))
    high[cells + 1 :] = low[cells:-1] = -np.diff(p)
    high[1 : cells + 1] -= np.diff(q_tail)[::-1]
    low[:cells] -= np.diff(q_tail)[::-1]
    found = []
    for law in (low, high):
        law[cells] += 1 - p[0] - q_tail[0]
        sums = np.array([1.0])
        for _ in range(steps):
            sums = fftconvolve(sums, law)
        loss = (np.arange(sums.size) - steps * cells) * width
        found.append(float(sums @ -np.expm1(np.minimum(epsilon - loss, 0.0))))
    return found


@pytest.mark.parametrize("steps", [1, 2, 8])
@pytest.mark.parametrize("replacement", [False, True])
def test_sampler_of_laplace_noise_composes(steps, replacement):
    batches = {"batch_size": 3, "records": 20, "replacement": replacement}
    plan = dp.repeat(dp.FixedSizeSampled(dp.Laplace(1.3), **batches), steps)
    terms, q = [(1.0, 0.15, 2 / 1.3)], 1 - 0.95**3
    if replacement:
        drawn = [math.comb(3, j) * 0.05**j * 0.95 ** (3 - j) / q for j in (1, 2, 3)]
        terms = [(weight, q, 2 * j / 1.3) for j, weight in enumerate(drawn, 1)]
    curve = dp.account(plan, relation=REPLACE)
    for epsilon in (0.1, 0.5, 1.5):
        lower, upper = of_replaced_laplace(terms, steps, epsilon)
        assert lower - 1e-12 <= curve.delta(epsilon) <= upper + 2e-4 * lower + 1e-12
    assert dp.account(plan, relation=REPLACE, notion="rdp").epsilon(1e-3) > curve.epsilon(1e-3)


@pytest.mark.parametrize(
    "inner",
    [
        dp.FixedSizeSampled(dp.Gaussian(1.0), batch_size=2, records=9),
        dp.TruncatedPoisson(
            dp.Gaussian(1.0), sampling_probability=0.5, max_batch_size=2, records=9
        ),
        dp.Epochs(dp.Gaussian(1.0)),
    ],
)
def test_sampler_of_batches_of_batches_is_refused(inner):
    with pytest.raises(TypeError, match="a mechanism that runs on one batch"):
        dp.FixedSizeSampled(inner, batch_size=2, records=9)
    thinned = dp.PoissonSampled(inner, sampling_probability=0.5)
    for relation in (ADD, REPLACE, SPECIAL):
        with pytest.raises(dp.UnsupportedMechanism):
            dp.account(thinned, relation=relation)


def test_sampler_of_claims():
    """A claim of epsilon on batches is amplified to log(1 + q (e^epsilon - 1))."""
    inner = dp.ApproximateDP(1.0, 1e-3, relation=REPLACE)
    sampled = dp.FixedSizeSampled(inner, batch_size=1, records=10)
    curve = dp.account(sampled, relation=REPLACE)
    amplified = math.log1p(0.1 * math.expm1(1.0))
    assert math.isclose(curve.epsilon(1e-4 * (1 + 1e-9)), amplified, rel_tol=1e-6)
    assert curve.epsilon(0.9e-4) == math.inf
    with pytest.raises(dp.UnsupportedMechanism, match="proven for REPLACE_ONE"):
        dp.account(sampled, relation=SPECIAL)
    moments = dp.FixedSizeSampled(
        dp.ZeroConcentratedDP(0.1, relation=REPLACE), batch_size=1, records=10
    )
    with pytest.raises(dp.UnsupportedMechanism, match="only bounds on its moments"):
        dp.account(moments, relation=REPLACE)


def test_replacement_of_few_records_has_a_finite_epsilon():
    batch = dp.FixedSizeSampled(dp.Gaussian(100), batch_size=5000, records=2, replacement=True)
    curve = dp.account(batch, relation=dp.NeighboringRelation.REPLACE_ONE)
    assert 0 < curve.epsilon(1e-5) < 10_000


@pytest.mark.parametrize(("draws", "records"), [(100, 2), (3000, 2), (10_000, 3), (100, 1000)])
def test_sampler_of_many_draws_is_not_rounded_down(draws, records):
    """At epsilon 0, j copies have delta 1 - a^j, and a^j has the mean (1 - (1 - a) / n)^draws."""
    scale = 2.0 * draws
    batch = {"batch_size": draws, "records": records, "replacement": True}
    curve = dp.account(dp.FixedSizeSampled(dp.Laplace(scale), **batch), relation=REPLACE)
    kept = -math.expm1(-1 / scale) / records
    exact = -math.expm1(draws * math.log1p(-kept))
    assert exact * (1 - 1e-15) <= curve.delta(0.0) <= exact * (1 + 1e-12)


class TestAddedGroups:
    """One of 3 equally likely records, 2 of them added: the sets between have fewer records."""

    inner = dp.DiscreteLaplace(1.0, sensitivity=1, replace_sensitivity=1)
    batch = dp.TruncatedPoisson(inner, sampling_probability=1.0, max_batch_size=1, records=3)
    plan = dp.repeat(batch, 3)

    def truth(self):
        """Return delta at 0 of one record 0, and of this record and two records 1."""
        one = 1 / (1 + math.exp(-1.0))  # the probability of an output >= 1 from a record 1
        before, after = 1 - one, 2 / 3 * one + 1 / 3 * (1 - one)
        above = (
            math.comb(3, k)
            * abs(after**k * (1 - after) ** (3 - k) - before**k * (1 - before) ** (3 - k))
            for k in range(4)
        )
        return sum(above) / 2

    def test_the_bound_of_one_record_is_not_that_of_a_group(self):
        assert 2 * dp.account(self.plan).delta(0.0) < 0.96 * self.truth()

    @pytest.mark.parametrize("notion", ["tightest", "approximate", "contour", "pld", "rdp", "zcdp"])
    def test_they_are_refused(self, notion):
        one = dp.account(self.batch, notion=notion)
        sums = [one, 3 * one, one + one, one.plus([one, one])]
        for curve in [
            *sums,
            dp.account(self.plan, notion=notion),
            dp.account(dp.no_op(), notion=notion) + one,
        ]:
            with pytest.raises(dp.UnsupportedMechanism, match="fewer records"):
                curve.group(2)
        assert dp.account(self.plan, notion=notion, relation=SPECIAL).group(2).delta(0.0) <= 1

    def test_they_are_not_proven(self):
        plan = dp.repeat(
            replace(self.batch, mechanism=dp.Gaussian(1.0), sampling_probability=0.9), 3
        )
        for notion in ("contour", "rdp"):
            claim = dp.account(plan, notion=notion).guarantee(epsilon=1.0)
            assert as_proven(replace(claim, delta=1.0)) is not None
            assert as_proven(replace(claim, delta=1.0, unit="2 records")) is None

    def test_a_record_that_enters_a_cell_adds_to_its_number(self):
        cells = dp.parallel(
            replace(self.batch, mechanism=dp.Gaussian(1.0), sampling_probability=0.9),
            dp.Gaussian(5.0),
        )
        with pytest.raises(dp.UnsupportedMechanism, match="can change its cell"):
            dp.account(cells, relation=REPLACE)
        for relation in (ADD, SPECIAL):
            assert dp.account(cells, relation=relation).epsilon(1e-5) > 0
        assert not can_prove(cells, relation=REPLACE, notion="rdp")
        assert can_prove(cells, relation=ADD, notion="rdp")


def test_lower_bounds_are_not_those_of_a_worse_pair():
    """The exact profile of one batch is below that of the pair that composes."""
    batch = dp.FixedSizeSampled(dp.Laplace(2.0), batch_size=1, records=6)
    exact = dp.account(batch, relation=REPLACE, notion="approximate")
    curve = dp.account(batch, relation=REPLACE, notion="pld")
    for epsilon in (0.1, 0.2, 0.24):
        lower, upper = curve.bracket(epsilon)
        assert lower <= math.log(exact.delta(epsilon)) <= upper + 1e-12
    several = dp.account(dp.repeat(batch, 2), relation=REPLACE, notion="pld")
    assert several.tradeoff_interval(0.1)[1] >= 0.9
    assert not several.exact
