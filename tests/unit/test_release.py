"""Releases: values, contribution bounds, and the mechanism to account for."""

import copy
import dataclasses
import io
import json
import math
import os
import pickle
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import privacy as dp
from privacy.release import lifetime
from privacy.release.choice import permute_and_flip
from privacy.release.clipping import sums_by_user
from privacy.release.noise import random_source

SEEDED = dict(rng=5, simulation=True)
USERS = ["ann", "bob", "ann", "cy", "bob", "ann"]
ROWS = np.array([[3.0, 4.0], [0.3, 0.4], [-1.0, 1.0], [np.nan, 2.0], [np.inf, 0.0], [0.0, 0.5]])


def columns(frame):
    return frame({"user": USERS, "x": ROWS[:, 0], "y": ROWS[:, 1]})


def cap_that_spent(*spent):
    return dp.LifetimeCap.from_json({"type": "LifetimeCap", "clip_norm": 1.0, "spent": spent})


# Clipping


NOBODY = [
    [],
    np.zeros(0, dtype=int),
    pd.Series([], dtype=object),
    pl.Series([]),
    pl.Series(["a"])[:0],
]


@pytest.mark.parametrize("nobody", NOBODY, ids=lambda users: type(users).__module__)
def test_an_empty_data_set_is_valid(nobody):
    noise = dp.Gaussian(2.0)
    for users, rows in ((nobody, 0), (["ann"], 1)):
        data = np.ones((rows, 2))
        for clipped in (
            dp.clip_users(data, users, clip_norm=1.0),
            dp.LifetimeCap(clip_norm=1.0).clip_users(data, users),
        ):
            assert clipped.values.shape == (rows, 2)
            assert dp.release_sum(clipped, noise).values.shape == (2,)
        assert dp.limit_contributions(users, max_contributions=1, seed=1).tolist() == [True] * rows
        chosen = dp.choose_clip_norm(data, users, candidates=[1.0, 2.0], epsilon=1.0)
        assert chosen.mechanism == dp.PureDP(1.0)


def test_errors_do_not_count_rows():
    one = np.ones(57)
    for data, users in (
        (one, ["ann"] * 56),
        (one, np.full((57, 1), 7)),
        (one, np.full(57, 0.5)),
        (one, [7] * 56 + ["7"]),
        (np.ones((57, 0)), [7] * 57),
        (np.full(57, "a"), [7] * 57),
    ):
        with pytest.raises(ValueError, match=r"^Expected (users|data)=") as caught:
            dp.clip_users(data, users, clip_norm=1.0)
        assert "57" not in str(caught.value)
        assert "56" not in str(caught.value)


def test_manually_built_contributions_are_within_their_bound_or_refused():
    for d in (1, 2, 50):
        row = np.full((1, d), 3 / math.sqrt(d))
        clipped = dp.clip_records(10 * row, clip_norm=3.0).values
        again = dp.Contributions(clipped, 3.0, "l2", "record")
        np.testing.assert_array_equal(again.values, clipped)
        with pytest.raises(ValueError, match="within bound"):
            dp.Contributions(row * (1 + 1e-13), 3.0, "l2", "record")
    for bound in (3.0, math.nextafter(2.0, 0.0), 5e-324, 1e308):
        dp.Contributions(np.array([bound, -bound]), bound, "l2", "record")
        with pytest.raises(ValueError, match="within bound"):
            dp.Contributions(np.array([math.nextafter(bound, math.inf)]), bound, "l2", "record")


def test_clip_records_scales_the_long_and_keeps_the_short():
    clipped = dp.clip_records(ROWS, clip_norm=1.0)
    # a norm of d numbers is clipped 3 (d + 16) ulp inside of its bound
    np.testing.assert_allclose(clipped.values[0], [0.6, 0.8], rtol=56 * 2.0**-52)
    assert (clipped.values[1] == [0.3, 0.4]).all()
    assert clipped.values[3].tolist() == [0, pytest.approx(1, rel=1e-14)]
    assert (clipped.values[4] == 0).all()
    assert (clipped.bound, clipped.norm, clipped.unit) == (1.0, "l2", "record")


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("shape", [(5000,), (5000, 1), (5000, 3), (2100, 40)])
def test_clipping_a_row_does_not_depend_on_its_position(norm, shape):
    draw = np.random.default_rng(7)
    rows = draw.normal(size=shape) * 10.0 ** draw.integers(-320, 300, size=shape[0]).reshape(
        -1, *[1] * (len(shape) - 1)
    )
    rows[::97] = np.nan
    whole = dp.clip_records(rows, clip_norm=1e-3, norm=norm).values
    order = draw.permutation(len(rows))
    moved = dp.clip_records(rows[order], clip_norm=1e-3, norm=norm).values
    assert moved.tobytes() == whole[order].tobytes()
    for i in (0, 1, 2047, 2048, len(rows) - 1):
        alone = dp.clip_records(rows[i : i + 1], clip_norm=1e-3, norm=norm).values
        assert alone.tobytes() == whole[i : i + 1].tobytes()


