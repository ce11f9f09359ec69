"""Audit benchmarks: `python tests/benchmarks/acceptance.py audit`.

Each row is (name, value, unit, limit). Times exclude running the mechanisms.
"""

import math
import statistics
import time
from itertools import product

import numpy as np
from scipy.special import gammainc

import privacy as dp
from privacy.audit import (
    SequentialAudit,
    epsilon_lower_bound,
    falsify,
    falsify_noise,
    falsify_one_run,
    mu_lower_bound,
    one_run_epsilon_lower_bound,
)
from tests.audit import battery, test_mutants
from tests.audit.worst_cases import losses

ONE = dp.NeighboringRelation.ADD_OR_REMOVE_ONE
DELTA = 1e-5
NOISE = dp.noise_multiplier(epsilon=1, delta=DELTA)
CLAIM = dp.Gaussian(NOISE)
REPETITIONS = 2000


def draws(count):
    return map(np.random.default_rng, np.random.SeedSequence(2026).spawn(count))


def timed(call):
    start = time.process_time_ns()
    found = call()
    return found, (time.process_time_ns() - start) * 1e-6


def figures():
    """Yield every row."""
    yield from lower_bounds()
    yield from power()
    yield from white_box_power()
    yield from false_alarms()
    yield from configurations()
    yield from mutants()


def lower_bounds():
    limits = {10_000: (0.15, 2, 200), 100_000: (0.04, 5, 100), 1_000_000: (0.015, 25, 20)}
    for runs, (missing, milliseconds, count) in limits.items():
        found = []
        for rng in draws(count):
            scores = losses(CLAIM, ONE, rng, runs)
            found.append(timed(lambda s=scores: epsilon_lower_bound(*s, DELTA, claim=CLAIM)))
        bounds, times = zip(*found, strict=True)
        name = f"epsilon lower bound, n={runs:g}"
        yield f"{name}: shortfall from epsilon = 1", 1 - statistics.mean(bounds), "", missing
        yield f"{name}: time", statistics.median(times), "ms", milliseconds


def power():
    for factor, runs in ((0.7, 2100), (0.5, 400), (0.9, 31_000)):
        found = []
        for rng in draws(REPETITIONS):
            scores = losses(CLAIM, ONE, rng, runs, factor)
            found.append(timed(lambda s=scores: falsify(CLAIM, *s).falsified))
        caught, times = zip(*found, strict=True)
        name = f"noise x {factor:g}, n={runs}"
        yield f"{name}: false negative rate at 5 %", 1 - statistics.mean(caught), "", 0.1
        yield f"{name}: time", statistics.median(times), "ms", 5


def white_box_power():
    """Yield the exact false negative rate, from the rejection threshold of the sum of squares."""
    n, residuals = 390, np.ones(390)

    def caught(total):
        scaled = residuals * math.sqrt(total / n)
        return falsify_noise(dp.Gaussian(1.0), scaled, aspect="scale").falsified

    low, high = 0.0, float(n)
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if caught(middle) else (low, middle)
    missed = 1 - float(gammainc(n / 2, low / 0.81 / 2))
    yield "noise x 0.9, 390 residuals: false negative rate", missed, "", 0.1


