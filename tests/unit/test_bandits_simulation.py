"""Simulations: results independent of batching, confidence bands, environments, the command."""

import csv
import json
import math
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

import bandits
from bandits.cli import bandit
from bandits.offline import simulation

COMMON = {"dimension": 4, "rounds": 300}
PRIVATE = COMMON | {"epsilon": 1.0, "delta": 1e-5}
WORLD = bandits.Synthetic(dimension=4, arms=20)


def algorithms():
    return {
        "ours": bandits.PrivateUCB(first=50, **PRIVATE),
        "TS": bandits.AdaPrivateTS(batch=100, **PRIVATE),
    }


def same(one, other):
    for name in one.regret:
        np.testing.assert_array_equal(one.regret[name], other.regret[name])
        np.testing.assert_array_equal(one.reward[name], other.reward[name])


def test_one_seed_gives_one_result_in_one_process_or_many(monkeypatch):
    pytest.importorskip("joblib")
    import joblib

    monkeypatch.setattr(simulation, "GROUP", 2)
    serial = bandits.simulate(algorithms(), WORLD, replicates=5, seed=3)
    again = bandits.simulate(algorithms(), WORLD, replicates=5, seed=3, n_jobs=2)
    same(serial, again)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        same(serial, bandits.simulate(algorithms(), WORLD, replicates=5, seed=3, n_jobs=None))
    other = bandits.simulate(algorithms(), WORLD, replicates=5, seed=4)
    assert not np.array_equal(serial.regret["ours"], other.regret["ours"])


