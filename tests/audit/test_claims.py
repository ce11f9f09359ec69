"""Black-box audits: false claims are falsified, true claims are not."""

import math

import numpy as np
import pytest

import privacy as dp
from privacy import mechanisms
from privacy.accounting import NOTION_MODULES
from privacy.audit import audit, falsify
from tests.audit import battery
from tests.audit.worst_cases import SIMULATED, cases, losses

ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
CASES = cases()


def kinds_in(mechanism):
    yield type(mechanism).__name__
    inner = getattr(mechanism, "parts", ()) or [getattr(mechanism, "mechanism", None)]
    for part in inner:
        if part is not None:
            yield from kinds_in(part)


def test_every_mechanism_has_an_audit():
    """Each mechanism needs a simulation of its worst case and a case here."""
    every = {
        thing.__name__
        for thing in vars(mechanisms).values()
        if isinstance(thing, type)
        and issubclass(thing, mechanisms.Mechanism)
        and thing is not mechanisms.Mechanism
    }
    assert set(mechanisms.REGISTRY) == every
    assert set(SIMULATED) == every
    assert {kind for mechanism, _ in CASES for kind in kinds_in(mechanism)} == every


def test_every_rule_is_audited():
    """Each (notion, mechanism) of the support matrix answers at least one case."""
    asked = set()
    for mechanism, relation in CASES:
        for notion in NOTION_MODULES:
            try:
                dp.account(mechanism, notion=notion, relation=relation)
            except dp.UnsupportedMechanism:
                continue
            asked |= {(notion, kind) for kind in kinds_in(mechanism)}
    rules = {(notion, kind) for kind, found in dp.support_matrix().items() for notion in found}
    assert rules <= asked


def named(case):
    mechanism, relation = case
    return f"{type(mechanism).__name__}-{relation}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_a_true_claim_is_not_falsified(case):
    battery.not_falsified(battery.audit_case(*case))


@pytest.mark.parametrize("case", CASES, ids=named)
def test_half_the_noise_is_falsified(case):
    """Shows that each of the audits above can fail."""
    (finding,) = battery.audit_case(*case, weaker=0.5)
    assert finding.falsified, str(finding)
    assert finding.p_value < 1e-6


def test_a_rare_leak_beside_gaussian_noise_is_caught():
    """One output in 200 reveals the data set: too rare to change the accuracy of guesses."""
    rng = np.random.default_rng(7)
    claim = dp.Gaussian(4.0)
    zero, one = losses(claim, ONE, rng, 20_000)
    one[rng.random(20_000) < 0.005] = 50.0
    finding = falsify(claim, zero, one)
    assert finding.falsified
    assert "score > " in finding.evidence
    mirrored = falsify(claim, -one, -zero)
    assert mirrored.falsified
    assert "score < -" in mirrored.evidence


def test_false_alarms_are_rare():
    """At 5 %, 300 true claims give about 15 alarms; 30 would be 4 standard errors more."""
    for mechanism in (dp.Gaussian(1.0), dp.PureDP(1.0), dp.ApproximateDP(0.3, 0.05)):
        alarms = 0
        for seed in np.random.SeedSequence(2026).spawn(300):
            scores = losses(mechanism, ONE, np.random.default_rng(seed), 400)
            alarms += falsify(mechanism, *scores).falsified
        assert alarms <= 30


def test_a_curve_is_audited_under_its_own_relation():
    scores = losses(dp.Gaussian(1.0), ONE, np.random.default_rng(1), 1000)
    curve = dp.account(dp.Gaussian(1.0))
    assert falsify(curve, *scores) == falsify(dp.Gaussian(1.0), *scores)
    with pytest.raises(ValueError, match="Expected claim"):
        falsify(curve, *scores, relation="REPLACE_ONE")


def test_one_run_does_not_falsify():
    assert falsify(dp.Gaussian(1.0), [-math.inf], [math.inf]).p_value == 1


def test_a_release_is_run_and_scored():
    def count(data, rng):
        return len(data) + rng.normal(0, 1.0)

    pair = ([1, 2], [1, 2, 3])
    seen = []
    honest = audit(count, pair, dp.Gaussian(1.0), runs=3000, progress=seen.append)
    assert not honest.falsified
    assert sum(seen) == 4 * 3000
    assert audit(count, pair, dp.Gaussian(2.0), runs=3000).falsified
    assert honest == audit(count, pair, dp.Gaussian(1.0), runs=3000)
    assert honest != audit(count, pair, dp.Gaussian(1.0), runs=3000, seed=1)


def test_a_finding_prints_its_claim_and_evidence():
    finding = falsify(dp.Gaussian(9.0), [-1.0] * 100, [1.0] * 100, significance=1e-6)
    assert finding.falsified
    assert str(finding).startswith("Gaussian(noise_multiplier=9.0")
    assert "falsified (p-value" in str(finding)
    assert "200 of 200 guesses" in finding.evidence
    assert finding.to_json()["falsified"] is True


@pytest.mark.parametrize("significance", [0, 0.3, 1, math.nan, -1])
def test_bad_significance(significance):
    with pytest.raises(ValueError, match="Expected significance"):
        falsify(dp.Gaussian(1.0), [0.0], [0.0], significance=significance)


def test_bad_arguments():
    with pytest.raises(TypeError, match="Expected mechanism"):
        falsify(1.0, [0.0], [0.0])
    with pytest.raises(ValueError, match="Expected pair"):
        audit(len, [1], dp.Gaussian(1.0))
    with pytest.raises(ValueError, match="Expected runs"):
        audit(len, ([1], [2]), dp.Gaussian(1.0), runs=0)
    with pytest.raises(TypeError, match="Expected release"):
        audit("release", ([1], [2]), dp.Gaussian(1.0))
    with pytest.raises(TypeError, match="Expected output"):
        audit(str, ([1], [2]), dp.Gaussian(1.0))
