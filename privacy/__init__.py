"""Exact accounting and noise calibration for differential privacy.

A public name is imported on first use: ``import privacy`` is fast, closed forms load no numpy.
"""

from typing import TYPE_CHECKING

from privacy.lazy import lazy

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from privacy.accounting import account, support_matrix
    from privacy.budget.filter import Budget, BudgetExceeded
    from privacy.budget.individual import IndividualBudget
    from privacy.budget.ledger import Ledger
    from privacy.budget.ledger_rows import LedgerEntry, LedgerError
    from privacy.budget.odometer import Odometer
    from privacy.budget.plan import Plan, load_plan, plan_from_json
    from privacy.budget.schema import plan_schema
    from privacy.budget.shared import SharedBudget
    from privacy.calibration import (
        Infeasible, calibrate, max_sampling_probability, max_steps, noise_multiplier, recalibrate,
    )
    from privacy.curves import Answer, Curve
    from privacy.guarantees import Guarantee, NotCertified
    from privacy.losses.discrete import Atoms, DiscretePair
    from privacy.losses.pair import Loss, LossPair
    from privacy.mechanisms import (
        AboveThreshold, ApproximateDP, CyclicPoisson, DiscreteGaussian, DiscreteLaplace, Epochs,
        ExponentialMechanism, FiniteMechanism, FixedSizeSampled, Gaussian, Laplace, Mechanism,
        PermuteAndFlip, PoissonSampled, PureDP, RandomAllocation, RandomizedResponse,
        ShuffledReports, TreeAggregation, TruncatedPoisson, UnsupportedMechanism,
        ZeroConcentratedDP, best_of, compose, from_cdfs, from_pmfs, from_profile,
        mechanism_from_json, no_op, parallel, register_mechanism, repeat, user_level,
    )
    from privacy.notions.gaussian import (
        mu_from_noise_multiplier, mu_from_rho, noise_multiplier_from_mu,
    )
    from privacy.notions.zcdp import (
        delta_from_rho, epsilon_from_rho, noise_multiplier_from_rho, rho_from_epsilon, rho_from_mu,
        rho_from_noise_multiplier,
    )
    from privacy.relations import NeighboringRelation
    from privacy.release.choice import Choice, choose
    from privacy.release.clipping import (
        Contributions, clip_records, clip_users, limit_contributions,
    )
    from privacy.release.lifetime import LifetimeCap
    from privacy.release.noise import (
        discrete_gaussian, discrete_laplace, float_gaussian_for_simulation, rounded_gaussian,
        rounded_laplace,
    )
    from privacy.release.norm_choice import ChosenNorm, choose_clip_norm
    from privacy.release.partitions import SelectedKeys, select_keys
    from privacy.release.sparse_vector import SparseVector
    from privacy.release.sums import Release, release_sum
    from privacy.release.tuning import Tuned, tune
    from privacy.risk import GaussianBound
    from privacy.running_sums.bands import BandChoice, Banded, choose_bands
    from privacy.running_sums.factorizations import Factorization, register_factorization
    from privacy.running_sums.participation import Participation
    from privacy.running_sums.running_sum import RunningSum
    # isort: on
    # fmt: on

__version__ = "0.1.0"

