"""Bugs patched into the source, one at a time: the audits detect each of them.

A patch replaces text that occurs exactly once in the source. The patched package is imported anew,
and the audits of tests/audit/battery.py run on it until one fails.
"""

import importlib
import sys
from contextlib import contextmanager
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path

import pytest

from tests.audit import battery

SAMPLE = Path(__file__).with_name("sample_release.py")

# name of the bug: (module, original text, replacement)
PACKAGE = {
    "count dropped": (
        "privacy.accounting",
        "return node.count * _fold(node.mechanism, notion, relation)",
        "return _fold(node.mechanism, notion, relation)",
    ),
    "part forgotten": (
        "privacy.accounting",
        "return first.plus(rest)",
        "return first.plus(rest[1:])",
    ),
    "parallel: first cell alone": (
        "privacy.accounting",
        "lambda worst, other: worst.worst_of(other)",
        "lambda worst, other: worst",
    ),
    "parallel: a replaced record stays in its cell": (
        "privacy.mechanisms.combinators",
        "return relation is REPLACE_ONE or (",
        "return (",
    ),
    "replaced like added": (
        "privacy.mechanisms.noise",
        "return float(self.replace_distance if relation is REPLACE_ONE else 1.0)",
        "return 1.0",
    ),
    "mu of the variance": (
        "privacy.mechanisms.noise",
        "return GaussianPair(ratio * ratio if ratio < 1e154 else math.inf)",
        "return GaussianPair(ratio * ratio / 2 if ratio < 1e154 else math.inf)",
    ),
    "releases averaged": (
        "privacy.mechanisms.sampling",
        "return None if one is None else sum_up([count * one])",
        "return None if one is None else one",
    ),
    "Laplace loss halved": (
        "privacy.mechanisms.noise",
        "LaplacePair(ratio_up(self.shift(relation), self.scale))",
        "LaplacePair(ratio_up(self.shift(relation), 2 * self.scale))",
    ),
    "categories counted once more": (
        "privacy.losses.profiles",
        "(1 + (self.categories - 1) * math.exp(-self.loss))",
        "(1 + self.categories * math.exp(-self.loss))",
    ),
    "failures forgotten": (
        "privacy.mechanisms.claims",
        "return ClaimPair(self.epsilon, self.delta)",
        "return ClaimPair(self.epsilon)",
    ),
    "sampled twice": (
        "privacy.losses.profiles",
        "return _add_log(self.inner.log_delta(deep * (1 - 8 * U)), math.log(self.q))",
        "return _add_log(self.inner.log_delta(deep * (1 - 8 * U)), 2 * math.log(self.q))",
    ),
    "amplified to q epsilon": (
        "privacy.losses.discrete",
        "growth = q * math.expm1(loss)",
        "growth = math.expm1(q * loss)",
    ),
    "one sample taken for many": (
        "privacy.mechanisms.sampling",
        "squared = mu_squared(inner, ADD_OR_REMOVE_ONE)",
        "squared = mu_squared(getattr(inner, 'mechanism', inner), ADD_OR_REMOVE_ONE)",
    ),
    "nested samples: the rarer twice": (
        "privacy.mechanisms.sampling",
        "q = math.nextafter(q * mechanism.sampling_probability, 1.0)",
        "q = math.nextafter(q * q * mechanism.sampling_probability, 1.0)",
    ),
    "the printed subsampling formula": (
        "privacy.losses.gaussian",
        "return losses.divergences.SampledGaussianNoise(max(self.mu, 1e-100), self.q)",
        (
            "from privacy.losses.divergences import Divergence\n"
            "        import numpy as np\n"
            "        mu, q = self.mu, self.q\n"
            "        class Printed(Divergence):\n"
            "            def at(self, orders):\n"
            "                x, a = math.sqrt(2) * q * mu, np.maximum(orders, 2)\n"
            "                log = a * np.log1p(x) + np.log1p(-a * x * np.exp(-a * np.log1p(x)))\n"
            "                return np.broadcast_to(log / (a - 1), (2, orders.size))\n"
            "        return Printed()"
        ),
    ),
    "rho of half the noise's square": (
        "privacy.losses.gaussian",
        "Linear(0.5 * self.mu_squared)",
        "Linear(0.25 * self.mu_squared)",
    ),
    "group like composition": (
        "privacy.notions.gaussian",
        "round_up(size * (size * self.mu_squared), _ROUNDING)",
        "round_up(size * self.mu_squared, _ROUNDING)",
    ),
    "group's profile without the factor": (
        "privacy.curves",
        "each = ratio_down(epsilon, self.size)",
        "each = epsilon",
    ),
    "calibrated for one step": (
        "privacy.calibration.search",
        "mechanism = self.make(value)",
        "mechanism = getattr(self.make(value), 'mechanism', self.make(value))",
    ),
    "calibrated in the wrong relation": (
        "privacy.calibration.search",
        "return account(mechanism, notion=self.notion, relation=self.relation)",
        "return account(mechanism, notion=self.notion)",
    ),
    "budget never used up": (
        "privacy.budget.filter",
        "return self._with(_spent=total)",
        "return self._with(_spent=cost)",
    ),
    "budget split by its limit": (
        "privacy.budget.filter",
        "left, rest = self._left_of(self._limit), self._left_of(self._most)",
        "left, rest = self._limit, self._most",
    ),
}

