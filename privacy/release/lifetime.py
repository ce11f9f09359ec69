"""A bound on each user's contribution to all releases together."""

import math
import os
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from privacy import checks
from privacy.numerics.exclusive import ReleaseLock
from privacy.numerics.rounding import ULP
from privacy.release import clipping
from privacy.release._tables import Floats, NotFinite
from privacy.release.clipping import Contributions, clip_rows, columns_of, sums_by_user

_EXHAUSTED = 1e-12  # fraction of C^2 below which a user's bound counts as exhausted


class LifetimeCap:
    """A cap on each user's contributions to all releases: sum over releases of ||c_u,b||^2 <= C^2.

    C is `clip_norm` > 0, an L2 norm in the data's unit. With independent Gaussian noise of standard
    deviation sigma in every release, ALL releases together are one Gaussian mechanism of noise
    multiplier sigma / C, adaptive or not (Smith and Thakurta 2022): account for ``Gaussian(sigma /
    C)`` once. Under REPLACE_ONE the sensitivity of all together is 2C, as that mechanism assumes.
    Account for every release with Laplace noise (other cases: :doc:`/release`). What each user has
    spent is as private as the data. Save the state before you use a release. Use one cap for all
    releases; threads can share it. It cannot be copied, pickled or used in a forked process.
    """

    def __init__(self, *, clip_norm: float) -> None:
        self.clip_norm = clipping.clip_norm_of(clip_norm)
        # for each user, the spent fraction of C^2, rounded up
        self._spent: dict[int | str, float] = {}
        self._lock, self._process = ReleaseLock(), os.getpid()

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
        """Sum each user's rows, clip the sum to the user's remaining bound, and spend its norm.

        Each row has an L2 norm of at most C, and is zero for a user whose bound is exhausted. The
        norm is spent even if you release nothing afterward. The parameters are as in
        `privacy.clip_users`. One cap takes either whole numbers or strings as users: 7 and "7"
        would be two users. Raises RuntimeError in a forked process.
        """
        sums, ids = sums_by_user(data, users, columns, not_finite)
        if os.getpid() != self._process:
            raise RuntimeError(
                "A forked process cannot use a LifetimeCap: each process would spend the whole "
                "cap. Use the cap in the process that created it."
            )
        with self._lock:
            clipped = self._spend(sums, ids)
        return Contributions(clipped, self.clip_norm, "l2", "user", tuple(ids)).with_cap_right()

    def _spend(self, sums: Floats, ids: list[Any]) -> Floats:
        if len({type(user) for user in (*ids[:1], *islice(self._spent, 1))}) > 1:
            remedy = "Use the same user identifiers in every release."
            shown = f"<{type(ids[0]).__name__}>"
            raise TypeError(checks.expected("users", shown, "of the type used before", remedy))
        spent = np.array([self._spent.get(user, 0.0) for user in ids])
        left = np.nextafter(1 - spent, 0.0)
        left[left < _EXHAUSTED] = 0.0
        # relative slack: a part for the square root, most of it for the sum of squares
        slack = 8 * (columns_of(sums).shape[0] + 16) * ULP
        bounds = np.nextafter(self.clip_norm * np.sqrt(left) * (1 - slack), 0.0)
        clipped = clip_rows(sums, bounds, "l2")
        shares = columns_of(clipped) / self.clip_norm
        used = clipping.sums_of_rows(shares * shares) * (1 + slack / 2)
        # a square that underflows must still count as spent
        used = np.where((columns_of(clipped) != 0).any(axis=0), used + 1e-300, 0.0)
        # the remaining fraction exceeds `used`, so capping at 1 rounds up enough
        spent = np.where(used > 0, np.minimum(np.nextafter(spent + used, np.inf), 1.0), spent)
        self._spent.update(zip(ids, spent.tolist(), strict=True))
        return clipped

    def __reduce__(self) -> Any:
        raise TypeError("A LifetimeCap cannot be copied. Save its state with to_json().")

    def to_json(self) -> dict[str, Any]:
        """Return the state, for a file that you keep as safe as the data."""
        with self._lock:
            spent = [[user, share] for user, share in self._spent.items()]
        note = "What each user has spent is private: keep this as safe as the data."
        form = {"type": "LifetimeCap", "sensitive": True, "note": note}
        return form | {"clip_norm": self.clip_norm, "spent": spent}

    @classmethod
    def from_json(cls, form: Any) -> "LifetimeCap":
        """Return the cap that `to_json` wrote; raise ValueError or TypeError for anything else."""
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
            shown = "<a state>"  # its contents are private
            raise ValueError(checks.expected("spent", shown, "pairs of user and share", remedy))
        return cap
