"""jax-privacy: a configuration of its training accountants that computes with `privacy`."""

from dataclasses import dataclass
from typing import Any

from dp_accounting import pld
from jax_privacy.accounting import PldAccountantConfig

from privacy.accounting import Notion
from privacy.interop.dp_accounting import DpAccountant
from privacy.relations import ADD_OR_REMOVE_ONE, NeighboringRelation


class _Accountant(DpAccountant, pld.PLDAccountant):  # type: ignore[misc]  # no types
    """A `DpAccountant` that is also a `PLDAccountant`, which user-level training asks for."""


@dataclass(kw_only=True)
class AccountantConfig(PldAccountantConfig):  # type: ignore[misc]  # no types
    """Use in place of ``PldAccountantConfig``, in every training accountant of jax-privacy.

    An accountant for the plans of ``jax_privacy.experimental.execution_plan`` is a
    `privacy.interop.dp_accounting.DpAccountant`. `relation` is the neighboring relation, and
    `notion` the accounting method, by default the tightest.
    """

    relation: NeighboringRelation = ADD_OR_REMOVE_ONE
    notion: Notion = "tightest"

    def create_accountant(self) -> Any:
        """Return an accountant with a new state."""
        return _Accountant(self.relation, notion=self.notion)
