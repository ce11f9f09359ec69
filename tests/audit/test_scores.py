"""Scores: known, and fitted on outputs that are not tested."""

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import privacy as dp
from privacy.audit import (
    audit,
    audit_until_falsified,
    falsify,
    fit_score,
    gaussian_score,
    laplace_score,
)
from privacy.audit.scores import fit_rows, outputs

rng_of = np.random.default_rng


def test_known_scores_are_log_likelihood_ratios():
    x = np.array([[0.3, -2.0], [5.0, 1.0]])
    low, high, scale = np.array([0.0, 1.0]), np.array([1.0, -1.0]), np.array([2.0, 0.5])

    def gaussian(center):
        return -(((x - center) / scale) ** 2 / 2).sum(axis=1)

    def laplace(center):
        return -(np.abs(x - center) / scale).sum(axis=1)

    assert gaussian_score(low, high, scale)(x) == pytest.approx(gaussian(high) - gaussian(low))
    assert laplace_score(low, high, scale)(x) == pytest.approx(laplace(high) - laplace(low))
    assert gaussian_score(0, 1, 1)([0.5, math.nan, 1.5]).tolist() == [0, 0, 1]


def test_fitted_scores_are_nearly_as_good_as_known_ones():
    rng = rng_of(1)
    train = rng.normal(0, 1, 20_000), rng.normal(1, 1, 20_000)
    test = rng.normal(0, 1, 20_000), rng.normal(1, 1, 20_000)
    known, fitted = gaussian_score(0, 1, 1), fit_score(*train)
    right = [np.mean(score(test[1]) > 0) - np.mean(score(test[0]) > 0) for score in (known, fitted)]
    assert right[1] > right[0] - 0.01
    # calibrated: outputs of score s are e^s times as likely on the second data set
    scores = fitted(np.concatenate(test))
    for low in (-1.5, -0.5, 0.5, 1.5):
        seen = [np.sum((fitted(x) > low - 0.5) & (fitted(x) < low + 0.5)) for x in test]
        assert math.log(seen[1] / seen[0]) == pytest.approx(low, abs=0.4)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("seed", range(5))
def test_fitting_raises_no_false_alarm(seed):
    """Few outputs and many numbers: fitted scores overfit the outputs that they were fitted to."""
    rng = rng_of(seed)
    train = rng.normal(size=(60, 20)), rng.normal(size=(60, 20))
    score = fit_score(*train)
    test = rng.normal(size=(2000, 20)), rng.normal(size=(2000, 20))
    assert not falsify(dp.Gaussian(50.0), *map(score, test), significance=1e-4).falsified


def test_differing_statistics_are_detected():
    rng = rng_of(2)
    n = 2000
    differing = {
        "mean of one of five": (rng.normal(size=(n, 5)), rng.normal(size=(n, 5)) + np.eye(5)[2]),
        "spread": (rng.normal(size=n), 3 * rng.normal(size=n)),
        "values": (rng.integers(0, 2, n), rng.integers(0, 3, n)),
        "nan": (np.zeros(n), np.where(rng.random(n) < 0.3, math.nan, 0.0)),
        "nan of many": (np.zeros((n, 3)), np.where(rng.random((n, 1)) < 0.3, math.nan, np.ones(3))),
        "infinite": (rng.normal(size=n), np.where(rng.random(n) < 0.3, math.inf, 0.0)),
        "all nan": (np.full(n, math.nan), rng.normal(size=n)),
    }
    for what, (first, second) in differing.items():
        half = n // 2
        score = fit_score(first[:half], second[:half])
        found = falsify(dp.PureDP(0.1), score(first[half:]), score(second[half:]))
        assert found.falsified, what


