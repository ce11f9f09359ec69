"""User-defined algorithms: a subclass of `PrivateUCB`, and two built from components.

They support everything that the package's own algorithms support.
"""

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

try:  # the copy of cloudpickle that joblib uses
    from joblib.externals import cloudpickle
except ImportError:
    import cloudpickle

import bandits
import privacy as dp
from bandits.algorithms.registry import ALGORITHMS
from bandits.learning.exploration import Greedy, Thompson, UpperConfidence
from bandits.learning.linear_model import Ridge
from bandits.learning.schedules import Fixed


@dataclass(frozen=True, kw_only=True)
class Shrinking(bandits.PrivateUCB):
    """PrivateUCB that no longer explores after some rounds."""

    until: int = 30

    @property
    def exploration(self):
        return FirstWide(self.width, self.until)


@dataclass(frozen=True)
class FirstWide:
    """Upper confidence bounds in the first rounds, the best estimate later."""

    width: float
    until: int
    normals = False
    uniforms = 0

    def pick(self, candidates, mean, root, noise, batch, rounds):
        call = (candidates, mean, root, noise, batch, rounds)
        wide, best = UpperConfidence(self.width).pick(*call), Greedy().pick(*call)
        return np.where(np.asarray(rounds) <= self.until, wide, best)


@dataclass(frozen=True, kw_only=True)
class Weekly(bandits.Private):
    """Thompson sampling from ridge regression, one release of noisy sums a week."""

    week: int = 7
    scale: float = 0.3
    noise: str = "square_root"

    @property
    def exploration(self):
        return Thompson(self.scale)

    @property
    def schedule(self):
        return Fixed(self.week)

    def model(self, lead):
        return Ridge(self.features, lead, ridge=self.ridge, prior_mean=self.prior)


@dataclass(frozen=True, kw_only=True)
class BestGuess(bandits.NonPrivate):
    """The best estimate of ridge regression."""

    @property
    def exploration(self):
        return Greedy()


PRIVATE = {"dimension": 3, "rounds": 60, "epsilon": 1.0, "delta": 1e-5}
ALL = {
    "Shrinking": Shrinking(first=10, width=0.5, **PRIVATE),
    "Weekly": Weekly(week=9, bias=0.25, **PRIVATE),
    "BestGuess": BestGuess(dimension=3, rounds=60),
}
EACH = pytest.mark.parametrize("algorithm", ALL.values(), ids=ALL.keys())


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr("bandits.algorithms.registry.ALGORITHMS", ALGORITHMS.copy())
    for algorithm in ALL.values():
        bandits.register_algorithm(type(algorithm))


def play(agent, first, last):
    for i in range(first, last):
        x = np.random.default_rng(i).standard_normal((4, 3))
        agent.update(agent.select(x), (i * 7 % 10) / 10)


@EACH
def test_a_custom_algorithm_states_its_guarantee(algorithm):
    agent = algorithm.start()
    found = agent.guarantee(1e-5)
    assert found == algorithm.guarantee(1e-5)
    if isinstance(algorithm, bandits.Private):
        noise = dp.Gaussian(algorithm.noise_multiplier, algorithm.replace_distance)
        truth = dp.account(noise, relation=dp.NeighboringRelation.REPLACE_ONE).epsilon(1e-5)
        assert 0.999 < truth <= found.epsilon <= 1
        assert agent._learner.channel.sums.noise_multiplier == algorithm.noise_multiplier
    else:
        assert found.epsilon == math.inf


@EACH
def test_a_custom_algorithm_plays(algorithm):
    agent = algorithm.start()
    play(agent, 0, 60)
    agent.finish(release=True)
    assert agent.releases == algorithm.schedule.batches(60, algorithm.features, 1.0)
    assert np.isfinite(agent.estimate).all()


@EACH
def test_a_custom_algorithm_in_json(algorithm):
    form = json.loads(json.dumps(algorithm.to_json()))
    assert form["type"] == type(algorithm).__name__
    assert bandits.algorithm_from_json(form) == algorithm