def false_alarms():
    epsilon = dp.account(dp.Gaussian(1.0)).epsilon(1e-3)

    def watched(rng):
        watch = SequentialAudit(dp.Gaussian(1.0), significance=0.05)
        zero, one = losses(dp.Gaussian(1.0), ONE, rng, 400)
        for at in range(0, 400, 20):
            watch.update(zero[at : at + 20], one[at : at + 20])
        return watch.falsified

    def response(rng, m=300):
        right = (rng.random(m) < 1e-4) | (rng.random(m) < 1 / (1 + math.exp(-1)))
        return {"canaries": m, "guesses": m, "correct": int(right.sum())}

    claims = (
        dp.Gaussian(1.0),
        dp.Laplace(1.0),
        dp.PureDP(1.0),
        dp.ApproximateDP(0.5, 0.02),
        dp.PoissonSampled(dp.Gaussian(0.7), sampling_probability=0.3),
    )
    bounds = {
        f"falsify, {type(claim).__name__}": lambda rng, claim=claim: (
            falsify(claim, *losses(claim, ONE, rng, 500)).falsified
        )
        for claim in claims
    }
    bounds |= {
        "mu_lower_bound": lambda rng: mu_lower_bound(*losses(dp.Gaussian(1.0), ONE, rng, 500)) > 1,
        "epsilon_lower_bound, Gaussian": lambda rng: (
            epsilon_lower_bound(
                *losses(dp.Gaussian(1.0), ONE, rng, 500), 1e-3, claim=dp.Gaussian(1.0)
            )
            > epsilon
        ),
        "epsilon_lower_bound, any": lambda rng: (
            epsilon_lower_bound(*losses(dp.PureDP(1.0), ONE, rng, 500), 0.0) > 1
        ),
        "SequentialAudit, updated 20 times": watched,
        "falsify_one_run": lambda rng: (
            falsify_one_run(dp.ApproximateDP(1.0, 1e-4), **response(rng)).falsified
        ),
        "one_run_epsilon_lower_bound": lambda rng: (
            one_run_epsilon_lower_bound(**response(rng), delta=1e-4) > 1
        ),
    }
    noise = {"normal": dp.Gaussian(1.0), "laplace": dp.Laplace(1.0)}
    for (kind, claim), aspect in product(noise.items(), ("all", "scale", "shape", "repeats")):
        bounds[f"falsify_noise, {kind}, {aspect}"] = (
            lambda rng, kind=kind, claim=claim, aspect=aspect: (
                falsify_noise(claim, getattr(rng, kind)(0, 1, 100), aspect=aspect).falsified
            )
        )
    limit = 0.05 + 3 * math.sqrt(0.05 * 0.95 / REPETITIONS)
    for name, alarm in bounds.items():
        rate = statistics.mean(alarm(rng) for rng in draws(REPETITIONS))
        yield f"false positive rate at 5 %: {name}", rate, "", limit


def claims_by_epsilon():
    """Return 200 claims: five kinds at 40 values of epsilon, 1 to 6 (sampled noise: 2 to 12)."""
    for epsilon in np.geomspace(1, 6, 40).tolist():
        target = {"epsilon": epsilon, "delta": DELTA}
        yield dp.Gaussian(dp.noise_multiplier(**target))
        yield dp.repeat(dp.Gaussian(dp.noise_multiplier(**target, steps=4)), 4)
        yield dp.Laplace(1 / epsilon)
        yield dp.RandomizedResponse(epsilon, 3)
        half = dp.noise_multiplier(
            epsilon=2 * float(epsilon), delta=DELTA, sampling_probability=0.5
        )
        yield dp.PoissonSampled(dp.Gaussian(half), sampling_probability=0.5)


def configurations():
    claims = list(claims_by_epsilon())
    for factor, wrong_if in ((1.0, True), (0.7, False), (0.5, False)):
        wrong, total = 0, 0.0
        for claim, rng in zip(claims, draws(len(claims)), strict=True):
            scores = losses(claim, ONE, rng, 20_000, factor)
            finding, milliseconds = timed(
                lambda c=claim, s=scores: falsify(c, *s, significance=1e-6)
            )
            wrong += finding.falsified is wrong_if
            total += milliseconds
        what = "false positives" if wrong_if else "false negatives"
        yield f"{len(claims)} claims at 1e-6, noise x {factor:g}: {what}", wrong, "", 0
        yield f"{len(claims)} claims at 1e-6, noise x {factor:g}: time", total / 1e3, "s", 1


def mutants():
    """Yield the number of bugs patched into the source that no audit detects."""

    def survives(audits):
        try:
            test_mutants.run(audits)
        except AssertionError:
            return False
        return True

    survivors = 0
    for patch in test_mutants.PACKAGE.values():
        with test_mutants.loaded_afresh(*patch):
            survivors += survives(battery.PACKAGE)
    source = test_mutants.SAMPLE.read_text(encoding="utf-8")
    for before, after in test_mutants.RELEASES.values():
        assert source.count(before) == 1
        patched = source.replace(before, after)
        survivors += survives([lambda text=patched: battery.audit_sample(text)])
    total = len(test_mutants.PACKAGE) + len(test_mutants.RELEASES)
    yield f"surviving mutants of {total}", survivors, "", 0