def test_a_classifier_finds_more_than_one_statistic():
    """Two numbers of equal or opposite signs: a linear direction hardly separates them."""
    rng = rng_of(3)

    def draw(sign):
        x = rng.normal(size=4000)
        return np.stack([x, sign * x + 0.3 * rng.normal(size=4000)], axis=1)

    train, test = (draw(1), draw(-1)), (draw(1), draw(-1))
    right = {}
    for classifier in (None, LogisticRegression(), KNeighborsClassifier(15)):
        zero, one = map(fit_score(*train, classifier), test)
        right[type(classifier).__name__] = (np.mean(zero <= 0) + np.mean(one > 0)) / 2
    near = right.pop("KNeighborsClassifier")
    assert near > 0.75
    assert near > max(right.values()) + 0.05, right


def test_outputs():
    rng = rng_of(4)
    assert outputs(lambda data: [1, 2], None, rng, 3).tolist() == [[1, 2]] * 3
    assert outputs(lambda data, rng: rng.random(), None, rng, 5).shape == (5, 1)
    assert outputs(lambda data, rng, size: rng.random((size, 2)), None, rng, 5).shape == (5, 2)
    assert outputs(lambda data, *, width=2: [0] * width, None, rng, 2).shape == (2, 2)
    with pytest.raises(ValueError, match="Expected outputs"):
        outputs(lambda data, rng, size: 1.0, None, rng, 5)


def test_a_length_that_depends_on_the_data_is_caught():
    def longer(data, rng):
        return [0.0] * (1 + (rng.random() < 0.2 * len(data)))

    assert audit(longer, ([1], [1, 2, 3]), dp.PureDP(0.1), runs=1000).falsified


def test_an_output_length_that_differs_between_the_data_sets_is_caught():
    def one_more(data, rng):
        return [0.0] * len(data)

    def seldom(data, rng):
        return [rng.normal()] * (2 + (rng.random() < 0.004 * (len(data) - 1)))

    pair = ([1], [1, 2])
    assert audit(one_more, pair, dp.Gaussian(1.0), runs=100).falsified
    assert audit_until_falsified(one_more, pair, dp.Gaussian(1.0)).falsified
    assert not audit(seldom, pair, dp.Gaussian(1.0), runs=1000).falsified
    # a length that was not seen in training is no number
    score = fit_rows(np.zeros((9, 2)), np.ones((9, 2)))
    assert score([np.ones(2), np.ones(3)]).tolist() == [score(np.ones((1, 2)))[0], 0.0]


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e10, 1e200])
@pytest.mark.parametrize("noise", [0.0, 1e6])
def test_an_output_without_noise_is_detected(noise, unit):
    def leak(data, rng, size):
        wide = noise * rng.normal(size=size)
        return unit * np.stack([wide, np.full(size, len(data)), wide], axis=1)

    assert audit(leak, ([1], [1, 2]), dp.Gaussian(1.0), runs=500).falsified


def test_tiny_numbers_emit_no_warning():
    tiny = np.stack([5e-324 * (np.arange(60) % 3), np.zeros(60)], axis=1)
    score = fit_score(tiny, np.ones((60, 2)))
    assert (score(tiny) < 0).all()
    assert (score(np.ones((5, 2))) > 0).all()


def test_a_release_that_returns_nothing_is_not_audited():
    with pytest.raises(TypeError, match="Expected output=None to be numbers"):
        outputs(lambda data: None, None, rng_of(1), 3)
    for empty in (lambda data: [], lambda data, rng, size: np.zeros((size, 0))):
        with pytest.raises(ValueError, match=r"Expected outputs=\[\] to be nonempty in some run"):
            outputs(empty, None, rng_of(1), 3)


def test_bad_arguments():
    with pytest.raises(ValueError, match="Expected training"):
        fit_score([1.0], [2.0])
    with pytest.raises(ValueError, match="Expected training_1"):
        fit_score(np.zeros((9, 1)), np.zeros((9, 2)))
    with pytest.raises(ValueError, match="Expected scale"):
        gaussian_score(0, 1, 0)
    with pytest.raises(ValueError, match="Expected center_0"):
        laplace_score(0, math.inf, 1)
