"""Invalid values for every argument of every entry point: one error in one format."""

import decimal
import fractions
import inspect
import math
import pickle

import numpy as np
import pytest

import privacy as dp

NAN, INF = math.nan, math.inf
NOT_FINITE = [NAN, INF, -INF, np.float64("nan"), np.inf]
POSITIVE = [0, 0.0, -0.0, -1, -1e-300, *NOT_FINITE]
NOT_NEGATIVE = [-1, -1e-300, *NOT_FINITE]
INSIDE_ONE = [0, 1, 2, -1e-5, 1.5, *NOT_FINITE]
FROM_ZERO = [1, 2, -1e-5, *NOT_FINITE]
FRACTION = [0, -0.1, 1.5, 1 + 2**-52, 100, *NOT_FINITE]
WHOLE = [0, -1, 2.5, 0.5, *NOT_FINITE]
ABOVE_ONE = [1, 0.5, -2, *NOT_FINITE]
DISTANCE = [0, -1, 2.1, 3, *NOT_FINITE]
WRONG_TYPES = ["1", b"1", True, False, None, [1.0], (1,), {}, 1j, np.array([1.0])]
WRONG_TYPES += [np.bool_(1), decimal.Decimal(1), object]

TARGET = {"epsilon": 1.0, "delta": 1e-5}
GAUSSIAN = dp.Gaussian(1.0)


def curve(notion="tightest"):
    return dp.account(GAUSSIAN, notion=notion)


