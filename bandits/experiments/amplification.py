"""Poisson sampling of batches: true epsilon of the printed bound, and utility with sampling."""

import warnings
from typing import Any

from bandits.algorithms.baselines import AdaPrivateAmp, AdaPrivateTS
from bandits.experiments import runs
from bandits.experiments.printed_formula import PrintedAmp
from bandits.experiments.tables import Row, Setup, Table, claimed, spent

_Q = 0.3
_PRINTED = "Amp printed, rescaled"
_AMP = {0.5: 95.9, 1.0: 96.5, 2.0: 96.7, 5.0: 96.7}


def table(setup: Setup) -> Table:
    """Return utility and true epsilon by calibration and by q."""
    rows: list[Row] = []
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # from sampling and the printed bound, which this table evaluates
        for epsilon in setup.epsilons:
            rows += _utility(setup, epsilon)
        for q in (0.1, _Q, 0.5, 0.7):
            rows += _noise(setup, q)
    choices = (
        "q = 0.3 unless stated. Amp samples each round independently and keeps the sample secret.",
        "printed: the preprint's formula, orders 2 to 64. right: the exact privacy curve.",
        "rescaled: the released sums are divided by q.",
        "'contradicts' means that the true epsilon is larger than the claimed one.",
    )
    return Table("amplification", "Amplification by sampling", choices, tuple(rows))


def _utility(setup: Setup, epsilon: float) -> list[Row]:
    options = runs.private(setup, epsilon)
    sampled: dict[str, Any] = {"sampling_probability": _Q}
    algorithms = runs.baseline(setup) | runs.seed_and_ours(setup, epsilon)
    algorithms |= {
        "no sampling, exact": AdaPrivateTS(calibration="exact", **options),
        _PRINTED: PrintedAmp(**options, **sampled),
        "Amp right, rescaled": AdaPrivateAmp(**options, **sampled),
        "Amp right, not rescaled": AdaPrivateAmp(rescale=False, **options, **sampled),
    }
    played = runs.run(setup, algorithms)
    setting = f"epsilon={epsilon:g}"
    papers = {_PRINTED: _AMP[epsilon]}
    rows = runs.all_rows(setup, played, algorithms, epsilon, setting=setting, papers=papers)
    true = algorithms[_PRINTED].guarantee(runs.DELTA).epsilon
    measure = "claim: the true epsilon is at most the claimed one"
    verdict = spent(epsilon, true)
    rows.append(Row(setting, _PRINTED, measure, true, 0.0, epsilon, epsilon, true, verdict))
    whole = played.reward[runs.BASELINE][:, -1].mean() / 100
    gain, error = runs.paired(
        played.reward["Amp right, rescaled"][:, -1] / whole,
        played.reward["no sampling, exact"][:, -1] / whole,
    )
    measure = "claim: sampling earns 2 to 5 points at one guarantee"
    subject = "Amp right, rescaled - no sampling, exact"
    rows.append(Row(setting, subject, measure, gain, error, 2.0, verdict=claimed(gain, error)))
    return rows


def _noise(setup: Setup, q: float) -> list[Row]:
    """Return the noise and the true epsilon at a claimed epsilon of 1, without a simulation."""
    options = runs.private(setup, 1.0, sampling_probability=q)
    full = AdaPrivateTS(calibration="exact", **runs.private(setup, 1.0)).noise_multiplier
    right = AdaPrivateAmp(**options)
    printed = PrintedAmp(**options)
    true = printed.guarantee(runs.DELTA).epsilon
    setting = f"epsilon=1, q={q:g}"
    ratio = right.noise_multiplier / q / full
    return [
        Row(setting, "Amp printed", "true epsilon", true, 0.0, 1.0, 1.0, true, spent(1.0, true)),
        Row(
            setting,
            "Amp right",
            "claim: noise of the rescaled sum over that without sampling is < 1",
            ratio,
            claimed_epsilon=1.0,
            true_epsilon=right.guarantee(runs.DELTA).epsilon,
            verdict=claimed(1 - ratio, 0.0),
        ),
    ]