# fmt: off
__all__ = [
    "AboveThreshold", "Answer", "ApproximateDP", "Atoms", "BandChoice", "Banded", "Budget",
    "BudgetExceeded", "Choice", "ChosenNorm", "Contributions", "Curve", "CyclicPoisson",
    "DiscreteGaussian", "DiscreteLaplace", "DiscretePair", "Epochs", "ExponentialMechanism",
    "Factorization", "FiniteMechanism", "FixedSizeSampled", "Gaussian", "GaussianBound",
    "Guarantee", "IndividualBudget", "Infeasible", "Laplace", "Ledger", "LedgerEntry",
    "LedgerError", "LifetimeCap", "Loss", "LossPair", "Mechanism", "NeighboringRelation",
    "NotCertified", "Odometer", "Participation", "PermuteAndFlip", "Plan", "PoissonSampled",
    "PureDP", "RandomAllocation", "RandomizedResponse", "Release", "RunningSum", "SelectedKeys",
    "SharedBudget", "ShuffledReports", "SparseVector", "TreeAggregation", "TruncatedPoisson",
    "Tuned", "UnsupportedMechanism", "ZeroConcentratedDP", "account", "best_of", "calibrate",
    "choose", "choose_bands", "choose_clip_norm", "clip_records", "clip_users", "compose",
    "delta_from_rho", "discrete_gaussian", "discrete_laplace", "epsilon_from_rho",
    "float_gaussian_for_simulation", "from_cdfs", "from_pmfs", "from_profile",
    "limit_contributions", "load_plan", "max_sampling_probability", "max_steps",
    "mechanism_from_json", "mu_from_noise_multiplier", "mu_from_rho", "no_op", "noise_multiplier",
    "noise_multiplier_from_mu", "noise_multiplier_from_rho", "parallel",
    "plan_from_json", "plan_schema", "recalibrate", "register_factorization", "register_mechanism",
    "release_sum", "repeat", "rho_from_epsilon", "rho_from_mu", "rho_from_noise_multiplier",
    "rounded_gaussian", "rounded_laplace", "select_keys", "support_matrix", "tune", "user_level",
]
# fmt: on

_HOMES = {
    "accounting": "account support_matrix",
    "budget.filter": "Budget BudgetExceeded",
    "budget.individual": "IndividualBudget",
    "budget.ledger": "Ledger",
    "budget.ledger_rows": "LedgerEntry LedgerError",
    "budget.odometer": "Odometer",
    "budget.plan": "Plan load_plan plan_from_json",
    "budget.schema": "plan_schema",
    "budget.shared": "SharedBudget",
    "calibration": "Infeasible calibrate max_sampling_probability max_steps noise_multiplier "
    "recalibrate",
    "curves": "Answer Curve",
    "guarantees": "Guarantee NotCertified",
    "losses.discrete": "Atoms DiscretePair",
    "losses.pair": "Loss LossPair",
    "mechanisms": "AboveThreshold ApproximateDP CyclicPoisson DiscreteGaussian DiscreteLaplace "
    "Epochs ExponentialMechanism FiniteMechanism FixedSizeSampled Gaussian Laplace "
    "Mechanism PermuteAndFlip PoissonSampled PureDP RandomAllocation "
    "RandomizedResponse ShuffledReports TreeAggregation TruncatedPoisson "
    "UnsupportedMechanism ZeroConcentratedDP best_of compose from_cdfs from_pmfs "
    "from_profile mechanism_from_json no_op parallel register_mechanism repeat "
    "user_level",
    "notions.gaussian": "mu_from_noise_multiplier mu_from_rho noise_multiplier_from_mu",
    "notions.zcdp": "delta_from_rho epsilon_from_rho noise_multiplier_from_rho rho_from_epsilon "
    "rho_from_mu rho_from_noise_multiplier",
    "relations": "NeighboringRelation",
    "release.choice": "Choice choose",
    "risk": "GaussianBound",
    "release.clipping": "Contributions clip_records clip_users limit_contributions",
    "release.lifetime": "LifetimeCap",
    "release.noise": "discrete_gaussian discrete_laplace float_gaussian_for_simulation "
    "rounded_gaussian rounded_laplace",
    "release.norm_choice": "ChosenNorm choose_clip_norm",
    "release.partitions": "SelectedKeys select_keys",
    "release.sparse_vector": "SparseVector",
    "release.sums": "Release release_sum",
    "running_sums.bands": "BandChoice Banded choose_bands",
    "release.tuning": "Tuned tune",
    "running_sums.factorizations": "Factorization register_factorization",
    "running_sums.participation": "Participation",
    "running_sums.running_sum": "RunningSum",
}

__getattr__, __dir__ = lazy(__name__, _HOMES, modules=("answers", "audit", "plotting"))
