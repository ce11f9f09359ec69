"""The privacy statement of `dpcalib explain`."""

import math
from collections.abc import Mapping
from typing import Any

import privacy as dp
from privacy import checks
from privacy.answers.batches import run_of
from privacy.answers.options import Asked
from privacy.answers.records import Record, plain
from privacy.answers.runs import NOISE, REST, SAMPLING, calibrated, proven, spent
from privacy.guarantees import attack_in_words
from privacy.numerics.display import rounded
from privacy.relations import NeighboringRelation

_NEIGHBORS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one contains exactly one record more than the other. "
    "Replacing a record counts as two changes.",
    NeighboringRelation.REPLACE_ONE: "they differ in the value of one record. The number of "
    "records is not protected.",
    NeighboringRelation.REPLACE_SPECIAL: "one has a null record, which contributes exactly zero, "
    "in place of a record of the other. Public information, such as the number of records, is not "
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

_RATE = 0.01
"""False positive rate of the attack in the statement."""

EXPLAIN = Asked(
    one_of=("epsilon", *NOISE), needs=("delta",), takes=(*SAMPLING, *REST), participations=True
)


def explain(options: Mapping[str, Any]) -> Record:
    """Write a privacy statement: what the guarantee protects, and its assumptions.

    The ``statement`` of the result defines the neighboring data sets, gives epsilon for the sampler
    and for other batches, and lists what is not covered. `options` are as in
    `privacy.answers.epsilon`, or have ``epsilon`` instead of the noise. ``epochs`` is also the
    largest number of steps in which one record participates if the batches are not drawn as stated.
    """
    values = EXPLAIN.settled(options)
    epochs: int = values["epochs"] if "epochs" in values else values["steps"]
    if values["steps"] is not None and epochs > values["steps"]:
        remedy = "A record participates in a step at most once. Pass fewer epochs."
        raise ValueError(checks.expected("epochs", epochs, f"<= steps={values['steps']}", remedy))
    if "epsilon" in values:
        answer = calibrated("explain", values)
    else:
        answer = proven(values, lambda certify: spent("explain", values, certify=certify))
    # The record participates in `epochs` steps with certainty: no amplification by sampling.
    sure = dp.repeat(dp.Gaussian(answer["noise_multiplier"]), epochs)
    losses = {}
    for name in _CHANGES:
        curve = dp.account(sure, notion="gaussian", relation=NeighboringRelation(name))
        losses[name] = curve.epsilon(values["delta"])
    answer |= {"epochs": epochs, "epsilon_without_poisson": losses}
    run = run_of(values | {"noise_multiplier": answer["noise_multiplier"]})
    curve = dp.account(run, notion=values["notion"], relation=values["relation"])
    most = curve.true_positive_rate(_RATE)
    answer["attack"] = {"false_positive_rate": _RATE, "true_positive_rate": most}
    statement = (
        f"Guarantee\n{_claim(answer)}\n\n"
        f"Attacks\n{attack_in_words(_RATE, most)} "
        f"Without the output, it is {100 * _RATE:g} %.\n\n"
        f"Sampling\n{_sampling(answer, stated='epochs' in values)}\n\n"
        f"Not covered{_NOT_COVERED}"
    )
    return {**plain(answer), "statement": statement}


def _claim(answer: Record) -> str:
    epsilon, delta = rounded(answer["epsilon"]), rounded(answer["delta"])
    steps = answer["steps"]
    sums = "one noisy sum" if steps == 1 else f"all {steps} noisy sums"
    if steps is None:
        sums = f"all noisy sums of {answer['epochs']} epochs"
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
        f"{rounded(answer['clip_norm'], up=False)}, which bounds the L2 norm of one record's "
        "contribution.\n"
        f"Accounting method: {answer['notion']}{order}. Epsilon is an upper bound{proof}."
    )


def _assumed(answer: Record) -> str:
    q, steps, epochs = answer["sampling_probability"], answer["steps"], answer["epochs"]
    kept = rounded(q or 0, up=False)
    size, records = answer["batch_size"], answer["records"]
    match answer["sampler"]:
        case "fixed-size":
            return (
                f"The guarantee assumes batches of fixed size: in every step, {size} of the "
                f"{records} records are drawn uniformly without replacement, independently of all "
                "other steps, and which records were drawn stays secret."
            )
        case "truncated-poisson":
            most = answer["max_batch_size"]
            return (
                "The guarantee assumes truncated Poisson sampling: in every step, each record is "
                f"included independently with probability {kept}. If more than {most} are, a "
                f"uniformly chosen subset of {most} is used. Which records were sampled stays "
                f"secret. The (larger) data set has {records} records, a public number."
            )
        case "random-allocation":
            return (
                "The guarantee assumes random allocation: in every epoch, each record takes part "
                f"in one of {steps // epochs} steps, drawn uniformly and independently of the "
                "other records, and which step stays secret."
            )
        case "shuffle":
            return (
                f"The guarantee assumes that each record is in at most one batch of each of "
                f"{epochs} epochs. Its batch may be public and must not depend on the contents of "
                "the records. No amplification by shuffling is claimed."
            )
    if q == 1:
        return "The guarantee assumes no sampling: every record participates in every step."
    return (
        "The guarantee assumes Poisson sampling: in every step, each record is included "
        f"independently with probability {kept}, and which records were sampled stays secret."
    )


_OTHERWISE = {
    "poisson": "Shuffled or fixed-size batches are not Poisson samples.",
    "fixed-size": "The batches of a shuffled epoch are not drawn independently in every step.",
    "truncated-poisson": "Shuffled or fixed-size batches are not truncated Poisson samples.",
    "random-allocation": "In a shuffled epoch, the steps of the records are not independent.",
    "shuffle": "Batches drawn in another way have their own bounds.",
}
"""Which batches are drawn in another way, by sampler."""


def _sampling(answer: Record, *, stated: bool) -> str:
    steps, epochs = answer["steps"], answer["epochs"]
    some = steps is None or epochs < steps
    whole = "steps" if steps is None else f"{steps} steps"
    most = f"at most {epochs} of the {whole}" if some else "any number of steps"
    source = "as given by --epochs" if stated else "pass --epochs to limit it"
    losses = "".join(
        f"\n- Under {relation}{_CHANGES[relation]}, {_loss(epsilon)}."
        for relation, epsilon in answer["epsilon_without_poisson"].items()
    )
    return (
        f"{_assumed(answer)}\n"
        f"{_OTHERWISE[answer['sampler']]} If each record participates in "
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
