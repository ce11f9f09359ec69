"""Moments of the Poisson-sampled Gaussian, enclosed in balls.

The moment of order a is A = E (1 - q + q e^(mu z - mu^2/2))^a over z ~ N(0, 1), and
log(A) / (a - 1) is the Rényi divergence of (1-q) N(0,1) + q N(mu,1) from N(0,1)
(Mironov, Talwar and Zhang 2019). `moment` chooses the binomial sum at whole orders, the binomial
series at fractional ones, and panels if these have too many terms.
"""

import math

from flint import arb, ctx

from privacy.certification._mixtures import sampled_gaussian
from privacy.certification._split import moment as by_panels

_MOST_TERMS, _MOST_PAIRS = 20_000, 2_000  # of the sum and of the series
_SHARE = 0.45  # nats of panels per bit


def moment(order: float, q: float, mu_squared: arb) -> arb:
    """Return a ball that contains A, or an upper bound by panels."""
    if order.is_integer() and order <= _MOST_TERMS:
        return _binomial(order, arb(q), mu_squared)
    if not order.is_integer() and order <= _MOST_PAIRS:
        return _series(order, arb(q), mu_squared)
    loss = sampled_gaussian(mu_squared, q, "remove")
    return by_panels(loss, order - 1, _SHARE * ctx.prec)


def _binomial(order: float, q: arb, mu_squared: arb) -> arb:
    """Return sum_k C(a, k) (1 - q)^(a - k) q^k e^(k (k - 1) mu^2 / 2) at a whole order a."""
    a = int(order)
    growth = mu_squared.exp()
    ratio = q / (1 - q)
    term = total = (1 - q) ** a
    for k in range(a):
        term = term * ratio * (a - k) / (k + 1)
        total += term
        ratio *= growth
    return total


def _series(order: float, q: arb, mu_squared: arb) -> arb:
    """Return A at a fractional order a by the binomial series on each side of z0.

    At z0 both parts of the base are equal. Below z0 the series is in powers k of the second part,
    above z0 in powers of the first, k = a - e. Term e is C(a, k) times the integral of
    (1 - q)^(a - e) q^e e^(e (mu z - mu^2/2)) (Mironov, Talwar and Zhang 2019, Section 3.3).
    """
    a, mu = arb(order), mu_squared.sqrt()
    log_rest, log_q = (1 - q).log(), q.log()
    split = mu / 2 + (log_rest - log_q) / mu
    root = arb(2).sqrt()

    def weight(e: arb, side: int) -> arb:
        log_weight = (a - e) * log_rest + e * log_q + e * (e - 1) / 2 * mu_squared
        return log_weight.exp() * (side * (e * mu - split) / root).erfc() / 2

    positive = math.floor(order) + 1  # C(a, k) > 0 up to here, then the signs alternate
    count = positive + _accelerated_terms()
    coefficient, terms = arb(1), []
    for k in range(count):
        terms.append(coefficient * (weight(arb(k), 1) + weight(a - k, -1)))
        coefficient = coefficient * (a - k) / (k + 1)
    return sum(terms[:positive], _alternating([abs(term) for term in terms[positive:]]))


def _accelerated_terms() -> int:
    return math.ceil(0.4 * ctx.prec)  # (3 + sqrt 8)^-n < 2^-prec


def _alternating(terms: list[arb]) -> arb:
    """Return the infinite sum of (-1)^k terms_k from its first n terms.

    If the terms are the moments of a positive measure on [0, 1], the error is at most the sum / d,
    d = ((3 + sqrt 8)^n + (3 - sqrt 8)^n) / 2 (Cohen, Rodriguez Villegas and Zagier 2000,
    Proposition 1). |C(a, k)|, k > a, are such moments (a Beta integral), and so are the integrals
    of powers of a ratio <= 1, and products of moments.
    """
    n = len(terms)
    power = (3 + arb(8).sqrt()) ** n
    d = (power + 1 / power) / 2
    b, c, total = arb(-1), -d, arb(0)
    for k, term in enumerate(terms):
        c = b - c
        total += c * term
        b = b * (2 * (k + n) * (k - n)) / ((2 * k + 1) * (k + 1))
    return total / d + terms[0] / d * arb(0, 1)
