"""Opacus: an accountant for its engine. Importing this module registers it as ``"dpcalib"``."""

from collections.abc import Iterable, Mapping
from typing import Any

from opacus.accountants import IAccountant, register_accountant

from privacy import checks
from privacy.accounting import Notion, account
from privacy.curves import Curve
from privacy.mechanisms import Gaussian, Mechanism, PoissonSampled, compose, no_op, repeat
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

NAME = "dpcalib"
_HISTORY = "Pass the history of an accountant: (noise_multiplier, sample_rate, steps) of each run."
_STATE = 'Pass what state_dict() returned, or checkpoint["privacy_accountant_state_dict"].'
_SAME_HISTORY = (NAME, "rdp", "prv", "gdp")


def from_history(history: Iterable[tuple[float, float, int]]) -> Mechanism:
    """Return the mechanism of an accountant's history, of this one or of Opacus.

    `history` has (noise_multiplier, sample_rate, steps) of consecutive steps. Each batch is a
    Poisson sample with the sampling probability `sample_rate`.
    """
    parts = [no_op()]
    for run in history:
        try:
            noise, rate, steps = run
        except (TypeError, ValueError):
            raise ValueError(checks.expected("history", run, "three numbers", _HISTORY)) from None
        parts.append(repeat(PoissonSampled(Gaussian(noise), sampling_probability=rate), steps))
    return compose(*parts)


class Accountant(IAccountant):  # type: ignore[misc]  # no types
    """An accountant for ``PrivacyEngine(accountant="dpcalib")``.

    ``make_private_with_epsilon`` and ``get_noise_multiplier(accountant="dpcalib")`` use it too.
    `history` has (noise_multiplier, sample_rate, steps) of consecutive equal steps.
    """

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Append one step, in constant time."""
        # numpy.float32(0.7) == 0.7, although they differ
        one, count = (float(noise_multiplier), float(sample_rate)), 1
        if self.history and self.history[-1][:2] == one:
            count += self.history.pop()[2]
        self.history.append((*one, count))

    def curve(
        self, *, relation: NeighboringRelation = ADD_OR_REMOVE_ONE, notion: Notion = "tightest"
    ) -> Curve:
        """Return the privacy curve of all steps so far, for more questions."""
        return account(from_history(self.history), relation=relation, notion=notion)

    def get_epsilon(self, delta: float, **options: Any) -> float:
        """Return an upper bound on epsilon, infinite without noise; `options` as in `curve`."""
        if any(noise == 0 for noise, _, _ in self.history):
            return float("inf")
        return self.curve(**options).epsilon(delta)

    def __len__(self) -> int:
        return len(self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name that Opacus knows this accountant by."""
        return NAME

    def load_state_dict(self, state_dict: Any) -> None:
        """Load the state of this accountant, or the history of one of Opacus."""
        known = isinstance(state_dict, Mapping) and state_dict.get("mechanism") in _SAME_HISTORY
        if not known or "history" not in state_dict:
            raise ValueError(checks.expected("state_dict", state_dict, "a saved state", _STATE))
        history = [tuple(run) for run in state_dict["history"]]
        from_history(run for run in history if len(run) != 3 or run[0] != 0)  # or raises
        self.history = [(float(noise), float(rate), steps) for noise, rate, steps in history]


register_accountant(NAME, Accountant, force=True)