# entry point -> a call that works, and what each of its numbers refuses
CALLS = {
    "noise_multiplier": (
        dp.noise_multiplier,
        TARGET | {"sampling_probability": 0.5, "steps": 3},
        {
            "epsilon": POSITIVE,
            "delta": INSIDE_ONE,
            "sampling_probability": FRACTION,
            "steps": WHOLE,
        },
    ),
    "max_steps": (
        dp.max_steps,
        TARGET | {"noise_multiplier": 10.0, "sampling_probability": 0.5},
        {
            "epsilon": POSITIVE,
            "delta": INSIDE_ONE,
            "noise_multiplier": POSITIVE,
            "sampling_probability": FRACTION,
        },
    ),
    "max_sampling_probability": (
        dp.max_sampling_probability,
        TARGET | {"noise_multiplier": 1.0, "steps": 1},
        {
            "epsilon": POSITIVE,
            "delta": INSIDE_ONE,
            "noise_multiplier": POSITIVE,
            "steps": WHOLE,
        },
    ),
    "calibrate": (
        lambda **target: dp.calibrate(dp.Laplace, **target),
        TARGET,
        {"epsilon": POSITIVE, "delta": FROM_ZERO},
    ),
    "recalibrate": (
        lambda **target: dp.recalibrate(dp.Gaussian(9), dp.Gaussian, **target),
        TARGET,
        {"epsilon": POSITIVE, "delta": FROM_ZERO},
    ),
    "Gaussian": (
        dp.Gaussian,
        {"noise_multiplier": 1.0, "replace_distance": 1.0},
        {"noise_multiplier": POSITIVE, "replace_distance": DISTANCE},
    ),
    "Laplace": (
        dp.Laplace,
        {"scale": 1.0, "replace_distance": 1.0},
        {"scale": POSITIVE, "replace_distance": DISTANCE},
    ),
    "RandomizedResponse": (
        dp.RandomizedResponse,
        {"epsilon": 1.0, "categories": 3},
        {"epsilon": POSITIVE, "categories": [1, *WHOLE]},
    ),
    "PureDP": (dp.PureDP, {"epsilon": 1.0}, {"epsilon": POSITIVE}),
    "ApproximateDP": (
        dp.ApproximateDP,
        {"epsilon": 1.0, "delta": 1e-5},
        {"epsilon": NOT_NEGATIVE, "delta": INSIDE_ONE},
    ),
    "ZeroConcentratedDP": (dp.ZeroConcentratedDP, {"rho": 0.1}, {"rho": POSITIVE}),
    "PoissonSampled": (
        lambda sampling_probability: dp.PoissonSampled(
            GAUSSIAN, sampling_probability=sampling_probability
        ),
        {"sampling_probability": 0.5},
        {"sampling_probability": FRACTION},
    ),
    "repeat": (
        lambda count: dp.repeat(GAUSSIAN, count),
        {"count": 3},
        {"count": WHOLE[1:]},  # 0 runs are nothing
    ),
    "Curve.epsilon": (
        lambda delta: curve().epsilon(delta),
        {"delta": 1e-5},
        {"delta": FROM_ZERO},
    ),
    "Curve.delta": (
        lambda epsilon: curve().delta(epsilon),
        {"epsilon": 1.0},
        {"epsilon": NOT_NEGATIVE},
    ),
    "RenyiCurve.divergence": (
        lambda order: curve("rdp").divergence(order),
        {"order": 2.0},
        {"order": ABOVE_ONE},
    ),
    "ZeroConcentratedCurve.divergence": (
        lambda order: curve("zcdp").divergence(order),
        {"order": 2.0},
        {"order": ABOVE_ONE},
    ),
    "GaussianCurve.group": (
        lambda size: curve("gaussian").group(size),
        {"size": 3},
        {"size": WHOLE},
    ),
    "epsilon_from_rho": (
        dp.epsilon_from_rho,
        {"rho": 0.1, "delta": 1e-5},
        {"rho": POSITIVE, "delta": FROM_ZERO},
    ),
    "delta_from_rho": (
        dp.delta_from_rho,
        {"rho": 0.1, "epsilon": 1.0},
        {"rho": POSITIVE, "epsilon": NOT_NEGATIVE},
    ),
    "rho_from_epsilon": (
        dp.rho_from_epsilon,
        TARGET,
        {"epsilon": POSITIVE, "delta": INSIDE_ONE},
    ),
    "rho_from_mu": (dp.rho_from_mu, {"mu": 1.0}, {"mu": POSITIVE}),
    "mu_from_rho": (dp.mu_from_rho, {"rho": 1.0}, {"rho": POSITIVE}),
    "noise_multiplier_from_rho": (dp.noise_multiplier_from_rho, {"rho": 1.0}, {"rho": POSITIVE}),
    "noise_multiplier_from_mu": (dp.noise_multiplier_from_mu, {"mu": 1.0}, {"mu": POSITIVE}),
    "rho_from_noise_multiplier": (
        dp.rho_from_noise_multiplier,
        {"noise_multiplier": 1.0},
        {"noise_multiplier": POSITIVE},
    ),
    "mu_from_noise_multiplier": (
        dp.mu_from_noise_multiplier,
        {"noise_multiplier": 1.0},
        {"noise_multiplier": POSITIVE},
    ),
}
TAKES_ARRAYS = [
    *(CALLS[name][0] for name in ("Curve.epsilon", "Curve.delta")),
    *(dp.noise_multiplier, dp.max_steps, dp.max_sampling_probability),
]
ARGUMENTS = [
    pytest.param(call, good, name, refused, id=f"{entry}({name})")
    for entry, (call, good, domains) in CALLS.items()
    for name, refused in domains.items()
]


def assert_shape(error, name, value):
    """Expected name=value to be RULE. Remedy."""
    message = str(error)
    assert message.startswith(f"Expected {name}={value!r} to be "), message
    rule, _, remedy = message.partition(" to be ")[2].partition(". ")
    assert rule
    assert remedy.endswith((".", "?")), message


@pytest.mark.parametrize(("call", "good", "name", "refused"), ARGUMENTS)
def test_a_value_outside_its_domain(call, good, name, refused):
    call(**good)
    for value in refused:
        with pytest.raises(ValueError, match="Expected") as caught:
            call(**good | {name: value})
        assert type(caught.value) is ValueError
        assert_shape(caught.value, name, value)


@pytest.mark.parametrize(("call", "good", "name", "refused"), ARGUMENTS)
def test_a_value_of_the_wrong_type(call, good, name, refused):
    for value in WRONG_TYPES:
        if call in TAKES_ARRAYS and isinstance(value, list | tuple | np.ndarray):
            continue
        with pytest.raises(TypeError, match="Expected") as caught:
            call(**good | {name: value})
        assert_shape(caught.value, name, value)


