"""The public names of `privacy.audit`, and the cost of its import."""

import json
import subprocess
import sys

import pytest

import privacy.audit as audits

PUBLIC_NAMES = [
    "AuditResult",
    "Falsified",
    "NoiseTape",
    "Pair",
    "SequentialAudit",
    "Violation",
    "assert_contribution",
    "assert_norm",
    "assert_not_falsified",
    "assert_spends",
    "audit",
    "audit_until_falsified",
    "edge_floats",
    "epsilon_lower_bound",
    "falsify",
    "falsify_noise",
    "falsify_one_run",
    "fit_score",
    "gaussian_score",
    "laplace_score",
    "mu_lower_bound",
    "neighboring_pairs",
    "one_run_epsilon_lower_bound",
    "privacy_parameter",
]


def imported_after(code):
    report = "\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code + report],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_public_names():
    assert audits.__all__ == PUBLIC_NAMES == sorted(PUBLIC_NAMES)
    assert set(PUBLIC_NAMES) <= set(dir(audits))
    for name in PUBLIC_NAMES:
        assert (getattr(audits, name).__doc__ or "").strip()
    with pytest.raises(AttributeError, match="no_such_name"):
        audits.no_such_name  # noqa: B018


def test_import_is_light():
    assert imported_after("import privacy.audit").isdisjoint({"numpy", "pytest", "hypothesis"})


def test_numbers_need_numpy_and_scipy_alone():
    loaded = imported_after(
        "import privacy as dp, privacy.audit as a\n"
        "a.falsify(dp.Gaussian(1.0), [0.0], [1.0]), a.falsify_noise(dp.Laplace(1.0), [0.1])\n"
        "a.epsilon_lower_bound([0.0], [1.0], 1e-5, claim=dp.Gaussian(1.0))\n"
        "a.audit_until_falsified(lambda x, r: r.normal(), ([], []), dp.Gaussian(1.0), max_runs=9)\n"
        "a.falsify_one_run(dp.PureDP(1.0), canaries=9, guesses=9, correct=9)\n"
        "a.privacy_parameter(lambda x, r: len(x) + r.normal(), ([], [1]))\n"
        "a.assert_not_falsified(lambda x, r: r.normal(), ([], []), dp.Gaussian(1.0), runs=9)\n"
    )
    banned = {"scipy.stats", "scipy.optimize", "pytest", "hypothesis", "sklearn", "matplotlib"}
    assert loaded.isdisjoint(banned)
