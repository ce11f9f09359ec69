"""The audits of this package itself, as functions that raise AssertionError.

They import inside, so that they audit the loaded copy of the package.
"""

import math
from types import SimpleNamespace

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.audit.worst_cases import cases, losses, normal

RUNS = 20_000
LEVEL = 1e-6
SEED = 2026
quick = settings(
    max_examples=60,
    phases=[Phase.explicit, Phase.generate],
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)


def audit_case(mechanism, relation, *, weaker=1.0, notions=("tightest",)):
    """Return the findings of the simulated worst pair against the claim in each notion."""
    import privacy as dp
    from privacy.audit import falsify

    rng = np.random.default_rng(SEED)
    scores = losses(mechanism, relation, rng, RUNS, weaker)
    found = []
    for notion in notions:
        try:
            curve = dp.account(mechanism, notion=notion, relation=relation)
        except dp.UnsupportedMechanism:
            continue
        found.append(falsify(curve, *scores, significance=LEVEL, relation=relation))
    return found


def not_falsified(findings):
    for finding in findings:
        assert not finding.falsified, str(finding)


def audit_accounting(first=None):
    """Every mechanism, in every notion that answers it; the kind `first` before the others."""
    from privacy.accounting import NOTION_MODULES

    for mechanism, relation in sorted(cases(), key=lambda case: type(case[0]).__name__ != first):
        not_falsified(audit_case(mechanism, relation, notions=NOTION_MODULES))


def audit_nested_sampling():
    """Nested Poisson sampling multiplies the sampling probabilities."""
    import privacy as dp
    from privacy.audit import falsify

    def thinned(mechanism, q):
        return dp.PoissonSampled(mechanism, sampling_probability=q)

    nested = thinned(thinned(dp.Gaussian(0.5), 0.8), 0.6)
    rng = np.random.default_rng(SEED)
    scores = losses(thinned(dp.Gaussian(0.5), 0.48), "ADD_OR_REMOVE_ONE", rng, RUNS)
    assert not falsify(nested, *scores, significance=LEVEL).falsified


def audit_groups():
    """A group of three records has three times the sensitivity of one."""
    import privacy as dp
    from privacy.audit import falsify

    rng = np.random.default_rng(SEED)
    for mechanism, mu in ((dp.Gaussian(4.0), 0.25), (dp.ZeroConcentratedDP(1 / 32), 0.25)):
        scores = normal(3 * mu, rng, RUNS)
        curve = dp.account(mechanism).group(3)
        assert not falsify(curve, *scores, significance=LEVEL).falsified
    # pure claims: log odds of three flips
    curve = dp.account(dp.PureDP(0.5)).group(3)
    response = dp.RandomizedResponse(1.5)
    scores = losses(response, "ADD_OR_REMOVE_ONE", rng, RUNS)
    assert not falsify(curve, *scores, significance=LEVEL).falsified


# the smallest sigma for (epsilon, delta = 1e-5), to four digits (Balle and Wang 2018, Algorithm 1)
KNOWN = {0.5: 7.032, 1.0: 3.7306, 2.0: 1.994, 5.0: 0.8919}


def audit_calibration():
    """Calibrated noise is not below a known sufficient sigma."""
    import privacy as dp
    from privacy.audit import falsify

    one, replace = dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.NeighboringRelation.REPLACE_ONE
    rng = np.random.default_rng(SEED)
    for epsilon, sigma in KNOWN.items():
        target = {"epsilon": epsilon, "delta": 1e-5}
        for found, apart in (
            (dp.noise_multiplier(**target), 1.0),
            (dp.noise_multiplier(**target, relation=replace), 2.0),
            (dp.noise_multiplier(**target, steps=9), 3.0),
            (dp.calibrate(dp.Gaussian, **target), 1.0),
            (1 / math.sqrt(dp.max_steps(**target, noise_multiplier=10 * sigma)) * 10 * sigma, 1.0),
        ):
            # apart / found is the distance of the two data sets in standard deviations
            scores = losses(dp.Gaussian(found / apart), one, rng, RUNS)
            finding = falsify(dp.Gaussian(sigma), *scores, significance=LEVEL)
            assert not finding.falsified, f"sigma={found}: {finding}"
    # the true sigma of 1000 sampled steps, to five digits (tests/reference/tight_reference.json)
    run = {"sampling_probability": 0.01, "steps": 1000}
    found = dp.noise_multiplier(epsilon=1, delta=1e-6, **run)
    ours, known = (
        dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=0.01), 1000)
        for sigma in (found, 1.5627)
    )
    finding = falsify(known, *losses(ours, one, rng, 3000), significance=LEVEL)
    assert not finding.falsified, f"sampled sigma={found}: {finding}"


