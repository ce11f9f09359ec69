"""Audits test a privacy claim: they falsify it or do not. They never prove or estimate epsilon."""

from typing import TYPE_CHECKING

from privacy.lazy import lazy

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from privacy.audit.assertions import Falsified, assert_not_falsified
    from privacy.audit.bounds import epsilon_lower_bound, mu_lower_bound
    from privacy.audit.claims import audit, falsify
    from privacy.audit.noise import falsify_noise
    from privacy.audit.one_run import falsify_one_run, one_run_epsilon_lower_bound
    from privacy.audit.replay import (
        NoiseTape, Violation, assert_contribution, assert_norm, assert_spends, privacy_parameter,
    )
    from privacy.audit.results import AuditResult
    from privacy.audit.scores import fit_score, gaussian_score, laplace_score
    from privacy.audit.sequential import SequentialAudit, audit_until_falsified
    from privacy.audit.strategies import Pair, edge_floats, neighboring_pairs

# fmt: off
__all__ = [
    "AuditResult", "Falsified", "NoiseTape", "Pair", "SequentialAudit", "Violation",
    "assert_contribution", "assert_norm", "assert_not_falsified", "assert_spends", "audit",
    "audit_until_falsified", "edge_floats", "epsilon_lower_bound", "falsify", "falsify_noise",
    "falsify_one_run", "fit_score", "gaussian_score", "laplace_score", "mu_lower_bound",
    "neighboring_pairs", "one_run_epsilon_lower_bound", "privacy_parameter",
]
# fmt: on

_HOMES = {
    "assertions": "Falsified assert_not_falsified",
    "bounds": "epsilon_lower_bound mu_lower_bound",
    "claims": "audit falsify",
    "noise": "falsify_noise",
    "one_run": "falsify_one_run one_run_epsilon_lower_bound",
    "replay": "NoiseTape Violation assert_contribution assert_norm assert_spends privacy_parameter",
    "results": "AuditResult",
    "scores": "fit_score gaussian_score laplace_score",
    "sequential": "SequentialAudit audit_until_falsified",
    "strategies": "Pair edge_floats neighboring_pairs",
}

__getattr__, __dir__ = lazy(__name__, _HOMES)
