"""Off-policy estimates against those of obp, where it is installed, on the Open Bandit sample."""

import os
from pathlib import Path

import numpy as np
import pytest

import bandits

obp = pytest.importorskip("obp.ope")
ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DPCALIB_TEST_DATA", ROOT.parent / "shared" / "data"))


@pytest.mark.skipif(not SHARED.is_dir(), reason="no data in DPCALIB_TEST_DATA")
@pytest.mark.parametrize("campaign", ["all", "men", "women"])
@pytest.mark.parametrize("policy", ["random", "bts"])
def test_the_same_values(policy, campaign):
    log = bandits.load_open_bandit(policy, campaign, folder=SHARED)
    rng = np.random.default_rng(0)
    n, places = len(log.reward), int(log.position.max()) + 1
    rounds = np.arange(n)
    target = rng.dirichlet(np.ones(log.actions), size=(n, places)).transpose(0, 2, 1)
    model = rng.random((n, log.actions, places))
    chosen = rng.integers(0, log.actions, n)
    greedy = np.zeros_like(target)
    greedy[rounds, chosen] = 1
    theirs = {
        "reward": log.reward,
        "action": log.action,
        "position": log.position,
        "pscore": log.propensity,
        "action_dist": target,
    }
    at = rounds, log.action, log.position
    ours = log.reward, log.propensity, target[at]
    baseline = (target * model).sum(1)[rounds, log.position]
    pairs = [
        (
            obp.ReplayMethod().estimate_policy_value(**theirs | {"action_dist": greedy}),
            bandits.replay(log.action, chosen, log.reward),
        ),
        (
            obp.InverseProbabilityWeighting().estimate_policy_value(**theirs),
            bandits.ips(*ours),
        ),
        (
            obp.SelfNormalizedInverseProbabilityWeighting().estimate_policy_value(**theirs),
            bandits.snips(*ours),
        ),
        (
            obp.DoublyRobust().estimate_policy_value(
                **theirs, estimated_rewards_by_reg_model=model
            ),
            bandits.doubly_robust(*ours, model[at], baseline),
        ),
    ]
    for their, our in pairs:
        assert our.value == pytest.approx(their, abs=1e-9)
