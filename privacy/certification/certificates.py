"""Certificates: a claim with everything needed to prove it again, as JSON."""

import hashlib
import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from privacy import checks
from privacy.certification import AGAIN, THOROUGH, NotCertified, Unproven, proven_delta
from privacy.guarantees import Guarantee, records_in
from privacy.mechanisms import mechanism_from_json

SCHEMA = "dpcalib.certificate/1"
_KEYS = ("schema", "claim", "theorem", "proof", "digest")
_CLAIM = ("epsilon", "delta", "relation", "notion", "order", "unit", "mechanism")
_REMEDY = "Pass a file that --certificate wrote, unchanged."
_MARGIN = 1e-9
_LARGEST = sys.float_info.max
_THEOREMS = {
    "approximate": "Balle, Barthe and Gaboardi 2018, Theorem 8; profile of a release, or of claims",
    "contour": "Zhu, Dong and Wang 2022, Theorem 11; profile of a composed pair",
    "pld": "Zhu, Dong and Wang 2022, Theorem 11; profile of a composed pair",
    "gaussian": "Dong, Roth and Su 2022, Theorem 2.14; Balle and Wang 2018, Theorem 8",
    "rdp": "Canonne, Kamath and Steinke 2020, Proposition 12",
    "zcdp": "Bun and Steinke 2016, Proposition 1.9",
}


def certificate(guarantee: Guarantee) -> dict[str, Any]:
    """Return the certificate of a guarantee, after proving it.

    ``proof`` states an upper bound on delta at the claim's epsilon, rounded up. ``digest`` is the
    SHA-256 of the other values: it detects changes by accident. `verify` trusts neither. Raises
    `NotCertified` if the guarantee is not proven.
    """
    try:
        bound = proven_delta(guarantee, THOROUGH)
    except Unproven as error:
        raise NotCertified(f"No proof of {guarantee}: {error}. Omit the certificate.") from error
    told = guarantee.to_json()
    form = {
        "schema": SCHEMA,
        "claim": {name: told[name] for name in _CLAIM},
        "theorem": _THEOREMS[guarantee.notion],
        "proof": {
            # another precision gives a slightly different bound
            "delta_at_most": min(bound * (1 + _MARGIN), guarantee.delta),
            "bits": THOROUGH.precisions[0],
            "dpcalib": version("dpcalib"),
            "python-flint": version("python-flint"),
        },
    }
    return {**form, "digest": _digest(form)}


def _digest(form: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in form.items() if name != "digest"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _prove_again(guarantee: Guarantee, claimed: float) -> None:
    try:
        bound = proven_delta(guarantee, AGAIN)
    except Unproven as error:
        reason = str(error)
    else:
        if bound <= claimed <= guarantee.delta:
            return
        reason = f"delta is proven to be at most {bound!r}, not {claimed!r}"
    raise NotCertified(f"No proof of {guarantee} from its certificate: {reason}. Make a new one.")


def verify(form: Any) -> Guarantee:
    """Prove the claim of a certificate again, at other precisions, and return it.

    Raises ValueError for another or a changed form, and `NotCertified` for one that is not proven.
    """
    if not isinstance(form, Mapping) or tuple(sorted(form)) != tuple(sorted(_KEYS)):
        rule = f"an object with the keys {', '.join(_KEYS)}"
        raise ValueError(checks.expected("certificate", form, rule, _REMEDY))
    checks.refuse_if(form["schema"] != SCHEMA, "schema", form["schema"], repr(SCHEMA), _REMEDY)
    rule = "the digest of an unchanged certificate"
    checks.refuse_if(form["digest"] != _digest(form), "digest", form["digest"], rule, _REMEDY)
    claim, proof = form["claim"], form["proof"]
    fields = isinstance(claim, Mapping) and tuple(sorted(claim)) == tuple(sorted(_CLAIM))
    rule = f"an object with the keys {', '.join(_CLAIM)}"
    checks.refuse_if(not fields or not isinstance(proof, Mapping), "claim", claim, rule, _REMEDY)
    pair = [claim["epsilon"], claim["delta"], proof.get("delta_at_most")]
    if not all(isinstance(each, int | float) and abs(each) <= _LARGEST for each in pair):
        raise ValueError(checks.expected("epsilon, delta, delta_at_most", pair, "finite", _REMEDY))
    notion, order = claim["notion"], claim["order"]
    if not isinstance(notion, str) or form["theorem"] != _THEOREMS.get(notion):
        raise ValueError(checks.expected("theorem", form["theorem"], f"that of {notion}", _REMEDY))
    if order is not None and not (isinstance(order, int | float) and 1 < order <= _LARGEST):
        raise ValueError(checks.expected("order", order, "> 1", _REMEDY))
    unit = checks.unit(claim["unit"])
    if any(letter.isdigit() for letter in unit) and records_in(unit) == 1:
        rule = "a unit such as 'one user' or '2 records'"
        raise ValueError(checks.expected("unit", unit, rule, _REMEDY))
    guarantee = Guarantee(
        epsilon=float(pair[0]),
        delta=float(pair[1]),
        relation=checks.relation(claim["relation"]),
        notion=notion,
        order=order if notion == "rdp" else None,
        theorem=form["theorem"],
        mechanism=mechanism_from_json(claim["mechanism"]),
        unit=unit,
    )
    _prove_again(guarantee, pair[2])
    object.__setattr__(guarantee, "certified", True)
    return guarantee
