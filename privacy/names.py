"""Suggestions for argument names of other libraries."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from privacy import checks

_P = ParamSpec("_P")
_R = TypeVar("_R")

ELSEWHERE = {
    "sampling_probability": ("q", "sample_rate", "sampling_rate", "sampling_prob", "probability"),
    "noise_multiplier": ("sigma", "noise", "std", "stddev", "noise_std", "noise_scale"),
    "steps": ("t", "T", "num_steps", "n_steps", "iterations", "compositions", "num_compositions"),
    "clip_norm": ("sensitivity", "max_grad_norm", "l2_norm_clip", "l2_sensitivity"),
    "epsilon": ("eps", "e", "target_epsilon", "target_eps"),
    "delta": ("d", "target_delta"),
    "count": ("steps", "T", "n", "num_steps", "num_compositions", "times"),
    "notion": ("accountant", "method", "mechanism_type"),
    "relation": ("neighboring_relation", "neighbouring_relation", "adjacency"),
    "orders": ("alphas", "alpha"),
    "scale": ("b",),
}
"""Our argument names, each with its names in other libraries."""
BATCHES = ("batch_size", "epochs", "num_epochs", "dataset_size", "num_examples", "sample_size", "n")
"""Batch parameters, which do not determine the sampler."""
_SAMPLING = (
    "If batches are Poisson samples, pass sampling_probability = batch_size / records and "
    "steps = epochs * records / batch_size, with the expected batch size."
)


def known(given: Iterable[str], names: Iterable[str]) -> None:
    """Raise TypeError for a keyword not in `names`, and suggest our name for it."""
    names = list(names)
    for keyword in given:
        if keyword in names:
            continue
        ours = [name for name in names if keyword in ELSEWHERE.get(name, ())]
        remedy = f"Pass {ours[0]}." if ours else "Correct the name."
        if ours == ["noise_multiplier"]:  # elsewhere, sigma may be in the unit of the data
            remedy = "Pass noise_multiplier, the standard deviation of the noise / clip norm."
        if keyword in BATCHES and "sampling_probability" in names:
            remedy = _SAMPLING
        raise TypeError(checks.expected("keyword", keyword, f"one of {', '.join(names)}", remedy))


def suggests_names(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function suggest our name for a keyword of another library."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = tuple(name for name in names if name not in {"self", "cls"})
    usual = frozenset(names)

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not kwargs.keys() <= usual:
            known(kwargs, names)
        return function(*args, **kwargs)

    return call


def suggests_field_names(kind: Any) -> None:
    """Make a dataclass suggest its field for a keyword of another library."""
    kind.__init__ = suggests_names(kind.__init__)
