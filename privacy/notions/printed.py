"""A formula that was printed as a bound and is not one: for comparison and negative tests."""

import math

from privacy import checks


def printed_subsampling_formula_not_a_bound(
    order: int, noise_multiplier: float, sampling_probability: float
) -> float:
    """Return a printed "RDP of the subsampled Gaussian", which understates the loss.

    log(1 + C(a, 2) 2 q^2 / s^2 + sum over j = 3 .. a of C(a, j) (2 q^2)^(j/2) / s^j) / (a - 1)
    equals log((1 + x)^a - a x) / (a - 1) with x = sqrt(2) q / s. It stays bounded as the order
    grows, and so claims pure differential privacy for Gaussian noise. Noise calibrated by it
    to epsilon = 1, delta = 1e-5 at q = 0.1 has a true epsilon of 67.5. Never use it to name a
    guarantee; ``account(..., notion="rdp")`` has the exact divergence.

    Parameters
    ----------
    order
        Rényi order, a whole number >= 2.
    noise_multiplier
        Standard deviation s over the clip norm, > 0.
    sampling_probability
        Poisson sampling probability q in (0, 1].
    """
    order = checks.count("order", order, "Pass a whole Rényi order, at least 2.")
    if order < 2:
        raise ValueError(checks.expected("order", order, ">= 2", "Pass a whole Rényi order."))
    sigma = checks.real(
        "noise_multiplier", noise_multiplier, "Pass sigma over the clip norm.", above=0
    )
    x = math.sqrt(2) * checks.probability(sampling_probability) / sigma
    tail = sum(math.comb(order, j) * x**j for j in range(2, order + 1))
    return math.log1p(tail) / (order - 1)
