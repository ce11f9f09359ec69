"""Convert between epsilon, rho, mu and sigma of one Gaussian release."""

import math
from collections.abc import Mapping
from typing import Any

import privacy as dp
from privacy.answers.options import Asked, sigma_of
from privacy.answers.records import Record, record
from privacy.relations import NeighboringRelation

SOURCES = ("epsilon", "rho", "mu", "sigma", "noise_multiplier")
CONVERT = Asked(one_of=SOURCES, takes=("delta", "conversion", "clip_norm", "relation"))


def convert(options: Mapping[str, Any]) -> Record:
    """Convert between epsilon, rho, mu and sigma of one Gaussian release.

    `options` has one of ``epsilon`` (with ``delta``), ``rho`` (of zCDP), ``mu`` (of Gaussian DP),
    ``sigma`` and ``noise_multiplier``. Options with defaults: ``conversion`` (``"optimal"``; it and
    ``"classic"`` hold for every rho-zCDP mechanism, ``"gaussian"`` only for Gaussian noise),
    ``clip_norm`` (1) and ``relation`` (``"add-or-remove-one"``).
    """
    values = CONVERT.settled(options)
    given = next(name for name in SOURCES if name in values)
    release = {"rho": None, "mu": None, "noise_multiplier": None, **values}
    if given == "epsilon":
        if "delta" not in values:
            raise ValueError("Pass --delta: the delta at which epsilon holds, such as 1e-5.")
        pair = values["epsilon"], values["delta"]
        release["rho"] = dp.rho_from_epsilon(*pair, conversion=values["conversion"])
    # Under REPLACE_ONE, the sensitivity of a clipped sum is 2 * clip_norm: the noise doubles.
    moves = 2 if values["relation"] is NeighboringRelation.REPLACE_ONE else 1
    match release:
        case {"rho": float(rho)}:
            release["mu"] = dp.mu_from_rho(rho)
            release["noise_multiplier"] = moves * dp.noise_multiplier_from_rho(rho)
        case {"mu": float(mu)}:
            release["rho"] = dp.rho_from_mu(mu)
            release["noise_multiplier"] = moves * dp.noise_multiplier_from_mu(mu)
        case {"noise_multiplier": float(noise)}:
            release["rho"] = dp.rho_from_noise_multiplier(noise / moves)
            release["mu"] = dp.mu_from_noise_multiplier(noise / moves)
    if given != "epsilon" and "delta" in values:
        release["epsilon"] = math.inf
        if math.isfinite(rho := release["rho"]):
            how = {"conversion": values["conversion"]}
            release["epsilon"] = dp.epsilon_from_rho(rho, values["delta"], **how)
    names = ("epsilon", "delta", "rho", "mu", "noise_multiplier")
    found = {"given": given, **{name: release.get(name) for name in names}}
    found |= {"sigma": sigma_of(release), "clip_norm": release["clip_norm"]}
    found["relation"] = str(release["relation"])
    found["conversion"] = release["conversion"] if "delta" in values else None
    return record("convert", found)
