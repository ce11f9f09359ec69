"""Individual privacy filters: all users have the same budget, spent by their own contributions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from privacy import checks
from privacy.budget._measures import GRACE, SAVED, Immutable, MuSquared, down, saved, up
from privacy.certification import certified
from privacy.guarantees import Guarantee
from privacy.mechanisms import Mechanism, UnsupportedMechanism, ZeroConcentratedDP, brief
from privacy.notions.zcdp import rho_from_epsilon
from privacy.numerics.rounding import U
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

_SHARES = "Pass each user's contribution norm divided by the clip norm, one number per user."
_SCHEMA = "dpcalib.individual_budget/1"
_KEYS = ("epsilon", "delta", "users", "relation", "unit", "sensitive_spent")


@dataclass(frozen=True, init=False)
class IndividualBudget(Immutable):
    """A privacy filter for each user, charged by the norm of that user's own contributions.

    `spend` drops a user's data from a release that would exceed the user's budget (Feldman and
    Zrnic 2021, for Rényi divergences, hence for rho). You may publish the outputs and `guarantee`,
    but not what a user has spent, nor which or how many budgets are exhausted. Immutable.

    `epsilon` and `delta` are the guarantee of each user, at any stopping time, and `users` the
    number of users, in a fixed order. `relation` is ADD_OR_REMOVE_ONE or REPLACE_SPECIAL, where
    dropping a user's data equals having none. `unit` is as in `Budget`.
    """

    epsilon: float
    delta: float
    users: int
    relation: NeighboringRelation
    unit: str
    _spent: "NDArray[np.float64]" = field(repr=False, compare=False)

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        users: int,
        relation: NeighboringRelation = ADD_OR_REMOVE_ONE,
        unit: str = "one user",
    ) -> None:
        import numpy as np

        relation = checks.relation(relation)
        if relation is NeighboringRelation.REPLACE_ONE:
            rule = "ADD_OR_REMOVE_ONE or REPLACE_SPECIAL"
            remedy = "For REPLACE_ONE use a Budget, which charges all users alike."
            raise ValueError(checks.expected("relation", str(relation), rule, remedy))
        users = checks.count("users", users, "Pass the number of users.")
        self._set(epsilon=checks.epsilon(epsilon), delta=checks.delta(delta), users=users)
        self._set(relation=relation, unit=checks.unit(unit), _spent=np.zeros(users))

    @property
    def limit(self) -> float:
        """Return each user's limit on rho, lowered by a relative 1e-12 to cover rounding."""
        return down(Fraction(self._most) / (1 + GRACE))

    @property
    def _most(self) -> float:
        return rho_from_epsilon(self.epsilon, self.delta)

    @property
    def sensitive_spent(self) -> "NDArray[np.float64]":
        """Return the rho that each user has spent, rounded up. It is as private as the data."""
        return self._spent.copy()

    def spend(
        self, mechanism: Mechanism, shares: "ArrayLike"
    ) -> "tuple[IndividualBudget, NDArray[np.bool_]]":
        """Return the budget after a release, and the private mask of the users who may enter it.

        Call it before the mechanism reads the data. Omit the others, who spend nothing. `mechanism`
        is unsampled Gaussian noise, which may depend on earlier outputs. `shares` is each user's
        contribution norm in clip norms, in [0, 1], shape (users,); it costs share^2 * rho.
        """
        import numpy as np

        try:
            (squared,) = MuSquared().cost(mechanism, self.relation)
        except UnsupportedMechanism as refusal:
            raise UnsupportedMechanism(
                f"No individual cost is proven for {brief(mechanism)}. Spend unsampled Gaussians.",
                mechanism=refusal.mechanism,
                notion=MuSquared.notion,
            ) from refusal
        try:
            share = np.asarray(shares, dtype=float)
        except (TypeError, ValueError):
            raise TypeError(checks.expected("shares", "<shares>", "numbers", _SHARES)) from None
        rule = f"of shape ({self.users},)"
        checks.refuse_if(share.shape != (self.users,), "shares.shape", share.shape, rule, _SHARES)
        if not ((share >= 0) & (share <= 1)).all():  # the message omits the value, which is private
            raise ValueError(checks.expected("shares", "<shares>", ">= 0 and <= 1", _SHARES))
        rho = up(squared / 2 * (1 + 4 * Fraction(U)))  # covers the rounding of two products
        with np.errstate(under="ignore", over="ignore", invalid="ignore"):
            total = self._spent + np.nextafter(share * (share * rho), math.inf)
        total = np.where(share > 0, np.nextafter(total, math.inf), self._spent)
        admitted = total <= self._most
        return self._with(_spent=np.where(admitted, total, self._spent)), admitted

    def guarantee(self, *, certify: bool = False) -> Guarantee:
        """Return the guarantee of each user for the whole budget, at any stopping time.

        `certify` is that of `Budget.guarantee`; it proves the conversion of the largest rho.
        """
        theorem = "Feldman and Zrnic 2021: individual divergences add adaptively"
        basis = (self.relation, "zcdp", None, theorem)
        found = Guarantee(self.epsilon, self.delta, *basis, unit=self.unit)
        if not certify:
            return found
        claim = ZeroConcentratedDP(self._most, self.relation)
        return certified(replace(found, mechanism=claim), "epsilon")

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-compatible dict for `from_json`; its sensitive_spent is private."""
        values = (self.epsilon, self.delta, self.users, str(self.relation), self.unit)
        return {"schema": _SCHEMA, **dict(zip(_KEYS, (*values, self._spent.tolist()), strict=True))}

    @classmethod
    def from_json(cls, form: Mapping[str, Any]) -> "IndividualBudget":
        """Return the budget that `to_json` wrote. Restore it in one process at a time."""
        import numpy as np

        values = saved(form, _SCHEMA, _KEYS)
        given = values.pop("sensitive_spent")
        budget = cls(**values)
        numbers = isinstance(given, list) and all(type(one) in (int, float) for one in given)
        spent = np.asarray(given if numbers else [], dtype=float)
        if spent.shape != (budget.users,) or not ((spent >= 0) & np.isfinite(spent)).all():
            # the message omits the value, which is private
            rule = f"{budget.users} finite numbers >= 0"
            raise ValueError(checks.expected("sensitive_spent", "<spent>", rule, SAVED))
        return budget._with(_spent=spent)
