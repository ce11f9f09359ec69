"""The preprint's tables: verdicts are computed, runs repeat, the cache changes nothing."""

import csv
import importlib.util
import io
import math
import re
import zipfile
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bandits
import privacy as dp
from bandits import experiments
from bandits.cli import bandit
from bandits.experiments import NAMES, command, printed, real_data, runs, synthetic, tables
from bandits.experiments.printed import Printed
from bandits.experiments.printed_formula import (
    PrintedAmp,
    printed_subsampling_formula_not_a_bound,
)
from bandits.experiments.rivals import ThetaPerturbed
from bandits.experiments.tables import Row, Setup, Table
from bandits.offline import datasets

TINY = Setup(quick=True)


class Fewer(Setup):
    """Fewer runs, for tables of which only the computed numbers are checked."""

    rounds, replicates = 1_000, 2


DOCS = Path(__file__).parents[2] / "docs"


def line(kind, value, *, error="", seeds="12", table="t", measure="m", reason=""):
    return Printed("Table 1", "", value, error, seeds, kind, table, "s", "a", measure, reason)


@pytest.mark.parametrize(
    ("ours", "error", "replicates", "printed_error", "verdict"),
    [
        (96.4, 0.4, 96, "", "reproduced"),
        (93.0, 0.4, 96, "", "not reproduced"),
        # without a printed error, the preprint's 12 seeds are as noisy as 12 of ours
        (94.0, 1.0, 12, "", "reproduced"),
        (94.0, 0.4, 12, "", "not reproduced"),
        # a printed error is half of a 95 % interval: 2.2 standard errors of 12 seeds
        (94.0, 0.4, 96, "2.9", "reproduced"),
        (94.0, 0.4, 96, "2.8", "not reproduced"),
        (math.nan, 0.4, 96, "", "not reproduced"),
    ],
)
def test_numbers_are_compared_within_both_errors(ours, error, replicates, printed_error, verdict):
    row = Row("s", "a", "m", ours, error, replicates)
    assert line("number", "96.7", error=printed_error).verdict(row) == verdict


@pytest.mark.parametrize(
    ("kind", "value", "ours", "error", "verdict"),
    [
        ("gain", "1.5", 0.5, 0.4, "reproduced"),
        ("gain", "1.5", 0.3, 0.4, "not reproduced"),
        ("gain", "1.5", 3.0, 0.4, "sign only"),
        ("gain", "1.5", -0.7, 0.4, "not reproduced"),
        ("gain", "1.5", -1.0, 0.4, "contradicts"),
        ("gain", "-2.5", -2.0, 0.4, "reproduced"),
        ("gain", "-2.5", -1.0, 0.4, "sign only"),
        ("gain", "-2.5", 1.0, 0.4, "contradicts"),
        # 2.718 is the two-sided quantile of p = 0.02 with 11 degrees of freedom
        ("p", "0.02", 2.72, 1.0, "reproduced"),
        ("p", "0.02", 2.71, 1.0, "not reproduced"),
        ("p", "0.02", -2.72, 1.0, "contradicts"),
        ("epsilon", "1", 1.0, 0.0, "reproduced"),
        ("epsilon", "1", 1.01, 0.0, "contradicts"),
        ("epsilon", "1", math.inf, 0.0, "contradicts"),
        ("least", "94.1", 93.5, 0.4, "reproduced"),
        ("least", "94.1", 92.9, 0.4, "contradicts"),
        ("most", "1", 0.42, 0.0, "reproduced"),
        ("most", "1", 1.6, 0.2, "contradicts"),
        ("digits", "0.0045", 0.004496, 0.0, "reproduced"),
        ("digits", "0.450", 0.4506, 0.0, "not reproduced"),
    ],
)
def test_a_claim_is_judged_by_its_kind(kind, value, ours, error, verdict):
    assert line(kind, value).verdict(Row("s", "a", "m", ours, error, 12)) == verdict


