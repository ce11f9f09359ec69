"""Checkpoints: a folder with JSON and npz, no pickle, that is whole at any moment.

======================= ==========================================================
``agent.json``          the algorithm, counters, names of the other files; public
``public-N.npz``        the model: released sums and what follows from them
``sensitive-N.npz``     raw rewards of the open batch, open tickets, users' ledgers
``sums.npz``            the running sum with its noise; written by `privacy.RunningSum`
======================= ==========================================================

The order of writing keeps noise from being drawn twice for one batch. A batch that ends is saved
with its rewards, then the running sum saves its release before handing it out, then the agent
saves what it learnt. After a crash between the last two the running sum is one release ahead, and
`restore` goes on from that release instead of making another.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import privacy as dp
from bandits import _checks
from bandits.rewards import Private

if TYPE_CHECKING:
    from bandits.live import Agent

_VERSION = 1
_SUMS = "sums.npz"


def save(agent: "Agent", folder: Path) -> None:
    """Write an agent's state, and have its running sum keep its own file beside it."""
    if agent._folder != folder:
        _attach(agent, folder)
    learner = agent._learner
    features, rewards = agent._open_batch()
    pending = np.array(list(agent._pending), dtype=np.int64)
    late = np.array(list(agent._late), dtype=np.int64)
    sensitive = {
        "features": features,
        "rewards": rewards,
        "users": np.array(agent._users, dtype=str),
        "pending": pending,
        "keys": np.array(list(agent._pending.values()), dtype=str),
        "late": late,
        "late_features": np.array(list(agent._late.values())).reshape(
            len(late), agent.algorithm.features
        ),
    }
    sensitive |= {f"channel_{name}": array for name, array in learner.channel.state().items()}
    turn = 1 + _turn(folder)
    names = {"public": f"public-{turn}.npz", "sensitive": f"sensitive-{turn}.npz"}
    _write_arrays(folder / names["public"], learner.model.state())
    _write_arrays(folder / names["sensitive"], sensitive)
    header = {
        "kind": "bandit-agent",
        "version": _VERSION,
        "turn": turn,
        "files": names,
        "algorithm": agent.algorithm.to_json(),
        "simulation": agent.simulation,
        "finished": agent._finished,
        "first": agent._first,
        "progress": learner.progress(),
    }
    text = json.dumps(header, indent=1).encode()
    _write(folder / "agent.json", lambda file: file.write(text))
    for kind, name in names.items():  # what the header no longer names
        for old in folder.glob(f"{kind}-*.npz"):
            if old.name != name:
                old.unlink()


def _attach(agent: "Agent", folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if any(folder.iterdir()):
        remedy = "Algorithm.restore(folder) goes on with what is there."
        raise ValueError(_checks.expected("folder", str(folder), "empty or new", remedy))
    channel = agent._learner.channel
    if isinstance(channel, Private):
        channel.sums.save(folder / _SUMS)
        channel.sums = dp.RunningSum.restore(folder / _SUMS)  # saves each release from now on
    agent._folder = folder


def _turn(folder: Path) -> int:
    header = folder / "agent.json"
    return int(json.loads(header.read_text())["turn"]) if header.exists() else 0


def _write(path: Path, write: Any) -> None:
    """Write a file that is there whole, on the disk, or not at all, for its owner alone."""
    beside = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    if hasattr(os, "O_DIRECTORY"):  # the new name too; Windows has no such call
        handle = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _write_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    _write(path, lambda file: np.savez(file, **arrays))


def _read(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def restore(folder: str | os.PathLike[str]) -> "Agent":
    """Return the agent that `save` wrote, going on exactly where it was."""
    from bandits.agents import algorithm_from_json
    from bandits.live import Agent

    folder = Path(folder)
    header = json.loads((folder / "agent.json").read_text())
    if header.get("kind") != "bandit-agent" or header.get("version") != _VERSION:
        remedy = "Read it with the version that wrote it."
        shown = (header.get("kind"), header.get("version"))
        raise ValueError(
            _checks.expected("kind, version", shown, f"'bandit-agent', {_VERSION}", remedy)
        )
    algorithm = algorithm_from_json(header["algorithm"])
    rng = np.random.default_rng(0) if header["simulation"] else None
    learner = algorithm.learner(np.random.SeedSequence(0), rng)
    learner.model.load(_read(folder / header["files"]["public"]))
    learner.resume(header["progress"])
    agent = Agent(algorithm, learner, simulation=header["simulation"])
    agent._folder = folder
    agent._finished, agent._first = header["finished"], header["first"]
    _load_open_batch(agent, _read(folder / header["files"]["sensitive"]))
    if isinstance(learner.channel, Private):
        _resume_sums(agent, learner.channel, folder)
    return agent


def _load_open_batch(agent: "Agent", found: Mapping[str, Any]) -> None:
    count = len(found["rewards"])
    agent._reserve(count)
    agent._features[:count] = found["features"]
    agent._rewards[:count] = found["rewards"]
    agent._users = found["users"].tolist()
    agent._pending = dict(zip(found["pending"].tolist(), found["keys"].tolist(), strict=True))
    agent._late = dict(zip(found["late"].tolist(), found["late_features"], strict=True))
    prefix = "channel_"
    agent._learner.channel.load(
        {name.removeprefix(prefix): found[name] for name in found if name.startswith(prefix)}
    )


def _resume_sums(agent: "Agent", channel: Private, folder: Path) -> None:
    channel.sums = dp.RunningSum.restore(folder / _SUMS)
    ahead = channel.sums.releases - agent._learner.batch
    if ahead == 1:
        features, rewards = agent._open_batch()
        channel.account(features, rewards, agent._users)
        agent._learner.learn(features, channel.prefix)
        agent._next_batch()
    elif ahead:
        remedy = "The folder holds files of two times; a batch would be released twice."
        raise ValueError(_checks.expected("releases ahead", ahead, "0 or 1", remedy))
