"""Costs that filters and odometers add up as exact fractions, and the guarantees of their sums."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, reduce
from heapq import nlargest
from typing import Any, Self

from privacy import checks, mechanisms
from privacy.accounting import Notion, account
from privacy.calibration import noise_multiplier
from privacy.losses.pair import LossPair
from privacy.mechanisms import Gaussian, Mechanism, UnsupportedMechanism, ZeroConcentratedDP
from privacy.notions.gaussian import GaussianCurve
from privacy.notions.zcdp import epsilon_from_rho, rho_from_epsilon
from privacy.numerics.display import rounded
from privacy.numerics.rounding import round_down, round_up
from privacy.relations import NeighboringRelation

Cost = tuple[Fraction, ...]

# Ten Gaussians of rho / 10 each may cost some ulp more than rho. So the displayed limit is lower by
# this fraction than the limit for an epsilon that `spend` enforces.
GRACE = Fraction(1, 10**12)


class Immutable:
    """Base of the budgets: frozen dataclasses whose changes are copies.

    Those that hold sums define `__init__`, so that ``dataclasses.replace`` cannot drop the sums.
    """

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _with(self, **values: object) -> Self:
        other = copy(self)
        other._set(**values)
        return other


class Measure(ABC):
    """The cost of an accounting method: a filter compares its sums with a limit."""

    name: str
    notion: Notion
    theorem: str
    amount = ""  # attribute of a curve
    grace = GRACE

    @abstractmethod
    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return a limit on sums that implies (epsilon, delta)."""

    @abstractmethod
    def epsilon(self, limit: Cost, delta: float) -> float:
        """Return the epsilon of a limit, rounded up."""

    def holds(self, total: Cost, epsilon: float, delta: float) -> bool:
        """Return whether a sum above `limit` still provably implies (epsilon, delta)."""
        return False  # for a measure with an exact `limit`

    @abstractmethod
    def claim(self, most: Cost, relation: NeighboringRelation) -> Mechanism:
        """Return a mechanism that costs at least `most`."""

    def cost(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        if isinstance(mechanism, mechanisms.Repeated):
            one = self.cost(mechanism.mechanism, relation)
            return tuple(mechanism.count * part for part in one)
        if isinstance(mechanism, mechanisms.Composed):
            return reduce(added, (self.cost(part, relation) for part in mechanism.parts))
        if isinstance(mechanism, mechanisms.Parallel):
            return self._cost_of_worst(mechanism, relation)
        return _cost_of_release(self, mechanism, relation)

    def _cost_of_worst(self, mechanism: mechanisms.Parallel, relation: NeighboringRelation) -> Cost:
        """Return the largest cost of a cell: a record is in one, or moves from one to another."""
        costs, left = mechanism.in_cells(relation, self.cost)
        if left and relation is NeighboringRelation.REPLACE_ONE:
            each = zip(*(left[part] for part in mechanism.parts), strict=True)
            costs.append(tuple(sum(nlargest(2, amounts), Fraction(0)) for amounts in each))
        else:
            costs += left.values()
        return tuple(map(max, zip(*costs, strict=True)))

    def _exact(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost | None:
        """Return the cost of one release if it needs no float rounding, else None."""
        return None

    def _cost_of_one(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
        try:
            curve = account(mechanism, notion=self.notion, relation=relation)
        except UnsupportedMechanism as refusal:
            # of the methods that `account` recommends, these have no filter
            unfit = {"contour", "pld"}
            others = tuple(name for name in refusal.alternatives if name not in unfit)
            raise UnsupportedMechanism(
                f"{refusal.__cause__} {_remedy(others)}",
                mechanism=refusal.mechanism,
                notion=self.notion,
                alternatives=others,
            ) from refusal
        return tuple(self._finite(amount, mechanism) for amount in self._amounts(curve))

    def _finite(self, value: float, mechanism: Mechanism) -> Fraction:
        if not math.isfinite(value):
            message = (
                f"{mechanisms.brief(mechanism)} has no finite cost with notion={self.notion!r}. "
                "Pass another notion."
            )
            raise UnsupportedMechanism(message, mechanism=mechanism, notion=self.notion)
        return Fraction(value)

    def _amounts(self, curve: Any) -> Sequence[float]:
        return (getattr(curve, self.amount),)


class Converted(Measure):
    """A measure whose `epsilon` is a numerical conversion, which `limit` inverts by a search."""

    def holds(self, total: Cost, epsilon: float, delta: float) -> bool:
        """Return whether the conversion of a sum gives at most `epsilon`.

        The search of `limit` ends below its root and may refuse a sum of exactly this epsilon. The
        true epsilon increases with the sum, so an upper bound for a larger sum, to which accounting
        for a plan may round, suffices for the filter theorem.
        """
        above = up(total[0])
        if above > 1e300 or self.epsilon((Fraction(above),), delta) > epsilon * (1 + 1e-9):
            return False
        for _ in range(12):
            if self.epsilon((Fraction(above),), delta) <= epsilon:
                return True
            above = math.nextafter(above, math.inf)
        return False


@dataclass(frozen=True)
class Rho(Converted):
    """rho of zCDP."""

    name = amount = "rho"
    notion = "zcdp"
    theorem = "Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023: rho adds adaptively"

    def limit(self, epsilon: float, delta: float) -> Cost:
        return (Fraction(rho_from_epsilon(epsilon, delta)),)

    def epsilon(self, limit: Cost, delta: float) -> float:
        return epsilon_from_rho(up(limit[0]), delta) if limit[0] else 0.0

    def _exact(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost | None:
        if isinstance(mechanism, Gaussian):
            return (_mu_squared(mechanism, relation) / 2,)
        if isinstance(mechanism, ZeroConcentratedDP):
            mechanisms.check_relation(mechanism, relation)
            # the smaller value, so that an epsilon computed from this rho fits its own budget
            return (min(Fraction(mechanism.rho), decimal(mechanism.rho)),)
        return None

    def claim(self, most: Cost, relation: NeighboringRelation) -> Mechanism:
        return ZeroConcentratedDP(up(most[0]), relation)


@dataclass(frozen=True)
class MuSquared(Converted):
    """mu^2 of Gaussians."""

    name, amount = "mu^2", "mu_squared"
    notion = "gaussian"
    theorem = "Smith and Thakurta 2022: mu^2 of Gaussians adds adaptively"

    def limit(self, epsilon: float, delta: float) -> Cost:
        """Return 1 / noise_multiplier^2 of the one Gaussian that uses the whole budget."""
        return (1 / Fraction(noise_multiplier(epsilon=epsilon, delta=delta)) ** 2,)

    def epsilon(self, limit: Cost, delta: float) -> float:
        relation = NeighboringRelation.ADD_OR_REMOVE_ONE  # has no effect once mu is known
        return GaussianCurve(relation, up(limit[0])).epsilon(delta)

    def _exact(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost | None:
        return (_mu_squared(mechanism, relation),) if isinstance(mechanism, Gaussian) else None

    def claim(self, most: Cost, relation: NeighboringRelation) -> Mechanism:
        return Gaussian(round_down(1 / math.sqrt(up(most[0]))), replace_distance=1.0)


@dataclass(frozen=True)
class Divergence(Measure):
    """Rényi divergences of orders fixed in advance; a filter has one order."""

    orders: tuple[float, ...]
    name = "divergence"
    notion = "rdp"
    theorem = "Feldman and Zrnic 2021: divergences of one fixed order add adaptively"

    def _gap(self, delta: float) -> Fraction:
        """Return epsilon - D, rounded up (Canonne, Kamath and Steinke 2020, Proposition 12)."""
        (order,) = self.orders
        with localcontext(Context(prec=50)):  # its logarithms are correctly rounded
            a = Decimal(order)
            terms = (1 - 1 / a).ln(), -a.ln() / (a - 1), -Decimal(delta).ln() / (a - 1)
            return Fraction(sum(terms)) + Fraction(1 + sum(map(abs, terms))) / 10**30

    def limit(self, epsilon: float, delta: float) -> Cost:
        most = Fraction(epsilon) - self._gap(delta)
        (order,) = self.orders
        enough = f"{1 - math.log(delta) / epsilon:.4g}"
        remedy = f"At this epsilon and delta, pass an order above {enough}."
        checks.refuse_if(most <= 0, "order", order, "large enough", remedy)
        return (most,)

    def epsilon(self, limit: Cost, delta: float) -> float:
        return up(max(Fraction(0), limit[0] + self._gap(delta)))

    def _exact(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost | None:
        if not isinstance(mechanism, Gaussian | ZeroConcentratedDP):
            return None
        rho = Rho()._exact(mechanism, relation)
        assert rho is not None
        return tuple(Fraction(order) * rho[0] for order in self.orders)

    def claim(self, most: Cost, relation: NeighboringRelation) -> Mechanism:
        return ZeroConcentratedDP(up(most[0] / Fraction(self.orders[0])), relation)

    def _amounts(self, curve: Any) -> Sequence[float]:
        # one row per direction, if directions differ
        rows = curve.divergences(self.orders)
        found: list[float] = (rows if rows.ndim == 1 else rows.max(axis=0)).tolist()
        return found


@dataclass(frozen=True)
class EpsilonDelta(Measure):
    """Basic composition, exact in the decimals of a claim."""

    name = "(epsilon, delta)"
    notion = "approximate"
    theorem = "Rogers, Roth, Ullman and Vadhan 2016: basic composition is a valid filter"
    grace = Fraction(0)

    def limit(self, epsilon: float, delta: float) -> Cost:
        return decimal(epsilon), decimal(delta)

    def epsilon(self, limit: Cost, delta: float) -> float:
        return up(limit[0])

    def _exact(self, mechanism: Mechanism, relation: NeighboringRelation) -> Cost | None:
        if isinstance(mechanism, mechanisms.ApproximateDP):
            mechanisms.check_relation(mechanism, relation)
            return decimal(mechanism.epsilon), decimal(mechanism.delta)
        if isinstance(mechanism, mechanisms.PoissonSampled):
            claim, q = mechanism.mechanism, mechanism.sampling_probability
            if not isinstance(claim, mechanisms.ApproximateDP):
                return None
            pair = mechanism.loss(relation)
            assert isinstance(pair, LossPair)
            # log(1 + q (e^epsilon - 1)) and q delta: Balle, Barthe and Gaboardi 2018, Theorem 8
            epsilon, _ = pair.claim
            return self._finite(epsilon, mechanism), decimal(q) * decimal(claim.delta)
        loss = _pure_loss(mechanism, relation)
        return None if loss is None else (loss, Fraction(0))

    def claim(self, most: Cost, relation: NeighboringRelation) -> Mechanism:
        if not most[1]:
            return mechanisms.PureDP(up(most[0]), relation)
        return mechanisms.ApproximateDP(up(most[0]), up(most[1]), relation)

    def _amounts(self, curve: Any) -> Sequence[float]:
        return curve.epsilon(0), 0.0


@lru_cache(maxsize=1024)  # adaptive plans often repeat a mechanism
def _cost_of_release(measure: Measure, mechanism: Mechanism, relation: NeighboringRelation) -> Cost:
    try:
        known = measure._exact(mechanism, relation)
    except UnsupportedMechanism as refusal:
        refusal.notion = measure.notion
        raise
    return measure._cost_of_one(mechanism, relation) if known is None else known


def _mu_squared(mechanism: Gaussian, relation: NeighboringRelation) -> Fraction:
    return _short(Fraction(mechanism.shift(relation)) / Fraction(mechanism.noise_multiplier), 2)


def _pure_loss(mechanism: Mechanism, relation: NeighboringRelation) -> Fraction | None:
    """Return the largest privacy loss of a mechanism with a closed form, else None."""
    match mechanism:
        case mechanisms.PureDP() | mechanisms.ExponentialMechanism():
            mechanisms.check_relation(mechanism, relation)
            return decimal(mechanism.epsilon)
        case mechanisms.RandomizedResponse():
            return Fraction(mechanism.epsilon)
        case mechanisms.Laplace():
            return _short(Fraction(mechanism.shift(relation)) / Fraction(mechanism.scale))
    return None


def _short(ratio: Fraction, power: int = 1) -> Fraction:
    """Return ratio^power, rounded up by less than 2^-159 of it if its denominator is long.

    Sums of many fractions with unrelated denominators are slow, so these get powers of two.
    """
    value = ratio**power
    if value.denominator <= 4096:
        return value
    bits = max(0, 160 + value.denominator.bit_length() - value.numerator.bit_length())
    return Fraction(-(-(value.numerator << bits) // value.denominator), 1 << bits)


def _remedy(notions: Sequence[str]) -> str:
    if "rdp" in notions:
        return 'Pass notion="rdp" with one fixed order for sampled noise and pure claims.'
    if "approximate" in notions:
        return 'Pass notion="approximate" for claims of an epsilon and a delta.'
    return "Spend its parts one by one."


def decimal(value: float) -> Fraction:
    """Return the number as it prints: 1/10 for 0.1."""
    return Fraction(repr(float(value)))


def up(value: Fraction) -> float:
    near = _near(value)
    return near if near >= value else round_up(near)


def down(value: Fraction) -> float:
    near = _near(value)
    return near if near <= value else round_down(near)


def _near(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def added(one: Cost, other: Cost, times: int = 1) -> Cost:
    return tuple(a + times * b for a, b in zip(one, other, strict=True))


def shown(cost: tuple[float, ...], *, up: bool = True) -> str:
    numbers = ", ".join(rounded(value, up=up) for value in cost)
    return numbers if len(cost) == 1 else f"({numbers})"


def cost_to_json(cost: Cost) -> list[str]:
    """Return exact fractions in hexadecimal, since Python limits the length of decimal integers."""
    return [f"{part.numerator:x}/{part.denominator:x}" for part in cost]


def cost_from_json(name: str, form: Any, length: int) -> Cost:
    try:
        pairs = [part.split("/") for part in form]
        cost = tuple(Fraction(int(over, 16), int(under, 16)) for over, under in pairs)
    except (AttributeError, TypeError, ValueError, ZeroDivisionError):
        cost = ()
    if len(cost) != length or any(part < 0 for part in cost):
        raise ValueError(checks.expected(name, form, f"{length} fractions >= 0", SAVED))
    return cost


SAVED = "Pass what to_json() wrote."


def saved(form: Any, schema: str, keys: Sequence[str]) -> dict[str, Any]:
    """Return the values of an object that `to_json` wrote, without its schema."""
    values = dict(form) if isinstance(form, Mapping) else {}
    if values.get("schema") != schema or set(values) != {"schema", *keys}:
        rule = f"an object of schema {schema!r} with the keys {', '.join(keys)}"
        raise ValueError(checks.expected("form", sorted(map(str, values)), rule, SAVED))
    return {key: values[key] for key in keys}