@pytest.mark.parametrize(
    ("error", "theirs", "ours", "verdict"),
    [
        # the +- of both methods over 2.201, the 97.5 % quantile with 11 degrees of freedom
        ("3|4", 5 / 2.201, -0.5, "not reproduced"),
        ("0.3|0.4", 0.5 / 2.201, -0.5, "contradicts"),
        # 3.106 is the two-sided quantile of p = 0.01
        ("p<0.01", 1.5 / 3.106, -0.5, "contradicts"),
        ("p<0.01", 1.5 / 3.106, 2.4, "reproduced"),
        ("p<0.01", 1.5 / 3.106, 2.6, "sign only"),
    ],
)
def test_a_gain_is_judged_with_the_printed_errors(error, theirs, ours, verdict):
    gain, row = line("gain", "1.5", error=error), Row("s", "a", "m", ours, 0.2, 48)
    assert gain.standard_error(row) == pytest.approx(theirs, rel=1e-3)
    assert gain.verdict(row) == verdict


def test_the_most_favorable_reading_counts_and_each_number_needs_a_row(tmp_path, monkeypatch):
    rows = Row("s", "a", "m", 1.0, 0.1, 12), Row("s", "a", "n", 3.0, 0.1, 12)
    Table("t", "title", (), rows).write(tmp_path)
    both = line("number", "3", measure="m|n"), line("number", "2", table="u", reason="why")
    monkeypatch.setattr(printed, "printed", lambda: both)
    (_, row, verdict), (_, without, reason) = found = printed.coverage(tmp_path)
    assert (row, verdict, without, reason) == (rows[1], "reproduced", None, "why")
    shown = "2 printed numbers: 1 reproduced; 1 without a verdict"
    assert printed.counted(found) == shown
    judged = printed.judged("t", rows, Setup())
    assert [each.verdict for each in judged] == ["not reproduced", "reproduced"]
    assert {row.verdict for row in printed.judged("t", rows, TINY)} == {"too short"}
    monkeypatch.setattr(printed, "printed", lambda: (line("number", "4", measure="x"),))
    with pytest.raises(ValueError, match="Table 1: 4"):
        printed.coverage(tmp_path)


def test_every_printed_number_has_a_row_and_a_verdict_or_a_reason():
    found = printed.coverage(DOCS / "results" / "full")
    assert len(found) == len(printed.printed()) > 200
    assert {each[0].table for each in found} - {""} == set(NAMES) - {
        "real-data-25m",
        "synthetic-25m",
        "curves",
    }
    done = CliRunner().invoke(
        command.main, ["--check-coverage", "--out", str(DOCS / "results" / "full")]
    )
    assert done.exit_code == 0
    assert done.output.startswith(f"{len(found)} printed numbers: ")
    done = CliRunner().invoke(command.main, ["--check-coverage", "--out", str(DOCS)])
    assert done.exit_code == 1
    assert "Expected a row or a reason" in done.output


def test_the_page_for_readers_is_generated_and_its_text_has_no_number():
    spec = importlib.util.spec_from_file_location("reading", DOCS / "reading.py")
    reading = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reading)
    text = (DOCS / "reading-adaprivate-ts.md").read_text(encoding="utf-8")
    assert reading.page() == text, "Run: python docs/reading.py"
    words = reading.words()
    notes = [note for own in words["notes"].values() for note in own]
    typed = " ".join([*(own for own in words.values() if isinstance(own, str)), *notes])
    assert not re.search(r"\d", re.sub(r"\{.*?\}", "", typed))


def test_epsilons_are_printed_rounded_up():
    row = Row("s", "a", "m", 1.23456, 0.0123, true_epsilon=14.0201)
    made = Table("t", "title", ("choice",), (row,))
    (read,) = csv.DictReader(io.StringIO(made.to_csv()))
    assert set(read) == {field.name for field in fields(Row)}
    assert (read["ours"], read["error"], read["true_epsilon"]) == ("1.235", "0.012", "14.03")
    assert tables.up(1.0) == "1"
    assert tables.up(math.inf) == "inf"
    assert "choice" in str(made)


def test_a_table_on_the_screen_shows_what_differs():
    rows = (Row("e=1", "a", "m", 1.0), Row("e=1", "bb", "m", 2.0), Row("e=2", "a", "m", 3.0))
    shown = ["t", "", "subject  measure  ours", "", "e=1", "a        m        1"]
    shown += ["bb       m        2", "", "e=2", "a        m        3", "", "- why"]
    assert str(Table("n", "t", ("why",), rows)).splitlines() == shown
    spent = Row("e=1", "a", "m", 1.0, claimed_epsilon=1.0, true_epsilon=2.0)
    head = str(Table("n", "t", (), (spent,))).splitlines()[2]
    assert head == "subject  measure  ours  eps claimed  eps true"


