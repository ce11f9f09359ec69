"""Off-policy evaluation: values by the definition, coverage of intervals, private estimates."""

import math

import numpy as np
import pytest
from scipy import stats  # noqa: TID251

import bandits
from bandits import Options, Privacy
from bandits.offline import intervals

TRUE = np.array([0.2, 0.5, 0.9])
LOGGING = np.array([0.5, 0.3, 0.2])
TARGET = np.array([0.1, 0.2, 0.7])
VALUE = float(TARGET @ TRUE)


def logged(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    action = rng.choice(3, n, p=LOGGING)
    return action, (rng.random(n) < TRUE[action]).astype(float)


def estimates(action, reward, options):
    own = LOGGING[action], TARGET[action]
    model = np.array([0.3, 0.3, 0.8])
    baseline = np.full(len(action), TARGET @ model)
    return {
        "ips": bandits.ips(reward, *own, options),
        "snips": bandits.snips(reward, *own, options),
        "dr": bandits.doubly_robust(reward, *own, model[action], baseline, options),
    }


def test_values_are_those_of_the_definitions():
    action, reward = logged(50)
    own = [TARGET[a] / LOGGING[a] for a in action]
    model = [0.3, 0.3, 0.8]
    base = math.fsum(t * m for t, m in zip(TARGET, model, strict=True))
    found = estimates(action, reward, Options(resamples=10))
    weighted = math.fsum(w * r for w, r in zip(own, reward, strict=True))
    robust = math.fsum(
        base + w * (r - model[a]) for w, r, a in zip(own, reward, action, strict=True)
    )
    assert found["ips"].value == pytest.approx(weighted / 50, rel=1e-12)
    assert found["snips"].value == pytest.approx(weighted / math.fsum(own), rel=1e-12)
    assert found["dr"].value == pytest.approx(robust / 50, rel=1e-12)
    size = math.fsum(own) ** 2 / math.fsum(w * w for w in own)
    assert found["ips"].effective_sample_size == pytest.approx(size, rel=1e-12)


@pytest.mark.parametrize("wrong", [0.0, 0.5, 1.0])
def test_a_wrong_model_does_not_bias_the_doubly_robust_estimate(wrong):
    values = []
    for seed in range(200):
        action, reward = logged(500, seed)
        model = np.array([wrong, 1 - wrong, 0.5])
        baseline = np.full(500, TARGET @ model)
        own = LOGGING[action], TARGET[action], model[action], baseline
        values.append(bandits.doubly_robust(reward, *own, Options(resamples=1)).value)
    assert abs(np.mean(values) - VALUE) < 4 * np.std(values) / math.sqrt(200)


def test_replay_is_the_mean_of_the_matches():
    action, reward = logged(200)
    chosen = np.full(200, 2)
    found = bandits.replay(action, chosen, reward)
    assert found.value == pytest.approx(reward[action == 2].mean(), rel=1e-12)
    assert found.effective_sample_size == pytest.approx((action == 2).sum(), rel=1e-12)
    low, high = found.interval
    assert low < found.value < high
    assert found.rounds == 200


def test_intervals_have_their_stated_coverage():
    options = Options(largest_weight=3.5, level=0.9, resamples=200)
    covered = {name: np.zeros(2) for name in ("ips", "snips", "dr")}
    for seed in range(200):
        for name, found in estimates(*logged(300, seed), options).items():
            for place, (low, high) in enumerate((found.bootstrap, found.interval)):
                covered[name][place] += low <= VALUE <= high
    for bootstrap, interval in covered.values():
        assert 165 <= bootstrap <= 195  # 180 expected, deviation 4.2
        assert interval >= 180


LOGS = {
    "easy": LOGGING,
    "heavy": np.array([0.9, 0.09, 0.01]),
    "no overlap": np.array([0.6, 0.4, 0.0]),
}


@pytest.mark.parametrize("clip", [None, 10.0, 2.0])
@pytest.mark.parametrize("name", LOGS)
def test_the_interval_covers_the_policys_value_whatever_the_clipping(name, clip):
    logging, covered, private = LOGS[name], 0, 0
    clipped = 10.0 if clip is None else clip
    noise = Privacy(1.0, 1e-6, simulation=True, seed=1)
    for seed in range(40):
        rng = np.random.default_rng([seed, 7])
        action = rng.choice(3, 500, p=logging)
        reward = (rng.random(500) < TRUE[action]).astype(float)
        own = reward, logging[action], TARGET[action]
        low, high = bandits.ips(*own, Options(clip=clip, resamples=1)).interval
        covered += low <= VALUE <= high
        options = Options(clip=clipped, private=True, privacy=noise)
        for method in (bandits.ips, bandits.snips):
            low, high = method(*own, options).interval
            private += low <= VALUE <= high
    assert covered >= 38
    assert private >= 76


def test_the_interval_is_that_of_the_mean_whatever_the_model_and_the_range():
    model = np.array([1.0, 0.0, 0.1])
    for options, scale, shift in (
        (Options(largest_weight=3.5, resamples=1), 1.0, 0.0),
        (Options(low=-3, high=1, largest_weight=3.5, resamples=1), 4.0, -3.0),
        (Options(low=-3, high=1, clip=2, resamples=1), 4.0, -3.0),
    ):
        value, covered = shift + scale * VALUE, 0
        for seed in range(60):
            action, reward = logged(500, seed)
            own = shift + scale * reward, LOGGING[action], TARGET[action]
            predicted = shift + scale * model
            baseline = np.full(500, TARGET @ predicted)
            found = bandits.doubly_robust(*own, predicted[action], baseline, options)
            covered += found.interval[0] <= value <= found.interval[1]
        assert covered >= 57


def test_the_clipped_bootstrap_interval_bounds_the_bias():
    covered = 0
    for seed in range(40):
        action, reward = logged(500, seed)
        own = reward, LOGGING[action], TARGET[action]
        low, high = bandits.ips(*own, Options(clip=1.0, resamples=100)).bootstrap
        covered += low <= VALUE <= high
    assert covered >= 36


def test_the_interval_narrows_and_uses_the_bound_on_the_weights():
    def width(n, options):
        low, high = estimates(*logged(n), options)["ips"].interval
        return high - low

    known, unknown = Options(largest_weight=3.5, resamples=10), Options(resamples=10)
    assert width(64_000, known) < 0.2 * width(1000, known)
    assert width(1000, known) < width(1000, unknown) < 0.3
    with pytest.raises(ValueError, match="largest_weight"):
        estimates(*logged(1000), Options(largest_weight=1.0))


def test_a_bound_on_the_weights_that_the_log_contradicts_is_refused():
    reward, half = np.ones(1000), np.full(1000, 0.5)
    target = np.where(np.arange(1000) < 100, 0.5, 0.0)
    assert bandits.ips(reward, half, target).interval[1] == pytest.approx(1)
    with pytest.raises(ValueError, match=r"^Expected mean weight=0\.1 .*Omit largest_weight"):
        bandits.ips(reward, half, target, Options(largest_weight=2.0))


def test_the_interval_is_narrower_than_bernsteins():
    action, reward = logged(500)
    found = bandits.ips(
        reward, LOGGING[action], TARGET[action], Options(largest_weight=3.5, resamples=10)
    )
    terms = reward * TARGET[action] / LOGGING[action]
    log = math.log(4 / 0.05)
    half = math.sqrt(2 * terms.var(ddof=1) * log / 500) + 7 * 3.5 * log / (3 * 499)
    low, high = found.interval
    assert high - low < min(terms.mean() + half, 1) - max(terms.mean() - half, 0)


def test_shrinkage_decreases_the_error_with_heavy_weights():
    logging = np.array([0.9, 0.09, 0.01])
    model = np.array([0.3, 0.4, 0.7])
    errors = {None: [], "auto": [], 1e12: []}
    for seed in range(40):
        rng = np.random.default_rng([seed, 3])
        action = rng.choice(3, 500, p=logging)
        reward = (rng.random(500) < TRUE[action]).astype(float)
        own = reward, logging[action], TARGET[action], model[action], np.full(500, TARGET @ model)
        for shrinkage, each in errors.items():
            found = bandits.doubly_robust(*own, Options(resamples=1), shrinkage=shrinkage)
            each.append(found.value - VALUE)
    plain, auto, none = (np.square(each).mean() for each in errors.values())
    assert auto < 0.9 * plain
    assert none == pytest.approx(plain, rel=1e-6)
    assert 0 < bandits.doubly_robust(*own, Options(resamples=1), shrinkage=10).removed < 1


def test_fitted_rewards_use_earlier_rounds_only_and_improve_the_estimate():
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(5)
    context = rng.standard_normal((1000, 2))
    means = np.clip(0.5 + 0.2 * context @ np.array([[1.0, -1, 0], [0, 1, 1]]), 0, 1)
    action = rng.choice(3, 1000, p=LOGGING)
    at = np.arange(1000), action
    reward = means[at] + 0.0
    target = np.tile(TARGET, (1000, 1))
    each = np.einsum("nd,ab->nabd", context, np.eye(3)).reshape(1000, 3, 6)  # one theta per action
    model = bandits.fit_rewards(Ridge(), each, action, reward, target)
    changed = reward.copy()
    changed[500:] = 0.5
    again = bandits.fit_rewards(Ridge(), each, action, changed, target)
    assert (model.predicted[:600] == again.predicted[:600]).all()
    assert (model.predicted[600:] != again.predicted[600:]).any()
    own = reward, LOGGING[action], TARGET[action]
    options = Options(largest_weight=3.5, resamples=200)
    fitted, plain = bandits.doubly_robust(*own, *model, options), bandits.snips(*own, options)
    widths = [found.bootstrap[1] - found.bootstrap[0] for found in (fitted, plain)]
    assert widths[0] < 0.7 * widths[1]
    flat = bandits.fit_rewards(Ridge(), context, action, reward, target, folds=2)
    assert (flat.predicted[:500] == 0.5).all()
    for name, wrong in (
        ("shape of target", (context, action, reward, TARGET)),
        ("shape of features", (each[:, :2], action, reward, target)),
        ("shape of reward", (context, action, reward[:3], target)),
    ):
        with pytest.raises(ValueError, match=f"^Expected {name}"):
            bandits.fit_rewards(Ridge(), *wrong)


def test_a_clipped_share_is_reported():
    action, reward = logged()
    found = bandits.ips(reward, LOGGING[action], TARGET[action], Options(clip=2.0, resamples=10))
    assert found.clipped == pytest.approx((action == 2).mean())
    weight = TARGET[action] / LOGGING[action]
    assert found.removed == pytest.approx(1 - np.minimum(weight, 2).sum() / weight.sum())
    assert "% of the weight removed" in str(found)
    assert found.value < VALUE


def test_the_bootstrap_is_that_of_scipy():
    rng = np.random.default_rng(3)
    weight = rng.gamma(1.0, size=200)
    total = weight * rng.random(200)

    def ratio(total, weight, axis):
        return total.sum(axis) / weight.sum(axis)

    given = dict(paired=True, method="percentile", n_resamples=20_000, vectorized=True)
    theirs = stats.bootstrap((total, weight), ratio, random_state=rng, **given).confidence_interval
    ours = intervals.bootstrap(total, total, weight, Options(resamples=20_000))
    deviation = ratio(total, weight, 0) * 0.01  # of both quantiles: .05 of the interval's width
    assert ours == pytest.approx(tuple(theirs), abs=deviation)


def test_seeds_decide_the_bootstrap():
    action, reward = logged(300)
    first, again, other = (
        estimates(action, reward, Options(seed=seed))["snips"].bootstrap for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


@pytest.mark.parametrize("relation", ["REPLACE_ONE", "REPLACE_SPECIAL"])
def test_a_private_estimate_has_the_noise_of_its_sensitivity(relation):
    action, reward = logged(300)
    options = Options(
        private=True, privacy=Privacy(1.0, 1e-6, relation), largest_weight=3.5, resamples=10
    )
    plain = estimates(action, reward, Options(resamples=10))
    spread = {name: [] for name in plain}
    for _ in range(200):
        for name, found in estimates(action, reward, options).items():
            spread[name].append(found.value - plain[name].value)
    weight = TARGET[action] / LOGGING[action]
    totals = {"ips": len(action), "snips": weight.sum(), "dr": len(action)}
    for name, errors in spread.items():
        sigma = found.mechanism.noise_multiplier * weight.max() / totals[name] / 2
        # 200 draws from the system: six deviations of their spread and of their mean
        assert np.std(errors) == pytest.approx(sigma, rel=0.25)
        assert abs(np.mean(errors)) < 6 * sigma / math.sqrt(200)
    assert found.private
    assert found.guarantee(1e-6).epsilon <= 1
    assert found.guarantee(1e-6).relation == relation
    assert found.bootstrap is None
    low, high = found.interval
    assert low <= VALUE <= high
    assert "not private" not in str(found)


def test_a_plain_estimate_is_printed_as_not_private():
    found = estimates(*logged(100), Options(resamples=10))["ips"]
    assert not found.private
    assert found.guarantee(1e-6).epsilon == math.inf
    assert "not private" in str(found)


def test_simulated_noise_repeats_and_guarantees_nothing():
    action, reward = logged(100)
    privacy = Privacy(1.0, 1e-6, simulation=True, seed=5)
    first, again = (
        estimates(action, reward, Options(private=True, privacy=privacy))["snips"] for _ in range(2)
    )
    assert first.value == again.value
    assert not first.private
    assert first.guarantee(1e-6).epsilon == math.inf
    assert "not private" in str(first)


@pytest.mark.parametrize("wrong", [5.0, -5.0, math.nan, None, 10**400])
def test_rewards_outside_the_range_are_refused_unless_the_estimate_is_private(wrong):
    reward, half = np.array([0.25, wrong, 1.0, 1.0], dtype=object), np.full(4, 0.5)
    for call in (
        lambda options: bandits.ips(reward, half, half, options),
        lambda options: bandits.doubly_robust(reward, *(half,) * 4, options, shrinkage="auto"),
        lambda options: bandits.replay(np.zeros(4), np.zeros(4), reward, options),
    ):
        with pytest.raises(
            ValueError, match=r"^Expected reward='\.\.\.' to be in \[0, 1\]"
        ) as caught:
            call(Options(resamples=10))
        assert "0.25" not in str(caught.value)
    private = Options(private=True, privacy=Privacy(1.0, 1e-6))
    assert math.isfinite(bandits.ips(reward, half, half, private).value)


def test_two_candidates_have_a_closed_form():
    rng = np.random.default_rng(0)
    candidates, mean, root = rng.standard_normal((7, 2, 3)), rng.standard_normal(3), np.eye(3)
    found = bandits.thompson_propensities(candidates, mean, root, scale=0.5)
    for (first, second), value in zip(candidates, found.value, strict=True):
        apart = first - second
        z = (apart @ mean) / (0.5 * np.linalg.norm(apart))
        assert value[0] == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), rel=1e-12)
    assert (found.standard_error == 0).all()


