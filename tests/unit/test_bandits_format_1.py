"""Folders of agents that version 0.1 wrote, and the results of continuing them in version 0.1.

All but `live` are simulations, stopped in round 29 with one ticket open. The users are in turn
7, "7", "anna", "bo" followed by a zero byte, and 12; version 0.1 treated the first two as one user.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import bandits
import privacy as dp

FOLDER = Path(__file__).parents[1] / "reference" / "agents_0_1"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
USERS = [7, "7", "anna", "bo\0", 12]
BY_USER = ("AdaPrivateUser", "AdaPrivateGroup")


@pytest.fixture
def saved(tmp_path):
    def copied(name, **changes):
        folder = shutil.copytree(FOLDER / name, tmp_path / name)
        header = json.loads((folder / "agent.json").read_text())
        header["algorithm"] |= changes
        (folder / "agent.json").write_text(json.dumps(header))
        return folder

    return copied


def play(agent, users):
    for i in range(30, 60):
        x = np.random.default_rng(i).standard_normal((4, 3))
        more = {"user": USERS[i % 5]} if users else {}
        agent.update(agent.select(x, **more), (i * 7 % 10) / 10)


def ledger(agent):
    channel = agent._learner.channel
    found = getattr(channel, "spent", None) or getattr(channel, "seen", {})
    return sorted([user, amount] for (_, user), amount in found.items())


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - {"live"}))
def test_an_agent_saved_by_version_0_1_continues_unchanged(name, again, saved):
    folder, expected = saved(name), EXPECTED[name]
    agent = bandits.Algorithm.restore(folder)
    assert json.loads((folder / "agent.json").read_text())["kind"] == "bandit-agent 2"
    if again:  # from the current format, which also states how ids are converted
        agent = bandits.Algorithm.restore(folder)
    agent.update(bandits.Ticket(*expected["ticket"]), 0.5)
    play(agent, name in BY_USER)
    agent.finish(release=True)
    assert agent.releases == expected["releases"]
    np.testing.assert_allclose(agent.estimate, expected["estimate"], rtol=1e-8)
    found = ledger(agent)
    assert [user for user, _ in found] == [user for user, _ in expected["ledger"]]
    for (_, ours), (_, theirs) in zip(found, expected["ledger"], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9)


def test_an_agent_of_version_0_1_with_system_noise_continues(saved):
    agent = bandits.Algorithm.restore(saved("live"))
    np.testing.assert_array_equal(agent.estimate, EXPECTED["live"]["estimate"])
    assert agent.guarantee(1e-5).epsilon <= 1
    play(agent, users=False)
    assert agent.releases > EXPECTED["live"]["releases"]


def test_a_larger_replace_distance_of_version_0_1_is_kept(saved):
    agent = bandits.Algorithm.restore(saved("PrivateContexts"))
    found = agent.algorithm.guarantee(1e-5).epsilon
    used = agent._learner.channel.sums
    assert used.replace_distance == 2 > agent.algorithm.replace_distance
    mechanism = dp.Gaussian(used.noise_multiplier, agent.algorithm.replace_distance)
    relation = dp.NeighboringRelation.REPLACE_ONE
    assert found == dp.account(mechanism, relation=relation).epsilon(1e-5)
    assert found < 1 - 1e-3


def test_users_who_may_share_a_cap_are_refused_where_that_costs_privacy(saved):
    folder = saved("AdaPrivateUser", relation="REPLACE_SPECIAL")
    with pytest.raises(ValueError, match="stored users 7 and '7' as one user"):
        bandits.Algorithm.restore(folder)
    # counts of rounds do not depend on rewards: there it costs nothing
    folder = saved("AdaPrivateGroup", relation="REPLACE_SPECIAL")
    with pytest.raises(ValueError, match="files of two agents"):  # the noise is of REPLACE_ONE
        bandits.Algorithm.restore(folder)


def test_an_unknown_version_is_refused(saved):
    folder = saved("live")
    header = json.loads((folder / "agent.json").read_text())
    (folder / "agent.json").write_text(json.dumps(header | {"kind": "bandit-agent 3"}))
    with pytest.raises(ValueError, match="Update dpcalib"):
        bandits.Algorithm.restore(folder)