@pytest.mark.parametrize(
    ("call", "given", "ours"),
    [
        (dp.noise_multiplier, TARGET | {"sample_rate": 0.1}, "Pass sampling_probability."),
        (dp.noise_multiplier, TARGET | {"q": 0.1}, "Pass sampling_probability."),
        (dp.noise_multiplier, TARGET | {"T": 10}, "Pass steps."),
        (dp.noise_multiplier, TARGET | {"num_steps": 10}, "Pass steps."),
        (dp.noise_multiplier, {"target_epsilon": 1, "delta": 1e-5}, "Pass epsilon."),
        (dp.noise_multiplier, {"epsilon": 1, "target_delta": 1e-5}, "Pass delta."),
        (dp.noise_multiplier, TARGET | {"batch_size": 256}, "If batches are Poisson samples"),
        (dp.noise_multiplier, TARGET | {"accountant": "rdp"}, "Pass notion."),
        (dp.max_steps, TARGET | {"sigma": 2}, "Pass noise_multiplier, the standard deviation"),
        (dp.max_sampling_probability, TARGET | {"std": 2}, "Pass noise_multiplier, the"),
        (dp.calibrate, {"make": dp.Gaussian, "eps": 1}, "Pass epsilon."),
        (dp.recalibrate, {"done": GAUSSIAN, "eps": 1}, "Pass epsilon."),
        (dp.account, {"mechanism": GAUSSIAN, "alphas": [2]}, "Pass orders."),
        (dp.repeat, {"mechanism": GAUSSIAN, "steps": 3}, "Pass count."),
        (dp.Gaussian, {"sigma": 2}, "Pass noise_multiplier, the standard deviation"),
        (dp.Laplace, {"b": 2}, "Pass scale."),
        (dp.PoissonSampled, {"mechanism": GAUSSIAN, "q": 0.1}, "Pass sampling_probability."),
        (dp.noise_multiplier, TARGET | {"color": 1}, "Correct the name."),
    ],
)
def test_a_keyword_of_another_library(call, given, ours):
    with pytest.raises(TypeError) as caught:
        call(**given)
    (keyword,) = (name for name in given if f"keyword={name!r}" in str(caught.value))
    assert_shape(caught.value, "keyword", keyword)
    assert ours in str(caught.value)


def test_keyword_suggestions_keep_pickling_and_signatures():
    assert pickle.loads(pickle.dumps(dp.noise_multiplier)) is dp.noise_multiplier
    assert pickle.loads(pickle.dumps(GAUSSIAN)) == GAUSSIAN
    assert list(inspect.signature(dp.Gaussian).parameters) == [
        "noise_multiplier",
        "replace_distance",
    ]
    assert "sampling_probability" in inspect.signature(dp.noise_multiplier).parameters


def plain(answer):
    """Whether nothing of numpy is left in an answer."""
    if isinstance(answer, int | float):
        return type(answer) in (int, float)
    return "np." not in repr(answer)


@pytest.mark.parametrize(("call", "good", "name", "refused"), ARGUMENTS)
def test_numbers_of_other_libraries(call, good, name, refused):
    for convert in (np.float64, fractions.Fraction):
        value = convert(good[name])
        answer = call(**good | {name: value})
        assert plain(answer)
        if not hasattr(answer, "relation"):
            assert answer == call(**good)
    if float(good[name]).is_integer():
        for convert in (int, float, np.int64, np.float32, np.uint8):
            assert plain(call(**good | {name: convert(good[name])}))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: dp.noise_multiplier(**TARGET, steps=10**5000), "steps"),
        (lambda: dp.noise_multiplier(epsilon=10**5000, delta=1e-5), "epsilon"),
        (lambda: dp.repeat(GAUSSIAN, -(10**5000)), "count"),
        (lambda: dp.Gaussian(10**400), "noise_multiplier"),
    ],
    ids=["steps", "epsilon", "count", "noise_multiplier"],
)
def test_whole_numbers_that_no_float_holds(call, name):
    with pytest.raises((ValueError, OverflowError), match=f"Expected {name}="):
        call()


