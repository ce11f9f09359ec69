"""Checkpoints: a folder with JSON and npz, no pickle, that is whole at any moment.

======================= ==========================================================
``agent.json``          the algorithm, counters, names of the other files; public
``public-N.npz``        the model: released sums and what follows from them
``sensitive-N.npz``     raw rewards of the open batch, open tickets, users' ledgers
``sums.npz``            the running sum with its noise, written by `privacy.RunningSum`;
                        where it is long, with ``sums.npz.part-*``
======================= ==========================================================

The order of writing keeps noise from being drawn twice for one batch. A batch that ends is saved
with its rewards, then the running sum saves its release before handing it out, then the agent
saves what it learnt. After a crash between the last two the running sum is one release ahead, and
`restore` goes on from that release instead of making another.

The header counts how often it was written. An agent writes only where the count is its own last
one, and `restore` counts on: of all agents of a folder the one restored last may release, and the
others find out before they do. Two agents that look at the count within the same milliseconds may
both pass, and their files then overwrite each other's; a release is still made once, since the
running sum replaces only what it wrote or read itself.
"""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import privacy as dp
from bandits import checks
from bandits.algorithms.registry import algorithm_from_json, check_registered
from bandits.learning.rewards import MARGIN, Released
from bandits.learning.users import coded, packed, unpacked
from bandits.live import format_1

if TYPE_CHECKING:
    from bandits.live.agent import Agent

_KIND = "bandit-agent 2"
"""What the folder holds, and the version of its files; `format_1` reads those of version 0.1."""
_SUMS = "sums.npz"
_SETTINGS = (
    "noise_multiplier",
    "clip_norm",
    "shape",
    "participation",
    "relation",
    "replace_distance",
    "simulation",
)
"""Of a running sum; the guarantee follows from them."""
_FIRST = {_SUMS, f".{_SUMS}.partial"} | {
    f"{name}{end}"
    for name in ("public-1.npz", "sensitive-1.npz", "agent.json")
    for end in ("", ".partial")
}
"""What a first save writes. Its header comes last: without that one there is no agent."""
_DAMAGES = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,  # NotImplementedError, of a zip that claims a later version
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_AT_LEAST = ("noise_multiplier", "replace_distance")
"""Those that may be larger: more noise, or noise for a record that moves further."""


def save(agent: "Agent", folder: Path) -> None:
    """Write an agent's state, and have its running sum keep its own file beside it."""
    folder = folder.resolve()  # for good, wherever the process goes
    if agent._folder is None:
        _attach(agent, folder)
    elif agent._folder != folder:
        remedy = "An agent has one folder. To move it, stop, move the folder, and restore it there."
        rule = f"{str(agent._folder)!r}, which keeps this agent"
        raise ValueError(checks.expected("folder", str(folder), rule, remedy))
    if _turn(folder) != agent._turn:
        raise RuntimeError(
            f"Another agent goes on from {folder}. This one may not: a batch would be released "
            "twice."
        )
    learner = agent._learner
    features, rewards = agent._open_batch()
    pending = np.array(list(agent._pending), dtype=np.int64)
    late = np.array(list(agent._late), dtype=np.int64)
    users, places = coded(agent._users)
    sensitive = {
        "features": features,
        "rewards": rewards,
        "users": packed(users),
        "user_places": places,
        "pending": pending,
        "keys": np.array(list(agent._pending.values()), dtype=str),
        "late": late,
        "late_features": np.array(list(agent._late.values())).reshape(
            len(late), agent.algorithm.features
        ),
        **agent._missed.state(),
    }
    sensitive |= {f"channel_{name}": array for name, array in learner.channel.state().items()}
    turn = 1 + agent._turn
    names = {"public": f"public-{turn}.npz", "sensitive": f"sensitive-{turn}.npz"}
    _write_arrays(folder / names["public"], learner.model.state())
    _write_arrays(folder / names["sensitive"], sensitive)
    header = {
        "kind": _KIND,
        "turn": turn,
        "files": names,
        "algorithm": agent.algorithm.to_json(),
        "simulation": agent.simulation,
        "user_kind": agent._user_kind,
        "finished": agent._finished,
        "first": agent._first,
        "progress": learner.progress(),
    }
    text = json.dumps(header, indent=1).encode()
    _write(folder / "agent.json", lambda file: file.write(text))
    agent._turn = turn
    for kind, name in names.items():  # what the header no longer names
        for old in folder.glob(f"{kind}-*.npz"):
            if old.name != name:
                old.unlink()


