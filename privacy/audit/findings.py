"""What an audit says: falsified, with how much evidence; or not."""

from dataclasses import asdict, dataclass
from typing import Any

from privacy import checks


@dataclass(frozen=True)
class Finding:
    """The outcome of one audit.

    A claim that was not falsified is not thereby true: an audit sees the data sets, the outputs
    and the number of runs that it was given.

    Attributes
    ----------
    claim
        What was claimed, in words.
    p_value
        A true claim gives a p-value of at most x with probability at most x, for every x.
    significance
        The probability of a false alarm that was accepted.
    evidence
        The strongest evidence against the claim: what was seen, and how much the claim allows.
    runs
        How many outputs (of each data set, where there are two) the evidence comes from.
    warning
        What shows that the audit was given something else than it takes (scores of the wrong
        sign, say), so that it could hardly find a violation; empty otherwise.
    """

    claim: str
    p_value: float
    significance: float
    evidence: str
    runs: int
    warning: str = ""

    @property
    def falsified(self) -> bool:
        """Whether the claim is falsified at this significance."""
        return self.p_value <= self.significance

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-able form."""
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
    remedy = "Pass the probability of a false alarm that is acceptable, such as 1e-6."
    return checks.real("significance", value, remedy, above=0, at_most=0.25)


def error_of(confidence: Any) -> float:
    """Check a confidence in [3/4, 1) and return the probability of being wrong."""
    remedy = "Pass the probability with which the bound holds, such as 0.95."
    return 1 - checks.real("confidence", confidence, remedy, at_least=0.75, below=1)


def checked_runs(value: Any) -> int:
    """Check a number of runs."""
    return checks.count("runs", value, "Pass how often to run on each data set, such as 20_000.")