def test_a_row_too_long_anywhere_is_refused():
    values = np.zeros((9000, 2))
    values[-1] = 1.0
    with pytest.raises(ValueError, match="to be within bound"):
        dp.Contributions(values, 1.0, "l2", "record")


def test_one_column_is_clamped_exactly():
    values = dp.clip_records([1.0, -7.0, 0.25, -0.0], clip_norm=1.0).values
    assert values.tolist() == [1.0, -1.0, 0.25, 0.0]


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_frames_give_what_arrays_give(frame):
    table = columns(frame)
    by_array = dp.clip_users(ROWS, USERS, clip_norm=1.0)
    by_name = dp.clip_users(table, "user", clip_norm=1.0)
    assert dict(zip(by_name.users, by_name.values.tolist(), strict=True)) == dict(
        zip(by_array.users, by_array.values.tolist(), strict=True)
    )
    records = dp.clip_records(table, columns=["x", "y"], clip_norm=1.0)
    assert (records.values == dp.clip_records(ROWS, clip_norm=1.0).values).all()
    one = dp.clip_users(table["x"], table["user"], clip_norm=9.0)
    assert dict(zip(one.users, one.values.tolist(), strict=True)) == pytest.approx(
        {"ann": 2.0, "bob": 0.3, "cy": 0.0}
    )
    some = dp.clip_users(table, "user", columns=["y"], clip_norm=9.0)
    assert some.values.shape == (3, 1)
    keep = dp.limit_contributions(table["user"], max_contributions=2)
    assert keep.tolist() == [True, True, True, True, True, False]


@pytest.mark.parametrize(
    "users",
    [
        np.array([3, 9, 3, 12, 9, 3]),
        np.array([-100, 100, -100, 27, 100, -100], dtype=np.int8),
        np.array([3, 2**63 + 9, 3, 2**64 - 1, 2**63 + 9, 3], dtype=np.uint64),
        np.array([-(2**62), 2**62, -(2**62), 0, 2**62, -(2**62)]),
        np.array(USERS, dtype=object),
    ],
)
def test_users_of_every_kind(users):
    found = dp.clip_users(np.arange(6.0), users, clip_norm=100.0)
    expected = {users[0]: 7.0, users[1]: 5.0, users[3]: 3.0}
    assert dict(zip(found.users, found.values.tolist(), strict=True)) == expected
    if users.dtype != object:
        series = dp.clip_users(np.arange(6.0), pl.Series(users), clip_norm=100.0)
        assert dict(zip(series.users, series.values.tolist(), strict=True)) == expected


def test_a_string_of_another_type_is_the_user_that_it_equals():
    class Name(str):
        __slots__ = ()

        def __str__(self):
            return "another name"

    found = dp.clip_users([1.0, 2.0, 4.0], [Name("ann"), "bob", "ann"], clip_norm=100.0)
    assert dict(zip(found.users, found.values.tolist(), strict=True)) == {"ann": 5.0, "bob": 2.0}


def test_categories_are_users_too():
    found = dp.clip_users(np.arange(6.0), pl.Series(USERS, dtype=pl.Categorical), clip_norm=100.0)
    assert dict(zip(found.users, found.values.tolist(), strict=True)) == {
        "ann": 7.0,
        "bob": 5.0,
        "cy": 3.0,
    }


@pytest.mark.parametrize(
    "users",
    [
        ["a", "a\0"],
        [2**63, -1],
        [2**64, -1],
        [np.int64(7), 8],
        list(np.array(["a", "b"])),
        pd.Series([2**62, -5]),
        pd.Series([2**62, -5], dtype="Int64"),
    ],
)
def test_users_who_differ_are_not_summed_as_one(users):
    found = dp.clip_users([1.0, 2.0], users, clip_norm=100.0)
    assert dict(zip(found.users, found.values.tolist(), strict=True)) == {users[0]: 1, users[1]: 2}
    assert {type(user) for user in found.users} in ({int}, {str})


@pytest.mark.parametrize(
    "users",
    [
        [1, "1"],
        [True, 1],
        [math.nan, "nan"],
        [["a"], ["b"]],
        [["a"], ["b", "c"]],
        pd.Series([7, 8], dtype="category"),  # a cast would make strings of numbers
        pd.Series(pd.Categorical([1, "1"])),
        pd.Series(200 * ["a"] + [1], dtype=object),  # strings by its first 100 values
        np.ma.masked_array([1, 2], [False, True]),
    ],
)
def test_users_with_ambiguous_ids_are_refused(users):
    with pytest.raises((ValueError, TypeError), match="Expected "):
        dp.clip_users(np.ones(len(users)), users, clip_norm=1.0)
    with pytest.raises((ValueError, TypeError), match="Expected "):
        dp.limit_contributions(users, max_contributions=1)


