"""Samplers beside dp-accounting and beside a privacy loss distribution on a fine grid."""

import itertools
import math
import time
from collections.abc import Iterator

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import log_ndtr

import privacy as dp

REPLACE = dp.NeighboringRelation.REPLACE_ONE
Row = tuple[str, float, str, float | None]


Parts = list[tuple[float, float, float]]


def composed_delta(parts: Parts, steps: int, epsilon: float, step: float, reach: float) -> float:
    """Return delta of the replaced record in batches of fixed size, by FFT on a grid of losses.

    Each cell of the losses keeps its mass under P and under Q when it is moved to its two ends,
    so that the result is an upper bound whose error is of the order of step^2. Written from the
    definition of the pair: with each probability in `parts`, the losses > 0 of
    (1 - q) N(0) + q N(mu) against N(0), and their mirror image.
    """
    ends = step * np.arange(1, round(reach / step) + 1)
    above, cut = np.zeros(ends.size + 1), 1 - math.fsum(weight for weight, _, _ in parts)
    for weight, q, mu in parts:
        z = np.concatenate([[mu / 2], mu / 2 + np.log1p(np.expm1(ends) / q) / mu])
        off, on = np.exp(log_ndtr(-z)), np.exp(log_ndtr(mu - z))
        p, other = -np.diff((1 - q) * off + q * on), -np.diff(off)
        low, high = np.exp(-ends + step), np.exp(-ends)
        to_high = np.clip((p * low - other) / (low - high), 0, p)
        above[:-1] += weight * (p - to_high)
        above[1:] += weight * to_high
        cut += weight * ((1 - q) * off[-1] + q * on[-1])
    ends = np.concatenate([[0.0], ends])
    # the mirror image has the probabilities of Q
    below = above * np.exp(-ends)
    whole = np.concatenate([below[:0:-1], [0.0], above[1:]])
    whole[ends.size - 1] = 1 - math.fsum(whole) - cut
    lost = -math.expm1(steps * math.log1p(-cut))
    size = next_fast_len(whole.size, real=True)
    # a loss of 0 at index 0
    turned = np.roll(np.pad(whole, (0, size - whole.size)), -(ends.size - 1))
    power = irfft(rfft(turned) ** steps, size)
    losses = np.arange(size) * step
    losses[size // 2 + 1 :] -= size * step
    beyond = losses > epsilon
    finite = float(power[beyond] @ -np.expm1(epsilon - losses[beyond]))
    return lost + finite


def reference_epsilon(parts: Parts, steps: int, delta: float, near: float) -> float:
    """Return epsilon by the secant method on log delta, extrapolated in the grid's step."""
    found = []
    for step in (4e-5, 2e-5):

        def log_delta(epsilon: float, step: float = step) -> float:
            return math.log(composed_delta(parts, steps, epsilon, step, 2.5 * near + 12))

        a, b = near, near * 1.001
        fa, fb = log_delta(a), log_delta(b)
        for _ in range(3):
            a, fa, b = b, fb, b + (math.log(delta) - fb) * (b - a) / (fb - fa)
            fb = log_delta(b)
            if abs(fb - math.log(delta)) < 1e-10:
                break
        found.append(b)
    return (4 * found[1] - found[0]) / 3


def fixed_size(q: tuple[int, int], sigma: float, steps: int) -> dp.Mechanism:
    size, records = q
    inner = dp.Gaussian(sigma, replace_distance=1.0)  # their noise is relative to the sensitivity
    return dp.repeat(dp.FixedSizeSampled(inner, batch_size=size, records=records), steps)


def theirs_by_rdp(q: tuple[int, int], sigma: float, steps: int, delta: float) -> float:
    import dp_accounting as other
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant(neighboring_relation=other.NeighboringRelation.REPLACE_ONE)
    event = other.SampledWithoutReplacementDpEvent(q[1], q[0], other.GaussianDpEvent(sigma))
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))


def truncated(q: float, cap: int, records: int, sigma: float, steps: int) -> dp.Mechanism:
    one = dp.TruncatedPoisson(
        dp.Gaussian(sigma), sampling_probability=q, max_batch_size=cap, records=records
    )
    return dp.repeat(one, steps)


def theirs_truncated(
    q: float, cap: int, records: int, sigma: float, steps: int, delta: float
) -> float:
    import dp_accounting as other
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    event = other.dp_event.TruncatedSubsampledGaussianDpEvent(records, q, cap, sigma)
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))