def test_propensities_of_more_candidates_are_unbiased():
    rng = np.random.default_rng(1)
    candidates, mean = rng.standard_normal((3, 5, 4)), rng.standard_normal(4)
    root = np.tril(rng.standard_normal((4, 4)))
    found = bandits.thompson_propensities(candidates, mean, root, draws=5000)
    thetas = mean + rng.standard_normal((200_000, 4)) @ root.T
    for arms, value, error in zip(candidates, found.value, found.standard_error, strict=True):
        share = np.bincount((thetas @ arms.T).argmax(1), minlength=5) / 200_000
        spread = np.sqrt(error**2 + share * (1 - share) / 200_000) + 1e-12
        assert (np.abs(value - share) < 5 * spread).all()
        assert value.sum() == pytest.approx(1, abs=5 * np.linalg.norm(error) + 1e-9)


def test_propensities_by_integration_of_independent_scores():
    # orthonormal candidates have independent scores: P(win) is an integral in one dimension
    means = np.array([0.3, 0.0, -0.4])
    found = bandits.thompson_propensities(np.eye(3), means, np.eye(3), draws=20_000)
    grid = np.linspace(-10, 10, 20_001)

    def density(x):
        return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)

    def cumulative(x):
        return 0.5 * np.array([math.erfc(-v / math.sqrt(2)) for v in x])

    for arm in range(3):
        others = [m for i, m in enumerate(means) if i != arm]
        product = density(grid - means[arm])
        for other in others:
            product = product * cumulative(grid - other)
        exact = product.sum() * (grid[1] - grid[0])
        assert abs(found.value[arm] - exact) < 5 * found.standard_error[arm]


