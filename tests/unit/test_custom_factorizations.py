"""A user-defined factorization: it supports everything that the package's own support."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import privacy as dp
from privacy.audit.claims import scored
from privacy.running_sums.factorizations import KINDS

K = 6


@dataclass(frozen=True, eq=False)
class Decaying(dp.Factorization):
    """C_kj = decay^(k - j), times a weight for each row."""

    kind: ClassVar[str] = "stranger.decaying/1"

    decay: float
    weights: np.ndarray

    def row(self, k):
        return self.weights[k] * self.decay ** np.arange(k, -1, -1)


@pytest.fixture(autouse=True)
def registered():
    assert dp.register_factorization(Decaying) is Decaying
    yield
    KINDS.pop("stranger.decaying/1", None)


def decaying():
    return Decaying("decaying", K, 0.5, np.linspace(1, 1.5, K))


def running(**changes):
    settings = dict(noise_multiplier=2.0, shape=2) | changes
    return dp.RunningSum(decaying(), **settings)


@pytest.mark.parametrize(
    "participation",
    [
        dp.Participation.once(),
        dp.Participation.consecutive(3),
        dp.Participation.separated(2, separation=2),
        dp.Participation.explicit([[1.0, 0.0, 0.0, 0.5, 0.0, 1.0]]),
        dp.Participation.lifetime_cap("l1"),
        dp.Participation.lifetime_cap("l2"),
    ],
    ids=lambda participation: participation.kind,
)
def test_a_custom_factorization_has_the_sensitivity_of_its_matrix(participation):
    written_out = dp.Factorization.from_encoder(decaying().encoder())
    found = decaying().sensitivity(participation)
    assert found == pytest.approx(written_out.sensitivity(participation), rel=1e-14)
    assert found >= written_out.sensitivity(participation) * (1 - 1e-15)


def test_a_custom_factorization_needs_no_matrix_for_many_releases():
    many = Decaying("decaying", 5000, 0.5, np.ones(5000))
    assert np.sqrt(4 / 3) <= many.sensitivity() <= np.sqrt(4 / 3) * (1 + 3e-12)
    assert 2 - 1e-6 <= many.operator_norm() <= 2 * (1 + 3e-12)


def test_the_noise_of_a_custom_factorization():
    matrix = decaying().encoder()
    decoder = np.tri(K) @ np.linalg.inv(matrix)
    for simulation in (True, False):
        sums = running(simulation=simulation)
        assert sums.sigma >= 2 * np.linalg.norm(matrix, axis=0).max()
        for release in (1, 3, K, K + 2):
            blocks, k = divmod(release - 1, K)
            rows = [*[K - 1] * blocks, k]
            truth = sums.sigma**2 * sum(np.square(decoder[row]).sum() for row in rows)
            assert sums.noise_variance(release) == pytest.approx(truth, rel=1e-5)
        covariance = sums.noise_covariance(K)
        assert np.allclose(covariance, sums.sigma**2 * decoder @ decoder.T, rtol=1e-5)


@pytest.mark.parametrize("simulation", [True, False])
def test_a_custom_factorization_is_saved_and_restored(tmp_path, simulation):
    path = tmp_path / "sums.npz"
    sums = running(path=path, simulation=simulation)
    assert dp.account(sums.mechanism) is not None
    for k in range(K + 2):  # into a second block
        released = sums.step([1.0, float(k)])
        again = dp.RunningSum.restore(path)
        assert (again.releases, again.prefix.tolist()) == (k + 1, released.tolist())
        assert (again.sigma, again.sensitivity) == (sums.sigma, sums.sensitivity)
        assert np.array_equal(again.factorization.encoder(), decaying().encoder())
        sums = again
    assert isinstance(sums.factorization, Decaying)
    assert type(sums.factorization.decay) is float


def test_a_custom_factorization_is_accounted():
    epsilon = dp.account(running().mechanism).epsilon(1e-6)
    assert epsilon == dp.account(dp.Gaussian(2.0)).epsilon(1e-6)
    discrete = running(noise="discrete").mechanism
    assert dp.account(discrete).epsilon(1e-6) > epsilon


def test_a_custom_factorization_is_audited():
    """The transcript, projected on the best direction, falsifies a claim of less noise."""
    matrix = decaying().encoder()
    worst = int(np.linalg.norm(matrix, axis=0).argmax())

    def release(data, rng):
        sums = dp.RunningSum(decaying(), noise_multiplier=2.0, shape=1, simulation=True, rng=rng)
        prefixes = [sums.step([value])[0] for value in data]
        encoded = matrix @ np.diff(prefixes, prepend=0.0)
        return float(matrix[:, worst] @ encoded)

    pair = (np.zeros(K), np.eye(K)[worst])
    moved = float(matrix[:, worst] @ matrix[:, worst])
    score = dp.audit.gaussian_score(0.0, moved, 2.0 * moved)
    how = {"runs": 2000, "score": score, "seed": 0, "progress": lambda _: None}
    scores = scored(release, pair, **how)
    assert not dp.audit.falsify(dp.Gaussian(2.0), *scores, significance=1e-6).falsified
    assert dp.audit.falsify(dp.Gaussian(6.0), *scores, significance=1e-6).falsified


def test_a_kind_that_is_not_registered_is_not_saved(tmp_path):
    @dataclass(frozen=True, eq=False)
    class Private(Decaying):
        """Inherits the name of another class."""

    other = Private("private", K, 0.5, np.ones(K))
    settings = dict(noise_multiplier=1.0, shape=1)
    with pytest.raises(ValueError, match="Decorate the class with register_factorization"):
        dp.RunningSum(other, path=tmp_path / "sums.npz", **settings)
    assert not any(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"^Expected kind.kind=None to be a lower-case name"):
        dp.register_factorization(Private)


@pytest.mark.parametrize("decay", [1, "half", np.float32(0.5)])
def test_a_field_that_no_file_would_give_back_is_refused_before_the_first_release(tmp_path, decay):
    other = Decaying("decaying", K, decay, np.ones(K))
    with pytest.raises(TypeError, match=r"^Expected decay=.* to be float64\. Convert it"):
        other.arrays()
    if decay == 1:
        with pytest.raises(TypeError, match="to be float64"):
            dp.RunningSum(other, noise_multiplier=1.0, shape=1, path=tmp_path / "sums.npz")
        assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["", "_Decaying", "decaying", "Decaying/1", "decaying/0", 7])
def test_a_name_on_disk_is_public_and_versioned(name):
    wrong = type("Wrong", (Decaying,), {"kind": name})
    with pytest.raises(ValueError, match=r"^Expected kind.kind=.* to be a lower-case name and"):
        dp.register_factorization(wrong)


@pytest.mark.parametrize("name", ["toeplitz/1", "stranger.decaying/1"])
def test_a_name_belongs_to_one_class(name):
    other = type("Other", (Decaying,), {"kind": name})
    with pytest.raises(ValueError, match="to be an unused name"):
        dp.register_factorization(other)
    with pytest.raises(TypeError, match="a subclass of Factorization"):
        dp.register_factorization(decaying())


def test_a_redefined_class_replaces_itself(tmp_path):
    sums = running(path=tmp_path / "sums.npz")
    again = type("Decaying", (dp.Factorization,), dict(vars(Decaying)))
    assert KINDS[dp.register_factorization(again).kind] is again
    released = sums.step([0.0, 1.0])  # of the class before
    restored = dp.RunningSum.restore(tmp_path / "sums.npz")
    assert type(restored.factorization) is again
    assert np.array_equal(restored.prefix, released)
