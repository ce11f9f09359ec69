"""Proven bounds against mpmath integrals, on sums of one random sampled release and a Gaussian."""

import random
from collections.abc import Iterator

import mpmath as mp
from flint import arb, ctx

from privacy.certification import Unproven, _contour, _laplace, _mixtures, _split

_WORK = 5_000_000
_KINDS = (
    *(f"gaussian {direction}" for direction in ("remove", "add", "replace")),
    *(f"laplace {direction}" for direction in ("remove", "add")),
)


def sampled_gaussian(mu_squared: arb, q: float, direction: str) -> _mixtures.Mixture:
    """Return the loss of one record that is sampled with probability q."""
    return _mixtures.Mixture(mu_squared, (1 - arb(q), arb(q)), direction)


def gaussian_delta(epsilon: mp.mpf, mu: mp.mpf) -> mp.mpf:
    """Return delta of a Gaussian (Balle and Wang 2018, Theorem 8)."""
    low = mp.ncdf(-mu / 2 - epsilon / mu)
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * low


def exact(epsilon: float, size: float, q: float, mu: float, kind: str) -> mp.mpf:
    """Return delta by one integral over the noise of the sampled release."""
    direction = kind.split()[1]

    def ratio(loss: mp.mpf) -> mp.mpf:
        return 1 - mp.mpf(q) + mp.mpf(q) * mp.exp(loss)

    def part(mixed: mp.mpf, other: mp.mpf) -> mp.mpf:
        loss = -mp.log(mixed) if direction == "add" else mp.log(mixed / other)
        density = mp.mpf(1) if direction == "add" else mixed
        return density * gaussian_delta(epsilon - loss, mp.mpf(mu))

    if kind.startswith("laplace"):

        def at(x: mp.mpf) -> mp.mpf:
            return mp.exp(-abs(x)) / 2 * part(ratio(abs(x) - abs(x - size)), mp.mpf(1))

        ends = at(mp.mpf(0)) + at(mp.mpf(size))
        return ends + mp.quad(at, mp.linspace(0, size, 5))
    step, total = mp.mpf(1) / 16, mp.mpf(0)
    for n in range(-200, 240):
        x = n * step
        other = ratio(-size * x - size * size / 2) if direction == "replace" else mp.mpf(1)
        total += mp.npdf(x) * part(ratio(size * x - mp.mpf(size) ** 2 / 2), other)
    return step * total


def figures(draws: int, seed: int) -> Iterator[tuple[str, float, str, float]]:
    """Yield the worst shortfall and the worst excess of the proven bounds."""
    rng = random.Random(seed)
    short = excess = 0.0
    failed = 0
    for _ in range(draws):
        kind = rng.choice(_KINDS)
        size, q = 10 ** rng.uniform(-1, 0.3), 10 ** rng.uniform(-3, -0.3)
        mu = 10 ** rng.uniform(-1, 0)
        epsilon = mu * rng.uniform(0.5, 4)
        direction = kind.split()[1]
        with mp.workdps(30), ctx.workprec(128):
            value = exact(epsilon, size, q, mu, kind)
            if kind.startswith("laplace"):
                loss = _laplace.SampledLaplace(arb(size), arb(q), direction)
            else:
                loss = sampled_gaussian(arb(size) ** 2, q, direction)
            total = _contour.Sum(((loss, 1),), arb(mu) ** 2)
            try:
                bound = _split.delta(total, arb(epsilon), arb(float(value)), _WORK)
            except Unproven:
                failed += 1
                continue
            off = float(mp.mpf(bound.str(40, radius=False)) / value - 1)
        short, excess = max(short, -off), max(excess, off)
    yield f"{draws} bounds: below mpmath's integral by at most", short, "", 1e-20
    yield "... above it by at most", excess, "", 1e-9
    yield "... not found", failed, "", 0
