"""Moments of the Poisson-sampled Gaussian, enclosed in balls.

The moment of order a is A = E (1 - q + q e^(mu z - mu^2/2))^a over z ~ N(0, 1), and
log(A) / (a - 1) is the Rényi divergence of (1-q) N(0,1) + q N(mu,1) from N(0,1)
(Mironov, Talwar and Zhang 2019). `moment` chooses the cheapest of three enclosures, all valid: the
binomial sum at whole orders, the trapezoid rule if the noise is not tiny, and the binomial series
at fractional orders if it is.
"""

import math

from flint import arb, ctx

_MOST_NODES = 100_000
# measured times, relative to one node of the trapezoid rule
_BINOMIAL_TERM = 0.3
_SERIES_TERM = 4


def moment(order: float, q: float, mu_squared: arb) -> arb:
    """Return a ball that contains A, or infinity if every enclosure would take too long."""
    grid = _Grid(order, float(mu_squared.sqrt()))
    if order.is_integer():
        other, cost = _binomial, _BINOMIAL_TERM * order
    else:
        other, cost = _series, _SERIES_TERM * 2 * (order + _accelerated_terms())
    if min(grid.nodes, cost) > _MOST_NODES:
        return arb("inf")
    if grid.nodes < cost:
        return _trapezoid(order, arb(q), mu_squared, grid)
    return other(order, arb(q), mu_squared)


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


class _Grid:
    """Nodes of the trapezoid rule: half-width of the strip, step, and span.

    In the strip |Im z| <= b < pi / mu the base 1 - q + q e^(mu z - mu^2/2) avoids the negative
    axis, so that the integrand is analytic. Its modulus there is at most e^(b^2/2), from the
    normal density, times its value at Re z. Hence the relative error of the rule is below
    2 e^(b^2/2) / (e^(2 pi b / h) - 1) (Trefethen and Weideman 2014, Theorem 5.1).
    """

    def __init__(self, order: float, mu: float) -> None:
        nats = ctx.prec * math.log(2)
        reach = math.sqrt(2 * nats)
        self.half_width = min(3 / mu, reach)
        self.step = 2 * math.pi * self.half_width / (nats + self.half_width**2 / 2)
        self.low, self.high = -reach, order * mu + reach
        self.nodes = (self.high - self.low) / self.step if self.step else math.inf

    def relative_error(self) -> arb:
        b = arb(self.half_width)
        bound = 2 * (b * b / 2).exp() / (2 * arb.pi() * b / self.step).expm1()
        return bound * arb(0, 1)


def _trapezoid(order: float, q: arb, mu_squared: arb, grid: _Grid) -> arb:
    """Return A by the trapezoid rule, including its error and both tails.

    The slope of the log of the integrand is between -z and a mu - z. So beyond the last nodes
    r > a mu and l < 0 the terms decrease at least geometrically, by factors exp(-(r - a mu) h)
    and exp(-|l| h) per step.
    """
    a, h, mu = arb(order), arb(grid.step), mu_squared.sqrt()
    first, last = math.floor(grid.low / grid.step), math.ceil(grid.high / grid.step)
    rest, half_square = 1 - q, h * h / 2
    weight, growth = q * (mu * h * first - mu_squared / 2).exp(), (mu * h).exp()
    terms = []
    for n in range(first, last + 1):
        terms.append((a * (rest + weight).log() - half_square * (n * n)).exp())
        weight *= growth
    tails = terms[0] / (-first * h * h).expm1() + terms[-1] / ((last * h - a * mu) * h).expm1()
    total = sum(terms, tails * arb(0.5, 0.5)) * h / (2 * arb.pi()).sqrt()
    return total / (1 + grid.relative_error())


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