def test_an_array_that_changes_after_the_check_is_not_released():
    values, owner, buffer = np.zeros((3, 2)), np.zeros((3, 2)), bytearray(48)
    view = values.view()
    view.flags.writeable = False  # as that of a pandas frame, whose owner can still write
    writer = owner.view()
    owner.flags.writeable = False
    of_buffer = np.frombuffer(memoryview(buffer).toreadonly()).reshape(3, 2)
    given = (values, view, owner, of_buffer)
    kept = [dp.Contributions(one, 1.0, "l2", "record").values for one in given]
    values[:] = writer[:] = 1e6
    np.frombuffer(buffer)[:] = 1e6
    assert np.all(given)
    assert not np.any(kept)


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 1, 3), (2, 0), ()])
def test_rows_of_more_than_one_dimension_are_not_summed(shape):
    with pytest.raises((TypeError, ValueError), match="Pass numbers: an array of shape"):
        dp.Contributions(np.ones(shape), 1.0, "l2", "record")  # the norm of (3, 1) is above 1


def test_contribution_values_are_read_only():
    contributions = dp.clip_records(ROWS, clip_norm=1.0)
    with pytest.raises(ValueError, match="read-only"):
        contributions.values[0] = 9.0
    mine = np.array([0.5])
    dp.Contributions(mine, 1.0, "l2", "record")
    mine[0] = 0.25  # the caller's array stays writable


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("value", [1e9, 1e300, -1.1, math.nan, math.inf])
def test_manually_built_contributions_must_be_within_their_bound(value, norm):
    with pytest.raises(ValueError, match="Expected values='<some row>' to be within bound"):
        dp.Contributions(np.array([[0.0, value]]), 1.0, norm, "record")


def test_a_wider_float_that_overflows_counts_as_not_finite():
    wide = np.array([np.longdouble(2) ** 1030, 1], dtype=np.longdouble)
    assert dp.clip_records(wide, clip_norm=5.0).values.tolist() == [0.0, 1.0]


def test_empty_data_contribute_zero():
    empty = np.zeros((0, 3))
    for contributions in (
        dp.clip_records(empty, clip_norm=1.0),
        dp.clip_users(empty, [], clip_norm=1.0),
    ):
        assert contributions.values.shape == (0, 3)
        assert dp.release_sum(contributions, dp.Gaussian(1.0)).values.shape == (3,)
    assert dp.limit_contributions([], max_contributions=1).shape == (0,)


def test_a_sum_that_overflows_counts_as_not_finite():
    values = dp.clip_users([1e308, 1e308, 1.0], [1, 1, 2], clip_norm=5.0).values
    assert values.tolist() == [0.0, 1.0]


def test_not_finite_raise_refuses_nan_and_infinity():
    with pytest.raises(ValueError, match="some NaN or infinity"):
        dp.clip_records(ROWS, clip_norm=1.0, not_finite="raise")
    with pytest.raises(ValueError, match="Expected not_finite="):
        dp.clip_records(ROWS, clip_norm=1.0, not_finite="drop")


