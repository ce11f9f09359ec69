"""White-box audits of the noise distribution, on residuals: outputs minus true values."""

import math
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, ndtr

from privacy import checks
from privacy.audit.bounds import Floats
from privacy.audit.results import AuditResult, checked_significance
from privacy.mechanisms import Gaussian, Laplace, Mechanism

_LIKELY = 2.0**-31
"""Bound on the probability of one value, for noise whose scale is 2^30 lattice steps."""
# The usual defect is a scale slightly too small; wrong shapes are easier to detect.
_SHARES = {"scale": 0.99, "shape": 0.009, "repeats": 0.001}
Aspect = Literal["all", "scale", "shape", "repeats"]


def falsify_noise(
    claim: Mechanism,
    residuals: ArrayLike,
    *,
    clip_norm: float = 1.0,
    significance: float = 0.05,
    aspect: Aspect = "all",
) -> AuditResult:
    """Test residuals of the noise against the claimed distribution.

    Three tests share the significance level; the first gets most of it.

    - Scale, one-sided (too little noise): the sum of squares over sigma^2 (Gaussian), or twice the
      sum of absolute values over the scale (Laplace), is chi-square.
    - Shape, two-sided: the largest gap between the empirical and the claimed distribution function
      (Kolmogorov; p-value by the bound of Massart 1990, valid at every sample size).
    - Repeats: independent draws rarely give the same value twice. The noise may be rounded, to at
      most 2^-30 of its scale. True values must be below 2^22 times the scale: floats round larger
      ones more coarsely.

    `claim` is a `Gaussian` or `Laplace` mechanism. `residuals` are outputs minus true values,
    independent, of any shape, in the unit of the query. `clip_norm` > 0 is the unit of the claim's
    noise multiplier (or scale), and `significance` as in `falsify`. `aspect` ``"scale"``,
    ``"shape"`` or ``"repeats"`` runs that test alone, at the whole level.
    """
    level = checked_significance(significance)
    checks.one_of("aspect", aspect, get_args(Aspect), "Leave aspect out to run all tests.")
    unit = checks.real("clip_norm", clip_norm, "Pass the norm bound of one record.", above=0)
    x = np.asarray(residuals, dtype=np.float64).ravel()
    checks.refuse_if(not x.size, "residuals", (), "nonempty", "Pass hundreds of residuals.")
    if not np.isfinite(x).all():
        found = f"{np.count_nonzero(~np.isfinite(x))} of {x.size} residuals are not finite."
        return AuditResult(repr(claim), 0.0, level, found, x.size)
    if isinstance(claim, Gaussian):
        x = _in_units(x, claim.noise_multiplier, unit)
        scale = float(gammainc(x.size / 2, float(x @ x) / 2))
        spread, distribution = math.sqrt(float(x @ x) / x.size), ndtr(x)
    elif isinstance(claim, Laplace):
        x = _in_units(x, claim.scale, unit)
        scale = float(gammainc(x.size, float(np.abs(x).sum())))
        tail = 0.5 * np.exp(-np.abs(x))
        spread, distribution = float(np.abs(x).mean()), np.where(x < 0, tail, 1 - tail)
    else:
        remedy = "Audit each Gaussian and Laplace part alone, or audit the outputs."
        raise TypeError(checks.expected("claim", claim, "Gaussian or Laplace", remedy))
    gap, shape = _shape(np.sort(distribution))
    repeats = x.size - np.unique(x).size
    repeated = f"{repeats} of {x.size} residuals repeat an earlier one."
    tests = {
        "scale": (scale, f"The noise scale is {spread:.4g} times the claimed one."),
        "shape": (shape, f"The distribution functions differ by up to {gap:.4g}."),
        "repeats": (_repeated(repeats, x.size), repeated),
    }
    shares = _SHARES if aspect == "all" else {aspect: 1.0}
    p_value, evidence = min((tests[one][0] / share, tests[one][1]) for one, share in shares.items())
    return AuditResult(repr(claim), min(1.0, p_value), level, evidence, x.size)


def _in_units(x: Floats, scale: float, unit: float) -> Floats:
    """Return x over the noise's scale, clipped to 1e100 so that squares stay finite."""
    with np.errstate(over="ignore"):
        found: Floats = np.clip(x / unit / scale, -1e100, 1e100)
    return found


def _shape(ordered: Floats) -> tuple[float, float]:
    """Return the Kolmogorov distance from uniform, and an upper bound on its p-value."""
    n = ordered.size
    steps = np.arange(n + 1) / n
    gap = float(max(np.max(steps[1:] - ordered), np.max(ordered - steps[:-1])))
    return gap, min(1.0, 2 * math.exp(-2 * n * gap * gap))


def _repeated(repeats: int, n: int) -> float:
    """Return an upper bound on the probability of this many repeats (Chernoff).

    Residual k repeats an earlier one with probability <= (k - 1) times the likeliest value's.
    """
    expected = n * (n - 1) / 2 * _LIKELY
    if repeats <= expected:
        return 1.0
    return math.exp(repeats - expected + repeats * math.log(expected / repeats))
