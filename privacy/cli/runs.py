"""The five commands that each solve for one parameter of a run of noisy sums."""

from privacy.answers import runs
from privacy.cli.output import table
from privacy.cli.questions import command

_SIGMA = """Find the smallest noise that meets a target.

The target is --epsilon and --delta, or a bound on attacks: --advantage;
--true-positive-rate and --false-positive-rate; or --bayes-risk and --prior.
"""

sigma = command(
    runs.sigma,
    runs.SIGMA,
    _SIGMA,
    show=lambda answer: table(answer, down=("bayes_risk", "target_bayes_risk")),
)
epsilon = command(runs.epsilon, runs.EPSILON, "Find epsilon at a delta, given the noise.")
delta = command(runs.delta, runs.DELTA, "Find delta at an epsilon, given the noise.")
steps = command(runs.steps, runs.STEPS, "Find the largest number of steps that meets a target.")
sampling_probability = command(
    runs.sampling_probability,
    runs.SAMPLING_PROBABILITY,
    "Find the largest q that meets a target.",
    show=lambda answer: table(answer, down=("sampling_probability",)),
)