def test_the_data_are_not_printed():
    contributions = dp.clip_users(ROWS, USERS, clip_norm=1.0)
    assert "ann" not in repr(contributions)
    assert "0.3" not in repr(contributions)
    cap = dp.LifetimeCap(clip_norm=1.0)
    cap.clip_users(ROWS, USERS)
    assert repr(cap) == "LifetimeCap(clip_norm=1.0)"
    with pytest.raises(ValueError, match="Expected data=") as caught:
        dp.clip_records(np.array(USERS), clip_norm=1.0)
    assert "ann" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: dp.clip_records(ROWS, clip_norm=0), ValueError),
        (lambda: dp.clip_records(ROWS, clip_norm=math.nan), ValueError),
        (lambda: dp.clip_records(ROWS, clip_norm=math.inf), ValueError),
        (lambda: dp.clip_records(ROWS, clip_norm="1"), TypeError),
        (lambda: dp.clip_records(ROWS, clip_norm=1, norm="l3"), ValueError),
        (lambda: dp.clip_records(ROWS, clip_norm=1, columns=["x"]), ValueError),
        (lambda: dp.clip_records(ROWS[None], clip_norm=1), ValueError),
        (lambda: dp.clip_records(np.ones(3) * 1j, clip_norm=1), ValueError),
        (lambda: dp.clip_records([[1.0], [2.0, 3.0]], clip_norm=1), ValueError),
        (lambda: dp.clip_records(np.ma.masked_array([1.0], [True]), clip_norm=1), TypeError),
        (lambda: dp.clip_records(columns(pl.DataFrame), columns="x", clip_norm=1), TypeError),
        (lambda: dp.Contributions(np.ones(1), 0, "l2", "record"), ValueError),
        (lambda: dp.Contributions(np.ones(1), 1, "l3", "record"), ValueError),
        (lambda: dp.choose_clip_norm(ROWS, candidates=[1], epsilon=1, norm="L2"), ValueError),
        (lambda: dp.choose_clip_norm(ROWS, candidates=[], epsilon=1), ValueError),
        (lambda: dp.choose_clip_norm(ROWS, candidates=5, epsilon=1), TypeError),
        (lambda: dp.clip_records(3.0, clip_norm=1), TypeError),
        (lambda: dp.clip_users(ROWS, USERS[1:], clip_norm=1), ValueError),
        (lambda: dp.clip_users(ROWS, "user", clip_norm=1), ValueError),
        (lambda: dp.clip_users(ROWS, np.ones(6), clip_norm=1), ValueError),
        (lambda: dp.clip_users(ROWS, [*USERS[1:], None], clip_norm=1), ValueError),
        (lambda: dp.clip_users(ROWS, pl.Series([*USERS[1:], None]), clip_norm=1), ValueError),
        (lambda: dp.clip_users(ROWS, pl.Series(np.ones(6)), clip_norm=1), ValueError),
        (lambda: dp.clip_users(columns(pl.DataFrame), "who", clip_norm=1), ValueError),
        (lambda: dp.limit_contributions(USERS, max_contributions=0), ValueError),
        (lambda: dp.limit_contributions(USERS, max_contributions=1, seed=1.5), TypeError),
        (lambda: dp.LifetimeCap(clip_norm=-1), ValueError),
        (lambda: dp.LifetimeCap.from_json([]), ValueError),
        (lambda: dp.LifetimeCap.from_json({"type": "LifetimeCap"}), ValueError),
        (lambda: cap_that_spent(["ann", 1.5]), ValueError),
        (lambda: cap_that_spent(["ann", -0.1]), ValueError),
        (lambda: cap_that_spent(["ann", math.nan]), ValueError),
        (lambda: cap_that_spent(["ann", "0.5"]), ValueError),
        (lambda: cap_that_spent(["ann", True]), ValueError),
        (lambda: cap_that_spent(["ann", 1.0], ["ann", 0.0]), ValueError),
        (lambda: cap_that_spent(["ann", 1.0], [7, 0.0]), ValueError),
        (lambda: cap_that_spent([True, 1.0]), ValueError),
        (lambda: cap_that_spent([["ann"], 1.0]), ValueError),
    ],
)
def test_bad_input_is_refused(call, error):
    with pytest.raises(error, match="Expected ") as caught:
        call()
    assert "ann" not in str(caught.value)


def test_a_bound_in_another_norm_is_charged_for_the_dimension():
    values = np.ones((2, 9))
    charged = {
        norm: [dp.clip_records(values, clip_norm=1.0, norm=norm).bound_in(o) for o in ("l1", "l2")]
        for norm in ("l1", "l2", "linf")
    }
    assert charged["l1"] == [1, 1]
    assert charged["l2"] == pytest.approx([3, 1])
    assert charged["linf"] == pytest.approx([9, 3])
    assert charged["linf"][0] >= 9
    assert charged["linf"][1] >= 3
    assert dp.clip_records(values[:, 0], clip_norm=1.0, norm="linf").bound_in("l1") == 1


# How much a user contributes


def test_first_rows_are_kept_in_order():
    assert dp.limit_contributions([1, 1, 2, 1, 2], max_contributions=1).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]


def test_a_random_choice_depends_on_the_users_own_rows_alone():
    pick = np.random.default_rng(6)
    users = pick.integers(0, 50, 2000)
    keep = dp.limit_contributions(users, max_contributions=7, seed=99)
    assert set(np.bincount(users[keep])) == {7}
    own = users == 17
    without = users != 3
    assert (dp.limit_contributions(users[own], max_contributions=7, seed=99) == keep[own]).all()
    others = dp.limit_contributions(users[without], max_contributions=7, seed=99)
    assert (others == keep[without]).all()
    assert (dp.limit_contributions(users, max_contributions=7, seed=98) != keep).any()


def test_a_random_choice_is_fair():
    users = np.repeat(np.arange(20_000), 5)
    keep = dp.limit_contributions(users, max_contributions=2, seed=1).reshape(-1, 5)
    assert np.abs(keep.mean(axis=0) - 0.4).max() < 0.015


def test_an_exhausted_lifetime_cap_contributes_zero():
    cap = dp.LifetimeCap(clip_norm=1.0)
    sizes = [float(cap.clip_users([[0.6, 0.0]], [7]).values[0, 0]) for _ in range(5)]
    assert sizes[:2] == [0.6, 0.6]
    assert sizes[2] == pytest.approx(math.sqrt(1 - 0.72), rel=1e-9)
    assert max(sizes[3:]) < 1e-5
    assert cap.clip_users([[9.0]], [8]).values[0, 0] == pytest.approx(1.0)  # another user
    form = cap.to_json()
    assert form["sensitive"] is True
    again = dp.LifetimeCap.from_json(json.loads(json.dumps(form)))
    assert again.to_json() == form


