"""Folders of agents after an interrupted save or damage."""

import contextlib
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

import bandits
import privacy as dp
from bandits.live import checkpoint


def algorithm():
    return bandits.PrivateUCB(dimension=2, rounds=12, first=3, epsilon=1.0, delta=1e-5)


def play(agent, rounds=1):
    for _ in range(rounds):
        agent.update(agent.select(np.eye(2)), 1.0)


class Killed(BaseException):
    pass


def kill_at(monkeypatch, moment):
    """Let the process end at the `moment`-th time that it opens or names a file."""
    left = [moment]

    def counted(call):
        def once(*arguments, **settings):
            if not left[0]:
                raise Killed
            left[0] -= 1
            return call(*arguments, **settings)

        return once

    monkeypatch.setattr(os, "open", counted(os.open))
    monkeypatch.setattr(Path, "replace", counted(Path.replace))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # nothing is tidied up after a kill
    return left


def test_a_first_save_that_was_killed_leaves_a_folder_that_can_be_used(tmp_path, monkeypatch):
    moments = 0
    while True:
        folder = tmp_path / str(moments)
        left = kill_at(monkeypatch, moments)
        with contextlib.suppress(Killed):
            algorithm().start().save(folder)
        monkeypatch.undo()
        if left[0]:
            break
        moments += 1
        if (folder / "agent.json").exists():
            agent = algorithm().restore(folder)
        else:
            with pytest.raises(ValueError, match="to be that of a saved agent"):
                algorithm().restore(folder)
            agent = algorithm().start()
            agent.save(folder)
        play(agent, 12)
        agent.finish(release=True)
        names = {path.name for path in folder.iterdir()}
        turn = agent._turn
        own = {f"public-{turn}.npz", f"sensitive-{turn}.npz", f"journal-{turn}.bin"}
        assert names - {".dpcalib.lock"} == {"agent.json", "sums.npz"} | own
        assert algorithm().restore(folder).releases == 4
    assert moments > 10


def test_the_lock_of_an_interrupted_first_save_is_kept(tmp_path):
    (tmp_path / "sums.npz").write_text("left")
    with (tmp_path / ".dpcalib.lock").open("w") as held:
        algorithm().start(folder=tmp_path)
        assert os.path.samestat(os.fstat(held.fileno()), (tmp_path / ".dpcalib.lock").stat())


@pytest.mark.parametrize("name", ["notes.txt", "public-2.npz", "sums.npz.bak"])
def test_a_folder_with_other_files_is_not_cleared(tmp_path, name):
    (tmp_path / name).write_text("kept")
    (tmp_path / "sums.npz").write_text("kept")
    with pytest.raises(ValueError, match="to be empty or new"):
        algorithm().start().save(tmp_path)
    assert (tmp_path / name).exists()
    assert (tmp_path / "sums.npz").exists()


def test_a_released_agent_is_not_cleared_when_its_header_is_lost(tmp_path):
    agent = algorithm().start()
    agent.save(tmp_path)
    play(agent, 4)
    assert dp.RunningSum.restore(tmp_path / "sums.npz").releases == 1
    (tmp_path / "agent.json").unlink()
    with pytest.raises(ValueError, match="to be empty or new"):
        algorithm().start().save(tmp_path)


@pytest.mark.parametrize("kind", ["public", "sensitive"])
@pytest.mark.parametrize("place", [6, 10])
def test_a_zip_of_a_later_version_is_one_clear_error(tmp_path, kind, place):
    algorithm().start().save(tmp_path)
    path = tmp_path / f"{kind}-1.npz"
    whole = path.read_bytes()
    start = whole.rindex(b"PK\x01\x02") + place
    path.write_bytes(whole[:start] + b"\x63\x00" + whole[start + 2 :])
    with pytest.raises((NotImplementedError, zipfile.BadZipFile)):
        checkpoint._read(path)
    with pytest.raises(ValueError, match="to be that of a saved agent"):
        algorithm().restore(tmp_path)
