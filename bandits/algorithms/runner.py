"""The class of live agents, so that algorithms need not import it; the package sets it."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandits.live.agent import Agent

_found_by: "list[Callable[[], type[Agent]]]" = []


def run_by(find: "Callable[[], type[Agent]]") -> None:
    """Set the class of live agents to the result of `find`, which is called on each use."""
    _found_by[:] = [find]


def runner() -> "type[Agent]":
    """Return the class of live agents."""
    (find,) = _found_by
    return find()