def _attach(agent: "Agent", folder: Path) -> None:
    check_registered(agent.algorithm)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _is_unfinished(folder):
        for left in folder.iterdir():
            left.unlink()
    if any(folder.iterdir()):
        remedy = "Algorithm.restore(folder) goes on with what is there."
        raise ValueError(checks.expected("folder", str(folder), "empty or new", remedy))
    channel = agent._learner.channel
    if isinstance(channel, Released):
        channel.sums.save(folder / _SUMS)
        # saves each release from now on
        channel.sums, agent._folder = dp.RunningSum.restore(folder / _SUMS), folder
    agent._folder = folder


def _is_unfinished(folder: Path) -> bool:
    """Return whether a folder holds what an interrupted first save leaves, and nothing else."""
    found = {path.name for path in folder.glob("*")}
    parts = {name for name in found if name.removeprefix(".").startswith(f"{_SUMS}.part-")}
    return bool(found) and "agent.json" not in found and found - parts <= _FIRST


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
    with path.open("rb") as file, np.load(file, allow_pickle=False) as members:
        return {name: members[name] for name in members.files}


def restore(kind: "type[Agent]", folder: str | os.PathLike[str]) -> "Agent":
    """Return the agent of a kind that `save` wrote, going on exactly where it was.

    Raises
    ------
    ValueError
        The folder holds no agent, a damaged one, or files that do not belong together.
    """
    folder = Path(folder).resolve()
    if _is_unfinished(folder):
        remedy = "Its first save was interrupted: save another agent there."
        raise ValueError(checks.expected("folder", str(folder), "that of a saved agent", remedy))
    try:
        agent = _restored(kind, folder)
    except _DAMAGES as error:
        remedy = f"Pass the folder that save() wrote, whole. {error}"
        raise ValueError(
            checks.expected("folder", str(folder), "that of a saved agent", remedy)
        ) from error
    channel = agent._learner.channel
    if isinstance(channel, Released):
        _resume_sums(agent, channel, dp.RunningSum.restore(folder / _SUMS))
    save(agent, folder)  # from here on no other agent may
    return agent


def _restored(kind: "type[Agent]", folder: Path) -> "Agent":
    header = json.loads((folder / "agent.json").read_text())
    if header["kind"] not in (_KIND, format_1.KIND):
        raise ValueError(checks.expected("kind", header["kind"], repr(_KIND), "Update dpcalib."))
    algorithm = algorithm_from_json(header["algorithm"])
    rng = np.random.default_rng(0) if header["simulation"] else None
    learner = algorithm.learner(np.random.SeedSequence(0), rng)
    learner.model.load(_read(folder / header["files"]["public"]))
    learner.resume(header["progress"])
    agent = kind(algorithm, learner, simulation=header["simulation"])
    agent._folder, agent._turn = folder, header["turn"]
    agent._finished, agent._first = header["finished"], header["first"]
    sensitive = _read(folder / header["files"]["sensitive"])
    if header["kind"] == format_1.KIND:
        sensitive, agent._user_kind = format_1.upgraded(algorithm, learner.channel, sensitive)
    else:
        agent._user_kind = header["user_kind"]
    _load_open_batch(agent, sensitive)
    return agent


def _load_open_batch(agent: "Agent", found: Mapping[str, Any]) -> None:
    count = len(found["rewards"])
    agent._reserve(count)
    agent._features[:count] = found["features"]
    agent._rewards[:count] = found["rewards"]
    users = unpacked(found["users"])
    agent._users = [users[place] for place in found["user_places"].tolist()]
    agent._pending = dict(zip(found["pending"].tolist(), found["keys"].tolist(), strict=True))
    agent._late = dict(zip(found["late"].tolist(), found["late_features"], strict=True))
    agent._missed.load(found["missed"], found["run_starts"], found["run_keys"])
    agent._missed.begin(agent.rounds, agent._key)
    prefix = "channel_"
    agent._learner.channel.load(
        {name.removeprefix(prefix): found[name] for name in found if name.startswith(prefix)}
    )


def _resume_sums(agent: "Agent", channel: Released, found: dp.RunningSum) -> None:
    for name in _SETTINGS:
        built, kept = getattr(channel.sums, name), getattr(found, name)
        # calibrated numbers may differ in their last digits between machines
        if kept != built and not (name in _AT_LEAST and kept * MARGIN >= built):
            remedy = "The folder holds files of two agents, and the guarantee is of the other's."
            raise ValueError(checks.expected(name, kept, f"{built!r}", remedy))
    channel.sums = found
    # what is guaranteed follows from the noise that is used, to its last digit
    vars(agent.algorithm)["noise_multiplier"] = found.noise_multiplier
    ahead = found.releases - agent._learner.batch
    if ahead == 1:
        features, rewards = agent._open_batch()
        channel.account(features, rewards, agent._users)
        agent._learner.learn(features, channel.prefix)
        agent._next_batch()
    elif ahead:
        remedy = "The folder holds files of two times; a batch would be released twice."
        raise ValueError(checks.expected("releases ahead", ahead, "0 or 1", remedy))
