"""Audits of the code that reads data: clipping, samplers, released sums, running sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import privacy as dp
from privacy.audit import (
    assert_contribution,
    assert_norm,
    audit,
    edge_floats,
    falsify,
    falsify_noise,
    fit_score,
    neighboring_pairs,
)
from privacy.audit.claims import scored

pytest.importorskip("privacy.release.sums", reason="there is no code that touches data")

LEVEL = 1e-6
SEEDED = {"simulation": True}
SIGMA = 2.0**20
vectors = st.lists(edge_floats(0.3), min_size=2, max_size=2)
# which audit below looks at a public name
AUDITED = {
    "test_clipped_records": "Contributions clip_records",
    "test_clipped_users": "clip_users limit_contributions",
    "test_lifetime": "LifetimeCap",
    "test_samplers": "discrete_gaussian discrete_laplace rounded_gaussian rounded_laplace "
    "float_gaussian_for_simulation",
    "test_chosen_norm": "ChosenNorm choose_clip_norm",
    "test_choice": "Choice choose",
    "test_selected_keys": "SelectedKeys select_keys",
    "test_tuning": "Tuned tune",
    "test_sparse_vector": "SparseVector",
    "test_released_sum": "Release release_sum",
    "test_running_sum": "RunningSum Factorization Participation",
}


def test_every_public_name_is_audited():
    """New code that reads data needs an audit."""
    released = {
        name
        for name in dp.__all__
        if getattr(getattr(dp, name), "__module__", "").startswith(
            ("privacy.release", "privacy.running_sums")
        )
    }
    # these touch no data; the kinds of factorizations are audited
    released -= {"register_factorization", "BandChoice", "Banded", "choose_bands"}
    assert released <= {name for names in AUDITED.values() for name in names.split()}
    assert set(AUDITED) <= set(globals())


def exact_sum(rows):
    """Return the sum of rows of two floats, as fractions."""
    columns = np.asarray(rows, dtype=float).reshape(-1, 2).T.tolist()
    return [sum(map(Fraction, column), Fraction(0)) for column in columns]


@given(st.lists(vectors, min_size=1, max_size=4), st.sampled_from(["l1", "l2", "linf"]))
def test_clipped_records(rows, norm):
    order = {"l1": 1, "l2": 2, "linf": math.inf}[norm]
    for row in dp.clip_records(rows, clip_norm=0.3, norm=norm).values:
        assert_norm(row, 0.3, norm=order)


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"])
def test_clipped_users(relation):
    bound = 0.3 if relation != "REPLACE_ONE" else 0.6

    def total(rows):
        if not rows:
            return exact_sum([])
        users, values = zip(*rows, strict=True)
        return exact_sum(dp.clip_users(list(values), list(users), clip_norm=0.3).values)

    def some(rows):
        if not rows:
            return exact_sum([])
        users, values = zip(*rows, strict=True)
        kept = dp.limit_contributions(list(users), max_contributions=2, seed=1)
        clipped = dp.clip_records(list(values), clip_norm=0.3).values
        return exact_sum(clipped * kept[:, None])

    @given(neighboring_pairs(vectors, relation, null=[0.0, 0.0], unit="user"))
    def check(pair):
        assert_contribution(total, pair, bound)
        assert_contribution(some, pair, 2 * bound)

    check()


@given(st.lists(st.lists(edge_floats(2.0), min_size=1, max_size=3), min_size=1, max_size=5))
def test_lifetime(releases):
    """Over all releases together, one user's sum of squares is within the cap, exactly."""
    cap = dp.LifetimeCap(clip_norm=2.0)
    spent = []
    for values in releases:
        spent += cap.clip_users(values, [7] * len(values)).values.ravel().tolist()
    assert_norm(spent, 2.0)


@pytest.mark.parametrize("name", AUDITED["test_samplers"].split())
def test_samplers(name):
    claim = dp.Laplace(SIGMA) if "laplace" in name else dp.Gaussian(SIGMA)
    options = {"rng": 2026} if name.startswith("float") else {"rng": 2026, **SEEDED}
    noise = getattr(dp, name)(SIGMA, 20_000, **options)
    for aspect in ("scale", "shape"):  # a lattice of this width repeats some values
        finding = falsify_noise(claim, noise, significance=LEVEL, aspect=aspect)
        assert not finding.falsified, str(finding)
        less = falsify_noise(claim, 0.8 * noise, significance=LEVEL, aspect=aspect)
        assert less.falsified


def tell_apart(release, pair, true, false, *, runs):
    """Test a true and a false claim on the same outputs, as `audit` does."""
    scores = scored(release, pair, runs=runs, score=None, seed=0, progress=lambda _: None)
    finding = falsify(true, *scores, significance=LEVEL)
    assert not finding.falsified, str(finding)
    assert falsify(false, *scores, significance=LEVEL).falsified