@pytest.mark.parametrize("count", [10**400, 2**1100], ids=["10^400", "2^1100"])
def test_more_steps_than_a_float_can_count(count):
    """A refusal that names the argument, or an infinite answer."""
    try:
        epsilon = dp.account(dp.repeat(GAUSSIAN, count)).epsilon(1e-5)
    except (ValueError, OverflowError) as error:
        assert "Expected" in str(error)
    else:
        assert epsilon == math.inf


def test_a_percentage_is_recognized():
    with pytest.raises(ValueError, match=r"pass 0\.0167"):
        dp.noise_multiplier(**TARGET, sampling_probability=1.67)


# -- arguments that are not numbers ---------------------------------------------------------

NOT_A_RELATION = ["", "replace_one", "ADD", None, 1, dp.Gaussian]


@pytest.mark.parametrize("relation", NOT_A_RELATION)
@pytest.mark.parametrize(
    "call",
    [
        lambda relation: dp.account(GAUSSIAN, relation=relation),
        lambda relation: dp.noise_multiplier(**TARGET, relation=relation),
        lambda relation: dp.max_steps(**TARGET, noise_multiplier=10, relation=relation),
        lambda relation: dp.PureDP(1, relation=relation),
        lambda relation: dp.ApproximateDP(1, 1e-5, relation=relation),
        lambda relation: dp.ZeroConcentratedDP(1, relation=relation),
    ],
    ids=["account", "noise_multiplier", "max_steps", "PureDP", "ApproximateDP", "zCDP"],
)
def test_unknown_relation(call, relation):
    with pytest.raises(ValueError, match="Expected relation=") as caught:
        call(relation)
    assert_shape(caught.value, "relation", relation)
    assert "REPLACE_SPECIAL" in str(caught.value)


@pytest.mark.parametrize("relation", ["replace_one", "replace-one", "Replace_One"])
def test_a_misspelled_relation(relation):
    with pytest.raises(ValueError, match=r"Did you mean 'REPLACE_ONE'\?"):
        dp.account(GAUSSIAN, relation=relation)


def test_relations_are_known_by_their_names():
    by_name = dp.account(GAUSSIAN, relation="REPLACE_ONE")
    assert by_name.relation is dp.NeighboringRelation.REPLACE_ONE
    assert dp.PureDP(1, relation="REPLACE_ONE").relation is dp.NeighboringRelation.REPLACE_ONE


@pytest.mark.parametrize("notion", ["", "RDP", "renyi", None, 1, ["rdp"]])
def test_unknown_notion(notion):
    for call in (
        lambda: dp.account(GAUSSIAN, notion=notion),
        lambda: dp.noise_multiplier(**TARGET, notion=notion),
    ):
        with pytest.raises(ValueError, match="Expected notion=") as caught:
            call()
        assert_shape(caught.value, "notion", notion)


@pytest.mark.parametrize(
    ("other", "ours"),
    [("renyi", "rdp"), ("RDP", "rdp"), ("PLD", "pld"), ("PRV", "pld"), ("gdp", "gaussian")],
)
def test_a_notion_by_its_name_elsewhere(other, ours):
    with pytest.raises(ValueError, match=rf"Did you mean '{ours}'\?"):
        dp.account(GAUSSIAN, notion=other)
    dp.account(GAUSSIAN, notion=ours)


@pytest.mark.parametrize("other", ["pld", "prv", "fft"])
def test_names_of_the_privacy_loss_distribution(other):
    assert dp.account(GAUSSIAN, notion=other).notion == "pld"


@pytest.mark.parametrize("conversion", ["", "best", None, True])
def test_unknown_conversion(conversion):
    for call in (
        lambda: dp.epsilon_from_rho(0.1, 1e-5, conversion=conversion),
        lambda: dp.delta_from_rho(0.1, 1, conversion=conversion),
        lambda: dp.rho_from_epsilon(1, 1e-5, conversion=conversion),
        lambda: curve("rdp").epsilon(1e-5, conversion=conversion),
    ):
        with pytest.raises(ValueError, match="Expected conversion=") as caught:
            call()
        assert_shape(caught.value, "conversion", conversion)


