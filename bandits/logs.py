"""Logs of bandits for off-policy evaluation, and readers of common forms."""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from bandits import checks
from bandits.checks import Array, Indices

_NEEDED = (
    "Log ticket.propensity of an agent with explore > 0, or pass the known probabilities of the "
    "logging policy."
)


@dataclass(frozen=True, kw_only=True)
class BanditLog:
    """Logged actions of a policy with their propensities and rewards; as sensitive as the rewards.

    Attributes
    ----------
    name
        Name of the data set.
    action
        Index of the played action, from 0, shape (n,).
    reward
        Its reward, shape (n,).
    propensity
        Probability that the logging policy played it, in (0, 1], shape (n,).
    actions
        Number of actions.
    context
        Contexts, shape (n, c), or features of each action, shape (n, actions, d); or None.
    position
        Position of the action, from 0, shape (n,); None if there is only one.
    users
        Categories of the user, numbers from 0, shape (n, k); or None.
    """

    name: str = "log"
    action: Indices = field(repr=False)
    reward: Array = field(repr=False)
    propensity: Array = field(repr=False)
    actions: int
    context: Array | None = field(default=None, repr=False)
    position: Indices | None = field(default=None, repr=False)
    users: Indices | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checks.refuse_if(self.propensity is None, "propensity", None, "given", _NEEDED)
        actions = checks.count("actions", self.actions, "Pass the number of actions.")
        shape = np.shape(self.action)
        remedy = "Pass one number for each round."
        action = checks.finite("action", self.action, shape[:1], remedy)
        if not ((action >= 0) & (action < actions) & (action % 1 == 0)).all():
            rule = f"whole numbers in [0, {actions})"
            raise ValueError(checks.expected("action", "...", rule, "Number the actions from 0."))
        for name in ("reward", "propensity"):
            object.__setattr__(self, name, checks.finite(name, getattr(self, name), shape, remedy))
        if not ((self.propensity > 0) & (self.propensity <= 1)).all():
            raise ValueError(checks.expected("propensity", "...", "> 0 and <= 1", _NEEDED))
        object.__setattr__(self, "action", action.astype(np.int64))
        for name in ("context", "position", "users"):
            value = getattr(self, name)
            if value is not None and np.shape(value)[:1] != shape:
                rule = f"({shape[0]}, ...)"
                remedy = "Pass one row for each round."
                raise ValueError(checks.expected(f"shape of {name}", np.shape(value), rule, remedy))

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        action: str = "action",
        reward: str = "reward",
        propensity: str = "propensity",
        context: Sequence[str] = (),
        arms: Sequence[Hashable] | None = None,
    ) -> "BanditLog":
        """Return the log in a data frame of pandas or polars, or a mapping of columns.

        The arguments are names of columns; those of `context` contain numbers. If actions are ids
        instead of indices, `arms` are all ids; None takes the largest index for the last action.
        """
        rule = f"a frame with the column {propensity!r}"
        checks.refuse_if(propensity not in frame, "frame", "...", rule, _NEEDED)
        played = np.asarray(frame[action])
        if arms is not None:
            places = {arm: place for place, arm in enumerate(arms)}
            remedy = "Declare every action in arms=."
            for each in set(played.tolist()):
                checks.refuse_if(each not in places, "action", each, "one of arms", remedy)
            played = np.array([places[each] for each in played.tolist()])
            actions = len(arms)
        else:
            remedy = "Pass indices, or the ids of all actions as arms=."
            indices = checks.finite("action", played, played.shape[:1], remedy)
            actions = int(indices.max(initial=0)) + 1
        columns = [np.asarray(frame[name], dtype=float) for name in context]
        return cls(
            action=played,
            reward=np.asarray(frame[reward]),
            propensity=np.asarray(frame[propensity]),
            actions=actions,
            context=np.stack(columns, axis=1) if columns else None,
        )

    @classmethod
    def from_obp(cls, feedback: Mapping[str, Any]) -> "BanditLog":
        """Return the log in a dictionary of Open Bandit Pipeline (its `BanditFeedback`)."""
        return cls(
            name="obp",
            action=feedback["action"],
            reward=feedback["reward"],
            propensity=feedback.get("pscore"),  # type: ignore[arg-type]
            actions=int(feedback["n_actions"]),
            context=feedback.get("context"),
            position=feedback.get("position"),
        )

    @classmethod
    def from_json_lines(
        cls,
        lines: str | PathLike[str] | Iterable[str],
        *,
        encode: Callable[[Mapping[str, Any]], Array] | None = None,
    ) -> "BanditLog":
        """Return the log in JSON lines of Vowpal Wabbit (dsjson); rewards are negated costs.

        `lines` is a path or the lines. `encode`, such as a `HashedFeatures`, maps the shared
        context, a dictionary without ``_multi``, to numbers; None reads no contexts.
        """
        if isinstance(lines, str | PathLike):
            lines = Path(lines).read_text(encoding="utf-8").splitlines()
        rounds = [json.loads(line) for line in lines if line.strip()]
        remedy = "Pass one line for each round."
        checks.refuse_if(not rounds, "lines", "...", "not empty", remedy)
        if not all("_label_probability" in each for each in rounds):
            raise ValueError(checks.expected("_label_probability", None, "in each line", _NEEDED))
        contexts = [dict(each.get("c", {})) for each in rounds]
        for each in contexts:
            each.pop("_multi", None)
        return cls(
            name="dsjson",
            action=np.array([each["_label_Action"] - 1 for each in rounds]),
            reward=np.array([-float(each["_label_cost"]) for each in rounds]),
            propensity=np.array([each["_label_probability"] for each in rounds]),
            actions=max(len(each["a"]) for each in rounds),
            context=None if encode is None else np.stack(list(map(encode, contexts))),
        )