def test_of_equal_candidates_the_first_is_picked():
    one, other = np.array([0.6, 0.1]), np.array([0.0, 0.3])
    candidates = np.stack([one, one, other, other])
    found = bandits.thompson_propensities(candidates, np.zeros(2), np.eye(2), draws=4000)
    assert found.value[1] == found.value[3] == 0
    pair = bandits.thompson_propensities(np.stack([one, other]), np.zeros(2), np.eye(2)).value
    assert found.value[[0, 2]] == pytest.approx(pair, abs=5 * found.standard_error.max())
    still = bandits.thompson_propensities(candidates, np.zeros(2), np.zeros((2, 2)))
    assert still.value.tolist() == [1, 0, 0, 0]


def test_a_tiny_propensity_is_not_zero():
    candidates = np.array([[1.0, 0.0], [0.0, 1.0], [0.7, 0.7]])
    found = bandits.thompson_propensities(candidates, np.array([8.0, 0.0]), np.eye(2), draws=500)
    assert 0 < found.value[1] < 1e-6


def test_bad_input_is_refused():
    action, reward = logged(10)
    own = LOGGING[action], TARGET[action]
    nan, model = math.nan, (np.zeros(3), np.eye(3))
    zero = own[0].copy()
    zero[0] = 0
    cases = [
        ("propensity", lambda: bandits.ips(reward, zero, own[1])),
        ("target", lambda: bandits.ips(reward, own[0], own[1] + 1)),
        ("shape of reward", lambda: bandits.ips(reward[:3], *own)),
        ("shape of target", lambda: bandits.ips(reward, own[0], own[1][:3])),
        ("largest weight", lambda: bandits.ips(reward, own[0], 0 * own[1])),
        ("predicted", lambda: bandits.doubly_robust(reward, *own, own[0] + 1, own[0])),
        (
            "shrinkage",
            lambda: bandits.doubly_robust(reward, *own, own[0], own[0], shrinkage=-1),
        ),
        (
            "shrinkage",
            lambda: bandits.doubly_robust(
                reward,
                *own,
                own[0],
                own[0],
                Options(private=True, privacy=Privacy(1, 1e-6)),
                shrinkage="auto",
            ),
        ),
        ("baseline", lambda: bandits.doubly_robust(reward, *own, own[0], own[0] - 1)),
        ("shape of chosen", lambda: bandits.replay(action, action[:3], reward)),
        ("privacy", lambda: Options(private=True)),
        ("privacy", lambda: Options(privacy=Privacy(1, 1e-6))),
        ("clip", lambda: Options(clip=0)),
        ("level", lambda: Options(level=1)),
        ("high", lambda: Options(low=1, high=0)),
        ("relation", lambda: Privacy(1, 1e-6, "ADD_OR_REMOVE_ONE")),
        ("seed", lambda: Privacy(1, 1e-6, seed=1)),
        ("candidates", lambda: bandits.thompson_propensities(np.eye(1), np.ones(1), np.eye(1))),
        ("scale", lambda: bandits.thompson_propensities(np.eye(2), np.ones(2), np.eye(2), scale=0)),
        ("privacy", lambda: Options(private=True, privacy="strong")),
        ("epsilon", lambda: Privacy(-1, 1e-6)),
        ("delta", lambda: Privacy(1, 1.0)),
        ("seed", lambda: Options(seed=-1)),
        ("resamples", lambda: Options(resamples=10**9)),
        ("shape of propensity", lambda: bandits.ips(*(x[:, None] for x in (reward, *own)))),
        ("shape of propensity", lambda: bandits.ips(1.0, 0.5, 0.5)),
        ("shape of chosen", lambda: bandits.replay([[1, 2]], [[1, 2]], [[0, 1]])),
        ("propensity", lambda: bandits.ips(reward, 1e-320 * own[0], own[1])),
        ("largest weight", lambda: bandits.ips(reward, own[0], 1e-320 * own[1])),
        ("candidates", lambda: bandits.thompson_propensities(nan * np.eye(3), *model)),
        ("mean", lambda: bandits.thompson_propensities(np.eye(3), nan * model[0], model[1])),
        ("shape of root", lambda: bandits.thompson_propensities(np.eye(3), model[0], np.eye(2))),
        ("shape of mean", lambda: bandits.thompson_propensities(np.ones(2), *model)),
    ]
    for name, call in cases:
        with pytest.raises(ValueError, match=f"^Expected {name}"):
            call()
    for secret in (["0.123"] * 10, reward * 0.123j, np.array([0.123, "x"] * 5, dtype=object)):
        with pytest.raises(TypeError, match=r"^Expected type of reward") as caught:
            bandits.ips(secret, *own)
        assert "0.123" not in str(caught.value)


def test_one_probability_for_all_rounds_is_refused_by_its_shape():
    reward, one = np.ones(5), np.full(5, 0.5)
    for name, pair in (("propensity", (0.5, one)), ("target", (one, 0.5))):
        with pytest.raises(ValueError, match=rf"shape of {name}=\(\) to be \(n,\)"):
            bandits.ips(reward, *pair)


def test_a_private_estimate_refers_to_its_guarantee():
    options = Options(private=True, privacy=Privacy(1.0, 1e-6))
    found = bandits.ips(np.ones(5), np.full(5, 0.5), np.full(5, 0.5), options)
    assert str(found).endswith("of 5 rounds, private (see guarantee)")
    assert found.guarantee(1e-6).epsilon <= 1
