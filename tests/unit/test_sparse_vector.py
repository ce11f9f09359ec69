"""The sparse vector technique: its release, by enumeration and by its rules."""

import copy
import math
import os
import pickle
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import privacy as dp

ONE = dp.AboveThreshold(1.0)


def answer_law(queries, scales, most, reach=250):
    """Return the probability of every sequence of answers, with discrete Laplace noise.

    One step is one sensitivity; the threshold is 0.
    """
    z = np.arange(-reach, reach + 1)
    line = np.exp(-np.abs(z) / scales[0])
    line /= line.sum()
    a = math.exp(-1 / scales[1])
    # P(noise >= x) of the discrete Laplace distribution
    over = [
        np.where(z - q > 0, a ** np.maximum(z - q, 0), 1 + a - a ** np.maximum(q - z + 1, 0))
        / (1 + a)
        for q in queries
    ]
    law = {}
    for answers in product((False, True), repeat=len(queries)):
        end = len(queries)
        if sum(answers) >= most:
            end = [i for i, yes in enumerate(answers) if yes][most - 1] + 1
        terms = (up if yes else 1 - up for up, yes in zip(over[:end], answers, strict=False))
        law[answers[:end]] = float((line * np.prod(list(terms), axis=0)).sum())
    return law


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("most", [1, 2])
def test_all_sequences_keep_epsilon(monotonic, most):
    """Every neighbor of every short sequence of queries."""
    first, second = 0.4, 0.6
    scales = 1 / first, (1 if monotonic else 2) * most / second
    tight = 0.0
    for queries in product((-2, 0, 1), repeat=3):
        for change in product((0, 1) if monotonic else (-1, 0, 1), repeat=3):
            here = answer_law(queries, scales, most)
            there = answer_law(tuple(np.add(queries, change).tolist()), scales, most)
            assert sum(here.values()) == pytest.approx(1)
            tight = max(tight, *(abs(math.log(here[a] / there[a])) for a in here))
    assert 0.4 < tight <= 1 + 1e-9


def test_answers_have_the_stated_distribution():
    queries, epsilon = (0, 1, -1), 2.0
    first = epsilon / (1 + 2 ** (2 / 3))
    steps = 2**12  # steps of this size change the law by less than the test resolves
    scales = steps / first, 2 * steps / (epsilon - first)
    law = answer_law([steps * q for q in queries], scales, 1, 80_000)
    generator, seen, runs = np.random.default_rng(3), dict.fromkeys(law, 0), 1500
    for _ in range(runs):
        search = dp.SparseVector(
            dp.AboveThreshold(epsilon), threshold=0, rng=generator, simulation=True
        )
        answers = []
        while not search.finished and len(answers) < 3:
            answers.append(search.ask(queries[len(answers)]))
        seen[tuple(answers)] += 1
    statistic = sum((seen[a] - runs * p) ** 2 / (runs * p) for a, p in law.items())
    assert statistic < 3 + 30


def test_it_stops_after_max_positives():
    search = dp.SparseVector(dp.AboveThreshold(50.0, max_positives=2), threshold=Fraction(1, 2))
    assert [search.ask(value) for value in (-99, 99, -99.0, np.float64(99))] == [
        False,
        True,
        False,
        True,
    ]
    assert search.finished
    with pytest.raises(RuntimeError, match="has given its last positive answer"):
        search.ask(0)


def test_values_of_positive_answers():
    search = dp.SparseVector(
        dp.AboveThreshold(1e3, max_positives=2), threshold=0, sensitivity=0.1, answer_share=0.5
    )
    assert search.ask(-9) is None
    assert search.ask(7.25) == pytest.approx(7.25, abs=0.1)


def test_it_cannot_be_copied():
    search = dp.SparseVector(ONE, threshold=0)
    for copier in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            copier(search)


def test_a_fork_cannot_answer(monkeypatch):
    search = dp.SparseVector(ONE, threshold=0)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked process cannot use a SparseVector"):
        search.ask(0)


def test_its_text_holds_no_private_number():
    search = dp.SparseVector(ONE, threshold=0)
    assert str(search._threshold) not in repr(search)
    with pytest.raises(ValueError, match="Expected value='<a value>'") as caught:
        search.ask(math.inf)
    assert "inf'" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"mechanism": dp.PureDP(1.0)}, TypeError, "Expected mechanism"),
        ({"mechanism": dp.AboveThreshold(1e-13)}, ValueError, "does not fit in 64 bits"),
        ({"threshold": math.nan}, ValueError, "Expected threshold"),
        ({"sensitivity": -1}, ValueError, "Expected sensitivity"),
        ({"monotonic": None}, TypeError, "Expected monotonic"),
        ({"answer_share": 1.0}, ValueError, "Expected answer_share"),
        ({"rng": 3}, ValueError, "Expected rng"),
    ],
)
def test_bad_arguments(options, error, match):
    given = {"mechanism": ONE, "threshold": 0} | options
    with pytest.raises(error, match=match):
        dp.SparseVector(given.pop("mechanism"), **given)
    with pytest.raises(ValueError, match="Expected max_positives"):
        dp.AboveThreshold(1.0, max_positives=0)
