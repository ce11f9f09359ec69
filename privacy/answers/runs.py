"""Solve for one of five parameters of a run of noisy sums."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import privacy as dp
from privacy.answers.batches import OPTIONS, run_of
from privacy.answers.options import RISKS, Asked, Values, sigma_of
from privacy.answers.records import Record, record
from privacy.calibration.questions import solved_noise
from privacy.certification import QUICK, Unproven, as_proven, can_prove, proven_delta
from privacy.relations import NeighboringRelation

NOISE = ("noise_multiplier", "sigma")
SAMPLING = ("sampling_probability", "steps", *OPTIONS)
REST = ("clip_norm", "relation", "notion", "certify")

SIGMA = Asked(needs=("epsilon", "delta"), takes=(*SAMPLING, *REST), risks=True)
EPSILON = Asked(one_of=NOISE, needs=("delta",), takes=(*SAMPLING, *REST))
DELTA = Asked(one_of=NOISE, needs=("epsilon",), takes=(*SAMPLING, *REST))
STEPS = Asked(NOISE, ("epsilon", "delta"), ("sampling_probability", *OPTIONS[:-1], *REST))
SAMPLING_PROBABILITY = Asked(one_of=NOISE, needs=("epsilon", "delta"), takes=("steps", *REST))


def sigma(options: Mapping[str, Any]) -> Record:
    """Find the smallest noise that meets a target.

    `options` has ``epsilon`` and ``delta``; or ``advantage``; or ``true_positive_rate`` and
    ``false_positive_rate``; or ``bayes_risk`` and ``prior``. Options with defaults:
    ``sampling_probability`` (1), ``steps`` (1), ``clip_norm`` (1), ``relation``
    (``"add-or-remove-one"``), ``notion`` (``"tightest"``) and ``certify`` (certify if it is fast).
    Raises `Infeasible` if no value meets the target or no finite epsilon holds, `NotCertified` if
    ``certify`` is True and no proof is found, and `UnsupportedMechanism` if no bound is proven.
    """
    values = SIGMA.settled(options)
    return calibrated("sigma", values) if "epsilon" in values else _calibrated_to_risk(values)


def epsilon(options: Mapping[str, Any]) -> Record:
    """Find epsilon at a delta, given the noise.

    `options` has ``delta``, and ``noise_multiplier`` or ``sigma`` (in the unit of ``clip_norm``).
    Other options, and exceptions, are as in `privacy.answers.sigma`.
    """
    values = EPSILON.settled(options)
    return proven(values, lambda certify: spent("epsilon", values, certify=certify))


def delta(options: Mapping[str, Any]) -> Record:
    """Find delta at ``epsilon``; other `options` are as in `privacy.answers.epsilon`."""
    values = DELTA.settled(options)
    return proven(values, lambda certify: spent("delta", values, certify=certify))


def steps(options: Mapping[str, Any]) -> Record:
    """Find the largest number of steps for a target; `options` as in `privacy.answers.epsilon`."""
    values = STEPS.settled(options)

    def solved(*, certify: bool) -> Record:
        target = _of(values, *_TARGET) | {"certify": certify}
        if values["sampler"] == "poisson":
            most = dp.max_steps(**target, **_of(values, "noise_multiplier", "sampling_probability"))
        else:
            target |= {"seek": "largest", "domain": (1, math.inf), "integer": True}
            most = dp.calibrate(lambda k: run_of(values | {"steps": k}), **target)
        return spent("steps", values | {"steps": most}, certify=certify)

    return proven(values, solved)


def sampling_probability(options: Mapping[str, Any]) -> Record:
    """Find the largest sampling probability for a target; `options` are as in `epsilon`."""
    values = SAMPLING_PROBABILITY.settled(options)

    def solved(*, certify: bool) -> Record:
        options = _of(values, *_TARGET, "noise_multiplier", "steps")
        most = dp.max_sampling_probability(**options, certify=certify)
        found = values | {"sampling_probability": most}
        return spent("sampling-probability", found, certify=certify)

    return proven(values, solved)


def calibrated(name: str, values: Values) -> Record:
    """Return the record of the smallest noise that meets the target epsilon and delta."""

    def solved(*, certify: bool) -> Record:
        target = _of(values, *_TARGET) | {"certify": certify}
        if values["sampler"] == "poisson":
            noise, family = solved_noise(**target, **_of(values, "sampling_probability", "steps"))
            curve, answer = family.asked(noise)
            # the search ended with this answer; a closed form takes no time to ask again
            if not certify and answer.error and answer.order is None:
                met = curve._guarantee(values["epsilon"], values["delta"], answer)
                return _told(name, values | {"noise_multiplier": noise}, met)
        else:
            noise = dp.calibrate(lambda x: run_of(values | {"noise_multiplier": x}), **target)
        return spent(name, values | {"noise_multiplier": noise}, certify=certify)

    return proven(values, solved)


def _calibrated_to_risk(values: Values) -> Record:
    """Return the record of the smallest noise that meets a target for attacks."""
    target = {name: values[name] for name in RISKS if name in values}
    how = _of(values, "notion", "relation") | {"certify": values.get("certify", False)}
    if values["sampler"] == "poisson":
        noise = dp.noise_multiplier(**target, **how, **_of(values, "sampling_probability", "steps"))
    else:
        noise = dp.calibrate(lambda x: run_of(values | {"noise_multiplier": x}), **target, **how)
    found = values | {"noise_multiplier": noise, "certified": how["certify"]}
    found |= {"sigma": sigma_of(found), "relation": str(values["relation"])}
    curve = dp.account(run_of(found), notion=values["notion"], relation=values["relation"])
    bounds = {f"target_{name}": target[name] for name in _BOUNDED if name in target}
    rest = _of(found, "sampling_probability", "steps", "relation", "notion", "certified")
    return record("sigma", _of(found, *_NOISE) | _risks(curve, target) | bounds | rest)


def _risks(curve: dp.Curve, target: Values) -> Record:
    """Return a bound on attacks, at the rate or the prior of a target."""
    if "prior" in target:
        return {"prior": target["prior"], "bayes_risk": curve.bayes_risk(target["prior"])}
    if "false_positive_rate" in target:
        rate = target["false_positive_rate"]
        return {"true_positive_rate": curve.true_positive_rate(rate), "false_positive_rate": rate}
    return {"advantage": curve.advantage()}


_BOUNDED = ("advantage", "true_positive_rate", "bayes_risk")
_TARGET = ("epsilon", "delta", "relation", "notion")
_NOISE = ("noise_multiplier", "sigma", "clip_norm")
_SHOWN = (*_NOISE, "epsilon", "delta", "target_epsilon", *SAMPLING, "relation", "notion", "order")


def _of(values: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: values[name] for name in names}


def proven(values: Values, solve: Callable[..., Record]) -> Record:
    """Return ``solve(certify=...)``. By default, certify where it takes less than about 0.1 s."""
    if "certify" in values:
        return solve(certify=values["certify"])
    found = solve(certify=False)
    run = run_of(values | {name: found[name] for name in ("noise_multiplier", *SAMPLING)})
    notion = found["notion"]
    if notion == "rdp" or not can_prove(run, relation=values["relation"], notion=notion):
        return found
    try:
        proven_delta(_guaranteed(found), QUICK)
    except Unproven:
        if notion in ("contour", "pld"):
            return found
    else:
        return found | {"certified": True}
    try:
        return solve(certify=True)
    except dp.NotCertified:
        return found


def spent(name: str, values: Values, *, certify: bool) -> Record:
    """Return the record of the run's guarantee at its delta or, without a delta, its epsilon."""
    curve = dp.account(run_of(values), notion=values["notion"], relation=values["relation"])
    at = "delta" if "delta" in values else "epsilon"
    guarantee = curve.guarantee(**{at: values[at]}, certify=certify)
    if not math.isfinite(guarantee.epsilon):
        message = f"No finite epsilon holds at delta={guarantee.delta:g}. Increase the noise."
        raise dp.Infeasible(message, math.inf)
    target = values.get("epsilon") if at == "delta" else None
    if target is not None and guarantee.epsilon > target:
        # Solving for epsilon again can exceed a met target by its last digits.
        at_target = replace(guarantee, epsilon=target)
        if certify:
            guarantee = as_proven(at_target) or guarantee
        elif curve.delta(target) <= guarantee.delta:
            guarantee = at_target
    return _told(name, values, guarantee)


