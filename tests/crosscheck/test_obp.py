"""Off-policy estimates against what obp 0.4.1 returns, on the Open Bandit sample and a made-up log.

Its values are on record, since it does not install beside today's packages; where it is installed,
the record itself is compared with it.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import bandits

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("DPCALIB_TEST_DATA", ROOT.parent / "shared" / "data"))
RECORD = json.loads((ROOT / "tests" / "reference" / "obp.json").read_text())
SAMPLES = sorted(set(RECORD) - {"made-up"})


def log_of(name):
    """Return the Open Bandit log of a name such as random/men, or one that needs no data."""
    if name != "made-up":
        if not SHARED.is_dir():
            pytest.skip("no data in DPCALIB_TEST_DATA")
        return bandits.load_open_bandit(*name.split("/"), folder=SHARED)
    rounds = np.arange(500)
    action, position = (rounds**2 + rounds // 3) % 6, rounds % 3
    reward = ((37 * rounds) % 5 == 0).astype(float)
    users = np.zeros((500, 4), dtype=np.int64)
    return bandits.BanditLog(
        name=name,
        action=action,
        position=position,
        reward=reward,
        propensity=(1 + rounds % 9) / 20,
        users=users,
        actions=6,
    )


def policies(log):
    """Return a policy (n, actions, positions), a model of the rewards like it, and some picks."""
    places = int(log.position.max()) + 1
    i, a, p = np.ogrid[: len(log.reward), : log.actions, :places]
    target = 1.0 + (7 * i + 13 * a**2 + 5 * p * i) % 11
    target /= target.sum(1, keepdims=True)
    return target, ((3 * i + 17 * a + p) % 101) / 100, ((i**2 + 3) % log.actions).ravel()


def ours(log):
    target, model, chosen = policies(log)
    rounds = np.arange(len(log.reward))
    at = rounds, log.action, log.position
    weighted = log.reward, log.propensity, target[at]
    baseline = (target * model).sum(1)[rounds, log.position]
    return {
        "replay": bandits.replay(log.action, chosen, log.reward).value,
        "ips": bandits.ips(*weighted).value,
        "snips": bandits.snips(*weighted).value,
        "dr": bandits.doubly_robust(*weighted, model[at], baseline).value,
    }


def theirs(log):
    ope = pytest.importorskip("obp.ope")
    target, model, chosen = policies(log)
    greedy = np.zeros_like(target)
    greedy[np.arange(len(chosen)), chosen] = 1
    common = {"reward": log.reward, "action": log.action, "position": log.position}
    weighted = common | {"pscore": log.propensity, "action_dist": target}
    modeled = weighted | {"estimated_rewards_by_reg_model": model}
    snips = ope.SelfNormalizedInverseProbabilityWeighting()
    return {
        "replay": ope.ReplayMethod().estimate_policy_value(**common, action_dist=greedy),
        "ips": ope.InverseProbabilityWeighting().estimate_policy_value(**weighted),
        "snips": snips.estimate_policy_value(**weighted),
        "dr": ope.DoublyRobust().estimate_policy_value(**modeled),
    }


@pytest.mark.parametrize("name", ["made-up", *SAMPLES])
def test_values_agree_with_the_reference_file(name):
    assert ours(log_of(name)) == pytest.approx(RECORD[name], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", ["made-up", *SAMPLES])
def test_the_reference_file_has_the_values_of_obp(name):
    assert theirs(log_of(name)) == pytest.approx(RECORD[name], rel=1e-12, abs=1e-12)
