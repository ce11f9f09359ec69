"""A privacy statement in prose."""

import math
from collections.abc import Mapping
from typing import Any

import privacy as dp
from privacy import checks
from privacy.answers.options import Asked
from privacy.answers.records import Record, plain
from privacy.answers.runs import NOISE, REST, SAMPLING, calibrated, proven, spent
from privacy.numerics.display import rounded
from privacy.relations import NeighboringRelation

_NEIGHBOURS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one of which holds one record more than the other. "
    "Replacing a record by another one counts as two changes.",
    NeighboringRelation.REPLACE_ONE: "in which one record has another value. How many records "
    "there are is not protected.",
    NeighboringRelation.REPLACE_SPECIAL: "in one of which a record is replaced by a null record, "
    "which contributes exactly zero. Everything public, such as how many records there are, is "
    "not protected.",
}

# Data sets of one size: no record's presence decides in which batch another one is.
_CHANGES = {
    str(NeighboringRelation.REPLACE_ONE): " (one record has another value)",
    str(NeighboringRelation.REPLACE_SPECIAL): " (a null record instead of one record)",
}

_NOT_COVERED = """
- Other looks at the same data: a clip norm or hyperparameters that were chosen on them, earlier \
or unreleased runs, evaluation on them.
- A person with several records: the loss of a group is larger than that of one record.
- Sums divided by a number that depends on the records: divide by a public or expected size.
- Code that does not do what is described: another sampler, contributions that are not clipped, \
a scaling between the clipping and the noise.
- A predictable random generator, and the rounding of floating-point noise.
- What can be learned about a person from the records of others."""

EXPLAIN = Asked(one_of=("epsilon", *NOISE), needs=("delta",), takes=(*SAMPLING, "epochs", *REST))


def explain(options: Mapping[str, Any]) -> Record:
    """State a guarantee in prose.

    Parameters
    ----------
    options
        As of `privacy.answers.epsilon`, and ``epochs``, the most steps that one record takes part
        in where batches are shuffled or of fixed size. An ``epsilon`` in place of the noise
        stands for the smallest noise that meets it.

    Returns
    -------
    dict
        The record that the command prints with ``--json``. Its ``statement`` names the
        neighboring data sets, gives epsilon for Poisson sampling and for shuffled or fixed-size
        batches, and lists what is not covered.

    Raises
    ------
    ValueError, TypeError, Infeasible, NotCertified, UnsupportedMechanism
        As `privacy.answers.epsilon`.
    """
    values = EXPLAIN.settled(options)
    epochs: int = values["epochs"] if "epochs" in values else values["steps"]
    if epochs > values["steps"]:
        remedy = "A record takes part in a step at most once."
        raise ValueError(checks.expected("epochs", epochs, f"<= steps={values['steps']}", remedy))
    if "epsilon" in values:
        answer = calibrated("explain", values)
    else:
        answer = proven(values, lambda certify: spent("explain", values, certify=certify))
    # the record takes part for certain, `epochs` times: no theorem on sampling is used
    sure = dp.repeat(dp.Gaussian(answer["noise_multiplier"]), epochs)
    answer |= {
        "epochs": epochs,
        "epsilon_without_poisson": {
            name: dp.account(sure, notion="gaussian", relation=NeighboringRelation(name)).epsilon(
                values["delta"]
            )
            for name in _CHANGES
        },
    }
    statement = (
        f"The claim\n{_claim(answer)}\n\n"
        f"The sampling\n{_sampling(answer, stated='epochs' in values)}\n\n"
        f"Not covered{_NOT_COVERED}"
    )
    return {**plain(answer), "statement": statement}


def _claim(answer: Record) -> str:
    epsilon, delta = rounded(answer["epsilon"]), rounded(answer["delta"])
    steps = answer["steps"]
    sums = "One noisy sum is" if steps == 1 else f"All {steps} noisy sums together are"
    order = f" at order {answer['order']:.3g}" if answer["order"] is not None else ""
    proof = "proven by interval arithmetic" if answer["certified"] else "an upper bound"
    relation = NeighboringRelation(answer["relation"])
    return (
        f"{sums} ({epsilon}, {delta})-differentially private under {relation}: any set of outcomes "
        f"is at most e^{epsilon} times as probable, plus {delta}, on one of two data sets as on "
        f"the other, {_NEIGHBOURS[relation]}\n"
        f"Each sum has Gaussian noise of standard deviation {rounded(answer['sigma'])} in every "
        f"coordinate: {rounded(answer['noise_multiplier'])} times the clip norm "
        f"{answer['clip_norm']:g}, which bounds the L2 norm of what one record adds to a sum.\n"
        f"Accounted by notion {answer['notion']}{order}; epsilon is {proof}."
    )


def _sampling(answer: Record, *, stated: bool) -> str:
    q, steps, epochs = answer["sampling_probability"], answer["steps"], answer["epochs"]
    assumed = (
        "Assumed: every record takes part in every step; there is no sampling."
        if q == 1
        else "Assumed: Poisson sampling. In every step, each record is included independently "
        f"with probability {q:g}, and which records were included stays secret."
    )
    most = f"at most {epochs} of the {steps} steps" if epochs < steps else "any of the steps"
    source = "as stated" if stated else "--epochs can state less"
    losses = "".join(
        f"\n- Under {relation}{_CHANGES[relation]}, {_loss(epsilon)}."
        for relation, epsilon in answer["epsilon_without_poisson"].items()
    )
    return (
        f"{assumed}\n"
        "Shuffled or fixed-size batches are another sampler. Where each record takes part in "
        f"{most} ({source}) and batches are formed without looking at the records, at the same "
        f"delta:{losses}\n"
        f"- Under {NeighboringRelation.ADD_OR_REMOVE_ONE}, no epsilon is given: one record more "
        "displaces others from their batches, which can move a sum by two clip norms in every "
        "step."
    )


def _loss(epsilon: float) -> str:
    if not math.isfinite(epsilon):
        return "there is no finite epsilon"
    return f"epsilon is {rounded(epsilon)}"
