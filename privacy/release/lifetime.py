"""A cap on everything that a user ever contributes, whatever the number of releases."""

import math
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from privacy import checks
from privacy.numerics.exclusive import Claim
from privacy.numerics.rounding import ULP
from privacy.release._tables import Floats, NotFinite
from privacy.release.clipping import (
    Contributions,
    clip_norm_of,
    clip_rows,
    columns_of,
    sums_by_user,
    sums_of_rows,
)

_EXHAUSTED = 1e-12  # of the cap: what is left then is not worth a release


class LifetimeCap:
    """Clips what users contribute so that sum over releases of ||c_u,b||^2 <= C^2 for each user.

    With independent Gaussian noise of one standard deviation sigma in every release, ALL releases
    together are one Gaussian mechanism of noise multiplier sigma / C, chosen adaptively or not
    (Smith and Thakurta 2022): charge ``Gaussian(sigma / C)`` once. Under REPLACE_ONE the releases
    together move by at most 2C, which is what that mechanism charges. Noise that is correlated
    between releases needs another cap, and Laplace noise pays in each release.

    The cap remembers what every user has spent. Who is exhausted and who spent how much is as
    private as the data: it is never printed, logged or raised, and `to_json` marks it. Save the
    state before a release is used: what was lost in a crash must not be spent again. Give all
    releases one cap: two caps let users spend twice, so a cap cannot be copied or pickled, and a
    fork of the process cannot use it. Threads can share one.

    Parameters
    ----------
    clip_norm
        The cap C > 0, an L2 norm in the data's unit.

    Examples
    --------
    >>> import privacy as dp
    >>> cap = dp.LifetimeCap(clip_norm=5.0)
    >>> for _ in range(3):
    ...     print(cap.clip_users([3.0], ["ann"]).values.round(6))
    [3.]
    [3.]
    [2.645751]
    """

    def __init__(self, *, clip_norm: float) -> None:
        self.clip_norm = clip_norm_of(clip_norm)
        # of each user, the fraction of C^2 that is spent, rounded up
        self._spent: dict[int | str, float] = {}
        self._claim, self._process = Claim(), os.getpid()

    def __repr__(self) -> str:
        return f"LifetimeCap(clip_norm={self.clip_norm!r})"

    def clip_users(
        self,
        data: Any,
        users: Any,
        *,
        columns: Sequence[str] | None = None,
        not_finite: NotFinite = "zero",
    ) -> Contributions:
        """Sum each user's rows, clip the sum to what the user has left, and spend its norm.

        Parameters
        ----------
        data, users, columns, not_finite
            As in `privacy.clip_users`. A user is known again by being equal. One cap takes whole
            numbers or strings alone: 7 and "7" would have an allowance each.

        Returns
        -------
        Contributions
            Of L2 norm at most C each; a user with nothing left contributes zero. Spent even if
            nothing is released afterwards.

        Raises
        ------
        ValueError, TypeError
            A value is outside its domain.
        RuntimeError
            This is a fork of the process that made the cap.
        """
        sums, ids = sums_by_user(data, users, columns, not_finite)
        if os.getpid() != self._process:
            raise RuntimeError(
                "A fork of a LifetimeCap cannot spend: users would spend twice. Use the cap in the "
                "process that made it."
            )
        with self._claim:
            clipped = self._spend(sums, ids)
        return Contributions(clipped, self.clip_norm, "l2", "user", tuple(ids)).lasting()

    def _spend(self, sums: Floats, ids: list[Any]) -> Floats:
        """Return the users' sums, clipped to what each has left, and spend their norms."""
        kinds = {type(user) for user in (*ids[:1], *islice(self._spent, 1))}
        if len(kinds) > 1:
            remedy = "Name users as before, or they are taken for other people."
            shown = f"<{type(ids[0]).__name__}>"
            raise TypeError(checks.expected("users", shown, "of the kind known before", remedy))
        spent = np.array([self._spent.get(user, 0.0) for user in ids])
        left = np.nextafter(1 - spent, 0.0)
        left[left < _EXHAUSTED] = 0.0
        # of the relative slack, some is for the root and most for adding up what is spent
        slack = 8 * (columns_of(sums).shape[0] + 16) * ULP
        bounds = np.nextafter(self.clip_norm * np.sqrt(left) * (1 - slack), 0.0)
        clipped = clip_rows(sums, bounds, "l2")
        shares = columns_of(clipped) / self.clip_norm
        used = sums_of_rows(shares * shares) * (1 + slack / 2)
        # a square that vanished in the last float is still not nothing
        used = np.where((columns_of(clipped) != 0).any(axis=0), used + 1e-300, 0.0)
        # what is left is above what is used, so that 1 is rounded up enough
        spent = np.where(used > 0, np.minimum(np.nextafter(spent + used, np.inf), 1.0), spent)
        self._spent.update(zip(ids, spent.tolist(), strict=True))
        return clipped

    def __reduce__(self) -> Any:
        """Refuse copies and pickles: users would spend twice."""
        raise TypeError("A LifetimeCap cannot be copied. Store it once, with to_json().")

    def to_json(self) -> dict[str, Any]:
        """Return the state, for a file that is kept as safe as the data."""
        with self._claim:
            spent = [[user, share] for user, share in self._spent.items()]
        return {
            "type": "LifetimeCap",
            "sensitive": True,
            "note": "What each user has spent is private: keep this as safe as the data.",
            "clip_norm": self.clip_norm,
            "spent": spent,
        }

    @classmethod
    def from_json(cls, form: Any) -> "LifetimeCap":
        """Return the cap that `to_json` wrote, with every check.

        Raises
        ------
        ValueError, TypeError
            The form is not what `to_json` writes.
        """
        remedy = "Pass what to_json() wrote."
        if not isinstance(form, Mapping) or form.get("type") != "LifetimeCap":
            raise ValueError(checks.expected("form", "<a form>", "a LifetimeCap", remedy))
        cap = cls(clip_norm=form.get("clip_norm", math.nan))
        try:
            pairs = [(user, share) for user, share in form["spent"]]
            cap._spent = dict(pairs)
        except (KeyError, TypeError, ValueError):
            pairs = [(None, None)]
        kinds = {type(user) for user, _ in pairs}
        shares = all(type(share) in {int, float} and 0 <= share <= 1 for _, share in pairs)
        if len(pairs) > len(cap._spent) or not shares or kinds not in (set(), {int}, {str}):
            shown = "<a state>"  # never what it holds
            raise ValueError(checks.expected("spent", shown, "pairs of user and share", remedy))
        return cap
