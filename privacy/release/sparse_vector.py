"""A stream of queries compared with a noisy threshold."""

import math
import os
from fractions import Fraction
from typing import Any

from privacy import checks
from privacy.mechanisms.sparse_vector import AboveThreshold
from privacy.numerics.exclusive import ReleaseLock
from privacy.release._laws import Law, draw
from privacy.release.choice import checked_sensitivity
from privacy.release.noise import LARGEST_SCALE, exact, random_source

_RESOLUTION = 30  # log2 of the smallest scale in lattice steps, unless the largest is too large


class SparseVector:
    """Answer whether queries are above a threshold, up to `max_positives` positive answers.

    Every value is rounded down to a lattice, of which the sensitivity is a whole number of steps.
    The noise is discrete Laplace noise, drawn exactly, for which the proof of Lyu, Su and Li holds
    too: the weight of a noisy threshold and the probability of noise >= x change by at most a
    factor e^(d / scale) when x changes by d.

    It cannot be copied, pickled or used in a forked process; threads can share it. Account for
    `mechanism` once, for all answers together. `threshold` is public; if it differs per query,
    subtract it from the value. `sensitivity` and `monotonic` are as in `choose`, of the value of
    one query; if monotonic, the noise is smaller. `answer_share` in [0, 1) is the fraction of
    epsilon for the values of positive answers. With 0, `ask` returns only booleans. `rng` and
    `simulation` are as in `discrete_gaussian`.
    """

    def __init__(
        self,
        mechanism: AboveThreshold,
        *,
        threshold: float | Fraction,
        sensitivity: float | Fraction = 1,
        monotonic: bool = False,
        answer_share: float = 0.0,
        rng: Any = None,
        simulation: bool = False,
    ) -> None:
        remedy = "Pass AboveThreshold(epsilon, max_positives=...)."
        checks.instance("mechanism", mechanism, AboveThreshold, "AboveThreshold", remedy)
        remedy = "Pass True if no two queries change in opposite directions."
        checks.flag("monotonic", monotonic, remedy)
        checks.real("threshold", threshold, "Pass a public number.")
        remedy = "Pass the fraction of epsilon for the values of positive answers, such as 0.2."
        share = Fraction(checks.real("answer_share", answer_share, remedy, at_least=0, below=1))
        size = checked_sensitivity(sensitivity)
        self.mechanism, self.is_simulation = mechanism, simulation
        self._left, epsilon = mechanism.max_positives, Fraction(mechanism.epsilon)
        reach = mechanism.max_positives if monotonic else 2 * mechanism.max_positives
        # Lyu, Su and Li 2017, section 4.2: the least variance of the difference of both noises
        compare = epsilon * (1 - share)
        first = compare / (1 + Fraction(float(reach) ** (2 / 3)))
        scales = [1 / first, reach / (compare - first)]
        if share:
            scales.append(mechanism.max_positives / (epsilon * share))
        bits = _RESOLUTION - math.ceil(math.log2(min(scales)))
        bits = max(0, min(bits, math.floor(math.log2(LARGEST_SCALE / max(scales)))))
        if max(scales) * 2**bits > LARGEST_SCALE:
            remedy = "Pass a larger epsilon: the noise does not fit in 64 bits."
            raise ValueError(checks.expected("mechanism", mechanism, "less noisy", remedy))
        self._step = size / 2**bits
        laws = [Law(scale * 2**bits, is_gaussian=False) for scale in scales]
        _, self._query, *answer = laws
        self._answer = answer[0] if answer else None
        self._source = random_source(rng, simulation=simulation)
        self._lock, self._process = ReleaseLock(), os.getpid()
        self._threshold = self._steps("threshold", threshold) + self._noise(laws[0])

    def __repr__(self) -> str:
        return f"SparseVector({self.mechanism!r}, finished={self.finished})"

    @property
    def finished(self) -> bool:
        """Whether `max_positives` answers were positive."""
        return self._left == 0

    def ask(self, value: float | Fraction) -> bool | float | None:
        """Return whether the value of a query, plus noise, is at least the noisy threshold.

        With `answer_share` > 0: None if below the threshold, else the value with fresh noise. The
        query may depend on earlier answers. `value` is exact; the error for one that is not finite
        does not contain it. Raises RuntimeError if it has finished, or the process was forked.
        """
        if os.getpid() != self._process:
            raise RuntimeError(
                "A forked process cannot use a SparseVector: two processes would share one noisy "
                "threshold. Use it in the process that created it."
            )
        with self._lock:
            if self.finished:
                raise RuntimeError(
                    "This SparseVector has given its last positive answer. Start another one and "
                    "account for it too."
                )
            steps = self._steps("value", value)
            above = steps + self._noise(self._query) >= self._threshold
            if above:
                self._left -= 1
            if self._answer is None:
                return above
            return float((steps + self._noise(self._answer)) * self._step) if above else None

    def _steps(self, name: str, value: Any) -> int:
        found = exact(value)
        remedy = "Pass the value of the query on the data."
        checks.refuse_if(found is None, name, "<a value>", "a finite number", remedy)
        return int(found // self._step)

    def _noise(self, law: Law) -> int:
        (noise,) = draw(law, 1, self._source).tolist()
        return int(noise)

    def __reduce__(self) -> Any:
        """Refuse copies and pickles: two would compare with one noisy threshold."""
        raise TypeError("A SparseVector cannot be copied. Start another one and account for it.")
