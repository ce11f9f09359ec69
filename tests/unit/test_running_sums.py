"""Running sums: releases, sensitivity, and recovery from crashes."""

import contextlib
import copy
import functools
import json
import math
import os
import pickle
import stat
import threading
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock, Timeout

import privacy as dp
from privacy.numerics import storage
from privacy.release import noise as safe_noise
from privacy.running_sums import lattice as lattice_rows
from privacy.running_sums import state_file

F, P = dp.Factorization, dp.Participation


def running(factorization=None, **changes):
    settings = {"noise_multiplier": 1.5, "shape": 2, "simulation": True, "rng": 7} | changes
    return dp.RunningSum(factorization or F.column_normalized(5), **settings)


def released(factorization=None, **changes):
    return running(factorization, simulation=False, rng=None, **changes)


def inputs(count, shape=(2,), seed=0):
    return np.random.default_rng(seed).integers(-64, 64, (count, *shape)) / 16


class Scripted:
    """A sampler whose n-th draw is a fixed function of n."""

    def __init__(self, start=0):
        self.calls = start

    def __call__(self, sigma, size):
        self.calls += 1
        draw = np.random.default_rng(self.calls)
        return np.rint(sigma * draw.standard_normal(size)).astype(np.int64)


@pytest.fixture
def scripted(monkeypatch):
    sampler = Scripted()
    monkeypatch.setattr(safe_noise, "rounded_gaussian", sampler)
    return sampler


FACTORIZATIONS = {
    "square root": F.square_root(8),
    "column-normalized": F.column_normalized(8),
    "binary tree": F.binary_tree(8),
    "Honaker": F.honaker_tree(8),
    "banded": F.banded(8, band=2),
    "buffered": F.buffered(8, buffers=5),
    "optimized": F.optimized(8),
}
each = pytest.mark.parametrize("factorization", FACTORIZATIONS.values(), ids=FACTORIZATIONS)


@each
def test_the_noise_has_the_covariance_that_is_stated(factorization):
    replicates = 20_000
    sums = running(factorization, shape=(replicates,), clip_norm=2.0)
    x = inputs(11, (replicates,))  # into the second block
    errors = np.array([sums.step(values) for values in x]) - x.cumsum(axis=0)
    stated = sums.noise_covariance(11)
    assert np.linalg.eigvalsh(stated).min() > 0
    # an entry of an empirical covariance has variance (s_ij^2 + s_ii s_jj) / n
    diagonal = stated.diagonal()
    spread = np.sqrt((stated**2 + np.multiply.outer(diagonal, diagonal)) / replicates)
    assert (np.abs(errors @ errors.T / replicates - stated) / spread).max() < 5
    for release in range(1, 12):
        assert sums.noise_variance(release) == pytest.approx(diagonal[release - 1], rel=1e-10)
    first = sums.sigma**2 * factorization.decoder() @ factorization.decoder().T
    assert np.allclose(stated[:8, :8], first, rtol=1e-10)
    assert np.allclose(sums.noise_covariance(4), stated[:4, :4], rtol=1e-10)


@each
def test_released_noise_has_the_covariance_that_is_stated(factorization, monkeypatch):
    """Integers all the way, with bytes from a seed in place of the operating system's."""
    monkeypatch.setattr(os, "urandom", np.random.default_rng(4).bytes)
    replicates = 4_000
    sums = released(factorization, shape=(replicates,))
    x = sums.quantize(inputs(8, (replicates,)))
    errors = np.array([sums.step(values) for values in x]) - x.cumsum(axis=0)
    stated = sums.noise_covariance(8)
    diagonal = stated.diagonal()
    spread = np.sqrt((stated**2 + np.multiply.outer(diagonal, diagonal)) / replicates)
    assert (np.abs(errors @ errors.T / replicates - stated) / spread).max() < 5


@each
def test_a_release_without_noise_is_the_sum(factorization, monkeypatch):
    monkeypatch.setattr(
        safe_noise, "rounded_gaussian", lambda _, size: np.zeros(size, dtype=np.int64)
    )
    sums = released(factorization, shape=3)
    x = sums.quantize(np.random.default_rng(1).normal(size=(20, 3)))
    errors = np.array([sums.step(values) for values in x]) - x.cumsum(axis=0)
    # half a step of rounding a row, through three blocks
    assert np.abs(errors).max() <= 20 * sums.step_width


