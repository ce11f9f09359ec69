"""The worst of several pairs of parallel releases."""

from dataclasses import dataclass, fields

from privacy.losses.gaussian import AntipodalPair, SampledGaussianPair
from privacy.losses.laplace import LaplacePair, SampledLaplacePair
from privacy.losses.pair import LossPair
from privacy.losses.profiles import Profile, WorstProfile


@dataclass(frozen=True)
class WorstPair(LossPair):
    """A pair whose profile is the pointwise maximum of several profiles."""

    pairs: tuple[LossPair, ...]

    @classmethod
    def of(cls, *pairs: LossPair) -> LossPair:
        """Return the worst of all pairs, flattened; a single pair is returned itself."""
        flat: dict[LossPair, None] = {}
        for pair in pairs:
            flat.update(dict.fromkeys(pair.pairs if isinstance(pair, cls) else (pair,)))
        return next(iter(flat)) if len(flat) == 1 else cls(tuple(flat))

    @property
    def profile(self) -> Profile:
        return WorstProfile(tuple(pair.profile for pair in self.pairs))

    @property
    def claim(self) -> tuple[float, float]:
        claims = [pair.claim for pair in self.pairs]
        return max(epsilon for epsilon, _ in claims), max(mass for _, mass in claims)


_INCREASING = (AntipodalPair, LaplacePair, SampledGaussianPair, SampledLaplacePair)


def dominates(one: LossPair, other: LossPair) -> bool:
    """Return whether the profile of `one` is known to be at least that of `other` everywhere.

    Postprocessing (added Gaussian noise, or a mixture for Laplace noise) reduces the distance. A
    smaller sampling probability mixes the pair with a pair of equal distributions, and
    hockey-stick divergences are jointly convex.
    """
    if one == other:
        return True
    if type(one) is not type(other) or not isinstance(one, _INCREASING):
        return False
    return all(getattr(one, each.name) >= getattr(other, each.name) for each in fields(one))
