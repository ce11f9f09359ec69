"""The theorems again, in mpmath at many digits, written from the definitions.

A profile is delta as a function of epsilon. Every float that goes in is read exactly.
"""

import mpmath as mp

DIGITS = 120
"""Enough where profiles of 1e-30 are differences of numbers near 1."""


def gaussian(mu):
    """N(mu, 1) against N(0, 1): the loss is monotone in x and equals epsilon at x."""
    mu = mp.mpf(mu)

    def profile(epsilon):
        x = epsilon / mu + mu / 2
        return _tail(x - mu) - mp.exp(epsilon) * _tail(x)

    return profile


def _tail(x):
    return mp.erfc(x / mp.sqrt(2)) / 2


def laplace(loss):
    """Two Laplace distributions `loss` scales apart."""
    loss = mp.mpf(loss)
    return lambda epsilon: -mp.expm1((epsilon - loss) / 2) if epsilon < loss else mp.mpf(0)


def response(loss, categories=2):
    """Randomized response: only the true answer's probability exceeds e^epsilon times the other."""
    loss = mp.mpf(loss)
    normal = mp.exp(loss) + categories - 1
    return lambda epsilon: (
        (mp.exp(loss) - mp.exp(epsilon)) / normal if epsilon < loss else mp.mpf(0)
    )


def sampled(inner, q):
    """The worse direction of a symmetric pair (P, Q) under Poisson sampling.

    Removed: (1-q) Q + q P - e^eps Q = q (P - e^deep Q). Added: Q - e^eps ((1-q) Q + q P)
    = c (Q - e^deep P).
    """
    q = mp.mpf(q)

    def profile(epsilon):
        growth = mp.expm1(epsilon)
        removed = q * inner(mp.log1p(growth / q))
        c = q - (1 - q) * growth
        added = c * inner(mp.log(q * mp.exp(epsilon) / c)) if c > 0 else mp.mpf(0)
        return max(removed, added)

    return profile


def antipodal(mu, q):
    """(1-q) N(0, 1) + q N(mu, 1) against (1-q) N(0, 1) + q N(-mu, 1)."""
    mu, q = mp.mpf(mu), mp.mpf(q)

    def profile(epsilon):
        # e^(mu x) where the densities' ratio is e^epsilon
        k = q * mp.exp(-mu * mu / 2)
        b = (1 - q) * mp.expm1(epsilon)
        x = mp.log((b + mp.sqrt(b * b + 4 * k * k * mp.exp(epsilon))) / (2 * k)) / mu
        ours = (1 - q) * _tail(x) + q * _tail(x - mu)
        return ours - mp.exp(epsilon) * ((1 - q) * _tail(x) + q * _tail(x + mu))

    return profile


def claims(loss, count, mass=0):
    """`count` releases that lose +-`loss`, each failing openly with probability `mass`."""
    loss = mp.mpf(loss)
    p = mp.exp(loss) / (1 + mp.exp(loss))
    nothing_failed = (1 - mp.mpf(mass)) ** count

    def profile(epsilon):
        total = mp.mpf(0)
        for i in range(count + 1):
            gap = epsilon - (count - 2 * i) * loss
            if gap >= 0:
                break
            total += mp.binomial(count, i) * p ** (count - i) * (1 - p) ** i * -mp.expm1(gap)
        return 1 - nothing_failed + nothing_failed * total

    return profile


def zcdp(rho):
    """The best order of rho-zCDP: exp(x ((1+x) rho - eps + log(x/(1+x)))) / (1+x), x > 0."""
    rho = mp.mpf(rho)

    def profile(epsilon):
        low, high = mp.mpf(-700), mp.mpf(700)
        for _ in range(150):  # the exponent's derivative in x is increasing in log x
            middle = (low + high) / 2
            x = mp.exp(middle)
            if (1 + 2 * x) * rho + mp.log(x / (1 + x)) < epsilon:
                low = middle
            else:
                high = middle
        x = mp.exp((low + high) / 2)
        log_delta = x * ((1 + x) * rho - epsilon + mp.log(x / (1 + x))) - mp.log1p(x)
        return min(mp.mpf(1), mp.exp(log_delta))

    return profile


def response_divergence(loss, categories=2):
    """log(p^a r^(1-a) + r^a p^(1-a) + (categories - 2) r) / (a - 1)."""
    loss = mp.mpf(loss)
    r = 1 / (mp.exp(loss) + categories - 1)
    p = r * mp.exp(loss)
    return lambda a: (
        mp.log(p**a * r ** (1 - a) + r**a * p ** (1 - a) + (categories - 2) * r) / (a - 1)
    )


def laplace_divergence(loss):
    """Mironov 2017, Proposition 6."""
    loss = mp.mpf(loss)
    return lambda a: (
        mp.log((a * mp.exp((a - 1) * loss) + (a - 1) * mp.exp(-a * loss)) / (2 * a - 1)) / (a - 1)
    )


def gaussian_divergence(mu_squared):
    """a mu^2 / 2."""
    mu_squared = mp.mpf(mu_squared)
    return lambda a: a * mu_squared / 2


def sampled_gaussian_divergence(mu, q):
    """The finite sum of Mironov, Talwar and Zhang 2019 at whole orders."""
    mu, q = mp.mpf(mu), mp.mpf(q)

    def divergence(a):
        total = sum(
            mp.binomial(a, k) * (1 - q) ** (a - k) * q**k * mp.exp(k * (k - 1) * mu**2 / 2)
            for k in range(int(a) + 1)
        )
        return mp.log(total) / (a - 1)

    return divergence
