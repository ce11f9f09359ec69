"""Neighboring relations: which two data sets a guarantee compares."""

from enum import StrEnum


class NeighboringRelation(StrEnum):
    """The neighboring relation: how two neighboring data sets differ.

    Attributes
    ----------
    ADD_OR_REMOVE_ONE
        One data set has one record more than the other.
    REPLACE_ONE
        Both data sets have equally many records; one record has a different value.
    REPLACE_SPECIAL
        One record is replaced by a null record that contributes exactly zero ("zero-out");
        public data does not change.
    """

    ADD_OR_REMOVE_ONE = "ADD_OR_REMOVE_ONE"
    REPLACE_ONE = "REPLACE_ONE"
    REPLACE_SPECIAL = "REPLACE_SPECIAL"

    def __repr__(self) -> str:
        return f"NeighboringRelation.{self.name}"


ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = NeighboringRelation.REPLACE_SPECIAL
