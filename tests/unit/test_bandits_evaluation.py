"""Off-policy evaluation: values by the definition, coverage of intervals, private estimates."""

import math
from dataclasses import replace

import numpy as np
import pytest

import bandits
from bandits import Options, Privacy

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
    low, high = found.bernstein
    assert low < found.value < high


def test_intervals_have_their_stated_coverage():
    options = Options(largest_weight=3.5, level=0.9, resamples=200)
    covered = {name: np.zeros(2) for name in ("ips", "snips", "dr")}
    for seed in range(200):
        for name, found in estimates(*logged(300, seed), options).items():
            for place, (low, high) in enumerate((found.bootstrap, found.bernstein)):
                covered[name][place] += low <= VALUE <= high
    for bootstrap, bernstein in covered.values():
        assert 165 <= bootstrap <= 195  # 180 expected, deviation 4.2
        assert bernstein >= 190


def test_bernstein_interval_narrows_and_is_trivial_without_data():
    wide = estimates(*logged(1000), Options(largest_weight=3.5))["ips"].bernstein
    narrow = estimates(*logged(64_000), Options(largest_weight=3.5, resamples=10))["ips"].bernstein
    assert narrow[1] - narrow[0] < 0.2 * (wide[1] - wide[0])
    assert estimates(*logged(1000), Options(resamples=10))["ips"].bernstein is None
    with pytest.raises(ValueError, match="largest_weight"):
        estimates(*logged(1000), Options(largest_weight=1.0))


def test_the_ips_interval_is_the_closed_form():
    action, reward = logged(500)
    found = bandits.ips(
        reward, LOGGING[action], TARGET[action], Options(largest_weight=3.5, resamples=10)
    )
    terms = reward * TARGET[action] / LOGGING[action]
    log = math.log(4 / 0.05)
    half = math.sqrt(2 * terms.var(ddof=1) * log / 500) + 7 * 3.5 * log / (3 * 499)
    low, high = found.bernstein
    assert low == pytest.approx(max(terms.mean() - half, 0), abs=2 / 2048)
    assert high == pytest.approx(min(terms.mean() + half, 1), abs=2 / 2048)
    assert high >= min(terms.mean() + half, 1)


def test_a_clipped_share_is_reported():
    action, reward = logged()
    found = bandits.ips(reward, LOGGING[action], TARGET[action], Options(clip=2.0, resamples=10))
    assert found.clipped == pytest.approx((action == 2).mean())
    assert found.value < VALUE


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
    low, high = found.bernstein
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


def test_rewards_outside_the_range_are_clipped_and_nan_is_the_middle():
    own = np.full(4, 0.5), np.full(4, 0.5)
    found = bandits.ips(np.array([5.0, -5.0, math.nan, 1.0]), *own, Options(resamples=10))
    assert found.value == pytest.approx((1 + 0 + 0.5 + 1) / 4)


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
    huge = np.array([10**400, None] * 5, dtype=object)
    assert bandits.ips(huge, *(np.full(10, 0.5),) * 2).value == pytest.approx(0.75)
    assert replace(Options(), clip=2.0).bound == 2.0


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