@EACH
@pytest.mark.parametrize("stop", [0, 17, 33])
def test_a_restored_custom_algorithm_continues_bit_for_bit(algorithm, stop, tmp_path):
    whole, halved = (algorithm.start(simulation=True, seed=5) for _ in range(2))
    play(whole, 0, 60)
    play(halved, 0, stop)
    halved.save(tmp_path / "state")
    again = bandits.Algorithm.restore(tmp_path / "state")
    assert type(again.algorithm) is type(algorithm)
    assert again.algorithm == algorithm
    play(again, stop, 60)
    np.testing.assert_array_equal(again.estimate, whole.estimate)


@EACH
def test_a_saved_custom_algorithm_keeps_its_guarantee(algorithm, tmp_path):
    agent = algorithm.start()
    agent.save(tmp_path / "state")
    play(agent, 0, 33)
    if not isinstance(algorithm, bandits.Private):  # without a running sum, no release saves
        agent.save(tmp_path / "state")
    again = bandits.Agent.restore(tmp_path / "state")
    assert again.guarantee(1e-5) == agent.guarantee(1e-5)
    assert again.releases == agent.releases
    play(again, again.rounds, 60)
    with pytest.raises(RuntimeError, match="Another agent was restored"):
        agent.save(tmp_path / "state")


def test_custom_algorithms_are_simulated_in_one_process_and_in_many():
    # workers cannot import a test file by name, so its classes are pickled by value
    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)
    try:
        found = [
            bandits.simulate(
                ALL, bandits.Synthetic(dimension=3), replicates=3, seed=1, n_jobs=jobs
            ).regret
            for jobs in (1, 2)
        ]
    finally:
        cloudpickle.unregister_pickle_by_value(here)
    for name in ALL:
        np.testing.assert_array_equal(found[0][name], found[1][name])


def test_an_agent_starts_in_a_process_that_imported_no_public_name():
    code = (
        "from bandits.algorithms.named import PrivateUCB\n"
        "agent = PrivateUCB(dimension=2, rounds=9, epsilon=1, delta=1e-5, first=3).start()\n"
        "agent.update(agent.select([[1, 0], [0, 1]]), 1)\n"
    )
    root = {**os.environ, "PYTHONPATH": str(Path(bandits.__file__).parents[1])}
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=root)


def test_a_custom_algorithm_that_is_not_registered_is_not_saved(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Unknown(bandits.PrivateUCB):
        pass

    agent = Unknown(**PRIVATE).start()
    with pytest.raises(ValueError, match=r"Call bandits\.register_algorithm\(Unknown\)"):
        agent.save(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    bandits.register_algorithm(Unknown)
    agent.save(tmp_path / "state")
    assert type(bandits.Algorithm.restore(tmp_path / "state").algorithm) is Unknown


def test_a_custom_algorithm_with_the_name_of_another_is_neither_registered_nor_saved(tmp_path):
    def define():
        @dataclass(frozen=True, kw_only=True)
        class PrivateUCB(bandits.PrivateUCB):
            pass

        return PrivateUCB

    twin = define()
    with pytest.raises(ValueError, match="Expected kind='PrivateUCB' to be an unused class name"):
        bandits.register_algorithm(twin)
    # a file with its name would be restored as the package's own class
    with pytest.raises(ValueError, match="Expected algorithm='PrivateUCB' to be registered"):
        twin(**PRIVATE).start().save(tmp_path / "state")


def test_a_redefined_class_replaces_the_old_one():
    def define():
        @dataclass(frozen=True, kw_only=True)
        class Again(bandits.LinUCB):
            pass

        return bandits.register_algorithm(Again)

    define()
    newer = define()
    assert (
        type(bandits.algorithm_from_json({"type": "Again", "dimension": 1, "rounds": 1})) is newer
    )


def test_only_algorithm_classes_are_registered():
    class Plain(bandits.LinUCB):
        more: float = 1.0  # not a field without @dataclass, so it would not be saved

    @dataclass(frozen=True, kw_only=True)
    class Half(bandits.Private):
        pass

    for kind, word in (
        (dict, "a subclass of Algorithm"),
        (ALL["Weekly"], "a subclass of Algorithm"),
        (Plain, "a frozen dataclass"),
        (Half, "Define exploration, model, schedule"),
    ):
        with pytest.raises(TypeError, match=word):
            bandits.register_algorithm(kind)


def test_an_unregistered_name_is_refused_with_the_remedy():
    with pytest.raises(ValueError, match="import the module that registers it"):
        bandits.algorithm_from_json({"type": "Nowhere", "dimension": 3, "rounds": 60})
