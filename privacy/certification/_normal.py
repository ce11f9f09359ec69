"""Closed forms of Gaussian noise in ball arithmetic."""

from flint import arb


def upper_tail(x: arb) -> arb:
    """Return P(Z > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def gaussian_delta(epsilon: arb, mu: arb) -> arb:
    """Return the delta of Balle and Wang 2018, Theorem 8."""
    middle, half = epsilon / mu, mu / 2
    return upper_tail(middle - half) - epsilon.exp() * upper_tail(middle + half)


def antipodal_delta(epsilon: arb, q: arb, mu_squared: arb) -> arb:
    """Return delta of (1-q) N(0,1) + q N(mu,1) against (1-q) N(0,1) + q N(-mu,1).

    Lebeda, Regehr, Kamath and Steinke 2024, arXiv 2405.20769; docs/theory/contour.md.
    """
    mu, gamma, u = mu_squared.sqrt(), epsilon.exp(), epsilon.expm1()
    half = (1 - q) / q * u * (mu_squared / 2).exp() / 2
    t = (half + (half * half + gamma).sqrt()).log() / mu
    replaced = upper_tail(t - mu) - gamma * upper_tail(t + mu)
    return q * replaced - (1 - q) * u * upper_tail(t)