@pytest.mark.parametrize("factorization", [F.banded(60, band=4), F.buffered(60, buffers=4)])
def test_a_short_memory_gives_what_the_whole_matrix_gives(factorization):
    short, whole = running(factorization), running(F.from_encoder(factorization.encoder()))
    for values in inputs(60):
        assert np.allclose(short.step(values), whole.step(values), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("limit", [1, 4096])
@pytest.mark.parametrize("name", ["square root", "column-normalized", "small entries"])
def test_the_stated_variance_is_that_of_the_rounded_matrix(name, limit, monkeypatch):
    factorization = {
        "square root": F.square_root(90),
        "column-normalized": F.column_normalized(90),
        "small entries": F.from_encoder(F.column_normalized(90).encoder() / 300),
    }[name]
    sums = released(factorization)
    used = np.rint(factorization.encoder() * 2**20) / 2**20
    for k in range(90):
        assert np.array_equal(sums._lattice._row(k), used[k, : k + 1])
    decoder = np.linalg.solve(used.T, np.tri(90).T).T
    expected = sums.sigma**2 * np.square(decoder).sum(axis=1)
    monkeypatch.setattr(lattice_rows, "DENSE_LIMIT", limit)
    found = [sums.noise_variance(k) for k in (1, 2, 50, 90, 91, 230)]
    last = expected[-1]
    wanted = [*expected[[0, 1, 49, 89]], last + expected[0], 2 * last + expected[49]]
    assert found == pytest.approx(wanted, rel=1e-12)
    assert sums.noise_covariance(90).diagonal() == pytest.approx(expected, rel=1e-12)
    exact = sums.sigma**2 * np.square(factorization.noise_std())
    assert abs(exact / expected - 1).max() > (1e-4 if name == "small entries" else 1e-9)


def test_noise_is_scaled_to_clip_norm_and_sensitivity():
    factorization = F.column_normalized(5)
    sums = running(factorization, clip_norm=3.0, noise_multiplier=2.0)
    assert sums.mechanism == dp.Gaussian(2.0)
    assert sums.sigma == pytest.approx(6 * factorization.sensitivity(), rel=1e-14)
    assert sums.sigma / (3.0 * factorization.sensitivity()) >= 2.0
    window = P.consecutive(3)
    several = running(factorization, participation=window)
    assert several.sigma == pytest.approx(1.5 * factorization.sensitivity(window), rel=1e-14)


@pytest.mark.parametrize("relation", list(dp.NeighboringRelation))
@pytest.mark.parametrize("distance", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("step", [2.0**-3, 2.0**-20, None])
def test_noise_is_increased_for_lattice_rounding(relation, distance, step):
    """The noise covers the moved contribution and one step more a coordinate, in every relation."""
    shape, factorization = 4, F.square_root(5)
    common = dict(shape=shape, step=step, relation=relation, replace_distance=distance)
    moved = distance if relation == "REPLACE_ONE" else 1.0
    for noise in ("rounded", "discrete"):
        sums = released(factorization, noise=noise, **common)
        width = sums.step_width
        reach = moved * factorization.sensitivity() + width * math.sqrt(5 * shape)
        mechanism = sums.mechanism
        if noise == "rounded":
            assert mechanism == dp.Gaussian(1.5, distance)
            assert moved / mechanism.noise_multiplier >= reach / sums.sigma
        else:
            assert mechanism.relation == relation
            assert mechanism.rho >= 0.5 * (reach / sums.sigma) ** 2
            assert mechanism.rho <= 0.5 * (moved / 1.5) ** 2 * (1 + 1e-9) or distance < 1
    if step is None:
        assert 2.0**30 <= sums.sigma / width <= 2.0**31.1


def test_discrete_noise_claims_zcdp_alone():
    sums = released(noise="discrete")
    curve = dp.account(sums.mechanism)
    assert isinstance(sums.mechanism, dp.ZeroConcentratedDP)
    assert curve.epsilon(1e-5) > dp.account(dp.Gaussian(1.5)).epsilon(1e-5)
    assert sums.mechanism.rho == pytest.approx(1 / (2 * 1.5**2), rel=1e-8)


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e11, 1e13, 1e300])
def test_rows_on_the_lattice_are_exact(scale):
    """Against fractions, up to inputs that are clamped."""
    factorization = F.column_normalized(12)
    lattice = lattice_rows.Lattice(factorization, 2.0**20, 1.0, "rounded", 3)
    draw = np.random.default_rng(3)
    rows = [[Fraction(round(c * 2**20), 2**20) for c in factorization.row(k)] for k in range(12)]
    seen = []
    for k in range(12):
        values = np.trunc(scale * draw.uniform(-1, 1, 3))
        limit = 2**42
        seen.append([min(max(int(v), -limit), limit) for v in values])
        exact = [sum(c * x[i] for c, x in zip(rows[k], seen, strict=True)) for i in range(3)]
        expected = [math.floor(value + Fraction(1, 2)) for value in exact]
        assert lattice.rounded_row(k, values).tolist() == expected


@pytest.mark.parametrize("name", ["square root", "column-normalized", "optimized"])
def test_rounding_moves_no_further_than_is_charged(name):
    factorization = FACTORIZATIONS[name]
    draw = np.random.default_rng(11)
    sums = released(factorization, shape=3, step=0.25, clip_norm=2.0)
    largest = sums.clip_norm * sums.sensitivity + 0.25 * math.sqrt(8 * 3)
    for _ in range(300):
        x = np.trunc(draw.normal(size=(8, 3)) * 40) / 4
        direction = draw.normal(size=3)
        other = x.copy()
        other[draw.integers(8)] += sums.quantize(2.0 * direction / np.linalg.norm(direction))
        rows = []
        for values in (x, other):
            lattice = lattice_rows.Lattice(factorization, sums.sigma, 0.25, "rounded", 3)
            rows.append(0.25 * np.array([lattice.rounded_row(k, v) for k, v in enumerate(values)]))
        assert np.linalg.norm(rows[0] - rows[1]) <= largest


def test_entries_that_are_rounded_up_are_charged():
    """C is used as rounded to 2^-20, which can be longer than C."""
    matrix = np.tril(np.full((6, 6), 2.0**-20 * (2**19 + 0.6)))
    used = np.rint(matrix * 2.0**20) / 2.0**20
    for participation in (P.once(), P.consecutive(3), P.lifetime_cap("l2")):
        exact = F.from_encoder(matrix).sensitivity(participation)
        longer = F.from_encoder(used).sensitivity(participation)
        charged = released(F.from_encoder(matrix), participation=participation).sensitivity
        assert exact < longer * (1 - 1e-8)
        assert longer <= charged


