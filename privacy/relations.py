"""Neighboring relations: which two data sets a guarantee compares."""

from enum import StrEnum


class NeighboringRelation(StrEnum):
    """What one record may do between two neighboring data sets.

    Attributes
    ----------
    ADD_OR_REMOVE_ONE
        One data set holds one record more than the other.
    REPLACE_ONE
        Both hold the same number of records; one record has another value.
    REPLACE_SPECIAL
        One record is replaced by a null record whose contribution is exactly
        zero ("zero-out"); everything public stays as it is.
    """

    ADD_OR_REMOVE_ONE = "ADD_OR_REMOVE_ONE"
    REPLACE_ONE = "REPLACE_ONE"
    REPLACE_SPECIAL = "REPLACE_SPECIAL"


ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE
REPLACE_SPECIAL = NeighboringRelation.REPLACE_SPECIAL
