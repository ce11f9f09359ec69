"""Our accountant in jax-privacy: its training accountants, calibration and one training step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax_privacy import accounting
from jax_privacy.experimental import execution_plan
from pages import run_page

import privacy as dp
from privacy.interop.dp_accounting import DpAccountant
from privacy.interop.jax_privacy import AccountantConfig

RUN = {"num_samples": 10_000, "batch_size": 100, "delta": 1e-5}


def epsilons(kind, steps=100, **params):
    """Return our epsilon and that of their privacy loss distribution."""
    params = accounting.DpParams(**(RUN | params))
    configs = AccountantConfig(), accounting.PldAccountantConfig()
    return [kind(dp_accountant_config=one).compute_epsilon(steps, params) for one in configs]


def test_dp_sgd():
    ours, theirs = epsilons(accounting.DpsgdTrainingAccountant, noise_multipliers=1.0)
    step = dp.PoissonSampled(dp.Gaussian(1.0), sampling_probability=0.01)
    assert ours == dp.account(dp.repeat(step, 100)).epsilon(1e-5)
    assert 0.999 * theirs < ours <= theirs


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        (accounting.DpsgdTrainingAccountant, {"noise_multipliers": [(0, 1.0), (50, 2.0)]}),
        (accounting.DpsgdTrainingAccountant, {"noise_multipliers": 1.0, "cycle_length": 4}),
        (accounting.SingleReleaseTrainingAccountant, {"noise_multipliers": 2.0}),
    ],
)
def test_other_runs_are_never_above_theirs(kind, params):
    ours, theirs = epsilons(kind, **params)
    assert 0.99 * theirs < ours <= theirs


def test_truncated_batches():
    ours, theirs = epsilons(
        accounting.DpsgdTrainingAccountant, 20, noise_multipliers=1.0, truncated_batch_size=120
    )
    assert 0.5 * theirs < ours <= theirs


def test_users_with_several_examples():
    # ours is an upper bound on a grid of losses
    ours, theirs = epsilons(
        accounting.DpsgdTrainingUserLevelAccountant, 20, noise_multipliers=2.0, examples_per_user=2
    )
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_noise_is_calibrated():
    accountant = accounting.DpsgdTrainingAccountant(dp_accountant_config=AccountantConfig())
    found = accounting.calibrate_noise_multiplier(
        target_epsilon=1.0,
        accountant=accountant,
        batch_sizes=100,
        num_updates=100,
        num_samples=10_000,
        target_delta=1e-5,
        tol=1e-4,
    )
    exact = dp.noise_multiplier(epsilon=1, delta=1e-5, sampling_probability=0.01, steps=100)
    assert exact <= found <= exact * 1.001


def test_a_training_step():
    config = execution_plan.BandMFExecutionPlanConfig(
        iterations=4,
        strategy=np.array([1.0]),
        epsilon=1.0,
        delta=1e-5,
        sampling_prob=0.5,
        accountant=DpAccountant("REPLACE_SPECIAL"),
        noise_seed=0,
    )
    plan = config.plan
    spent = DpAccountant("REPLACE_SPECIAL").compose(plan.dp_event).get_epsilon(1e-5)
    assert 0.999 < spent <= 1

    x = jax.random.normal(jax.random.key(0), (32, 3))
    y = x @ jnp.array([1.0, -1.0, 0.5])
    weights = jnp.zeros(3)
    gradient = plan.clipped_grad(lambda w, x, y: jnp.mean((x @ w - y) ** 2), batch_argnums=(1, 2))
    noise = plan.noise_addition_transform
    optimizer = optax.sgd(0.1)
    private, _ = noise.update(gradient(weights, x, y), noise.init(weights))
    updates, _ = optimizer.update(private, optimizer.init(weights))
    stepped = optax.apply_updates(weights, updates)
    print(f"epsilon={spent:.4f} at delta=1e-05, weights {stepped}")
    assert jnp.all(jnp.isfinite(stepped))
    assert jnp.any(stepped != 0)


def test_the_page():
    run_page("jax-privacy.md")
