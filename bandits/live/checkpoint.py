"""Checkpoints: folders of JSON and npz files, without pickle, that are consistent at any time.

======================= ==========================================================
``agent.json``          the algorithm, counters, names of the other files; public
``public-N.npz``        the model: released sums and their post-processing
``sensitive-N.npz``     raw rewards of the open batch, open tickets, users' ledgers
``journal-N.bin``       rounds and rewards since that save
``sums.npz``            the running sum with its noise, written by `privacy.RunningSum`;
                        if it is long, with ``sums.npz.part-*``; locks ``.dpcalib.lock``
======================= ==========================================================

Noise is drawn once per batch. When a batch ends, the agent saves its rewards, the running sum saves
its release before returning it, and the agent saves the updated model. After a crash between the
last two, the running sum is one release ahead, and `restore` uses that release.

An agent writes only if the write count in the header equals that of its own last write, and
`restore` increases it: only the agent restored last can release; the others raise an error first.
Two agents that read the count within the same milliseconds may overwrite each other's files. Each
batch is still released once, because the running sum replaces only files that it wrote or read.
"""

import contextlib
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
from bandits.live.journal import Journal, read, repeat

if TYPE_CHECKING:
    from bandits.live.agent import Agent

_KIND = "bandit-agent 2"
"""Format version of the folder; `format_1` reads that of version 0.1."""
_SUMS = "sums.npz"
_LABEL = "bandit agent"
_SETTINGS = (
    "noise_multiplier",
    "clip_norm",
    "shape",
    "participation",
    "relation",
    "replace_distance",
    "simulation",
)
"""Attributes of a running sum that determine the guarantee."""
_LOCK = ".dpcalib.lock"
"""File that the running sum locks. Deleting it would end the exclusion of another writer."""
_FIRST = {_SUMS, f".{_SUMS}.partial"} | {
    f"{name}{end}"
    for name in ("public-1.npz", "sensitive-1.npz", "journal-1.bin", "agent.json")
    for end in ("", ".partial")
}
"""Files of a first save. The header is written last, so without it the save is incomplete."""
_DAMAGES = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OSError,
    RuntimeError,  # includes NotImplementedError, for a zip of a later version
    TypeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
_AT_LEAST = ("noise_multiplier", "replace_distance")
"""Settings that may be larger than expected, because a larger value is conservative."""


def begin(agent: "Agent", folder: str | os.PathLike[str] | None, ledger: dp.Ledger | None) -> None:
    """Spend for a new agent and save it.

    The reservation counts as spent before the folder exists; the folder stores it; then the
    reservation is committed for this folder. A crash in between is continued by another start, or
    by `restore`.
    """
    if ledger is not None:
        mechanism = _spent_by(agent, ledger)
        if folder is None:
            ledger.spend_release(mechanism, label=_LABEL)
        else:
            agent._paid = ledger.reserve_state(mechanism, folder, label=_LABEL)
    if folder is not None:
        save(agent, Path(folder))
    if ledger is not None and agent._paid is not None:
        ledger.commit_state(agent._paid)


def _spent_by(agent: "Agent", ledger: dp.Ledger) -> dp.Mechanism:
    if not isinstance(ledger, dp.Ledger):
        remedy = "Open it with privacy.Ledger(url)."
        raise TypeError(checks.expected("ledger", ledger, "a privacy.Ledger", remedy))
    found: dp.Mechanism | None = getattr(agent.algorithm, "mechanism", None)
    if agent.simulation or found is None:
        remedy = "Leave it out: a simulation or an agent without privacy spends nothing."
        raise ValueError(checks.expected("ledger", ledger, "None", remedy))
    budget = ledger.budget()
    guarantee = agent.algorithm.guarantee(budget.delta or 1e-9)
    for name in ("relation", "unit"):
        own, needed = str(getattr(guarantee, name)), str(getattr(budget, name))
        remedy = f"Open a budget with {name}={own!r}."
        checks.refuse_if(own != needed, f"{name} of the budget", needed, repr(own), remedy)
    return found


