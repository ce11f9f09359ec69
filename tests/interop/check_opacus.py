"""Our accountant in Opacus: training, calibration, checkpoints. `opacus.sh` runs this file."""

import math
import warnings

import numpy as np
import pytest
import torch
from opacus import PrivacyEngine
from opacus.accountants import PRVAccountant, RDPAccountant, create_accountant
from opacus.accountants.utils import get_noise_multiplier
from pages import run_page
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import privacy as dp
from privacy.interop.opacus import Accountant, from_history

DELTA = 1e-5
RECORDS, BATCH = 2000, 50
warnings.filterwarnings("ignore")


def setting():
    """Return a model, its optimizer and a loader of two classes that a plane separates."""
    torch.manual_seed(0)
    x = torch.randn(RECORDS, 10)
    y = (x[:, 0] - x[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return model, optimizer, DataLoader(TensorDataset(x, y), batch_size=BATCH)


def train(model, optimizer, loader, epochs=1):
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


def accuracy(model, loader):
    x, y = loader.dataset.tensors
    return (model(x).argmax(dim=1) == y).float().mean().item()


def test_an_epoch_of_training(tmp_path):
    engine = PrivacyEngine(accountant="dpcalib")
    model, optimizer, loader = setting()
    before = accuracy(model, loader)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=0.8, max_grad_norm=1
    )
    assert engine.get_epsilon(DELTA) == 0
    train(model, optimizer, loader)
    found = engine.get_epsilon(DELTA)
    print(f"\nepsilon={found:.4f} at delta={DELTA}, accuracy {accuracy(model, loader):.3f}")
    assert accuracy(model, loader) > max(before, 0.75)

    step = dp.PoissonSampled(dp.Gaussian(0.8), sampling_probability=BATCH / RECORDS)
    assert found == dp.account(dp.repeat(step, RECORDS // BATCH)).epsilon(DELTA)
    for kind in (RDPAccountant, PRVAccountant):
        theirs = kind()
        theirs.history = list(engine.accountant.history)
        print(f"{kind.__name__}: {theirs.get_epsilon(DELTA):.4f}")
        assert found <= theirs.get_epsilon(DELTA)

    path = tmp_path / "checkpoint.pt"
    engine.save_checkpoint(path=path, module=model, optimizer=optimizer)
    resumed = PrivacyEngine(accountant="dpcalib")
    resumed.load_checkpoint(path=path, module=model, optimizer=optimizer)
    assert resumed.get_epsilon(DELTA) == found


def test_the_page():
    run_page("opacus.md", setting=setting, train=train)


def test_training_to_a_target():
    engine = PrivacyEngine(accountant="dpcalib")
    model, optimizer, loader = setting()
    model, optimizer, loader = engine.make_private_with_epsilon(
        module=model,
        optimizer=optimizer,
        data_loader=loader,
        target_epsilon=2.0,
        target_delta=DELTA,
        epochs=2,
        max_grad_norm=1,
    )
    train(model, optimizer, loader, epochs=2)
    assert 1.98 < engine.get_epsilon(DELTA) <= 2


def test_noise_is_calibrated():
    run = {"target_epsilon": 1.0, "target_delta": DELTA, "sample_rate": 0.01, "steps": 1000}
    ours, theirs = (get_noise_multiplier(**run, accountant=name) for name in ("dpcalib", "prv"))
    exact = dp.noise_multiplier(epsilon=1.0, delta=DELTA, sampling_probability=0.01, steps=1000)
    assert exact <= ours <= 1.02 * exact
    assert ours <= theirs


def test_many_steps_are_one_entry():
    one_by_one, at_once = Accountant(), Accountant()
    for _ in range(10_000):
        one_by_one.step(noise_multiplier=1.0, sample_rate=0.01)
    at_once.history = [(1.0, 0.01, 10_000)]
    assert one_by_one.history == at_once.history
    assert len(one_by_one) == 1
    assert one_by_one.get_epsilon(DELTA) == at_once.get_epsilon(DELTA)


def test_noise_and_rate_may_change():
    accountant = create_accountant("dpcalib")
    for noise, rate in [(1.0, 0.01)] * 3 + [(2.0, 0.01)] * 2 + [(1.0, 0.02), (1.0, 0.01)]:
        accountant.step(noise_multiplier=noise, sample_rate=rate)
    assert accountant.history == [(1.0, 0.01, 3), (2.0, 0.01, 2), (1.0, 0.02, 1), (1.0, 0.01, 1)]
    theirs = RDPAccountant()
    theirs.history = list(accountant.history)
    assert accountant.get_epsilon(DELTA) <= theirs.get_epsilon(DELTA)
    asked = accountant.get_epsilon(DELTA, notion="rdp")
    assert asked == pytest.approx(theirs.get_epsilon(DELTA), rel=0.02)
    assert accountant.get_epsilon(DELTA, relation="REPLACE_ONE") > accountant.get_epsilon(DELTA)
    accountant.step(noise_multiplier=0.0, sample_rate=0.01)
    assert accountant.get_epsilon(DELTA) == math.inf


def test_a_noise_that_is_rounded_to_float16_is_another_noise():
    """numpy.float16(0.7) == 0.7, but it is larger."""
    accountant = Accountant()
    for noise in (np.float16(0.7), 0.7):
        accountant.step(noise_multiplier=noise, sample_rate=0.01)
    assert accountant.history == [(float(np.float16(0.7)), 0.01, 1), (0.7, 0.01, 1)]


@pytest.mark.parametrize("name", ["dpcalib", "rdp", "prv", "gdp"])
def test_a_saved_history_is_read(name):
    saved = create_accountant(name)
    for _ in range(5):
        saved.step(noise_multiplier=1.0, sample_rate=0.1)
    accountant = Accountant()
    accountant.load_state_dict(saved.state_dict())
    assert accountant.history == [(1.0, 0.1, 5)]
    step = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.1)
    assert from_history(accountant.history) == dp.repeat(step, 5)


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        {"history": []},
        {"mechanism": "rdp"},
        {"mechanism": "x", "history": []},
        {"mechanism": "rdp", "history": [(1.0, 0.1)]},
        {"mechanism": "rdp", "history": [(1.0, 1.1, 3)]},
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(state):
    accountant = Accountant()
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises((ValueError, TypeError), match="Expected"):
        accountant.load_state_dict(state)
    assert accountant.history == [(1.0, 0.1, 1)]