def coupled_delta(
    q: float, cap: int, records: int, sigma: float, steps: int, epsilon: float
) -> float:
    """Return delta of Poisson samples + (1 + e^epsilon) T P(Bin(records, q) > cap)."""
    from privacy.numerics.binomial import log_binomial_tails

    poisson = dp.repeat(dp.PoissonSampled(dp.Gaussian(sigma), sampling_probability=q), steps)
    cut = math.exp(log_binomial_tails(records, q, cap + 1)[1])
    return dp.account(poisson).delta(epsilon) + (1 + math.exp(epsilon)) * steps * cut


def figures() -> Iterator[Row]:
    """Yield the figures of the samplers."""
    yield from _fixed_size()
    yield from _truncated()


def _fixed_size() -> Iterator[Row]:
    run = fixed_size((1, 100), 1.0, 1000)
    start = time.process_time()
    ours = dp.account(run, relation=REPLACE).epsilon(1e-5)
    yield "fixed size, q .01, sigma 1, 1000 steps, 1e-5: CPU", time.process_time() - start, "s", 1.0
    yield "  epsilon", ours, "", None
    reference = reference_epsilon([(1.0, 0.01, 1.0)], 1000, 1e-5, ours)
    yield "  relative difference to a fine grid", abs(ours / reference - 1), "", 1e-6
    antipodal = dp.repeat(dp.FixedSizeSampled(dp.Gaussian(1.0), batch_size=1, records=100), 1000)
    ours = dp.account(antipodal, relation=REPLACE).epsilon(1e-5)
    yield "  epsilon, replace_distance 2", ours, "", None
    reference = reference_epsilon([(1.0, 0.01, 2.0)], 1000, 1e-5, ours)
    yield "  relative difference to a fine grid", abs(ours / reference - 1), "", 1e-6
    inner = dp.Gaussian(1.0, replace_distance=1.0)
    again = dp.FixedSizeSampled(inner, batch_size=100, records=10_000, replacement=True)
    start = time.process_time()
    ours = dp.account(dp.repeat(again, 1000), relation=REPLACE).epsilon(1e-5)
    yield "  with replacement: CPU", time.process_time() - start, "s", 10.0
    yield "  epsilon", ours, "", None
    copies = range(1, 12)
    weights = [math.comb(100, j) * 1e-4**j * (1 - 1e-4) ** (100 - j) for j in copies]
    drawn = -math.expm1(100 * math.log1p(-1e-4))
    parts = [(w / drawn, drawn, float(j)) for w, j in zip(weights, copies, strict=True)]
    reference = reference_epsilon(parts, 1000, 1e-5, ours)
    yield "  relative difference to a fine grid", abs(ours / reference - 1), "", 1e-6
    worst = 0.0
    grid = itertools.product(
        ((1, 1000), (1, 100), (1, 10)), (0.6, 1.0, 2.0, 5.0), (1, 100, 1000), (1e-5, 1e-8)
    )
    for q, sigma, steps, delta in grid:
        ours = dp.account(fixed_size(q, sigma, steps), relation=REPLACE).epsilon(delta)
        worst = max(worst, ours / theirs_by_rdp(q, sigma, steps, delta))
    yield "fixed size over dp-accounting's RDP, largest of 72 ratios", worst, "", 1.0


def _truncated() -> Iterator[Row]:
    q, steps = 256 / 60000, 3516
    run = truncated(q, 300, 60000, 1.1, steps)
    start = time.process_time()
    ours = dp.account(run).epsilon(1e-5)
    yield "truncated, 256 / 60000, cap 300, 15 epochs: CPU", time.process_time() - start, "s", 1.0
    yield "  epsilon", ours, "", 2.3955
    yield "  epsilon of dp-accounting", theirs_truncated(q, 300, 60000, 1.1, steps, 1e-5), "", None
    worst = 0.0
    cases = [
        (q, cap, records, sigma, steps)
        for q, cap, records in ((256 / 60000, 280, 60000), (256 / 60000, 340, 60000))
        for sigma in (0.8, 2.0)
        for steps in (1, 1000)
    ]
    cases += [(0.01, 12, 1000, 1.0, 100), (0.1, 90, 1000, 1.0, 10), (0.5, 60, 100, 3.0, 50)]
    for case in cases:
        ours = dp.account(truncated(*case)).epsilon(1e-6)
        worst = max(worst, ours / theirs_truncated(*case, 1e-6))
    yield f"truncated over dp-accounting's PLD, largest of {len(cases)}", worst, "", 1.0
    worst = 0.0
    for cap in (300, 320, 350, 400):
        case = (q, cap, 60000, 1.1, steps)
        delta = dp.account(truncated(*case)).delta(2.0)
        worst = max(worst, delta / coupled_delta(*case, 2.0))
    yield "truncated over the coupling bound, largest delta ratio of 4", worst, "", 1.0