def test_a_table_repeats_and_the_cache_changes_nothing(tmp_path):
    done = CliRunner().invoke(bandit, ["experiment", "curves", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    once = (tmp_path / "curves.csv").read_text()
    assert once.startswith("setting,subject,measure")
    cached = Setup(quick=True, cache=tmp_path)
    assert experiments.table("curves", cached).to_csv() == once
    kept = set(tmp_path.rglob("output.pkl"))
    assert len(kept) == 7  # one for each algorithm
    assert experiments.table("curves", cached).to_csv() == once
    assert set(tmp_path.rglob("output.pkl")) == kept


def test_a_result_is_found_by_all_that_it_depends_on(tmp_path):
    setup = Setup(quick=True, cache=tmp_path)
    options = runs.private(setup, 1.0, rounds=50, dimension=3)
    worlds = [bandits.Synthetic(dimension=3), bandits.Synthetic(dimension=3, norm=1.0)]
    agents = [bandits.AdaPrivateTS(**options), bandits.AdaPrivateTS(scale=2.0, **options)]
    for count, (world, agent, replicates) in enumerate(
        [(0, 0, 2), (1, 0, 2), (0, 1, 2), (0, 0, 3)], start=1
    ):
        played = runs.run(setup, {"a": agents[agent]}, worlds[world], replicates=replicates)
        assert played.regret["a"].shape == (replicates, 50)
        assert len(list(tmp_path.rglob("output.pkl"))) == count


@pytest.mark.parametrize(("q", "truth"), [(0.1, 67.5), (0.3, 14.0), (0.5, 7.50), (0.7, 5.21)])
def test_the_printed_amplification_is_not_a_bound(q, truth):
    with pytest.warns(UserWarning, match="not a bound"):
        algorithm = PrintedAmp(sampling_probability=q, **runs.private(TINY, 1.0))
    assert algorithm.guarantee(1e-5).epsilon == pytest.approx(truth, rel=0.01)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("order", value) for value in (1, 0, -1, 2.5, math.nan, True, "2")),
        *(("noise_multiplier", value) for value in (0, -1, math.nan, math.inf, True, "1")),
        *(("sampling_probability", value) for value in (0, 1.5, -1, math.nan, True, "1")),
    ],
)
def test_the_printed_formula_refuses(name, value):
    good = {"order": 2, "noise_multiplier": 1.0, "sampling_probability": 0.5}
    with pytest.raises((ValueError, TypeError), match=rf"^Expected {name}="):
        printed_subsampling_formula_not_a_bound(**good | {name: value})


def test_the_printed_bound_spends_more_than_it_claims():
    rows = experiments.table("amplification", Fewer(quick=True)).rows
    regret = {row.subject: row for row in rows if row.measure == "regret"}
    for name in ("Amp printed, q=0.3", "Amp printed, q=0.5"):
        assert regret[name].true_epsilon > 3
        assert (regret[name].paper, regret[name].verdict) == ("1", "contradicts")
    assert regret["Amp right, q=0.3"].true_epsilon <= 1
    assert regret[runs.OURS].true_epsilon <= 1
    # at the true epsilon of AdaPrivate-TS, which is below the claimed one
    seed, ours = regret["AdaPrivate-TS"], regret[runs.OURS_AT_TRUE]
    assert 0.74 < ours.true_epsilon <= seed.true_epsilon * (1 + 1e-9) < 0.75
    by_key = {row.key: row for row in rows}
    exact = by_key["q=0.001, sigma=100", "exact divergence", "over q^2 rho"]
    sampled = dp.PoissonSampled(dp.Gaussian(100), sampling_probability=0.001)
    order_2 = dp.account(sampled, notion="rdp").divergence(2)
    assert exact.ours == pytest.approx(order_2 / 2 / (1e-6 / (2 * 100**2)), rel=1e-6)