@pytest.mark.parametrize("seek", ["", "min", None, 1])
def test_unknown_seek(seek):
    with pytest.raises(ValueError, match="Expected seek=") as caught:
        dp.calibrate(dp.Gaussian, **TARGET, seek=seek)
    assert_shape(caught.value, "seek", seek)


@pytest.mark.parametrize("cells", ["", "by_hand", None, ["by_record"]])
def test_unknown_cells(cells):
    with pytest.raises(ValueError, match="Expected cells=") as caught:
        dp.parallel(GAUSSIAN, dp.Gaussian(2), cells=cells)
    assert_shape(caught.value, "cells", cells)


@pytest.mark.parametrize("domain", [(2, 1), (1, 1), (-1, 1), (math.nan, 1), (0, math.nan)])
def test_a_domain_that_is_empty(domain):
    with pytest.raises(ValueError, match="Expected domain="):
        dp.calibrate(dp.Gaussian, **TARGET, domain=domain)


@pytest.mark.parametrize("domain", [1, None, "ab", (1,), (0, 1, 2), ("a", 1)])
def test_an_invalid_domain_is_refused(domain):
    with pytest.raises((TypeError, ValueError), match="Expected domain="):
        dp.calibrate(dp.Gaussian, **TARGET, domain=domain)


@pytest.mark.parametrize("thing", ["gaussian", 1.0, None, dp.Gaussian, [GAUSSIAN]])
@pytest.mark.parametrize(
    "call",
    [
        dp.account,
        lambda thing: dp.repeat(thing, 3),
        lambda thing: dp.compose(GAUSSIAN, thing),
        lambda thing: dp.parallel(thing, GAUSSIAN),
        lambda thing: dp.PoissonSampled(thing, sampling_probability=0.1),
        lambda thing: dp.calibrate(lambda _: thing, **TARGET),
        lambda thing: dp.recalibrate(thing, dp.Gaussian, **TARGET),
    ],
)
def test_a_non_mechanism_is_refused(call, thing):
    with pytest.raises(TypeError, match=r"Expected .* to be a mechanism"):
        call(thing)


@pytest.mark.parametrize("make", [None, 1.0, GAUSSIAN])
def test_an_invalid_family_is_refused(make):
    with pytest.raises(TypeError):
        dp.calibrate(make, **TARGET)


@pytest.mark.parametrize("build", [dp.compose, dp.parallel])
def test_nothing_to_combine(build):
    with pytest.raises(ValueError, match="Expected mechanisms="):
        build()


@pytest.mark.parametrize("orders", [[], [1], [0.5, 2], [math.nan], [math.inf]])
def test_orders_outside_their_domain(orders):
    with pytest.raises(ValueError, match="Expected orders="):
        dp.account(GAUSSIAN, notion="rdp", orders=orders)


@pytest.mark.parametrize("orders", [2, "23", ["2"], [None], [True]])
def test_orders_of_the_wrong_type(orders):
    with pytest.raises(TypeError, match="Expected orders="):
        dp.account(GAUSSIAN, notion="rdp", orders=orders)


def test_orders_belong_to_rdp():
    for notion in ("tightest", "zcdp"):
        with pytest.raises(ValueError, match="Expected orders="):
            dp.account(GAUSSIAN, notion=notion, orders=range(2, 65))


@pytest.mark.parametrize("given", [{}, {"epsilon": 1.0, "delta": 1e-5}])
def test_a_guarantee_needs_delta_or_epsilon(given):
    with pytest.raises(ValueError, match="Expected delta, epsilon="):
        curve().guarantee(**given)


# -- refusals that say what would work ------------------------------------------------------

SAMPLED = dp.PoissonSampled(GAUSSIAN, sampling_probability=0.1)


def test_a_list_to_compose():
    with pytest.raises(TypeError, match=r"Unpack the list: compose\(\*mechanisms\)"):
        dp.compose([GAUSSIAN, GAUSSIAN])