@pytest.mark.parametrize("first", [0.9999, 1 - 1e-9, 1 - 1e-12])
def test_a_nearly_spent_cap_survives_json(first):
    cap = dp.LifetimeCap(clip_norm=1.0)
    values = [float(cap.clip_users([x], ["ann"]).values[0]) for x in (first, 9.0, 9.0)]
    assert sum(Fraction(x) ** 2 for x in values) <= 1
    form = json.loads(json.dumps(cap.to_json()))
    again = dp.LifetimeCap.from_json(form)
    assert again.to_json() == form
    assert abs(again.clip_users([9.0], ["ann"]).values[0]) < 1e-5


def test_a_cap_accepts_one_type_of_user_id():
    cap = dp.LifetimeCap(clip_norm=1.0)
    cap.clip_users([], [])
    cap.clip_users([1.0], [7])
    with pytest.raises(TypeError, match="to be of the type used before"):
        cap.clip_users([1.0], ["7"])
    assert cap.clip_users([1.0], np.array([7], dtype=np.uint8)).values[0] < 1e-5
    cap.clip_users([], [])


def test_a_cap_counts_releases_of_all_shapes_together():
    cap = dp.LifetimeCap(clip_norm=5.0)
    assert cap.clip_users([[3.0, 0.0]], [1]).values.tolist() == [[3.0, 0.0]]
    assert cap.clip_users([9.0], [1]).values[0] == pytest.approx(4.0)


def test_zero_rows_spend_nothing():
    cap = dp.LifetimeCap(clip_norm=1.0)
    cap.clip_users([[0.0], [math.nan]], ["ann", "bob"])
    assert dict(cap.to_json()["spent"]) == {"ann": 0, "bob": 0}


# A private clip norm


def test_a_chosen_norm_is_near_the_quantile_and_costs_the_given_epsilon():
    pick = np.random.default_rng(7)
    rows = np.abs(pick.normal(size=5000))
    grid = [2.0**k for k in range(-6, 7)]
    chosen = dp.choose_clip_norm(rows, candidates=grid, epsilon=1.0, quantile=0.9, **SEEDED)
    assert chosen.clip_norm == 2.0  # P(|z| <= 2) = .954 is nearer than P(|z| <= 1) = .683
    assert chosen.mechanism == dp.PureDP(1.0)
    other = dp.choose_clip_norm(rows, candidates=grid, epsilon=1.0, relation="REPLACE_ONE")
    assert other.mechanism == dp.PureDP(1.0, dp.NeighboringRelation.REPLACE_ONE)
    users = np.arange(10_000) // 10
    by_user = dp.choose_clip_norm(np.ones(10_000), users, candidates=grid[:-2], epsilon=1.0)
    assert by_user.clip_norm == 16.0


def test_permute_and_flip_has_the_stated_distribution():
    # with two candidates: the worse one is chosen if it is visited first and accepted
    source = random_source(8, simulation=True)
    scores, rate = [Fraction(0), Fraction(-2)], Fraction(1, 2)
    seen = Counter(permute_and_flip(scores, rate, source) for _ in range(20_000))
    assert seen[1] / 20_000 == pytest.approx(math.exp(-1) / 2, abs=0.01)


@pytest.mark.parametrize("relation", dp.NeighboringRelation)
def test_the_choice_of_a_norm_keeps_its_epsilon_exactly(relation, monkeypatch):
    # the law of permute-and-flip by all orders, on the worst neighbors of a small data set
    from itertools import permutations

    from privacy.release import norm_choice

    found = []

    def note(scores, rate, source):
        found.append((scores, rate))
        return 0

    monkeypatch.setattr(norm_choice, "permute_and_flip", note)
    rows = [0.5, 1.5, 1.5, 2.5]
    neighbors = {
        "ADD_OR_REMOVE_ONE": [[*rows, 0.5], [*rows, 9.0], rows[1:], rows[:-1]],
        "REPLACE_ONE": [[9.0, *rows[1:]], [*rows[:-1], 0.5]],
        "REPLACE_SPECIAL": [[*rows[:-1], 0.0]],
    }[relation.name]
    for data in (rows, *neighbors):
        dp.choose_clip_norm(
            data, candidates=[1, 2, 3], epsilon=2.0, quantile=0.75, relation=relation
        )

    def law(scores, rate):
        chance = [0.0] * len(scores)
        for order in permutations(range(len(scores))):
            left = 1 / math.factorial(len(scores))
            for one in order:
                heads = math.exp(-float(rate * (max(scores) - scores[one])))
                chance[one] += left * heads
                left *= 1 - heads
        return chance

    here, *others = (law(*one) for one in found)
    for there in others:
        for a, b in zip(here, there, strict=True):
            assert abs(math.log(a / b)) <= 2.0 + 1e-12


