"""The five questions about a run of noisy sums: each command solves for one quantity."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import privacy as dp
from privacy.certification import can_prove, proves_guarantee
from privacy.cli.options import Values
from privacy.cli.output import Record, record, table
from privacy.cli.questions import question
from privacy.mechanisms import Mechanism

NOISE = ("noise_multiplier", "sigma")
SAMPLING = ("sampling_probability", "steps")
REST = ("clip_norm", "relation", "notion", "certify")


@question(needs=("epsilon", "delta"), takes=(*SAMPLING, *REST))
def sigma(values: Values) -> Record:
    """Find the smallest noise that meets a target epsilon and delta."""
    return calibrated("sigma", values)


@question(one_of=NOISE, needs=("delta",), takes=(*SAMPLING, *REST))
def epsilon(values: Values) -> Record:
    """Find the epsilon that a noise gives at a delta."""
    return proven(values, lambda certify: spent("epsilon", values, certify))


@question(one_of=NOISE, needs=("epsilon",), takes=(*SAMPLING, *REST))
def delta(values: Values) -> Record:
    """Find the delta that a noise gives at an epsilon."""
    return proven(values, lambda certify: spent("delta", values, certify))


@question(one_of=NOISE, needs=("epsilon", "delta"), takes=("sampling_probability", *REST))
def steps(values: Values) -> Record:
    """Find the largest number of steps that a target epsilon and delta allow."""
    most = dp.max_steps(
        **_target(values),
        noise_multiplier=values["noise_multiplier"],
        sampling_probability=values["sampling_probability"],
    )
    return proven(values, lambda certify: spent("steps", values | {"steps": most}, certify))


@question(
    one_of=NOISE,
    needs=("epsilon", "delta"),
    takes=("steps", *REST),
    show=lambda answer: table(answer, down=("sampling_probability",)),
)
def sampling_probability(values: Values) -> Record:
    """Find the largest sampling probability that a target epsilon and delta allow."""

    def solved(certify: bool) -> Record:
        most = dp.calibrate(
            lambda q: run_of(values | {"sampling_probability": q}),
            **_target(values),
            seek="largest",
            domain=(0, 1),
            certify=certify,
        )
        found = values | {"sampling_probability": most}
        return spent("sampling-probability", found, certify)

    return proven(values, solved)


def calibrated(name: str, values: Values) -> Record:
    """Return the record of the smallest noise for the target epsilon and delta."""

    def solved(certify: bool) -> Record:
        noise = dp.noise_multiplier(
            **_target(values),
            sampling_probability=values["sampling_probability"],
            steps=values["steps"],
            certify=certify,
        )
        return spent(name, values | {"noise_multiplier": noise}, certify)

    return proven(values, solved)


def _target(values: Values) -> dict[str, Any]:
    return {name: values[name] for name in ("epsilon", "delta", "relation", "notion")}


def run_of(values: Values) -> Mechanism:
    """Return the description of the run."""
    step = dp.PoissonSampled(
        dp.Gaussian(values["noise_multiplier"]),
        sampling_probability=values["sampling_probability"],
    )
    return dp.repeat(step, values["steps"])


def proven(values: Values, solve: Callable[[bool], Record]) -> Record:
    """Return ``solve(certify)``, where nothing was asked certified if it is a closed form."""
    if "certify" in values:
        return solve(values["certify"])
    found = solve(False)
    run = run_of(values | {name: found[name] for name in ("noise_multiplier", *SAMPLING)})
    notion = found["notion"]
    if notion == "rdp" or not can_prove(run, relation=values["relation"], notion=notion):
        return found
    try:
        return solve(True)
    except dp.NotCertified:
        return found


def spent(name: str, values: Values, certify: bool) -> Record:
    """Return the record of what the run guarantees at its delta or, without one, its epsilon."""
    curve = dp.account(run_of(values), notion=values["notion"], relation=values["relation"])
    at = "delta" if "delta" in values else "epsilon"
    guarantee = curve.guarantee(**{at: values[at]}, certify=certify)
    if not math.isfinite(guarantee.epsilon):
        raise dp.Infeasible(
            f"No finite epsilon holds at delta={guarantee.delta:g}: there is too little noise.",
            math.inf,
        )
    target = values.get("epsilon") if at == "delta" else None
    if target is not None and guarantee.epsilon > target:
        # the calibration met the target; the way back ended some last digits above it
        guarantee = replace(guarantee, epsilon=target)
        if certify and not proves_guarantee(guarantee):
            raise dp.NotCertified(f"No proof of {guarantee} for {guarantee.mechanism!r}.")
    return record(
        name,
        {
            "noise_multiplier": values["noise_multiplier"],
            "sigma": sigma_of(values),
            "clip_norm": values["clip_norm"],
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "target_epsilon": target,
            "sampling_probability": values["sampling_probability"],
            "steps": values["steps"],
            "relation": str(guarantee.relation),
            "notion": guarantee.notion,
            "order": guarantee.order,
            "certified": guarantee.certified,
        },
    )


def sigma_of(values: Values) -> float:
    """Return the noise in the unit of the clip norm, rounded up where it was computed."""
    if "sigma" in values:
        return float(values["sigma"])
    noise, clip_norm = values["noise_multiplier"], values["clip_norm"]
    return float(noise if clip_norm == 1 else math.nextafter(noise * clip_norm, math.inf))
