"""Data sets: verified from any source; errors give the address, the path and the hash.

The published sets are not in the repository. They are looked for in DPCALIB_TEST_DATA, or in
``../shared/data`` beside the checkout; tests that need missing ones are skipped.
"""

import hashlib
import http.server
import os
import threading
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import bandits
from bandits.offline import datasets, downloads
from bandits.offline.downloads import Source, data_folder, fetch

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DPCALIB_TEST_DATA", ROOT.parent / "shared" / "data"))
needs_data = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"no data in DPCALIB_TEST_DATA or {SHARED.name}: see the docs"
)


@pytest.fixture(scope="module")
def jester():
    return bandits.load_jester(folder=SHARED)


@needs_data
def test_movielens_has_its_published_facts():
    found = bandits.load_movielens(folder=SHARED)
    assert (found.users, found.items, len(found.rating)) == (610, 9724, 100_836)
    per_user = np.bincount(found.user)
    assert (per_user.min(), np.median(per_user), per_user.max()) == (20, 70.5, 2698)
    assert found.rating.mean() == pytest.approx(3.502, abs=5e-4)
    assert found.scaled.min() == 0
    assert found.scaled.max() == 1


@needs_data
def test_a_zip_and_a_folder_of_ones_own_are_the_same(tmp_path):
    folder = SHARED / "ml-latest-small"
    with zipfile.ZipFile(tmp_path / "own.zip", "w") as archive:
        archive.write(folder / "ratings.csv", "ml-latest-small/ratings.csv")
    zipped = bandits.load_movielens(path=tmp_path / "own.zip")
    opened = bandits.load_movielens(path=folder)
    assert (zipped.rating == opened.rating).all()
    assert (zipped.item_ids == opened.item_ids).all()


@needs_data
def test_another_edition_or_a_changed_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="162541 users and 25000095 ratings"):
        bandits.load_movielens("25m", path=SHARED / "ml-latest-small")
    text = (SHARED / "ml-latest-small" / "ratings.csv").read_text().splitlines(keepends=True)
    (tmp_path / "ratings.csv").write_text("".join(text[:-1]))
    with pytest.raises(ValueError, match="100836 ratings"):
        bandits.load_movielens(path=tmp_path)
    (tmp_path / "ratings.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(ValueError, match="the columns"):
        bandits.load_movielens(path=tmp_path)


@needs_data
def test_jester_part_one_holds_the_showdown_set(jester):
    assert (jester.users, jester.items, len(jester.rating)) == (24_983, 100, 1_810_455)
    dense = jester.most_rated(40).complete()
    assert (dense.users, dense.items, len(dense.rating)) == (19_181, 40, 19_181 * 40)
    assert abs(jester.rating).max() <= 10


@needs_data
@pytest.mark.parametrize(
    ("policy", "campaign", "items", "clicks"),
    [
        ("random", "all", 80, 38),
        ("random", "men", 34, 46),
        ("random", "women", 46, 46),
        ("bts", "all", 80, 42),
        ("bts", "men", 34, 69),
        ("bts", "women", 46, 46),
    ],
)
def test_open_bandit_has_its_published_facts(policy, campaign, items, clicks):
    log = bandits.load_open_bandit(policy, campaign, folder=SHARED)
    assert (len(log.reward), log.reward.sum(), log.actions) == (10_000, clicks, items)
    assert set(np.unique(log.position)) == {0, 1, 2}
    assert log.users.shape == (10_000, 4)
    if policy == "random":
        assert log.propensity == pytest.approx(1 / items, rel=1e-4)


def test_a_missing_file_names_addresses_place_and_hash(tmp_path):
    with pytest.raises(bandits.DataUnavailable) as caught:
        bandits.load_movielens("25m", folder=tmp_path, download_if_missing=False)
    said = str(caught.value)
    source = datasets.MOVIELENS["25m"]
    assert all(address in said for address in source.addresses)
    assert str(tmp_path / "ml-25m.zip") in said
    assert source.hash in said
    with pytest.raises(bandits.DataUnavailable, match="does not exist"):
        bandits.load_movielens(path=tmp_path / "nowhere")
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="a zip or a folder"):
        bandits.load_movielens(path=tmp_path / "file")
    with pytest.raises(bandits.DataUnavailable, match=r"to contain one ratings\.csv"):
        bandits.load_movielens(path=tmp_path)
    with pytest.raises(ValueError, match="edition='1m'"):
        bandits.load_movielens("1m")


def test_the_folder_of_data(tmp_path, monkeypatch):
    monkeypatch.setenv(downloads.FOLDER_VARIABLE, str(tmp_path))
    assert data_folder() == tmp_path
    assert data_folder("~/x") == Path("~/x").expanduser()
    monkeypatch.delenv(downloads.FOLDER_VARIABLE)
    assert data_folder().name == "dpcalib"


@pytest.fixture
def server(tmp_path):
    """A server on this machine with one file, and the source that describes it."""
    served = tmp_path / "served"
    served.mkdir()
    (served / "set.zip").write_bytes(b"content")

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=served)
    ) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{running.server_port}"
        digest = hashlib.sha256(b"content").hexdigest()
        addresses = (f"{address}/missing.zip", f"{address}/set.zip")
        yield Source("sub/set.zip", f"sha256:{digest}", addresses, "free", "nobody")
        running.shutdown()


def test_addresses_are_tried_in_turn_and_the_hash_decides(server, tmp_path):
    options = {"download_if_missing": True, "progress": False}
    found = fetch(server, tmp_path / "data", **options)
    assert found == tmp_path / "data" / "sub" / "set.zip"
    assert found.read_bytes() == b"content"
    # from now on no server is asked
    assert fetch(replace(server, addresses=()), tmp_path / "data", **options) == found
    other = replace(server, hash="sha256:" + "0" * 64)
    with pytest.raises(ValueError, match="Delete it"):
        fetch(other, tmp_path / "data", **options)
    with pytest.raises(bandits.DataUnavailable) as caught:
        fetch(other, tmp_path / "elsewhere", **options)
    assert "404" in str(caught.value)
    assert "does not match" in str(caught.value)
    assert not any(path.is_file() for path in (tmp_path / "elsewhere").rglob("*"))


def test_licenses_are_printed_once(capsys):
    datasets.announce("a license", "a citation")
    datasets.announce("a license", "a citation")
    assert capsys.readouterr().err == "License: a license\nPlease cite: a citation\n"


@needs_data
@pytest.mark.parametrize("folder", ["the zip in a folder", "the data folder"])
def test_the_folder_of_the_open_bandit_sample_is_read(folder):
    place = {"path": SHARED / "open-bandit-small"} if "zip" in folder else {"folder": SHARED}
    assert bandits.load_open_bandit("bts", "men", **place).actions == 34


@needs_data
def test_a_sheet_of_jester_is_read_once(tmp_path, monkeypatch):
    (tmp_path / "jester").mkdir()
    name = "jester/jester_dataset_1_3.zip"
    (tmp_path / name).write_bytes((SHARED / name).read_bytes())
    first = bandits.load_jester((3,), folder=tmp_path)
    assert not list((SHARED / "jester").glob("*.npy"))

    def unread(_):
        raise AssertionError

    monkeypatch.setattr("bandits.offline.datasets._sheet", unread)
    again = bandits.load_jester((3,), folder=tmp_path)
    assert (first.rating == again.rating).all()
    assert (first.item == again.item).all()
