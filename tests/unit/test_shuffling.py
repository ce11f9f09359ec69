"""Shuffled reports, against enumeration and against the sums of the papers."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import gammaln

import privacy as dp


def binomial(count, p):
    a = np.arange(count + 1)
    log_ways = gammaln(count + 1) - gammaln(a + 1) - gammaln(count - a + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.exp(log_ways + a * math.log(p) + (count - a) * math.log1p(-p))


def clones(reports, local, epsilon, uniform):
    """Return delta of the pair of Feldman, McMillan and Talwar 2021, Theorem 3.1, as it is printed.

    A ~ Bin(C, 1/2) and (A + D, C - A + 1 - D), D a coin of e^local / (e^local + 1).
    """
    heads = math.exp(local) / (math.exp(local) + 1)
    delta = 0.0
    for count, weight in enumerate(binomial(reports - 1, uniform)):
        if weight > 1e-25:
            a = binomial(count, 0.5)
            p = heads * np.append(0.0, a) + (1 - heads) * np.append(a, 0.0)
            delta += weight * np.maximum(p - math.exp(epsilon) * p[::-1], 0).sum()
    return delta


def shuffled_law(laws):
    """Return the probability of every histogram of independent reports."""
    found = {(0,) * laws.shape[1]: 1.0}
    for law in laws:
        after = {}
        for histogram, chance in found.items():
            for output, p in enumerate(law):
                key = tuple(n + (place == output) for place, n in enumerate(histogram))
                after[key] = after.get(key, 0.0) + chance * p
        found = after
    return found


def largest_deltas(randomizer, reports, epsilons):
    """Return the largest delta over all data sets and all replaced records."""
    inputs = range(len(randomizer))
    found = np.zeros(len(epsilons))
    for others in itertools.combinations_with_replacement(inputs, reports - 1):
        laws = [shuffled_law(randomizer[[*others, own]]) for own in inputs]
        for one, other in itertools.permutations(laws, 2):
            p, q = np.array([(one[key], other[key]) for key in one]).T
            each = [np.maximum(p - math.exp(e) * q, 0).sum() for e in epsilons]
            found = np.maximum(found, each)
    return found


def answers(local, categories):
    table = np.ones((categories, categories)) + np.eye(categories) * math.expm1(local)
    return table / table.sum(axis=1, keepdims=True)


EPSILONS = (0.0, 0.2, 0.6, 1.0, 1.5)


@pytest.mark.parametrize("categories", [2, 3, 4])
@pytest.mark.parametrize("reports", [1, 2, 4, 6])
@pytest.mark.parametrize("local", [0.5, 2.0])
def test_randomized_response_by_enumeration(categories, reports, local):
    truth = largest_deltas(answers(local, categories), reports, EPSILONS)
    found = [dp.account(dp.ShuffledReports(local, reports, categories)).delta(e) for e in EPSILONS]
    anything = [dp.account(dp.ShuffledReports(local, reports)).delta(e) for e in EPSILONS]
    for exact, ours, loose in zip(truth, found, anything, strict=True):
        assert exact <= ours * (1 + 1e-12) + 1e-15
        assert ours <= loose * (1 + 1e-9) + 1e-15
    if reports == 1:
        assert found == pytest.approx(truth, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_any_randomizer_by_enumeration(seed):
    rng = np.random.default_rng(seed)
    local, reports = 1.2, 4
    # extreme points, whose ratios are large
    table = np.exp(local * rng.integers(0, 2, (3, 4))) * np.exp(rng.uniform(0, 0.2, 4))
    table /= table.sum(axis=1, keepdims=True)
    worst = max(np.log(a / b).max() for a, b in itertools.permutations(table, 2))
    truth = largest_deltas(table, reports, EPSILONS)
    curve = dp.account(dp.ShuffledReports(worst, reports))
    for epsilon, exact in zip(EPSILONS, truth, strict=True):
        assert exact <= curve.delta(epsilon) * (1 + 1e-12) + 1e-15


@pytest.mark.parametrize(("reports", "local"), [(1, 1.0), (7, 2.0), (60, 1.0), (400, 3.0)])
def test_the_pair_of_the_paper(reports, local):
    ours = dp.account(dp.ShuffledReports(local, reports))
    two = dp.account(dp.ShuffledReports(local, reports, 2))
    for epsilon in (0.0, 0.05 * local, 0.3 * local):
        for curve, uniform in ((ours, math.exp(-local)), (two, 2 / (math.exp(local) + 1))):
            exact = clones(reports, local, epsilon, uniform)
            assert exact * (1 - 1e-9) <= curve.delta(epsilon) <= exact * 1.001


@pytest.mark.parametrize("reports", [10**4, 10**6])
@pytest.mark.parametrize("local", [0.5, 1.0, 2.0])
def test_the_closed_form_of_the_paper_is_larger(reports, local):
    """Feldman, McMillan and Talwar 2021, Theorem 3.1."""
    delta = 1e-6
    assert local <= math.log(reports / (16 * math.log(2 / delta)))
    e = math.exp(local)
    size = 8 * math.sqrt(e * math.log(4 / delta) / reports) + 8 * e / reports
    closed = math.log1p((e - 1) / (e + 1) * size)
    found = dp.account(dp.ShuffledReports(local, reports)).epsilon(delta)
    assert 0.1 * closed < found < closed
    for categories in (2, 3, 30):
        answered = dp.account(dp.ShuffledReports(local, reports, categories)).epsilon(delta)
        assert answered < found


def test_one_report_is_its_randomizer():
    for categories in (2, 3, 9):
        one = dp.account(dp.ShuffledReports(1.3, 1, categories))
        alone = dp.account(dp.RandomizedResponse(1.3, categories))
        for epsilon in (0.0, 0.4, 1.2):
            assert one.delta(epsilon) == pytest.approx(alone.delta(epsilon), rel=1e-9)
    assert dp.account(dp.ShuffledReports(1.3, 50)).delta(1.3 + 1e-9) == 0


def test_more_reports_and_categories_are_more_private():
    found = [
        dp.account(dp.ShuffledReports(2.0, n, k)).epsilon(1e-6)
        for k in (None, 2, 4, 16)
        for n in (100, 1000, 30_000)
    ]
    for k in range(4):
        row = found[3 * k : 3 * k + 3]
        assert row == sorted(row, reverse=True)
    assert found[::3] == sorted(found[::3], reverse=True)


@pytest.mark.parametrize("categories", [None, 3])
def test_two_rounds_by_enumeration(categories):
    pair = dp.ShuffledReports(1.5, 4, categories).loss(dp.NeighboringRelation.REPLACE_ONE)
    log_p, loss = (np.array(column) for column in pair.atoms())
    p = np.exp(log_p)
    both = np.add.outer(loss, loss).ravel()
    twice = np.multiply.outer(p, p).ravel()
    curve = dp.account(dp.repeat(dp.ShuffledReports(1.5, 4, categories), 2), notion="pld")
    for epsilon in (0.0, 0.5, 1.7):
        exact = np.maximum(twice * -np.expm1(epsilon - both), 0).sum()
        assert exact * (1 - 1e-9) <= curve.delta(epsilon) <= exact * (1 + 1e-3)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((0.0, 10), "epsilon"),
        ((101.0, 10), "epsilon"),
        ((1.0, 0), "reports"),
        ((1.0, 10**10), "reports"),
        ((1.0, 10, 1), "categories"),
    ],
)
def test_bad_reports_are_refused(arguments, named):
    with pytest.raises(ValueError, match=f"Expected {named}"):
        dp.ShuffledReports(*arguments)


def test_very_many_reports_and_categories_fit_in_memory():
    found = dp.account(dp.ShuffledReports(0.5, 10**9, 10**9)).delta(0)
    assert 0 < found < 1e-9


@pytest.mark.parametrize("relation", dp.NeighboringRelation)
def test_records_that_choose_their_cell_change_the_number_of_reports(relation):
    reports = dp.ShuffledReports(1.0, 1000, 4)
    for part in (reports, dp.repeat(reports, 2)):
        cells = dp.parallel(part, dp.Gaussian(3.0))
        with pytest.raises(dp.UnsupportedMechanism, match="fixed number of records"):
            dp.account(cells, relation=relation)
    fixed = dp.parallel(reports, dp.Gaussian(3.0), cells="by_public_index")
    assert dp.account(fixed, relation=relation).epsilon(1e-6) > 0
