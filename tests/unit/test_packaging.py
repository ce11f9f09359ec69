"""The installed package: names, imports and metadata."""

import importlib.metadata
import importlib.util
import json
import subprocess
import sys
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType

import pytest

import bandits
import privacy as dp

PUBLIC_NAMES = [
    "AboveThreshold",
    "Answer",
    "ApproximateDP",
    "Atoms",
    "BandChoice",
    "Banded",
    "Budget",
    "BudgetExceeded",
    "Choice",
    "ChosenNorm",
    "Contributions",
    "Curve",
    "CyclicPoisson",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "DiscretePair",
    "Epochs",
    "ExponentialMechanism",
    "Factorization",
    "FiniteMechanism",
    "FixedSizeSampled",
    "Gaussian",
    "GaussianBound",
    "Guarantee",
    "IndividualBudget",
    "Infeasible",
    "Laplace",
    "Ledger",
    "LedgerEntry",
    "LedgerError",
    "LifetimeCap",
    "Loss",
    "LossPair",
    "Mechanism",
    "NeighboringRelation",
    "NotCertified",
    "Odometer",
    "Participation",
    "PermuteAndFlip",
    "Plan",
    "PoissonSampled",
    "PureDP",
    "RandomAllocation",
    "RandomizedResponse",
    "Release",
    "RunningSum",
    "SelectedKeys",
    "SharedBudget",
    "ShuffledReports",
    "SparseVector",
    "TreeAggregation",
    "TruncatedPoisson",
    "Tuned",
    "UnsupportedMechanism",
    "ZeroConcentratedDP",
    "account",
    "best_of",
    "calibrate",
    "choose",
    "choose_bands",
    "choose_clip_norm",
    "clip_records",
    "clip_users",
    "compose",
    "delta_from_rho",
    "discrete_gaussian",
    "discrete_laplace",
    "epsilon_from_rho",
    "float_gaussian_for_simulation",
    "from_cdfs",
    "from_pmfs",
    "from_profile",
    "limit_contributions",
    "load_plan",
    "max_sampling_probability",
    "max_steps",
    "mechanism_from_json",
    "mu_from_noise_multiplier",
    "mu_from_rho",
    "no_op",
    "noise_multiplier",
    "noise_multiplier_from_mu",
    "noise_multiplier_from_rho",
    "parallel",
    "plan_from_json",
    "plan_schema",
    "recalibrate",
    "register_factorization",
    "register_mechanism",
    "release_sum",
    "repeat",
    "rho_from_epsilon",
    "rho_from_mu",
    "rho_from_noise_multiplier",
    "rounded_gaussian",
    "rounded_laplace",
    "select_keys",
    "support_matrix",
    "tune",
    "user_level",
]

# What a plain `pip install numpy scipy` does not bring, whatever else is installed here.
BEYOND_NUMPY_AND_SCIPY = (
    "autodp",
    "click",
    "dp_accounting",
    "flint",
    "hypothesis",
    "matplotlib",
    "mpmath",
    "prv_accountant",
    "psycopg",
    "rich",
    "sqlalchemy",
)

BLOCK = f"""
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BEYOND_NUMPY_AND_SCIPY!r}:
            raise ModuleNotFoundError(f"{{name}} is blocked", name=name)

sys.meta_path.insert(0, Blocked())
"""

EVERY_NUMBER = """
import privacy as dp

target = {"epsilon": 1.0, "delta": 1e-5}
for relation in dp.NeighboringRelation:
    dp.noise_multiplier(**target, relation=relation)
for notion in ("tightest", "rdp"):
    sigma = dp.noise_multiplier(**target, sampling_probability=0.01, steps=100, notion=notion)
dp.noise_multiplier(**target, notion="zcdp")
dp.noise_multiplier(**target, sampling_probability=0.1)
dp.max_steps(**target, noise_multiplier=sigma, sampling_probability=0.01)
dp.max_sampling_probability(**target, noise_multiplier=sigma, steps=10)
dp.calibrate(dp.Laplace, **target)
plan = dp.compose(dp.repeat(dp.Gaussian(10.0), 3), dp.PureDP(0.1), dp.RandomizedResponse(0.1))
dp.account(plan).guarantee(delta=1e-6)
rho = dp.rho_from_epsilon(1.0, 1e-5)
best = dp.Factorization.optimized(5)
for simulation in (True, False):
    sums = dp.RunningSum(best, noise_multiplier=1.0, shape=2, simulation=simulation)
    sums.step([0.0, 0.0])
    sums.noise_covariance(3)
dp.Factorization.honaker_tree(5).sensitivity(dp.Participation.consecutive(2))
dp.epsilon_from_rho(rho, 1e-5), dp.delta_from_rho(rho, 1.0), dp.noise_multiplier_from_rho(rho)
"""