RELEASES = {
    "NaN through the clip": ("    if math.isnan(value):\n        return 0.0\n", ""),
    "clipped by a float quotient": (
        "    return min(max(value, -bound), bound)",
        "    return value / max(1.0, abs(value) / bound) if math.isfinite(value) else bound",
    ),
    "vector clipped to the nearest float": (
        "factor = bound / math.hypot(*scaled) * (1 - 1e-15)",
        "factor = bound / math.hypot(*scaled)",
    ),
    "each coordinate clipped": (
        (
            "    factor = bound / math.hypot(*scaled) * (1 - 1e-15)\n"
            "    return [x * factor for x in scaled]"
        ),
        "    return [min(max(x, -bound), bound) for x in finite]",
    ),
    "not clipped": ("math.fsum(clip(value) for value in data)", "math.fsum(data)"),
    "noise after the rescale": (
        "    noisy = total(data) + rng.normal(0, NOISE * CLIP)\n    return noisy / N",
        "    return total(data) / N + rng.normal(0, NOISE * CLIP / N / math.sqrt(N))",
    ),
    "divided by the private count": ("return noisy / N", "return noisy / max(1, len(data))"),
    "noise as large as the data": (
        "noisy = total(data) + rng.normal(0, NOISE * CLIP)",
        "noisy = total(data) + rng.normal(0, NOISE * max(map(abs, data), default=CLIP))",
    ),
    "variance taken for deviation": (
        "noisy = total(data) + rng.normal(0, NOISE * CLIP)",
        "noisy = total(data) + rng.normal(0, math.sqrt(NOISE) * CLIP)",
    ),
    "another distribution": (
        "noisy = total(data) + rng.normal(0, NOISE * CLIP)",
        "noisy = total(data) + rng.uniform(-NOISE * 2, NOISE * 2) + 0 * rng.normal(0, NOISE)",
    ),
    "noise used twice": ("    fresh = rng.normal(0, NOISE)\n", "    fresh = noise / CLIP\n"),
    "a part without noise": ("len(data) + fresh", "len(data)"),
    "domain read off the data": ("for value in DOMAIN}", "for value in set(data)}"),
    "a user's records clipped one by one": (
        "return {user: clip(value) for user, value in sums.items()}",
        "return sums",
    ),
    "one noise for all batches": (
        "    return [total(half) + rng.normal(0, NOISE * CLIP) for half in halves]",
        "    noise = rng.normal(0, NOISE * CLIP)\n    return [total(h) + noise for h in halves]",
    ),
    "batches meet": ("data[N // 2 :]]", "data[N // 2 - 1 :]]"),
    "replaced like added": (
        "        return 0.0\n    return min(",
        "        return 0.0\n    return 2 * min(",
    ),
}


class Patched(SourceFileLoader):
    """Loads one module with a text replaced."""

    before = after = ""

    def get_code(self, fullname):
        source = Path(self.path).read_text(encoding="utf-8")
        assert source.count(self.before) == 1, f"{self.before!r}: {source.count(self.before)} times"
        return compile(source.replace(self.before, self.after), self.path, "exec")


class Patcher:
    """Finds one module for `Patched`."""

    def __init__(self, module, before, after):
        self.module, self.before, self.after = module, before, after

    def find_spec(self, fullname, path, target=None):
        if fullname != self.module:
            return None
        spec = PathFinder.find_spec(fullname, path)
        spec.loader = Patched(fullname, spec.origin)
        spec.loader.before, spec.loader.after = self.before, self.after
        return spec


@contextmanager
def loaded_afresh(module=None, before="", after=""):
    """Load the package anew, one of its modules patched; put the real one back afterward."""

    def ours(name):
        return name == "privacy" or name.startswith("privacy.")

    real = {name: loaded for name, loaded in sys.modules.items() if ours(name)}
    for name in real:
        del sys.modules[name]
    patcher = Patcher(module, before, after)
    sys.meta_path.insert(0, patcher)
    try:
        importlib.import_module(module or "privacy")
        yield
    finally:
        sys.meta_path.remove(patcher)
        for name in [name for name in sys.modules if ours(name)]:
            del sys.modules[name]
        sys.modules.update(real)


# the kind of mechanism whose claim is falsified, or the check that fails: it is audited first
FIRST = {
    "part forgotten": "Composed",
    "parallel: first cell alone": "Parallel",
    "parallel: a replaced record stays in its cell": "Parallel",
    "releases averaged": "PoissonSampled",
    "Laplace loss halved": "Laplace",
    "failures forgotten": "ApproximateDP",
    "amplified to q epsilon": "PoissonSampled",
    "one sample taken for many": "PoissonSampled",
    "the printed subsampling formula": "PoissonSampled",
    "rho of half the noise's square": "Gaussian",
    "not clipped": "averaged",
    "noise after the rescale": "averaged",
    "divided by the private count": "averaged",
    "noise as large as the data": "averaged",
    "variance taken for deviation": "averaged",
    "another distribution": "averaged",
    "noise used twice": "answered",
    "a part without noise": "answered",
    "domain read off the data": "counted",
    "a user's records clipped one by one": "summed_by_user",
    "one noise for all batches": "batched",
    "batches meet": "batched",
}


def run(audits, first=None):
    if first is not None:
        battery.audit_accounting(first)
    for audit in audits:
        audit()


def test_the_audits_pass_on_the_package():
    with loaded_afresh():
        run(battery.PACKAGE)


@pytest.mark.parametrize("name", PACKAGE)
def test_a_bug_in_the_package_is_caught(name):
    with loaded_afresh(*PACKAGE[name]), pytest.raises(AssertionError):
        run(battery.PACKAGE, FIRST.get(name))


def test_the_audits_pass_on_the_releases():
    battery.audit_sample(SAMPLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RELEASES)
def test_a_bug_in_a_release_is_caught(name):
    before, after = RELEASES[name]
    source = SAMPLE.read_text(encoding="utf-8")
    assert source.count(before) == 1
    with pytest.raises(AssertionError):
        battery.audit_sample(source.replace(before, after), FIRST.get(name))
