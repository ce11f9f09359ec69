"""The five commands that each solve for one parameter of a run of noisy sums, and `verify`."""

import json
from functools import partial
from pathlib import Path

import click

from privacy import checks
from privacy.answers import runs
from privacy.cli import output
from privacy.cli.help import READ, Command
from privacy.cli.output import table
from privacy.cli.questions import JSON, command, refusals

_run = partial(command, certify=runs.certificate)

_SIGMA = """Find the smallest noise that meets a target.

The target is --epsilon and --delta, or a bound on attacks: --advantage;
--true-positive-rate and --false-positive-rate; or --bayes-risk and --prior.
"""

sigma = _run(runs.sigma, runs.SIGMA, _SIGMA)
epsilon = _run(runs.epsilon, runs.EPSILON, "Find epsilon at a delta, given the noise.")
delta = _run(runs.delta, runs.DELTA, "Find delta at an epsilon, given the noise.")
steps = _run(runs.steps, runs.STEPS, "Find the largest number of steps for a target.")
sampling_probability = _run(
    runs.sampling_probability, runs.SAMPLING_PROBABILITY, "Find the largest q that meets a target."
)


def _verify(*, file: Path, as_json: bool) -> None:
    """Prove a certificate again, from its file alone.

    CERTIFICATE is a file that --certificate wrote. The exit code is 0 if its claim is proven at
    another precision, and 4 if not.
    """
    with refusals():
        try:
            form = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            rule, remedy = f"JSON ({error})", "Pass a file that --certificate wrote."
            raise ValueError(checks.expected("CERTIFICATE", str(file), rule, remedy)) from error
        answer = runs.verify(form)
    output.reply(answer, table, as_json=as_json)


_FILE = click.Argument(["file"], metavar="CERTIFICATE", type=READ)
verify = Command("verify", params=[_FILE, JSON], callback=_verify, help=_verify.__doc__)