def test_dask_gives_the_same_result(monkeypatch):
    distributed = pytest.importorskip("distributed")
    import joblib

    monkeypatch.setattr(simulation, "GROUP", 2)
    serial = bandits.simulate(algorithms(), WORLD, replicates=4, seed=3)
    with (
        distributed.LocalCluster(n_workers=2, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        same(serial, bandits.simulate(algorithms(), WORLD, replicates=4, seed=3, n_jobs=None))


def test_algorithms_get_the_same_environment():
    """The best reward of each round does not depend on who plays."""
    found = bandits.simulate(algorithms(), WORLD, replicates=3, seed=1)
    best = [found.regret[name] + found.reward[name] for name in found.regret]
    np.testing.assert_allclose(best[0], best[1], rtol=1e-12)


def test_a_regret_curve_does_not_depend_on_the_number_of_points():
    few = bandits.simulate(algorithms(), WORLD, replicates=2, seed=1, points=3)
    many = bandits.simulate(algorithms(), WORLD, replicates=2, seed=1, points=300)
    assert few.rounds.tolist() == [100, 200, 300]
    np.testing.assert_array_equal(few.regret["TS"], many.regret["TS"][:, few.rounds - 1])
    assert (np.diff(many.regret["TS"]) >= 0).all()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (bandits.AdaPrivateTS, {"frozen": True}),
        (bandits.AdaPrivateAmp, {"sampling_probability": 0.5}),
        (bandits.PrivateUCB, {}),
        (bandits.PrivateUCB, {"half_life": 40}),
        (bandits.CoreSetElimination, {}),
    ],
)
def test_a_batch_of_few_arms_is_learned_as_its_rounds(kind, options):
    with warnings.catch_warnings(action="ignore"):
        algorithm = kind(**PRIVATE, **options)
    rng = np.random.default_rng(0)
    arms = algorithm.prepared(rng.standard_normal((2, 6, 4)))
    seeds = [np.random.SeedSequence(i) for i in range(2)]
    rows, block = (algorithm.learner(seeds, np.random.default_rng(1)) for _ in range(2))
    for _ in range(2):
        chosen, rewards = rng.integers(0, 5, (2, 40)), rng.random((2, 40))
        rows.close(arms[[[0], [1]], chosen], rewards, chosen)
        block.close_block(arms, chosen, rewards, chosen)
    one, other = ((m.mean, m.root @ m.root.swapaxes(-1, -2)) for m in (rows.model, block.model))
    np.testing.assert_allclose(one[0], other[0], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(one[1], other[1], rtol=1e-10, atol=1e-12)


def test_frozen_and_exact_updates_cost_the_same_regret():
    exact, frozen = (bandits.AdaPrivateTS(batch=30, frozen=f, **PRIVATE) for f in (False, True))
    found = bandits.simulate({"a": exact, "b": frozen}, WORLD, replicates=96, seed=1, points=1)
    gap = found.regret["a"][:, 0] - found.regret["b"][:, 0]
    assert abs(gap.mean()) < 4 * gap.std() / math.sqrt(96)


def test_learning_lowers_regret_and_privacy_raises_it():
    plain = bandits.LinUCB(center=0.5, width=0.1, **COMMON)
    weak = bandits.PrivateUCB(first=50, **(PRIVATE | {"epsilon": 50.0}))
    strong = bandits.PrivateUCB(first=50, **(PRIVATE | {"epsilon": 0.01}))
    found = bandits.simulate(
        {"plain": plain, "weak": weak, "strong": strong}, WORLD, replicates=96, seed=1
    ).final_regret()
    assert found["plain"][0] < found["weak"][0] < found["strong"][0]


def test_replicates_of_a_determinant_schedule_end_their_batches_apart():
    algorithm = bandits.AdaPrivateUCB(growth=1.0, **PRIVATE)
    assert algorithm.batches < 60
    together = bandits.simulate({"a": algorithm}, WORLD, replicates=3, seed=1)
    assert together.regret["a"].shape == (3, 100)
    assert np.isfinite(together.regret["a"]).all()


def test_the_table_has_confidence_bands(tmp_path):
    found = bandits.simulate(algorithms(), WORLD, replicates=6, seed=1, points=4)
    table = found.table(level=0.9)
    last = found.regret["ours"][:, -1]
    row = 3
    assert table["algorithm"][row] == "ours"
    assert table["round"][row] == 300
    assert table["regret"][row] == pytest.approx(last.mean())
    assert table["standard_error"][row] == pytest.approx(last.std(ddof=1) / math.sqrt(6))
    # Student's t with 5 degrees of freedom: 2.015 at 90 %
    width = table["high"][row] - table["regret"][row]
    assert width == pytest.approx(2.015 * table["standard_error"][row], rel=1e-3)
    found.to_csv(tmp_path / "a.csv")
    with (tmp_path / "a.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 8
    assert float(rows[row]["regret"]) == pytest.approx(last.mean())


def test_the_table_as_parquet(tmp_path):
    polars = pytest.importorskip("polars")
    found = bandits.simulate(algorithms(), WORLD, replicates=2, seed=1, points=4)
    found.to_parquet(tmp_path / "a.parquet")
    assert polars.read_parquet(tmp_path / "a.parquet").shape == (8, 8)


def test_one_replicate_has_an_endless_band():
    found = bandits.simulate(algorithms(), WORLD, replicates=1, seed=1, points=2)
    assert found.table()["high"][0] == math.inf


def test_the_picture_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    found = bandits.simulate(algorithms(), WORLD, replicates=2, seed=1)
    (axes,) = found.plot().axes
    for line, name in zip(axes.lines, found.regret, strict=True):
        assert line.get_label() == name
        np.testing.assert_allclose(line.get_ydata(), found.regret[name].mean(0))
    found.plot().savefig(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_synthetic_environments_have_the_stated_distribution():
    seeds = [np.random.SeedSequence(i) for i in range(3)]
    for link in ("logistic", "linear"):
        for law in ("bernoulli", "gaussian", "exact"):
            world = bandits.Synthetic(link=link, reward_distribution=law, norm=1.0, users=7).world(
                seeds
            )
            block = world.block(500)
            assert block.candidates.shape == (3, 500, 5)
            assert (np.diff(np.sort(block.candidates)) > 0).all()
            assert ((block.means > 0) & (block.means < 1)).all()
            np.testing.assert_allclose(np.linalg.norm(world.features, axis=-1), 1)
            got = world.rewards(block.means[..., 0], block.draws)
            assert abs((got - block.means[..., 0]).mean()) < 0.05
            assert block.users.max() == 6
            assert world.block(3).users[0].tolist() == [500 % 7, 501 % 7, 502 % 7]


def test_rank_deficient_contexts_stay_in_a_subspace():
    environment = bandits.RankDeficient(dimension=6, rank=2, period=50)
    world = environment.world([np.random.SeedSequence(1)])
    block = world.block(150)
    for period in range(3):
        offered = block.candidates[0, 50 * period : 50 * (period + 1)]
        features = world.features[0, offered]
        assert np.linalg.matrix_rank(features.reshape(-1, 6)) == 2
        assert (features[..., 2 * period : 2 * period + 2] != 0).all()
    same = {"dimension": 6, "rounds": 300, "epsilon": 1.0, "delta": 1e-5}
    both = {"ours": bandits.PrivateUCB(first=20, **same), "TS": bandits.AdaPrivateTS(**same)}
    found = bandits.simulate(both, environment, replicates=2, seed=1)
    assert np.isfinite(found.regret["ours"]).all()


def ratings():
    rng = np.random.default_rng(1)
    items = rng.standard_normal((30, 4)) / 4
    user, item = np.divmod(rng.choice(600, 200, replace=False), 30)
    return items, user, item, rng.random(200)


def test_replay_offers_rated_items():
    items, user, item, rating = ratings()
    environment = bandits.Replay(items=items, user=user, item=item, rating=rating, candidates=4)
    block = environment.world([np.random.SeedSequence(1)] * 2).block(100)
    known = {(i, r) for i, r in zip(item.tolist(), rating.tolist(), strict=True)}
    for offered, means in zip(block.candidates[0], block.means[0], strict=True):
        assert len(set(offered.tolist())) == 4
        assert set(zip(offered.tolist(), means.tolist(), strict=True)) <= known
    found = bandits.simulate(algorithms(), environment, replicates=2, seed=1)
    assert np.isfinite(found.regret["ours"]).all()


def test_replay_keeps_rows_of_features_contiguous():
    items, user, item, rating = ratings()
    columns = np.asfortranarray(items)
    world = bandits.Replay(items=columns, user=user, item=item, rating=rating, candidates=4).world(
        [np.random.SeedSequence(1)]
    )
    assert world.features.flags.c_contiguous
    assert np.array_equal(world.features[0], items)


def test_bad_logs_are_refused():
    items, user, item, rating = ratings()
    good = {"items": items, "user": user, "item": item, "rating": rating}
    none = np.array([], dtype=int)
    for bad in (
        {"item": item[:5]},
        {"item": item + 30},
        {"candidates": 100},
        {"candidates": 0},
        {"items": items[0]},
        {"rating": np.full(200, math.nan)},
        {"item": item * 1.0},
        {"user": none, "item": none, "rating": none},
        {"rating": ["good"] * 200},
    ):
        with pytest.raises((ValueError, TypeError), match="Expected "):
            bandits.Replay(**(good | bad))
    lists = {name: array.tolist() for name, array in good.items()}
    assert bandits.Replay(**lists, candidates=2).dimension == 4


@pytest.mark.parametrize(
    "bad",
    [
        {"dimension": 0},
        {"arms": 3},
        {"link": "cubic"},
        {"reward_distribution": "cauchy"},
        {"users": 0},
        {"norm": -1.0},
        {"norm": 1e308},
        {"base": -1e4},
    ],
)
def test_invalid_environments_are_refused(bad):
    with pytest.raises(ValueError, match="Expected "):
        bandits.Synthetic(**bad)


def test_bad_simulations_are_refused():
    with pytest.raises(ValueError, match="algorithms"):
        bandits.simulate({}, WORLD, replicates=1, seed=1)
    with pytest.raises(ValueError, match="replicates"):
        bandits.simulate(algorithms(), WORLD, replicates=0, seed=1)
    with pytest.raises(ValueError, match="seed"):
        bandits.simulate(algorithms(), WORLD, replicates=1, seed=-1)
    with pytest.raises(ValueError, match="replicates"):
        bandits.simulate(algorithms(), WORLD, replicates=10**10, seed=1)
    with pytest.raises(TypeError, match="algorithms"):
        bandits.simulate({"ours": "PrivateUCB"}, WORLD, replicates=1, seed=1)
    mixed = algorithms() | {"long": bandits.LinUCB(dimension=4, rounds=301)}
    for wrong, world in ((mixed, WORLD), (algorithms(), bandits.Synthetic())):
        with pytest.raises(ValueError, match="dimension"):
            bandits.simulate(wrong, world, replicates=1, seed=1)


def test_the_command_prints_a_table_and_json(tmp_path):
    options = ["simulate", "--rounds", "200", "--replicates", "2", "--dimension", "4"]
    files = ["--table", str(tmp_path / "a.csv")]
    done = CliRunner().invoke(bandit, [*options, *files])
    assert done.exit_code == 0, done.output
    assert "PrivateUCB" in done.stdout
    assert (tmp_path / "a.csv").exists()
    answer = json.loads(CliRunner().invoke(bandit, [*options, "--json"]).stdout)
    by_name = {row["algorithm"]: row for row in answer["algorithms"]}
    assert by_name["LinUCB"]["epsilon"] == "inf"
    assert by_name["PrivateUCB"]["epsilon"] <= 1


def test_the_command_takes_an_environment_and_a_file_of_ratings(tmp_path):
    run = ["simulate", "-a", "LinUCB", "--rounds", "300", "--replicates", "2", "--dimension", "2"]

    def regret(*options):
        done = CliRunner().invoke(bandit, [*run, *options, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)["algorithms"][0]["regret"]

    own = [
        "--arms",
        "30",
        "--candidates",
        "4",
        "--link",
        "linear",
        "--reward-distribution",
        "gaussian",
    ]
    world = bandits.Synthetic(
        dimension=2, arms=30, candidates=4, link="linear", reward_distribution="gaussian"
    )
    algorithm = bandits.LinUCB(dimension=2, rounds=300)
    expected = bandits.simulate({"a": algorithm}, world, replicates=2, seed=0).final_regret()["a"][
        0
    ]
    assert regret(*own) == expected
    assert regret(*own, "--explore", "0.5") > 2 * expected
    rng = np.random.default_rng(0)
    path = tmp_path / "ratings.csv"
    rows = [f"{user},{rng.integers(1, 6)},{item}" for user in range(20) for item in range(8)]
    path.write_text("\n".join(["user,rating,item", *rows]))
    assert 0 < regret("--data", str(path)) < 300
    head = "user,item,rating\n"
    for text in ("", "user,item\n1,2\n", head, f"{head}1,2,x\n", f"{head}1,2\n", f"{head}1,2,3\n"):
        path.write_text(text)
        done = CliRunner().invoke(bandit, [*run, "--data", str(path)])
        assert done.exit_code == 2
        assert "a CSV file of numbers with the columns user, item and rating" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["-a", "Nobody"],
        ["--epsilon", "-1"],
        ["--dimension", "0"],
        ["--rounds", "0"],
        ["--seed", "-1"],
        ["--table", "nowhere/a.csv"],
        ["--table", "a.txt"],
        ["--plot", "nowhere/a.png"],
        ["--plot", "a.txt"],
    ],
)
def test_the_command_refuses_in_words(options):
    done = CliRunner().invoke(bandit, ["simulate", *options])
    assert done.exit_code == 2
    assert "Expected " in done.stderr
