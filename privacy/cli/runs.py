"""The five questions about a run of noisy sums: each command solves for one quantity."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import privacy as dp
from privacy.certification import as_proven, can_prove
from privacy.cli.options import Values
from privacy.cli.output import Record, record, table
from privacy.cli.questions import question
from privacy.cli.units import sigma_from_noise_multiplier
from privacy.mechanisms import Mechanism

NOISE = ("noise_multiplier", "sigma")
SAMPLING = ("sampling_probability", "steps")
REST = ("clip_norm", "relation", "notion", "certify")


@question(needs=("epsilon", "delta"), takes=(*SAMPLING, *REST))
def sigma(values: Values) -> Record:
    """Find the smallest noise that meets a target."""
    return calibrated("sigma", values)


@question(one_of=NOISE, needs=("delta",), takes=(*SAMPLING, *REST))
def epsilon(values: Values) -> Record:
    """Find the epsilon of a noise, at a delta."""
    return proven(values, lambda certify: spent("epsilon", values, certify=certify))


@question(one_of=NOISE, needs=("epsilon",), takes=(*SAMPLING, *REST))
def delta(values: Values) -> Record:
    """Find the delta of a noise, at an epsilon."""
    return proven(values, lambda certify: spent("delta", values, certify=certify))


@question(one_of=NOISE, needs=("epsilon", "delta"), takes=("sampling_probability", *REST))
def steps(values: Values) -> Record:
    """Find how many steps a target allows."""
    most = dp.max_steps(
        **_target(values),
        noise_multiplier=values["noise_multiplier"],
        sampling_probability=values["sampling_probability"],
    )
    return proven(values, lambda certify: spent("steps", values | {"steps": most}, certify=certify))


@question(
    one_of=NOISE,
    needs=("epsilon", "delta"),
    takes=("steps", *REST),
    show=lambda answer: table(answer, down=("sampling_probability",)),
)
def sampling_probability(values: Values) -> Record:
    """Find how much sampling a target allows."""

    def solved(*, certify: bool) -> Record:
        most = dp.calibrate(
            lambda q: run_of(values | {"sampling_probability": q}),
            **_target(values),
            seek="largest",
            domain=(0, 1),
            certify=certify,
        )
        found = values | {"sampling_probability": most}
        return spent("sampling-probability", found, certify=certify)

    return proven(values, solved)


def calibrated(name: str, values: Values) -> Record:
    """Return the record of the smallest noise for the target epsilon and delta."""

    def solved(*, certify: bool) -> Record:
        noise = dp.noise_multiplier(
            **_target(values),
            sampling_probability=values["sampling_probability"],
            steps=values["steps"],
            certify=certify,
        )
        return spent(name, values | {"noise_multiplier": noise}, certify=certify)

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


def proven(values: Values, solve: Callable[..., Record]) -> Record:
    """Return ``solve(certify=...)``: as asked, else certified where that is a closed form."""
    if "certify" in values:
        return solve(certify=values["certify"])
    found = solve(certify=False)
    run = run_of(values | {name: found[name] for name in ("noise_multiplier", *SAMPLING)})
    notion = found["notion"]
    if notion == "rdp" or not can_prove(run, relation=values["relation"], notion=notion):
        return found
    try:
        return solve(certify=True)
    except dp.NotCertified:
        return found


def spent(name: str, values: Values, *, certify: bool) -> Record:
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
        # a target that is met can be missed by some last digits when it is solved for anew
        at_target = replace(guarantee, epsilon=target)
        if certify:
            guarantee = as_proven(at_target) or guarantee
        elif curve.delta(target) <= guarantee.delta:
            guarantee = at_target
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
    return sigma_from_noise_multiplier(values["noise_multiplier"], values["clip_norm"])
