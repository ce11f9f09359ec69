"""Audits of the sparse vector technique: the published faulty variants and patched sources fall."""

import numpy as np
import pytest

import privacy as dp
from privacy.audit import falsify
from tests.mutants import Patch, caught

LEVEL = 1e-3
RUNS = 20_000


def sparse(queries, rng, epsilon, most, variant=1, runs=RUNS):
    """Return the answers of Algorithm `variant` of Lyu, Su and Li 2017, NaN below the threshold.

    The sensitivity is 1 and the threshold 0. After it stopped, answers are -inf. Variant 7 is
    Algorithm 1 with the same threshold noise in every run.
    """
    first = epsilon / 4 if variant == 4 else epsilon / 2
    second = epsilon - first
    scale = {1: 2 * most, 2: 2 * most, 3: most, 4: 1, 5: 0, 6: 1, 7: 2 * most}[variant] / second
    redrawn = variant == 2
    line = rng.laplace(0, (most if redrawn else 1) / first, runs)
    if variant == 7:
        line[:] = 0.7
    left, out = np.full(runs, 10**9 if variant in (5, 6) else most), []
    for query in queries:
        noisy = query + (rng.laplace(0, scale, runs) if scale else 0.0)
        above = (noisy >= line) & (left > 0)
        shown = noisy if variant == 3 else np.zeros(runs)
        out.append(np.where(left > 0, np.where(above, shown, np.nan), -np.inf))
        left = left - above
        if redrawn:
            line = np.where(above, rng.laplace(0, most / second, runs), line)
    return np.array(out)


def pair(below, above):
    """Return the queries of two neighboring data sets; they are far below if none is above."""
    if not above:
        return [-3.0] * below, [-4.0] * below
    return [1.0] * below + [0.0] * above, [0.0] * below + [1.0] * above


def turns(answers, below):
    """Return the number of positive answers to the last queries minus that to the first ones."""
    positive = np.isfinite(answers)
    return positive[below:].sum(axis=0) - 1.0 * positive[:below].sum(axis=0)


def low_answer(answers, below):
    """Return whether a low value follows only negative answers: it bounds the threshold."""
    return (np.isnan(answers[:below]).all(axis=0) & (answers[below] <= 0.5)).astype(float)


def negatives(answers, below):
    """Return whether all answers were negative."""
    return np.isnan(answers).all(axis=0).astype(float)


CASES = {  # variant: (epsilon, positive answers, queries below, queries above, score)
    1: [(1.0, 4, 8, 4, turns), (1.0, 1, 8, 1, low_answer), (1.0, 1, 8, 8, turns)],
    2: [(1.0, 4, 8, 4, turns), (1.0, 1, 8, 1, low_answer)],
    3: [(2.0, 1, 4, 1, low_answer)],
    4: [(1.0, 8, 8, 8, turns)],
    5: [(1.0, 1, 1, 1, turns)],
    6: [(1.0, 1, 8, 8, turns)],
    7: [(2.0, 1, 100, 0, negatives)],
}


@pytest.mark.parametrize("variant", CASES)
def test_faulty_variants_are_falsified_and_proven_ones_are_not(variant):
    for epsilon, most, below, above, score in CASES[variant]:
        rng = np.random.default_rng(variant)
        runs = {low_answer: 20, negatives: 4}.get(score, 1) * RUNS
        scores = (
            score(sparse(queries, rng, epsilon, most, variant, runs), below)
            for queries in pair(below, above)
        )
        claim = dp.AboveThreshold(epsilon, max_positives=most)
        finding = falsify(claim, *scores, significance=LEVEL)
        assert finding.falsified == (variant > 2), str(finding)


# -- the release itself, its source patched ------------------------------------------------


def scripted(load, noise, values, **options):
    """Return the answers with given noise, in lattice steps: the threshold's, then in turn."""
    module, left = load("sparse_vector"), iter(noise)
    module.draw = lambda law, size, source: np.array([next(left)])
    claim = dp.AboveThreshold(1.0, max_positives=options.pop("most", 1))
    search = module.SparseVector(claim, threshold=0, **options)
    return search, [search.ask(value) for value in values]


def check_noise(load):
    """Each object draws its own threshold, each query its own noise, each value its own."""
    for line in (5, -5):
        _, (first, second) = scripted(load, [line, 0, 9], [0, 0], most=2)
        assert (first, second) == (line < 0, True)
        _, (first,) = scripted(load, [line, line - 1], [0])
        assert not first
    search, (answer,) = scripted(load, [0, 5, -9], [0], answer_share=0.5)
    assert answer == -9 * float(search._step)


def check_stops(load):
    """It stops by itself."""
    search, answers = scripted(load, [0, -1, 0, -1, 0], [0, 0, 0, 0], most=2)
    assert answers == [False, True, False, True]
    assert search.finished
    with pytest.raises(RuntimeError, match="account for it too"):
        search.ask(0)


def check_scales(load):
    """The scale of each noise, in the unit of the values, is that of the theorem."""
    module, drawn = load("sparse_vector"), []
    module.draw = lambda law, size, source: drawn.append(law.scale) or np.zeros(1)
    for most, monotonic, share in ((1, False, 0.0), (5, True, 0.25), (3, False, 0.5)):
        claim = dp.AboveThreshold(1.5, max_positives=most)
        drawn.clear()
        options = {"threshold": 0, "monotonic": monotonic, "answer_share": share}
        search = module.SparseVector(claim, sensitivity=3, **options)
        search.ask(10)
        first, second, *third = (float(scale * search._step) / 3 for scale in drawn)
        spent = [1 / first, (1 if monotonic else 2) * most / second, *(most / b for b in third)]
        assert sum(spent) == pytest.approx(1.5, rel=1e-12)
        assert len(third) == (share > 0)
        assert sum(spent[2:]) == pytest.approx(1.5 * share)


MUTANTS = [
    (
        "Algorithm 3: the compared value is shown",
        check_noise,
        "            above = steps + self._noise(self._query) >= self._threshold",
        "            above = (steps := steps + self._noise(self._query)) >= self._threshold",
    ),
    (
        "Algorithm 4: noise without the number of answers",
        check_scales,
        "reach / (compare - first)",
        "2 / (compare - first)",
    ),
    (
        "Algorithm 5: no noise of the queries",
        check_noise,
        "steps + self._noise(self._query) >=",
        "steps >=",
    ),
    ("Algorithm 6: it never stops", check_stops, "self._left -= 1", "pass"),
    (
        "no noise of the threshold",
        check_noise,
        "+ self._noise(laws[0])",
        "+ 0 * self._noise(laws[0])",
    ),
    (
        "threshold noise reused",
        check_noise,
        "+ self._noise(laws[0])",
        '+ globals().setdefault("_reused", self._noise(laws[0]))',
    ),
    ("wrong sensitivity", check_scales, "self._step = size / 2**bits", "self._step = 1 / 2**bits"),
    (
        "monotonic queries assumed",
        check_scales,
        "mechanism.max_positives if monotonic",
        "mechanism.max_positives if True or monotonic",
    ),
    (
        "values of the answers not paid for",
        check_scales,
        "compare = epsilon * (1 - share)",
        "compare = epsilon",
    ),
]


@pytest.mark.parametrize(
    ("check", "patch"),
    [
        pytest.param(check, Patch("sparse_vector", *where), id=name)
        for name, check, *where in MUTANTS
    ],
)
def test_a_mutant_is_caught(check, patch):
    assert caught("privacy.release", patch, check)
