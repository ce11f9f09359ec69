"""Learners for coba, with contexts and actions of any form that coba has."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from bandits.algorithms.algorithm import Algorithm
from bandits.encoders import HashedFeatures, Row
from bandits.live.agent import Agent
from bandits.live.tickets import Ticket


class CobaLearner:
    """A learner for coba's experiments. Each copy that coba makes starts an agent of its own.

    The dimension of `algorithm` is the number of hashed features. Strings and integers are ids of
    actions. Pass the algorithm ``explore=`` if you use coba's off-policy evaluators.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.agent: Agent | None = None
        self._encode = HashedFeatures(algorithm.dimension)

    @property
    def params(self) -> dict[str, Any]:
        """Columns of coba's table of learners."""
        form = self.algorithm.to_json()
        return {"family": form.pop("type"), **form}

    def predict(self, context: Any, actions: Sequence[Any]) -> tuple[Any, float, dict[str, Any]]:
        """Return an action, its probability given the agent's random numbers, and the ticket."""
        if self.agent is None:
            self.agent = self.algorithm.start()
        each = [int(action) if isinstance(action, Integral) else _row(action) for action in actions]
        rows = self._encode.candidates(_row(context), each)
        ticket = self.agent.select(rows)
        probability = 1.0 if ticket.propensity is None else ticket.propensity
        return actions[ticket.action], probability, {"ticket": ticket}

    def learn(
        self, context: Any, action: Any, reward: float, probability: float, ticket: Ticket
    ) -> None:
        """Record the reward of a prediction."""
        if self.agent is None:
            raise RuntimeError("Call predict() before learn(): a reward needs a ticket.")
        self.agent.update(ticket, reward)


def _row(value: Any) -> Row:
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {str(place): each for place, each in enumerate(value)}
    return {"value": value}