def save(agent: "Agent", folder: Path) -> None:
    """Write an agent's state, and save its running sum to a file in the same folder."""
    folder = folder.resolve()  # independent of later changes of the working directory
    if agent._folder is None:
        _attach(agent, folder)
    elif agent._folder != folder:
        remedy = "To move an agent, stop it, move the folder, and restore it there."
        rule = f"{str(agent._folder)!r}, the folder of this agent"
        raise ValueError(checks.expected("folder", str(folder), rule, remedy))
    if _turn(folder) != agent._turn:
        raise RuntimeError(
            f"Another agent was restored from {folder}, or a save was interrupted. Use only the "
            "agent restored last, or restore again: two agents would release a batch twice."
        )
    learner = agent._learner
    features, rewards = agent._open_rounds()
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
        "joined": np.array([batch for batch, _, _ in agent._joined], dtype=np.int64),
        "joined_features": np.array([x for _, x, _ in agent._joined]).reshape(
            len(agent._joined), agent.algorithm.features
        ),
        "joined_rewards": np.array([value for _, _, value in agent._joined]),
        "counts": np.array(list(agent._counts.values())),
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
        "fsync": agent.fsync,
        "paid": agent._paid,
        "first": agent._first,
        "progress": learner.progress(),
    }
    text = json.dumps(header, indent=1).encode()
    names["journal"] = f"journal-{turn}.bin"
    journal = Journal(folder / names["journal"], fsync=agent.fsync)
    if agent._journal is not None:  # if interrupted below, the header may refer to the new one
        agent._journal.whole = False
    try:
        _write(folder / "agent.json", lambda file: file.write(text))
    except BaseException:
        journal.close()
        raise
    agent._turn, agent._until = turn, 0
    last, agent._journal = agent._journal, journal
    if last is not None:
        last.close()
    for kind, name in names.items():  # delete files of earlier saves
        for old in folder.glob(f"{kind}-*"):
            if old.name != name:
                old.unlink()


def _attach(agent: "Agent", folder: Path) -> None:
    check_registered(agent.algorithm)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if _is_unfinished(folder):
        for name in _files(folder):
            (folder / name).unlink()
    remedy = "To continue a saved agent, call Algorithm.restore(folder)."
    checks.refuse_if(_files(folder), "folder", str(folder), "empty or new", remedy)
    channel = agent._learner.channel
    if isinstance(channel, Released):
        channel.sums.save(folder / _SUMS)
        # the restored running sum saves each of its releases
        channel.sums, agent._folder = dp.RunningSum.restore(folder / _SUMS), folder
    agent._folder = folder


def _is_unfinished(folder: Path) -> bool:
    """Return whether a folder contains only files of an interrupted first save."""
    found = _files(folder)
    parts = {name for name in found if name.removeprefix(".").startswith(f"{_SUMS}.part-")}
    return bool(found) and "agent.json" not in found and found - parts <= _FIRST


def _files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")} - {_LOCK}


def _turn(folder: Path) -> int:
    header = folder / "agent.json"
    return int(json.loads(header.read_text())["turn"]) if header.exists() else 0


def _write(path: Path, write: Any) -> None:
    """Write a file atomically and durably, readable by its owner only."""
    beside = path.with_name(path.name + ".partial")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    if hasattr(os, "O_DIRECTORY"):  # sync the renaming too; absent on Windows
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