@pytest.mark.parametrize(
    ("layout", "relation", "squares"),
    [
        ("one round a batch", "REPLACE_SPECIAL", 10),
        ("batches of 3", "REPLACE_SPECIAL", 9 + 9 + 9 + 1),
        ("one batch", "REPLACE_SPECIAL", 10),  # clipped from 100
        ("one batch", "REPLACE_ONE", 40),
        ("ten full batches, rounds not bounded", "REPLACE_SPECIAL", 100),
    ],
)
def test_the_printed_clip_spends_by_layout(layout, relation, squares):
    rows = {row.key: row for row in synthetic._layouts(5.0, 10, math.sqrt(10))}
    setting = f"user epsilon=5, k=10, C=sqrt(10), {relation}"
    row = rows[setting, f"printed clip, {layout}", "true epsilon"]
    # sigma of one round is 1.0545 at a claimed 5; the clipped one is sqrt(10) times that
    rho = dp.rho_from_epsilon(5.0, 1e-5, conversion="classic") * squares / 10
    mu = math.sqrt(2 * rho)
    exact = dp.account(dp.Gaussian(1 / mu)).epsilon(1e-5)
    assert row.ours == pytest.approx(exact, rel=1e-9)


def test_theta_is_released_with_the_noise_that_is_accounted():
    options = runs.private(TINY, 1.0, rounds=400, dimension=3)
    features = np.eye(3)[None].repeat(2000, 0) / 2  # A = (1 + 1/4) I in each replicate
    rewards = np.zeros((2000, 3))
    for own_data in (False, True):
        rival = ThetaPerturbed(own_data=own_data, **options)
        channel = rival.channel((2000,), np.random.default_rng(0))
        channel.release(features, rewards, None)
        theta = channel.prefix / 1.25
        assert theta.std() == pytest.approx(rival.noise_multiplier / 1.25, rel=0.03)
    # 100 + 200 + 400: three releases that a reward of the first episode enters
    literal, own = ThetaPerturbed(**options), ThetaPerturbed(own_data=True, **options)
    split = ThetaPerturbed(split=True, **options)
    assert literal.batches == 3
    tripled = dp.account(dp.Gaussian(literal.noise_multiplier / math.sqrt(3)))
    assert literal.guarantee(1e-5).epsilon == pytest.approx(tripled.epsilon(1e-5), rel=1e-9)
    assert own.guarantee(1e-5).epsilon <= 1 + 1e-9
    assert split.guarantee(1e-5).epsilon <= 1 + 1e-9
    with pytest.raises(ValueError, match="simulation"):
        own.start()


def test_the_commands_name_missing_data(tmp_path):
    runner = CliRunner()
    missing = ["real-data", "--quick", "--data-dir", str(tmp_path)]
    for tool, call in ((bandit, ["experiment", *missing]), (command.main, missing)):
        done = runner.invoke(tool, call)
        assert done.exit_code == 1
        assert "ml-latest-small.zip" in done.output
    assert runner.invoke(bandit, ["experiment", "nothing"]).exit_code == 2


