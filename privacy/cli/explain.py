"""`dpcalib explain`: a privacy statement in prose."""

import math
import shutil
import textwrap

import click

import privacy as dp
from privacy import _checks
from privacy.cli.options import Values
from privacy.cli.output import Record, rounded
from privacy.cli.questions import question
from privacy.cli.runs import NOISE, REST, SAMPLING, calibrated, proven, spent
from privacy.relations import NeighboringRelation

_NEIGHBOURS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one holds one record more than the other "
    "(ADD_OR_REMOVE_ONE; replacing a record by another one counts as two changes)",
    NeighboringRelation.REPLACE_ONE: "both hold equally many records and one record has another "
    "value (REPLACE_ONE; how many records there are is not protected)",
    NeighboringRelation.REPLACE_SPECIAL: "one has a null record, which contributes exactly zero, "
    "in the place of a record of the other (REPLACE_SPECIAL; everything public, such as how many "
    "records there are, is the same and is not protected)",
}

_NOT_COVERED = (
    "Other looks at the same data: a clip norm or hyperparameters that were chosen on them, "
    "earlier or unreleased runs, evaluation on them.",
    "A person with several records: the loss of a group is larger than that of one record.",
    "Sums divided by a number that depends on the records: divide by a public or expected size.",
    "Code that does not do what is described: another sampler, contributions that are not "
    "clipped, a scaling between the clipping and the noise.",
    "A predictable random generator, and the rounding of floating-point noise.",
    "What can be learned about a person from the records of others.",
)


def _show(answer: Record) -> None:
    width = min(shutil.get_terminal_size().columns, 88)
    for line in answer["statement"].split("\n"):
        hang = "  " if line.startswith("- ") else ""
        click.echo(textwrap.fill(line, width, subsequent_indent=hang))


@question(
    one_of=("epsilon", *NOISE),
    needs=("delta",),
    takes=(*SAMPLING, "epochs", *REST),
    show=_show,
)
def explain(values: Values) -> Record:
    """State in prose what a run guarantees, what that rests on, what is not covered.

    Give the noise, or an --epsilon whose smallest noise is taken. The statement
    tells the loss with Poisson sampling and without that assumption.
    """
    epochs = values.get("epochs", values["steps"])
    if epochs > values["steps"]:
        remedy = "A record takes part in a step at most once."
        raise ValueError(_checks.expected("epochs", epochs, f"<= steps={values['steps']}", remedy))
    if "epsilon" in values:
        answer = calibrated("explain", values)
    else:
        answer = proven(values, lambda certify: spent("explain", values, certify))
    # the record takes part for certain, `epochs` times: no theorem on sampling is used
    sure = dp.repeat(dp.Gaussian(answer["noise_multiplier"]), epochs)
    curve = dp.account(sure, notion="gaussian", relation=values["relation"])
    answer |= {"epochs": epochs, "epsilon_without_poisson": curve.epsilon(values["delta"])}
    parts = ("The claim", *_claim(answer)), ("The sampling", *_sampling(answer, "epochs" in values))
    missing = ("Not covered", *(f"- {what}" for what in _NOT_COVERED))
    return answer | {"statement": "\n\n".join("\n".join(part) for part in (*parts, missing))}


def _claim(answer: Record) -> list[str]:
    steps, clip_norm = answer["steps"], answer["clip_norm"]
    epsilon, delta = rounded(answer["epsilon"]), rounded(answer["delta"])
    sums = "One noisy sum is" if steps == 1 else f"All {steps} noisy sums together are"
    proof = "proven by interval arithmetic" if answer["certified"] else "an upper bound"
    order = f" at order {answer['order']:.6g}" if answer["order"] is not None else ""
    neighbours = _NEIGHBOURS[NeighboringRelation(answer["relation"])]
    return [
        f"{sums} ({epsilon}, {delta})-differentially private: whatever set of outcomes is looked "
        f"at, its probability changes by a factor of at most e^{epsilon}, plus {delta}, between "
        f"two data sets of which {neighbours}.",
        f"Each sum has Gaussian noise of standard deviation {rounded(answer['sigma'])} in every "
        f"coordinate: {rounded(answer['noise_multiplier'])} times the clip norm {clip_norm:g}, "
        "which bounds the L2 norm of what one record adds to a sum.",
        f"Accounted by notion {answer['notion']}{order}; epsilon is {proof}.",
    ]


def _sampling(answer: Record, epochs_given: bool) -> list[str]:
    q, steps, epochs = answer["sampling_probability"], answer["steps"], answer["epochs"]
    sure = answer["epsilon_without_poisson"]
    loss = f"epsilon = {rounded(sure)}" if math.isfinite(sure) else "no finite epsilon"
    if q == 1:
        poisson = "Nothing is assumed: every record may take part in every step."
    else:
        poisson = (
            f"Assumed: each record takes part in each step by its own coin of probability {q:g} "
            "(Poisson sampling), tossed anew in every step, and who took part stays secret."
        )
    most = "one step" if epochs == 1 else f"{epochs} of the steps"
    source = "as stated" if epochs_given or epochs == steps == 1 else "the most possible"
    return [
        poisson,
        f"Without the Poisson assumption (shuffled or fixed-size batches): {loss} at the same "
        f"delta, if a record takes part in at most {most} ({source}) and which ones does not "
        "depend on other records.",
    ]
