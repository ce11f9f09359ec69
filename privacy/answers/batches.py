"""Samplers of a run: what a loader does, as options of the commands."""

import math
from collections.abc import Iterable
from typing import Any

import privacy as dp
from privacy import checks
from privacy.mechanisms import Mechanism

Values = dict[str, Any]

SAMPLERS = ("poisson", "fixed-size", "truncated-poisson", "random-allocation", "shuffle")
_NEEDS = {
    "fixed-size": ("batch_size", "records"),
    "truncated-poisson": ("max_batch_size", "records"),
    "random-allocation": ("batch_size", "records"),
    "shuffle": ("epochs",),
}
_BY_EPOCH = ("random-allocation", "shuffle")
WITHOUT_STEPS = (
    "Or pass --batch-size and --records, and --sampler shuffle if each epoch shuffles the records."
)
OPTIONS = ("sampler", "batch_size", "max_batch_size", "records", "epochs")


def by_batches(values: Values, takes: Iterable[str], *, participations: bool = False) -> Values:
    """Return checked options with sampling probability and steps computed from the batch size.

    Without ``"sampler"`` in `takes`, nothing changes. `participations` is as in `Asked`.
    """
    if "sampler" not in takes:
        return values
    values = {"sampler": "poisson", **values}
    sampler: str = values["sampler"]
    if "steps" not in takes and sampler in _BY_EPOCH:
        remedy = "For this sampler, run dpcalib epsilon with several values of --epochs."
        rule = f"one of {', '.join(name for name in SAMPLERS if name not in _BY_EPOCH)}"
        raise ValueError(checks.expected("sampler", sampler, rule, remedy))
    _refuse_unused(values, sampler, participations=participations)
    missing = [name for name in _NEEDS.get(sampler, ()) if name not in values]
    if sampler == "truncated-poisson" and "sampling_probability" not in values:
        missing += [name for name in ("batch_size",) if name not in values]
    if sampler == "poisson" and len(values.keys() & {"batch_size", "records"}) == 1:
        missing += [name for name in ("batch_size", "records") if name not in values]
    if missing:
        raise ValueError(f"Pass {flags(missing, ' and ')}, which the sampler {sampler} needs.")
    size, records = values.get("batch_size"), values.get("records")
    if size is not None and records is not None:
        remedy = "Pass the number of records in one batch."
        checks.refuse_if(size > records, "batch_size", size, f"<= records={records}", remedy)
        values = _sized(values, size, records)
    if sampler in _BY_EPOCH:
        values |= {"sampling_probability": None, "epochs": values.get("epochs", 1)}
        values.setdefault("steps", None)
    return values


def _sized(values: Values, size: int, records: int) -> Values:
    if values["sampler"] in _BY_EPOCH:
        return values | {"steps": math.ceil(records / size) * values.get("epochs", 1)}
    values = {"sampling_probability": size / records, **values}
    if "epochs" in values:
        least = -(-values["epochs"] * records // size)
        if values.setdefault("steps", least) < least:
            remedy = "Remove --steps, or --epochs."
            rule = f">= {least} for epochs={values['epochs']}"
            raise ValueError(checks.expected("steps", values["steps"], rule, remedy))
    return values


def _refuse_unused(values: Values, sampler: str, *, participations: bool) -> None:
    unused = set()
    sized = {"batch_size", "records"} <= values.keys()
    if "steps" in values and "poisson" in sampler and not (sized or participations):
        unused.add("epochs")
    if sampler != "truncated-poisson":
        unused.add("max_batch_size")
    if sampler in {"fixed-size", *_BY_EPOCH} or sized:
        unused.add("sampling_probability")
    if sampler in _BY_EPOCH:
        unused.add("steps")
    given = [name for name in sorted(unused) if name in values]
    if given:
        told = flags(given, " and ")
        lead = f"With these options, the sampler {sampler} does not use {told}."
        raise ValueError(f"{lead} Remove {told}.")


def flags(names: Iterable[str], joint: str = ", ") -> str:
    """Return options as long command-line flags, joined."""
    return joint.join(f"--{name.replace('_', '-')}" for name in names)


def steps_are_known(values: Values) -> bool:
    """Return whether the number of steps is given or follows from other options."""
    return (
        "steps" in values
        or values.get("sampler", "poisson") not in SAMPLERS  # refused later, by name
        or values.get("sampler") in _BY_EPOCH
        or {"batch_size", "records"} <= values.keys()
    )


def run_of(values: Values) -> Mechanism:
    """Return the mechanism of the run: Gaussian noise on every batch."""
    one = dp.Gaussian(values["noise_multiplier"])
    drawn = {name: values[name] for name in ("batch_size", "records") if name in values}
    cut = {name: values[name] for name in ("max_batch_size", "records") if name in values}
    q: float = values["sampling_probability"]
    step: Mechanism
    match values.get("sampler"):
        case "fixed-size":
            step = dp.FixedSizeSampled(one, **drawn)
        case "truncated-poisson":
            step = dp.TruncatedPoisson(one, sampling_probability=q, **cut)
        case "random-allocation":
            epochs = values["epochs"]
            step = dp.RandomAllocation(one, steps=values["steps"] // epochs, epochs=epochs)
            return step
        case "shuffle":
            return dp.Epochs(one, passes=values["epochs"])
        case _:
            step = dp.PoissonSampled(one, sampling_probability=q)
    return dp.repeat(step, values["steps"])
