"""Targets for what an attacker achieves, in place of epsilon and delta."""

import privacy as dp
from privacy.answers.batches import run_of
from privacy.answers.options import RISKS, Values, sigma_of
from privacy.answers.records import Record, record
from privacy.mechanisms import Mechanism


def risks_of(curve: dp.Curve, values: Values) -> Record:
    """Return a bound on attacks, at the rate or the prior of a target."""
    if "prior" in values:
        return {"prior": values["prior"], "bayes_risk": curve.bayes_risk(values["prior"])}
    if "false_positive_rate" in values:
        rate = values["false_positive_rate"]
        return {"true_positive_rate": curve.true_positive_rate(rate), "false_positive_rate": rate}
    return {"advantage": curve.advantage()}


def calibrated(name: str, values: Values) -> Record:
    """Return the record of the smallest noise that meets a target for attacks."""
    target = {key: values[key] for key in RISKS if key in values}
    how = {key: values[key] for key in ("notion", "relation")}
    certify = values.get("certify", False)

    def make(noise: float) -> Mechanism:
        return run_of(values | {"noise_multiplier": noise})

    if values["sampler"] == "poisson":
        how_often = {key: values[key] for key in ("sampling_probability", "steps")}
        noise = dp.noise_multiplier(**target, **how_often, **how, certify=certify)
    else:
        noise = dp.calibrate(make, **target, **how, certify=certify)
    found = values | {"noise_multiplier": noise}
    curve = dp.account(run_of(found), **how)
    found |= {"sigma": sigma_of(found), "relation": str(values["relation"]), "certified": certify}
    noise_shown = {key: found[key] for key in ("noise_multiplier", "sigma", "clip_norm")}
    targets = {f"target_{key}": value for key, value in target.items() if key in _BOUNDED}
    names = ("sampling_probability", "steps", "relation", "notion", "certified")
    rest = {key: found[key] for key in names}
    return record(name, noise_shown | risks_of(curve, values) | targets | rest)


_BOUNDED = ("advantage", "true_positive_rate", "bayes_risk")
