"""Estimates to start the search for the noise of a sampled Gaussian under RDP; not bounds."""

import math

import numpy as np

_GRID = np.geomspace(0.05, 4000.0, 64)  # orders - 1 of the initial grid
_MOST_STEPS = 30
_MOST_NODES = 10_000


def sampled_gaussian_start(
    epsilon: float, log_delta: float, q: float, steps: int
) -> tuple[float, float]:
    """Return the smallest noise over all orders, and its order, to about nine digits.

    Newton's method for two equations: log delta meets the target, and its derivative in the order
    is zero. It raises ArithmeticError if the numbers are too extreme for it.
    """
    with np.errstate(divide="raise", over="raise", invalid="raise"):
        log_noise, log_t = _first(epsilon, log_delta, q, steps)
        reach, last = 0.4, 0.0
        for _ in range(_MOST_STEPS):
            near = _Tilted(math.exp(-log_noise), math.exp(log_t), q)
            order, t = near.t + 1, near.t
            gain = math.log1p(-1 / order)
            allowed = t * (epsilon - gain) + math.log(order) + log_delta
            miss = steps * near.log_moment - allowed
            slope = steps * near.mean - epsilon + gain
            bend = steps * near.variance + 1 / (order * t)
            falls, tilts = steps * order * near.score, steps * (near.score + order * near.mixed)
            if abs(miss) > 1 and allowed > 0 and near.log_moment > 0:
                # far from the root: a step in log noise by log(log moment), and half an order step
                move = -math.log(steps * near.log_moment / allowed)
                move *= near.log_moment / (order * near.score)
                turn = min(max(-0.5 * slope / (bend * t), -0.25), 0.25)
            else:
                determinant = (falls * bend - slope * tilts) * t
                move = -(miss * bend - slope * slope) * t / determinant
                turn = -(falls * slope - tilts * miss) / determinant
            if abs(move) < 1e-8 and abs(turn) < 1e-5:
                noise = math.exp(log_noise + move)
                # the total variation bound may be smaller than that of any order
                nearest = steps * math.log1p(q * q * math.expm1(noise**-2))
                if nearest < 100 * math.exp(2 * log_delta):
                    break
                return noise, 1 + math.exp(log_t + turn)
            # steps oscillate where the last term of the moment becomes dominant: damp them
            reach = reach / 3 if move * last < 0 else min(1.5 * reach, 0.4)
            damped = min(1.0, reach / max(abs(move), 0.4 * abs(turn), 1e-300))
            last = move
            log_noise, log_t = log_noise + damped * move, log_t + damped * turn
    raise ArithmeticError("no start found")


def _first(epsilon: float, log_delta: float, q: float, steps: int) -> tuple[float, float]:
    """Return log noise and log(order - 1), estimated from two terms of the moment.

    M(a) - 1 is about C(a, 2) q^2 (e^(mu^2) - 1) + q^a e^(a (a - 1) mu^2 / 2).
    """
    t, a = _GRID, _GRID + 1
    budget = (t * (epsilon - np.log1p(-1 / a)) + np.log(a) + log_delta) / steps
    t, a, budget = t[budget > 0], a[budget > 0], budget[budget > 0]
    if not t.size:
        raise ArithmeticError("the best order is too large for an estimate")
    pairs = 0.5 * a * t
    log_budget = budget + np.log(-np.expm1(-budget))
    second = np.logaddexp(0.0, log_budget - np.log(pairs) - 2 * math.log(q))
    last = (log_budget - a * math.log(q)) / pairs
    mu_squared = np.minimum(second, last)
    best = int(mu_squared.argmax())
    if mu_squared[best] <= 0:
        raise ArithmeticError("the best order is too large for an estimate")
    return -0.5 * math.log(mu_squared[best]), math.log(t[best])


class _Tilted:
    """Moments of l = log P/Q under Q (P/Q)^order, and the decrease of l with log noise."""

    def __init__(self, mu: float, t: float, q: float) -> None:
        order = t + 1
        h = min(0.5, 0.4 / mu)
        if 18 + order * mu > _MOST_NODES * h:
            raise ArithmeticError("too many nodes for an estimate")
        z = np.arange(-9.0, 9.0 + order * mu, h)
        lift = q * np.exp(np.minimum(mu * z - 0.5 * mu * mu, 700.0))
        ratio = lift + (1 - q)
        loss = np.log(ratio)
        exponent = order * loss - 0.5 * z * z
        top = float(exponent.max())
        weight = np.exp(exponent - top)
        total = float(weight.sum())
        weight /= total
        score = (lift / ratio) * (mu - z) * mu
        by_loss = weight * loss
        self.t = t
        self.log_moment = top + math.log(total * h / math.sqrt(2 * math.pi))
        self.mean, self.score = float(by_loss.sum()), float(weight @ score)
        self.variance = float(by_loss @ loss) - self.mean**2
        self.mixed = float(by_loss @ score) - self.mean * self.score