def test_a_full_run_without_data_lists_the_omitted_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "NAMES", ("real-data",))
    done = CliRunner().invoke(
        command.main, ["--quick", "--data-dir", str(tmp_path), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 0
    assert "SKIPPED real-data" in done.output
    assert not (tmp_path / "out").exists()


def made_up_25m(path, users=60, items=55):
    """Write a zip in the layout of MovieLens 25M: all items rated by all users."""
    rng = np.random.default_rng(25)
    stars = rng.integers(1, 11, (users, items)) / 2
    lines = ["userId,movieId,rating,timestamp"]
    lines += [f"{u + 1},{7 * i + 3},{stars[u, i]},1147880044" for u, i in np.ndindex(users, items)]
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ml-25m/README.txt", "made up")
        archive.writestr("ml-25m/movies.csv", "movieId,title,genres\n")
        archive.writestr("ml-25m/ratings.csv", "\r\n".join(lines) + "\r\n")
    return stars


def test_movielens_25m_is_played_from_a_local_zip_or_folder(tmp_path, monkeypatch):
    stars = made_up_25m(tmp_path / "own.zip")
    with pytest.raises(ValueError, match="162541 users and 25000095 ratings"):
        bandits.load_movielens("25m", path=tmp_path / "own.zip")
    monkeypatch.setitem(datasets._MOVIELENS_FACTS, "25m", (stars.shape[0], stars.size))
    zipped = bandits.load_movielens("25m", path=tmp_path / "own.zip")
    assert zipped.name == "MovieLens 25m"
    np.testing.assert_array_equal(zipped.rating[zipped.user == 2], stars[2])
    assert zipped.item_ids[:2].tolist() == [3, 10]
    # a zip in the folder of data has to have the published hash, an extracted one the facts
    data = tmp_path / "data"
    made_up_25m_zip = data / "ml-25m.zip"
    data.mkdir()
    (tmp_path / "own.zip").rename(made_up_25m_zip)
    with pytest.raises(ValueError, match="sha256"):
        experiments.table("real-data-25m", Setup(quick=True, data=data))
    with zipfile.ZipFile(made_up_25m_zip) as archive:
        archive.extractall(data)
    call = ["real-data-25m", "--quick", "--data-dir", str(data), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(command.main, call)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "out" / "real-data-25m.csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text)))
    readings = ("clicks", "clicks, long run", "clicks, users by ratings", "ratings")
    assert {row["setting"] for row in rows} >= {f"MovieLens 25m, {r}, epsilon=1" for r in readings}
    assert {row["subject"] for row in rows} >= {"LinUCB", "AdaPrivate-TS", runs.OURS_AT_TRUE}
    never = "first round with more reward"  # is infinite
    assert all(math.isfinite(float(row["ours"])) for row in rows if row["measure"] != never)


def test_synthetic_ratings_have_the_published_marginals_of_movielens_25m():
    assert datasets._MOVIELENS_FACTS["25m"] == (real_data._USERS, sum(real_data._STARS))
    # the mean rating of MovieLens 25M is 3.534
    stars = np.arange(1, 11) / 2
    assert stars @ real_data._STARS / 25_000_095 == pytest.approx(3.534, abs=5e-4)
    made = real_data.made_up(100)
    assert (made.users, made.items) == (1625, 5904)
    counted = np.bincount((2 * made.rating).astype(int))[1:]
    assert counted.tolist() == [count // 100 for count in real_data._STARS]
    pairs = made.user * made.items + made.item
    assert len(np.unique(pairs)) == len(pairs)
    assert np.bincount(made.user, minlength=made.users).min() >= 20
    assert np.bincount(made.item, minlength=made.items).min() >= 1


def test_a_full_table_states_its_origin_and_is_read_without_it(tmp_path):
    made = Table("t", "title", (), (Row("s", "a", "m", 1.0, 0.1, 12),))
    made.write(tmp_path, command.origin())
    first, second = (tmp_path / "t.csv").read_text().splitlines()[:2]
    assert re.fullmatch(r"# .*commit.*, Python \S+, dpcalib \S+, numpy \S+, scipy \S+", first)
    assert second.startswith("setting,")
    assert tuple(printed.read_rows(tmp_path / "t.csv")) == made.rows


def test_a_split_budget_multiplies_the_noise_by_the_root_of_the_releases():
    whole = bandits.CoreSetElimination(calibration="printed", **runs.private(TINY, 1.0))
    split = synthetic._split(whole)
    assert whole.batches == split.batches == 3  # 300 + 600 + 1200
    assert split.noise_multiplier == pytest.approx(math.sqrt(3) * whole.noise_multiplier)
    assert split.guarantee(1e-5).epsilon < whole.guarantee(1e-5).epsilon <= 1


def test_the_table_of_baselines_has_core_sets_and_published_constants():
    found = experiments.table("baselines", Fewer(quick=True)).rows
    by_name = {(row.subject, row.measure): row for row in found}
    core_set = by_name["CoreSet-Elimination, rho/P", runs.OF_BASELINE]
    assert (core_set.paper, core_set.verdict) == ("91.1", "too short")
    assert by_name["CoreSet-Elimination, disjoint", runs.OF_BASELINE].true_epsilon <= 1
    name = "JDP-LinUCB, published constants"
    missing = by_name[name, "regret"].true_epsilon
    replaced = by_name[name, "true epsilon, REPLACE_ONE"].ours
    assert 0 < missing < replaced < 1