# Releasing


@pytest.mark.parametrize(
    ("mechanism", "deviation"), [(dp.Gaussian(4.0), 4.0), (dp.Laplace(4.0), 4 * math.sqrt(2))]
)
def test_a_release_has_its_noise_its_bound_and_its_mechanism(mechanism, deviation):
    contributions = dp.clip_records(np.zeros((1, 200_000)), clip_norm=3.0, norm="l1")
    release = dp.release_sum(contributions, mechanism, **SEEDED)
    assert release.values.std() == pytest.approx(3 * deviation, rel=0.01)
    assert release.contribution_bound == 3.0
    assert release.mechanism is mechanism
    assert (release.scale, release.unit) == (12.0, "record")
    assert release.scale / release.step >= 2**30
    assert release.is_simulation


@pytest.mark.parametrize("kind", [dp.DiscreteGaussian, dp.DiscreteLaplace])
def test_a_release_reports_the_discrete_noise_that_it_added(kind):
    contributions = dp.clip_records([3.9, -7.0, 0.2], clip_norm=5.5)
    releases = [
        dp.release_sum(contributions, kind(2.0, sensitivity=5), rng=seed, simulation=True)
        for seed in range(4000)
    ]
    values = np.array([float(release.values) for release in releases])
    assert (values == np.rint(values)).all()
    assert values.mean() == pytest.approx(3 - 5, abs=0.2)
    weights = {
        x: math.exp(-(x * x / 8 if kind is dp.DiscreteGaussian else abs(x) / 2))
        for x in range(-60, 61)
    }
    deviation = math.sqrt(sum(w * x * x for x, w in weights.items()) / sum(weights.values()))
    assert values.std() == pytest.approx(deviation, rel=0.05)
    one = releases[0]
    assert one.mechanism == kind(2.0, sensitivity=5)
    assert (one.scale, one.step, one.contribution_bound) == (2.0, 1.0, 5.0)
    assert not one.charged_once


@pytest.mark.parametrize("kind", [dp.DiscreteGaussian, dp.DiscreteLaplace])
def test_discrete_noise_of_too_small_a_sensitivity_is_refused(kind):
    contributions = dp.clip_records([3.0, -7.0], clip_norm=5.5)
    for noise in (kind(9.0), kind(9.0, sensitivity=5, replace_sensitivity=9)):
        with pytest.raises(ValueError, match="sensitivity=5 and leave replace_sensitivity out"):
            dp.release_sum(contributions, noise)
    with pytest.raises(ValueError, match="one number each"):
        dp.release_sum(dp.clip_records(ROWS, clip_norm=1.0), kind(9.0))


def test_discrete_noise_under_a_cap_is_accounted_for_at_every_release():
    cap = dp.LifetimeCap(clip_norm=2.0)
    kept = cap.clip_users([1.0, 2.0], ["a", "b"])
    release = dp.release_sum(kept, dp.DiscreteGaussian(4.0, sensitivity=2))
    assert not release.charged_once


def test_the_bound_of_a_release_is_in_the_norm_of_its_noise():
    contributions = dp.clip_records(np.zeros((5, 16)), clip_norm=1.0, norm="l2")
    assert dp.release_sum(contributions, dp.Gaussian(2.0)).scale == 2.0
    assert dp.release_sum(contributions, dp.Laplace(2.0)).scale == pytest.approx(8.0)


def test_add_or_zero_moves_by_the_bound_and_replace_by_two():
    one = dp.clip_records([[30.0, 0.0]], clip_norm=2.0).values
    other = dp.clip_records([[-30.0, 0.0]], clip_norm=2.0).values
    release = dp.release_sum(dp.clip_records([[1.0, 1.0]], clip_norm=2.0), dp.Gaussian(3.0))
    assert np.linalg.norm(one) == pytest.approx(release.contribution_bound)
    assert np.linalg.norm(one - other) == pytest.approx(2 * release.contribution_bound)
    epsilon = {
        relation: dp.account(release.mechanism, relation=relation).epsilon(1e-6)
        for relation in dp.NeighboringRelation
    }
    relations = dp.NeighboringRelation
    assert epsilon[relations.ADD_OR_REMOVE_ONE] == epsilon[relations.REPLACE_SPECIAL]
    assert epsilon[relations.REPLACE_ONE] == dp.account(dp.Gaussian(1.5)).epsilon(1e-6)


def test_the_order_of_the_rows_does_not_change_a_bit():
    pick = np.random.default_rng(9)
    rows = pick.normal(size=(500, 3)) * 10.0 ** pick.integers(-9, 3, (500, 1))
    contributions = [
        dp.clip_records(rows[order], clip_norm=5.0)
        for order in (slice(None), pick.permutation(500), slice(None, None, -1))
    ]
    values = [dp.release_sum(c, dp.Gaussian(1.0), **SEEDED).values.tobytes() for c in contributions]
    assert len(set(values)) == 1


