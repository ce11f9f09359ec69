"""The result of an audit: falsified, with evidence, or not falsified."""

from dataclasses import asdict, dataclass
from typing import Any

from privacy import checks


@dataclass(frozen=True)
class AuditResult:
    """The result of one audit: the claim in words, the p-value, and the evidence.

    A true claim gives a p-value of at most x with probability at most x, for every x;
    `significance` bounds the false positive rate. `evidence` is the strongest observation against
    the claim, and the limit that the claim sets; `runs` the number of outputs (per data set, if
    there are two). `warning`: why no violation could be found, such as scores of the wrong sign.
    """

    claim: str
    p_value: float
    significance: float
    evidence: str
    runs: int
    warning: str = ""

    @property
    def falsified(self) -> bool:
        """Whether the claim is falsified at this significance level."""
        return self.p_value <= self.significance

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-compatible dict."""
        return {"falsified": self.falsified, **asdict(self)}

    def __str__(self) -> str:
        verdict = "falsified" if self.falsified else "not falsified"
        sign = "<=" if self.falsified else ">"
        return (
            f"{self.claim}: {verdict} (p-value {self.p_value:.3g} {sign} {self.significance:.3g}, "
            f"{self.runs} runs). {self.evidence}"
            f"{self.warning and f' Warning: {self.warning}'}"
        )


def checked_significance(value: Any) -> float:
    """Check a significance level in (0, 1/4]."""
    remedy = "Pass the largest acceptable false positive rate, such as 1e-6."
    return checks.real("significance", value, remedy, above=0, at_most=0.25)


def error_of(confidence: Any) -> float:
    """Check a confidence in [3/4, 1) and return the probability of being wrong."""
    remedy = "Pass the probability with which the bound holds, such as 0.95."
    return 1 - checks.real("confidence", confidence, remedy, at_least=0.75, below=1)


def checked_runs(value: Any) -> int:
    """Check a number of runs."""
    return checks.count("runs", value, "Pass the number of runs per data set, such as 20_000.")