def restore(
    kind: "type[Agent]", folder: str | os.PathLike[str], ledger: dp.Ledger | None
) -> "Agent":
    """Return the agent of a kind that `save` wrote, in the state of its last complete call."""
    folder = Path(folder).resolve()
    remedy = "Its first save was interrupted. Save another agent there."
    checks.refuse_if(_is_unfinished(folder), "folder", str(folder), "that of a saved agent", remedy)
    sums = dp.RunningSum.restore(folder / _SUMS) if (folder / _SUMS).exists() else None
    try:
        agent = _restored(kind, folder, sums)
    except _DAMAGES as error:
        remedy = f"Pass a complete folder that save() wrote. {error}"
        raise ValueError(
            checks.expected("folder", str(folder), "that of a saved agent", remedy)
        ) from error
    rule = "the ledger of the start" if ledger is None else "None, as at the start"
    remedy = "Pass the ledger that this agent was charged to, if any."
    checks.refuse_if((ledger is None) != (agent._paid is None), "ledger", ledger, rule, remedy)
    if ledger is not None and agent._paid is not None:
        ledger.commit_state(agent._paid)
    channel = agent._learner.channel
    if isinstance(channel, Released):
        found = dp.RunningSum.restore(folder / _SUMS) if sums is None else sums
        _resume_sums(agent, channel, found)
    repeat(agent, read(folder / f"journal-{agent._turn}.bin"))
    agent._missed.begin(agent.rounds, agent._key)
    agent._folder = folder  # only now, so that nothing is saved without the journal
    save(agent, folder)  # invalidates all other agents of the folder
    return agent


def _restored(kind: "type[Agent]", folder: Path, sums: dp.RunningSum | None) -> "Agent":
    header = json.loads((folder / "agent.json").read_text())
    if header["kind"] not in (_KIND, format_1.KIND):
        raise ValueError(checks.expected("kind", header["kind"], repr(_KIND), "Update dpcalib."))
    algorithm = algorithm_from_json(header["algorithm"])
    covariance_of = getattr(algorithm, "covariance_of", None)
    if sums is not None and covariance_of is not None:
        # another version may compute another factorization; sums of another agent are refused later
        with contextlib.suppress(ValueError):
            vars(algorithm)["_noise_covariance"] = covariance_of(sums)
    rng = np.random.default_rng(0) if header["simulation"] else None
    learner = algorithm.learner(np.random.SeedSequence(0), rng)
    learner.model.load(_read(folder / header["files"]["public"]))
    learner.resume(header["progress"])
    agent = kind(algorithm, learner, simulation=header["simulation"])
    agent._turn, agent.fsync = header["turn"], header.get("fsync", False)
    agent._paid = header.get("paid")
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
    if "joined" in found:  # absent in folders of earlier versions
        parts = found["joined"].tolist(), found["joined_features"], found["joined_rewards"].tolist()
        agent._joined = list(zip(*parts, strict=True))
        agent._counts = dict(zip(agent._counts, found["counts"].tolist(), strict=True))
    agent._missed.load(found["missed"], found["run_starts"], found["run_keys"])
    prefix = "channel_"
    agent._learner.channel.load(
        {name.removeprefix(prefix): found[name] for name in found if name.startswith(prefix)}
    )


def _resume_sums(agent: "Agent", channel: Released, found: dp.RunningSum) -> None:
    for name in _SETTINGS:
        built, kept = getattr(channel.sums, name), getattr(found, name)
        # calibrated values may differ in their last digits between machines
        if kept != built and not (name in _AT_LEAST and kept * MARGIN >= built):
            remedy = "Restore the folder from a backup: it mixes files of two agents."
            raise ValueError(checks.expected(name, kept, f"{built!r}", remedy))
    channel.sums = found
    # compute the guarantee from exactly the noise that is used
    vars(agent.algorithm)["noise_multiplier"] = found.noise_multiplier
    learner = agent._learner
    ahead = found.releases - learner.learned
    if ahead == 1:
        if not learner.waiting:  # saved by an earlier version
            learner.turn()
        count = learner.waiting[0][0]
        features, rewards = (array[:count] for array in agent._open_rounds())
        channel.account(features, rewards, agent._users[:count])
        agent._keep_late(count)
        agent._forget(count)
        learner.learn(features, channel.prefix)
        agent._next_batch(count)
    elif ahead:
        remedy = "Restore the folder from a backup: it mixes files of different saves."
        name = "releases of the sum minus batches of the model"
        raise ValueError(checks.expected(name, ahead, "0 or 1", remedy))