def test_a_notion_without_a_rule_names_those_that_have_one():
    with pytest.raises(dp.UnsupportedMechanism) as caught:
        dp.account(SAMPLED, notion="zcdp")
    refusal = caught.value
    assert str(refusal).endswith("Use notion 'approximate' or 'contour' or 'pld' or 'rdp'.")
    assert refusal.alternatives == ("approximate", "contour", "pld", "rdp")
    assert (refusal.mechanism, refusal.notion) == (SAMPLED, "zcdp")
    for notion in refusal.alternatives:
        dp.account(SAMPLED, notion=notion)


def test_a_mechanism_that_no_accounting_method_supports():
    nearer = dp.PoissonSampled(dp.Gaussian(1, replace_distance=1), sampling_probability=0.1)
    with pytest.raises(dp.UnsupportedMechanism, match=r"No other accounting method supports it\."):
        dp.account(nearer, notion="rdp", relation="REPLACE_ONE")


def test_parts_that_no_method_supports_together():
    cells = [
        dp.parallel(dp.ApproximateDP(0.1, 1e-7), dp.Gaussian(noise)) for noise in (1.0, 2.0, 3.0)
    ]
    with pytest.raises(dp.UnsupportedMechanism) as caught:
        dp.account(dp.compose(*cells))
    told = str(caught.value)
    assert "each alone is supported" in told
    assert told.endswith("(basic composition).")
    assert len(told.splitlines()) <= 3
    assert "tightest" not in told


def test_a_part_that_no_method_supports():
    nearer = dp.PoissonSampled(dp.Gaussian(1, replace_distance=1), sampling_probability=0.1)
    with pytest.raises(dp.UnsupportedMechanism) as caught:
        dp.account(dp.compose(GAUSSIAN, nearer), relation="REPLACE_ONE")
    assert "Alone" not in str(caught.value)


ZEROED = dp.PureDP(1.0, relation="REPLACE_SPECIAL")
LAPLACE = dp.PoissonSampled(dp.Laplace(1.0), sampling_probability=0.1)


def a_group():
    return dp.account(dp.Laplace(1.0), notion="approximate").group(2)


