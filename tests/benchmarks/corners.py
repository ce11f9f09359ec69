"""Random extreme queries, each compared with an independent lower bound.

The queries run in a child process, which measures their peak memory and turns warnings into
errors. The references are written from the definitions and share no code with the package:

* one release: its privacy profile in closed form, in mpmath;
* two releases: the profile of one, averaged over the privacy loss of the other, by quadrature;
* more: delta of a test on the maximum or the sum of the noisy values. Dropping releases and
  post-processing only lower delta, so these are lower bounds.
"""

import json
import math
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import betainc, log_ndtr, logsumexp

_STOP = 10.0  # CPU seconds until a query times out
_ACCURACY = 1e-7  # relative error bound of the references' delta
_RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_SPECIAL", "REPLACE_ONE")
Draw = dict[str, Any]


def draws(count: int, seed: int) -> list[Draw]:
    """Return random queries."""
    rng = random.Random(seed)

    def spread(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    found = []
    for _ in range(count):
        q = rng.choice([spread(1e-12, 1), spread(1e-4, 1), 1 - spread(1e-9, 1)])
        steps = rng.choice([1, 2, round(spread(1, 100)), round(spread(1, 1e12))])
        one: Draw = {
            "q": min(max(q, 1e-12), 1 - 2**-53),
            "sigma": rng.choice([spread(0.02, 1e5), spread(0.3, 30)]),
            "steps": steps,
            "relation": rng.choice(_RELATIONS),
        }
        if rng.random() < 0.6:
            one["delta"] = rng.choice([spread(1e-300, 0.9), spread(1e-15, 0.9)])
        else:
            one["epsilon"] = rng.choice([spread(1e-12, 1e3), spread(1e-2, 30)])
        found.append(one)
    return found


def main() -> None:
    """Answer the queries on standard input, one per line."""
    import privacy as dp

    warnings.simplefilter("error")

    def give_up(*_: object) -> None:
        raise TimeoutError(f"more than {_STOP:g} s")

    signal.signal(signal.SIGVTALRM, give_up)
    for line in sys.stdin:
        one = json.loads(line)
        answer: Draw = {}
        start = time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, _STOP)
        try:
            step = dp.PoissonSampled(dp.Gaussian(one["sigma"]), sampling_probability=one["q"])
            relation = dp.NeighboringRelation[one["relation"]]
            curve = dp.account(dp.repeat(step, one["steps"]), relation=relation)
            if "delta" in one:
                answer["value"] = curve.epsilon(one["delta"])
            else:
                answer["value"] = curve.delta(one["epsilon"])
        except Exception as error:  # noqa: BLE001  # count every kind of failure
            answer["error"] = f"{type(error).__name__}: {error}"
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        answer["seconds"] = time.process_time() - start
        answer["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), flush=True)


def answers(queries: list[Draw]) -> list[Draw]:
    """Return each query's value or error, its CPU seconds, and the peak memory so far in MB."""
    done = subprocess.run(
        [sys.executable, __file__],
        input="\n".join(map(json.dumps, queries)),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def figures(count: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the queries: name, value, unit, limit."""
    queries = draws(count, seed)
    warm = {"q": 0.01, "sigma": 1.0, "steps": 10, "relation": _RELATIONS[0], "delta": 1e-5}
    given = answers([warm, *queries])[1:]
    failed = [(q, a) for q, a in zip(queries, given, strict=True) if "error" in a]
    answered = [(q, a) for q, a in zip(queries, given, strict=True) if "error" not in a]
    strange = [(q, a) for q, a in answered if not a["value"] >= 0]
    below = [(q, a) for q, a in answered if is_below(q, a["value"])]
    seconds = [a["seconds"] for a in given]
    slow = [(q, a) for q, a in zip(queries, given, strict=True) if a["seconds"] > 1]
    for name, some in (("failed", failed), ("NaN", strange), ("below", below), ("slow", slow)):
        for query, answer in some[:20]:
            print(f"  {name}: {query} {answer}", file=sys.stderr)
    yield f"{count} corner queries: warnings and errors", len(failed), "", 0
    yield "NaN or negative answers", len(strange), "", 0
    yield "below an independent reference", len(below), "", 0
    yield "share of queries above 1 s of CPU", len(slow) / count, "", 1e-3
    yield "slowest query", max(seconds), "s", 3
    yield "median query", 1e3 * float(np.median(seconds)), "ms", None
    yield "peak memory", max(a["peak"] for a in given), "MB", 250


def is_below(query: Draw, value: float) -> bool:
    """Return whether an answer is below its reference, hence unsound."""
    if math.isinf(value):
        return False
    if "delta" in query:
        return log_reference(query, value) > math.log(query["delta"]) + _ACCURACY
    reference = log_reference(query, query["epsilon"])
    return reference > (math.log(value) if value > 0 else -800) + _ACCURACY and reference > -740


def log_reference(query: Draw, epsilon: float) -> float:
    """Return log delta(epsilon), or a lower bound of it, independent of the package."""
    q, mu, steps = query["q"], 1 / query["sigma"], query["steps"]
    replaced = query["relation"] == "REPLACE_ONE"
    if steps == 1:
        return _exact(q, mu, epsilon, replaced=replaced)
    found = max(_one(q, mu, epsilon, replaced=replaced), -1e300)
    if steps == 2 and not replaced:
        return max(found, _two(q, mu, epsilon))
    found = max(found, _by_largest(q, mu, steps, epsilon, replaced=replaced))
    return max(found, _by_sum(q, mu, steps, epsilon, replaced=replaced))


def _exact(q: float, mu: float, epsilon: float, *, replaced: bool) -> float:
    import mpmath as mp

    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.reference import oracles

    mp.mp.dps = 60
    while True:
        profile = oracles.antipodal(mu, q) if replaced else oracles.sampled(oracles.gaussian(mu), q)
        delta = profile(mp.mpf(epsilon))
        # accept when doubling the digits changes delta by at most 1e-12, relatively
        mp.mp.dps *= 2
        profile = oracles.antipodal(mu, q) if replaced else oracles.sampled(oracles.gaussian(mu), q)
        again = profile(mp.mpf(epsilon))
        if again > 0 and abs(delta - again) <= again * mp.mpf(1e-12):
            return float(mp.log(again))
        if again < mp.mpf("1e-330") or mp.mp.dps > 2000:
            return -math.inf


def _difference(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return log(e^ours - e^theirs - rounding error of both), or -inf if that is negative."""
    with np.errstate(all="ignore"):
        rounding = 1e-13 * (1 + np.maximum(np.abs(ours), np.abs(theirs)))
        share = -np.expm1(np.minimum(theirs - ours, 0.0)) - rounding
        return np.where(share > 0, ours + np.log(np.maximum(share, 1e-300)), -np.inf)


def _log_mixture(q: float, near: np.ndarray, far: np.ndarray) -> np.ndarray:
    return np.logaddexp(math.log1p(-q) + near, math.log(q) + far)


def _places(mu: float, steps: int) -> np.ndarray:
    """Return candidate thresholds of a test."""
    most = 45 + 3 * mu + math.sqrt(2 * math.log(steps))
    return np.concatenate([np.linspace(-12, most, 3000), mu / 2 + np.linspace(-40, 40, 2001) / mu])


def _one(q: float, mu: float, epsilon: float, *, replaced: bool) -> float:
    x = _places(mu, 1)
    null = log_ndtr(-x)
    ours = _log_mixture(q, null, log_ndtr(mu - x))
    theirs = _log_mixture(q, null, log_ndtr(-mu - x)) if replaced else null
    found = _difference(ours, epsilon + theirs).max()
    if not replaced:
        below = _log_mixture(q, log_ndtr(x), log_ndtr(x - mu))
        found = max(found, _difference(log_ndtr(x), epsilon + below).max())
    return float(found)


def _two(q: float, mu: float, epsilon: float) -> float:
    """Return log E_P[delta_1(epsilon - privacy loss)]: two releases, one record removed."""
    with np.errstate(all="ignore"):
        # where the remaining epsilon is 0, and where it is log(1 - q), the smallest loss of one
        # release
        above = np.log((math.exp(min(epsilon, 700.0)) - 1 + q) / q)
        ends = np.array(
            [above, np.log(math.exp(min(epsilon, 700.0)) / (1 - q) - 1 + q) - np.log(q)]
        )
    ends = ends[np.isfinite(ends)] / mu + mu / 2
    span, width = 40 + 2 * mu, min(0.1, 0.25 / mu)
    if span / width > 10_000 or epsilon > 700:
        return -math.inf
    panels = np.arange(-span, span, width)
    panels = np.unique(np.concatenate([panels, ends[np.abs(ends) < span]]))
    point, share = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(panels)[:, None]
    z = (panels[:-1, None] + half * (1 + point)).ravel()
    log_width = np.log((half * share).ravel())
    log_null = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    log_ratio = np.logaddexp(math.log1p(-q), math.log(q) + mu * z - 0.5 * mu * mu)
    rest = epsilon - log_ratio
    with np.errstate(all="ignore"):
        growth = (np.expm1(rest) + q) / q  # e^deep
        deep = np.where(growth > 0, np.log(np.maximum(growth, 1e-300)), -np.inf)
        far = rest > 700
        deep = np.where(far, rest - math.log(q), deep)
        a, b = mu / 2 - deep / mu, -mu / 2 - deep / mu
        inner = math.log(q) + _difference(log_ndtr(a), deep + log_ndtr(b))
        whole = np.log(np.maximum(-np.expm1(np.minimum(rest, 0.0)), 1e-300))
        inner = np.where(growth > 0, inner, whole)
    return float(logsumexp(log_null + log_ratio + inner + log_width))


def _by_largest(q: float, mu: float, steps: int, epsilon: float, *, replaced: bool) -> float:
    """Return the largest log[P(max > x) - e^epsilon Q(max > x)] over thresholds x."""
    x = _places(mu, steps)

    def log_some(log_tail: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            exponent = steps * np.log1p(-np.exp(np.minimum(log_tail, -1e-16)))
            small = log_tail + math.log(steps)
            whole = np.log(np.maximum(-np.expm1(exponent), 1e-300))
            return np.where(small < -30, small, whole)

    null = log_ndtr(-x)
    ours = log_some(_log_mixture(q, null, log_ndtr(mu - x)))
    theirs = log_some(_log_mixture(q, null, log_ndtr(-mu - x)) if replaced else null)
    # Where `small` is used, P(max > x) >= exp(small) - exp(2 small): a relative error below 1e-13.
    return float(_difference(ours, epsilon + theirs).max())


def _below(j: np.ndarray, steps: int, q: float) -> np.ndarray:
    """Return P(Bin(steps, q) <= j). At 1e8 steps, SciPy's bdtr has only six correct digits."""
    beyond = _beyond(j, steps, q)
    # 1 - q has few of q's digits, which count where nearly all the mass is at or below j
    rest = np.where(j < steps, betainc(np.maximum(steps - j, 1), j + 1, 1 - q), 1.0)
    return np.where(beyond < 0.5, 1 - beyond, rest)


def _beyond(j: np.ndarray, steps: int, q: float) -> np.ndarray:
    return np.where(j < steps, betainc(j + 1, np.maximum(steps - j, 1), q), 0.0)


def _by_sum(q: float, mu: float, steps: int, epsilon: float, *, replaced: bool) -> float:
    """Return log delta of a test on the sum, at the best threshold x.

    The sum is N(j mu / sqrt(T), 1) with j ~ Bin(T, q).
    """
    mean, deviation = steps * q, math.sqrt(steps * q * (1 - q))
    j = np.unique(
        np.clip(np.floor(mean + deviation * np.linspace(-40, 40, 1601)), 0, steps).tolist()
        + [k for k in range(40) if k <= steps]
    )
    # blocks (j_i, j_(i+1)]: each mass is a difference of the smaller tail, against cancellation
    upper = np.append(j[1:], steps)
    with np.errstate(all="ignore"):
        left = _below(upper, steps, q) - _below(j, steps, q)
        right = _beyond(j, steps, q) - _beyond(upper, steps, q)
        mass = np.where(_beyond(j, steps, q) > 0.5, left, right)
        first = float(_below(j[:1], steps, q)[0])
        mass = np.where(mass > 0, mass, 0.0) * (1 - 1e-8)
        log_mass = np.append(np.log(mass), math.log(first) if first > 0 else -math.inf)
    low = np.append(j + (upper > j), 0.0)  # the smallest count of each block
    size = mu / math.sqrt(steps)
    shift = mean * size
    x = np.unique(
        np.concatenate(
            [
                shift + np.linspace(-40, 40, 121),
                shift + deviation * size * np.linspace(-40, 40, 121),
                np.linspace(-40, 40, 121),
                [epsilon / (shift or 1.0) + shift / 2] if shift > 1e-290 else [0.0],
            ]
        )
    )

    def mixed(tails: np.ndarray) -> np.ndarray:
        return logsumexp(log_mass + tails, axis=-1)

    ours = mixed(log_ndtr(np.subtract.outer(-x, -low * size)))
    if not replaced:
        return float(_difference(ours, epsilon + log_ndtr(-x)).max())
    # Q(sum > x) is largest for the smallest count of each block. P omits the missing mass; Q counts
    # it as j = 0.
    missing = max(1 - math.exp(float(logsumexp(log_mass))), 0.0) + 1e-8
    theirs = mixed(log_ndtr(np.subtract.outer(-x, low * size)))
    with np.errstate(all="ignore"):
        theirs = np.logaddexp(theirs, math.log(missing) + log_ndtr(-x))
    return float(_difference(ours, epsilon + theirs).max())


if __name__ == "__main__":
    main()