def audit_budget():
    """The spends that a budget accepts cost at most its limit, in any order."""
    import privacy as dp
    from privacy.audit import falsify

    rng = np.random.default_rng(SEED)
    for notion in ("gaussian", "zcdp"):
        left = dp.Budget(epsilon=2, delta=1e-5, notion=notion)
        ran = []
        part = dp.Gaussian(8.0)
        while left.fits(part) and len(ran) < 200:
            left = left.spend(part)
            ran.append(part)
        for half in left.split(2):
            while half.fits(dp.Gaussian(30.0)) and len(ran) < 400:
                half = half.spend(dp.Gaussian(30.0))
                ran.append(dp.Gaussian(30.0))
        scores = losses(dp.compose(*ran), "ADD_OR_REMOVE_ONE", rng, RUNS)
        # epsilon = 2 at delta = 1e-5 is what a Gaussian of 1.994 has
        finding = falsify(dp.Gaussian(1.994), *scores, significance=LEVEL)
        assert not finding.falsified, f"{len(ran)} releases: {finding}"


def sample(source):
    """Return the names that a source of releases defines."""
    names = {}
    exec(compile(source, "sample_release.py", "exec"), names)
    return SimpleNamespace(**names)


def audit_sample(source, first=None):
    """Replay the releases of a source on neighboring data sets, and test their outputs.

    The check of the name `first` comes before the others.
    """
    import privacy as dp
    from privacy.audit import (
        assert_contribution,
        assert_norm,
        assert_spends,
        audit,
        edge_floats,
        falsify_noise,
        neighboring_pairs,
    )

    released = sample(source)
    one, replace = dp.NeighboringRelation.ADD_OR_REMOVE_ONE, dp.NeighboringRelation.REPLACE_ONE
    special = dp.NeighboringRelation.REPLACE_SPECIAL
    claim = dp.Gaussian(2.0)
    wild = edge_floats()
    tame = st.sampled_from([-2.0, -1.0, -0.25, 0.0, 0.5, 1.0, 2.0])

    @settings(quick, max_examples=500)  # one quotient in some tens rounds above its bound
    @given(wild, st.sampled_from([1.0, 0.3, 7.0]))
    def clipped(value, bound):
        assert_norm(released.clip(value, bound), bound)

    @quick
    @given(st.lists(wild, min_size=1, max_size=4))
    def clipped_vectors(vector):
        assert_norm(released.clip_vector(vector), 1.0)

    @quick
    @given(
        st.sampled_from([one, replace]).flatmap(
            lambda r: st.tuples(st.just(r), neighboring_pairs(st.sampled_from("abc"), r))
        )
    )
    def counted(drawn):
        relation, pair = drawn
        assert_contribution(released.histogram, pair, 1.0 if relation is one else 1.4142136)

    @quick
    @given(
        st.sampled_from([one, replace, special]).flatmap(
            lambda r: st.tuples(
                st.just(r), neighboring_pairs(tame, r, null=0.0, max_size=released.N)
            )
        )
    )
    def averaged(drawn):
        relation, pair = drawn
        assert_spends(released.noisy_mean, pair, claim, relation=relation)

    @quick
    @given(neighboring_pairs(tame))
    def answered(pair):
        assert_spends(released.two_answers, pair, dp.repeat(claim, 2))

    @quick
    @given(neighboring_pairs(tame, unit="user"))
    def summed_by_user(pair):
        assert_spends(released.user_sum, pair, claim)

    @quick
    @given(neighboring_pairs(tame, replace))
    def batched(pair):
        assert_spends(released.batches, pair, claim, relation=replace)

    checks = (clipped, clipped_vectors, counted, averaged, answered, summed_by_user, batched)
    for check in sorted(checks, key=lambda check: check.__name__ != first):
        check()
    rng = np.random.default_rng(SEED)
    residuals = [released.N * released.noisy_mean([], rng) for _ in range(4000)]
    finding = falsify_noise(claim, residuals, significance=LEVEL)
    assert not finding.falsified, str(finding)
    finding = audit(released.noisy_mean, ([0.5], [0.5, 5.0]), claim, runs=4000, seed=SEED)
    assert not finding.falsified, str(finding)


# the slowest one is last: an audit of a mutant ends at the first failure
PACKAGE = (audit_nested_sampling, audit_groups, audit_budget, audit_calibration, audit_accounting)
