"""The privacy loss of one application: a dominating pair (P, Q), or bounds on its moments."""

from privacy import losses
from privacy.losses.profiles import Profile


class Loss:
    """Base class: bounds on the moments of the privacy loss of one application.

    Subclasses are frozen, hashable dataclasses. A property that is not available is None.
    """

    __slots__ = ()

    @property
    def divergence(self) -> "losses.divergences.Divergence | None":
        """The Rényi divergence as a function of the order, an upper bound."""
        return None

    @property
    def rho(self) -> float | None:
        """The zCDP parameter: supremum of divergence / order over all orders > 1, rounded up."""
        return None

    def sampled(self, sampling_probability: float) -> "Loss | None":
        """Return the loss on a Poisson sample under ADD_OR_REMOVE_ONE, None if not known."""
        return None


class LossPair(Loss):
    """A dominating pair (P, Q) of one application, in both directions.

    In direction "remove", P is the output with the record, Q without it; "add" is the reverse.
    """

    __slots__ = ()

    @property
    def symmetric(self) -> bool:
        """Whether the loss has the same distribution in both directions."""
        return False

    @property
    def claim(self) -> tuple[float, float]:
        """The (epsilon, delta) claim that the pair satisfies, for sums of claims."""
        return self.profile.supremum, 0.0

    @property
    def profile(self) -> Profile:
        """The privacy profile, the larger of both directions."""
        raise NotImplementedError

    exact_profile = True
    """Whether `profile` is that of this pair, not of a slightly worse one."""

    @property
    def model(self) -> "losses.quadrature.LossModel | None":
        """Quadrature nodes of the loss, for its moments on a line in the complex plane."""
        return None

    @property
    def exact_model(self) -> bool:
        """Whether `model` is that of this pair, not of a slightly worse one."""
        return True

    gridded = False
    """Whether the pair has its own `on_grid`; `losses.grids` supports others."""

    def on_grid(
        self, direction: "losses.quadrature.Direction", step: float, *, upper: bool
    ) -> "losses.lattice.GridLoss":
        """Return an upper or a lower bound of the pair on a grid of losses."""
        raise NotImplementedError

    def sampled(self, sampling_probability: float) -> "LossPair | None":
        """Return ((1 - q) Q + q P, Q) when removing and (P, (1 - q) P + q Q) when adding."""
        return None


class MomentBound(Loss):
    """rho-zCDP: divergence at most order * rho. It implies no dominating pair."""

    def __init__(self, rho: float) -> None:
        self._rho = rho

    @property
    def divergence(self) -> "losses.divergences.Divergence":
        return losses.divergences.Linear(self._rho)

    @property
    def rho(self) -> float:
        return self._rho