@pytest.mark.parametrize("distance", [0.5, 1.0, 1.9])
@pytest.mark.parametrize("participation", [P.once(), P.consecutive(2)])
def test_records_that_rounding_moves_apart_are_charged(distance, participation):
    """Two records at a distance below 2: rounding both toward zero may increase the distance."""
    sums = released(
        F.column_normalized(4),
        shape=6,
        step=0.25,
        replace_distance=distance,
        participation=participation,
    )
    draw = np.random.default_rng(9)
    first = draw.normal(size=(20_000, 6))
    first *= 0.9 * draw.uniform(size=(20_000, 1)) / np.linalg.norm(first, axis=1, keepdims=True)
    way = draw.normal(size=(20_000, 6))
    second = first + distance * way / np.linalg.norm(way, axis=1, keepdims=True)
    apart = np.linalg.norm(sums.quantize(first) - sums.quantize(second), axis=1).max()
    assert apart > distance * 1.05
    reach = apart * sums.sensitivity + 0.25 * math.sqrt(4 * 6)
    assert reach / sums.sigma <= distance / sums.noise_multiplier


def test_a_running_sum_that_releases_data_is_not_copied():
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            call(released())
    twin = copy.deepcopy(running())
    assert np.array_equal(twin.step(np.ones(2)), running().step(np.ones(2)))


def test_a_release_depends_on_the_noisy_integers_alone(monkeypatch):
    """Two data sets with noise that makes the integers equal: equal releases, to the last bit."""
    x, other = inputs(8), inputs(8, seed=1) * 1000
    factorization = F.column_normalized(8)
    rows = {}
    for name, values in (("x", x), ("other", other)):
        lattice = lattice_rows.Lattice(factorization, 2.0**10, 2.0**-10, "rounded", 2)
        rows[name] = [lattice.rounded_row(k, row) for k, row in enumerate(values)]
    targets = [row + 12345 * (k + 1) for k, row in enumerate(rows["x"])]
    outputs = []
    for name, values in (("x", x), ("other", other)):
        draws = iter([target - row for target, row in zip(targets, rows[name], strict=True)])
        monkeypatch.setattr(safe_noise, "rounded_gaussian", lambda *_, draws=draws: next(draws))
        sums = released(factorization, step=2.0**-10)
        outputs.append([sums.step(row).tobytes() for row in values])
    assert outputs[0] == outputs[1]


def test_quantizing_keeps_the_norm_bound():
    sums = released(shape=20)
    draw = np.random.default_rng(2)
    records = draw.normal(size=(1000, 20))
    records /= np.linalg.norm(records, axis=1, keepdims=True) * (1 + 1e-15)
    moved = sums.quantize(records)
    assert (np.abs(moved) <= np.abs(records)).all()
    assert (moved * records >= 0).all()
    assert np.abs(moved - records).max() < sums.step_width
    total = moved.sum(axis=0)  # exact: any order of summation gives it
    assert np.array_equal(total, moved[::-1].cumsum(axis=0)[-1])
    sums.step(total)


@pytest.mark.parametrize("name", FACTORIZATIONS)
@pytest.mark.parametrize("simulation", [True, False])
def test_a_restored_sum_continues_with_the_same_noise_stream(name, simulation, tmp_path, scripted):
    factorization, path = FACTORIZATIONS[name], tmp_path / "sums.npz"
    make = running if simulation else released
    x = inputs(19)
    whole = make(factorization)
    expected = [whole.step(values) for values in x]
    scripted.calls = 0
    make(factorization, path=path)
    for k, values in enumerate(x):
        sums = dp.RunningSum.restore(path)
        assert sums.releases == k
        assert np.array_equal(sums.prefix, expected[k - 1] if k else np.zeros(2))
        assert np.array_equal(sums.step(values), expected[k])
    assert sums.mechanism == whole.mechanism
    assert sums.sigma == whole.sigma
    assert np.array_equal(sums.noise_covariance(10), whole.noise_covariance(10))


def test_a_fresh_block_starts_on_the_last_prefix():
    sums = running(F.column_normalized(3), noise_multiplier=1.0, shape=200_000)
    x = np.zeros(200_000)
    prefixes = np.array([sums.step(x) for _ in range(9)])
    later = prefixes[3:] - prefixes[2]
    # the second block's noise is independent of the first's, and has the same law
    assert abs(np.corrcoef(later[0], prefixes[2])[0, 1]) < 5 / math.sqrt(200_000)
    assert later[:3].std(axis=1) == pytest.approx(prefixes[:3].std(axis=1), rel=0.01)
    assert sums.mechanism == dp.Gaussian(1.0)  # each record is in one block


@pytest.mark.parametrize(
    "participation",
    [
        P.consecutive(2),
        P.separated(2, separation=3),
        P.explicit([[1, 1, 0, 0, 0]]),
        P.lifetime_cap("l2"),
        P.lifetime_cap("l1"),
    ],
)
def test_several_participations_cannot_start_a_new_block(participation, tmp_path):
    sums = running(participation=participation, path=tmp_path / "sums.npz")
    for values in inputs(5):
        sums.step(values)
    with pytest.raises(ValueError, match=r"^Expected releases=5 to be < 5 with "):
        sums.step(np.zeros(2))
    again = dp.RunningSum.restore(tmp_path / "sums.npz")
    assert again.participation == participation
    assert (again.releases, again.sensitivity) == (5, sums.sensitivity)


class Crash(BaseException):
    pass


@pytest.mark.parametrize("simulation", [True, False])
def test_noise_is_on_disk_before_a_release_is_returned(simulation, tmp_path, monkeypatch):
    path = tmp_path / "sums.npz"
    sums = (running if simulation else released)(path=path)
    sums.step(np.ones(2))
    write, seen = storage.write, []

    def crash_after_writing(*arguments):
        write(*arguments)
        seen.append(arguments[2]["prefix"].copy())
        raise Crash

    monkeypatch.setattr(storage, "write", crash_after_writing)
    with pytest.raises(Crash):
        sums.step(np.ones(2))
    with pytest.raises(RuntimeError, match="restore"):  # not a second noise for one release
        sums.step(np.ones(2))
    monkeypatch.undo()
    again = dp.RunningSum.restore(path)
    assert again.releases == 2
    assert np.array_equal(again.prefix, seen[0])


