"""Arms with a shared context: fit, partial_fit and predict as in MABWiser, and a policy for obp."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from bandits import checks
from bandits.algorithms.algorithm import Algorithm
from bandits.checks import Array, Indices
from bandits.live.agent import Agent
from bandits.live.tickets import Ticket

Build = Callable[[int], Algorithm]


class ArmPolicy:
    """A policy for declared arms and numeric contexts, with ``fit`` and ``predict``.

    The features of an arm are the context and a 1 in its block, and zeros for the other arms. A
    fitted row is a round of the agent, with an action that was chosen elsewhere.

    `arms` are the ids of the arms, and `build` is a function from the number of features,
    arms * (c + 1), to an algorithm. The attribute `agent` is None before the first fit or
    prediction. ``agent.guarantee(delta)`` covers all predictions since the last `fit`, which starts
    a new agent.
    """

    def __init__(self, arms: Sequence[Hashable], build: Build) -> None:
        wrong = not arms or len(set(arms)) < len(arms)
        checks.refuse_if(wrong, "arms", arms, "distinct and not empty", "Declare each arm once.")
        self.arms, self._build = list(arms), build
        self.agent: Agent | None = None

    def candidates(self, context: Any) -> Array:
        """Return the features of all arms in a context of c numbers."""
        return np.kron(np.eye(len(self.arms)), np.append(np.ravel(context), 1.0))

    def started(self, context: Any) -> Agent:
        """Return the agent, starting it if necessary."""
        if self.agent is None:
            self.agent = self._build(len(self.arms) * (np.size(context) + 1)).start()
        return self.agent

    def fit(
        self, decisions: Sequence[Hashable], rewards: Sequence[float], contexts: Any = None
    ) -> "ArmPolicy":
        """Start a new agent and call `partial_fit`; for rewards used again, guarantees compose."""
        self.agent = None
        return self.partial_fit(decisions, rewards, contexts)

    def partial_fit(
        self, decisions: Sequence[Hashable], rewards: Sequence[float], contexts: Any = None
    ) -> "ArmPolicy":
        """Add rounds; a batch is released when the first round of the next one is added."""
        each, count = _contexts(contexts, len(decisions)), len(decisions)
        remedy = "Pass one for each decision."
        for name, found in (("rewards", len(rewards)), ("contexts", len(each))):
            checks.refuse_if(found != count, f"number of {name}", found, f"{count}", remedy)
        remedy = "Declare every arm."
        for decision in decisions:  # before the first round, so that an error adds none
            checks.refuse_if(decision not in self.arms, "decision", decision, "one of arms", remedy)
        for decision, reward, context in zip(decisions, rewards, each, strict=True):
            row = self.candidates(context)[[self.arms.index(decision)]]
            agent = self.started(context)
            agent.update(agent.select(row), reward)
        return self

    def predict_expectations(self, contexts: Any = None) -> list[dict[Hashable, float]]:
        """Return the estimated mean reward of each arm, from released batches."""
        each = _contexts(contexts, 1)
        found = [self.started(x).predict(self.candidates(x)).tolist() for x in each]
        return [dict(zip(self.arms, values, strict=True)) for values in found]

    def predict(self, contexts: Any = None) -> list[Hashable]:
        """Return the arm with the largest estimated mean reward in each context."""
        return [max(each, key=each.__getitem__) for each in self.predict_expectations(contexts)]


def _contexts(contexts: Any, count: int) -> Array:
    return np.zeros((count, 0)) if contexts is None else np.asarray(contexts, dtype=float)


class ObpPolicy(ArmPolicy):
    """An online policy for `obp.simulator.run_bandit_simulation`, with one position.

    `n_actions` is the number of actions, and `build` that of `ArmPolicy`.
    """

    len_list = 1

    def __init__(self, n_actions: int, build: Build) -> None:
        super().__init__(range(n_actions), build)
        self.n_actions = n_actions
        self._ticket: Ticket | None = None

    @property
    def policy_type(self) -> Any:
        """The type CONTEXTUAL of obp."""
        from obp.policy.policy_type import PolicyType

        return PolicyType.CONTEXTUAL

    def select_action(self, context: Array) -> Indices:
        """Select an action in a context of shape (1, c)."""
        self._ticket = self.started(context).select(self.candidates(context))
        return np.array([self._ticket.action])

    def update_params(self, action: int, reward: float, context: Array) -> None:
        """Record the reward of the last selected action."""
        if self._ticket is None or self._ticket.action != action:
            remedy = "Call update_params after select_action, with its action."
            raise ValueError(checks.expected("action", action, "the last selected one", remedy))
        self.started(context).update(self._ticket, reward)
        self._ticket = None
