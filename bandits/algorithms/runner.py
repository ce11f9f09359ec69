"""The class of live agents, so that algorithms need not import it.

The package `bandits` sets it, and any of its modules imports the package first.
"""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import privacy as dp
    from bandits.algorithms.algorithm import Algorithm
    from bandits.live.agent import Agent


class Runner(Protocol):
    """Factory of live agents."""

    def start(
        self,
        algorithm: "Algorithm",
        *,
        simulation: bool,
        seed: int | None,
        folder: str | PathLike[str] | None,
        ledger: "dp.Ledger | None",
        fsync: bool,
    ) -> "Agent":
        """Return a new agent."""

    def restore(self, folder: str | PathLike[str], *, ledger: "dp.Ledger | None") -> "Agent":
        """Return a saved agent."""


_found_by: list[Callable[[], Runner]] = []


def run_by(find: Callable[[], Runner]) -> None:
    """Set the factory of live agents to the result of `find`, which is called on each use."""
    _found_by[:] = [find]


def runner() -> Runner:
    """Return the factory of live agents."""
    (find,) = _found_by
    return find()
