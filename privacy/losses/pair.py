"""What one application of a mechanism loses: a dominating pair (P, Q), or bounds on moments.

A mechanism names its loss once, and every accounting method reads it: the closed-form profile,
the Rényi divergences, and the nodes of the contour integral. What a loss does not have is None.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the closed forms run without numpy
    from privacy.losses.divergences import Divergence
    from privacy.losses.profiles import Profile
    from privacy.losses.quadrature import LossModel


class Loss:
    """Bounds on the moments of a privacy loss; a frozen, hashable dataclass."""

    __slots__ = ()

    @property
    def divergence(self) -> "Divergence | None":
        """The Rényi divergence as a function of the order, an upper bound."""
        return None

    @property
    def rho(self) -> float | None:
        """The supremum of divergence / order over all orders > 1, rounded up: zCDP."""
        return None

    def sampled(self, sampling_probability: float) -> "Loss | None":
        """Return the loss on a Poisson sample under add/remove, None where none is known."""
        return None


class LossPair(Loss):
    """A dominating pair (P, Q) of one application, in both directions.

    "remove" has P for the output with the record and Q for the output without it; "add" the
    reverse. A symmetric pair loses the same in both.
    """

    __slots__ = ()

    @property
    def symmetric(self) -> bool:
        """Whether the loss has one distribution in both directions."""
        return False

    @property
    def claim(self) -> tuple[float, float]:
        """The (epsilon, delta) claim that the pair meets: how it enters sums of claims."""
        return self.profile.supremum, 0.0

    @property
    def profile(self) -> "Profile":
        """The privacy profile, the larger of both directions."""
        raise NotImplementedError

    @property
    def model(self) -> "LossModel | None":
        """Nodes of the loss, for its moments on a line in the complex plane."""
        return None

    @property
    def exact_model(self) -> bool:
        """Whether `model` is the pair's own; else it is that of a pair that loses a little more."""
        return True

    def sampled(self, sampling_probability: float) -> "LossPair | None":
        """Return ((1 - q) Q + q P, Q) when removing and (P, (1 - q) P + q Q) when adding."""
        return None


class MomentBound(Loss):
    """rho-zCDP: divergence at most order * rho. No pair follows from it."""

    def __init__(self, rho: float) -> None:
        self._rho = rho

    @property
    def divergence(self) -> "Divergence":
        """Linear in the order."""
        from privacy.losses.divergences import Linear

        return Linear(self._rho)

    @property
    def rho(self) -> float:
        """The claimed rho."""
        return self._rho