def test_a_sum_beyond_64_bits_is_still_exact():
    contributions = dp.clip_records(np.full(1000, 1.0), clip_norm=1.0)
    release = dp.release_sum(contributions, dp.Gaussian(2.0**-29), **SEEDED)
    assert 1 / release.step * 1000 > 2**62
    assert float(release.values) == pytest.approx(1000, abs=1e-6)


def test_two_releases_differ_and_are_not_marked_as_simulation():
    contributions = dp.clip_records(ROWS, clip_norm=1.0)
    one, two = (dp.release_sum(contributions, dp.Gaussian(1.0)) for _ in range(2))
    assert (one.values != two.values).all()
    assert not one.is_simulation


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda c: dp.release_sum(c, dp.Gaussian(1.0), rng=5), ValueError),
        (lambda c: dp.release_sum(c, dp.Gaussian(1.0, replace_distance=1.0)), ValueError),
        (lambda c: dp.release_sum(c, dp.PureDP(1.0)), TypeError),
        (lambda c: dp.release_sum(c.values, dp.Gaussian(1.0)), TypeError),
        (lambda c: dp.release_sum(c, dp.Gaussian(1.0), resolution=0.5), ValueError),
        (lambda c: dp.release_sum(c, dp.Gaussian(1.0), resolution=2.0**40), ValueError),
        (lambda c: dp.release_sum(c, dp.Gaussian(1e-12)), ValueError),
        (lambda c: dp.release_sum(c, dp.Gaussian(1e308)), ValueError),
    ],
)
def test_a_release_that_cannot_be_safe_is_refused(call, error):
    with pytest.raises(error, match="Expected "):
        call(dp.clip_records(ROWS, clip_norm=10.0))


def test_a_release_whose_noise_is_below_every_float_is_refused():
    with pytest.raises(ValueError, match="too small for a float"):
        dp.release_sum(dp.clip_records([1.0], clip_norm=5e-324), dp.Gaussian(0.1))
    release = dp.release_sum(dp.clip_records([1.0], clip_norm=1e-300), dp.Gaussian(1.0))
    assert 0 < abs(float(release.values)) < 1e-298
    release = dp.release_sum(dp.clip_records([1e308], clip_norm=1e300), dp.Gaussian(1.0))
    assert float(release.values) == pytest.approx(1e300, abs=9e300)


def test_a_user_in_ten_releases_is_charged_ten_times():
    # the figures of the printed conversion at a claimed epsilon of 5: 16.7 and 42.8 are true
    noise, one, ten = dp.Gaussian(1.0545), 4.117, {"REPLACE_SPECIAL": 16.7, "REPLACE_ONE": 42.8}
    assert dp.account(noise).epsilon(1e-5) == pytest.approx(one, abs=1e-3)
    for relation, epsilon in ten.items():
        curve = dp.account(dp.repeat(noise, 10), relation=relation)
        assert curve.epsilon(1e-5) == pytest.approx(epsilon, abs=0.05)


def test_few_rows_of_a_user_are_charged_as_a_group():
    users, rows = np.array([7, 7, 8, 7]), np.array([9.0, 9.0, 9.0, 9.0])
    keep = dp.limit_contributions(users, max_contributions=2)
    contributions = dp.clip_records(rows[keep], clip_norm=1.0)
    release = dp.release_sum(contributions, dp.Gaussian(4.0))
    assert contributions.values[users[keep] == 7].sum() == 2 * contributions.bound
    assert dp.user_level(release.mechanism, max_contributions=2) == dp.Gaussian(2.0)


def test_releases_under_a_cap_cost_one_gaussian():
    cap, noise = dp.LifetimeCap(clip_norm=1.0), dp.Gaussian(4.0)
    released = [dp.release_sum(cap.clip_users([5.0], ["ann"]), noise) for _ in range(10)]
    assert {release.mechanism for release in released} == {noise}
    assert dp.account(noise).epsilon(1e-6) < dp.account(dp.repeat(noise, 10)).epsilon(1e-6)


def test_a_release_states_whether_it_is_charged_once():
    cap = dp.LifetimeCap(clip_norm=2.0)
    has_cap_right = cap.clip_users([1.0, 5.0], ["ann", "bob"])
    alone = dp.clip_users([1.0, 5.0], ["ann", "bob"], clip_norm=2.0)
    assert dp.release_sum(has_cap_right, dp.Gaussian(1.0)).charged_once
    # the cap bounds a sum of squares: Laplace noise is charged at every release
    assert not dp.release_sum(has_cap_right, dp.Laplace(1.0)).charged_once
    assert not dp.release_sum(alone, dp.Gaussian(1.0)).charged_once


COPIES = (
    copy.copy,
    copy.deepcopy,
    dataclasses.replace,
    lambda found: pickle.loads(pickle.dumps(found)),
)


