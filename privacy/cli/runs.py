"""The five questions about a run of noisy sums, as commands."""

from privacy.answers import runs
from privacy.cli.output import table
from privacy.cli.questions import command

sigma = command(runs.sigma, runs.SIGMA, "Find the smallest noise that meets a target.")
epsilon = command(runs.epsilon, runs.EPSILON, "Find the epsilon of a noise, at a delta.")
delta = command(runs.delta, runs.DELTA, "Find the delta of a noise, at an epsilon.")
steps = command(runs.steps, runs.STEPS, "Find how many steps a target allows.")
sampling_probability = command(
    runs.sampling_probability,
    runs.SAMPLING_PROBABILITY,
    "Find how much sampling a target allows.",
    show=lambda answer: table(answer, down=("sampling_probability",)),
)
