"""The pytest plugin, run on test files in separate processes."""

import os
import re
import subprocess
import sys

import pytest

import privacy as dp
from privacy.audit import Falsified, assert_not_falsified
from privacy.audit.assertions import Share, seed_of

TESTS = """
import pytest
import privacy as dp
from privacy.audit import assert_not_falsified

PAIR = ([1.0], [1.0, 2.0])

def count(data, rng):
    return len(data) + rng.normal(0, 2.0)

@pytest.mark.dp_claim(dp.Gaussian(2.0))
def test_honest():
    assert_not_falsified(count, PAIR, runs=2000)

@pytest.mark.dp_claim(dp.Gaussian(4.0), significance=1e-3)
def test_false():
    assert_not_falsified(count, PAIR, runs=2000)
"""
IDLE = """
import pytest
import privacy as dp

@pytest.mark.dp_claim(dp.Gaussian(2.0))
def test_nothing():
    pass
"""
BAD = """
import pytest

@pytest.mark.dp_claim(1.0, significance=2)
def test_nothing():
    pass
"""
ENDS = """
import sys, unittest
import pytest
import privacy as dp
from privacy.audit import assert_contribution, assert_not_falsified, assert_spends

PAIR = ([1.0], [1.0, 2.0])

def skips(data, rng=None):
    pytest.skip("not today")

def leaves_out(data, rng=None):
    raise unittest.SkipTest("not today")

def ends(data, rng=None):
    pytest.exit("all is well", returncode=0)

def leaves(data, rng=None):
    sys.exit(0)

def may_fail(data, rng=None):
    pytest.xfail("it may")

@pytest.mark.dp_claim(dp.Gaussian(2.0))
@pytest.mark.parametrize("release", [skips, leaves_out, ends, leaves, may_fail])
def test_outputs(release):
    assert_not_falsified(release, PAIR, runs=2000)

@pytest.mark.parametrize("release", [skips, leaves_out, ends, leaves, may_fail])
def test_replay(release):
    assert_spends(release, PAIR, dp.Gaussian(2.0))

@pytest.mark.parametrize("query", [skips, leaves_out, ends, leaves, may_fail])
def test_contribution(query):
    assert_contribution(query, PAIR, 1.0)
"""


@pytest.fixture
def run(tmp_path):
    def run(text, *arguments):
        (tmp_path / "test_it.py").write_text(text, encoding="utf-8")
        (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "--strict-markers", "-W", "error"]
        # plugins of other packages take half of the time
        for plugin in ("cacheprovider", "hypothesispytest", "anyio"):
            command += ["-p", f"no:{plugin}"]
        done = subprocess.run(
            [*command, *arguments, "test_it.py"],
            cwd=tmp_path,
            env=os.environ | {"PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout + done.stderr

    return run


def findings(printed):
    return sorted(re.findall(r"^(test_it\.py::\w+: .*)$", printed, flags=re.MULTILINE))


def test_marked_tests(run):
    printed = run(TESTS)
    assert "1 failed, 1 passed" in printed
    assert "Falsified" in printed
    assert "Counterexample: [1.0] against [1.0, 2.0]" in printed
    false, honest = findings(printed)
    # the significance of each is half of what was marked: two tests are marked
    assert re.search(r"falsified \(p-value \S+ <= 0\.00025, 2000 runs\)", false), false
    assert re.search(r"not falsified \(p-value \S+ > 2\.5e-07, 2000 runs\)", honest), honest
    # with workers, and with one test alone: the same numbers
    parallel = run(TESTS, "-n", "2")
    assert "1 failed, 1 passed" in parallel
    assert findings(parallel) == [false, honest]
    assert findings(run(TESTS, "-k", "honest")) == [honest]


def test_a_marked_test_that_audits_nothing_fails(run):
    printed = run(IDLE)
    assert "1 failed" in printed
    assert "made no audit" in printed


def test_a_bad_mark_is_an_error(run):
    printed = run(BAD)
    assert "1 failed" in printed
    assert "Expected significance=2" in printed


def test_a_release_cannot_skip_or_end_its_audit(run):
    printed = run(ENDS)
    assert "15 failed" in printed
    assert not re.search(r"\d (skipped|xfailed|passed)", printed)
    for name in ("Skipped: not today", "SkipTest: not today", "Exit: all is", "SystemExit: 0"):
        assert f"it raised {name}" in printed


def test_the_plugin_imports_nothing():
    code = (
        "import sys, pytest\nbefore = set(sys.modules)\nimport privacy.audit.plugin\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    new = set(eval(done.stdout))
    assert new == {"privacy", "privacy.audit", "privacy.audit.plugin", "privacy.lazy"}


def honest(data, rng):
    return len(data) + rng.normal(0, 2.0)


def test_without_a_mark():
    pair = ([1.0], [1.0, 2.0])
    found = assert_not_falsified(honest, pair, dp.Gaussian(2.0), runs=2000)
    assert found.significance == 1e-6
    with pytest.raises(Falsified, match="Counterexample") as caught:
        assert_not_falsified(honest, pair, dp.Gaussian(6.0), 1e-4, runs=2000)
    assert caught.value.result.falsified
    with pytest.raises(ValueError, match="Expected claim"):
        assert_not_falsified(honest, pair)


def test_significance_shares_add_up_to_at_most_the_level():
    share = Share(dp.Gaussian(1.0), 1e-3, 0)
    total = 0.0
    for _ in range(1000):
        total += share.next_significance()
        share.results.append(None)
    assert 0.99e-3 < total <= 1e-3


@pytest.mark.dp_claim(dp.Gaussian(2.0), significance=1e-6)
def test_the_mark_works_here():
    finding = assert_not_falsified(honest, ([], [0.5]), runs=1000)
    # shared with all marked tests of this session
    assert finding.significance <= 0.5e-6


def test_seeds_are_the_same_everywhere():
    assert seed_of("tests/test_it.py::test_it") == 2601731899