def _told(name: str, values: Values, guarantee: dp.Guarantee) -> Record:
    """Return the record of a run's guarantee, with the target if both numbers were given."""
    found: Record = {name: values.get(name) for name in _SHOWN}
    names = ("epsilon", "delta", "notion", "order", "certified")
    found |= {name: getattr(guarantee, name) for name in names}
    found |= {"sigma": sigma_of(values), "relation": str(guarantee.relation)}
    target = values.get("epsilon") if "delta" in values else None
    return record(name, found | {"target_epsilon": target})


def _guaranteed(answer: Mapping[str, Any]) -> dp.Guarantee:
    given = {name: value for name, value in answer.items() if value is not None}
    return dp.Guarantee(
        **_of(answer, "epsilon", "delta", "notion", "order"),
        relation=NeighboringRelation(answer["relation"]),
        mechanism=run_of({"sampling_probability": 1.0} | given),
    )


def certificate(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Prove an answer and return its certificate, a JSON object for `privacy.answers.verify`.

    It has the claim, its theorem and the proven delta. `answer` is from `privacy.answers.sigma`, or
    another function for one run. Raises `NotCertified` if no proof was found.
    """
    from privacy.certification.certificates import certificate as certificate_of

    return certificate_of(_guaranteed(answer))


def verify(certificate: Mapping[str, Any]) -> Record:
    """Prove the claim of a certificate again, from the certificate alone, and return it.

    `certificate` is the JSON object that ``--certificate`` writes. Raises ValueError if it is not a
    certificate, or was changed. Raises `NotCertified` if its claim is not proven.
    """
    from privacy.certification.certificates import verify as verified

    return record("verify", verified(certificate).to_json())
