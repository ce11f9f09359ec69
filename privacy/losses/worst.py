"""The worst of several pairs of parallel releases."""

from dataclasses import dataclass

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
