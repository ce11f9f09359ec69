"""What runs a description: named by the package `bandits`, from the room of live agents.

A description is below the agents that run it, and calls whatever was named here. Importing any
module of `bandits` imports the package first, so that there is one in every process.
"""

from collections.abc import Callable
from os import PathLike
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from bandits.algorithms.algorithm import Algorithm
    from bandits.live.agent import Agent


class Runner(Protocol):
    """What makes live agents."""

    def start(self, algorithm: "Algorithm", *, simulation: bool, seed: int | None) -> "Agent":
        """Return a fresh agent."""

    def restore(self, folder: str | PathLike[str]) -> "Agent":
        """Return a saved agent."""


_found_by: list[Callable[[], Runner]] = []


def run_by(find: Callable[[], Runner]) -> None:
    """Let agents be made by what `find` returns; it is called when one is asked for."""
    _found_by[:] = [find]


def runner() -> Runner:
    """Return the runner that was named."""
    (find,) = _found_by
    return find()