@pytest.mark.parametrize("simulation", [True, False])
def test_a_half_finished_step_is_not_repeated(simulation, tmp_path, monkeypatch):
    """Its values are in the history already: repeating the step would count them twice."""
    sums = (running if simulation else released)()
    sums.step(np.ones(2))
    push = type(sums._memory).push

    def crash_after(memory, vector):
        push(memory, vector)
        raise Crash

    monkeypatch.setattr(type(sums._memory), "push", crash_after)
    with pytest.raises(Crash):
        sums.step(np.ones(2))
    monkeypatch.undo()
    save = functools.partial(sums.save, tmp_path / "a")
    for use in (lambda: sums.step(np.ones(2)), save, lambda: sums.prefix):
        with pytest.raises(RuntimeError, match="interrupted"):
            use()


def test_a_forked_process_cannot_release(monkeypatch):
    sums, simulated = released(), running()
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    with pytest.raises(RuntimeError, match="fork"):
        sums.step(np.ones(2))
    simulated.step(np.ones(2))
    monkeypatch.undo()
    sums.step(np.ones(2))


class Arriving:
    """Values that signal when they are read."""

    def __init__(self, arrived):
        self._arrived = arrived

    def __array__(self, dtype=None, copy=None):
        self._arrived.set()
        return np.ones(2)


