"""Argument validation, with errors such as ``Expected epsilon=-1 to be > 0. Pass ...``."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

from privacy.relations import NeighboringRelation

_LONGEST_SHOWN = 500


def expected(name: str, value: object, rule: str, remedy: str) -> str:
    """Return the message of a validation error."""
    try:
        shown = repr(value)
    except ValueError:  # Python refuses to print an int of more than 4300 digits
        shown = "<an int too long to print>"
    except RecursionError:
        shown = f"<a {type(value).__name__} too deep to print>"
    if len(shown) > _LONGEST_SHOWN:
        shown = f"{shown[:_LONGEST_SHOWN]}..."
    return f"Expected {name}={shown} to be {rule}. {remedy}"


def refuse_if(wrong: object, name: str, value: object, rule: str, remedy: str) -> None:
    """Raise ValueError if `wrong` is true."""
    if wrong:
        raise ValueError(expected(name, value, rule, remedy))


def instance(name: str, value: Any, kind: Any, rule: str, remedy: str) -> None:
    """Raise TypeError unless `value` is of a class or of one of several."""
    if not isinstance(value, kind):
        raise TypeError(expected(name, value, rule, remedy))


@contextmanager
def installed(name: str) -> Iterator[None]:
    """Add the extra to install to the error of a missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        remedy = f"In the clone of dpcalib, run: pip install '.[{name}]'"
        raise ModuleNotFoundError(f"{error}. {remedy}", name=error.name) from error


def real(
    name: str,
    value: Any,
    remedy: str,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> float:
    """Return `value` as a finite float inside its domain; refuse bools and strings too."""
    kind = type(value)  # floats first: isinstance of the abstract Real is slow
    wrong = kind is not float and (kind is bool or not isinstance(value, Real))
    try:
        number = math.nan if wrong else float(value)
    except OverflowError:
        number = math.inf
    low = (above is None or number > above) and (at_least is None or number >= at_least)
    high = (below is None or number < below) and (at_most is None or number <= at_most)
    if low and high and math.isfinite(number):
        return number
    limits = ((">", above), (">=", at_least), ("<", below), ("<=", at_most))
    rule = " and ".join(f"{sign} {limit:g}" for sign, limit in limits if limit is not None)
    if wrong:
        raise TypeError(expected(name, value, f"a number {rule or 'finite'}", remedy))
    raise ValueError(expected(name, value, rule or "finite", remedy))


def count(name: str, value: Any, remedy: str) -> int:
    """Return `value` as a whole number in [1, 2^1000], or raise (1000.0 and 1e12 are whole)."""
    rule = "a whole number >= 1"
    whole = type(value) is int  # as in `real`
    if not whole and (isinstance(value, bool) or not isinstance(value, Real)):
        raise TypeError(expected(name, value, rule, remedy))
    exact = int(value) if whole or isinstance(value, Integral) else float(value)
    if exact < 1 or not (isinstance(exact, int) or exact.is_integer()):
        raise ValueError(expected(name, value, rule, remedy))
    refuse_if(exact > 2**1000, name, value, rule + " and <= 2**1000", remedy)
    return int(exact)


def one_of(name: str, value: Any, known: tuple[str, ...], remedy: str) -> None:
    """Check a choice among words."""
    refuse_if(value not in known, name, value, f"one of {', '.join(map(repr, known))}", remedy)


def flag(name: str, value: Any, remedy: str) -> bool:
    """Return `value` if it is a bool."""
    instance(name, value, bool, "True or False", remedy)
    return bool(value)


def relation(value: Any) -> NeighboringRelation:
    """Check a neighboring relation, given as the enum or by its name."""
    try:
        return NeighboringRelation(value)
    except ValueError:
        known = ", ".join(NeighboringRelation)
        remedy = "Pass a neighboring relation."
        meant = str(value).upper().replace("-", "_")
        if meant in list(NeighboringRelation):
            remedy = f"Did you mean {meant!r}?"
        raise ValueError(expected("relation", value, f"one of {known}", remedy)) from None


def epsilon(value: Any, name: str = "epsilon") -> float:
    """Check a target or claimed epsilon (> 0)."""
    return real(name, value, "Pass the privacy loss bound, such as epsilon=1.", above=0)


def delta(value: Any, name: str = "delta") -> float:
    """Check a delta in (0, 1); a value such as 1e-5 is usual."""
    hint = "Pass a small probability, such as delta=1e-5, well below 1 / (number of records)."
    return real(name, value, hint, above=0, below=1)


def query_delta(value: Any) -> float:
    """Check a delta of a query, in [0, 1)."""
    remedy = "Pass a small probability, such as delta=1e-5, or 0 for pure differential privacy."
    return real("delta", value, remedy, at_least=0, below=1)


def query_epsilon(value: Any) -> float:
    """Check an epsilon of a query, >= 0."""
    return real("epsilon", value, "Pass the privacy loss bound, such as epsilon=1.", at_least=0)


def probability(value: Any, name: str = "sampling_probability") -> float:
    """Check a Poisson sampling probability in (0, 1]."""
    remedy = "Pass a fraction between 0 and 1: expected batch size / number of records."
    number = real(name, value, remedy, above=0)
    if 1 < number <= 100:
        remedy += f" If {value!r} was a percentage, pass {number / 100:g}."
    refuse_if(number > 1, name, value, "> 0 and <= 1", remedy)
    return number


def phrase(name: str, value: Any, remedy: str) -> str:
    """Check text that is printed unchanged: one line, no terminal control sequences."""
    if not isinstance(value, str):
        raise TypeError(expected(name, value, "text", remedy))
    refuse_if(not value.strip() or not value.isprintable(), name, value, "printable text", remedy)
    return value


def unit(value: Any) -> str:
    """Check the name of the unit of privacy."""
    return phrase("unit", value, 'Pass the unit of privacy, such as "one user".')


def ledger(value: Any, *, simulation: bool) -> Any:
    """Check a `Ledger` to spend from; the layers below it only call it."""
    if not hasattr(value, "reserve_state"):
        raise TypeError(expected("ledger", value, "a Ledger", "Open it with Ledger(url)."))
    rule, remedy = "None with simulation=True", "Leave it out: simulations spend nothing."
    refuse_if(simulation, "ledger", value, rule, remedy)
    return value


def paid(value: Any, reserved: Any) -> Any:
    """Check the ledger that a saved state was charged to, given the reservation in the state."""
    rule, remedy = "the ledger that this state was charged to", "Pass ledger=Ledger(url)."
    refuse_if(value is None, "ledger", None, rule, remedy)
    remedy = "Leave it out: this state was not charged to a ledger."
    refuse_if(reserved is None, "ledger", value, "None", remedy)
    return ledger(value, simulation=False)


def orders(value: Any) -> tuple[float, ...]:
    """Check Rényi orders: at least one, each > 1."""
    remedy = "Pass Rényi orders, such as range(2, 65)."
    instance("orders", value, Iterable, "a sequence of numbers", remedy)
    checked = tuple(real("orders", order, remedy, above=1) for order in value)
    refuse_if(not checked, "orders", value, "at least one order", remedy)
    return checked