REFUSALS = {
    "relation of a claim": (lambda: dp.account(ZEROED), ZEROED, "tightest", ()),
    "notion of a leaf": (
        lambda: dp.account(ZEROED, notion="gaussian", relation="REPLACE_SPECIAL"),
        ZEROED,
        "gaussian",
        ("approximate", "contour", "pld", "zcdp", "rdp"),
    ),
    "parallel by contour": (
        lambda: dp.account(dp.repeat(dp.parallel(GAUSSIAN, dp.Laplace(1.0)), 2), notion="contour"),
        dp.repeat(dp.parallel(GAUSSIAN, dp.Laplace(1.0)), 2),
        "contour",
        ("zcdp", "rdp"),
    ),
    "unbounded sums": (
        lambda: dp.account(dp.repeat(GAUSSIAN, 2), notion="approximate"),
        dp.repeat(GAUSSIAN, 2),
        "approximate",
        ("gaussian", "contour", "pld", "zcdp", "rdp"),
    ),
    "sums in cells": (
        lambda: dp.account(
            dp.repeat(dp.parallel(dp.Gaussian(1.0), dp.Laplace(1.0)), 2), notion="contour"
        ),
        dp.repeat(dp.parallel(dp.Gaussian(1.0), dp.Laplace(1.0)), 2),
        "contour",
        ("zcdp", "rdp"),
    ),
    "a cell that is left": (
        lambda: dp.account(dp.parallel(ZEROED, ZEROED), relation="REPLACE_SPECIAL"),
        ZEROED,
        "tightest",
        (),
    ),
    "several releases on one sample": (
        lambda: dp.account(
            dp.PoissonSampled(dp.repeat(dp.Laplace(1.0), 2), sampling_probability=0.1)
        ),
        dp.PoissonSampled(dp.repeat(dp.Laplace(1.0), 2), sampling_probability=0.1),
        "tightest",
        (),
    ),
    "a sampled moment bound": (
        lambda: dp.account(dp.PoissonSampled(dp.ZeroConcentratedDP(0.1), sampling_probability=0.1)),
        dp.ZeroConcentratedDP(0.1),
        "tightest",
        (),
    ),
    "a large group": (
        lambda: dp.account(dp.user_level(SAMPLED, max_contributions=1001)),
        dp.user_level(SAMPLED, max_contributions=1001),
        "tightest",
        (),
    ),
    "users of sampled Laplace": (
        lambda: dp.user_level(LAPLACE, max_contributions=2),
        LAPLACE,
        None,
        (),
    ),
    "a delta of one": (
        lambda: dp.user_level(dp.ApproximateDP(5.0, 1e-6), max_contributions=10),
        dp.ApproximateDP(5.0, 1e-6),
        None,
        (),
    ),
    "groups added": (lambda: a_group() + a_group(), dp.Laplace(1.0), "approximate", ()),
    "groups repeated": (lambda: 2 * a_group(), dp.Laplace(1.0), "approximate", ()),
    "a budget's notion": (
        lambda: dp.Budget(epsilon=1, delta=1e-6).spend(SAMPLED),
        SAMPLED,
        "zcdp",
        ("approximate", "rdp"),
    ),
    "a budget's relation": (
        lambda: dp.Budget(epsilon=1, delta=1e-6, notion="approximate").spend(ZEROED),
        ZEROED,
        "approximate",
        (),
    ),
    "an infinite cost": (
        lambda: dp.Budget(epsilon=1, delta=1e-6, notion="approximate").spend(GAUSSIAN),
        GAUSSIAN,
        "approximate",
        (),
    ),
    "an individual cost": (
        lambda: dp.IndividualBudget(epsilon=1, delta=1e-6, users=2).spend(LAPLACE, [1.0, 1.0]),
        LAPLACE,
        "gaussian",
        (),
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_carries_its_data_and_is_short(case):
    ask, mechanism, notion, alternatives = REFUSALS[case]
    with pytest.raises(dp.UnsupportedMechanism) as caught:
        ask()
    refusal, told = caught.value, str(caught.value)
    assert (refusal.mechanism, refusal.notion) == (mechanism, notion)
    assert refusal.alternatives == alternatives
    assert len(told.splitlines()) <= 3
    assert len(told) <= 450
    assert told.endswith((".", "it."))
    for internal in ("tightest", "Curve", "Pair", "<", "object at"):
        assert internal not in told


def test_a_long_mechanism_is_abbreviated_in_messages():
    many = dp.compose(*(dp.ApproximateDP(0.1, delta / 1e9) for delta in range(1, 200)))
    plan = dp.parallel(many, dp.ZeroConcentratedDP(0.1))
    for refused in (many, plan, dp.PoissonSampled(many, sampling_probability=0.5)):
        with pytest.raises(dp.UnsupportedMechanism) as caught:
            dp.account(refused, notion="gaussian")
        assert len(str(caught.value)) <= 450


def test_a_budget_without_sampled_noise_names_one_that_supports_it():
    with pytest.raises(dp.UnsupportedMechanism) as caught:
        dp.Budget(epsilon=1, delta=1e-6).spend(SAMPLED)
    assert "tightest" not in str(caught.value)
    assert 'notion="rdp" with one fixed order for sampled noise and pure' in str(caught.value)
    assert dp.Budget(epsilon=1, delta=1e-6, notion="rdp", order=30).fits(
        dp.PoissonSampled(dp.Gaussian(2), sampling_probability=0.01)
    )
    with pytest.raises(dp.UnsupportedMechanism, match='Pass notion="approximate" for claims'):
        dp.Budget(epsilon=1, delta=1e-6).spend(dp.ApproximateDP(0.1, 1e-7))
    with pytest.raises(dp.UnsupportedMechanism, match=r'Pass notion="rdp" .* sampled noise'):
        dp.Budget(epsilon=1, delta=1e-6).spend(dp.parallel(SAMPLED, GAUSSIAN))
