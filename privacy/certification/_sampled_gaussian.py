"""Moments of the Poisson-sampled Gaussian, enclosed in balls.

The moment of order a is A = E (1 - q + q e^(mu z - mu^2/2))^a over z ~ N(0, 1), and
log(A) / (a - 1) is the Rényi divergence of (1-q) N(0,1) + q N(mu,1) from N(0,1)
(Mironov, Talwar and Zhang 2019). It is a binomial sum at whole orders, else an integral.
"""

from flint import arb, ctx

from privacy.certification._mixtures import sampled_gaussian
from privacy.certification._split import moment as by_panels

_MOST_TERMS = 20_000
_SHARE = 0.45  # nats of panels per bit


def moment(order: float, q: float, mu_squared: arb) -> arb:
    """Return a ball that contains A, or an upper bound by panels."""
    if order.is_integer() and order <= _MOST_TERMS:
        return _binomial(order, arb(q), mu_squared)
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