@pytest.mark.parametrize("simulation", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_concurrent_releases_are_serialized(monkeypatch, tmp_path, simulation, keep):
    sums = (running if simulation else released)(path=tmp_path / "sums.npz" if keep else None)
    step, arrived, inside, found = dp.RunningSum._step, threading.Event(), [], []
    other = threading.Thread(target=lambda: found.append(sums.step(Arriving(arrived))))

    def meet(sums, values):
        assert not inside
        inside.append(True)
        if not arrived.is_set():
            other.start()
            arrived.wait()  # the other thread now wants its release as well
        release = step(sums, values)
        inside.clear()
        return release

    monkeypatch.setattr(dp.RunningSum, "_step", meet)
    found.append(sums.step(np.ones(2)))
    other.join()
    assert len(found) == sums.releases == 2
    assert not np.array_equal(*found)
    assert np.array_equal(sums.prefix, found[-1])


def test_a_signal_handler_cannot_release_during_a_release(monkeypatch):
    sums = released()
    draw = safe_noise.rounded_gaussian

    def interrupted(*arguments):
        with pytest.raises(RuntimeError, match="interrupted"):
            sums.step(np.ones(2))
        return draw(*arguments)

    monkeypatch.setattr(safe_noise, "rounded_gaussian", interrupted)
    sums._start_block()  # takes the sampler that is there
    sums.step(np.ones(2))
    assert sums.releases == 1
    sums.step(np.ones(2))


def test_a_fork_during_a_release_does_not_deadlock(monkeypatch):
    sums = running()
    holder = threading.Thread(target=sums._lock.__enter__)  # a thread that a fork does not have
    holder.start()
    holder.join()
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    sums.step(np.ones(2))
    assert sums.releases == 1


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_symbolic_link_is_resolved(tmp_path, link):
    (tmp_path / "real").mkdir()
    path, linked = tmp_path / "real" / "sums.npz", tmp_path / "sums.npz"
    if link == "folder":
        (tmp_path / "other").symlink_to(tmp_path / "real")
        linked = tmp_path / "other" / "sums.npz"
    else:
        linked.symlink_to(path)
    first = released(path=linked)
    second = dp.RunningSum.restore(path)
    third = dp.RunningSum.restore(linked)
    third.step(np.zeros(2))
    third.save(linked)
    third.step(np.zeros(2))
    for behind in (first, second):
        with pytest.raises(RuntimeError, match="written by another object"):
            behind.step(np.zeros(2))
    assert linked.is_symlink() == (link == "file")
    assert dp.RunningSum.restore(path).releases == dp.RunningSum.restore(linked).releases == 2


def test_a_file_with_two_hard_links_is_refused(tmp_path):
    path, other = tmp_path / "sums.npz", tmp_path / "other.npz"
    sums = released(path=path)
    other.hardlink_to(path)
    for name in (path, other):
        with pytest.raises(ValueError, match=r"^Expected number of hard links to .*=2 to be 1\. "):
            dp.RunningSum.restore(name)
    for use in (lambda: sums.step(np.zeros(2)), lambda: sums.save(tmp_path / "third.npz")):
        with pytest.raises(RuntimeError, match=r"Remove the other hard links\.$"):
            use()
    assert sums.releases == 0
    other.unlink()
    sums.step(np.zeros(2))  # nothing was drawn, and nothing is lost


def files(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != ".dpcalib.lock")


def test_temporary_files_of_a_killed_process_are_removed(tmp_path, monkeypatch):
    path, left = tmp_path / "sums.npz", tmp_path / ".sums.npz.partial"
    sums = released(path=path)
    sums.step(np.ones(2))
    left.write_bytes(b"raw sums")
    sums.step(np.ones(2))
    assert not left.exists()
    left.write_bytes(b"raw sums")
    dp.RunningSum.restore(path)
    assert not left.exists()
    path.unlink()
    left.write_bytes(b"raw sums")  # killed before the first state was there
    released(path=path)
    assert files(tmp_path) == ["sums.npz"]


@pytest.fixture
def short_parts(monkeypatch):
    monkeypatch.setattr(state_file, "_PART", 6)  # three rows of two numbers


def names(folder):
    return [name[:14] for name in files(folder)]


@pytest.mark.parametrize("simulation", [True, False])
def test_a_long_history_is_written_once(tmp_path, scripted, short_parts, simulation):
    make, path = running if simulation else released, tmp_path / "sums.npz"
    x = inputs(19)
    whole = make(F.column_normalized(8))
    expected = [whole.step(values) for values in x]
    scripted.calls = 0
    make(F.column_normalized(8), path=path)
    written = {}
    for k, values in enumerate(x):
        sums = dp.RunningSum.restore(path)
        assert np.array_equal(sums.step(values), expected[k])
        parts = {part: storage.stamp(part) for part in tmp_path.glob("sums.npz.part-*")}
        assert len(parts) in ((k % 8) // 3, len(written))  # an old block's until the next restart
        assert all(written[part] == now for part, now in parts.items() if part in written)
        written = parts
        assert len(storage.read(path)[1]["memory"]) <= 3
    place = tmp_path / "copy.npz" if simulation else path
    for last in (lambda: sums, lambda: dp.RunningSum.restore(path)):
        last().save(place)
        assert np.array_equal(dp.RunningSum.restore(place).prefix, expected[-1])


def test_a_file_does_not_grow_with_each_release(tmp_path):
    path = tmp_path / "sums.npz"
    sums = released(F.square_root(200), shape=1000, path=path)
    sizes = []
    for _ in range(80):
        sums.step(np.zeros(1000))
        sizes.append(path.stat().st_size)
    assert max(sizes[40:]) < max(sizes[:40]) + 1000  # a digest for 32 releases
    assert max(sizes) < 34 * 1000 * 24
    assert dp.RunningSum.restore(path).releases == 80


def test_parts_of_an_earlier_block_are_removed(tmp_path, short_parts):
    path = tmp_path / "sums.npz"
    sums = released(F.column_normalized(8), path=path)
    for k in range(20):
        sums.step(np.ones(2))
        assert len(files(tmp_path)) == 1 + (k % 8) // 3
    path.unlink()
    released(path=path)
    assert names(tmp_path) == ["sums.npz"]


@pytest.mark.parametrize("rest", [1, 2, 3, 4])
def test_a_kill_between_a_part_and_its_file_loses_nothing(tmp_path, monkeypatch, short_parts, rest):
    path = tmp_path / "sums.npz"
    sums = released(F.column_normalized(8), path=path)
    x = inputs(8)
    for values in x[:3]:
        sums.step(values)
    last, replace, left = sums.prefix, Path.replace, [rest]

    def killed(*arguments):
        left[0] -= 1
        if not left[0]:
            raise Crash
        return replace(*arguments)

    monkeypatch.setattr(Path, "replace", killed)
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)
    published = []
    with contextlib.suppress(Crash):
        published.append(sums.step(x[3]))
    monkeypatch.undo()
    monkeypatch.setattr(state_file, "_PART", 6)
    again = dp.RunningSum.restore(path)
    assert again.releases == (4 if published else 3)
    assert np.array_equal(again.prefix, (published or [last])[-1])
    for values in x[again.releases :]:
        again.step(values)
    assert names(tmp_path) == ["sums.npz", "sums.npz.part-", "sums.npz.part-"]
    units = dp.RunningSum.restore(path)._lattice
    raw = units._high.state() * 2.0**21 + units._low.state()
    assert np.array_equal(raw * again.step_width, x)


@pytest.mark.parametrize("damage", ["missing", "other", "flipped"])
def test_a_changed_part_is_refused(tmp_path, short_parts, damage):
    path = tmp_path / "sums.npz"
    sums = released(F.column_normalized(8), path=path)
    for values in inputs(7):
        sums.step(values)
    first, second = tmp_path.glob("sums.npz.part-*")
    if damage == "missing":
        first.unlink()
    elif damage == "other":
        first.write_bytes(second.read_bytes())
    else:
        first.write_bytes(first.read_bytes().replace(b"high", b"higj"))
    with pytest.raises(ValueError, match="to be an undamaged running sum"):
        dp.RunningSum.restore(path)


def test_a_zip_of_a_later_version_is_damaged(tmp_path):
    path = tmp_path / "sums.npz"
    released(path=path)
    whole = path.read_bytes()
    start = whole.rindex(b"PK\x01\x02")  # of the directory's last entry
    for place in (6, 10):  # the version that is needed, the compression
        path.write_bytes(whole[: start + place] + b"\x63\x00" + whole[start + place + 2 :])
        with pytest.raises(ValueError, match="to be an undamaged"):
            dp.RunningSum.restore(path)


def test_a_file_is_flushed_before_it_takes_its_place_and_its_name_after(tmp_path, monkeypatch):
    order, fsync, replace = [], os.fsync, Path.replace

    def flush(handle):
        order.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    def rename(path, target):
        order.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(Path, "replace", rename)
    running(path=tmp_path / "sums.npz")
    assert order == ["file", "rename", "folder"]


def test_a_failed_write_leaves_the_last_state(tmp_path, monkeypatch):
    path = tmp_path / "sums.npz"
    sums = running(path=path)
    first = sums.step(np.ones(2))

    def no_space(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", no_space)
    with pytest.raises(OSError, match="no space"):
        sums.step(np.ones(2))
    monkeypatch.undo()
    assert files(tmp_path) == ["sums.npz"]
    again = dp.RunningSum.restore(path)
    assert (again.releases, again.prefix.tolist()) == (1, first.tolist())


@pytest.mark.parametrize("simulation", [True, False])
def test_an_interrupted_release_counts_no_input_twice(tmp_path, monkeypatch, simulation):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(safe_noise, "rounded_gaussian", stop)
    path = tmp_path / "sums.npz"
    sums = running(simulation=simulation, rng=7 if simulation else None, path=path)
    monkeypatch.setattr(type(sums), "_correlated", stop)
    with pytest.raises(KeyboardInterrupt):
        sums.step(np.ones(2))
    for again in (lambda: sums.step(np.ones(2)), lambda: sums.save(path)):
        with pytest.raises(RuntimeError, match=r"interrupted .*RunningSum.restore"):
            again()
    monkeypatch.undo()
    restored = dp.RunningSum.restore(path)
    assert restored.releases == 0
    restored.step(np.ones(2))


@pytest.mark.parametrize("first", ["old", "new"])
def test_two_objects_cannot_continue_from_one_file(tmp_path, monkeypatch, first):
    monkeypatch.chdir(tmp_path)
    old = released(path="sums.npz")
    old.step(np.zeros(2))
    new = dp.RunningSum.restore("sums.npz")
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")  # the file stays where it was
    ahead, behind = (old, new) if first == "old" else (new, old)
    with pytest.raises(ValueError, match=r"copy.npz' to be a new file, or that of this sum"):
        ahead.save("copy.npz")
    ahead.step(np.zeros(2))
    ahead.save(tmp_path / "sums.npz")
    for go_on in (lambda: behind.step(np.zeros(2)), lambda: behind.save("other.npz")):
        with pytest.raises(RuntimeError, match="written by another object"):
            go_on()
    ahead.step(np.zeros(2))
    assert dp.RunningSum.restore(tmp_path / "sums.npz").releases == 3
    (tmp_path / "sums.npz").unlink()
    with pytest.raises(RuntimeError, match="was moved or"):
        ahead.step(np.zeros(2))


def test_a_saved_sum_and_its_file_do_not_both_go_on(tmp_path):
    first = released()
    first.save(tmp_path / "sums.npz")
    first.step(np.zeros(2))
    second = dp.RunningSum.restore(tmp_path / "sums.npz")
    assert np.array_equal(second.prefix, first.prefix)
    second.step(np.zeros(2))
    with pytest.raises(RuntimeError, match="written by another object"):
        first.step(np.zeros(2))
    with pytest.raises(ValueError, match="to be a new file"):
        released().save(tmp_path / "sums.npz")


def test_a_save_that_failed_can_name_another_file(tmp_path):
    sums = released()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        sums.save(tmp_path / "file" / "sums.npz")
    sums.save(tmp_path / "sums.npz")
    last = sums.step(np.zeros(2))
    assert np.array_equal(dp.RunningSum.restore(tmp_path / "sums.npz").prefix, last)


def test_files_are_versioned_private_and_checked(tmp_path):
    path = tmp_path / "sums.npz"
    sums = released(path=path)
    sums.step(np.ones(2))
    assert path.stat().st_mode & 0o077 == 0
    with pytest.raises(ValueError, match=r"^Expected path=.* to be a new file"):
        released(path=path)
    with np.load(path, allow_pickle=False) as file:
        members = dict(file)
    header = json.loads(str(members.pop("header")))
    assert header["version"] == 2
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="undamaged"):
        dp.RunningSum.restore(path)
    kept = sums.prefix.tobytes()
    assert whole.count(kept) == 1
    path.write_bytes(whole.replace(kept, kept[::-1]))
    with pytest.raises(ValueError, match="undamaged"):
        dp.RunningSum.restore(path)
    np.savez(path, header=np.array("[1]"), **members)
    with pytest.raises(ValueError, match="undamaged"):
        dp.RunningSum.restore(path)
    np.savez(path, header=np.array(json.dumps(header | {"version": 1})), **members)
    with pytest.raises(ValueError, match="format version 2, not 1"):
        dp.RunningSum.restore(path)
    storage.write(path, {"kind": "other"}, {})
    with pytest.raises(ValueError, match="of a running sum"):
        dp.RunningSum.restore(path)


def kept(tmp_path, **changes):
    """Return a file of five releases, its header and its arrays."""
    path = tmp_path / "sums.npz"
    make = running if changes.pop("simulation", False) else released
    sums = make(changes.pop("factorization", F.column_normalized(8)), path=path, **changes)
    for values in inputs(5):
        sums.step(values)
    return path, *storage.read(path)


def test_a_changed_field_is_one_clear_error(tmp_path):
    """A valid zip in which one member is replaced, missing, or added."""
    path, *_ = kept(tmp_path)
    with np.load(path, allow_pickle=False) as file:
        members = dict(file)
    header = json.loads(str(members["header"]))
    tampered = [{k: v for k, v in members.items() if k != name} for name in members]
    tampered += [members | {"more": np.zeros(2)}]
    for name in set(members) - {"header", "digest"}:
        for other in (members[name] + 1.5, members[name].astype(np.float32), members[name][:1]):
            tampered += [members | {name: other}]
        tampered += [members | {name: np.array(["a", "b"])}, members | {name: np.array(1.0)}]
    for field, value in header.items():
        for other in (None, 7, "other", [value]):
            if other != value:
                text = json.dumps(header | {field: other})
                tampered += [members | {"header": np.array(text)}]
    for field in ("noise_multiplier", "clip_norm", "replace_distance", "relation"):
        settings = header["settings"] | {field: header["settings"][field] * 2}
        tampered += [members | {"header": np.array(json.dumps(header | {"settings": settings}))}]
    for other in tampered:
        np.savez(path, **other)
        with pytest.raises(ValueError, match=r"^Expected path=.*(undamaged|format version 2)"):
            dp.RunningSum.restore(path)


FORGED = {
    "K less": dict(K=4),
    "K more": dict(K=9),
    "K of no kind": dict(K="8"),
    "another kind of factorization": dict(factorization="dense/1"),
    "other records": dict(participation={"kind": "consecutive/1", "count": 2}),
    "no records": dict(participation={"kind": "all"}),
    "shape": dict(shape=[3]),
    "a shape that cannot be held": dict(shape=[10**15]),
    "an earlier release": dict(releases=4),
    "a later release": dict(releases=6),
    "a release before the first": dict(releases=-3),
    "half a release": dict(releases=5.0),
    "a coarser lattice": dict(step=2.0**-3),
    "settings missing": dict(settings={}),
    "one more field": dict(more=1),
    "computed": dict(computed={}),
    "a generator": dict(generator={"bit_generator": "seed"}),
}


@pytest.mark.parametrize("changes", FORGED.values(), ids=FORGED)
def test_inconsistent_parts_are_refused(tmp_path, changes):
    """Also if the digest was recomputed after the change."""
    path, header, arrays = kept(tmp_path)
    storage.write(path, header | changes, arrays)
    with pytest.raises(ValueError, match=r"^Expected path=.* undamaged running sum\. Restore"):
        dp.RunningSum.restore(path)


def test_a_kind_that_is_not_registered_is_named(tmp_path):
    path, header, arrays = kept(tmp_path)
    storage.write(path, header | {"factorization": "nobody.decaying/1"}, arrays)
    with pytest.raises(ValueError, match=r"not 'nobody.decaying/1'\. Import the module"):
        dp.RunningSum.restore(path)


OLD_FILES = {
    "toeplitz-once": (2.000001917885351, [-4.063402530001683, 2.730735996647068]),
    "toeplitz-separated": (3.8991223153545485, [0.25016057933680713, 1.630718314787373]),
    "dense-consecutive": (6.3245591561075365, [13.71953848606346, 2.9317057987961714]),
    "buffered-explicit": (4.087780430969598, [-1.2946104652986574, -4.972177716269105]),
    "dense-lifetime-cap": (3.464103533023108, [-1.103947987779975, 8.28696108981967]),
}
"""Standard deviation and third release of files that version 0.1 wrote."""


@pytest.mark.parametrize("name", OLD_FILES)
def test_files_of_version_0_1_are_read(tmp_path, name):
    sigma, last = OLD_FILES[name]
    path = tmp_path / f"{name}.npz"
    path.write_bytes((Path(__file__).parent / "state_files" / path.name).read_bytes())
    assert '"kind": "_' in str(np.load(path)["header"])
    assert '"factorisation": "_' in str(np.load(path)["header"])  # old spelling
    sums = dp.RunningSum.restore(path)
    assert (sums.releases, sums.prefix.tolist()) == (3, last)
    assert sums.sigma == pytest.approx(sigma, rel=1e-12)
    released = sums.step([0.0, 0.0])
    header, _ = storage.read(path)
    kinds = header["factorization"], header["participation"]["kind"]
    assert kinds == tuple(f"{kind}/1" for kind in name.split("-", 1))
    assert "factorisation" not in header  # old spelling
    assert header["name"] == sums.factorization.name
    assert header["name"] not in ("column-normalised", "optimised")  # old spelling
    assert np.array_equal(dp.RunningSum.restore(path).prefix, released)


@pytest.mark.parametrize(
    "setting",
    [
        dict(noise_multiplier=3.0),
        dict(clip_norm=0.5),
        dict(noise="other"),
        dict(simulation=True),
        dict(relation="other"),
        dict(replace_distance=math.nan),
        dict(path="elsewhere.npz"),
    ],
    ids=str,
)
def test_settings_that_change_the_guarantee_are_refused(tmp_path, setting, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, header, arrays = kept(tmp_path)
    storage.write(path, header | {"settings": header["settings"] | setting}, arrays)
    with pytest.raises(ValueError, match=r"^Expected path=.* undamaged running sum"):
        dp.RunningSum.restore(path)
    assert files(tmp_path) == ["sums.npz"]


@pytest.mark.parametrize("name", ["prefix", "memory", "high", "low", "C_scale", "C_coefficients"])
def test_arrays_of_wrong_shape_or_type_are_refused(tmp_path, name):
    path, header, arrays = kept(tmp_path)
    whole = arrays.pop(name)
    wrong = [
        whole[:-1],
        whole.astype(np.float32),
        whole * np.nan,
        whole.astype(str),
        whole[..., None],
    ]
    for changed in ({}, *({name: array} for array in wrong)):
        storage.write(path, header, arrays | changed)
        with pytest.raises(ValueError, match=r"^Expected path=.* undamaged running sum"):
            dp.RunningSum.restore(path)


def test_buffers_that_are_not_those_of_the_coefficients_are_refused(tmp_path):
    path, header, arrays = kept(tmp_path, factorization=F.buffered(8, buffers=4), simulation=True)
    for name in ("C_weights", "C_decays", "memory"):
        for changed in (arrays[name] * 0.9, arrays[name][:1]):
            if name == "memory" and len(changed) > 1:
                continue  # any values of noise already drawn are valid
            storage.write(path, header, arrays | {name: changed})
            with pytest.raises(ValueError, match=r"^Expected path="):
                dp.RunningSum.restore(path)


def test_several_participations_in_a_second_block_are_refused(tmp_path):
    path, header, arrays = kept(
        tmp_path, factorization=F.square_root(5), participation=P.consecutive(2)
    )
    storage.write(path, header | {"releases": 10}, arrays)
    with pytest.raises(ValueError, match="no new block can start"):
        dp.RunningSum.restore(path)


@pytest.mark.parametrize("simulation", [True, False])
def test_one_of_two_concurrent_writers_is_refused(tmp_path, monkeypatch, simulation):
    """Both check before either writes."""
    path = tmp_path / "sums.npz"
    first = (running if simulation else released)(path=path)
    second = dp.RunningSum.restore(path)
    contents, published = state_file.contents, []

    def first_writes_meanwhile(sums):
        if sums is second:
            monkeypatch.undo()
            published.append(first.step(np.ones(2)))
        return contents(sums)

    monkeypatch.setattr(state_file, "contents", first_writes_meanwhile)
    with pytest.raises(RuntimeError, match="written by another object"):
        second.step(np.ones(2))
    again = dp.RunningSum.restore(path)
    assert again.releases == 1
    assert np.array_equal(again.prefix, published[0])


def test_one_of_two_new_sums_with_one_file_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "sums.npz"
    monkeypatch.setattr(Path, "exists", lambda _: False)  # both look before either writes
    first = released(path=path)
    with pytest.raises(RuntimeError, match="written by another object"):
        released(path=path)
    first.step(np.zeros(2))


def test_stamps_are_unique(tmp_path, monkeypatch):
    """Inode numbers are reused, and the clock is constant."""
    path, seen = tmp_path / "a.npz", set()
    real = os.fsync

    def stands_still(handle):
        real(handle)
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            os.utime(handle, ns=(10**18, 10**18))

    monkeypatch.setattr(os, "fsync", stands_still)
    for _ in range(10):
        seen.add(storage.write(path, {}, {}))
    assert len({time for _, time in seen}) == 10


def test_the_folder_lock_serializes_writers(tmp_path):
    other = FileLock(tmp_path / ".dpcalib.lock")
    with storage.alone_in(tmp_path), pytest.raises(Timeout):
        other.acquire(blocking=False)
    with other:
        assert other.is_locked


def test_a_refused_input_changes_nothing():
    sums, same = running(), running()
    for bad in ([1.0], [[1.0, 1.0]], [math.nan, 0.0], [math.inf, 0.0]):
        with pytest.raises(ValueError, match=r"^Expected values"):
            sums.step(bad)
    assert sums.releases == 0
    assert np.array_equal(sums.step([1.0, 2.0]), same.step([1.0, 2.0]))
    lattice = released()
    with pytest.raises(ValueError, match=r"whole multiples of .* quantize"):
        lattice.step([1 / 3, 0.0])
    assert np.all(np.isfinite(lattice.step([1e308, -1e308])))  # clamped, and still private
    assert np.all(np.isfinite(lattice.step(lattice.quantize([1 / 3, 5e-324]))))


@pytest.mark.parametrize("secret", [["secret", 1.0], [[1.0], [2.0, 3.0]], [1j, 2.0]])
def test_errors_do_not_contain_private_values(secret):
    sums = released()
    for take in (sums.step, sums.quantize):
        with pytest.raises(TypeError, match=r"^Expected \w+='...' to be numbers"):
            take(secret)


def test_huge_contributions_are_already_on_the_lattice():
    sums = released()
    assert sums.quantize([1.7e308, -1.7e308]).tolist() == [1.7e308, -1.7e308]
    for wild in (math.nan, math.inf):
        with pytest.raises(ValueError, match="finite"):
            sums.step(sums.quantize([wild, 0.0]))


def test_returned_arrays_do_not_share_memory_with_the_state():
    sums, values = running(), np.ones(2)
    first = sums.step(values)
    kept = first.copy()
    values[:] = first[:] = 1e9
    assert np.array_equal(sums.prefix, kept)
    sums.prefix[:] = 0
    assert np.array_equal(sums.prefix, kept)


def test_release_noise_rejects_seeds_and_differs():
    with pytest.raises(ValueError, match="Expected rng=7"):
        running(simulation=False)
    first, second = released(), released()
    assert not np.array_equal(first.step(np.zeros(2)), second.step(np.zeros(2)))
    assert np.array_equal(running().step(np.zeros(2)), running().step(np.zeros(2)))


def test_a_generator_of_another_kind_survives_a_restart(tmp_path):
    def fresh():
        return running(rng=np.random.Generator(np.random.MT19937(3)))

    expected, sums = fresh(), fresh()
    sums.step(np.ones(2))
    sums.save(tmp_path / "sums.npz")
    again = dp.RunningSum.restore(tmp_path / "sums.npz")
    expected.step(np.ones(2))
    assert np.array_equal(again.step(np.ones(2)), expected.step(np.ones(2)))


@pytest.mark.parametrize(
    "changes",
    [
        dict(noise_multiplier=0),
        dict(noise_multiplier=math.nan),
        dict(clip_norm=0),
        dict(clip_norm=1e-200),
        dict(clip_norm=math.inf),
        dict(shape=0),
        dict(shape=(2, 0)),
        dict(noise="laplace"),
        dict(replace_distance=3),
        dict(relation="other"),
        dict(step=0.3),
        dict(step=4.0),
        dict(step=2.0**-60),
        dict(step=math.nan),
        dict(participation=P.explicit([[1.0, 1.0]])),
    ],
    ids=str,
)
def test_bad_settings_are_refused(changes):
    with pytest.raises(ValueError, match=r"^Expected "):
        released(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        dict(shape="2"),
        dict(shape=None),
        dict(participation=2),
        dict(participation=0),
        dict(simulation="no"),
    ],
)
def test_settings_of_another_type_are_refused(changes):
    with pytest.raises(TypeError, match=r"^Expected "):
        running(**(dict(simulation=False, rng=None) | changes))


def test_an_encoder_too_small_or_too_large_for_the_lattice_is_refused():
    for scale in (1e-6, 1e6):
        with pytest.raises(ValueError, match=r"^Expected factorization="):
            released(F.from_encoder(scale * np.tri(4)))