@pytest.mark.parametrize("made", COPIES)
def test_a_copy_is_not_covered_by_the_cap(made):
    found = dp.LifetimeCap(clip_norm=2.0).clip_users([1.0, 5.0], ["ann", "bob"])
    twin = made(found)
    assert np.array_equal(twin.values, found.values)
    assert not twin.values.flags.writeable
    assert (twin.bound, twin.unit, twin.users) == (2.0, "user", ("ann", "bob"))
    assert not dp.release_sum(twin, dp.Gaussian(1.0)).charged_once
    assert dp.release_sum(found, dp.Gaussian(1.0)).charged_once
    assert not dp.release_sum(made(found), dp.Gaussian(1.0)).charged_once


def test_a_fork_is_not_covered_by_the_cap(monkeypatch):
    cap = dp.LifetimeCap(clip_norm=2.0)
    found = cap.clip_users([1.0], ["ann"])
    pid = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: pid)
    assert not found.has_cap_right
    with pytest.raises(RuntimeError, match="forked process cannot use a LifetimeCap"):
        cap.clip_users([1.0], ["ann"])
    monkeypatch.undo()
    assert dp.release_sum(found, dp.Gaussian(1.0)).charged_once
    assert cap.clip_users([1.0], ["ann"]).values.tolist() == [1.0]


def test_the_cap_covers_the_release_of_one_thread_only():
    found = dp.LifetimeCap(clip_norm=2.0).clip_users([1.0], ["ann"])
    with ThreadPoolExecutor(8) as pool:
        taken = list(pool.map(lambda _: found.use_cap_right(), range(1000)))
    assert sum(taken) == 1


def test_a_cap_is_not_copied():
    cap = dp.LifetimeCap(clip_norm=2.0)
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            call(cap)


def test_threads_spend_a_cap_once(monkeypatch):
    cap = dp.LifetimeCap(clip_norm=1.0)
    spend, arrived, found = dp.LifetimeCap._spend, threading.Event(), []

    def clip(*_):
        found.append(cap.clip_users([1.0], ["ann"]).values[0])

    def look(data, users, *rest):
        if threading.current_thread() is other:
            arrived.set()
        return sums_by_user(data, users, *rest)

    def meet(cap, sums, ids):
        if threading.current_thread() is not other:
            other.start()
            arrived.wait()
        return spend(cap, sums, ids)

    other = threading.Thread(target=clip)
    monkeypatch.setattr(lifetime, "sums_by_user", look)
    monkeypatch.setattr(dp.LifetimeCap, "_spend", meet)
    clip()
    other.join()
    assert sum(np.square(found)) <= 1.0


def test_contributions_of_a_cap_are_covered_in_one_release():
    """The cap was spent once: two releases of them cost sqrt 2 times the noise's mu."""
    contributions = dp.LifetimeCap(clip_norm=2.0).clip_users([5.0], ["ann"])
    noise = dp.Gaussian(1.0)
    assert dp.release_sum(contributions, noise, rng=1, simulation=True).charged_once
    charged = [dp.release_sum(contributions, noise).charged_once for _ in range(3)]
    assert charged == [True, False, False]


def test_narrow_float_types_are_widened():
    by_hand = dp.Contributions(np.array([1.0, -1.0], dtype=np.float16), 1.0, "l2", "record")
    assert by_hand.values.dtype == np.float64
    released = dp.release_sum(by_hand, dp.Gaussian(1.0), rng=1, simulation=True)
    assert abs(released.values) < 9


@pytest.mark.parametrize("given", [lambda ids: ids, list, lambda ids: ids.to_numpy()])
def test_users_converted_to_floats_by_a_missing_one_are_refused(given):
    table = pd.read_csv(io.StringIO("user,minutes\n7,2\n,3\n8,1\n"))
    with pytest.raises(ValueError, match=r"Drop the rows without a user.*astype\('int64'\)"):
        dp.clip_users(table["minutes"], given(table["user"]), clip_norm=9)
    known = table.dropna(subset="user").astype({"user": "int64"})
    assert dp.clip_users(known, "user", clip_norm=9).values.sum() == 3


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame])
def test_columns_that_cannot_be_summed_are_named(frame):
    table = frame({"user": ["a", "b"], "genre": ["x", "y"], "minutes": [1.0, 2.0]})
    with pytest.raises(ValueError, match=r"columns=\['genre'\] to be numeric. Pass columns="):
        dp.clip_users(table, "user", clip_norm=1)
    with pytest.raises(
        ValueError, match=r"users='usr' .* Use names of its columns: user, genre, minutes\."
    ):
        dp.clip_users(table, "usr", clip_norm=1)
    with pytest.raises(
        ValueError, match=r"columns=\['hours'\] .* Use names of its columns: user, genre, min"
    ):
        dp.clip_users(table, "user", columns=["hours"], clip_norm=1)
    assert dp.clip_users(table, "user", columns=["minutes"], clip_norm=9).values.sum() == 3
