"""The privacy statement of `dpcalib explain`."""

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

_NEIGHBORS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one contains exactly one record more than the other. "
    "Replacing a record counts as two changes.",
    NeighboringRelation.REPLACE_ONE: "they differ in the value of one record. The number of "
    "records is not protected.",
    NeighboringRelation.REPLACE_SPECIAL: "a null record, which contributes exactly zero, replaces "
    "one record in one of them. Public information, such as the number of records, is not "
    "protected.",
}

# Both data sets have the same size, so no record's presence changes the batch of another one.
_CHANGES = {
    str(NeighboringRelation.REPLACE_ONE): " (one record's value changes)",
    str(NeighboringRelation.REPLACE_SPECIAL): " (a null record replaces one record)",
}

_NOT_COVERED = """
- Other uses of the same data: choosing a clip norm or hyperparameters, earlier or unreleased \
runs, evaluation.
- A person with several records: the privacy loss of a group exceeds that of one record.
- Sums divided by a number that depends on the records: divide by a public or expected size.
- An implementation that differs from this description: another sampler, unclipped \
contributions, scaling between clipping and noise.
- A predictable random generator, and floating-point rounding of the noise.
- What can be inferred about a person from the records of others."""

EXPLAIN = Asked(one_of=("epsilon", *NOISE), needs=("delta",), takes=(*SAMPLING, "epochs", *REST))


def explain(options: Mapping[str, Any]) -> Record:
    """Write a privacy statement: what the guarantee protects, and its assumptions.

    Parameters
    ----------
    options
        As in `privacy.answers.epsilon`, and ``epochs``, the largest number of steps in which one
        record participates if batches are shuffled or of fixed size. Pass ``epsilon`` instead of
        the noise for the smallest noise that meets it.

    Returns
    -------
    dict
        The record that the command prints with ``--json``. Its ``statement`` defines the
        neighboring data sets, gives epsilon for Poisson sampling and for shuffled or fixed-size
        batches, and lists what is not covered.

    Raises
    ------
    ValueError, TypeError, Infeasible, NotCertified, UnsupportedMechanism
        As in `privacy.answers.epsilon`.
    """
    values = EXPLAIN.settled(options)
    epochs: int = values["epochs"] if "epochs" in values else values["steps"]
    if epochs > values["steps"]:
        remedy = "A record participates in a step at most once. Pass fewer epochs."
        raise ValueError(checks.expected("epochs", epochs, f"<= steps={values['steps']}", remedy))
    if "epsilon" in values:
        answer = calibrated("explain", values)
    else:
        answer = proven(values, lambda certify: spent("explain", values, certify=certify))
    # The record participates in `epochs` steps with certainty: no amplification by sampling.
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
        f"Guarantee\n{_claim(answer)}\n\n"
        f"Sampling\n{_sampling(answer, stated='epochs' in values)}\n\n"
        f"Not covered{_NOT_COVERED}"
    )
    return {**plain(answer), "statement": statement}


def _claim(answer: Record) -> str:
    epsilon, delta = rounded(answer["epsilon"]), rounded(answer["delta"])
    steps = answer["steps"]
    sums = "one noisy sum" if steps == 1 else f"all {steps} noisy sums"
    order = f" at order {answer['order']:.3g}" if answer["order"] is not None else ""
    proof = ", verified with interval arithmetic" if answer["certified"] else ""
    relation = NeighboringRelation(answer["relation"])
    return (
        f"The release M of {sums} is ({epsilon}, {delta})-differentially private under "
        f"{relation}: P[M(D) in S] <= e^{epsilon} * P[M(D') in S] + {delta} for any two "
        "neighboring data sets D and D' and any set S of outputs.\n"
        f"Two data sets are neighboring if {_NEIGHBORS[relation]}\n"
        f"Every coordinate of a sum has Gaussian noise with standard deviation "
        f"{rounded(answer['sigma'])}, {rounded(answer['noise_multiplier'])} times the clip norm "
        f"{answer['clip_norm']:g}, which bounds the L2 norm of one record's contribution.\n"
        f"Accounting method: {answer['notion']}{order}. Epsilon is an upper bound{proof}."
    )


def _sampling(answer: Record, *, stated: bool) -> str:
    q, steps, epochs = answer["sampling_probability"], answer["steps"], answer["epochs"]
    assumed = (
        "The guarantee assumes no sampling: every record participates in every step."
        if q == 1
        else "The guarantee assumes Poisson sampling: in every step, each record is included "
        f"independently with probability {q:g}, and which records were sampled stays secret."
    )
    most = f"at most {epochs} of the {steps} steps" if epochs < steps else "any number of steps"
    source = "as given by --epochs" if stated else "pass --epochs if fewer"
    losses = "".join(
        f"\n- Under {relation}{_CHANGES[relation]}, {_loss(epsilon)}."
        for relation, epsilon in answer["epsilon_without_poisson"].items()
    )
    return (
        f"{assumed}\n"
        "Shuffled or fixed-size batches are not Poisson samples. If each record participates in "
        f"{most} ({source}) and the batches do not depend on the contents of the records, then at "
        f"the same delta:{losses}\n"
        f"- Under {NeighboringRelation.ADD_OR_REMOVE_ONE}, no epsilon is given: adding a record "
        "can move other records to other batches, which can change the sum of every step by two "
        "clip norms."
    )


def _loss(epsilon: float) -> str:
    if not math.isfinite(epsilon):
        return "there is no finite epsilon"
    return f"epsilon is {rounded(epsilon)}"
