"""The Gaussian privacy profile in plain `math`, without cancellation.

With m_n(x) the integral of y^n exp(-x y - y^2 / 2), y > 0, m_0 is Mills' ratio R(x) = (1 - Phi(x))
/ phi(x), and delta of mu-GDP is phi(a) (R(a) - R(b)), a = epsilon / mu - mu / 2, b = a + mu.
"""

import math

from privacy.numerics.rounding import U

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF = math.sqrt(0.5)


def _moment_ratios(x: float, count: int) -> list[float]:
    """Return r_n = m_n(x) / m_{n-1}(x) for n = 1 .. count, x >= 1.

    r_n = n / (x + r_{n+1}), backward from a large n: the error decays like exp(-2 x sqrt(2 n)).
    """
    start = count + 12 + int(330 / (x * x))
    ratio = 0.5 * (math.sqrt(x * x + 4 * start) - x)
    ratios = [0.0] * start
    for n in range(start, 0, -1):
        ratios[n - 1] = ratio = n / (x + ratio)
    return ratios[:count]


def mills_ratio(x: float) -> float:
    """Return (1 - Phi(x)) / phi(x) for x >= 0, accurate to a few units in the last place."""
    if x < 2:
        return math.sqrt(math.pi / 2) * math.exp(0.5 * x * x) * math.erfc(x * _SQRT_HALF)
    return 1 / (x + _moment_ratios(x, 1)[0])


def _odd_moments(x: float) -> list[float]:
    """Return m_n(x) / n! for n = 1, 3, .., 25, x >= 0."""
    moments = [mills_ratio(x)]
    if x < 1:
        # forward recurrence: its error grows slower than the weights of the series decrease
        moments.append(1 - x * moments[0])
        for n in range(1, 25):
            moments.append(max(0.0, n * moments[n - 1] - x * moments[n]))
    else:
        for ratio in _moment_ratios(x, 25):
            moments.append(moments[-1] * ratio)
    return [moments[n] / math.factorial(n) for n in range(1, 26, 2)]


def log_gaussian_delta(epsilon: float, mu: float) -> tuple[float, float]:
    """Return log delta of mu-GDP at `epsilon` >= 0, and an error bound on the log.

    Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) (Balle and Wang 2018, Theorem 8).
    """
    middle, half = epsilon / mu, 0.5 * mu
    a, b = middle - half, middle + half
    if a > 1e100:  # a^2 may overflow; delta is far below the smallest float
        return -math.inf, 0.0
    log_density = -0.5 * a * a - _LOG_SQRT_2PI
    # a includes the rounding of epsilon / mu, and d log delta / da is between -(a + 1) and 0
    error = U * (4 + 4 * (abs(a) + 1) * b)
    if error > 0.1 and a > 0:  # a^2 is rounded too much; use delta <= exp(-a^2 / 2)
        return -0.5 * max(0.0, a - 8 * U * b) ** 2, 0.0
    if mu < 1:
        odd = _odd_moments(middle)
        series = 0.0
        for coefficient in reversed(odd):
            series = series * half * half + coefficient
        # terms after the 25th are below 1e-20 of the first
        log_rest = math.log(max(mu * series, 1e-300))
        return log_density + log_rest, error + U * (10 + 1.5 * abs(log_rest))
    if a < 0:
        tail = 0.5 * math.erfc(a * _SQRT_HALF)
        delta = tail - math.exp(log_density) * mills_ratio(b)
        return math.log(delta), error + U * 8 * tail / delta
    upper = mills_ratio(a)
    difference = upper - mills_ratio(b)
    return log_density + math.log(difference), error + U * 12 * upper / difference


def log_tail(x: float) -> float:
    """Return log(1 - Phi(x)), accurate to a few units in the last place of max(1, x^2)."""
    if x < 0:
        return math.log(0.5 * math.erfc(x * _SQRT_HALF))
    return -0.5 * x * x - _LOG_SQRT_2PI + math.log(mills_ratio(x))


def quantile(p: float) -> float:
    """Return x with Phi(x) = p for 0 < p < 1, up to 8 units in the last place of 1 + |x|.

    Newton's method for the log of the upper tail, which is concave, so that the iterates decrease.
    """
    rest = min(p, 1 - p)
    log_rest = math.log(rest)
    x = math.sqrt(-2 * log_rest)
    while True:
        value = log_tail(x)
        density = math.exp(-0.5 * x * x - _LOG_SQRT_2PI - value)
        smaller = x + (value - log_rest) / density
        if not smaller < x:
            break
        x = smaller
    return x if p > 0.5 else -x
