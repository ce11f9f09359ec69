"""`dpcalib convert`: epsilon, rho, mu and sigma of one Gaussian release."""

import math

import privacy as dp
from privacy.cli.options import Values
from privacy.cli.output import Record, record, table
from privacy.cli.questions import question
from privacy.cli.runs import sigma_of
from privacy.relations import NeighboringRelation


def _show(answer: Record) -> None:
    # what follows from a budget is a budget: rounding it up would overspend
    table(answer, down=("rho", "mu") if answer["given"] in {"epsilon", "rho"} else ())


_SOURCES = ("epsilon", "rho", "mu", "sigma", "noise_multiplier")


@question(
    one_of=_SOURCES,
    takes=("delta", "conversion", "clip_norm", "relation"),
    show=_show,
)
def convert(values: Values) -> Record:
    """Convert between epsilon, rho, mu and sigma.

    Epsilon is that of differential privacy at --delta, rho that of zCDP, mu that
    of Gaussian DP, and sigma the noise of one Gaussian release.

    An epsilon by --conversion optimal or classic holds for every rho-zCDP
    mechanism; by --conversion gaussian it is exact and holds for Gaussian
    noise alone. mu and sigma hold for Gaussian noise alone.
    """
    given = next(name for name in _SOURCES if name in values)
    release = {"rho": None, "mu": None, "noise_multiplier": None, **values}
    if given == "epsilon":
        release["rho"] = dp.rho_from_epsilon(*_loss(values), conversion=values["conversion"])
    # a replaced record moves the sum by two clip norms, so that twice the noise is as private
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
        rho, delta = release["rho"], values["delta"]
        release["epsilon"] = (
            dp.epsilon_from_rho(rho, delta, conversion=values["conversion"])
            if math.isfinite(rho)
            else math.inf
        )
    return record(
        "convert",
        {
            "given": given,
            "epsilon": release.get("epsilon"),
            "delta": release.get("delta"),
            "rho": release["rho"],
            "mu": release["mu"],
            "noise_multiplier": release["noise_multiplier"],
            "sigma": sigma_of(release),
            "clip_norm": release["clip_norm"],
            "relation": release["relation"],
            "conversion": release["conversion"] if "delta" in values else None,
        },
    )


def _loss(values: Values) -> tuple[float, float]:
    if "delta" not in values:
        raise ValueError("Missing --delta. An epsilon means nothing without its delta.")
    return values["epsilon"], values["delta"]