def imported_after(code: str) -> set[str]:
    """Return the modules that a fresh interpreter holds after running `code`."""
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
    assert sorted(dp.__all__) == PUBLIC_NAMES


@pytest.mark.parametrize("package", [dp, bandits], ids=lambda package: package.__name__)
def test_all_is_sorted_and_every_name_exists(package):
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))


def test_unknown_name_is_an_attribute_error():
    for package in (dp, bandits):
        with pytest.raises(AttributeError, match="no_such_name") as caught:
            package.no_such_name  # noqa: B018
        # from these attributes the interpreter derives its "Did you mean"
        assert (caught.value.name, caught.value.obj) == ("no_such_name", package)


def test_public_modules_need_no_import_of_their_own():
    code = (
        "import privacy as dp; dp.plotting.plot_privacy_profiles; dp.audit.audit; dp.answers.sigma"
        "; import bandits; bandits.encoders.rows"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {"answers", "audit", "plotting"} <= set(dir(dp))


@pytest.mark.parametrize("name", sorted(dp.__all__))
def test_every_public_name_has_a_docstring(name):
    assert (getattr(dp, name).__doc__ or "").strip()


@pytest.mark.parametrize("package", [dp, bandits, dp.audit], ids=lambda package: package.__name__)
def test_every_method_of_a_public_class_has_or_inherits_a_docstring(package):
    kinds = (FunctionType, classmethod, staticmethod, property, cached_property)
    missing = [
        f"{kind.__name__}.{name}"
        for kind in map(partial(getattr, package), package.__all__)
        if isinstance(kind, type)
        for base in kind.__mro__
        if base.__module__.partition(".")[0] in {"privacy", "bandits"}
        for name, member in vars(base).items()
        if not name.startswith("_") and isinstance(member, kinds)
        if not any(getattr(vars(each).get(name), "__doc__", None) for each in kind.__mro__)
    ]
    assert not missing


@pytest.mark.parametrize("package", ["privacy", "bandits"])
def test_types_are_shipped(package):
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    assert (Path(spec.origin).parent / "py.typed").is_file()


def test_metadata():
    about = importlib.metadata.metadata("dpcalib")
    assert about["Version"] == dp.__version__
    assert about["License-Expression"] == "Apache-2.0"
    assert about["Requires-Python"] == ">=3.11"
    plain = [line for line in about.get_all("Requires-Dist") if "extra ==" not in line]
    assert {line.split(">")[0] for line in plain} == {
        "click",
        "filelock",
        "numpy",
        "python-flint",
        "rich",
        "scipy",
        "threadpoolctl",
    }


def test_the_command_is_registered():
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="dpcalib")
    assert command.value == "privacy.cli:main"
    found = importlib.metadata.entry_points(group="dpcalib.commands").names
    assert found >= {
        "account",
        "audit",
        "bandit",
        "check",
        "convert",
        "delta",
        "epsilon",
        "explain",
        "sampling-probability",
        "sigma",
        "steps",
        "verify",
    }


def test_import_is_light():
    loaded = imported_after("import privacy, bandits")
    assert loaded.isdisjoint({"numpy", "scipy", *BEYOND_NUMPY_AND_SCIPY})


def test_plain_closed_forms_run_without_numpy():
    loaded = imported_after(
        "import privacy as dp\n"
        "dp.noise_multiplier(epsilon=1.0, delta=1e-5)\n"
        "dp.account(dp.Gaussian(2.0)).guarantee(delta=1e-5)\n"
        "dp.epsilon_from_rho(dp.rho_from_epsilon(1.0, 1e-5), 1e-5)\n"
    )
    assert loaded.isdisjoint({"numpy", "scipy"})


def test_every_number_needs_numpy_and_scipy_alone():
    loaded = imported_after(BLOCK + EVERY_NUMBER)
    assert loaded.isdisjoint({"scipy.stats", "scipy.optimize", *BEYOND_NUMPY_AND_SCIPY})
