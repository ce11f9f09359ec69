"""Proofs as answers: whether a claim is proven."""

from privacy.certification import THOROUGH, Unproven, proven_delta
from privacy.guarantees import ONE_RECORD, Guarantee


def proves_guarantee(guarantee):
    """Return whether a guarantee is proven."""
    try:
        proven_delta(guarantee, THOROUGH)
    except Unproven:
        return False
    return True


def proves(mechanism, *, epsilon, delta, relation, notion, order=None, size=1):
    """Return whether a mechanism is proven (epsilon, delta)-DP for `size` records."""
    unit = ONE_RECORD if size == 1 else f"{size} records"
    about = dict(mechanism=mechanism, unit=unit)
    return proves_guarantee(Guarantee(epsilon, delta, relation, notion, order, **about))