def test_chosen_norm():
    claim = dp.PureDP(1.0)

    def choose(data, rng):
        return dp.choose_clip_norm(
            data, candidates=[0.5, 1, 2, 4], epsilon=1.0, quantile=0.5, rng=rng, **SEEDED
        ).clip_norm

    pair = ([0.3, 0.7, 3.0], [0.3, 0.7, 3.0, 3.5])
    finding = audit(choose, pair, claim, runs=2000)
    assert not finding.falsified, str(finding)


@pytest.mark.parametrize("kind", [dp.ExponentialMechanism, dp.PermuteAndFlip])
def test_choice(kind):
    """Counts of two answers, where the added record changes one of the two."""

    def release(data, rng, epsilon=1.5):
        votes = [sum(value == i for value in data) for i in range(2)]
        return dp.choose(votes, kind(epsilon), monotonic=True, rng=rng, **SEEDED).index

    pair = ([1], [1, 0])
    tell_apart(release, pair, kind(1.5), kind(0.2), runs=1000)


def test_selected_keys():
    """Whether a key is selected, with and without its second user."""

    def release(data, rng):
        claim = dp.ApproximateDP(0.5, 0.3)
        return len(dp.select_keys(data, ["a"] * len(data), claim, rng=rng, **SEEDED).keys)

    tell_apart(
        release, ([1], [1, 2]), dp.ApproximateDP(0.5, 0.3), dp.ApproximateDP(0.5, 0.01), runs=700
    )


def test_tuning():
    """The best of several randomized responses, an answer of 1 being better."""

    def release(data, rng):
        def run():
            kept = rng.random() < 1 / (1 + np.exp(-1.0))
            return float(kept == data[0]), int(kept == data[0])

        search = dp.best_of(dp.RandomizedResponse(1.0), mean_runs=4)
        return dp.tune(run, search, rng=rng, **SEEDED).output

    claim = dp.best_of(dp.RandomizedResponse(1.0), mean_runs=4)
    tell_apart(release, ([0], [1]), claim, dp.RandomizedResponse(0.4), runs=600)


def test_sparse_vector():
    """A query that falls by one with the record, then one that rises by one."""

    def release(data, rng):
        search = dp.SparseVector(dp.AboveThreshold(8.0), threshold=0.5, rng=rng, **SEEDED)
        for value in (1 - len(data), len(data)):
            if search.ask(value):
                return value == len(data)
        return 0.5

    tell_apart(release, ([], [1]), dp.AboveThreshold(8.0), dp.AboveThreshold(0.5), runs=400)


@pytest.mark.parametrize("claim", [dp.Gaussian(1.0), dp.Laplace(1.0)])
def test_released_sum(claim):
    def release(data, rng):
        clipped = dp.clip_records(data, clip_norm=0.5, norm="l1")
        return dp.release_sum(clipped, claim, rng=rng, **SEEDED).values

    pair = ([0.25], [0.25, 9.0])
    tell_apart(release, pair, claim, type(claim)(3.0), runs=600)
    rng = np.random.default_rng(2026)
    residuals = [float(release([0.25], rng)) - 0.25 for _ in range(1000)]
    finding = falsify_noise(claim, residuals, clip_norm=0.5, significance=LEVEL)
    assert not finding.falsified, str(finding)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("kind", ["independent", "square_root", "column_normalized", "binary_tree"])
def test_running_sum(kind, count):
    """A record in `count` consecutive releases, of values that follow earlier outputs.

    Each coordinate has noise of its own, so that one run holds as many runs as coordinates.
    """
    pytest.importorskip("privacy.running_sums.running_sum", reason="there are no running sums")
    runs, releases, claim = 20_000, 6, dp.Gaussian(1.5)
    makers = dp.Factorization
    factorization = getattr(makers, kind)(releases)
    participation = dp.Participation.consecutive(count)

    def transcripts(contribution, seed, noise_multiplier=1.5):
        sums = dp.RunningSum(
            factorization,
            noise_multiplier=noise_multiplier,
            shape=runs,
            participation=participation,
            rng=seed,
            **SEEDED,
        )
        out = np.zeros(runs)
        rows = []
        for k in range(releases):
            others = np.tanh(out)  # adaptive: the other records depend on earlier outputs
            out = sums.step(others + contribution * (2 <= k < 2 + count))
            rows.append(out - sum((np.tanh(row) for row in rows), np.zeros(runs)))
        return np.stack(rows, axis=1)

    def found(noise_multiplier):
        train, test = (
            [transcripts(side, seed + side, noise_multiplier) for side in (0, 1)] for seed in (1, 3)
        )
        score = fit_score(*train)
        return falsify(claim, *map(score, test), significance=LEVEL)

    honest = found(1.5)
    assert not honest.falsified, str(honest)
    assert found(0.75).falsified
